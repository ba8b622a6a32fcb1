//! The limits that apply to a job, and the counters to which it contributes.

use std::collections::{BTreeMap, BTreeSet};

use super::{Limit, Refusal, TresAmounts};
use crate::Snapshot;

/// The properties of a job that determine its limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub user: Option<&'a str>,
    pub account: Option<&'a str>,
    pub qos: Option<&'a str>,
    pub partition: Option<&'a str>,
    /// The job's time limit in seconds.
    pub limit: f64,
}

/// The effect of limits on a job.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule {
    /// Limits that never allow the job to start, in the order in which Slurm checks them.
    pub refusals: Vec<Refusal>,
    pub(super) checks: Vec<LimitCheck>,
    pub(super) counts: Vec<LimitCount>,
    /// Whether the job's QOS reserves no nodes for the job.
    pub keeps_nothing: bool,
}

impl Rule {
    /// Returns the first limit that never allows the job to start.
    pub(crate) fn refusal(&self) -> Option<&Refusal> {
        self.refusals.first()
    }

    /// Returns the counters that the job checks or contributes to.
    pub(crate) fn counters(&self) -> impl Iterator<Item = usize> {
        self.checks.iter().map(|check| check.counter).chain(self.counts.iter().map(|count| count.counter))
    }

    /// Returns whether time alone may allow the job to start, as the remaining minutes of running jobs
    /// decrease.
    pub(crate) fn falls(&self) -> bool {
        self.checks.iter().any(|check| check.is_falling)
    }
}

/// A counter that must have room for a job to start.
#[derive(Clone, Debug)]
pub(super) struct LimitCheck {
    /// Slurm's name of the limit.
    pub name: String,
    pub counter: usize,
    pub amount: f64,
    pub max: f64,
    pub is_falling: bool,
}

/// A job's contribution to a counter while it runs.
#[derive(Clone, Debug)]
pub(super) struct LimitCount {
    pub counter: usize,
    /// For a decreasing counter, the amount per remaining minute of the job's limit.
    pub amount: f64,
    pub is_falling: bool,
}

/// The holder whose jobs a counter sums up, the TRES (`None`: number of jobs), and whether amounts are
/// multiplied by the remaining time of limits.
pub(super) type CounterKey = (String, Option<String>, bool);

/// The limits of a snapshot, with the rules of the jobs seen so far.
pub(crate) struct LimitRules<'a> {
    snapshot: &'a Snapshot,
    /// Limits by holder.
    limits: BTreeMap<&'a str, Vec<&'a Limit>>,
    counters: BTreeMap<CounterKey, usize>,
    known: BTreeMap<RuleKey, usize>,
    list: Vec<Rule>,
    /// The possible contributions of each rule to a counter.
    adds: Vec<Vec<(CounterKey, f64)>>,
}

/// The user, account, QOS and partition of a job, and its amounts and limit as bits.
type RuleKey = ([Option<String>; 4], Vec<(String, u64)>, u64);

/// A limit on running jobs, the group over which it is summed, and whether it is in minutes.
const GROUP_OF_QOS: [(&str, LimitScope, bool); 6] = [
    ("GrpTRES", LimitScope::All, false),
    ("GrpTRESRunMins", LimitScope::All, true),
    ("MaxTRESPerAccount", LimitScope::Account, false),
    ("MaxTRESPerUser", LimitScope::User, false),
    ("MaxTRESRunMinsPerAccount", LimitScope::Account, true),
    ("MaxTRESRunMinsPerUser", LimitScope::User, true),
];

const JOBS_OF_QOS: [(&str, LimitScope); 3] = [
    ("GrpJobs", LimitScope::All),
    ("MaxJobsPerAccount", LimitScope::Account),
    ("MaxJobsPerUser", LimitScope::User),
];

const SINGLE: [&str; 5] = ["MaxTRES", "MaxTRESPerNode", "MaxTRESMins", "MinTRES", "MaxWall"];

/// The jobs to which a limit of a QOS applies.
#[derive(Clone, Copy)]
enum LimitScope {
    All,
    Account,
    User,
}

/// The rule of a job under construction.
struct RuleDraft<'a, 'b> {
    subject: Subject<'b>,
    amounts: &'b TresAmounts,
    minutes: f64,
    rule: Rule,
    /// Limits set by a QOS, which override others of the same name.
    taken: BTreeSet<(&'a str, Option<&'a str>)>,
}

