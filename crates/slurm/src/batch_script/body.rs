//! The commands of a batch script: preparation, training, and later steps.

use std::collections::{BTreeSet, VecDeque};

use super::blocks::{self, OPENING, depth, here_document, is_function, skip_document, skip_function};
use super::command::{StartedProgram, is_opaque, srun_options, started};
use super::training::take_command;
use super::words::{assignment, literal, split, without_comment};
use super::{ImportedJob, LogicalLine, Processes, order};

/// A command, or a group of lines such as a loop or a condition.
pub(super) struct ScriptPiece {
    pub line: usize,
    pub text: String,
    /// The piece's words as written; empty for a group.
    words: Vec<String>,
    /// The training that the command starts, if any.
    started: Option<StartedProgram>,
}

/// Words of blocks, before a command or alone.
const KEYWORDS: [&str; 15] =
    ["then", "do", "else", "if", "elif", "while", "until", "fi", "done", "esac", "{", "}", "!", "(", ")"];

/// Commands that are unrelated to the training.
const IDLE: [&str; 4] = ["wait", "exit", "exit 0", "date"];

/// Variables that hsched sets, or that no script should set.
const OWN: [&str; 9] = [
    "CUDA_VISIBLE_DEVICES",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "NODE_RANK",
    "IFS",
];

/// Text that shows that a line is for every node: its environment, or its local disk.
const OF_NODES: [&str; 12] = [
    "module",
    "source ",
    ". ",
    "conda",
    "activate",
    "virtualenv",
    "venv",
    "pip ",
    "TMPDIR",
    "/tmp",
    "/localscratch",
    "ulimit",
];

/// Reads the commands.
pub(super) fn read(lines: &[LogicalLine], processes: Processes, imported: &mut ImportedJob) {
    let pieces = pieces(lines, imported);
    let dropped = dropped(&pieces);
    let training = training(&pieces, imported);
    // Without a known training, any command after one that may be the training is not certain to be
    // preparation.
    let unsure = pieces.iter().position(|piece| piece.started.is_some() || piece.is_opaque());
    for (place, piece) in pieces.iter().enumerate() {
        match (&piece.started, training) {
            (Some(started), Some(training_place)) if training_place == place => {
                take_command(piece, &without_dropped(started, &dropped), processes, imported);
            }
            (Some(_), None) => {}
            (_, Some(training_place)) if place > training_place => {
                if !IDLE.contains(&piece.text.as_str()) {
                    imported.remark(
                        piece.line,
                        format!("{}: comes after the training; hsched does not run it", excerpt(&piece.text)),
                    );
                }
            }
            (None, None) if unsure.is_some_and(|unsure| place > unsure) && !piece.is_opaque() => {
                if !IDLE.contains(&piece.text.as_str()) {
                    imported.remark(
                        piece.line,
                        format!(
                            "{}: comes after what may be the training; put it into setup or node_setup if it prepares",
                            excerpt(&piece.text)
                        ),
                    );
                }
            }
            _ => prepare(piece, &dropped, imported),
        }
    }
}

impl ScriptPiece {
    /// Returns whether the piece may start a training or a preparation that cannot be inspected.
    fn is_opaque(&self) -> bool {
        if !self.words.is_empty() {
            return is_opaque(&self.words);
        }
        let commands = self.text.lines().flat_map(|line| segments(&split(line).unwrap_or_default()));
        commands.map(|command| without_keywords(&command).to_vec()).any(|command| is_opaque(&command))
    }
}

/// Returns the command in a block, without the block's keywords.
fn without_keywords(words: &[String]) -> &[String] {
    let begin = words.iter().position(|word| !KEYWORDS.contains(&word.as_str()));
    match begin {
        // These keywords precede names and patterns.
        _ if words.first().is_some_and(|word| ["for", "case", "select"].contains(&word.as_str())) => &[],
        Some(begin) => &words[begin..],
        None => &[],
    }
}

/// Returns the index of the command that trains; adds a remark if that is not certain.
fn training(pieces: &[ScriptPiece], imported: &mut ImportedJob) -> Option<usize> {
    let all: Vec<usize> = (0..pieces.len()).filter(|place| pieces[*place].started.is_some()).collect();
    let launched = |place: &&usize| {
        pieces[**place].started.as_ref().is_some_and(|started| !started.launchers.is_empty())
    };
    let by_launcher: Vec<usize> = all.iter().filter(launched).copied().collect();
    let chosen = match (&by_launcher[..], &all[..]) {
        ([one], _) | ([], [one]) => Some(*one),
        _ => None,
    };
    if let Some(place) = chosen.filter(|place| !pieces[*place].words.is_empty()) {
        return Some(place);
    }
    for place in all {
        let piece = &pieces[place];
        let why = if chosen.is_some() { "trains inside a loop or condition" } else { "may be the training" };
        imported
            .remark(piece.line, format!("{}: {why}; write the key command yourself", excerpt(&piece.text)));
    }
    None
}

