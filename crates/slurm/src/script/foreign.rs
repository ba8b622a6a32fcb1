//! Options of other batch systems that `sbatch` translates: `#PBS` and `#BSUB`, even after the first
//! commands.

use super::getopt::FoundOption;
use super::lines::{ScriptLine, lines};
use super::source::SlurmVersion;
use super::words::{ScriptWord, split};

/// Number of non-comment lines after which the search for options ends.
const MOST_COMMANDS: usize = 100;

/// Options translated to those of `sbatch`, with their values.
type Translation = Vec<(&'static str, String)>;

/// Letters of options with and without a value.
struct Letters {
    with: &'static str,
    without: &'static str,
    long: &'static [(&'static str, char)],
}

const BSUB: Letters = Letters {
    with: "ceJmMnoqW",
    without: "x",
    long: &[
        ("cwd", 'c'),
        ("error_file", 'e'),
        ("job_name", 'J'),
        ("hostname", 'm'),
        ("memory_limit", 'M'),
        ("output_file", 'o'),
        ("queue_name", 'q'),
        ("time", 'W'),
        ("exclusive", 'x'),
    ],
};

const PBS: Letters = Letters {
    with: "aAcCdejJklmMNopqrStuvwW",
    without: "hIVz",
    long: &[
        ("start_time", 'a'),
        ("account", 'A'),
        ("checkpoint", 'c'),
        ("working_dir", 'C'),
        ("error", 'e'),
        ("hold", 'h'),
        ("interactive", 'I'),
        ("join", 'j'),
        ("job_array", 'J'),
        ("keep", 'k'),
        ("resource_list", 'l'),
        ("mail_options", 'm'),
        ("mail_user_list", 'M'),
        ("job_name", 'N'),
        ("out", 'o'),
        ("priority", 'p'),
        ("destination", 'q'),
        ("rerunable", 'r'),
        ("script_path", 'S'),
        ("array", 't'),
        ("running_user", 'u'),
        ("variable_list", 'v'),
        ("all_env", 'V'),
        ("attributes", 'W'),
        ("no_std", 'z'),
    ],
};

/// The translated options of another batch system.
#[derive(Debug, Default)]
pub(super) struct Foreign {
    pub options: Vec<FoundOption>,
    /// Why `sbatch` refuses them, with the line number.
    pub error: Option<(Option<usize>, String)>,
}

/// Returns the options of `#BSUB` lines or, if there are none, of `#PBS` lines.
pub(super) fn read(script: &[u8], version: SlurmVersion) -> Foreign {
    for (word, letters, translate) in
        [("#BSUB", &BSUB, bsub as fn(char, &str) -> Translation), ("#PBS", &PBS, pbs)]
    {
        let mut found = Foreign::default();
        let words = words(script, word, version, &mut found);
        if words.is_empty() && found.error.is_none() {
            continue;
        }
        let mut gpus = Resources::default();
        found.translate(&words, letters, version, &mut |letter, value| {
            if word == "#PBS" && letter == 'l' { gpus.list(value) } else { translate(letter, value) }
        });
        return found;
    }
    Foreign::default()
}

/// Returns the words of all lines with this beginning.
fn words(script: &[u8], begin: &str, version: SlurmVersion, found: &mut Foreign) -> Vec<ScriptWord> {
    let (mut all, mut commands) = (Vec::new(), 0);
    for ScriptLine { number, start, bytes } in lines(script) {
        if !bytes.starts_with(begin.as_bytes()) {
            commands += usize::from(!bytes.starts_with(b"#"));
            if commands > MOST_COMMANDS {
                break;
            }
            continue;
        }
        let length = begin.len();
        let Ok(words) = split(&bytes[length..], start + length, number, version.is_at_least(24, 5)) else {
            let text = String::from_utf8_lossy(&bytes[length..]).trim().to_owned();
            found.error = Some((Some(number), format!("Unmatched quote or `:` in [{text}]")));
            return all;
        };
        all.extend(words.words);
    }
    all
}

impl Foreign {
    fn translate(
        &mut self,
        words: &[ScriptWord],
        letters: &Letters,
        version: SlurmVersion,
        translate: &mut dyn FnMut(char, &str) -> Translation,
    ) {
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let line = word.line();
            let Some((letter, attached)) = option(&word.text, letters, version) else {
                let why = if word.text.starts_with('-') {
                    "Unrecognized command line parameter ?".to_owned()
                } else {
                    format!("Invalid argument: {}", word.text)
                };
                self.error = self.error.take().or(Some((line, why)));
                return;
            };
            let takes = letters.with.contains(letter);
            let (holder, start) = match attached {
                Some(start) => (Some(word), start),
                None if takes => (words.next(), 0),
                None => (None, 0),
            };
            if takes && holder.is_none() {
                self.error = Some((line, "Unrecognized command line parameter ?".to_owned()));
                return;
            }
            let value = holder.map_or("", |holder| &holder.text[start..]);
            for (name, translated) in translate(letter, value) {
                let text =
                    if start == 0 && takes { format!("{} {value}", word.text) } else { word.text.clone() };
                let place = value.find(&translated).filter(|_| !translated.is_empty());
                let source = holder
                    .unwrap_or(word)
                    .source(place.map(|at| (start + at, start + at + translated.len())));
                let has_value = !["hold", "exclusive"].contains(&name);
                self.options.push(FoundOption {
                    name,
                    is_plugin: false,
                    value: has_value.then_some(translated),
                    source,
                    line,
                    text,
                    stray: None,
                });
            }
        }
    }
}

