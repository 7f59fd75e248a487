//! Why a job file was refused, in the form compilers use: `file:line: sentence`.

use std::fmt;

/// A job file, or one of its options, cannot be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobError {
    file: String,
    line: Option<u32>,
    message: String,
}

impl JobError {
    /// An error about `file`, at `line` (1-based) where one can be named.
    pub fn new(file: &str, line: Option<u32>, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, message: message.into() }
    }

    /// The line (1-based) that is to blame.
    pub fn line(&self) -> Option<u32> {
        self.line
    }

    /// The sentence, without file and line.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

impl std::error::Error for JobError {}
