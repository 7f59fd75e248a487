//! The `oxblock` command.
//!
//! One file a subcommand in `commands/`; each is a struct of arguments with a `run` that returns how the command ends.
//! Errors come here, become one sentence on standard error, and decide the exit status: 0 fine, 1 failed, 2 usage,
//! 3 damage.
#![forbid(unsafe_code)]

mod commands;
mod engine;
mod interrupt;
mod output;
mod progress;
mod report_file;
mod same;
mod size;
mod transfer;

use std::process::ExitCode;

use clap::Parser;

use crate::commands::Command;
use crate::output::{Exit, note};

/// A checksummed, crash-consistent block volume at the speed of direct I/O.
///
/// A volume lives on devices: files or block devices. Every command that takes devices takes all devices of the volume.
/// Sizes are bytes, or numbers with K, M, G, T, P or E (powers of 1024). Exit status: 0 all well, 1 the operation failed,
/// 2 the arguments make no sense, 3 damage was found.
#[derive(Parser)]
#[command(name = "oxblock", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let exit = cli.command.run().unwrap_or_else(|error| {
        note(&format!("{error:#}"));
        Exit::of_error(&error)
    });
    exit.into()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_well_defined() {
        Cli::command().debug_assert();
    }

    fn parses(line: &str) -> bool {
        Cli::try_parse_from(line.split_whitespace()).is_ok()
    }

    #[test]
    fn documented_command_lines_parse() {
        for line in [
            "oxblock create disk.ox --size 1G",
            "oxblock create a b --size 1.5T --profile raid1 --csum xxh3 --label L --lanes 2 --force",
            "oxblock create /dev/sdx --preallocate --json",
            "oxblock info a b --json",
            "oxblock import image.raw disk.ox",
            "oxblock import - a b",
            "oxblock export a b image.raw --length 1000 --force",
            "oxblock export disk.ox -",
            "oxblock mount disk.ox /mnt/disk",
            "oxblock mount a b file --read-only --allow-other --background --map-cache 1M",
            "oxblock check disk.ox --json",
            "oxblock dump superblock disk.ox",
            "oxblock dump segment 3 disk.ox",
            "oxblock dump record 1048576 a b",
            "oxblock dump map 77 disk.ox",
            "oxblock run job.fio disk.ox --output-format json",
            "oxblock run job.fio disk.ox --target raw",
            "oxblock run job.fio disk.ox --stages --trace trace.json",
            "oxblock serve disk.ox",
            "oxblock serve a --listen unix:/run/ox.sock --listen tcp:127.0.0.1:0 --export disk --read-only",
            "oxblock serve a --listen tcp:0.0.0.0:10809 --allow-plaintext --pid-file p --ready-fd 3 --trace t.json",
            "oxblock bench",
            "oxblock info disk.ox --policy submit=inline,complete=issuer,bio_max_bytes=4M,crc=table",
            "oxblock tune disk.ox",
            "oxblock tune disk.ox --apply --json",
            "oxblock tune disk.ox --reset",
            "oxblock bench crc --quick --json",
            "oxblock dump segment 3 disk.ox --map-cache 1M --device-call ring",
            "oxblock info disk.ox --map-cache 256K",
            "oxblock bench all --device /dev/sdx --force --rounds 3 --seconds 0.5 --format html",
            "oxblock torture disk.ox",
            "oxblock torture /dev/sdx --size 1G --minutes 0.5 --kills 100 --seed 7 --force --json",
        ] {
            assert!(parses(line), "{line}");
        }
    }

    #[test]
    fn nonsense_does_not_parse() {
        for line in [
            "oxblock",
            "oxblock create",
            "oxblock create a --size 1KB",
            "oxblock create a --csum md5",
            "oxblock create a --profile raid7",
            "oxblock create a --lanes 0",
            "oxblock export disk.ox",
            "oxblock mount disk.ox",
            "oxblock mount disk.ox /mnt --background --detached",
            "oxblock dump segment disk.ox",
            "oxblock bench nothing",
            "oxblock bench --dir a --device b",
            "oxblock bench --force",
            "oxblock bench --seconds 0",
            "oxblock bench --json --format text",
            "oxblock run job.fio",
            "oxblock info disk.ox --map-cache 252K",
            "oxblock create a --size 1.1K",
            "oxblock info disk.ox --policy colour=red",
            "oxblock import a disk.ox --policy submit=never",
            "oxblock tune disk.ox --apply --reset",
            "oxblock serve",
            "oxblock serve a --listen /run/x",
            "oxblock serve a --ready-fd -1",
            "oxblock torture",
            "oxblock torture a b",
            "oxblock torture a --kills 0",
            "oxblock torture a --minutes 0",
        ] {
            assert!(!parses(line), "{line}");
        }
    }
}