/// Returns the variables that the import drops: arrays, and lists of nodes.
fn dropped(pieces: &[ScriptPiece]) -> BTreeSet<String> {
    let texts = pieces.iter().map(|piece| piece.text.as_str());
    texts
        .filter(|text| is_array(text) || finds_nodes(text))
        .flat_map(order::assigned)
        .map(str::to_owned)
        .collect()
}

/// Returns the training, which is unclear if it uses a dropped variable.
fn without_dropped(started: &StartedProgram, dropped: &BTreeSet<String>) -> StartedProgram {
    let lost = dropped.iter().find(|name| order::uses(&started.command, name));
    let why = lost.map(|name| format!("it uses {name}, which ranks do not get"));
    StartedProgram { unclear: started.unclear.clone().or(why), ..started.clone() }
}

/// Imports a command, or a group, that is not the training.
fn prepare(piece: &ScriptPiece, dropped: &BTreeSet<String>, imported: &mut ImportedJob) {
    let ScriptPiece { line, text, words, .. } = piece;
    let is_lost = is_array(text) || finds_nodes(text);
    if let Some(name) = dropped.iter().find(|name| !is_lost && order::uses(text, name)) {
        return imported
            .remark(*line, format!("{}: not imported; it uses {name}, which is not there", excerpt(text)));
    }
    if words.is_empty() && piece.is_opaque() {
        return imported.remark(
            *line,
            format!("{}: may train or prepare; put it in command, setup or node_setup", excerpt(text)),
        );
    }
    if words.is_empty() {
        return place(*line, text, imported);
    }
    let first = words[0].as_str();
    let (exports, rest) = if first == "export" { (true, &words[1..]) } else { (false, &words[..]) };
    if !finds_nodes(text)
        && !text.contains("=(")
        && !rest.is_empty()
        && rest.iter().all(|word| assignment(word).is_some())
    {
        for (name, value) in rest.iter().filter_map(|word| assignment(word)) {
            set(*line, name, value, exports, imported);
        }
        return;
    }
    match first {
        _ if finds_nodes(text) => {
            imported.remark(*line, format!("{}: hsched lists the nodes and sets MASTER_ADDR", excerpt(text)));
        }
        _ if is_array(text) => {
            imported.remark(*line, format!("{}: ranks do not get arrays", excerpt(text)));
        }
        "set" => {
            imported.remark(*line, format!("{text}: dropped; a failing line of setup ends the run anyway"));
        }
        "trap" => imported.remark(*line, format!("{}: dropped; ranks get SIGUSR1 directly", excerpt(text))),
        "wait" | "exit" => imported.remark(*line, format!("{text}: dropped; hsched writes the job script")),
        // Commands begin there, unless another `cd` precedes.
        "cd" if words.get(1).is_some_and(|to| to.contains("SLURM_SUBMIT_DIR"))
            && !order::has_moved(imported) => {}
        "cd" | "pushd" | "popd" => imported.push("node_setup", text.as_str()),
        "srun" | "pdsh" => {
            let options = srun_options(words);
            imported.push("node_setup", words[options + 1..].join(" "));
            imported.remark(*line, format!("{}: runs once on each node, in node_setup", excerpt(text)));
        }
        _ if piece.started.is_none() && is_opaque(words) => imported.remark(
            *line,
            format!(
                "{}: may start the training or prepare it; put it in command, setup or node_setup",
                excerpt(text)
            ),
        ),
        _ => {
            if piece.started.is_some() && order::need(text, imported).is_none() {
                imported.remark(
                    *line,
                    format!(
                        "{}: runs once, in setup, before node_setup: load what it needs in setup",
                        excerpt(text)
                    ),
                );
            }
            place(*line, text, imported);
        }
    }
}

/// Adds a command to `setup`, or to `node_setup` if it is for every node or needs what a line there does.
fn place(line: usize, text: &str, imported: &mut ImportedJob) {
    let need = order::need(text, imported).filter(|_| !is_of_nodes(text));
    if let Some(need) = &need {
        imported.remark(
            line,
            format!("{}: runs once on each node, in node_setup, because it needs {need}", excerpt(text)),
        );
    }
    imported.push(if need.is_some() || is_of_nodes(text) { "node_setup" } else { "setup" }, text);
}

/// Sets a variable for all ranks: a literal value in `env`, any other in `node_setup`, where nodes compute
/// it.
pub(super) fn set(line: usize, name: &str, value: &str, exports: bool, imported: &mut ImportedJob) {
    if OWN.contains(&name) || ["HSCHED_", "SLURM_", "hs_"].iter().any(|candidate| name.starts_with(candidate))
    {
        return imported.remark(line, format!("{name}={}: hsched or Slurm sets it", excerpt(value)));
    }
    if let Some(value) = literal(value).filter(|_| !order::is_set(name, imported)) {
        return imported.put("env", name, &value);
    }
    imported.push("node_setup", format!("export {name}={value}"));
    if !exports {
        imported.remark(line, format!("{name}: exported, so that ranks see it"));
    }
}

