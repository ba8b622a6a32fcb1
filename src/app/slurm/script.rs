//! A batch script with its options: its request, and the needs of its past runs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::app::context::Context;
use crate::app::file_kind::has_script_ending;
use crate::app::slurm::cached_query::{SlurmQuery, ask};
use crate::app::slurm::permissions::user_name;
use crate::app::{input, state};
use hsched_engine::clock::Clock;
use hsched_engine::store::OutputCache;
use hsched_model::Seconds;
use hsched_model::formats::parse_duration;
use hsched_model::number::to_u64;
use hsched_queue::{PastRuns, Snapshot};
use hsched_slurm::System;
use hsched_slurm::script::{OptionSource, ScriptReading, ScriptSource, SlurmVersion, read_script};
use hsched_slurm::script_changes::{past_runs, past_runs_command};
use hsched_slurm::site::Config;
use hsched_ui::Failure;

/// The input of `sbatch`.
pub(crate) struct Script {
    /// `None`: no script, as for `salloc` and `srun`.
    pub file: Option<ScriptFile>,
    /// Options of the command line, one word per entry.
    pub words: Vec<String>,
    pub notes: Vec<String>,
    environment: BTreeMap<String, String>,
}

/// A script and its path.
pub(crate) struct ScriptFile {
    pub path: PathBuf,
    pub bytes: Vec<u8>,
}

/// Interval for querying past runs.
const HOUR: Seconds = Seconds(3600.0);

/// Time limit of a query.
const LIMIT: Duration = Duration::from_secs(10);

impl Script {
    /// Returns a script with `sbatch` options and those of the environment.
    ///
    /// Without a script, times such as `4h`, which Slurm does not accept, are converted; `notes` say so.
    pub(crate) fn new(file: Option<ScriptFile>, words: &[String]) -> Self {
        let (mut words, mut notes) = (words.to_vec(), Vec::new());
        if file.is_none() {
            for place in 0..words.len() {
                let follows = place > 0 && matches!(words[place - 1].as_str(), "-t" | "--time");
                let Some((option, value)) = time_value(&words[place], follows) else { continue };
                let Some(clock) = clock_of(value) else { continue };
                notes.push(format!("Slurm does not read the time {value}: write --time={clock}"));
                words[place] = format!("{option}{clock}");
            }
        }
        let plain = crate::settings::process_environment()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Self { file, words, notes, environment: plain.collect() }
    }

    /// Returns a script as submitted, with options that include those of the environment.
    pub(crate) fn as_submitted(file: ScriptFile, options: &[String]) -> Self {
        let (words, environment) = (options.to_vec(), BTreeMap::new());
        Self { file: Some(file), words, notes: Vec::new(), environment }
    }

    /// Returns the same script with other options of the command line.
    pub(crate) fn with_options(self, options: Vec<String>) -> Self {
        Self { words: options, ..self }
    }

    /// Returns the display name of the script's file.
    pub(crate) fn name(&self) -> String {
        self.file.as_ref().map_or_else(|| "this request".to_owned(), |file| input::name(&file.path))
    }

    /// Returns `sbatch`'s interpretation of the script.
    pub(crate) fn reading(&self, version: Option<SlurmVersion>) -> ScriptReading {
        self.reading_of(self.file.as_ref().map(|file| file.bytes.as_slice()), &[], version)
    }

    /// Returns `sbatch`'s interpretation of the script with a different text and more options.
    pub(crate) fn reading_of(
        &self,
        text: Option<&[u8]>,
        more: &[String],
        version: Option<SlurmVersion>,
    ) -> ScriptReading {
        let file_name = self.file.as_ref().and_then(|file| file.path.file_name());
        let file_name = file_name.map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let command_line = [&self.words[..], more].concat();
        read_script(&ScriptSource {
            script: text,
            file_name: &file_name,
            command_line: &command_line,
            environment: &self.environment,
            version,
        })
    }

