//! The combined request of a component's options, by the rules of `sbatch` and the controller.

use super::gpus::total;
use super::gres::{GpuCounts, GresItem, GresLists, gpus, gpus_of_task, gres, tres_per_task};
use super::numbers::{mebibytes, time_limit};
use super::request::{Exclusive, GpuShare, ResourceRequest, TimeLimit};
use super::settings::ComponentSettings;
use super::source::SlurmVersion;
use super::tasks::{Note, TaskCounts, counts};

/// GPUs of the largest common node; more GPUs need more nodes.
const GPUS_OF_NODE: u64 = 8;

/// A component's request, and notes on unexpected interpretations.
#[derive(Clone, Debug, Default)]
pub(super) struct ResolvedRequest {
    pub request: ResourceRequest,
    pub notes: Vec<Note>,
}

/// Returns the request that the options express.
///
/// # Errors
/// Why Slurm refuses the combination.
pub(super) fn resolve(
    settings: &mut ComponentSettings,
    version: SlurmVersion,
) -> Result<ResolvedRequest, String> {
    refuse_contradictions(settings, version)?;
    settle_memory(settings)?;
    settle_cpus(settings, version)?;
    let mut notes = Vec::new();
    let (cpus_per_task, lists) = lists(settings, version)?;
    let mut counts = counts(settings, version, &mut notes)?;
    counts.cpus_per_task = counts.cpus_per_task.or(cpus_per_task);
    note_numbers(settings, version, &mut notes);
    let mut all = lists.gpus()?;
    let totals = total(&mut all, &mut counts, settings, version)?;
    counts.most_nodes = counts.most_nodes.or(counts.listed_nodes);
    if let Some(text) = settings.text("constraint").filter(|_| !settings.is_unknown("constraint")) {
        check_features(text, version)?;
    }
    let mut request = plain_request(settings);
    count_gpus(&mut request, (&all, &totals), &lists, &counts, &mut notes);
    request.nodes_min = Some(request.nodes_min.or(counts.least_nodes).unwrap_or(1));
    request.nodes_max = counts.most_nodes;
    request.ntasks = Some(counts.tasks.unwrap_or(counts.usual_tasks));
    request.cpus_per_task = Some(counts.cpus_per_task.unwrap_or(1));
    request.cpus_per_gpu = counts.cpus_per_gpu;
    forget_unknown(&mut request, settings, &all);
    if request.exclusive == Exclusive::Nodes && totals.iter().any(|total| *total > 0) {
        notes.push(("exclusive", "the job gets all GPUs and CPUs of its nodes".to_owned()));
    }
    Ok(ResolvedRequest { request, notes })
}

/// Refuses options that exclude each other.
fn refuse_contradictions(settings: &ComponentSettings, version: SlurmVersion) -> Result<(), String> {
    let (by_gpu, by_tres) = (settings.text("ntasks-per-gpu"), settings.text("ntasks-per-tres"));
    if by_gpu.is_some() || by_tres.is_some() {
        if by_gpu.zip(by_tres).is_some_and(|(a, b)| a != b) {
            return Err("Inconsistent values set to --ntasks-per-gpu and --ntasks-per-tres".to_owned());
        }
        for other in ["tres-per-task", "gpus-per-task", "gpus-per-socket", "ntasks-per-node"] {
            if settings.is_set(other) {
                return Err(format!(
                    "--{other} is mutually exclusive with --ntasks-per-gpu and SLURM_NTASKS_PER_GPU"
                ));
            }
        }
    }
    let pairs = [
        ("core-spec", "thread-spec", true),
        ("exclusive", "oversubscribe", version.is_at_least(23, 2)),
        ("bb", "bbf", true),
    ];
    for (one, other, is_refused) in pairs {
        if is_refused && settings.is_given(one) && settings.is_given(other) {
            return Err(format!("--{one} and --{other} options are mutually exclusive"));
        }
    }
    if exceeds_time(settings) {
        return Err("Invalid time-min specification (exceeds job's time or other limits)".to_owned());
    }
    if let (Some(tasks), Some(threads)) = (settings.number("ntasks-per-core"), settings.threads)
        && version.is_at_least(23, 11)
        && threads < tasks
    {
        return Err(format!(
            "--ntasks-per-core ({tasks}) can not be bigger than --threads-per-core ({threads})"
        ));
    }
    Ok(())
}

/// Returns whether `--time-min` is longer than `--time`; no limit counts as longer than the limit of any
/// partition.
fn exceeds_time(settings: &ComponentSettings) -> bool {
    let least = settings.text("time-min").and_then(time_limit);
    let most = settings.text("time").and_then(time_limit);
    match (least, most) {
        (None, _) | (_, Some(TimeLimit::Unlimited)) | (Some(TimeLimit::Seconds(_)), None) => false,
        (Some(TimeLimit::Unlimited), _) => !settings.is_unknown("time"),
        (Some(TimeLimit::Seconds(least)), Some(TimeLimit::Seconds(most))) => least > most,
    }
}

