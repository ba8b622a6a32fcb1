//! Every command line in the documents runs, except those in `NOT_RUN`, and every output shown is compared
//! with what the command prints now.
//!
//! A command is a line of a code block that begins with `$ `, or with `hsched ` in blocks without `$ `. The
//! lines after a command with `$ `, up to the next one, are its output; the output of other commands is not
//! compared. A line `…` stands for any lines. A command exits with 0, unless its block states another code
//! (`console exit=3`). All commands of a page run one after the other in one directory, which
//! `tests/documents/pages/PAGE.sh` prepares.
//! `HSCHED_DOCS=write cargo test --test it docs_run` writes the current output of the commands into the
//! pages.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use tempfile::TempDir;

use crate::docs_compare::{compared, matches};
use crate::real_cluster::{self, Cluster};

/// Commands that do not run here, with the reason; at most ten.
const NOT_RUN: &[(&str, &str)] = &[
    ("hsched run jobs.yaml", "it needs GPUs"),
    (
        "python app.py --multirun hydra/launcher=hsched hydra.launcher.gpus_per_node=1 hydra.launcher.gpu_type=a100 lr=0.1,0.01,0.001 seed=1,2",
        "it needs Hydra",
    ),
    ("hsched tell NAME --follow", "it ends with the trials, and none runs here"),
    ("hsched check-ddp --python ~/venv/bin/python", "it needs torch"),
    (
        "hsched simulate --trace week.yaml --cluster cluster.yaml --policy las,srtf --sweep load=0.5,0.8,1 --sweep seed=0..9 --noise 0.3",
        "it takes minutes",
    ),
];

/// Pages whose commands run on a real Slurm, each with the file of its nodes; without a Slurm, they are
/// skipped.
const ON_SLURM: &[(&str, &str)] = &[("docs-tour", "slurm/nodes/default.nodes")];

/// The message of a search that a busy machine has cut short; the command then runs again with more time, so
/// that pages show its result.
const OUT_OF_TIME: &str = "the search ran out of time";

/// The end of a line about the age of a look at the queue.
const OLD_LOOK: &str = "; --refresh reads it again";

/// The mark of blocks with estimates or real runs: their figures vary, so only the words are compared.
const ESTIMATED: &str = "estimated";

/// Returns a time zone in which the time is now between 14:00 and 15:00. As in the pages, times of the next
/// hours are then on the same day and have the same width.
fn zone_of_afternoon() -> String {
    let hours = SystemTime::UNIX_EPOCH.elapsed().expect("a clock").as_secs() / 3600 % 24;
    let west = i64::try_from(hours).expect("an hour") - 14;
    format!("UTC{west}")
}

/// Returns the folder of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A command of a page, with the lines that the page shows as its output.
#[derive(Debug)]
struct Shown {
    /// Number of the first line after the command, from 0.
    begin: usize,
    command: String,
    /// The expected output; `None` for a command without `$ `.
    output: Option<Vec<String>>,
    is_estimated: bool,
    exit: i32,
}

/// Returns the commands of a page.
fn commands(text: &str) -> Vec<Shown> {
    let mut found: Vec<Shown> = Vec::new();
    let mut block: Option<String> = None;
    let mut is_open = false;
    let mut end_of_input: Option<String> = None;
    for (number, line) in text.lines().enumerate() {
        if let Some(info) = line.strip_prefix("```") {
            block = if block.is_some() { None } else { Some(info.to_owned()) };
            (is_open, end_of_input) = (false, None);
            continue;
        }
        let Some(info) = &block else { continue };
        if let Some(last) = found.last_mut().filter(|_| is_open)
            && (end_of_input.is_some() || last.command.ends_with('\\') || last.command.ends_with("&&"))
        {
            let _ = write!(last.command, "\n{line}");
            last.begin = number + 1;
            if end_of_input.as_deref() == Some(line) {
                end_of_input = None;
            }
            continue;
        }
        let typed = line.strip_prefix("$ ");
        // Below a command with a prompt, a line that begins with `hsched ` is output.
        let is_output = is_open && found.last().is_some_and(|shown| shown.output.is_some());
        let bare = (!is_output && line.starts_with("hsched ")).then_some(line);
        if let Some(command) = typed.or(bare) {
            is_open = true;
            end_of_input = command
                .split_once("<<'")
                .and_then(|(_, rest)| rest.split_once('\''))
                .map(|(word, _)| word.to_owned());
            found.push(Shown {
                begin: number + 1,
                command: command.to_owned(),
                output: typed.map(|_| Vec::new()),
                is_estimated: info.contains(ESTIMATED),
                exit: info.split_once("exit=").map_or(0, |(_, code)| code.trim().parse().expect("a code")),
            });
        } else if let Some(Shown { output: Some(output), .. }) = found.last_mut().filter(|_| is_open) {
            output.push(line.to_owned());
        }
    }
    found
}

