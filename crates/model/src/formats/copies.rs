//! Jobs trained as copies: one job for each copy.

use std::collections::BTreeMap;

use super::problem::ValueError;
use super::reader::ReaderValue;
use crate::{ErrorId, Job, JobName};

/// Returns the jobs of an entry, with one job for each copy. `lines` has the lines of the names in use; the
/// names of the copies are added.
pub(super) fn forked(
    item: &ReaderValue<'_>,
    jobs: Vec<Job>,
    lines: &mut BTreeMap<JobName, usize>,
) -> Option<Vec<Job>> {
    let mut all = Vec::new();
    for job in jobs {
        if job.launch.copies.is_none_or(|copies| copies.number.is_some()) {
            all.push(job);
            continue;
        }
        if job.min_gpus > 1 || job.gpus.is_some_and(|gpus| gpus > 1) {
            let message = "requests several GPUs, but each copy has one".to_owned();
            item.report(
                ValueError::new(message).id(ErrorId::Copies).hint("remove gpus and min_gpus, or copies"),
            );
            return None;
        }
        let Some(copies) = job.forked() else {
            item.report(
                ValueError::new("has a name that is too long to append the numbers of its copies")
                    .id(ErrorId::Copies),
            );
            return None;
        };
        for copy in copies {
            if let Some(line) = lines.get(&copy.name) {
                let (name, training) = (copy.name.as_str(), job.name.as_str());
                let message =
                    format!("{name:?}, a copy of {training}, is already the name of the job on line {line}");
                item.report(ValueError::new(message).id(ErrorId::NameTaken).hint("rename one of them"));
                return None;
            }
            lines.insert(copy.name.clone(), item.line());
            all.push(copy);
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use crate::formats::jobs::parse;

    const KEYS: &str = "samples_per_epoch: 9, epochs: 1, global_batch: 4, model_size: 0, command: run";

    fn names(jobs: &str) -> Result<Vec<String>, String> {
        let jobs = parse(&format!("jobs:\n{jobs}")).map_err(|problems| problems.to_string())?;
        Ok(jobs.iter().map(|job| job.name.as_str().to_owned()).collect())
    }

    #[test]
    fn each_copy_is_a_job_of_its_own() {
        let file = format!("jobs: [{{name: x, {KEYS}, copies: {{max: 2, round: 1m}}}}]");
        let jobs = parse(&file).expect("copies");
        assert_eq!(jobs[1].name.as_str(), "x.c2");
        assert_eq!((jobs[1].training(), jobs[1].max_gpus), (Some("x"), Some(1)));
        assert_eq!(jobs[0].launch.checkpoint.dir.as_deref(), Some("checkpoints/x"));
    }

    #[test]
    fn no_other_job_has_the_name_of_a_copy() {
        let x = format!("- {{name: x, {KEYS}, copies: {{max: 2}}}}\n");
        let other = format!("- {{name: x.c1, {KEYS}}}\n");
        assert_eq!(names(&x), Ok(vec!["x.c1".to_owned(), "x.c2".to_owned()]));
        let said = names(&format!("{other}{x}")).expect_err("refused");
        assert_eq!(
            said,
            "line 3: jobs[1]: \"x.c1\", a copy of x, is already the name of the job on line 2; rename one of them"
        );
        let said = names(&format!("{x}{other}")).expect_err("refused");
        assert_eq!(said, "line 3: jobs[1].name: \"x.c1\" is already the name of the job on line 2");
        let said =
            names(&format!("- {{name: x, {KEYS}, gpus: 2, copies: {{max: 2}}}}\n")).expect_err("refused");
        assert_eq!(
            said,
            "line 2: jobs[0]: requests several GPUs, but each copy has one; remove gpus and min_gpus, or copies"
        );
    }
}
