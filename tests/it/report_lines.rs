//! Report lines as users write them: an error in one field does not invalidate the epoch, and is reported once.

use crate::cli_run::Bench;

/// A program that reports floats, a diverging loss, and no time.
const TRAIN: &str = r#"
for ((epoch = HSCHED_EPOCHS_DONE + 1; epoch <= HSCHED_EPOCHS; epoch++)); do
  sleep "$PACE"
  echo "{\"epoch\": $epoch, \"rank\": 0.0, \"samples\": 36000.0, \"loss\": NaN}" >>"$HSCHED_REPORT"
done
"#;

#[test]
fn floats_and_a_diverged_loss_count_and_epochs_are_timed_by_their_lines() {
    let job = "  - {name: a, samples_per_epoch: 36000, epochs: 4, global_batch: 10, model_size: 0, throughput: {cpu: 600}, \
               command: [bash, plain.sh]}\n";
    let bench = Bench::new(&[job.to_owned()]);
    std::fs::write(bench.sandbox.work("plain.sh"), TRAIN).expect("a file");
    let ran = bench.run("run jobs.yaml --devices cpu:1").exits(0);
    assert!(
        ran.stdout.contains("a: epoch 4 of 4 done") && !ran.stdout.contains("reported no epoch"),
        "{}",
        ran.stdout
    );
    assert_eq!(ran.stdout.matches("a: reports: ignored in").count(), 1, "{}", ran.stdout);
    let job = bench.sandbox.run("status --format json").json()["jobs"][0].take();
    assert_eq!((&job["state"], &job["epochs_done"]), (&"completed".into(), &4.into()), "{job}");
}
