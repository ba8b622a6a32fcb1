//! Flags of single policies: what a command line shows, and what it checks before a policy is made.

/// A flag of some policies.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Its long name, without dashes.
    pub name: &'static str,
    /// What stands for its value in a help text; empty for a switch.
    pub value_name: &'static str,
    pub kind: FlagKind,
    /// The value if not given.
    pub usual: Option<&'static str>,
    /// Begins with the policies that have it, and a colon.
    pub help: &'static str,
}

/// What values a flag takes.
#[derive(Clone, Copy, Debug)]
pub enum FlagKind {
    /// None: it is given or not.
    Switch,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Text that passes a check, which says what is wrong.
    Text(fn(&str) -> Result<(), String>),
    /// A file with content that passes a check. The value of the flag is the content. Without it there is no policy.
    File {
        check: fn(&str) -> Result<(), String>,
        /// What is wrong where it is missing, and what to do.
        missing: [&'static str; 2],
        /// What writes such files.
        hint: &'static str,
    },
}

/// A name stands for one flag, wherever it is listed.
impl PartialEq for Flag {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Flag {
    /// Returns whether a policy cannot be made without it.
    pub fn is_needed(&self) -> bool {
        matches!(self.kind, FlagKind::File { .. })
    }
}

/// Reads a number from 0 to 1.
///
/// # Errors
/// What is wrong with the text.
pub(super) fn fraction(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=1.0).contains(&number) { Ok(number) } else { Err("must be between 0 and 1".into()) }
}

/// Returns the value with this name.
///
/// # Errors
/// If there is none.
pub fn named<T: Copy>(names: &[(&'static str, T)], name: &str) -> Result<T, String> {
    let found = names.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    found.ok_or_else(|| {
        format!("must be one of {}", names.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "))
    })
}
