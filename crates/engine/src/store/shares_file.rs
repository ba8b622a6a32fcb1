//! The file of new shares beside a submission's reports, in which its ranks look for them.

use serde_json::json;

use crate::store::files::replace;
use crate::store::{StateDir, StateError};
use crate::{NewShares, SubmissionKey};

impl StateDir {
    /// Writes new shares atomically where the ranks of a running submission look for them (`HSCHED_SHARES`).
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_shares(&self, of: &SubmissionKey, shares: &NewShares) -> Result<(), StateError> {
        let folder = self.make_report_folder(&of.run, &of.name())?;
        let content = json!({
            "schema": "hsched.shares/1", "run": of.run, "version": shares.version, "batches": shares.by_replica(&shares.batches),
            "micro": shares.by_replica(&shares.micro),
        });
        replace(&folder.join("shares.json"), format!("{content}\n"), None)
    }
}
