//! A disk that is full for a while: no action is taken before it is recorded, and each event is reported
//! once, when it is recorded.

use std::convert::Infallible;

use hsched_engine::{Action, Event, JobState, Keeper, State, Update};
use hsched_lab::simulate;
use hsched_model::{Job, Seconds, Time};

use crate::queue_watch::queueing;
use hsched_fixtures::engine_states::{job, planner, rules};
use hsched_fixtures::sites;

/// A disk that can be full.
struct Disk {
    is_full: bool,
}

#[derive(Debug)]
struct Full;

impl From<Infallible> for Full {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl Keeper for Disk {
    type Error = Full;

    fn keep(&mut self, _: Time, _: &State, _: &[Event], _: &[Action]) -> Result<(), Full> {
        if self.is_full { Err(Full) } else { Ok(()) }
    }

    fn add(&mut self, at: Time, event: &Event) -> Result<(), Full> {
        self.keep(at, &State::default(), std::slice::from_ref(event), &[])
    }
}

#[test]
fn what_cannot_be_written_down_is_neither_done_nor_told_until_it_can() {
    let jobs = [Job { samples_per_epoch: 36_000, ..job("a", "{v100: 100}", ", max_gpus: 1") }];
    let cluster = sites::cluster("nodes:\n  - {name: v1, gpus: {v100: 1}}\n");
    let mut world = simulate::SimulatedWorld::new(sites::site(cluster, &jobs), Vec::new(), Time(0.0));
    let mut state = State { jobs: vec![JobState::new(jobs[0].clone(), Time(0.0))], ..State::default() };
    let (mut disk, mut told) = (Disk { is_full: false }, Vec::new());
    for turn in 0..200 {
        // The disk is full twice: before the job is submitted, and during its training.
        disk.is_full = turn < 3 || (60..100).contains(&turn);
        let (mut policy, run) = (queueing(), format!("r{turn}"));
        let mut planner = planner(policy.as_mut());
        planner.run = &run;
        let (before, known) = (state.clone(), told.len());
        let went: Result<_, Full> =
            hsched_engine::turn(&mut world, &mut disk, &mut state, &rules(), &mut planner, &mut |update| {
                if let Update::Event(event) = update {
                    told.push(format!("{event:?}"));
                }
            });
        if went.is_err() {
            assert!(
                disk.is_full && state == before && told.len() == known,
                "turn {turn}: {:?}",
                &told[known..]
            );
        }
        world.pass(Seconds(30.0));
    }
    assert!(state.is_over(), "{state:?}");
    let epochs: Vec<&String> = told.iter().filter(|event| event.contains("Epoch")).collect();
    let once = |event: &&&String| epochs.iter().filter(|other| other == event).count() == 1;
    assert!(epochs.len() == 10 && epochs.iter().filter(once).count() == 10, "{told:#?}");
}
