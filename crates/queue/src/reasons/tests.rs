use super::*;

#[test]
fn names_of_limits_are_read_by_their_parts() {
    let read = |name: &str| {
        LimitReason::read(name)
            .map(|limit_reason| (limit_reason.limit, limit_reason.resource, limit_reason.is_of_qos))
    };
    let gres = Some(Resource::Gres);
    for (name, limit, resource, is_of_qos) in [
        ("AssocGrpGRES", "GrpTRES", gres, false),
        ("AssocGrpCpuLimit", "GrpTRES", Some(Resource::Cpus), false),
        ("AssocGrpCPUMinutesLimit", "GrpTRESMins", Some(Resource::Cpus), false),
        ("AssocGrpGRESRunMinutes", "GrpTRESRunMins", gres, false),
        ("AssocMaxGRESPerJob", "MaxTRES", gres, false),
        ("AssocMaxNodePerJobLimit", "MaxTRES", Some(Resource::Nodes), false),
        ("AssocMaxCpuMinutesPerJobLimit", "MaxTRESMins", Some(Resource::Cpus), false),
        ("AssocMaxBBPerNode", "MaxTRESPerNode", Some(Resource::BurstBuffer), false),
        ("AssocMaxJobsLimit", "MaxJobs", None, false),
        ("AssocMaxWallDurationPerJobLimit", "MaxWall", None, false),
        ("QOSGrpMemoryRunMinutes", "GrpTRESRunMins", Some(Resource::Memory), true),
        ("QOSGrpMemLimit", "GrpTRES", Some(Resource::Memory), true),
        ("QOSMaxGRESPerUser", "MaxTRESPerUser", gres, true),
        ("QOSMaxCpuPerUserLimit", "MaxTRESPerUser", Some(Resource::Cpus), true),
        ("QOSMinCpuNotSatisfied", "MinTRES", Some(Resource::Cpus), true),
        ("QOSMinGRES", "MinTRES", gres, true),
        ("MaxGRESPerAccount", "MaxTRESPerAccount", gres, true),
        ("MaxGRESRunMinsPerUser", "MaxTRESRunMinsPerUser", gres, true),
        ("MaxJobsPerAccount", "MaxJobsPerAccount", None, true),
    ] {
        assert_eq!(read(name), Some((limit, resource, is_of_qos)), "{name}");
    }
    for name in
        ["QOSNotAllowed", "QOSUsageThreshold", "MaxMemPerLimit", "MaxPoweredUpNodes", "Priority", "AssocGrp"]
    {
        assert_eq!(read(name), None, "{name}");
    }
}

#[test]
fn what_slurm_puts_behind_a_name_is_kept_apart() {
    let check = |text: &str, name: &str, rest: &str, lifted_by: LiftedBy| {
        let reason = Reason::read(text);
        assert_eq!((reason.name.as_str(), reason.rest.as_str(), reason.lifted_by), (name, rest, lifted_by));
        assert!(!reason.meaning.is_empty());
    };
    check(
        "ReqNodeNotAvail, UnavailableNodes:v[1-2]",
        "ReqNodeNotAvail",
        "UnavailableNodes:v[1-2]",
        LiftedBy::Time,
    );
    check("ReqNodeNotAvail,_UnavailableNodes:v1", "ReqNodeNotAvail", "UnavailableNodes:v1", LiftedBy::Time);
    check(
        "launch_failed_requeued_held",
        "LaunchFailedHeld",
        "launch failed requeued held",
        LiftedBy::Release,
    );
    check("(Resources)", "Resources", "", LiftedBy::Time);
    check(
        "launch failed requeued held",
        "LaunchFailedHeld",
        "launch failed requeued held",
        LiftedBy::Release,
    );
    let text = "Job's QOS not permitted to use this partition (hi allows high not normal)";
    check(text, "QOSNotAllowed", text.trim_end_matches(')'), LiftedBy::Change);
    let text = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions";
    check(text, "ReqNodeNotAvail", text, LiftedBy::Time);
    check("", "", "", LiftedBy::Time);
    let unknown = Reason::read("NeverSeen");
    assert_eq!(unknown.lifted_by, LiftedBy::Unknown);
    assert!(unknown.meaning.contains("\"NeverSeen\""), "{}", unknown.meaning);
}

/// Reads all names of Slurm 24.05 to 26.05 from a list, if it exists beside the repository.
#[test]
#[expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "reads a list, and prints its path if it is missing"
)]
fn every_name_of_slurm_has_a_meaning() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/limits/reasons.tsv");
    let Ok(text) = std::fs::read_to_string(path) else {
        println!("skipped: no list of reasons at {path}");
        return;
    };
    let mut count = 0;
    for line in text.lines().skip(1) {
        let [name, meaning, time, way_out, _] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("five columns: {line}")
        };
        let reason = Reason::read(name);
        let expected: &[LiftedBy] = match time {
            _ if meaning.starts_with("held by") || meaning.starts_with("it was put back too") => {
                &[LiftedBy::Release]
            }
            _ if meaning.starts_with("why a job ended") => &[LiftedBy::End],
            _ if time.starts_with("only where old use") || time.contains("old use decays") => {
                &[LiftedBy::Decay]
            }
            _ if time.starts_with("when the site") => &[LiftedBy::Site],
            _ if time.starts_with("yes") || time.starts_with("refused") || time == "perhaps" => {
                &[LiftedBy::Time]
            }
            _ if time.starts_with("no") => &[LiftedBy::Change],
            _ => &[LiftedBy::Unknown],
        };
        assert!(expected.contains(&reason.lifted_by), "{name}: {time}: {:?}", reason.lifted_by);
        let needs_advice = !matches!(way_out, "nothing" | "-");
        assert!(!needs_advice || !reason.way_out.is_empty(), "{name}: {way_out}");
        count += 1;
    }
    assert_eq!(count, 219);
}
