//! Checks that the names of copies are free.

use hsched_engine::State;
use hsched_model::{ErrorId, Job};
use hsched_ui::{Exit, Failure};

/// Refuses a copy whose name belongs to another job in the state, and a job whose name belongs to a copy.
///
/// # Errors
/// If there is one of these; the message names the first one.
pub(crate) fn refuse_others(jobs: &[Job], state: &State) -> Result<(), Failure> {
    for job in jobs {
        let same = state.jobs.iter().find(|tracked| tracked.job.name == job.name);
        let Some(other) = same.filter(|tracked| tracked.job.training() != job.training()) else { continue };
        let name = &job.name;
        let message = match (job.training(), other.job.training()) {
            (Some(training), _) => {
                format!("{name} is a copy of {training}, but the state already has another job of that name")
            }
            (None, of) => {
                format!("the state already has a copy of {} with the name {name}", of.unwrap_or("a training"))
            }
        };
        let hint = format!("give {} another name in the job file", job.training().unwrap_or(name.as_str()));
        return Err(Failure::new(Exit::BadInput, message).id(ErrorId::NameTaken).hint(hint));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hsched_engine::JobState;
    use hsched_model::Time;
    use hsched_model::formats::jobs::parse;

    fn jobs(keys: &str) -> Vec<Job> {
        let text = format!(
            "jobs: [{{{keys}, samples_per_epoch: 9, epochs: 1, global_batch: 4, model_size: 0, command: run}}]"
        );
        parse(&text).expect("jobs")
    }

    #[test]
    fn a_copy_takes_the_name_of_nothing_but_a_copy() {
        let (x, plain) = (jobs("name: x, copies: {max: 2}"), jobs("name: x.c2"));
        let state = |jobs: &[Job]| State {
            jobs: jobs.iter().map(|job| JobState::new(job.clone(), Time(0.0))).collect(),
            ..State::default()
        };
        let said = |jobs: &[Job], there: &[Job]| {
            refuse_others(jobs, &state(there)).map_err(|failure| (failure.exit, failure.message))
        };
        let copy = "x.c2 is a copy of x, but the state already has another job of that name".to_owned();
        assert_eq!(said(&x, &plain), Err((Exit::BadInput, copy)));
        let other = "the state already has a copy of x with the name x.c2".to_owned();
        assert_eq!(said(&plain, &x), Err((Exit::BadInput, other)));
        assert_eq!((said(&x, &x), said(&plain, &plain)), (Ok(()), Ok(())));
    }
}
