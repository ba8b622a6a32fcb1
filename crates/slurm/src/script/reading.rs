//! Puts the parts together: what `sbatch` makes of a script, its environment and its command line.

use std::collections::BTreeSet;

use super::foreign::{self, Foreign};
use super::getopt::{End, FoundOption, options};
use super::lines::{self, Component};
use super::names::{OptionName, is_unread_variable, options as names, variables};
use super::numbers::array;
use super::options::{OptionSource, ScriptOption};
use super::request::{ArrayRequest, LineRemark, ResourceRequest, ScriptReading, ScriptRequest};
use super::resolve::resolve;
use super::settings::Settings;
use super::site::site_names;
use super::source::{ScriptSource, SlurmVersion};
use super::words::Word;

/// A refusal, with the line that causes it.
type Refusal = (Option<usize>, String);

/// Reads what a submission asks Slurm for.
///
/// Follows the rules of `sbatch` of the version: the option lines of the script, then the environment, then the command line.
pub fn read_script(source: &ScriptSource) -> ScriptReading {
    let mut reader = ScriptReader::new(source);
    let read = reader.read();
    reader.finish(read)
}

struct ScriptReader<'a> {
    source: &'a ScriptSource<'a>,
    version: SlurmVersion,
    settings: Settings,
    reading: ScriptReading,
    /// What each component asks for; `None` if placeholders keep that from being known.
    components: Vec<Option<ResourceRequest>>,
    job_name: Option<String>,
    array: Option<ArrayRequest>,
    refusal: Option<Refusal>,
}

impl<'a> ScriptReader<'a> {
    fn new(source: &'a ScriptSource<'a>) -> Self {
        Self {
            source,
            version: source.version.unwrap_or(SlurmVersion::DEFAULT),
            settings: Settings::default(),
            reading: ScriptReading::default(),
            components: Vec::new(),
            job_name: None,
            array: None,
            refusal: None,
        }
    }

    /// Reads all components.
    fn read(&mut self) -> Result<(), Refusal> {
        let script = self.source.script.unwrap_or_default();
        let lines = lines::read(script, self.source.file_name, self.version);
        self.reading.notes.extend(lines.notes);
        // What a file would ask for is told even if sbatch takes it for no script.
        self.refusal = self.source.script.and_then(lines::refusal).map(|why| (None, why.to_owned()));
        let arguments: Vec<Word> = self
            .source
            .command_line
            .iter()
            .enumerate()
            .map(|(index, word)| Word::argument(word, index))
            .collect();
        let segments: Vec<&[Word]> = arguments.split(|word| word.text == ":").collect();
        let foreign = foreign::read(script, self.version);
        let count = lines.components.len().max(segments.len());
        let empty = Component::default();
        for index in 0..count {
            let component = lines.components.get(index).unwrap_or(&empty);
            let segment = index.min(segments.len() - 1);
            self.component(index, component, &foreign, segments[segment], segment == index)?;
        }
        if count > 1 && self.array.is_some() {
            return Err((
                None,
                "Invalid job array specification: a heterogeneous job cannot be an array".to_owned(),
            ));
        }
        Ok(())
    }

    /// Reads a component; its part of the command line is listed if it `is_first` to use that.
    fn component(
        &mut self,
        index: usize,
        component: &Component,
        foreign: &Foreign,
        arguments: &[Word],
        is_first: bool,
    ) -> Result<(), Refusal> {
        let version = self.version;
        let is_inherited: BTreeSet<&str> =
            names(version).filter(|option| option.is_inherited).map(OptionName::name).collect();
        self.settings.begin_component(|name| is_inherited.contains(name));
        if let Some(why) = &component.error {
            return Err((None, why.clone()));
        }
        let (found, end) = options(&component.words, version);
        self.apply(index, &found, true)?;
        match end {
            End::Words => {}
            End::Other(place) => {
                let word = &component.words[place];
                return Err((word.line(), format!("Invalid directive found in batch script: {}", word.text)));
            }
            End::Refused(place, why) => return Err((component.words[place].line(), why)),
        }
        // `sbatch` reads this option of the command line before the script.
        let is_given =
            options(arguments, version).0.iter().any(|found_option| found_option.name == "ignore-pbs");
        let is_of_environment = self.source.environment.contains_key("SBATCH_IGNORE_PBS");
        if !(self.settings.is_set("ignore-pbs") || is_of_environment || is_given) {
            self.apply(index, &foreign.options, index == 0)?;
            if let Some(error) = &foreign.error {
                return Err(error.clone());
            }
            if index == 0 {
                self.note_foreign(foreign);
            }
        }
        self.environment(index)?;
        let (found, end) = options(arguments, version);
        self.apply(index, &found, is_first)?;
        match end {
            End::Words => {}
            End::Other(place) => {
                let word = arguments.get(place).map_or("--", |word| &word.text);
                return Err((
                    None,
                    format!("{word:?} is not an option: sbatch would take it for the script"),
                ));
            }
            End::Refused(_, why) => return Err((None, why)),
        }
        self.finish_component()
    }

