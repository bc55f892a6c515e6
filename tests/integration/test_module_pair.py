"""Loading two container modules leaves exactly one of them loaded, never a mixture."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.integration.conftest import LOADERS, LUMI_IMAGE, PYTORCH, SNAPSHOT, TOY, Loader, away

pytestmark = pytest.mark.stack

OTHER_TOY = "Toy/2.0"

LOAD_BOTH = (
    SNAPSHOT
    + r"""
snapshot >none
module load $FIRST 2>/dev/null;  snapshot >first;  module unload $FIRST
module load $SECOND 2>/dev/null; snapshot >second; module unload $SECOND
load_both 2>said
snapshot >both
for state in none first second; do cmp -s both $state && echo $state; done
[[ -z $CONTAINERROOT ]] || { singularity exec $SIF true 2>/dev/null && echo runs; }
module purge
snapshot >after
compare none after
"""
)

PAIRS = [
    pytest.param(PYTORCH, TOY, id="of two names"),
    pytest.param(TOY, PYTORCH, id="of two names, the other first"),
    pytest.param(TOY, OTHER_TOY, id="two versions of one name"),
]


USERS = [
    pytest.param({}, id="bare"),
    pytest.param({"SINGULARITY_BIND": "/etc:/etc2", "SIF": "/my.sif"}, id="with variables"),
    pytest.param({"LMOD_AUTO_SWAP": "no"}, id="where Lmod may not swap"),
]


WAYS = [
    pytest.param("module load $FIRST && module load $SECOND", id="in turn"),
    pytest.param("module load $FIRST $SECOND", id="at once"),
]


CASES = [
    pytest.param(loader, *pair.values, *user.values, *way.values, id=f"{loader}-{pair.id}-{user.id}-{way.id}")
    for i, pair in enumerate(PAIRS)
    for j, user in enumerate(USERS)
    for loader, way in [(list(LOADERS)[(i + j) % 3], WAYS[(i + 2 * j) % 3 % 2])]
]
"""A subset of all cases with pairwise coverage."""


@pytest.mark.parametrize(("loader", "first", "second", "variables", "load_both"), CASES, indirect=["loader"])
def test_only_one_of_two_container_modules_is_loaded(
    loader: Loader, first: str, second: str, variables: dict[str, str], load_both: str
) -> None:
    done = loader(f"load_both() {{ {load_both}; }}\n{LOAD_BOTH}", FIRST=first, SECOND=second, **variables)
    said = (loader.tool.home / "said").read_text()
    # if it may not swap, Lmod loads neither of two modules given in one command; 9.2.7 never does
    may_be_none = [["none"]] if "LMOD_AUTO_SWAP" in variables or "unload it first" in said else []
    assert done.stdout.split() in [["first", "runs"], ["second", "runs"], *may_be_none], done.stdout
    assert first in said
    assert second in said


def test_modules_of_two_families_are_kept_apart_too(loader: Loader, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(loader.eb.modules, tmp_path / "modules"))
    for modulefile in (copy / "Toy").iterdir():
        modulefile.write_text(modulefile.read_text().replace("ai_container", "of_another_time"))
    done = loader.tool(
        f"{SNAPSHOT} module load {PYTORCH} 2>/dev/null; snapshot >one; module load {TOY}; echo $?; snapshot >both; "
        "compare one both",
        copy,
    )
    assert done.stdout == "1\n"
    assert f"the container module {PYTORCH} is loaded; unload it first" in " ".join(done.stderr.split())


def test_a_second_module_without_an_image_leaves_the_first(loader: Loader) -> None:
    with away(loader.root(PYTORCH) / LUMI_IMAGE), away(loader.eb.central / LUMI_IMAGE):
        done = loader(
            f"{SNAPSHOT} module load {TOY} 2>/dev/null; snapshot >one; module load {PYTORCH}; echo $?; snapshot >both; "
            "compare one both"
        )
    assert done.stdout == "1\n"
