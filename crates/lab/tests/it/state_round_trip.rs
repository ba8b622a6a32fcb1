//! The state on disk: any state can be read back unchanged, and replaying the journal has the same effect as
//! the original answers.

use std::fs;
use std::path::Path;

use hsched_engine::store::{StateDir, StateError};
use hsched_engine::{
    AfterStop, Answer, End, Event, Gpus, JobState, Keeper, Outcome, PastAttempt, Phase, Rules, Stage, State,
    StopProgress, Submission, SubmissionKey, SubmissionRecord, apply,
};
use hsched_model::formats;
use hsched_model::{BitRate, GpuType, Job, JobDefaults, JobId, JobName, NodeName, PlacedRank, Seconds, Time};
use proptest::prelude::*;

pub fn rules() -> Rules {
    let rate = |gigabits| BitRate::new(gigabits).expect("a rate");
    Rules {
        defaults: JobDefaults {
            time_margin: 1.3,
            grace: Seconds(120.0),
            het_steps: true,
            ..JobDefaults::default()
        },
        ..Rules::new(rate(10.0), rate(300.0))
    }
}

/// Returns a job of a job file.
pub fn job(name: &str, epochs: u64, retries: u32) -> Job {
    let text = format!(
        "jobs: [{{name: {name}, samples_per_epoch: 100, epochs: {epochs}, global_batch: 8, model_size: 0, \
         throughput: {{v100: 3.5}}, command: train, retries: {retries}, workdir: /home/me}}]"
    );
    formats::jobs::parse(&text).expect("a job").remove(0)
}

fn node(name: &str) -> NodeName {
    NodeName::new(name).expect("a name")
}

fn gpu(name: &str) -> GpuType {
    GpuType::new(name).expect("a type")
}

fn time() -> impl Strategy<Value = Time> {
    (0.0..4e9).prop_map(Time)
}

fn ranks() -> impl Strategy<Value = Vec<PlacedRank>> {
    let rank = ("[a-c][0-9]", "t4|v100|a100_3g[.]20gb", 0..8_u32, 1..512_u64, 1..1_000_000_u64).prop_map(
        |(name, gpu_type, local_rank, batch, samples)| PlacedRank {
            node: node(&name),
            gpu_type: gpu(&gpu_type),
            local_rank,
            batch,
            samples,
        },
    );
    prop::collection::vec(rank, 0..4)
}

fn attempt() -> impl Strategy<Value = SubmissionRecord> {
    let times = (time(), prop::option::of(time()), prop::option::of(time()));
    let known = (prop::option::of(any::<u32>()), prop::option::of("\\PC{0,12}"), ranks());
    ("[0-9A-Za-z.-]{1,20}", ranks(), 0.0..1e6, any::<u64>(), times, known).prop_map(
        |(run, ranks, epoch, before, (meant, started, missing), (id, submit_time, got))| SubmissionRecord {
            job_id: id.map(JobId),
            submit_time,
            started,
            missing,
            gpus: Gpus::of(&got),
            ..SubmissionRecord::new(&run, ranks, Seconds(epoch), before, meant)
        },
    )
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        Just(End::Completed),
        Just(End::Saved),
        Just(End::Cut),
        Just(End::Unhandled),
        Just(End::TimedOut),
        (any::<u8>(), any::<u8>()).prop_map(|(exit, signal)| End::Failed { exit, signal }),
        Just(End::OutOfMemory),
        Just(End::NodeFailed),
        Just(End::BootFailed),
        Just(End::Preempted),
        Just(End::Deadline),
        Just(End::Cancelled),
        Just(End::Vanished),
        "\\PC{0,12}".prop_map(End::Other),
    ]
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        Just(Outcome::Completed),
        Just(Outcome::Cancelled),
        "\\PC{0,20}".prop_map(|reason| Outcome::Failed { reason }),
    ]
}

fn stage() -> impl Strategy<Value = Stage> {
    let request = prop::sample::select(vec![StopProgress::Meant, StopProgress::Asked, StopProgress::Killed]);
    let then = prop_oneof![
        Just(AfterStop::GoOn),
        Just(AfterStop::Cancel),
        Just(AfterStop::Finish),
        Just(AfterStop::Stalled),
        time().prop_map(AfterStop::Done),
    ];
    prop_oneof![
        Just(Stage::Meant),
        Just(Stage::Pending),
        Just(Stage::Running),
        (time(), then, request).prop_map(|(since, then, request)| Stage::Stopping { since, then, request }),
    ]
}

