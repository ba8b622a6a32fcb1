//! Files of nets for `mlf-rl` (schema `hsched.policy-net/1`), and the flag that names one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::app::input;
use crate::error::Failure;
use crate::exit::Exit;
use crate::policy::{self, FEATURES, Net};

/// The schema that this version writes and reads.
const SCHEMA: &str = "hsched.policy-net/1";

/// The net of the policy `mlf-rl`.
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub(crate) struct NetArgs {
    /// mlf-rl: file of the neural network, as `hsched train-policy` writes it.
    #[arg(long, value_name = "FILE", help_heading = "Policy mlf-rl")]
    network: Option<PathBuf>,
}

impl NetArgs {
    /// Returns the net, if there is one.
    ///
    /// # Errors
    /// When one of these policies is `mlf-rl` and there is none, or the file is none.
    pub(crate) fn net<'a>(
        &self,
        mut policies: impl Iterator<Item = &'a str>,
    ) -> Result<Option<Arc<Net>>, Failure> {
        match &self.network {
            Some(path) => Ok(Some(Arc::new(read(path)?))),
            None if policies.any(|name| name == policy::MLF_RL) => {
                let failure = Failure::new(Exit::Usage, "mlf-rl needs a trained network");
                Err(failure.hint("train one with hsched train-policy and pass it with --network FILE"))
            }
            None => Ok(None),
        }
    }

    /// Returns the flags that say it.
    pub(crate) fn words(&self) -> Vec<String> {
        let path = self.network.iter().map(|path| path.display().to_string());
        path.map(|path| format!("--network {}", shell_words::quote(&path))).collect()
    }
}

/// A net and what its inputs are.
#[derive(Serialize, Deserialize)]
struct NetFile {
    schema: String,
    features: Vec<String>,
    #[serde(flatten)]
    net: Net,
}

/// Returns a net's file.
///
/// # Errors
/// When a weight is not finite.
pub(crate) fn text(net: &Net) -> Result<String, Failure> {
    let features = FEATURES.map(str::to_owned).to_vec();
    let file = NetFile { schema: SCHEMA.to_owned(), features, net: net.clone() };
    let json = serde_json::to_string(&file).map_err(|error| Failure::from_error(Exit::Internal, &error))?;
    Ok(json + "\n")
}

/// Reads a net.
///
/// # Errors
/// When the file cannot be read, or is no net for these features.
fn read(path: &Path) -> Result<Net, Failure> {
    let wrong = |what: &str| {
        let failure = Failure::new(Exit::BadInput, format!("{}: {what}", input::name(path)));
        failure.hint("hsched train-policy writes such files")
    };
    let file: NetFile = serde_json::from_str(&input::text(path)?)
        .map_err(|error| wrong(&format!("not a network file: {error}")))?;
    if file.schema != SCHEMA {
        return Err(wrong(&format!("its schema is {:?}; this version reads {SCHEMA:?}", file.schema)));
    }
    if file.features != FEATURES {
        return Err(wrong("its input features differ from those of this version"));
    }
    if !file.net.takes(FEATURES.len()) {
        return Err(wrong("its weights do not match its layer sizes, or are not finite numbers"));
    }
    Ok(file.net)
}
