"""Decide what publishing does before it writes anything: `publish` carries the plan out, `--dry-run` prints it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from hpcmod import __version__
from hpcmod.catalogue.change import Actor
from hpcmod.catalogue.publishing.candidate import Candidate, Request, make_easyconfig, sif_on_disk
from hpcmod.catalogue.publishing.facts import SBOM, make_record, stack_pairs
from hpcmod.catalogue.publishing.staged import Stage, eb_command
from hpcmod.catalogue.publishing.terms import find_group, read_licence, read_licence_file
from hpcmod.catalogue.publishing.trial import EASYBUILD_CHECK, find_step
from hpcmod.catalogue.records.index import INDEX, PACKAGES
from hpcmod.catalogue.records.journal import JOURNAL
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.catalogue.values.lifecycle import check_alias
from hpcmod.catalogue.values.record import CatalogueRecord
from hpcmod.catalogue.verify import compare_container, find_removed
from hpcmod.catalogue.visible.kept import easyconfig_copies, read_easyconfig
from hpcmod.compat import make_case, open_files
from hpcmod.compat.values.rules import RULES
from hpcmod.compat.values.verdict import judge
from hpcmod.core.clock import now_text
from hpcmod.core.errors import BadInputError, CheckFailedError, NotFoundError
from hpcmod.core.fs.checksums import check_sha256, file_sha256
from hpcmod.core.progress import Progress
from hpcmod.core.text.quote import sh_word
from hpcmod.core.values.facts import Provenance
from hpcmod.core.values.finding import FAIL, WARN
from hpcmod.core.values.json_form import HIDDEN
from hpcmod.core.values.reference import LOCAL_KINDS
from hpcmod.images import FetchPlan, ObtainOptions, Origin, Sif, recognize
from hpcmod.machine import Machine, state_directory
from hpcmod.machine.values.site import Site
from hpcmod.modules import find_missing_programs
from hpcmod.modules.values.spec import parse_commands
from hpcmod.modules.values.static_values import read_static_values

PUBLISH, REPAIR, ALIAS = "publish", "repair", "alias"


@dataclass(frozen=True)
class PublishContext:
    """Settings and tools for fetching, installing and checking a container."""

    machine: Machine
    options: ObtainOptions
    eb_environment: Mapping[str, str]
    """Environment in which `eb` finds our easyblock."""
    actor: Actor
    step_options: tuple[str, ...] = ()
    """Options of srun for job steps."""
    use_steps: bool = True
    """If False, no check runs as a job step."""
    progress: Callable[[str], Progress | None] = lambda _: None
    """Returns the progress display of a task, by its label."""


@dataclass(frozen=True)
class PublishPlan:
    """What publishing a container does."""

    candidate: Candidate = field(metadata=HIDDEN)
    request: Request = field(metadata=HIDDEN)
    """As the user made it; a repair runs the checks that passed before unless others are requested."""
    stage: Stage = field(metadata=HIDDEN)
    action: str
    """`publish` a new container; `repair` one that is published with the same image; only move its `alias`."""
    known: CatalogueRecord | None = field(metadata=HIDDEN)
    """The published container; None if there is none."""
    damage: tuple[str, ...]
    """What a repair fixes."""
    command: tuple[str, ...]
    """The command that installs it; empty if nothing is installed."""
    checks: tuple[str, ...]
    """Run on this machine."""
    job_checks: tuple[str, ...]
    """Run as job steps, after the others."""
    step: tuple[str, ...] = field(metadata=HIDDEN)
    """The command that starts a job step; empty if there are none."""
    files: tuple[str, ...] = ()
    """Files to create or replace, relative to the catalogue; a name that ends in `/` means files in that directory."""
    record: CatalogueRecord | None = None
    """Its record; None until the image is on this machine."""
    easyconfig: str = ""
    """Its text; without a checksum until the image is on this machine."""

    @property
    def easyconfig_path(self) -> Path:
        """Return the path of the easyconfig that the command installs."""
        return _easyconfig_path(self.stage, self.candidate)


def plan_publish(
    catalogue: Catalogue, candidate: Candidate, request: Request, context: PublishContext
) -> tuple[PublishPlan, FetchPlan]:
    """Decide what `publish` does, with all that is known before the image is fetched, and how it would be fetched.

    Nothing is fetched or written.

    Raises HpcmodError if the container cannot be published under that name, its image cannot be fetched, a local one
    does not fit, or if a check needs a job step and the scheduler is not available.
    """
    plan = plan_candidate(make_stage(catalogue, candidate, context), candidate, request, context)
    candidate = plan.candidate
    path = catalogue.images / candidate.sif
    if plan.action == ALIAS and plan.known:
        text = read_easyconfig(catalogue, plan.known) or ""
        kept = FetchPlan(plan.known.publication.reference, "", str(path), None, None, 0, "nothing required")
        return replace(plan, record=plan.known, easyconfig=text), kept
    fetch = Origin(candidate.reference, replace(context.options, checksum=candidate.checksum)).plan(path)
    if recognize(candidate.reference).kind not in LOCAL_KINDS:
        text = make_easyconfig(candidate, sha256="", reference=fetch.pinned or fetch.reference)
        return replace(plan, easyconfig=text), fetch
    check_given(candidate, context)
    path = Path(candidate.reference.path)
    known, digest = Sif(path).provenance(None), file_sha256(path, context.progress(path.name))
    check_sha256(path, expected=candidate.checksum or (known.sha256 if known else None), found=digest)
    found = Provenance(str(path.absolute()), "", digest, path.stat().st_size, now_text(), f"hpcmod {__version__}")
    return with_image(plan, path, found, context)[0], fetch


def make_stage(catalogue: Catalogue, candidate: Candidate, context: PublishContext) -> Stage:
    """Return the directory in which a container is prepared, which is not created."""
    return Stage(catalogue, candidate.name, candidate.version, state_directory(context.options.environ))


def plan_candidate(stage: Stage, candidate: Candidate, request: Request, context: PublishContext) -> PublishPlan:
    """Decide as `plan_publish` does; to carry the plan out, the caller must hold the container's lock."""
    if request.readers:
        find_group(request.readers)
    named = stage.catalogue.named(candidate.name)
    _check_aliases(named, candidate, request.aliases)
    known = next((record for record in named if record.version == candidate.version), None)
    damage = _find_damage(stage.catalogue, candidate, known, context) if known else ()
    if known and not request.licence:
        read_licence(stage.catalogue, known)  # only the request can bring a missing text back
    action = PUBLISH
    if known:
        action = REPAIR if damage else ALIAS
        candidate = _as_published(stage.catalogue, candidate, request, known, action)
    if known and damage:
        request = replace(_as_before(request, known), readers=request.readers or known.readers)
    needed = bool(request.job_checks)
    step = find_step(context.eb_environment, use_steps=context.use_steps, needed=needed)
    installed = action != ALIAS
    if installed:
        owner = find_owner(stage.catalogue, candidate.sif)
        if owner and owner.module != candidate.module:
            path = stage.catalogue.images / candidate.sif
            raise BadInputError(f"{path} belongs to {owner.module}", "Use another image name in the easyconfig.")
    plan = PublishPlan(
        candidate=candidate,
        request=request,
        stage=stage,
        action=action,
        known=known,
        damage=damage,
        command=tuple(eb_command(stage, _easyconfig_path(stage, candidate))) if installed else (),
        checks=request.checks if installed else (),
        job_checks=(*request.checks, *request.job_checks) if installed and step else (),
        step=step,
    )
    return replace(plan, files=tuple(_files(plan, named)))


