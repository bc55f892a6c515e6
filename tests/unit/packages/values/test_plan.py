from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
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
    return make_state_plan(TARGET, change, number=2, parent=PARENT, keep=keep)


def test_the_images_packages_are_constraints() -> None:
    assert make_constraints(TARGET.packages, ()) == ("pip==26.3", "torch==2.7.1+rocm6.2.4", "Typing_Extensions==4.12")
    assert make_constraints(TARGET.packages, ["Torch", "typing-extensions"]) == ("pip==26.3",)
    odd = (Package("a", "1"), Package("A", "2"), Package("b", "not a version"), Package("-r x", "1"))
    assert make_constraints(odd, ()) == ("a==1",)  # Python imports the first of the two
    assert make_constraints((Package("old", "1.0-unknown"),), ()) == ("old===1.0-unknown",)


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
    made = make_state_plan(target, PackageChange(), number=2, parent=PARENT)
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
    assert argv[:4] == ("/user-software/venv/pytorch/bin/python", "-I", "-m", "pip")
    assert "--only-binary=:all:" in argv
    assert "--no-index" in argv
    assert "--only-binary=:all:" not in plan("x", pip=PipOptions(build=True)).argv
    without = replace(plan("x"), target=replace(TARGET, packages=()))
    assert without.argv[1] == "/user-software/.hpcmod/pip"


@pytest.mark.parametrize("login", ["me:${TOKEN}", "me:secret"])
def test_options_with_logins_are_not_in_the_list_of_processes_or_a_plan(login: str) -> None:
    index = f"--extra-index-url=https://{login}@example.org/simple"
    made = plan(
        "x",
        f"y @ https://{login}@example.org/y-1-py3-none-any.whl" if "$" not in login else "y",
        pip=PipOptions((index, "--pre")),
    )
    assert made.requirements_file == (index, "--pre", *made.lines)
    assert not [word for word in made.argv if word in (index, "--pre")]
    shown = "\n".join(render_state_plan(made, "/sets/default"))
    assert "option for pip: --extra-index-url=https://example.org/simple" in shown and login not in shown


@pytest.mark.parametrize(
    ("python", "required", "said"),
    [
        *((">=3.13", "x", "is for Python >=3.13, not for 3.12"), (">=3.9,<3.12", "x", "not for 3.12")),
        *(("", "stowaway", "requires stowaway, and has no file"), (">=3.12.4", "x", ""), ("==3.12.*", "X>=1", "")),
        *(("", "torch", ""), ("", "w; sys_platform == 'win32'", ""), ("", "x @ https://e/x-1-py3-none-any.whl", "")),
    ],
)
def test_a_lock_is_for_this_python_and_has_what_it_requires(python: str, required: str, said: str) -> None:
    change = PackageChange(Requirements((required,)), locked=("x==1 --hash=sha256:00",), requires_python=python)
    make = partial(make_state_plan, TARGET, change, number=2, parent=None)
    with pytest.raises(BadInputError, match=said) if said else nullcontext():
        assert make().requirements == (required,)


def test_a_lock_for_other_machines_is_refused() -> None:
    change = PackageChange(locked=("x==1 --hash=sha256:00",), environments=('sys_platform == "win32"',))
    with pytest.raises(BadInputError, match="is for other machines: sys_platform"):
        make_state_plan(TARGET, change, number=2, parent=None)


@pytest.mark.parametrize(
    "line",
    [
        *("x @ https://evil/x-1.0.tar.gz", "https://evil/x-1.0.tar.gz#egg=x", "git+https://evil/x.whl#egg=x", "/w/x"),
        *("x @ https://evil/x-1.0.tar.gz?y=/x.whl", "x @ https://evil/.whl", "x @ file:///w/x-1.0.zip", "/w/x.tar.gz"),
    ],
)
@pytest.mark.parametrize("way", ["requirement", "constraint", "lock", "state"])
def test_without_build_nothing_is_built(line: str, way: str) -> None:
    change = {
        "requirement": PackageChange(Requirements((line,))),
        "constraint": PackageChange(Requirements(("x",), constraints=(line,))),
        "lock": PackageChange(Requirements((line,)), locked=(line,)),
        "state": PackageChange(Requirements(("y",))),
    }[way]
    parent = make_state(1, EINOPS, requirements=(line,)) if way == "state" else None
    make = partial(make_state_plan, TARGET, number=2, parent=parent)
    with pytest.raises(BadInputError, match="is not a wheel") as caught:
        make(change)
    assert "--build" in caught.value.cure
    assert make(replace(change, pip=PipOptions(build=True))).requirements_file


@pytest.mark.parametrize(
    "text",
    [
        "x\n--no-binary=x",
        "--index-url=http://evil",
        "x\x85-e /evil",
        "/w/x.whl\\",
        "x --pre",
        "https://e/x.whl -e /evil",
    ],
)
def test_what_is_not_one_requirement_never_reaches_pips_files(text: str) -> None:
    for made in (replace(plan("x"), lines=(text,)), replace(plan("x"), constraints=(text,))):
        with pytest.raises(BadInputError, match="is not a requirement"):
            print(made.requirements_file, made.constraints_file)


def test_pip_can_read_every_local_file_that_is_named() -> None:
    pip = PipOptions(("--index-url=file:///mirror/simple", "--no-index"), build=True)
    lines = ("one @ file:///w/one-1.0.whl ; python_version > '3'", "file:///w/a%20b.whl#sha256=aa", "/w/project[dev]")
    assert plan(*lines, "einops", "git+https://example.org/x.git", pip=pip).places == (
        "/mirror/simple", "/w/one-1.0.whl", "/w/a b.whl", "/w/project",
    )  # fmt: skip


def test_the_dry_run_says_what_would_be_where() -> None:
    lines = list(render_state_plan(plan("x", allowed=("torch",)), "/sets/default"))
    assert "state: /sets/default/states/2-cp312-555555555555.squashfs" in lines
    assert "constraints: 2 packages of the image" in lines
    assert "may replace: torch" in lines
    assert any(line.startswith("in the container: /user-software/venv/pytorch/bin/python -I -m pip") for line in lines)


@pytest.mark.parametrize(
    ("line", "url"),
    [
        ("/home/me/my code", "file:///home/me/my%20code"),
        ("git+https://example.org/mine.git@v1#subdirectory=x", "https://example.org/mine.git"),
    ],
)
def test_a_package_added_by_its_path_or_url_is_known_by_its_name(line: str, url: str) -> None:
    parent = make_state(1, replace(EINOPS, name="mine", url=url), NEEDY, requirements=(line, "needy"))
    assert parent.names == {"mine", "needy"}
    check_known(parent, ["Mine"], "PyTorch/2")
    build = PipOptions(build=True)
    dropped = make_state_plan(TARGET, PackageChange(dropped=("mine",), pip=build), number=2, parent=parent)
    assert dropped.requirements == ("needy",)
    again = make_state_plan(TARGET, PackageChange(Requirements((line,)), pip=build), number=2, parent=parent)
    assert again.requirements == ("needy", line) and "mine==0.8.1" not in again.constraints, "another version now"


def test_only_added_packages_can_be_dropped() -> None:
    check_known(PARENT, ["Needy"], "PyTorch/2.7.1")
    with pytest.raises(BadInputError, match="another package of your set needs it"):
        check_known(PARENT, ["einops"], "PyTorch/2.7.1")
    with pytest.raises(BadInputError, match="not among your packages"):
        check_known(None, ["x"], "PyTorch/2.7.1")
