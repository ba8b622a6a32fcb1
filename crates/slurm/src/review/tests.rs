//! Reviews of runs with known use.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;
use crate::accounting::{AccountedRun, Accounting};
use crate::time;
use hsched_model::Time;
use hsched_model::number::to_f64;

const COLUMNS: &str = "JobIDRaw|JobName|State|Submit|Start|End|Timelimit|ReqTRES|AllocTRES|NNodes|NTasks|ReqMem|MaxRSS|TotalCPU|TRESUsageInAve";

/// A run: its state, seconds, MiB, CPUs, and GPU use in percent.
#[derive(Clone, Debug)]
struct PastRun {
    state: &'static str,
    seconds: u32,
    mib: u32,
    cores: u32,
    percent: u32,
}

const USUAL: PastRun = PastRun { state: "COMPLETED", seconds: 3600, mib: 4096, cores: 4, percent: 90 };

/// Returns runs that requested one day, 64 GiB, 16 CPUs and 4 GPUs on one node.
fn runs(made: &[PastRun]) -> Vec<AccountedRun> {
    let mut text = format!("{COLUMNS}\n");
    for (number, run) in (1..).zip(made) {
        let start = 1_795_000_000 + 100_000 * i64::from(number);
        let date =
            |at: i64| chrono::DateTime::from_timestamp(at, 0).expect("a date").format("%FT%T").to_string();
        let (begin, end) = (date(start), date(start + i64::from(run.seconds)));
        let (state, clock) = (run.state, u64::from(run.seconds) * u64::from(run.cores));
        let tres = "cpu=16,mem=64G,node=1,gres/gpu:a100=4,gres/gpu=4";
        let _ =
            writeln!(text, "{number}|n|{state}|{begin}|{begin}|{end}|1-00:00:00|{tres}|{tres}|1||64Gn|||");
        let _ = writeln!(
            text,
            "{number}.0|n|{state}|{begin}|{begin}|{end}|||{tres}|1|1||{}M|00:00:{clock}|gres/gpuutil={}",
            run.mib,
            4 * run.percent
        );
    }
    Accounting::parse(text.as_bytes(), |text| time::without_zone(text).map(Time)).expect("a header").runs
}

fn one(made: &[PastRun]) -> NameReview {
    let [name_review] = <[NameReview; 1]>::try_from(review(&runs(made))).expect("one name");
    name_review
}

#[test]
fn waste_is_found() {
    let name_review = one(&vec![USUAL; 40]);
    assert_eq!(name_review.sbatch, ["--time=01:30:00", "--mem=6G", "--cpus-per-task=5"]);
    assert_eq!(
        (name_review.ended, name_review.cut, name_review.idle_share.map(|share| (100.0 * share).round())),
        (40, 0, Some(10.0))
    );
    let idle = one(&vec![PastRun { percent: 24, ..USUAL }; 40]);
    assert_eq!((idle.gpus.asked, idle.gpus.recommended), (Some(4.0), Some(1.0)));
    assert_eq!(idle.sbatch.last().map(String::as_str), Some("--gres=gpu:a100:1"));
    // Nine runs are too few for a recommendation.
    assert_eq!(one(&vec![USUAL; 9]).sbatch, [""; 0]);
}

#[test]
fn one_hung_run_of_a_hundred_does_not_count_and_four_do() {
    let with = |hung: usize| {
        let hangs = vec![PastRun { state: "TIMEOUT", seconds: 86_410, ..USUAL }; hung];
        one(&[vec![USUAL; 100 - hung], hangs].concat())
    };
    let (one, four) = (with(1), with(4));
    assert_eq!((one.cut, one.time.recommended), (1, Some(4800.0)));
    assert_eq!((four.cut, four.time.recommended), (0, Some(108_000.0)));
}

