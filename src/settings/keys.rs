//! The table of all keys: name, form, default, help, and how each is checked, stored and shown.

mod values;

use std::fmt;

pub(super) use self::values::node_names;
use self::values::{
    list_text, one, path_text, set_capacity, set_color, set_estimate, set_forbidden, set_node_rate,
    set_untyped,
};
use super::decided::Settings;
use super::given::TypedValue;
use hsched_model::formats::{ValueError, duration_text, nearest, one_line};
use hsched_model::{BitRate, Bytes, ErrorId, GpuType};

/// A setting.
pub struct Key {
    /// Name in files and for `--set`.
    pub name: &'static str,
    /// The form of the key's values, for people.
    pub form: &'static str,
    /// Default as text; empty if there is none.
    pub default: &'static str,
    /// One-line description for people.
    pub help: &'static str,
    /// Whether the key is a table, whose entries are merged over the layers one by one.
    pub table: bool,
    pub set_by: SetBy,
    pub(super) set: fn(&mut Settings, &TypedValue<'_>) -> Result<(), ValueError>,
    /// Values as text, each with its key inside the table (empty for other settings).
    pub(super) show: fn(&Settings) -> Vec<(String, String)>,
}

/// Which layers may set a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetBy {
    All,
    /// All layers except project files, which may have been written by someone else.
    NoProject,
    /// Only the site's file.
    Site,
}

