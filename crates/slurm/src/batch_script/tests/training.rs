//! What the command of a script says about the training.

use super::super::read;

#[test]
fn a_batch_in_the_command_is_remarked() {
    let script = "#!/bin/bash\n#SBATCH --gpus=1\nsrun python a.py";
    let remarks = |arguments: &str| read(&format!("{script} {arguments}\n"), "job").remarks.len();
    assert_eq!(["--batch-size 128", "--train_batch_size=32"].map(remarks), [1, 1]);
    assert_eq!(
        ["--global-batch-size 128", "--batch-size $B", "--batch-size", "--epochs 3"].map(remarks),
        [0; 4]
    );
}

#[test]
fn a_program_that_divides_its_model_is_trained_in_replicas() {
    let script = "#!/bin/bash\n#SBATCH --gres=gpu:a100:8 --nodes=2\n\
        srun python train.py --tensor-parallel-size 4 --pipeline_model_parallel_size=2\n";
    let imported = read(script, "job.sh");
    assert_eq!(imported.keys.get("replica"), Some(&serde_json::json!({ "gpus": 8 })));
    assert!(!imported.keys.contains_key("gpus"));
    assert!(imported.remarks.iter().any(|remark| remark.text.contains("16 GPUs, 2 of these replicas")));
}
