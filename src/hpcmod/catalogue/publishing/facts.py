"""Create the record of a container from what was read from its image, without starting it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from hpcmod.catalogue.publishing.candidate import Candidate
from hpcmod.catalogue.values.record import CatalogueRecord, ContainerContent, Publication
from hpcmod.compat import find_stack, open_files
from hpcmod.compat.values.stack import StackFacts
from hpcmod.core.errors import NotFoundError
from hpcmod.core.values.facts import ImageFacts, Package, Provenance
from hpcmod.core.values.strict_json import Texts
from hpcmod.images import Sif
from hpcmod.machine.values.targets import find_targets
from hpcmod.modules import Installed

SBOM = "/opt/hpcmod/sbom.cdx.json"
"""Where images that hpcmod builds keep their software list; see recipes/components/finish.sh."""


def make_record(candidate: Candidate, facts: ImageFacts, provenance: Provenance, *, site: str) -> CatalogueRecord:
    """Return the record of a container that has not been tested yet."""
    return CatalogueRecord(
        name=candidate.name,
        version=candidate.version,
        module=candidate.module,
        sif=candidate.sif,
        sha256=provenance.sha256,
        size=facts.size,
        content=_describe_content(facts),
        publication=Publication(
            site=site,
            reference=whole_reference(provenance),
            signature="; ".join(provenance.verified),
            easyconfig=candidate.easyconfig,
            description=_text(candidate.description),
            homepage=_text(candidate.homepage),
        ),
    )


def describe_installed(copy: Installed) -> CatalogueRecord:
    """Return a record of an installation that is in no catalogue, read from its image.

    Raises NotFoundError, BadInputError, VerificationError, LackingError as `hpcmod.images.Sif.facts`
    does.
    """
    if not copy.image.path:
        cure = f"Install it again: eb {copy.name}-{copy.version}.eb --rebuild"
        raise NotFoundError(f"{copy.root}: its record names no image", cure)
    image = Path(copy.image.path)
    facts = Sif(image).facts()
    with open_files(image) as files:
        content = replace(_describe_content(facts), stack=stack_pairs(find_stack(files, facts)))
    sha256 = copy.image.sha256
    return CatalogueRecord(copy.name, copy.version, copy.module, image.name, sha256, facts.size, content)


def _describe_content(facts: ImageFacts) -> ContainerContent:
    return ContainerContent(
        architecture=facts.architecture,
        targets=find_targets(facts.labels, facts.environment),
        labels=_texts(facts.labels),
        environment=_texts(facts.environment),
        packages=tuple(Package(_text(package.name), _text(package.version)) for package in facts.packages),
        python=facts.python.version if facts.python else "",
        commands=tuple(sorted({_text(command) for command in (*facts.commands, *facts.tools)})),
    )


def whole_reference(provenance: Provenance) -> str:
    """Return where an image came from, with the digest that it had."""
    reference, digest = provenance.reference, provenance.digest
    return reference if not digest or "@" in reference or "://" not in reference else f"{reference}@{digest}"


def _texts(pairs: Iterable[tuple[str, str]]) -> Texts:
    return tuple((_text(name), _text(value)) for name, value in pairs)


def _text(text: str) -> str:
    """Replace with `?` what neither JSON nor a program's argument can contain: NUL and lone surrogates."""
    return text.replace("\0", "?").encode(errors="replace").decode()


def stack_pairs(stack: StackFacts) -> Texts:
    """Return the base stack of an image, each part with its version if known, or else `yes`."""
    mpi, fabric, plugin = stack.mpi, stack.fabric, next(iter(stack.plugins), None)
    found = {
        "glibc": stack.glibc,
        "mpi": f"{mpi.family} {mpi.soname} {mpi.version}" if mpi else "",
        "libfabric": f"{fabric.release or fabric.file}{' with cxi' * fabric.cxi}" if fabric else "",
        "plugin": f"{plugin.path.rpartition('/')[2]} {plugin.transport}" if plugin else "",
        "collectives": stack.gpu.collectives,
        "cuda": stack.gpu.cuda,
        "rocm": stack.gpu.rocm,
    }
    return tuple((name, _text(version.strip())) for name, version in found.items() if version.strip())
