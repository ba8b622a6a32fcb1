//! The accuracy of the queue model on real submissions, compared with the recorded figures.

#[path = "../../benches/queue_model/submissions.rs"]
mod submissions;

#[path = "../../benches/queue_model/foretold.rs"]
mod foretold;

use submissions::{file, read};

/// Few futures, so that the test takes only a moment even without optimisation.
const SAMPLES: usize = 12;

#[test]
fn real_waits_are_foretold_as_well_as_ever() {
    let Ok(text) = std::fs::read_to_string(file()) else {
        println!("skipped: {} is not here", file().display());
        return;
    };
    let rows = foretold::rows(&read(&text), SAMPLES);
    let (count, mean, median) = foretold::errors(&rows, |row| Some(row.start.median.0));
    assert!(count >= 130, "{count} submissions");
    assert!(mean < 5.5 && median < 1.0, "mean error {mean} h, median {median} h");
    // The errors of Slurm's own estimates are at least twice as large on average, and four times as large in
    // the median.
    let (_, own_mean, own_median) = foretold::errors(&rows, |row| row.testonly);
    assert!(
        mean <= own_mean / 2.0 && median <= own_median / 4.0,
        "--test-only: {own_mean} h, {own_median} h"
    );
    let (_, told, _) = foretold::errors(&rows, |row| row.squeue);
    let (_, same, _) = foretold::errors(&rows, |row| row.squeue.map(|_| row.start.median.0));
    assert!(same < told, "where squeue tells: {same} h, squeue {told} h");
    let (_, mean, median) = foretold::errors(&rows, |row| Some(row.at_limits));
    assert!(mean < 6.0 && median < 1.5, "at limits: mean error {mean} h, median {median} h");
    // Twelve futures make the interval a little narrower than sixty do.
    let held = rows.iter().filter(|row| row.is_held()).count();
    assert!(rows.iter().filter(|row| row.gpus == 4 && row.is_held()).count() >= 12, "of jobs of four GPUs");
    assert!((65 * count..=92 * count).contains(&(100 * held)), "{held} of {count} held");
}
