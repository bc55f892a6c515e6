"""The rules about MPI, Slingshot and NCCL's network plugin."""

from __future__ import annotations

from collections.abc import Iterator

from hpcmod.compat.values.stack import (
    COLLECTIVES,
    MPI,
    MPI4PY,
    OPEN_MPI,
    PART,
    PLUGIN,
    UCX,
    VERBS,
    Fabric,
    Mpi,
    numbers,
)
from hpcmod.compat.values.verdict import Case, CompatRule, Loaded, by_pair
from hpcmod.core.values.finding import FAIL, OK, UNKNOWN, WARN, Finding

_OLD_PMI = ("--mpi=pmi2", "--mpi=cray_shasta", "--mpi=none")
_PLUGIN_CURE = "Use an image with the aws-ofi-nccl plugin, or build one: hpcmod build."


def _family(case: Case) -> Iterator[Finding]:
    own = case.image.mpi
    if own is None:
        return
    for library in case.of(MPI, MPI4PY):
        if library.mpi is not None and library.mpi.path in library.from_host and library.mpi.family != own.family:
            host = f"{library.mpi.path} ({library.mpi.family})"
            found = f"{library.path} gets the host's {host}, but was built with {own.family}"
            cure = f"Exclude the host's MPI, or use an image built with {library.mpi.family}."
            yield Finding(FAIL, "mpi-family", found, cure)
            return
    by_name = {mpi.soname: mpi.path for mpi in case.host.mpis}
    for library in case.of(MPI4PY):
        if library.mpi is not None and library.mpi.path not in library.from_host and library.mpi.soname in by_name:
            found = f"{library.path} uses the image's {library.mpi.path}, not the host's {by_name[library.mpi.soname]}"
            cure = "Build it with a runpath instead of DT_RPATH, or: patchelf --set-rpath ... FILE."
            yield Finding(WARN, "mpi-family", found, cure)
    if not case.host.mpis:
        yield Finding(OK, "mpi-family", f"{own.family} ({own.soname}) from the image")
        return
    yield _stands_in(own, case.host.mpis)


def _stands_in(own: Mpi, host: tuple[Mpi, ...]) -> Finding:
    """Return the finding on whether one of the host's MPI libraries can replace the image's."""
    fitting = [mpi for mpi in host if (mpi.family, mpi.soname) == (own.family, own.soname)]
    if fitting:
        return Finding(OK, "mpi-family", f"the host's {fitting[0].path} replaces {own.path}: both are {own.family}")
    theirs = ", ".join(dict.fromkeys(f"{mpi.family} ({mpi.soname})" for mpi in host))
    found = f"the host offers {theirs}; the image's {own.family} ({own.soname}) stays in use with its own libfabric"
    cure = (
        f"Build the image with {host[0].family} as {host[0].soname}, or make sure that its own MPI can use the network."
    )
    return Finding(WARN, "mpi-family", found, cure)


def _mpi_age(case: Case) -> Iterator[Finding]:
    own = case.image.mpi
    for library in case.of(MPI, MPI4PY)[:1]:
        if (
            own is None
            or library.mpi is None
            or library.mpi.path not in library.from_host
            or library.mpi.family != own.family
        ):
            return
        image, host = numbers(own.version), numbers(library.mpi.version)
        if len(image) < 2 or len(host) < 2 or not host[1]:  # 12.0 is the baseline of MPICH's ABI initiative
            found = f"{library.mpi.path}: its ABI version cannot be read from the file name"
            yield Finding(UNKNOWN, "mpi-age", found)
        elif image[:2] > host[:2]:
            found = (
                f"the host's {library.mpi.path} ({library.mpi.version}) has an older interface than the image's "
                f"{own.path} ({own.version}): functions may be missing"
            )
            yield Finding(WARN, "mpi-age", found, "Build the image with the MPI release that the site documents.")
        else:
            yield Finding(OK, "mpi-age", f"the host's {library.mpi.version} provides the interface of {own.version}")


def _pmi(case: Case) -> Iterator[Finding]:
    own = case.image.mpi
    launcher = case.site.launcher
    flags = [flag for flag in launcher.srun if flag in _OLD_PMI]
    if launcher.mpi and not any(kind.startswith("pmix") for kind in launcher.mpi):
        flags += [f"--mpi={kind}" for kind in launcher.mpi]
    if own is None or own.family != OPEN_MPI or own.has_orte or not flags:
        return
    found = f"srun {flags[0]} of the profile, but the image's Open MPI is 5.0 or newer: each rank would run on its own"
    yield Finding(WARN, "pmi", found, "Use srun --mpi=pmix if this Slurm supports it: srun --mpi=list")


