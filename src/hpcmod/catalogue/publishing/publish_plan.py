"""Plan what publishing would do without doing it: the facts of the image, the easyconfig, the commands, the checks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hpcmod.catalogue.publishing.candidate import Candidate, Request, choose_candidate, make_easyconfig
from hpcmod.catalogue.publishing.facts import make_record
from hpcmod.catalogue.publishing.publish import PublishContext, check_commands, judge_fit
from hpcmod.catalogue.publishing.republish import check_aliases, check_same
from hpcmod.catalogue.publishing.staged import Stage, eb_command
from hpcmod.catalogue.publishing.trial import now_text
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.image.acquire.fetch_plan import FetchPlan, plan_fetch
from hpcmod.image.acquire.locate import recognize
from hpcmod.image.inspect.contents import read_facts
from hpcmod.image.integrity import file_sha256
from hpcmod.image.trust.provenance import Provenance
from hpcmod.machine import state_directory
from hpcmod.model.catalogue.record import CatalogueRecord
from hpcmod.model.images.reference import LOCAL_KINDS


@dataclass(frozen=True)
class PublishPlan:
    """What would be published."""

    module: str
    image: FetchPlan
    """Source and target of the image."""
    record: CatalogueRecord | None
    """None if the image is not on this machine, so that its facts are unknown."""
    easyconfig: str
    """Its text; without a checksum if the image is not on this machine."""
    command: tuple[str, ...]
    """The command that installs it."""
    checks: tuple[str, ...]
    """Run on this machine."""
    job_checks: tuple[str, ...]
    """Run as job steps, if Slurm is available."""
    aliases: tuple[str, ...]
    published: bool
    """Whether it is published already, so that only the aliases would change."""


def plan_publish(catalogue: Catalogue, request: Request, context: PublishContext) -> PublishPlan:
    """Return what `publish` would do.

    Raises
    ------
    HpcmodError
        If `publish` would refuse before it fetches anything.
    """
    candidate = choose_candidate(request, central=context.machine.site.central)
    check_aliases(catalogue.named(candidate.name), candidate, request.aliases)
    known = catalogue.find(candidate.name, candidate.version)
    if known:
        check_same(candidate, known, context.progress(candidate.sif))
    image = plan_fetch(candidate.reference, catalogue.images / candidate.sif, options=context.options)
    record = _read(candidate, request, context)
    stage = Stage(catalogue, candidate.name, candidate.version, state_directory(context.options.environ))
    return PublishPlan(
        module=candidate.module,
        image=image,
        record=record,
        easyconfig=make_easyconfig(
            candidate, sha256=record.sha256 if record else "", reference=image.pinned or image.reference
        ),
        command=tuple(eb_command(stage, stage.directory / "easyconfigs" / candidate.easyconfig)),
        checks=request.checks,
        job_checks=(*request.checks, *request.job_checks) if context.use_slurm else (),
        aliases=request.aliases,
        published=known is not None,
    )


def _read(candidate: Candidate, request: Request, context: PublishContext) -> CatalogueRecord | None:
    if recognize(candidate.reference).kind not in LOCAL_KINDS:
        return None
    path = Path(candidate.reference.path)
    facts = read_facts(path)
    check_commands(candidate, path, context.machine.site)
    digest = file_sha256(path, context.progress(path.name))
    found = Provenance(str(path.absolute()), "", digest, facts.size, now_text(), context.options.tool)
    return judge_fit(make_record(candidate, facts, found, site=context.machine.site.name), path, request, context)