/// Keeps one kind of memory: options of the script or the command line override the environment.
fn settle_memory(settings: &mut ComponentSettings) -> Result<(), String> {
    let kinds = ["mem", "mem-per-cpu", "mem-per-gpu"];
    let given: Vec<&str> = kinds.into_iter().filter(|name| settings.is_given(name)).collect();
    match given[..] {
        [] if kinds.into_iter().filter(|name| settings.is_of_environment(name)).count() > 1 => {
            Err("SLURM_MEM_PER_CPU, SLURM_MEM_PER_GPU, and SLURM_MEM_PER_NODE are mutually exclusive."
                .to_owned())
        }
        [] => Ok(()),
        [given_name] => {
            kinds.into_iter().filter(|name| *name != given_name).for_each(|name| settings.remove(name));
            Ok(())
        }
        _ => Err("--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.".to_owned()),
    }
}

/// From 23.11 on, keeps either CPUs per task or CPUs per GPU: options of the script or the command line
/// override the environment.
fn settle_cpus(settings: &mut ComponentSettings, version: SlurmVersion) -> Result<(), String> {
    let names = ["cpus-per-task", "cpus-per-gpu"];
    if !names.iter().all(|name| settings.is_set(name)) || !version.is_at_least(23, 11) {
        return Ok(());
    }
    let [task, gpu] = names.map(|name| settings.is_given(name));
    if task == gpu {
        return Err(
            "--cpus-per-task, --tres-per-task=cpu:#, and --cpus-per-gpu are mutually exclusive".to_owned()
        );
    }
    settings.remove(if task { "cpus-per-gpu" } else { "cpus-per-task" });
    Ok(())
}

/// Returns the CPUs of `--tres-per-task` and all generic resources.
fn lists(settings: &ComponentSettings, version: SlurmVersion) -> Result<(Option<u64>, GresLists), String> {
    let read = |name: &str| -> Result<Vec<GresItem>, String> {
        match settings.text(name) {
            None => Ok(Vec::new()),
            // A number that is known only later counts as 1; `forget_unknown` removes the results.
            Some(_) if settings.is_unknown(name) => gpus("1", version),
            Some(text) if name == "gres" => gres(text, version),
            Some(text) if name == "gpus-per-task" => gpus_of_task(text, version),
            Some(text) => gpus(text, version),
        }
    };
    let tasks = settings.text("tres-per-task").filter(|_| !settings.is_unknown("tres-per-task"));
    let (cpus, of_tasks) = tasks.map_or(Ok((None, Vec::new())), |text| tres_per_task(text, version))?;
    let both = |tres: &str, option: &str| {
        let tres = if version.is_at_least(24, 5) { format!("={tres}=") } else { String::new() };
        Err(format!("You can not have --tres-per-task{tres} and --{option} please use one or the other"))
    };
    if cpus.is_some() && settings.is_set("cpus-per-task") {
        return both("cpu", "cpus-per-task");
    }
    if of_tasks.iter().any(GresItem::is_gpu) && settings.is_given("gpus-per-task") {
        return both("gres/gpu", "gpus-per-task");
    }
    let lists = GresLists {
        job: read("gpus")?,
        node: [read("gpus-per-node")?, read("gres")?].concat(),
        socket: read("gpus-per-socket")?,
        task: [read("gpus-per-task")?, of_tasks].concat(),
    };
    Ok((cpus, lists))
}

/// Adds a note on resources of a task that Slurm ignores because they have no number.
fn note_numbers(settings: &ComponentSettings, version: SlurmVersion, notes: &mut Vec<Note>) {
    let text = |name: &str| settings.text(name).filter(|_| !settings.is_unknown(name));
    if let Some(text) = text("gpus-per-task").filter(|text| text.contains(|c: char| c.is_alphabetic()))
        && gpus_of_task(text, version).is_ok_and(|items| items.is_empty())
        && gpus(text, version).is_ok_and(|items| !items.is_empty())
    {
        let why = "Slurm 23.11 and newer find no number of GPUs here and ask for none; write TYPE:NUMBER, such as a100:1";
        notes.push(("gpus-per-task", why.to_owned()));
    }
    let is_bare = |part: &str| !part.is_empty() && !part.contains([':', '=', '/']);
    if let Some(word) = text("tres-per-task").and_then(|text| text.split(',').find(|part| is_bare(part))) {
        notes.push(("tres-per-task", format!("Slurm passes over {word}: there is no number")));
    }
}

/// Checks the form of `--constraint`.
fn check_features(text: &str, version: SlurmVersion) -> Result<(), String> {
    let has_operators = text.contains(['&', '|', ',']);
    let (mut square, mut round) = (0_i32, 0_i32);
    for sign in text.chars() {
        match sign {
            '[' => square += 1,
            ']' => square -= 1,
            '(' => round += 1,
            ')' => round -= 1,
            '*' if square == 0 && has_operators && version.is_at_least(23, 2) => square = -1,
            '!' => square = -1,
            _ => {}
        }
        if square < 0 || round < 0 {
            break;
        }
    }
    if (square, round) == (0, 0) { Ok(()) } else { Err("Invalid feature specification".to_owned()) }
}

