//! Names of people, accounts, jobs and nodes, and their replacements in a bundle.

use std::collections::{BTreeMap, BTreeSet};

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
    /// Letters in host names, such as `gpu` in `gpu-12`.
    host_words: BTreeMap<String, String>,
    /// Known host names without their domain, with `#` for digits: `gpu-#`.
    host_shapes: BTreeSet<String>,
}

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

    /// Returns host names or a hostlist with all letters replaced. Digits and brackets are kept, and names of GPU
    /// models that are not the first word: they may be the only sign of a node's type of GPUs.
    pub(super) fn hosts(&mut self, text: &str) -> String {
        if value(text).is_none() || text.trim() == NOT_ASSIGNED {
            return text.to_owned();
        }
        let mut depth = 0_u32;
        let between = |c: char| {
            match c {
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ',' && depth == 0
        };
        text.split(between).map(|host| self.host(host)).collect::<Vec<_>>().join(",")
    }

    fn host(&mut self, host: &str) -> String {
        if !host.contains(char::is_alphabetic) {
            let is_named = host.contains(|c: char| c.is_ascii_digit());
            return if is_named { format!("host{host}") } else { host.to_owned() };
        }
        self.host_shapes.insert(shape(host));
        let mut hidden = String::new();
        for (index, word) in host.trim().split_inclusive(|c: char| !c.is_alphanumeric()).enumerate() {
            let letters = word.trim_end_matches(|c: char| !c.is_alphanumeric());
            let is_model = recognise(letters).is_some_and(|known| known.model().is_some());
            if index > 0 && is_model {
                hidden.push_str(word);
            } else {
                hidden.extend(host_parts(word).map(|part| self.host_part(part)));
            }
        }
        host.replacen(host.trim(), &hidden, 1)
    }

    fn host_part(&mut self, part: &str) -> String {
        let is_name = part.starts_with(char::is_alphabetic) && !part.eq_ignore_ascii_case("null");
        if is_name { lettered(&mut self.host_words, part) } else { part.to_owned() }
    }

    /// Returns a pending reason with node names replaced.
    pub(super) fn reason(&mut self, text: &str) -> String {
        let Some(at) = UNAVAILABLE.iter().find_map(|word| Some(text.find(word)? + word.len())) else {
            return text.to_owned();
        };
        let (why, nodes) = text.split_at(at);
        let (nodes, end) = nodes.strip_suffix(')').map_or((nodes, ""), |nodes| (nodes, ")"));
        format!("{why}{}{end}", self.hosts(nodes))
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
    /// whole words, and the names of hosts: words like a known host name, before a port (`head:6817`), or
    /// which could not be resolved.
    pub fn sentence(&mut self, text: &str) -> String {
        let is_part = |c: char| c.is_alphanumeric() || "-_.".contains(c);
        let (mut hidden, mut rest) = (String::new(), text);
        while let Some(start) = rest.find(is_part) {
            let end = rest[start..].find(|c: char| !is_part(c)).map_or(rest.len(), |length| start + length);
            let (word, behind) = (&rest[start..end], &rest[end..]);
            hidden.push_str(&rest[..start]);
            let known = [&self.users, &self.accounts, &self.jobs, &self.reservations];
            let name = known.iter().find_map(|names| names.get(word).cloned());
            let is_host =
                self.host_shapes.contains(&shape(word)) || is_port(behind) || hidden.ends_with("resolve \"");
            hidden.push_str(&match name {
                Some(name) => name,
                None if is_host => self.host(word),
                None => word.to_owned(),
            });
            rest = behind;
        }
        hidden + rest
    }
}

/// What `sacct` prints instead of the nodes of a pending job.
const NOT_ASSIGNED: &str = "None assigned";

/// Words in a pending reason before the names of nodes.
const UNAVAILABLE: [&str; 2] = ["UnavailableNodes:", "(Unavailable:"];

/// Returns a host name without its domain, with `#` for digits and ranges.
fn shape(host: &str) -> String {
    let label = host.trim().split('.').next().unwrap_or_default();
    let (mut shape, mut in_range) = (String::new(), false);
    for letter in label.chars() {
        in_range = letter == '[' || in_range && letter != ']';
        if in_range || letter == ']' || letter.is_ascii_digit() {
            if !shape.ends_with('#') {
                shape.push('#');
            }
        } else {
            shape.push(letter);
        }
    }
    shape
}

/// Returns whether a text begins with a port, such as `:6817`.
fn is_port(text: &str) -> bool {
    let digits = |rest: &str| rest.bytes().take_while(u8::is_ascii_digit).count();
    text.strip_prefix(':').is_some_and(|rest| digits(rest) >= 4)
}

/// Returns the parts of a host name: digits, letters, and other characters.
fn host_parts(word: &str) -> impl Iterator<Item = &str> {
    let kind = |c: char| (c.is_ascii_digit(), c.is_alphanumeric());
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
        assert_eq!(hosts, "hosta-hostb[01-04],hostc1102,hosta7.hostd.hoste,hostb-h200-01");
        assert_eq!(names.hosts("ng7"), "hostc7");
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
            "ReqNodeNotAvail, UnavailableNodes:hostc7"
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

    #[test]
    fn no_node_keeps_its_name() {
        for (hosts, hidden) in [
            ("m1,p1,v[1-2]", "hosta1,hostb1,hostc[1-2]"),
            ("gpu01", "hosta01"),
            ("node[1-3,7],cn7", "hosta[1-3,7],hostb7"),
            ("v100-01,a100[01-02]-ib", "hosta100-01,hostb100[01-02]-hostc"),
            ("r1c2[08-09]", "hosta1hostb2[08-09]"),
            ("[0001-0004],12", "host[0001-0004],host12"),
            ("head/(NULL)", "hosta/(NULL)"),
            ("None assigned", "None assigned"),
            ("(null)", "(null)"),
        ] {
            assert_eq!(NameReplacer::default().hosts(hosts), hidden, "{hosts}");
        }
        let reason = NameReplacer::default().reason("ReqNodeNotAvail(Unavailable:v[1-2])");
        assert_eq!(reason, "ReqNodeNotAvail(Unavailable:hosta[1-2])");
    }

    #[test]
    fn sentences_lose_their_host_names() {
        let mut names = NameReplacer::default();
        names.hosts("ng[1-9],north-head,node1");
        for (sentence, hidden) in [
            ("node ng7.example.org, ng8: an example", "node hosta7.hoste.hostf, hosta8: an example"),
            ("connect to north-head: refused", "connect to hostb-hostc: refused"),
            (
                "failed to open connection to host:db:6819: refused",
                "failed to open connection to host:hostg:6819: refused",
            ),
            ("Unable to resolve \"login\": Unknown host", "Unable to resolve \"hosth\": Unknown host"),
            (
                "Requested node configuration is not available",
                "Requested node configuration is not available",
            ),
            ("sacct --starttime=2026-11-21T14:56:07 gpu:4", "sacct --starttime=2026-11-21T14:56:07 gpu:4"),
        ] {
            assert_eq!(names.sentence(sentence), hidden);
        }
    }
}
