//! Tables of `sinfo`: by partition, by node (`-N`), long (`-l`), or as asked for with `-o` and `-O`; with
//! their header lines or without.

use super::error::SavedError;
use super::gather::{Facts, Gathering};
use super::headerless;
use super::recognise::is_prompt;
use super::table_columns::{Header, Layout, What};
use crate::model::{Cluster, hostlist};
use crate::slurm::amount;
use crate::slurm::record::{excerpt, value};

/// A header with the lines below it, each with its number.
struct Section<'a> {
    header: Header,
    /// Whether the text has no such line.
    guessed: bool,
    lines: Vec<(usize, &'a str)>,
}

/// Returns the cluster of all tables of the text: what one of them leaves out another may say.
///
/// # Errors
/// When no node can be read.
pub(super) fn parse(text: &str) -> Result<(Cluster, Vec<String>), SavedError> {
    let mut gathering = Gathering::default();
    let (sections, outside) = sections(text);
    for (number, line) in outside {
        gathering
            .notes
            .say(format!("line {number} was not read: it belongs to no table of nodes: {:?}", excerpt(line)));
    }
    for section in sections.iter().filter(|section| shows_nodes(&section.header)) {
        section.note(&mut gathering);
        section.lines.iter().for_each(|&line| read_line(&section.header, line, &mut gathering));
    }
    for section in sections.iter().filter(|section| !shows_nodes(&section.header)) {
        section.lines.iter().for_each(|&line| read_reason(&section.header, line, &mut gathering));
    }
    let has = |what| sections.iter().any(|section| section.header.position(what).is_some());
    if !gathering.is_empty() && !has(What::Gres) && !has(What::GresUsed) {
        gathering.notes.say(
            "no column GRES: its nodes have no GPUs here; `sinfo -N -O \
             'NodeList:|,Partition:|,StateComplete:|,Gres:|,GresUsed:|,CPUsState:|,Memory:|'` prints them"
                .to_owned(),
        );
    }
    gathering.finish("a table of sinfo")
}

/// Returns whether the text has a table that says what nodes there are.
pub(super) fn has_nodes(text: &str) -> bool {
    text.lines().filter_map(Header::read).any(|header| shows_nodes(&header))
}

/// Returns whether the text has a table without a header line that says what nodes there are.
pub(super) fn has_headerless_nodes(text: &str) -> bool {
    sections(text).0.iter().any(|section| section.guessed)
}

impl Section<'_> {
    /// Notes what the columns were taken as, where no header line names them, and what is lost.
    fn note(&self, gathering: &mut Gathering) {
        let columns = || self.header.columns.iter().zip(1..);
        if self.guessed {
            let first = self.lines.first().map_or(0, |(number, _)| *number);
            let known = columns().filter(|(column, _)| column.what != What::Other);
            let names: Vec<String> =
                known.map(|(column, number)| format!("{number} {}", column.name)).collect();
            let rest = columns().filter(|(column, _)| column.what == What::Other);
            let rest: Vec<String> = rest.map(|(_, number)| number.to_string()).collect();
            let rest =
                if rest.is_empty() { String::new() } else { format!("; not read: {}", rest.join(", ")) };
            let names = names.join(", ");
            gathering.notes.say(format!(
                "line {first} begins a table without a header; its columns are taken as {names}{rest}"
            ));
        }
        if self.header.names().is_none() {
            let by = self.header.position(What::Partition);
            let twice = by.map_or("", |_| "; one in several partitions counts in each of them");
            gathering
                .notes
                .say(format!("the nodes have no names in this table and are numbered here{twice}"));
        }
    }
}

/// Returns whether a table says what nodes there are, and not only why some are down (`sinfo -R`).
fn shows_nodes(header: &Header) -> bool {
    use What::{Cpus, CpusState, Gres, GresUsed, Memory, Partition, State};
    let says = [State, Gres, GresUsed, Partition, Cpus, CpusState, Memory];
    let counted = header.position(What::Count).is_some();
    (header.names().is_some() || counted) && says.iter().any(|&what| header.position(what).is_some())
}

