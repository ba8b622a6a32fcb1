//! A comparison of several policies on the same problem, one line each.

use crate::quantity::{duration, percent};
use crate::text::wrap;
use crate::{Align, Table, Terminal};
use hsched_model::Seconds;
use hsched_plan::{PlanFigures, Quality};

/// A policy with its result, or the reason why it cannot handle the problem.
#[derive(Clone, Debug)]
pub struct PolicyComparison {
    pub policy: &'static str,
    pub result: Result<PolicyResult, String>,
}

/// The result of a policy on a problem.
#[derive(Clone, Debug)]
pub struct PolicyResult {
    /// Number of placed jobs.
    pub placed: usize,
    pub outcome: Option<PlanFigures>,
    pub quality: Option<Quality>,
    /// Running time of the policy.
    pub time: Seconds,
    /// Why no job is placed, if the reason is the same for all jobs; `None` in all other cases.
    pub why: Option<String>,
}

/// Returns the table of the policies' results; means over fewer jobs than another policy placed are not
/// compared.
pub fn compare_table(rows: &[PolicyComparison], terminal: Terminal) -> String {
    let mut table = Table::new(&[
        ("POLICY", Align::Left),
        ("PLACED", Align::Right),
        ("MEAN", Align::Right),
        ("VS BEST", Align::Right),
        ("GAP", Align::Right),
        ("MAKESPAN", Align::Right),
        ("FAIRNESS", Align::Right),
        ("SOLVED IN", Align::Right),
    ]);
    let most = rows.iter().filter_map(|row| Some(row.result.as_ref().ok()?.placed)).max().unwrap_or(0);
    // Metrics over fewer jobs are not comparable.
    let value = |row: &PolicyComparison| match &row.result {
        Ok(PolicyResult { placed, outcome: Some(outcome), .. }) if *placed == most => {
            Some(outcome.objective_value)
        }
        _ => None,
    };
    let best = rows.iter().filter_map(value).fold(f64::INFINITY, f64::min);
    let mut remarks = String::new();
    let mut remark = |message: &str| {
        remarks.push_str(&wrap(message, terminal.width(), "  "));
        remarks.push('\n');
    };
    for row in rows {
        match &row.result {
            Ok(PolicyResult { placed, outcome, quality, time, why }) => {
                let figure =
                    |text: &dyn Fn(&PlanFigures) -> String| outcome.as_ref().map_or_else(|| "-".into(), text);
                table.row([
                    row.policy.to_owned(),
                    placed.to_string(),
                    figure(&|outcome| duration(Seconds(outcome.mean_jct))),
                    value(row).map_or_else(
                        || "-".into(),
                        |value| format!("+{:.1} %", 100.0 * (value / best - 1.0)),
                    ),
                    quality.map_or_else(|| "-".into(), gap),
                    figure(&|outcome| duration(Seconds(outcome.makespan))),
                    figure(&|outcome| format!("{:.3}", outcome.fairness)),
                    duration(*time),
                ]);
                if let Some(why) = why {
                    remark(&format!("{}: {why}", row.policy));
                }
            }
            Err(message) => remark(message),
        }
    }
    if table.is_empty() {
        return remarks;
    }
    let text = table.show(terminal);
    if remarks.is_empty() { text } else { format!("{text}\n{remarks}") }
}

/// Returns the maximum gap between a plan and the bound as text; `none` if the plan is optimal.
fn gap(quality: Quality) -> String {
    if quality.is_optimal() { "none".to_owned() } else { percent(quality.gap) }
}
