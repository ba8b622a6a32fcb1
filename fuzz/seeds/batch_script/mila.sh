#!/bin/bash
#SBATCH --job-name=bert   # fine
#SBATCH --partition=long
#SBATCH --gpus-per-task=rtx8000:1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=4
#SBATCH --mem=16G
#SBATCH --array=0-4%2
#SBATCH -t 2:59:00
set -euo pipefail
trap 'scontrol requeue $SLURM_JOB_ID' SIGTERM
cd $SLURM_SUBMIT_DIR
SEED=7
if [ -d venv ]; then
  source venv/bin/activate
fi
python -u prep.py
torchrun --standalone --nproc_per_node=1 finetune.py --seed $SLURM_ARRAY_TASK_ID --lr=1e-4 2>&1 | tee log.txt
python evaluate.py
