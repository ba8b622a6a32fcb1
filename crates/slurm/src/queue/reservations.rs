//! Nodes reserved for maintenance or for users, from `scontrol show reservation`.

use std::collections::BTreeSet;

use crate::record::{excerpt, value};
use crate::{CommandLine, time};
use hsched_model::{NodeName, Time, hostlist};
use hsched_queue::Reservation;

/// Returns the command line that prints all reservations, one per line.
pub fn reservations_command() -> CommandLine {
    CommandLine::new("scontrol", ["-o", "show", "reservation"])
}

/// Returns the reservations, and notes on unreadable ones.
pub(super) fn reservations(text: &str) -> (Vec<Reservation>, Vec<String>) {
    let (mut found, mut notes) = (Vec::new(), Vec::new());
    for line in text.lines().filter(|line| line.contains("ReservationName=")) {
        match reservation(line) {
            Some(reservation) => found.push(reservation),
            None => notes.push(format!("a reservation could not be read: {:?}", excerpt(line))),
        }
    }
    (found, notes)
}

fn reservation(line: &str) -> Option<Reservation> {
    let field = |key: &str| {
        let found = line.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        found.and_then(value)
    };
    let nodes = hostlist::expand(field("Nodes").unwrap_or_default()).ok()?;
    let nodes = nodes.iter().map(|name| NodeName::new(name).ok()).collect::<Option<BTreeSet<_>>>()?;
    // Maintenance reservations name administrators, but no user submits to them.
    let is_maintenance = field("Flags").is_some_and(|flags| flags.split(',').any(|flag| flag == "MAINT"));
    let names = |key: &str| -> BTreeSet<String> {
        let list = field(key).filter(|_| !is_maintenance).unwrap_or_default();
        list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    let (start, end) = (time::unix(field("StartTime")?)?, time::unix(field("EndTime")?)?);
    Some(Reservation {
        name: field("ReservationName")?.to_owned(),
        nodes,
        start: Time(start),
        end: Time(end.max(start)),
        users: names("Users"),
        accounts: names("Accounts"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
ReservationName=maint StartTime=2026-11-24T08:00:00 EndTime=2026-11-24T20:00:00 Duration=12:00:00 Nodes=v[1-2] NodeCnt=2 CoreCnt=32 Features=(null) PartitionName=(null) Flags=MAINT,IGNORE_JOBS,SPEC_NODES TRES=cpu=32 Users=root Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null) Watts=n/a MaxStartDelay=(null)
ReservationName=course StartTime=2026-11-24T08:00:00 EndTime=2026-11-24T10:00:00 Duration=02:00:00 Nodes=a1 NodeCnt=1 CoreCnt=16 Features=(null) PartitionName=gpu Flags=SPEC_NODES TRES=cpu=16 Users=(null) Groups=(null) Accounts=bio,chem Licenses=(null) State=INACTIVE
ReservationName=odd StartTime=soon EndTime=2026-11-24T10:00:00 Nodes=a1
";

    #[test]
    fn maintenance_is_for_nobody_and_a_course_for_its_accounts() {
        let (found, notes) = reservations(TEXT);
        let [maintenance, course] = found.as_slice() else { panic!("two: {found:?}") };
        assert_eq!((maintenance.name.as_str(), maintenance.nodes.len()), ("maint", 2));
        assert!((maintenance.end.0 - maintenance.start.0 - 43200.0).abs() < 1e-9);
        assert!(maintenance.users.is_empty() && maintenance.accounts.is_empty());
        assert_eq!(course.accounts.iter().map(String::as_str).collect::<Vec<_>>(), ["bio", "chem"]);
        assert!(notes[0].starts_with("a reservation could not be read: \"ReservationName=odd"), "{notes:?}");
        assert_eq!(reservations("No reservations in the system\n"), (vec![], vec![]));
    }
}