/// A directory with the examples, `hsched` and the results of the page's script.
struct Place {
    root: TempDir,
    slurm: Option<Cluster>,
    /// The time zone of all commands, even if an hour ends between two of them.
    zone: String,
}

impl Place {
    /// Creates the directory of a page; returns `None`, with a message, if the page needs a Slurm and there
    /// is none.
    fn new(page: &str) -> Option<Self> {
        let nodes = ON_SLURM.iter().find(|(name, _)| *name == page).map(|(_, nodes)| root().join(nodes));
        let slurm = match nodes {
            Some(nodes) => Some(real_cluster::start(&nodes, "")?),
            None => None,
        };
        let place =
            Self { root: tempfile::tempdir().expect("a directory"), slurm, zone: zone_of_afternoon() };
        for folder in ["home/project", "bin"] {
            fs::create_dir_all(place.root.path().join(folder)).expect("a folder");
        }
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_hsched"), place.root.path().join("bin/hsched"))
            .expect("a link");
        let script = root().join(format!("tests/documents/pages/{page}.sh"));
        let prelude = if script.exists() { format!(". '{}'", script.display()) } else { String::new() };
        let (said, code) = place.run(&format!("set -e\ncp -R '{}/examples' .\n{prelude}", root().display()));
        assert_eq!(code, Some(0), "{page}: {said}");
        Some(place)
    }

    /// Runs lines of bash; returns their output and errors in order, and the exit code.
    fn run(&self, lines: &str) -> (String, Option<i32>) {
        let path = self.root.path();
        let said = fs::File::create(path.join("said")).expect("a file");
        let programs = format!("{0}/bin:{0}/home/project/bin", path.display());
        let system = self.slurm.as_ref().map_or_else(|| "/usr/local/bin:/usr/bin:/bin".into(), Cluster::path);
        let slurm = self.slurm.iter().map(|slurm| ("SLURM_CONF", slurm.configuration()));
        let status = Command::new("timeout")
            .args(["300", "bash", "-c", lines])
            .current_dir(path.join("home/project"))
            .env_clear()
            .env("PATH", format!("{programs}:{}", system.display()))
            .envs(slurm)
            .env("HOME", path.join("home"))
            .env("DOCUMENTS", root().join("tests/documents"))
            .env("PLACE", path)
            .env("TZ", &self.zone)
            .envs([
                ("USER", "you"),
                ("LC_ALL", "C.UTF-8"),
                ("COLUMNS", "110"),
                ("HSCHED_SITE_CONFIG", "/dev/null"),
            ])
            .stdin(Stdio::null())
            .stdout(said.try_clone().expect("a file"))
            .stderr(said)
            .status()
            .expect("bash");
        let text = fs::read(path.join("said")).expect("a text");
        let text =
            String::from_utf8_lossy(&text).replace(&path.join("home").display().to_string(), "/home/you");
        (text, status.code())
    }
}

/// Returns a command without the comment at its end.
fn bare(command: &str) -> &str {
    command.split("  #").next().unwrap_or(command).trim_end()
}

/// Runs the commands of a page; returns the differences, and the page with the current output.
fn check(path: &Path, text: &str) -> (Vec<String>, String) {
    let name = path.strip_prefix(root()).expect("a page").display().to_string();
    let stem = name.replace(".md", "").replace('/', "-");
    let shown = commands(text);
    let runs = |shown: &&Shown| !NOT_RUN.iter().any(|(command, _)| bare(&shown.command) == *command);
    if shown.iter().find(runs).is_none() {
        return (Vec::new(), text.to_owned());
    }
    let Some(place) = Place::new(&stem) else { return (Vec::new(), text.to_owned()) };
    let mut wrong = Vec::new();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    // Replacements are made from the end of the page, so that earlier line numbers stay valid; differences
    // are in the order of the page.
    let mut changes = Vec::new();
    for example in shown.iter().filter(runs) {
        let (mut said, mut code) = place.run(&example.command);
        if said.contains(OUT_OF_TIME) {
            (said, code) = place.run(&format!("{} --budget 2m", bare(&example.command)));
        }
        let printed: Vec<String> = said.trim_end().lines().map(|line| line.trim_end().to_owned()).collect();
        if code != Some(example.exit) {
            let expected = example.exit;
            wrong.push(format!(
                "{name}:{}: {} exits with {code:?}, not {expected}:\n{said}",
                example.begin, example.command
            ));
        }
        let Some(output) = &example.output else { continue };
        let of = |lines: &[String]| {
            // Whether an answer begins with the age of the look at the queue depends on the time.
            let lines = lines.iter().filter(|line| !line.contains(OLD_LOOK));
            lines.map(|line| compared(line, example.is_estimated)).collect::<Vec<_>>()
        };
        let shown_lines: Vec<String> = output.iter().map(|line| line.trim_end().to_owned()).collect();
        // If no output is shown, only the exit code is checked.
        if !shown_lines.is_empty() && !matches(&of(&shown_lines), &of(&printed)) {
            wrong.push(format!(
                "{name}:{}: {} prints\n{}\nnot\n{}",
                example.begin,
                example.command,
                printed.join("\n"),
                shown_lines.join("\n")
            ));
            changes.push((example.begin, output.len(), printed));
        }
    }
    for (begin, count, printed) in changes.into_iter().rev() {
        lines.splice(begin..begin + count, printed);
    }
    (wrong, lines.join("\n") + "\n")
}

