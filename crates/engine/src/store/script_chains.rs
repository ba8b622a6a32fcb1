//! Scripts that run in pieces, read from their folders in the state directory without asking Slurm.

#![expect(clippy::disallowed_methods, reason = "store alone reads and writes the state directory")]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::files::write_error;
use super::{StateError, pieces_folder};
use hsched_model::JobId;

/// A script that runs in pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptChain {
    /// The name of the script.
    pub name: String,
    /// Unique id of the chain.
    pub run: String,
    pub folder: PathBuf,
    /// The directory in which the script was submitted; older versions did not store it.
    pub workdir: Option<PathBuf>,
    /// The Slurm jobs of the script's ended pieces with their exit statuses, in order.
    ended: Vec<(JobId, u32)>,
    /// The Slurm jobs of the script's started pieces.
    started: Vec<JobId>,
    /// The Slurm jobs of the script's submitted pieces.
    queued: Vec<JobId>,
    is_cancelled: bool,
    /// Whether the piece after the last started one found that the chain had been cancelled.
    is_left: bool,
}

/// The state of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainState {
    Pending,
    Running,
    Completed,
    Failed,
    Cancelled,
    /// The last piece has ended, and no other piece is in the queue.
    Stopped,
}

/// Exit statuses of pieces after which the next one resumes.
const RESUMES: [u32; 3] = [85, 86, 143];

/// The file that names the directory in which a chain was submitted.
pub const WORKDIR: &str = "workdir";

/// The file whose presence ends a chain.
const CANCELLED: &str = "cancelled";

impl ChainState {
    /// Returns the state as one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Stopped => "stopped",
        }
    }

    /// Returns whether no further piece will run.
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }
}

impl ScriptChain {
    /// Returns the chain's state. A piece that was killed completely counts as running until the next one
    /// starts.
    pub fn state(&self) -> ChainState {
        let end =
            |job: JobId| self.ended.iter().find(|(job_id, _)| *job_id == job).map(|(_, status)| *status);
        if self.is_cancelled {
            return ChainState::Cancelled;
        }
        match self.ended.iter().map(|(_, status)| *status).find(|status| !RESUMES.contains(status)) {
            Some(0) => ChainState::Completed,
            Some(_) => ChainState::Failed,
            None if self.is_left => ChainState::Cancelled,
            None if self.started.last().is_some_and(|job| end(*job).is_none()) => ChainState::Running,
            None if !self.queued.is_empty() && self.next_piece().is_none() => ChainState::Stopped,
            None => ChainState::Pending,
        }
    }

    /// Returns how many pieces have started.
    pub fn pieces(&self) -> usize {
        self.started.len()
    }

    /// Returns the Slurm jobs of the pieces that have started, in order.
    pub fn started(&self) -> &[JobId] {
        &self.started
    }

    /// Returns the Slurm job of the running piece, else of the next one.
    pub fn job(&self) -> Option<JobId> {
        match self.state() {
            ChainState::Running => self.started.last().copied(),
            ChainState::Pending => self.next_piece(),
            _ => None,
        }
    }

    /// Returns the Slurm job of the piece that is to start next. The first piece, which submits the next one,
    /// may be listed after it.
    fn next_piece(&self) -> Option<JobId> {
        self.queued.iter().rfind(|job| !self.started.contains(job)).copied()
    }

    /// Returns the Slurm jobs that have not ended, as far as the files show.
    pub fn open_jobs(&self) -> Vec<JobId> {
        let has_ended = |job: &JobId| self.ended.iter().any(|(job_id, _)| job_id == job);
        self.queued.iter().copied().filter(|job| !has_ended(job)).collect()
    }

    /// Marks the chain as cancelled: no further piece runs the script.
    ///
    /// # Errors
    /// If its folder cannot be written.
    pub fn cancel(&self) -> Result<(), StateError> {
        let report = self.folder.join("report");
        let path = report.join(CANCELLED);
        fs::create_dir_all(&report).and_then(|()| fs::write(&path, "")).map_err(write_error(&path))
    }
}

/// Returns the chains of a state directory, the oldest first. A folder without a script is omitted; other
/// files that are missing or unreadable count as empty.
pub fn script_chains(root: &Path) -> Vec<ScriptChain> {
    let entries = fs::read_dir(pieces_folder(root, "")).into_iter().flatten();
    let mut folders: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    folders.sort();
    folders.iter().filter_map(|folder| chain(folder)).collect()
}

