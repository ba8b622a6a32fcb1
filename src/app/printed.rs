//! The output of each submission of a job: the files, and the part of each.

use std::path::{Path, PathBuf};

use crate::app::context::Context;
use crate::app::output::FilePart;
use crate::app::state;
use hsched_engine::live::absolute;
use hsched_engine::store::{report_folder, reports};
use hsched_engine::{JobState, Stage, SubmissionKey, SubmissionRecord};
use hsched_model::{ErrorId, JobId};
use hsched_ui::{Exit, Failure};

/// The output of a submission.
pub(crate) struct SubmissionOutput {
    pub key: SubmissionKey,
    pub job_id: Option<JobId>,
    /// Whether the submission's script has started, as far as known.
    pub has_begun: bool,
    /// Whether it is known where the submission's part of the file begins.
    is_told_apart: bool,
    /// The output's files; several if an sbatch option redirects errors to a separate file.
    pub parts: Vec<FilePart>,
    /// Notes on the output's files.
    notes: Vec<String>,
}

impl SubmissionOutput {
    /// Prints the notes on the output's files, and a note if the beginning of the output is unknown.
    pub(crate) fn note(&self, context: &Context) {
        self.notes.iter().for_each(|note| context.note(note));
        if !self.is_told_apart {
            context.note(
                "the start of this submission's output is unknown: the output of earlier submissions \
                 comes first",
            );
        }
    }

    /// Returns the submission's output file if its part can be separated from that of earlier submissions.
    pub(crate) fn told_apart(&self) -> Option<&FilePart> {
        self.parts.first().filter(|_| self.is_told_apart)
    }

    /// Describes the submission in words.
    pub(crate) fn words(&self) -> String {
        let id = self.job_id.map(|id| format!(", job {id}")).unwrap_or_default();
        format!("run {}{id}", self.key.run)
    }
}

/// Returns the submissions of a job, in order.
///
/// # Errors
/// If the record of a beginning exists and cannot be read.
pub(crate) fn submissions(context: &Context, tracked: &JobState) -> Result<Vec<SubmissionOutput>, Failure> {
    let root = state::root(context)?;
    let past = tracked.past.iter().map(|past| (&past.attempt, None));
    let present =
        tracked.phase.submissions().iter().map(|submission| (&submission.attempt, Some(submission.stage)));
    let mut all: Vec<SubmissionOutput> = Vec::new();
    for (attempt, stage) in past.chain(present) {
        let next = printed(context, &root, tracked, attempt, stage, &all)?;
        // In a shared file, the output of earlier submissions ends where the next begins.
        for other in all.iter_mut().flat_map(|printed| &mut printed.parts) {
            let here = next.parts.iter().find(|part| next.has_begun && part.path == other.path);
            if let Some(part) = here.filter(|part| part.position >= other.position) {
                other.end = other.end.or(Some(part.position));
            }
        }
        all.push(next);
    }
    Ok(all)
}

/// Returns the submission that represents the job: the most advanced one, or else the last.
pub(crate) fn latest<'a>(tracked: &JobState, all: &'a [SubmissionOutput]) -> Option<&'a SubmissionOutput> {
    let foremost = tracked.phase.attempt().map(|attempt| attempt.key(&tracked.job.name));
    match foremost {
        Some(key) => all.iter().find(|candidate| candidate.key == key),
        None => all.last(),
    }
}

