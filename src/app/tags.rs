//! Selects jobs by their tags.

use std::collections::BTreeSet;

use crate::app::completions;
use hsched_model::{ErrorId, formats};
use hsched_ui::{Exit, Failure};

/// The tags of a command line.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct TagArgs {
    /// Only jobs with this tag (job key tags); several options mean jobs with any of these tags.
    #[arg(long = "tag", value_name = "TAG", add = completions::tags())]
    tags: Vec<String>,
}

impl TagArgs {
    /// Returns whether the command line names tags.
    pub(crate) fn are_given(&self) -> bool {
        !self.tags.is_empty()
    }

    /// Returns whether a job with these tags is selected; without tags on the command line, every job is.
    pub(crate) fn mean(&self, tags: &[String]) -> bool {
        self.tags.is_empty() || self.tags.iter().any(|tag| tags.contains(tag))
    }

    /// Refuses tags on a command for a script, because scripts have none.
    ///
    /// # Errors
    /// If the command line names tags.
    pub(crate) fn refuse_scripts(&self) -> Result<(), Failure> {
        if self.tags.is_empty() {
            return Ok(());
        }
        let message = "a script has no tags, so --tag cannot select it";
        Err(Failure::new(Exit::Usage, message).id(ErrorId::OptionsConflict).hint("leave out --tag"))
    }

    /// Returns the error if none of the named jobs has one of the tags.
    pub(crate) fn none_of_names(&self) -> Failure {
        let tags = self.tags.iter().map(|tag| format!("{tag:?}")).collect::<Vec<_>>().join(" or ");
        Failure::new(Exit::Usage, format!("none of the named jobs has the tag {tags}"))
            .id(ErrorId::UnknownJob)
            .hint("leave out --tag, or the names")
    }

    /// Refuses a tag that no job has.
    ///
    /// # Errors
    /// If there is such a tag.
    pub(crate) fn check<'a>(&self, jobs: impl Iterator<Item = &'a [String]>) -> Result<(), Failure> {
        let known: BTreeSet<&str> = jobs.flatten().map(String::as_str).collect();
        let Some(unknown) = self.tags.iter().find(|tag| !known.contains(tag.as_str())) else { return Ok(()) };
        let failure =
            Failure::new(Exit::Usage, format!("no job has the tag {unknown:?}")).id(ErrorId::UnknownJob);
        Err(match formats::nearest(unknown, known.iter().copied()) {
            Some(near) => failure.hint(format!("did you mean {near}?")),
            None if known.is_empty() => failure.hint("the key tags of a job file gives jobs tags"),
            None => failure.hint(format!("known: {}", known.into_iter().collect::<Vec<_>>().join(", "))),
        })
    }
}
