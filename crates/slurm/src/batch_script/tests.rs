//! Batch scripts as in clusters' documentation, and their imports.

mod blocks;
mod order;
mod sweeps;
mod training;

use insta::assert_snapshot;
use proptest::prelude::*;

use super::read;
use hsched_model::formats;

/// Several nodes, a virtual environment, and data on each node's local disk.
const ALLIANCE: &str = include_str!("../../../../fuzz/seeds/batch_script/alliance.sh");

/// A job array, torchrun, and steps before and after it.
const MILA: &str = include_str!("../../../../fuzz/seeds/batch_script/mila.sh");

/// Several options per line, a range of nodes, and torchrun started by srun.
const CAMPUS: &str = include_str!("../../../../fuzz/seeds/batch_script/campus.sh");

/// Returns the job file; it can be parsed after its gaps are filled in.
fn yaml(script: &str) -> String {
    let yaml = read(script, "job").to_yaml("job.sh");
    let filled = yaml.replace("size: TODO", "size: 4096B").replace(": TODO", ": 4096");
    let jobs = formats::jobs::parse(&filled).unwrap_or_else(|problems| panic!("{problems:?}\n{filled}"));
    let value = read(script, "job").to_json().to_string().replace("\"TODO\"", "4096");
    let same = formats::jobs::parse(&value).unwrap_or_else(|problems| panic!("{problems:?}\n{value}"));
    assert_eq!(jobs, same);
    yaml
}

