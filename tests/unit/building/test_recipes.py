"""The scripts of recipes: what they must not do, and their shared functions."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcmod.building.shipped import recipe_sources, shipped_recipes
from hpcmod.building.values.recipe import parse_addresses, parse_recipe
from tests.programs import make_program
from tests.recipe_stubs import write_wheel

CHECKOUT = Path(__file__).resolve().parents[3]
COMPONENTS = sorted((CHECKOUT / "recipes" / "components").glob("*.sh"))
SCRIPTS = [path for path in COMPONENTS if path.stem != "common"]
RECIPES = {name: parse_recipe(text, name) for name, text in shipped_recipes().items()}


def code_of(path: Path) -> str:
    """Return the lines of a script without comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith("#"))


@pytest.mark.slow
def test_shellcheck_finds_nothing(shellcheck: Callable[..., str]) -> None:
    assert shellcheck(COMPONENTS[0].parent, [path.name for path in COMPONENTS], "--external-sources") == ""


def test_a_component_states_its_purpose_and_stops_at_the_first_failure() -> None:
    for path in SCRIPTS:
        lines = path.read_text(encoding="utf-8").splitlines()
        assert lines[0] == "#!/bin/bash"
        assert re.match(r"# .{20}", lines[1]), path
        code = [line for line in lines if line and not line.startswith("#")]
        assert code[:2] == ["set -euo pipefail", 'source "$(dirname "$0")/common.sh"'], path


FORBIDDEN = {
    r"/tmp\b": "%post sees the host's /tmp and /var/tmp",
    r"\bset \+e|\bset -x": "a failure must end the build, and be seen",
    r"\bsudo\b|\bsu -": "a build has no other user",
    r"\bgit clone\b|\bwget\b": "sources come by fetch, with a version and a checksum",
    r":\$LD_LIBRARY_PATH\b": "where the variable is empty, the current directory is searched",
    r'cd "\$\(source_of': "goes on where the source is missing: enter_source",
    r"\bapt(-get)? (install|update)|\bzypper .*install|\bdnf install": "packages come by install_packages",
    r"\brm -rf? /(?!opt/amazon|usr/lib/python)": "only what is known may be removed",
    r"\bexport (NCCL|RCCL|FI|MPICH|OMPI_MCA|PMIX|MIOPEN|HSA|UCX)_": "tunables belong into the module",
}


def test_no_component_does_what_has_broken_builds_before() -> None:
    for path in SCRIPTS:
        for pattern, why in FORBIDDEN.items():
            assert re.findall(pattern, code_of(path), re.MULTILINE) == [], f"{path}: {why}"


def test_only_one_function_downloads() -> None:
    calls = {path.stem: re.findall(r"^.*\bcurl\b.*$", code_of(path), re.MULTILINE) for path in COMPONENTS}
    (download,) = (call for call in calls.pop("common") if "--fail" in call)
    assert "--proto '=https'" in download
    assert [name for name, found in calls.items() if found] == ["build-tools"], "which installs the package curl"


def test_recipes_name_no_address_but_that_of_a_base() -> None:
    assert {found for text in shipped_recipes().values() for found in re.findall(r"\w+://", text)} == {"docker://"}


def test_every_component_is_part_of_a_recipe_and_every_recipe_has_its_components() -> None:
    used = {step.component for recipe in RECIPES.values() for step in recipe.steps}
    assert used == {path.stem for path in SCRIPTS}


def test_every_source_is_used_and_has_an_https_address_with_its_version() -> None:
    addresses = parse_addresses(recipe_sources())
    assert {name for recipe in RECIPES.values() for step in recipe.steps for name, _ in step.sources} == set(addresses)
    assert [url for url in addresses.values() if not url.startswith("https://") or "{version}" not in url] == []


@pytest.fixture
def build(tmp_path: Path) -> Path:
    """A directory like that of an image during its build: the shared functions, and an empty lock file."""
    shutil.copy(CHECKOUT / "recipes" / "components" / "common.sh", tmp_path)
    (tmp_path / "lock").touch()
    return tmp_path


