//! The settings file that `hsched init` writes: every key that all layers may set, with its help, commented
//! out unless its value is known.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::keys::{KEYS, Key, SetBy};

/// Known facts about the site.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Starter {
    /// Accounts that the user may charge.
    pub accounts: Vec<String>,
    /// Partitions, each with a short description.
    pub partitions: Vec<(String, String)>,
    /// Partition that jobs must name because there is no suitable default.
    pub partition: Option<String>,
    /// Number of GPUs by type.
    pub gpus: BTreeMap<String, u32>,
}

const HEAD: &str = "\
# Settings of hsched for this directory and its subdirectories. `hsched config show` lists the current values.
# Lines that begin with # and a space are comments. To set a key with a # directly before it, remove the #.
";

impl Starter {
    /// Returns the text of the file, which is valid unchanged and after any of its keys is uncommented,
    /// together with the heading of its table if it has one.
    pub fn to_toml(&self) -> String {
        let mut text = HEAD.to_owned();
        // TOML requires tables after all other keys.
        for key in KEYS.iter().filter(|key| key.set_by == SetBy::All && !key.table) {
            let _ = writeln!(text, "\n# {} ({}).", key.help, key.form);
            self.remarks(key).iter().for_each(|remark| comment(&mut text, remark));
            let (value, known) = self.value(key);
            let _ = writeln!(text, "{}{} = {value}", if known { "" } else { "#" }, key.name);
        }
        for key in KEYS.iter().filter(|key| key.set_by == SetBy::All && key.table) {
            let _ = writeln!(text, "\n# {} ({}); also remove the # of the heading.", key.help, key.form);
            let _ = writeln!(text, "#[{}]", key.name);
            for (item, value) in self.entries(key) {
                let _ = writeln!(text, "#{} = {value}", quoted(&item));
            }
        }
        text
    }

    /// Returns remarks on a key: its possible values, or how to find its value; empty for most keys.
    fn remarks(&self, key: &Key) -> Vec<String> {
        match key.name {
            "account" if self.accounts.len() > 1 => vec![format!("Yours are: {}", self.accounts.join(", "))],
            "partition" => self.partitions.iter().map(|(name, about)| format!("  {name}: {about}")).collect(),
            "network_gbps" => vec!["Ask your administrators, or run `ibstat` or `ethtool`. hsched uses it to decide over how many nodes a job spreads.".into()],
            "intra_node_gbps" => vec!["NVLink has several hundred, PCI Express 3.0 about 100; run `hsched inventory --local` on a node to estimate it.".into()],
            _ => Vec::new(),
        }
    }

    /// Returns a value as TOML, and whether it is known to be right.
    fn value(&self, key: &Key) -> (String, bool) {
        let example = |text: &str| (text.to_owned(), false);
        match key.name {
            "account" => match self.accounts.as_slice() {
                [only] => (quoted(only), true),
                [first, ..] => (quoted(first), false),
                [] => example("\"my-account\""),
            },
            "partition" => match (&self.partition, self.partitions.first()) {
                (Some(name), _) => (quoted(name), true),
                (None, Some((name, _))) => (quoted(name), false),
                (None, None) => example("\"gpu\""),
            },
            "qos" => example("\"normal\""),
            "setup" => example("[\"module list\"]"),
            "node_setup" => example("[\"module load cuda\", \"source ~/venv/bin/activate\"]"),
            "sbatch" => example("[\"--mail-type=FAIL\"]"),
            "memory_per_gpu" => example("\"16GiB\""),
            "templates" => example("\"templates\""),
            _ if key.form.contains("number") || key.form == "true or false" => example(key.default),
            _ => (quoted(key.default), false),
        }
    }