impl<'a> LimitRules<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot) -> Self {
        let mut limits: BTreeMap<&str, Vec<&Limit>> = BTreeMap::new();
        for limit in snapshot.limits.iter().flatten() {
            limits.entry(&limit.holder).or_default().push(limit);
        }
        Self {
            snapshot,
            limits,
            counters: BTreeMap::new(),
            known: BTreeMap::new(),
            list: vec![Rule::default()],
            adds: vec![Vec::new()],
        }
    }

    /// Returns the index of the rule for a job with these needs; 0 is the rule of a job without limits.
    pub(crate) fn of(&mut self, subject: Subject<'_>, amounts: &TresAmounts) -> usize {
        if self.limits.is_empty() {
            return 0;
        }
        let Subject { user, account, qos, partition, limit } = subject;
        let names = [user, account, qos, partition].map(|name| name.map(str::to_owned));
        let amounts_key = amounts.iter().map(|(name, amount)| (name.clone(), amount.to_bits())).collect();
        let key = (names, amounts_key, limit.to_bits());
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let (rule, adds) = self.make(subject, amounts);
        self.list.push(rule);
        self.adds.push(adds);
        self.known.insert(key, self.list.len() - 1);
        self.list.len() - 1
    }

    /// Returns the first limit that never allows a job with this rule to start; `None` if there is none.
    pub(crate) fn refusal(&self, rule: usize) -> Option<&Refusal> {
        self.list[rule].refusal()
    }

    /// Returns the definitions of the counters against which jobs are checked.
    pub(super) fn names(&self) -> BTreeMap<usize, CounterKey> {
        self.counters.iter().map(|(counter, number)| (*number, counter.clone())).collect()
    }

    /// Returns all rules and the number of counters; each rule has its contributions to counters against
    /// which jobs are checked.
    pub(crate) fn finish(mut self) -> (Vec<Rule>, usize) {
        for (rule, adds) in self.list.iter_mut().zip(self.adds) {
            let counted = |(counter, amount): (CounterKey, f64)| {
                let number = *self.counters.get(&counter)?;
                Some(LimitCount { counter: number, amount, is_falling: counter.2 })
            };
            rule.counts = adds.into_iter().filter_map(counted).collect();
        }
        (self.list, self.counters.len())
    }

    fn make(&mut self, subject: Subject<'_>, amounts: &TresAmounts) -> (Rule, Vec<(CounterKey, f64)>) {
        let minutes = subject.limit / 60.0;
        let mut draft =
            RuleDraft { subject, amounts, minutes, rule: Rule::default(), taken: BTreeSet::new() };
        let qualities = self.snapshot.qualities(subject);
        let mut holders = Vec::new();
        for &qos in &qualities {
            self.check_qos(&mut draft, qos);
            holders.extend(
                [LimitScope::All, LimitScope::Account, LimitScope::User]
                    .map(|span| subject.counter_of(qos, span)),
            );
        }
        self.check_associations(&mut draft, &mut holders);
        let flags = subject.qos.and_then(|qos| self.snapshot.qos_flags.get(qos));
        draft.rule.keeps_nothing = flags.is_some_and(|flags| flags.contains("NoReserve"));
        let mut adds: Vec<(CounterKey, f64)> = Vec::new();
        for holder in holders {
            adds.push(((holder.clone(), None, false), 1.0));
            for (name, amount) in amounts {
                let counter = |is_falling| (holder.clone(), Some(name.clone()), is_falling);
                adds.extend([(counter(false), *amount), (counter(true), *amount)]);
            }
        }
        (draft.rule, adds)
    }

    fn check_qos(&mut self, draft: &mut RuleDraft<'a, '_>, qos: &str) {
        let Some(limits) = self.limits.get(format!("q:{qos}").as_str()).cloned() else { return };
        for (name, span) in JOBS_OF_QOS {
            let counter = draft.subject.counter_of(qos, span);
            self.check_jobs(draft, &counter, limits.iter().copied().filter(|limit| limit.name == name));
        }
        draft.check_alone(&limits);
        for (name, span, is_minutes) in GROUP_OF_QOS {
            let counter = draft.subject.counter_of(qos, span);
            for limit in limits.iter().filter(|other| other.name == name) {
                self.check_group(draft, &counter, limit, is_minutes);
            }
        }
        draft.taken.extend(limits.iter().map(|limit| (limit.name.as_str(), limit.tres.as_deref())));
        if limits.iter().any(|limit| matches!(limit.name.as_str(), "MaxJobsPerUser" | "MaxJobsPerAccount")) {
            draft.taken.insert(("MaxJobs", None));
        }
    }

    fn check_associations(&mut self, draft: &mut RuleDraft<'a, '_>, holders: &mut Vec<String>) {
        let Some(account) = draft.subject.account else { return };
        let accounts = self.snapshot.accounts_above(account);
        let user = draft.subject.user.map(|user| format!("u:{account}:{user}"));
        let all: Vec<String> =
            user.iter().cloned().chain(accounts.iter().map(|name| format!("a:{name}"))).collect();
        for holder in &all {
            let Some(limits) = self.limits.get(holder.as_str()).cloned() else { continue };
            self.check_jobs(draft, holder, limits.iter().copied().filter(|limit| limit.name == "GrpJobs"));
            for (name, is_minutes) in [("GrpTRES", false), ("GrpTRESRunMins", true)] {
                for limit in limits.iter().filter(|limit| limit.name == name) {
                    self.check_group(draft, holder, limit, is_minutes);
                }
            }
        }
        // The following limits are inherited: the nearest one counts. `MaxJobs` applies to each user separately,
        // the others to each single job.
        let nearest = |name: &str| -> Vec<&'a Limit> {
            let of = |holder: &String| -> Vec<&'a Limit> {
                let list = self.limits.get(holder.as_str()).into_iter().flatten();
                list.copied().filter(|limit| limit.name == name).collect()
            };
            all.iter().map(of).find(|list| !list.is_empty()).unwrap_or_default()
        };
        let jobs = nearest("MaxJobs");
        let alone: Vec<&Limit> = SINGLE.iter().flat_map(|name| nearest(name)).collect();
        draft.check_alone(&alone);
        if let Some(user) = &user {
            self.check_jobs(draft, user, jobs.into_iter());
        }
        holders.extend(all);
    }

    fn check_jobs(
        &mut self,
        draft: &mut RuleDraft<'a, '_>,
        holder: &str,
        limits: impl Iterator<Item = &'a Limit>,
    ) {
        for limit in limits {
            if draft.taken.contains(&(limit.name.as_str(), None)) {
                continue;
            }
            if limit.max < 1.0 {
                draft.refuse(limit, limit.max, 1.0);
            }
            let counter = self.number((holder.to_owned(), None, false));
            let name = limit.name.clone();
            draft.rule.checks.push(LimitCheck {
                name,
                counter,
                amount: 1.0,
                max: limit.max,
                is_falling: false,
            });
        }
    }

    fn check_group(
        &mut self,
        draft: &mut RuleDraft<'a, '_>,
        holder: &str,
        limit: &'a Limit,
        is_minutes: bool,
    ) {
        let tres = limit.tres.as_deref();
        if draft.taken.contains(&(limit.name.as_str(), tres)) {
            return;
        }
        let Some(amount) = tres.and_then(|name| draft.amounts.get(name)) else { return };
        let (amount, max) = (amount * if is_minutes { draft.minutes } else { 1.0 }, limit.max);
        if amount > max {
            draft.refuse(limit, max, amount);
        }
        let counter = self.number((holder.to_owned(), limit.tres.clone(), is_minutes));
        let name = limit.name.clone();
        draft.rule.checks.push(LimitCheck { name, counter, amount, max, is_falling: is_minutes });
    }

    fn number(&mut self, counter: CounterKey) -> usize {
        let next = self.counters.len();
        *self.counters.entry(counter).or_insert(next)
    }
}

