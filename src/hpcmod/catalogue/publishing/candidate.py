"""What to publish, from an image or an easyconfig: its name, its image, its easyconfig."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hpcmod.catalogue.visible.modulefiles import easyconfig_name
from hpcmod.core.errors import BadInputError, NotFoundError
from hpcmod.core.values.facts import Package
from hpcmod.core.values.reference import LOCAL_KINDS, ImageReference
from hpcmod.core.values.text import is_file_name
from hpcmod.images import Sif, recognize
from hpcmod.modules import ImageSource, image_directories, read_recipe, render_easyconfig
from hpcmod.modules.values.easyconfig import EasyconfigText, SifOrigin
from hpcmod.modules.values.easyconfig_text import CONSTANTS, fill_templates, read_named_image, templates_of
from hpcmod.modules.values.image_name import choose_module_class, name_of_reference
from hpcmod.modules.values.python_text import assign_strings
from hpcmod.modules.values.spec import Commands, parse_commands
from hpcmod.modules.values.static_values import read_static_values

_WHOLE = ("docker", "oras")
_DESCRIPTION, _URL = "org.opencontainers.image.description", "org.opencontainers.image.url"
_TITLE, _VERSION = "org.opencontainers.image.title", "org.opencontainers.image.version"


@dataclass(frozen=True)
class Request:
    """What the user wants to publish."""

    what: str
    """An easyconfig, or a reference to an image."""
    name: str = ""
    version: str = ""
    """With the suffix; name and version are optional if the image's labels or the easyconfig have them."""
    description: str = ""
    homepage: str = ""
    checksum: str | None = None
    aliases: tuple[str, ...] = ()
    """Names that will point to it."""
    checks: tuple[str, ...] = ()
    """Commands that must succeed with the module loaded: here, and as a job step if the scheduler is available."""
    job_checks: tuple[str, ...] = ()
    """Commands that are only run as a job step."""
    commands: tuple[str, ...] = ()
    """Commands of the image to put on PATH: NAME, or NAME=PATH in the image; if empty, the well-known ones."""
    misfit: bool = False
    """Whether to publish it although it does not fit this machine."""
    readers: str = ""
    """The group that may read the image; empty for everyone, or as published before."""
    licence: str = ""
    """File with a text that users must accept once; empty for none, or as published before."""


@dataclass(frozen=True)
class Candidate:
    """A container to be published."""

    name: str
    version: str
    """With the suffix."""
    reference: ImageReference
    """Where to get its image."""
    sif: str
    """File name of the SIF."""
    checksum: str | None
    description: str = ""
    homepage: str = ""
    commands: Commands = ()
    """Commands to put on PATH; if empty, the well-known ones."""
    text: str = field(default="", repr=False)
    """The easyconfig that was given; empty if one is to be written."""
    guesses: tuple[str, ...] = ()
    """Where name and version come from, if the user did not give them, one clause each."""

    @property
    def module(self) -> str:
        """Return the short module name."""
        return f"{self.name}/{self.version}"

    @property
    def easyconfig(self) -> str:
        """Return the file name of the easyconfig, following EasyBuild's rule."""
        return easyconfig_name(self.name, self.version)


def choose_candidate(
    request: Request,
    *,
    central: Sequence[str] = (),
    read_labels: Callable[[ImageReference], Mapping[str, str]] | None = None,
) -> Candidate:
    """Return what is to be published; the image's reference, else its labels supply what the request leaves out.

    `central`: Directories in which to look for the image of an easyconfig, after the easyconfig's own directory.
    `read_labels`: Returns the labels of an image, if they are needed; by default only those of a SIF on disk.

    Raises BadInputError if the name or version is missing, or is not valid in a module name.
    """
    if request.what.endswith(".eb"):
        if request.commands:
            raise BadInputError(
                "--command works with images only; an easyconfig has its own list",
                "Write wrapped_commands = ['NAME'] into the easyconfig.",
            )
        return _checked(request, _of_easyconfig(request, central))
    reference = ImageReference.parse(request.what)
    image = sif_on_disk(reference)
    if image is None and recognize(reference).kind in LOCAL_KINDS and not Path(reference.path).exists():
        raise NotFoundError(
            f"{request.what}: no such file", "Give an image, an easyconfig or a reference, e.g. docker://..."
        )
    return _checked(request, _of_image(request, recognize(reference), read_labels or _labels_on_disk))


def _labels_on_disk(reference: ImageReference) -> Mapping[str, str]:
    image = sif_on_disk(reference)
    return dict(Sif(image).facts().labels) if image else {}


def sif_on_disk(reference: ImageReference) -> Path | None:
    """Return the path of the SIF that a reference names, if it is a file on this machine and so can be read."""
    path = Path(reference.path)
    return path if recognize(reference).kind in LOCAL_KINDS and path.is_file() else None