/// Returns the tables and the lines outside of them.
fn sections(text: &str) -> (Vec<Section<'_>>, Vec<(usize, &str)>) {
    let (mut sections, mut outside): (Vec<Section<'_>>, Vec<_>) = (Vec::new(), Vec::new());
    let (mut open, mut run) = (false, Vec::new());
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start_matches('\u{feff}').trim_end_matches('\r');
        let header = Header::read(line).filter(|header| header.columns.len() > 1 && is_header(header));
        let ends = header.is_some() || line.trim().is_empty() || is_prompt(line);
        if ends {
            close_run(&mut run, &mut sections, &mut outside);
        }
        if let Some(header) = header {
            sections.push(Section { header, guessed: false, lines: Vec::new() });
            open = true;
        } else if ends {
            open = false;
        } else if let (true, Some(section)) = (open, sections.last_mut()) {
            section.lines.push((index + 1, line));
        } else if !is_date(line) {
            run.push((index + 1, line));
        }
    }
    close_run(&mut run, &mut sections, &mut outside);
    for Section { header, lines, .. } in sections.iter_mut().filter(|section| !section.guessed) {
        let lines: Vec<&str> = lines.iter().map(|(_, line)| *line).collect();
        if header.fits(&lines) {
            header.layout = Layout::Fixed;
        }
    }
    (sections, outside)
}

/// Makes a table of neighbouring lines that are under no header, where they look like one.
fn close_run<'a>(
    run: &mut Vec<(usize, &'a str)>,
    sections: &mut Vec<Section<'a>>,
    outside: &mut Vec<(usize, &'a str)>,
) {
    let lines = std::mem::take(run);
    let texts: Vec<&str> = lines.iter().map(|(_, line)| *line).collect();
    match headerless::guess(&texts) {
        Some(header) => sections.push(Section { header, guessed: true, lines }),
        None => outside.extend(lines),
    }
}

/// Returns whether a line of known columns' names begins a table that says something of nodes.
fn is_header(header: &Header) -> bool {
    header.names().is_some() || shows_nodes(header)
}

/// Returns whether the line is the time that `sinfo -l` prints first.
fn is_date(line: &str) -> bool {
    let days = ["Mon ", "Tue ", "Wed ", "Thu ", "Fri ", "Sat ", "Sun "];
    days.iter().any(|day| line.starts_with(day)) && line.contains(':')
}

fn read_line(header: &Header, (number, line): (usize, &str), gathering: &mut Gathering) {
    let place = format!("line {number} ({:?})", excerpt(line));
    let Some(cells) = header.cells(line) else {
        let count = header.columns.len();
        return gathering.notes.say(format!("{place} was not read: it does not fall into {count} columns"));
    };
    let cell = |what| header.position(what).and_then(|index| cells.get(index)).copied();
    let get = |what| cell(what).and_then(value);
    let partition =
        get(What::Partition).and_then(|printed| gathering.partition(printed, get(What::TimeLimit)));
    let names = header.names().and_then(|index| cells.get(index)).and_then(|names| value(names));
    let count = get(What::Count).and_then(amount::count);
    if names.is_none() && count == Some(0) {
        return;
    }
    // A line's CPUs are sums over its nodes, counted or not.
    let listed =
        || names.and_then(|names| hostlist::expand(names).ok()).map_or(1, |names| names.len() as u64);
    let several = count.unwrap_or_else(listed).max(1);
    let mut facts = facts(&get, several);
    facts.partitions.extend(partition);
    let state = cell(What::State).map(str::trim).filter(|state| !matches!(*state, "" | "n/a"));
    facts.state = state.map(str::to_owned);
    let added = match (names, count, header.names()) {
        (Some(names), ..) => gathering.add(names, &place, &facts),
        (None, Some(count), None) => gathering.add_unnamed(count, &facts),
        _ => return gathering.notes.say(format!("{place} was not read: it names no node")),
    };
    for (name, text) in unreadable(&get, &facts) {
        for node in &added {
            gathering.notes.of(node, format!("its {name} {:?} could not be read", excerpt(text)));
        }
    }
    if let Some(count) = count
        && !added.is_empty()
        && added.len() as u64 != count
    {
        gathering.notes.say(format!("{place} names {} nodes and counts {count}", added.len()));
    }
    for (index, column) in header.columns.iter().enumerate() {
        let text = cells.get(index).copied().unwrap_or_default();
        let kept = [
            What::Nodes,
            What::Partition,
            What::Gres,
            What::GresUsed,
            What::ActiveFeatures,
            What::AvailableFeatures,
            What::Reason,
        ];
        if kept.contains(&column.what) && (header.is_full(index, text) || is_cut(text)) {
            let (name, text) = (column.name, excerpt(text));
            let note = format!(
                "{name} {text:?} fills its column and may be cut off; then what it says is too little"
            );
            for node in &added {
                gathering.notes.of(node, note.clone());
            }
        }
    }
}

/// Returns the amounts of a line that are none, with their columns' names.
fn unreadable<'a>(get: &impl Fn(What) -> Option<&'a str>, facts: &Facts) -> Vec<(&'static str, &'a str)> {
    [
        ("CPUS", What::CpusState, facts.cpus.is_some()),
        ("CPUS", What::Cpus, facts.cpus.is_some()),
        ("MEMORY", What::Memory, facts.memory.is_some()),
        ("ALLOCMEM", What::AllocMemory, facts.memory_used.is_some()),
    ]
    .into_iter()
    .filter_map(|(name, what, read)| Some((name, get(what).filter(|_| !read)?)))
    .collect()
}

