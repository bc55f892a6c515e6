"""The command `hpcmod job`: write and submit a batch script."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from hpcmod.catalogue import complete_container, look_around, name_variant
from hpcmod.core.cli.arguments import complete_file, with_options
from hpcmod.core.cli.flags import with_flags
from hpcmod.core.cli.output import json_option, print_data, print_json, tell
from hpcmod.core.errors import BadInputError, NotFoundError
from hpcmod.jobs.cli.options import JOB_OPTIONS, JobFlags, make_request
from hpcmod.jobs.cli.run_options import (
    RUN_OPTIONS,
    SLURM_OPTIONS,
    CommandOfProgram,
    find_own_mpi,
    make_container,
)
from hpcmod.jobs.cli.script import RepeatedScript, WrittenScript, save_script
from hpcmod.jobs.values.job import make_job
from hpcmod.jobs.values.request import JobRequest
from hpcmod.jobs.values.slurm import check_scheduler, make_salloc, spell_options, usual_options, value_of
from hpcmod.machine import find_gpu_targets, find_machine
from hpcmod.machine.values.site import Site
from hpcmod.machine.values.targets import runs_on
from hpcmod.modules import Installed, site_of
from hpcmod.modules.values.install_record import NO_RECORD
from hpcmod.modules.values.place import CHOOSING


@click.command(cls=CommandOfProgram, context_settings={"allow_interspersed_args": True})
@click.argument("module", metavar="[NAME[/VERSION]]", required=False, default="", shell_complete=complete_container)
@click.argument("program", nargs=-1, type=click.UNPROCESSED, shell_complete=complete_file)
@with_options(*JOB_OPTIONS, *SLURM_OPTIONS, *RUN_OPTIONS)
@json_option(WrittenScript, RepeatedScript)
@with_flags(JobFlags)
def job(flags: JobFlags) -> None:
    """Write a batch script for this machine and submit it.

    The module is loaded in the job; PROGRAM is a Python file with its arguments, or a command of the image. Further
    options of sbatch go into --sbatch, those of the run script into --env, e.g. --env HPCMOD_DEBUG=nccl.

    \b
    Examples:
      hpcmod job PyTorch -N 4 -A project_465000001 -t 01:00:00 -- train.py --epochs 3 > train.sh
      hpcmod job PyTorch/2.7.1 -N 2 --stage ram --submit -- train.py
      hpcmod job PyTorch -N 2 --env NCCL_ALGO=Tree --sbatch=--array=0-15 -- train.py
      hpcmod job PyTorch -N 2 --salloc
      hpcmod job --rerun train.sh --submit
    """
    profile = find_machine(None, os.environ, flag=flags.site).site
    if flags.output.rerun:
        check_scheduler(profile)
        from hpcmod.jobs.cli.rerun import rerun_job

        rerun_job(flags)
        return
    prepared = prepare_job(flags, profile)
    if flags.output.salloc:
        _allocate(prepared, flags)
        return
    written = write_job(prepared, flags)
    if flags.output.as_json:
        print_json(written)
    elif written.job or written.file is None:
        print_data(written.job or written.script, nl=bool(written.job))


@dataclass(frozen=True)
class PreparedJob:
    """A request, and what is known about the machine and the container that it is for."""

    request: JobRequest
    site: Site
    installed: Installed | None
    """The installation of the module; None if hpcmod did not install it or it is not known here."""
    elsewhere: bool
    """Whether the job is for another machine, where only the profile is known."""


def prepare_job(flags: JobFlags, profile: Site) -> PreparedJob:
    """Find the module of a job and make its request.

    Raises HpcmodError if the module does not exist or an option is not valid.
    """
    from hpcmod.jobs.cli.module import find_module

    elsewhere = flags.site is not None and not flags.submits
    environ = {**os.environ, **{name: value for name, value in flags.pairs if name in CHOOSING}}
    loading, installed = find_module(flags.module, profile, environ, chosen=flags.site is not None, elsewhere=elsewhere)
    _check_module(loading.name, flags)
    profile = site_of(installed.record if installed else NO_RECORD, profile, os.environ, asked=flags.site, tell=tell)
    program = flags.program or (("python",) if flags.output.salloc else ())
    image = _find_image(installed)
    container = make_container(image, profile, _find_mpi(installed, profile, environ))
    container = container._replace(has_bash=installed is None or installed.has_bash)
    request = make_request(flags, program, loading, container, usual_options(os.environ))
    if flags.run.stage:
        from hpcmod.jobs.cli.staging import with_staging

        request = with_staging(request, flags.run.stage, profile, image)
    return PreparedJob(request, profile, installed, elsewhere)


def _find_image(installed: Installed | None) -> Path | None:
    """Return the image of an installation; None if it is not here."""
    image = Path(installed.image.path) if installed and installed.image.path else None
    return image if image and image.is_file() else None


def _find_mpi(installed: Installed | None, site: Site, environ: Mapping[str, str]) -> str:
    """Return the MPI that users added, else the image's; empty if there is none or nothing is installed here."""
    if installed is None:
        return ""
    from hpcmod.compat import find_image_mpi

    return find_own_mpi(installed.record, environ) or find_image_mpi(installed, site, environ)