    /// Applies options of the script or the command line, and lists them if they are new.
    fn apply(&mut self, component: usize, found: &[FoundOption], is_new: bool) -> Result<(), Refusal> {
        for found_option in found {
            if is_new {
                self.list(component, found_option);
            }
            self.settings.apply(found_option, self.version).map_err(|why| (found_option.line, why))?;
        }
        Ok(())
    }

    fn list(&mut self, component: usize, found: &FoundOption) {
        if let Some(why) = self.note_on(component, found) {
            let remark = LineRemark { line: found.line, text: found.text.clone(), why };
            self.reading.notes.push(remark);
        }
        self.reading.options.push(ScriptOption {
            name: found.name.to_owned(),
            value: found.value.clone(),
            source: found.source.clone(),
            component,
        });
    }

    /// Returns what is odd about an option.
    fn note_on(&self, component: usize, found: &FoundOption) -> Option<String> {
        if found.is_plugin {
            return Some(
                "an option of a site's plugin: sbatch refuses it at sites without that plugin".to_owned(),
            );
        }
        found.line?;
        if ["help", "usage", "version", "quiet", "verbose", "wrap"].contains(&found.name) {
            return Some("sbatch ignores this option in a script".to_owned());
        }
        let is_replaced = |script_option: &&ScriptOption| {
            script_option.name == found.name
                && script_option.component == component
                && script_option.value != found.value
        };
        let old = self
            .reading
            .options
            .iter()
            .rfind(is_replaced)
            .filter(|script_option| script_option.name != "mail-type")?;
        match old.source {
            OptionSource::Script { line, .. } => {
                Some(format!("takes the place of the same option on line {line}"))
            }
            OptionSource::Environment(_) | OptionSource::CommandLine(_) => None,
        }
    }

    fn note_foreign(&mut self, foreign: &Foreign) {
        let mut noted = BTreeSet::new();
        for found_option in foreign.options.iter().filter(|found_option| noted.insert(found_option.line)) {
            self.reading.notes.push(LineRemark {
                line: found_option.line,
                text: found_option.text.clone(),
                why: "sbatch reads options of PBS and LSF too, and they win over #SBATCH".to_owned(),
            });
        }
    }

