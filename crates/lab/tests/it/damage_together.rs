//! Several files of the state directory damaged at once: hsched either finds the newest state or refuses to
//! continue.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use hsched_engine::store::{StateDir, StateError, StoredState};
use hsched_engine::{
    Answer, Event, JobState, Keeper, Outcome, Phase, Stage, State, SubmissionKey, SubmissionRecord,
};
use hsched_model::{GpuType, JobId, JobName, Seconds, Speed, Time};
use hsched_plan::throughput::SpeedKey;
use tempfile::TempDir;

use crate::damage::{files, peek};
use crate::state_round_trip::{anonymous, job, rules};
use hsched_fixtures::engine_states::phase;

const RUN: &str = "20260921T100000-0a1b2c";

/// The files of a state directory by name.
type Files = BTreeMap<String, Vec<u8>>;

/// A history of five jobs: four have completed, and the last was just submitted.
struct Story {
    /// The files in the middle of the history, shortly before its end, and at its end.
    middle: Files,
    late: Files,
    end: Files,
    /// The state at the end, with and without the answer after the last snapshot.
    state: State,
    kept: State,
}

impl Story {
    fn tell() -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        let root = folder.path();
        let directory = StateDir::open(root).expect("opens");
        let (mut state, mut ledger) = directory.ledger(&rules(), Time(1.0)).expect("nothing yet");
        let (mut middle, mut late) = (Files::new(), Files::new());
        for number in 1..=5_u32 {
            let at = Time(1000.0 * f64::from(number));
            if number == 3 {
                middle = files(root);
            }
            let job = job(&format!("job-{number}"), 5, 0);
            state.jobs.push(JobState::new(job, at));
            ledger.keep(at, &state, &[], &[]).expect("keeps");
            let index = state.jobs.len() - 1;
            let attempt = SubmissionRecord::new(RUN, Vec::new(), Seconds(9.0), 0, at);
            state.jobs[index].phase = phase(attempt, Stage::Meant);
            ledger.keep(at, &state, &[], &[]).expect("keeps");
            let name = JobName::new(&format!("job-{number}")).expect("a name");
            let answer = Answer::Submitted { job_id: JobId(number) };
            ledger.add(at, &Event::Answer { of: SubmissionKey::new(name, RUN), answer }).expect("adds");
            if number == 5 {
                break;
            }
            let job = &mut state.jobs[index];
            (job.epochs_done, job.phase) = (5, Phase::Ended { at, outcome: Outcome::Completed });
            let key = SpeedKey {
                model: format!("model-{number}"),
                gpu_type: GpuType::new("v100").expect("a type"),
                precision: None,
                gpus: 1,
            };
            let speed = Speed::rate(100.0 + f64::from(number)).expect("a speed");
            state.cache.set(&key, speed, at.0, "me");
            if number == 4 {
                late = files(root);
            }
            ledger.keep(at, &state, &[], &[]).expect("keeps");
        }
        drop(ledger);
        let (end, (whole, troubles)) = (files(root), peek(root).expect("reads"));
        assert_eq!(troubles, [] as [&str; 0]);
        assert_eq!(completed(&whole), 4);
        assert_eq!(whole.jobs[4].phase.word(), "pending");
        Self { middle, late, end, state: whole, kept: anonymous(state) }
    }
}

fn completed(state: &State) -> usize {
    state.jobs.iter().filter(|job| job.phase.word() == "completed").count()
}

/// A kind of damage to a file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Gone,
    Empty,
    /// Truncated after this many ninths.
    Cut(usize),
    /// One bit is flipped after this many ninths of the file.
    Flipped(usize),
    /// The version from the middle or from shortly before the end.
    Middle,
    Late,
}

impl Damage {
    fn all() -> Vec<Self> {
        let mut all = vec![Self::Gone, Self::Empty, Self::Flipped(4), Self::Middle, Self::Late];
        all.extend((1..=8).map(Self::Cut));
        all
    }

