//! Scripts whose options determine the request, and the precedence of the options.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;

fn reading(lines: &str, words: &[&str], variables: &[(&str, &str)]) -> ScriptReading {
    let script = format!("#!/bin/bash\n{}\n", lines.replace("§", "#SBATCH").replace(" | ", "\n"));
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let environment: BTreeMap<String, String> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    read_script(&ScriptSource {
        script: Some(script.as_bytes()),
        file_name: "x.sh",
        command_line: &words,
        environment: &environment,
        version: None,
    })
}

/// Returns some fields of a request.
fn fields(lines: &str, words: &[&str], variables: &[(&str, &str)], names: &[&str]) -> Vec<Value> {
    let json = reading(lines, words, variables).to_json();
    names.iter().map(|name| json["request"][*name].clone()).collect()
}

#[test]
fn variables_are_listed_as_the_options_that_they_set() {
    let variables = [
        ("SBATCH_EXCLUSIVE", ""),
        ("SBATCH_OVERCOMMIT", "no"),
        ("SBATCH_PARTITION", "gpu"),
        ("SBATCH_REQUEUE", "1"),
    ];
    let options = reading("", &[], &variables).options;
    let mut listed: Vec<(&str, Option<&str>)> =
        options.iter().map(|option| (option.name.as_str(), option.value.as_deref())).collect();
    listed.sort_unstable();
    assert_eq!(listed, [("exclusive", None), ("partition", Some("gpu")), ("requeue", None)]);
}

#[test]
fn the_command_line_wins_over_the_environment_and_that_over_the_script() {
    let names = ["time_limit_s", "partition", "qos"];
    let script = "§ -t 7 -p a -q x | #PBS -l walltime=8 -q b";
    assert_eq!(fields(script, &[], &[], &names), [json!(480), json!("b"), json!("x")]);
    assert_eq!(fields(script, &["--ignore-pbs"], &[], &names), [json!(420), json!("a"), json!("x")]);
    let variables = [("SBATCH_TIMELIMIT", "9"), ("SBATCH_NODES", "4")];
    assert_eq!(fields(script, &[], &variables, &names), [json!(540), json!("b"), json!("x")]);
    assert_eq!(fields(script, &["-t10"], &variables, &names), [json!(600), json!("b"), json!("x")]);
    let notes = reading(script, &[], &variables).notes;
    assert!(notes.iter().any(|note| note.text == "SBATCH_NODES=4" && note.line.is_none()), "{notes:?}");
}

#[test]
fn components_keep_some_options() {
    let names = ["het", "gpus_total", "time_limit_s"];
    let script = "§ -N1 -t 5 -p a --gres=gpu:2 | § hetjob | § -N2 --gres=gpu:4";
    assert_eq!(fields(script, &[], &[], &names), [json!(2), json!(10), json!(300)]);
    let request = reading(script, &[], &[]).request.expect("a request");
    let of = |resource_request: &ResourceRequest| {
        (resource_request.nodes_min, resource_request.partition.clone(), resource_request.gpus_total)
    };
    let components: Vec<_> = request.components.iter().map(of).collect();
    assert_eq!(components, [(Some(1), Some("a".to_owned()), Some(2)), (Some(2), None, Some(8))]);
    assert_eq!(fields("§ -G1", &["-N1", ":", "-N2"], &[], &names)[..2], [json!(2), json!(1)]);
    assert!(reading("§ -a 0-3 | § hetjob", &[], &[]).refused.is_some());
}

#[test]
fn a_value_that_a_later_option_replaces_is_refused_only_by_sbatch_itself() {
    assert_eq!(reading("§ --gres=gpu: | § --gres=gpu:2", &[], &[]).refused, None);
    assert!(reading("§ --gres=gpu:", &[], &[]).refused.is_some());
    assert!(reading("§ --time=2h | § --time=2", &[], &[]).refused.is_some());
    assert_eq!(reading("§ --time={{ t }}", &["--time=2"], &[]).refused, None);
}

