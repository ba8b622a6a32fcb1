//! Batch scripts in ten styles are converted by `hsched import`, and the resulting jobs train.

use std::fs;

use crate::sandbox::{Sandbox, write_program};

/// Fits y = 3x in plain Python, each rank on its own samples; prints its arguments. Fails if it has not learnt.
const TRAIN: &str = r#"
import json, os, random, sys
rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
w, draw = 0.0, random.Random(rank)
for epoch in range(1, int(os.environ["HSCHED_EPOCHS"]) + 1):
    for _ in range(100 // world):
        x = draw.uniform(-1, 1)
        w -= 0.2 * (w - 3) * x * x
    if rank == 0:
        with open(os.environ["HSCHED_REPORT"], "a") as report:
            report.write(json.dumps({"epoch": epoch, "rank": 0, "metrics": {"loss": (w - 3) ** 2}}) + "\n")
print("trained on", world, sys.argv[1:])
sys.exit(0 if abs(w - 3) < 0.1 else 1)
"#;

/// Stand-ins for programs that scripts call in addition to the training.
const PROGRAMS: [(&str, &str); 7] = [
    ("python", "exec python3 \"$@\""),
    ("module", "exit 0"),
    ("virtualenv", "exit 0"),
    ("conda", "exit 0"),
    ("pip", "exit 0"),
    ("nvidia-smi", "exit 0"),
    ("apptainer", "while [ \"$1\" != image.sif ]; do shift; done; shift; exec \"$@\""),
];

/// The name and the text of each script, and the end of a line that its training must print.
const SCRIPTS: [(&str, &str, &str); 10] = [
    (
        "alliance",
        r"#!/bin/bash
#SBATCH --account=def-someuser
#SBATCH --gpus-per-node=v100:2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=3
#SBATCH --mem=32000M
#SBATCH --time=0-03:00
#SBATCH --output=%N-%j.out
module load python/3.11
virtualenv --no-download $SLURM_TMPDIR/env
source $SLURM_TMPDIR/env/bin/activate
pip install --no-index torch
export MASTER_ADDR=$(hostname)
srun python train.py --epochs 10 --batch_size 256
",
        "trained on 2 ['--epochs', '10', '--batch_size', '256']",
    ),
    (
        "mila",
        r"#!/bin/bash
#SBATCH --job-name=resnet
#SBATCH --partition=long
#SBATCH --gres=gpu:1
#SBATCH -c 4
#SBATCH --mem=16G
set -e
module purge
module load anaconda/3
conda activate torch
unset CUDA_VISIBLE_DEVICES
srun python train.py --lr=0.1
",
        "trained on 1 ['--lr=0.1']",
    ),
    (
        "campus",
        r#"#!/bin/sh
#SBATCH -J mnist -p gpu -N 1 -n 1
#SBATCH --gres=gpu:v100:1 -t 1:00:00
#SBATCH --mail-type=END --mail-user=me@example.org
cd $SLURM_SUBMIT_DIR
echo "job started on $(hostname) at $(date)"
nvidia-smi
python3 -u train.py > log.txt 2>&1
echo done
"#,
        "trained on 1 []",
    ),
    (
        "torchrun",
        r"#!/bin/bash -l
#SBATCH --nodes=1
#SBATCH --gpus=2
export OMP_NUM_THREADS=2
torchrun --standalone --nproc_per_node=2 train.py --fp16
",
        "trained on 2 ['--fp16']",
    ),
    (
        "tasks",
        r#"#!/bin/bash
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=2
#SBATCH --gpus-per-task=1
#SBATCH --cpus-per-task=2
export MASTER_PORT=29500
export WORLD_SIZE=$SLURM_NTASKS
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun --cpu-bind=none python train.py --lr 0.1
"#,
        "trained on 2 ['--lr', '0.1']",
    ),
    (
        "rendezvous",
        r#"#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gpus-per-node=1
nodes=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) )
head_node=${nodes[0]}
head_ip=$(srun --nodes=1 --ntasks=1 -w "$head_node" hostname --ip-address)
srun torchrun \
  --nnodes 2 \
  --nproc_per_node 1 \
  --rdzv_id $RANDOM \
  --rdzv_backend c10d \
  --rdzv_endpoint $head_ip:29500 \
  train.py 50 10
"#,
        "trained on 2 ['50', '10']",
    ),
    (
        "container",
        r"#!/bin/bash
#SBATCH --gpus=1
module load apptainer
apptainer exec --nv --bind $PWD image.sif python train.py
",
        "trained on 1 []",
    ),
    (
        "launch",
        r"#!/bin/bash
#SBATCH --gres=gpu:2
LR=0.05
python -m torch.distributed.launch --nproc_per_node=2 --use_env train.py --lr $LR
",
        "trained on 2 ['--lr', '0.05']",
    ),
    (
        "careful",
        r#"#!/usr/bin/env bash
#SBATCH --gres=gpu:1 --time=30
set -euo pipefail
trap 'echo interrupted' EXIT
cp train.py $TMPDIR/copy.py
if [ -f venv/bin/activate ]; then
  source venv/bin/activate
fi
time python $TMPDIR/copy.py "two words" --name='a b'
"#,
        "trained on 1 ['two words', '--name=a b']",
    ),
    (
        "accelerate",
        r"#!/bin/bash
#SBATCH --gpus-per-node=2
source activate.sh
accelerate launch --num_processes 2 --mixed_precision bf16 train.py --seed 1
",
        "trained on 2 ['--seed', '1']",
    ),
];

#[test]
fn scripts_of_ten_styles_train() {
    let sandbox = Sandbox::new().file("train.py", TRAIN).file("activate.sh", "").file("image.sif", "");
    fs::create_dir_all(sandbox.work("tmp/env/bin")).expect("a folder");
    let sandbox = sandbox.file("tmp/env/bin/activate", "");
    let programs = sandbox.path("own");
    fs::create_dir(&programs).expect("a folder");
    for (name, line) in PROGRAMS {
        write_program(&programs.join(name), &format!("#!/bin/sh\n{line}\n"));
    }
    let tmp = sandbox.work("tmp").display().to_string();
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", programs.display());
    let sandbox = sandbox.variable("PATH", &path).variable("TMPDIR", &tmp).variable("SLURM_TMPDIR", &tmp);
    for (name, script, said) in SCRIPTS {
        fs::write(sandbox.work(&format!("{name}.sh")), script).expect("a file");
        let mut jobs = sandbox.run(&format!("import {name}.sh")).stdout;
        for (key, value) in
            [("samples_per_epoch", "100"), ("epochs", "3"), ("global_batch", "10"), ("model_size", "1MB")]
        {
            jobs = jobs.replace(&format!(" {key}: TODO"), &format!(" {key}: {value}"));
        }
        jobs = jobs.replace("#throughput: {v100: 100}", "throughput: {v100: 1000}");
        fs::write(sandbox.work(&format!("{name}.yaml")), &jobs).expect("a file");
        let ran = sandbox.run(&format!("run {name}.yaml --devices v100:2 --simulated")).exits(0);
        assert!(ran.stdout.contains("completed"), "{name}: {}", ran.stdout);
        let job = if name == "mila" {
            "resnet"
        } else if name == "campus" {
            "mnist"
        } else {
            name
        };
        let output = fs::read_to_string(sandbox.work(&format!("{job}.out"))).expect("an output");
        assert!(output.lines().any(|line| line.ends_with(said)), "{name}: {said}: {output}\n{jobs}");
    }
}
