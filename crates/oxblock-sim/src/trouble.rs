//! What goes wrong besides the power, and what that excuses: an error where the fault was, wrong data never.

use oxblock::device::sim::{EIO, Fault, FaultPlan, FaultRates, FaultRule, OpKind};
use oxblock::{Error, ErrorKind};

use crate::content::small;
use crate::model::Model;
use crate::world::World;

/// What goes wrong besides the power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing.
    None,
    /// Reads that fail or come with a flipped bit, once.
    Transient,
    /// Writes that fail, and say so, now and then or in some places.
    Errors,
    /// Flushes that fail, or all writes from some moment on.
    Broken,
    /// Writes that get lost, land elsewhere or are stored with a flipped bit, and bits that rot.
    Silent,
    /// Places that cannot be read until they are written again.
    Latent,
    /// Operations that take a minute.
    Stuck,
    /// The device disappears, and comes back as it was, stale, or blank.
    Gone,
    /// The file system under the device is full.
    Full,
}

/// Simulated nanoseconds that a stuck operation takes.
const STUCK: u64 = 60_000_000_000;
/// Bytes of the areas for superblocks.
const AREA: u64 = 1 << 20;

impl Trouble {
    /// Nothing that was stored is ever read as anything else, and no read fails.
    pub fn is_sound(self) -> bool {
        matches!(self, Self::None | Self::Errors | Self::Broken | Self::Stuck | Self::Full)
    }

    /// A read may fail, or a write that has to read.
    pub fn fails_reads(self) -> bool {
        matches!(self, Self::Transient | Self::Silent | Self::Latent | Self::Gone)
    }

    /// A device error may end what the volume takes. Where writes fail here and there that takes more: see
    /// [`World::is_excused`].
    pub fn latches(self) -> bool {
        matches!(self, Self::Broken | Self::Gone | Self::Full)
    }

    /// A request that changes something may fail.
    pub fn fails_writes(self) -> bool {
        self.fails_reads() || self.latches()
    }

    /// The volume may be opened while the trouble lasts, and that may fail.
    pub fn lasts(self) -> bool {
        matches!(self, Self::Transient | Self::Errors | Self::Latent | Self::Full)
    }

    /// Whether `error` is an excuse for not opening, where there is one.
    pub fn excuses(self, error: &Error) -> bool {
        let damage =
            matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Io | ErrorKind::Checksum);
        match self {
            Self::None | Self::Errors | Self::Broken | Self::Stuck | Self::Gone => false,
            Self::Transient => true,
            Self::Silent => damage || error.kind() == ErrorKind::NotAVolume,
            Self::Latent => damage,
            Self::Full => matches!(error.kind(), ErrorKind::Io | ErrorKind::NoSpace),
        }
    }
}

/// What the device was at the beginning of a life, and what the model knew.
pub struct Past {
    image: oxblock::device::sim::Snapshot,
    model: Model,
}

impl World {
    /// Draws what goes wrong in this life. The rest follows from [`trouble_begins`](Self::trouble_begins).
    pub fn draw_faults(&mut self) -> FaultPlan {
        let rng = &mut self.rng.clone();
        let mut ppm = |most: u64| u32::try_from(rng.below(most)).unwrap_or(0);
        let rates = match self.plan.trouble {
            Trouble::None | Trouble::Gone | Trouble::Full | Trouble::Latent => {
                FaultRates::default()
            }
            Trouble::Transient => FaultRates {
                read_fail: ppm(5_000),
                read_flip: ppm(5_000),
                stall: ppm(20_000),
                stall_ns: 5_000_000,
                ..FaultRates::default()
            },
            Trouble::Errors => FaultRates {
                write_fail: ppm(8_000),
                write_torn: ppm(8_000),
                write_stored: ppm(16_000),
                ..FaultRates::default()
            },
            Trouble::Broken => FaultRates { flush_fail: ppm(10_000), ..FaultRates::default() },
            Trouble::Silent => FaultRates {
                write_lost: ppm(3_000),
                write_misdirected: ppm(3_000),
                write_flip: ppm(3_000),
                rot: ppm(3_000),
                ..FaultRates::default()
            },
            Trouble::Stuck => {
                FaultRates { stall: ppm(50_000), stall_ns: STUCK, ..FaultRates::default() }
            }
        };
        // Nothing is lost by a discard that fails, so that is no trouble of its own and happens under all of them.
        let rates = FaultRates { discard_fail: ppm(1_000_000), ..rates };
        let plan = match self.plan.trouble {
            Trouble::Latent => self.bad_places(),
            Trouble::Errors => self.places_that_fail(),
            Trouble::Broken if rng.below(2) == 0 => {
                let moment = rng.below(self.plan.requests * 2);
                let rule = FaultRule::new(OpKind::Write, Fault::Fail(EIO)).on(0);
                FaultPlan::new().rule(rule.skip(moment).forever())
            }
            _ => FaultPlan::new(),
        };
        plan.rates(0, rates)
    }

