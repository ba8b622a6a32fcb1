//! How a job is started: its command, environment, shell lines and Slurm options.
//!
//! What ends up in an `sbatch` option or in one line of a script may hold no control characters: a
//! newline there would be a new directive.

use std::collections::BTreeSet;

use super::problem::{ValueError, quoted};
use super::reader::{Fields, Value, all};
use super::size::parse_size;
use crate::{Checkpoint, Command, Copies, CopyOptimizer, Launch, Seconds};

/// Variables that the launcher or Slurm sets for every rank, and those that its scripts work with.
const RESERVED: [&str; 6] =
    ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"];
const RESERVED_PREFIXES: [&str; 3] = ["HSCHED_", "SLURM_", "hs_"];

/// What `hsched_ddp` reads and nobody but the user sets.
const OF_USERS: [&str; 1] = ["HSCHED_GATE_LIMIT_S"];

/// The most copies of a job: each one holds all weights of all others in memory when they are merged.
const MOST_COPIES: u32 = 64;

/// How long copies train apart where nobody says.
const COPY_ROUND: Seconds = Seconds(360.0);

/// Longest name of an environment variable taken.
const NAME_LIMIT: usize = 200;

/// Reads how a job is started; one that never `runs` may lack its command, and has none then.
pub(super) fn read(fields: &Fields<'_>, runs: bool) -> Option<Launch> {
    let option = |key| fields.or(key, None, |value| value.parsed(slurm_name).map(Some));
    let command = match fields.get("command") {
        None if !runs => Some(Command::Words(Vec::new())),
        _ => fields.required("command").and_then(read_command),
    };
    let container = fields.or("container", None, |value| value.parsed(path).map(Some));
    let env = fields.or("env", Vec::new(), read_env);
    let setup = fields.or("setup", Vec::new(), read_lines);
    let node_setup = fields.or("node_setup", Vec::new(), read_lines);
    let workdir = fields.or("workdir", None, |value| value.parsed(path).map(Some));
    let names = |key| fields.or(key, Vec::new(), read_names);
    let (accounts, partitions, qos) = (names("account"), names("partition"), option("qos"));
    let time = fields.or("time", None, |value| positive(value).map(Some));
    let cpus_per_gpu = fields.or("cpus_per_gpu", None, |value| value.whole_u32(1..=1_000_000).map(Some));
    let memory_per_gpu = fields.or("memory_per_gpu", None, |value| value.parsed(parse_size).map(Some));
    let sbatch = fields.or("sbatch", Vec::new(), read_words);
    let checkpoint = fields.or("checkpoint", Checkpoint::default(), read_checkpoint);
    let copies = fields.or("copies", None, |value| read_copies(value).map(Some));
    Some(Launch {
        command: command?,
        container: container?,
        env: env?,
        setup: setup?,
        node_setup: node_setup?,
        workdir: workdir?,
        account: accounts.as_ref()?.first().cloned(),
        other_accounts: accounts?.into_iter().skip(1).collect(),
        partition: partitions.map(|names| (!names.is_empty()).then(|| names.join(",")))?,
        qos: qos?,
        time: time?,
        cpus_per_gpu: cpus_per_gpu?,
        memory_per_gpu: memory_per_gpu?,
        sbatch: sbatch?,
        checkpoint: checkpoint?,
        copies: copies?,
    })
}

/// Returns the text when it holds no control character.
pub fn one_line(text: &str) -> Result<String, ValueError> {
    match text.chars().find(|c| c.is_control()) {
        None => Ok(text.to_owned()),
        Some(character) => {
            Err(ValueError::new(format!("must not contain control characters, got {character:?}")))
        }
    }
}

/// Returns the text when it can be an account, partition or quality of service.
pub fn slurm_name(text: &str) -> Result<String, ValueError> {
    if text.is_empty() || text.chars().any(char::is_whitespace) {
        let message = format!("must be one word, got {}", quoted(text));
        return Err(ValueError::new(message));
    }
    one_line(text)
}

/// Returns the words of a shell-like line of options.
pub fn split_words(line: &str) -> Result<Vec<String>, ValueError> {
    let words = shell_words::split(line)
        .map_err(|error| ValueError::new(format!("cannot be split into words: {error}")))?;
    words.iter().map(|word| one_line(word)).collect()
}

/// Returns the lines of a block of shell text, without blank ones at its end.
pub fn shell_lines(block: &str) -> Result<Vec<String>, ValueError> {
    no_nul(block)?;
    Ok(block.trim_end().lines().map(ToOwned::to_owned).collect())
}

/// Returns the text when a shell can be given it.
pub fn no_nul(text: &str) -> Result<String, ValueError> {
    if text.contains('\0') {
        return Err(ValueError::new("must not contain a NUL character"));
    }
    Ok(text.to_owned())
}

