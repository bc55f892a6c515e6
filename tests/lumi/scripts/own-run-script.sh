#!/bin/bash -e
# Form: a user's own run script, with the first host determined outside the container
# Source: Lumi-supercomputer/Getting_Started_with_AI_workshop, 09_Extreme_scale_AI, commit ea1da16
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=2
#SBATCH --partition=small-g
#SBATCH --time=00:05:00
module load PyTorch/2.2.2-rocm-5.6.1-python-3.10-singularity

cat >$TMPDIR/run.sh <<'END'
#!/bin/bash -e
$WITH_CONDA
export MASTER_PORT=25900 WORLD_SIZE=$SLURM_NPROCS RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID
eval "$@"
END
cat >$TMPDIR/train.py <<'END'
import os, sys
print(*(os.environ[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")), *sys.argv[1:])
END
chmod +x $TMPDIR/run.sh
export MASTER_ADDR=$(scontrol show hostname $SLURM_JOB_NODELIST | head -n1)
srun singularity exec -B $TMPDIR $SIF bash $TMPDIR/run.sh python -u $TMPDIR/train.py --local \$SLURM_LOCALID | sort
