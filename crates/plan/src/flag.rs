//! Flags of individual policies: their help on the command line, and checks before a policy is created.

/// A flag of some policies.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// The long name of the flag, without dashes.
    pub name: &'static str,
    /// Placeholder of the flag's value in help texts; empty for a switch.
    pub value_name: &'static str,
    pub kind: FlagKind,
    /// The default value.
    pub usual: Option<&'static str>,
    /// Help text, which begins with the policies that have the flag and a colon.
    pub help: &'static str,
}

/// The values that a flag accepts.
#[derive(Clone, Copy, Debug)]
pub enum FlagKind {
    /// No value: the flag is present or absent.
    Switch,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Text that passes a check; the check returns the problem.
    Text(fn(&str) -> Result<(), String>),
    /// A file whose content passes a check. The flag's value is the content, and the policy requires it.
    File {
        check: fn(&str) -> Result<(), String>,
        /// Error text if the file is missing, and advice.
        missing: [&'static str; 2],
        /// The command that writes such files.
        hint: &'static str,
    },
}

/// Flags with equal names are equal.
impl PartialEq for Flag {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Flag {
    /// Returns whether the policy cannot be created without this flag.
    pub fn is_needed(&self) -> bool {
        matches!(self.kind, FlagKind::File { .. })
    }
}

/// Reads a number from 0 to 1.
///
/// # Errors
/// If the text is not a number from 0 to 1.
pub(super) fn fraction(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=1.0).contains(&number) { Ok(number) } else { Err("must be between 0 and 1".into()) }
}

/// Returns the value with this name.
///
/// # Errors
/// If no value has this name.
pub fn named<T: Copy>(names: &[(&'static str, T)], name: &str) -> Result<T, String> {
    let found = names.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    found.ok_or_else(|| {
        format!("must be one of {}", names.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "))
    })
}