def _checked(request: Request, made: Candidate) -> Candidate:
    if not made.version:
        raise BadInputError(
            f"{request.what}: neither its reference nor its labels give a version", "Set it: --version 2.7.1"
        )
    bad = [text for text in (made.name, made.version, made.sif, made.easyconfig) if not is_file_name(text)]
    if bad:
        raise BadInputError(
            f"{request.what}: {bad[0]!r} is not valid in a module name or file name",
            "Set its name and version: --name PyTorch --version 2.7.1-rocm-6.2.4-singularity",
        )
    return made


def _of_image(
    request: Request, reference: ImageReference, read_labels: Callable[[ImageReference], Mapping[str, str]]
) -> Candidate:
    """Return an image as a candidate; labels come last, because an image inherits them: 22.04 is Ubuntu's."""
    said, number = name_of_reference(reference)
    certain = bool(number or reference.repository)
    unknown = not (request.name or certain) or not (request.version or number)
    labels = read_labels(reference) if unknown else {}
    title = "" if certain else labels.get(_TITLE, "")
    name, version = request.name or title or said, request.version or number or labels.get(_VERSION, "")
    origins = (
        ("name", name, request.name, f"its label {_TITLE}" if title else "its reference"),
        ("version", version, request.version, "its reference" if number else f"its label {_VERSION}"),
    )
    return Candidate(
        name=name,
        version=version,
        reference=ImageReference.parse(request.what),
        sif=f"{name}-{version}.sif",
        checksum=request.checksum,
        description=request.description or labels.get(_DESCRIPTION, ""),
        homepage=request.homepage or labels.get(_URL, ""),
        commands=_read_commands(request.commands),
        guesses=tuple(f"the {field} {value} comes from {place}" for field, value, given, place in origins if not given),
    )


def _read_commands(given: Sequence[str]) -> Commands:
    """Parse NAME or NAME=PATH, where PATH is a program in the image."""
    words = (text.partition("=") for text in given)
    cure = "Give it another name: --command NAME=PROGRAM, a program of the image by name or path."
    return parse_commands({name: [path or name] for name, _, path in words}, "--command", cure) or ()


def _of_easyconfig(request: Request, central: Sequence[str]) -> Candidate:
    path = Path(request.what)
    text = read_recipe(path)
    known = read_static_values(text, str(path), constants=CONSTANTS).known
    templates = templates_of(known)
    values = {name: fill_templates(value, templates) for name, value in known.items() if isinstance(value, str)}
    named = read_named_image(text, str(path))
    version = values.get("version", "") + values.get("versionsuffix", "")
    for asked, found in ((request.name, named.software), (request.version, version)):
        if asked not in ("", found):
            raise BadInputError(
                f"{path}: makes {named.software}/{version}, not {asked!r}", "Omit --name and --version."
            )
    source = ImageSource.make(named.reference, named.source_urls, request.checksum or named.checksum)
    if source.reference.kind == "path":  # eb would link to that file, which its owner can still change
        raise BadInputError(
            f"{path}: names its image by a path, {named.reference}, which is not in the catalogue",
            f"Write sources = [{Path(named.reference).name!r}], and put a link to the image next to the easyconfig.",
        )
    return Candidate(
        name=named.software,
        version=version,
        reference=_locate(source, image_directories([str(path.parent)], named.software, central)),
        sif=source.reference.file_name,
        checksum=source.checksum,
        description=values.get("description", ""),
        homepage=values.get("homepage", ""),
        text=text,
    )


def _locate(source: ImageSource, directories: Sequence[str]) -> ImageReference:
    """Return where to get an easyconfig's image: a local file, or else the first of its source URLs."""
    found = source.locate(directories)
    if found:
        return ImageReference.parse(str(found))
    if not source.origins:
        places = ", ".join(dict.fromkeys(directories))
        raise BadInputError(
            f"image {source.reference} not found in {places}, and the easyconfig has no source_urls",
            "Put it next to the easyconfig, or publish the image itself: hpcmod publish IMAGE",
        )
    return source.origins[0]


IN_CATALOGUE = "The image is in the catalogue that published it"


def make_easyconfig(
    candidate: Candidate,
    *,
    sha256: str,
    reference: str,
    packages: Iterable[Package] | None = None,
    where: str = IN_CATALOGUE,
) -> str:
    """Return the text of a new easyconfig, or of the given one with its image pinned.

    `reference`: Where the image came from, with its digest if known: others can get it from there.
    `packages`: Those of the image; None before it is fetched, when the class of its module is not known.
    `where`: Where the image is, if no one else can get it from there.
    """
    if candidate.text:
        return assign_strings(candidate.text, "checksums", [sha256])
    version, dash, suffix = candidate.version.partition("-")
    whole = ImageReference.parse(reference).kind in _WHOLE
    return render_easyconfig(
        EasyconfigText(
            name=candidate.name,
            version=version,
            versionsuffix=dash + suffix,
            image=candidate.sif,
            sif=SifOrigin((reference,)) if whole else SifOrigin(instructions=where),
            checksum=sha256,
            wrapped_commands=candidate.commands or None,
            description=candidate.description or f"{candidate.name} {candidate.version}, as a container",
            homepage=candidate.homepage,
            moduleclass="" if packages is None else choose_module_class(packages),
        )
    )
