"""PBS Professional and OpenPBS: the options of qsub and mpiexec, and the variables of a job.

Written from documentation, and not run on a machine with PBS:

- qsub(1B), qstat(1B) and pbs_resources(7B) of OpenPBS
- mpiexec of HPE PALS, as the Argonne Leadership Computing Facility describes it in github.com/argonne-lcf/user-guides:
  docs/running-jobs/example-job-scripts.md (commit 0808442b) and docs/polaris/running-jobs/index.md (commit 11dbfa65)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from hpcmod.errors import BadInputError, LackingError
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
    from hpcmod.model.jobs.facts import JobFacts

_TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<parts>\d+(?::\d+){0,2})")
_NAME = re.compile(r"^#PBS -N (\S+)", re.MULTILINE)
_RANGE = re.compile(r"\d+-\d+(?::\d+)?")
_HEX = 16

_ABSENT = {
    "qos": "Use the queue that your site has for it: --partition QUEUE.",
    "constraint": "Request the site's resource in its own words, e.g. --sbatch=-lfilesystems=home.",
    "reservation": "A reservation has a queue of its name: --partition RESERVATION.",
    "chdir": "Jobs run in the directory in which they are submitted: change to it first.",
    "network": "Leave it out.",
    "sockets-per-node": "Leave it out.",
}
"""Options of `hpcmod job` without a counterpart in PBS, and what to do instead."""

_OPTIONS = {"account": "-A", "partition": "-q", "error": "-e"}
"""Options of `hpcmod job` that qsub has under another name."""

_OF_SCRIPTS = ("-N ", "-j ", "-o ", "-e ", "-J ", "-r ")
"""Options that an interactive job does not need or must not have."""

_NO_STEPS = "hpcmod starts no steps of its own in jobs of PBS"


_STATES = {
    "Q": "QUEUED",
    "H": "HELD",
    "W": "WAITING",
    "T": "MOVING",
    "R": "RUNNING",
    "B": "RUNNING",
    "S": "SUSPENDED",
    "U": "SUSPENDED",
    "E": "EXITING",
    "F": "FINISHED",
    "M": "MOVED",
    "X": "FINISHED",
}
_WAITING = ("Q", "H", "W", "T")
_RUNNING = ("R", "B", "S", "U", "E")

_SIGNALLED = 128
"""Exit statuses from here on are 128 or 256 and the number of the signal (PBS User's Guide, "Job Exit Status")."""


class Pbs(Scheduler):
    """The words of PBS."""

    title = "PBS"
    mark = "#PBS"
    variables: ClassVar[Mapping[str, str]] = {}
    node_variable = ""
    login_variable = "PBS_O_HOST"
    exit_variable = "PBS_EXIT_ERROR"
    cpus_option = "--depth N"
    task_beside = ()
    lacks: ClassVar[Mapping[str, str]] = {
        "stage": _NO_STEPS,
        "stage_data": _NO_STEPS,
        "check": _NO_STEPS,
        "report": "it measures starts by the accounting of Slurm",
        "requeue": _NO_STEPS,
        "mpi": "mpiexec has no choice of how tasks and an MPI connect",
    }
    words = ShellWords(
        restarts="0",
        requeue="false",
        task_epilog="",
        whole_environment=("", ""),
        begin=('cd "$PBS_O_WORKDIR" || exit', "Jobs of PBS begin in the home directory."),
    )
    programs = Programs(
        test=(),
        noise="",
        unreachable="",
        submit=("qsub",),
        scripts=(),
        state=(),
        node=(),
        gone="Unknown Job Id",
        ending="",
        cancel=("qdel", "{job}"),
        responds=("qstat", "-B"),
        check=(),
        mpi=(),
        hosts=(),
        harmless=r"(?!)",
        facts=("qstat", "-x", "-f", "{job}"),
    )

    def check(self, options: Mapping[str, str], more: Sequence[str], requeue: Requeue | None) -> None:
        """Check options for what PBS does not have, and for values that it writes otherwise."""
        for name, cure in _ABSENT.items():
            if options.get(name):
                raise BadInputError(f"PBS has no counterpart of --{name}", cure)
        _walltime(options.get("time", ""))
        array = options.get("array", "")
        if array and not _RANGE.fullmatch(array):
            raise BadInputError(f"{array!r} is not an array of PBS", "Write --array 0-15, or 0-15:2 for every second.")
        for option in more:
            if not option.startswith("-"):
                raise BadInputError(f"{option!r} is not a qsub option", f"Write --sbatch=-l{option}")

    def is_exclusive(self, options: Sequence[str]) -> bool:
        """Return whether one of these options requests full nodes."""
        return any(re.search(r"-l ?place=\S*excl", option) for option in options)

    def spell(self, options: Mapping[str, str]) -> tuple[str, ...]:
        """Return options of `hpcmod job` in the words of qsub."""
        found = [f"{_OPTIONS[name]} {value}" for name, value in options.items() if value and name in _OPTIONS]
        if options.get("time"):
            found.append(f"-l walltime={_walltime(options['time'])}")
        if options.get("dependency"):
            found.append(f"-W depend={options['dependency']}")
        if options.get("array"):
            found.append(f"-J {options['array']}")
        return tuple(found)

    def directives(self, needs: JobNeeds) -> Iterator[Directive]:
        """Yield the options of a batch script, in order."""
        options = dict(needs.options)
        output = options.pop("output", "")
        yield Directive(f"-N {needs.name}")
        if not options.get("error"):
            yield Directive("-j oe", "stdout and stderr in one file")
        if output:
            yield Directive(f"-o {output}")
        yield from map(Directive, self.spell(options))
        given = (*(line.option for line in needs.lines), *needs.more)
        if not any(re.match(r"-l ?select=", option) for option in given):
            yield Directive(f"-l select={needs.nodes}:{_chunk(needs)}", _explain(needs))
        if not any(re.match(r"-l ?place=", option) for option in given):
            yield Directive("-l place=scatter", "each chunk on a node of its own")
        yield from needs.lines
        yield from (Directive(option) for option in needs.more)

    def allocate(self, options: Sequence[str]) -> tuple[str, ...]:
        """Return the command of an interactive job with these options of qsub."""
        fitting = (option for option in options if not option.startswith(_OF_SCRIPTS))
        return ("qsub", "-I", *(word for option in fitting for word in option.split()))

    def name_in(self, script: str) -> str:
        """Return the name of the job in a batch script; empty if it has none."""
        name = _NAME.search(script)
        return name[1] if name else ""

    def step(self, placement: Placement) -> tuple[str, ...]:
        """Return the mpiexec command of a step, up to the program; the site's flags are srun's."""
        ranks = placement.ranks or placement.nodes * placement.tasks
        cores = [_cores(mask) for mask in placement.masks]
        return (
            *("mpiexec", "-n", str(ranks), "--ppn", str(placement.tasks)),
            *(("--depth", str(placement.cpus)) if placement.cpus else ()),
            *(("--cpu-bind", f"list:{':'.join(cores)}") if cores else ()),
            *(("--cpu-bind", "depth") if placement.cpus and not cores else ()),
        )

    def single_step(self, *, cpus: int = 0, gpus: int = 0) -> tuple[str, ...]:
        """Return the mpiexec command of one task on the first node; it sees all GPUs of the node."""
        depth = ("--depth", str(cpus), "--cpu-bind", "depth") if cpus else ()
        return ("mpiexec", "-n", "1", "--ppn", "1", *depth)

    def step_in_job(self, step: Sequence[str], *, tasks: int, overlap: bool = True) -> tuple[str, ...]:
        """Refuse: see allocation."""
        raise _refuse()

    def step_on_nodes(self, nodes: int, *, minutes: int) -> tuple[str, ...]:
        """Refuse: see allocation."""
        raise _refuse()

    def environment_of_step(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the environment unchanged: mpiexec reads no options of qsub from it."""
        return dict(environ)

    def allocation(self, environ: Mapping[str, str]) -> Allocation | None:
        """Return None outside a job; the nodes of a job are in a file, not in its environment.

        Raises
        ------
        LackingError
            In a job.
        """
        if environ.get("PBS_JOBID"):
            raise _refuse()
        return None

    def place(self, environ: Mapping[str, str]) -> JobPlace:
        """Return the place of this process in its job."""
        return JobPlace(
            job=environ.get("PBS_JOBID", ""),
            node="",  # tasks of mpiexec know only its number
            login=environ.get(self.login_variable, ""),
        )

    def read_facts(self, facts: str, accounting: str) -> JobFacts | None:
        """Return what qstat knows of a job; it forgets jobs some time after their end."""
        return _read_job(facts)

    def is_of_job(self, variable: str) -> bool:
        """Return whether a variable describes a job of PBS or a rank of mpiexec."""
        return variable.startswith(("PBS_", "PALS_", "PMI_")) and variable != "PBS_DEFAULT"


def _refuse() -> LackingError:
    return LackingError(_NO_STEPS, "Write a batch script: hpcmod job NAME ... -- train.py")


def _walltime(time: str) -> str:
    """Return a time limit as HH:MM:SS; a number alone is in minutes, as everywhere in hpcmod, and not in seconds.

    Raises
    ------
    BadInputError
        If it has another form.
    """
    if not time:
        return ""
    match = _TIME.fullmatch(time)
    if not match:
        raise BadInputError(
            f"{time!r} is not a valid time limit", "Write 01:30:00, 2-00:00:00, or a number of minutes."
        )
    parts = [int(part) for part in match["parts"].split(":")]
    if match["days"]:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
        hours += 24 * int(match["days"])
    else:
        hours, minutes, seconds = {1: (0, parts[0], 0), 2: (0, *parts[:2]), 3: tuple(parts)}[len(parts)]
    total = 3600 * hours + 60 * minutes + seconds
    return f"{total // 3600:02}:{total // 60 % 60:02}:{total % 60:02}"


def _chunk(needs: JobNeeds) -> str:
    """Return the resources of one node: a chunk, of which PBS places one on each."""
    cpus = int(needs.cpus.value) * int(needs.tasks.value)
    gpus = needs.gpu_option.replace("{gpus}", str(needs.gpus)) if needs.gpus else ""
    parts = (
        f"ncpus={cpus}" if cpus else "",
        f"mpiprocs={needs.tasks.value}",
        f"ngpus={needs.gpus}" if gpus.startswith("-") else gpus,  # an option of another scheduler
        f"mem={needs.memory_gib.value}gb" if needs.memory_gib.value else "",
    )
    return ":".join(filter(None, parts))


def _explain(needs: JobNeeds) -> str:
    return "; ".join(dict.fromkeys(filter(None, ("for each node", needs.tasks.why, needs.cpus.why))))


def _cores(mask: str) -> str:
    """Return the cores of a hexadecimal mask as mpiexec writes them: 0-3,8."""
    bits = int(mask, _HEX)
    cores = [core for core in range(bits.bit_length()) if bits >> core & 1]
    starts = [core for core in cores if core - 1 not in cores]
    ends = [core for core in cores if core + 1 not in cores]
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in zip(starts, ends))


def _read_job(text: str) -> JobFacts | None:
    """Return what qstat knows of a job; None if it knows none."""
    from hpcmod.model.jobs.facts import JobFacts  # what writes a script need not import it

    values = _read_attributes(text)
    state = values.get("job_state", "")
    if state not in _STATES:
        return None
    status = values.get("Exit_status", "")
    ended = int(status) if re.fullmatch(r"-?\d{1,9}", status) else 0
    return JobFacts(
        number=values.get("Job Id", ""),
        name=values.get("Job_Name", ""),
        state=_STATES[state],
        reason=values.get("comment", ""),
        code=0 if ended > _SIGNALLED else ended,
        signal=ended % _SIGNALLED if ended > _SIGNALLED else 0,
        nodes=",".join(dict.fromkeys(re.findall(r"(?:^|\+)([^/+]+)/", values.get("exec_host", "")))),
        node_count=_number(values, "Resource_List.nodect"),
        tasks=_number(values, "Resource_List.mpiprocs"),
        elapsed=values.get("resources_used.walltime", ""),
        limit=values.get("Resource_List.walltime", ""),
        output=values.get("Output_Path", "").partition(":")[2],
        error="" if values.get("Join_Path") == "oe" else values.get("Error_Path", "").partition(":")[2],
        directory=values.get("PBS_O_WORKDIR", ""),
        running=state in _RUNNING,
        waiting=state in _WAITING,
    )


def _read_attributes(text: str) -> dict[str, str]:
    """Return the attributes of the first job; long values go on in lines that begin with a tab."""
    found: dict[str, str] = {}
    for line in text.replace("\n\t", "").splitlines():
        if line.startswith("Job Id:"):
            if found:
                break
            found["Job Id"] = line.partition(":")[2].strip()
        key, equals, value = line.partition(" = ")
        if equals:
            found[key.strip()] = value.strip()
    variables = dict(one.partition("=")[::2] for one in found.get("Variable_List", "").split(","))
    return {**variables, **found}


def _number(values: Mapping[str, str], name: str) -> int:
    return whole_number(values.get(name, ""))
