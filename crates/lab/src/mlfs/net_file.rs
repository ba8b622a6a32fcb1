//! Files of networks for `mlf-rl` (schema `hsched.policy-net/1`).

use serde::{Deserialize, Serialize};

use crate::mlfs::{FEATURES, Net};

/// The schema that this version writes and reads.
const SCHEMA: &str = "hsched.policy-net/1";

/// A network and the names of its inputs.
#[derive(Serialize, Deserialize)]
struct NetFile {
    schema: String,
    features: Vec<String>,
    #[serde(flatten)]
    net: Net,
}

/// Returns the file of a network.
///
/// # Errors
/// If a weight is not a finite number, which JSON cannot represent.
pub fn text_of(net: &Net) -> Result<String, serde_json::Error> {
    if !net.takes(FEATURES.len()) {
        return Err(serde::ser::Error::custom("the weights of the network are not finite numbers"));
    }
    let features = FEATURES.map(str::to_owned).to_vec();
    let file = NetFile { schema: SCHEMA.to_owned(), features, net: net.clone() };
    Ok(serde_json::to_string(&file)? + "\n")
}

/// Parses the file of a network.
///
/// # Errors
/// If the text is not a valid network for these features; the error names the problem.
pub(super) fn net_of(text: &str) -> Result<Net, String> {
    let file: NetFile = serde_json::from_str(text).map_err(|error| format!("not a network file: {error}"))?;
    if file.schema != SCHEMA {
        return Err(format!("its schema is {:?}; this version reads {SCHEMA:?}", file.schema));
    }
    if file.features != FEATURES {
        return Err("its input features differ from those of this version".to_owned());
    }
    if !file.net.takes(FEATURES.len()) {
        return Err("its weights do not match its layer sizes, or are not finite numbers".to_owned());
    }
    Ok(file.net)
}
