//! Columns of sinfo's tables: which they are, where they lie, and whether a value fills one.

/// What a column says of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Nodes,
    /// A node's host name, which is its name where there is no better.
    Host,
    Count,
    Partition,
    TimeLimit,
    State,
    Gres,
    GresUsed,
    Cpus,
    /// CPUs as allocated/idle/other/total.
    CpusState,
    Memory,
    AllocMemory,
    ActiveFeatures,
    AvailableFeatures,
    Reason,
    /// Known to sinfo, and nothing of it is kept.
    Other,
}

/// Names that sinfo gives to columns.
const NAMES: [(&str, What); 47] = [
    ("NODELIST", What::Nodes),
    ("HOSTNAMES", What::Host),
    ("NODES", What::Count),
    ("PARTITION", What::Partition),
    ("TIMELIMIT", What::TimeLimit),
    ("STATE", What::State),
    ("STATECOMPLETE", What::State),
    ("GRES", What::Gres),
    ("GRES_USED", What::GresUsed),
    ("CPUS", What::Cpus),
    ("CPUS(A/I/O/T)", What::CpusState),
    ("MEMORY", What::Memory),
    ("ALLOCMEM", What::AllocMemory),
    ("ACTIVE_FEATURES", What::ActiveFeatures),
    ("AVAIL_FEATURES", What::AvailableFeatures),
    ("FEATURES", What::AvailableFeatures),
    ("REASON", What::Reason),
    ("AVAIL", What::Other),
    ("ALLOCNODES", What::Other),
    ("CLUSTER", What::Other),
    ("COMMENT", What::Other),
    ("CORES", What::Other),
    ("CPU_LOAD", What::Other),
    ("DEFAULTTIME", What::Other),
    ("EXTRA", What::Other),
    ("FREE_MEM", What::Other),
    ("GROUPS", What::Other),
    ("JOB_SIZE", What::Other),
    ("MAX_CPUS_PER_NODE", What::Other),
    ("NODES(A/I)", What::Other),
    ("NODES(A/I/O/T)", What::Other),
    ("NODE_ADDR", What::Other),
    ("OVERSUBSCRIBE", What::Other),
    ("PORT", What::Other),
    ("PREEMPT_MODE", What::Other),
    ("PRIO_JOB_FACTOR", What::Other),
    ("PRIO_TIER", What::Other),
    ("ROOT", What::Other),
    ("S:C:T", What::Other),
    ("SHARE", What::Other),
    ("SOCKETS", What::Other),
    ("THREADS", What::Other),
    ("TIMESTAMP", What::Other),
    ("TMP_DISK", What::Other),
    ("USER", What::Other),
    ("VERSION", What::Other),
    ("WEIGHT", What::Other),
];

impl What {
    /// Returns the name that sinfo gives to such a column, empty where there are many.
    pub(super) fn name(self) -> &'static str {
        let named = |(_, what): &&(&str, What)| self != What::Other && *what == self;
        NAMES.iter().find(named).map_or("", |(name, _)| name)
    }
}

/// Width of reasons, where nobody asked for another.
const REASON_WIDTH: usize = 20;

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub what: What,
    /// The name in full.
    pub name: &'static str,
    /// Byte at which the header's word begins.
    pub start: usize,
    /// Width, where the header shows it.
    pub width: Option<usize>,
}

/// How a table's lines fall into cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    Separated(char),
    /// Words between blanks.
    Words,
    /// Columns of fixed width that touch.
    Fixed,
}

/// A table's header line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub columns: Vec<Column>,
    /// `Words` until the lines below show that the columns touch.
    pub layout: Layout,
}

impl Header {
    /// Returns the header that a line is, or `None`.
    pub(super) fn read(line: &str) -> Option<Self> {
        let separated = ['|', ';', '\t', ','].into_iter().find_map(|separator| {
            line.contains(separator).then(|| Self::separated(line, separator)).flatten()
        });
        separated.or_else(|| Self::blank(line))
    }

    fn separated(line: &str, separator: char) -> Option<Self> {
        let mut start = 0;
        let mut columns = Vec::new();
        for cell in line.strip_suffix(separator).unwrap_or(line).split(separator) {
            let (name, what) = column(cell.trim())?;
            let padded = cell.len() > cell.trim().len();
            columns.push(Column { what, name, start, width: padded.then_some(cell.len()) });
            start += cell.len() + separator.len_utf8();
        }
        (columns.len() > 1).then_some(Self { columns, layout: Layout::Separated(separator) })
    }