/// Returns whether a value ends in the middle.
fn is_cut(text: &str) -> bool {
    let text = text.trim();
    let open = |start: char, end: char| text.matches(start).count() > text.matches(end).count();
    open('(', ')') || open('[', ']') || text.ends_with([',', ':'])
}

/// Returns what a line says of each of its `several` nodes.
fn facts<'a>(get: &impl Fn(What) -> Option<&'a str>, several: u64) -> Facts {
    let owned = |what| get(what).map(str::to_owned);
    // A plus marks the least of several nodes.
    let least = |what| get(what).map(|text| text.trim_end_matches('+'));
    let list = |what| {
        Some(
            get(what)?.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect(),
        )
    };
    let counts = get(What::CpusState).map(|text| text.split('/').map(amount::count).collect::<Vec<_>>());
    // These are sums over the line's nodes.
    let (used, total) = match counts.as_deref() {
        Some(&[Some(used), _, _, Some(total)]) => (Some(used.div_ceil(several)), Some(total / several)),
        _ => (None, None),
    };
    Facts {
        reason: owned(What::Reason),
        gres: owned(What::Gres),
        gres_used: owned(What::GresUsed),
        cpus: total.or_else(|| least(What::Cpus).and_then(amount::count)),
        cpus_used: used,
        memory: least(What::Memory).and_then(amount::memory),
        memory_used: least(What::AllocMemory).and_then(amount::memory),
        features: list(What::ActiveFeatures).or_else(|| list(What::AvailableFeatures)),
        ..Facts::default()
    }
}

/// Reads a line of `sinfo -R`: it adds a reason to nodes that another table has.
fn read_reason(header: &Header, (number, line): (usize, &str), gathering: &mut Gathering) {
    let cells = header.cells(line);
    let get = |index: Option<usize>| Some(value(cells.as_ref()?.get(index?)?)?.to_owned());
    let (names, reason) = (get(header.names()), get(header.position(What::Reason)));
    let place = format!("line {number} ({:?})", excerpt(line));
    match names {
        Some(names) if gathering.knows_all(&names) => {
            gathering.add(&names, &place, &Facts { reason, ..Facts::default() });
        }
        _ => gathering.notes.say(format!("{place} was not read: it names no node of another table")),
    }
}
