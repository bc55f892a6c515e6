"""Apply the verdict: before an installation writes its modulefile, to a job and its MPI, to installed modules."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hpcmod.compat.compat import check_compat, describe_finding, make_case, name_mpi
from hpcmod.compat.recorded_fit import fingerprint
from hpcmod.compat.values.rules import RULES
from hpcmod.compat.values.verdict import judge
from hpcmod.core.errors import CheckFailedError, HpcmodError
from hpcmod.core.values.finding import FAIL, OK, WARN, Finding
from hpcmod.machine import load_site
from hpcmod.machine.values.site import Site
from hpcmod.modules import find_installed, module_trees
from hpcmod.modules.values.install_record import Fit

if TYPE_CHECKING:  # only an installation has a plan, whose parts take time to import
    from hpcmod.modules.values.plan import InstallPlan


def check_fit(plan: InstallPlan, environ: Mapping[str, str], *, warn: Callable[[str], None]) -> Fit | None:
    """Check that the image of an installation fits this machine; report possible problems to `warn`.

    Returns
    -------
    Fit
        What the record of the installation keeps of it; None if there is no image.

    Raises CheckFailedError if it will not work, with all reasons and the first cure.
    """
    image = next((place for place in plan.sif_places if Path(place).is_file()), None)
    if image is None:
        return None
    case = make_case(Path(image), plan.site, environ, binds=plan.spec.binds)
    verdict = judge(case, RULES)
    for finding in verdict.at(WARN):
        warn(f"{finding.rule}: {finding.found}. {finding.cure}".strip())
    refused = verdict.at(FAIL)
    if refused:
        reasons = "\n".join(f"  {finding.rule}: {finding.found}" for finding in refused)
        raise CheckFailedError(
            f"{image} does not fit this machine ({plan.site.name}):\n{reasons}",
            f"{refused[0].cure}\nFor the full report: hpcmod compat {image}. To install it anyway: "
            "eb --skip-sanity-check ...",
        )
    known = Fit(has_mpi=case.image.mpi is not None, targets=case.image.gpu.targets)
    if plan.spec.binds:  # `hpcmod job` does not know these
        return known
    return replace(
        known,
        fingerprint=fingerprint(Path(image), plan.site, environ),
        mpi=name_mpi(case),
        problems=tuple(describe_finding(finding) for finding in verdict.at(WARN)),
    )


def check_fits(images: Sequence[Path], environ: Mapping[str, str]) -> Iterator[Finding]:
    """Check the given images, or those of all container modules that can be loaded here if none are given."""
    try:
        site = load_site(None, environ)
    except HpcmodError:  # `hpcmod doctor` reports it anyway
        return
    named = [(str(image), image) for image in images]
    for subject, image in named or _installed(environ):
        yield _look(subject, image, site, environ)


def _installed(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Yield module and image of what is installed, each image once; not what the site keeps for others."""
    seen = set()
    for installed in find_installed(module_trees(environ)):
        image = Path(installed.image.path)
        loadable = image.is_file() and (os.access(image, os.R_OK) or image.stat().st_uid == os.getuid())
        if loadable and image not in seen:
            seen.add(image)
            yield installed.module, image


def _look(subject: str, image: Path, site: Site, environ: Mapping[str, str]) -> Finding:
    try:
        verdict = check_compat(image, site, environ)
    except HpcmodError as err:
        return Finding(FAIL, "image", err.message, err.cure, subject=f"image {subject}")
    worst = verdict.at(verdict.level) if verdict.level != OK else ()
    said = "; ".join(finding.found for finding in worst) or "fits this machine, as far as known"
    cure = f"{worst[0].cure}\n     For the full report: hpcmod compat {image}".strip() if worst else ""
    return Finding(verdict.level, "image", said, cure, subject=f"image {subject}")
