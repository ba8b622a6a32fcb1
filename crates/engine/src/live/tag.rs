//! The Slurm comment by which hsched recognises its jobs in a queue.

use serde::Deserialize;

use crate::SubmissionKey;

/// The run and job that a Slurm job belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag {
    /// The run's unique token.
    pub run: String,
    /// The job's name in its job file.
    pub job: String,
    /// The copy's number among the job's copies, from 0.
    pub copy: u32,
}

/// The version of the comment's format; later versions only add keys.
const VERSION: u32 = 1;

/// The comment as JSON.
#[derive(Deserialize)]
struct Comment {
    hsched: u32,
    run: String,
    job: String,
    #[serde(default)]
    copy: u32,
}

impl Tag {
    /// Returns the tag of a submission.
    pub fn of(of: &SubmissionKey) -> Self {
        Self { run: of.run.clone(), job: of.job.to_string(), copy: of.copy }
    }

    /// Returns the one-line text for `--comment`.
    pub fn to_comment(&self) -> String {
        let (run, job) =
            (serde_json::Value::from(self.run.as_str()), serde_json::Value::from(self.job.as_str()));
        let copy = if self.copy == 0 { String::new() } else { format!(r#","copy":{}"#, self.copy) };
        format!(r#"{{"hsched":{VERSION},"run":{run},"job":{job}{copy}}}"#)
    }

    /// Returns the text for `--comment` of a job whose user set a comment.
    pub fn to_comment_with(&self, words: &str) -> String {
        self.with_key("comment", words)
    }

    /// Returns the text for `--comment` of a request that joins the race of another run, by which the winner
    /// of the race finds it.
    pub(super) fn to_comment_in_race(&self, run: &str) -> String {
        self.with_key("race", run)
    }

    fn with_key(&self, key: &str, text: &str) -> String {
        let comment = self.to_comment();
        let begin = comment.strip_suffix('}').unwrap_or(&comment);
        format!(r#"{begin},"{key}":{}}}"#, serde_json::Value::from(text))
    }

    /// Returns the tag in a job's comment, or `None` for jobs that hsched did not submit.
    pub fn from_comment(comment: &str) -> Option<Self> {
        let Comment { hsched, run, job, copy } = serde_json::from_str(comment.trim()).ok()?;
        (hsched >= VERSION).then_some(Self { run, job, copy })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_own_comments_carry_a_tag() {
        let tag = Tag { run: "r1".to_owned(), job: "resnet18".to_owned(), copy: 0 };
        assert_eq!(tag.to_comment(), r#"{"hsched":1,"run":"r1","job":"resnet18"}"#);
        let copy = Tag { copy: 2, ..tag.clone() };
        assert_eq!(copy.to_comment(), r#"{"hsched":1,"run":"r1","job":"resnet18","copy":2}"#);
        assert_eq!(Tag::from_comment(&copy.to_comment_with("for \"ann\"}\n")), Some(copy.clone()));
        let joined = copy.to_comment_in_race("r0");
        assert_eq!(joined, r#"{"hsched":1,"run":"r1","job":"resnet18","copy":2,"race":"r0"}"#);
        assert_eq!(Tag::from_comment(&joined), Some(copy));
        let later = r#"{"hsched":2,"run":"r1","job":"resnet18","more":[]} "#;
        assert_eq!(Tag::from_comment(later), Some(tag));
        for other in
            ["", "(null)", "mine", "{}", r#"{"run":"r1","job":"a"}"#, r#"{"hsched":0,"run":"","job":""}"#]
        {
            assert_eq!(Tag::from_comment(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn a_tag_survives_its_comment(run in ".*", job in ".*", copy: u32) {
            let tag = Tag { run, job, copy };
            let comment = tag.to_comment();
            prop_assert!(comment.chars().all(|c| c >= ' '));
            prop_assert_eq!(Tag::from_comment(&comment), Some(tag));
        }
    }
}
