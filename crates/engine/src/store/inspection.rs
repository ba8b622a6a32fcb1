//! Checks all files of a state directory; changes nothing.

#![expect(clippy::disallowed_methods, reason = "this module is where state is read")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::store::deferred_commands::DeferredCommands;
use crate::store::names::{NEWEST, OLDER, WISHES, chain, unmarked};
use crate::store::recovery::DirectoryContents;
use crate::store::snapshot::StateSnapshot;
use crate::store::{StateError, run_folder};
use crate::{Rules, State};
use hsched_plan::plan_file::PlanFile;

/// The result of a check of the files.
#[derive(Debug)]
pub struct Inspection {
    pub state: State,
    /// Number of intact plans of unfinished jobs.
    pub plans: usize,
    /// Number of deferred commands that wait to be applied.
    pub commands: usize,
    pub findings: Vec<Finding>,
}

/// A fault in a file that does not affect the jobs.
#[derive(Debug)]
pub struct Finding {
    /// Path relative to the state directory.
    pub file: String,
    /// The rest of a sentence that begins with the file's name.
    pub what: String,
    /// The remedy.
    pub advice: &'static str,
}

/// Beginning of the line in a job script that names its plan.
const NAMES_PLAN: &str = "hs_plan=";

impl Inspection {
    /// Checks the files of a state directory.
    ///
    /// # Errors
    /// If the state cannot be used.
    pub fn of(root: &Path, rules: &Rules) -> Result<Self, StateError> {
        let contents = DirectoryContents::read(root, rules)?;
        let finding = |file: &str, what: String, advice| Finding { file: file.to_owned(), what, advice };
        let repaired = "nothing to do: the next hsched watch, add, submit or cancel repairs it";
        let troubles = contents.troubles().into_iter();
        let mut findings: Vec<Finding> = troubles.map(|(file, what)| finding(file, what, repaired)).collect();
        match StateSnapshot::read(&root.join(OLDER)) {
            Ok(StateSnapshot::Damaged(what)) => findings.push(finding(
                OLDER,
                format!("is damaged ({what})"),
                "nothing to do: the next change of the state replaces it",
            )),
            Err(error) => findings.push(finding(OLDER, chain(&error), "check its permissions")),
            Ok(_) => {}
        }
        if contents.newest.is_none() && root.join(NEWEST).exists() {
            findings.push(finding(NEWEST, "is damaged".into(), repaired));
        }
        let kept = "find out why (a full or failing disk, a crash), then remove it";
        findings.extend(damaged(root).into_iter().map(|file| Finding {
            file,
            what: "is a damaged file that hsched replaced and kept".into(),
            advice: kept,
        }));
        let (plans, wrong) = plans(root, &contents.state);
        findings.extend(wrong);
        let taken = contents.recorded.map(|file| file.claim.taken).unwrap_or_default();
        let commands = DeferredCommands::read(root, &taken);
        let lost = "repeat the add or cancel; the next hsched watch, add, submit or cancel sets the file \
            aside";
        findings.extend(commands.damaged.into_iter().map(|(file, what)| finding(&file, what, lost)));
        Ok(Self { state: contents.state, plans, commands: commands.whole.len(), findings })
    }
}

/// Returns the names of damaged files that were kept.
fn damaged(root: &Path) -> Vec<String> {
    let names = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect::<Vec<String>>()
    };
    let commands = names(&root.join(WISHES)).into_iter().map(|name| format!("{WISHES}/{name}"));
    let mut names: Vec<String> = names(root).into_iter().chain(commands).collect();
    names.retain(|name| name.contains(".damaged"));
    names.sort();
    names
}

/// Returns the number of intact plans of unfinished jobs, and the faults of the other plans.
fn plans(root: &Path, state: &State) -> (usize, Vec<Finding>) {
    let submissions = state.jobs.iter().flat_map(|tracked| {
        tracked.phase.submissions().iter().map(|submission| submission.attempt.key(&tracked.job.name))
    });
    let (mut whole, mut findings) = (BTreeSet::new(), Vec::new());
    for of in submissions {
        match plan(&run_folder(root, &of.run), &of.name()) {
            Ok(()) => {
                whole.insert(of.run);
            }
            Err((file, what)) => findings.push(Finding {
                file: format!("runs/{}/{file}", of.run),
                what,
                advice: "the job keeps running; only hsched report and resubmitting the script by hand need this file",
            }),
        }
    }
    (whole.len(), findings)
}

/// Checks a run's plan and the script of one of its submissions, which contains the plan's id.
///
/// # Errors
/// Which file is damaged, and how.
fn plan(folder: &Path, name: &str) -> Result<(), (String, String)> {
    let read = |file: &str| match fs::read_to_string(folder.join(file)) {
        Ok(text) => Ok(unmarked(&text).to_owned()),
        Err(error) => Err((file.to_owned(), format!("cannot be read ({error})"))),
    };
    let (text, script) = (read("plan.json")?, format!("{name}.sbatch"));
    let id = PlanFile::parse(&text).and_then(|file| file.id());
    let id = id.map_err(|error| ("plan.json".to_owned(), format!("is damaged ({})", chain(&error))))?;
    // A custom template may omit that line.
    match read(&script)?.lines().find_map(|line| line.strip_prefix(NAMES_PLAN)) {
        Some(named) if named != id => {
            Err(("plan.json".to_owned(), format!("is not the plan that {script} was made from")))
        }
        _ => Ok(()),
    }
}