/// Returns the output of a submission; a past one has no stage.
fn printed(
    context: &Context,
    root: &Path,
    tracked: &JobState,
    attempt: &SubmissionRecord,
    stage: Option<Stage>,
    before: &[SubmissionOutput],
) -> Result<SubmissionOutput, Failure> {
    let key = attempt.key(&tracked.job.name);
    let folder = report_folder(root, &key.run, &key.name());
    let begin = reports::begin(&folder).map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot read a file in {}: {error}", folder.display()))
            .id(ErrorId::FileUnreadable)
    })?;
    let (workdir, notes, files) = files(context, tracked, attempt, &key);
    let is_later = before.iter().flat_map(|printed| &printed.parts).any(|part| files.contains(&part.path));
    let part = |(place, path): (usize, &PathBuf)| {
        // The recorded beginning applies to the output file; for an error file there is none.
        let position = if place == 0 { begin.unwrap_or(0) } else { 0 };
        FilePart { path: workdir.join(path), position, end: None }
    };
    let has_ended = stage.is_none() && attempt.started.is_some();
    let has_begun = begin.is_some() || has_ended || stage == Some(Stage::Running);
    let is_told_apart = begin.is_some() || !is_later;
    let parts = files.iter().enumerate().map(part).collect();
    Ok(SubmissionOutput { key, job_id: attempt.job_id, has_begun, is_told_apart, parts, notes })
}

/// Returns the directory of a job, notes on its files, and the files.
fn files(
    context: &Context,
    tracked: &JobState,
    attempt: &SubmissionRecord,
    key: &SubmissionKey,
) -> (PathBuf, Vec<String>, Vec<PathBuf>) {
    let launch = &tracked.job.launch;
    let workdir = absolute(&context.directory, launch.workdir.as_deref().unwrap_or("."));
    let mut files = vec![workdir.join(format!("{}.out", key.name()))];
    let mut notes = Vec::new();
    let options = [&context.settings.jobs.sbatch[..], &launch.sbatch].concat();
    if let Some(pattern) = error_pattern(&options) {
        match expand(pattern, &key.name(), attempt.job_id) {
            Some(name) => files.push(absolute(&workdir, name)),
            None => notes.push(format!("its errors go to {pattern}; only Slurm knows the file's name")),
        }
    }
    (workdir, notes, files)
}

/// Returns the value of `--error` among sbatch options; the last one counts.
fn error_pattern(options: &[String]) -> Option<&str> {
    let mut value = None;
    for (place, word) in options.iter().enumerate() {
        let next = options.get(place + 1).map(String::as_str);
        value = match word.strip_prefix("--err") {
            Some(rest) => rest.split_once('=').map(|(_, file)| file).or(next),
            None if word == "-e" => next,
            None => word.strip_prefix("-e").filter(|_| !word.starts_with("--")).or(value),
        };
    }
    value
}

/// Returns the file for a Slurm file name pattern; `None` if it has a backslash, or needs more than the job's
/// name and id.
fn expand(pattern: &str, name: &str, job_id: Option<JobId>) -> Option<String> {
    let (mut text, mut letters) = (String::new(), pattern.chars());
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => return None,
            '%' => match letters.next()? {
                '%' => text.push('%'),
                'x' => text.push_str(name),
                'j' | 'A' => text.push_str(&job_id?.to_string()),
                _ => return None,
            },
            other => text.push(other),
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_errors_is_found_in_every_spelling() {
        let check = |options: &[&str], expected: Option<&str>| {
            let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
            assert_eq!(error_pattern(&options), expected, "{options:?}");
        };
        check(&["--exclusive", "-H", "--export=NONE"], None);
        check(&["--error=a.err"], Some("a.err"));
        check(&["--error", "a.err", "--hold"], Some("a.err"));
        check(&["-ea.err"], Some("a.err"));
        check(&["-e", "a.err", "--err=b.err"], Some("b.err"));
    }

    #[test]
    fn patterns_are_files_where_the_name_and_number_suffice() {
        let check = |pattern: &str, expected: Option<&str>| {
            assert_eq!(expand(pattern, "vgg", Some(JobId(7))).as_deref(), expected, "{pattern}");
        };
        check("logs/%x-%j.err", Some("logs/vgg-7.err"));
        check("100%%", Some("100%"));
        check("%x.%N", None);
        check("%", None);
        check("%4j", None);
    }
}
