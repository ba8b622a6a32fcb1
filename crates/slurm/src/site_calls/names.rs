//! Names of people, accounts, jobs and nodes, and their replacements in a bundle.

use std::collections::BTreeMap;

use crate::record::value;
use hsched_engine::live::Tag;
use hsched_model::catalogue::recognise;

/// Replaces names consistently.
#[derive(Clone, Debug, Default)]
pub struct NameReplacer {
    users: BTreeMap<String, String>,
    accounts: BTreeMap<String, String>,
    jobs: BTreeMap<String, String>,
    reservations: BTreeMap<String, String>,
    /// Words of host names, such as `gpu` in `gpu-12`.
    host_words: BTreeMap<String, String>,
}

/// Words of host names that identify no site.
const PLAIN: [&str; 9] = ["gpu", "gpus", "cpu", "node", "nodes", "cn", "gn", "compute", "null"];

impl NameReplacer {
    /// Returns the replacements for the output of this user's calls.
    pub fn of_user(name: &str) -> Self {
        let mut names = Self::default();
        names.user(name);
        names
    }

    pub(super) fn user(&mut self, name: &str) -> String {
        numbered(&mut self.users, "user", name)
    }

    pub(super) fn account(&mut self, name: &str) -> String {
        numbered(&mut self.accounts, "account", name)
    }

    /// Returns the replacement for a job's name; Slurm's names of steps are kept.
    pub(super) fn job(&mut self, name: &str) -> String {
        if ["batch", "extern", "interactive"].contains(&name.trim()) {
            return name.to_owned();
        }
        numbered(&mut self.jobs, "job", name)
    }

    pub(super) fn reservation(&mut self, name: &str) -> String {
        numbered(&mut self.reservations, "reservation", name)
    }

    /// Returns host names or a hostlist with words replaced; digits, brackets and names of GPU models are
    /// kept.
    pub(super) fn hosts(&mut self, text: &str) -> String {
        if value(text).is_none() {
            return text.to_owned();
        }
        let mut hidden = String::new();
        let mut rest = text;
        while !rest.is_empty() {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
            let (word, behind) = rest.split_at(end);
            hidden.push_str(&self.host_word(word));
            let skip = behind.chars().next().map_or(0, char::len_utf8);
            hidden.push_str(&behind[..skip]);
            rest = &behind[skip..];
        }
        hidden
    }

    fn host_word(&mut self, word: &str) -> String {
        if recognise(word).is_some_and(|known| known.model().is_some()) {
            return word.to_owned();
        }
        let mut hidden = String::new();
        for part in host_parts(word) {
            let is_digit = part.starts_with(|c: char| c.is_ascii_digit());
            let is_plain = is_digit || part.len() == 1 || PLAIN.contains(&part.to_ascii_lowercase().as_str());
            let substitute = if is_plain { part.to_owned() } else { lettered(&mut self.host_words, part) };
            hidden.push_str(&substitute);
        }
        hidden
    }

    /// Returns a word of a sentence with the known words of host names replaced, if it looks like a host name: a
    /// word without digits or dots may be plain English.
    fn host_in_sentence(&self, word: &str) -> String {
        if !word.contains(|c: char| c.is_ascii_digit() || c == '.') {
            return word.to_owned();
        }
        let part = |part: &str| self.host_words.get(part).cloned().unwrap_or_else(|| part.to_owned());
        let piece = |piece: &str| host_parts(piece).map(part).collect::<String>();
        word.split_inclusive(|c: char| !c.is_ascii_alphanumeric()).map(piece).collect()
    }

    /// Returns a pending reason with node names replaced.
    pub(super) fn reason(&mut self, text: &str) -> String {
        match text.split_once("UnavailableNodes:") {
            Some((why, nodes)) => format!("{why}UnavailableNodes:{}", self.hosts(nodes)),
            None => text.to_owned(),
        }
    }

