//! `hsched submit SCRIPT --pieces TIME`: submits a user's script, unchanged, as a chain of Slurm jobs.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::app::context::{Context, Format};
use crate::app::slurm::script::{Script, ScriptFile};
use crate::app::slurm::script_files::WRAPPER;
use crate::app::{file_kind, input, state};
use crate::commands::cli::{json_text, print};
use crate::commands::script::submit::is_own_cluster;
use hsched_engine::render::Pieces;
use hsched_engine::store::{StateDir, WORKDIR, keep_first_piece, pieces_folder};
use hsched_model::formats::ValueError;
use hsched_model::number::to_u64;
use hsched_model::{ErrorId, JobId, Seconds, formats};
use hsched_slurm::script::{OptionSource, ScriptReading};
use hsched_slurm::{RequestError, sbatch};
use hsched_ui::{Exit, Failure, duration};

/// How a script is divided into pieces.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Scripts")]
pub(in crate::commands) struct PiecesArgs {
    /// Run a batch script, unchanged, in pieces of this time limit, such as 12h.
    ///
    /// The script must save checkpoints regularly, or on SIGUSR1 or SIGTERM, and resume from the last one. Each piece is a
    /// Slurm job that runs the script and submits the next piece, which is pending in the meantime; hsched need not run. The
    /// chain ends when the script exits with 0, or when no checkpoint has changed in a piece.
    #[arg(long, value_name = "TIME", value_parser = time,
          conflicts_with_all = ["jobs", "restart", "queue", "race", "together", "pin"])]
    pub pieces: Option<Seconds>,
    /// With --pieces: the files that show that the script has saved, such as 'runs/**/*.pt'; may be given
    /// several times [default: files with the endings and folders of `PyTorch`, Lightning and Hugging Face
    /// checkpoints, and other files of more than 1 MB except logs, that change in the working directory].
    #[arg(long, value_name = "PATTERN", requires = "pieces")]
    checkpoint: Vec<String>,
}

/// Minimum time limit of a piece.
const LEAST: Seconds = Seconds(60.0);

/// Options that would apply to each piece, or that prevent its submission.
const NOT_IN_PIECES: [&str; 5] = ["wait", "test-only", "hold", "begin", "deadline"];

/// The submission of a chain.
pub(in crate::commands) struct Chain<'a> {
    pub script: &'a Path,
    pub run: &'a str,
    pub limit: Seconds,
    /// Options for sbatch.
    pub sbatch: &'a [String],
    pub dry_run: bool,
    pub format: Format,
}

impl PiecesArgs {
    /// Submits the first piece of a script.
    ///
    /// # Errors
    /// If the script cannot run in pieces, or Slurm refuses it.
    pub(in crate::commands) fn submit(&self, context: &Context, chain: &Chain) -> Result<Exit, Failure> {
        let bytes = input::bytes(chain.script)?;
        let text = String::from_utf8_lossy(&bytes);
        file_kind::refuse_no_script(&text, chain.script)?;
        let name = chain
            .script
            .file_name()
            .and_then(|name| name.to_str())
            .filter(|_| chain.script != Path::new("-"));
        let name = name.unwrap_or("script");
        if name.contains(char::is_control) {
            let message = format!("{name:?}: the name of the script has a control character");
            return Err(Failure::new(Exit::BadInput, message).id(ErrorId::NameFormat).hint("rename it"));
        }
        let file = ScriptFile { path: PathBuf::from(name), bytes: bytes.clone() };
        let script = Script::new(Some(file), chain.sbatch);
        let reading = script.reading(None);
        refuse(chain.script, &reading)?;
        if reading
            .options
            .iter()
            .any(|option| option.name == "time" && matches!(option.source, OptionSource::CommandLine(_)))
        {
            context.note("the limit is that of --pieces; --time behind -- does not count");
        }
        let root = state::root(context)?;
        let folder = pieces_folder(&root, chain.run);
        let asked = script.options(&reading, &[]);
        let text = self.wrapper(context, chain, &folder, (name, &text), &reading, asked)?;
        if chain.dry_run {
            return said(context, chain, name, &folder, &FirstPiece::Shown { script: &text });
        }
        let directory = state::open(context)?;
        let (wrapper, original) = (Path::new(WRAPPER).join(name), Path::new("script").join(name));
        let workdir = context.directory.as_os_str().as_bytes();
        let files: [(&Path, &[u8]); 3] =
            [(&wrapper, text.as_bytes()), (&original, &bytes), (Path::new(WORKDIR), workdir)];
        directory.create_pieces(chain.run, &files).map_err(|error| state::failure(&error))?;
        let id = first_piece(context, &directory, chain.run, &folder.join(wrapper))?;
        if let Err(error) = keep_first_piece(&root, chain.run, id) {
            context.warn(&format!("hsched cancel will not know job {id}: {error}"));
        }
        said(context, chain, name, &folder, &FirstPiece::Submitted { job_id: id.to_string() })
    }

