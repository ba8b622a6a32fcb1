//! The pages of the documentation that are built into the program for `hsched help`.

/// A page of `docs`.
#[derive(Clone, Copy, Debug)]
pub struct Topic {
    /// File name without `.md`.
    pub name: &'static str,
    /// The topic's text in Markdown.
    pub page: &'static str,
}

/// The pages of `docs/SUMMARY.md` in its order, without those for developers and the reference of commands,
/// which `hsched help COMMAND` replaces.
pub const TOPICS: &[Topic] = include!(concat!(env!("OUT_DIR"), "/topics.rs"));

/// Name of the page that explains errors.
pub const ERRORS: &str = "errors";

impl Topic {
    /// Returns the page with that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        TOPICS.iter().find(|topic| topic.name == name)
    }

    /// Returns the title of the page.
    pub fn title(&self) -> &'static str {
        self.page.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(self.name)
    }

    /// Returns the sections under second-level headings, each with its title.
    pub fn sections(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let sections = self.page.split("\n## ").skip(1);
        sections.map(|section| {
            let (title, text) = section.split_once('\n').unwrap_or((section, ""));
            // A first-level heading begins another part of the page.
            (title, text.split("\n# ").next().unwrap_or_default().trim())
        })
    }
}
