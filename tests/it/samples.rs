//! The sampler of job scripts: its output, and that it never affects a rank.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

use crate::real_cluster::repository;
use crate::real_user::wait_for;
use crate::sandbox::write_program;

/// Rank `$3` of two on a node, which runs `$4`; `$2` is a folder.
const RANK: &str = r#"
  cd "$1" && for part in rank fence samples batch ends; do . "templates/$part.sh"; done
  hs_stopping=0; trap 'hs_stopping=1' USR1
  hs_fence=$2/fence hs_job=train hs_run=r hs_plan=p hs_world_size=2 hs_global_batch=8 hs_epochs=4 hs_epochs_done=0
  hs_checkpoint_dir=$2/saved hs_report_dir=$2/report hs_helper_dir=$1/templates hs_grace=5 hs_launch=plain
  hs_master_addr=n1 hs_master_port=20000 hs_batches=4,4 hs_hosts=(n1) hs_device_order=()
  hs_ranks=('0 0 4 4 1 t4' '0 1 4 4 1 t4') hs_node_setup=() hs_command=()
  hs_ticket=1 hs_token=7.0.1 hs_shell=$4; hs_rank_main '' "$3"
"#;

/// A stand-in for nvidia-smi, which prints at once and then once a second, with an unsupported value.
const SMI: &str = r#"#!/bin/bash
echo start >>"${0%/*}/starts"
[[ $* == *'--query-gpu=index,uuid,utilization.gpu,memory.used,power.draw --format=csv,noheader,nounits -l 1' ]] || exit 1
while :; do
  echo '0, GPU-aa, 97, 10240, 61.23'; echo '1, GPU-bb, 0, 12, [Not Supported]'
  sleep 1
done
"#;

struct Node {
    folder: tempfile::TempDir,
}

