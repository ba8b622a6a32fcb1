//! Draws the jobs: a table, the details of the selected job, and the keys. If the space is insufficient, less
//! important parts are left out.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState, Wrap};

use crate::status::number;
use crate::text::shortened;
use crate::top::{TopRow, TopView, sparkline};

/// Lines of the details.
const DETAILS: u16 = 7;

/// Minimum height of the terminal for details.
const TALL: u16 = 16;

/// Characters of a curve in the table.
const CURVE: u16 = 16;

/// Minimum characters of a name.
const NAME: u16 = 12;

/// A column: its heading, the terminal width from which it is shown, and its width (of JOB, the minimum).
type TopColumn = (&'static str, u16, u16);

const COLUMNS: [TopColumn; 7] = [
    ("JOB", 0, NAME),
    ("STATE", 0, 10),
    ("EPOCHS", 0, 9),
    ("ENDS", 52, 18),
    ("GPUS", 70, 14),
    ("METRIC", 90, 16),
    ("CURVE", 110, CURVE),
];

/// Draws a view; `colour` says whether colours may be used besides bold, dim and reversed text.
pub(super) fn draw(frame: &mut Frame<'_>, view: &TopView, colour: bool) {
    let area = frame.area();
    let details = if area.height >= TALL { DETAILS } else { 0 };
    let top = u16::try_from(view.summary.len()).unwrap_or(1) + 1;
    let parts = [
        Constraint::Length(top.min(area.height / 3)),
        Constraint::Min(2),
        Constraint::Length(details),
        Constraint::Length(1),
    ];
    let [head, table, below, keys] = Layout::vertical(parts).areas(area);
    let title = Line::from(Span::styled(view.title.as_str(), Style::new().add_modifier(Modifier::BOLD)));
    let lines = [title].into_iter().chain(view.summary.iter().map(|line| Line::from(line.as_str())));
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), head);
    draw_table(frame, table, view, colour);
    if details > 0 {
        draw_details(frame, below, view, colour);
    }
    draw_keys(frame, keys, view);
}

fn draw_table(frame: &mut Frame<'_>, area: Rect, view: &TopView, colour: bool) {
    let shown: Vec<usize> = (0..COLUMNS.len()).filter(|&place| COLUMNS[place].1 <= area.width).collect();
    let heading = Row::new(shown.iter().map(|&place| COLUMNS[place].0))
        .style(Style::new().add_modifier(Modifier::BOLD));
    let widths: Vec<u16> = widths(&shown, area.width);
    let row = |row: &TopRow| {
        let cells = cells(row);
        let cell = |(&place, &width): (&usize, &u16)| Cell::from(shortened(&cells[place], width.into()));
        Row::new(shown.iter().zip(&widths).map(cell)).style(style(row, colour))
    };
    let table = Table::new(view.rows.iter().map(row), widths.iter().copied().map(Constraint::Length))
        .header(heading)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::new().with_selected(Some(view.selected));
    frame.render_stateful_widget(table, area, &mut state);
}

/// Returns the widths of the shown columns: the name gets the remaining space.
fn widths(shown: &[usize], width: u16) -> Vec<u16> {
    let others: u16 = shown.iter().map(|&place| COLUMNS[place].2 + 1).sum::<u16>() - COLUMNS[0].2 - 1;
    let name = width.saturating_sub(others).max(NAME);
    shown.iter().map(|&place| if place == 0 { name } else { COLUMNS[place].2 }).collect()
}

/// Returns the cells of a row in the order of the columns.
fn cells(row: &TopRow) -> [String; 7] {
    let epochs = row.epochs.map_or_else(|| "-".to_owned(), |(done, all)| format!("{done}/{all}"));
    let state = if row.is_stuck { "stuck" } else { row.state };
    [
        row.name.clone(),
        state.to_owned(),
        epochs,
        row.ends.clone(),
        row.gpus.clone(),
        row.metric.clone(),
        sparkline(&row.curve, CURVE.into()),
    ]
}

fn style(row: &TopRow, colour: bool) -> Style {
    let style = Style::new();
    match row.state {
        _ if row.is_stuck && colour => style.fg(Color::Red),
        _ if row.is_stuck => style.add_modifier(Modifier::BOLD),
        "failed" if colour => style.fg(Color::Red),
        "running" if colour => style.fg(Color::Green),
        _ if row.is_over => style.add_modifier(Modifier::DIM),
        _ => style,
    }
}

