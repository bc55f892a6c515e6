from __future__ import annotations

from dataclasses import replace

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.packages.values.lockfile import find_changed, parse_package_lock, render_package_lock
from hpcmod.packages.values.state import Locked
from tests.package_states import EINOPS, NEEDY, make_state

STATE = make_state(1, EINOPS, NEEDY, requirements=("needy", "einops<1"), allowed=("numpy",))


def test_a_lock_file_has_versions_hashes_and_requirements() -> None:
    lock = parse_package_lock(render_package_lock(STATE), "my.lock")
    assert lock.requirements == ("needy", "einops<1")
    assert lock.allowed == ("numpy",)
    assert lock.lines == (f"einops==0.8.1 --hash=sha256:{'a' * 64}", f"needy==1.0 --hash=sha256:{'b' * 64}")


def test_any_requirements_file_with_hashes_is_a_lock() -> None:
    text = f"Foo.Bar==1.0 \\\n    --hash=sha256:{'a' * 64} \\\n    --hash=sha256:{'c' * 64}  # via x\n"
    lock = parse_package_lock(text, "uv.lock")
    assert lock.requirements == ("foo-bar==1.0",)
    assert lock.pins == (("foo-bar", "1.0", ("a" * 64, "c" * 64)),)


@pytest.mark.parametrize("line", ["einops", "einops==0.8", f"einops>=1 --hash=sha256:{'a' * 64}", "--pre", "../x"])
def test_what_pins_nothing_is_refused_with_its_line(line: str) -> None:
    with pytest.raises(BadInputError, match=r"my\.lock:2"):
        parse_package_lock(f"# comment\n{line}\n", "my.lock")


@pytest.mark.parametrize("text", ["", "\n", "# packages of mine\n"])
def test_a_file_without_packages_is_no_lock_unless_hpcmod_wrote_it(text: str) -> None:
    with pytest.raises(BadInputError, match=r"my\.lock: not a lock file"):
        parse_package_lock(text, "my.lock")
    assert parse_package_lock(render_package_lock(make_state(1, requirements=())), "my.lock").pins == ()


def test_a_lock_needs_hashes() -> None:
    with pytest.raises(BadInputError, match=r"einops==0.8.1"):
        render_package_lock(make_state(1, replace(EINOPS, sha256="")))


def test_files_of_one_version_that_differ_are_found() -> None:
    other = replace(EINOPS, sha256="f" * 64)
    assert find_changed((EINOPS, NEEDY), (other, NEEDY)) == [(EINOPS, other)]
    assert find_changed((EINOPS,), (replace(other, version="0.9"),)) == []


def test_the_wheel_of_another_python_has_another_hash() -> None:
    old = Locked("numpy", "2.1.0", "a" * 64, "https://example.org/numpy-2.1.0-cp311-cp311-linux_x86_64.whl")
    new = Locked("numpy", "2.1.0", "b" * 64, "https://example.org/numpy-2.1.0-cp312-cp312-linux_x86_64.whl")
    assert find_changed((old,), (new,)) == []
    elsewhere = replace(new, url=old.url.replace("example.org", "mirror.example.org"))
    assert find_changed((old,), (elsewhere,)) == [(old, elsewhere)]
