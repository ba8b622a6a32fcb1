//! A builder for man pages: roff text with sections, paragraphs and lists of terms.

use clap::Arg;
use clap::builder::PossibleValue;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};

/// The date of a page; empty, because it would differ between builds.
const NO_DATE: &str = "\"\"";

/// A man page; text in backticks becomes bold.
pub(super) struct Page {
    text: String,
}

impl Page {
    /// Starts the page `name` in a section of the manual.
    pub(super) fn new(name: &str, section: &str, summary: &str) -> Self {
        let source = concat!("hsched ", env!("CARGO_PKG_VERSION"));
        let mut page = Self { text: Roff::new().render() };
        page.add(Roff::new().control("TH", [name, section, NO_DATE, source, "hsched"]));
        page.heading("NAME").line(&format!("{name} - {summary}"))
    }

    pub(super) fn heading(mut self, heading: &str) -> Self {
        self.add(Roff::new().control("SH", [heading]));
        self
    }

    pub(super) fn paragraph(mut self, text: &str) -> Self {
        self.add(Roff::new().control("PP", []));
        self.line(text)
    }

    /// Adds a term, the text after it, and its meaning below.
    pub(super) fn term(mut self, term: &str, behind: &str, meaning: &str) -> Self {
        let mut head = vec![bold(term)];
        if !behind.is_empty() {
            head.extend([roman("  "), italic(behind)]);
        }
        self.add(Roff::new().control("TP", []).text(head).text([roman(meaning)]));
        self
    }

    /// Adds text with its line breaks and spaces.
    pub(super) fn literal(mut self, text: &str) -> Self {
        let mut roff = Roff::new();
        roff.control("PP", []).control("RS", ["4"]).control("nf", []);
        for line in text.lines() {
            roff.text([roman(line)]);
        }
        self.add(roff.control("fi", []).control("RE", []));
        self
    }

    /// Adds the options, arguments and subcommands of a command, if it has any.
    pub(super) fn options(mut self, command: &clap::Command) -> Self {
        let man = Man::new(command.clone().mut_args(with_short_values));
        let mut text = Vec::new();
        // Writing to a buffer cannot fail.
        let _ = man.render_options_section(&mut text);
        if command.has_subcommands() {
            let _ = man.render_subcommands_section(&mut text);
        }
        self.text.push_str(&without_preamble(&String::from_utf8_lossy(&text)));
        self
    }

    /// Adds related pages, each with its section of the manual.
    pub(super) fn see_also(self, pages: impl IntoIterator<Item = (String, u8)>) -> Self {
        let pages = pages.into_iter().map(|(name, section)| format!("`{name}`({section})"));
        let pages = pages.collect::<Vec<_>>().join(", ");
        self.heading("SEE ALSO").line(&pages)
    }

    /// Returns the text of the page.
    pub(super) fn finish(self) -> String {
        self.text.lines().map(with_bold_code).collect()
    }

    fn line(mut self, text: &str) -> Self {
        self.add(Roff::new().text([roman(text)]));
        self
    }

    fn add(&mut self, roff: &Roff) {
        self.text.push_str(&without_preamble(&roff.render()));
    }
}

/// Returns an argument whose possible values are listed in one line after its help, if none of them has a
/// help text.
fn with_short_values(arg: Arg) -> Arg {
    let values = arg.get_possible_values();
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string);
    match help {
        Some(help) if !values.is_empty() && values.iter().all(|value| value.get_help().is_none()) => {
            let names: Vec<&str> = values.iter().map(PossibleValue::get_name).collect();
            arg.hide_possible_values(true).long_help(format!("{help} [{}]", names.join(", ")))
        }
        _ => arg,
    }
}

/// Returns roff text without the lines that define an apostrophe, which are only needed once at the beginning
/// of the page.
fn without_preamble(text: &str) -> String {
    let preamble = Roff::new().render();
    text.replace(&preamble, "")
}

/// Returns a line of roff with text in backticks in bold, and a line end.
fn with_bold_code(line: &str) -> String {
    let parts: Vec<&str> = line.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return format!("{line}\n");
    }
    let part = |(index, part): (usize, &&str)| match index % 2 {
        0 => (*part).to_owned(),
        _ => format!(r"\fB{part}\fR"),
    };
    parts.iter().enumerate().map(part).collect::<String>() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_backticks_is_bold() {
        assert_eq!(with_bold_code("a `b c`, `d`"), "a \\fBb c\\fR, \\fBd\\fR\n");
        assert_eq!(with_bold_code("a ` b"), "a ` b\n");
    }
}
