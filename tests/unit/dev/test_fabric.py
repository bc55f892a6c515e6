"""The second libfabric of dev/stack, with a fake of Debian's mirror: a function that packs a file, or fails."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.stack import CHECKOUT, Done, run

pytestmark = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb")

FAKE = """
set -euo pipefail
stack=$1 checkout=$2 content=$3
source "$checkout/dev/lib/talk.sh"
source "$checkout/dev/lib/stamp.sh"
source "$checkout/dev/lib/fabric.sh"
debian_download() {
    mkdir -p "$1/tree/DEBIAN" "$1/tree/usr/"{lib,share}
    printf '%s\\n' 'Package: x' 'Version: 1' 'Architecture: all' 'Maintainer: x <x@example.org>' 'Description: x' \\
        >"$1/tree/DEBIAN/control"
    echo "$content" | tee "$1/tree/usr/lib/libfabric" >"$1/tree/usr/share/doc"
    dpkg-deb -b "$1/tree" "$1/x.deb" >/dev/null
    [[ $content != breaks ]] || { echo damaged >"$1/y.deb"; }
    [[ $content != fails ]]
}
make_once fabric "$content" make_fabric
"""


def make(stack: Path, content: str) -> Done:
    return run(["bash", "-c", FAKE, "bash", str(stack), str(CHECKOUT), content], os.environ)


@pytest.mark.parametrize("fault", ["fails", "breaks"])
def test_the_old_file_works_until_the_new_one_is_complete(tmp_path: Path, fault: str) -> None:
    library = tmp_path / "fabric" / "usr" / "lib" / "libfabric"
    assert make(tmp_path, "old").returncode == 0
    assert make(tmp_path, fault).returncode != 0
    assert library.read_text() == "old\n"
    assert make(tmp_path, "new").returncode == 0
    assert library.read_text() == "new\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fabric", "stamps", "work"]
    assert [path.name for path in (tmp_path / "fabric" / "usr").iterdir()] == ["lib"]
