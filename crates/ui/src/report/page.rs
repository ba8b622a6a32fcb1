//! The page of a report: a template, its style, its scripts and the data in one file, which makes no network
//! requests.

use super::data::Report;

const TEMPLATE: &str = include_str!("../../../../templates/report/page.html");
const STYLE: &str = include_str!("../../../../templates/report/style.css");
const SCRIPTS: [&str; 4] = [
    include_str!("../../../../templates/report/draw.js"),
    include_str!("../../../../templates/report/lines.js"),
    include_str!("../../../../templates/report/gantt.js"),
    include_str!("../../../../templates/report/page.js"),
];

/// Returns the page.
///
/// # Errors
/// Only through a bug of hsched.
pub fn page(report: &Report) -> Result<String, serde_json::Error> {
    // Without `<`, the data cannot end the element or begin a comment.
    let data = serde_json::to_string(report)?.replace('<', "\\u003c");
    let parts = [
        ("{{title}}", escaped(&report.title)),
        ("{{style}}", STYLE.to_owned()),
        ("{{script}}", SCRIPTS.join("\n")),
        ("{{facts}}", facts(report)),
        ("{{version}}", env!("CARGO_PKG_VERSION").to_owned()),
        ("{{data}}", data),
    ];
    // Placeholders are replaced once and in order, so inserted text is not searched for placeholders.
    let mut page =
        String::with_capacity(TEMPLATE.len() + parts.iter().map(|(_, text)| text.len()).sum::<usize>());
    let mut rest = TEMPLATE;
    while let Some((before, after)) = rest.split_once("{{") {
        page.push_str(before);
        let found = parts.iter().find(|(name, _)| after.starts_with(&name[2..]));
        let Some((name, text)) = found else {
            page.push_str("{{");
            rest = after;
            continue;
        };
        page.push_str(text);
        rest = &after[name.len() - 2..];
    }
    page.push_str(rest);
    Ok(page)
}

/// Returns the questions and answers as HTML that is readable without scripts.
fn facts(report: &Report) -> String {
    let fact = |(question, answer): &(String, String)| {
        format!("<dt>{}</dt><dd>{}</dd>\n", escaped(question), escaped(answer))
    };
    report.facts.iter().map(fact).collect()
}

/// Returns a text with escaped characters for HTML.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{ReportJob, ReportKind, TimeOrigin};

    #[test]
    fn nothing_in_the_data_can_leave_its_element() {
        let evil = "</script><script>alert(1)</script><!-- {{data}} {{style}}";
        let mut report = Report::new(ReportKind::Plan, TimeOrigin::Elapsed);
        report.title = evil.to_owned();
        report.jobs.push(ReportJob { name: evil.to_owned(), ..ReportJob::default() });
        report.facts.push((evil.to_owned(), evil.to_owned()));
        let page = page(&report).expect("a page");
        assert!(!page.contains("<script>alert"));
        assert_eq!(page.matches("</script>").count(), 2);
        let data = page.split_once("id=\"hsched\">").and_then(|(_, rest)| rest.split_once("</script>"));
        let data: serde_json::Value = serde_json::from_str(data.expect("data").0).expect("JSON");
        assert_eq!((&data["schema"], &data["jobs"][0]["name"]), (&"hsched.report/1".into(), &evil.into()));
    }

    #[test]
    fn the_page_names_nothing_outside_of_it() {
        let text = [TEMPLATE, STYLE].into_iter().chain(SCRIPTS).collect::<String>();
        for word in ["http:", "https:", "src=", "url(", "@import", "fetch(", "XMLHttpRequest", "import("] {
            let found = text.match_indices(word).map(|(place, _)| &text[place..(place + 40).min(text.len())]);
            // The SVG namespace and a fragment of the page itself cause no requests.
            let is_inside =
                |found: &&str| found.contains("http://www.w3.org/2000/svg") || found.starts_with("url(#");
            let found: Vec<&str> = found.filter(|found| !is_inside(found)).collect();
            assert!(found.is_empty(), "{found:?}");
        }
    }
}
