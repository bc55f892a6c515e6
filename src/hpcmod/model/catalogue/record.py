"""What a catalogue knows of one published container: the record, as a value and as the JSON that is kept of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any

from hpcmod.errors import BadInputError
from hpcmod.model.facts import Package
from hpcmod.model.strict_json import JsonObject, Texts, load_json, show_value

RECORD_VERSION = 1
STATES = ("published", "deprecated", "retired")

RECORD_LIMIT = 16 << 20
"""Bytes of a record; one of 10,000 packages has 1 MB."""
_MOST = 100_000  # packages, commands, checks
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+~-]{0,199}")  # 255 is what Linux takes; we put more around it
_DAY = re.compile(r"(\d{4}-\d\d-\d\d)?")


@dataclass(frozen=True)
class Check:
    """A check that was run on a container."""

    name: str
    """What was run, as a user would type it after `module load`."""
    passed: bool
    when: str
    """ISO 8601, UTC."""
    sha256: str
    """Of the SIF that it was run on: the result is worth nothing for another."""
    under: str = ""
    """slurm: run as a job step; empty: run on the machine that published."""


@dataclass(frozen=True)
class CatalogueRecord:
    """One published container. All texts but those of `check_record` may be hostile: data until quoted."""

    name: str
    version: str
    """With the suffix, as in the module's name."""
    module: str
    """Short module name, e.g. PyTorch/2.7.1-rocm-6.2.4-singularity."""
    sif: str
    """File name below images/."""
    sha256: str
    """Of the SIF, 64 hexadecimal digits."""
    size: int
    """Bytes of the SIF."""
    state: str = "published"
    """One of STATES."""
    site: str = ""
    """Name of the profile it was published with."""
    architecture: str = ""
    """GOARCH name."""
    reference: str = ""
    """Where the image came from, with the digest where there is one."""
    signature: str = ""
    """How it was verified, in a few words; empty: it was not."""
    easyconfig: str = ""
    """File name below easyconfigs/."""
    description: str = ""
    homepage: str = ""
    labels: Texts = ()
    environment: Texts = ()
    packages: tuple[Package, ...] = ()
    """Python packages inside, sorted by name, case ignored."""
    python: str = ""
    """Version of the Python inside; empty: none was found."""
    commands: tuple[str, ...] = ()
    stack: Texts = ()
    """What it is built on (mpi, libfabric, plugin, cuda, rocm, ...), and in which version."""
    sbom: str = ""
    """Path inside the image of its list of software; empty: it has none."""
    aliases: tuple[str, ...] = ()
    """Names that lead here (stable, latest), sorted; one alias leads to one version of a name."""
    checks: tuple[Check, ...] = ()
    published: str = ""
    """When, as ISO 8601 in UTC."""
    publisher: str = ""
    until: str = ""
    """Day (YYYY-MM-DD) from which a deprecated one may go, and a retired one does not load; empty: not said."""
    successor: str = ""
    """Short module name, or any text, of what to use instead."""
    reason: str = ""
    """Why it is deprecated or retired."""
    readers: str = ""
    """The group that may read the image; empty: everybody."""
    licence: str = ""
    """The sha256 of a licence text that users must accept before they load it; empty: none."""
    rendering: str = ""
    """The change that rendered its module and scripts last; empty: publishing did."""
    compat: str = ""
    """Word of the verdict on host and image: ok, warn, refuse; empty: not judged."""

    @property
    def tested(self) -> bool:
        """Whether there are checks, and all of them passed on this very image."""
        return bool(self.checks) and all(check.passed and check.sha256 == self.sha256 for check in self.checks)


