//! The stable keys of refusals: the `id` in JSON errors, which `hsched help error ID` explains.

/// Declares the keys once, as variants, words and a list.
macro_rules! error_ids {
    ($($name:ident = $word:literal,)+) => {
        /// The stable key of a kind of refusal. `docs/errors.md` has a section for each.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum ErrorId {
            $($name,)+
        }

        impl ErrorId {
            /// All keys, in the order of `docs/errors.md`.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// Returns the key as written, such as `time-unit`.
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)+
                }
            }
        }
    };
}

error_ids! {
    // Values in any place.
    Value = "value",
    TimeUnit = "time-unit",
    TimeFormat = "time-format",
    SizeUnit = "size-unit",
    SizeFormat = "size-format",
    NumberFormat = "number-format",
    NumberRange = "number-range",
    WrongShape = "wrong-shape",
    UnknownWord = "unknown-word",
    TextFormat = "text-format",
    NameFormat = "name-format",
    NameTaken = "name-taken",
    GpuType = "gpu-type",
    SpeedFormat = "speed-format",
    // Keys of files and settings.
    UnknownKey = "unknown-key",
    MissingKey = "missing-key",
    RepeatedKey = "repeated-key",
    KeysConflict = "keys-conflict",
    // Job files.
    YamlSyntax = "yaml-syntax",
    JobFileShape = "job-file-shape",
    ExampleValue = "example-value",
    GpuRange = "gpu-range",
    EnvVariable = "env-variable",
    UnknownDependency = "unknown-dependency",
    DependencyCycle = "dependency-cycle",
    SweepSize = "sweep-size",
    SweepKey = "sweep-key",
    SweepValues = "sweep-values",
    SweepPlaceholder = "sweep-placeholder",
    SearchRange = "search-range",
    TargetMissing = "target-missing",
    Replicas = "replicas",
    Copies = "copies",
    SbatchOption = "sbatch-option",
    // Other files.
    ClusterFile = "cluster-file",
    TraceFile = "trace-file",
    TaskGraph = "task-graph",
    CurveFile = "curve-file",
    PlanFile = "plan-file",
    SnapshotFile = "snapshot-file",
    SpeedsFile = "speeds-file",
    WeightsFile = "weights-file",
    Template = "template",
    FileKind = "file-kind",
    FileEncoding = "file-encoding",
    FileUnreadable = "file-unreadable",
    FileUnwritable = "file-unwritable",
    FileExists = "file-exists",
    // Settings.
    Setting = "setting",
    SettingPlace = "setting-place",
    SiteForbids = "site-forbids",
    // The command line.
    Usage = "usage",
    UnknownArgument = "unknown-argument",
    MissingArgument = "missing-argument",
    OptionsConflict = "options-conflict",
    OptionNeeds = "option-needs",
    UnknownJob = "unknown-job",
    UnknownSweep = "unknown-sweep",
    SeveralMeant = "several-meant",
    PolicyOption = "policy-option",
    PolicyUnfit = "policy-unfit",
    // Planning and the queue.
    Unplaced = "unplaced",
    NoGpu = "no-gpu",
    UnknownPartition = "unknown-partition",
    UnknownAccount = "unknown-account",
    NoRequest = "no-request",
    NoChange = "no-change",
    ChangeToType = "change-to-type",
    StopsOwnJob = "stops-own-job",
    AlreadyQueued = "already-queued",
    PartlySubmitted = "partly-submitted",
    ScriptRefused = "script-refused",
    ScriptPieces = "script-pieces",
    TimeTooShort = "time-too-short",
    // Slurm.
    SlurmUnavailable = "slurm-unavailable",
    SlurmMissing = "slurm-missing",
    SlurmUnreachable = "slurm-unreachable",
    SlurmTimeout = "slurm-timeout",
    SlurmRefused = "slurm-refused",
    SlurmUnclear = "slurm-unclear",
    SlurmOutput = "slurm-output",
    // The state directory.
    Locked = "locked",
    StateDirectory = "state-directory",
    StateDamaged = "state-damaged",
    StateOpen = "state-open",
    OtherCluster = "other-cluster",
    RunExists = "run-exists",
    // Jobs and their outputs.
    NotStarted = "not-started",
    NoOutput = "no-output",
    NoMetric = "no-metric",
    NoSpeed = "no-speed",
    NotARank = "not-a-rank",
    Python = "python",
    // The process.
    Failed = "failed",
    BadInput = "bad-input",
    Directory = "directory",
    Saved = "saved",
    Interrupted = "interrupted",
    Internal = "internal",
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_word_is_in_kebab_case_and_stands_once() {
        let words: BTreeSet<&str> = ErrorId::ALL.iter().map(|id| id.word()).collect();
        assert_eq!(words.len(), ErrorId::ALL.len());
        let is_plain = |word: &&&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        assert_eq!(words.iter().filter(is_plain).count(), words.len());
    }
}
