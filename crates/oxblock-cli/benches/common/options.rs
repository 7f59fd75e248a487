//! What comparisons are asked to do: the same for all of them.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

/// The options.
pub struct Options {
    /// Folders to measure in.
    pub dirs: Vec<PathBuf>,
    /// How often each side runs each job.
    pub rounds: usize,
    /// Seconds of one run.
    pub seconds: f64,
    /// Only the lines that contain this.
    pub only: Option<String>,
}

impl Options {
    /// Those of the command line.
    pub fn parse() -> Result<Self> {
        let mut options = Self { dirs: Vec::new(), rounds: 5, seconds: 1.0, only: None };
        let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
        while let Some(arg) = args.next() {
            let value = args.next().with_context(|| format!("{arg} needs a value"))?;
            match arg.as_str() {
                "--dir" => options.dirs.push(value.into()),
                "--rounds" => options.rounds = value.parse()?,
                "--seconds" => options.seconds = value.parse()?,
                "--only" => options.only = Some(value),
                other => bail!("unknown option {other}"),
            }
        }
        if options.dirs.is_empty() {
            options.dirs = vec!["/dev/shm".into(), std::env::current_dir()?];
        }
        Ok(options)
    }
}
