//! `hsched top` in a real terminal: its display, its keys, and the terminal after its end.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::cli_run::{Bench, job};
use crate::real_user::wait_for;

/// A separate terminal, with a shell in it.
struct Tmux {
    socket: String,
    folder: tempfile::TempDir,
}

impl Tmux {
    /// Returns a terminal of this size in the environment of a test; `None`, with a message, without tmux.
    fn start(name: &str, (columns, rows): (u16, u16), bench: &Bench) -> Option<Self> {
        if !Command::new("tmux").arg("-V").output().is_ok_and(|output| output.status.success()) {
            println!("skipped: no tmux");
            return None;
        }
        let tmux = Self {
            socket: format!("hsched-{name}-{}", std::process::id()),
            folder: tempfile::tempdir().expect("a folder"),
        };
        let program = bench.sandbox.command(&["top"]);
        let mut shell = vec!["env".to_owned(), "-i".to_owned(), "PS1=shell> ".to_owned()];
        for (key, value) in program.get_envs() {
            if let (Some(key), Some(value)) = (key.to_str(), value.and_then(|value| value.to_str())) {
                shell.push(format!("{key}={value}"));
            }
        }
        shell.extend([format!("H={}", program.get_program().display()), "TERM=screen".to_owned()]);
        if !shell.iter().any(|word| word.starts_with("PATH=")) {
            shell.push(format!("PATH={}", std::env::var("PATH").expect("a path")));
        }
        shell.extend(["bash", "--norc", "--noprofile"].map(str::to_owned));
        let size = ["-x", &columns.to_string(), "-y", &rows.to_string()].map(str::to_owned);
        let here = tmux.folder.path().display().to_string();
        let begin = ["new-session", "-d", "-s", "t", "-c", &here].map(str::to_owned);
        let words: Vec<String> = begin.into_iter().chain(size).chain(shell).collect();
        let output = tmux.tmux(&words.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(tmux)
    }

    fn tmux(&self, words: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.socket, "-f", "/dev/null"]).args(words);
        command.env("TMUX_TMPDIR", self.folder.path()).env_remove("TMUX").output().expect("tmux")
    }

    fn keys(&self, keys: &[&str]) {
        assert!(self.tmux(&[&["send-keys", "-t", "t"], keys].concat()).status.success());
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.tmux(&["capture-pane", "-t", "t", "-p"]).stdout).into_owned()
    }

    /// Waits until a text is shown; returns the screen.
    fn sees(&self, text: &str) -> String {
        wait_for(text, || Some(self.shown()).filter(|shown| shown.contains(text)))
    }

    /// Returns the process of `hsched top` in this terminal.
    fn top(&self) -> String {
        let shell = self.tmux(&["display-message", "-p", "-t", "t", "#{pane_pid}"]).stdout;
        let shell = String::from_utf8_lossy(&shell).trim().to_owned();
        let found = Command::new("pgrep").args(["-P", &shell]).output().expect("pgrep");
        String::from_utf8_lossy(&found.stdout).trim().to_owned()
    }

    /// Checks that the terminal is restored for the shell: it echoes, and lines can be edited.
    fn is_restored(&self) {
        // Text that is typed before `top` has ended may still be read by it.
        wait_for("its end", || self.top().is_empty().then_some(()));
        self.keys(&["stty -a >flags; echo $((40 + 2))", "Enter"]);
        let shown = self.sees("\n42\n");
        assert!(!shown.contains("hsched top:"), "{shown}");
        let flags = fs::read_to_string(self.folder.path().join("flags")).expect("the flags");
        assert!(flags.contains(" icanon") && flags.contains(" echo "), "{flags}");
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

#[test]
fn jobs_are_shown_as_they_go_on_and_keys_are_obeyed() {
    let jobs = [
        job("first", 4000, "gpus: 1, throughput: {cpu: 200}"),
        job("second", 9000, "gpus: 1, throughput: {cpu: 200}"),
    ];
    let bench = Bench::new(&jobs);
    let Some(tmux) = Tmux::start("keys", (110, 30), &bench) else { return };
    let run = bench.start("run jobs.yaml --devices cpu:1");
    wait_for("the state", || bench.sandbox.state("state.json").exists().then_some(()));
    tmux.keys(&["$H top", "Enter"]);
    // The line of keys is drawn last.
    let is_whole = |shown: &String| shown.contains("1 running, 1 waiting") && shown.contains("q quit");
    let shown = wait_for("the whole screen", || Some(tmux.shown()).filter(is_whole));
    assert!(shown.contains("hsched top: this machine"), "{shown}");
    tmux.sees("/4000");
    tmux.tmux(&["resize-window", "-t", "t", "-x", "40", "-y", "10"]);
    let narrow = tmux.sees("l logs e explain c cancel q quit");
    assert!(narrow.lines().all(|line| line.chars().count() <= 40) && !narrow.contains("METRIC"), "{narrow}");
    tmux.tmux(&["resize-window", "-t", "t", "-x", "40", "-y", "40"]);
    tmux.keys(&["e"]);
    let explained = tmux.sees("press Enter to go back");
    let words = explained.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("first: running") && words.contains("): 1 cpu on "), "{explained}");
    assert!(!words.contains("JOB ID"), "{explained}");
    tmux.keys(&["Enter"]);
    tmux.tmux(&["resize-window", "-t", "t", "-x", "100", "-y", "24"]);
    tmux.sees("GPUS");
    tmux.sees("q quit");
    // A question comes first; every answer except yes means no.
    tmux.keys(&["Down", "c"]);
    tmux.sees("cancel second? y: yes");
    tmux.keys(&["n"]);
    tmux.sees("q quit");
    tmux.keys(&["c"]);
    tmux.sees("cancel second? y: yes");
    tmux.keys(&["y"]);
    tmux.sees("second: to be cancelled");
    tmux.keys(&["Enter"]);
    tmux.sees("1 cancelled");
    tmux.keys(&["q"]);
    tmux.is_restored();
    drop(run);
}

#[test]
fn the_terminal_is_left_as_it_was_however_it_ends() {
    let bench = Bench::new(&[]);
    bench.sandbox.make_state();
    let Some(tmux) = Tmux::start("ends", (80, 24), &bench) else { return };
    for signal in ["-TERM", "-INT", "-HUP", "-KILL"] {
        tmux.keys(&["clear; $H top", "Enter"]);
        tmux.sees("hsched top:");
        let pid = tmux.top();
        assert!(Command::new("kill").args([signal, &pid]).status().expect("kill").success(), "{pid}");
        tmux.is_restored();
    }
    tmux.keys(&["clear; $H top", "Enter"]);
    tmux.sees("hsched top:");
    let process = Path::new("/proc").join(tmux.top());
    tmux.tmux(&["kill-server"]);
    wait_for("its end with the terminal", || (!process.exists()).then_some(()));
    let ran = bench.sandbox.run("top");
    assert!(ran.fails(2).contains("cannot draw on the terminal"));
}
