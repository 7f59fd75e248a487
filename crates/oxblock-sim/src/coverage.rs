//! What a soak has reached: a trap that never fires proves nothing.

use std::fmt;

macro_rules! coverage {
    ($($(#[doc = $doc:literal])* $name:ident: $label:literal),* $(,)?) => {
        /// Counts of events, summed over runs.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Coverage {
            $($(#[doc = $doc])* pub $name: u64,)*
        }

        impl Coverage {
            /// Adds the counts of another run.
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }

            /// Labels of what never happened.
            pub fn missing(&self) -> Vec<&'static str> {
                let mut missing = Vec::new();
                $(if self.$name == 0 { missing.push($label); })*
                missing
            }
        }

        impl fmt::Display for Coverage {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $(writeln!(f, "  {:<44}{:>14}", $label, self.$name)?;)*
                Ok(())
            }
        }
    };
}

coverage! {
    /// Runs.
    runs: "runs",
    /// Lives: openings for use.
    lives: "lives",
    /// Lives on a device whose small reads are cheap.
    cheap_reads: "lives on a device with cheap reads",
    /// Lives on a device that works beside the engine.
    works_beside: "lives on a device that works beside",
    /// Requests completed.
    requests: "requests",
    /// Device operations.
    device_ops: "device operations",
    /// Blocks compared with the model.
    blocks_checked: "blocks checked",
    /// Power cuts of any kind.
    cuts: "power cuts",
    /// While requests were under way.
    cuts_busy: "power cuts with requests under way",
    /// While a checkpoint was under way.
    cuts_in_checkpoint: "power cuts during a checkpoint",
    /// While the volume was being opened.
    cuts_in_recovery: "power cuts during recovery",
    /// While the volume was being closed.
    cuts_in_close: "power cuts during close",
    /// The engine died, the device did not.
    kills: "engine killed, device alive",
    /// Clean closes.
    closes: "clean closes",
    /// Openings that changed nothing.
    read_only: "read-only openings",
    /// Openings that replayed records.
    recoveries: "recoveries that replayed records",
    /// Records replayed.
    replayed: "records replayed",
    /// Records that were there in part and were discarded.
    torn: "torn records discarded",
    /// Writes that a cut lost.
    writes_lost: "acknowledged writes lost by a cut (not flushed)",
    /// Flushes acknowledged.
    flushes: "flushes acknowledged",
    /// FUA writes acknowledged.
    fua: "FUA writes acknowledged",
    /// Records.
    records: "records",
    /// Records that continue in the next.
    groups: "atomic groups over two records",
    /// Checkpoints.
    checkpoints: "checkpoints",
    /// Segments emptied.
    cleaned: "segments cleaned",
    /// Blocks moved.
    relocated: "blocks relocated",
    /// Relocations that a write overtook.
    relocations_lost: "relocations that lost to a write",
    /// Nodes dropped from the cache.
    evicted: "map nodes evicted",
    /// Nodes read.
    fetched: "map nodes fetched",
    /// Requests that had to read first.
    rmws: "read-modify-writes",
    /// Requests that waited for one.
    deferred: "requests deferred behind others",
    /// Times that writes waited for space.
    stalls: "waits for space",
    /// Volumes that stopped taking writes after a device error.
    latches: "latches after a device error",
    /// Reads that failed for damaged blocks.
    damaged_reads: "reads that reported damage",
    /// Openings that damage made impossible.
    refused: "openings refused for damage",
}
