"""Images with a libfabric: packages installed by `dev/stack fabric`, and programs of this machine.

The image has the libfabric of the next Debian release (2.1) with the glibc it was built for, and runs this machine's
`fi_info`, whose `--version` prints the version of the libfabric that was loaded: this machine's (1.17) or the image's.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from hpcmod.compat.host_stack import files_of_host, read_search
from hpcmod.compat.values.loader import Closure, find_closure, is_executable_name
from tests.stack import Stack

LIBRARIES = "usr/lib/x86_64-linux-gnu"

APPLETS = ("cat", "cp", "dirname", "env", "find", "grep", "head", "id", "ln", "ls", "mkdir", "printf", "sh", "true")

RUNSCRIPT = """#!/bin/bash
# Like the entry script of HPE's images when enabled: it links to the host's libraries itself.
if [ -n "${HPE_ENTRY:-}" ]; then
    found=$(find /host -name libfabric.so | head -n 1)
    mkdir -p "$HPE_ENTRY"
    ln -sf "$(dirname "$found")"/*libfabric* "$HPE_ENTRY"
    export LD_LIBRARY_PATH="$HPE_ENTRY:$LD_LIBRARY_PATH:$(dirname "$found"):/host/usr/lib64"
fi
exec "$@"
"""


def missing_fabric(stack: Stack) -> str:
    """Return what dev/stack has to install first; empty if nothing is missing."""
    programs = [name for name in ("fi_info", "busybox", "gcc") if not shutil.which(name)]
    lacks = [*programs, *([] if (stack.root / "fabric").is_dir() else [str(stack.root / "fabric")])]
    return f"no {', '.join(lacks)}: run dev/stack fabric" if lacks else ""


def closure_of(*programs: str) -> Closure:
    return find_closure([str(Path(shutil.which(name) or name)) for name in programs], files_of_host(), read_search({}))


def plant_programs(root: Path, programs: Iterable[str], *, libraries: Iterable[str], glibc: bool) -> None:
    """Copy programs of this machine into a root file system, with only the named libraries of those they need."""
    (root / "usr/bin").mkdir(parents=True, exist_ok=True)
    (root / LIBRARIES).mkdir(parents=True, exist_ok=True)
    closure = closure_of(*programs)
    for one in closure.libraries:
        if is_executable_name(one.elf):
            shutil.copy(one.real, root / "usr/bin" / Path(one.path).name)
        elif one.name in libraries or (glibc and one not in closure.own):
            shutil.copy(one.real, root / LIBRARIES / Path(one.path).name)


def make_root(root: Path) -> Path:
    """Create the directories and files that every root file system needs, with busybox as its only program and no
    library.
    """
    for name in ("bin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(f"usr/{name}")
    for name in ("proc", "sys", "dev", "tmp", "var/tmp", "etc", "home", "root", ".singularity.d/env"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    shutil.copy(shutil.which("busybox") or "", root / "usr/bin/busybox")
    for name in APPLETS:
        (root / "usr/bin" / name).symlink_to("busybox")
    return root


def make_fabric_image(stack: Stack, work: Path) -> Path:
    """Make the image, with its libfabric in a directory that only its own LD_LIBRARY_PATH contains."""
    root = work / "root"
    shutil.copytree(stack.root / "fabric", root, symlinks=True)
    make_root(root)
    plant_programs(root, ["fi_info", "bash"], libraries=["libtinfo.so.6"], glibc=False)
    fabric = root / "opt/fabric/lib"
    fabric.mkdir(parents=True)
    for library in (root / LIBRARIES).glob("libfabric.so*"):
        library.rename(fabric / library.name)
    environment = root / ".singularity.d/env/90-environment.sh"
    environment.write_text("export LD_LIBRARY_PATH=/opt/fabric/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}\n")
    environment.chmod(0o755)
    runscript = root / ".singularity.d/runscript"
    runscript.write_text(RUNSCRIPT)
    runscript.chmod(0o755)
    return pack_image(stack, root, work / "fabric.sif")


def pack_image(stack: Stack, root: Path, image: Path) -> Path:
    argv = [str(stack.apptainer), "-q", "build", "--mksquashfs-args", "-comp zstd -Xcompression-level 3"]
    subprocess.run([*argv, str(image), str(root)], env=stack.environment(image.parent), check=True, capture_output=True)
    return image
