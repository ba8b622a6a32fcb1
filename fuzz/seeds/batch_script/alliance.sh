#!/bin/bash
#SBATCH --account=def-prof
#SBATCH --gres=gpu:v100l:4        # 4 GPUs per node
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --mem=0
#SBATCH --time=0-12:00
#SBATCH --output=%N-%j.out
#SBATCH --mail-user=me@example.org --mail-type=ALL

module purge
module load python/3.11 cuda
virtualenv --no-download $SLURM_TMPDIR/env
source $SLURM_TMPDIR/env/bin/activate
pip install --no-index torch torchvision

export NCCL_DEBUG=INFO
export MASTER_ADDR=$(hostname)
export DATA=$SLURM_TMPDIR/data
mkdir -p $SLURM_TMPDIR/data
tar -xf ~/projects/imagenet.tar -C $SLURM_TMPDIR/data
echo "r$SLURM_NODEID master: $MASTER_ADDR"

srun python train.py --init_method tcp://$MASTER_ADDR:3456 \
     --world_size $SLURM_NTASKS --batch_size 256 \
     --epochs 90