#[test]
fn what_is_known_only_later_has_no_value() {
    let reading = reading("§ --nodes=$N --gres=gpu:2 -A {{ a }} -p $P -c 4", &[], &[]);
    assert_eq!(reading.refused.as_deref(), Some("line 2: \"$N\" is not a valid node count"));
    assert_eq!(
        reading.unknown.iter().map(|line_remark| line_remark.text.as_str()).collect::<Vec<_>>(),
        ["--nodes=$N", "-A {{ a }}", "-p $P"]
    );
    let total = reading.request.expect("a request").total;
    assert_eq!((total.nodes_min, total.gpus_total, total.gpus_per_node), (None, None, Some(2)));
    // Slurm uses the text of a variable unchanged.
    assert_eq!((total.account, total.partition.as_deref(), total.cpus_per_task), (None, Some("$P"), Some(4)));
}

#[test]
fn gpus_of_nodes_and_tasks_tell_the_number_of_nodes() {
    let names = ["nodes_min", "nodes_max", "gpus_total"];
    let all = |options: &str| fields(&format!("§ {options}"), &[], &[], &names);
    assert_eq!(all("--gres=gpu:2 --gpus-per-task=1 -n 5"), [json!(3), json!(null), json!(5)]);
    assert_eq!(all("--gres=gpu:2 --gpus-per-task=1 -n 4 -N 1"), [json!(1), json!(1), json!(4)]);
    assert_eq!(all("--gres=gpu:2 --gpus-per-task=1 -n 4 -N 1-4"), [json!(2), json!(4), json!(4)]);
}

#[test]
fn tasks_of_nodes_that_follow_from_gpus_count() {
    let all = |options: &str| fields(&format!("§ {options}"), &[], &[], &["nodes_min", "ntasks"]);
    assert_eq!(all("--gpus=8 --gpus-per-node=4 --ntasks-per-node=4"), [json!(2), json!(8)]);
    assert_eq!(all("--gpus=8 --gpus-per-node=4"), [json!(2), json!(2)]);
}

#[test]
fn a_variable_in_a_name_hides_no_refusal() {
    let reading = reading("§ -J $HOME --gpus-per-node=1 --gpus-per-task=4 -n 1", &[], &[]);
    assert!(reading.refused.is_some_and(|why| why.contains("--gpus-per-task")));
}

#[test]
fn a_type_without_a_number_is_noted() {
    let reading = reading("§ --gpus-per-task=a100 -n 4", &[], &[]);
    assert_eq!(reading.request.map(|script_request| script_request.total.gpus_total), Some(Some(0)));
    assert_eq!(reading.notes.iter().map(|line_remark| line_remark.line).collect::<Vec<_>>(), [Some(2)]);
}

#[test]
fn the_shortest_time_is_no_longer_than_the_limit() {
    let is_refused = |options: &str| reading(&format!("§ {options}"), &[], &[]).refused.is_some();
    for options in ["-t 10 --time-min=20", "--time-min=0", "-t 10 --time-min=UNLIMITED"] {
        assert!(is_refused(options), "{options}");
    }
    for options in ["-t 10 --time-min=10", "--time-min=10", "-t 0 --time-min=0", "-t 0 --time-min=5"] {
        assert!(!is_refused(options), "{options}");
    }
}

#[test]
fn options_know_where_they_were_found() {
    let reading = reading("§ -N2 | § hetjob | § -n3", &["-t5"], &[("SBATCH_QOS", "q")]);
    let found: Vec<(&str, usize, bool)> = reading
        .options
        .iter()
        .map(|script_option| {
            (
                script_option.name.as_str(),
                script_option.component,
                matches!(script_option.source, OptionSource::Script { .. }),
            )
        })
        .collect();
    assert_eq!(found, [("nodes", 0, true), ("qos", 0, false), ("time", 0, false), ("ntasks", 1, true)]);
}
