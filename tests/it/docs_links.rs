//! Every page of `docs` and `docs/design` is in the book's summary, and every link between pages has a
//! target.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the Markdown files of a folder, without those in folders below it.
pub fn pages(folder: &str) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(root().join(folder)).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut pages: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    pages.sort();
    pages
}

/// Returns the text without its code blocks, whose brackets are not links.
pub fn prose(text: &str) -> String {
    let mut in_block = false;
    let lines = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        in_block ^= fence;
        !in_block && !fence
    });
    lines.map(|line| line.to_owned() + "\n").collect()
}

/// Returns the targets of the links of a page: the text in `](…)`.
fn links(text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).collect()
}

/// Returns the anchors of a page as named by mdBook and other renderers: the words of each heading in lower
/// case, joined by dashes.
fn anchors(text: &str) -> BTreeSet<String> {
    let titles =
        text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let kept = |letter: &char| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter);
    titles
        .map(|title| title.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-"))
        .collect()
}

/// Returns the problem with a link of a page, if any.
fn problem(page: &Path, text: &str, link: &str) -> Option<String> {
    let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
    let target = if file.is_empty() { page.to_owned() } else { page.parent().expect("a folder").join(file) };
    if !target.exists() {
        return Some(format!("{}: no file {link}", page.display()));
    }
    let anchor = anchor?;
    let there =
        if file.is_empty() { text.to_owned() } else { prose(&fs::read_to_string(&target).expect("a page")) };
    (!anchors(&there).contains(anchor)).then(|| format!("{}: no heading {link}", page.display()))
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut problems = Vec::new();
    let mut seen = 0;
    for page in ["", "docs", "docs/design", "slurm"].map(pages).concat() {
        let text = prose(&fs::read_to_string(&page).expect("a page"));
        let links = links(&text);
        let inside = links.iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:"));
        for link in inside {
            seen += 1;
            problems.extend(problem(&page, &text, link));
        }
    }
    assert!(seen > 100, "{seen} links were found");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn the_summary_lists_every_page_once() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).expect("a summary");
    let mut listed = links(&summary);
    listed.sort();
    let relative = |page: PathBuf| {
        let page = page.strip_prefix(root().join("docs")).expect("a page of docs").to_owned();
        page.to_str().expect("a name").to_owned()
    };
    let mut there: Vec<String> =
        ["docs", "docs/design"].map(pages).concat().into_iter().map(relative).collect();
    there.retain(|page| page != "SUMMARY.md");
    there.sort();
    assert_eq!(listed, there);
}
