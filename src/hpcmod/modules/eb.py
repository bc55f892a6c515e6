"""Run EasyBuild so that it executes nothing from the working directory and ends when hpcmod does."""

from __future__ import annotations

import locale
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from hpcmod.core.errors import CheckFailedError, LackingError, NotFoundError
from hpcmod.core.log import current_settings
from hpcmod.core.process import TO_STDERR, Completed, call, run
from hpcmod.core.values.text import without_relative_entries
from hpcmod.core.which import which
from hpcmod.machine import is_profile_file

_NEUTRAL = Path("/")
"""Working directory of `eb`: it runs as `python -m`, which searches there for modules and easyconfigs."""

_FILES = ("HPCMOD_CACHE", "HPCMOD_LOCK", "HPCMOD_LOG_FILE")

_PLAIN = {"EASYBUILD_OUTPUT_STYLE": "basic"}
"""With the Python package rich, EasyBuild breaks lines, also in paths."""

_EB_LOG = re.compile(r"(?:log file\(s\)|in case of crash) (/.+)")

EXIT_CODE_FILE = "HPCMOD_EXIT_CODE_FILE"
"""Environment variable with the file in which the easyblock stores the exit code of its error."""

_PLAN = "plan"  # file beside it, for the plan of a dry run
_FAKE_ROOT = re.compile(r"/[\w./-]+/__ROOT__(?=/)")  # before all directories of a dry run

_SIGNALLED = 128  # shell exit statuses above this mean: ended by a signal

_EB_MISSING_EASYCONFIG = 4  # EasyBuildExit.MISSING_EASYCONFIG


def call_eb(
    arguments: Sequence[str],
    environ: Mapping[str, str],
    *,
    tell: Callable[[str], None],
    shown: bool = False,
    print_plan: Callable[[str], None] | None = None,
) -> int:
    """Run `eb` and return an exit code of hpcmod; paths in the arguments must be absolute.

    `shown`: Whether its steps are on this terminal. Otherwise only its messages are, and the path of its log if it
        fails; with -v, the steps go to stderr.
    `print_plan`: For a dry run: called with the easyblocks' plan; with all that `eb` printed if it failed.

    Raises LackingError if `eb` is missing.
    """
    with tempfile.TemporaryDirectory(prefix="hpcmod-") as directory:
        report, output = Path(directory, "exit-code"), Path(directory, "output")
        ours = {**isolated(environ), EXIT_CODE_FILE: str(report), **_PLAIN}
        with output.open("wb") as file:
            stdout = TO_STDERR if current_settings().level else file.fileno()
            command = [find_eb(environ), *arguments]
            status = call(command, env=ours, cwd=_NEUTRAL, stdout=None if shown else stdout, tied=True)
        text = output.read_text(errors="replace")
        logs = _EB_LOG.findall(text)
        if status and logs:
            tell(f"the log of eb: {logs[-1]}")
        if print_plan:
            plan = report.with_name(_PLAN)
            print_plan((plan.read_text() if plan.is_file() and not status else text).rstrip())
        return _translate(status, report)


def _translate(status: int, report: Path) -> int:
    """Return hpcmod's exit code for an exit status of `eb`, whose codes have other meanings.

    A signal that ended `eb` (a negative status) gives 128 and its number, as in a shell.
    """
    if status < 0:
        return _SIGNALLED - status
    if status == 0 or status > _SIGNALLED:
        return status
    with suppress(OSError, ValueError):
        return int(report.read_text())
    return NotFoundError.exit_code if status == _EB_MISSING_EASYCONFIG else CheckFailedError.exit_code


def report_exit_code(code: int, environ: Mapping[str, str]) -> None:
    """Store an error's exit code for the hpcmod that started `eb`; do nothing if `eb` was started otherwise."""
    if environ.get(EXIT_CODE_FILE):
        with suppress(OSError):
            Path(environ[EXIT_CODE_FILE]).write_text(str(code))


def report_plan(lines: Sequence[str], environ: Mapping[str, str]) -> Sequence[str]:
    """Return lines of a plan; add them to that for the hpcmod that started `eb` for a dry run, if it was started so."""
    if environ.get(EXIT_CODE_FILE):
        with suppress(OSError), Path(environ[EXIT_CODE_FILE]).with_name(_PLAN).open("a") as file:
            file.writelines(_FAKE_ROOT.sub("", f"{line}\n") for line in lines)
    return lines


def run_eb(arguments: Sequence[str], environ: Mapping[str, str]) -> Completed:
    """Run an `eb` that takes no locks to its end and return its result; its temporary files are removed."""
    with tempfile.TemporaryDirectory(prefix="hpcmod-") as directory:
        ours = {**isolated(environ), "TMPDIR": directory, "EASYBUILD_TMPDIR": directory}
        # EasyBuild 5.4 can survive a SIGTERM that comes while it reads its configuration
        return run([find_eb(environ), *arguments], env=ours, cwd=_NEUTRAL, tied=signal.SIGKILL)


def find_eb(environ: Mapping[str, str]) -> str:
    """Return the path of the `eb` command: on PATH, or installed with hpcmod.

    Raises LackingError if it is missing.
    """
    eb = which("eb", environ)
    beside = Path(sys.executable).with_name("eb")
    if eb or beside.is_file():
        return eb or str(beside)
    raise LackingError(
        "EasyBuild's command `eb` is missing", f"Load the site's EasyBuild module, or install EasyBuild as {beside}."
    )


def isolated(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which no program or Python module is loaded from the working directory.

    Relative paths in hpcmod's own variables are made absolute, because `eb` runs in another directory.
    """
    paths = [path for path in environ.get("PYTHONPATH", "").split(":") if path.startswith("/")]
    ours = {
        **environ,
        **current_settings().variables(),  # the easyblocks use the same log settings
        "PATH": without_relative_entries(environ.get("PATH", "")),
        "PYTHONPATH": ":".join(paths),
        "PYTHONSAFEPATH": "1",  # Python 3.11; older versions are protected by the neutral directory
    }
    for name in (*_FILES, *(["HPCMOD_SITE"] if is_profile_file(ours.get("HPCMOD_SITE", "")) else ())):
        if ours.get(name):
            ours[name] = str(Path(ours[name]).absolute())
    try:
        locale.setlocale(locale.LC_CTYPE, "")  # as Python does when it starts
    except locale.Error:
        ours["LC_ALL"] = "C"  # bash would warn in each of its answers, which `eb` could not read
    catalogues = [str(Path(path).absolute()) for path in ours.get("HPCMOD_CATALOGUE", "").split(":") if path]
    return {**ours, "HPCMOD_CATALOGUE": ":".join(catalogues)} if catalogues else ours