/// Reads an account or partition, or a list of them.
fn read_names(value: &Value<'_>) -> Option<Vec<String>> {
    if !value.is_list() {
        return value.parsed(slurm_name).map(|name| vec![name]);
    }
    let names = all(value.items().iter().map(|item| item.parsed(slurm_name)))?;
    if names.is_empty() {
        value.report(ValueError::new("must not be empty"));
    }
    Some(names)
}

fn path(text: &str) -> Result<String, ValueError> {
    if text.is_empty() {
        return Err(ValueError::new("must not be empty"));
    }
    one_line(text)
}

/// What `hsched import` writes where only the owner knows the value.
pub const TODO: &str = "TODO";

fn positive(value: &Value<'_>) -> Option<Seconds> {
    let slurms = |hint| format!("{hint} (Slurm would read it as minutes)");
    let duration = value.duration_with(slurms)?;
    let checked = if duration.0 > 0.0 { Ok(duration) } else { Err(ValueError::new("must be above 0")) };
    value.accept(checked)
}

fn read_command(value: &Value<'_>) -> Option<Command> {
    let empty = || ValueError::new("must not be empty");
    if !value.is_list() {
        let line = value.parsed(no_nul)?;
        if line.trim() == TODO {
            value.report(ValueError::new(format!("is still {TODO}")).hint("write what each rank runs"));
            return None;
        }
        return value.accept(if line.trim().is_empty() { Err(empty()) } else { Ok(Command::Shell(line)) });
    }
    let words = all(value.items().iter().map(|item| item.parsed(no_nul)))?;
    if words.first().is_none_or(String::is_empty) {
        value.report(empty());
    }
    Some(Command::Words(words))
}

/// Reads a map of variables, or a list of `NAME=value`, which keeps its order in JSON too.
fn read_env(value: &Value<'_>) -> Option<Vec<(String, String)>> {
    if !value.is_list() {
        return all(value.entries().into_iter().map(|(name, item)| {
            let checked = item.accept(variable(name));
            let text = item.parsed(no_nul);
            Some((checked?, text?))
        }));
    }
    let mut seen = BTreeSet::new();
    all(value.items().iter().map(|item| {
        let (name, text) = item.parsed(|text| {
            let (name, text) = text
                .split_once('=')
                .ok_or_else(|| ValueError::new(format!("must be NAME=value, got {}", quoted(text))))?;
            Ok((variable(name)?, no_nul(text)?))
        })?;
        if !seen.insert(name.clone()) {
            item.report(ValueError::new(format!("sets {name} twice")));
        }
        Some((name, text))
    }))
}

/// Returns the name when it can be a variable of a job's environment.
pub(super) fn variable(name: &str) -> Result<String, ValueError> {
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let fits = name.len() <= NAME_LIMIT && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !starts_well || !fits {
        let hint = "use only letters, digits and _, and do not start with a digit";
        return Err(ValueError::new(format!("{} is not a valid variable name", quoted(name))).hint(hint));
    }
    let is_reserved =
        RESERVED.contains(&name) || RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    if is_reserved && !OF_USERS.contains(&name) {
        let message = format!("hsched sets {name} for every rank; a job cannot set it");
        return Err(ValueError::new(message).hint("remove it"));
    }
    Ok(name.to_owned())
}

/// Reads shell lines: a list with one item each, or one block of text.
fn read_lines(value: &Value<'_>) -> Option<Vec<String>> {
    if value.is_list() || value.is_nothing() {
        return all(value.items().iter().map(|item| item.parsed(no_nul)));
    }
    value.parsed(shell_lines)
}

/// Reads words: a list with one item each, or one text split as a shell splits it.
fn read_words(value: &Value<'_>) -> Option<Vec<String>> {
    if value.is_list() || value.is_nothing() {
        return all(value.items().iter().map(|item| item.parsed(one_line)));
    }
    value.parsed(split_words)
}

fn read_copies(value: &Value<'_>) -> Option<Copies> {
    let fields = value.fields(&["max", "round", "optimizer", "number"]);
    let max = fields.required("max").and_then(|value| value.whole_u32(1..=MOST_COPIES));
    let round = fields.or("round", COPY_ROUND, positive);
    let optimizer =
        fields.or("optimizer", CopyOptimizer::default(), |value| value.word_of(&CopyOptimizer::NAMES));
    // Written by hsched alone, into what it keeps of each copy.
    let number = fields.or("number", None, |value| value.whole_u32(1..=MOST_COPIES).map(Some));
    Some(Copies { max: max?, round: round?, optimizer: optimizer?, number: number? })
}

fn read_checkpoint(value: &Value<'_>) -> Option<Checkpoint> {
    let fields = value.fields(&["dir", "grace", "restart_cost"]);
    let dir = fields.or("dir", None, |value| value.parsed(path).map(Some));
    let grace = fields.or("grace", None, |value| value.duration().map(Some));
    let restart_cost = fields.or("restart_cost", None, |value| value.duration().map(Some));
    Some(Checkpoint { dir: dir?, grace: grace?, restart_cost: restart_cost? })
}
