//! Which of some requests to make: the one that finishes first on average, or a cheaper one that is nearly as soon.

/// Another request is as good where it ends within this part of the best time, or within [`AS_SOON`].
const NEARLY: f64 = 0.05;

/// Ten minutes, in seconds.
const AS_SOON: f64 = 600.0;

/// What counts of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The mean time to its end, in seconds.
    pub finish: f64,
    /// What it costs, in whatever is charged; `None` where that is unknown.
    pub cost: Option<f64>,
}

/// The request to make, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    pub number: usize,
    pub reason: Reason,
}

/// Why a request is the one to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It finishes first on average.
    First,
    /// It is the cheapest of those that finish nearly as soon.
    Cheapest,
    /// Time and cost together are the least.
    Traded,
}

impl Reason {
    /// Returns the reason in words.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::First => "finishes first on average",
            Self::Cheapest => "cheapest request that finishes within 5 % or 10 min of the earliest",
            Self::Traded => "lowest sum of time and cost by --cost-weight",
        }
    }
}

/// Returns the request to make; `hours` is what one unit of cost is worth. `None` where there is none.
#[must_use]
pub fn choose(candidates: &[Option<Candidate>], hours: f64) -> Option<Choice> {
    let known = || candidates.iter().enumerate().filter_map(|(number, own)| Some((number, (*own)?)));
    let least =
        |value: &dyn Fn(&Candidate) -> f64| known().min_by(|(_, a), (_, b)| value(a).total_cmp(&value(b)));
    if hours > 0.0 {
        let traded = |own: &Candidate| own.finish + hours * 3600.0 * own.cost.unwrap_or(f64::INFINITY);
        let (number, _) = least(&traded)?;
        return Some(Choice { number, reason: Reason::Traded });
    }
    let (first, best) = least(&|own| own.finish)?;
    let limit = (best.finish * (1.0 + NEARLY)).max(best.finish + AS_SOON);
    let cheapest = known()
        .filter(|(_, own)| own.finish <= limit)
        .filter_map(|(number, own)| Some((number, own.cost?)))
        .min_by(|(_, a), (_, b)| a.total_cmp(b));
    match (cheapest, best.cost) {
        (Some((number, cost)), Some(own)) if cost < own => Some(Choice { number, reason: Reason::Cheapest }),
        _ => Some(Choice { number: first, reason: Reason::First }),
    }
}

/// Returns which candidates are worth a look, the first to finish first: of any other, one is done as soon and costs no more.
/// One of unknown cost is where nothing is done sooner.
#[must_use]
pub fn worth_a_look(candidates: &[Option<Candidate>]) -> Vec<usize> {
    let known = candidates.iter().enumerate().filter_map(|(number, own)| Some((number, (*own)?)));
    let mut known: Vec<(usize, Candidate)> = known.collect();
    let cost = |own: &Candidate| own.cost.unwrap_or(f64::INFINITY);
    known.sort_by(|(_, a), (_, b)| a.finish.total_cmp(&b.finish).then(cost(a).total_cmp(&cost(b))));
    let (mut list, mut cheapest) = (Vec::new(), f64::INFINITY);
    for (number, own) in &known {
        if cost(own) < cheapest || list.is_empty() {
            list.push(*number);
            cheapest = cheapest.min(cost(own));
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_later_and_dearer_is_not_worth_a_look() {
        let own = |finish: f64, cost: Option<f64>| Some(Candidate { finish, cost });
        let list = [own(9.0, Some(1.0)), own(5.0, Some(4.0)), None, own(6.0, Some(4.0)), own(7.0, Some(2.0))];
        assert_eq!(worth_a_look(&list), [1, 4, 0]);
        assert_eq!(worth_a_look(&[own(5.0, None), own(4.0, None), own(6.0, Some(1.0))]), [1, 2]);
        assert_eq!(worth_a_look(&[None]), [0; 0]);
    }

    #[test]
    fn the_cheapest_of_those_that_are_nearly_as_soon() {
        let own = |hours: f64, cost: f64| Some(Candidate { finish: hours * 3600.0, cost: Some(cost) });
        let check = |list: &[Option<Candidate>], weight: f64, number: usize, reason: Reason| {
            assert_eq!(choose(list, weight), Some(Choice { number, reason }));
        };
        check(&[own(10.0, 40.0), own(10.4, 30.0), own(11.0, 1.0)], 0.0, 1, Reason::Cheapest);
        check(&[own(10.0, 40.0), own(10.6, 30.0), own(11.0, 1.0)], 0.0, 0, Reason::First);
        // Ten minutes count where they are more than a twentieth.
        check(&[own(1.0, 40.0), own(1.16, 30.0)], 0.0, 1, Reason::Cheapest);
        // An hour for ten units: the second saves 39 and takes an hour more.
        check(&[own(10.0, 40.0), own(11.0, 1.0)], 0.1, 1, Reason::Traded);
        check(&[own(10.0, 40.0), own(15.0, 1.0)], 0.1, 0, Reason::Traded);
        let unknown = Some(Candidate { finish: 1.0, cost: None });
        check(&[None, unknown, own(5.0, 1.0)], 0.0, 1, Reason::First);
        assert_eq!(choose(&[None], 0.0), None);
    }
}