def parse_record(text: bytes, where: str = "record") -> CatalogueRecord:
    """Read a record that may have been damaged, or written by a stranger.

    Raises
    ------
    BadInputError
        If it is not one, or names files outside the catalogue.
    """
    found = JsonObject(load_json(text, where, limit=RECORD_LIMIT), where)
    if found.number("record", 0) != RECORD_VERSION:
        raise BadInputError(
            f"{where}: record is of version {show_value(found.values.get('record'))}, known is {RECORD_VERSION}",
            "Use the hpcmod that wrote it, or a later one.",
        )
    record = CatalogueRecord(**{name: read(found, name) for name, read in _READERS.items()})
    check_record(record, where)
    return record


def _read_packages(found: JsonObject, key: str) -> tuple[Package, ...]:
    return tuple(Package(one.text("name"), one.text("version")) for one in found.objects(key, _MOST))


def _read_checks(found: JsonObject, key: str) -> tuple[Check, ...]:
    return tuple(
        Check(
            one.text("name"),
            one.values.get("passed") is True,
            one.text("when"),
            one.text("sha256"),
            one.text("under"),
        )
        for one in found.objects(key, _MOST)
    )


_READER_OF_TYPE: dict[str, Callable[[JsonObject, str], Any]] = {
    "str": JsonObject.text,
    "int": JsonObject.number,
    "Texts": JsonObject.table,
    "tuple[str, ...]": JsonObject.texts,
    "tuple[Package, ...]": _read_packages,
    "tuple[Check, ...]": _read_checks,
}
_READERS = {field.name: _READER_OF_TYPE[str(field.type)] for field in fields(CatalogueRecord)}
"""How each field is read from JSON, chosen by its type, so that a new field cannot be forgotten."""
_TABLES = tuple(field.name for field in fields(CatalogueRecord) if field.type == "Texts")


def check_record(record: CatalogueRecord, where: str = "record") -> None:
    """Refuse a record whose names would lead out of the catalogue, or whose words are none of ours.

    Raises
    ------
    BadInputError
        With all faults.
    """
    faults = [
        f"{key}: not fit for the name of a file: {show_value(value)}"
        for key, value in [
            *(("name", record.name), ("version", record.version), ("sif", record.sif)),
            *(("easyconfig", record.easyconfig or "none"), *(("aliases", alias) for alias in record.aliases)),
        ]
        if not is_file_name(value)
    ]
    faults += [f"module: expected {record.name}/{record.version}"] * (
        record.module != f"{record.name}/{record.version}"
    )
    faults += [f"state: none of {', '.join(STATES)}: {show_value(record.state)}"] * (record.state not in STATES)
    faults += [f"sha256: not 64 hexadecimal digits: {show_value(record.sha256)}"] * (not _is_sha256(record.sha256))
    faults += [f"rendering: not a number: {show_value(record.rendering)}"] * (
        not re.fullmatch("[0-9]*", record.rendering)
    )
    faults += [f"readers: not the name of a group: {show_value(record.readers)}"] * (
        bool(record.readers) and not is_file_name(record.readers)
    )
    faults += [f"licence: not 64 hexadecimal digits: {show_value(record.licence)}"] * (
        bool(record.licence) and not _is_sha256(record.licence)
    )
    faults += [f"until: no day YYYY-MM-DD: {show_value(record.until)}"] * (not _DAY.fullmatch(record.until))
    if faults:
        raise BadInputError(f"{where}: {'; '.join(faults)}")


def is_file_name(text: str) -> bool:
    """Return whether a text can be the name, version or alias of a container: one that is safe as a file name."""
    return bool(_FILE_NAME.fullmatch(text))


def _is_sha256(text: str) -> bool:
    return bool(re.fullmatch(r"[0-9a-f]{64}", text))


def record_json(record: CatalogueRecord) -> str:
    """Render a record as it is kept: versioned, keys sorted, one change a line."""
    return json.dumps({"record": RECORD_VERSION, **record_values(record)}, indent=1, sort_keys=True) + "\n"


def record_values(record: CatalogueRecord) -> dict[str, Any]:
    """Return a record as JSON values, tables as objects: what `parse_record` reads."""
    return {**asdict(record), **{key: dict(getattr(record, key)) for key in _TABLES}}