#[test]
fn what_stopped_runs_is_raised() {
    let needs = vec![PastRun { seconds: 80_000, mib: 60_000, cores: 15, ..USUAL }; 30];
    let long =
        one(&[needs.clone(), vec![PastRun { state: "TIMEOUT", seconds: 86_410, cores: 15, ..USUAL }; 5]]
            .concat());
    assert_eq!((long.time.recommended, long.memory.recommended, long.cut), (Some(129_600.0), None, 0));
    let large = one(&[needs, vec![PastRun { state: "OUT_OF_MEMORY", mib: 64_000, ..USUAL }; 5]].concat());
    assert_eq!((large.time.recommended, large.memory.recommended, large.cut), (None, Some(98_304.0), 0));
    assert_eq!(large.sbatch, ["--mem=96G"]);
}

#[test]
fn failures_and_waits_are_counted() {
    let failed = ["FAILED", "CANCELLED by 7", "FAILED", "NODE_FAIL", "SOMETHING_NEW"];
    let name_review = one(&failed.map(|state| PastRun { state, ..USUAL }));
    let kinds: Vec<String> =
        name_review.failures.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    assert_eq!(kinds, ["1 cancelled", "2 failed", "1 node_fail", "1 something_new"]);
    assert_eq!((name_review.time.used_p50, name_review.ended, name_review.waited_h), (None, 0, 0.0));
}

#[test]
fn preempted_and_requeued_runs_are_no_failures() {
    // The states of the attempts of one job in `sacct -D`.
    let name_review =
        one(&["PREEMPTED", "REQUEUED", "PREEMPTED", "COMPLETED"].map(|state| PastRun { state, ..USUAL }));
    assert_eq!((name_review.runs, name_review.uninterrupted()), (4, 1));
    let kinds = |interrupted: bool| name_review.incomplete(interrupted).collect::<Vec<_>>();
    assert_eq!((kinds(false), kinds(true)), (vec![], vec![("preempted", 2), ("requeued", 1)]));
}

proptest! {
    /// Checks for arbitrary runs that at most the allowed number is cut, that a reduction is worthwhile, and
    /// that an increase stays near the request.
    #[test]
    fn recommendations_keep_their_promises(
        made in proptest::collection::vec(
            (0_usize..12, 60_u32..90_000, 10_u32..66_000, 1_u32..17, 0_u32..100).prop_map(|(state, seconds, mib, cores, percent)| {
                let state = ["TIMEOUT", "OUT_OF_MEMORY", "FAILED"].get(state).unwrap_or(&"COMPLETED");
                PastRun { state, seconds, mib, cores, percent }
            }),
            1..120,
        ),
        scale in 1_u32..20,
    ) {
        // Smaller uses allow a recommendation.
        let made: Vec<PastRun> =
            made.into_iter().map(|made| PastRun { seconds: made.seconds / scale + 1, mib: made.mib / scale + 1, ..made }).collect();
        let name_review = one(&made);
        let ended = made.iter().filter(|made| made.state != "FAILED").count();
        let limit = name_review.time.recommended.unwrap_or(f64::INFINITY);
        let memory = name_review.memory.recommended.unwrap_or(f64::INFINITY);
        let cut = made.iter().filter(|made| {
            let (seconds, mib) = (f64::from(made.seconds), f64::from(made.mib));
            let stopped = (made.state == "TIMEOUT" && seconds >= limit) || (made.state == "OUT_OF_MEMORY" && 65_536.0 >= memory);
            made.state != "FAILED" && (seconds > limit || mib > memory || stopped)
        });
        let cut = cut.count();
        prop_assert_eq!((name_review.cut, name_review.ended), (cut, ended));
        prop_assert!(to_f64(cut) <= 0.02 * to_f64(ended), "{} of {}", cut, ended);
        for quantity in [name_review.time, name_review.memory] {
            let (Some(asked), Some(new)) = (quantity.asked, quantity.recommended) else { continue };
            prop_assert!(new <= 0.9 * asked || (1.05 * asked..=3.0 * asked).contains(&new), "{new} for {asked}");
        }
        prop_assert!(made.len() >= ENOUGH || name_review.sbatch.is_empty());
        prop_assert!(name_review.time.recommended.is_none_or(|seconds| seconds % 60.0 == 0.0));
    }
}
