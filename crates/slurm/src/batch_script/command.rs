//! The command line of a training as each rank runs it, without launchers.

use std::path::Path;

use super::programs::{ALSO_PREPARING, LAUNCHERS, MODULES, PREPARING, RUNNERS, SRUN_FLAGS, TOOLS, WRAPPERS};
use super::words::{assignment, literal, split};

/// The program that a line starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StartedProgram {
    /// The command of each rank, as a shell line; empty if it is unclear.
    pub command: String,
    /// Assignments before the command, as written.
    pub environment: Vec<(String, String)>,
    /// The launchers, with their dropped options.
    pub launchers: Vec<String>,
    /// Other remarks.
    pub remarks: Vec<String>,
    /// Why the command of the ranks is unclear.
    pub unclear: Option<String>,
}

/// Returns the training that a command starts, if any; `words` are as written.
pub(super) fn started(words: &[String]) -> Option<StartedProgram> {
    let mut started = StartedProgram::default();
    let mut words = words.to_vec();
    while let Some((name, value)) = words.first().and_then(|word| assignment(word)) {
        started.environment.push((name.to_owned(), value.to_owned()));
        words.remove(0);
    }
    while words.first().is_some_and(|word| ["exec", "time", "nohup"].contains(&word.as_str())) {
        words.remove(0);
    }
    let by_srun = words.first().is_some_and(|word| program(word) == "srun");
    if by_srun {
        let options = srun_options(&words);
        let has_programs = words[..=options].iter().any(|word| word == "--multi-prog");
        started.launchers.push(words[..=options].join(" "));
        let container = words[..=options].iter().find(|word| word.starts_with("--container"));
        started.unclear = container.map(|option| format!("srun runs it in a container ({option})"));
        words.drain(..=options);
        let is_in_variable = words.first().is_some_and(|word| is_variable(word));
        if has_programs || is_in_variable {
            started.unclear = Some(if has_programs {
                "srun takes the programs from a file".to_owned()
            } else {
                format!("what srun runs is in the variable {}", words[0])
            });
            return Some(started);
        }
    } else if words.first().is_some_and(|word| is_variable(word)) && words.len() > 1 {
        started.unclear = Some(format!("the launcher or the program is in the variable {}", words[0]));
        return Some(started);
    }
    trim(&mut words, &mut started);
    if let Some((shell, line)) = inner(&words) {
        // A program that runs the shell in another environment, such as a container, is kept around the
        // command.
        let around = words[..shell].to_vec();
        return of_shell(&line, started, by_srun).map(|started| wrap(started, &around, &words));
    }
    if !strip_launcher(&mut words, &mut started) {
        let first = program(words.first()?);
        let wraps = WRAPPERS.contains(&first) || by_srun;
        let python = words.iter().position(|word| is_python(word));
        match python.filter(|place| *place == 0 || wraps) {
            Some(place) if trains(&words[place + 1..]) => {}
            None if runs_script(&words) => {}
            None if by_srun && !TOOLS.contains(&first) => {}
            _ => return None,
        }
    }
    started.command = words.join(" ");
    let runs_shell_script = by_srun && words.first().is_some_and(|word| is_file(word, "sh"));
    let why = runs_shell_script.then(|| format!("{} may launch the training itself", words[0]));
    started.unclear = started.unclear.or_else(|| foreign_part(&started.command)).or(why);
    Some(started)
}

/// Returns why a command depends on its script's arguments or on a variable that hsched sets.
fn foreign_part(command: &str) -> Option<String> {
    let parameter = command.match_indices('$').find_map(|(place, _)| {
        let rest = command[place + 1..].trim_start_matches('{');
        rest.chars()
            .next()
            .filter(|letter| letter.is_ascii_digit() && *letter != '0' || "@*#".contains(*letter))
    });
    if let Some(letter) = parameter {
        return Some(format!("it has ${letter}, an argument of the script"));
    }
    command
        .contains("CUDA_VISIBLE_DEVICES")
        .then(|| "it has CUDA_VISIBLE_DEVICES, which hsched sets".to_owned())
}

