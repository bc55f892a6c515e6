"""Environment definition files (EDF) of CSCS's Container Engine and Sarus Suite: an easyconfig for each.

What each key becomes: docs/how-to/import.md. Sources, read 2026-11:
https://docs.cscs.ch/software/container-engine/edf/, https://docs.cscs.ch/software/container-engine/resource-hook/
(annotations) and, for `devices`,
https://github.com/eth-cscs/cscs-docs/blob/main/docs/software/container-engine/sarus-suite/user-guide.md.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from hpcmod.errors import BadInputError
from hpcmod.importing.carried import Findings, carry_environment, report_binds_by_hand, shown_text
from hpcmod.importing.edf_files import EdfPath, EnvironmentFile, read_edf
from hpcmod.importing.formats import ImportFormat, ImportOption, Watch
from hpcmod.importing.mounts import make_bind, shell_text
from hpcmod.importing.outcome import (
    UNPINNED,
    ImportedEasyconfig,
    Outcome,
    choose_version,
    convert_files,
    describe_registry_image,
    settle_names,
    with_registry,
)
from hpcmod.importing.variables import Variables
from hpcmod.model.images.reference import ImageReference

_TRUE, _FALSE = "true", "false"
_CXI, _OFI_NCCL = "com.hooks.cxi.enabled", "com.hooks.aws_ofi_nccl."
_BY_PROFILE = {
    _CXI: "the site profile decides whether the host's libfabric replaces the image's",
    _OFI_NCCL: "the site profile chooses the network plugin of NCCL or RCCL",
    "com.hooks.netstack.": "the site profile chooses the host's network libraries",
}
_INSTEAD = {
    "com.hooks.ssh.": "use `hpcmod code` for an editor, `srun --overlap --pty start-shell` for a shell in a job",
    "com.hooks.nvidia_cuda_mps.": "start nvidia-cuda-mps-control in the job, see docs/reference/gpus.md",
    "com.sarus.": "a setting of Sarus Suite, which has no effect here",
}
_NOTHING = "hpcmod has nothing that corresponds to it"
_DEVICES = {
    "nvidia.com/gpu=all": "",
    "amd.com/gpu=all": "",
    "hpe.com/cxi=all": "",
    "alps.cscs/cxi": _BY_PROFILE[_CXI],
    "alps.cscs/aws-ofi-nccl": _BY_PROFILE[_OFI_NCCL],
}
"""Devices with what decides about them; empty: the module has them anyway."""

_USER = re.compile(r"(?P<user>[^@/:#]+)@(?!sha256:)(?P<rest>.+)", re.DOTALL)


def import_edf(
    paths: Iterable[Path], *, environ: Mapping[str, str], working: Path, expand: bool
) -> tuple[Outcome, ...]:
    """Convert environment definition files, and all below directories.

    Parameters
    ----------
    environ
        Environment of the user: for EDF_PATH, HOME and, if `expand`, the variables in the files.
    working
        The directory to which relative paths of `base_environment` refer.
    expand
        Replace variables by their values; if not, what depends on them is left out.
    """
    variables = Variables(environ, bare=False) if expand else Variables(complete=False, bare=False)
    search = EdfPath.of(environ, working)
    return settle_names(
        convert_files(
            paths,
            ".toml",
            lambda text, path: [convert_edf(read_edf(text, path, search, variables), path, variables)],
        )
    )


def convert_edf(edf: EnvironmentFile, path: Path, variables: Variables) -> ImportedEasyconfig:
    """Convert a file that is merged with those that it inherits from.

    Raises
    ------
    BadInputError
        If its image is missing, not in a registry, or has neither a digest nor a tag.
    """
    said = Findings(notes=list(edf.notes))
    reference = edf_image(edf.image, variables, said)
    name = path.name.removesuffix(".toml")
    easyconfig, left_out = describe_registry_image(
        name,
        choose_version(reference),
        reference,
        description=f"Environment {name}: {reference.repository.rpartition('/')[2]} from {reference.registry}",
        url="",
        commands=None,
        environment=carry_environment(edf.env, variables, said, empty="the file would unset it"),
    )
    easyconfig = replace(
        easyconfig, bind_paths=_binds(edf, variables, said), netstack=_netstack(dict(edf.annotations), said)
    )
    _report_devices(edf, said)
    _report_start(edf, said)
    said.left_out += [*left_out, *(f"the unknown key {key}" for key in edf.unknown)]
    if not reference.pinned:
        said.notes.append(UNPINNED)
    return ImportedEasyconfig(
        str(path), easyconfig, tuple(said.left_out), tuple(said.notes), changed=tuple(said.changed)
    )


def edf_image(given: str, variables: Variables, said: Findings) -> ImageReference:
    """Return the image of `[USER@][REGISTRY#]IMAGE[:TAG]`, or of a registry name with slashes."""
    if not given:
        raise BadInputError("it names no image: only other environments can use it, as base_environment", "")
    try:
        text = variables.substitute(given)
    except BadInputError as err:
        raise BadInputError(f"its image {shown_text(given)!r}: {err.message}; try --expand", "") from err
    if text.startswith((".", "/", "~")) or text.endswith((".sqsh", ".squashfs")):
        raise BadInputError(
            f"its image {shown_text(text)!r} is a squashfs file: name the registry image it comes from, or make a SIF "
            "(unsquashfs -d DIR FILE; apptainer build NAME_VERSION.sif DIR) and use hpcmod import sif",
            "",
        )
    user = _USER.fullmatch(text.removeprefix("docker://"))
    if user:
        said.left_out.append(
            f"the registry's user {user['user']}: log in with apptainer registry login, or skopeo login"
        )
    place = user["rest"] if user else text.removeprefix("docker://")
    registry, mark, image = place.rpartition("#")
    return ImageReference.parse(f"docker://{registry}/{image}" if mark else f"docker://{with_registry(place)}")


def _binds(edf: EnvironmentFile, variables: Variables, said: Findings) -> tuple[str, ...]:
    """Return the binds; a later mount hides an earlier one at the same place."""
    chosen: dict[str, str] = {}
    by_hand: list[str] = []
    for given in edf.mounts:
        try:
            source, destination, flags = _split(variables.substitute(given))
            if source in ("tmpfs", "umount"):
                raise BadInputError(f"it is no bind: singularity exec --scratch {destination}", "")
            bind, lost = make_bind(source, destination, flags)
        except BadInputError as err:
            said.left_out.append(f"the mount {shown_text(given)}: {shown_text(err.message)}")
            if "$" in given or given.startswith("./"):
                by_hand.append(given)
            continue
        chosen.pop(destination, None)
        chosen[destination] = bind
        if lost:
            said.left_out.append(f"{', '.join(lost)} of the mount {shown_text(given)}: the runtime decides")
    report_binds_by_hand(by_hand, said)
    return tuple(chosen.values())


def _split(mount: str) -> tuple[str, str, list[str]]:
    parts = mount.split(":")
    if len(parts) > 3:
        raise BadInputError("it is not SOURCE:DESTINATION[:FLAGS]", "")
    source, destination, flags = (*parts, "", "")[:3]
    return source, destination or source, re.split("[+,]", flags) if flags else []


def _netstack(annotations: Mapping[str, str], said: Findings) -> str:
    """Return the mode of the host's network libraries; report the annotations."""
    off = annotations.get(_CXI) == _FALSE and annotations.get(f"{_OFI_NCCL}enabled") != _TRUE
    groups: dict[str, list[str]] = {}
    for name, value in annotations.items():
        if not (off and name == _CXI):
            known = (text for start, text in (_BY_PROFILE | _INSTEAD).items() if name.startswith(start))
            groups.setdefault(next(known, _NOTHING), []).append(f"{shown_text(name)} = {shown_text(value)}")
    for text, names in groups.items():
        clauses = said.changed if text in _BY_PROFILE.values() else said.left_out
        clauses.append(f"the annotation{'s' if len(names) > 1 else ''} {', '.join(names)}: {text}")
    return "off" if off else ""


