#!/bin/sh
#PBS -l nodes=2:ppn=4:gpus=1,walltime=0:09:00
#SBATCH --array=0-7%2 --nodes={{ n }}
