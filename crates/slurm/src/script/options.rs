//! Options of `sbatch` as they were written, with the place of each.

use std::ops::Range;

/// An option that `sbatch` applies; of several of one name and component, the last one counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptOption {
    /// Long name in full without dashes, such as `ntasks-per-node` for `--tasks`; of a site's plugin option the name as written.
    pub name: String,
    /// Value after quotes and backslashes; `None` for an option without one.
    pub value: Option<String>,
    /// Where the option was found.
    pub source: OptionSource,
    /// Component of a het job, counted from 0; 0 in other jobs. Options of the environment and the command line that hold for all
    /// components are listed once, with the first one.
    pub component: usize,
}

/// Where an option was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionSource {
    /// A line of the script: `#SBATCH`, `#PBS` or `#BSUB`.
    Script {
        /// Line number, counted from 1.
        line: usize,
        /// Text of the value in the file; `None` for an option without a value, or one that cannot be rewritten in place.
        value: Option<ValueText>,
    },
    /// An environment variable, by name.
    Environment(String),
    /// A word of the command line, counted from 0.
    CommandLine(usize),
}

/// Bytes of a script that hold the value of an option.
///
/// A word without blanks, quotes, backslashes and `#` can take their place; every other byte of the file stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueText {
    /// Bytes of the file. Quotes around the whole value are outside; quotes around a part of it are inside.
    pub bytes: Range<usize>,
    /// The quote around the whole value, `"` or `'`, if there is one: inside, blanks and `#` are allowed too.
    pub quote: Option<char>,
}
