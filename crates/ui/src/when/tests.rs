//! Tables of requests: numbers, widths and legends.

use super::*;
use hsched_queue::Forecast;

fn estimate(low: f64, median: f64, high: f64) -> Estimate {
    let hours = |value: f64| Seconds(value * 3600.0);
    Estimate { low: hours(low), median: hours(median), high: hours(high), mean: hours(median) }
}

fn forecast(start: Estimate) -> Forecast {
    Forecast {
        at_limits: None,
        start,
        finish: start,
        first: 1.0,
        starts: vec![Seconds(0.0); 10],
        past_waits: 0,
        learnt: None,
        waiting: 0,
        ahead: 0,
    }
}

fn row(start: &Start, done: Estimate) -> WhenRow<'_> {
    WhenRow {
        gpus: "16 v100 on 2 nodes".to_owned(),
        cluster: None,
        partition: Some("gpu"),
        account: Some("def-you"),
        limit: Seconds(108_000.0),
        start,
        run: Seconds(40_000.0),
        done: Some(done),
        cost: Some(118.4),
        mark: "3 runs of 12 h".to_owned(),
    }
}

fn job(row: WhenRow<'_>) -> WhenJob<'_> {
    WhenJob { names: vec!["x"], place: None, rows: vec![row], chosen: None, notes: vec![] }
}

#[test]
fn estimates_never_come_without_their_interval() {
    assert_eq!(span(&estimate(0.1, 0.5, 1.5), Basis::Interval), "30 min (6–90)");
    assert_eq!(span(&estimate(0.0, 6.4, 17.0), Basis::Interval), "6.4 h (0.0–17)");
    assert_eq!(span(&estimate(24.0, 60.0, 240.0), Basis::Interval), "2.5 d (1.0–10)");
    assert_eq!(span(&estimate(0.0, 0.0, 0.01), Basis::Interval), "now");
    assert_eq!(span(&estimate(31.0, 31.0, 31.0), Basis::Limits), "~31 h by limits");
    assert_eq!(span(&estimate(31.0, 31.0, 31.0), Basis::Futures(1)), "~31 h (1 future)");
}

#[test]
fn a_few_futures_are_counted() {
    let of = |count| Forecast { starts: vec![Seconds(0.0); count], ..forecast(estimate(1.0, 2.0, 9.0)) };
    let bases = [0, 3, 9, 10].map(|count| Basis::of(&of(count)));
    assert_eq!(bases, [Basis::Limits, Basis::Futures(3), Basis::Futures(9), Basis::Interval]);
}

#[test]
fn start_and_end_are_medians_and_the_mean_of_the_choice_is_said() {
    let start = Start::Estimated(forecast(estimate(1.0, 2.0, 9.0)));
    let done = Estimate { mean: Seconds(6.0 * 3600.0), ..estimate(2.0, 3.0, 10.0) };
    let job = WhenJob { chosen: Some((0, "finishes first")), ..job(row(&start, done)) };
    let when = When { jobs: vec![job], unit: None, is_sorted: true };
    let text = one_job(&when, Terminal::new(Some(false), crate::TerminalKind::default()));
    assert!(text.contains("2.0 h (1.0–9.0)") && text.contains("3.0 h (2.0–10)"), "{text}");
    assert!(text.contains("* 16 v100 on 2 nodes: finishes first (mean 6.0 h, estimated)\n"), "{text}");
}

#[test]
fn a_narrow_table_breaks_between_words_alone() {
    let starts = estimate(12.1, 14.2, 19.9);
    let start = Start::Estimated(forecast(starts));
    let row = row(&start, Estimate { mean: Seconds(100_000.0), ..estimate(20.5, 22.0, 31.5) });
    let when = When { jobs: vec![job(row)], unit: Some("RGU-hours"), is_sorted: true };
    let text = table(&when, 60).render(60, false);
    assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
    for word in ["(12–20)", "22", "(20–32)", "def-you", "3 runs of 12 h"] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn several_jobs_in_a_narrow_terminal_have_their_names_above_their_rows() {
    let start = Start::Estimated(forecast(estimate(0.4, 0.6, 2.3)));
    let lines = |cluster: Option<&'static str>, width: usize| {
        let one = |name: &'static str| {
            let row = WhenRow {
                cluster,
                gpus: "3 a100".to_owned(),
                mark: String::new(),
                ..row(&start, estimate(4.1, 4.3, 6.0))
            };
            WhenJob { names: vec![name], ..job(row) }
        };
        let jobs = vec![one("resnet101"), one("bert")];
        let when = When { jobs, unit: Some("billing-hours"), is_sorted: true };
        let text = table(&when, width).render(width, false);
        assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    let has = |lines: &[String], line: &str| lines.iter().any(|known| known == line);
    for width in [60, 80] {
        let narrow = lines(None, width);
        assert!(has(&narrow, "resnet101:") && has(&narrow, "bert:"), "{narrow:#?}");
        let words = narrow.iter().flat_map(|line| line.split_whitespace());
        assert_eq!(words.filter(|word| ["(0.4–2.3)", "(4.1–6.0)"].contains(word)).count(), 4, "{narrow:#?}");
    }
    let wide = lines(None, 120);
    assert!(wide[0].starts_with("JOB") && !has(&wide, "bert:"), "{wide:#?}");
    // Where the columns for cluster, partition and account do not fit, these names stand beside the GPUs.
    for (width, heading) in [(84, "GPUS    CLUSTER  PARTITION"), (76, "JOB        GPUS            LIMIT")] {
        assert!(lines(Some("narval"), width)[0].starts_with(heading), "{:#?}", lines(Some("narval"), width));
    }
}

#[test]
fn the_legend_says_what_the_rows_show() {
    let legend = |starts: Vec<Seconds>, is_sorted: bool| {
        let start = estimate(1.0, 2.0, 3.0);
        let begin = Start::Estimated(Forecast { starts, ..forecast(start) });
        let job = job(row(&begin, start));
        when_legend(&When { jobs: vec![job], unit: None, is_sorted }).join("\n")
    };
    assert_eq!(legend(vec![Seconds(0.0); 10], true), format!("{LEGEND}{SORTED}"));
    assert_eq!(legend(vec![Seconds(0.0); 10], false), LEGEND);
    assert_eq!(legend(vec![Seconds(0.0); 9], false), format!("{LEGEND}\n{FEW_FUTURES}"));
    assert_eq!(legend(vec![], false), format!("{LEGEND}\n{BY_LIMITS}"));
    assert!(when_legend(&When { jobs: vec![], unit: None, is_sorted: true }).is_empty());
}

#[test]
fn limits_are_written_as_slurm_takes_them() {
    assert_eq!(clock(Seconds(74_700.0)), "20:45");
    assert_eq!(clock(Seconds(108_000.0)), "1-06:00");
    assert_eq!(clock(Seconds(900.0)), "0:15");
}
