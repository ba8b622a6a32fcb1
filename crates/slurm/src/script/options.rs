//! Options of `sbatch` as written, with the place of each.

use std::ops::Range;

/// An option that `sbatch` applies; of several with the same name and component, the last one counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptOption {
    /// Full long name without dashes, such as `ntasks-per-node` for `--tasks`; for an option of a site's
    /// plugin, the name as written.
    pub name: String,
    /// Value after removal of quotes and backslashes; `None` for an option without one.
    pub value: Option<String>,
    /// Where the option was found.
    pub source: OptionSource,
    /// Component of a het job, from 0; 0 in other jobs. Options of the environment and the command line that
    /// apply to all components are listed once, with the first one.
    pub component: usize,
}

/// Where an option was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionSource {
    /// A line of the script: `#SBATCH`, `#PBS` or `#BSUB`.
    Script {
        /// Line number, from 1.
        line: usize,
        /// Text of the value in the file; `None` for an option without a value, or for a value that cannot be
        /// replaced in place.
        value: Option<ValueText>,
    },
    /// An environment variable, by name.
    Environment(String),
    /// A word of the command line, by its index from 0.
    CommandLine(usize),
}

/// Byte range of an option's value in a script.
///
/// A word without blanks, quotes, backslashes or `#` can replace it; all other bytes of the file stay the
/// same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueText {
    /// Byte range in the file. Quotes around the whole value are outside it; quotes around a part of the
    /// value are inside.
    pub bytes: Range<usize>,
    /// The quote around the whole value, `"` or `'`, if there is one; blanks and `#` are then allowed inside
    /// as well.
    pub quote: Option<char>,
}
