#!/bin/bash
#SBATCH --gres=gpu:a100:2 -N 2 --time="1-0"
#SBATCH hetjob
#SBATCH -p gpu,debug --mem 8G # why
srun x