    /// A few places that cannot be read: of the log, and of one copy of the superblock at the most.
    fn bad_places(&self) -> FaultPlan {
        let rng = &mut self.rng.clone();
        let log = AREA..self.plan.device.size - AREA;
        let pages = self.disk.allocated_in(0, log);
        let bad = |at: u64, len: u64| {
            FaultRule::new(OpKind::Read, Fault::Fail(EIO))
                .on(0)
                .within(at..at + len)
                .until_written()
        };
        let mut plan = FaultPlan::new();
        for _ in 0..rng.below(3) {
            if let Some(at) = pages.get(small(rng.below(pages.len() as u64))) {
                plan = plan.rule(bad(*at, 512 * (1 + rng.below(16))));
            }
        }
        match rng.below(4) {
            0 => plan.rule(bad(rng.below(8) * 4096, 4096)),
            _ => plan,
        }
    }

    /// A place or none that cannot be written: a stretch of the log that is shorter than a segment, or one of the areas for
    /// superblocks. It may be stored all the same.
    fn places_that_fail(&self) -> FaultPlan {
        let rng = &mut self.rng.clone();
        let size = self.plan.device.size;
        let at = AREA + rng.below((size - 3 * AREA) / 4096) * 4096;
        let place = match rng.below(8) {
            0..3 => at..at + 4096 * (1 + rng.below(200)),
            3 => 0..AREA,
            4 => size - AREA..size,
            _ => return FaultPlan::new(),
        };
        let fault = match rng.below(3) {
            0 => Fault::Torn(EIO),
            1 => Fault::Stored(EIO),
            _ => Fault::Fail(EIO),
        };
        FaultPlan::new().rule(FaultRule::new(OpKind::Write, fault).on(0).within(place).forever())
    }

    /// Whether a volume may stop taking writes, with this error, for what its device has done.
    pub fn is_excused(&self, error: &Error) -> bool {
        match self.plan.trouble {
            Trouble::Errors => self.failures.lock().is_ok_and(|failures| failures.is_excuse(error)),
            trouble => trouble.latches(),
        }
    }

    /// The trouble of this life that is no fault of single operations.
    pub fn trouble_begins(&mut self) {
        match self.plan.trouble {
            Trouble::Full => {
                let limit = self.disk.allocated_pages(0) + self.rng.below(400);
                self.disk.limit_pages(0, Some(limit));
            }
            Trouble::Gone if self.rng.below(3) == 0 => {
                self.past = Some(Past { image: self.disk.snapshot(), model: self.model.clone() });
                self.leaves = self.rng.below(1 + self.plan.requests / 2);
            }
            _ => {}
        }
    }

    /// The trouble is there while the volume is being opened.
    pub fn trouble_lasts(&mut self, faults: FaultPlan) {
        self.disk.set_faults(faults);
        if self.plan.trouble == Trouble::Full {
            let limit = self.disk.allocated_pages(0) + self.rng.below(8);
            self.disk.limit_pages(0, Some(limit));
        }
    }

    /// Everything that can be put right is right from here on; what is damaged stays damaged.
    pub fn trouble_ends(&mut self) {
        self.disk.clear_faults();
        self.disk.limit_pages(0, None);
        self.leaves = u64::MAX;
    }

    /// The device that has disappeared comes back, after a power cut of its own, in one of the ways in which devices do.
    ///
    /// # Errors
    /// Something else than it opens, or a blank one does.
    pub fn returns(&mut self) -> Result<(), String> {
        let refused = self.open(true, false);
        if !refused.is_err_and(|error| error.kind() == ErrorKind::Io) {
            return Err("a device that is gone is not refused as one that fails".into());
        }
        self.disk.set_gone(0, false);
        let past = self.past.take();
        match (self.rng.below(3), past) {
            (0, Some(past)) => {
                // All of it, superblocks included, is as it was: nobody can tell, and the volume is what it was then.
                self.coverage.returns_stale += 1;
                self.log(|| "the device comes back stale".into());
                self.disk.restore(&past.image);
                self.model.set_back(past.model);
            }
            (1, _) => {
                self.coverage.returns_blank += 1;
                self.log(|| "a blank device comes back, then the right one".into());
                let image = self.disk.snapshot();
                self.disk.erase(0);
                let opened = self.open(false, false);
                self.disk.restore(&image);
                if !opened.is_err_and(|error| error.kind() == ErrorKind::NotAVolume) {
                    return Err("a blank device is not refused as one that holds no volume".into());
                }
            }
            _ => self.coverage.returns += 1,
        }
        Ok(())
    }
}
