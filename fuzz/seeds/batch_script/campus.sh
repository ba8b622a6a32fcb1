#!/bin/bash -l
#SBATCH -J gpt2 -A lab -p gpu -N 2-4
#SBATCH -G a100:8
#SBATCH --mem-per-cpu=4G -c 16
#SBATCH --constraint=ib --exclusive
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
conda activate torch
for i in 1 2 3; do
  echo $i
done
export OMP_NUM_THREADS=8 LR=0.1
srun --ntasks=$SLURM_NNODES --ntasks-per-node=1 bash -c 'torchrun --nnodes $SLURM_NNODES --nproc_per_node 4 --rdzv_id $SLURM_JOB_ID --rdzv_backend c10d --rdzv_endpoint $head:29500 -m trainer.main --config cfg.yaml'
echo done
