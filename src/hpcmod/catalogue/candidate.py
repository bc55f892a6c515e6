"""What somebody wants published, an image or an easyconfig, as one value: its name, its image, its easyconfig."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hpcmod.catalogue.visible import easyconfig_name
from hpcmod.errors import BadInputError, NotFoundError
from hpcmod.fs.reading import UnusableFileError, read_text
from hpcmod.image.contents import read_facts
from hpcmod.image.locate import find_image, image_directories, recognize
from hpcmod.image.source import ImageSource, make_source
from hpcmod.model.catalogue.record import is_file_name
from hpcmod.model.easyconfig_text import CONSTANTS, fill_templates, read_named_image, templates_of
from hpcmod.model.python_text import assign_strings
from hpcmod.model.reference import LOCAL_KINDS, ImageReference
from hpcmod.model.spec import Commands, parse_commands
from hpcmod.model.static_values import read_static_values
from hpcmod.render.easyconfig import EasyconfigText, render_easyconfig

_LIMIT = 1 << 20  # bytes of an easyconfig
_WHOLE = ("docker", "oras", "library")
_DESCRIPTION, _URL = "org.opencontainers.image.description", "org.opencontainers.image.url"
_TITLE, _VERSION = "org.opencontainers.image.title", "org.opencontainers.image.version"


@dataclass(frozen=True)
class Request:
    """What is asked for."""

    what: str
    """An easyconfig, or a reference to an image."""
    name: str = ""
    version: str = ""
    """With the suffix; name and version may be left out where the image's labels or the easyconfig tell."""
    description: str = ""
    homepage: str = ""
    moduleclass: str = "ai"
    checksum: str | None = None
    aliases: tuple[str, ...] = ()
    """Names that are to lead to it."""
    checks: tuple[str, ...] = ()
    """Commands that must succeed with the module loaded: here, and as a job step where there is Slurm."""
    job_checks: tuple[str, ...] = ()
    """Commands that are run as a job step only."""
    commands: tuple[str, ...] = ()
    """Commands of the image to put on PATH: NAME, or NAME=PATH in the image; empty: the well-known ones."""
    misfit: bool = False
    """Whether it is wanted although it does not fit the machine that publishes."""
    readers: str = ""
    """The group that may read the image; empty: everybody, or as published before."""
    licence: str = ""
    """File with a text that users must accept once; empty: none, or as published before."""


@dataclass(frozen=True)
class Candidate:
    """A container that may be published."""

    name: str
    version: str
    """With the suffix."""
    reference: ImageReference
    """What to get its image by."""
    sif: str
    """File name that the SIF gets."""
    checksum: str | None
    description: str = ""
    homepage: str = ""
    moduleclass: str = "ai"
    commands: Commands = ()
    """Commands to put on PATH; empty: the well-known ones."""
    text: str = field(default="", repr=False)
    """The easyconfig that was given; empty: one is to be written."""

    @property
    def module(self) -> str:
        """Short module name."""
        return f"{self.name}/{self.version}"

    @property
    def easyconfig(self) -> str:
        """File name of the easyconfig, by EasyBuild's rule."""
        return easyconfig_name(self.name, self.version)


def choose_candidate(request: Request, *, central: Sequence[str] = ()) -> Candidate:
    """Decide what is to be published; of an image that lies on disk the labels name what the request does not.

    Parameters
    ----------
    central
        Directories in which the image of an easyconfig is looked for, after the easyconfig's own.

    Raises
    ------
    BadInputError
        If it has no name or version, or one that cannot be part of a module's.
    """
    if request.what.endswith(".eb"):
        if request.commands:
            raise BadInputError(
                "--command is for images; an easyconfig names its own",
                "Write wrapped_commands = ['NAME'] into the easyconfig.",
            )
        return _checked(request, _of_easyconfig(request, central))
    reference = ImageReference.parse(request.what)
    image = sif_on_disk(reference)
    if image is None and recognize(reference).kind in LOCAL_KINDS and not Path(reference.path).exists():
        raise NotFoundError(
            f"{request.what}: no such file", "Name an image, an easyconfig or a reference, e.g. docker://..."
        )
    known = bool(request.name and request.version) or image is None
    labels = {} if known else dict(read_facts(str(image)).labels)
    return _checked(request, _of_image(request, labels))


def describe_label_names(request: Request, *, central: Sequence[str] = ()) -> str:
    """Return which of name and version only the labels of the image decide, and from where; empty if none.

    Raises
    ------
    BadInputError
        As choose_candidate.
    """
    if request.what.endswith(".eb") or (request.name and request.version):
        return ""
    made = choose_candidate(request, central=central)
    fields = (("name", request.name, made.name, _TITLE), ("version", request.version, made.version, _VERSION))
    told = (f"the {field} {value} is from its label {label}" for field, asked, value, label in fields if not asked)
    return f"{request.what} would be published as {made.module}: " + ", and ".join(told)


def sif_on_disk(reference: ImageReference) -> Path | None:
    """Return the SIF that a reference names, if it is one on this machine: its facts are there to be read."""
    path = Path(reference.path)
    return path if recognize(reference).kind in LOCAL_KINDS and path.is_file() else None


