//! The only writer to the terminal: data on stdout, everything else on stderr.

mod compare;
mod explain;
mod explain_json;
mod gpus;
mod inventory;
mod learnt;
mod output;
mod plan;
mod progress;
mod quantity;
mod status;
mod status_details;
mod status_json;
mod story;
mod table;
mod terminal;
mod text;

pub use self::compare::{Compared, Made, compare_table};
pub use self::explain::Explained;
pub use self::gpus::{gpu_details, gpu_json, gpu_table, recognised_json};
pub use self::inventory::{inventory_json, inventory_table};
pub use self::output::{create_output, make_folder, write_output};
pub use self::plan::plan_table;
pub use self::progress::Progress;
pub use self::quantity::duration;
pub use self::status::{Files, Standing, status_table};
pub use self::status_details::status_details;
pub use self::status_json::status_json;
pub use self::story::merged as merged_story;
pub use self::story::{Story, StoryLine, Topic};
pub use self::table::{Align, Table};
pub use self::terminal::{Terminal, TerminalKind};
pub use self::text::wrap;