    /// Returns the entries of a table.
    fn entries(&self, key: &Key) -> Vec<(String, String)> {
        match key.name {
            "node_gbps" => return vec![("gpu[01-04]".into(), "600".into())],
            "untyped_gpus" => return vec![("gpu[01-04]".into(), quoted("v100"))],
            _ => {}
        }
        if self.gpus.is_empty() {
            return vec![("v100".into(), "8".into())];
        }
        self.gpus.iter().map(|(name, count)| (name.clone(), count.to_string())).collect()
    }
}

/// Returns a text as a one-line TOML string, which is also valid as a key.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Adds a comment line; the remark may contain any characters.
fn comment(text: &mut String, remark: &str) {
    let clean: String = remark.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let _ = writeln!(text, "# {clean}");
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::entry::Layer;
    use super::super::file;
    use super::super::{Settings, Sources};
    use super::*;

    fn odd() -> Starter {
        Starter {
            accounts: vec!["a\"b\\c".into(), "lab, 'x'".into()],
            partitions: vec![("p\n[x]".into(), "2 days\r\n= \"".into())],
            partition: Some("it's \"odd\"".into()),
            gpus: BTreeMap::from([("a100_3g.20gb".into(), 2), ("1080".into(), 4)]),
        }
    }

    /// Checks the syntax and the values of a whole file.
    fn check(text: &str) {
        let (entries, problems) = file::parse(Layer::Project, Path::new("hsched.toml"), text);
        assert!(problems.is_empty(), "{problems:?}\n{text}");
        let folder = tempfile::tempdir().expect("a directory");
        #[expect(clippy::disallowed_methods, reason = "tests use files")]
        std::fs::write(folder.path().join("hsched.toml"), text).expect("a file");
        let sources = Sources { directory: Some(folder.path().to_owned()), ..Sources::default() };
        Settings::load(&sources).unwrap_or_else(|problems| panic!("{problems}\n{text}"));
        assert!(
            !entries.is_empty() || !text.lines().any(|line| line.starts_with(|c: char| c.is_alphabetic()))
        );
    }

    #[test]
    fn the_file_is_valid_and_so_is_every_key_uncommented() {
        for starter in [Starter::default(), Starter { accounts: vec!["one".into()], ..Starter::default() }] {
            check(&starter.to_toml());
        }
        let is_setting = |line: &&str| line.starts_with('#') && !line.starts_with("# ");
        // The settings refuse account names with spaces or quotes, so only the syntax matters here.
        let (_, problems) = file::parse(Layer::Project, Path::new("x"), &odd().to_toml());
        assert!(problems.is_empty(), "{problems:?}");
        let plain =
            Starter { gpus: odd().gpus, partitions: odd().partitions, ..Starter::default() }.to_toml();
        let all = plain.lines().filter(is_setting).count();
        assert_eq!(all, KEYS.iter().filter(|key| key.set_by == SetBy::All).count() + 4, "{plain}");
        let partition = "#partition = \"p\\u000A[x]\"";
        let mut text = plain.replace(partition, "#partition = \"p\"");
        assert_ne!(text, plain);
        for line in text
            .clone()
            .lines()
            .filter(is_setting)
            .filter(|line| !line.starts_with("#[") && !line.starts_with("#\""))
        {
            check(&text.replace(&format!("\n{line}\n"), &format!("\n{}\n", &line[1..])));
        }
        // All keys at once.
        text = text
            .lines()
            .map(|line| if is_setting(&line) { &line[1..] } else { line })
            .fold(String::new(), |all, line| all + line + "\n");
        check(&text);
    }

    #[test]
    fn what_is_known_is_set_and_the_rest_is_not() {
        let known =
            Starter { accounts: vec!["def-me".into()], partition: Some("gpu".into()), ..Starter::default() };
        let set = |text: &str| {
            text.lines()
                .filter(|line| !line.starts_with('#') && !line.is_empty())
                .map(ToOwned::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(set(&known.to_toml()), ["account = \"def-me\"", "partition = \"gpu\""]);
        assert_eq!(set(&Starter::default().to_toml()), [""; 0]);
    }
}
