//! Writes reports: the page, charts and tables requested by flags of `simulate`, `plan`, `when` and
//! `history`.

use std::path::{Path, PathBuf};

use hsched_ui::report::{Report, anonymised, facts, figures, page, tables};
use hsched_ui::{Exit, Failure, make_folder, write_output};

/// The flags that request a report.
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
#[command(next_help_heading = "Report")]
pub(crate) struct ReportArgs {
    /// Also write a page with charts and tables to this file, as HTML. It loads and sends nothing.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Also write charts for papers into this directory, as SVG.
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Also write the numbers behind the charts into this directory, as CSV.
    #[arg(long, value_name = "DIR")]
    csv: Option<PathBuf>,
    /// Replace all names by numbers, and leave out dates, notes and paths, in what --report, --svg and --csv write.
    #[arg(long)]
    anonymise: bool,
}

impl ReportArgs {
    /// Returns whether a report was requested.
    ///
    /// # Errors
    /// If `--anonymise` is given without a report.
    pub(crate) fn is_given(&self) -> Result<bool, Failure> {
        let is_given = self.report.is_some() || self.svg.is_some() || self.csv.is_some();
        if self.anonymise && !is_given {
            return Err(Failure::new(Exit::Usage, "--anonymise needs --report, --svg or --csv"));
        }
        Ok(is_given)
    }

    /// Writes the requested files, each atomically.
    ///
    /// # Errors
    /// If there are no jobs to report, or a file cannot be written.
    pub(crate) fn write(&self, mut report: Report) -> Result<(), Failure> {
        if report.jobs.is_empty() && report.options.is_empty() && report.points.is_empty() {
            let failure = Failure::new(Exit::Failed, "there are no jobs to report, so no report was written");
            return Err(failure.hint("hsched submit, hsched add and hsched run add jobs"));
        }
        if self.anonymise {
            report = anonymised(report);
        }
        report.facts = facts(&report);
        let fault = |error: &dyn std::fmt::Display| Failure::new(Exit::Internal, error.to_string());
        if let Some(path) = &self.report {
            write(path, &page(&report).map_err(|error| fault(&error))?)?;
        }
        if let Some(folder) = &self.svg {
            for (name, svg) in figures(&report) {
                write_in(folder, &format!("{name}.svg"), &svg)?;
            }
        }
        if let Some(folder) = &self.csv {
            for (name, csv) in tables(&report).map_err(|error| fault(&error))? {
                write_in(folder, &format!("{name}.csv"), &csv)?;
            }
        }
        Ok(())
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    write_output(path, text)
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot write {}: {error}", path.display())))
}

fn write_in(folder: &Path, name: &str, text: &str) -> Result<(), Failure> {
    make_folder(folder).map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot make the directory {}: {error}", folder.display()))
    })?;
    write(&folder.join(name), text)
}
