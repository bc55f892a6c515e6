"""Names known to Slurm, and programs and variables that scripts use."""

from __future__ import annotations

_LISTS = """
OF_BOTH: account acctg-freq bb bbf begin chdir cluster cluster-constraint clusters comment constraint container
  context contiguous core-spec cores-per-socket cpu-freq cpus-per-gpu cpus-per-task deadline delay-boot dependency
  distribution error exclude exclusive export extra-node-info gid gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket
  gpus-per-task gres gres-flags help hint hold input job-name licenses mail-type mail-user mcs-label mem mem-bind
  mem-per-cpu mem-per-gpu mincpus network nice no-kill nodefile nodelist nodes ntasks ntasks-per-core ntasks-per-gpu
  ntasks-per-node ntasks-per-socket ntasks-per-tres open-mode output overcommit oversubscribe partition power prefer
  priority profile propagate qos quiet reboot reservation signal sockets-per-node spread-job switches tasks-per-node
  test-only thread-spec threads-per-core time time-min tmp uid usage use-min-nodes verbose version wait wckey
  container-id oom-kill-step segment stepmgr tres-bind tres-per-task tres-per-job extra exclusive-topo
  consolidate-segments spread-segments container-image container-mounts container-workdir container-name
  container-save container-env container-entrypoint container-mount-home container-writable container-remap-root
  environment uenv view no-container-entrypoint no-container-mount-home no-container-remap-root
OF_SBATCH: array batch export-file get-user-env ignore-pbs kill-on-invalid-dep no-requeue parsable requeue
  wait-all-nodes wrap external-launcher
OF_SRUN: accel-bind bcast bcast-exclude compress cpu-bind disable-status epilog exact het-group immediate jobid
  kill-on-bad-exit label mpi msg-timeout multi-prog no-allocate overlap preserve-env prolog pty quit-on-interrupt
  relative resv-ports send-libs slurmd-debug task-epilog task-prolog threads treewidth unbuffered whole x11
  wait-for-children
FLAGS: exclusive label unbuffered kill-on-bad-exit overlap pty verbose quiet no-kill contiguous hold immediate
  multi-prog spread-job use-min-nodes disable-status test-only exact whole interactive x11 propagate requeue
  no-requeue parsable preserve-env oversubscribe nice ignore-pbs get-user-env reboot overcommit container-mount-home
  no-container-mount-home container-writable container-readonly container-remap-root no-container-remap-root
  container-entrypoint no-container-entrypoint
LETTERS: A=account C=constraint D=chdir G=gpus J=job-name N=nodes c=cpus-per-task d=dependency e=error m=distribution
  n=ntasks o=output p=partition q=qos t=time w=nodelist x=exclude a=array i=input L=licenses T=threads M=clusters
  F=nodefile S=core-spec B=extra-node-info W=wait b=begin
FORMER: workdir=chdir share=oversubscribe job_name=job-name walltime=time queue=partition mem-per-task=mem-per-cpu
  memory=mem email=mail-user name=job-name cpus=cpus-per-task export-all=export=ALL
LAST_COUNTS: nodes ntasks ntasks-per-node cpus-per-task time partition account mem gres qos gpus-per-node gpus output
  error constraint array export
VARIABLES: ACCOUNT ARRAY_JOB_ID ARRAY_TASK_COUNT ARRAY_TASK_ID ARRAY_TASK_MAX ARRAY_TASK_MIN ARRAY_TASK_STEP
  CLUSTER_NAME CONF CONTAINER CONTAINER_ID CPUS_ON_NODE CPUS_PER_GPU CPUS_PER_TASK CPU_BIND CPU_BIND_LIST
  CPU_BIND_TYPE CPU_BIND_VERBOSE DISTRIBUTION DIST_PLANESIZE EXACT EXPORT_ENV GPUS GPUS_ON_NODE GPUS_PER_NODE
  GPUS_PER_SOCKET GPUS_PER_TASK GPU_BIND GPU_FREQ GRES GTIDS HET_SIZE HINT JOBID JOB_ACCOUNT JOB_COMMENT
  JOB_CPUS_PER_NODE JOB_DEPENDENCY JOB_END_TIME JOB_EXTRA JOB_GID JOB_GPUS JOB_GROUP JOB_ID JOB_LICENSES JOB_NAME
  JOB_NODELIST JOB_NODES JOB_NUM_NODES JOB_PARTITION JOB_QOS JOB_RESERVATION JOB_START_TIME JOB_UID JOB_USER LABELIO
  LAUNCH_NODE_IPADDR LOCALID MEM_BIND MEM_PER_CPU MEM_PER_GPU MEM_PER_NODE MPI_TYPE NETWORK NNODES NODEID NODELIST
  NODE_ALIASES NPROCS NTASKS NTASKS_PER_CORE NTASKS_PER_GPU NTASKS_PER_NODE NTASKS_PER_SOCKET OVERCOMMIT OVERLAP
  PRIO_PROCESS PROCID PROFILE PTY_PORT RESTART_COUNT SCRIPT_CONTEXT SHARDS_ON_NODE SPANK SRUN_COMM_HOST SRUN_COMM_PORT
  STEPID STEP_GPUS STEP_ID STEP_LAUNCHER_PORT STEP_NODELIST STEP_NUM_NODES STEP_NUM_TASKS STEP_TASKS_PER_NODE
  SUBMIT_DIR SUBMIT_HOST TASKS_PER_NODE TASK_PID THREADS_PER_CORE TOPOLOGY_ADDR TOPOLOGY_ADDR_PATTERN TRES_PER_TASK
  UMASK UNBUFFEREDIO WORKING_DIR TMPDIR KILL_BAD_EXIT WAIT TIMELIMIT PARTITION QOS RESERVATION CONSTRAINT EXCLUSIVE
  DEPENDENCY
OF_OPTIONS: NTASKS=ntasks NPROCS=ntasks NNODES=nodes JOB_NUM_NODES=nodes CPUS_PER_TASK=cpus-per-task
  NTASKS_PER_NODE=ntasks-per-node
OTHERS: PBS_NODEFILE=SLURM_JOB_NODELIST PBS_ARRAY_INDEX=SLURM_ARRAY_TASK_ID PBS_NP=SLURM_NTASKS LSB_JOBID=SLURM_JOB_ID
  LSB_JOBINDEX=SLURM_ARRAY_TASK_ID LS_SUBCWD=SLURM_SUBMIT_DIR PBS_JOBID=SLURM_JOB_ID PBS_O_WORKDIR=SLURM_SUBMIT_DIR
  PBS_ARRAYID=SLURM_ARRAY_TASK_ID JOB_ID=SLURM_JOB_ID SGE_TASK_ID=SLURM_ARRAY_TASK_ID NSLOTS=SLURM_NTASKS
TOOLS: basename cat cd chmod cp date dirname du echo env exit free grep head hostname kill ln ls lscpu mkdir mktemp
  module ml mv nvidia-smi printenv printf pwd rm rmdir rocm-smi rsync scontrol sed set sleep sort tail tar tee test
  touch trap true ulimit uname uniq unset wait wc [ [[ for return break continue let local read shift source . : !
  false awk cut tr find xargs sacct squeue scancel sstat seff sbcast which type id whoami tree curl wget python-config
  numactl taskset stat getfattr lfs cmp diff gzip gunzip zip unzip sha256sum md5sum jq sync disown eval select_gpu
  pkill
SERIAL: R Rscript matlab octave java perl gmx STAR samtools bcftools bedtools fastqc multiqc trim_galore cutadapt
  fastp deduplicate_bismark Trinity minimap2 spades.py megahit kraken2 blastn blastp blastx makeblastdb gatk picard
  salmon kallisto featureCounts seqtk vcftools plink plink2 angsd iqtree iqtree2 mafft diamond prokka flye canu busco
  cellranger mosdepth xvfb-run nvprof stringtie math wolfram wolframscript lmp_serial
READ: APPTAINER_CACHEDIR CUDA_VISIBLE_DEVICES DYLD_LIBRARY_PATH HF_DATASETS_CACHE LD_LIBRARY_PATH MASTER_ADDR
  MKL_NUM_THREADS NCCL_DEBUG NCCL_IB_DISABLE NCCL_SOCKET_IFNAME NUMEXPR_NUM_THREADS OMP_NUM_THREADS OMP_PROC_BIND
  I_MPI_FABRICS OPENBLAS_NUM_THREADS PYTHONPATH PYTORCH_CUDA_ALLOC_CONF SINGULARITY_CACHEDIR SRUN_CPUS_PER_TASK
  TOKENIZERS_PARALLELISM TRANSFORMERS_CACHE WANDB_API_KEY
"""
_LINES = (line.partition(": ") for line in _LISTS.replace("\n  ", " ").strip().split("\n"))
_WORDS = {name: words.split() for name, _, words in _LINES}
_PAIRS = {name: dict(word.split("=", 1) for word in words if "=" in word) for name, words in _WORDS.items()}