def _slingshot(case: Case) -> Iterator[Finding]:
    if not case.has_slingshot:
        return
    talks = {plugin.path: plugin.transport for plugin in case.image.plugins}
    for loaded in _plugins(case):
        if case.host.has_cxi and talks.get(loaded.path) in (UCX, VERBS):
            found = f"{loaded.path} uses {talks[loaded.path]}, not libfabric: NCCL would use TCP between nodes"
            yield Finding(WARN, "slingshot", found, _PLUGIN_CURE)
            continue
        yield from _reaches(loaded, "NCCL and RCCL")
        if not loaded.by_name:
            found = f"{loaded.path} is not in a directory that NCCL searches by default"
            yield Finding(UNKNOWN, "slingshot", found, "It works if NCCL_NET_PLUGIN or LD_LIBRARY_PATH points to it.")
    if case.image.gpu.collectives and not case.of(PLUGIN):
        found = f"the image has {case.image.gpu.collectives} but no network plugin: it would use TCP between nodes"
        yield Finding(WARN, "slingshot", found, _PLUGIN_CURE)
    users = case.of(PART) or case.of(MPI)
    for loaded in users[:1]:
        yield from _reaches(loaded, "MPI")


def _plugins(case: Case) -> tuple[Loaded, ...]:
    """Return the plugins that NCCL finds by default, or all plugins if it finds none."""
    plugins = case.of(PLUGIN)
    return tuple(plugin for plugin in plugins if plugin.by_name) or plugins


def _reaches(library: Loaded, who: str) -> Iterator[Finding]:
    if library.missing or library.unmet:
        return  # other rules report this
    if library.fabric is None:
        cure = "Check what it was built for; `hpcmod doctor` on a compute node lists the network interfaces."
        found = f"{library.path} loads no known libfabric: it may not be able to use Slingshot"
        yield Finding(UNKNOWN, "slingshot", found, cure)
    elif library.fabric.cxi:
        yield Finding(OK, "slingshot", f"{who}: libfabric {_release(library.fabric)} with the Slingshot provider (cxi)")
    else:
        fabric = f"{library.fabric.path} ({_release(library.fabric)})"
        found = f"{library.path} gets {fabric}, which lacks the cxi provider: TCP instead of Slingshot"
        cure = "Swap the host's libfabric in: hpcmod site netstack capture. Or use an image that contains the provider."
        yield Finding(WARN, "slingshot", found, cure)


def _release(fabric: Fabric) -> str:
    return fabric.release or fabric.newest or "of unknown release"


def _libcxi(case: Case) -> Iterator[Finding]:
    image, host = numbers(case.image.cxi_library), numbers(case.host.cxi_library)
    uses_own = any(
        library.fabric and library.fabric.cxi and library.fabric.path not in library.from_host
        for library in case.loaded
    )
    if not case.has_slingshot or not image or not uses_own:
        return
    if not host:
        yield Finding(UNKNOWN, "libcxi", "the host's libcxi was not found, so the image's cannot be compared")
    elif image > host:
        found = f"the image's libcxi {case.image.cxi_library} is newer than the host's {case.host.cxi_library}"
        cure = "Swap the host's libraries in: hpcmod site netstack capture. Or build with the site's release of SHS."
        yield Finding(WARN, "libcxi", found, cure)
    else:
        yield Finding(OK, "libcxi", f"the image's {case.image.cxi_library} is not newer than the host's")


def _one_fabric(case: Case) -> Iterator[Finding]:
    users = (*case.of(MPI, MPI4PY, PART, COLLECTIVES), *_plugins(case))
    used = {library.fabric.path: library for library in users if library.fabric}
    if len(used) > 1:
        pairs = "; ".join(f"{library.path} gets {path}" for path, library in used.items())
        found = f"more than one libfabric: {pairs}. In one process, the first one loaded serves both"
        yield Finding(
            WARN, "one-libfabric", found, "Build MPI and plugin against one libfabric, with a runpath, not an rpath."
        )


