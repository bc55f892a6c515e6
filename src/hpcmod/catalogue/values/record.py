"""The record of a published container: a value, and the JSON that stores it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace

from hpcmod.core.errors import BadInputError
from hpcmod.core.text.quote import sh_word
from hpcmod.core.values.facts import Package
from hpcmod.core.values.json_form import SPLICED, TABLE, json_form, parse_json
from hpcmod.core.values.strict_json import Texts, show_value
from hpcmod.core.values.text import is_file_name, terminal

RECORD_VERSION = 1
STATES = ("published", "deprecated", "retired")

RECORD_LIMIT = 16 << 20
"""Maximum size of a record in bytes; a record with 10,000 packages takes 1 MB."""
_DAY = re.compile(r"(\d{4}-\d\d-\d\d)?")


@dataclass(frozen=True)
class Check:
    """A check that was run on a container."""

    name: str
    """The command, as a user would type it after `module load`."""
    passed: bool
    when: str
    """ISO 8601, UTC."""
    sha256: str
    """sha256 of the SIF that was checked: the result does not apply to any other."""
    under: str = ""
    """slurm: run as a job step; empty: run on the machine that published the container."""


@dataclass(frozen=True)
class ContainerContent:
    """What the image of a container contains."""

    architecture: str = ""
    """GOARCH name."""
    targets: tuple[str, ...] = ()
    """Micro-architectures that the image says it is built for (gfx90a, sm_90, zen3), sorted; empty: not known."""
    labels: Texts = field(default=(), metadata=TABLE)
    environment: Texts = field(default=(), metadata=TABLE)
    packages: tuple[Package, ...] = ()
    """Python packages in the image, sorted by name, ignoring case."""
    python: str = ""
    """Version of Python in the image; empty if none was found."""
    commands: tuple[str, ...] = ()
    stack: Texts = field(default=(), metadata=TABLE)
    """Components it is built on (mpi, libfabric, plugin, cuda, rocm, ...), with their versions."""
    sbom: str = ""
    """Path of the software list (SBOM) inside the image; empty if there is none."""


@dataclass(frozen=True)
class Publication:
    """Where a container comes from, and who published it for which machine."""

    site: str = ""
    """Name of the site profile it was published with."""
    reference: str = ""
    """Where the image came from, with its digest if it has one."""
    signature: str = ""
    """How the image was verified, in a few words; empty: not verified."""
    easyconfig: str = ""
    """File name relative to easyconfigs/."""
    description: str = ""
    homepage: str = ""
    published: str = ""
    """Time of publishing, ISO 8601, UTC."""
    publisher: str = ""
    compat: str = ""
    """Compatibility verdict for host and image: ok, warn, refuse; empty: not checked."""

    @property
    def origin(self) -> str:
        """Return where the image came from; of a file only its name, because its directories are its publisher's."""
        return self.reference if "://" in self.reference else self.reference.rpartition("/")[2]


@dataclass(frozen=True)
class StateNotice:
    """What users are told about a deprecated or retired container."""

    until: str = ""
    """Date (YYYY-MM-DD) from which a deprecated container may be retired, or a retired one does not load; or empty."""
    successor: str = ""
    """Short module name of the replacement, or any text."""
    reason: str = ""
    """Why it is deprecated or retired."""


@dataclass(frozen=True)
class CatalogueRecord:
    """One published container. Strings not checked by `check_record` may be hostile: treat as data until quoted."""

    name: str
    version: str
    """Including the suffix, as in the module's name."""
    module: str
    """Short module name, e.g. PyTorch/2.7.1-rocm-6.2.4-singularity."""
    sif: str
    """File name relative to images/."""
    sha256: str
    """sha256 of the SIF, 64 hexadecimal digits."""
    size: int
    """Size of the SIF in bytes."""
    content: ContainerContent = field(default=ContainerContent(), metadata=SPLICED)
    publication: Publication = field(default=Publication(), metadata=SPLICED)
    checks: tuple[Check, ...] = ()
    aliases: tuple[str, ...] = ()
    """Aliases of this version (stable, latest), sorted; each alias points to one version of a name."""
    state: str = "published"
    """One of STATES."""
    notice: StateNotice = field(default=StateNotice(), metadata=SPLICED)
    readers: str = ""
    """Group that may read the image; empty: everyone."""
    licence: str = ""
    """sha256 of a licence text that users must accept before loading; empty: none."""
    rendering: str = ""
    """Id of the change that last rendered its module and scripts; empty: publishing did."""

    @property
    def tested(self) -> bool:
        """Return whether there are checks and all of them passed on this image."""
        return bool(self.checks) and all(check.passed and check.sha256 == self.sha256 for check in self.checks)


