//! The protocol of a pool, explored: all that members, Slurm and crashes at every write can do to a few jobs.

mod graph;
mod model;

use crate::pool::graph::{Explored, explore};
use crate::pool::model::{Plant, Setting};

/// Explores a setting; returns what was found wrong first, and how many states there are.
fn found(setting: Setting) -> Explored {
    explore(setting)
}

#[test]
fn two_members_run_each_job_once_through_a_kill_at_any_write() {
    let explored =
        found(Setting { members: 2, jobs: 2, kills: 1, silences: 1, limits: 0, plant: Plant::None });
    assert_eq!(explored.wrong, None);
    assert!(explored.states > 1_000, "{}", explored.states);
}

#[test]
fn members_whose_time_is_over_do_not_abandon_a_job() {
    let explored =
        found(Setting { members: 2, jobs: 1, kills: 0, silences: 1, limits: 2, plant: Plant::None });
    assert_eq!(explored.wrong, None);
    assert!(explored.states > 500, "{}", explored.states);
}

#[test]
#[ignore = "takes a minute"]
fn three_members_run_each_job_once_through_two_kills() {
    let explored =
        found(Setting { members: 3, jobs: 2, kills: 2, silences: 1, limits: 0, plant: Plant::None });
    assert_eq!(explored.wrong, None);
}

#[test]
fn known_mistakes_are_found() {
    let check = |plant: Plant, (kills, limits): (u32, u32), expected: &str| {
        let explored = found(Setting { members: 2, jobs: 1, kills, silences: 1, limits, plant });
        let wrong = explored.wrong.unwrap_or_else(|| panic!("{plant:?} was not found"));
        assert!(wrong.contains(expected), "{plant:?}: {wrong}");
    };
    check(Plant::OrderBeforeState, (1, 0), "runs twice");
    check(Plant::BuryTheSilent, (0, 0), "runs twice");
    check(Plant::TrustLeavers, (0, 2), "abandoned");
    check(Plant::StartUnclaimed, (1, 0), "runs twice");
}
