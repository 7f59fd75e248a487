//! `oxblock dump`: structures on the media, decoded.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::engine::{self, Part};
use crate::output::{Exit, print_json, print_table};

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
    Superblock {
        /// Devices of the volume
        #[arg(required = true, value_name = "DEVICE")]
        devices: Vec<PathBuf>,
    },
    /// The newest checkpoint: map root, segment table, reserve list
    Checkpoint {
        /// Devices of the volume
        #[arg(required = true, value_name = "DEVICE")]
        devices: Vec<PathBuf>,
    },
    /// One segment: its state and its records
    Segment {
        /// Number of the segment
        number: u64,
        /// Devices of the volume
        #[arg(required = true, value_name = "DEVICE")]
        devices: Vec<PathBuf>,
    },
    /// One record: its header and its entries
    Record {
        /// Address of the record, in blocks of 4096 bytes
        address: u64,
        /// Devices of the volume
        #[arg(required = true, value_name = "DEVICE")]
        devices: Vec<PathBuf>,
    },
    /// The path through the map to one logical block
    Map {
        /// Logical block, in units of 4096 bytes
        lba: u64,
        /// Devices of the volume
        #[arg(required = true, value_name = "DEVICE")]
        devices: Vec<PathBuf>,
    },
}

impl Dump {
    pub fn run(self) -> Result<Exit> {
        let (part, devices) = match self.what {
            What::Superblock { devices } => (Part::Superblock, devices),
            What::Checkpoint { devices } => (Part::Checkpoint, devices),
            What::Segment { number, devices } => (Part::Segment(number), devices),
            What::Record { address, devices } => (Part::Record(address), devices),
            What::Map { lba, devices } => (Part::Map(lba), devices),
        };
        let fields = engine::dump(&devices, part)?;
        if self.json {
            let object: serde_json::Map<String, serde_json::Value> =
                fields.into_iter().map(|(name, value)| (name, value.into())).collect();
            print_json(&object)?;
        } else {
            let rows: Vec<(&str, String)> =
                fields.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
            print_table(&rows)?;
        }
        Ok(Exit::Fine)
    }
}
