"""The verdict about an image that its installation recorded: valid until something changes that it depends on."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from hpcmod import __version__
from hpcmod.compat.values.mpi import HOST, MPICH, OPEN_MPI_4, OPEN_MPI_5
from hpcmod.machine import read_gpu_targets
from hpcmod.machine.values.site import Site
from hpcmod.modules import Installed, explain_binds
from hpcmod.modules.values.install_record import Fit

_STAMPED = ("etc/ld.so.cache", "etc/apptainer/rocmliblist.conf", "etc/singularity/rocmliblist.conf")
"""Files of the host that every change of its libraries, or of the runtime's lists of them, writes anew."""

_DRIVER = "proc/driver/nvidia/version"
_DEVICES = ("sys/class/cxi", "dev/cxi0")
_MPIS = (HOST, MPICH, OPEN_MPI_4, OPEN_MPI_5, "")


def fingerprint(image: Path, site: Site, environ: Mapping[str, str], *, root: Path = Path("/")) -> str:
    """Return a digest of everything that a verdict depends on, without reading the image.

    That is: the version of hpcmod, which has the rules; size and time of the image; the site profile; the binds that
    exist on this node, each with its time; the loader's cache, driver, GPUs and Slingshot devices of the host. A
    library that is replaced deeper in a bound directory, without a new entry in the directory itself, does not change
    it.

    Raises OSError if there is no image.
    """
    state = image.stat()
    # also those for some images only: whether this is one depends on the image, which its size and time stand for
    binds = (*site.all_binds, *(group for _, groups in site.binds.when for group in groups))
    kept = [finding.bind for finding in explain_binds(binds, environ) if finding.kept]
    parts = (
        (__version__, os.uname().machine, state.st_size, state.st_mtime_ns),
        site,
        [(bind.place, bind.source, _stamp(Path(bind.source))) for bind in kept],
        [_stamp(root / name) for name in _STAMPED],
        _read(root / _DRIVER),
        [(root / name).exists() for name in _DEVICES],
        read_gpu_targets(root),
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        state = path.stat()
    except OSError:
        return (0, 0, 0)
    return (state.st_ino, state.st_size, state.st_mtime_ns)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def find_recorded(installed: Installed, site: Site, environ: Mapping[str, str]) -> Fit | None:
    """Return the verdict that the installation of a module recorded; None if there is none that is still valid."""
    fit = installed.record.fit
    if not fit.fingerprint or fit.mpi not in _MPIS:
        return None
    try:
        now = fingerprint(Path(installed.image.path), site, environ)
    except OSError:
        return None
    return fit if fit.fingerprint == now else None


def find_image_mpi(installed: Installed, site: Site, environ: Mapping[str, str]) -> str:
    """Return the MPI of an installed image, named as in hpcmod.compat.values.mpi; empty if it has none."""
    if installed.record.fit.has_mpi is False:
        return ""
    fit = find_recorded(installed, site, environ)
    if fit is not None:
        return fit.mpi
    from hpcmod.compat.compat import read_image_mpi  # importing this takes as long as reading the image

    return read_image_mpi(Path(installed.image.path), site, environ)


def explain_module(installed: Installed, site: Site, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each problem of an installed module's image on this machine."""
    fit = find_recorded(installed, site, environ)
    problems: Iterable[str] = fit.problems if fit else ()
    if fit is None and Path(installed.image.path).is_file():
        from hpcmod.compat.compat import explain_image

        problems = explain_image(Path(installed.image.path), site, environ)
    return (f"{installed.module}: {problem}" for problem in problems)
