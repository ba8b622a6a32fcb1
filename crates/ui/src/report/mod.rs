//! Reports: the results of a command as data, and as a page, pictures and tables for people.

mod anonymise;
mod chart;
mod data;
mod facts;
mod figures;
mod gantt;
mod page;
mod requests;
mod simulated;
mod steps;
mod tables;
mod timeline;

pub use self::anonymise::anonymised;
pub use self::data::{
    PolicyRow, Report, ReportEpochs, ReportJob, ReportKind, ReportOption, ReportRun, ReportSpeed,
    ReportSweep, ReportWait, Span, SweepCurve, SweepPoint, TimeOrigin,
};
pub use self::facts::facts;
pub use self::figures::figures;
pub use self::page::page;
pub use self::simulated::{Recorder, simulation_report, sweep_points};
pub use self::steps::Counter;
pub use self::tables::tables;
pub use self::timeline::{GpuHolding, Timeline};
