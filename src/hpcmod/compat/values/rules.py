"""The compatibility rules as a table: for each a question, its possible findings, and the source."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpcmod.compat.values.gpu import GPU_RULES
from hpcmod.compat.values.network import NETWORK_RULES
from hpcmod.compat.values.stack import COLLECTIVES, DRIVER, MPI, PLUGIN
from hpcmod.compat.values.verdict import Case, CompatRule, Loaded, Unmet, by_pair
from hpcmod.core.values.compression import reads_zstd
from hpcmod.core.values.finding import FAIL, OK, UNKNOWN, WARN, Finding

_OF_THE_DRIVER = re.compile(r"lib(?:cuda|nvidia-[\w-]+|nvcuvid|nvoptix)\.so(?:\..*)?")
"""Libraries that the driver provides and --nv adds (nvliblist.conf of Apptainer 1.4.5)."""

_REPACK = (
    "Convert its OCI image again, with hpcmod fetch --compression gzip; or, where Apptainer is 1.4 or later: "
    "apptainer build NEW.sif OLD.sif"
)


def _architecture(case: Case) -> Iterator[Finding]:
    image, machine, host = case.image.architecture, case.image.machine, case.host.architecture
    image = machine if image in ("", "unknown") else image
    if not image or not host:
        yield Finding(
            UNKNOWN, "architecture", f"the image is for {image or 'unknown'}, this machine is {host or 'unknown'}"
        )
    elif image == host and machine in ("", host):
        yield Finding(OK, "architecture", f"for {image}, like this machine")
    else:
        holds = f" and contains libraries for {machine}" if machine not in ("", image) else ""
        cure = f"Use an image built for {host}."
        yield Finding(FAIL, "architecture", f"the image is for {image}{holds}, this machine is {host}", cure)


def _libraries(case: Case) -> Iterator[Finding]:
    for path, why in case.image.broken:
        yield Finding(UNKNOWN, "libraries", f"{path} cannot be read: {why}")
    gpu = case.site.gpu
    gets_nvidia = gpu.vendor == "nvidia" or any(flag.startswith("--nv") for flag in gpu.runtime_flags)
    for library in case.loaded:
        driver = [name for name, _ in library.missing if _OF_THE_DRIVER.fullmatch(name)]
        others = [(name, by) for name, by in library.missing if name not in driver]
        if driver and not gets_nvidia:
            found = f"{_named(library)} needs {_listed(driver)} from NVIDIA's driver, which containers do not get here"
            yield Finding(UNKNOWN, "libraries", found)
        if library.elsewhere:
            places = ", ".join(path for _, path in library.elsewhere[:5])
            found = (
                f"{_named(library)} needs {places}, which the loader does not search: fine if the program has loaded it"
            )
            yield Finding(UNKNOWN, "libraries", found)
        if others:
            yield _missing(case, library, others)
        elif not library.unmet and library.what != DRIVER:
            host = f" ({len(library.from_host)} from the host)" if library.from_host else ""
            yield Finding(OK, "libraries", f"{_named(library)} finds all the libraries it needs{host}")


def _missing(case: Case, library: Loaded, others: list[tuple[str, str]]) -> Finding:
    missing = "; ".join(f"{name}, which {by} needs" for name, by in others[:5])
    found = f"{_named(library)} cannot be loaded because the loader does not find {missing}"
    host = [by for _, by in others if by in library.from_host]
    cure = (
        "Capture the host's libraries and all they need: hpcmod site netstack capture. Or bind the rest: [binds]."
        if host
        else "Add them to the image, in a directory that its LD_LIBRARY_PATH or ld.so.conf lists."
    )
    return Finding(_level(case, library), "libraries", found + _doubt(case), cure)


def _doubt(case: Case) -> str:
    known = case.image.library_path_known
    return "" if known else " (as far as is known: the image computes LD_LIBRARY_PATH when it starts)"


def _versions(case: Case) -> Iterator[Finding]:
    for library in case.loaded:
        for unmet in by_pair(library.unmet):
            level = _level(case, library)
            lacks = f"{unmet.provider} does not define {unmet.version}, which {unmet.wanted_by} needs"
            found = f"{_named(library)} cannot be loaded: {lacks}{_doubt(case)}"
            yield Finding(level, "versions", found, _version_cure(case, library, unmet))


def _version_cure(case: Case, library: Loaded, unmet: Unmet) -> str:
    on_host = unmet.provider in library.from_host
    if unmet.version.startswith("GLIBC_") and not on_host:
        host = "the host's" if unmet.wanted_by in library.from_host else "its"
        return (
            f"The image's glibc {case.image.glibc} is too old for {host} library: use an image based on a newer "
            "distribution, or exclude the host's libraries: netstack = 'off' in its easyconfig."
        )
    if on_host:
        return (
            "The host's library is older than the one that the image was built with: use an image built for "
            "swapping (hpcmod build --ofi swap), name newer libraries of the host in the profile, or use the image's "
            "own: netstack = 'off' in its easyconfig."
        )
    return "The image contains libraries that do not fit together: rebuild it."


def _libc(case: Case) -> Iterator[Finding]:
    image = case.image
    if image.libc == "musl" and case.host.netstack:
        found = f"the image is built on musl, but {case.host.netstack}, searched first, contains libraries for glibc"
        cure = "Use an image with glibc, or exclude the host's libraries: netstack = 'off' in its easyconfig."
        yield Finding(FAIL if image.mpis or image.fabrics or image.plugins else WARN, "libc", found, cure)
    elif image.libc == "musl":
        yield Finding(UNKNOWN, "libc", "built on musl, whose loader follows different rules: libraries are not checked")
    elif not image.libc:
        yield Finding(UNKNOWN, "libc", "no C library found in the image")


def _compression(case: Case) -> Iterator[Finding]:
    runtime = case.host.runtime
    if case.image.compression == "zstd" and not reads_zstd(runtime):
        who = runtime or "SingularityCE and Apptainer before 1.4"
        expected = WARN if case.site.images.compression.startswith("gzip") else UNKNOWN
        level = FAIL if runtime else expected
        yield Finding(level, "compression", f"the image is compressed with zstd, which {who} cannot read", _REPACK)


def _bash(case: Case) -> Iterator[Finding]:
    if not case.image.has_bash:
        found = "the image has no /bin/bash: its commands can be started, run scripts and start-shell cannot"
        yield Finding(WARN, "bash", found, "For distributed Python, use an image with bash.")


def _level(case: Case, library: Loaded) -> str:
    """Return the level of a file that cannot be loaded: fail if the image cannot do its work without it.

    This is uncertain for a file that is not found by name alone, if another of its kind can be loaded, and if the
    image computes LD_LIBRARY_PATH. Without its plugin, NCCL continues over InfiniBand or sockets: that matters if the
    machine has Slingshot or lends its own libraries to the plugin. Driver libraries are added to every image, and
    matter to images that compute on GPUs.
    """
    if library.what == DRIVER:
        is_cuda = library.path.rpartition("/")[2].startswith("libcuda.so")
        wanted = FAIL if is_cuda else WARN
        return wanted if _computes_on_gpus(case) else UNKNOWN
    needs_plugin = case.has_slingshot or bool(case.host.netstack or library.from_host)
    is_vital = {MPI: True, PLUGIN: needs_plugin, COLLECTIVES: bool(library.unmet)}.get(library.what, False)
    has_other = any(other.by_name and not other.missing and not other.unmet for other in case.of(library.what))
    return FAIL if is_vital and library.by_name and not has_other and case.image.library_path_known else WARN


def _computes_on_gpus(case: Case) -> bool:
    gpu = case.image.gpu
    return bool(gpu.cuda or gpu.rocm or gpu.collectives or any(plugin.gpu for plugin in case.image.plugins))


def _named(library: Loaded) -> str:
    return f"{library.what} {library.path}"


def _listed(names: list[str]) -> str:
    return ", ".join(dict.fromkeys(names))


RULES: tuple[CompatRule, ...] = (
    CompatRule(
        "architecture",
        "Are the image and its libraries built for the processors of this machine?",
        "fail",
        "elf(5): e_machine; SIF specification: architecture of the primary partition",
        _architecture,
    ),
    CompatRule(
        "compression",
        "Does this machine's container runtime read the compression of the image?",
        "fail; without a runtime on PATH: warn if the site profile has `images.compression = 'gzip'`",
        "pkg/image/squashfs.go of sylabs/singularity@122624af, 4.3; Apptainer 1.3.6 and 1.4.5, tested",
        _compression,
    ),
    CompatRule(
        "libc",
        "If host libraries are loaded into the image: is it built on glibc?",
        "fail; warn if no MPI, libfabric or plugin is found in it",
        "openwall.com/lists/musl/2019/02/26/4: programs compiled for glibc must be recompiled",
        _libc,
    ),
    CompatRule(
        "bash",
        "Does the image have /bin/bash?",
        "warn",
        "the run scripts of hpcmod start with `#!/bin/bash`",
        _bash,
    ),
    CompatRule(
        "libraries",
        "Does the loader find every library that the image's MPI, libfabric and network plugins need, with the host's "
        "in place?",
        "fail; warn for optional libraries, for a plugin on a machine without Slingshot and without host "
        "libraries, and if the image computes LD_LIBRARY_PATH",
        "ld.so(8) of glibc 2.36, the order of search",
        _libraries,
    ),
    CompatRule(
        "versions",
        "Does each of these libraries define the symbol versions that the others need?",
        "fail; warn for optional libraries, for a plugin on a machine without Slingshot and without host "
        "libraries, and if the image computes LD_LIBRARY_PATH",
        "ld.so of glibc 2.36: `version X not found (required by Y)`; seen with libfabric 1.17 and 2.1 and an "
        "aws-ofi-nccl 1.20.0 plugin, Debian, 2026; apptainer/apptainer issues 598, 945 and 2421 for glibc and --nv",
        _versions,
    ),
    *NETWORK_RULES,
    *GPU_RULES,
)
"""All rules, in the order in which their findings are shown."""
