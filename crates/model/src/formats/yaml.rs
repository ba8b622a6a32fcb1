//! Converts YAML text to a small tree that keeps order, positions and duplicate keys.
//!
//! Only the structure is decided here; the reader of a key decides which scalars are numbers. JSON is read as
//! YAML. The parser refuses several documents, tags, non-scalar keys, nesting deeper than [`DEPTH_LIMIT`],
//! and aliases that repeat more than [`REPEAT_LIMIT`] bytes.

mod mistakes;

use std::collections::{BTreeSet, HashMap};

use saphyr_parser::{Event, Marker, Parser, ScalarStyle};

use self::mistakes::syntax_problem;
use super::json;
use super::problem::FileProblem;
use crate::ErrorId;

/// Maximum nesting depth; the files need six levels.
const DEPTH_LIMIT: usize = 64;

/// Maximum expansion by aliases, in bytes of text and tree: enough for real files, but not for files with
/// exponentially growing aliases ("billion laughs").
const REPEAT_LIMIT: usize = 16 << 20;

/// Size of a tree node besides its text, in bytes.
const NODE_COST: usize = 100;

/// A value with its position.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct YamlNode {
    /// Line, from 1.
    pub(super) line: usize,
    pub(super) kind: ValueKind,
}

/// The shape of a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ValueKind {
    /// `quoted` distinguishes `"1"` from `1`; block scalars count as quoted.
    Scalar {
        text: String,
        quoted: bool,
    },
    List(Vec<YamlNode>),
    /// In file order, with merged entries last; a key may appear twice.
    Map(Vec<(YamlKey, YamlNode)>),
}

/// A key with its position.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct YamlKey {
    pub(super) line: usize,
    pub(super) text: String,
    pub(super) quoted: bool,
}

/// Parses the only document in `text`; an empty text is a null scalar.
///
/// # Errors
/// If the text is not YAML, or uses a refused construct.
pub(super) fn parse(text: &str) -> Result<YamlNode, FileProblem> {
    // The scanner treats NUL as the end of the text and would drop the rest.
    if let Some(at) = text.find('\0') {
        let line = text[..at].matches('\n').count() + 1;
        return Err(problem(line, "contains a NUL character: this is not a text file"));
    }
    let mut builder = Builder::default();
    let text = json::with_whole_characters(text);
    let mut parser = Parser::new_from_str(&text);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| syntax_problem(&text, &error))?;
        builder.take(event, span.start)?;
    }
    Ok(builder.root.unwrap_or(YamlNode { line: 1, kind: scalar("") }))
}

/// A list or map that is not closed yet.
struct Open {
    line: usize,
    /// The parser's number of its anchor; 0 if there is none.
    anchor: usize,
    items: Items,
    /// Bytes of the text and tree so far.
    cost: usize,
}

enum Items {
    List(Vec<YamlNode>),
    Map { entries: Vec<(YamlKey, YamlNode)>, key: Option<YamlKey> },
}

