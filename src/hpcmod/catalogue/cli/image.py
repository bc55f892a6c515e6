"""Containers named by their image: fetch it with an easyconfig beside it, or run it without an installation."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from textwrap import indent

from hpcmod import __version__
from hpcmod.catalogue.cli.containers import Here, check_not_loaded
from hpcmod.catalogue.cli.easyconfigs import EasyconfigFile
from hpcmod.catalogue.publishing.candidate import Candidate, Request, choose_candidate, make_easyconfig
from hpcmod.catalogue.publishing.facts import whole_reference
from hpcmod.core.cli.output import format_size, print_text, tell
from hpcmod.core.cli.signals import terminate_cleanly
from hpcmod.core.errors import BadInputError, NotFoundError
from hpcmod.core.fs.ownership import make_private_directory
from hpcmod.core.fs.reading import read_text
from hpcmod.core.fs.tree import write_file
from hpcmod.core.progress import ProgressLine
from hpcmod.core.resources import runscript_files
from hpcmod.core.values.facts import Provenance
from hpcmod.core.values.reference import LOCAL_KINDS, ImageReference
from hpcmod.images import LocalImage, ObtainOptions, Origin, Sif, make_options, open_cache, recognize
from hpcmod.modules import SharedPrefix, install_files
from hpcmod.modules.values.easyconfig_text import read_named_image
from hpcmod.modules.values.install_record import PROGRAM
from hpcmod.modules.values.plan import make_plan
from hpcmod.modules.values.spec import InstallSpec

_LIMIT = 1 << 20  # bytes of an easyconfig
_BESIDE = "The image is beside the easyconfig that `hpcmod install` wrote"
_VARIABLE = "IMAGE"
"""Suffix of the variables that the run scripts of an image without an installation set, such as SIFIMAGE."""
_LAST = "README"
"""The script of an installation that is written last."""


@dataclass(frozen=True)
class ImageRequest:
    """An image that is to become a module, and where its files go."""

    image: str
    name: str
    """Empty: as the image says."""
    version: str
    sources: Path
    """Directory of images that EasyBuild searches."""
    shared: SharedPrefix | None = None
    rebuild: bool = False

    def place(self, candidate: Candidate) -> Path:
        """Return the directory of an image and its easyconfig: where `eb` looks for sources of this name."""
        return self.sources / candidate.name.lower()[0] / candidate.name

    def anchored(self, path: Path) -> AbstractContextManager[Path]:
        """Create a file's directory; return a context with a path of it that no other user can redirect."""
        if self.shared and path.is_relative_to(self.shared.prefix):
            return self.shared.anchored(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        return nullcontext(path)


def fetch_with_easyconfig(here: Here, request: ImageRequest) -> EasyconfigFile:
    """Fetch an image, and write the easyconfig that installs it beside it.

    An easyconfig that is there for the same image is kept, because the user may have changed it. Below a prefix that
    others may write, it is written anew: an easyconfig is code.

    Raises BadInputError if its version is not known, or another image has its name; HpcmodError if the image cannot be
    fetched, or is not trusted.
    """
    options = _options(here)
    candidate = _choose(request, options)
    check_not_loaded(candidate.module)
    place = request.place(candidate)
    easyconfig, sif = place / candidate.easyconfig, place / candidate.sif
    is_own = not request.shared  # below another prefix, a member of the group may have written what is there
    kept = read_text(easyconfig, _LIMIT) if is_own and not request.rebuild and easyconfig.is_file() else ""
    identity = Origin(recognize(candidate.reference), options).identify()
    known = Sif(sif).provenance(None) if is_own and sif.is_file() else None
    same = known is not None and identity in ("", known.digest, known.sha256)
    if kept and known and not same:
        raise _other_image(request, candidate, f"{sif} is {known.digest or known.sha256}, not {identity}")
    local = identity if recognize(candidate.reference).kind in LOCAL_KINDS else None
    again = not same or request.rebuild or candidate.reference.kind != "url"  # others have a digest
    options = replace(options, checksum=local, replace=again)
    with request.anchored(sif) as path:
        provenance = _fetch(candidate.reference, path, options)
    own = next((copy for copy in here.own() if copy.module == candidate.module), None)
    if own and own.image.sha256 != provenance.sha256 and not request.rebuild:
        raise _other_image(request, candidate, f"{own.root} is installed from another image")
    if not kept or read_named_image(kept, str(easyconfig)).checksum != provenance.sha256:
        kept = _text(candidate, sif, provenance)
        with request.anchored(easyconfig) as path:
            write_file(path, kept)
    tell(f"easyconfig: {easyconfig}")
    if request.shared:  # others may exchange what is below the prefix, and an easyconfig is code
        easyconfig = Path(request.shared.private).with_name(candidate.easyconfig)
        write_file(easyconfig, kept)
    return EasyconfigFile(easyconfig, place, candidate.module, provenance.sha256)


def _choose(request: ImageRequest, options: ObtainOptions) -> Candidate:
    wanted = Request(request.image, name=request.name, version=request.version)
    candidate = choose_candidate(wanted, read_labels=lambda reference: Origin(reference, options).labels())
    for guess in candidate.guesses:
        if "label" in guess:  # perhaps inherited from the base image; what the reference says is no surprise
            tell(f"{candidate.module}: {guess}")
    return candidate


def _options(here: Here) -> ObtainOptions:
    return make_options(here.site, os.environ, tell=tell)


def _fetch(reference: ImageReference, sif: Path, options: ObtainOptions) -> Provenance:
    from hpcmod.images import obtain  # imports requests: `hpcmod install NAME` need not

    with terminate_cleanly(), ProgressLine(f"fetching {sif.name}") as progress:
        return obtain(reference, sif, options=options, progress=progress).provenance


def _text(candidate: Candidate, sif: Path, provenance: Provenance) -> str:
    facts = Sif(sif).facts()
    labels = dict(facts.labels)
    described = replace(
        candidate,
        description=labels.get("org.opencontainers.image.description", ""),
        homepage=labels.get("org.opencontainers.image.url", ""),
    )
    digest, origin = provenance.sha256, whole_reference(provenance)
    return make_easyconfig(described, sha256=digest, reference=origin, packages=facts.packages, where=_BESIDE)


def _other_image(request: ImageRequest, candidate: Candidate, message: str) -> BadInputError:
    cure = f"Give {request.image} another --version, or replace the other one: --rebuild"
    return BadInputError(f"{candidate.module}: {message}", cure)


def plan_with_easyconfig(here: Here, request: ImageRequest, plans: Path) -> EasyconfigFile:
    """Print what would be fetched, and write an easyconfig below a temporary directory, for `eb --extended-dry-run`."""
    options = _options(here)
    candidate = _choose(request, options)
    place = request.place(candidate)
    plan = Origin(candidate.reference, options).plan(place / candidate.sif)
    image = plan.pinned or plan.reference
    size = f", {format_size(plan.bytes_to_fetch)}" if plan.bytes_to_fetch else ""
    text = make_easyconfig(candidate, sha256="", reference=image, where=_BESIDE)
    print_text(f"fetch: {image}{size} -> {plan.path}\npolicy: {plan.policy}")
    print_text(f"easyconfig: {place / candidate.easyconfig}\n{indent(text, '  ')}")
    directory = Path(f"{plans}{place}")
    directory.mkdir(parents=True)
    write_file(directory / candidate.easyconfig, text)
    if recognize(candidate.reference).kind in LOCAL_KINDS:
        (directory / candidate.sif).symlink_to(Path(candidate.reference.path).absolute())
    return EasyconfigFile(directory / candidate.easyconfig, directory, candidate.module)


def program_of(here: Here, image: str) -> Path:
    """Return the program that runs an image with the environment that its module would set.

    Its run scripts are in a directory of the cache, made anew if image, profile or hpcmod have changed.

    Raises HpcmodError if the image cannot be fetched or read, or is not trusted.
    """
    options = _options(here)
    runs = open_cache(here.site, os.environ).directory / "run"
    reference = recognize(ImageReference.parse(image))
    sif = Path(reference.path).absolute()
    if reference.kind not in LOCAL_KINDS:
        sif = runs / reference.file_name
        make_private_directory(runs)
        _fetch(reference, sif, replace(options, replace=True))
    elif not sif.is_file():
        raise NotFoundError(f"{image}: no such file", "List the containers: hpcmod ls")
    else:
        LocalImage.verify(sif, reference, options.policy, checksum=None, environ=os.environ)
    facts = Sif(sif).facts()
    mark = sha256(repr((str(sif), sif.stat().st_mtime_ns, here.site, __version__)).encode()).hexdigest()[:16]
    root = runs / mark
    spec = InstallSpec(_VARIABLE, image, _VARIABLE, str(root), sif.name, "", str(sif), install_mode="central")
    plan = replace(make_plan(facts, here.site, spec), user_layer=None, sif_places=(str(sif),))
    if not (root / _LAST).is_file():
        make_private_directory(root)
        install_files(plan, runscript_files())
    return root / PROGRAM