/// All keys.
pub static KEYS: [Key; 27] = [
    Key {
        name: "account",
        help: "Slurm account that jobs are charged to",
        set: |settings, given| given.name().map(|name| settings.jobs.account = name),
        show: |settings| one(settings.jobs.account.as_deref().unwrap_or_default()),
        ..TEXT
    },
    Key {
        name: "partition",
        help: "Slurm partition, or several separated by commas",
        set: |settings, given| given.name().map(|name| settings.jobs.partition = name),
        show: |settings| one(settings.jobs.partition.as_deref().unwrap_or_default()),
        ..TEXT
    },
    Key {
        name: "qos",
        help: "Slurm quality of service",
        set: |settings, given| given.name().map(|name| settings.jobs.qos = name),
        show: |settings| one(settings.jobs.qos.as_deref().unwrap_or_default()),
        ..TEXT
    },
    Key {
        name: "setup",
        form: "list of shell lines",
        help: "Shell lines that run once per job, on its first node, before the job's own setup",
        set: |settings, given| given.lines().map(|lines| settings.jobs.setup = lines),
        show: |settings| one(&list_text(&settings.jobs.setup)),
        ..TEXT
    },
    Key {
        name: "node_setup",
        form: "list of shell lines",
        help: "Shell lines that run once on each node of a job, before the job's own node_setup",
        set: |settings, given| given.lines().map(|lines| settings.jobs.node_setup = lines),
        show: |settings| one(&list_text(&settings.jobs.node_setup)),
        ..TEXT
    },
    Key {
        name: "sbatch",
        form: "list of words",
        help: "Additional sbatch options",
        set: |settings, given| given.words().map(|words| settings.jobs.sbatch = words),
        show: |settings| one(&list_text(&settings.jobs.sbatch)),
        ..TEXT
    },
    Key {
        name: "container_command",
        form: "shell text",
        default: "apptainer exec --nv",
        help: "Command that starts a job with `container`; hsched appends the image and the job's command",
        set: |settings, given| {
            let text = one_line(given.text()?)?;
            if text.trim().is_empty() {
                return Err(ValueError::new("must not be empty").id(ErrorId::TextFormat));
            }
            settings.jobs.container_command = text;
            Ok(())
        },
        show: |settings| one(&settings.jobs.container_command),
        ..TEXT
    },
    Key {
        name: "network_gbps",
        form: "number",
        default: "10",
        help: "Bandwidth between nodes in Gbit/s, if the cluster file does not give it",
        set: |settings, given| given.rate().map(|rate| settings.network = rate),
        show: |settings| one(&settings.network.gigabits_per_second().to_string()),
        ..TEXT
    },
    Key {
        name: "intra_node_gbps",
        form: "number",
        default: "300",
        help: "Bandwidth between the GPUs of a node in Gbit/s, if the cluster file does not give it",
        set: |settings, given| given.rate().map(|rate| settings.intra_node = rate),
        show: |settings| one(&settings.intra_node.gigabits_per_second().to_string()),
        ..TEXT
    },
    Key {
        name: "node_gbps",
        form: "table of numbers by hostlist",
        help: "Bandwidth between the GPUs of the named nodes in Gbit/s",
        table: true,
        set: set_node_rate,
        show: |settings| {
            let text =
                |(nodes, rate): &(String, BitRate)| (nodes.clone(), rate.gigabits_per_second().to_string());
            settings.node_expressions.iter().map(text).collect()
        },
        ..TEXT
    },
    Key {
        name: "capacity",
        form: "table of counts by GPU type",
        help: "GPUs that you can expect to get, by type; empty: all on nodes that are up",
        table: true,
        set: set_capacity,
        show: |settings| {
            let text = |(gpu_type, count): (&GpuType, &u32)| (gpu_type.to_string(), count.to_string());
            settings.capacity.iter().map(text).collect()
        },
        ..TEXT
    },
    Key {
        name: "untyped_gpus",
        form: "table of GPU types by hostlist, feature or partition",
        help: "Types of GPUs that have no type in Slurm (gpu:4), by node names, feature or partition",
        table: true,
        set: set_untyped,
        show: |settings| {
            let text = |(key, gpu_type): (&String, &GpuType)| (key.clone(), gpu_type.to_string());
            settings.untyped_gpus.iter().map(text).collect()
        },
        ..TEXT
    },
    Key {
        name: "cpus_per_gpu",
        form: "whole number",
        default: "1",
        help: "CPUs per rank",
        set: |settings, given| given.count(1..=100_000).map(|count| settings.jobs.cpus_per_gpu = count),
        show: |settings| one(&settings.jobs.cpus_per_gpu.to_string()),
        ..TEXT
    },
    Key {
        name: "memory_per_gpu",
        form: "size, such as 32GiB",
        help: "Memory per rank; empty: Slurm's default",
        set: |settings, given| given.size().map(|size| settings.jobs.memory_per_gpu = size),
        show: |settings| {
            one(&settings.jobs.memory_per_gpu.as_ref().map(Bytes::to_string).unwrap_or_default())
        },
        ..TEXT
    },
    Key {
        name: "time_margin",
        form: "number from 1 to 100",
        default: "1.21",
        help: "Slurm time limit as a multiple of the predicted time; 1.36 times this value if the speed is an estimate",
        set: |settings, given| {
            let fits = |number: f64| (1.0..=100.0).contains(&number);
            given.number(fits, "from 1 to 100").map(|number| settings.jobs.time_margin = number)
        },
        show: |settings| one(&settings.jobs.time_margin.to_string()),
        ..TEXT
    },
    Key {
        name: "grace",
        form: "duration, such as 120s",
        default: "120s",
        help: "Time from the stop signal (SIGUSR1) to the end of a run",
        set: |settings, given| given.duration().map(|duration| settings.jobs.grace = duration),
        show: |settings| one(&duration_text(settings.jobs.grace)),
        ..TEXT
    },
    Key {
        name: "restart_cost",
        form: "duration, such as 60s",
        default: "60s",
        help: "Time that a stop and restart costs, for jobs without checkpoint.restart_cost",
        set: |settings, given| given.duration().map(|duration| settings.restart_cost = duration),
        show: |settings| one(&duration_text(settings.restart_cost)),
        ..TEXT
    },
    Key {
        name: "estimate",
        form: "off, learnt or all",
        default: "off",
        help: "Whether jobs may use GPU types on which their model was never measured, at estimated speeds",
        set: set_estimate,
        show: |settings| one(settings.jobs.estimate.name()),
        ..TEXT
    },
    Key {
        name: "retry_delay",
        form: "duration, such as 30s",
        default: "30s",
        help: "Delay before a failed job is retried, 30 min at most; doubles with every failure until an epoch is done",
        set: |settings, given| given.duration().map(|duration| settings.retry_delay = duration),
        show: |settings| one(&duration_text(settings.retry_delay)),
        ..TEXT
    },
    Key {
        name: "het_steps",
        form: "true or false",
        default: "true",
        help: "Whether Slurm can run one job step over all components of a heterogeneous job",
        set: |settings, given| given.switch().map(|on| settings.jobs.het_steps = on),
        show: |settings| one(&settings.jobs.het_steps.to_string()),
        ..TEXT
    },
    Key {
        name: "templates",
        form: "directory",
        help: "Directory with job script templates that replace the built-in ones",
        set: |settings, given| given.path().map(|path| settings.templates = path),
        show: |settings| one(&path_text(settings.templates.as_deref())),
        ..TEXT
    },
    Key {
        name: "state_dir",
        form: "directory",
        help: "Directory for jobs, runs, reports and measured speeds; only you may have write access, and all nodes must see it; empty: hsched in the XDG state directory",
        // The author of a project must not choose where the user's state is read and written.
        set_by: SetBy::NoProject,
        set: |settings, given| {
            given.path().map(|path| settings.state_dir = path.or(settings.state_dir.take()))
        },
        show: |settings| one(&path_text(settings.state_dir.as_deref())),
        ..TEXT
    },
    Key {
        name: "notify",
        form: "shell line",
        help: "Command that hsched watch and hsched run call when jobs complete, fail, or cannot start without your help; it gets one line per job on standard input, and is killed after 30 s",
        // The command runs without confirmation, on the node of `hsched watch` or `hsched run`.
        set_by: SetBy::NoProject,
        set: |settings, given| {
            let text = one_line(given.text()?)?;
            settings.notify = (!text.trim().is_empty()).then_some(text);
            Ok(())
        },
        show: |settings| one(settings.notify.as_deref().unwrap_or_default()),
        ..TEXT
    },
    Key {
        name: "forbid",
        form: "list of race, together, queue",
        help: "Features that the policy of the site forbids: race (several requests for one job), together (many jobs in one allocation), queue (reading the whole queue)",
        set_by: SetBy::Site,
        set: set_forbidden,
        show: |settings| {
            one(&settings.forbidden.iter().map(|feature| feature.name()).collect::<Vec<_>>().join(" "))
        },
        ..TEXT
    },
    Key {
        name: "slurm_timeout",
        form: "duration, such as 30s",
        default: "30s",
        help: "Time limit for one Slurm command",
        set: |settings, given| {
            let duration = given.duration()?;
            if duration.0 <= 0.0 {
                return Err(ValueError::new("must be above 0").id(ErrorId::NumberRange));
            }
            settings.slurm_timeout = duration;
            Ok(())
        },
        show: |settings| one(&duration_text(settings.slurm_timeout)),
        ..TEXT
    },
    Key {
        name: "learning_rate",
        form: "number above 0, at most 1",
        default: "0.3",
        help: "Weight of a new speed measurement in the moving average",
        set: |settings, given| {
            let fits = |number: f64| number > 0.0 && number <= 1.0;
            given.number(fits, "above 0 and at most 1").map(|number| settings.learning_rate = number)
        },
        show: |settings| one(&settings.learning_rate.to_string()),
        ..TEXT
    },
    Key {
        name: "color",
        form: "auto, always or never",
        default: "auto",
        help: "When to colour the output",
        set: set_color,
        show: |settings| one(settings.color.name()),
        ..TEXT
    },
];

/// Common fields of most keys.
const TEXT: Key = Key {
    name: "",
    form: "text",
    default: "",
    help: "",
    table: false,
    set_by: SetBy::All,
    set: |_, _| Ok(()),
    show: |_| Vec::new(),
};

impl Key {
    /// Returns the key with that name.
    ///
    /// # Errors
    /// If there is none; the error suggests the nearest if its name is similar.
    pub fn named(name: &str) -> Result<&'static Self, ValueError> {
        KEYS.iter().find(|key| key.name == name).ok_or_else(|| {
            let error = ValueError::new("is not a known key").id(ErrorId::UnknownKey);
            match nearest(name, KEYS.iter().map(|key| key.name)) {
                Some(near) => error.hint(format!("did you mean {near}?")),
                None => error,
            }
        })
    }

    /// Returns the environment variable that sets the key.
    pub fn variable(&self) -> String {
        format!("HSCHED_{}", self.name.to_uppercase())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
