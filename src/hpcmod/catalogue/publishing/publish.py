"""Publish a container: fetch and read its image, install it out of sight, check it, and only then make it visible."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from hpcmod.catalogue.change import Actor, changing, commit
from hpcmod.catalogue.publishing.candidate import Candidate, Request, choose_candidate, make_easyconfig
from hpcmod.catalogue.publishing.facts import SBOM, make_record, stack_pairs
from hpcmod.catalogue.publishing.republish import check_aliases, check_same, with_aliases
from hpcmod.catalogue.publishing.staged import Stage, install_staged, place_kept
from hpcmod.catalogue.publishing.terms import restrict, set_terms
from hpcmod.catalogue.publishing.trial import EASYBUILD_CHECK, CheckRun, find_srun, now_text, run_checks
from hpcmod.catalogue.records.sharing import check_writable, shared
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.catalogue.storage.modes import set_modes
from hpcmod.catalogue.verify import verify_container
from hpcmod.check.compat import make_case
from hpcmod.errors import BadInputError, CheckFailedError, NotFoundError
from hpcmod.fs.tree import Tree, write_file
from hpcmod.image.acquire.fetch_sif import ObtainOptions
from hpcmod.image.acquire.locate import recognize
from hpcmod.image.acquire.obtain import Obtained, obtain
from hpcmod.image.inspect.commands import read_commands
from hpcmod.image.inspect.contents import read_facts
from hpcmod.image.inspect.stack import open_files
from hpcmod.image.integrity import Progress
from hpcmod.image.sif.reader import check_sif, read_sif
from hpcmod.image.trust.provenance import sidecar
from hpcmod.lock import hold, tidy
from hpcmod.machine import Machine, is_profile_file, state_directory
from hpcmod.model.catalogue.lifecycle import key_of
from hpcmod.model.catalogue.record import CatalogueRecord, Check
from hpcmod.model.compat.rules import RULES
from hpcmod.model.compat.verdict import judge
from hpcmod.model.finding import FAIL, WARN
from hpcmod.model.images.reference import LOCAL_KINDS
from hpcmod.model.plan import RUNSCRIPTS_IN_CONTAINER
from hpcmod.model.site import Site
from hpcmod.render.quote import sh_word


@dataclass(frozen=True)
class PublishContext:
    """Settings and tools for fetching, installing and checking a container."""

    machine: Machine
    options: ObtainOptions
    eb_environment: Mapping[str, str]
    """Environment in which `eb` finds our easyblock."""
    actor: Actor
    slurm: tuple[str, ...] = ()
    """Options for srun."""
    use_slurm: bool = True
    progress: Callable[[str], Progress | None] = lambda _: None
    """Returns the progress display of a task, by its label."""
    working: Callable[[str], AbstractContextManager[object]] = lambda _: nullcontext()
    """Returns the display for a task of unknown length, by its label."""


@dataclass(frozen=True)
class Published:
    """Result of publishing."""

    record: CatalogueRecord
    change: int
    """ID of the change in the journal; 0 if nothing was changed."""


def publish(catalogue: Catalogue, request: Request, context: PublishContext) -> Published:
    """Publish a container, all or nothing. If it is already published with the same image, repair it if needed.

    Raises
    ------
    CheckFailedError
        If the installation or a check failed.
    BadInputError
        If another image is published under that name.
    HpcmodError
        If the image cannot be fetched, does not fit this machine or is not trusted, or if a check needs Slurm, which is
        not available.
    """
    candidate = choose_candidate(request, central=context.machine.site.central)
    stage = Stage(catalogue, candidate.name, candidate.version, state_directory(context.options.environ))
    check_writable(catalogue)
    find_srun(context.eb_environment, use_slurm=context.use_slurm, needed=bool(request.job_checks))
    with shared(catalogue), _alone(stage, candidate, context.actor):
        with changing(catalogue, context.actor):  # finishes the change of a killed process
            check_aliases(catalogue.named(candidate.name), candidate, request.aliases)
            known = catalogue.find(candidate.name, candidate.version)
        try:
            return (
                _publish_again(stage, candidate, known, request, context)
                if known
                else _publish_new(stage, candidate, request, context)
            )
        except BaseException:
            if catalogue.find(candidate.name, candidate.version) is None:
                _discard(stage, candidate)
            raise
        finally:
            stage.remove()


@contextmanager
def _alone(stage: Stage, candidate: Candidate, actor: Actor) -> Iterator[None]:
    """Let one process at a time publish this container or image, without blocking other changes of the catalogue."""
    locks = [stage.catalogue.locks / f"{name}.lock" for name in (stage.title, f"image-{candidate.sif}")]
    with ExitStack() as held:
        for lock in locks:
            held.callback(tidy, lock)
            below = stage.catalogue.directory
            held.enter_context(hold(lock, limit=None, tell=actor.tell, on_stale=lambda: None, below=below))
        yield


def _publish_new(stage: Stage, candidate: Candidate, request: Request, context: PublishContext) -> Published:
    tested = _install_and_check(stage, candidate, request, context)
    record = replace(tested, published=now_text(), publisher=context.actor.who)
    record = set_terms(stage.catalogue, record, readers=request.readers, licence=request.licence)
    return _make_visible(stage, record, request, context, verb="publish")


def _publish_again(
    stage: Stage, candidate: Candidate, known: CatalogueRecord, request: Request, context: PublishContext
) -> Published:
    """Move the aliases of a container that is published with the same image; repair it if it is damaged."""
    progress = context.progress(candidate.sif)
    check_same(candidate, known, progress)
    damage = [one for one in verify_container(stage.catalogue, known, progress=progress) if one.level == FAIL]
    known = set_terms(stage.catalogue, known, readers=request.readers, licence=request.licence)
    if not damage:
        context.actor.tell(f"{known.module} is already published with this image")
        return _make_visible(stage, known, request, context, verb="alias")
    for one in damage:
        context.actor.tell(f"repairing: {one.found}")
    request = replace(_as_before(request, known), readers=known.readers)
    tested = _install_and_check(stage, replace(candidate, checksum=known.sha256), request, context)
    return _make_visible(stage, replace(known, checks=tested.checks, rendering=""), request, context, verb="repair")


def _as_before(request: Request, known: CatalogueRecord) -> Request:
    """Return the request with the checks that passed before, if it has none of its own."""
    if request.checks or request.job_checks:
        return request
    plain = tuple(one.name for one in known.checks if not one.under and one.name != EASYBUILD_CHECK)
    job = tuple(one.name for one in known.checks if one.under and one.name not in plain)
    return replace(request, checks=plain, job_checks=job)


def _install_and_check(
    stage: Stage, candidate: Candidate, request: Request, context: PublishContext
) -> CatalogueRecord:
    stage.clear()
    began = time.time()
    got = _bring(stage.catalogue, candidate, context, private=bool(request.readers))
    if request.readers:
        restrict(stage.catalogue, got.path, request.readers)
    check_commands(candidate, got.path, context.machine.site)
    site = context.machine.site.name
    untried = make_record(candidate, read_facts(got.path), got.provenance, site=site)
    record = judge_fit(untried, got.path, request, context)
    easyconfig = stage.directory / "easyconfigs" / candidate.easyconfig
    Tree(stage.directory).make_directory(easyconfig.parent)
    write_file(easyconfig, make_easyconfig(candidate, sha256=record.sha256, reference=record.reference))
    context.actor.tell(f"installing {record.module} with eb")
    profile = context.machine.choice.profile
    named = str(Path(profile).absolute()) if is_profile_file(profile) else profile
    with context.working(f"installing {record.module}"):
        install_staged(stage, easyconfig, profile=named, site=site, environ=context.eb_environment)
    places = (stage.software, got.path, sidecar(got.path))
    closed = (candidate.sif,) if request.readers else ()
    set_modes(stage.catalogue, places, since=began, closed=closed)  # `eb` sets the publisher's own group
    if request.readers:
        for image in (got.path, stage.software / candidate.sif):
            restrict(stage.catalogue, image, request.readers)
    return replace(record, checks=tuple(_try(stage, record, request, context)))


def check_commands(candidate: Candidate, image: Path, site: Site) -> None:
    """Check that the programs of the container's commands exist in its image, unless a bind can provide them.

    Raises
    ------
    NotFoundError
        If a command is missing from the image, or its path does not exist there.
    """
    programs = {name: words[0] for name, words in candidate.commands}
    if not programs:
        return
    found = read_commands(image, [path for path in programs.values() if path.startswith("/")])
    bound = (RUNSCRIPTS_IN_CONTAINER, *(bind.place for group in site.all_binds for bind in group), *found.absent)
    for name, program in programs.items():
        in_image = program in found.files or program in found.names
        if in_image or any(f"{program}/".startswith(f"{place}/") for place in bound):
            continue
        if not program.startswith("/"):
            raise NotFoundError(
                f"--command {name}: {image.name} has no command {program!r} on its PATH",
                f"Give its path in the image: --command {sh_word(name)}=/PATH",
            )
        raise NotFoundError(
            f"--command {name}: {image.name} has no file {program}", "Give the path of the program in the image."
        )


def judge_fit(record: CatalogueRecord, image: Path, request: Request, context: PublishContext) -> CatalogueRecord:
    """Record what the image is built on, and whether it fits this machine.

    Raises
    ------
    CheckFailedError
        If it does not fit, and the request does not allow that.
    """
    case = make_case(image, context.machine.site, context.options.environ)
    verdict = judge(case, RULES)
    for one in verdict.at(WARN):
        context.actor.tell(f"warning: {one.rule}: {one.found} {one.cure}".rstrip())
    if verdict.level == FAIL and not request.misfit:
        why = "\n".join(f"  {one.rule}: {one.found} {one.cure}".rstrip() for one in verdict.at(FAIL))
        raise CheckFailedError(
            f"{record.module} does not fit this machine:\n{why}",
            "Fix the image; or, if it is for different nodes than this one, use --misfit.",
        )
    with open_files(image) as files:
        sbom = SBOM if files.real(SBOM) else ""
    return replace(record, stack=stack_pairs(case.image), compat=verdict.level, sbom=sbom)


def _bring(catalogue: Catalogue, candidate: Candidate, context: PublishContext, *, private: bool) -> Obtained:
    """Fetch the image to its final place; without an easyconfig and a record, no one looks for it there."""
    path = catalogue.images / candidate.sif
    owner = find_owner(catalogue, candidate.sif)
    if owner and owner.module != candidate.module:
        raise BadInputError(f"{path} belongs to {owner.module}", "Use another image name in the easyconfig.")
    _check_given(candidate, context)
    options = replace(context.options, checksum=candidate.checksum, replace=True, private=private)
    return obtain(candidate.reference, path, options=options, progress=context.progress(candidate.sif))


def _check_given(candidate: Candidate, context: PublishContext) -> None:
    """Read the file that the user gave before it is copied, so that errors name that file."""
    if recognize(candidate.reference).kind in LOCAL_KINDS:
        path = Path(candidate.reference.path)
        check_sif(read_sif(path), architecture=context.options.architecture)
        read_facts(path)


def find_owner(catalogue: Catalogue, sif: str) -> CatalogueRecord | None:
    """Return the container that an image of the catalogue belongs to; None if there is none."""
    if not (catalogue.images / sif).exists():
        return None
    return next((one for one in catalogue.records() if one.sif == sif), None)


def _try(stage: Stage, record: CatalogueRecord, request: Request, context: PublishContext) -> Iterator[Check]:
    yield Check(EASYBUILD_CHECK, True, now_text(), record.sha256)
    trial = CheckRun(
        *(record.module, stage.modules, record.sha256),
        *(context.eb_environment, context.slurm, context.use_slurm),
        tell=context.actor.tell,
    )
    checks = run_checks(trial, request.checks, request.job_checks)
    while True:
        with context.working(f"checking {record.module}"):
            check = next(checks, None)
        if check is None:
            return
        context.actor.tell(f"passed{' under Slurm' * bool(check.under)}: {check.name}")
        yield check


def _make_visible(
    stage: Stage, record: CatalogueRecord, request: Request, context: PublishContext, *, verb: str
) -> Published:
    """Make the container visible to users, in a single step."""
    catalogue, key = stage.catalogue, key_of(record)
    with changing(catalogue, context.actor):
        if verb != "alias":
            place_kept(stage)
        others = [one for one in catalogue.named(record.name) if key_of(one) != key]
        new = with_aliases((*others, record), record, request.aliases)
        change = commit(catalogue, new, verb=verb, actor=context.actor)
        return Published(catalogue.read(*key), change.id if change.edits else 0)


def _discard(stage: Stage, candidate: Candidate) -> None:
    """Restore the catalogue to its former state."""
    stage.discard()
    image = stage.catalogue.images / candidate.sif
    if find_owner(stage.catalogue, candidate.sif) is None:
        stage.catalogue.tree.remove(image)
        stage.catalogue.tree.remove(sidecar(image))
