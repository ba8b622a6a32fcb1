//! What the protocol needs of a file system, so that tests can stop it at any write.

/// Small files below the folder of a pool; paths are relative to it.
pub trait PoolFiles {
    type Error;

    /// Returns a file's text; `None` if there is none.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read(&self, path: &str) -> Result<Option<String>, Self::Error>;

    /// Replaces a file as a whole.
    ///
    /// # Errors
    /// When it cannot be written.
    fn replace(&self, path: &str, text: &str) -> Result<(), Self::Error>;

    /// Creates a file as a whole, by a link; returns whether it did, or false if the file exists.
    ///
    /// # Errors
    /// When it cannot be written.
    fn claim(&self, path: &str, text: &str) -> Result<bool, Self::Error>;

    /// Returns the names in a folder, sorted; none if there is no folder.
    ///
    /// # Errors
    /// When it cannot be read.
    fn list(&self, folder: &str) -> Result<Vec<String>, Self::Error>;

    /// Returns the error of a file that holds no such thing.
    fn damaged(&self, path: &str, what: &str) -> Self::Error;
}
