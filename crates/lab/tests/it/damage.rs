//! Damaged files of the state directory: every flipped bit is detected, and damage is repaired if possible.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use hsched_engine::store::{StateDir, StateError};
use hsched_engine::{
    Answer, End, Event, JobState, Keeper, PastAttempt, Stage, State, SubmissionKey, SubmissionRecord,
};
use hsched_model::{GpuType, JobId, JobName, NodeName, PlacedRank, Seconds, Time};
use tempfile::TempDir;

use crate::state_round_trip::{anonymous, job, rules};
use hsched_fixtures::engine_states::phase;

const RUN: &str = "20260921T100000-0a1b2c";

/// A job that failed once and is about to be submitted again.
fn meant(name: &str) -> JobState {
    let rank = |node: &str, gpu_type: &str, local_rank| PlacedRank {
        node: NodeName::new(node).expect("a name"),
        gpu_type: GpuType::new(gpu_type).expect("a type"),
        local_rank,
        batch: 4,
        samples: 50,
    };
    let ranks = vec![rank("v1", "v100", 0), rank("t1", "t4", 1)];
    let before = SubmissionRecord::new("20260921T090000-0a1b2c", Vec::new(), Seconds(83.75), 0, Time(1.79e9));
    let (ended, end) = (Time(1.7901e9), End::Failed { exit: 1, signal: 0 });
    JobState {
        phase: phase(SubmissionRecord::new(RUN, ranks, Seconds(83.75), 2, Time(1.7902e9)), Stage::Meant),
        epochs_done: 2,
        failures: 1,
        past: vec![PastAttempt { attempt: before, ended, end, epochs: 2 }],
        ..JobState::new(job(name, 5, 3), Time(1.78e9))
    }
}

/// Returns the event that Slurm has accepted a job.
pub fn submitted(name: &str, id: u32) -> Event {
    let job = JobName::new(name).expect("a name");
    Event::Answer { of: SubmissionKey::new(job, RUN), answer: Answer::Submitted { job_id: JobId(id) } }
}

/// Returns a state directory in use: it contains two jobs, which have both been submitted since the snapshot.
fn directory() -> TempDir {
    let folder = tempfile::tempdir().expect("a directory");
    let directory = StateDir::open(folder.path()).expect("opens");
    let (mut state, mut ledger) = directory.ledger(&rules(), Time(1.0)).expect("nothing yet");
    for name in ["job-0", "job-1"] {
        state.jobs.push(meant(name));
        ledger.keep(Time(2.0), &state, &[], &[]).expect("keeps");
    }
    for (name, id) in [("job-0", 17), ("job-1", 18)] {
        ledger.add(Time(3.0), &submitted(name, id)).expect("adds");
    }
    folder
}

/// Reads a state directory without changing it.
pub fn peek(root: &Path) -> Result<(State, Vec<String>), StateError> {
    StateDir::peek(root, &rules()).map(|peeked| (anonymous(peeked.state), peeked.troubles))
}

/// Returns the files of a directory, without the lock.
pub fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(root).expect("a folder").map(|entry| entry.expect("an entry"));
    let files = entries.filter(|entry| entry.path().is_file() && entry.file_name() != "lock");
    let read = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().expect("a name");
        (name, fs::read(entry.path()).expect("a file"))
    };
    files.map(read).collect()
}

/// Number of bits at the beginning and at the end of a file that are all flipped.
const ENDS: usize = 400;

/// Distance between the other flipped bits, coprime to the number of bits in a byte; those of ends of lines are all flipped.
const STRIDE: usize = 61;

/// For each bit in a sample of the file's bits, flips it and calls `check`; then restores the file.
pub fn flip(path: &Path, mut check: impl FnMut(usize)) {
    let bytes = fs::read(path).expect("a file");
    let bits = 8 * bytes.len();
    let is_drawn = |bit: &usize| {
        *bit < ENDS || bit + ENDS >= bits || bit.is_multiple_of(STRIDE) || bytes[bit / 8] == b'\n'
    };
    for bit in (0..bits).filter(is_drawn) {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        fs::write(path, &flipped).expect("a file");
        check(bit);
    }
    fs::write(path, bytes).expect("a file");
}

#[test]
fn a_flipped_bit_of_the_snapshot_costs_nothing_and_is_told() {
    let folder = directory();
    let root = folder.path();
    let (before, troubles) = peek(root).expect("reads");
    assert_eq!(troubles, [] as [&str; 0]);
    flip(&root.join("state.json"), |bit| {
        let (state, troubles) = peek(root).expect("recovers");
        assert_eq!((&state, troubles.len()), (&before, 1), "bit {bit}: {troubles:?}");
    });
    // Without the snapshot, its copy is used; if that is also damaged, the journal.
    fs::remove_file(root.join("state.json")).expect("a file");
    flip(&root.join("state.json.old"), |bit| {
        let (state, troubles) = peek(root).expect("recovers");
        assert_eq!((&state, troubles.len()), (&before, 1), "bit {bit}: {troubles:?}");
    });
}

