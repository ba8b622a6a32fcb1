//! Selects one of several requests: the one that finishes first on average, or a cheaper one that finishes
//! almost as early.
//!
//! The rule is shared by `when`, by jobs planned together, and by policies with pending jobs.

use crate::{RequestId, RequestOption, Seconds};

/// A request counts as equally good if it ends within this fraction of the best time, or within [`AS_SOON`].
const NEARLY: f64 = 0.05;

/// 10 min, in seconds.
const AS_SOON: f64 = 600.0;

/// The properties of a request that determine the choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    pub id: RequestId,
    /// The mean time to the request's end, in seconds.
    pub finish: f64,
    /// The candidate's cost, in one unit for all candidates; `None` if unknown.
    pub cost: Option<f64>,
}

impl Candidate {
    /// Returns the candidates among a job's requests, each with its mean start as a time from now; requests
    /// without one are left out.
    pub fn of(requests: &[(&RequestOption, Option<Seconds>)]) -> Vec<Self> {
        let costs = RequestOption::costs(&requests.iter().map(|(option, _)| *option).collect::<Vec<_>>());
        let candidate = |((option, start), cost): (&(&RequestOption, Option<Seconds>), Option<f64>)| {
            Some(Self { id: option.id(), finish: option.waits((*start)?).0 + option.run.0, cost })
        };
        requests.iter().zip(costs).filter_map(candidate).collect()
    }
}

/// The chosen request, with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    pub id: RequestId,
    pub reason: ChoiceReason,
}

/// Why a request was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChoiceReason {
    /// The request finishes first on average.
    First,
    /// The request is the cheapest of those that finish almost as early.
    Cheapest,
    /// The request has the lowest sum of time and cost.
    Traded,
}

impl ChoiceReason {
    /// Returns the reason in words.
    pub fn word(self) -> &'static str {
        match self {
            Self::First => "finishes first on average",
            Self::Cheapest => "cheapest request that finishes within 5 % or 10 min of the earliest",
            Self::Traded => "lowest sum of time and cost by --cost-weight",
        }
    }
}

/// Returns the choice; `hours` is the time that one unit of cost is worth. If it is 0, cost only decides
/// between requests that finish at almost the same time. `None` if there are no candidates.
pub fn choose(candidates: &[Candidate], hours: f64) -> Option<Choice> {
    let least =
        |value: &dyn Fn(&Candidate) -> f64| candidates.iter().min_by(|a, b| value(a).total_cmp(&value(b)));
    if hours > 0.0 {
        let traded = |candidate: &Candidate| {
            candidate.finish + hours * 3600.0 * candidate.cost.unwrap_or(f64::INFINITY)
        };
        return Some(Choice { id: least(&traded)?.id, reason: ChoiceReason::Traded });
    }
    let best = least(&|candidate| candidate.finish)?;
    let limit = (best.finish * (1.0 + NEARLY)).max(best.finish + AS_SOON);
    let cheapest = candidates
        .iter()
        .filter(|candidate| candidate.finish <= limit)
        .filter_map(|candidate| Some((candidate.id, candidate.cost?)))
        .min_by(|(_, a), (_, b)| a.total_cmp(b));
    match (cheapest, best.cost) {
        (Some((id, cost)), Some(cost_of_first)) if cost < cost_of_first => {
            Some(Choice { id, reason: ChoiceReason::Cheapest })
        }
        _ => Some(Choice { id: best.id, reason: ChoiceReason::First }),
    }
}

/// Returns the non-dominated candidates by finish time: for any other one, another candidate is at least as
/// early and as cheap. An unknown cost counts as the highest, so a candidate without a cost is included only
/// if it comes first.
pub fn worth_a_look(candidates: &[Candidate]) -> Vec<RequestId> {
    let mut known = candidates.to_vec();
    let cost = |candidate: &Candidate| candidate.cost.unwrap_or(f64::INFINITY);
    known.sort_by(|a, b| a.finish.total_cmp(&b.finish).then(cost(a).total_cmp(&cost(b))));
    let (mut list, mut cheapest) = (Vec::new(), f64::INFINITY);
    for candidate in &known {
        if cost(candidate) < cheapest || list.is_empty() {
            list.push(candidate.id);
            cheapest = cheapest.min(cost(candidate));
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns candidates with these times and costs, numbered from 0.
    fn numbered(list: &[(f64, Option<f64>)]) -> Vec<Candidate> {
        let candidate = |(id, &(finish, cost)): (u32, &_)| Candidate { id: RequestId(id), finish, cost };
        (0..).zip(list).map(candidate).collect()
    }

    #[test]
    fn what_is_later_and_dearer_is_not_worth_a_look() {
        let ids = |list: &[(f64, Option<f64>)]| -> Vec<u32> {
            worth_a_look(&numbered(list)).into_iter().map(|id| id.0).collect()
        };
        let list = [(9.0, Some(1.0)), (5.0, Some(4.0)), (6.0, Some(4.0)), (7.0, Some(2.0))];
        assert_eq!(ids(&list), [1, 3, 0]);
        assert_eq!(ids(&[(5.0, None), (4.0, None), (6.0, Some(1.0))]), [1, 2]);
        assert_eq!(ids(&[]), [0; 0]);
    }

    #[test]
    fn the_cheapest_of_those_that_are_nearly_as_soon() {
        let check = |list: &[(f64, f64)], weight: f64, id: u32, reason: ChoiceReason| {
            let list: Vec<_> = list.iter().map(|(hours, cost)| (hours * 3600.0, Some(*cost))).collect();
            assert_eq!(choose(&numbered(&list), weight), Some(Choice { id: RequestId(id), reason }));
        };
        check(&[(10.0, 40.0), (10.4, 30.0), (11.0, 1.0)], 0.0, 1, ChoiceReason::Cheapest);
        check(&[(10.0, 40.0), (10.6, 30.0), (11.0, 1.0)], 0.0, 0, ChoiceReason::First);
        // Ten minutes are the limit if they are more than 5 %.
        check(&[(1.0, 40.0), (1.16, 30.0)], 0.0, 1, ChoiceReason::Cheapest);
        // With one hour for ten units, the second candidate saves 39 units and takes one hour more.
        check(&[(10.0, 40.0), (11.0, 1.0)], 0.1, 1, ChoiceReason::Traded);
        check(&[(10.0, 40.0), (15.0, 1.0)], 0.1, 0, ChoiceReason::Traded);
        let unknown = numbered(&[(1.0, None), (5.0 * 3600.0, Some(1.0))]);
        assert_eq!(choose(&unknown, 0.0), Some(Choice { id: RequestId(0), reason: ChoiceReason::First }));
        assert_eq!(choose(&[], 0.0), None);
    }
}