/// Returns the pages of the root, `docs` and `docs/design`, without the command reference and the changelog.
fn pages() -> Vec<PathBuf> {
    let of = |folder: &str| {
        let entries =
            fs::read_dir(root().join(folder)).expect("a folder").map(|entry| entry.expect("an entry").path());
        entries.filter(|path| path.extension().is_some_and(|end| end == "md")).collect::<Vec<_>>()
    };
    let mut pages = [of(""), of("docs"), of("docs/design")].concat();
    pages.retain(|path| !path.ends_with("docs/cli.md") && !path.ends_with("CHANGELOG.md"));
    pages.sort();
    pages
}

#[test]
fn commands_run_and_print_what_the_pages_show() {
    assert!(NOT_RUN.len() <= 10);
    let only = std::env::var("HSCHED_DOCS_PAGE").unwrap_or_default();
    let texts: Vec<(PathBuf, String)> = pages()
        .into_iter()
        .filter(|path| path.display().to_string().contains(&only))
        .map(|path| (path.clone(), fs::read_to_string(path).expect("a page")))
        .collect();
    for (command, reason) in NOT_RUN {
        let is_there = texts
            .iter()
            .any(|(_, text)| commands(text).iter().any(|candidate| bare(&candidate.command) == *command));
        assert!(is_there || !only.is_empty(), "no page has {command:?}, which is not run because {reason}");
    }
    let checked: Vec<(Vec<String>, String)> = std::thread::scope(|scope| {
        let checks: Vec<_> = texts.iter().map(|(path, text)| scope.spawn(|| check(path, text))).collect();
        checks.into_iter().map(|check| check.join().expect("a page is checked")).collect()
    });
    if std::env::var("HSCHED_DOCS").is_ok_and(|what| what == "write") {
        for ((path, text), (_, now)) in texts.iter().zip(&checked).filter(|((_, text), (_, now))| text != now)
        {
            assert!(!text.is_empty());
            fs::write(path, now).expect("a page");
        }
    }
    let wrong: Vec<String> = checked.into_iter().flat_map(|(wrong, _)| wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Commands within sentences do not run, but their options exist.
#[test]
fn options_in_sentences_exist() {
    let reference = fs::read_to_string(root().join("docs/cli.md")).expect("a page");
    let sections: Vec<(&str, &str)> =
        reference.split("\n## `").skip(1).filter_map(|section| section.split_once("`\n")).collect();
    let section = |words: &[&str]| {
        // The longest command with which the words begin.
        (1..=words.len().min(3)).rev().find_map(|count| {
            let name = words[..count].join(" ");
            sections.iter().find(|(candidate, _)| *candidate == name).map(|(_, text)| *text)
        })
    };
    let mut wrong = Vec::new();
    for path in pages() {
        let text = fs::read_to_string(&path).expect("a page");
        for code in text
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|code| code.starts_with("hsched ") && !code.contains('\n'))
        {
            let words: Vec<&str> =
                code.split_whitespace().take_while(|word| !["--", "|", "&&"].contains(word)).collect();
            let Some(section) = section(&words).filter(|_| !words[1].starts_with('-')) else {
                if words.len() > 1
                    && !words[1].starts_with('-')
                    && sections.iter().all(|(candidate, _)| candidate.split(' ').nth(1) != Some(words[1]))
                {
                    wrong.push(format!("{}: {code}: no such command", path.display()));
                }
                continue;
            };
            for option in words.iter().filter(|word| word.starts_with("--")) {
                let name = option.split(['=', ',', ')', ']']).next().unwrap_or(option);
                let is_option = |c: char| c.is_ascii_alphanumeric() || c == '-';
                if !section.split(|c| !is_option(c)).any(|word| word == name) {
                    wrong.push(format!("{}: {code}: no option {name}", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