#[test]
fn a_flipped_bit_of_the_journal_is_told() {
    let folder = directory();
    let root = folder.path();
    let (before, _) = peek(root).expect("reads");
    let ids = |state: &State| -> Vec<Option<JobId>> {
        state
            .jobs
            .iter()
            .map(|tracked| tracked.phase.attempt().and_then(|submission| submission.job_id))
            .collect()
    };
    flip(&root.join("journal"), |bit| {
        let (state, troubles) = peek(root).expect("reads");
        assert_eq!(troubles.len(), 1, "bit {bit}");
        assert!(
            troubles[0].contains("journal is damaged (") && troubles[0].contains("line "),
            "{troubles:?}"
        );
        // At most one answer is lost; hsched then looks for the submission in Slurm again.
        let known = ids(&state).into_iter().zip(ids(&before));
        assert!(known.into_iter().all(|(now, was)| now.is_none() || now == was), "bit {bit}");
        assert_eq!(state.jobs.len(), 2, "bit {bit}");
    });
    // Two files are damaged: uncertain state is refused.
    fs::write(root.join("state.json"), "").expect("a file");
    let (mut refused, mut recovered) = (0, 0);
    flip(&root.join("journal"), |bit| match peek(root) {
        Ok((state, troubles)) => {
            assert_eq!((&state, troubles.len()), (&before, 2), "bit {bit}: {troubles:?}");
            recovered += 1;
        }
        Err(error) => {
            let StateError::Lost { restore: Some(best), .. } = &error else { panic!("bit {bit}: {error}") };
            assert!(best.starts_with(root), "bit {bit}: {error}");
            refused += 1;
        }
    });
    assert!(refused > 0 && recovered > 0, "{refused} refused, {recovered} recovered");
}

/// A kind of damage to a file.
type Damage = fn(&Path);

#[test]
fn a_snapshot_in_any_condition_is_made_whole_once() {
    let damage: [(&str, Damage); 6] = [
        ("is missing", |path| fs::remove_file(path).expect("a file")),
        ("is damaged (EOF while parsing a value at line 1 column 0)", |path| {
            fs::write(path, "").expect("a file");
        }),
        ("is damaged (expected value at line 1 column 1)", |path| {
            let length = fs::read(path).expect("a file").len();
            fs::write(path, vec![0; length]).expect("a file");
        }),
        ("is damaged (expected value at line 1 column 1)", |path| {
            fs::write(path, [0xfe_u8, 0x01, 0x7b, 0xff].repeat(99)).expect("a file");
        }),
        ("is damaged (EOF while parsing ", |path| {
            let bytes = fs::read(path).expect("a file");
            fs::write(path, &bytes[..bytes.len() / 2]).expect("a file");
        }),
        ("is damaged (its checksum does not match)", |path| {
            let text = fs::read_to_string(path).expect("a file");
            fs::write(path, text.replace("\"job-1\"", "\"job-7\"")).expect("a file");
        }),
    ];
    for (what, damage) in damage {
        let folder = directory();
        let root = folder.path();
        let (before, _) = peek(root).expect("reads");
        damage(&root.join("state.json"));
        let damaged = fs::read(root.join("state.json")).ok();
        let directory = StateDir::open(root).expect("opens");
        let (state, ledger) = directory.ledger(&rules(), Time(4.0)).expect("recovers");
        assert_eq!(anonymous(state), before, "{what}");
        let [told] = ledger.repaired() else { panic!("{what}: {:?}", ledger.repaired()) };
        assert!(told.starts_with(&format!("{}/state.json {what}", root.display())), "{told}");
        let kept = if damaged.is_some() { "; the damaged file is kept as state.json.damaged" } else { "" };
        assert!(
            told.ends_with(&format!(
                "nothing is lost: it is rebuilt from state.json.old and the journal{kept}"
            )),
            "{told}"
        );
        assert_eq!(fs::read(root.join("state.json.damaged")).ok(), damaged, "{what}");
        let journal = fs::read_to_string(root.join("journal")).expect("a journal");
        assert!(journal.contains("\"event\":\"repaired\",\"file\":\"state.json\""), "{journal}");
        drop(ledger);
        let (state, ledger) = directory.ledger(&rules(), Time(5.0)).expect("reads");
        assert_eq!((anonymous(state), ledger.repaired()), (before, &[] as &[String]), "{what}");
    }
}

