from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.compat.inspect.library_path import read_library_path
from hpcmod.compat.inspect.stack import open_files
from tests.stacks import make_stack

ENV = "/.singularity.d/env"


@pytest.mark.parametrize(
    ("scripts", "path", "known"),
    [
        ({}, (), True),
        ({"90-environment": "export LD_LIBRARY_PATH=/a:/b\n"}, ("/a", "/b"), True),
        ({"90-environment": 'export LD_LIBRARY_PATH="/a:$LD_LIBRARY_PATH"\n'}, ("/a",), True),
        ({"90-environment": 'LD_LIBRARY_PATH="/a"\nLD_LIBRARY_PATH="$LD_LIBRARY_PATH:/b"\n'}, ("/a", "/b"), True),
        ({"90-environment": "LD_LIBRARY_PATH=/a${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}\n"}, ("/a",), True),
        ({"10-a": "LD_LIBRARY_PATH=/a\n", "90-b": 'LD_LIBRARY_PATH="/b:${LD_LIBRARY_PATH}"\n'}, ("/b", "/a"), True),
        ({"10-docker2singularity": 'export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-"/a:/b"}"\n'}, ("/a", "/b"), True),
        ({"10-a": "LD_LIBRARY_PATH=/a\n", "90-b": 'LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-"/b"}"\n'}, ("/a",), True),
        ({"90-environment": 'LD_LIBRARY_PATH="$(find /x):/a"\n'}, ("/a",), False),
        ({"90-environment": "LD_LIBRARY_PATH=/a\nif true; then\n  LD_LIBRARY_PATH=/b\nfi\n"}, ("/a",), False),
        ({"90-environment": "LD_LIBRARY_PATH=relative:/a:\n"}, ("/a",), True),
        ({"99-base": 'if true; then\n LD_LIBRARY_PATH="/.singularity.d/libs"\nfi\n'}, (), True),
        ({"90-environment": "MY_LD_LIBRARY_PATH=/a\n"}, (), True),
    ],
)
def test_the_path_of_libraries_is_read_from_the_scripts(
    tmp_path: Path, scripts: dict[str, str], path: tuple[str, ...], known: bool
) -> None:
    image = make_stack(tmp_path / "i.sif", {f"{ENV}/{name}.sh": text for name, text in scripts.items()})
    with open_files(image) as files:
        assert read_library_path(files) == (path, known)
