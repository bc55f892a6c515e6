"""The install plan: everything that will exist, decided by one pure function from image, site and spec."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RunscriptSettings:
    """What the run scripts of one installation are rendered with."""

    module: str
    """Full name of the module, e.g. PyTorch/2.7.1-rocm-6.2.4-singularity; for messages."""
    sif_variable: str
    """Variable that holds the SIF's path outside the container, e.g. SIFPYTORCH."""
    gpu_visibility: tuple[str, ...] = ()
    """Variables that choose GPUs on this machine, the first one is Slurm's own, e.g. ROCR_VISIBLE_DEVICES; empty: no GPUs."""
    gpus_per_rank: str = "one"
    """`one`: each rank sees the GPU of its local rank when Slurm showed it several; `all`: left as Slurm set it."""
    cache_root: str = "/tmp"  # noqa: S108 - a default for node-local caches, keyed by user and job below it
    """Node-local directory for caches."""
    tunables: tuple[tuple[str, str], ...] = ()
    """Defaults (NCCL_*, FI_*, ...), for runs where the module's environment did not reach; a value already set wins."""