#[test]
fn what_is_not_sure_is_left_as_it_is() {
    let check = |damage: &[(&str, &str)], expected: &[&str]| {
        let folder = directory();
        let root = folder.path();
        let path = root.join("runs/r1");
        fs::create_dir_all(&path).expect("a folder");
        fs::write(path.join("job-1.sbatch"), "").expect("a file");
        fs::write(root.join(".tmpAbcdef"), "").expect("a file");
        for (name, text) in damage {
            fs::write(root.join(name), text).expect("a file");
        }
        let before = files(root);
        let directory = StateDir::open(root).expect("opens");
        let error = directory.ledger(&rules(), Time(4.0)).map(drop).expect_err("no state");
        let StateError::Lost { known, .. } = &error else { panic!("{error}") };
        // The files have just been changed.
        let known: Vec<&str> = known
            .iter()
            .map(|sentence| sentence.split_once("; last changed 20").map_or(&**sentence, |(start, _)| start))
            .collect();
        assert_eq!(known[..3], *expected, "{damage:?}");
        assert_eq!(known[3], "the latest run is runs/r1, with the jobs job-1");
        assert_eq!(files(root), before);
    };
    check(
        &[("state.json", "{}"), ("state.json.old", "\0\0"), ("journal", "nonsense\n")],
        &[
            "state.json is damaged (its schema is missing; this version reads hsched.state/3)",
            "state.json.old is damaged (expected value at line 1 column 1)",
            "journal is damaged (line 1 does not match its checksum)",
        ],
    );
    check(
        &[("state.json", ""), ("journal", "")],
        &[
            "state.json is damaged (EOF while parsing a value at line 1 column 0)",
            "state.json.old is at entry 1 of 4, is from 1970-01-01 00:00:02 UTC and has 1 job: 1 submitting (job-0)",
            "journal is empty",
        ],
    );
    check(
        &[("state.json", ""), ("journal", "{\"seq\":1,\"at\":2.0,\"what\":{\"state\":")],
        &[
            "state.json is damaged (EOF while parsing a value at line 1 column 0)",
            "state.json.old is at entry 1 of 4, is from 1970-01-01 00:00:02 UTC and has 1 job: 1 submitting (job-0)",
            "journal has no complete line",
        ],
    );
}

#[test]
fn whoever_is_killed_in_the_first_write_leaves_a_new_directory() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    let write = || {
        let directory = StateDir::open(root).expect("opens");
        let (before, mut ledger) = directory.ledger(&rules(), Time(1.0)).expect("reads");
        let state = State { jobs: vec![meant("job-0")], ..State::default() };
        let event = Event::CancelAsked { job: state.jobs[0].job.name.clone() };
        assert!(before.jobs.is_empty());
        ledger.keep(Time(2.0), &state, &[event], &[]).expect("keeps");
        state
    };
    write();
    let whole = fs::read(root.join("journal")).expect("a journal");
    let first = whole.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
    for length in [first, first + 9] {
        for name in files(root).into_keys().filter(|name| name != "journal") {
            let _ = fs::remove_file(root.join(name));
        }
        fs::write(root.join("journal"), &whole[..length]).expect("writes");
        let state = write();
        assert_eq!(anonymous(peek(root).expect("reads").0), anonymous(state), "{length}");
    }
}

#[test]
fn a_journal_that_is_gone_or_cut_begins_anew() {
    for cut in [None, Some(0), Some(700)] {
        let folder = directory();
        let root = folder.path();
        let path = root.join("journal");
        let text = fs::read(&path).expect("a journal");
        match cut {
            None => fs::remove_file(&path).expect("a file"),
            Some(length) => fs::write(&path, &text[..length]).expect("a file"),
        }
        let directory = StateDir::open(root).expect("opens");
        let (state, ledger) = directory.ledger(&rules(), Time(4.0)).expect("reads");
        let [told] = ledger.repaired() else { panic!("{cut:?}: {:?}", ledger.repaired()) };
        assert!(told.starts_with(&format!("{} is ", path.display())), "{told}");
        drop(ledger);
        for name in ["state.json", "state.json.old"] {
            fs::remove_file(root.join(name)).expect("a file");
        }
        let (rebuilt, _) = peek(root).expect("recovers");
        assert_eq!(rebuilt, anonymous(state), "{cut:?}");
    }
}