def _report_devices(edf: EnvironmentFile, said: Findings) -> None:
    for device in edf.devices:
        decides = _DEVICES.get(device, _DEVICES.get(device.partition("=")[0]))
        if decides:
            said.changed.append(f"the device {shown_text(device)}: {decides}")
        elif decides is None and device.startswith("/dev/"):
            said.changed.append(f"the device {shown_text(device)}: the container has all of the host's /dev")
        elif decides is None:
            said.left_out.append(f"the device {shown_text(device)}: request it from the scheduler: srun --gpus=N")


def _report_start(edf: EnvironmentFile, said: Findings) -> None:
    """Report how the container starts: directory, entry point, and whether it is writable."""
    if edf.workdir:
        said.left_out.append(
            f"workdir {shown_text(edf.workdir)}: singularity exec --pwd {shell_text(shown_text(edf.workdir))} $SIF"
        )
    if edf.entrypoint is not False:
        why = "" if edf.entrypoint else ", which runs by default"
        said.left_out.append(f"the image's entry point{why}: singularity run $SIF COMMAND starts it")
    if edf.writable is not False:
        why = "" if edf.writable else ", the default"
        said.left_out.append(f"a writable container{why}: singularity exec --writable-tmpfs $SIF")


def _convert(paths: Iterable[Path], _: Watch, *, expand: bool = False) -> tuple[Outcome, ...]:
    return import_edf(paths, environ=os.environ, working=Path.cwd(), expand=expand)


FORMAT = ImportFormat(
    "Convert environment definition files (EDF, TOML) of CSCS's Container Engine and Sarus Suite.",
    _convert,
    examples=("~/.edf --output ours", "pytorch.toml --dry-run", "pytorch.toml --expand --output mine"),
    options=(
        ImportOption(
            "expand", "Replace ${VARIABLE} by its present value, for an easyconfig of your own (default: leave out)."
        ),
    ),
)