fn draw_details(frame: &mut Frame<'_>, area: Rect, view: &TopView, colour: bool) {
    let mut lines = vec![Line::from("─".repeat(area.width.into()))];
    lines.extend(view.details.iter().map(|line| Line::from(line.as_str())));
    if let Some((name, values)) = &view.curve
        && let (Some(first), Some(last)) = (values.first(), values.last())
    {
        let begin = format!("{name} {} ", number(*first));
        let end = format!(" {}", number(*last));
        let taken = begin.chars().count() + end.chars().count();
        let curve = sparkline(values, usize::from(area.width).saturating_sub(taken));
        let style = if colour { Style::new().fg(Color::Cyan) } else { Style::new() };
        // In second place, directly below the horizontal rule, where it is not cut off.
        lines.insert(1, Line::from(vec![Span::raw(begin), Span::styled(curve, style), Span::raw(end)]));
    }
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), area);
}

fn draw_keys(frame: &mut Frame<'_>, area: Rect, view: &TopView) {
    let keys = if area.width >= 52 {
        "↑ ↓ select  l logs  e explain  c cancel  q quit"
    } else {
        "l logs e explain c cancel q quit"
    };
    let text = view.message.as_deref().or(view.problem.as_deref()).unwrap_or(keys);
    let text = shortened(text, area.width.into());
    let style = Style::new().add_modifier(Modifier::REVERSED);
    frame.render_widget(
        Paragraph::new(format!("{text:<width$}", width = area.width.into())).style(style),
        area,
    );
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn row(name: &str, state: &'static str) -> TopRow {
        TopRow {
            name: name.to_owned(),
            state,
            gpus: "2 v100".to_owned(),
            epochs: Some((3, 10)),
            ends: "in 12 min".to_owned(),
            metric: "loss 0.4".to_owned(),
            curve: vec![3.0, 2.0, 1.0],
            is_stuck: false,
            is_over: false,
        }
    }

    fn drawn(view: &TopView, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| draw(frame, view, true)).expect("drawn");
        let buffer = terminal.backend().buffer();
        let line =
            |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(line).collect()
    }

    fn view() -> TopView {
        TopView {
            title: "hsched top: cluster c".to_owned(),
            summary: vec!["2 running".to_owned()],
            rows: vec![row("resnet", "running"), TopRow { is_stuck: true, ..row("vgg", "running") }],
            selected: 1,
            details: vec!["no step for 12 min: hangs in all-reduce?".to_owned()],
            curve: Some(("loss".to_owned(), vec![3.0, 2.0, 1.0])),
            ..TopView::default()
        }
    }

    #[test]
    fn what_is_cut_has_a_mark() {
        let name = "resnet50-cifar-lr0.001-wd0.0005-seed7";
        let view = TopView { rows: vec![row(name, "running")], ..view() };
        for width in [40, 60, 80] {
            let lines = drawn(&view, width, 10);
            assert!(lines[3].contains("…") && lines[3].contains("seed7 "), "{lines:#?}");
        }
        assert!(drawn(&view, 130, 10)[3].contains(name));
        let problem = Some("cannot read the state, for a reason that takes more than a line".to_owned());
        assert!(drawn(&TopView { problem, ..view }, 40, 10)[9].contains('…'));
    }

    #[test]
    fn columns_make_room_where_the_terminal_is_narrow() {
        let wide = drawn(&view(), 120, 20);
        assert!(wide[2].starts_with("JOB") && wide[2].ends_with("CURVE"), "{wide:#?}");
        assert!(wide[3].contains("3/10") && wide[3].ends_with("█▅▁"), "{wide:#?}");
        assert!(wide.iter().any(|line| line == "no step for 12 min: hangs in all-reduce?"), "{wide:#?}");
        assert!(wide.iter().any(|line| line == "loss 3.000 █▅▁ 1.000"), "{wide:#?}");
        let narrow = drawn(&view(), 40, 10);
        assert_eq!(narrow[2].split_whitespace().collect::<Vec<_>>(), ["JOB", "STATE", "EPOCHS"]);
        assert_eq!(narrow[4].split_whitespace().collect::<Vec<_>>(), ["vgg", "stuck", "3/10"]);
        assert_eq!(narrow[9], "l logs e explain c cancel q quit");
    }

    #[test]
    fn no_size_is_too_small() {
        for (width, height) in [(1, 1), (2, 3), (10, 2), (300, 1), (3, 90)] {
            drawn(&view(), width, height);
        }
        drawn(&TopView::default(), 80, 24);
    }

    #[test]
    fn the_selected_row_is_always_in_sight() {
        let rows = (0..100).map(|number| row(&format!("job{number}"), "waiting")).collect();
        let lines = drawn(&TopView { rows, selected: 77, ..view() }, 60, 12);
        assert!(lines.iter().any(|line| line.starts_with("job77 ")), "{lines:#?}");
    }
}