    /// Returns the text of the wrapper script, with the options of the environment and the command line in `asked`.
    fn wrapper(
        &self,
        context: &Context,
        chain: &Chain,
        folder: &Path,
        (name, text): (&str, &str),
        reading: &ScriptReading,
        asked: Vec<String>,
    ) -> Result<String, Failure> {
        let utf8 = |path: &Path| {
            let text = path.to_str().map(str::to_owned);
            text.ok_or_else(|| {
                Failure::new(Exit::BadInput, format!("{}: is not UTF-8", path.display()))
                    .id(ErrorId::FileEncoding)
            })
        };
        let (signal, notice) = own_signal(reading);
        let usual = notice.unwrap_or(context.settings.jobs.grace);
        let grace = Seconds(usual.0.min(chain.limit.0 / 4.0).floor());
        let (wrapper, script) =
            (utf8(&folder.join(WRAPPER).join(name))?, utf8(&folder.join("script").join(name))?);
        let chain_options = Pieces::options(chain.limit, grace).into_iter().map(|option| vec![option]);
        let asked = (!asked.is_empty()).then_some(asked);
        let pieces = Pieces {
            name,
            run: chain.run,
            header: &header(text),
            options: asked.into_iter().chain(chain_options).collect(),
            wrapper: &wrapper,
            script: &script,
            report_dir: &utf8(&folder.join("report"))?,
            limit_s: to_u64(60.0 * (chain.limit.0 / 60.0).ceil()),
            grace_s: to_u64(grace.0),
            signal: &signal,
            retries: RETRIES,
            depends: reading.options.iter().any(|option| option.name == "dependency"),
            patterns: &self.checkpoint,
        };
        let template = input::template(context)?;
        pieces.render(&template).map_err(|error| Failure::from_error(Exit::Internal, &error))
    }
}

/// Submits the first piece. If Slurm has certainly not accepted it, the chain is removed.
fn first_piece(context: &Context, directory: &StateDir, run: &str, wrapper: &Path) -> Result<JobId, Failure> {
    let command = sbatch::command(&wrapper.display().to_string(), &[]);
    sbatch::submit(&context.slurm, &command).map(|submitted| submitted.id).map_err(|error| {
        if let RequestError::Unclear { .. } = error {
            return Failure::from_error(Exit::Failed, &error)
                .id(ErrorId::SlurmUnclear)
                .hint(format!("the script is {}", wrapper.display()));
        }
        directory.remove_pieces(run);
        let (exit, id) = match error {
            RequestError::Unreachable { .. } => (Exit::SlurmUnavailable, ErrorId::SlurmUnreachable),
            _ => (Exit::Failed, ErrorId::SlurmRefused),
        };
        Failure::from_error(exit, &error).id(id)
    })
}

/// Number of consecutive pieces that may fail although they saved.
const RETRIES: u32 = 3;

/// Refuses scripts that sbatch refuses, options that do not work in pieces, and scripts that are not a single
/// job.
fn refuse(path: &Path, reading: &ScriptReading) -> Result<(), Failure> {
    let file = input::name(path);
    let wrong =
        |why: &str| Err(Failure::new(Exit::BadInput, format!("{file}: {why}")).id(ErrorId::ScriptPieces));
    if let Some(why) = &reading.refused {
        return wrong(&format!("sbatch refuses this script: {why}"));
    }
    if let Some(option) = reading.options.iter().find(|option| NOT_IN_PIECES.contains(&option.name.as_str()))
    {
        return wrong(&format!("--{} cannot be used with --pieces; remove it", option.name));
    }
    if reading.options.iter().any(|option| option.name == "clusters" && !is_own_cluster(option)) {
        return wrong(
            "--clusters cannot be used: a state directory belongs to one cluster; run hsched on a login node of that cluster",
        );
    }
    let Some(request) = &reading.request else { return Ok(()) };
    if request.array.is_some() {
        return wrong("a job array cannot run in pieces; submit each task without --array");
    }
    if !request.components.is_empty() {
        return wrong("a heterogeneous job cannot run in pieces");
    }
    Ok(())
}

