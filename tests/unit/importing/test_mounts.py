from __future__ import annotations

import shutil
import subprocess

import pytest

from hpcmod.errors import BadInputError
from hpcmod.importing.mounts import make_bind, shell_text
from hpcmod.model.bind import Bind


@pytest.mark.parametrize(
    ("source", "destination", "flags", "expected"),
    [
        ("/a", "/a", (), "/a"),
        ("/a", "", (), "/a"),
        ("/a", "/b", (), "/a:/b"),
        ("/a", "/a", ("ro",), "/a:/a:ro"),
        ("/a", "/b", ("rw", "rbind", "x-create=auto"), "/a:/b"),
        ("/a.sqsh", "/b", ("sqsh",), "/a.sqsh:/b:image-src=/"),
        ("/a b,c:d", "/e", (), r"/a b\,c\:d:/e"),
    ],
)
def test_a_mount_becomes_a_bind(source: str, destination: str, flags: tuple[str, ...], expected: str) -> None:
    bind, lost = make_bind(source, destination, flags)
    assert (bind, lost) == (expected, ())
    assert Bind.parse(bind).source == source


def test_flags_without_a_counterpart_are_returned() -> None:
    assert make_bind("/a", "/b", ("ro", "private", "noexec")) == ("/a:/b:ro", ("private", "noexec"))


@pytest.mark.parametrize(
    ("source", "destination"),
    [
        ("./a", "/b"),
        ("a", "/b"),
        ("/a", "b"),
        ("", ""),
        ("/a*", "/b"),
        ("/a\n", "/b"),
        ("/{uname_r}", "/b"),
        ("/a\\", "/b"),
    ],
)
def test_a_mount_that_no_bind_describes_is_refused(source: str, destination: str) -> None:
    with pytest.raises(BadInputError):
        make_bind(source, destination)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${HOME}/x ${NONE:-}", "/home/x "),
        ('$(echo owned) `echo owned` " \\ $HOME', '$(echo owned) `echo owned` " \\ $HOME'),
        ("$${HOME} $$", "${HOME} $"),
        ("${HOME:=$(echo owned)}", "${HOME:=$(echo owned)}"),
    ],
)
def test_only_plain_variables_are_expanded_by_the_shell(text: str, expected: str) -> None:
    bash = shutil.which("bash") or "bash"
    said = subprocess.run(
        [bash, "-c", f"printf %s {shell_text(text)}"], env={"HOME": "/home"}, check=True, capture_output=True, text=True
    )
    assert said.stdout == expected
