//! Reading and display of the values of single keys.

use std::path::Path;

use super::super::decided::{ColorMode, Settings};
use super::super::forbidden::Feature;
use super::super::given::TypedValue;
use hsched_model::formats::{ValueError, quoted};
use hsched_model::{ErrorId, Estimates, GpuType, NodeName, hostlist};

pub(super) fn set_node_rate(settings: &mut Settings, given: &TypedValue<'_>) -> Result<(), ValueError> {
    let names = node_names(given.item)?;
    let rate = given.rate()?;
    settings.node_expressions.retain(|(nodes, _)| nodes != given.item);
    settings.node_expressions.push((given.item.to_owned(), rate));
    settings.node_rates.extend(names.into_iter().map(|name| (name, rate)));
    Ok(())
}

/// Returns the nodes of a hostlist.
pub(in crate::settings) fn node_names(text: &str) -> Result<Vec<NodeName>, ValueError> {
    let names =
        hostlist::expand(text).map_err(|error| ValueError::new(error.to_string()).id(ErrorId::NameFormat))?;
    let name = |name: &String| {
        NodeName::new(name).map_err(|error| ValueError::new(error.to_string()).id(ErrorId::NameFormat))
    };
    names.iter().map(name).collect()
}

pub(super) fn set_capacity(settings: &mut Settings, given: &TypedValue<'_>) -> Result<(), ValueError> {
    let gpu_type = GpuType::new(given.item).ok_or_else(|| {
        ValueError::new(format!("{} is not a GPU type", quoted(given.item))).id(ErrorId::GpuType)
    })?;
    settings.capacity.insert(gpu_type, given.count(0..=1_000_000)?);
    Ok(())
}

pub(super) fn set_forbidden(settings: &mut Settings, given: &TypedValue<'_>) -> Result<(), ValueError> {
    let feature = |word: &String| {
        let found = Feature::NAMES.iter().find(|(name, _)| name == word).map(|(_, feature)| *feature);
        found.ok_or_else(|| {
            ValueError::new(format!("{} is not a feature", quoted(word)))
                .id(ErrorId::UnknownWord)
                .hint("write race, together or queue")
        })
    };
    settings.forbidden = given.words()?.iter().map(feature).collect::<Result<_, _>>()?;
    Ok(())
}

pub(super) fn set_untyped(settings: &mut Settings, given: &TypedValue<'_>) -> Result<(), ValueError> {
    let text = given.text()?;
    let gpu_type = GpuType::new(text).ok_or_else(|| given.not("a GPU type, such as v100"))?;
    settings.untyped_gpus.insert(given.item.to_owned(), gpu_type);
    Ok(())
}

pub(super) fn set_color(settings: &mut Settings, given: &TypedValue<'_>) -> Result<(), ValueError> {
    let text = given.text()?;
    let mode = ColorMode::ALL.into_iter().find(|mode| mode.name() == text);
    settings.color = mode.ok_or_else(|| given.not("auto, always or never"))?;
    Ok(())
}

pub(super) fn set_estimate(settings: &mut Settings, given: &TypedValue<'_>) -> Result<(), ValueError> {
    let text = given.text()?;
    let known = Estimates::NAMES.iter().find(|(name, _)| *name == text);
    settings.jobs.estimate = known.map(|&(_, which)| which).ok_or_else(|| given.not("off, learnt or all"))?;
    Ok(())
}

pub(super) fn one(text: &str) -> Vec<(String, String)> {
    vec![(String::new(), text.to_owned())]
}

pub(super) fn list_text(items: &[String]) -> String {
    toml::Value::from(items.to_vec()).to_string()
}

pub(super) fn path_text(path: Option<&Path>) -> String {
    path.map(|path| path.display().to_string()).unwrap_or_default()
}