    fn blank(line: &str) -> Option<Self> {
        let mut columns: Vec<Column> = Vec::new();
        for word in line.split_whitespace() {
            let (name, what) = column(word)?;
            let from = columns.last().map_or(0, |last| last.start + 1);
            let start = from + line.get(from..)?.find(word)?;
            if let Some(last) = columns.last_mut() {
                last.width = Some(start - last.start);
            }
            // A name that is cut shows how wide its column is.
            let width = (word.len() < name.len()).then_some(word.len() + 1);
            columns.push(Column { what, name, start, width });
        }
        (!columns.is_empty()).then_some(Self { columns, layout: Layout::Words })
    }

    /// Returns the number of a column.
    pub(super) fn position(&self, what: What) -> Option<usize> {
        self.columns.iter().position(|column| column.what == what)
    }

    /// Returns the column of node names.
    pub(super) fn names(&self) -> Option<usize> {
        self.position(What::Nodes).or_else(|| self.position(What::Host))
    }

    /// Returns the cells of a line, or `None` where they are too few or too many.
    pub(super) fn cells<'a>(&self, line: &'a str) -> Option<Vec<&'a str>> {
        let count = self.columns.len();
        let reason_is_last = self.columns.last().is_some_and(|last| last.what == What::Reason);
        match self.layout {
            Layout::Separated(separator) => {
                let line = line.trim_end_matches(['\r', '\n']);
                let whole = if line.matches(separator).count() >= count {
                    line.strip_suffix(separator).unwrap_or(line)
                } else {
                    line
                };
                let limit = if reason_is_last { count } else { usize::MAX };
                let cells: Vec<&str> = whole.splitn(limit, separator).collect();
                (cells.len() == count).then_some(cells)
            }
            Layout::Words => {
                let mut cells: Vec<&str> = Vec::new();
                let mut rest = line.trim();
                while !rest.is_empty() && (!reason_is_last || cells.len() + 1 < count) {
                    let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                    cells.push(word);
                    rest = after.trim_start();
                }
                // A reason may have several words; a partition without nodes lists none.
                let names_are_last = self.columns.last().is_some_and(|last| last.what == What::Nodes);
                if (reason_is_last || names_are_last) && cells.len() + 1 == count {
                    cells.push(rest);
                }
                (cells.len() == count).then_some(cells)
            }
            Layout::Fixed => self.slices(line),
        }
    }

    /// Returns the cells between the places where the header's words begin.
    fn slices<'a>(&self, line: &'a str) -> Option<Vec<&'a str>> {
        let ends = self.columns.iter().skip(1).map(|column| column.start).chain([usize::MAX]);
        let cell = |(column, end): (&Column, usize)| {
            let (start, end) = (column.start.min(line.len()), end.min(line.len()));
            line.get(start..end)
        };
        self.columns.iter().zip(ends).map(cell).collect()
    }

    /// Returns whether the lines below are cells of fixed width: each begins where its name does, and no
    /// value but free text has blanks inside.
    pub(super) fn fits(&self, lines: &[&str]) -> bool {
        let fits = |line: &&str| {
            let cells = self.slices(line);
            cells.is_some_and(|cells| {
                cells.iter().zip(&self.columns).all(|(cell, column)| {
                    let free = matches!(column.what, What::Reason | What::Other);
                    let begins = !cell.starts_with(char::is_whitespace) || cell.trim().is_empty();
                    begins && (free || !cell.trim().contains(char::is_whitespace))
                })
            })
        };
        self.layout == Layout::Words && self.columns.len() > 1 && lines.iter().all(fits)
    }

    /// Returns whether a value fills its column, so that more of it may have been cut off.
    pub(super) fn is_full(&self, index: usize, cell: &str) -> bool {
        let length = cell.trim_end().len();
        let (name, width) = match self.columns.get(index) {
            Some(Column { name, width: Some(width), .. }) => (name, width),
            // The last column shows no width; this is sinfo's own.
            Some(Column { what: What::Reason, .. }) => return length == REASON_WIDTH,
            _ => return false,
        };
        let named_in_full = *width > name.len();
        match self.layout {
            // Longer values are those of a column without any width.
            Layout::Separated(_) | Layout::Fixed => length == *width,
            // A blank stands between words. Where the header fills its column too, nothing tells a wide
            // column from one without any width, except for what sinfo prints by itself.
            Layout::Words if named_in_full && *width == name.len() + 1 => {
                *name == "PARTITION" && length + 1 == *width
            }
            Layout::Words if named_in_full => length + 1 == *width,
            Layout::Words => length + 1 >= *width,
        }
    }
}

/// Returns the column that a header's word names in full, or cut to at least four characters.
fn column(word: &str) -> Option<(&'static str, What)> {
    let exact = NAMES.iter().find(|(name, _)| *name == word);
    let cut = || NAMES.iter().find(|(name, _)| word.len() >= 4 && name.starts_with(word));
    exact.or_else(cut).copied()
}
