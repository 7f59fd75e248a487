//! The subcommands, and in `volume` what they share.

mod bench;
mod check;
mod create;
mod ctl;
mod dump;
mod export;
mod import;
mod info;
mod monitor;
mod mount;
mod policy;
mod run;
mod serve;
#[cfg(feature = "top")]
mod top;
mod torture;
mod tune;
mod volume;

use anyhow::Result;
use clap::Subcommand;

use crate::output::Exit;

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    Create(create::Create),
    Info(info::Info),
    Import(import::Import),
    Export(export::Export),
    Mount(mount::Mount),
    Check(check::Check),
    Dump(dump::Dump),
    Run(run::Run),
    Serve(serve::Serve),
    Ctl(ctl::Ctl),
    #[cfg(feature = "top")]
    Top(top::Top),
    Bench(bench::Bench),
    Tune(tune::Tune),
    Torture(torture::Torture),
    #[command(hide = true)]
    TortureWriter(torture::writer::Writer),
}

impl Command {
    /// Does it.
    pub fn run(self) -> Result<Exit> {
        match self {
            Self::Create(command) => command.run(),
            Self::Info(command) => command.run(),
            Self::Import(command) => command.run(),
            Self::Export(command) => command.run(),
            Self::Mount(command) => command.run(),
            Self::Check(command) => command.run(),
            Self::Dump(command) => command.run(),
            Self::Run(command) => command.run(),
            Self::Serve(command) => command.run(),
            Self::Ctl(command) => command.run(),
            #[cfg(feature = "top")]
            Self::Top(command) => command.run(),
            Self::Bench(command) => command.run(),
            Self::Tune(command) => command.run(),
            Self::Torture(command) => command.run(),
            Self::TortureWriter(command) => command.run(),
        }
    }
}
