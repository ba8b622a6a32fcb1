//! The protocol of a pool, explored exhaustively: everything that members, Slurm and crashes at every write
//! can do to a few jobs.

mod disk;
mod graph;
mod model;
mod slurm;
mod turns;
mod worker;

use hsched_engine::pool::{Demand, MemberId, Order, SubmissionStart};
use hsched_engine::{Gpus, SubmissionKey};
use hsched_model::{JobId, JobName, Seconds};

use crate::pool::graph::{Exploration, explore};
use crate::pool::model::{Faults, Plant, Setting};

/// Explores a setting; returns the first error and the number of states.
fn found(members: u32, jobs: u32, most: Faults, plant: Plant) -> Exploration {
    explore(Setting { members, jobs, at_once: None, most, plant })
}

/// Explores a pool whose members are the tasks of a job array, of which two may run at a time.
fn found_in_array(tasks: u32, jobs: u32, most: Faults, plant: Plant) -> Exploration {
    explore(Setting { members: tasks, jobs, at_once: Some(2), most, plant })
}

#[test]
fn two_members_run_each_job_once_through_a_kill_at_any_write() {
    let explored = found(2, 2, Faults { kills: 1, silences: 1, ..Faults::default() }, Plant::None);
    assert_eq!(explored.wrong, None);
    assert!(explored.states > 1_000, "{}", explored.states);
}

#[test]
fn members_whose_time_is_over_do_not_abandon_a_job() {
    let explored = found(2, 1, Faults { silences: 1, limits: 2, ..Faults::default() }, Plant::None);
    assert_eq!(explored.wrong, None);
    assert!(explored.states > 500, "{}", explored.states);
}

#[test]
fn writes_that_fail_neither_abandon_a_job_nor_run_it_twice() {
    let most = Faults { silences: 1, failures: 1, ..Faults::default() };
    let explored = found(2, 2, most, Plant::None);
    assert_eq!(explored.wrong, None);
    assert!(explored.states > 500, "{}", explored.states);
}

#[test]
fn tasks_of_an_array_run_each_job_once_and_never_too_many_at_a_time() {
    for (tasks, kills, limits) in [(3, 1, 0), (2, 0, 2)] {
        let explored = found_in_array(tasks, 1, Faults { kills, limits, ..Faults::default() }, Plant::None);
        assert_eq!(explored.wrong, None);
        assert!(explored.states > 500, "{}", explored.states);
    }
}

#[test]
#[ignore = "takes a minute"]
fn tasks_of_an_array_share_two_jobs_through_kills_and_limits() {
    for (kills, limits) in [(1, 0), (0, 2), (1, 1)] {
        let explored = found_in_array(3, 2, Faults { kills, limits, ..Faults::default() }, Plant::None);
        assert_eq!(explored.wrong, None);
    }
}

#[test]
#[ignore = "takes a minute"]
fn three_members_run_each_job_once_through_two_kills() {
    let explored = found(3, 2, Faults { kills: 2, silences: 1, ..Faults::default() }, Plant::None);
    assert_eq!(explored.wrong, None);
}

#[test]
fn known_mistakes_are_found() {
    let check = |plant: Plant, (kills, limits): (u32, u32), expected: &str| {
        let explored = found(2, 1, Faults { kills, silences: 1, limits, failures: 0 }, plant);
        let wrong = explored.wrong.unwrap_or_else(|| panic!("{plant:?} was not found"));
        assert!(wrong.contains(expected), "{plant:?}: {wrong}");
    };
    check(Plant::OrderBeforeState, (1, 0), "runs twice");
    check(Plant::BuryTheSilent, (0, 0), "runs twice");
    check(Plant::TrustLeavers, (0, 2), "abandoned");
    check(Plant::StartUnclaimed, (1, 0), "runs twice");
    let check = |plant: Plant, (tasks, jobs): (u32, u32), limits: u32, expected: &str| {
        let most = Faults { limits, ..Faults::default() };
        let wrong = found_in_array(tasks, jobs, most, plant)
            .wrong
            .unwrap_or_else(|| panic!("{plant:?} was not found"));
        assert!(wrong.contains(expected), "{plant:?}: {wrong}");
    };
    check(Plant::TrustTheArray, (1, 1), 1, "abandoned");
    check(Plant::SubmitWholeArray, (1, 2), 0, "too many");
}

pub(super) fn id(number: usize) -> MemberId {
    MemberId::new(JobId(10 + u32::try_from(number).expect("few")), 0)
}

pub(super) fn key(job: usize, run: u32) -> SubmissionKey {
    SubmissionKey::new(JobName::new(&format!("j{job}")).expect("a name"), &format!("r{run}"))
}

pub(super) fn order(of: &SubmissionKey) -> Order {
    let start = SubmissionStart {
        script: "s".into(),
        workdir: "w".into(),
        output: "o".into(),
        beside: Vec::new(),
        devices: Vec::new(),
        needs: (1, 0),
        gpus: Gpus::default(),
        epochs: 0,
        threads: None,
        grace: Seconds(0.0),
    };
    Order { of: of.clone(), demand: Demand::Run, start }
}
