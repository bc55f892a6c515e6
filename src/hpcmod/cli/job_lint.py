"""What `hpcmod job --lint` prints: the mistakes in batch scripts, and the exit code that tells of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from hpcmod.check.jobs.lint import lint_job
from hpcmod.errors import BadInputError, NotFoundError
from hpcmod.model.site import Site

JSON_VERSION = 1


def lint_files(names: Sequence[str], site: Site, *, as_json: bool) -> None:
    """Look for mistakes in batch scripts, print them, and exit with 1 if there are any."""
    if not names:
        raise BadInputError("no batch script is named", "hpcmod job --lint FILE")
    found = {name: lint_job(_read(name), site) for name in names}
    if as_json:
        files = [{"file": name, "faults": [asdict(fault) for fault in faults]} for name, faults in found.items()]
        click.echo(json.dumps({"version": JSON_VERSION, "site": site.name, "files": files}, indent=1))
    else:
        for name, faults in found.items():
            for fault in faults:
                click.echo(f"{name}:{fault.line}: {fault.rule}: {fault.what}\n    {fault.cure}")
    sys.exit(any(found.values()))


def _read(name: str) -> str:
    # carriage returns are among the mistakes, so the bytes are taken as they are
    try:
        return Path(name).read_bytes().decode("utf-8", errors="replace")
    except FileNotFoundError as err:
        raise NotFoundError(f"there is no file {name}", "hpcmod job --lint FILE") from err
