//! Combines the parts: how `sbatch` interprets a script, its environment and its command line.

use std::collections::BTreeSet;

use super::foreign::{self, Foreign};
use super::getopt::{FoundOption, OptionsEnd, options};
use super::lines::{self, ComponentLines};
use super::names::{OptionName, is_unread_variable, options as names, variables};
use super::numbers::array;
use super::options::{OptionSource, ScriptOption};
use super::request::{ArrayRequest, LineRemark, ResourceRequest, ScriptReading, ScriptRequest};
use super::resolve::resolve;
use super::settings::{ComponentSettings, is_unset, variable_value};
use super::site::{other_resources, site_names};
use super::source::{ScriptSource, SlurmVersion};
use super::words::ScriptWord;

/// A refusal, with the line at fault.
type ScriptRefusal = (Option<usize>, String);

/// Reads what a submission requests from Slurm.
///
/// Follows the rules of the source's version of `sbatch`: the option lines of the script, then the
/// environment, then the command line.
pub fn read_script(source: &ScriptSource) -> ScriptReading {
    let mut reader = ScriptReader::new(source);
    let read = reader.read();
    reader.finish(read)
}

struct ScriptReader<'a> {
    source: &'a ScriptSource<'a>,
    version: SlurmVersion,
    settings: ComponentSettings,
    reading: ScriptReading,
    /// The request of each component; `None` if placeholders make it unknown.
    components: Vec<Option<ResourceRequest>>,
    job_name: Option<String>,
    array: Option<ArrayRequest>,
    refusal: Option<ScriptRefusal>,
}

impl<'a> ScriptReader<'a> {
    fn new(source: &'a ScriptSource<'a>) -> Self {
        Self {
            source,
            version: source.version.unwrap_or(SlurmVersion::DEFAULT),
            settings: ComponentSettings::default(),
            reading: ScriptReading::default(),
            components: Vec::new(),
            job_name: None,
            array: None,
            refusal: None,
        }
    }

    /// Reads all components.
    fn read(&mut self) -> Result<(), ScriptRefusal> {
        let script = self.source.script.unwrap_or_default();
        let lines = lines::read(script, self.source.file_name, self.version);
        self.reading.notes.extend(lines.notes);
        // The request of a file is read even if sbatch refuses the file as a script.
        self.refusal = self.source.script.and_then(lines::refusal).map(|why| (None, why.to_owned()));
        let arguments: Vec<ScriptWord> = self
            .source
            .command_line
            .iter()
            .enumerate()
            .map(|(index, word)| ScriptWord::argument(word, index))
            .collect();
        let segments: Vec<&[ScriptWord]> = arguments.split(|word| word.text == ":").collect();
        let foreign = foreign::read(script, self.version);
        let count = lines.components.len().max(segments.len());
        let empty = ComponentLines::default();
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

    /// Reads a component; options of the command line are listed only with the first component to which they
    /// apply (`is_first`).
    fn component(
        &mut self,
        index: usize,
        component: &ComponentLines,
        foreign: &Foreign,
        arguments: &[ScriptWord],
        is_first: bool,
    ) -> Result<(), ScriptRefusal> {
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
            OptionsEnd::Words => {}
            OptionsEnd::Other(place) => {
                let word = &component.words[place];
                return Err((word.line(), format!("Invalid directive found in batch script: {}", word.text)));
            }
            OptionsEnd::Refused(place, why) => return Err((component.words[place].line(), why)),
        }
        // `sbatch` reads `--ignore-pbs` on the command line before it reads the script.
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
            OptionsEnd::Words => {}
            OptionsEnd::Other(place) => {
                let word = arguments.get(place).map_or("--", |word| &word.text);
                return Err((
                    None,
                    format!("{word:?} is not an option: sbatch would take it for the script"),
                ));
            }
            OptionsEnd::Refused(_, why) => return Err((None, why)),
        }
        self.finish_component()
    }

    /// Applies options of the script or the command line, and lists them if they are new.
    fn apply(&mut self, component: usize, found: &[FoundOption], is_new: bool) -> Result<(), ScriptRefusal> {
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

    /// Returns a note on an option that Slurm ignores or interprets unexpectedly.
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

    /// Applies the environment variables, and lists the options that they set.
    fn environment(&mut self, component: usize) -> Result<(), ScriptRefusal> {
        let environment = self.source.environment;
        for (variable, option) in variables(self.version) {
            let Some(value) = environment.get(variable) else { continue };
            if component == 0 && !is_unset(option, value) {
                self.reading.options.push(ScriptOption {
                    name: option.name().to_owned(),
                    value: variable_value(option, value).map(str::to_owned),
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

    /// Computes the component's request.
    fn finish_component(&mut self) -> Result<(), ScriptRefusal> {
        let settings = &mut self.settings;
        let refusal = settings.refusal().map(|(line, why)| (line, why.to_owned()));
        self.refusal = self.refusal.take().or(refusal);
        add(&mut self.reading.unknown, settings.unknown());
        add(&mut self.reading.site_names, site_names(settings, self.version));
        self.reading.other_resources.extend(other_resources(settings, self.version));
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

    fn finish(mut self, read: Result<(), ScriptRefusal>) -> ScriptReading {
        let said = |(line, why): ScriptRefusal| match line {
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

/// Adds the remarks that a list does not contain yet.
fn add(list: &mut Vec<LineRemark>, remarks: Vec<LineRemark>) {
    for remark in remarks {
        if !list.contains(&remark) {
            list.push(remark);
        }
    }
}

/// Returns the first component with the GPUs of all components; also all components if there are several.
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
mod tests;
