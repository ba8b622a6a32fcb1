//! `hsched config show`: prints every setting with its value and source.

use serde_json::{Value, json};

use crate::app::context::{Context, Format};
use crate::commands::cli::{Subcommand, json_text, print};
use crate::settings::SettingRow;
use hsched_ui::{Align, Exit, Failure, Table};

/// Show the settings
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: ConfigAction,
}

#[derive(Debug, clap::Subcommand)]
enum ConfigAction {
    /// Show every setting, its value and its source
    ///
    /// Later sources override earlier ones: built-in defaults, the site's file /etc/hsched/config.toml, your file
    /// ~/.config/hsched/config.toml, `hsched.toml` in the current directory or the nearest parent directory that has
    /// one, environment variables such as `HSCHED_ACCOUNT`, command-line flags.
    Show {
        /// Output format.
        #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
        format: Format,
    },
}

impl Subcommand for Args {
    fn wants_json(&self) -> bool {
        let ConfigAction::Show { format } = self.action;
        format == Format::Json
    }

    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let ConfigAction::Show { format } = self.action;
        let rows = context.settings.rows();
        let text = match format {
            Format::Table => {
                let columns = [("KEY", Align::Left), ("VALUE", Align::Left), ("FROM", Align::Left)];
                let mut table = Table::new(&columns);
                for SettingRow { key, value, origin, .. } in rows {
                    let value = if value.is_empty() { "-".into() } else { value };
                    table.row([key, value, origin.to_string()]);
                }
                // Paths are meant to be copied, so they are not wrapped.
                table.render(usize::MAX, context.terminal.colour())
            }
            Format::Json => {
                let row = |SettingRow { key, value, origin, help }: SettingRow| json!({ "key": key, "value": value, "from": origin.to_string(), "help": help });
                let settings: Vec<Value> = rows.into_iter().map(row).collect();
                json_text(&json!({ "schema": "hsched.config/1", "settings": settings }))?
            }
        };
        print(context, &text)?;
        Ok(Exit::Done)
    }
}
