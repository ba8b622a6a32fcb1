//! Job and cluster text to `model`, listing all problems of a file at once.
