//! The fields of sinfo: their names in header lines, and in the formats of `-o` and `-O`.

/// The content of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Nodes,
    /// A node's host name, used as its name if there is no better one.
    Host,
    Count,
    /// Node counts as allocated/idle/other/total, or as allocated/idle.
    NodesState,
    Partition,
    /// Whether the partition is up.
    Avail,
    TimeLimit,
    State,
    Gres,
    GresUsed,
    Cpus,
    /// CPU counts as allocated/idle/other/total.
    CpusState,
    Memory,
    AllocMemory,
    ActiveFeatures,
    AvailableFeatures,
    Reason,
    Cluster,
    /// Free text with blanks, which is ignored.
    Text,
    /// A known field of sinfo that is ignored.
    Other,
}

/// A field of sinfo.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Field {
    /// The field's name in header lines.
    pub header: &'static str,
    /// The field's letter for `-o`; a blank if it has none.
    letter: char,
    /// The field's name for `-O`; empty if it has none.
    long: &'static str,
    pub what: What,
}

const fn field(header: &'static str, letter: char, long: &'static str, what: What) -> Field {
    Field { header, letter, long, what }
}

static FIELDS: [Field; 52] = [
    field("NODELIST", 'N', "NodeList", What::Nodes),
    field("HOSTNAMES", 'n', "NodeHost", What::Host),
    field("NODES", 'D', "Nodes", What::Count),
    field("NODES(A/I/O/T)", 'F', "NodeAIOT", What::NodesState),
    field("NODES(A/I)", 'A', "NodeAI", What::NodesState),
    field("PARTITION", 'P', "Partition", What::Partition),
    field("PARTITION", 'R', "PartitionName", What::Partition),
    field("AVAIL", 'a', "Available", What::Avail),
    field("TIMELIMIT", 'l', "Time", What::TimeLimit),
    field("STATE", 't', "StateCompact", What::State),
    field("STATE", 'T', "StateLong", What::State),
    field("STATECOMPLETE", ' ', "StateComplete", What::State),
    field("GRES", 'G', "Gres", What::Gres),
    field("GRES_USED", ' ', "GresUsed", What::GresUsed),
    field("CPUS", 'c', "CPUs", What::Cpus),
    field("CPUS(A/I/O/T)", 'C', "CPUsState", What::CpusState),
    field("MEMORY", 'm', "Memory", What::Memory),
    field("ALLOCMEM", ' ', "AllocMem", What::AllocMemory),
    field("ACTIVE_FEATURES", 'b', "features_act", What::ActiveFeatures),
    field("AVAIL_FEATURES", 'f', "Features", What::AvailableFeatures),
    field("FEATURES", ' ', "", What::AvailableFeatures),
    field("REASON", 'E', "Reason", What::Reason),
    field("CLUSTER", 'V', "Cluster", What::Cluster),
    field("COMMENT", ' ', "Comment", What::Text),
    field("EXTRA", ' ', "Extra", What::Text),
    field("ALLOCNODES", 'S', "AllocNodes", What::Other),
    field("CORES", 'Y', "Cores", What::Other),
    field("CPU_LOAD", 'O', "CPUsLoad", What::Other),
    field("DEFAULTTIME", 'L', "DefaultTime", What::Other),
    field("FREE_MEM", 'e', "FreeMem", What::Other),
    field("GROUPS", 'g', "Groups", What::Other),
    field("JOB_SIZE", 's', "Size", What::Other),
    field("MAX_CPUS_PER_NODE", 'B', "MaxCPUsPerNode", What::Other),
    field("NODE_ADDR", 'o', "NodeAddr", What::Other),
    field("OVERSUBSCRIBE", 'h', "OverSubscribe", What::Other),
    field("SHARE", ' ', "Share", What::Other),
    field("PORT", ' ', "Port", What::Other),
    field("PREEMPT_MODE", 'M', "PreemptMode", What::Other),
    field("PRIO_JOB_FACTOR", 'I', "PriorityJobFactor", What::Other),
    field("PRIO_TIER", 'p', "PriorityTier", What::Other),
    field("PRIORITY", ' ', "Priority", What::Other),
    field("RESERVATION", 'i', "Reservation", What::Other),
    field("ROOT", 'r', "Root", What::Other),
    field("S:C:T", 'z', "SocketCoreThread", What::Other),
    field("SOCKETS", 'X', "Sockets", What::Other),
    field("THREADS", 'Z', "Threads", What::Other),
    field("TIMESTAMP", 'H', "TimeStamp", What::Other),
    field("TMP_DISK", 'd', "Disk", What::Other),
    field("USER", 'u', "User", What::Other),
    field("USER", 'U', "UserLong", What::Other),
    field("VERSION", 'v', "Version", What::Other),
    field("WEIGHT", 'w', "Weight", What::Other),
];

/// Returns the field named by a word of a header line, either in full or truncated to at least four
/// characters that match no other kind of field.
pub(super) fn in_header(word: &str) -> Option<&'static Field> {
    if let Some(exact) = FIELDS.iter().find(|field| field.header == word) {
        return Some(exact);
    }
    let mut cut = FIELDS.iter().filter(|field| word.len() >= 4 && field.header.starts_with(word));
    let first = cut.next()?;
    cut.all(|other| other.what == first.what).then_some(first)
}

/// Returns whether a word begins with the name of a field in header lines.
pub(super) fn begins_field(word: &str) -> bool {
    FIELDS.iter().any(|field| word.starts_with(field.header))
}

/// Returns the field that has this letter in the option `-o`.
pub(super) fn of_letter(letter: char) -> Option<&'static Field> {
    FIELDS.iter().find(|field| field.letter == letter && letter != ' ')
}

/// Returns the field that has this name in the option `-O`.
pub(super) fn of_name(name: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| !name.is_empty() && field.long.eq_ignore_ascii_case(name))
}
