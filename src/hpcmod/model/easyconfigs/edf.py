"""Turn an easyconfig into an environment definition file (EDF) for CSCS's Container Engine and Sarus Suite.

What becomes of each parameter: docs/reference/export-keys.md. The file has what `hpcmod import edf` carries, so that a
file survives both directions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hpcmod.errors import BadInputError, HpcmodError
from hpcmod.model.bind import Bind
from hpcmod.model.easyconfigs.easyconfig_text import CONSTANTS, templates_of
from hpcmod.model.easyconfigs.static_values import read_static_values
from hpcmod.model.images.reference import ImageReference
from hpcmod.model.spec import why_no_variable

SQUASHFS = "image-src=/"
"""Option of a bind whose source is a squashfs file; an EDF has `sqsh` for it."""

_TREATED = (
    *("name", "version", "versionsuffix", "description", "image", "sources", "bind_paths", "environment", "netstack"),
)
"""Parameters that the file has in some form, or for which the report has a clause of its own."""

_WITHOUT_EFFECT = (
    *("easyblock", "toolchain", "moduleclass", "site_profile", "install_mode", "checksums", "sanity_check_paths"),
    *("enhance_sanity_check", "download_instructions", "source_urls"),
)
"""Parameters that say how the module is installed, not how the container runs."""

_INSTEAD = {
    "wrapped_commands": "write `srun --environment=NAME COMMAND` for each command",
    "user_packages": "put them into the image: hpcmod bake NAME",
    "homepage": "it only informs users",
    "sanity_check_commands": "run them yourself",
    "modextravars": "set them in the job script, outside the container",
}
_CXI = "com.hooks.cxi.enabled"
_NETSTACK = {"off": "false", "swap": "true"}
_OF_MODULE = (
    "run scripts, wrappers and your own packages: they belong to the module",
    "binds and variables of the site profile: the Container Engine mounts and sets its own",
)
_LONGEST_SHOWN = 400  # characters of a value in a message


@dataclass(frozen=True)
class EdfText:
    """Content of an environment definition file; all strings may be hostile, because they are written as data."""

    name: str
    """Name of the file without .toml, which is the name of the environment."""
    image: str
    """`REGISTRY#NAME:TAG`, or the path of a squashfs file."""
    module: str
    """The module that the easyconfig makes, for a comment."""
    description: str
    mounts: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    annotations: tuple[tuple[str, str], ...]
    left_out: tuple[str, ...]
    """What the file does not have, one clause each."""
    changed: tuple[str, ...]
    """What has a different effect than in the module, one clause each."""


def make_edf(text: str, where: str, *, image: str = "") -> EdfText:
    """Return the environment definition file for an easyconfig, which is read and never run.

    Parameters
    ----------
    image
        Image to name instead of the easyconfig's: `docker://...`, or the absolute path of a squashfs file.

    Raises
    ------
    BadInputError
        If it is not an easyconfig of a container, or its image is not in a registry that the Container Engine can use.
    """
    static = read_static_values(text, where, constants=CONSTANTS)
    values, unknown = static.known, static.unknown
    if values.get("easyblock") != "ContainerModule":
        raise BadInputError(
            f"{where}: its easyblock is {values.get('easyblock')!r}, expected 'ContainerModule'",
            "Give the easyconfig of a container, or the name of an installed container.",
        )
    templates = templates_of(values)
    lost = [f"{name}: its value is not known without EasyBuild: {why}" for name, why in unknown.items()]
    changed: list[str] = []
    version = f"{templates['version']}{templates['versionsuffix']}"
    reference = _image(values, templates, image, where)
    if not _is_version_of(reference, version):
        changed.append(f"the version {version}: the environment has only a name")
    edf = EdfText(
        name=templates["name"],
        image=_written(reference),
        module=f"{templates['name']}/{version}",
        description=" ".join(_filled(str(values.get("description", "")), templates).split()),
        mounts=tuple(_mounts(values.get("bind_paths", []), templates, lost)),
        env=tuple(_variables(values.get("environment", {}), templates, lost)),
        annotations=tuple(_annotations(values.get("netstack"), changed)),
        left_out=(),
        changed=(),
    )
    if edf.env:
        changed.append("variables of the file win over those that you set before the job")
    lost += _others(values)
    return replace(edf, left_out=(*lost, *_OF_MODULE), changed=tuple(changed))


def _image(values: Mapping[str, Any], templates: Mapping[str, str], given: str, where: str) -> ImageReference:
    source = values.get("image") or next(iter(_list(values.get("sources"))), None)
    named = source.get("filename") if isinstance(source, Mapping) else source
    text = given or (_filled(named, templates) if isinstance(named, str) else "")
    cure = "Name its image in a registry, or a squashfs file made from it: --image docker://... or --image /PATH.sqsh"
    if not text:
        raise BadInputError(f"{where}: the image cannot be determined without EasyBuild", cure)
    reference = ImageReference.parse(text)
    is_squashfs = reference.kind == "path" and bool(given) and text.startswith("/")
    if reference.kind != "docker" and not is_squashfs:
        raise BadInputError(f"{where}: the Container Engine cannot use the image {text}", cure)
    if is_squashfs and "$" in text:
        raise BadInputError(f"--image {text}: the Container Engine would replace the variable", "Rename the file.")
    return reference


def _written(reference: ImageReference) -> str:
    """Return an image in the Container Engine's own form, in which `#` ends the registry."""
    if reference.kind == "path":
        return reference.path
    place = reference.canonical.removeprefix("docker://")
    return f"{reference.registry}#{place.removeprefix(f'{reference.registry}/')}"


