"""Slurm: the options of sbatch and srun, and the variables of a job (sbatch(1), srun(1), Slurm 22.05)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from hpcmod.errors import BadInputError
from hpcmod.model.jobs.requeue import Requeue
from hpcmod.model.jobs.scheduler import (
    Allocation,
    Directive,
    JobNeeds,
    JobPlace,
    Placement,
    Programs,
    Scheduler,
    ShellWords,
)
from hpcmod.model.text import whole_number

if TYPE_CHECKING:
    from hpcmod.model.jobs.facts import JobFacts, StepFacts

_TIME = re.compile(r"\d+(?::\d+){0,2}|\d+-\d+(?::\d+){0,2}|-1|UNLIMITED|INFINITE", re.IGNORECASE)
_NAME = re.compile(r"^#SBATCH --job-name=(\S+)", re.MULTILINE)

_GPUS_OF_TASK = "--gpus-per-task="
_OF_RANKS = (_GPUS_OF_TASK, "--gpu-bind")
"""Flags of srun for ranks that are tasks; wrong with one task per node."""
_OF_EQUALS = "--ntasks-per-socket"
"""Flag of srun for one task per GPU; wrong for any other number of tasks."""

_OF_SCRIPTS = ("--output=", "--error=", "--job-name=", "--array=")
"""Options of sbatch that salloc lacks, or that an allocation does not need."""

_OPTION_OF_STEP = re.compile(
    r"SLURM_(?:GPUS?_\w+|MEM_PER_\w+|TRES_PER_\w+|NTASKS_PER_\w+|CPUS_PER_(?:GPU|TASK)|CPU_BIND|DISTRIBUTION|HINT"
    r"|THREADS_PER_CORE|EXCLUSIVE|EXACT|TRES_PER_TASK)|SRUN_CPUS_PER_TASK"
)
"""Variables of sbatch and salloc that srun takes as its own options (srun(1), INPUT ENVIRONMENT VARIABLES)."""

_RESERVED_STEPS = 4294967280
"""From this number on, steps are those of batch scripts and of salloc, which hold no resources (slurm.h)."""

_ACCOUNTED = (
    *("JobID", "JobName", "State", "ExitCode", "MaxRSS", "NodeList", "Elapsed", "Timelimit", "NTasks", "WorkDir"),
)
_AS_CONTROL = {
    "JobID": "JobId",
    "State": "JobState",
    "Elapsed": "RunTime",
    "Timelimit": "TimeLimit",
    "NTasks": "NumTasks",
}
_PATHS = ("StdOut", "StdErr", "StdIn", "WorkDir", "Command", "Comment")


class Slurm(Scheduler):
    """The words of Slurm."""

    title = "Slurm"
    mark = "#SBATCH"
    variables: ClassVar[Mapping[str, str]] = {
        "account": "SBATCH_ACCOUNT",
        "qos": "SBATCH_QOS",
        "time": "SBATCH_TIMELIMIT",
        "partition": "SBATCH_PARTITION",
        "constraint": "SBATCH_CONSTRAINT",
        "reservation": "SBATCH_RESERVATION",
    }
    node_variable = "SLURMD_NODENAME"
    login_variable = "SLURM_SUBMIT_HOST"
    exit_variable = "SLURM_EXIT_ERROR"
    cpus_option = "--cpus-per-task=N"
    task_beside = ("srun", "--nodes=1", "--ntasks=1", "--overlap")
    lacks: ClassVar[Mapping[str, str]] = {}
    words = ShellWords(
        restarts="${SLURM_RESTART_COUNT:-0}",
        requeue='scontrol requeue "$SLURM_JOB_ID"',
        task_epilog="SLURM_TASK_EPILOG",
        whole_environment=(
            "unset SLURM_EXPORT_ENV",
            "For any shell, also after `sbatch --export=NONE`, which every srun would otherwise inherit.",
        ),
    )
    programs = Programs(
        test=("sbatch", "--test-only"),
        noise=r"(?:sbatch: )?(?:error: )?",
        unreachable=r"Unable to contact slurm controller|Could not establish a configuration source",
        submit=("sbatch", "--parsable"),
        scripts=(
            ("scontrol", "write", "batch_script", "{job}", "-"),
            ("sacct", "--batch-script", "--jobs", "{job}"),
        ),
        state=("squeue", "--noheader", "--jobs", "{job}", "--format=%T"),
        node=("squeue", "--noheader", "--jobs", "{job}", "--format=%N"),
        gone="Invalid job id",
        ending="COMPLETING",
        cancel=("scancel", "{job}"),
        responds=("sinfo", "--noheader"),
        check=("srun", "--quiet", "--nodes=1", "--ntasks=1"),
        mpi=("srun", "--mpi=list"),
        hosts=("scontrol", "show", "hostnames"),
        harmless=r"cluster configuration lacks support for cpu binding$",
        facts=("scontrol", "show", "job", "{job}"),
        accounting=("sacct", "--noheader", "--parsable2", "--jobs={job}", f"--format={','.join(_ACCOUNTED)}"),
        on_each_node=(
            *("srun", "--jobid={job}", "--nodes={nodes}", "--overlap", "--ntasks-per-node=1", "--mpi=none"),
            *("--kill-on-bad-exit=0", "--time=2", "--input=none"),
        ),
        machine=(
            ("scontrol", "--all", "--oneliner", "show", "nodes"),
            ("scontrol", "--all", "--oneliner", "show", "partitions"),
            ("scontrol", "show", "config"),
        ),
    )

    def check(self, options: Mapping[str, str], more: Sequence[str], requeue: Requeue | None) -> None:
        """Check options for what sbatch would refuse, and for signals that would end the batch script."""
        time = options.get("time", "")
        if time and not _TIME.fullmatch(time):
            raise BadInputError(
                f"{time!r} is not a valid Slurm time limit", "Write 01:30:00, 2-00:00:00, or a number of minutes."
            )
        for option in more:
            if not option.startswith("-"):
                raise BadInputError(f"{option!r} is not an sbatch option", f"Write --sbatch=--{option}")
        _check_signals(more, requeue)

    def is_exclusive(self, options: Sequence[str]) -> bool:
        """Return whether one of these options requests full nodes."""
        return "--exclusive" in options

    def spell(self, options: Mapping[str, str]) -> tuple[str, ...]:
        """Return options of `hpcmod job` in the words of sbatch."""
        return tuple(f"--{name}={value}" for name, value in options.items() if value)

    def directives(self, needs: JobNeeds) -> Iterator[Directive]:
        """Yield the options of a batch script, in order."""
        options, storage = dict(needs.options), needs.storage
        yield Directive(f"--job-name={needs.name}")
        yield _make_output(options)
        feature = _feature_of(storage.option) if storage else ""
        asked = options.get("constraint", "")
        if feature and asked:  # given two, sbatch uses only the last, which would drop the user's
            options["constraint"] = asked + f"&{feature}" * (feature not in re.split(r"\W+", asked))
            storage = None
        options.pop("output", "")
        yield from map(Directive, self.spell(options))
        yield from _make_shares(needs)
        if needs.gpus:
            yield Directive(needs.gpu_option.replace("{gpus}", str(needs.gpus)))
        said = any(option.startswith("--mem") for option in (*(line.option for line in needs.lines), *needs.more))
        if needs.memory_gib.value and not said:
            yield Directive(f"--mem={needs.memory_gib.value}G", needs.memory_gib.why)
        if needs.network.value:
            yield Directive(f"--network={needs.network.value}", needs.network.why)
        yield from needs.lines
        if storage:
            yield storage
        if needs.requeue:
            yield from _make_requeue(needs.requeue)
        yield from (Directive(option) for option in needs.more)

    def allocate(self, options: Sequence[str]) -> tuple[str, ...]:
        """Return the salloc command with these options of sbatch."""
        fitting = (option for option in options if not option.startswith(_OF_SCRIPTS))
        return ("salloc", *(word for option in fitting for word in option.split()))

    def name_in(self, script: str) -> str:
        """Return the name of the job in a batch script; empty if it has none."""
        name = _NAME.search(script)
        return name[1] if name else ""

    def step(self, placement: Placement) -> tuple[str, ...]:
        """Return the srun command of a step, up to the program."""
        shares = f"--ntasks={placement.ranks}" if placement.ranks else f"--ntasks-per-node={placement.tasks}"
        flags = list(_choose_flags(placement))
        if placement.mpi:
            flags = [f"--mpi={placement.mpi}", *(flag for flag in flags if not flag.startswith("--mpi="))]
        bind = f"mask_cpu:{','.join(placement.masks)}" if placement.masks else placement.binding
        return (
            *("srun", "--export=ALL", "--kill-on-bad-exit=1", f"--nodes={placement.nodes}", shares),
            *([f"--cpus-per-task={placement.cpus}"] if placement.cpus else []),
            *flags,
            *([f"--distribution={placement.distribution}"] if placement.distribution else []),
            *([f"--cpu-bind={bind}"] if bind else []),
        )

    def single_step(self, *, cpus: int = 0, gpus: int = 0) -> tuple[str, ...]:
        """Return the srun command of one task on the first node."""
        return (
            *("srun", "--export=ALL", "--nodes=1", "--ntasks=1"),
            *([f"--cpus-per-task={cpus}"] if cpus else []),
            *([f"--gpus-per-node={gpus}"] if gpus else []),
        )

    def step_in_job(self, step: Sequence[str], *, tasks: int, overlap: bool = True) -> tuple[str, ...]:
        """Return the command of a step for a job, whose SLURM_NTASKS would be the number of its tasks."""
        return (step[0], *(["--overlap"] if overlap else []), f"--ntasks={tasks}", *step[1:])

    def step_on_nodes(self, nodes: int, *, minutes: int) -> tuple[str, ...]:
        """Return the srun command of one task on each node, which takes nothing from other steps."""
        return (
            *("srun", "--overlap", f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1", "--cpu-bind=none"),
            *("--mem=0", "--mpi=none", "--export=ALL", "--kill-on-bad-exit=0", "--wait=0", "--input=none", "--quiet"),
            f"--time={minutes}",
        )

    def environment_of_step(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the environment for such a step: srun reads many options of sbatch from variables."""
        return {name: value for name, value in environ.items() if not _OPTION_OF_STEP.fullmatch(name)}

    def allocation(self, environ: Mapping[str, str]) -> Allocation | None:
        """Return the job that this process is in; None outside a job."""
        nodes = environ.get("SLURM_JOB_NUM_NODES") or environ.get("SLURM_NNODES", "")
        if not environ.get("SLURM_JOB_ID") or not nodes.isdigit():
            return None
        count, step = int(nodes), environ.get("SLURM_STEP_ID", "")
        gpus = _number(environ, "SLURM_GPUS_PER_NODE") or _number(environ, "SLURM_GPUS_ON_NODE")
        return Allocation(
            nodes=count,
            partition=environ.get("SLURM_JOB_PARTITION", ""),
            gpus=gpus or (_number(environ, "SLURM_GPUS") // count if count else 0),
            cpus=_number(environ, "SLURM_CPUS_PER_TASK") * (_number(environ, "SLURM_NTASKS_PER_NODE") or 1),
            tasks=_number(environ, "SLURM_NTASKS"),
            in_task=step.isdigit() and int(step) < _RESERVED_STEPS,
        )

    def place(self, environ: Mapping[str, str]) -> JobPlace:
        """Return the place of this process in its job."""
        return JobPlace(
            job=environ.get("SLURM_JOB_ID", ""),
            node=environ.get(self.node_variable, ""),
            login=environ.get(self.login_variable, ""),
        )

    def read_facts(self, facts: str, accounting: str) -> JobFacts | None:
        """Return what scontrol and sacct know of a job; scontrol forgets a job some minutes after its end."""
        from hpcmod.model.jobs.facts import JobFacts  # what writes a script need not import it

        rows = [line.split("|") for line in accounting.splitlines()]
        recorded = [dict(zip(_ACCOUNTED, row)) for row in rows if len(row) == len(_ACCOUNTED)]
        steps = tuple(_read_step(row) for row in recorded if "." in row["JobID"])
        job = next((row for row in recorded if "." not in row["JobID"]), {})
        values = {**_of_accounting(job), **_read_lines(facts)}
        if not values.get("JobState"):
            return None
        code, signal = _status(values.get("ExitCode", ""))
        state = values["JobState"]
        return JobFacts(
            number=values.get("JobId", ""),
            name=values.get("JobName", ""),
            state=state,
            reason=_said(values.get("Reason", "")),
            code=code,
            signal=signal,
            nodes=_said(values.get("NodeList", "")),
            node_count=_number(values, "NumNodes"),
            tasks=_number(values, "NumTasks"),
            elapsed=_said(values.get("RunTime", "")),
            limit=_said(values.get("TimeLimit", "")),
            output=_said(values.get("StdOut", "")),
            error=_said(values.get("StdErr", "")),
            directory=_said(values.get("WorkDir", "")),
            running=state in ("RUNNING", "SUSPENDED", "STOPPED"),
            waiting=state in ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD"),
            steps=steps,
        )

    def is_of_job(self, variable: str) -> bool:
        """Return whether srun would take a variable as an option or as its job."""
        return variable.startswith("SLURM_") and not variable.startswith("SLURM_CONF")


def _read_lines(text: str) -> dict[str, str]:
    """Return the values of `scontrol show job`; those with a path have a line of their own and may contain spaces."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, equals, value = line.strip().partition("=")
        if equals and key in _PATHS:
            found[key] = value
        else:
            found.update(re.findall(r"(\w+)=(\S*)", line))
        name = re.search(r"\bJobName=(.*)", line)
        found.update({"JobName": name[1]} if name else {})
    return found


def _of_accounting(row: Mapping[str, str]) -> dict[str, str]:
    """Return a row of sacct under the names of scontrol."""
    values = {_AS_CONTROL.get(key, key): value for key, value in row.items()}
    return {**values, "JobState": values["JobState"].split(" ")[0]} if row else {}


def _read_step(row: Mapping[str, str]) -> StepFacts:
    from hpcmod.model.jobs.facts import StepFacts

    code, signal = _status(row["ExitCode"])
    return StepFacts(row["JobID"], row["State"].split(" ")[0], code, signal, row["MaxRSS"], row["NodeList"])


def _status(text: str) -> tuple[int, int]:
    """Return exit code and signal of a value such as 0:9."""
    code, _, signal = text.partition(":")
    return whole_number(code), whole_number(signal)


def _said(value: str) -> str:
    return "" if value in ("(null)", "None", "N/A", "Unknown", "None assigned") else value


def _check_signals(options: Sequence[str], requeue: Requeue | None) -> None:
    for option in options:
        if requeue and option.startswith("--signal"):
            raise BadInputError(
                f"{option} and --requeue-on both set a signal, but sbatch accepts one", f"Leave out {option}."
            )
        match = re.match(r"--signal=R?B:R?(\w+)(@\d+)?", option)
        if match:
            raise BadInputError(
                f"{option} would end the batch script, which does not handle the signal",
                f"Write --requeue-on {match[1]}{match[2] or '@60'}, which lets the ranks write a checkpoint.",
            )


def _make_output(options: Mapping[str, str]) -> Directive:
    asked = options.get("output", "")
    if not asked and options.get("array"):
        return Directive("--output=%x-%A_%a.out", "%x is the job name, %A the array job ID, %a the array index")
    return Directive(f"--output={asked or '%x-%j.out'}", "%x is the job name, %j the job ID")


def _feature_of(flag: str) -> str:
    """Return the feature that an sbatch option requests; empty if it requests none."""
    match = re.fullmatch(r"(?:-C ?|--constraint[= ])(\S+)", flag)
    return match[1] if match else ""


def _make_shares(needs: JobNeeds) -> Iterator[Directive]:
    yield Directive(f"--nodes={needs.nodes}")
    if needs.ranks.value:
        yield Directive(f"--ntasks={needs.ranks.value}", needs.ranks.why)
    else:
        yield Directive(f"--ntasks-per-node={needs.tasks.value}", needs.tasks.why)
    if needs.cpus.value:
        yield Directive(f"--cpus-per-task={needs.cpus.value}", needs.cpus.why)


def _make_requeue(requeue: Requeue) -> Iterator[Directive]:
    to_script = "sent to this script only, which signals the ranks"
    yield Directive(f"--signal=B:{requeue.signal}@{requeue.seconds}", to_script)
    yield Directive("--requeue")
    yield Directive("--open-mode=append", "each run appends to the output of the previous one")


def _choose_flags(placement: Placement) -> Iterator[str]:
    """Return the site's flags that fit the tasks; a single task per node gets the GPUs of all its ranks."""
    gpus, tasks = placement.gpus, placement.tasks
    for flag in placement.flags:
        if not placement.by_tasks and flag.startswith(_OF_RANKS):
            if gpus and flag.startswith(_GPUS_OF_TASK):
                yield f"{_GPUS_OF_TASK}{gpus}"
        elif gpus and flag.startswith(_GPUS_OF_TASK) and tasks > gpus:
            yield f"--gpus-per-node={gpus}"  # tasks share GPUs: there are fewer GPUs than tasks
        elif gpus and flag.startswith(_GPUS_OF_TASK) and tasks == 1:
            yield f"{_GPUS_OF_TASK}{gpus}"
        elif not flag.startswith(_OF_EQUALS) or (placement.by_tasks and tasks == gpus):
            yield flag


def _number(environ: Mapping[str, str], variable: str) -> int:
    """Return the number in a variable, which may follow a type, as in a100:4; 0 without one."""
    return whole_number(environ.get(variable, "").rpartition(":")[2])
