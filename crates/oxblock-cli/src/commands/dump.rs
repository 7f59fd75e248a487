//! `oxblock dump`: structures on the media, decoded.

use anyhow::Result;
use clap::{Args, Subcommand};
use oxblock::volume::{Fields, Part, Value, dump};

use super::volume::VolumeArgs;
use crate::output::{Exit, print, print_json};

/// Show a structure on the media, decoded as docs/format.md names it
#[derive(Args)]
pub struct Dump {
    #[command(subcommand)]
    what: What,

    /// Report as JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum What {
    /// The superblock in force, and how its copies agree
    Superblock(VolumeArgs),
    /// The newest checkpoint: map root, segment table, reserve list
    Checkpoint(VolumeArgs),
    /// One segment: its state and its records
    Segment {
        /// Number of the segment
        number: u64,
        #[command(flatten)]
        volume: VolumeArgs,
    },
    /// One record: its header and its entries
    Record {
        /// Address of the record, in blocks of 4096 bytes
        address: u64,
        #[command(flatten)]
        volume: VolumeArgs,
    },
    /// The path through the map to one logical block
    Map {
        /// Logical block, in units of 4096 bytes
        lba: u64,
        #[command(flatten)]
        volume: VolumeArgs,
    },
}

impl Dump {
    pub fn run(self) -> Result<Exit> {
        let (part, volume) = match self.what {
            What::Superblock(volume) => (Part::Superblock, volume),
            What::Checkpoint(volume) => (Part::Checkpoint, volume),
            What::Segment { number, volume } => (Part::Segment(number), volume),
            What::Record { address, volume } => (Part::Record(address), volume),
            What::Map { lba, volume } => (Part::Map(lba), volume),
        };
        volume.refuse_policy("dump does nothing that a policy decides")?;
        let options = volume.to_inspect("dump")?;
        let fields = dump(volume.paths(), part, &options)?;
        if self.json {
            print_json(&object(&fields))?;
        } else {
            let mut lines = Vec::new();
            group(&fields, 0, &mut lines);
            print(&lines.join("\n"))?;
        }
        Ok(Exit::Fine)
    }
}

fn object(fields: &Fields) -> serde_json::Value {
    fields.iter().map(|(name, value)| (name.clone(), json(value))).collect()
}

fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::Number(number) => (*number).into(),
        Value::Flag(flag) => (*flag).into(),
        Value::Text(text) => text.as_str().into(),
        Value::Group(fields) => object(fields),
        Value::List(list) => list.iter().map(json).collect(),
        Value::None => serde_json::Value::Null,
    }
}

/// A value that fits on the line of its name.
fn simple(value: &Value) -> Option<String> {
    Some(match value {
        Value::Number(number) => number.to_string(),
        Value::Flag(flag) => if *flag { "yes" } else { "no" }.to_owned(),
        Value::Text(text) if text.is_empty() => "-".to_owned(),
        Value::Text(text) => text.clone(),
        Value::None => "-".to_owned(),
        Value::List(list) if list.iter().all(|value| matches!(value, Value::Number(_))) => {
            numbers(list)
        }
        Value::Group(_) | Value::List(_) => return None,
    })
}

/// Numbers in a row, runs of consecutive ones as a range.
fn numbers(list: &[Value]) -> String {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for value in list {
        let Value::Number(number) = value else { continue };
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*number) => *last = *number,
            _ => runs.push((*number, *number)),
        }
    }
    let run = |(first, last): &(u64, u64)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    match runs.is_empty() {
        true => "-".to_owned(),
        false => runs.iter().map(run).collect::<Vec<_>>().join(" "),
    }
}

/// Fields one to a line, values in one column, what is inside them indented.
fn group(fields: &Fields, indent: usize, lines: &mut Vec<String>) {
    let plain = fields.iter().filter(|(_, value)| simple(value).is_some());
    let width = plain.map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in fields {
        match (simple(value), value) {
            (Some(text), _) => lines.push(format!("{:indent$}{name:<width$}  {text}", "")),
            (None, Value::Group(inner)) => {
                lines.push(format!("{:indent$}{name}:", ""));
                group(inner, indent + 2, lines);
            }
            (None, Value::List(list)) => {
                lines.push(format!("{:indent$}{name}:", ""));
                table(list, indent + 2, lines);
            }
            (None, _) => {}
        }
    }
}

/// A list: a table with one line each where the entries are flat, else one block each.
fn table(list: &[Value], indent: usize, lines: &mut Vec<String>) {
    let rows: Option<Vec<Vec<String>>> = list.iter().map(row).collect();
    let Some(rows) = rows else {
        for value in list {
            match value {
                Value::Group(fields) => group(fields, indent, lines),
                other => lines.extend(simple(other).map(|text| format!("{:indent$}{text}", ""))),
            }
        }
        return;
    };
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(String::len).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        lines.push(format!("{:indent$}{}", "", line.trim_end()));
    }
}

/// `name value` of each field, when all of them are simple.
fn row(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Group(fields) => {
            fields.iter().map(|(name, value)| Some(format!("{name} {}", simple(value)?))).collect()
        }
        other => Some(vec![simple(other)?]),
    }
}