def _easyconfig_path(stage: Stage, candidate: Candidate) -> Path:
    return stage.directory / "easyconfigs" / candidate.easyconfig


def _find_damage(
    catalogue: Catalogue, candidate: Candidate, known: CatalogueRecord, context: PublishContext
) -> tuple[str, ...]:
    progress = context.progress(candidate.sif)
    _check_same(catalogue, candidate, known, progress)
    return tuple(
        finding.found for finding in compare_container(catalogue, known, progress=progress) if finding.level == FAIL
    )


def _check_aliases(records: Sequence[CatalogueRecord], candidate: Candidate, aliases: Sequence[str]) -> None:
    """Raise BadInputError for an alias that is a version, or a version that is an alias, of any record of the name."""
    for alias in aliases:
        check_alias(alias, records)
        if alias == candidate.version:
            raise BadInputError(f"{alias!r} is the version itself", "Choose another alias.")
    holder = next((record for record in records if candidate.version in record.aliases), None)
    if holder:
        raise BadInputError(f"{candidate.version!r} is an alias of {holder.module}", "Choose another version.")


def _check_same(catalogue: Catalogue, candidate: Candidate, known: CatalogueRecord, progress: Progress | None) -> None:
    """Raise BadInputError for another image under a published name: what users load by that name must not change.

    Also if that is unknown without fetching the image, and if the name is retired.
    """
    if known.state == "retired":
        removed = find_removed(catalogue, known)
        restore = f"Restore it: hpcmod catalogue restore {known.module}; or choose another version: --version"
        raise BadInputError(
            f"{known.module} is retired{', and its files were removed' if removed else ''}",
            "Choose another version: --version" if removed else restore,
        )
    path = sif_on_disk(candidate.reference)
    found = candidate.checksum or (file_sha256(path, progress) if path else "")
    reference = known.publication.reference
    same_place = candidate.reference.canonical in (reference, reference.partition("@")[0])
    same_name = candidate.sif == known.sif or not candidate.text  # an easyconfig names its image
    if same_name and (found == known.sha256 or (not found and same_place)):
        return
    raise BadInputError(
        f"{known.module} is published with another image, {known.sif} of sha256 {known.sha256}: what users load must "
        "not change",
        f"Choose another version: --version; or undo its publication, see: hpcmod catalogue journal {known.name}",
    )


