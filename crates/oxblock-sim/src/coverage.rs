//! What a soak has reached: a trap that never fires proves nothing.

use std::fmt;

use oxblock::device::sim::Hits;

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
    /// Discards of freed segments.
    discards: "discards",
    /// Blocks compared with the model.
    blocks_checked: "blocks checked",
    /// Verifications of everything, not of what may have changed.
    full_checks: "full checks",
    /// Checks, as a user makes them, of a volume that nobody has open.
    checks: "offline checks",
    /// Power cuts of any kind.
    cuts: "power cuts",
    /// Of which the moment was tried before with another outcome.
    outcomes: "power cuts tried with another outcome",
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
    /// Of these, on a device that fails writes here and there: a record, or a superblock, in every place that it was tried in.
    latches_in_the_end: "latches when all places had failed",
    /// Records of requests that went elsewhere.
    resent_data: "records written again elsewhere: data",
    /// Records of moved blocks that did.
    resent_relocations: "records written again elsewhere: relocations",
    /// Records of the map that did.
    resent_nodes: "records written again elsewhere: map",
    /// Checkpoints begun anew.
    aborted: "checkpoints begun anew after a failed write",
    /// Of these, some that were durable in the end.
    redone: "of these, done in the same life",
    /// Superblocks of which one copy is missing.
    single: "superblocks with one copy",
    /// Openings with failing writes that had something to replay.
    recoveries_failing: "recoveries with failing writes",
    /// Reads that failed for damaged blocks.
    damaged_reads: "reads that reported damage",
    /// Openings that damage made impossible.
    refused: "openings refused for damage",
    /// Devices that disappeared.
    leaves: "devices that disappeared",
    /// Devices that came back with what they had.
    returns: "devices that came back as they were",
    /// Devices that came back as they had been before.
    returns_stale: "devices that came back stale",
    /// Devices that came back with nothing on them.
    returns_blank: "devices that came back blank",
    /// Operations refused by a device that is gone.
    hit_gone: "operations on a device that is gone",
    /// Writes that found no room.
    hit_full: "writes that found the backing file full",
    /// Reads that failed.
    hit_read_fail: "reads failed",
    /// Reads with a flipped bit.
    hit_read_flip: "reads with a bit flipped in transfer",
    /// Writes that failed with nothing stored.
    hit_write_fail: "writes failed",
    /// Writes that failed in the middle.
    hit_write_torn: "writes torn",
    /// Writes that failed and were stored.
    hit_write_stored: "writes failed and stored all the same",
    /// Writes that were never stored.
    hit_write_lost: "writes lost",
    /// Writes that were stored elsewhere.
    hit_write_misdirected: "writes misdirected",
    /// Writes with a flipped bit.
    hit_write_flip: "writes with a bit flipped in transfer",
    /// Flushes that failed.
    hit_flush_fail: "flushes failed",
    /// Discards that failed.
    hit_discard_fail: "discards failed",
    /// Operations that took long.
    hit_stall: "operations slow or stuck",
    /// Bits that rotted.
    hit_rot: "bits rotted on the media",
}

impl Coverage {
    /// Adds the faults that have hit a device.
    pub fn add_hits(&mut self, hits: &Hits) {
        self.hit_gone += hits.gone;
        self.hit_full += hits.full;
        self.hit_read_fail += hits.read_fail;
        self.hit_read_flip += hits.read_flip;
        self.hit_write_fail += hits.write_fail;
        self.hit_write_torn += hits.write_torn;
        self.hit_write_stored += hits.write_stored;
        self.hit_write_lost += hits.write_lost;
        self.hit_write_misdirected += hits.write_misdirected;
        self.hit_write_flip += hits.write_flip;
        self.hit_flush_fail += hits.flush_fail;
        self.hit_discard_fail += hits.discard_fail;
        self.hit_stall += hits.stall;
        self.hit_rot += hits.rot;
    }
}
