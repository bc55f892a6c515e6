"""Run an earlier job again: find its batch script, and check that its module still has the same image."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click
from click.core import ParameterSource

from hpcmod.catalogue import look_around, retired_installations
from hpcmod.core.cli.output import print_data, print_json, tell
from hpcmod.core.errors import BadInputError, NotFoundError, VerificationError
from hpcmod.core.fs.reading import UnusableFileError, read_text
from hpcmod.core.text.quote import sh_word
from hpcmod.jobs.cli.options import JobFlags
from hpcmod.jobs.cli.run_options import SlurmFlags
from hpcmod.jobs.cli.script import LARGEST, MARK, RepeatedScript, save_script
from hpcmod.jobs.queue import read_script_of_job, submit_script, test_script
from hpcmod.jobs.values.request import check_values
from hpcmod.jobs.values.slurm import check_options, spell_options
from hpcmod.jobs.values.written import WrittenJob, override_options, read_written_job
from hpcmod.machine import find_modulefile
from hpcmod.modules import Installed, find_in_trees, find_own_state

_HONOURED = {"rerun", "script", "submit", "dry_run", "as_json", "job_name", *SlurmFlags.__annotations__}
"""Options that --rerun follows; the others are in the text of the script, e.g. in its `srun` command."""


def rerun_job(flags: JobFlags) -> None:
    """Check that an earlier job can run again, and print its script; write or submit it if asked to.

    The given options of sbatch override those of the script.

    Raises BadInputError for options that would need another script; NotFoundError if the script or job does not exist,
    or its module is gone; VerificationError if its module has a different image now, and the user has no copy with the
    earlier one.
    """
    text, output = flags.output.rerun, flags.output
    given, origin = _read_script(text)
    written = read_written_job(given)
    if MARK not in given or not written.module:
        raise BadInputError(f"{origin} was not written by `hpcmod job`", f"Submit it yourself: sbatch {origin}")
    _check_given(origin, written.module)
    check_options(flags.named, flags.slurm.more, None)
    check_values([*flags.named.values(), *flags.slurm.more])
    retired = retired_installations(os.environ)
    script = _with_own_copy(given, written, retired)
    installed = _check_module(read_written_job(script), origin, retired)
    changed = list(_compare_packages(written, installed, origin)) if installed else []
    options = [*spell_options(flags.named), *flags.slurm.more]
    submit = flags.submits
    tested = test_script(script, must=submit, options=options)
    default = Path(f"{written.name or 'rerun'}.sh") if submit else None
    same = Path(text) if Path(text).is_file() else None
    path = None if output.dry_run else output.script or same or default
    changed_script = override_options(script, options)
    kept = script if same and not output.script else changed_script  # FILE itself keeps its options
    if path and (path != same or kept != given):
        save_script(kept, path)
    number = submit_script(path, options) if submit and path else ""
    if installed:
        tell(f"{written.module} has the image that the job was written for: sha256 {written.sha256 or 'not recorded'}")
    for line in filter(None, [*changed, tested]):
        tell(line)
    if output.as_json:
        print_json(RepeatedScript(path, number or None, tested or None, changed_script))
    else:
        print_data(number or changed_script, nl=bool(number))


def _check_given(origin: str, module: str) -> None:
    """Check that only options were given that --rerun follows."""
    context = click.get_current_context()
    unfit = [
        max(each.opts, key=len) if isinstance(each, click.Option) else "PROGRAM"
        for each in context.command.params
        if each.name not in _HONOURED and context.get_parameter_source(each.name or "") is ParameterSource.COMMANDLINE
    ]
    if unfit:
        raise BadInputError(
            f"--rerun runs {origin} as it was written, and cannot change {', '.join(dict.fromkeys(unfit))}",
            f"Write a new script with all options that it needs: hpcmod job {module} ... -- PROGRAM",
        )


def _read_script(text: str) -> tuple[str, str]:
    """Return a batch script, from a file or from a job that Slurm remembers, and a name for it in messages."""
    if not text.isdigit():
        try:
            return read_text(text, LARGEST), text
        except FileNotFoundError as err:
            raise NotFoundError(f"{text}: no such batch script", "Give a file or a job ID.") from err
        except UnusableFileError as err:
            raise BadInputError(f"{text}: {err.strerror}", "Give a batch script.") from err
        except UnicodeDecodeError as err:
            raise BadInputError(f"{text}: not valid UTF-8", "Give a batch script.") from err
    script = read_script_of_job(text)
    if script:
        return script, f"job {text}"
    raise NotFoundError(
        f"Slurm does not remember the batch script of job {text}",
        "Give the file that `hpcmod job --submit` wrote in the directory of that job: hpcmod job --rerun FILE",
    )


def _with_own_copy(script: str, written: WrittenJob, retired: frozenset[Path]) -> str:
    """Return a script that loads the user's own copy of its image if its module is gone, retired or has another one."""
    found = _find_module(written)
    if not written.sha256 or (found and found.root not in retired and found.image.sha256 == written.sha256):
        return script
    trees = look_around(None).own_trees()
    own = next((copy for copy in find_in_trees(trees, written.module) if copy.image.sha256 == written.sha256), None)
    if own is None:
        return script
    tell(f"loads your own copy of {written.module} instead, in {own.root}")
    load, tree = f"module load {sh_word(written.module)}", own.modulefile.parents[written.module.count("/")]
    return script.replace(f"\n{load}", f"\nmodule use {sh_word(str(tree))}\n{load}", 1)


def _find_module(written: WrittenJob) -> Installed | None:
    return next(find_in_trees(map(Path, written.trees), written.module), None)


def _check_module(written: WrittenJob, origin: str, retired: frozenset[Path]) -> Installed | None:
    """Check that the module of a job still exists with the same image; return None if hpcmod did not install it."""
    found = _find_module(written)
    if found is None and (written.trees or not find_modulefile(written.module, os.environ)):
        where = f" in {' '.join(written.trees)}" if written.trees else ""
        raise NotFoundError(
            f"{origin} loads {written.module}, which is no longer there{where}",
            f"Install it: hpcmod install {written.module}, then write the job again: hpcmod job {written.module} ...",
        )
    if found is None:
        return None
    if found.root in retired:
        why = f"{found.module} was retired, and no longer loads"
        cure = f"Which to use now: hpcmod info {found.module}; or install your own copy from a bundle"
        raise NotFoundError(why, cure)
    image = Path(found.image.path)
    if not image.is_file():
        raise NotFoundError(f"the image of {found.module} is gone: {image}", f"hpcmod update {found.module}")
    if written.sha256 and found.image.sha256 != written.sha256:
        raise VerificationError(
            f"{found.module} has a different image than when {origin} was written: sha256 {found.image.sha256}, "
            f"expected {written.sha256}",
            "Restore the earlier image, or write the job again for this one: hpcmod job ...",
        )
    return found


def _compare_packages(written: WrittenJob, installed: Installed, origin: str) -> Iterator[str]:
    """Yield that the job gets other packages of the user than when it was written.

    Raises NotFoundError if those that it chooses do not exist.
    """
    own = installed.record.own_packages
    now = find_own_state(own, {**os.environ, **dict(written.choice)}) if own else ""
    if now != written.packages and (written.packages or written.choice):
        yield f"your packages are now {now or 'none'}, and were {written.packages or 'none'} when {origin} was written"
