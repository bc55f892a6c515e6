"""Names known to Slurm: long options of sbatch and srun, and the variables that it sets in a job."""

from __future__ import annotations

_COMMON = {
    "account", "acctg-freq", "bb", "bbf", "begin", "chdir", "cluster", "cluster-constraint", "clusters", "comment",
    "constraint", "container", "context", "contiguous", "core-spec", "cores-per-socket", "cpu-freq", "cpus-per-gpu",
    "cpus-per-task", "deadline", "delay-boot", "dependency", "distribution", "error", "exclude", "exclusive", "export",
    "extra-node-info", "gid", "gpu-bind", "gpu-freq", "gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task",
    "gres", "gres-flags", "help", "hint", "hold", "input", "job-name", "licenses", "mail-type", "mail-user",
    "mcs-label", "mem", "mem-bind", "mem-per-cpu", "mem-per-gpu", "mincpus", "network", "nice", "no-kill", "nodefile",
    "nodelist", "nodes", "ntasks", "ntasks-per-core", "ntasks-per-gpu", "ntasks-per-node", "ntasks-per-socket",
    "ntasks-per-tres", "open-mode", "output", "overcommit", "oversubscribe", "partition", "power", "prefer", "priority",
    "profile", "propagate", "qos", "quiet", "reboot", "reservation", "signal", "sockets-per-node", "spread-job",
    "switches", "tasks-per-node", "test-only", "thread-spec", "threads-per-core", "time", "time-min", "tmp", "uid",
    "usage", "use-min-nodes", "verbose", "version", "wait", "wckey",
    # newer than 22.05
    "container-id", "oom-kill-step", "segment", "stepmgr", "tres-bind", "tres-per-task", "tres-per-job",
    "extra", "exclusive-topo", "consolidate-segments", "spread-segments",
    # plugins of NVIDIA (Pyxis) and CSCS (Container Engine, uenv)
    "container-image", "container-mounts", "container-workdir", "container-name", "container-save", "container-env",
    "container-entrypoint", "container-mount-home", "container-writable", "container-remap-root", "environment", "uenv",
    "view", "no-container-entrypoint", "no-container-mount-home", "no-container-remap-root",
}  # fmt: skip

SBATCH_OPTIONS = _COMMON | {
    "array", "batch", "export-file", "get-user-env", "ignore-pbs", "kill-on-invalid-dep", "no-requeue", "parsable",
    "requeue", "wait-all-nodes", "wrap", "external-launcher",
}  # fmt: skip
"""Long options of sbatch: sbatch(1) of Slurm 22.05, and additions of later versions and common plugins."""

SRUN_ONLY = {
    "accel-bind", "bcast", "bcast-exclude", "compress", "cpu-bind", "disable-status", "epilog", "exact", "het-group",
    "immediate", "jobid", "kill-on-bad-exit", "label", "mpi", "msg-timeout", "multi-prog", "no-allocate", "overlap",
    "preserve-env", "prolog", "pty", "quit-on-interrupt", "relative", "resv-ports", "send-libs", "slurmd-debug",
    "task-epilog", "task-prolog", "threads", "treewidth", "unbuffered", "whole", "x11", "wait-for-children",
}  # fmt: skip
"""Long options of srun that sbatch refuses."""

VARIABLES = {
    "SLURM_" + name
    for name in (
        "ACCOUNT", "ARRAY_JOB_ID", "ARRAY_TASK_COUNT", "ARRAY_TASK_ID", "ARRAY_TASK_MAX", "ARRAY_TASK_MIN",
        "ARRAY_TASK_STEP", "CLUSTER_NAME", "CONF", "CONTAINER", "CONTAINER_ID", "CPUS_ON_NODE", "CPUS_PER_GPU",
        "CPUS_PER_TASK", "CPU_BIND", "CPU_BIND_LIST", "CPU_BIND_TYPE", "CPU_BIND_VERBOSE", "DISTRIBUTION",
        "DIST_PLANESIZE", "EXACT", "EXPORT_ENV", "GPUS", "GPUS_ON_NODE", "GPUS_PER_NODE", "GPUS_PER_SOCKET",
        "GPUS_PER_TASK", "GPU_BIND", "GPU_FREQ", "GRES", "GTIDS", "HET_SIZE", "HINT", "JOBID", "JOB_ACCOUNT",
        "JOB_COMMENT", "JOB_CPUS_PER_NODE", "JOB_DEPENDENCY", "JOB_END_TIME", "JOB_EXTRA", "JOB_GID", "JOB_GPUS",
        "JOB_GROUP", "JOB_ID", "JOB_LICENSES", "JOB_NAME", "JOB_NODELIST", "JOB_NODES", "JOB_NUM_NODES",
        "JOB_PARTITION", "JOB_QOS", "JOB_RESERVATION", "JOB_START_TIME", "JOB_UID", "JOB_USER", "LABELIO",
        "LAUNCH_NODE_IPADDR", "LOCALID", "MEM_BIND", "MEM_PER_CPU", "MEM_PER_GPU", "MEM_PER_NODE", "MPI_TYPE",
        "NETWORK", "NNODES", "NODEID", "NODELIST", "NODE_ALIASES", "NPROCS", "NTASKS", "NTASKS_PER_CORE",
        "NTASKS_PER_GPU", "NTASKS_PER_NODE", "NTASKS_PER_SOCKET", "OVERCOMMIT", "OVERLAP", "PRIO_PROCESS", "PROCID",
        "PROFILE", "PTY_PORT", "RESTART_COUNT", "SCRIPT_CONTEXT", "SHARDS_ON_NODE", "SPANK", "SRUN_COMM_HOST",
        "SRUN_COMM_PORT", "STEPID", "STEP_GPUS", "STEP_ID", "STEP_LAUNCHER_PORT", "STEP_NODELIST", "STEP_NUM_NODES",
        "STEP_NUM_TASKS", "STEP_TASKS_PER_NODE", "SUBMIT_DIR", "SUBMIT_HOST", "TASKS_PER_NODE", "TASK_PID",
        "THREADS_PER_CORE", "TOPOLOGY_ADDR", "TOPOLOGY_ADDR_PATTERN", "TRES_PER_TASK", "UMASK", "UNBUFFEREDIO",
        "WORKING_DIR", "TMPDIR", "KILL_BAD_EXIT", "WAIT", "TIMELIMIT", "PARTITION", "QOS", "RESERVATION",
        "CONSTRAINT", "EXCLUSIVE", "DEPENDENCY",
    )
}  # fmt: skip
"""Variables of a job or a task: sbatch(1) and srun(1), output environment variables."""

OF_OTHER_SCHEDULERS = {
    "PBS_NODEFILE": "SLURM_JOB_NODELIST", "PBS_ARRAY_INDEX": "SLURM_ARRAY_TASK_ID", "PBS_NP": "SLURM_NTASKS",
    "LSB_JOBID": "SLURM_JOB_ID", "LSB_JOBINDEX": "SLURM_ARRAY_TASK_ID", "LS_SUBCWD": "SLURM_SUBMIT_DIR",
    "PBS_JOBID": "SLURM_JOB_ID", "PBS_O_WORKDIR": "SLURM_SUBMIT_DIR", "PBS_ARRAYID": "SLURM_ARRAY_TASK_ID",
    "JOB_ID": "SLURM_JOB_ID", "SGE_TASK_ID": "SLURM_ARRAY_TASK_ID", "NSLOTS": "SLURM_NTASKS",
}  # fmt: skip
"""Variables of PBS and Grid Engine, each with that of Slurm."""
