"""Compare a site profile with this machine: what exists, what is missing, and what that means."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from string import Template

from hpcmod.compat import check_capture
from hpcmod.compat.values.netstack import RECORD
from hpcmod.core.errors import HpcmodError
from hpcmod.core.values.finding import FAIL, OK, WARN, Finding
from hpcmod.jobs import find_mpi_types
from hpcmod.machine import Machine
from hpcmod.machine.values.site import Site
from hpcmod.modules import explain_binds

GPU_DEVICES = {"amd": ("/dev/kfd",), "nvidia": ("/dev/nvidiactl", "/proc/driver/nvidia/version")}
"""By vendor, paths that exist if the driver is loaded."""


def check_site(machine: Machine, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Check everything in the profile, in the order in which an installation and then a job needs it."""
    site = machine.site
    yield Finding(OK, "profile", f"{machine.profiles[-1].source}, selected by {machine.choice.reason}")
    yield from _check_images(site)
    yield from _check_binds(site, environ)
    yield from _check_netstack(site)
    yield from _check_gpus(site)
    yield from _check_network(site)
    yield from _check_cores(site)
    yield from _check_partitions(site)
    yield from _check_mpi(site, environ)
    yield from _check_places(site, environ)


def _check_images(site: Site) -> Iterator[Finding]:
    for directory in site.images.central:
        path, subject = Path(directory), f"images {directory}"
        if not path.is_dir():
            found, cure = "no such directory", "No images are found there, so users keep their own copies."
            yield Finding(WARN, "images", found, cure, subject)
        elif not os.access(path, os.R_OK | os.X_OK):
            yield Finding(WARN, "images", "not readable by you", "Ask the site who may use its images.", subject)
        else:
            yield Finding(OK, "images", f"{len(list(path.glob('*.sif')))} files *.sif", subject=subject)


def _check_binds(site: Site, environ: Mapping[str, str]) -> Iterator[Finding]:
    for candidate in explain_binds(site.all_binds, environ):
        subject = f"bind {candidate.asked}"
        if candidate.kept:
            found = f"{candidate.bind}: {candidate.why}" if str(candidate.bind) != candidate.asked else candidate.why
            yield Finding(OK, "bind", found, subject=subject)
        elif candidate.missing:
            cure = "Missing in jobs on this node. This may be correct on a login node; otherwise fix the profile"
            yield Finding(FAIL, "bind", candidate.why, f"{cure}: {candidate.bind.origin}.", subject)
        else:
            cure = "" if candidate.bind.origin.startswith("$") else f"Omitted; set in {candidate.bind.origin}."
            yield Finding(WARN if candidate.bind.origin.startswith("$") else OK, "bind", candidate.why, cure, subject)


def _check_netstack(site: Site) -> Iterator[Finding]:
    """Yield what is wrong with the host's captured libraries, if anything."""
    for candidate in explain_binds((site.network.netstack.directory,), {}):
        if not candidate.kept or not Path(candidate.bind.source, RECORD).is_file():
            continue
        try:
            found = list(check_capture(Path(candidate.bind.source)))
        except HpcmodError as err:  # its record is invalid; continue with the other checks
            found = [Finding(FAIL, "record", err.message, err.cure)]
        faults = (each for each in found if each.level != OK)
        yield from (replace(each, rule="netstack", subject=f"netstack {each.subject}") for each in faults)
        if all(each.level == OK for each in found):
            yield Finding(OK, "netstack", f"{candidate.bind.source} is intact, and the same as what the host loads")


def _check_gpus(site: Site) -> Iterator[Finding]:
    here = [vendor for vendor, places in GPU_DEVICES.items() if any(Path(place).exists() for place in places)]
    if site.gpu.vendor in here:
        yield Finding(OK, "GPUs", f"the {site.gpu.vendor} driver is loaded")
    elif site.gpu.vendor:
        cure = "Expected on a login node; a job here would not see a GPU."
        yield Finding(WARN, "GPUs", f"no {site.gpu.vendor} driver on this node", cure)
    for vendor in here:
        if vendor != site.gpu.vendor:
            cure = f'Use or extend generic-{vendor}, or set vendor = "{vendor}" in [gpu].'
            yield Finding(WARN, "GPUs", f"the {vendor} driver is loaded, but the profile does not mention it", cure)


def _check_network(site: Site) -> Iterator[Finding]:
    here = {name for _, name in socket.if_nameindex()}  # /sys may show those of another network name space
    absent = [name for name in site.network.interfaces if name not in here]
    if absent:
        cure = "Expected on a login node; a job on several nodes would not use the fast network."
        yield Finding(WARN, "network", f"no interface {', '.join(absent)}", cure)
    elif site.network.interfaces:
        yield Finding(OK, "network", ", ".join(site.network.interfaces))


def _check_cores(site: Site) -> Iterator[Finding]:
    """Compare the hardware threads of this node with those of the node types."""
    known = [node for node in site.nodes.types if node.cores]
    threads = os.cpu_count() or 0
    alike = [node.name for node in known if threads in (node.all_cores, node.all_cores * node.threads_per_core)]
    if alike:
        yield Finding(OK, "cores", f"{threads} hardware threads, same as node type {' and '.join(alike)}")
    elif known:
        types = ", ".join(f"{node.name} {node.all_cores * node.threads_per_core}" for node in known)
        cure = "Expected on a login node; on a compute node the masks would be wrong: fix [nodes]."
        yield Finding(WARN, "cores", f"{threads} hardware threads here; node types have {types}", cure)


def _check_partitions(site: Site) -> Iterator[Finding]:
    """Yield the partitions of several node types: a job there that names none gets the first."""
    for name in dict.fromkeys(name for node in site.nodes.types for name in node.partitions):
        kinds = [node.name for node in site.nodes.types if name in node.partitions]
        if len(kinds) > 1:
            cure = f"Jobs there get {kinds[0]} nodes. Name it in one of them; to clear the other: partitions = false"
            yield Finding(WARN, "partition", f"nodes of types {' and '.join(kinds)}", cure, f"partition {name}")


def _check_mpi(site: Site, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Compare the types of MPI that srun offers with those of the profile."""
    offered = find_mpi_types(environ)
    if offered is None:
        return
    absent = [kind for kind in site.launcher.mpi if kind not in offered]
    if absent:
        cure = f"Fix `mpi` in [launcher]; srun offers {', '.join(offered) or 'no known type'}."
        yield Finding(WARN, "mpi", f"srun does not offer {', '.join(absent)}", cure)
    elif site.launcher.mpi:
        yield Finding(OK, "mpi", f"srun offers {', '.join(site.launcher.mpi)}")
    elif offered:
        listed = ", ".join(f'"{kind}"' for kind in offered)
        cure = f"Add mpi = [{listed}] to [launcher], so that jobs use the type that the MPI of their image needs."
        yield Finding(OK, "mpi", f"srun offers {', '.join(offered)}; not set in the profile", cure)


def _check_places(site: Site, environ: Mapping[str, str]) -> Iterator[Finding]:
    places = {
        "caches": site.module.caches.node_local,
        **{f"stage {stage.name}": stage.directory for stage in site.job.stage_places},
    }
    for name, directory in places.items():
        path = Path(Template(directory).safe_substitute(environ))
        if not path.is_dir():
            cure = "It may be created for a job, or exist only on compute nodes."
            yield Finding(WARN, name, f"{path} does not exist here", cure)
        elif not os.access(path, os.W_OK | os.X_OK):
            yield Finding(WARN, name, f"{path} is not writable by you", "Set another directory in the profile.")
        else:
            yield Finding(OK, name, str(path))