/// Returns the fields that depend on a single option.
fn plain_request(settings: &ComponentSettings) -> ResourceRequest {
    let text = |name: &str| {
        settings.text(name).filter(|text| !settings.is_unknown(name) && !text.is_empty()).map(str::to_owned)
    };
    let memory = |name: &str| settings.text(name).and_then(mebibytes);
    ResourceRequest {
        mem_mb_per_node: memory("mem"),
        mem_mb_per_cpu: memory("mem-per-cpu"),
        mem_mb_per_gpu: memory("mem-per-gpu"),
        time_limit: settings.text("time").and_then(time_limit),
        partition: text("partition"),
        // The controller converts accounts to lower case, and commas between features to `&`.
        account: text("account").map(|account| account.to_lowercase()),
        qos: text("qos"),
        constraint: text("constraint").map(|features| features.replace(',', "&")),
        exclusive: settings.exclusive(),
        ..ResourceRequest::default()
    }
}

/// Fills in the fields of GPUs.
fn count_gpus(
    request: &mut ResourceRequest,
    (gpus, totals): (&[GpuCounts], &[u64]),
    lists: &GresLists,
    counts: &TaskCounts,
    notes: &mut Vec<Note>,
) {
    let total = totals.iter().copied().fold(0, u64::saturating_add);
    let tasks = counts.tasks.unwrap_or(counts.usual_tasks);
    let nodes = counts.least_nodes.zip(counts.most_nodes);
    let is_fixed = nodes.is_some_and(|(least, most)| least == most);
    let is_by_job = gpus.iter().any(|gpu_counts| gpu_counts.per_job > 0);
    let by_node: Vec<u64> = lists.node.iter().filter(|item| item.is_gpu()).map(|item| item.count).collect();
    request.gpus_total = Some(total);
    request.gpu_shares = gpus
        .iter()
        .zip(totals)
        .map(|(gpu_counts, total)| GpuShare {
            kind: gpu_counts.kind.clone(),
            total: *total,
            per_node: Some(gpu_counts.per_node)
                .filter(|count| *count > 0)
                .or_else(|| Some(*total).filter(|_| nodes == Some((1, 1)))),
        })
        .collect();
    request.gpu_type =
        gpus.iter().find_map(|gpu_counts| gpu_counts.kind.clone()).filter(|kind| !kind.contains(':'));
    request.gpus_per_node = match by_node.first() {
        _ if total == 0 => Some(0),
        Some(first) => Some(*first),
        None => Some(total).filter(|_| nodes == Some((1, 1))),
    };
    request.gpus_total_is_minimum =
        total > 0 && !is_by_job && !is_fixed && (tasks > 1 || counts.most_nodes.is_some());
    if is_by_job && by_node.is_empty() && counts.least_nodes.is_none() && total > GPUS_OF_NODE {
        let least = total.div_ceil(GPUS_OF_NODE);
        notes.push(("gpus", format!("{total} GPUs take at least {least} nodes of {GPUS_OF_NODE} GPUs")));
        request.nodes_min = Some(least);
    }
    let is_untyped = gpus.iter().all(|gpu_counts| gpu_counts.kind.is_none());
    if is_untyped && by_node.len() > 1 && by_node.iter().any(|candidate| *candidate != by_node[0]) {
        let why =
            "--gpus-per-node and --gres ask for different numbers of GPUs; Slurm allocates that of --gres";
        notes.push(("gres", why.to_owned()));
    }
}

/// Removes values that depend on values known only later.
fn forget_unknown(request: &mut ResourceRequest, settings: &ComponentSettings, gpus: &[GpuCounts]) {
    let unknown = |names: &[&str]| names.iter().any(|name| settings.is_unknown(name));
    let by_node = gpus.iter().any(|gpu_counts| gpu_counts.per_node > 0 || gpu_counts.per_socket > 0);
    let by_task = gpus.iter().any(|gpu_counts| gpu_counts.per_task > 0);
    let no_nodes = unknown(&["nodes", "nodelist", "nodefile"]) || settings.is_set("nodefile");
    let no_tasks = unknown(&["ntasks", "ntasks-per-node", "ntasks-per-gpu", "ntasks-per-tres"])
        || no_nodes && !settings.is_set("ntasks");
    let no_gpus =
        unknown(&["gres", "gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket", "tres-per-task"]);
    if no_nodes || unknown(&["ntasks"]) {
        (request.nodes_min, request.nodes_max) = (None, None);
    }
    if no_tasks || no_gpus && unknown(&["gpus-per-task", "tres-per-task"]) {
        request.ntasks = None;
    }
    if no_gpus {
        (request.gpus_per_node, request.gpu_type) = (None, None);
        request.gpu_shares.clear();
    }
    if no_gpus || no_nodes && by_node || no_tasks && by_task {
        (request.gpus_total, request.gpus_total_is_minimum) = (None, false);
    }
    if unknown(&["cpus-per-task", "tres-per-task"]) {
        request.cpus_per_task = None;
    }
}