/// Returns the letter of an option, and the position of a value in the same word.
fn option(text: &str, letters: &Letters, version: SlurmVersion) -> Option<(char, Option<usize>)> {
    if let Some(long) = text.strip_prefix("--") {
        let name = long.split('=').next().unwrap_or_default();
        let (_, letter) = letters.long.iter().find(|(letter, _)| *letter == name)?;
        return Some((*letter, (name.len() < long.len()).then_some(name.len() + 3)));
    }
    if text == "-cwd" && std::ptr::eq(letters.with, BSUB.with) {
        return Some(('c', None));
    }
    let letter = text.strip_prefix('-')?.chars().next()?;
    let is_newer = version.is_at_least(23, 2) || !['d', 'w'].contains(&letter);
    let takes = letters.with.contains(letter) && is_newer;
    let rest = 1 + letter.len_utf8();
    match (takes, letters.without.contains(letter)) {
        (true, _) => Some((letter, (rest < text.len()).then_some(rest))),
        (false, true) => Some((letter, None)),
        (false, false) => None,
    }
}

/// Translates an option of LSF.
fn bsub(letter: char, value: &str) -> Translation {
    let text = value.to_owned();
    vec![match letter {
        'c' => ("chdir", text),
        'e' => ("error", text),
        'J' => ("job-name", text),
        'o' => ("output", text),
        'm' => ("nodelist", value.replace(' ', ",")),
        'M' if value.ends_with(|c: char| c.is_ascii_digit()) => ("mem-per-cpu", format!("{value}K")),
        'M' => ("mem-per-cpu", text),
        'n' => ("ntasks", value.split_once(',').map_or(value, |(_, most)| most).to_owned()),
        'q' => ("partition", text),
        'W' => ("time", text),
        _ => ("exclusive", String::new()),
    }]
}

/// Translates an option of PBS other than a list of resources.
fn pbs(letter: char, value: &str) -> Translation {
    let text = value.to_owned();
    let starts = |name: &str| value.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name));
    vec![match letter {
        'a' => ("begin", text),
        'A' => ("account", text),
        'e' => ("error", text),
        'o' => ("output", text),
        'w' | 'd' => ("chdir", text),
        'h' => ("hold", String::new()),
        'J' | 't' => ("array", text),
        'm' => match mail(value) {
            Some(types) => ("mail-type", types),
            None => return Vec::new(),
        },
        'M' => ("mail-user", text),
        'N' => ("job-name", text),
        'p' => ("nice", text),
        'q' => ("partition", text),
        'v' => ("export", text),
        'W' if starts("depend=") => ("dependency", value["depend=".len()..].to_owned()),
        _ => return Vec::new(),
    }]
}

fn mail(value: &str) -> Option<String> {
    let has = |letter: char| value.to_ascii_lowercase().contains(letter);
    if has('n') {
        return Some("NONE".to_owned());
    }
    let kinds = [('b', "BEGIN"), ('e', "END"), ('a', "FAIL")];
    let types: Vec<&str> =
        kinds.into_iter().filter(|(letter, _)| has(*letter)).map(|(_, name)| name).collect();
    (!types.is_empty()).then(|| types.join(","))
}

/// Values from resource lists on which other values depend.
#[derive(Debug, Default)]
struct Resources {
    has_select: bool,
    cpus: Option<u64>,
    tasks_per_node: Option<u64>,
}