def _checked(request: Request, made: Candidate) -> Candidate:
    bad = [text for text in (made.name, made.version, made.sif, made.easyconfig) if not is_file_name(text)]
    if bad:
        named = f"{bad[0]!r} cannot be part of the name of a module or of a file"
        unnamed = "no name or version given, and no image file whose labels have them"
        raise BadInputError(
            f"{request.what}: {named if bad[0] else unnamed}",
            "Say what it is to be called: --name PyTorch --version 2.7.1-rocm-6.2.4-singularity",
        )
    return made


def _of_image(request: Request, labels: Mapping[str, str]) -> Candidate:
    name, version = request.name or labels.get(_TITLE, ""), request.version or labels.get(_VERSION, "")
    return Candidate(
        name=name,
        version=version,
        reference=ImageReference.parse(request.what),
        sif=f"{name}-{version}.sif",
        checksum=request.checksum,
        description=request.description or labels.get(_DESCRIPTION, ""),
        homepage=request.homepage or labels.get(_URL, ""),
        moduleclass=request.moduleclass,
        commands=_read_commands(request.commands),
    )


def _read_commands(given: Sequence[str]) -> Commands:
    """Read NAME or NAME=PATH, PATH being that of a program in the image."""
    words = (text.partition("=") for text in given)
    return parse_commands({name: [path or name] for name, _, path in words})


def _of_easyconfig(request: Request, central: Sequence[str]) -> Candidate:
    path = Path(request.what)
    text = _read(path)
    known = read_static_values(text, str(path), constants=CONSTANTS).known
    templates = templates_of(known)
    values = {name: fill_templates(value, templates) for name, value in known.items() if isinstance(value, str)}
    named = read_named_image(text, str(path))
    version = values.get("version", "") + values.get("versionsuffix", "")
    for asked, found in ((request.name, named.software), (request.version, version)):
        if asked not in ("", found):
            raise BadInputError(
                f"{path}: makes {named.software}/{version}, not {asked!r}", "Leave --name and --version out."
            )
    source = make_source(named.reference, named.source_urls, request.checksum or named.checksum)
    if source.reference.kind == "path":  # eb would link to that very file, which its owner goes on changing
        raise BadInputError(
            f"{path}: names its image by a path, {named.reference}, which is not in the catalogue",
            f"Write sources = [{Path(named.reference).name!r}], and put a link to the image beside the easyconfig.",
        )
    return Candidate(
        name=named.software,
        version=version,
        reference=_locate(source, image_directories([str(path.parent)], named.software, central)),
        sif=source.reference.file_name,
        checksum=source.checksum,
        description=values.get("description", ""),
        homepage=values.get("homepage", ""),
        moduleclass=values.get("moduleclass", ""),
        text=text,
    )


def _read(path: Path) -> str:
    try:
        return read_text(path, _LIMIT)
    except FileNotFoundError as err:
        raise NotFoundError(f"{path}: no such file", "Name an image or an easyconfig.") from err
    except UnicodeDecodeError as err:
        raise BadInputError(f"{path}: is not written in UTF-8", "Save it as UTF-8.") from err
    except UnusableFileError as err:
        raise BadInputError(f"{path}: {err.strerror}", "Name an easyconfig.") from err


def _locate(source: ImageSource, directories: Sequence[str]) -> ImageReference:
    """Return what to get an easyconfig's image by: a file where it lies, else the first place that it names."""
    found = find_image(source.reference, directories)
    if found:
        return ImageReference.parse(str(found))
    if not source.origins:
        places = ", ".join(dict.fromkeys(directories))
        raise BadInputError(
            f"the image {source.reference} is in none of {places}, and the easyconfig names no source_urls",
            "Put it beside the easyconfig, or publish the image itself: hpcmod publish IMAGE",
        )
    return source.origins[0]


def make_easyconfig(candidate: Candidate, *, sha256: str, reference: str) -> str:
    """Write the easyconfig, or pin the one that was given.

    Parameters
    ----------
    reference
        Where the image came from, with its digest where it has one: others can get it from there.
    """
    if candidate.text:
        return with_checksum(candidate.text, sha256)
    version, dash, suffix = candidate.version.partition("-")
    whole = ImageReference.parse(reference).kind in _WHOLE
    return render_easyconfig(
        EasyconfigText(
            name=candidate.name,
            version=version,
            versionsuffix=dash + suffix,
            image=candidate.sif,
            source_urls=(reference,) if whole else (),
            download_instructions="" if whole else "The image is in the catalogue that published it",
            checksum=sha256,
            wrapped_commands=tuple(name for name, words in candidate.commands if words == (name,)),
            command_words=tuple((name, words) for name, words in candidate.commands if words != (name,)),
            description=candidate.description or f"{candidate.name} {candidate.version}, as a container",
            homepage=candidate.homepage,
            moduleclass=candidate.moduleclass,
        )
    )


def with_checksum(text: str, sha256: str) -> str:
    """Return an easyconfig with this checksum for its image; everything else stays as it is written."""
    return assign_strings(text, "checksums", [sha256])