def _is_version_of(reference: ImageReference, version: str) -> bool:
    """Return whether `hpcmod import edf` would give this version to the image."""
    return reference.kind == "docker" and version in (
        reference.tag,
        f"{reference.tag or 'sha256'}-{reference.digest[7:15]}" if reference.pinned else "",
    )


def _mounts(given: object, templates: Mapping[str, str], lost: list[str]) -> Iterator[str]:
    """Yield the binds as mounts SOURCE:DESTINATION[:FLAG]."""
    for text in _list(given):
        why = ""
        try:
            bind = Bind.parse(_filled(str(text), templates))
        except HpcmodError as err:
            lost.append(f"the bind {_shown(text)}: {err.message}")
            continue
        flags = set(filter(None, bind.options.split(","))) - {"rw"}
        if bind.pattern:
            why = "the Container Engine has no patterns"
        elif re.search(r"[:,$]", f"{bind.source}{bind.place}"):
            why = "the Container Engine has no way to write this path"
        elif flags - {"ro", SQUASHFS}:
            why = f"the Container Engine has no option {', '.join(sorted(flags - {'ro', SQUASHFS}))}"
        if why:
            lost.append(f"the bind {_shown(text)}: {why}")
            continue
        flag = ":sqsh" if SQUASHFS in flags else ":ro" if "ro" in flags else ""
        yield f"{bind.source}:{bind.place}{flag}"


def _variables(given: object, templates: Mapping[str, str], lost: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the variables of the container; `$` cannot occur, because easyconfigs cannot have it."""
    for name, value in given.items() if isinstance(given, Mapping) else ():
        filled = _filled(value, templates) if isinstance(value, str) else value
        why = why_no_variable(name, filled)
        if why:
            lost.append(f"the variable {_shown(name)}: {why}")
        else:
            yield name, filled


def _annotations(netstack: object, changed: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the annotation for the mode of the host's network libraries."""
    if netstack in _NETSTACK:
        yield _CXI, _NETSTACK[str(netstack)]
    if netstack == "swap":
        changed.append("netstack = 'swap': the Container Engine's own hook replaces the image's libfabric")
    elif netstack != "off":
        changed.append("netstack: the Container Engine decides whether the host's libfabric replaces the image's")


def _others(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield a clause for each other parameter with a value."""
    for name, value in values.items():
        if name in _TREATED or name in _WITHOUT_EFFECT or not value or name.startswith("local_"):
            continue
        yield f"{name}: {_INSTEAD.get(name, 'an EDF has nothing that corresponds to it')}"


def _filled(text: str, templates: Mapping[str, str]) -> str:
    """Substitute the known templates of EasyBuild; `%%(name)s` means the text %(name)s."""
    return re.sub(
        r"%%(?=%*\(\w+\)s)|%\((\w+)\)s",
        lambda match: "%" if match[0] == "%%" else templates.get(match[1], match[0]),
        text,
    )


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()


def _shown(value: object) -> str:
    return str(value)[:_LONGEST_SHOWN]