#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    root: Option<YamlNode>,
    /// Completed values with an anchor, and the size of a copy.
    anchors: HashMap<usize, (YamlNode, usize)>,
    /// Bytes that aliases have added so far.
    repeated: usize,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, mark: Marker) -> Result<(), FileProblem> {
        let line = mark.line();
        match event {
            Event::DocumentStart(_) if self.root.is_some() => {
                Err(problem(line, "a second document starts here; one file holds one document"))
            }
            Event::Scalar(text, style, anchor, tag) => {
                no_tag(line, tag.is_some())?;
                let quoted = style != ScalarStyle::Plain;
                let cost = NODE_COST + text.len();
                let node = YamlNode { line, kind: ValueKind::Scalar { text: text.into_owned(), quoted } };
                self.finish(node, anchor, cost)
            }
            Event::SequenceStart(anchor, tag) => {
                no_tag(line, tag.is_some())?;
                self.enter(line, anchor, Items::List(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                no_tag(line, tag.is_some())?;
                self.enter(line, anchor, Items::Map { entries: Vec::new(), key: None })
            }
            Event::SequenceEnd | Event::MappingEnd => self.leave(),
            Event::Alias(anchor) => self.alias(line, anchor),
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
        }
    }

    fn enter(&mut self, line: usize, anchor: usize, items: Items) -> Result<(), FileProblem> {
        if self.open.len() >= DEPTH_LIMIT {
            return Err(problem(line, format!("is nested deeper than {DEPTH_LIMIT} levels")));
        }
        self.open.push(Open { line, anchor, items, cost: NODE_COST });
        Ok(())
    }

    fn leave(&mut self) -> Result<(), FileProblem> {
        let Some(Open { line, anchor, items, cost }) = self.open.pop() else {
            return Ok(());
        };
        let kind = match items {
            Items::List(items) => ValueKind::List(items),
            Items::Map { mut entries, .. } => {
                // Long traces have 100,000 maps, and unused capacity would be a third of the tree.
                entries.shrink_to_fit();
                ValueKind::Map(merged(entries)?)
            }
        };
        self.finish(YamlNode { line, kind }, anchor, cost)
    }

    fn alias(&mut self, line: usize, anchor: usize) -> Result<(), FileProblem> {
        let Some((node, cost)) = self.anchors.get(&anchor) else {
            return Err(problem(line, "an alias refers to the value that contains it"));
        };
        self.repeated = self.repeated.saturating_add(*cost);
        if self.repeated > REPEAT_LIMIT {
            return Err(problem(line, "aliases repeat too much: the file would grow without bound"));
        }
        // A problem with the copied value is reported at the line of the alias; values inside it keep their
        // lines.
        let (node, cost) = (YamlNode { line, ..node.clone() }, *cost);
        self.finish(node, 0, cost)
    }

    /// Adds a completed value to the open list or map, or makes it the root.
    fn finish(&mut self, node: YamlNode, anchor: usize, cost: usize) -> Result<(), FileProblem> {
        if anchor > 0 {
            self.anchors.insert(anchor, (node.clone(), cost));
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        open.cost = open.cost.saturating_add(cost);
        match &mut open.items {
            Items::List(items) => items.push(node),
            Items::Map { entries, key } => match key.take() {
                Some(key) => entries.push((key, node)),
                None => *key = Some(key_of(node)?),
            },
        }
        Ok(())
    }
}

fn key_of(node: YamlNode) -> Result<YamlKey, FileProblem> {
    match node.kind {
        ValueKind::Scalar { text, quoted } => Ok(YamlKey { line: node.line, text, quoted }),
        ValueKind::List(_) | ValueKind::Map(_) => {
            Err(problem(node.line, "a key must be text, not a list or map"))
        }
    }
}

/// Returns the entries with every `<<` replaced by the entries that it merges; explicit keys take precedence,
/// then earlier maps.
fn merged(entries: Vec<(YamlKey, YamlNode)>) -> Result<Vec<(YamlKey, YamlNode)>, FileProblem> {
    let is_merge = |key: &YamlKey| key.text == "<<" && !key.quoted;
    if !entries.iter().any(|(key, _)| is_merge(key)) {
        return Ok(entries);
    }
    let (merges, mut kept): (Vec<_>, Vec<_>) = entries.into_iter().partition(|(key, _)| is_merge(key));
    let mut seen: BTreeSet<String> = kept.iter().map(|(key, _)| key.text.clone()).collect();
    for (_, node) in merges {
        let line = node.line;
        let sources = match node.kind {
            ValueKind::List(nodes) => nodes,
            kind => vec![YamlNode { line, kind }],
        };
        for source in sources {
            let ValueKind::Map(entries) = source.kind else {
                return Err(problem(line, "<< merges maps, but this is not a map"));
            };
            kept.extend(entries.into_iter().filter(|(key, _)| seen.insert(key.text.clone())));
        }
    }
    Ok(kept)
}

fn no_tag(line: usize, tagged: bool) -> Result<(), FileProblem> {
    if !tagged {
        return Ok(());
    }
    let hint = Some("remove it, or quote the value if it is text".to_owned());
    Err(FileProblem { hint, ..problem(line, "tags such as !!str are not supported") })
}

fn problem(line: usize, message: impl Into<String>) -> FileProblem {
    FileProblem { line, id: ErrorId::YamlSyntax, path: String::new(), message: message.into(), hint: None }
}

fn scalar(text: &str) -> ValueKind {
    ValueKind::Scalar { text: text.to_owned(), quoted: false }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;

    use super::*;

    /// Formats a tree as `line:value`, for short expectations.
    fn show(node: &YamlNode) -> String {
        let body = match &node.kind {
            ValueKind::Scalar { text, quoted: true } => format!("{text:?}"),
            ValueKind::Scalar { text, quoted: false } => text.clone(),
            ValueKind::List(items) => format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(" ")),
            ValueKind::Map(entries) => {
                let one = |(key, node): &(YamlKey, YamlNode)| format!("{}={}", key.text, show(node));
                format!("{{{}}}", entries.iter().map(one).collect::<Vec<_>>().join(" "))
            }
        };
        format!("{}:{body}", node.line)
    }

    pub(super) fn check(text: &str, expected: &str) {
        let shown = match parse(text) {
            Ok(node) => show(&node),
            Err(problem) => problem.to_string(),
        };
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn the_tree_keeps_order_lines_and_duplicates() {
        check("", "1:");
        check("b: 1\na:\n  - '2'\n  - [x, y]\nb: 3", "1:{b=1:1 a=3:[3:\"2\" 4:[4:x 4:y]] b=5:3}");
        check("{\"a\":1,\n\t\"b\":[true,null]}", "1:{a=1:1 b=2:[2:true 2:null]}");
        check("a: |\n  x\n  y\n", "1:{a=2:\"x\\ny\\n\"}");
    }

    #[test]
    fn anchors_and_merges_are_filled_in() {
        check("a: &x {p: 1, q: 2}\nb: {<<: *x, q: 3}", "1:{a=1:{p=1:1 q=1:2} b=2:{q=2:3 p=1:1}}");
        check("a: &x [1]\nb: *x", "1:{a=1:[1:1] b=2:[1:1]}");
        check("a: &x [*x]", "line 1: an alias refers to the value that contains it");
        check("a: {<<: 3}", "line 1: << merges maps, but this is not a map");
    }

    #[test]
    fn what_is_refused_says_why() {
        check("a: 1\n---\nb: 2", "line 2: a second document starts here; one file holds one document");
        check(
            "a: !!str 1",
            "line 1: tags such as !!str are not supported; remove it, or quote the value if it is text",
        );
        check("? [a, b]\n: c", "line 1: a key must be text, not a list or map");
        check("a: 1\nb: \0", "line 2: contains a NUL character: this is not a text file");
        check(&"[".repeat(100), "line 1: is nested deeper than 64 levels");
    }

    #[test]
    fn doubling_aliases_end_quickly() {
        let mut text = "a0: &a0 [lol, lol]\n".to_owned();
        for level in 1..40 {
            let last = level - 1;
            writeln!(text, "a{level}: &a{level} [*a{last}, *a{last}]").expect("a string");
        }
        assert!(parse(&text).expect_err("too much").message.starts_with("aliases repeat too much"));
    }

    #[test]
    fn deep_and_long_texts_end_quickly() {
        for part in ["- ", "? ", "[", "{a: ", "a: ", "&a ", "\t", "\"", "|\n", "!", "%", "- a\n", "a:\n "] {
            let _any = parse(&part.repeat(20_000));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn no_text_panics(text in "\\PC{0,40}|[ \\n\\ta-c0-9:{}\\[\\],&*#?|>%@!'\"<~.-]{0,80}") {
            let _any = parse(&text);
        }
    }
}