    /// Returns a comment: hsched's own with the job's name replaced, any other as a placeholder.
    pub(super) fn comment(&mut self, text: &str) -> String {
        match (Tag::from_comment(text), value(text)) {
            (Some(tag), _) => Tag { job: self.job(&tag.job), ..tag }.to_comment(),
            (None, Some(_)) => "comment".to_owned(),
            (None, None) => text.to_owned(),
        }
    }

    /// Returns a sentence with all names of users, accounts, jobs and reservations known so far replaced, as
    /// whole words. Known words of host names are replaced only in words that contain a digit or a dot.
    pub fn sentence(&self, text: &str) -> String {
        let known = [&self.users, &self.accounts, &self.jobs, &self.reservations];
        let hide = |word: &str| {
            let name = known.iter().find_map(|names| names.get(word).cloned());
            name.unwrap_or_else(|| self.host_in_sentence(word))
        };
        let is_break = |c: char| !(c.is_alphanumeric() || "-_.".contains(c));
        let mut hidden = String::new();
        for piece in text.split_inclusive(is_break) {
            let word = piece.trim_end_matches(is_break);
            hidden.push_str(&hide(word));
            hidden.push_str(&piece[word.len()..]);
        }
        hidden
    }
}

/// Returns the parts of a word of a host name: digits, letters, and other characters.
fn host_parts(word: &str) -> impl Iterator<Item = &str> {
    let kind = |c: char| (c.is_ascii_digit(), c.is_ascii_alphanumeric());
    let mut rest = word;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let end = rest.find(|c: char| kind(c) != kind(first)).unwrap_or(rest.len());
        let (part, behind) = rest.split_at(end);
        rest = behind;
        Some(part)
    })
}

fn numbered(names: &mut BTreeMap<String, String>, kind: &str, name: &str) -> String {
    let trimmed = name.trim();
    if value(trimmed).is_none() {
        return name.to_owned();
    }
    let next = format!("{kind}{}", names.len() + 1);
    let hidden = names.entry(trimmed.to_owned()).or_insert(next).clone();
    name.replacen(trimmed, &hidden, 1)
}

/// Returns the replacement for a word of a host name: `hosta`, `hostb`, … `hostz`, `hostba`, ….
fn lettered(words: &mut BTreeMap<String, String>, part: &str) -> String {
    let mut number = words.len();
    let mut next = String::new();
    loop {
        next.insert(0, char::from(b'a' + u8::try_from(number % 26).unwrap_or(0)));
        number /= 26;
        if number == 0 {
            break;
        }
    }
    words.entry(part.to_owned()).or_insert(format!("host{next}")).clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_by_the_same_words_everywhere() {
        let mut names = NameReplacer::default();
        let hosts = names.hosts("narval-gpu[01-04],ng1102,narval7.example.org,gpu-h200-01");
        assert_eq!(hosts, "hosta-gpu[01-04],hostb1102,hosta7.hostc.hostd,gpu-h200-01");
        assert_eq!(names.hosts("ng7"), "hostb7");
        assert_eq!(
            (names.user("alice"), names.user("bob"), names.user("alice")),
            ("user1".into(), "user2".into(), "user1".into())
        );
        assert_eq!(
            (names.account("  def-alice"), names.account("(null)")),
            ("  account1".into(), "(null)".into())
        );
        assert_eq!(
            names.reason("ReqNodeNotAvail, UnavailableNodes:ng7"),
            "ReqNodeNotAvail, UnavailableNodes:hostb7"
        );
        // In a sentence, host names are replaced only if they look like ones.
        assert_eq!(
            names.sentence("node ng7.example.org, ng8: an example of alice on narval-gpu01."),
            "node hostb7.hostc.hostd, hostb8: an example of user1 on hosta-gpu01."
        );
        let comment = names.comment(r#"{"hsched":1,"run":"r1","job":"secret"}"#);
        assert_eq!(comment, r#"{"hsched":1,"run":"r1","job":"job1"}"#);
        assert_eq!(
            (names.comment("my project"), names.comment("(null)")),
            ("comment".into(), "(null)".into())
        );
        assert_eq!(
            names.sentence("error: User bob, account def-alice: bobby"),
            "error: User user2, account account1: bobby"
        );
    }
}