fn phase() -> impl Strategy<Value = Phase> {
    let waiting = (prop::option::of(time()), "\\PC{0,20}");
    let submissions = prop::collection::vec((attempt(), stage()), 1..4).prop_map(|pairs| {
        let copy =
            |(copy, (attempt, stage))| Submission { attempt: SubmissionRecord { copy, ..attempt }, stage };
        (0..).zip(pairs).map(copy).collect()
    });
    prop_oneof![
        waiting.prop_map(|(not_before, reason)| Phase::Waiting { not_before, reason }),
        submissions.prop_map(Phase::Submitted),
        (time(), outcome()).prop_map(|(at, outcome)| Phase::Ended { at, outcome }),
    ]
}

fn past() -> impl Strategy<Value = PastAttempt> {
    (attempt(), time(), end(), any::<u64>()).prop_map(|(attempt, ended, end, epochs)| PastAttempt {
        attempt,
        ended,
        end,
        epochs,
    })
}

/// A job whose name contains this number, so that names are distinct.
fn tracked(number: usize) -> impl Strategy<Value = JobState> {
    let counts = (1..500_u64, any::<u64>(), 0..9_u32, any::<u32>(), any::<u32>());
    let rest =
        (prop::option::of(0.0..1e6), time(), time(), "\\PC{0,30}", prop::collection::vec(past(), 0..3));
    (counts, phase(), rest).prop_map(
        move |((epochs, done, retries, failures, fruitless), phase, (epoch, added, at, said, past))| {
            JobState {
                phase,
                epochs_done: done,
                failures,
                fruitless,
                epoch: epoch.map(Seconds),
                epoch_at: epoch.map(Time),
                stray: None,
                last: (at, said),
                past,
                ..JobState::new(job(&format!("job-{number}"), epochs, retries), added)
            }
        },
    )
}

/// Returns the state without the random id of its measurements, which is drawn anew while there are no
/// measurements.
pub fn anonymous(state: State) -> State {
    State { contributor: String::new(), ..state }
}

fn peek(root: &Path) -> State {
    let peeked = StateDir::peek(root, &rules()).expect("reads");
    assert!(peeked.troubles.is_empty(), "{:?}", peeked.troubles);
    anonymous(peeked.state)
}

/// Returns the state as recovered without the snapshot, and as recovered without the snapshot and its older
/// copy.
fn recovered(root: &Path) -> [State; 2] {
    let folder = tempfile::tempdir().expect("a directory");
    for name in ["state.json.old", "journal", "newest"] {
        // The first snapshot has no older copy.
        let _ = fs::copy(root.join(name), folder.path().join(name));
    }
    let read = || anonymous(StateDir::peek(folder.path(), &rules()).expect("recovers").state);
    let from_copy = read();
    let _ = fs::remove_file(folder.path().join("state.json.old"));
    [from_copy, read()]
}

fn state() -> impl Strategy<Value = State> {
    let jobs = (0..4_usize).prop_flat_map(|count| (0..count).map(tracked).collect::<Vec<_>>());
    let down = prop::collection::btree_set("[a-c][0-9]", 0..3);
    (jobs, down, prop::option::of(any::<u64>())).prop_map(|(jobs, down, decided)| State {
        jobs,
        nodes_down: down.iter().map(|name| node(name)).collect(),
        decided,
        ..State::default()
    })
}

/// Answers to hsched's actions after a snapshot.
fn answer() -> impl Strategy<Value = (usize, Answer)> {
    let message = || "\\PC{0,20}";
    let answer = prop_oneof![
        any::<u32>().prop_map(|id| Answer::Submitted { job_id: JobId(id) }),
        message().prop_map(|message| Answer::Refused { message }),
        message().prop_map(|message| Answer::Unreachable { message }),
        message().prop_map(|message| Answer::Unclear { message }),
        Just(Answer::Stopped),
        Just(Answer::Killed),
        message().prop_map(|message| Answer::NotStopped { message }),
    ];
    (0..4_usize, answer)
}

fn event(state: &State, (number, answer): (usize, Answer)) -> Option<Event> {
    let tracked = state.jobs.get(number)?;
    let of = tracked.phase.submissions().last()?.attempt.key(&tracked.job.name);
    Some(Event::Answer { of, answer })
}

/// A state to store, answers after it, and whether another hsched stores it.
type Round = (State, Vec<(Time, (usize, Answer))>, bool);

