#!/bin/bash -l
#SBATCH --account=project_465000123
#SBATCH --partition=small
#SBATCH --array=1-96
#SBATCH --cpus-per-task=16
#SBATCH --mem=32G
#SBATCH --time=08:00:00
#SBATCH --output=log/%x.%A_%a.out
#SBATCH --mail-type=END,FAIL
cd $SLURM_SUBMIT_DIR
sample=$(awk -v n=$SLURM_ARRAY_TASK_ID 'NR==n {print $1}' samples.txt)
bwa="singularity exec -B $PWD:/data /project/project_465000123/bwa_0.7.17.sif bwa"
$bwa mem -t $SLURM_CPUS_PER_TASK /data/ref.fa /data/${sample}_1.fq.gz /data/${sample}_2.fq.gz | \
  singularity exec /project/project_465000123/samtools_1.20.sif samtools sort -@ 4 -o ${sample}.bam -
