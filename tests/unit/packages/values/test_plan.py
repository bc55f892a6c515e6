from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.facts import Package
from hpcmod.packages.values.plan import (
    PackageChange,
    PipOptions,
    StatePlan,
    check_known,
    make_constraints,
    make_state_plan,
    render_state_plan,
)
from hpcmod.packages.values.requirement import Requirements
from tests.package_states import EINOPS, NEEDY, TARGET, make_state

PARENT = make_state(1, EINOPS, NEEDY, requirements=("needy",))


def plan(*added: str, keep: bool = True, **more: Any) -> StatePlan:
    values = {"pip": PipOptions(("--no-index",)), "action": "add", **more}
    change = PackageChange(added=Requirements(added), **values)
    return make_state_plan(TARGET, change, directory="/sets/default", number=2, parent=PARENT, keep=keep)


def test_the_images_packages_are_constraints() -> None:
    assert make_constraints(TARGET.packages, ()) == ("pip==26.3", "torch==2.7.1+rocm6.2.4", "Typing_Extensions==4.12")
    assert make_constraints(TARGET.packages, ["Torch", "typing-extensions"]) == ("pip==26.3",)
    odd = (Package("a", "1"), Package("A", "2"), Package("b", "not a version"), Package("-r x", "1"))
    assert make_constraints(odd, ()) == ("a==1",)  # Python imports the first of the two


def test_existing_packages_keep_their_version_and_newly_requested_ones_do_not() -> None:
    made = plan("torchinfo")
    assert made.requirements == ("needy", "torchinfo")
    assert made.constraints[-2:] == ("einops==0.8.1", "needy==1.0")
    assert plan("einops>=0.9").constraints[-1] == "needy==1.0"
    assert plan("einops>=0.9").requirements == ("needy", "einops>=0.9")
    assert plan("needy==2").requirements == ("needy==2",)
    assert plan(dropped=("needy",)).requirements == ()
    assert plan(keep=False).constraints == make_constraints(TARGET.packages, ())


def test_a_package_that_the_image_has_now_is_not_pinned() -> None:
    target = replace(TARGET, packages=(*TARGET.packages, Package("einops", "0.9")))
    made = make_state_plan(target, PackageChange(), directory="/d", number=2, parent=PARENT)
    assert "einops==0.9" in made.constraints
    assert "einops==0.8.1" not in made.constraints


def test_with_one_hash_all_packages_get_theirs() -> None:
    line = f"new==1 --hash=sha256:{'c' * 64}"
    assert plan(line).lines == (
        "needy",
        line,
        f"{EINOPS.pin} --hash=sha256:{EINOPS.sha256}",
        f"{NEEDY.pin} --hash=sha256:{NEEDY.sha256}",
    )


def test_pip_installs_wheels_into_the_directory_that_is_packed() -> None:
    argv = plan("x").argv
    assert argv[:4] == ("/user-software/venv/pytorch/bin/python", "-m", "pip", "install")
    assert "--only-binary=:all:" in argv
    assert "--no-index" in argv
    assert "--only-binary=:all:" not in plan("x", pip=PipOptions(build=True)).argv
    without = replace(plan("x"), target=replace(TARGET, packages=()))
    assert without.argv[1] == "/user-software/.hpcmod/pip"


def test_options_with_variables_are_where_pip_expands_them() -> None:
    index = "--extra-index-url=https://me:${TOKEN}@example.org/simple"
    made = plan("x", pip=PipOptions((index, "--pre")))
    assert (made.pip_file, index in made.argv, "--pre" in made.argv) == ((index, *made.lines), False, True)


def test_pip_can_read_every_local_file_that_is_named() -> None:
    pip = PipOptions(("--index-url=file:///mirror/simple", "--no-index"), places=("/wheels",))
    lines = ("one @ file:///w/one-1.0.whl ; python_version > '3'", "file:///w/a%20b.whl#sha256=aa", "/w/project[dev]")
    assert plan(*lines, "einops", "git+https://example.org/x.git", pip=pip).pip.places == (
        "/wheels", "/w/one-1.0.whl", "/w/a b.whl", "/w/project", "/mirror/simple",
    )  # fmt: skip


def test_the_dry_run_says_what_would_be_where() -> None:
    lines = list(render_state_plan(plan("x", allowed=("torch",))))
    assert "state: /sets/default/states/2-cp312-555555555555.squashfs" in lines
    assert "constraints: 2 packages of the image" in lines
    assert "may replace: torch" in lines
    assert any(line.startswith("in the container: /user-software/venv/pytorch/bin/python -m pip") for line in lines)


def test_only_added_packages_can_be_dropped() -> None:
    check_known(PARENT, ["Needy"], "PyTorch/2.7.1")
    with pytest.raises(BadInputError, match="another package of your set needs it"):
        check_known(PARENT, ["einops"], "PyTorch/2.7.1")
    with pytest.raises(BadInputError, match="not among your packages"):
        check_known(None, ["x"], "PyTorch/2.7.1")
