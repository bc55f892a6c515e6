"""Batch scripts and job steps, and the scheduler that runs them. These are the names for other rooms."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpcmod.jobs.cli.allocation import DryRun as DryRun
    from hpcmod.jobs.cli.allocation import PlaceFlags as PlaceFlags
    from hpcmod.jobs.cli.allocation import find_allocation as find_allocation
    from hpcmod.jobs.cli.allocation import make_allocation as make_allocation
    from hpcmod.jobs.cli.allocation import place_options as place_options
    from hpcmod.jobs.cli.allocation import print_dry_run as print_dry_run
    from hpcmod.jobs.cli.allocation import run_again as run_again
    from hpcmod.jobs.cli.job import job as job
    from hpcmod.jobs.cli.job import prepare_job as prepare_job
    from hpcmod.jobs.cli.job import write_job as write_job
    from hpcmod.jobs.cli.options import JobFlags as JobFlags
    from hpcmod.jobs.cli.run_options import CommandOfProgram as CommandOfProgram
    from hpcmod.jobs.cli.run_options import make_container as make_container
    from hpcmod.jobs.cli.run_options import mpi_option as mpi_option
    from hpcmod.jobs.queue import NO_ANSWER as NO_ANSWER
    from hpcmod.jobs.queue import ask_nodes as ask_nodes
    from hpcmod.jobs.queue import cancel_job as cancel_job
    from hpcmod.jobs.queue import find_mpi_types as find_mpi_types
    from hpcmod.jobs.queue import find_node as find_node
    from hpcmod.jobs.queue import find_state as find_state
    from hpcmod.jobs.queue import has_queue as has_queue
    from hpcmod.jobs.queue import is_waiting_or_running as is_waiting_or_running
    from hpcmod.jobs.queue import list_hosts as list_hosts
    from hpcmod.jobs.queue import list_machine as list_machine
    from hpcmod.jobs.queue import module_of_job as module_of_job
    from hpcmod.jobs.queue import read_job as read_job
else:
    from hpcmod.core.names import named_in

    __getattr__ = named_in(__file__)
