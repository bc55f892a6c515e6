"""Network options of a job: the value of --network."""

from __future__ import annotations

from hpcmod.jobs.values.layout import Layout
from hpcmod.jobs.values.request import JobRequest
from hpcmod.jobs.values.slurm import value_of
from hpcmod.machine.values.site import Site


def choose_network(request: JobRequest, site: Site, layout: Layout) -> str:
    """Return the value of --network for a job; empty: leave the option out.

    The user's value replaces everything from the profile.
    """
    if value_of(request.more, "network"):
        return ""
    words = site.job.network_one_node if request.nodes == 1 else ()
    if request.nodes > 1 and layout.gpus:  # these values are for NCCL and RCCL and may slow down MPI
        words = site.job.network_several_nodes
    if request.nodes > 1 and (request.staging.place or request.staging.data):  # staging runs beside the ranks
        words = (*words, *site.job.network_several_steps)
    return ",".join(dict.fromkeys(words))


def explain_network(value: str) -> str:
    """Explain what the values of --network do, for people."""
    return "; ".join(_MEANINGS[word] for word in value.split(",") if word in _MEANINGS)


_MEANINGS = {
    "disable_rdzv_get": "disable_rdzv_get: for FI_CXI_RDZV_PROTO=alt_read",
    "single_node_vni": "single_node_vni: Slingshot also on a single node",
    "job_vni": "job_vni: Slingshot for concurrent steps",
}
"""sbatch(1), --network, for HPE Slingshot; HPE's application notes for NCCL and RCCL."""
