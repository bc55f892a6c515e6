"""Module tools on a catalogue of 2,000 published modules, compared with a flat tree of 2,000 two-line modules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from hpcmod.catalogue.records.store import Catalogue
from hpcmod.catalogue.visible.modulefiles import KEPT_MODULE, update_visible
from hpcmod.core.resources import module_templates
from hpcmod.core.values.facts import Package
from hpcmod.modules.text.modulefile import render_body, render_description
from hpcmod.modules.values.plan import MOST_LISTED, WELL_KNOWN_PACKAGES
from tests.bench.measure import Row, alternate, must
from tests.catalogues import make_catalogue, make_record, put
from tests.installations import write_libexec
from tests.plans import make_example
from tests.stack import Stack

TITLE = "Module tools on 2,000 published modules"

NAMES, VERSIONS = 200, 10
TORCH = (Package("torch", "2.7.1+rocm6.2.4"), Package("torchvision", "0.22.1"))
PACKAGES = (
    *(Package(name, "1.0") for name in WELL_KNOWN_PACKAGES[2 : MOST_LISTED + 2]),
    *(Package(f"package-{number}", f"1.{number}.0") for number in range(180)),
)

MINIMAL = 'prepend_path("PATH", "/software/{module}/bin")\nsetenv("ROOT{number}", "/software/{module}")\n'


def rows(stack: Stack, work: Path, *, megabytes: int, rounds: int) -> Iterator[Row]:
    """Measure without a spider cache; `megabytes` is not used."""
    del megabytes
    published = make_published(work / "catalogue").modules
    yield from _commands(stack, work, {"ours": published, "minimal": make_minimal(work / "minimal")}, rounds)
    found = _lmod(stack, work, published, "spider", "torchvision")
    yield Row("spider torchvision", f"finds {found.count('Name7/')} modules", f"{VERSIONS} modules have it", "")


def make_published(directory: Path, *, names: int = NAMES, versions: int = VERSIONS) -> Catalogue:
    """Make the visible part of a catalogue from modulefiles like that of LUMI's PyTorch with 200 packages."""
    catalogue = make_catalogue(directory)
    modules = name_modules(names, versions)
    for module in modules:
        name, _, version = module.partition("/")
        record = make_record(module, aliases=("stable",) if version == "1.0" else ())
        put(catalogue, record)
        kept = catalogue.kept / name / version
        kept.mkdir(parents=True)
        (kept / KEPT_MODULE["Lua"]).write_text(render_module(directory, module))
    update_visible(catalogue, {module.partition("/")[0] for module in modules})
    return catalogue


def name_modules(names: int, versions: int) -> list[str]:
    """Return module names."""
    return [f"Name{name}/{version}.0" for name in range(names) for version in range(1, versions + 1)]


def render_module(directory: Path, module: str) -> str:
    """Render our parts of a modulefile; EasyBuild adds three lines."""
    example = make_example("lumi")
    name = module.partition("/")[0]
    spec = replace(
        example.spec, name=name, module=module, variable=name.upper(), root=str(directory / "software" / module)
    )
    packages = (*PACKAGES, *TORCH) if name == "Name7" else PACKAGES
    sif = directory / "images" / "one.sif"
    sif.parent.mkdir(exist_ok=True)
    sif.touch()
    plan = replace(example, spec=spec, packages=packages, sif_places=(str(sif),))
    write_libexec(plan)
    texts = (
        render_description(plan, "Lua", module_templates(), conflict=name),
        render_body(plan, "Lua", module_templates()),
    )
    return "".join(texts)


def make_minimal(tree: Path, *, names: int = NAMES, versions: int = VERSIONS) -> Path:
    """Make a flat tree of the same number of modules, with the same names."""
    for number, module in enumerate(name_modules(names, versions)):
        path = tree / f"{module}.lua"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(MINIMAL.format(module=module, number=number))
    return tree


def _lmod(stack: Stack, work: Path, tree: Path, *words: str) -> str:
    env = {**stack.environment(work), "MODULEPATH": str(tree), "LMOD_IGNORE_CACHE": "yes"}
    done = must([stack.lmod_cmd, "bash", *words], env=env)
    return done.stdout + done.stderr


def _commands(stack: Stack, work: Path, trees: dict[str, Path], rounds: int) -> Iterator[Row]:
    for words in (("load", "Name150/3.0"), ("load", "Name150")):
        took = alternate(rounds, {name: partial(_lmod, stack, work, tree, *words) for name, tree in trees.items()})
        yield Row(
            f"module {' '.join(words)}",
            f"{1000 * took['ours']:.0f} ms",
            f"a minimal tree {1000 * took['minimal']:.0f} ms",
            f"{took['ours'] / took['minimal']:.2f}",
            "<= 1.3",
        )
