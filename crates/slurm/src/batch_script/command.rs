//! The line that starts a training, as each rank runs it: without the launchers around it.

use std::path::Path;

use super::words::{assignment, literal, split};

/// What a line starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Started {
    /// What each rank runs, as a shell line; empty where that cannot be told.
    pub command: String,
    /// Assignments before it, as they are written.
    pub environment: Vec<(String, String)>,
    /// The launchers, with their options that are dropped.
    pub launchers: Vec<String>,
    /// What else is to be said.
    pub remarks: Vec<String>,
}

/// Programs that start one process for each GPU or task.
const LAUNCHERS: [&str; 7] =
    ["torchrun", "accelerate", "deepspeed", "mpirun", "mpiexec", "horovodrun", "torch.distributed"];

/// Programs that run another in surroundings of its own.
const WRAPPERS: [&str; 9] =
    ["apptainer", "singularity", "conda", "mamba", "micromamba", "uv", "poetry", "numactl", "nice"];

/// Programs that prepare or tell something, and train nothing.
const TOOLS: [&str; 20] = [
    "cp",
    "mv",
    "rm",
    "mkdir",
    "tar",
    "unzip",
    "rsync",
    "scp",
    "ln",
    "cat",
    "echo",
    "hostname",
    "date",
    "nvidia-smi",
    "env",
    "ls",
    "df",
    "sleep",
    "true",
    "module",
];

/// Options of srun without a value.
const SRUN_FLAGS: [&str; 10] = [
    "--exclusive",
    "--overlap",
    "--unbuffered",
    "--label",
    "--kill-on-bad-exit",
    "--pty",
    "--quiet",
    "--verbose",
    "--exact",
    "--whole",
];

/// Modules of Python that train nothing.
const MODULES: [&str; 6] = ["venv", "virtualenv", "pip", "ensurepip", "zipfile", "compileall"];

/// Returns what a command starts, if it is a training; `words` are as they are written.
pub(super) fn started(words: &[String]) -> Option<Started> {
    let mut own = Started::default();
    let mut words = words.to_vec();
    while let Some((name, value)) = words.first().and_then(|word| assignment(word)) {
        own.environment.push((name.to_owned(), value.to_owned()));
        words.remove(0);
    }
    while words.first().is_some_and(|word| ["exec", "time", "nohup"].contains(&word.as_str())) {
        words.remove(0);
    }
    let by_srun = words.first().is_some_and(|word| program(word) == "srun");
    if by_srun {
        let options = srun_options(&words);
        own.launchers.push(words[..=options].join(" "));
        words.drain(..=options);
    }
    trim(&mut words, &mut own);
    if let Some((shell, line)) = inner(&words) {
        // What runs the shell in surroundings of its own, such as a container, stays around the command.
        let around = words[..shell].to_vec();
        return of_shell(&line, own, by_srun).map(|own| wrap(own, &around, &words));
    }
    if !strip_launcher(&mut words, &mut own) {
        let first = program(words.first()?);
        let wraps = WRAPPERS.contains(&first) || by_srun;
        let python = words.iter().position(|word| is_python(word));
        match python.filter(|place| *place == 0 || wraps) {
            Some(place) if trains(&words[place + 1..]) => {}
            None if by_srun && !TOOLS.contains(&first) => {}
            _ => return None,
        }
    }
    own.command = words.join(" ");
    Some(own)
}

/// Returns whether a command may start a training that cannot be looked into: a script of the user.
pub(super) fn is_opaque(words: &[String]) -> bool {
    let Some(first) = words.iter().find(|word| assignment(word).is_none()) else { return false };
    let shell = ["bash", "sh"].contains(&program(first)) && words.iter().any(|word| is_file(word, "sh"));
    shell || first.starts_with("./") || program(first) == "sbatch"
}

/// Returns the last part of a program's path, without quotes.
fn program(word: &str) -> &str {
    let word = word.trim_matches(['"', '\'']);
    word.rsplit('/').next().unwrap_or(word)
}

/// Returns whether a word names a file with this ending.
fn is_file(word: &str, ending: &str) -> bool {
    Path::new(word.trim_matches(['"', '\''])).extension().is_some_and(|own| own == ending)
}

