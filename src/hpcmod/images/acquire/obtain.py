"""Turn any image reference into a verified SIF with its provenance file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from hpcmod import __version__
from hpcmod.core.clock import now_text
from hpcmod.core.errors import BadInputError, HpcmodError, LackingError, VerificationError
from hpcmod.core.fs.checksums import check_sha256, file_sha256
from hpcmod.core.fs.replacing import scratch
from hpcmod.core.fs.striping import set_layout
from hpcmod.core.lock import hold_file
from hpcmod.core.log import Logger
from hpcmod.core.progress import Progress
from hpcmod.core.values.facts import Provenance
from hpcmod.core.values.reference import LOCAL_KINDS, ImageReference
from hpcmod.core.values.trust import check_pinned
from hpcmod.images.acquire.fetch import note_of
from hpcmod.images.acquire.fetch_sif import FetchTask, fetch_sif
from hpcmod.images.acquire.locate import recognize
from hpcmod.images.acquire.origin import ObtainOptions, Origin
from hpcmod.images.sif_file import Sif
from hpcmod.images.trust.policy import LocalImage, is_met, rule_for, subject_of, verify_sif_trust

_LOG = Logger(__name__)

RESUMED = ("url", "oras")
"""Kinds of references whose interrupted downloads are kept for the next run."""


@dataclass(frozen=True)
class Obtained:
    """The SIF of a reference."""

    path: Path
    provenance: Provenance
    fetched: bool
    """False if it already existed."""


def obtain(
    reference: ImageReference, out: Path, *, options: ObtainOptions, progress: Progress | None = None
) -> Obtained:
    """Fetch or make the SIF that a reference names, with its provenance file beside it.

    The file is created only when it is complete, verified and trusted. If several processes fetch it, one does the
    work, and the others wait and use its result. `progress` is called with the bytes done and the total, at most ten
    times a second.

    Raises UntrustedError, UnknownKeyError if the site's policy is not met; VerificationError if the image does not
    match its digest, checksum or signature; HpcmodError if it cannot be fetched, is not an image for this machine, or
    does not fit.
    """
    reference = recognize(reference)
    rule = rule_for(options.policy, reference)
    if reference.kind in LOCAL_KINDS:
        found = LocalImage.verify(
            Path(reference.path), reference, options.policy, checksum=options.checksum, environ=options.environ
        )
        rule = found.copy_rule
        pinned = tuple(entry for entry in found.verified if entry.partition(": ")[0] not in rule.needs)
        options = replace(options, checksum=options.checksum or found.sha256)
        source = replace(reference, path=found.place)  # a link may have changed since
    else:
        pinned = check_pinned(reference, rule, options.checksum)
        source = reference
    wanted = Origin(source, options).pin()
    _LOG.info("obtaining %s as %s", reference.canonical, out)
    with hold_file(out, Sif(out).sidecar, tell=options.tell), scratch(out, resumable=wanted.kind in RESUMED) as made:
        task = FetchTask(wanted, out, made.path, rule, options, progress)
        there = _find_there(task, out, subject_of(reference))
        if there:
            _LOG.info("%s already exists", out)
            return Obtained(out, there, fetched=False)
        if out.exists() and not options.replace:
            raise BadInputError(f"{out}: already exists", "Choose another file, or replace it with --force.")
        set_layout(made.directory, options.striping, options.tell)
        provenance = _fetch_checked(task, pinned, subject_of(reference))
        Sif(made.beside / out.name).write_provenance(provenance, options.environ)
        if options.readers is not None:  # while no one else can open the file
            os.chown(made.path, -1, options.readers)
            made.path.chmod(0o640)
        made.put()  # last, so that no SIF is left without its provenance file
    return Obtained(out, provenance, fetched=True)


def _fetch_checked(task: FetchTask, pinned: tuple[str, ...], subject: str) -> Provenance:
    """Fetch the SIF to its temporary path, check it, and return its provenance."""
    reference, options = task.reference, task.options
    fetched = fetch_sif(task)
    with _discarded_on(BadInputError, LackingError, VerificationError, task=task):
        Sif(task.staged).check(options.architecture, shown=task.out)
    with _discarded_on(VerificationError, task=task):
        check_sha256(reference.canonical, expected=options.checksum, found=fetched.sha256)
        signed = fetched.verified
        if signed is None:
            signed = verify_sif_trust(task.staged, task.rule, options.environ, shown=task.out)
    return Provenance(
        reference=fetched.source or subject,
        digest=fetched.digest,
        sha256=fetched.sha256,
        size=task.staged.stat().st_size,
        time=now_text(),
        tool=f"hpcmod {__version__}",
        verified=(*pinned, *signed),
    )


@contextmanager
def _discarded_on(*faults: type[HpcmodError], task: FetchTask) -> Iterator[None]:
    """Remove the fetched file on these errors; on other errors, the next run can reuse it."""
    try:
        yield
    except faults:
        task.staged.unlink(missing_ok=True)
        note_of(task.staged).unlink(missing_ok=True)
        raise


def _find_there(task: FetchTask, out: Path, subject: str) -> Provenance | None:
    """Return the provenance of an existing SIF if it is the same image; None otherwise."""
    known = Sif(out).provenance(task.options.environ) if out.is_file() else None
    digest, checksum = task.reference.digest, task.options.checksum
    # a URL has no digest, so the file may have changed on the server: --force fetches it again
    same_address = task.reference.kind == "url" and not task.options.replace
    named = digest or checksum or same_address
    if known is None or not named:
        return None
    same = known.reference in (subject, subject_of(task.reference)) and known.digest == (digest or known.digest)
    if not same or checksum not in (None, known.sha256) or not is_met(known, task.rule):
        return None
    return known if file_sha256(out, task.progress) == known.sha256 else None
