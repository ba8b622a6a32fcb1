//! Tables of requests: numbers, widths and legends.

use super::*;
use hsched_queue::Forecast;

fn estimate(low: f64, median: f64, high: f64) -> Estimate {
    let hours = |value: f64| Seconds(value * 3600.0);
    Estimate { low: hours(low), median: hours(median), high: hours(high), mean: hours(median) }
}

#[test]
fn estimates_never_come_without_their_interval() {
    let span = |estimate: &Estimate, is_sampled| span(estimate, estimate.median, is_sampled);
    assert_eq!(span(&estimate(0.1, 0.5, 1.5), true), "30 min (6–90)");
    assert_eq!(span(&estimate(0.0, 6.4, 17.0), true), "6.4 h (0.0–17)");
    assert_eq!(span(&estimate(24.0, 60.0, 240.0), true), "2.5 d (1.0–10)");
    assert_eq!(span(&estimate(0.0, 0.0, 0.01), true), "now");
    assert_eq!(span(&estimate(31.0, 31.0, 31.0), false), "~31 h by limits");
}

#[test]
fn a_mean_is_inside_its_interval() {
    let minutes = |value: f64| Seconds(value * 60.0);
    let estimate =
        Estimate { low: minutes(51.0), median: minutes(51.0), high: minutes(51.0), mean: minutes(50.0) };
    assert_eq!(span(&estimate, estimate.mean, true), "50 min (50–51)");
    assert_eq!(span(&Estimate { mean: minutes(52.0), ..estimate }, minutes(52.0), true), "52 min (51–52)");
}

#[test]
fn a_narrow_table_breaks_between_words_alone() {
    let starts = estimate(12.1, 14.2, 19.9);
    let start = Start::Estimated(Forecast {
        at_limits: None,
        start: starts,
        finish: starts,
        first: 1.0,
        starts: vec![Seconds(0.0)],
        past_waits: 0,
        learnt: None,
        waiting: 0,
        ahead: 0,
    });
    let row = WhenRow {
        gpus: "16 v100 on 2 nodes".to_owned(),
        cluster: None,
        partition: Some("gpu"),
        account: Some("def-you"),
        limit: Seconds(108_000.0),
        start: &start,
        run: Seconds(40_000.0),
        done: Some(Estimate { mean: Seconds(100_000.0), ..estimate(20.5, 22.0, 31.5) }),
        cost: Some(118.4),
        mark: "3 runs of 12 h".to_owned(),
    };
    let job = WhenJob { names: vec!["x"], place: None, rows: vec![row], chosen: None, notes: vec![] };
    let when = When { jobs: vec![job], unit: Some("RGU-hours"), is_sorted: true };
    let text = table(&when, 60).render(60, false);
    assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
    for word in ["(12–20)", "28", "(20–32)", "def-you", "3 runs of 12 h"] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn the_legend_says_what_the_rows_show() {
    let legend = |starts: Vec<Seconds>, is_sorted: bool| {
        let start = estimate(1.0, 2.0, 3.0);
        let forecast = Forecast {
            starts,
            at_limits: None,
            start,
            finish: start,
            first: 1.0,
            past_waits: 0,
            learnt: None,
            waiting: 0,
            ahead: 0,
        };
        let begin = Start::Estimated(forecast);
        let row = WhenRow {
            gpus: "1 v100".to_owned(),
            cluster: None,
            partition: None,
            account: None,
            limit: Seconds(3600.0),
            start: &begin,
            run: Seconds(1800.0),
            done: Some(start),
            cost: None,
            mark: String::new(),
        };
        let job = WhenJob { names: vec!["x"], place: None, rows: vec![row], chosen: None, notes: vec![] };
        when_legend(&When { jobs: vec![job], unit: None, is_sorted }).join("\n")
    };
    assert_eq!(legend(vec![Seconds(0.0)], true), format!("{LEGEND}{SORTED}{INTERVAL}"));
    assert_eq!(legend(vec![Seconds(0.0)], false), format!("{LEGEND}{INTERVAL}"));
    assert_eq!(legend(vec![], false), format!("{LEGEND}{INTERVAL}\n{BY_LIMITS}"));
    assert!(when_legend(&When { jobs: vec![], unit: None, is_sorted: true }).is_empty());
}

#[test]
fn limits_are_written_as_slurm_takes_them() {
    assert_eq!(clock(Seconds(74_700.0)), "20:45");
    assert_eq!(clock(Seconds(108_000.0)), "1-06:00");
    assert_eq!(clock(Seconds(900.0)), "0:15");
}
