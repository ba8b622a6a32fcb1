//! `after` of a file's jobs: the name of a job with a sweep stands for all its variants, and no job may wait
//! for itself.

use std::collections::{BTreeMap, BTreeSet};

use super::problem::ValueError;
use super::reader::{ReaderValue, all};
use crate::{ErrorId, Job, JobName};

/// Reads the names of a job's predecessors: one, or a list.
pub(super) fn read(value: &ReaderValue<'_>) -> Option<Vec<JobName>> {
    let name = |item: &ReaderValue<'_>| {
        item.parsed(|text| {
            JobName::new(text).map_err(|error| ValueError::new(error.to_string()).id(ErrorId::NameFormat))
        })
    };
    if value.is_list() { all(value.items().iter().map(name)) } else { Some(vec![name(value)?]) }
}

/// Returns the jobs of a file, and reports jobs that wait for themselves; each entry has its expanded jobs.
/// Names that are not in the file are kept, because they may refer to jobs added earlier.
pub(super) fn settled(mut entries: Vec<(ReaderValue<'_>, Vec<Job>)>) -> Vec<Job> {
    let variants: BTreeMap<JobName, Vec<JobName>> = entries
        .iter()
        .filter_map(|(entry, jobs)| {
            let base = JobName::new(field(entry, "name")?.text()?).ok()?;
            Some((base, jobs.iter().map(|job| job.name.clone()).collect()))
        })
        .collect();
    for job in entries.iter_mut().flat_map(|(_, jobs)| jobs) {
        let named = |name: &JobName| variants.get(name).cloned().unwrap_or_else(|| vec![name.clone()]);
        job.after = job.after.iter().flat_map(named).collect();
    }
    let free = can_start(entries.iter().flat_map(|(_, jobs)| jobs));
    for (entry, jobs) in &entries {
        let stuck = jobs.iter().find(|job| !free.contains(&job.name));
        if let Some((job, value)) = stuck.zip(field(entry, "after")) {
            let all: Vec<&Job> = entries.iter().flat_map(|(_, jobs)| jobs).collect();
            value.report(
                ValueError::new(format!("{} waits for itself{}", job.name, way(job, &all)))
                    .id(ErrorId::DependencyCycle),
            );
        }
    }
    entries.into_iter().flat_map(|(_, jobs)| jobs).collect()
}

/// Returns the cycle from a job back to itself: ` (c after b after a after c)`; empty if the job directly
/// waits for itself, or is in no cycle but waits for one.
fn way(job: &Job, all: &[&Job]) -> String {
    let mut before: BTreeMap<&JobName, &JobName> = BTreeMap::new();
    let mut next = vec![job];
    while let Some(job) = next.pop() {
        for name in &job.after {
            if before.contains_key(name) {
                continue;
            }
            before.insert(name, &job.name);
            next.extend(all.iter().filter(|other| other.name == *name));
        }
    }
    let mut back = vec![&job.name];
    while let Some(name) = before.get(back[back.len() - 1]) {
        back.push(name);
        if *name == &job.name {
            break;
        }
    }
    back.reverse();
    let names: Vec<&str> = back.into_iter().map(JobName::as_str).collect();
    if names.len() > 2 { format!(" ({})", names.join(" after ")) } else { String::new() }
}

/// Returns the jobs that can start eventually: those without predecessors, then those whose predecessors are
/// among these.
fn can_start<'a>(jobs: impl Iterator<Item = &'a Job>) -> BTreeSet<JobName> {
    let mut rest: BTreeMap<&JobName, &[JobName]> = jobs.map(|job| (&job.name, &job.after[..])).collect();
    let mut free = BTreeSet::new();
    loop {
        let waits = |before: &&[JobName]| before.iter().any(|name| rest.contains_key(name));
        let next: Vec<&JobName> =
            rest.iter().filter(|(_, before)| !waits(before)).map(|(name, _)| *name).collect();
        if next.is_empty() {
            return free;
        }
        for name in next {
            rest.remove(name);
            free.insert(name.clone());
        }
    }
}

/// Returns the value of a key of a job, even if other keys are invalid.
fn field<'a>(entry: &ReaderValue<'a>, key: &str) -> Option<ReaderValue<'a>> {
    entry.entries_quietly().into_iter().find(|(name, _)| *name == key).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use crate::JobName;
    use crate::formats::jobs::parse;

    const LEAST: &str =
        "samples_per_epoch: 1000, epochs: 2, global_batch: 300, model_size: 1MB, command: run";

    fn after(entries: &[&str]) -> String {
        let entries: Vec<String> = entries.iter().map(|entry| format!("- {{{LEAST}, {entry}}}\n")).collect();
        match parse(&format!("jobs:\n{}", entries.concat())) {
            Err(problems) => problems.to_string(),
            Ok(jobs) => {
                let one = |job: &crate::Job| {
                    let after: Vec<&str> = job.after.iter().map(JobName::as_str).collect();
                    format!("{}: {}", job.name, after.join(" "))
                };
                jobs.iter().map(one).collect::<Vec<_>>().join("; ")
            }
        }
    }

    #[test]
    fn one_name_or_a_list_of_this_file_or_of_jobs_added_before() {
        assert_eq!(
            after(&["name: a", "name: b, after: a", "name: c, after: [b, old]"]),
            "a: ; b: a; c: b old"
        );
    }

    #[test]
    fn a_job_with_a_sweep_stands_for_its_variants() {
        let entries = ["name: a, sweep: {lr: [1, 2]}", "name: b, after: a", "name: c, after: a-lr2"];
        assert_eq!(after(&entries), "a-lr1: ; a-lr2: ; b: a-lr1 a-lr2; c: a-lr2");
    }

    #[test]
    fn no_job_waits_for_itself() {
        assert_snapshot!(after(&["name: a, after: a"]), @"line 2: jobs[0].after: a waits for itself");
        assert_snapshot!(after(&["name: a, after: [c]", "name: b, after: a", "name: c, after: b", "name: d"]), @r"
        line 2: jobs[0].after: a waits for itself (a after c after b after a)
        line 3: jobs[1].after: b waits for itself (b after a after c after b)
        line 4: jobs[2].after: c waits for itself (c after b after a after c)
        ");
        assert_snapshot!(after(&["name: a, after: ['x y']", "name: b, after: 3"]), @r#"line 2: jobs[0].after[0]: job name "x y" contains ' '; only letters, digits, '-', '_' and '.' are allowed"#);
    }
}