/// Returns whether a word is only a variable, such as `$LAUNCHER` or `"${ARGS[@]}"`; a variable with PYTHON
/// in its name does not count.
fn is_variable(word: &str) -> bool {
    let word = word.trim_matches('"');
    let name = word.strip_prefix('$').map(|rest| rest.trim_start_matches('{').trim_end_matches('}'));
    name.is_some_and(|name| {
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || "_[]@*".contains(c));
        is_name && !name.to_ascii_uppercase().contains("PYTHON")
    })
}

/// Returns whether a command runs a Python script without the word `python`, such as `uv run train.py`.
fn runs_script(words: &[String]) -> bool {
    let first = words.first().map_or("", |word| program(word));
    let is_runner = RUNNERS.iter().any(|(name, second)| {
        *name == first && second.is_none_or(|second| words.get(1).is_some_and(|word| word == second))
    });
    is_runner && words.iter().any(|word| is_file(word, "py"))
}

/// Returns whether a command may start a training that cannot be inspected: it is not one of the preparing
/// programs.
pub(super) fn is_opaque(words: &[String]) -> bool {
    words.split(|word| word == "|").any(is_opaque_part)
}

/// Returns whether one part of a pipe may start a training that cannot be inspected.
fn is_opaque_part(words: &[String]) -> bool {
    let Some(first) = words.iter().find(|word| assignment(word).is_none()) else { return false };
    let name = program(first);
    let text = words.join(" ");
    let is_shell_hook = name == "eval"
        && text.contains("$(")
        && ["hook", "init", "activate"].iter().any(|candidate| text.contains(candidate));
    let python = words.iter().position(|word| is_python(word));
    let is_quiet_python = python == Some(0) && !trains(&words[1..]);
    // For these programs some arguments show that they do more than prepare.
    let has = |text: &str| words[1..].iter().any(|word| word.contains(text));
    let does_more = match name {
        "make" | "ninja" => ["train", "run", "fit"].into_iter().any(has),
        "wandb" => has("agent"),
        "source" | "." => has("train"),
        "xargs" => has("python"),
        _ => false,
    };
    let is_tool = WRAPPERS.contains(&name)
        && ["pull", "build", "sync", "install", "create", "import", "add", "lock", "venv", "pip", "activate"]
            .iter()
            .any(|candidate| words.get(1).is_some_and(|word| word == candidate));
    !((PREPARING.contains(&name) || ALSO_PREPARING.contains(&name)) && !does_more
        || ["srun", "pdsh"].contains(&name)
        || first.starts_with("$(") && !text.contains("python")
        || is_shell_hook
        || is_quiet_python
        || is_tool)
}

/// Returns the last component of a program's path, without quotes.
fn program(word: &str) -> &str {
    let word = word.trim_matches(['"', '\'']);
    word.rsplit('/').next().unwrap_or(word)
}

/// Returns whether a word names a file with this extension.
fn is_file(word: &str, ending: &str) -> bool {
    Path::new(word.trim_matches(['"', '\''])).extension().is_some_and(|os_str| os_str == ending)
}

