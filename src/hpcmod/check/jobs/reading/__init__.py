"""Read batch scripts as sbatch and bash do."""
