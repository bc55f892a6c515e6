#!/usr/bin/env bash
#SBATCH --account=project_465000123
#SBATCH --partition=standard-g
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --time=02:00:00
set -euo pipefail

log() {
    echo "[$(date +%T)] $*" >&2
}

run_step() {
    local name=$1; shift
    log "start $name"
    srun --job-name="$name" \
         singularity exec "$SIF" \
         "$@"
}

cat > config.yaml << YAML
batch_size: 32   # per rank
port: 29500
hosts: localhost
srun: false
YAML

module load LUMI PyTorch/2.7.1
run_step train conda-python-distributed train.py --config config.yaml
run_step eval conda-python-distributed eval.py --config config.yaml
log "it's done"
