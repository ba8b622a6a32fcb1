//! Names and numbers whose validity depends on the site.

use super::gres::{GresItem, gpus, gres, tres_per_task};
use super::numbers::{USUAL_LAST_INDEX, array};
use super::request::{LineRemark, OtherResource};
use super::settings::ComponentSettings;
use super::source::SlurmVersion;

/// More GPUs than any node has.
const LARGE: u64 = 1000;

/// Options with names that a site defines, and the kind of name.
const NAMES: [(&str, &str); 10] = [
    ("account", "this account"),
    ("clusters", "this cluster"),
    ("constraint", "nodes with these features"),
    ("exclude", "these nodes"),
    ("licenses", "these licenses"),
    ("nodelist", "these nodes"),
    ("partition", "this partition"),
    ("prefer", "nodes with these features"),
    ("qos", "this QOS"),
    ("reservation", "this reservation"),
];

/// Returns the generic resources other than GPUs.
pub(super) fn other_resources(settings: &ComponentSettings, version: SlurmVersion) -> Vec<OtherResource> {
    let read = |name: &str, items: fn(&str, SlurmVersion) -> Vec<GresItem>| -> Vec<OtherResource> {
        let Some(setting) = settings.get(name).filter(|setting| setting.placeholder.is_none()) else {
            return Vec::new();
        };
        let of = |item: GresItem| OtherResource {
            line: setting.line,
            text: setting.text.clone(),
            name: item.name,
        };
        let items = items(setting.value.as_deref().unwrap_or_default(), version);
        items.into_iter().filter(|item| !item.is_gpu()).map(of).collect()
    };
    let of_node = read("gres", |text, version| gres(text, version).unwrap_or_default());
    let of_task = read("tres-per-task", |text, version| {
        tres_per_task(text, version).map_or_else(|_| Vec::new(), |(_, items)| items)
    });
    [of_node, of_task].concat()
}

/// Returns the values whose validity depends on the site.
pub(super) fn site_names(settings: &ComponentSettings, version: SlurmVersion) -> Vec<LineRemark> {
    let mut all = Vec::new();
    for (name, setting) in settings.iter() {
        let mut remark = |why: String| {
            all.push(LineRemark { line: setting.line, text: setting.text.clone(), why });
        };
        let text = setting.value.as_deref().unwrap_or_default();
        if setting.placeholder.is_some() {
            continue;
        }
        if let Some((_, what)) = NAMES.iter().find(|(candidate, _)| *candidate == name && !text.is_empty()) {
            remark(format!("only the site knows whether it has {what}"));
        }
        match name {
            "dependency" if text.contains(|c: char| c.is_ascii_digit()) => {
                remark("only Slurm knows whether there are such jobs".to_owned());
            }
            "array" if array(text).is_ok_and(|(_, last)| last > USUAL_LAST_INDEX) => {
                remark(format!(
                    "Slurm refuses indices above {USUAL_LAST_INDEX} unless the site sets a larger MaxArraySize"
                ));
            }
            "acctg-freq" => remark("Slurm refuses it at sites that do not gather such figures".to_owned()),
            "nodefile" => remark("the nodes are in a file that sbatch reads".to_owned()),
            "bbf" => remark("sbatch reads this file".to_owned()),
            "resv-ports" => remark("Slurm refuses it unless the site enables stepmgr".to_owned()),
            "signal" if text.starts_with(['R', 'r']) => {
                remark("newer versions refuse R unless the site enables preemption".to_owned());
            }
            "gpus" | "gpus-per-node" | "gpus-per-task" | "gpus-per-socket" => {
                for item in gpus(text, version).unwrap_or_default() {
                    let is_odd = |kind: &String| kind.contains([':', '/']) || kind == "gpu";
                    if let Some(kind) = item.kind.filter(is_odd) {
                        remark(format!(
                            "Slurm takes {kind} for the GPU type: --{name} has no gpu: before the type"
                        ));
                    }
                }
            }
            "tres-per-task" if text.contains("license") => {
                remark("only the site knows whether it has these licenses".to_owned());
            }
            "gres" => {
                let items = gres(text, version).unwrap_or_default();
                if items.iter().any(|item| item.is_gpu() && item.count >= LARGE) {
                    remark("Slurm takes K for 1024 GPUs, and M for more".to_owned());
                }
                for item in items.iter().filter(|item| !item.is_gpu()) {
                    remark(format!("only the site knows whether it has the generic resource {}", item.name));
                }
            }
            _ => {}
        }
    }
    all
}