impl Subject<'_> {
    /// Returns the counter of a QOS limit for a job.
    fn counter_of(&self, qos: &str, span: LimitScope) -> String {
        match span {
            LimitScope::All => format!("q:{qos}"),
            LimitScope::Account => format!("qa:{qos}:{}", self.account.unwrap_or_default()),
            LimitScope::User => format!("qu:{qos}:{}", self.user.unwrap_or_default()),
        }
    }
}

impl<'a> RuleDraft<'a, '_> {
    /// Records a limit that never allows the job to start.
    fn refuse(&mut self, limit: &Limit, max: f64, needed: f64) {
        self.rule.refusals.push(Refusal {
            limit: limit.name.clone(),
            holder: limit.holder.clone(),
            account: self.subject.account.map(str::to_owned),
            tres: limit.tres.clone(),
            max,
            needed,
        });
    }

    /// Checks the limits on a single job.
    fn check_alone(&mut self, limits: &[&'a Limit]) {
        let nodes = self.amounts.get("node").copied().unwrap_or(1.0);
        for limit in limits {
            let tres = limit.tres.as_deref();
            if self.taken.contains(&(limit.name.as_str(), tres)) {
                continue;
            }
            let amount = tres.and_then(|name| self.amounts.get(name)).copied().unwrap_or(0.0);
            let (needed, max) = match limit.name.as_str() {
                "MaxWall" => (self.minutes, limit.max),
                "MaxTRES" => (amount, limit.max),
                "MaxTRESPerNode" => (amount / nodes, limit.max),
                "MaxTRESMins" => (amount * self.minutes, limit.max),
                "MinTRES" if amount < limit.max => {
                    self.refuse(limit, limit.max, amount);
                    continue;
                }
                _ => continue,
            };
            if needed > max {
                self.refuse(limit, max, needed);
            }
        }
    }
}
