//! Jobs that stop early end exactly once, as completed, no matter at which write hsched dies.

use hsched_engine::{JobState, Outcome};
use hsched_model::Job;

use crate::chains::{Seer, Story, outcome, play_all};
use hsched_fixtures::engine_states::job;

/// A job of thirty epochs whose metric stops improving, with a stopping rule.
fn gains_nothing(time: &str) -> Job {
    let losses: Vec<f64> = (1..=30).map(|epoch| 0.2 + 0.8 / f64::from(epoch).powi(3)).collect();
    let more = format!(
        ", max_gpus: 1, time: {time}, checkpoint: {{dir: saved, grace: 60s}}, losses: {losses:?}, \
         target: {{metric: loss, mode: min}}, stop: {{rule: best}}"
    );
    Job { samples_per_epoch: 36_000, epochs: 30, ..job("a", "{v100: 100}", &more) }
}

/// A job of a sweep, with nine epochs that all have the given loss.
fn of_sweep(name: &str, loss: f64) -> Job {
    let more = format!(
        ", model: m, max_gpus: 1, checkpoint: {{dir: saved, grace: 60s}}, losses: {:?}, \
         target: {{metric: loss, mode: min}}, stop: {{rule: halving}}",
        [loss; 9]
    );
    Job { samples_per_epoch: 36_000, epochs: 9, ..job(name, "{v100: 100}", &more) }
}

/// Plays a story with a death before and after each of its last writes; `check` inspects every end.
fn with_deaths(story: &Story, last: u32, check: impl Fn(&Seer, &[JobState], &str)) {
    const MANY: u32 = 1000;
    let (.., left) = play_all(&Story { dies: (MANY, false), ..story.clone() });
    let writes = MANY - left;
    assert!(writes >= last, "{writes} writes");
    for number in writes - last + 1..=writes {
        for before in [false, true] {
            let (seer, jobs, left) = play_all(&Story { dies: (number, before), ..story.clone() });
            assert_eq!(left, 0, "write {number} of {writes} was not made");
            check(&seer, &jobs, &format!("killed at write {number} of {writes}, before it: {before}"));
        }
    }
}

fn check_stopped(tracked: &JobState, why: &str, when: &str) {
    assert_eq!(*outcome(tracked), Outcome::Completed, "{when}");
    let (_, said) = &tracked.last;
    assert!(said.starts_with("completed, stopped at epoch ") && said.contains(why), "{said}, {when}");
    assert!(tracked.epochs_done < tracked.job.epochs && tracked.failures == 0, "{when}");
}

#[test]
fn one_that_stops_early_ends_once_whoever_is_killed() {
    let story = Story { gpus: 1, jobs: vec![gains_nothing("10h")], ..Story::default() };
    with_deaths(&story, 8, |seer, jobs, when| {
        check_stopped(&jobs[0], "nothing to gain", when);
        assert_eq!(seer.submitted.len(), 1, "{when}");
    });
}

#[test]
fn the_next_piece_of_one_that_stops_early_ends_with_it() {
    for gpus in [1, 2] {
        let story = Story { gpus, jobs: vec![gains_nothing("20m")], ..Story::default() };
        with_deaths(&story, 10, |_, jobs, when| {
            check_stopped(&jobs[0], "nothing to gain", &format!("{when}, {gpus} GPUs"));
        });
    }
}

#[test]
fn of_a_sweep_the_best_alone_goes_on_whoever_is_killed() {
    let jobs = [("a", 0.3), ("b", 0.1), ("c", 0.4)].map(|(name, loss)| of_sweep(name, loss)).to_vec();
    let story = Story { gpus: 3, jobs, ..Story::default() };
    with_deaths(&story, 8, |seer, jobs, when| {
        assert_eq!(seer.submitted.len(), 3, "{when}");
        assert_eq!((outcome(&jobs[1]), jobs[1].epochs_done), (&Outcome::Completed, 9), "{when}");
        for job in [&jobs[0], &jobs[2]] {
            check_stopped(job, "halving (place ", when);
        }
    });
}
