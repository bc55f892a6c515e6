"""The output of `hpcmod job --lint`: mistakes in batch scripts. `hpcmod lint` accepts batch scripts too."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from hpcmod.check.jobs.files import read_batch_file
from hpcmod.check.jobs.lint import JobFault, lint_job
from hpcmod.cli.output import print_data, print_text
from hpcmod.errors import BadInputError
from hpcmod.model.site import Site

JSON_VERSION = 1


def lint_files(names: Sequence[str], site: Site, *, as_json: bool) -> None:
    """Print the mistakes in batch scripts, and exit with 1 if there are any."""
    if not names:
        raise BadInputError("no batch script given", "hpcmod job --lint FILE")
    found = {name: lint_job(read_batch_file(Path(name)), site) for name in names}
    if as_json:
        files = [{"file": name, "faults": [asdict(fault) for fault in faults]} for name, faults in found.items()]
        print_data(json.dumps({"version": JSON_VERSION, "site": site.name, "files": files}, indent=1))
    else:
        for name, faults in found.items():
            for fault in faults:
                print_text(format_fault(name, fault))
    sys.exit(any(found.values()))


def format_fault(name: str, fault: JobFault) -> str:
    """Return the lines that describe a mistake: file, line, rule and effect, then its cure."""
    return f"{name}:{fault.line}: {fault.rule}: {fault.what}\n    {fault.cure}"
