"""Publish a container: fetch and read its image, install it out of sight, check it, and only then make it visible."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from hpcmod.catalogue.change import Actor, changing, commit, restore_lost
from hpcmod.catalogue.publishing.candidate import Candidate, Request
from hpcmod.catalogue.publishing.publish_plan import (
    ALIAS,
    PublishContext,
    PublishPlan,
    check_given,
    find_owner,
    make_stage,
    plan_candidate,
    with_image,
)
from hpcmod.catalogue.publishing.staged import Stage, install_staged, place_kept
from hpcmod.catalogue.publishing.terms import find_group, restrict, set_terms
from hpcmod.catalogue.publishing.trial import EASYBUILD_CHECK, CheckRun, run_checks
from hpcmod.catalogue.records.sharing import check_writable, shared
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.catalogue.storage.modes import set_modes
from hpcmod.catalogue.values.lifecycle import key_of, with_aliases
from hpcmod.catalogue.values.record import CatalogueRecord, Check
from hpcmod.core.clock import now_text
from hpcmod.core.fs.tree import Tree, write_file
from hpcmod.core.lock import hold
from hpcmod.images import Obtained, Sif, obtain
from hpcmod.machine import is_profile_file


@dataclass(frozen=True)
class Published:
    """The published container."""

    change: int
    """ID of the change; 0 if nothing was changed."""
    record: CatalogueRecord


def publish(catalogue: Catalogue, candidate: Candidate, request: Request, context: PublishContext) -> Published:
    """Publish a container, all or nothing. If it is already published with the same image, repair it if needed.

    Raises CheckFailedError if the installation or a check failed; BadInputError if another image is published under
    that name; HpcmodError if the image cannot be fetched, does not fit this machine or is not trusted, or if a check
    needs a job step and the scheduler is not available.
    """
    stage = make_stage(catalogue, candidate, context)
    check_writable(catalogue)
    with shared(catalogue), _alone(stage, candidate, context.actor):
        with changing(catalogue, context.actor):  # finishes the change of a killed process
            restore_lost(catalogue, context.actor)
        plan = plan_candidate(stage, candidate, request, context)
        undone = stage.kept.is_dir()  # a former publication, which undoing the undo brings back
        try:
            return _carry_out(plan, context)
        except BaseException:
            if not undone and catalogue.find(candidate.name, candidate.version) is None:
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
            held.enter_context(hold(lock, tell=actor.tell, below=stage.catalogue.directory))
        yield


def _carry_out(plan: PublishPlan, context: PublishContext) -> Published:
    catalogue, request, known = plan.stage.catalogue, plan.request, plan.known
    if known:
        known = set_terms(catalogue, known, readers=request.readers, licence=request.licence)
    if known and plan.action == ALIAS:
        context.actor.tell(f"{known.module} is already published with this image")
        _set_modes(plan, known.readers, since=0.0)  # as a killed repair has left them
        return _make_visible(plan, known, context)
    for damage in plan.damage:
        context.actor.tell(f"repairing: {damage}")
    tested = _install_and_check(plan, context)
    if known:
        return _make_visible(plan, replace(known, checks=tested.checks, rendering=""), context)
    publication = replace(tested.publication, published=now_text(), publisher=context.actor.who)
    record = replace(tested, publication=publication)
    record = set_terms(catalogue, record, readers=request.readers, licence=request.licence)
    return _make_visible(plan, record, context)


def _install_and_check(plan: PublishPlan, context: PublishContext) -> CatalogueRecord:
    stage, candidate, readers = plan.stage, plan.candidate, plan.request.readers
    stage.clear()
    began = time.time()
    got = _fetch(plan, context)
    if readers and not got.fetched:
        restrict(stage.catalogue, got.path, readers)
    plan, record = with_image(plan, got.path, got.provenance, context)
    Tree(stage.directory).make_directory(plan.easyconfig_path.parent)
    write_file(plan.easyconfig_path, plan.easyconfig)
    context.actor.tell(f"installing {candidate.module} with eb")
    profile = context.machine.choice.profile
    install_staged(
        stage,
        plan.easyconfig_path,
        plan.command,
        profile=str(Path(profile).absolute()) if is_profile_file(profile) else profile,
        site=context.machine.site.name,
        environ=context.eb_environment,
    )
    _set_modes(plan, readers, since=began)  # `eb` sets the publisher's own group
    return replace(record, checks=tuple(_try(plan, record, context)))


def _set_modes(plan: PublishPlan, readers: str, *, since: float) -> None:
    catalogue, image = plan.stage.catalogue, plan.stage.catalogue.images / plan.candidate.sif
    closed = (image.name,) if readers else ()
    set_modes(catalogue, (plan.stage.software, image, Sif(image).sidecar), since=since, closed=closed)


def _fetch(plan: PublishPlan, context: PublishContext) -> Obtained:
    """Fetch the image to its final place; without an easyconfig and a record, no one looks for it there."""
    candidate = plan.candidate
    check_given(candidate, context)
    group = find_group(plan.request.readers) if plan.request.readers else None
    options = replace(context.options, checksum=candidate.checksum, replace=True, readers=group)
    path = plan.stage.catalogue.images / candidate.sif
    return obtain(candidate.reference, path, options=options, progress=context.progress(candidate.sif))


def _try(plan: PublishPlan, record: CatalogueRecord, context: PublishContext) -> Iterator[Check]:
    yield Check(EASYBUILD_CHECK, True, now_text(), record.sha256)
    trial = CheckRun(
        record.module,
        plan.stage.modules,
        record.sha256,
        context.eb_environment,
        str(plan.stage.catalogue.modules),  # a repair tests what it has made, without a licence to accept
        step_options=context.step_options,
        use_steps=context.use_steps,
        tell=context.actor.tell,
    )
    for check in run_checks(trial, plan.checks, plan.job_checks, step=plan.step):
        context.actor.tell(f"passed{' under Slurm' if check.under else ''}: {check.name}")
        yield check


def _make_visible(plan: PublishPlan, record: CatalogueRecord, context: PublishContext) -> Published:
    catalogue, key = plan.stage.catalogue, key_of(record)
    with changing(catalogue, context.actor):
        if plan.action != ALIAS:
            place_kept(plan.stage)
        others = [one for one in catalogue.named(record.name) if key_of(one) != key]
        new = with_aliases((*others, record), record, plan.request.aliases)
        known = plan.known or record
        restricts = plan.action == ALIAS and (record.readers, record.licence) != (known.readers, known.licence)
        change = commit(catalogue, new, verb="restrict" if restricts else plan.action, actor=context.actor)
        return Published(change.id if change.edits else 0, catalogue.read(*key))


def _discard(stage: Stage, candidate: Candidate) -> None:
    stage.discard()
    image = stage.catalogue.images / candidate.sif
    if find_owner(stage.catalogue, candidate.sif) is None:
        stage.catalogue.tree.remove(image)
        stage.catalogue.tree.remove(Sif(image).sidecar)