/// Returns the signal of the script's own `--signal`, without `SIG`, and its time before the limit; an empty
/// signal and `None` without this option.
fn own_signal(reading: &ScriptReading) -> (String, Option<Seconds>) {
    let value = reading.options.iter().rev().find(|option| option.name == "signal");
    let Some(value) = value.and_then(|option| option.value.as_deref()) else { return (String::new(), None) };
    let (signal, seconds) = value.split_once('@').unwrap_or((value, ""));
    let signal = signal.rsplit_once(':').map_or(signal, |(_, signal)| signal).to_uppercase();
    let signal = signal.strip_prefix("SIG").unwrap_or(&signal).to_owned();
    // Slurm's default is a minute.
    let seconds = if seconds.is_empty() { Some(60.0) } else { seconds.parse::<u32>().ok().map(f64::from) };
    let is_plain = !signal.is_empty() && signal.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_plain { (signal, seconds.map(Seconds)) } else { (String::new(), seconds.map(Seconds)) }
}

/// Returns the comment lines at the beginning of a script, without its `#!` line: sbatch reads options only
/// from these.
fn header(text: &str) -> String {
    let lines = text.lines().skip(usize::from(text.starts_with("#!")));
    let lines: Vec<&str> = lines.take_while(|line| line.trim().is_empty() || line.starts_with('#')).collect();
    lines.join("\n")
}

/// The result of submitting the first piece of a chain.
enum FirstPiece<'a> {
    /// A dry run shows the piece's script.
    Shown {
        script: &'a str,
    },
    Submitted {
        job_id: String,
    },
}

/// Reports the submission.
fn said(
    context: &Context,
    chain: &Chain,
    name: &str,
    folder: &Path,
    piece: &FirstPiece<'_>,
) -> Result<Exit, Failure> {
    let text = match (chain.format, piece) {
        (Format::Json, _) => {
            let (job, folder) = match piece {
                FirstPiece::Shown { script } => {
                    let job = json!({
                        "name": name, "state": "dry_run", "job_id": null, "message": null, "script": script,
                    });
                    (job, None)
                }
                FirstPiece::Submitted { job_id } => {
                    let job = json!({"name": name, "state": "submitted", "job_id": job_id, "message": null});
                    (job, Some(folder))
                }
            };
            json_text(
                &json!({"schema": "hsched.submit/1", "run": chain.run, "folder": folder, "jobs": [job]}),
            )?
        }
        (Format::Table, FirstPiece::Submitted { job_id }) => {
            let limit = duration(chain.limit);
            let limit = limit.strip_suffix(" 00 min").unwrap_or(&limit);
            let word = shell_words::quote(name);
            format!(
                "{name}: submitted as job {job_id}, the first piece of {limit}\n\
                 hsched status shows the chain; hsched cancel {word} ends it\n"
            )
        }
        (Format::Table, FirstPiece::Shown { script }) => (*script).to_owned(),
    };
    print(context, &text).map(|()| Exit::Done)
}

fn time(text: &str) -> Result<Seconds, ValueError> {
    let limit = formats::parse_duration(text)?;
    if limit.0 < LEAST.0 {
        let message = format!("must be at least {}", formats::duration_text(LEAST));
        return Err(ValueError::new(message).id(ErrorId::NumberRange));
    }
    Ok(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> ScriptReading {
        let file = ScriptFile { path: PathBuf::from("x"), bytes: text.to_vec() };
        Script::as_submitted(file, &[]).reading(None)
    }

    #[test]
    fn the_header_ends_at_the_first_command() {
        let text =
            "#!/bin/bash -l\n#SBATCH -n 1\n\n# a comment\n#SBATCH --mem=1G\necho\n#SBATCH --gres=gpu:1\n";
        assert_eq!(header(text), "#SBATCH -n 1\n\n# a comment\n#SBATCH --mem=1G");
        assert_eq!(header("python train.py\n#SBATCH -n 1"), "");
    }

    #[test]
    fn a_script_may_say_on_which_signal_it_saves() {
        let check =
            |option: &str| own_signal(&read(format!("#!/bin/bash\n#SBATCH --signal={option}\n").as_bytes()));
        assert_eq!(check("B:TERM@90"), ("TERM".to_owned(), Some(Seconds(90.0))));
        assert_eq!(check("SIGUSR2"), ("USR2".to_owned(), Some(Seconds(60.0))));
        assert_eq!(own_signal(&read(b"#!/bin/bash\n")), (String::new(), None));
    }
}
