//! A job script uses the shares for the allocated GPUs if these differ from the plan, or explains why it cannot.

use std::process::{Command, Output};

use crate::real_cluster::repository;
use crate::sandbox::write_program;

/// A job planned on two V100s of one node, with tables for four V100s on two nodes and for one A100.
const SCRIPT: &str = r#"
  . "$1/templates/rank.sh"; . "$1/templates/start.sh"; . "$1/templates/batch.sh"; . "$1/templates/ends.sh"
  hs_id=7 hs_world_size=2
  hs_ranks=('0 0 50 50 1 v100' '0 1 50 50 1 v100')
  hs_choices=('0 0 0 30 30 1 v100' '0 0 1 20 20 1 v100' '0 1 0 30 30 1 v100' '0 1 1 20 20 1 v100' '1 0 0 100 100 1 A100')
  hs_components=('1 2 4')
  read -ra hs_hosts <<<"$2"
  hs_take_table
  hs_join_batches
  printf '%s|' "$hs_world_size" "${hs_components[*]}" "$hs_batches" "${hs_ranks[0]}"
"#;

/// Runs the script on these nodes; `gres` is Slurm's text about the GPUs of each node.
fn run(hosts: &str, gres: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let line = |gres: &&str| format!("   Nodes=n CPU_IDs=0-3 Mem=100 GRES={gres} MinCPUsNode=1");
    let details: String = gres.iter().map(line).collect();
    let text = format!("#!/bin/sh\necho 'JobId=7 TRES=gres/gpu=2{details}'\n");
    write_program(&folder.path().join("scontrol"), &text);
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("bash");
    command.args(["-uc", SCRIPT, "script"]).arg(repository()).arg(hosts);
    command.env("PATH", path).env("SLURM_CPUS_ON_NODE", "6").output().expect("bash")
}

fn check(hosts: &str, gres: &[&str], expected: &str) {
    let output = run(hosts, gres);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{hosts} {gres:?}");
}

#[test]
fn what_was_planned_keeps_its_table() {
    let planned = "2|1 2 4|50,50|0 0 50 50 1 v100|";
    check("n1", &["gpu:v100:2(IDX:0,3)"], planned);
    // If Slurm does not show the type, it is assumed to be the requested one.
    check("n1", &["gpu:2(IDX:0-1)"], planned);
    check("n1", &[], planned);
}

#[test]
fn more_nodes_or_another_type_have_tables_of_their_own() {
    check("n1 n2", &["gpu:v100:2(IDX:0-1)", "gpu:v100:2(IDX:2-3)"], "4|2 2 3|30,20,30,20|0 0 30 30 1 v100|");
    check("n1", &["gpu:a100:1(IDX:0)"], "1|1 1 4|100|0 0 100 100 1 A100|");
}

#[test]
fn what_nobody_prepared_for_is_said() {
    let output = run("n1", &["gpu:v100:3(IDX:0-2)"]);
    assert_eq!(output.status.code(), Some(1));
    let said = "hsched: error: Slurm allocated 1 node with 3 v100, but the script has shares only for: 1 node with 2 v100; 2 nodes with 2 v100; 1 node with 1 A100\n";
    assert_eq!(String::from_utf8_lossy(&output.stderr), said);
}
