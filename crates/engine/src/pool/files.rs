//! The file operations of the protocol, behind a trait so that tests can stop it at any write.

/// Small files below the folder of a pool; paths are relative to it.
pub trait PoolFiles {
    type Error;

    /// Returns a file's text; `None` if there is none.
    ///
    /// # Errors
    /// If it cannot be read.
    fn read(&self, path: &str) -> Result<Option<String>, Self::Error>;

    /// Replaces a file as a whole.
    ///
    /// # Errors
    /// If it cannot be written.
    fn replace(&self, path: &str, text: &str) -> Result<(), Self::Error>;

    /// Creates a file atomically, by a link; returns true if it did, false if the file exists.
    ///
    /// # Errors
    /// If it cannot be written.
    fn claim(&self, path: &str, text: &str) -> Result<bool, Self::Error>;

    /// Returns the sorted names in a folder; empty if the folder does not exist.
    ///
    /// # Errors
    /// If it cannot be read.
    fn list(&self, folder: &str) -> Result<Vec<String>, Self::Error>;

    /// Returns the error for a file with unexpected content.
    fn damaged(&self, path: &str, what: &str) -> Self::Error;
}
