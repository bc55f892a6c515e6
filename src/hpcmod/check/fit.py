"""Apply the verdict: before an installation writes its modulefile, to a job, to installed modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from hpcmod.check.compat import check_compat, make_case
from hpcmod.errors import CheckFailedError, HpcmodError
from hpcmod.install.installed import Installed, find_installed, module_trees
from hpcmod.machine import load_site
from hpcmod.model.compat.rules import RULES
from hpcmod.model.compat.stack import StackFacts
from hpcmod.model.compat.verdict import Verdict, judge
from hpcmod.model.finding import FAIL, OK, WARN, Finding
from hpcmod.model.plan import InstallPlan
from hpcmod.model.site import Site


def check_fit(plan: InstallPlan, environ: Mapping[str, str], *, warn: Callable[[str], None]) -> StackFacts | None:
    """Check that the image of an installation fits this machine; report possible problems to `warn`.

    Returns
    -------
    StackFacts or None
        What was found in the image; None if there is no image.

    Raises
    ------
    CheckFailedError
        If it will not work, with all reasons and the first cure.
    """
    image = next((place for place in plan.sif_places if Path(place).is_file()), None)
    if image is None:
        return None
    case = make_case(Path(image), plan.site, environ, binds=plan.spec.binds)
    verdict = judge(case, RULES)
    for one in verdict.at(WARN):
        warn(f"{one.rule}: {one.found}. {one.cure}".strip())
    refused = verdict.at(FAIL)
    if refused:
        reasons = "\n".join(f"  {one.rule}: {one.found}" for one in refused)
        raise CheckFailedError(
            f"{image} does not fit this machine ({plan.site.name}):\n{reasons}",
            f"{refused[0].cure}\nFor the full report: hpcmod compat {image}. To install it anyway: "
            "eb --skip-sanity-check ...",
        )
    return case.image


def check_all(images: Sequence[Path], environ: Mapping[str, str]) -> Iterator[Finding]:
    """Check the given images, or those of all container modules that can be loaded here if none are given."""
    try:
        site = load_site(None, environ)
    except HpcmodError:  # `hpcmod doctor` reports it anyway
        return
    named = [(str(image), image) for image in images]
    for subject, image in named or _installed(environ):
        yield _look(subject, image, site, environ)


def _installed(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Yield module and image of what is installed, each image once."""
    seen = set()
    for one in find_installed(module_trees(environ)):
        image = Path(one.of_image("path"))
        if image.is_file() and image not in seen:
            seen.add(image)
            yield one.module, image


def explain_module(found: Installed | None, site: Site, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each problem of an installed module's image on this machine."""
    image = Path(found.of_image("path")) if found else None
    if found is None or image is None or not image.is_file():
        return
    try:
        verdict = check_compat(image, site, environ)
    except HpcmodError as err:
        yield f"{found.module}: {err.message}"
        return
    for one in (*verdict.at(FAIL), *verdict.at(WARN)):
        yield f"{found.module}: {one.level}: {one.found}. {one.cure}".strip()


def _look(subject: str, image: Path, site: Site, environ: Mapping[str, str]) -> Finding:
    try:
        verdict = check_compat(image, site, environ)
    except HpcmodError as err:
        return Finding(FAIL, "image", err.message, err.cure, subject=f"image {subject}")
    return _as_finding(subject, image, verdict)


def _as_finding(subject: str, image: Path, verdict: Verdict) -> Finding:
    worst = verdict.at(verdict.level) if verdict.level != OK else ()
    said = "; ".join(one.found for one in worst) or "fits this machine, as far as known"
    cure = f"{worst[0].cure}\n     For the full report: hpcmod compat {image}".strip() if worst else ""
    return Finding(verdict.level, "image", said, cure, subject=f"image {subject}")