SBATCH_OPTIONS = {*_WORDS["OF_BOTH"], *_WORDS["OF_SBATCH"]}
"""Long options of sbatch: sbatch(1) of Slurm 22.05, later versions, and plugins: Pyxis, the Container Engine, uenv."""
SRUN_ONLY = {*_WORDS["OF_SRUN"]}  # long options of srun that sbatch refuses
SLURM_FLAGS = {*_WORDS["FLAGS"]}  # long options of srun and sbatch whose value, if they take one, must follow an `=`
SLURM_SHORT = _PAIRS["LETTERS"]  # options of srun and sbatch with a value, by letter
FORMER = _PAIRS["FORMER"]  # options that sbatch had, or that users expect, each with the right one
LAST_COUNTS = {*_WORDS["LAST_COUNTS"]}  # sbatch keeps the last; values of --mail-type were added up before 25.05
VARIABLES = {f"SLURM_{name}" for name in _WORDS["VARIABLES"]}
"""Variables of a job or a task: sbatch(1) and srun(1), output environment variables."""
OF_OPTIONS = _PAIRS["OF_OPTIONS"]  # variables that follow from options
OF_OTHER_SCHEDULERS = _PAIRS["OTHERS"]  # variables of PBS and Grid Engine, each with that of Slurm
TOOLS = {*_WORDS["TOOLS"]}
"""Utilities that a script runs: one core is enough for them, and they need no libraries of the user."""
SERIAL = {*_WORDS["SERIAL"]}  # programs that run on one node
READ = {*_WORDS["READ"]}  # variables that programs read, and that are often misspelt
