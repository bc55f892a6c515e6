"""What a scheduler must provide, and the values that it gets, in no scheduler's words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

from hpcmod.model.jobs.requeue import Requeue

if TYPE_CHECKING:
    from hpcmod.model.jobs.facts import JobFacts


@dataclass(frozen=True)
class Directive:
    """One option of a batch script, as the scheduler spells it, and why it is there."""

    option: str
    why: str = ""


class Amount(NamedTuple):
    """A number or a name that a job needs, and why."""

    value: int | str = 0
    """0 or empty: left to the scheduler."""
    why: str = ""


class JobNeeds(NamedTuple):
    """What a batch job needs from the scheduler."""

    name: str
    options: tuple[tuple[str, str], ...]
    """Options of `hpcmod job` by long name, except the job's name and network."""
    nodes: int
    ranks: Amount
    """In total, not necessarily evenly distributed; 0: `tasks` on each node."""
    tasks: Amount
    """Per node."""
    cpus: Amount
    """Per task."""
    gpus: int
    """Per node; 0: none, or a node always comes with all of them."""
    gpu_option: str
    """How the site requests GPUs; {gpus}: GPUs per node."""
    memory_gib: Amount
    """Per node."""
    network: Amount
    lines: tuple[Directive, ...]
    """Options that the site requires for every job, as it spells them."""
    storage: Directive | None
    """Option that provides the storage for staged files."""
    requeue: Requeue | None
    more: tuple[str, ...]
    """Further options of the user, as the scheduler spells them."""


class Placement(NamedTuple):
    """Where the tasks of a step run, and how they connect."""

    nodes: int
    ranks: int
    """In total; 0: `tasks` on each node."""
    tasks: int
    """Per node."""
    cpus: int
    """Per task; 0: left to the scheduler."""
    gpus: int
    """Per node."""
    by_tasks: bool
    """Whether each rank is a task; otherwise a task starts all ranks of its node."""
    flags: tuple[str, ...]
    """Flags that every step needs on this machine, as the site spells them."""
    mpi: str = ""
    """How tasks and the image's MPI connect; empty: as the flags say, or left to the scheduler."""
    distribution: str = ""
    """Order of the tasks, as the site spells it; empty: left to the scheduler."""
    binding: str = ""
    """cores or socket; empty: left to the scheduler, or by masks."""
    masks: tuple[str, ...] = ()
    """Cores of each task of a node, as hexadecimal numbers."""


class Allocation(NamedTuple):
    """The job that this process is in, as its environment describes it."""

    nodes: int
    partition: str
    gpus: int
    """Per node; 0: none, or not known."""
    cpus: int
    """Per node; 0: not known."""
    tasks: int
    """Number that a step has in total unless it says otherwise; 0: not known."""
    in_task: bool
    """Whether the scheduler started this process as a task of a step that holds the job's resources."""


class JobPlace(NamedTuple):
    """Job, node and login host of this process; each is empty if unknown."""

    job: str
    node: str
    """Name of this node; empty also if it is not one of the job's."""
    login: str
    """Host on which the job was submitted."""


class ShellWords(NamedTuple):
    """Words of bash in a batch script."""

    restarts: str
    """Expands to the number of times that the job was requeued."""
    requeue: str
    """Command that puts this job into the queue again."""
    task_epilog: str
    """Variable with a program that runs after each task; empty: there is none."""
    whole_environment: tuple[str, str]
    """A line that lets steps inherit all variables, and why it is there; empty: they always do."""
    begin: tuple[str, str] = ("", "")
    """The first line of a batch script, and why it is there; empty: none."""