def run(build: Path, code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    script = build / "step.sh"
    script.write_text(f'set -euo pipefail\nsource "$(dirname "$0")/common.sh"\nenter_work\n{code}\n')
    environ = {
        "PATH": os.environ["PATH"],
        "X_VERSION": "1.0",
        "X_URL": "https://127.0.0.1:1/x-1.0.tar.gz",
        **environ,
    }
    return subprocess.run(["bash", str(script)], capture_output=True, text=True, env=environ)


def put_source(build: Path) -> str:
    (build / "sources").mkdir()
    (build / "sources" / "x-1.0.tar.gz").write_bytes(b"source")
    return hashlib.sha256(b"source").hexdigest()


def test_a_source_without_a_checksum_is_reported_and_recorded(build: Path) -> None:
    digest = put_source(build)
    done = run(build, "cat $(fetch x)")
    assert done.stdout == "source"
    assert f"first use of x 1.0, no checksum known yet: sha256 {digest}" in done.stderr
    assert (build / "used").read_text() == f"source x 1.0 {digest} https://127.0.0.1:1/x-1.0.tar.gz\n"


def test_a_source_that_the_lock_knows_is_used_in_silence(build: Path) -> None:
    digest = put_source(build)
    (build / "lock").write_text(f"source y 1.0 {'0' * 64} u\nsource x 1.0 {digest} u\n")
    done = run(build, "fetch x")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_wrong_checksum_ends_the_build_and_says_both(build: Path) -> None:
    digest = put_source(build)
    (build / "lock").write_text(f"source x 1.0 {'0' * 64} u\n")
    done = run(build, "enter_source x; echo went on")
    assert done.returncode == 1
    assert f"x 1.0: wrong checksum: expected {'0' * 64}, found {digest}" in done.stderr
    assert done.stdout == ""
    assert not (build / "used").exists()


def test_a_missing_source_ends_the_build_and_names_the_file_and_the_address(build: Path) -> None:
    done = run(build, "enter_source x; echo went on")
    assert done.returncode == 1
    assert "x-1.0.tar.gz is not among the offline sources" in done.stderr
    assert "https://127.0.0.1:1/x-1.0.tar.gz" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("command", ["false", "$(false)", "y=$(die no)", "exit 3", "kill $$"])
def test_the_work_directory_is_gone_however_a_component_ends(build: Path, command: str) -> None:
    run(build, f"touch work-file; {command}")
    assert list(build.glob("work.*")) == []


def test_names_of_sources_are_those_that_hpcmod_gives_them(build: Path) -> None:
    from hpcmod.building.values.build_plan import Download

    for url in (
        "https://a/x.tar.gz",
        "https://a/x.tar.bz2",
        "https://a/b/shs-1.0.tar.gz",
        "https://a/x.tgz",
        "https://a/x",
    ):
        done = run(build, f"source_file x release/1.0 {url}")
        assert done.stdout == Download("x", "release/1.0", url, "").file_name + "\n"


@pytest.mark.slow
def test_pip_installs_nothing_that_the_lock_knows_otherwise(build: Path) -> None:
    (build / "wheels").mkdir()
    write_wheel(build / "wheels", "no-such-thing", "1.0")
    (build / "lock").write_text(f"wheel no-such-thing 1.0 {'0' * 64} no_such_thing-1.0-py3-none-any.whl\n")
    done = run(build, "pip_install no-such-thing==1.0; echo went on", PYTHON=sys.executable)
    assert done.returncode == 1
    assert f"no_such_thing-1.0-py3-none-any.whl: wrong checksum: expected {'0' * 64}, found " in done.stderr
    assert done.stdout == ""
    assert [one for one in importlib.metadata.distributions() if one.name == "no-such-thing"] == []


def test_take_place_of_replaces_a_directory_by_a_link(build: Path) -> None:
    old, prefix = build / "base" / "ompi", build / "prefix"
    for place in (old, prefix):
        place.mkdir(parents=True)
        (place / place.name).touch()
    for _ in range(2):  # the second run finds it already in place
        done = run(build, f"take_place_of {old}; take_place_of {prefix}", PREFIX=str(prefix))
        assert done.returncode == 0, done.stderr
        assert [path.name for path in old.iterdir()] == ["prefix"]


OLD_PIP = """#!/bin/bash
echo "$*" >>{log}
while (($#)); do
    case $1 in --dest) echo pip >"$2/pip-24.0-py3-none-any.whl" ;; --help) echo "no such option as yet" ;; esac
    shift
done
"""


@pytest.mark.parametrize("locked", [True, False], ids=["as in the lock", "not as in the lock"])
def test_a_pip_that_is_too_old_gives_way_to_one_that_the_lock_knows(build: Path, locked: bool) -> None:
    programs = build / "programs"
    programs.mkdir()
    make_program(programs / "python", OLD_PIP.format(log=build / "asked"))
    digest = hashlib.sha256(b"pip\n").hexdigest() if locked else "0" * 64
    (build / "lock").write_text(f"wheel pip 24.0 {digest} pip-24.0-py3-none-any.whl\n")
    script = (CHECKOUT / "recipes" / "components" / "system-python.sh").read_text()
    function = re.search(r"^newer_pip\(\) \{.*?^\}", script, re.DOTALL | re.MULTILINE)
    assert function
    path = f"{programs}:{os.environ['PATH']}"
    done = run(build, f"{function[0]}\n{script.splitlines()[-1]}\necho went on", PATH=path, PIP="24.0")
    assert (done.stdout == "went on\n") == locked, done.stderr
    assert ("install" in (build / "asked").read_text().splitlines()[-1].split()) == locked


PAGE = CHECKOUT / "docs" / "reference" / "recipes.md"


def test_the_sbom_lacks_packages_of_a_python_that_cannot_list_them(build: Path) -> None:
    programs, here = build / "programs", build / "build"  # the list is written next to the directory of the scripts
    programs.mkdir()
    here.mkdir()
    shutil.copy(build / "common.sh", here)
    for name, text in {"python3": "exit 1", "ldconfig": "true", "dpkg-query": "echo 'deb/ii  libc6 2.36-9'"}.items():
        make_program(programs / name, f"#!/bin/sh\n{text}\n")
    script = shutil.copy(CHECKOUT / "recipes" / "components" / "finish.sh", here)
    done = run(here, f"bash {script}", PATH=f"{programs}:{os.environ['PATH']}")
    assert done.returncode == 0, done.stderr
    assert f"{programs}/python3: cannot list its packages" in done.stderr
    assert "libc6" in [one["name"] for one in json.loads((build / "sbom.cdx.json").read_text())["components"]]


def recipe_table() -> str:
    lines = ["| recipe | makes | architectures | `--mpi` | `--ofi` | `--with` |", "|---|---|---|---|---|---|"]
    for name, one in RECIPES.items():
        cells = [", ".join(architecture for architecture, _ in one.bases)]
        cells += [", ".join(dict(one.choices)[choice]) for choice in ("mpi", "ofi")]
        lines.append(f"| `{name}` | {one.summary} | {' | '.join(cells)} | {', '.join(one.extras) or '-'} |")
    return "\n".join(lines)


def settings_table() -> str:
    lines = ["| recipe | settings |", "|---|---|"]
    for name, one in RECIPES.items():
        settings = [f"`{key}={value}`" for key, value in one.settings]
        settings += [f"`{key}`, which has no default: {meaning}" for key, meaning in one.needs]
        lines.append(f"| `{name}` | {', '.join(settings)} |")
    return "\n".join(lines)


def with_section(page: str, heading: str, text: str) -> str:
    """Replace the text below a heading."""
    return re.sub(
        rf"(^## {heading}\n\n).*?(?=^## )", lambda found: f"{found[1]}{text}\n\n", page, flags=re.DOTALL | re.MULTILINE
    )


def test_the_page_of_recipes_is_that_of_the_recipes(golden: Callable[[Path, str], None]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    golden(
        PAGE, with_section(with_section(page, "The recipes", recipe_table()), "What --set can change", settings_table())
    )