    /// Returns the options for its submission: those of the environment, which hsched does not pass on to
    /// Slurm's programs, those of the command line, and additional ones.
    pub(crate) fn options(&self, reading: &ScriptReading, more: &[String]) -> Vec<String> {
        let of_environment = reading.options.iter().filter_map(|option| match &option.source {
            OptionSource::Environment(_) => Some(match &option.value {
                Some(value) => format!("--{}={value}", option.name),
                None => format!("--{}", option.name),
            }),
            OptionSource::Script { .. } | OptionSource::CommandLine(_) => None,
        });
        of_environment.chain(self.words.iter().cloned()).chain(more.iter().cloned()).collect()
    }

    /// Returns the cache key of answers about this script with these options.
    pub(crate) fn key(&self, of: &str) -> String {
        let path = self.file.as_ref().map_or(&[][..], |file| file.path.as_os_str().as_bytes());
        let text = self.file.as_ref().map_or(&[][..], |file| &file.bytes);
        let words = self.words.iter().map(String::as_bytes);
        answer_name(of, [path, text].into_iter().chain(words))
    }
}

/// Returns the value of a time limit option and the text before it; `follows` says whether the previous word
/// was the option.
fn time_value(word: &str, follows: bool) -> Option<(&str, &str)> {
    let option = ["--time=", "-t"].into_iter().find(|option| word.starts_with(option));
    match option {
        _ if follows => Some(("", word)),
        Some(option) => Some((option, &word[option.len()..])),
        None => None,
    }
}

/// Converts a time with a unit, such as `4h` or `90min`, to Slurm's format; `None` for other text.
fn clock_of(text: &str) -> Option<String> {
    if text.ends_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let minutes = to_u64((parse_duration(text).ok()?.0 / 60.0).ceil());
    Some(format!("{}:{:02}:00", minutes / 60, minutes % 60))
}

/// Returns whether a file is a batch script: it begins with `#!` or has `#SBATCH` lines, or its name has a
/// script extension.
pub(crate) fn is_script(text: &[u8], path: &Path) -> bool {
    let mut lines = text.split(|byte| *byte == b'\n');
    text.starts_with(b"#!") || lines.any(|line| line.starts_with(b"#SBATCH")) || has_script_ending(path)
}

/// Returns the file at this path if it is a batch script; `None` also for standard input.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn script_file(path: &Path) -> Result<Option<ScriptFile>, Failure> {
    if path == Path::new("-") {
        return Ok(None);
    }
    let bytes = input::raw_bytes(path)?;
    Ok(is_script(&bytes, path).then(|| ScriptFile { path: path.to_owned(), bytes }))
}

/// Returns the cache file name of an answer about some texts.
fn answer_name<'a>(of: &str, texts: impl Iterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update(text.len().to_le_bytes());
        hash.update(text);
    }
    let digest = hash.finalize();
    let mut name = format!("{of}-");
    for byte in &digest[..8] {
        let _ = write!(name, "{byte:02x}");
    }
    name
}

/// Returns the past runs with a name, from an answer that is at most an hour old, or the last one if Slurm
/// does not answer; without any, a note says why. Without accounting there are none, which the notes on the
/// queue say.
///
/// # Errors
/// If no state directory is known.
pub(crate) fn past_runs_of(
    context: &Context,
    name: &str,
    snapshot: &Snapshot,
) -> Result<(PastRuns, Option<String>), Failure> {
    if context.slurm.config().is_some_and(Config::lacks_accounting) {
        return Ok((PastRuns::default(), None));
    }
    let limit_s = context.settings.slurm_timeout.0.min(LIMIT.as_secs_f64());
    let limit = Duration::try_from_secs_f64(limit_s).unwrap_or(LIMIT);
    let slurm = System::new(crate::settings::process_environment(), limit);
    let answers = OutputCache::of(&state::root(context)?);
    let file = answer_name("past-runs", [name.as_bytes()].into_iter());
    let command = past_runs_command(name, &user_name(), context.clock.now());
    let answer = ask(SlurmQuery { name: &file, good_for: HOUR }, &command, &slurm, &context.clock, &answers);
    let note = answer.text.is_none().then(|| {
        let why = answer.failure.as_deref().unwrap_or("Slurm printed nothing");
        format!("past runs of {name} are unknown: {why}")
    });
    Ok((past_runs(answer.text.as_deref().unwrap_or_default(), snapshot), note))
}