class Programs(NamedTuple):
    """Commands that hpcmod runs, and what to look for in their output.

    {job} is the number of a job. An empty command: the scheduler has none.
    """

    test: tuple[str, ...]
    """Reads a batch script and prints to stderr when it could run; options are appended."""
    noise: str
    """Regular expression for the beginning of a line of its answer that is not shown to users."""
    unreachable: str
    """Regular expression for an answer which says that the scheduler does not respond."""
    submit: tuple[str, ...]
    """Prints the number of the job, up to the first semicolon; options and a file are appended."""
    scripts: tuple[tuple[str, ...], ...]
    """Print the batch script of a job; they are tried in this order until one knows the job."""
    state: tuple[str, ...]
    """Prints the state of a job that has not ended."""
    node: tuple[str, ...]
    """Prints the name of a job's node."""
    gone: str
    """Text on stderr which says that a job is no longer known."""
    ending: str
    """State of a job whose processes are being ended."""
    cancel: tuple[str, ...]
    responds: tuple[str, ...]
    """Succeeds if the scheduler responds."""
    check: tuple[str, ...]
    """Starts one task; options and a command are appended."""
    mpi: tuple[str, ...]
    """Prints how tasks and an MPI can connect."""
    hosts: tuple[str, ...]
    """Prints the nodes of the job that it runs in, one per line."""
    harmless: str
    """Regular expression for a line of a step that people need not see."""
    facts: tuple[str, ...] = ()
    """Prints what is known of a job that waits, runs, or ended a short time ago."""
    accounting: tuple[str, ...] = ()
    """Prints what the accounting recorded of a job and its steps."""
    on_each_node: tuple[str, ...] = ()
    """Starts one task on each node of a running job, next to its steps; {nodes} is their number."""
    machine: tuple[tuple[str, ...], ...] = ()
    """Print all nodes, all partitions, and the settings of the scheduler."""


class Scheduler(Protocol):
    """The words of one scheduler; hpcmod.install.queue runs its programs."""

    title: str
    """Name for people."""
    mark: str
    """Beginning of a line with options in a batch script."""
    variables: ClassVar[Mapping[str, str]]
    """By long option of `hpcmod job`: the variable with the user's default."""
    cpus_option: str
    """Option for the CPUs of a task, with N as the number; the same for scripts and steps."""
    task_beside: tuple[str, ...]
    """Command that starts one task on the first node, next to the steps that run there."""
    node_variable: str
    """Variable of a task: the name of its node; empty: there is none."""
    login_variable: str
    """Variable of a job: the host on which it was submitted."""
    exit_variable: str
    """Variable with the exit status that its commands use for their own errors, e.g. a refused request."""
    lacks: ClassVar[Mapping[str, str]]
    """By field of JobRequest that hpcmod cannot do with this scheduler: why not."""
    words: ShellWords
    programs: Programs

    def check(self, options: Mapping[str, str], more: Sequence[str], requeue: Requeue | None) -> None:
        """Check options of `hpcmod job`, and those in the scheduler's own words, before a script is written.

        Raises
        ------
        BadInputError
            For the first that the scheduler would refuse, or that would end the job.
        """

    def is_exclusive(self, options: Sequence[str]) -> bool:
        """Return whether one of these options requests full nodes."""

    def spell(self, options: Mapping[str, str]) -> tuple[str, ...]:
        """Return options of `hpcmod job`, by long name, in the scheduler's words; without those that are empty."""

    def directives(self, needs: JobNeeds) -> Iterator[Directive]:
        """Yield the options of a batch script, in order."""

    def allocate(self, options: Sequence[str]) -> tuple[str, ...]:
        """Return the command that requests what a batch script with these options would, for a shell."""

    def name_in(self, script: str) -> str:
        """Return the name of the job in a batch script; empty if it has none."""

    def step(self, placement: Placement) -> tuple[str, ...]:
        """Return the command that starts tasks, up to the program."""

    def single_step(self, *, cpus: int = 0, gpus: int = 0) -> tuple[str, ...]:
        """Return the command that starts one task on the first node, with these CPUs and GPUs of it; 0: unspecified."""

    def step_in_job(self, step: Sequence[str], *, tasks: int, overlap: bool = True) -> tuple[str, ...]:
        """Return a step's command, changed to run in a job or in another step.

        Parameters
        ----------
        step
            A command of `step`.
        tasks
            Number of its tasks in total, which the environment of the job would otherwise set.
        overlap
            Share the resources of the steps that run.
        """

    def step_on_nodes(self, nodes: int, *, minutes: int) -> tuple[str, ...]:
        """Return the command that starts one task on each node, next to the steps that run there.

        Each task may use all cores and GPUs that the job has on its node, and the step ends after some minutes.
        """

    def environment_of_step(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the environment for such a step, without what it would inherit from the options of the job."""

    def allocation(self, environ: Mapping[str, str]) -> Allocation | None:
        """Return the job that this process is in; None outside a job.

        Raises
        ------
        LackingError
            In a job, if hpcmod cannot start steps in it.
        """

    def place(self, environ: Mapping[str, str]) -> JobPlace:
        """Return the place of this process in its job."""

    def read_facts(self, facts: str, accounting: str) -> JobFacts | None:
        """Return what is known of a job, from the output of those programs; None if neither knows it."""

    def is_of_job(self, variable: str) -> bool:
        """Return whether a variable describes a job to this scheduler, and would disturb a step of another one."""