def _as_published(
    catalogue: Catalogue, candidate: Candidate, request: Request, known: CatalogueRecord, action: str
) -> Candidate:
    """Return the candidate with the image and, unless it is one itself, the easyconfig that were published.

    Raises BadInputError if the request would change what was published, or its checks would not be run.
    """
    text, commands = candidate.text, candidate.commands
    for copy in filter(None, () if text else easyconfig_copies(catalogue, known)):
        with suppress(BadInputError):  # if all are missing or damaged, a new one is written, as requested
            commands = parse_commands(read_static_values(copy, known.module).known.get("wrapped_commands")) or ()
            text = copy
            break
    published, passed = known.publication, {check.name for check in known.checks}
    differs = {
        "--command": request.commands and candidate.commands != commands,
        "--description": request.description not in ("", published.description),
        "--homepage": request.homepage not in ("", published.homepage),
        "--check": action == ALIAS and not passed.issuperset((*request.checks, *request.job_checks)),
    }
    options = " and ".join(option for option, is_different in differs.items() if is_different)
    if options:
        raise BadInputError(
            f"{known.module} is already published, with another {options}: publishing again only repairs damage",
            f"Leave out {options}, or choose another version: --version",
        )
    return replace(candidate, sif=known.sif, checksum=known.sha256, text=text, commands=commands)


def _as_before(request: Request, known: CatalogueRecord) -> Request:
    """Return the request with the checks that passed before, if it has none of its own."""
    if request.checks or request.job_checks:
        return request
    plain = tuple(check.name for check in known.checks if not check.under and check.name != EASYBUILD_CHECK)
    job = tuple(check.name for check in known.checks if check.under and check.name not in plain)
    return replace(request, checks=plain, job_checks=job)


def find_owner(catalogue: Catalogue, sif: str) -> CatalogueRecord | None:
    """Return the container that an image of the catalogue belongs to; None if there is none."""
    if not (catalogue.images / sif).exists():
        return None
    return next((record for record in catalogue.records() if record.sif == sif), None)


