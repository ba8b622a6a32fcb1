//! Input of the reader of `sbatch` options.

use std::collections::BTreeMap;

/// All sources of a submission's options.
#[derive(Clone, Copy, Debug)]
pub struct ScriptSource<'a> {
    /// Bytes of the script; `None` without a script, as for `salloc` and `srun`.
    pub script: Option<&'a [u8]>,
    /// Base name of the script: the job's name unless an option sets one.
    pub file_name: &'a str,
    /// Options of the command line, one word per entry.
    pub command_line: &'a [String],
    /// Environment variables; only those that `sbatch` reads count (`SBATCH_…` and a few `SLURM_…`).
    pub environment: &'a BTreeMap<String, String>,
    /// Version of the cluster's Slurm; `None` means unknown and is read as [`SlurmVersion::DEFAULT`].
    pub version: Option<SlurmVersion>,
}

impl ScriptSource<'_> {
    /// Returns the job's name if no option sets one.
    pub(super) fn usual_name(&self) -> String {
        if self.file_name.is_empty() { "sbatch".to_owned() } else { self.file_name.to_owned() }
    }
}

/// Release of Slurm, such as 24.11.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlurmVersion {
    /// Year of the release without the century: 24.
    pub year: u16,
    /// Month of the release: 11.
    pub month: u16,
}

impl SlurmVersion {
    /// The version whose rules apply if the cluster's version is unknown: 24.11.
    pub const DEFAULT: Self = Self { year: 24, month: 11 };

    /// Returns the release as an increasing number: 2411.
    pub(super) fn number(self) -> u32 {
        u32::from(self.year) * 100 + u32::from(self.month)
    }

    /// Returns whether this is the release or a later one.
    pub(super) fn is_at_least(self, year: u16, month: u16) -> bool {
        self >= Self { year, month }
    }

    /// Returns the release of a version such as `24.11.5` or `slurm 22.05.8`; `None` for other text.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.trim().trim_start_matches(|c: char| !c.is_ascii_digit());
        let mut parts = digits.split('.');
        let year = parts.next()?.parse().ok()?;
        let month: String = parts.next()?.chars().take_while(char::is_ascii_digit).collect();
        Some(Self { year, month: month.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::SlurmVersion;

    #[test]
    fn versions_are_read_as_slurm_prints_them() {
        let version = |year, month| Some(SlurmVersion { year, month });
        assert_eq!(SlurmVersion::parse("slurm 22.05.8"), version(22, 5));
        assert_eq!(SlurmVersion::parse("24.11.0-0rc1"), version(24, 11));
        assert_eq!(SlurmVersion::parse("24.11"), version(24, 11));
        for text in ["", "slurm", "24", "x.y", "99999999.1"] {
            assert_eq!(SlurmVersion::parse(text), None, "{text}");
        }
        assert!(SlurmVersion { year: 22, month: 5 } < SlurmVersion::DEFAULT);
    }
}
