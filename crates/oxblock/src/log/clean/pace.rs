//! How much cleaning is owed, and whether writes may go on.

use super::REFILL;
use crate::lane::Lane;
use crate::log::append::STREAM_DATA;

impl Lane {
    /// Segments that can be written sooner or later without cleaning, in blocks.
    pub(super) fn available(&self) -> u64 {
        let segments = self.segments.reserved() + self.segments.free() + self.segments.pending();
        segments as u64 * u64::from(self.segments.blocks()) + u64::from(self.room(STREAM_DATA))
    }

    /// Available blocks below which writes wait for cleaning, and those from which it has nothing to do.
    pub(super) fn watermarks(&self) -> (u64, u64) {
        let low = (self.reserve_kept() + REFILL) as u64;
        let span = u64::from(self.segments.count() / 16).max(REFILL as u64 + 2);
        let blocks = u64::from(self.segments.blocks());
        (low * blocks, (low + span) * blocks)
    }

    /// Blocks went to the log that cleaning did not put there: it owes its share.
    pub fn pace_spend(&mut self, blocks: u64) {
        let (low, high) = self.watermarks();
        let available = self.available();
        if available >= high {
            self.cleaner.owed = 0.0;
            return;
        }
        #[expect(clippy::cast_precision_loss, reason = "a ratio, far from the limits of f64")]
        let (pressure, blocks, segment) = (
            (high - available.max(low)) as f64 / (high - low) as f64,
            blocks as f64,
            f64::from(self.segments.blocks()),
        );
        let live =
            self.cleaner.victim.as_ref().map_or(0.5, |victim| f64::from(victim.live) / segment);
        let cost = live / (1.0 - live).max(0.05);
        let owed = self.cleaner.owed + blocks * cost.max(0.1) * 2.0 * pressure;
        self.cleaner.owed = owed.min(2.0 * segment);
    }

    /// Whether a write may go on, or waits for cleaning.
    pub fn pace_allows(&self) -> bool {
        let (low, _) = self.watermarks();
        // Without a victim nothing pays the debt: what was walked through waits for a checkpoint, not the other way round.
        self.available() > low || self.cleaner.owed < 1024.0 || self.cleaner.victim.is_none()
    }
}
