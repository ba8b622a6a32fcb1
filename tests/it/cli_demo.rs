//! `hsched demo`: the same story every time, without Slurm, files or settings.

use insta::assert_snapshot;

use crate::sandbox::Sandbox;

#[test]
fn the_story_is_told_the_same_every_time() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.run("demo").succeeds(), @r"
    This cluster has four nodes with three GPU types, and there are four training
    jobs. Everything is simulated, so hours pass in a moment, but hsched decides as
    on a real cluster.
    $ hsched inventory
    GPU   TOTAL  FREE  STRANDED  USED  DOWN  RESERVED  MINE
    p100      4     4         0     0     0         0     0
    t4        4     4         0     0     0         0     0
    v100      8     8         0     0     0         0     0

    NODES   STATE  PARTITIONS  GPUS FREE/ALL  CPUS FREE  MEMORY FREE
    v[1-2]  idle               v100 4/4              32      256 GiB
    p1      idle               p100 4/4              32      256 GiB
    t1      idle               t4 4/4                32      256 GiB

    jobs.yaml gives the throughput of each job on each GPU type. Which job should
    get which GPUs to minimise the mean completion time?
    $ hsched plan jobs.yaml
    optimal: 4 jobs on 16 of 16 GPUs
    mean completion time 1 h 43 min, makespan 2 h 07 min, fairness 0.934
    the mean completion time is proven optimal

    JOB       GPUS               BATCHES                 EPOCH  COMM      DONE IN
    resnet50  2 v100 v2, 1 v100  114, 2x113, 4x43  12 min 46 s   5 %   2 h 07 min
              v1, 4 t4 t1
    bert      3 v100 v1          86, 2x85          21 min 17 s   1 %   2 h 07 min
    vgg19     4 p100 p1          4x64              36 min 10 s   2 %   1 h 48 min
    lstm      2 v100 v2          2x256                 501.4 s   0 %  50 min 08 s

    Each becomes one Slurm job.
    $ hsched submit jobs.yaml
    resnet50: submitted as job 1 on 4 t4 + 3 v100 (t1,v[1-2]); predicted 12 min 46 s
      per epoch
    bert: submitted as job 2 on 3 v100 (v1); predicted 21 min 17 s per epoch
    vgg19: submitted as job 3 on 4 p100 (p1); predicted 36 min 10 s per epoch
    lstm: submitted as job 4 on 2 v100 (v2); predicted 501.4 s per epoch

    Its ranks get unequal local batches and finish them at the same time. The
    columns are node, local rank, local batch, micro-batch, accumulation steps, GPU
    type.
    $ hsched submit jobs.yaml -j resnet50 --dry-run | grep ...
    #SBATCH --gres=gpu:v100:2
    #SBATCH --gres=gpu:v100:1
    #SBATCH --gres=gpu:t4:4
    hs_ranks=(
      '0 0 114 114 1 v100'
      '0 1 113 113 1 v100'
      ...
      '2 3 43 43 1 t4'
    )

    Now watch the jobs (individual epochs and restarts are not shown). One
    throughput in jobs.yaml is far off, one job will fail, and one node will die.
    $ hsched watch --moves auto
    00:22:30 lstm: measured v100 341/s at batch 256 (job file: 900/s)
             # Its ranks measured the real speed. From now on hsched uses that, not
             # the job file.
    00:22:30 lstm: stopping to move: 806 s per epoch on 4 t4 instead of 1320 s, 5
               epochs left
             # The moves save more time than the restarts cost.
    00:22:30 resnet50: stopping to move: makes room for other jobs, 826 s per epoch
               on 4 v100 instead of 775 s, 9 epochs left
    00:22:30 bert: stopping to move: 958 s per epoch on 4 v100 instead of 1283 s, 5
               epochs left
    00:39:00 bert: failed with exit status 1, 2 of 3 retries left; resumes after
               epoch 2 of 6, in 30 s at the earliest
             # It is retried after a short delay, and no finished epoch is lost.
    00:39:30 bert: submitted as job 8 on 4 v100 (v2); predicted 15 min 58 s per
               epoch
    01:30:30 lstm: completed, 1 h 30 min after it was added
             # Its GPUs are now free for other jobs.
    01:36:30 resnet50: stopping to move: 641 s per epoch on 4 t4 + 4 v100 instead of
               826 s, 3 epochs left
    01:37:00 node v2 is down (Not responding)
             # The job did not cause this, so it uses no retry. It waits for other
             # GPUs.
    01:37:00 bert: lost a node; resumes after epoch 5 of 6, in 30 s at the earliest
    01:37:30 bert: waiting: needs a GPU of type p100, t4, v100; 0 available now
    01:49:30 vgg19: completed, 1 h 49 min after it was added
    01:49:30 resnet50: stopping to move: makes room for other jobs, 718 s per epoch
               on 4 p100 + 4 t4 + 1 v100 instead of 641 s, 2 epochs left
    01:50:00 bert: submitted as job 11 on 3 v100 (v1); predicted 21 min 13 s per
               epoch
    02:12:00 bert: completed, 2 h 11 min after it was added
    02:13:00 resnet50: completed, 2 h 12 min after it was added

    All jobs are complete, and each epoch ran exactly once. PREDICTED is from the
    first plan, before anything went wrong:
    JOB       EPOCHS  GPUS OVER TIME                           PREDICTED      ACTUAL
    resnet50      10  4 t4 + 3 v100, then 4 v100, then 4 t4   2 h 07 min  2 h 12 min
                      + 4 v100, then 4 p100 + 4 t4 + 1 v100
    bert           6  3 v100, then 4 v100, then 3 v100        2 h 07 min  2 h 11 min
    vgg19          3  4 p100                                  1 h 48 min  1 h 49 min
    lstm           6  2 v100, then 4 t4                      50 min 08 s  1 h 30 min

    The same jobs and events on the same cluster, without moves and with equal local
    batches:
    VARIANT                             MEAN COMPLETION           MAKESPAN
    as above                                 1 h 56 min         2 h 12 min
    without moves                            2 h 25 min  +25 %  3 h 12 min
    without moves, equal local batches       3 h 14 min  +67 %  6 h 26 min

    Your turn: `hsched doctor` checks your cluster, and `hsched init` writes a job
    file to start from. Without Slurm, `hsched generate` writes a random cluster and
    jobs to plan.
    ");
}

#[test]
fn json_holds_the_whole_story() {
    let sandbox = Sandbox::new().file("hsched.toml", "nonsense");
    let story = sandbox.run("demo --format json --seed 3").exits(0).json();
    assert_eq!((story["schema"].as_str(), story["seed"].as_u64()), (Some("hsched.demo/1"), Some(3)));
    let lines = story["story"].as_array().expect("lines");
    for job in story["jobs"].as_array().expect("jobs") {
        let is_epoch = |line: &&serde_json::Value| line["job"] == job["name"] && line["topic"] == "epoch";
        assert_eq!(lines.iter().filter(is_epoch).count() as u64, job["epochs"].as_u64().expect("a number"));
        assert!(job["completion_s"].as_f64().is_some_and(|time| time > 0.0), "{job}");
    }
    let mean = |way: &str| story["ways"][way]["mean_completion_s"].as_f64().expect("a time");
    assert!(mean("moves_auto") < mean("moves_never"));
    assert!(mean("moves_never") < mean("moves_never_equal_batches"));
}
