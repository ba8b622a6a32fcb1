//! The check before the first step: its parts, and a rank whose check fails, which records why and never starts its
//! command.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::python::run;
use crate::real_cluster::repository;
use crate::sandbox::write_program;

/// The first rank of a job with `$4` ranks, which checks its node before it runs `$3`; `$2` is a folder.
const RANK: &str = r#"
  cd "$1" && for part in rank fence samples preflight batch ends; do . "templates/$part.sh"; done
  hs_stopping=0; trap 'hs_stopping=1' USR1
  hs_fence=$2/fence hs_job=train hs_run=r hs_plan=p hs_world_size=$4 hs_global_batch=8 hs_epochs=4 hs_epochs_done=0
  hs_checkpoint_dir=$2/saved hs_report_dir=$2/report hs_helper_dir=$1/templates hs_grace=5 hs_launch=plain hs_preflight=1
  hs_master_addr=n1 hs_master_port=20000 hs_batches=4,4 hs_hosts=(n1) hs_device_order=()
  hs_ranks=('0 0 4 4 1 t4' '0 1 4 4 1 t4') hs_node_setup=() hs_command=()
  hs_ticket=1 hs_token=7.0.1 hs_shell=$3; hs_rank_main '' 0
"#;

struct Node(tempfile::TempDir);

impl Node {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["fence", "report", "saved", "bin"] {
            fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        std::os::unix::fs::symlink("7", folder.path().join("fence/1")).expect("a link");
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Puts a program into the rank's PATH.
    fn program(self, name: &str, text: &str) -> Self {
        write_program(&self.path().join("bin").join(name), text);
        self
    }

    /// Runs the rank; returns its exit status, and why its check failed (`None` if it did not fail).
    fn run(&self, ranks: u32) -> (Option<i32>, Option<String>) {
        let output = Command::new("bash")
            .args(["-c", RANK, "rank"])
            .arg(repository())
            .arg(self.path())
            .args([": >\"$HSCHED_CHECKPOINT_DIR/began\"", &ranks.to_string()])
            .env("PATH", format!("{}:/usr/bin:/bin", self.path().join("bin").display()))
            .env("CUDA_VISIBLE_DEVICES", "3")
            .env_remove("SLURMD_NODENAME")
            .output()
            .expect("bash");
        let why = fs::read_to_string(self.path().join("report/unfit")).ok().map(|text| {
            let unfit: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            assert_eq!((&unfit["node"], &unfit["rank"]), (&"n1".into(), &0.into()), "{unfit}");
            unfit["why"].as_str().expect("a reason").to_owned()
        });
        let has_begun = self.path().join("saved/began").exists();
        assert_eq!(has_begun, why.is_none(), "{output:?}");
        (output.status.code(), why)
    }
}

/// Creates a node whose nvidia-smi runs this line for GPU 3; it does not answer the sampler.
fn smi(answer: &str) -> Node {
    Node::new().program(
        "nvidia-smi",
        &format!("#!/bin/bash\n[[ $* == *--id=3*memory.used* ]] || exit 1\n{answer}\n"),
    )
}

#[test]
fn a_gpu_that_does_not_answer_or_is_in_use_keeps_the_command_from_starting() {
    let check = |answer: &str, why: Option<&str>| {
        let (status, found) = smi(answer).run(1);
        let expected = (Some(if why.is_some() { 87 } else { 0 }), why.map(str::to_owned));
        assert_eq!((status, found), expected, "{answer}");
    };
    check("echo '12, 16384'", None);
    check("echo '2662, 16384'", None);
    check("echo '2663, 16384'", Some("others use 2663 of 16384 MiB of GPU 3"));
    check("echo 'Unable to \"talk\" to it'; exit 9", Some("GPU 3 does not answer: Unable to  talk  to it"));
    // If the driver does not report the used memory, the node counts as fit.
    check("echo '[N/A], [N/A]'", None);
}

#[test]
fn the_last_line_of_the_check_of_links_counts_and_no_torch_is_no_fault() {
    let check = |python: &str, why: Option<&str>| {
        let node =
            smi("echo '12, 16384'").program("python3", &format!("#!/bin/bash\ncat >/dev/null\n{python}\n"));
        assert_eq!(node.run(2).1.as_deref(), why, "{python}");
    };
    check("printf 'torch\\njoined\\nok 9.30 Gbit/s\\n'", None);
    check("exit 1", None);
    check("echo torch; exit 1", None);
    check(
        "printf 'torch\\njoined\\nfailed the link from rank 3 to rank 0 passes 0.10 Gbit/s\\n'",
        Some("the link from rank 3 to rank 0 passes 0.10 Gbit/s"),
    );
}

#[test]
fn a_single_rank_and_a_job_on_cpus_have_no_links_and_no_gpu_to_check() {
    let node = smi("exit 1").program("python3", "#!/bin/bash\necho failed\n");
    let text = RANK.replace("1 t4'", "1 cpu'");
    assert_ne!(text, RANK);
    let status = Command::new("bash")
        .args(["-c", &text, "rank"])
        .arg(repository())
        .arg(node.path())
        .args([":", "1"])
        .env("PATH", format!("{}:/usr/bin:/bin", node.path().join("bin").display()))
        .env_remove("SLURMD_NODENAME")
        .status();
    assert_eq!(status.expect("bash").code(), Some(0));
}

#[test]
fn the_slow_node_is_the_one_that_all_slow_links_have_in_common() {
    let input = r#"
import sys
sys.path.insert(0, "templates/hsched_ddp")
from preflight import links_of, slow_node

def found(speeds):
    """Returns the slow nodes of a ring; speed i is that of the link from node i to the next."""
    nodes = ["n%d" % place for place in range(len(speeds))]
    links = [(node, nodes[(place + 1) % len(nodes)], speeds[place]) for place, node in enumerate(nodes)]
    return [node for node in nodes if slow_node(links, node)]

# A node's links are from the previous node and to the next node.
assert found([10, 10, 10, 10]) == []
assert found([10, 0.1, 0.2, 10, 10]) == ["n2"]
assert found([10, 0.1, 10, 10]) == [], "one link does not tell which end is slow"
assert found([0.1, 10, 0.1, 10, 10, 10]) == [], "two slow links that have no node in common"
assert found([10, 2, 2, 10, 10]) == [], "a fifth of the usual is no fault"

for count in range(1, 9):
    links = list(range(count))
    turns = [links_of(turn, links) for turn in range(3)]
    assert sorted(sum(turns, [])) == links, turns
    neighbours = [(one, other) for turn in turns for one in turn for other in turn if (one + 1) % count == other]
    assert count == 1 or not neighbours, turns
print("done")
"#;
    assert_eq!(run("python3", &["-"], input), "done\n");
}
