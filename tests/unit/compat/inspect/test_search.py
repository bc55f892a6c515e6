from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.compat.inspect.library_path import INJECTED
from hpcmod.compat.inspect.search import TRIPLETS, find_search
from hpcmod.compat.inspect.stack import open_files
from tests.stacks import ARCH, Stubs, make_stack

TRIPLET = TRIPLETS[ARCH]
NAMED = (f"/lib/{TRIPLET}", f"/usr/lib/{TRIPLET}", "/lib", "/usr/lib")
PLAIN = ("/lib64", "/usr/lib64", "/lib", "/usr/lib")


@pytest.mark.parametrize(
    ("files", "defaults"),
    [
        ({f"/usr/lib/{TRIPLET}/libc.so.6": ""}, NAMED),
        ({f"/lib/{TRIPLET}/libc.so.6": ""}, NAMED),
        ({"/usr/lib64/libc.so.6": ""}, PLAIN),
        ({"/lib64/libc.so.6": "", f"/usr/lib/{TRIPLET}/file": ""}, PLAIN),
        ({"/usr/lib/libc.so.6": ""}, PLAIN),
    ],
)
def test_the_default_directories_are_those_of_the_distribution(
    tmp_path: Path, files: Stubs, defaults: tuple[str, ...]
) -> None:
    with open_files(make_stack(tmp_path / "i.sif", files)) as opened:
        assert find_search(opened, ARCH)[0].defaults == defaults


def test_the_directory_of_the_host_comes_first_and_that_of_the_runtime_last(tmp_path: Path) -> None:
    script: Stubs = {"/.singularity.d/env/90-environment.sh": "export LD_LIBRARY_PATH=/a:/b\n"}
    with open_files(make_stack(tmp_path / "i.sif", script)) as opened:
        search, known = find_search(opened, ARCH, ("/host/lib",))
    assert (search.library_path, known) == (("/host/lib", "/a", "/b", INJECTED), True)