/// A round with the state's jobs in any order.
fn round() -> impl Strategy<Value = Round> {
    let shuffled = state().prop_flat_map(|state| {
        let jobs = Just(state.jobs.clone()).prop_shuffle();
        jobs.prop_map(move |jobs| State { jobs, ..state.clone() })
    });
    (shuffled, prop::collection::vec((time(), answer()), 0..4), any::<bool>())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_state_reads_back_and_answers_do_again_what_they_did(
        rounds in prop::collection::vec(round(), 1..4),
        torn in any::<prop::sample::Index>(),
    ) {
        let folder = tempfile::tempdir().expect("a directory");
        let (root, rules) = (folder.path(), rules());
        let directory = StateDir::open(root).expect("opens");
        let (empty, mut ledger) = directory.ledger(&rules, Time(0.0)).expect("nothing yet");
        prop_assert_eq!(anonymous(empty), State::default());
        // The state and the file `newest` before the last answer, if that answer is the last line of the
        // journal.
        let mut before = None;
        for (state, answers, again) in rounds {
            if again {
                drop(ledger);
                ledger = directory.ledger(&rules, Time(0.5)).expect("opens again").1;
                prop_assert_eq!(ledger.repaired(), &[] as &[String]);
            }
            ledger.keep(Time(1.0), &state, &[], &[]).expect("keeps");
            before = None;
            let mut now = state;
            prop_assert_eq!(&peek(root), &now);
            prop_assert_eq!(&recovered(root), &[now.clone(), now.clone()]);
            for (at, answer) in answers {
                let Some(event) = event(&now, answer) else { continue };
                before = Some((now.clone(), fs::read(root.join("newest")).expect("numbers")));
                ledger.add(at, &event).expect("adds");
                apply(&mut now, at, &event, &rules);
                prop_assert_eq!(&peek(root), &now);
                prop_assert_eq!(&recovered(root), &[now.clone(), now.clone()]);
            }
        }

        // A crash has cut off the last line, wholly or in part; later additions count.
        let Some((mut before, newest)) = before else { return Ok(()) };
        fs::write(root.join("newest"), newest).expect("a file");
        let journal = fs::read(root.join("journal")).expect("a journal");
        let lines: Vec<&[u8]> = journal.split_inclusive(|&byte| byte == b'\n').collect();
        let last = lines.last().expect("a line").len();
        let cut = journal.len() - 1 - torn.index(last);
        fs::write(root.join("journal"), &journal[..cut]).expect("a file");
        drop(ledger);
        prop_assert_eq!(&peek(root), &before);
        let (read, mut ledger) = directory.ledger(&rules, Time(0.0)).expect("opens again");
        prop_assert_eq!((&anonymous(read), ledger.repaired()), (&before, &[] as &[String]));
        let Some(event) = event(&before, (0, Answer::Unclear { message: "lost".into() })) else { return Ok(()) };
        ledger.add(Time(2.0), &event).expect("adds");
        apply(&mut before, Time(2.0), &event, &rules);
        prop_assert_eq!(&peek(root), &before);
    }
}

#[test]
fn a_snapshot_of_another_version_is_left_alone() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("state.json");
    let check = |text: &str, what: &str| {
        fs::write(&path, text).expect("a file");
        let directory = StateDir::open(folder.path()).expect("opens");
        let error = directory.ledger(&rules(), Time(0.0)).map(drop).expect_err("no state");
        assert!(matches!(&error, StateError::Damaged { .. }), "{error}");
        assert_eq!(error.to_string(), format!("{}: {what}", path.display()));
        assert_eq!(fs::read_to_string(&path).expect("a text"), text);
    };
    check(
        "{\"schema\": \"hsched.state/9\"}",
        "its schema is hsched.state/9; this version reads hsched.state/3",
    );
    check(
        "{\"schema\": \"hsched.state/1\", \"seq\": 0, \"decided\": null, \"nodes_down\": [\"a b\"], \"jobs\": []}",
        &NodeName::new("a b").expect_err("two words").to_string(),
    );
}

#[test]
fn news_of_another_run_change_nothing() {
    let name = JobName::new("job-0").expect("a name");
    let mut state = State { jobs: vec![JobState::new(job("job-0", 3, 0), Time(0.0))], ..State::default() };
    let event = Event::Answer { of: SubmissionKey::new(name, "old"), answer: Answer::Killed };
    let before = state.clone();
    apply(&mut state, Time(1.0), &event, &rules());
    assert_eq!(state, before);
}
