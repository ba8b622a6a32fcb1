//! The pages for developers name only files, types and members that exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::docs_links::{pages, prose, root};

/// Names in CamelCase that are not types of hsched: two limits of Slurm, a line of `/proc/PID/status`, and a
/// value of Python.
const OF_OTHERS: [&str; 4] = ["MaxSubmitJobs", "MaxArraySize", "SigCgt", "None"];

/// Endings of the files that pages name without their folder.
const ENDINGS: [&str; 6] = [".rs", ".sh", ".py", ".j2", ".md", ".toml"];

static REPOSITORY: LazyLock<Repository> = LazyLock::new(Repository::read);

/// The files of the repository.
struct Repository {
    /// Their paths below the root.
    paths: Vec<String>,
    /// The text of all programs.
    texts: Vec<String>,
    /// The types that they define.
    types: BTreeSet<String>,
}

impl Repository {
    fn read() -> Self {
        let (mut paths, mut open) = (Vec::new(), vec![root().to_owned()]);
        while let Some(folder) = open.pop() {
            for path in fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path())
            {
                let is_built = ["target", ".git", "__pycache__"].iter().any(|name| path.ends_with(name));
                if is_built {
                } else if path.is_dir() {
                    open.push(path);
                } else {
                    let path = path.strip_prefix(root()).expect("below the root");
                    paths.push(path.to_str().expect("a name").to_owned());
                }
            }
        }
        let is_program = |path: &&String| [".rs", ".py"].iter().any(|end| path.ends_with(end));
        let read = |path: &String| fs::read_to_string(root().join(path)).expect("a text");
        let texts: Vec<String> = paths.iter().filter(is_program).map(read).collect();
        let types = texts.iter().flat_map(|text| defined(text)).collect();
        Self { paths, texts, types }
    }

    /// Returns whether a path exists; of a path with `*`, whether the path of any file begins with the part
    /// before it. If the first part is not a folder of the root, returns whether the path of any file ends
    /// with the text. `None` if the text does not look like the name of a file in the repository.
    fn has_file(&self, name: &str) -> Option<bool> {
        let is_word = |c: char| c.is_ascii_alphanumeric() || "._-/*".contains(c);
        // Names in capitals stand for others: `src/commands/NAME.rs`.
        let stands_for_another = |part: &str| {
            let stem = part.split(['.', '_']).find(|stem| stem.len() > 1 && *stem == stem.to_uppercase());
            stem.is_some_and(|stem| stem.contains(char::is_alphabetic))
        };
        let is_document = Path::new(name).extension().is_some_and(|end| end == "md");
        if !name.chars().all(is_word) || !is_document && name.split('/').any(stands_for_another) {
            return None;
        }
        let first = name.split('/').next().unwrap_or_default();
        if ["", "target"].contains(&first) {
            return None;
        }
        if name.contains('/') && root().join(first).is_dir() {
            let known = name.split('*').next().unwrap_or_default();
            let is_whole = known.len() == name.len();
            let exists = |path: &String| path.starts_with(known);
            return Some(if is_whole { root().join(name).exists() } else { self.paths.iter().any(exists) });
        }
        let ends = |path: &String| {
            path.strip_suffix(name).is_some_and(|head| head.is_empty() || head.ends_with('/'))
        };
        ENDINGS.iter().any(|ending| name.ends_with(ending)).then(|| self.paths.iter().any(ends))
    }

    /// Returns whether a type exists and, for `TYPE::MEMBER`, whether any program contains the member's name;
    /// `None` if the text does not look like the name of a type, or is one of [`OF_OTHERS`].
    fn has_type(&self, name: &str) -> Option<bool> {
        let (name, member) =
            name.split_once("::").map_or((name, None), |(name, member)| (name, Some(member)));
        let is_camel = name.starts_with(|c: char| c.is_ascii_uppercase())
            && name.contains(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_alphanumeric());
        if !is_camel || OF_OTHERS.contains(&name) {
            return None;
        }
        let member = member.map(|member| member.split_once('(').map_or(member, |(member, _)| member));
        let has_member = |member| self.texts.iter().any(|text| has_word(text, member));
        Some(self.types.contains(name) && member.is_none_or(has_member))
    }
}

/// Returns the names of the types that a text defines.
fn defined(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for keyword in ["struct ", "enum ", "trait ", "type ", "class "] {
        for (place, _) in text.match_indices(keyword) {
            let line = text[..place].rfind('\n').map_or(0, |end| end + 1);
            let before = text[line..place].trim();
            if before.is_empty() || before.starts_with("pub") {
                let name = text[place + keyword.len()..].split(|c: char| !is_of_word(c)).next();
                names.extend(name.map(str::to_owned));
            }
        }
    }
    names
}

fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns whether a text contains a word, with no letter, digit or underscore before or after it.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(place, _)| {
        !text[..place].ends_with(is_of_word) && !text[place + word.len()..].starts_with(is_of_word)
    })
}

/// Returns the texts in single backticks.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

fn developer_pages() -> Vec<PathBuf> {
    let mut all = pages("docs/design");
    all.extend(["ARCHITECTURE.md", "CONTRIBUTING.md"].map(|page| root().join(page)));
    all
}

#[test]
fn pages_for_developers_name_files_and_types_that_exist() {
    let repository = &*REPOSITORY;
    let (mut files, mut types, mut wrong) = (0, 0, Vec::new());
    for page in developer_pages() {
        let text = prose(&fs::read_to_string(&page).expect("a page"));
        let shown = page.strip_prefix(root()).expect("below the root").display();
        for name in code(&text) {
            let (file, known) = (repository.has_file(name), repository.has_type(name));
            files += usize::from(file.is_some());
            types += usize::from(known.is_some());
            if file == Some(false) || known == Some(false) {
                wrong.push(format!("{shown}: `{name}` does not exist"));
            }
        }
    }
    assert!(files > 150 && types > 150, "{files} files and {types} types were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn missing_files_types_and_members_are_found() {
    let repository = &*REPOSITORY;
    let file = |name: &str| repository.has_file(name);
    assert_eq!([file("src/main.rs"), file("main.rs"), file("crates/*/tests/it")], [Some(true); 3]);
    assert_eq!([file("src/no.rs"), file("no.rs"), file("crates/no*.rs")], [Some(false); 3]);
    assert_eq!(
        [file("src/commands/NAME.rs"), file("hsched.state/3"), file("~/.cache"), file("a b.rs")],
        [None; 4]
    );
    let known = |name: &str| repository.has_type(name);
    assert_eq!(
        [known("Repository"), known("Repository::has_file"), known("Repository::has_file(…)")],
        [Some(true); 3]
    );
    assert_eq!([known("NoSuchThing"), known(concat!("Repository::no_such", "_member"))], [Some(false); 2]);
    assert_eq!([known("NAME"), known("hsched"), known("SigCgt")], [None; 3]);
}
