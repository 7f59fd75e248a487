//! What the command says to programs: exit status and JSON.
//!
//! The contract: the exit status is one of [`Exit`]; with `--json` standard output holds exactly one JSON object, whose
//! first field is `"version"`. Names in it are stable within a version; sizes are bytes and times nanoseconds, as
//! integers; checksums are hexadecimal strings. Everything for people goes to standard error when standard output is
//! taken.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use oxblock::error::{Error, ErrorKind};
use oxblock_fio::JobError;
use serde::Serialize;

/// The version of every JSON report.
const VERSION: u32 = 1;

/// How the command ends. Usage errors (2) come from the argument parser and from [`Usage`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// All well.
    Fine,
    /// The operation failed.
    Failed,
    /// The arguments make no sense.
    Usage,
    /// The operation went through, and found damage.
    Damage,
}

impl Exit {
    /// The status for a failed command.
    pub fn of_error(error: &anyhow::Error) -> Self {
        if error.is::<Usage>() {
            return Self::Usage;
        }
        // One with a line is about what the line asks for; the others are about how the run went.
        if error.downcast_ref::<JobError>().is_some_and(|error| error.line().is_some()) {
            return Self::Usage;
        }
        match error.downcast_ref::<Error>().map(Error::kind) {
            Some(ErrorKind::Checksum | ErrorKind::Corrupt) => Self::Damage,
            _ => Self::Failed,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Fine => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Damage => 3,
        })
    }
}

/// Arguments that are well-formed but make no sense together.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// A report with its version in front.
#[derive(Serialize)]
struct Versioned<'a, T: Serialize> {
    version: u32,
    #[serde(flatten)]
    report: &'a T,
}

/// `report` as indented JSON with the version field.
pub fn json(report: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string_pretty(&Versioned { version: VERSION, report })?)
}

/// A time as reports have it.
pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Prints `report` as JSON.
pub fn print_json(report: &impl Serialize) -> Result<()> {
    print(&json(report)?)
}

/// Prints one line, or several, to standard output. A reader that has gone away, such as `head`, has seen what it wanted:
/// the work is done all the same, and the exit status says how it went.
pub fn print(text: &str) -> Result<()> {
    print_on(text).map(|_| ())
}

/// The same for work that is done for its reader alone, and goes on until that one has gone away: false when it has.
pub fn print_on(text: &str) -> Result<bool> {
    let mut stdout = std::io::stdout().lock();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        printed => printed.map(|()| true).context("write to standard output"),
    }
}

/// Says something to the user beside the result: a notice, a damaged block.
pub fn note(text: &str) {
    // Standard error is the last resort: there is nowhere to report that it failed.
    writeln!(std::io::stderr().lock(), "oxblock: {text}").ok();
}

/// How a server ends that has met `damaged` bad blocks: with the first of `errors`, which are in the order of their weight. The
/// others are told before it, and so is the damage.
pub fn ended(errors: impl IntoIterator<Item = anyhow::Error>, damaged: u64) -> Result<Exit> {
    if damaged > 0 {
        note(&format!("{damaged} times a block failed verification; run 'oxblock check'"));
    }
    let mut errors = errors.into_iter();
    let gravest = errors.next();
    errors.for_each(|error| note(&format!("{error:#}")));
    match gravest {
        Some(error) => Err(error),
        None if damaged > 0 => Ok(Exit::Damage),
        None => Ok(Exit::Fine),
    }
}

/// Prints rows of a name and a value, the values in one column.
pub fn print_table(rows: &[(&str, String)]) -> Result<()> {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines: Vec<String> =
        rows.iter().map(|(name, value)| format!("{name:<width$}  {value}")).collect();
    print(&lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Report {
        bytes: u64,
        name: &'static str,
    }

    #[test]
    fn json_starts_with_its_version() {
        let text = json(&Report { bytes: u64::MAX, name: "x" }).unwrap();
        assert!(text.starts_with("{\n  \"version\": 1,"), "{text}");
        assert!(text.contains("\"bytes\": 18446744073709551615"), "{text}");
    }

    #[test]
    fn exit_status_follows_from_the_error() {
        let damage = Error::new(ErrorKind::Corrupt, "the superblock is damaged");
        let busy = Error::new(ErrorKind::Busy, "in use");
        assert_eq!(Exit::of_error(&damage.clone().into()), Exit::Damage);
        assert_eq!(Exit::of_error(&anyhow::Error::from(damage).context("open")), Exit::Damage);
        assert_eq!(Exit::of_error(&busy.into()), Exit::Failed);
        assert_eq!(Exit::of_error(&Usage("no".into()).into()), Exit::Usage);
    }
}
