"""The verb for batch scripts: `hpcmod job` writes, checks and submits one, or looks for mistakes in yours."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from hpcmod import machine, resources
from hpcmod.cli.containers import complete_container, complete_file
from hpcmod.cli.job_options import directives, more_of_request, slurm_options
from hpcmod.cli.job_script import save_script, submit_script, test_script
from hpcmod.cli.output import print_data, tell
from hpcmod.cli.run_options import CommandOfProgram, of_a_run, runtime_name, script_options
from hpcmod.errors import BadInputError, NotFoundError
from hpcmod.install.installed import Installed
from hpcmod.model.jobs.job import make_job
from hpcmod.model.jobs.request import SBATCH_VARIABLES, JobRequest, with_options
from hpcmod.model.site import STAGE_PLACES, Site
from hpcmod.process import become

JSON_VERSION = 1


def _complete_module(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a container, or the batch script of `job --lint`."""
    complete = complete_file if ctx.params.get("lint") else complete_container
    return complete(ctx, parameter, incomplete)


@click.command(cls=CommandOfProgram, context_settings={"allow_interspersed_args": True})
@click.argument("module", required=False, default="", shell_complete=_complete_module)
@click.argument("program", nargs=-1, type=click.UNPROCESSED, shell_complete=complete_file)
@click.option("-N", "--nodes", default=1, help="Default: 1.")
@click.option("-n", "--ranks", default=0, help="In all, where the nodes may get unequal shares.")
@click.option("-A", "--account", default="", help="Slurm account.")
@click.option("-q", "--qos", default="", help="Quality of service.")
@click.option("-t", "--time", default="", help="Time limit: 01:30:00 is an hour and a half, 30 half an hour.")
@click.option("-p", "--partition", default="", help="Default: the first that has such nodes.")
@click.option("-C", "--constraint", default="", help="Features that the nodes must have.")
@click.option("--reservation", default="", help="Reservation to run in.")
@click.option("-J", "--job-name", default="", help="Default: that of the program.")
@click.option("--output", default="", help="File for what the job prints; default: %x-%j.out.")
@click.option("--sbatch", "more", multiple=True, help="Any other option of sbatch, e.g. --sbatch=--mem=0.")
@click.option("--stage", type=click.Choice(STAGE_PLACES), default=None, help="Copy the image to every node first.")
@click.option("--stage-data", multiple=True, help="Archive or squashfs to put on every node, at /staged-data/NAME.")
@click.option("--proxy", is_flag=True, help="Set the site's variables that lead to the internet.")
@click.option("-o", "script", type=click.Path(path_type=Path), help="File for the batch script; default: stdout.")
@click.option("--submit", is_flag=True, help="Submit it with sbatch (or run salloc).")
@click.option("--salloc", is_flag=True, help="Print the salloc that gives the same nodes, for `hpcmod launch`.")
@click.option("--dry-run", is_flag=True, help="Print the script; write and submit nothing.")
@click.option("--lint", is_flag=True, help="Look for mistakes in the batch scripts named: hpcmod job --lint FILE")
@click.option("--rerun", default="", metavar="FILE|JOBID", help="Former batch script or job to check and run again.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@slurm_options
@of_a_run
def job(
    module: str,
    program: tuple[str, ...],
    site: str | None,
    lint: bool,
    rerun: str,
    as_json: bool,
    **given: Any,
) -> None:
    """Write a batch script for this machine and submit it.

    MODULE is loaded in the job; PROGRAM is a Python file with its arguments, or a command of the image.

    \b
    Examples:
      hpcmod job PyTorch -N 4 -A project_465000001 -t 01:00:00 -- train.py --epochs 3 > train.sh
      hpcmod job PyTorch/2.7.1 -N 2 --stage ram --submit -- train.py
      hpcmod job PyTorch -N 2 --profile-rank 14 --dry-run -- train.py
      hpcmod job PyTorch -N 2 --env NCCL_ALGO=Tree --then 'evaluate.py --last' -- train.py
      hpcmod job PyTorch -N 2 --salloc
      hpcmod job --lint train.sh
      hpcmod job --rerun train.sh --submit
    """
    from hpcmod.cli.job_module import find_module

    profile = machine.load_site(site, {} if site else os.environ)
    if lint:
        from hpcmod.cli.job_lint import lint_files

        lint_files([name for name in (module, *program) if name], profile, as_json=as_json)
        return
    if rerun:
        from hpcmod.cli.job_rerun import rerun_job

        rerun_job(rerun, given, as_json=as_json)
        return
    # a script for another machine, of which only the profile is known
    elsewhere = site is not None and not (given["submit"] and not given["dry_run"])
    loading, installed = find_module(module, profile, elsewhere=elsewhere)
    given |= {"loading": loading, "image_mpi": _image_mpi(installed, profile), "site_named": site is not None}
    if given["salloc"]:
        _allocate(_make_request(loading.name, program or ("python",), given), profile, submit=given["submit"])
        return
    request = _make_request(loading.name, program, given)
    _write(request, profile, given, installed, elsewhere=elsewhere, as_json=as_json)


def _image_mpi(installed: Installed | None, site: Site) -> str:
    """Return which MPI the image of an installation has; empty if nothing is installed here, or it has none."""
    if installed is None:
        return ""
    from hpcmod.check.image_mpi import find_image_mpi

    return find_image_mpi(installed, site, os.environ)


def _make_request(module: str, program: tuple[str, ...], given: Mapping[str, Any]) -> JobRequest:
    if module.endswith(".py"):
        raise BadInputError(
            f"no module is named: {module} stands in its place", f"hpcmod job NAME[/VERSION] ... -- {module} ARGUMENTS"
        )
    if not module and not given["salloc"]:  # an allocation may be for anything, e.g. to build an image
        raise BadInputError("no module is named", "hpcmod job NAME[/VERSION] ... -- train.py ARGUMENTS")
    request = JobRequest(
        program=program,
        module=module,
        loading=given["loading"],
        nodes=given["nodes"],
        ranks_per_node=given["ranks_per_node"],
        ranks=given["ranks"],
        gpus=given["gpus"],
        node_type=given["node_type"],
        launcher=given["launcher"] or "",
        options=directives(given),
        more=given["more"],
        stage=given["stage"] or "",
        stage_data=given["stage_data"],
        script_options=script_options(given),
        binds=given["binds"],
        proxy=given["proxy"],
        runtime=runtime_name(),
        **more_of_request(given),
    )
    return with_options(request, {name: os.environ.get(variable, "") for name, variable in SBATCH_VARIABLES.items()})


def _write(
    request: JobRequest,
    site: Site,
    given: Mapping[str, Any],
    installed: Installed | None,
    *,
    elsewhere: bool,
    as_json: bool,
) -> None:
    from hpcmod.check.jobs.needs import find_missing
    from hpcmod.render.jobscript import render_jobscript

    plan = make_job(request, site)
    text = render_jobscript(plan, templates=resources.module_templates())
    submit = given["submit"] and not given["dry_run"]
    tested = "" if elsewhere else test_script(text, must=submit)
    missing = () if elsewhere else find_missing(request, installed)
    if missing and submit and not given["site_named"]:
        raise NotFoundError("\n".join(found for found, _ in missing), missing[0][1])
    path = (
        None
        if given["dry_run"]
        else save_script(text, given["script"] or (Path(f"{plan.name}.sh") if submit else None))
    )
    number = submit_script(path) if submit and path else ""
    unfit = () if elsewhere or installed is None else _explain_module(installed, site)
    unsaid = () if elsewhere else _explain_output(request)
    lacking = (f"{found}. {cure}" for found, cure in missing)
    for note in (*plan.notes, *filter(None, [tested]), *lacking, *unsaid, *unfit):
        tell(f"{note}")
    if as_json:
        answer = {"file": str(path) if path else None, "job": number or None, "test": tested or None}
        print_data(json.dumps({"version": JSON_VERSION, **answer, "script": text, "plan": asdict(plan)}, indent=1))
    elif number:
        print_data(number)
    elif path is None:
        print_data(text, nl=False)


def _explain_module(installed: Installed, site: Site) -> Iterator[str]:
    from hpcmod.check.fit import explain_module

    return explain_module(installed, site, os.environ)


def _explain_output(request: JobRequest) -> Iterator[str]:
    """Say where a job could not write what it prints: Slurm makes no directories, and the job ends without a word."""
    start = Path(request.option("chdir") or ".")
    if not start.is_dir():
        yield f"There is no directory {start} for the job to start in: mkdir -p {start}"
    for place in dict.fromkeys(start / Path(request.option(name)).parent for name in ("output", "error")):
        if "%" not in str(place) and not place.is_dir() and place != start:
            yield f"There is no directory {place}, and Slurm makes none: mkdir -p {place}"


def _allocate(request: JobRequest, site: Site, *, submit: bool) -> None:
    from hpcmod.render.jobscript import make_salloc
    from hpcmod.render.quote import sh_word

    if request.variables or request.before or request.then:
        raise BadInputError(
            "--env, --before and --then are for a batch script, and --salloc prints none",
            "Leave them out; in the allocation, export variables and run `hpcmod launch` for each program.",
        )
    argv = make_salloc(make_job(request, site))
    if submit:
        sys.stdout.flush()
        become(argv)
    print_data(" ".join(map(sh_word, argv)))