impl Node {
    fn new(nvidia_smi: Option<&str>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["fence", "report", "saved", "bin"] {
            fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        std::os::unix::fs::symlink("7", folder.path().join("fence/1")).expect("a link");
        if let Some(text) = nvidia_smi {
            write_program(&folder.path().join("bin/nvidia-smi"), text);
        }
        Self { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn start(&self, rank: usize, line: &str) -> Child {
        self.start_with(&[], rank, line)
    }

    fn start_with(&self, variables: &[(&str, &str)], rank: usize, line: &str) -> Child {
        let path =
            format!("{}:{}", self.path().join("bin").display(), std::env::var("PATH").expect("a path"));
        let mut command = Command::new("bash");
        command
            .args(["-uc", RANK, "script"])
            .arg(repository())
            .arg(self.path())
            .args([&rank.to_string(), line]);
        command.env("PATH", path).env("HSCHED_SAMPLE_S", "1").env_remove("CUDA_VISIBLE_DEVICES");
        command.envs(variables.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("bash")
    }

    /// Returns a shell command that waits for the file `go`, or for the removal of this node's folder if the
    /// test fails.
    fn wait(&self) -> String {
        format!("while [ -e {0} ] && [ ! -e {0}/go ]; do sleep 0.05; done", self.path().display())
    }

    /// Returns the whole lines of the samples so far.
    fn lines(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.path().join("report/samples/n1.jsonl")).unwrap_or_default();
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// Waits for a sample that meets a condition.
    fn sample(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        wait_for(what, || self.lines().into_iter().skip(1).find(|line| holds(line)))
    }

    /// Returns the number of processes with this folder's programs in their command lines.
    fn left(&self) -> usize {
        let marker = self.path().join("bin").display().to_string();
        let found = Command::new("pgrep").args(["-f", "--", &marker]).output().expect("pgrep");
        String::from_utf8_lossy(&found.stdout).lines().count()
    }
}

fn end(rank: Child) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = rank.wait_with_output().expect("its end");
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

/// An hsched that the command starts would otherwise divide the power of its GPUs by the slots of this one.
#[test]
fn the_number_of_slots_is_for_the_sampler_alone() {
    let node = Node::new(None);
    let go = node.path().join("go");
    let line = format!("echo ${{HSCHED_SLOTS-none}} >&2; {}", node.wait());
    let rank = node.start_with(&[("HSCHED_SLOTS", "3")], 0, &line);
    let header = wait_for("the first line of the samples", || node.lines().into_iter().next());
    assert_eq!(header["slots"], 3, "{header}");
    fs::write(&go, "").expect("writes");
    assert_eq!(end(rank), (Some(0), "none\n".to_owned()));
}

#[test]
fn a_node_is_sampled_once_for_all_its_ranks() {
    let node = Node::new(Some(SMI));
    let go = node.path().join("go");
    let wait = node.wait();
    let second = node.start(1, &wait);
    let first = node.start(
        0,
        &format!("echo '12 data' >$HSCHED_PROGRESS; (ulimit -t 1; while :; do :; done); {wait}; exit 3"),
    );
    // A sample has only the GPUs for which nvidia-smi has printed a line since the sample before.
    let sample = node.sample("a sample of a busy rank and of both GPUs", |line| {
        let is_busy = line["cpu_s"][0].as_f64().is_some_and(|time| time > 0.5);
        is_busy && line["cpu_s"][1].is_number() && line["gpu"] == json!([97, 0])
    });
    let header = json!({"schema": "hsched.samples/1", "node": "n1", "interval_s": 1});
    assert_eq!(node.lines()[0], header);
    assert_eq!(sample["ranks"], json!([0, 1]));
    assert_eq!(sample["memory_mib"], json!([10240, 12]));
    assert_eq!(sample["power_w"], json!([61.23, null]));
    assert_eq!((&sample["steps"], &sample["phase"]), (&json!([12, null]), &json!(["data", null])));
    assert!(sample["at"].is_u64() && sample["state"][1].is_string(), "{sample}");
    wait_for("another sample", || (node.lines().len() > 2).then_some(()));
    fs::write(&go, "").expect("writes");
    let (status, errors) = end(first);
    assert_eq!(status, Some(3), "{errors}");
    assert_eq!(end(second).0, Some(0));
    wait_for("the end of nvidia-smi", || (node.left() == 0).then_some(()));
    let starts = fs::read_to_string(node.path().join("bin/starts")).expect("a start");
    assert_eq!(starts, "start\n");
}

/// On a busy node, the time to read a line may be up before its end.
#[test]
fn a_line_of_nvidia_smi_that_comes_in_parts_is_read_whole() {
    let parts =
        "while :; do printf 0; sleep 0.7; printf ', GPU-aa, 9'; sleep 0.7; echo '7, 10240, 61.23'; done";
    let node = Node::new(Some(&format!("#!/bin/bash\n{parts}\n")));
    let rank = node.start(0, &node.wait());
    let sample = node.sample("values of the GPU", |line| line["gpu"].is_array());
    assert_eq!((&sample["gpu"], &sample["memory_mib"]), (&json!([97, null]), &json!([10240, null])));
    fs::write(node.path().join("go"), "").expect("writes");
    assert_eq!(end(rank).0, Some(0));
}

#[test]
fn a_stopped_rank_is_seen_before_the_next_sample_is_due() {
    let node = Node::new(None);
    let pid = node.path().join("pid");
    let rank = node.start(0, &format!("echo $BASHPID >{}; exec sleep 600", pid.display()));
    let pid = wait_for("its process", || fs::read_to_string(&pid).ok()?.trim().parse::<u32>().ok());
    let signal = |name: &str| {
        let sent = Command::new("kill").args([name, &pid.to_string()]).status().expect("kill");
        assert!(sent.success());
    };
    let before = node.sample("a sample", |line| line["state"] == json!(["S", null]));
    assert!(before.get("gpu").is_none() && before.get("steps").is_none(), "{before}");
    signal("-STOP");
    node.sample("a stopped rank", |line| line["state"][0] == "T");
    signal("-KILL");
    assert_eq!(end(rank).0, Some(137));
}

#[test]
fn a_sampler_that_cannot_work_changes_nothing() {
    let silent = "#!/bin/bash\nexec -a \"$0\" sleep 600\n";
    let once = "#!/bin/bash\necho '0, GPU-aa, 5, 1, 2'\n";
    let fails = "#!/bin/bash\necho 'NVIDIA-SMI has failed' >&2; exit 9\n";
    for (text, has_samples) in [(silent, true), (once, true), (fails, true), (SMI, false)] {
        let node = Node::new(Some(text));
        if !has_samples {
            fs::write(node.path().join("report/samples"), "in the way").expect("writes");
        }
        let go = node.path().join("go");
        let rank = node.start(0, &format!("{}; echo ${{HSCHED_PROGRESS-none}}", node.wait()));
        if has_samples {
            node.sample("a sample", |line| text != once || line["gpu"] == json!([5, null]));
        }
        fs::write(&go, "").expect("writes");
        let Output { status, stdout, stderr } = rank.wait_with_output().expect("its end");
        let printed = String::from_utf8_lossy(&stdout).trim().to_owned();
        assert_eq!((status.code(), printed == "none"), (Some(0), !has_samples), "{printed}");
        assert_eq!(String::from_utf8_lossy(&stderr), "");
        wait_for("the end of nvidia-smi", || (node.left() == 0).then_some(()));
    }
}

/// The functions of the templates that ranks get, and those that are only there with a check before the first
/// step.
fn functions_of_ranks() -> BTreeSet<String> {
    let start = fs::read_to_string(repository().join("templates/start.sh")).expect("a template");
    let (_, list) = start.split_once("hs_rank_program() {").expect("the list");
    let (list, _) = list.split_once("\n}").expect("its end");
    let names = list.replace("\\\n", " ");
    let names = names.lines().filter_map(|line| line.trim().strip_prefix("declare -f"));
    names.flat_map(hs_words).collect()
}

/// Returns the words of a text that begin with `hs_`.
fn hs_words(text: &str) -> Vec<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("hs_")).map(str::to_owned).collect()
}

#[test]
fn functions_of_ranks_call_only_functions_that_ranks_get() {
    let mut bodies: BTreeMap<String, String> = BTreeMap::new();
    for entry in fs::read_dir(repository().join("templates")).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "sh") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a template");
        for part in text.split("\nhs_").skip(1) {
            if let Some((name, rest)) = part.split_once("() {") {
                bodies.insert(format!("hs_{name}"), rest.split("\n}").next().unwrap_or_default().to_owned());
            }
        }
    }
    // A variable may have the name of a function.
    let all: String = bodies.values().cloned().collect();
    bodies.retain(|name, _| !all.contains(&format!("${name}")));
    let listed = functions_of_ranks();
    assert!(listed.len() > 30 && listed.iter().all(|name| bodies.contains_key(name)), "{listed:?}");
    for name in &listed {
        let called = hs_words(&bodies[name]).into_iter().filter(|word| bodies.contains_key(word));
        let missing: Vec<String> = called.filter(|word| !listed.contains(word)).collect();
        assert!(missing.is_empty(), "{name} calls {missing:?}");
    }
}