def _swap(case: Case) -> Iterator[Finding]:
    captured = [library for library in case.host.fabrics if library.path.startswith(f"{case.host.netstack}/")]
    if not case.host.netstack or not captured:
        return
    for library in case.of(PLUGIN, MPI, PART):
        if library.fabric and library.fabric.path not in library.from_host:
            found = (
                f"{library.path} uses the image's {library.fabric.path}: its DT_RPATH comes before {case.host.netstack}"
            )
            cure = "Build it with a runpath instead (-Wl,--enable-new-dtags), or: patchelf --set-rpath ... FILE."
            yield Finding(WARN, "swap", found, cure)
        elif library.fabric and not library.unmet and not library.missing:
            mine = case.image.fabric
            instead = f" in place of {_release(mine)}" if mine else ""
            yield Finding(OK, "swap", f"{library.path} gets the host's libfabric {_release(library.fabric)}{instead}")


def _hidden(case: Case) -> Iterator[Finding]:
    for unmet in by_pair(case.hidden):
        name = unmet.provider.rpartition("/")[2]
        found = f"{unmet.provider} comes before the image's {unmet.wanted_by} and lacks its {unmet.version}"
        cure = f"If the image's own also works for the host's libraries: netstack capture --leave-out {name}"
        yield Finding(WARN, "hidden", f"{found}: programs in the image that need it do not start", cure)


NETWORK_RULES: tuple[CompatRule, ...] = (
    CompatRule(
        "mpi-family",
        "If the host provides an MPI: is it of the family that the image was built with?",
        "fail if the loader picks an MPI of another family, warn if the image's own stays in use",
        "pmodels/mpich, doc/wiki/testing/ABI_Compatibility_Initiative.md (commit dad7946b); open-mpi/ompi issues 11813 "
        "(Open MPI and MPICH have no ABI in common) and 14223 (the standard's: libmpi_abi)",
        _family,
    ),
    CompatRule(
        "mpi-age",
        "If the host's MPI replaces the image's: is its interface at least as new?",
        "warn",
        "libtool's versioning rules, as Sarus compares them (its MPI hook warns), except for 12.0, which MPICH's ABI "
        "initiative gives all its partners; cp2k/cp2k pull request 4006: MPICH 3.1.4 works on Cray MPICH, 4.2.3 and "
        "4.3.0 do not",
        _mpi_age,
    ),
    CompatRule(
        "pmi",
        "Does srun, with the profile's flags, tell the image's MPI about the other ranks?",
        "warn",
        "open-mpi/ompi issue 13523: 5.0 under srun --mpi=pmi2 starts ranks that do not see each other",
        _pmi,
    ),
    CompatRule(
        "slingshot",
        "On HPE Slingshot: do MPI and NCCL get a libfabric with the cxi provider?",
        "warn",
        "ofiwg/libfabric: the provider is part of it since 1.21.0; rocm.docs.amd.com/projects/rccl, Using the NCCL Net "
        "plugin API: no other way to a network that is not InfiniBand or sockets; "
        "docs.isambard.ac.uk, guide NCCL: on Slingshot it must be the plugin aws-ofi-nccl",
        _slingshot,
    ),
    CompatRule(
        "libcxi",
        "If the image contains libcxi: is it no newer than the host's?",
        "warn",
        "HewlettPackard/shs-libcxi issue 18: user space of 13.1 and 14.0 fails where 13.0 works (one report; that an "
        "image no newer than the host is safe is our inference)",
        _libcxi,
    ),
    CompatRule(
        "one-libfabric",
        "Do MPI and the NCCL plugin get the same libfabric?",
        "warn",
        "ld.so(8): a loaded library is not searched for again; lumi-ai-factory/laifs-container-recipes issue 18: "
        "the wrong one was used until it was preloaded",
        _one_fabric,
    ),
    CompatRule(
        "swap",
        "If the host's libraries are captured: does the image use them?",
        "warn",
        "ld.so(8): DT_RPATH comes before LD_LIBRARY_PATH, DT_RUNPATH after it",
        _swap,
    ),
    CompatRule(
        "hidden",
        "Do captured host libraries define all symbol versions that the image's libraries of the same name define?",
        "warn",
        "ld.so(8): LD_LIBRARY_PATH, and so the captured directory, comes before the cache, for every program; ld.so of "
        "glibc 2.36: `version X not found (required by Y)`",
        _hidden,
    ),
)