fn is_python(word: &str) -> bool {
    let rest = program(word).strip_prefix("python");
    rest.is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

/// Returns whether Python may train with these arguments.
fn trains(arguments: &[String]) -> bool {
    let mut arguments =
        arguments.iter().map(String::as_str).skip_while(|word| ["-u", "-O", "-B"].contains(word));
    match arguments.next() {
        None | Some("-c" | "-V" | "--version" | "-") => false,
        Some("-m") => arguments.next().is_some_and(|module| !MODULES.contains(&module)),
        Some(file) => program(file) != "setup.py",
    }
}

/// Returns the index of the last word of srun's options; 0, the index of `srun`, if there are none.
pub(super) fn srun_options(words: &[String]) -> usize {
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

/// Drops the text after a command: pipes, redirections, and the background operator.
fn trim(words: &mut Vec<String>, started: &mut StartedProgram) {
    let redirects = |word: &str| {
        let rest = word.trim_start_matches(|c: char| c.is_ascii_digit());
        rest.starts_with(['>', '<']) || rest.starts_with("&>")
    };
    let cut = words.iter().position(|word| word.starts_with('|') || word == "&" || redirects(word));
    let Some(cut) = cut else { return };
    let rest: Vec<String> = words.drain(cut..).collect();
    if rest != ["&"] {
        started.remarks.push(format!("{}: dropped; the output of ranks goes to NAME.out", rest.join(" ")));
    }
}

/// Returns the index of a shell and its command string: `bash -c '…'`.
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

/// Restores the words around a shell, and the shell itself if its command string has several commands.
fn wrap(started: StartedProgram, around: &[String], words: &[String]) -> StartedProgram {
    if around.is_empty() || started.command.is_empty() {
        return started;
    }
    let is_simple = !started.command.contains([';', '&', '|', '\n']);
    let command =
        if is_simple { format!("{} {}", around.join(" "), started.command) } else { words.join(" ") };
    StartedProgram { command, ..started }
}

/// Returns the command in a shell line; `outer` describes the command around that line.
fn of_shell(line: &str, mut outer: StartedProgram, by_srun: bool) -> Option<StartedProgram> {
    let simple = !line.contains(['\n', ';', '&', '|']);
    if let Some(deeper) = simple.then(|| split(line)).flatten().and_then(|words| started(&words)) {
        outer.environment.extend(deeper.environment);
        outer.launchers.extend(deeper.launchers);
        outer.remarks.extend(deeper.remarks);
        outer.unclear = outer.unclear.or(deeper.unclear);
        return Some(StartedProgram { command: deeper.command, ..outer });
    }
    let launches = LAUNCHERS.iter().any(|launcher| line.contains(launcher));
    if launches {
        outer.unclear = Some("it launches inside a shell line".to_owned());
        return Some(outer);
    }
    if !by_srun && !line.contains("python") {
        return None;
    }
    line.clone_into(&mut outer.command);
    outer.unclear = outer.unclear.or_else(|| foreign_part(line));
    if line.trim().starts_with('$') && is_variable(line.trim()) {
        outer.unclear = Some(format!("the command is in the variable {}", line.trim()));
    }
    Some(outer)
}

/// Removes a launcher with its options from a command; returns whether there was one.
fn strip_launcher(words: &mut Vec<String>, started: &mut StartedProgram) -> bool {
    let is_launcher = |word: &String| LAUNCHERS.contains(&program(word)) || is_module(word);
    // `pip install deepspeed` is not a launcher.
    let first = words.first().map_or("", |word| program(word)).to_owned();
    let may_launch = |place: &usize| *place == 0 || WRAPPERS.contains(&first.as_str()) || is_python(&first);
    let Some(place) = words.iter().position(is_launcher).filter(may_launch) else { return false };
    // `python -m torch.distributed.run` is Python with a launcher module.
    let is_module = is_module(&words[place]);
    let python = words[..place].iter().position(|word| is_python(word)).filter(|_| is_module);
    let begin = python.map_or(place, |python| python + 1);
    let after = &words[place + 1..];
    let script = match program(&words[place]) {
        "mpirun" | "mpiexec" | "horovodrun" | "ibrun" | "jsrun" | "aprun" | "prun" | "orterun"
        | "prterun" | "mpiexec.hydra" | "mpirun_rsh" => {
            after.iter().position(|word| is_python(word)).map(|place| (place, false))
        }
        _ => after
            .iter()
            .position(|word| is_file(word, "py") || ["-m", "--module"].contains(&word.as_str()))
            .map(|place| (place, true)),
    };
    let Some((script, needs_python)) = script else {
        started.unclear = Some(format!("cannot find the script of {}", words[place]));
        started.launchers.push(words[place].clone());
        words.clear();
        return true;
    };
    let script = place + 1 + script;
    let dropped = words[begin..script].join(" ");
    if words[place] == "torch.distributed.launch"
        && !dropped.contains("use_env")
        && !dropped.contains("use-env")
    {
        started.remarks.push(
            "torch.distributed.launch passes --local-rank; under hsched, ranks read LOCAL_RANK instead"
                .to_owned(),
        );
    }
    if words[script] == "--module" {
        "-m".clone_into(&mut words[script]);
    }
    started.launchers.push(dropped);
    words.drain(begin..script);
    if needs_python && python.is_none() {
        words.insert(begin, "python".to_owned());
    }
    true
}

fn is_module(word: &str) -> bool {
    ["torch.distributed.run", "torch.distributed.launch", "torch.distributed.elastic"].contains(&word)
}