fn is_python(word: &str) -> bool {
    let rest = program(word).strip_prefix("python");
    rest.is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

/// Returns whether Python trains with these arguments, as far as can be told.
fn trains(arguments: &[String]) -> bool {
    let mut arguments =
        arguments.iter().map(String::as_str).skip_while(|word| ["-u", "-O", "-B"].contains(word));
    match arguments.next() {
        None | Some("-c" | "-V" | "--version" | "-") => false,
        Some("-m") => arguments.next().is_some_and(|module| !MODULES.contains(&module)),
        Some(_) => true,
    }
}

/// Returns the place of srun's last option.
fn srun_options(words: &[String]) -> usize {
    let mut place = 1;
    while let Some(word) = words.get(place).filter(|word| word.starts_with('-')) {
        let alone = if word.starts_with("--") {
            word.contains('=') || SRUN_FLAGS.contains(&word.as_str())
        } else {
            word.len() > 2 || ["-u", "-l", "-K", "-v", "-Q", "-s", "-O", "-Z"].contains(&word.as_str())
        };
        place += if alone { 1 } else { 2 };
    }
    (place - 1).min(words.len().saturating_sub(1))
}

/// Drops what follows a command: where its output goes, and that it runs in the background.
fn trim(words: &mut Vec<String>, own: &mut Started) {
    let redirects = |word: &str| {
        let rest = word.trim_start_matches(|c: char| c.is_ascii_digit());
        rest.starts_with(['>', '<']) || rest.starts_with("&>")
    };
    let cut = words.iter().position(|word| word.starts_with('|') || word == "&" || redirects(word));
    let Some(cut) = cut else { return };
    let rest: Vec<String> = words.drain(cut..).collect();
    if rest != ["&"] {
        own.remarks.push(format!("{}: dropped; the output of ranks goes to NAME.out", rest.join(" ")));
    }
}

/// Returns the place of a shell and the line that it is given: `bash -c '…'`.
fn inner(words: &[String]) -> Option<(usize, String)> {
    let shell = words.iter().position(|word| ["bash", "sh"].contains(&program(word)))?;
    let option = words.get(shell + 1)?;
    if !option.starts_with('-') || !option.ends_with('c') {
        return None;
    }
    let line = words.get(shell + 2)?;
    let quoted = line.strip_prefix('"').and_then(|line| line.strip_suffix('"'));
    let line = literal(line)
        .or_else(|| line.strip_prefix('\'').and_then(|line| line.strip_suffix('\'')).map(str::to_owned))
        .or_else(|| quoted.map(|line| line.replace("\\\"", "\"").replace("\\$", "$")))?;
    Some((shell, line))
}

/// Puts back what was around a shell; where its line is more than one command, the shell with it.
fn wrap(own: Started, around: &[String], words: &[String]) -> Started {
    if around.is_empty() || own.command.is_empty() {
        return own;
    }
    let is_simple = !own.command.contains([';', '&', '|', '\n']);
    let command = if is_simple { format!("{} {}", around.join(" "), own.command) } else { words.join(" ") };
    Started { command, ..own }
}

/// Returns what a shell line starts that was itself started.
fn of_shell(line: &str, mut own: Started, by_srun: bool) -> Option<Started> {
    let simple = !line.contains(['\n', ';', '&', '|']);
    if let Some(deeper) = simple.then(|| split(line)).flatten().and_then(|words| started(&words)) {
        own.environment.extend(deeper.environment);
        own.launchers.extend(deeper.launchers);
        own.remarks.extend(deeper.remarks);
        return Some(Started { command: deeper.command, ..own });
    }
    let launches = LAUNCHERS.iter().any(|launcher| line.contains(launcher));
    if launches {
        own.remarks.push("a launcher inside a shell line: write the key command yourself".to_owned());
        return Some(own);
    }
    if !by_srun && !line.contains("python") {
        return None;
    }
    line.clone_into(&mut own.command);
    Some(own)
}

/// Takes a launcher out of a command, with its options; returns whether there was one.
fn strip_launcher(words: &mut Vec<String>, own: &mut Started) -> bool {
    let is_launcher = |word: &String| LAUNCHERS.contains(&program(word)) || is_module(word);
    let Some(place) = words.iter().position(is_launcher) else { return false };
    // `python -m torch.distributed.run` is Python with a module for its launcher.
    let is_module = is_module(&words[place]);
    let python = words[..place].iter().position(|word| is_python(word)).filter(|_| is_module);
    let begin = python.map_or(place, |python| python + 1);
    let after = &words[place + 1..];
    let script = match program(&words[place]) {
        "mpirun" | "mpiexec" | "horovodrun" => {
            after.iter().position(|word| is_python(word)).map(|own| (own, false))
        }
        _ => after
            .iter()
            .position(|word| is_file(word, "py") || ["-m", "--module"].contains(&word.as_str()))
            .map(|own| (own, true)),
    };
    let Some((script, needs_python)) = script else {
        own.remarks.push(format!("{}: cannot find its script; write the key command yourself", words[place]));
        words.clear();
        return true;
    };
    let script = place + 1 + script;
    let dropped = words[begin..script].join(" ");
    if words[place] == "torch.distributed.launch"
        && !dropped.contains("use_env")
        && !dropped.contains("use-env")
    {
        own.remarks.push(
            "torch.distributed.launch passes --local-rank; under hsched, ranks read LOCAL_RANK instead"
                .to_owned(),
        );
    }
    if words[script] == "--module" {
        "-m".clone_into(&mut words[script]);
    }
    own.launchers.push(dropped);
    words.drain(begin..script);
    if needs_python && python.is_none() {
        words.insert(begin, "python".to_owned());
    }
    true
}

fn is_module(word: &str) -> bool {
    ["torch.distributed.run", "torch.distributed.launch", "torch.distributed.elastic"].contains(&word)
}