fn chain(folder: &Path) -> Option<ScriptChain> {
    let text = |name: &str| fs::read_to_string(folder.join("report").join(name)).unwrap_or_default();
    let jobs = |name: &str| text(name).lines().filter_map(|line| line.parse().ok().map(JobId)).collect();
    let script = fs::read_dir(folder.join("script")).ok()?.next()?.ok()?;
    let ended = |line: &str| {
        let mut words = line.split(' ');
        Some((JobId(words.next()?.parse().ok()?), words.next()?.parse().ok()?))
    };
    let started: Vec<JobId> = jobs("started");
    // A piece that finds its chain cancelled takes the claim and exits without recording its end.
    let is_left = started.last().is_some_and(|job| {
        let claim = folder.join("report").join(format!("claim-after-{job}"));
        fs::read_link(claim).is_ok_and(|of| of.as_os_str() == job.to_string().as_str())
    });
    Some(ScriptChain {
        name: script.file_name().to_str()?.to_owned(),
        run: folder.file_name()?.to_str()?.to_owned(),
        folder: folder.to_owned(),
        workdir: fs::read_to_string(folder.join(WORKDIR)).ok().map(PathBuf::from),
        ended: text("ends").lines().filter_map(ended).collect(),
        started,
        queued: jobs("queued"),
        is_cancelled: folder.join("report").join(CANCELLED).exists(),
        is_left,
    })
}

/// Stores the Slurm job of the first piece.
///
/// # Errors
/// If its folder cannot be written.
pub fn keep_first_piece(root: &Path, run: &str, job: JobId) -> Result<(), StateError> {
    let report = pieces_folder(root, run).join("report");
    let path = report.join("queued");
    // The piece may already have started and submitted the next one.
    let mut options = fs::OpenOptions::new();
    let file = fs::create_dir_all(&report).and_then(|()| options.create(true).append(true).open(&path));
    file.and_then(|mut file| writeln!(file, "{job}")).map_err(write_error(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_tell_where_a_chain_stands() {
        let check = |ends: &[(u32, u32)], started: &[u32], queued: &[u32]| {
            let jobs = |ids: &[u32]| ids.iter().map(|id| JobId(*id)).collect();
            let chain = ScriptChain {
                name: "x.sh".to_owned(),
                run: "r".to_owned(),
                folder: PathBuf::new(),
                workdir: None,
                ended: ends.iter().map(|(id, status)| (JobId(*id), *status)).collect(),
                started: jobs(started),
                queued: jobs(queued),
                is_cancelled: false,
                is_left: false,
            };
            let open: Vec<String> = chain.open_jobs().iter().map(ToString::to_string).collect();
            (chain.state(), chain.job().map(|job| job.to_string()), open.join(" "))
        };
        let (seven, eight) = (Some("7".to_owned()), Some("8".to_owned()));
        assert_eq!(check(&[], &[], &[7]), (ChainState::Pending, seven.clone(), "7".to_owned()));
        assert_eq!(check(&[], &[7], &[7, 8]), (ChainState::Running, seven, "7 8".to_owned()));
        assert_eq!(check(&[(7, 85)], &[7], &[7, 8]), (ChainState::Pending, eight.clone(), "8".to_owned()));
        assert_eq!(check(&[(7, 85)], &[7], &[8, 7]), (ChainState::Pending, eight.clone(), "8".to_owned()));
        assert_eq!(check(&[(7, 85)], &[7, 8], &[7, 8, 9]), (ChainState::Running, eight, "8 9".to_owned()));
        assert_eq!(
            check(&[(7, 85), (8, 0)], &[7, 8], &[7, 8, 9]),
            (ChainState::Completed, None, "9".to_owned())
        );
        assert_eq!(check(&[(7, 85)], &[7], &[7]), (ChainState::Stopped, None, String::new()));
        // A piece that was killed has recorded no end.
        assert_eq!(check(&[(8, 85)], &[7, 8], &[7, 8]), (ChainState::Stopped, None, "7".to_owned()));
        assert_eq!(check(&[(7, 3)], &[7], &[7, 8]).0, ChainState::Failed);
    }
}