def _check_module(module: str, flags: JobFlags) -> None:
    if module.endswith(".py"):
        raise BadInputError(
            f"no module given: {module} is in its place", f"hpcmod job NAME[/VERSION] ... -- {module} ARGUMENTS"
        )
    if not module and not flags.output.salloc:  # an allocation may be for anything, e.g. to build an image
        raise BadInputError("no module given", "hpcmod job NAME[/VERSION] ... -- train.py ARGUMENTS")


def write_job(job: PreparedJob, flags: JobFlags) -> WrittenScript:
    """Write the batch script of a job, submit it if that was asked for, and report notes to the user.

    Raises HpcmodError if the job would fail for want of a file or a command, or the scheduler refuses it.
    """
    from hpcmod.jobs.needs import find_missing
    from hpcmod.jobs.queue import submit_script, test_script
    from hpcmod.jobs.text.jobscript import render_jobscript

    request, site, installed = job.request, job.site, job.installed
    plan = make_job(request, site)
    text = render_jobscript(plan)
    submit, options = flags.submits, spell_options(flags.named)  # given to sbatch, whose variables they override
    tested = "" if job.elsewhere else test_script(text, must=submit, options=options)
    missing = () if job.elsewhere else find_missing(request, installed)
    if missing and submit and flags.site is None:
        raise NotFoundError("\n".join(fault for fault, _ in missing), missing[0][1])
    path = None
    if not flags.output.dry_run:
        path = save_script(text, flags.output.script or (Path(f"{plan.name}.sh") if submit else None))
    number = submit_script(path, options) if submit and path else ""
    notes = [*plan.notes, *filter(None, [tested]), *(f"{fault}. {cure}" for fault, cure in missing)]
    if not job.elsewhere:
        notes += _explain_output(request)
        notes += _explain_module(installed, site) if installed else ()
    for note in notes:
        tell(note)
    return WrittenScript(path, number or None, tested or None, text, plan)


def _explain_module(installed: Installed, site: Site) -> Iterator[str]:
    """Yield what does not fit this machine, and the published variant for its GPUs if the image is for others."""
    from hpcmod.compat import explain_module

    yield from explain_module(installed, site, os.environ)
    targets = installed.record.fit.targets
    if runs_on(targets, find_gpu_targets(site)) is False:  # else the catalogues need not be read
        yield from filter(None, [name_variant(look_around(None, profile=site), installed.module, targets)])


def _explain_output(request: JobRequest) -> Iterator[str]:
    """Yield warnings about missing directories: before 23.02, Slurm does not create them, and the job ends silently."""
    start = Path(value_of(request.more, "chdir", "D") or ".")
    if not start.is_dir():
        yield f"The job's working directory {start} does not exist: mkdir -p {start}"
    files = (value_of(request.more, "output", "o"), value_of(request.more, "error", "e"))
    for place in dict.fromkeys(start / Path(file).parent for file in files):
        if "%" not in str(place) and not place.is_dir() and place != start:
            yield f"The directory {place} does not exist, and Slurm before 23.02 does not create it: mkdir -p {place}"


def _allocate(job: PreparedJob, flags: JobFlags) -> None:
    from hpcmod.core.process import become
    from hpcmod.core.text.quote import sh_word

    given = {"--env": flags.variables, "--stage-data": flags.stage_data, "a program": flags.program}
    unfit = ", ".join(filter(given.get, given))
    if unfit:
        raise BadInputError(
            f"--salloc writes no batch script, for {unfit}",
            "Leave it out; in the allocation, export the variables, and run: hpcmod launch -- PROGRAM",
        )
    argv = make_salloc(make_job(job.request, job.site).directives)
    if flags.output.submit:
        sys.stdout.flush()
        become(argv)
    print_data(" ".join(map(sh_word, argv)))