impl Resources {
    /// Translates a list such as `nodes=2:ppn=4,walltime=1:00:00`.
    fn list(&mut self, text: &str) -> Translation {
        let (mut options, mut rest, mut gpus) = (Vec::new(), text, 0_u64);
        while !rest.is_empty() {
            let (name, behind) = rest.split_once('=').unwrap_or((rest, ""));
            let name = name.rsplit([',', ':']).next().unwrap_or_default().trim().to_ascii_lowercase();
            let ends: &[char] =
                if ["select", "ncpus", "mpiprocs"].contains(&name.as_str()) { &[':', ','] } else { &[','] };
            let end = behind.find(ends).unwrap_or(behind.len());
            let value = &behind[..end];
            rest = behind.get(end + 1..).unwrap_or_default();
            let size = value.strip_suffix(['b', 'B']).unwrap_or(value).to_owned();
            match name.as_str() {
                "walltime" | "cput" | "pcput" => options.push(("time", value.to_owned())),
                "mem" => options.push(("mem", size)),
                "file" => options.push(("tmp", size)),
                "nice" => options.push(("nice", value.to_owned())),
                "proc" => options.push(("constraint", value.to_owned())),
                "nodes" => nodes(value, &mut options),
                "select" => {
                    self.has_select = true;
                    options.push(("nodes", value.to_owned()));
                }
                "ncpus" => {
                    self.cpus = value.parse().ok();
                    options.push(("mincpus", value.to_owned()));
                }
                "mpiprocs" => {
                    self.tasks_per_node = value.parse().ok();
                    options.push(("ntasks-per-node", value.to_owned()));
                }
                "naccelerators" => gpus = value.parse().unwrap_or(0),
                "accelerator" if value.to_ascii_lowercase().starts_with("true") => gpus = gpus.max(1),
                _ => {}
            }
        }
        if let (true, Some(cpus), Some(tasks)) =
            (self.has_select, self.cpus, self.tasks_per_node.filter(|tasks_per_node| *tasks_per_node > 0))
            && cpus > tasks
        {
            options.push(("cpus-per-task", (cpus / tasks).to_string()));
        }
        if gpus > 0 {
            options.push(("gres", format!("gpu:{gpus}")));
        }
        options
    }
}

/// Adds the nodes of a list such as `2:ppn=4:gpus=1+node7`.
fn nodes(text: &str, options: &mut Translation) {
    let (mut count, mut per_node, mut names) = (0_u64, 0_u64, Vec::new());
    for part in text.split([':', '+']) {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        if let Some(gpus) = part.strip_prefix("gpus=") {
            options.push(("gpus-per-node", gpus.to_owned()));
        } else if let Some(tasks) = part.strip_prefix("ppn=") {
            per_node = per_node.saturating_add(tasks.parse().unwrap_or(0));
        } else if !digits.is_empty() {
            count = count.saturating_add(digits.parse().unwrap_or(0));
        } else if part.starts_with(|c: char| c.is_ascii_alphabetic()) {
            names.push(part);
        }
    }
    if count > 0 {
        options.push(("nodes", count.to_string()));
    }
    if per_node > 0 {
        options.push(("ntasks", per_node.saturating_mul(count.max(1)).to_string()));
    }
    if !names.is_empty() {
        options.push(("nodelist", names.join(",")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Vec<String> {
        let found = read(text.as_bytes(), SlurmVersion::DEFAULT);
        let mut all: Vec<String> = found
            .options
            .iter()
            .map(|found_option| {
                format!("{}={}", found_option.name, found_option.value.as_deref().unwrap_or_default())
            })
            .collect();
        all.extend(found.error.map(|(line, why)| format!("{line:?} {why}")));
        all
    }

    #[test]
    fn pbs_is_translated_anywhere() {
        assert_eq!(
            options(
                "#!/bin/sh\necho a\n#PBS -l nodes=2:ppn=4:gpus=1,walltime=0:09:00\n#PBS -q gpu -N name\n"
            ),
            ["gpus-per-node=1", "nodes=2", "ntasks=8", "time=0:09:00", "partition=gpu", "job-name=name"]
        );
        assert_eq!(
            options("#PBS -l select=2:ncpus=8:mpiprocs=2\n#PBS -l mem=4gb\n"),
            ["nodes=2", "mincpus=8", "ntasks-per-node=2", "cpus-per-task=4", "mem=4g", "cpus-per-task=4"]
        );
        assert_eq!(
            options("#PBS -m abe -W depend=afterok:1 -V -j oe\n"),
            ["mail-type=BEGIN,END,FAIL", "dependency=afterok:1"]
        );
        assert_eq!(options("##PBS -l nodes=2\n# PBS -l nodes=2\n"), Vec::<String>::new());
    }

    #[test]
    fn lsf_is_translated_and_wins_over_pbs() {
        assert_eq!(
            options("#PBS -q a\n#BSUB -W 9 -n 2,4 -M 4000 -x\n"),
            ["time=9", "ntasks=4", "mem-per-cpu=4000K", "exclusive="]
        );
    }

    #[test]
    fn other_text_is_refused() {
        assert_eq!(options("#PBS some text\n"), ["Some(1) Invalid argument: some"]);
        assert_eq!(options("#PBS -X\n"), ["Some(1) Unrecognized command line parameter ?"]);
        assert_eq!(options("#BSUB -gpu num=2\n"), ["Some(1) Unrecognized command line parameter ?"]);
    }
}
