//! The script of an allocation in which `hsched run` runs all jobs.

use serde_json::json;

use crate::render::RenderError;
use crate::render::script::text;

/// Values for the script of an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Together {
    /// sbatch options, as words without line breaks.
    pub options: Vec<Vec<String>>,
    /// The state directory of the jobs, absolute.
    pub state: String,
    /// Absolute path of the script itself.
    pub script: String,
    /// Absolute path of the hsched that runs the jobs.
    pub program: String,
    /// Whether the allocations are tasks of a job array.
    pub array: bool,
    /// Words after `hsched run`.
    pub arguments: Vec<String>,
}

impl Together {
    /// Returns the text of the script.
    ///
    /// # Errors
    /// Never for the built-in template.
    pub fn render(&self) -> Result<String, RenderError> {
        let Self { options, state, script, program, array, arguments } = self;
        let context = json!({
            "options": options, "state": state, "script": script, "program": program,
            "array": array, "arguments": arguments,
        });
        text("together.sh.j2", include_str!("../../../../templates/together.sh.j2"), context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_and_each_option_has_its_line() {
        let together = Together {
            options: vec![vec!["--gres=gpu:v100:4".into()], vec!["--comment=a b".into()]],
            state: "/home/a b/state".into(),
            script: "/home/it's.sbatch".into(),
            program: "/usr/bin/hsched".into(),
            array: false,
            arguments: vec!["--policy".into(), "srtf".into()],
        };
        let text = together.render().expect("a script");
        for line in [
            "#SBATCH --gres=gpu:v100:4",
            "#SBATCH '--comment=a b'",
            "export HSCHED_STATE_DIR='/home/a b/state'",
            r"hs_script='/home/it'\''s.sbatch'",
            "/usr/bin/hsched run --policy srtf &",
        ] {
            assert!(text.lines().any(|text_line| text_line == line), "{line}\n{text}");
        }
        assert!(!text.contains("SLURM_ARRAY"), "{text}");
        let text = Together { array: true, ..together }.render().expect("a script");
        assert!(text.contains("\nunset -v \"${!SLURM_ARRAY_@}\"\n"), "{text}");
    }
}
