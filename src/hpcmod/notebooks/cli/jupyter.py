"""The command `hpcmod jupyter`: run a Jupyter server of a container on a node, in a job or in this shell."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from getpass import getuser

import click

from hpcmod.catalogue import container_argument, find_ready, look_around
from hpcmod.core.cli.arguments import site_option
from hpcmod.core.cli.flags import make_flags, with_flags
from hpcmod.core.cli.output import json_option, print_data, print_json, print_message, tell
from hpcmod.core.cli.signals import terminate_cleanly
from hpcmod.core.cli.verbs import HELP_NAMES
from hpcmod.core.errors import BadInputError, CheckFailedError, LackingError
from hpcmod.core.process import TO_STDERR, call
from hpcmod.core.text.quote import sh_word
from hpcmod.jobs import (
    NO_ANSWER,
    CommandOfProgram,
    JobFlags,
    cancel_job,
    find_node,
    find_state,
    has_queue,
    is_waiting_or_running,
    job,
    prepare_job,
    write_job,
)
from hpcmod.jobs.values.allocation import read_place
from hpcmod.jobs.values.slurm import TASK_BESIDE
from hpcmod.machine import load_site
from hpcmod.modules import Installed, check_python_module
from hpcmod.notebooks.cli.jupyter_session import Session, open_session
from hpcmod.notebooks.values.server import KINDS, Server, make_ssh_command, make_url

_LOOK = 0.5  # seconds between checks for the server's file
_ASK = 5.0  # seconds between queries to the scheduler about the job
_CLEANUP = 15.0  # seconds to wait for the scheduler to end a cancelled job
_SAID = 15  # lines of the server's log that are shown if it fails


@dataclass(frozen=True)
class JupyterServer:
    """A running Jupyter server."""

    dry_run: bool
    ssh: str
    """Command to run on your own computer."""
    url: str
    """Address for its browser, with the token."""
    node: str
    """Empty: this one."""
    port: int
    job: str
    """Number of the job; empty without one."""


@dataclass(frozen=True)
class JupyterStart:
    """With --dry-run: what would start the server."""

    dry_run: bool
    script: str
    """Batch script, or command."""


@dataclass(frozen=True)
class JupyterFlags:
    """Arguments and options of `hpcmod jupyter`."""

    container: str
    job: tuple[str, ...]
    """Options of `hpcmod job`."""
    kind: str
    """One of KINDS."""
    here: bool
    dry_run: bool
    site: str | None
    as_json: bool


@click.command("jupyter", cls=CommandOfProgram)
@container_argument
@click.argument("job", nargs=-1, type=click.UNPROCESSED, metavar="[-- JOB OPTIONS]")
@click.option("--lab", "kind", flag_value="lab", default="lab", help="JupyterLab (default).")
@click.option("--notebook", "kind", flag_value="notebook", help="Jupyter Notebook.")
@click.option("--here", is_flag=True, help="Run in the current allocation or on this node, not in a new job.")
@click.option("--dry-run", is_flag=True, help="Print the batch script or the command; run nothing.")
@site_option
@json_option(JupyterServer, JupyterStart)
@with_flags(JupyterFlags)
def jupyter_verb(flags: JupyterFlags) -> None:
    """Run a Jupyter server of a container on a compute node.

    Submits a job and waits until the server runs. Then prints the ssh command for your own computer and the address for
    your browser. JOB OPTIONS are those of `hpcmod job`. The server ends with the job; Ctrl-C cancels the job.

    \b
    Examples:
      hpcmod jupyter PyTorch -- -A project_465000001 -p small-g --gpus 1 -t 02:00:00
      hpcmod jupyter PyTorch --notebook -- -t 60
      hpcmod jupyter PyTorch --here
    """
    if flags.here and flags.job:
        raise click.UsageError("--here runs in the current allocation, so job options have no effect")
    installed = find_ready(look_around(flags.site), flags.container)
    module, _ = KINDS[flags.kind]
    check_python_module(installed, module, module)
    with terminate_cleanly(), open_session(keep=flags.dry_run, here=flags.here) as session:
        if flags.here:
            _run_here(session, installed, flags)
        else:
            _run_job(session, flags)


def _run_job(session: Session, flags: JupyterFlags) -> None:
    if not flags.dry_run and not has_queue():
        raise LackingError(
            "no Slurm here: sbatch is missing", f"Run it on this node: hpcmod jupyter {flags.container} --here"
        )
    job_flags = _job_flags(session, flags)
    profile = load_site(flags.site, {} if flags.site else os.environ)
    written = write_job(prepare_job(job_flags, profile), job_flags)
    if flags.dry_run:
        print_json(JupyterStart(True, written.script)) if flags.as_json else print_data(written.script, nl=False)
        return
    number = written.job or ""
    tell(f"submitted job {number}; waiting until it starts (Ctrl-C cancels it)")
    try:
        server = _wait_for_server(session, number)
        node = find_node(number).strip(NO_ANSWER)
        _print_way(session, flags, server, node=node, host=socket.getfqdn(), job=number)
        while is_waiting_or_running(number):
            time.sleep(_ASK)
        tell(f"job {number} has ended")
    finally:
        _cancel(number)


def _job_flags(session: Session, asked: JupyterFlags) -> JobFlags:
    """Parse options of `hpcmod job`, and add those that a server needs.

    Raises BadInputError if they request anything other than one server in one job.
    """
    ours = ["--ranks-per-node", "1", f"--sbatch=--output={session.log}", "-o", str(session.directory / "job.sh")]
    named = [] if {"-J", "--job-name"} & set(asked.job) else ["--job-name", "jupyter"]
    words = [asked.container, *asked.job, *named, *ours, "--bind", str(session.directory)]
    given = job.make_context("hpcmod jupyter", words, help_option_names=HELP_NAMES).params
    flags = make_flags(JobFlags, given)
    unfit = [name for name in ("rerun", "salloc", "requeue_on") if given[name]]
    if flags.program or flags.nodes != 1 or unfit:
        raise BadInputError(
            "job options that a Jupyter server cannot use: " + (", ".join(unfit) or "a program, or several nodes"),
            "Give options such as --time, --partition, --account and --gpus.",
        )
    program = ("env", "python", str(session.program), KINDS[asked.kind][0], "node")
    output = replace(flags.output, submit=not asked.dry_run, dry_run=asked.dry_run)
    return replace(flags, program=program, site=asked.site, output=output)


def _wait_for_server(session: Session, number: str) -> Server:
    """Wait until the server of a job runs.

    Raises CheckFailedError if the job ends first, with the end of its log.
    """
    asked = time.monotonic()
    while (server := session.find_server()) is None:
        time.sleep(_LOOK)
        if time.monotonic() - asked > _ASK:
            asked = time.monotonic()
            if not is_waiting_or_running(number):
                said = "\n".join(session.read_log()[-_SAID:])
                fix = "Fix the reported problem" if said else f"Ask what Slurm knows of it: hpcmod why {number}"
                raise CheckFailedError(
                    f"job {number} ended before its Jupyter server ran:\n{said or 'it wrote no log'}",
                    f"{fix}, and run the command again.",
                )
    return server


def _cancel(number: str) -> None:
    """Cancel a job that has not ended, and wait for its processes, which write to the session's directory."""
    if is_waiting_or_running(number):
        cancel_job(number)
        tell(f"cancelled job {number}")
    end = time.monotonic() + _CLEANUP
    while find_state(number) and time.monotonic() < end:
        time.sleep(_LOOK)