#[test]
fn a_job_on_several_nodes() {
    assert_snapshot!(yaml(ALLIANCE), @r#"
    # Written by hsched import from job.sh.
    # Replace every TODO; hsched plan lists the remaining ones.
    # Dropped or changed:
    #   line 5: the script asks for 2 nodes: hsched chooses on how many nodes the GPUs are
    #   line 7: --mem=0: hsched does not request all memory of a node; set memory_per_gpu
    #   line 9: --output=%N-%j.out: the output goes to NAME.out in the workdir
    #   line 19: MASTER_ADDR=$(hostname): hsched or Slurm sets it
    #   line 25: --batch_size 256: the same value on every rank; use $HSCHED_LOCAL_BATCH for the local batch of each rank
    jobs:
      - name: job
        samples_per_epoch: TODO   # training samples per epoch
        epochs: TODO   # total number of epochs; line 25 has --epochs 90
        global_batch: TODO   # samples per step over all ranks; the same for every placement; line 25 has --batch_size 256
        model_size: TODO   # bytes that the ranks exchange after each step (4 per parameter in fp32), such as 46.8MB
        #throughput: {v100: 100}   # samples/s on one GPU of each type, if known; otherwise hsched probe measures them
        command: "python train.py --init_method tcp://$MASTER_ADDR:3456 --world_size $SLURM_NTASKS --batch_size 256 --epochs 90"
        gpus: 8
        gpu_types: [v100l]
        env: {NCCL_DEBUG: INFO}
        setup: ["echo \"r$SLURM_NODEID master: $MASTER_ADDR\""]
        node_setup: ["module purge", "module load python/3.11 cuda", "virtualenv --no-download $SLURM_TMPDIR/env", "source $SLURM_TMPDIR/env/bin/activate", "pip install --no-index torch torchvision", "export DATA=$SLURM_TMPDIR/data", "mkdir -p $SLURM_TMPDIR/data", "tar -xf ~/projects/imagenet.tar -C $SLURM_TMPDIR/data"]
        account: def-prof
        time: "12:00:00"
        cpus_per_gpu: 8
        sbatch: ["--mail-user=me@example.org", "--mail-type=ALL"]
    "#);
}

#[test]
fn a_job_array_with_torchrun() {
    assert_snapshot!(yaml(MILA), @r#"
    # Written by hsched import from job.sh.
    # Dropped or changed:
    #   line 8: %2: hsched starts as many jobs as there are GPUs for; the setting capacity limits the GPUs
    #   line 8: --array=0-4%2: one job for each task (key sweep), with the number of the task as $TASK
    #   line 10: set -euo pipefail: dropped; a failing line of setup ends the run anyway
    #   line 11: trap 'scontrol requeue $SLURM_JOB_ID' SIGTERM: dropped; ranks get SIGUSR1 directly
    #   line 17: python -u prep.py: runs once, in setup, before node_setup: load what it needs in setup
    #   line 18: torchrun --standalone --nproc_per_node=1: dropped; hsched starts one rank per GPU with the variables of torchrun
    #   line 18: 2>&1 | tee log.txt: dropped; the output of ranks goes to NAME.out
    #   line 19: python evaluate.py: comes after the training; hsched does not run it
    jobs:
      - name: bert
        #epochs: 1   # total number of epochs, if the program reports them
        #throughput: {v100: 100}   # epochs/s on one GPU of each type; hsched plan and watch need them, run and submit --pack do not
        command: "python finetune.py --seed $TASK --lr=1e-4"
        gpus: 1
        gpu_types: [rtx8000]
        env: {SEED: "7"}
        setup: ["python -u prep.py"]
        node_setup: ["if [ -d venv ]; then\u000Asource venv/bin/activate\u000Afi"]
        partition: long
        time: "02:59:00"
        cpus_per_gpu: 4
        memory_per_gpu: "16GiB"
        sweep: {task: [0, 1, 2, 3, 4]}
    "#);
}

#[test]
fn options_of_every_spelling() {
    assert_snapshot!(yaml(CAMPUS), @r#"
    # Written by hsched import from job.sh.
    # Replace every TODO; hsched plan lists the remaining ones.
    # Dropped or changed:
    #   line 2: the script asks for 2 to 4 nodes: hsched chooses on how many nodes the GPUs are
    #   line 5: --exclusive: the job gets all GPUs and CPUs of its nodes
    #   line 7: --requeue: hsched resubmits jobs itself (key retries)
    #   line 13: srun --ntasks=$SLURM_NNODES --ntasks-per-node=1: dropped; hsched starts one rank per GPU with the variables of torchrun
    #   line 13: torchrun --nnodes $SLURM_NNODES --nproc_per_node 4 --rdzv_id $SLURM_JOB_ID --rdzv_backend c10d --rdzv_endpoint $head:29500: dropped; hsched starts one rank per GPU with the variables of torchrun
    #   line 14: echo done: comes after the training; hsched does not run it
    jobs:
      - name: gpt2
        samples_per_epoch: TODO   # training samples per epoch
        epochs: TODO   # total number of epochs
        global_batch: TODO   # samples per step over all ranks; the same for every placement
        model_size: TODO   # bytes that the ranks exchange after each step (4 per parameter in fp32), such as 46.8MB
        #throughput: {v100: 100}   # samples/s on one GPU of each type, if known; otherwise hsched probe measures them
        command: "python -m trainer.main --config cfg.yaml"
        gpus: 8
        gpu_types: [a100]
        env: {LR: "0.1", OMP_NUM_THREADS: "8"}
        setup: ["for i in 1 2 3; do\u000Aecho $i\u000Adone"]
        node_setup: ["conda activate torch"]
        account: lab
        partition: gpu
        cpus_per_gpu: 4
        memory_per_gpu: "16GiB"
        sbatch: ["--constraint=ib", "--exclusive"]
        checkpoint: {grace: "120s"}
    "#);
}

/// Returns the value of a key from a script's options, as JSON; `-` if there is none.
fn key(options: &str, key: &str) -> String {
    let script = options.replace(" | ", "\n#SBATCH ");
    read(&format!("#!/bin/bash\n#SBATCH {script}\nsrun python a.py\n"), "job")
        .keys
        .get(key)
        .map_or("-".into(), ToString::to_string)
}

#[test]
fn gpus_in_every_spelling() {
    let check = |options: &str, expected: [&str; 3]| {
        assert_eq!(["gpus", "gpu_types", "max_gpus"].map(|name| key(options, name)), expected, "{options}");
    };
    check("--gres=gpu", ["1", "-", "-"]);
    check("--gres gpu:4", ["4", "-", "-"]);
    check("--gres=gpu:a100:2,gpu:v100:1,tmpdir:5 | -N2", ["6", "[\"a100\",\"v100\"]", "-"]);
    check("-G 8", ["8", "-", "-"]);
    check("--gpus=h100:2 | --nodes=2", ["2", "[\"h100\"]", "-"]);
    check("--gpus-per-node=t4:2 | --nodes=1-3", ["-", "[\"t4\"]", "6"]);
    check("--gpus-per-task=1 | --ntasks=6", ["6", "-", "-"]);
    check("--gpus-per-task=1 | --ntasks-per-node=4 | -N 2", ["8", "-", "-"]);
    check("--gres=gpu:x", ["1", "[\"x\"]", "-"]);
    check("--gres=gpu:a:b:c", ["-", "-", "-"]);
}

#[test]
fn shares_of_a_node_are_divided_among_its_gpus() {
    let check = |options: &str, cpus: &str, memory: &str| {
        assert_eq!(
            (key(options, "cpus_per_gpu").as_str(), key(options, "memory_per_gpu").trim_matches('"')),
            (cpus, memory),
            "{options}"
        );
    };
    check("--gres=gpu:4 | -c 32 | --mem=64G", "8", "16GiB");
    check("--gres=gpu:4 | --ntasks-per-node=4 | -c 6 | --mem-per-cpu=2000", "6", "12000MiB");
    check("-G4 | --cpus-per-gpu=3 | --mem-per-gpu=1T", "3", "1TiB");
    check("--gres=gpu:2 | -c 5", "2", "-");
}

#[test]
fn times_as_slurm_reads_them() {
    let check = |text: &str, seconds: Option<f64>| {
        let value = key(&format!("--time={text}"), "time");
        let read = formats::parse_duration(value.trim_matches('"')).ok().map(|format| format.0);
        assert_eq!(read, seconds, "{text}: {value}");
    };
    check("90", Some(5400.0));
    check("30:00", Some(1800.0));
    check("90:30", Some(5460.0));
    check("12:00:00", Some(43200.0));
    check("1-12", Some(129_600.0));
    check("1-12:30", Some(131_400.0));
    check("UNLIMITED", None);
    check("0", None);
}

#[test]
fn ranks_run_the_command_without_its_launchers() {
    let check = |line: &str, command: &str| {
        let imported = read(&format!("#!/bin/bash\n{line}\n"), "job");
        let found = imported.keys.get("command").and_then(serde_json::Value::as_str);
        assert_eq!(found.unwrap_or("-"), command, "{line}: {:?}", imported.remarks);
    };
    check("python train.py --lr 0.1", "python train.py --lr 0.1");
    check("srun -n 4 -u --gres gpu:1 --label ./train $X", "./train $X");
    check("time srun --cpu-bind=none python3.11 -u train.py &", "python3.11 -u train.py");
    check("torchrun --standalone --nproc-per-node=4 train.py 'a b'", "python train.py 'a b'");
    check("torchrun --nnodes 2 -m pkg.train --x", "python -m pkg.train --x");
    check("python -m torch.distributed.run --nproc_per_node 4 train.py", "python train.py");
    check("python3 -m torch.distributed.launch --use_env train.py -a", "python3 train.py -a");
    check("accelerate launch --multi_gpu --num_processes 4 train.py", "python train.py");
    check("deepspeed --num_gpus 4 train.py --deepspeed ds.json", "python train.py --deepspeed ds.json");
    check("mpirun -np 4 -x PATH python train.py", "python train.py");
    check(
        "srun apptainer exec --nv image.sif torchrun --nnodes=2 train.py",
        "apptainer exec --nv image.sif python train.py",
    );
    check("singularity exec --nv a.sif python train.py", "singularity exec --nv a.sif python train.py");
    check(
        "srun bash -c \"export R=\\$SLURM_PROCID; python train.py\"",
        "export R=$SLURM_PROCID; python train.py",
    );
    check("cd src && A=1 python train.py > out.txt 2>&1", "python train.py");
    check("python -m pip install x; python main.py", "python main.py");
    check("CUDA_LAUNCH_BLOCKING=1 uv run python train.py", "uv run python train.py");
    check(
        "srun singularity exec --nv a.sif bash -c \"python a.py --lr=1\"",
        "singularity exec --nv a.sif python a.py --lr=1",
    );
    check(
        "srun apptainer exec a.sif bash -c 'cd x; python a.py'",
        "apptainer exec a.sif bash -c 'cd x; python a.py'",
    );
    // Uncertain commands are left to the user.
    for line in [
        "python a.py\npython b.py",
        "for i in 1 2; do python train.py $i; done",
        "bash train.sh",
        "./train.sh",
        "torchrun $SCRIPT",
        "srun bash -c 'torchrun a.py && torchrun b.py'",
        "python -c 'print(1)'",
        "python -m venv env",
        "srun mkdir -p /tmp/x",
        "train() {\n python train.py\n}\ntrain",
        "cat <<EOF\npython train.py\nEOF",
    ] {
        check(line, "-");
    }
}

#[test]
fn what_is_not_certain_is_said_with_its_line() {
    let check = |script: &str, expected: &[&str]| {
        let remarks = read(script, "job").remarks;
        let remarks: Vec<String> =
            remarks.iter().map(|remark| format!("{}: {}", remark.line, remark.text)).collect();
        assert_eq!(remarks, expected, "{script}");
    };
    check(
        "#!/bin/bash\n#SBATCH --nodelist=n1 -G1\n##SBATCH -p x\npython a.py\n#SBATCH -p late\npython b.py\nrm -r c\n",
        &[
            "2: --nodelist=n1: hsched chooses the nodes",
            "3: ##SBATCH -p x: Slurm ignores it: it begins with ##",
            "4: python a.py: may be the training; write the key command yourself",
            "5: #SBATCH -p late: Slurm ignores it: it stands after the first command (line 4)",
            "6: python b.py: may be the training; write the key command yourself",
            "7: rm -r c: comes after what may be the training; put it into setup or node_setup if it prepares",
        ],
    );
    check(
        "#!/bin/bash\n#SBATCH --signal=TERM@60\n#SBATCH -N1 --gres=gpu:3 -n3 -c 5 -t {{ t }}\nX=$(date)\ntrap f TERM\nsrun \\\n  python a.py\nwait\ncp a b\n",
        &[
            "1: sbatch refuses the script: line 3: Invalid --time specification",
            "2: --signal=TERM@60: hsched sends SIGUSR1, not TERM; the training must save on SIGUSR1",
            "3: -t {{ t }}: the value is known only after something replaces this placeholder; write the key yourself",
            "4: X: exported, so that ranks see it",
            "5: trap f TERM: dropped; ranks get SIGUSR1 directly",
            "9: cp a b: comes after the training; hsched does not run it",
        ],
    );
    check(
        "#!/bin/sh\n#SBATCH -G1\nnodes=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) )\nip=$(srun -N 1 hostname -i)\nlrs=(1 2)\nexport two=(3)\ndeclare -a A=(\n  1\n  2\n)\npython a.py\n",
        &[
            "3: nodes=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) ): hsched lists the nodes and sets MASTER_ADDR",
            "4: ip=$(srun -N 1 hostname -i): hsched lists the nodes and sets MASTER_ADDR",
            "5: lrs=(1 2): ranks do not get arrays",
            "6: export two=(3): ranks do not get arrays",
            "7: declare -a A=( 1 2 ): ranks do not get arrays",
        ],
    );
    check(
        "#!/bin/sh\n#SBATCH -G1\nif true; then\n  echo 'open\n",
        &["3: if true; then …: its end is missing"],
    );
    check("#!/bin/sh\n#SBATCH -G1 --signal=usr1@60\npython a.py\n", &[]);
    check(
        "#SBATCH -N 16 -n 1 --gres=gpu:1\npython a.py\n",
        &[
            "1: sbatch refuses the script: This does not look like a batch script. The first line must start with #! followed by the path to an interpreter.",
            "1: -N 16: Slurm takes 1 node instead of 16: there is only 1 task",
        ],
    );
}

/// If ranks would run a command differently, it is left to the user with the reason.
#[test]
fn commands_that_ranks_would_not_run_alike_are_left_open() {
    let hint = |line: &str| {
        let imported = read(&format!("#!/bin/bash\n#SBATCH --gres=gpu:4 --ntasks=4\n{line}\n"), "job");
        assert_eq!(imported.keys.get("command"), None, "{line}");
        assert_eq!(imported.keys.get("setup"), None, "{line}");
        imported.hints.get("command").cloned().unwrap_or_else(|| format!("{:?}", imported.remarks))
    };
    for line in [
        "python train.py",
        "srun -n 1 python train.py",
        "srun $SRUN_ARGS bash -c \"$CMD\"",
        "srun bash -c \"$CMD\"",
        "$LAUNCHER python train.py",
        "$LAUNCHER \\\n  train.py",
        "srun --multi-prog prog.conf",
        "srun python train.py $1",
        "srun python train.py \"$@\"",
        "srun python train.py --gpu $CUDA_VISIBLE_DEVICES",
        "ibrun ./train",
        "singularity_wrapper exec a.sif python train.py",
        "apptainer run a.sif python train.py",
        "uv run train.py",
        "srun --container-image=x python train.py",
        "srun --container-image=x bash -c \"python train.py; true\"",
    ] {
        let hint = hint(line);
        assert!(hint.starts_with("line 3: "), "{line}: {hint}");
    }
    for line in [
        "eval \"$COMMAND\"",
        "./run.sh",
        "my_training --x",
        "if true; then ./run.sh; fi",
        "apptainer run a.sif",
        "cat seeds | xargs -n1 python train.py --seed",
        "make train",
        "wandb agent me/project/id",
        "source train.sh",
    ] {
        let hint = hint(line);
        assert!(hint.contains("put it in command, setup or node_setup"), "{line}: {hint}");
    }
}

/// Preparing commands keep their order, later commands are left out, and options of `srun` are not taken for
/// its command.
#[test]
fn only_what_prepares_moves_into_setup() {
    let keys = |body: &str| {
        let script = format!("#!/bin/bash\n#SBATCH -G1\n{body}\n");
        let imported = read(&script, "job");
        let list = |key: &str| imported.keys.get(key).map_or(String::new(), ToString::to_string);
        (list("setup"), list("node_setup"))
    };
    let node = |text: &str| (String::new(), format!("[\"{text}\"]"));
    assert_eq!(keys("srun -J X mkdir -p /tmp/x\nsrun python a.py"), node("mkdir -p /tmp/x"));
    assert_eq!(keys("srun --ntasks 2 -w n1 rm -rf x\nsrun python a.py"), node("rm -rf x"));
    assert_eq!(keys("srun python a.py\nrm -rf out\nrsync -a out me:"), (String::new(), String::new()));
    assert_eq!(keys("./run.sh\nrm -rf out"), (String::new(), String::new()));
    assert_eq!(keys("my_training\nif true; then rm -rf out; fi"), (String::new(), String::new()));
    assert_eq!(keys("mkdir -p out\nsrun python a.py"), ("[\"mkdir -p out\"]".to_owned(), String::new()));
    assert_eq!(keys("pip install deepspeed\npython a.py"), node("pip install deepspeed"));
    let setup = "[\"python setup.py install\"]";
    assert_eq!(keys("python setup.py install\nsrun python a.py"), (setup.to_owned(), String::new()));
    assert_eq!(keys("declare -a A=(\n 1\n)\npython a.py"), (String::new(), String::new()));
}

/// A heterogeneous job, a second `--gres` without GPUs, and CPUs of many tasks.
#[test]
fn what_slurm_makes_of_the_options_counts() {
    let check = |options: &str, expected: [&str; 3]| {
        let keys = ["gpus", "cpus_per_gpu", "memory_per_gpu"].map(|name| key(options, name));
        assert_eq!(keys.each_ref().map(String::as_str), expected, "{options}");
    };
    check("--gres=gpu:2 -n 16", ["2", "8", "-"]);
    check("-N 16 -n 1 --gres=gpu:1 --mem=8G", ["1", "-", "\"8GiB\""]);
    check("--gres=gpu:1 | --gres=shard:4", ["-", "-", "-"]);
    check("-G1 | hetjob | -G2", ["-", "-", "-"]);
    check("--gpus={{ n }} -c 4", ["-", "-", "-"]);
    check("--part=gpu --gpus-per-n=2 --tasks=2", ["2", "1", "-"]);
    check("--gres=gpu:4 -c 1 --mem-per-cpu=0", ["4", "-", "-"]);
    check("-N2 --gpus-per-node=4 --ntasks-per-node=4 -c 8 --mem=256G", ["8", "8", "\"64GiB\""]);
}

#[test]
fn any_name_becomes_one() {
    let name = |text: &str, other: &str| read(text, other).keys["name"].as_str().map(str::to_owned);
    assert_eq!(name("#!/bin/sh\n#SBATCH -J 'a b/c'", "x").as_deref(), Some("a-b-c"));
    assert_eq!(name("", "train").as_deref(), Some("train"));
    assert_eq!(name("", "-").as_deref(), Some("job"));
    assert_eq!(name("#!/bin/sh\n#SBATCH --job-name=%x", "x").as_deref(), Some("x"));
}

proptest! {
    #[test]
    fn no_script_is_too_odd(script in "(#SBATCH |[ \\n\\\\'\"$(){}<>|&;=#-]|srun |python |a\\.py|torchrun |if |fi|--gres=gpu:|--time=|-N|[0-9]|.){0,60}") {
        let imported = read(&script, &script);
        let yaml = formats::jobs::parse(&imported.to_yaml(&script).replace("size: TODO", "size: 4096B").replace(": TODO", ": 4096"));
        let json = formats::jobs::parse(&imported.to_json().to_string().replace("\"TODO\"", "4096"));
        // A value may be invalid, such as an account of several words; both forms contain it, and reading the
        // file reports it.
        prop_assert_eq!(yaml.ok(), json.ok());
    }
}