/// Returns whether a line determines the job's nodes, which hsched does for the ranks.
fn finds_nodes(text: &str) -> bool {
    text.contains("scontrol show hostname") || text.contains("$(srun") || text.contains("`srun")
}

fn is_of_nodes(text: &str) -> bool {
    // `cd DIR || exit 1`: the ranks start there.
    order::moves(text)
        || OF_NODES.iter().any(|sign| text.starts_with(sign) || sign.len() > 2 && text.contains(sign))
}

/// Returns the commands of a script, with each group as one piece.
fn pieces(lines: &[LogicalLine], imported: &mut ImportedJob) -> Vec<ScriptPiece> {
    let mut pieces = Vec::new();
    let mut lines: VecDeque<&LogicalLine> =
        lines.iter().filter(|line| !line.text.is_empty() && !line.text.starts_with('#')).collect();
    while let Some(line) = lines.pop_front() {
        if let Some(text) = array(line, &mut lines) {
            pieces.push(ScriptPiece { line: line.number, words: vec![text.clone()], text, started: None });
            continue;
        }
        if let Some(end) = here_document(&line.text) {
            skip_document(line, &end, &mut lines, imported);
            continue;
        }
        if is_function(&line.text) {
            skip_function(line, &mut lines, imported);
            continue;
        }
        let (mut text, mut depth) = (line.text.clone(), depth(&line.text));
        let mut is_one = depth <= 0 && split(&text).is_some();
        let is_block = depth > 0;
        while depth > 0 || (!is_block && !is_one) {
            let Some(next) = lines.pop_front() else { break };
            text = format!("{text}\n{}", next.text);
            depth += blocks::depth(&next.text);
            is_one = !is_block && split(&text).is_some();
        }
        if depth > 0 || !is_block && !is_one {
            imported.remark(line.number, format!("{}: its end is missing", excerpt(&text)));
        } else if is_block || is_compound(&text) {
            let trains =
                text.lines().flat_map(|line| segments(&split(line).unwrap_or_default())).any(|line| {
                    let begin =
                        line.iter().position(|word| !["then", "do", "else", "if"].contains(&word.as_str()));
                    started(&line[begin.unwrap_or(0)..]).is_some()
                });
            let started = trains.then(StartedProgram::default);
            pieces.push(ScriptPiece { line: line.number, text, words: Vec::new(), started });
        } else {
            for words in segments(&split(&text).unwrap_or_default()) {
                let started = started(&words);
                pieces.push(ScriptPiece { line: line.number, text: words.join(" "), words, started });
            }
        }
    }
    pieces
}

fn is_array(text: &str) -> bool {
    text.split_once("=(").is_some_and(|(name, _)| !name.contains(['$', '"', '\'', ';', '|', '&']))
}

/// Returns a shell array with all of its lines, if the line begins one.
fn array(line: &LogicalLine, lines: &mut VecDeque<&LogicalLine>) -> Option<String> {
    let words = ["declare -a ", "declare ", "local ", "export ", "readonly "];
    let rest = words.iter().find_map(|word| line.text.strip_prefix(word)).unwrap_or(&line.text);
    assignment(rest).filter(|(_, value)| value.starts_with('('))?;
    let mut text = without_comment(&line.text).to_owned();
    while !text.contains(')') {
        let next = lines.pop_front()?;
        text = format!("{text} {}", without_comment(&next.text));
    }
    Some(text)
}

/// Returns whether a line is a condition or a loop, or has a command that runs only if another one fails.
fn is_compound(text: &str) -> bool {
    let first = text.split_whitespace().next().unwrap_or_default();
    OPENING.contains(&first)
        || first.starts_with('(')
        || first.starts_with("[[")
        || first == "["
        || text.contains("||")
}

/// Returns the commands separated by `;` and `&&`, each split into words.
fn segments(words: &[String]) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    for word in words {
        let begun = word.strip_suffix(';').filter(|word| !word.ends_with('\\'));
        match (word.as_str(), begun) {
            ("&&" | ";", _) => all.push(Vec::new()),
            (_, Some(word)) => {
                all.last_mut().into_iter().for_each(|segment| segment.push(word.to_owned()));
                all.push(Vec::new());
            }
            (word, None) => all.last_mut().into_iter().for_each(|segment| segment.push(word.to_owned())),
        }
    }
    all.retain(|segment| !segment.is_empty());
    all
}

/// Returns the beginning of a text, in one line.
pub(super) fn excerpt(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let begin: String = line.chars().take(80).collect();
    if begin.len() < text.len() { format!("{begin} …") } else { begin }
}
