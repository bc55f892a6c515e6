"""Loading the module, compared with an empty one and with catalogues configured; a wrapper, compared with a bare
`apptainer exec`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from hpcmod.catalogue.text.notice import ALL, render_advisory_notice, render_notices
from hpcmod.catalogue.values.advisory import Advisory
from tests.bench.bench_install import OURS
from tests.bench.measure import Row, alternate, must
from tests.stack import EasyBuild, ModuleTool, Stack

TITLE = "Using the module"


def rows(stack: Stack, work: Path, *, megabytes: int, rounds: int) -> Iterator[Row]:
    """Measure with a small image; `megabytes` is not used, because the image is not read here."""
    del megabytes
    eb = install_small(stack, work, "Small", HPCMOD_CATALOGUE="")
    yield from _load(stack, eb, work, rounds)
    yield from _notices(stack, work, rounds)
    yield from _wrapper(stack, eb, work, rounds)


def install_small(stack: Stack, work: Path, name: str, **variables: str) -> EasyBuild:
    """Install the small image under a name."""
    eb = EasyBuild(stack, work, stack.tiny_sif.parent, variables=variables)
    sha256 = must(["sha256sum", stack.tiny_sif]).stdout.split()[0]
    recipe = work / f"{name}-1.eb"
    recipe.write_text(OURS.format(name=name, image=stack.tiny_sif.name, sha256=sha256, mode="copy"))
    done = eb(recipe, "--rebuild")
    if done.returncode:
        raise SystemExit(done.stdout)
    return eb


def _load(stack: Stack, eb: EasyBuild, work: Path, rounds: int) -> Iterator[Row]:
    (work / "modules" / "Empty").mkdir(parents=True, exist_ok=True)
    (work / "modules" / "Empty" / "1.lua").write_text("-- nothing\n")
    env = {**stack.environment(work), "MODULEPATH": f"{eb.modules}:{work / 'modules'}"}
    load = [stack.lmod_cmd, "bash", "load"]
    took = alternate(10 * rounds, {
        "ours": lambda: must([*load, "Small"], env=env),
        "empty": lambda: must([*load, "Empty"], env=env),
    })  # fmt: skip
    yield Row("module load", f"{1000 * took['ours']:.1f} ms", f"an empty module {1000 * took['empty']:.1f} ms",
              f"{took['ours'] / took['empty']:.2f}", "<= 1.10")  # fmt: skip


def _notices(stack: Stack, work: Path, rounds: int) -> Iterator[Row]:
    """Load with several catalogues, each with an advisory that applies to every image but not to this environment."""
    advisory = Advisory(
        *("x", "title", "text", "https://example.org", "2026-01-01", "2099-01-01"),
        environment=(("HPCMOD_NOT_SET", "*"),),
    )
    catalogues = [work / f"catalogue-{number}" for number in range(3)]
    for catalogue in catalogues:
        (catalogue / "notices").mkdir(parents=True)
        (catalogue / "notices" / ALL).write_text(render_notices([render_advisory_notice(advisory)]))
    counts = (0, 1, 3)
    for count in counts:
        configured = ":".join(map(str, catalogues[:count]))
        eb = install_small(stack, work, f"Small{count}", HPCMOD_CATALOGUE=configured)
    env = {**stack.environment(work), "MODULEPATH": str(eb.modules)}
    load = [stack.lmod_cmd, "bash", "load"]
    took = alternate(10 * rounds, {
        f"Small{count}": partial(must, [*load, f"Small{count}"], env=env) for count in counts
    })  # fmt: skip
    none = took["Small0"]
    for count in counts[1:]:
        some = took[f"Small{count}"]
        yield Row(f"module load, catalogues configured: {count}", f"{1000 * some:.1f} ms",
                  f"without catalogues {1000 * none:.1f} ms", f"{some / none:.2f}")  # fmt: skip


def _wrapper(stack: Stack, eb: EasyBuild, work: Path, rounds: int) -> Iterator[Row]:
    env = stack.environment(work)
    loaded = ModuleTool(stack, work, "lmod")("module load Small; env -0", eb.modules).stdout
    env.update(pair.split("=", 1) for pair in loaded.split("\0") if "=" in pair)
    root = Path(env["CONTAINERROOT"])
    took = alternate(5 * rounds, {
        "wrapper": lambda: must([root / "bin" / "python", "-c", "pass"], env=env),
        "bare": lambda: must([stack.apptainer, "exec", env["SIF"], "python", "-c", "pass"], env=env),
    })  # fmt: skip
    yield Row("wrapper python -c pass", f"{1000 * took['wrapper']:.0f} ms",
              f"apptainer exec $SIF python -c pass {1000 * took['bare']:.0f} ms",
              f"{took['wrapper'] / took['bare']:.3f}", "<= 1.05")  # fmt: skip