def _files(plan: PublishPlan, named: Sequence[CatalogueRecord]) -> Iterator[str]:
    """Yield the files that a plan creates or replaces; `named` are all records of the name."""
    catalogue, candidate, request = plan.stage.catalogue, plan.candidate, plan.request
    moved = [record for record in named if record is not plan.known and set(record.aliases) & set(request.aliases)]
    if plan.action == ALIAS and not moved and not _is_changed(plan):
        return
    records = [(candidate.name, candidate.version), *((record.name, record.version) for record in moved)]
    files = [catalogue.record_path(*key) for key in records]
    directories = [catalogue.modules / candidate.name]  # of modulefiles and aliases
    if request.licence:
        files.append(read_licence_file(catalogue, request.licence)[0])
    if plan.action != ALIAS:
        image = catalogue.images / candidate.sif
        files += [image, Sif(image).sidecar, catalogue.easyconfigs_of(candidate.name) / candidate.easyconfig]
        directories += [plan.stage.software, plan.stage.kept]
    below = [str(path.relative_to(catalogue.directory)) for path in files]
    yield from sorted([*below, *(f"{path.relative_to(catalogue.directory)}/" for path in directories)])
    yield from (INDEX, JOURNAL, PACKAGES)


def _is_changed(plan: PublishPlan) -> bool:
    known, request = plan.known, plan.request
    if known is None:
        return True
    licence = read_licence_file(plan.stage.catalogue, request.licence)[0].name if request.licence else known.licence
    terms = (request.readers or known.readers, licence)
    return terms != (known.readers, known.licence) or bool(set(request.aliases) - set(known.aliases))


def check_given(candidate: Candidate, context: PublishContext) -> None:
    """Read the file that the user gave before it is copied, so that errors name that file."""
    if recognize(candidate.reference).kind in LOCAL_KINDS:
        path = Path(candidate.reference.path)
        Sif(path).check(context.options.architecture)
        Sif(path).facts()


def with_image(
    plan: PublishPlan, image: Path, provenance: Provenance, context: PublishContext
) -> tuple[PublishPlan, CatalogueRecord]:
    """Return a plan with the easyconfig that pins its image, and the record of the container.

    Raises CheckFailedError if the image does not fit this machine, and the request does not allow that; NotFoundError
    if it lacks a command that was requested.
    """
    site = context.machine.site
    check_commands(plan.candidate, image, site)
    untried = make_record(plan.candidate, Sif(image).facts(), provenance, site=site.name)
    record = judge_fit(untried, image, plan.request, context)
    content, origin = record.content, record.publication.reference
    text = make_easyconfig(plan.candidate, sha256=record.sha256, reference=origin, packages=content.packages)
    return replace(plan, record=record, easyconfig=text), record


def check_commands(candidate: Candidate, image: Path, site: Site) -> None:
    """Raise NotFoundError if a program of the container's commands is neither in its image nor on a bind path."""
    for name, program in find_missing_programs(candidate.commands, image, site.all_binds).items():
        if not program.startswith("/"):
            raise NotFoundError(
                f"--command {name}: the image has no command {program!r} on its PATH",
                f"Give its path in the image: --command {sh_word(name)}=/PATH",
            )
        raise NotFoundError(
            f"--command {name}: the image has no program {program}", "Give the path of the program in the image."
        )


def judge_fit(record: CatalogueRecord, image: Path, request: Request, context: PublishContext) -> CatalogueRecord:
    """Record what the image is built on, and whether it fits this machine.

    Raise CheckFailedError if it does not, and the request does not allow that.
    """
    case = make_case(image, context.machine.site, context.options.environ)
    verdict = judge(case, RULES)
    for finding in verdict.at(WARN):
        context.actor.tell(f"warning: {finding.rule}: {finding.found} {finding.cure}".rstrip())
    if verdict.level == FAIL and not request.misfit:
        why = "\n".join(f"  {finding.rule}: {finding.found} {finding.cure}".rstrip() for finding in verdict.at(FAIL))
        raise CheckFailedError(
            f"{record.module} does not fit this machine:\n{why}",
            "Fix the image; or, if it is for different nodes than this one, use --misfit.",
        )
    with open_files(image) as files:
        sbom = SBOM if files.real(SBOM) else ""
    content = replace(record.content, stack=stack_pairs(case.image), sbom=sbom)
    return replace(record, content=content, publication=replace(record.publication, compat=verdict.level))