    fn of(self, name: &str, story: &Story) -> Option<Vec<u8>> {
        let bytes = &story.end[name];
        match self {
            Self::Gone => None,
            Self::Empty => Some(Vec::new()),
            Self::Cut(ninths) => Some(bytes[..bytes.len() * ninths / 9].to_vec()),
            Self::Flipped(ninths) => {
                let mut bytes = bytes.clone();
                let place = bytes.len() * ninths / 9;
                bytes[place] ^= 1 << (place % 8);
                Some(bytes)
            }
            Self::Middle => Some(story.middle[name].clone()),
            Self::Late => Some(story.late[name].clone()),
        }
    }
}

const FILES: [&str; 4] = ["state.json", "state.json.old", "journal", "throughput.json"];

/// Writes the files of the story's end into a directory, some of them damaged.
fn put(root: &Path, story: &Story, damage: &[(&str, Damage)]) {
    for (name, _) in files(root) {
        fs::remove_file(root.join(name)).expect("a file");
    }
    for (name, bytes) in &story.end {
        let hit = damage.iter().find(|(damaged, _)| damaged == name);
        let bytes = match hit {
            Some((_, damage)) => damage.of(name, story),
            None => Some(bytes.clone()),
        };
        if let Some(bytes) = bytes {
            fs::write(root.join(name), bytes).expect("a file");
        }
    }
}

/// Checks how hsched handles the files; returns whether it continues.
fn check(directory: &StateDir, root: &Path, story: &Story, damage: &[(&str, Damage)]) -> bool {
    put(root, story, damage);
    let before = files(root);
    let speeds_of = |state: &State| state.cache.clone();
    let without_speeds = |state: &State| State { cache: <_>::default(), ..state.clone() };
    let (state, troubles) = match peek(root) {
        Ok(read) => read,
        Err(error) => {
            assert!(matches!(error, StateError::Lost { .. }), "{damage:?}: {error}");
            let error = directory.ledger(&rules(), Time(9e3)).map(drop).expect_err("as before");
            assert!(matches!(error, StateError::Lost { .. }), "{damage:?}: {error}");
            assert_eq!(files(root), before, "{damage:?}: {error}");
            return false;
        }
    };
    let says = |words: &str| troubles.iter().any(|trouble| trouble.contains(words));
    let (read, end, kept) =
        (without_speeds(&state), without_speeds(&story.state), without_speeds(&story.kept));
    if read != end {
        assert!(read == kept, "{damage:?} goes back to {} completed: {troubles:?}", completed(&read));
        // In this case, the journal has lost an answer; hsched then looks for the submission in Slurm again.
        assert!(
            says("/journal ") && says("no job is lost: state.json is intact"),
            "{damage:?}: {troubles:?}"
        );
        assert!(!says("nothing is lost"), "{damage:?}: {troubles:?}");
    }
    assert!(
        speeds_of(&state) == speeds_of(&story.state) || says("/throughput.json is "),
        "{damage:?}: speeds are lost silently: {troubles:?}"
    );
    true
}