def parse_record(text: bytes, where: str = "record") -> CatalogueRecord:
    """Parse a record, which may be damaged or come from an untrusted source.

    Raises BadInputError if it is not a record, or refers to files outside the catalogue.
    """
    record = parse_json(CatalogueRecord, text, where, limit=RECORD_LIMIT, version=("record", RECORD_VERSION))
    check_record(record, where)
    return record


def refusal(record: CatalogueRecord) -> str:
    """Return the message for users who may not read the image: one line, with a contact."""
    ask = record.publication.publisher or "your site's support"
    return terminal(f"{record.module} is restricted to the group {record.readers}; to get access, ask {ask}")


def publishing_again(record: CatalogueRecord) -> str:
    """Return the command that publishes a container again, which repairs it."""
    words = (record.publication.reference or "IMAGE", "--name", record.name, "--version", record.version)
    return f"hpcmod publish {' '.join(map(sh_word, words))}"


def for_all(record: CatalogueRecord) -> CatalogueRecord:
    """Return a record without what only its readers may learn, if it has any: `hpcmod ls` tells all the rest."""
    if not record.readers:
        return record
    of = record.publication
    known = Publication(site=of.site, description=of.description, publisher=of.publisher)
    shown = replace(record, content=ContainerContent(), publication=known, checks=(), sif="", sha256="")
    return replace(shown, notice=replace(record.notice, reason=""))


def check_record(record: CatalogueRecord, where: str = "record") -> None:
    """Raise BadInputError, with all errors, if a name leads outside the catalogue or a word is unknown."""
    easyconfig, until = record.publication.easyconfig, record.notice.until
    names = [("name", record.name), ("version", record.version), ("sif", record.sif)]
    names += [("easyconfig", easyconfig or "none"), *(("aliases", alias) for alias in record.aliases)]
    module = f"{record.name}/{record.version}"
    expected = (
        *((is_file_name(text), f"{key}: not a safe file name: {show_value(text)}") for key, text in names),
        (record.module == module, f"module: expected {module}"),
        (record.state in STATES, f"state: expected one of {', '.join(STATES)}, found {show_value(record.state)}"),
        (_is_sha256(record.sha256), f"sha256: not 64 hexadecimal digits: {show_value(record.sha256)}"),
        (re.fullmatch("[0-9]*", record.rendering), f"rendering: not a number: {show_value(record.rendering)}"),
        (is_file_name(record.readers or "none"), f"readers: not a valid group name: {show_value(record.readers)}"),
        (
            not record.licence or _is_sha256(record.licence),
            f"licence: not 64 hexadecimal digits: {show_value(record.licence)}",
        ),
        (_DAY.fullmatch(until), f"until: not a date (YYYY-MM-DD): {show_value(until)}"),
    )
    faults = [fault for is_valid, fault in expected if not is_valid]
    if faults:
        raise BadInputError(f"{where}: {'; '.join(faults)}")


def _is_sha256(text: str) -> bool:
    return bool(re.fullmatch(r"[0-9a-f]{64}", text))


def record_json(record: CatalogueRecord) -> str:
    """Return the stored JSON of a record: versioned, keys sorted, one value per line for readable diffs."""
    return json.dumps({"record": RECORD_VERSION, **json_form(record)}, indent=1, sort_keys=True) + "\n"