/// A `run` or `watch` may write for weeks: its journal stays short without a new start.
#[test]
fn a_journal_that_grows_long_begins_anew_at_any_write() {
    let folder = directory();
    let root = folder.path();
    let directory = StateDir::open(root).expect("opens");
    let (mut state, mut ledger) = directory.ledger(&rules(), Time(4.0)).expect("reads");
    let newest = || fs::read(root.join("newest")).expect("numbers");
    let mut before = Vec::new();
    let length = |name: &str| fs::metadata(root.join(name)).map_or(0, |data| data.len());
    for turn in 0..12_u32 {
        let text = if turn.is_multiple_of(2) { "x".repeat(1 << 20) } else { "submitted".to_owned() };
        state.jobs[0].last.1 = text;
        before = newest();
        ledger.keep(Time(5.0 + f64::from(turn)), &state, &[], &[]).expect("keeps");
        if length("journal.old") > 0 {
            break;
        }
    }
    assert!(length("journal.old") >= 4 << 20 && length("journal") < 2 << 20, "a new journal");
    // Killed before `newest` is written: the files that were written earlier are sufficient.
    let after = newest();
    fs::write(root.join("newest"), &before).expect("writes");
    assert_eq!(peek(root).expect("reads"), (anonymous(state.clone()), Vec::new()));
    fs::write(root.join("newest"), &after).expect("writes");
    // Killed between the two renames: the journal is missing, the snapshot is whole.
    fs::rename(root.join("journal"), root.join("away")).expect("renames");
    assert_eq!(peek(root).expect("reads").0, anonymous(state.clone()));
    fs::rename(root.join("away"), root.join("journal")).expect("renames");
    // The same ledger continues in the new journal, which alone contains the whole state.
    state.jobs[1].failures = 7;
    ledger.keep(Time(50.0), &state, &[], &[]).expect("keeps");
    drop(ledger);
    for name in ["state.json", "state.json.old"] {
        fs::remove_file(root.join(name)).expect("a file");
        assert_eq!(peek(root).expect("recovers").0, anonymous(state.clone()), "without {name}");
    }
}

#[test]
fn a_long_journal_begins_anew_with_the_whole_state() {
    let folder = directory();
    let root = folder.path();
    let directory = StateDir::open(root).expect("opens");
    let (mut state, mut ledger) = directory.ledger(&rules(), Time(4.0)).expect("reads");
    state.jobs[0].last.1 = "x".repeat(5 << 20);
    ledger.keep(Time(5.0), &state, &[], &[]).expect("keeps");
    state.jobs[0].last.1 = "submitted".into();
    ledger.keep(Time(6.0), &state, &[], &[]).expect("keeps");
    drop(ledger);
    let (_, mut ledger) = directory.ledger(&rules(), Time(7.0)).expect("reads");
    assert_eq!(ledger.repaired(), &[] as &[String]);
    let length = |name: &str| fs::metadata(root.join(name)).expect("a file").len();
    assert!(length("journal") < 10_000 && length("journal.old") > 5 << 20);
    state.jobs[1].failures = 7;
    ledger.keep(Time(8.0), &state, &[], &[]).expect("keeps");
    for name in ["state.json", "state.json.old"] {
        fs::remove_file(root.join(name)).expect("a file");
        assert_eq!(peek(root).expect("recovers").0, anonymous(state.clone()), "without {name}");
    }
}

#[test]
fn what_cannot_be_kept_is_not_read_as_kept() {
    let folder = directory();
    let root = folder.path();
    let directory = StateDir::open(root).expect("opens");
    let (mut state, mut ledger) = directory.ledger(&rules(), Time(4.0)).expect("reads");
    let before = peek(root).expect("reads").0;
    // A folder in place of the file makes the write fail even for root.
    fs::remove_file(root.join("state.json.old")).expect("a file");
    fs::create_dir(root.join("state.json.old")).expect("a folder");
    state.jobs.push(meant("job-2"));
    let error = ledger.keep(Time(5.0), &state, &[], &[]).expect_err("cannot be written");
    assert!(matches!(error, StateError::Write { .. }), "{error}");
    assert_eq!(peek(root).expect("reads"), (before, Vec::new()));
    fs::remove_dir(root.join("state.json.old")).expect("a folder");
    ledger.keep(Time(6.0), &state, &[], &[]).expect("keeps");
    assert_eq!(peek(root).expect("reads"), (anonymous(state), Vec::new()));
}

#[test]
fn what_killed_writers_left_is_removed_by_who_has_the_lock() {
    let folder = directory();
    let root = folder.path();
    fs::create_dir_all(root.join("runs/.tmp0a1B2c")).expect("a folder");
    for name in [".tmpAbcdef", ".tmpnotes", "runs/.tmp0a1B2c/a.sbatch"] {
        fs::write(root.join(name), "").expect("a file");
    }
    let left = || [".tmpAbcdef", ".tmpnotes", "runs/.tmp0a1B2c"].map(|name| root.join(name).exists());
    let other = StateDir::open(root).expect("opens");
    StateDir::open(root).map(drop).expect_err("is locked");
    peek(root).expect("reads");
    assert_eq!(left(), [true, true, true]);
    drop(other);
    let directory = StateDir::open(root).expect("opens");
    directory.ledger(&rules(), Time(4.0)).map(drop).expect("reads");
    assert_eq!(left(), [false, true, false]);
}
