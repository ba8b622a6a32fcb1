//! The only writer to the terminal: data on stdout, everything else on stderr.

mod board;
mod compare;
mod curve;
mod curve_svg;
mod explain;
mod explain_json;
mod gpus;
mod inventory;
mod lateness;
mod learnt;
mod output;
mod pareto;
mod plan;
mod progress;
mod quantity;
mod results;
mod review;
mod script_status;
mod simulation;
mod simulation_json;
mod status;
mod status_details;
mod status_folds;
mod status_json;
mod story;
mod story_scripts;
mod story_switch;
mod story_words;
mod sweep;
mod table;
mod terminal;
mod text;
mod when;
mod when_script;
mod why;

pub use self::board::Board;
pub use self::compare::{Compared, Made, compare_table};
pub use self::curve::{CurvePicture, curve_text};
pub use self::curve_svg::curve_svg;
pub use self::explain::Explained;
pub use self::gpus::{gpu_details, gpu_json, gpu_table, recognised_json};
pub use self::inventory::{inventory_json, inventory_table};
pub use self::output::{create_output, make_folder, rewrite_output, write_output};
pub use self::pareto::{ParetoRow, pareto_text};
pub use self::plan::plan_table;
pub use self::progress::ProgressLine;
pub use self::quantity::{date, duration, moment};
pub use self::results::{
    RESULT_COLUMNS, ResultRow, RowMetric, parameter_order, results_csv, results_json, results_table,
};
pub use self::review::{Reviewed, review_text};
pub use self::script_status::{part_word, script_details, script_json, scripts_table};
pub use self::simulation::{Cell, Simulated, simulation_table};
pub use self::simulation_json::{event_json, simulation_csv, simulation_json, sweep_json};
pub use self::status::{Best, Files, JobSummary, Metrics, bests, status_table, unfolded_status_table};
pub use self::status_details::status_details;
pub use self::status_json::status_json;
pub use self::story::merged as merged_story;
pub use self::story::{Story, StoryLine, Topic};
pub use self::sweep::{idle_seed, sweep_table};
pub use self::table::{Align, Table};
pub use self::terminal::{Terminal, TerminalKind};
pub use self::text::wrap;
pub use self::when::{
    When, WhenJob, WhenRow, about as rough_duration, start as start_estimate, when_legend, when_table,
};
pub use self::when_script::{DiffLine, ScriptRow, script_diff, script_text};
pub use self::why::{WhyAdvice, WhyJob, WhyLine, why_list, why_text};
