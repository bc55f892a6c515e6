"""Environment definition files (EDF) of CSCS's Container Engine and Sarus Suite: an easyconfig for each.

What each key becomes: docs/how-to/import.md. Sources, read 2026-11:
https://docs.cscs.ch/software/container-engine/edf/, https://docs.cscs.ch/software/container-engine/resource-hook/
(annotations) and, for `devices`,
https://github.com/eth-cscs/cscs-docs/blob/main/docs/software/container-engine/sarus-suite/user-guide.md.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.reference import ImageReference
from hpcmod.importing.edf_files import EdfPath, EnvironmentFile, literal_text, read_edf
from hpcmod.importing.formats import ImportFormat, ImportOption
from hpcmod.importing.outcome import (
    MOVING,
    UNPINNED,
    Findings,
    ImportedEasyconfig,
    Outcome,
    convert_files,
    of_registry,
    settle_names,
    shell_text,
    shown_text,
    with_registry,
)
from hpcmod.machine.values.bind import KERNEL, Bind, can_be_bound
from hpcmod.modules.values.easyconfig import EasyconfigText
from hpcmod.modules.values.spec import why_no_variable

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

_SQUASHFS = "image-src=/"
"""Option of a bind whose source is an image of a file system.

Source: https://apptainer.org/docs/user/latest/bind_paths_and_mounts.html, "Image Mounts", read 2026-11.
"""

_FLAGS = ("", "ro", "sqsh", "rw", "bind", "rbind", "nosuid", "nodev")
"""Flags of mounts that a bind has, or that describe what the runtime does anyway; and x-create=."""

_REFERENCE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*(?::-)?\}")
_USER = re.compile(r"(?P<user>[^@/:#]+)@(?!sha256:)(?P<rest>.+)", re.DOTALL)


def import_edf(
    paths: Iterable[Path], *, environ: Mapping[str, str], working: Path, image: str = ""
) -> tuple[Outcome, ...]:
    """Convert environment definition files, and all below directories.

    `image`: Reference of the image that is in the squashfs file which an environment names.
    `environ`: Environment of the user: for EDF_PATH and HOME.
    `working`: The directory to which relative paths of `base_environment` refer.
    """
    search, given = EdfPath.of(environ, working), list(paths)

    def convert(text: str, path: Path) -> list[Outcome]:
        edf = read_edf(text, path, search)
        is_other = bool(edf.unknown) and replace(edf, unknown=(), notes=()) == EnvironmentFile()  # pyproject.toml
        return [] if is_other and path not in given else [convert_edf(edf, path, image)]

    return settle_names(convert_files(given, ".toml", convert))


def convert_edf(edf: EnvironmentFile, path: Path, image: str = "") -> ImportedEasyconfig:
    """Convert a file that is merged with those that it inherits from.

    `image`: Reference of the image that is in its squashfs file.

    Raises BadInputError if its image is missing, not in a registry, or has neither a digest nor a tag.
    """
    said = Findings(notes=list(edf.notes))
    reference = _image(edf.image, image, said)
    name = path.name.removesuffix(".toml")
    easyconfig = EasyconfigText(
        name,
        _version(reference),
        "",
        f"Environment {name}: {reference.repository.rpartition('/')[2]} from {reference.registry}",
        environment=tuple(_environment(edf, said)),
        bind_paths=_binds(edf, said),
        netstack=_netstack(dict(edf.annotations), said),
    )
    _report_devices(edf, said)
    _report_start(edf, said)
    easyconfig = of_registry(easyconfig, reference, None, said)
    said.left_out += [f"the unknown key {key}" for key in edf.unknown]
    if not reference.pinned:
        said.notes.append(UNPINNED)
    return said.outcome(path, easyconfig)


def _image(given: str, packed: str, said: Findings) -> ImageReference:
    """Return the image of `[USER@][REGISTRY#]IMAGE[:TAG]`, of a registry name with slashes, or of a squashfs file."""
    if not given:
        raise BadInputError("it names no image: only other environments can use it, as base_environment", "")
    try:
        text = literal_text(given)
    except BadInputError as err:
        raise BadInputError(f"its image {shown_text(given)!r}: {err.message}", "") from err
    if text.startswith((".", "/", "~")) or text.endswith((".sqsh", ".squashfs")):
        if not packed:
            raise BadInputError(
                "its image is a squashfs file. If you know the registry image that it was made from, add --image "
                "docker://HOST/NAME:TAG; else make a SIF (unsquashfs -d DIR FILE; apptainer build NAME_VERSION.sif "
                f"DIR) and use hpcmod import sif: {shown_text(text)!r}",
                "",
            )
        said.changed.append(f"the image comes from the registry, not from the squashfs file: {shown_text(text)}")
        text = packed
    user = _USER.fullmatch(text.removeprefix("docker://"))
    if user:
        said.left_out.append(
            f"the registry's user {user['user']}: log in with apptainer registry login, or skopeo login"
        )
    place = user["rest"] if user else text.removeprefix("docker://")
    registry, mark, image = place.rpartition("#")
    return ImageReference.parse(f"docker://{registry}/{image}" if mark else f"docker://{with_registry(place)}")


def _version(reference: ImageReference) -> str:
    """Return the version of the module by the tag of its image, or by the digest."""
    if reference.tag == "latest" and not reference.pinned:
        raise BadInputError(f"{MOVING}: give a tag", "")
    if reference.tag and reference.tag != "latest":
        return reference.tag
    return f"{reference.tag or 'sha256'}-{reference.digest[7:15]}"


def _environment(edf: EnvironmentFile, said: Findings) -> list[tuple[str, str]]:
    """Return the variables that an easyconfig can set; report the others."""
    chosen = []
    for name, given in edf.env:
        try:
            value = literal_text(given)
            reason = why_no_variable(name, value)
        except BadInputError as err:
            value, reason = given, err.message
        if reason:
            said.left_out.append(f"the variable {shown_text(name)}: {shown_text(reason)}{_how_to_set(name, given)}")
            continue
        chosen.append((name, value))
        if not value:
            said.changed.append(f"the variable {name} is empty in the container; the file would unset it")
    if chosen:
        said.changed.append("variables that you set before loading the module win over those of the file")
    return chosen


def _how_to_set(name: str, given: str) -> str:
    """Return how a user can set a variable of the container; empty if that is not possible.

    Notes
    -----
    The runtime evaluates these variables in the container: text with other expansions would be run as code there.
    """
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) or re.search(r"[$`\\]", _REFERENCE.sub("", given)):
        return ""
    after = given.removeprefix(f"${{{name}}}:")
    if name == "PATH" and after != given:
        name, given = "APPEND_PATH", after
    elif name == "PATH" and given.endswith(":${PATH}"):
        first = shell_text(f"{shown_text(given.removesuffix('${PATH}'))}${{SINGULARITYENV_PREPEND_PATH}}")
        both = f"SINGULARITYENV_PREPEND_PATH={first} APPTAINERENV_PREPEND_PATH={first}"
        return f"; after loading the module: export {both}"
    return f"; after loading the module: export SINGULARITYENV_{name}={shell_text(shown_text(given))}"


def _binds(edf: EnvironmentFile, said: Findings) -> tuple[str, ...]:
    """Return the binds; a later mount hides an earlier one at the same place."""
    chosen: dict[str, str] = {}
    by_hand: list[str] = []
    for mount in edf.mounts:
        try:
            source, destination, flags = _split(literal_text(mount))
            bind = _bind(source, destination, flags)
        except BadInputError as err:
            said.left_out.append(f"the mount {shown_text(mount)}: {shown_text(err.message)}")
            if "$" in mount or mount.startswith("./"):
                by_hand.append(_bind_by_hand(mount))
            continue
        chosen.pop(destination, None)
        chosen[destination] = bind
        lost = [flag for flag in flags if flag not in _FLAGS and not flag.startswith("x-create=")]
        if lost:
            said.left_out.append(f"{', '.join(lost)} of the mount {shown_text(mount)}: the runtime decides")
    if by_hand:
        listed = shell_text(",".join(by_hand))
        said.left_out.append(f"for these mounts, before loading the module: export SINGULARITY_BINDPATH={listed}")
    return tuple(chosen.values())


def _split(mount: str) -> tuple[str, str, list[str]]:
    parts = mount.split(":")
    if len(parts) > 3:
        raise BadInputError("it is not SOURCE:DESTINATION[:FLAGS]", "")
    source, destination, flags = (*parts, "", "")[:3]
    if source in ("tmpfs", "umount"):
        raise BadInputError(f"it is not a bind path: singularity exec --scratch {destination}", "")
    return source, destination or source, re.split("[+,]", flags) if flags else []


def _bind(source: str, destination: str, flags: Sequence[str]) -> str:
    """Return a mount as a bind path of an easyconfig.

    Raises BadInputError if an easyconfig cannot describe it.
    """
    for role, path in (("source", source), ("destination", destination)):
        if not path.startswith("/"):
            raise BadInputError(f"its {role} {path!r} is not an absolute path", "")
        if not can_be_bound(path):
            raise BadInputError(f"its {role} {path!r} contains a character that a bind path cannot have", "")
    if re.search(r"[*?]", source) or KERNEL in source:
        raise BadInputError(f"its source {source!r} would be a pattern in a bind path", "")
    option = _option(flags)
    return str(Bind(source, "" if destination == source and not option else destination, option))


def _option(flags: Sequence[str]) -> str:
    """Return the option of a bind for the flags of a mount."""
    if "sqsh" in flags:
        return _SQUASHFS
    return "ro" if "ro" in flags else ""


def _bind_by_hand(mount: str) -> str:
    """Return a mount as a bind of the runtime, with the working directory of the user as a variable."""
    text = re.sub(r"^\./", "${PWD}/", shown_text(mount))
    flags = re.search(r":([A-Za-z+,=-]+)$", text)
    if not flags:
        return text
    option = _option(re.split("[+,]", flags[1]))
    return text[: flags.start()] + (f":{option}" if option else "")


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


FORMAT = ImportFormat(
    "Convert environment definition files (EDF, TOML) of CSCS's Container Engine and Sarus Suite.",
    lambda paths, _, image="": import_edf(paths, environ=os.environ, working=Path.cwd(), image=image),
    examples=("~/.edf --output ours", "pytorch.toml --image docker://nvcr.io/nvidia/pytorch:24.05-py3 --dry-run"),
    options=(
        ImportOption("image", "Registry image that the squashfs file in an environment was made from.", "REFERENCE"),
    ),
)
