//! Counters of the engine.

/// What a lane has done since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests completed.
    pub requests: u64,
    /// Blocks read for requests.
    pub read_blocks: u64,
    /// Blocks written for requests.
    pub written_blocks: u64,
    /// Records appended.
    pub records: u64,
    /// Blocks appended, headers and all kinds of payload.
    pub log_blocks: u64,
    /// Blocks moved by cleaning.
    pub relocated_blocks: u64,
    /// Segments emptied by cleaning.
    pub cleaned_segments: u64,
    /// Checkpoints made durable.
    pub checkpoints: u64,
    /// Map nodes and table blocks written.
    pub map_blocks: u64,
    /// Flushes sent to the device.
    pub flushes: u64,
    /// Blocks and map nodes that did not verify even when they were read again; once for each time that one was asked for.
    pub checksum_errors: u64,
    /// Blocks and map nodes that were read again, because the first read failed or did not verify.
    pub second_reads: u64,
    /// Times that writes had to wait for space.
    pub space_stalls: u64,
    /// Requests that had to read before they could write.
    pub read_modify_writes: u64,
    /// Requests that waited for others that touch the same blocks.
    pub deferred: u64,
    /// Records that continue in the next: atomic requests over the end of a segment.
    pub atomic_groups: u64,
    /// Checkpoints begun.
    pub checkpoints_begun: u64,
    /// Blocks that cleaning moved in vain, because a write came meanwhile.
    pub relocations_lost: u64,
    /// Times that cleaning gave up on a segment because something in it cannot be moved.
    pub damaged_segments: u64,
    /// Blocks checksummed by the issuer, of what requests wrote.
    pub inline_sums: u64,
    /// Blocks whose checksums were offered to workers, also those that the issuer then took back or did at once.
    pub offloaded_sums: u64,
    /// Device operations of requests that the issuer dealt with.
    pub issuer_ends: u64,
    /// Device reads that client threads verified by themselves.
    pub client_ends: u64,
    /// Device operations of requests that were offered to workers, also those that the issuer then took back or did at once.
    pub worker_ends: u64,
    /// Operations that could not be completed at once because a map node had to be read.
    pub cleared_node: u64,
    /// Because the request is not made of whole blocks.
    pub cleared_partial: u64,
    /// Because a flush must follow.
    pub cleared_flush: u64,
    /// Because it must be read again.
    pub cleared_retry: u64,
    /// Records that recovery found in part.
    pub torn_records: u64,
    /// Device writes of the log or of a superblock that failed.
    pub failed_writes: u64,
    /// Records of requests that were written once more in another segment, because a write had failed.
    pub resent_data: u64,
    /// The same for records of what cleaning moves.
    pub resent_relocations: u64,
    /// The same for records of the map.
    pub resent_nodes: u64,
    /// Checkpoints that were given up, and begun anew, because a write of theirs had failed.
    pub checkpoints_aborted: u64,
    /// Superblocks of which only one copy could be written.
    pub single_superblocks: u64,
}

impl Counters {
    /// Names and what has been added since `before`, in order.
    pub fn since(&self, before: &Self) -> Vec<(&'static str, u64)> {
        let pairs = self.named().into_iter().zip(before.named());
        pairs.map(|((name, now), (_, then))| (name, now.saturating_sub(then))).collect()
    }

    /// Names and values, in order, for output.
    pub fn named(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("requests", self.requests),
            ("read_blocks", self.read_blocks),
            ("written_blocks", self.written_blocks),
            ("records", self.records),
            ("log_blocks", self.log_blocks),
            ("deferred", self.deferred),
            ("atomic_groups", self.atomic_groups),
            ("relocated_blocks", self.relocated_blocks),
            ("relocations_lost", self.relocations_lost),
            ("cleaned_segments", self.cleaned_segments),
            ("checkpoints_begun", self.checkpoints_begun),
            ("checkpoints", self.checkpoints),
            ("map_blocks", self.map_blocks),
            ("flushes", self.flushes),
            ("checksum_errors", self.checksum_errors),
            ("second_reads", self.second_reads),
            ("space_stalls", self.space_stalls),
            ("read_modify_writes", self.read_modify_writes),
            ("torn_records", self.torn_records),
            ("damaged_segments", self.damaged_segments),
            ("inline_sums", self.inline_sums),
            ("offloaded_sums", self.offloaded_sums),
            ("issuer_ends", self.issuer_ends),
            ("client_ends", self.client_ends),
            ("worker_ends", self.worker_ends),
            ("cleared_node", self.cleared_node),
            ("cleared_partial", self.cleared_partial),
            ("cleared_flush", self.cleared_flush),
            ("cleared_retry", self.cleared_retry),
            ("failed_writes", self.failed_writes),
            ("resent_data", self.resent_data),
            ("resent_relocations", self.resent_relocations),
            ("resent_nodes", self.resent_nodes),
            ("checkpoints_aborted", self.checkpoints_aborted),
            ("single_superblocks", self.single_superblocks),
        ]
    }
}