def _run_here(session: Session, installed: Installed, flags: JupyterFlags) -> None:
    """Run a server on this node, or on the first node of an allocation that this shell is not on."""
    here = read_place(os.environ)
    step = TASK_BESIDE if here.job and not here.node else ()
    start = [str(installed.program), "exec", "--bind", str(session.directory), "--"]
    server_words = ["python", str(session.program), KINDS[flags.kind][0], "node" if here.job else "local", "tied"]
    argv = [*step, *start, *server_words]
    if flags.dry_run:
        command = " ".join(map(sh_word, argv))
        print_json(JupyterStart(True, command)) if flags.as_json else print_data(command)
        return

    def report(server: Server) -> None:
        _print_way(session, flags, server, node=here.node, host=here.login or socket.getfqdn(), job=here.job)

    with _reporting(session, report) as seen, _pipe_of_ours() as stdin:
        status = call(argv, stdin=stdin, stdout=TO_STDERR)
    if not seen.is_set():
        raise CheckFailedError(f"the Jupyter server did not start (exit code {status})", "Its messages are above.")


@contextmanager
def _pipe_of_ours() -> Iterator[int]:
    """Yield the end of a pipe that can be read; it ends with this process, even if that is killed."""
    there, here = os.pipe()
    try:
        yield there
    finally:
        os.close(there)
        os.close(here)


@contextmanager
def _reporting(session: Session, report: Callable[[Server], None]) -> Iterator[threading.Event]:
    """Call a function once the server runs, and then set the event that is yielded."""
    seen, ended = threading.Event(), threading.Event()

    def look() -> None:
        while not ended.wait(_LOOK):
            server = session.find_server()
            if server:
                report(server)
                seen.set()
                return

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


def _print_way(session: Session, flags: JupyterFlags, server: Server, *, node: str, host: str, job: str) -> None:
    """Print the command and the address that the user needs to reach a server on a node, by way of a host."""
    ssh = " ".join(map(sh_word, make_ssh_command(server, node=node, login=f"{getuser()}@{host}")))
    url = make_url(server, token=session.token, kind=flags.kind)
    if flags.as_json:
        print_json(JupyterServer(False, ssh, url, node, server.port, job))
    else:
        print_message("On your own computer, run this and leave it running:")
        print_data(ssh)
        print_message("Then open this address in its browser; the token in it is your password:")
        print_data(url)
        print_message("Ctrl-C here ends the server.")
    sys.stdout.flush()