/// Checks all combinations of damage to `count` of the files; returns the number of times that hsched
/// continued, and that it refused.
fn check_all(names: &[&'static str], count: usize) -> [usize; 2] {
    let (story, folder) = (Story::tell(), tempfile::tempdir().expect("a directory"));
    // Opened only once, because processes of other tests may hold the lock for a moment.
    let directory = StateDir::open(folder.path()).expect("opens");
    let mut counts = [0, 0];
    let mut chosen: Vec<Vec<(&str, Damage)>> = vec![Vec::new()];
    for _ in 0..count {
        let longer = |before: Vec<(&'static str, Damage)>| {
            let from = before
                .last()
                .map_or(0, |(last, _)| 1 + names.iter().position(|name| name == last).expect("one of them"));
            names[from..].iter().flat_map(move |name| {
                let before = before.clone();
                Damage::all().into_iter().map(move |damage| [&before[..], &[(*name, damage)]].concat())
            })
        };
        chosen = chosen.into_iter().flat_map(longer).collect();
    }
    for damage in chosen {
        counts[usize::from(!check(&directory, folder.path(), &story, &damage))] += 1;
    }
    counts
}

#[test]
fn one_damaged_file_never_stops_the_jobs() {
    assert_eq!(check_all(&FILES, 1), [4 * 13, 0]);
    assert_eq!(check_all(&["newest"], 1), [13, 0]);
}

#[test]
fn two_damaged_files_never_lead_back() {
    let [gone_on, refused] = check_all(&FILES, 2);
    assert!(gone_on > 800 && refused > 100, "{gone_on} gone on, {refused} refused");
}

#[test]
#[ignore = "thousands of damaged directories"]
fn three_damaged_files_never_lead_back() {
    let [gone_on, refused] = check_all(&FILES, 3);
    assert!(gone_on > 900 && refused > 3000, "{gone_on} gone on, {refused} refused");
    let [gone_on, refused] = check_all(&["newest", FILES[0], FILES[1], FILES[2], FILES[3]], 2);
    assert!(gone_on > 900 && refused > 200, "{gone_on} gone on, {refused} refused");
}

#[test]
fn a_shorter_journal_does_not_win_over_a_newer_copy() {
    let (story, folder) = (Story::tell(), tempfile::tempdir().expect("a directory"));
    let root = folder.path();
    let directory = StateDir::open(root).expect("opens");
    let damage = [("state.json", Damage::Gone), ("journal", Damage::Cut(4))];
    assert!(!check(&directory, root, &story, &damage));
    let Err(StateError::Lost { known, restore, .. }) = peek(root) else { panic!("not refused") };
    assert_eq!(
        known[..2],
        [
            "state.json is missing",
            "state.json.old is at entry 17 of 19, is from 1970-01-01 01:23:20 UTC and has 5 jobs: \
             4 completed (job-1, job-2, job-3, job-4), 1 waiting (job-5)"
        ]
    );
    assert!(
        known[2].starts_with("journal ends with entry ") && known[2].contains(" has 2 jobs: "),
        "{known:?}"
    );
    assert_eq!(restore, Some(root.join("state.json.old")));
}

#[test]
fn what_was_restored_is_what_goes_on() {
    let (story, folder) = (Story::tell(), tempfile::tempdir().expect("a directory"));
    let root = folder.path();
    let directory = StateDir::open(root).expect("opens");
    let damage = [Damage::Gone, Damage::Empty, Damage::Cut(4), Damage::Flipped(4), Damage::Middle];
    let names = [FILES[0], FILES[1], FILES[2]];
    let pairs = [(0, 1), (0, 2), (1, 2)].map(|(a, b)| (names[a], names[b]));
    let mut restored = 0;
    for (first, second) in pairs {
        for (one, other) in damage.iter().flat_map(|one| damage.map(|other| (*one, other))) {
            put(root, &story, &[(first, one), (second, other)]);
            for (name, _) in files(root).into_iter().filter(|(name, _)| names.contains(&&**name)) {
                put(root, &story, &[(first, one), (second, other)]);
                if peek(root).is_ok() {
                    continue;
                }
                let Ok(held) = StoredState::read(&root.join(&name), &rules()) else { continue };
                let before = files(root);
                let replaced = StateDir::would_replace(root, &rules()).expect("is refused");
                assert_eq!(files(root), before);
                let done =
                    directory.restore(&root.join(&name), &held, Time(9e3), &rules()).expect("restores");
                assert_eq!(done, replaced);
                for (path, kept) in replaced {
                    let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
                    assert_eq!(fs::read(kept).ok().as_ref(), before.get(name), "{name}");
                }
                let (state, troubles) = peek(root).expect("reads");
                let jobs = |state: &State| state.jobs.clone();
                assert_eq!((jobs(&state), troubles), (jobs(&held.state), Vec::new()), "{name}");
                // The restored state is as safe as any other: without its newest snapshot, it is still
                // recovered.
                let (_, ledger) = directory.ledger(&rules(), Time(9e3)).expect("opens");
                assert_eq!(ledger.repaired(), [] as [String; 0]);
                drop(ledger);
                fs::remove_file(root.join("state.json")).expect("a file");
                assert_eq!(jobs(&peek(root).expect("recovers").0), jobs(&held.state));
                restored += 1;
            }
        }
    }
    assert!(restored > 20, "{restored}");
}

#[test]
fn a_state_that_can_be_used_is_not_replaced() {
    let (story, folder) = (Story::tell(), tempfile::tempdir().expect("a directory"));
    let root = folder.path();
    put(root, &story, &[]);
    let held = StoredState::read(&root.join("state.json.old"), &rules()).expect("is whole");
    let directory = StateDir::open(root).expect("opens");
    let error = directory.restore(&root.join("state.json.old"), &held, Time(9e3), &rules());
    assert!(matches!(error, Err(StateError::Whole { .. })), "{error:?}");
    assert_eq!(files(root), story.end);
}

#[test]
fn what_was_killed_before_its_snapshot_is_not_damaged() {
    let (story, folder) = (Story::tell(), tempfile::tempdir().expect("a directory"));
    let root = folder.path();
    let before = ["state.json", "state.json.old", "newest"].map(|name| (name, Damage::Late));
    for damage in [&before[..], &before[2..], &before[1..]] {
        put(root, &story, damage);
        let (state, troubles) = peek(root).expect("reads");
        assert_eq!((&state, troubles), (&story.state, Vec::new()), "{damage:?}");
    }
}

#[test]
fn older_copies_of_all_files_cannot_be_told_from_the_newest() {
    let (story, folder) = (Story::tell(), tempfile::tempdir().expect("a directory"));
    let root = folder.path();
    let all = [FILES[0], FILES[1], FILES[2], FILES[3], "newest"];
    put(root, &story, &all.map(|name| (name, Damage::Middle)));
    let (state, troubles) = peek(root).expect("reads");
    assert_eq!((completed(&state), troubles), (2, Vec::new()));
    // One file of the newer version is enough to notice.
    for name in ["state.json.old", "newest"] {
        put(root, &story, &all.map(|name| (name, Damage::Middle)));
        fs::write(root.join(name), &story.end[name]).expect("a file");
        let error = peek(root).map(drop).expect_err(name);
        assert!(matches!(error, StateError::Lost { .. }), "{name}: {error}");
    }
}

#[test]
fn without_the_newest_numbers_only_a_whole_snapshot_counts() {
    // The layout of states from version 0.1.0.
    let (story, folder) = (Story::tell(), tempfile::tempdir().expect("a directory"));
    let root = folder.path();
    let directory = StateDir::open(root).expect("opens");
    let gone = ("newest", Damage::Gone);
    for name in ["state.json.old", "journal"] {
        for damage in Damage::all() {
            assert!(check(&directory, root, &story, &[gone, (name, damage)]), "{name} {damage:?}");
        }
    }
    assert!(!check(&directory, root, &story, &[gone, ("state.json", Damage::Gone)]));
    assert!(!check(&directory, root, &story, &[gone, ("state.json", Damage::Middle)]));
    put(root, &story, &[gone]);
    directory.ledger(&rules(), Time(9e3)).map(drop).expect("reads");
    assert_eq!(files(root), story.end, "the numbers are written again");
}

/// Returns a new directory with the files of the story's end.
fn at_the_end(story: &Story) -> TempDir {
    let folder = tempfile::tempdir().expect("a directory");
    put(folder.path(), story, &[]);
    folder
}

#[test]
fn speeds_that_are_missing_or_older_are_told_once() {
    let story = Story::tell();
    let check = |damage: Damage, expected: &str, speeds: usize| {
        let folder = at_the_end(&story);
        let root = folder.path();
        put(root, &story, &[("throughput.json", damage)]);
        let directory = StateDir::open(root).expect("opens");
        let (state, ledger) = directory.ledger(&rules(), Time(9e3)).expect("opens");
        assert_eq!(ledger.repaired(), [format!("{}/throughput.json {expected}", root.display())]);
        assert_eq!((state.cache.estimates().count(), completed(&state)), (speeds, 4));
        drop(ledger);
        let (_, ledger) = directory.ledger(&rules(), Time(9e3)).expect("opens");
        assert_eq!(ledger.repaired(), [] as [String; 0]);
    };
    let then = "hsched uses the speeds of the job files until it has measured new ones";
    check(Damage::Gone, &format!("is missing; {then}"), 0);
    let empty = "is damaged (not a file of measured speeds, or a damaged one: EOF while parsing a value at line 1 column 0)";
    check(Damage::Empty, &format!("{empty}; {then}; the damaged file is kept as throughput.json.damaged"), 0);
    check(Damage::Middle, "is an older copy; hsched uses it and measures the missing speeds again", 2);
}