    /// Applies the environment variables.
    fn environment(&mut self, component: usize) -> Result<(), Refusal> {
        let environment = self.source.environment;
        for (variable, option) in variables(self.version) {
            let Some(value) = environment.get(variable) else { continue };
            if component == 0 {
                self.reading.options.push(ScriptOption {
                    name: option.name().to_owned(),
                    value: Some(value.clone()),
                    source: OptionSource::Environment(variable.to_owned()),
                    component,
                });
            }
            self.settings.apply_variable(option, variable, value, self.version).map_err(|why| (None, why))?;
        }
        if component == 0 {
            for (name, value) in environment.iter().filter(|(name, _)| is_unread_variable(name)) {
                self.reading.notes.push(LineRemark {
                    line: None,
                    text: format!("{name}={value}"),
                    why: "sbatch reads no such variable".to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Works out what the component asks for.
    fn finish_component(&mut self) -> Result<(), Refusal> {
        let settings = &mut self.settings;
        let refusal = settings.refusal().map(|(line, why)| (line, why.to_owned()));
        self.refusal = self.refusal.take().or(refusal);
        add(&mut self.reading.unknown, settings.unknown());
        add(&mut self.reading.site_names, site_names(settings, self.version));
        if self.components.is_empty() {
            self.job_name = settings.text("job-name").map(str::to_owned);
        }
        if let Some(text) = settings.text("array").filter(|text| !text.is_empty()) {
            self.array = match array(text) {
                Ok((array, _)) if !settings.is_unknown("array") => Some(array),
                _ => Some(ArrayRequest { tasks: None, limit: None }),
            };
        }
        match resolve(settings, self.version) {
            Ok(resolved) => {
                let notes = resolved.notes.into_iter().map(|(name, why)| {
                    let (line, text) = settings.get(name).map_or((None, String::new()), |given_option| {
                        (given_option.line, given_option.text.clone())
                    });
                    LineRemark { line, text, why }
                });
                self.reading.notes.extend(notes);
                self.components.push(Some(resolved.request));
                Ok(())
            }
            Err(_) if settings.has_unknown() => {
                self.components.push(None);
                Ok(())
            }
            Err(why) => Err((None, why)),
        }
    }

    fn finish(mut self, read: Result<(), Refusal>) -> ScriptReading {
        let said = |(line, why): Refusal| match line {
            Some(line) => format!("line {line}: {why}"),
            None => why,
        };
        let is_read = read.is_ok();
        self.reading.refused = self.refusal.or(read.err()).map(said);
        let lists = [&mut self.reading.unknown, &mut self.reading.site_names, &mut self.reading.notes];
        for list in lists {
            list.sort_by_key(|line_remark| line_remark.line.unwrap_or(usize::MAX));
        }
        let components: Option<Vec<ResourceRequest>> = self.components.into_iter().collect();
        if let Some(components) = components.filter(|_| is_read) {
            self.reading.request = total(components).map(|(total, components)| ScriptRequest {
                job_name: self.job_name.unwrap_or_else(|| self.source.usual_name()),
                total,
                components,
                array: self.array,
            });
        }
        self.reading
    }
}

/// Adds the remarks that a list does not have yet.
fn add(list: &mut Vec<LineRemark>, remarks: Vec<LineRemark>) {
    for remark in remarks {
        if !list.contains(&remark) {
            list.push(remark);
        }
    }
}

/// Returns the first component with the GPUs of all, and the components if there are several.
fn total(components: Vec<ResourceRequest>) -> Option<(ResourceRequest, Vec<ResourceRequest>)> {
    let mut total = components.first()?.clone();
    if components.len() == 1 {
        return Some((total, Vec::new()));
    }
    let gpus = components.iter().map(|resource_request| resource_request.gpus_total);
    total.gpus_total = gpus.sum();
    total.gpu_type = components.first().and_then(|resource_request| resource_request.gpu_type.clone());
    Some((total, components))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;

    fn reading(lines: &str, words: &[&str], variables: &[(&str, &str)]) -> ScriptReading {
        let script = format!("#!/bin/bash\n{}\n", lines.replace("§", "#SBATCH").replace(" | ", "\n"));
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let environment: BTreeMap<String, String> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        read_script(&ScriptSource {
            script: Some(script.as_bytes()),
            file_name: "x.sh",
            command_line: &words,
            environment: &environment,
            version: None,
        })
    }

    /// Returns some fields of a request.
    fn fields(lines: &str, words: &[&str], variables: &[(&str, &str)], names: &[&str]) -> Vec<Value> {
        let json = reading(lines, words, variables).to_json();
        names.iter().map(|name| json["request"][*name].clone()).collect()
    }

    #[test]
    fn the_command_line_wins_over_the_environment_and_that_over_the_script() {
        let names = ["time_limit_s", "partition", "qos"];
        let script = "§ -t 7 -p a -q x | #PBS -l walltime=8 -q b";
        assert_eq!(fields(script, &[], &[], &names), [json!(480), json!("b"), json!("x")]);
        assert_eq!(fields(script, &["--ignore-pbs"], &[], &names), [json!(420), json!("a"), json!("x")]);
        let variables = [("SBATCH_TIMELIMIT", "9"), ("SBATCH_NODES", "4")];
        assert_eq!(fields(script, &[], &variables, &names), [json!(540), json!("b"), json!("x")]);
        assert_eq!(fields(script, &["-t10"], &variables, &names), [json!(600), json!("b"), json!("x")]);
        let notes = reading(script, &[], &variables).notes;
        assert!(notes.iter().any(|note| note.text == "SBATCH_NODES=4" && note.line.is_none()), "{notes:?}");
    }

    #[test]
    fn components_keep_some_options() {
        let names = ["het", "gpus_total", "time_limit_s"];
        let script = "§ -N1 -t 5 -p a --gres=gpu:2 | § hetjob | § -N2 --gres=gpu:4";
        assert_eq!(fields(script, &[], &[], &names), [json!(2), json!(10), json!(300)]);
        let request = reading(script, &[], &[]).request.expect("a request");
        let of = |resource_request: &ResourceRequest| {
            (resource_request.nodes_min, resource_request.partition.clone(), resource_request.gpus_total)
        };
        let components: Vec<_> = request.components.iter().map(of).collect();
        assert_eq!(components, [(Some(1), Some("a".to_owned()), Some(2)), (Some(2), None, Some(8))]);
        assert_eq!(fields("§ -G1", &["-N1", ":", "-N2"], &[], &names)[..2], [json!(2), json!(1)]);
        assert!(reading("§ -a 0-3 | § hetjob", &[], &[]).refused.is_some());
    }

    #[test]
    fn a_value_that_a_later_option_replaces_is_refused_only_by_sbatch_itself() {
        assert_eq!(reading("§ --gres=gpu: | § --gres=gpu:2", &[], &[]).refused, None);
        assert!(reading("§ --gres=gpu:", &[], &[]).refused.is_some());
        assert!(reading("§ --time=2h | § --time=2", &[], &[]).refused.is_some());
        assert_eq!(reading("§ --time={{ t }}", &["--time=2"], &[]).refused, None);
    }

    #[test]
    fn what_is_known_only_later_has_no_value() {
        let reading = reading("§ --nodes=$N --gres=gpu:2 -A {{ a }} -p $P -c 4", &[], &[]);
        assert_eq!(reading.refused.as_deref(), Some("line 2: \"$N\" is not a valid node count"));
        assert_eq!(
            reading.unknown.iter().map(|line_remark| line_remark.text.as_str()).collect::<Vec<_>>(),
            ["--nodes=$N", "-A {{ a }}", "-p $P"]
        );
        let total = reading.request.expect("a request").total;
        assert_eq!((total.nodes_min, total.gpus_total, total.gpus_per_node), (None, None, Some(2)));
        // Slurm takes the text of a variable as it is.
        assert_eq!(
            (total.account, total.partition.as_deref(), total.cpus_per_task),
            (None, Some("$P"), Some(4))
        );
    }

    #[test]
    fn gpus_of_nodes_and_tasks_tell_the_number_of_nodes() {
        let names = ["nodes_min", "nodes_max", "gpus_total"];
        let all = |options: &str| fields(&format!("§ {options}"), &[], &[], &names);
        assert_eq!(all("--gres=gpu:2 --gpus-per-task=1 -n 5"), [json!(3), json!(null), json!(5)]);
        assert_eq!(all("--gres=gpu:2 --gpus-per-task=1 -n 4 -N 1"), [json!(1), json!(1), json!(4)]);
        assert_eq!(all("--gres=gpu:2 --gpus-per-task=1 -n 4 -N 1-4"), [json!(2), json!(4), json!(4)]);
    }

    #[test]
    fn tasks_of_nodes_that_follow_from_gpus_count() {
        let all = |options: &str| fields(&format!("§ {options}"), &[], &[], &["nodes_min", "ntasks"]);
        assert_eq!(all("--gpus=8 --gpus-per-node=4 --ntasks-per-node=4"), [json!(2), json!(8)]);
        assert_eq!(all("--gpus=8 --gpus-per-node=4"), [json!(2), json!(2)]);
    }

    #[test]
    fn a_variable_in_a_name_hides_no_refusal() {
        let reading = reading("§ -J $HOME --gpus-per-node=1 --gpus-per-task=4 -n 1", &[], &[]);
        assert!(reading.refused.is_some_and(|why| why.contains("--gpus-per-task")));
    }

    #[test]
    fn a_type_without_a_number_is_noted() {
        let reading = reading("§ --gpus-per-task=a100 -n 4", &[], &[]);
        assert_eq!(reading.request.map(|script_request| script_request.total.gpus_total), Some(Some(0)));
        assert_eq!(reading.notes.iter().map(|line_remark| line_remark.line).collect::<Vec<_>>(), [Some(2)]);
    }

    #[test]
    fn the_shortest_time_is_no_longer_than_the_limit() {
        let is_refused = |options: &str| reading(&format!("§ {options}"), &[], &[]).refused.is_some();
        for options in ["-t 10 --time-min=20", "--time-min=0", "-t 10 --time-min=UNLIMITED"] {
            assert!(is_refused(options), "{options}");
        }
        for options in ["-t 10 --time-min=10", "--time-min=10", "-t 0 --time-min=0", "-t 0 --time-min=5"] {
            assert!(!is_refused(options), "{options}");
        }
    }

    #[test]
    fn options_know_where_they_were_found() {
        let reading = reading("§ -N2 | § hetjob | § -n3", &["-t5"], &[("SBATCH_QOS", "q")]);
        let found: Vec<(&str, usize, bool)> = reading
            .options
            .iter()
            .map(|script_option| {
                (
                    script_option.name.as_str(),
                    script_option.component,
                    matches!(script_option.source, OptionSource::Script { .. }),
                )
            })
            .collect();
        assert_eq!(found, [("nodes", 0, true), ("qos", 0, false), ("time", 0, false), ("ntasks", 1, true)]);
    }
}
