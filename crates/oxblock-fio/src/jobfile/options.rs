//! What a job asks for, after parsing: plain data, one field per honoured option.

use super::blocksize::BlockSizes;
use super::pattern::Pattern;
use super::value::Amount;
use oxblock::Policy;
use std::sync::Arc;

/// The I/O pattern (`rw=`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workload {
    /// Reads take part.
    pub read: bool,
    /// Writes take part.
    pub write: bool,
    /// Trims take part.
    pub trim: bool,
    /// Offsets are random, not ascending.
    pub random: bool,
}

impl Workload {
    /// Each block is trimmed, then written.
    pub fn trim_then_write(self) -> bool {
        self.trim && self.write
    }

    /// fio's name of the pattern.
    pub fn name(self) -> &'static str {
        match (self.read, self.write, self.trim, self.random) {
            (true, true, _, false) => "rw",
            (true, true, _, true) => "randrw",
            (_, true, true, false) => "trimwrite",
            (_, true, true, true) => "randtrimwrite",
            (_, true, _, false) => "write",
            (_, true, _, true) => "randwrite",
            (_, _, true, false) => "trim",
            (_, _, true, true) => "randtrim",
            (_, _, _, true) => "randread",
            (_, _, _, false) => "read",
        }
    }
}

/// How random offsets are spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distribution {
    /// Evenly.
    Even,
    /// Zipf's law with exponent theta.
    Zipf(f64),
    /// Pareto's law with power h, 0 < h < 1.
    Pareto(f64),
}

/// What `verify=` checks blocks with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerifyKind {
    /// CRC-32C over the payload.
    Crc32c,
    /// MD5 over the payload.
    Md5,
    /// SHA-256 over the payload.
    Sha256,
    /// XXH64 over the payload.
    Xxhash,
    /// The block is exactly `verify_pattern`, without a header.
    Pattern,
}

/// When the next reap is due, and what is submitted at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Depth {
    /// `iodepth`: I/Os in flight at most.
    pub max: u32,
    /// `iodepth_batch`: submit when this many are queued; 0 means all of `max`.
    pub batch: u32,
    /// `iodepth_batch_complete_min`: reap at least this many; 0 polls.
    pub reap_min: u32,
    /// `iodepth_batch_complete_max`; anything but 0 keeps `reap_min` of 0 from polling.
    pub reap_max: u32,
    /// `iodepth_low`: once full, refill when no more than this many are left; 0 means `max`.
    pub low: u32,
}

/// An option as the file has it, for reports and messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// The option's main name.
    pub name: &'static str,
    /// Its value; `None` for a bare flag.
    pub value: Option<String>,
    /// Where, 1-based.
    pub line: u32,
}

macro_rules! job_options {
    ($($(#[$doc:meta])* $field:ident: $type:ty = $default:expr,)*) => {
        /// One job. Times are in nanoseconds, sizes in bytes, zero means "none" unless said otherwise.
        #[derive(Debug, Clone, PartialEq)]
        pub struct JobOptions {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl Default for JobOptions {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }
    };
}

job_options! {
    /// The section's name.
    name: String = String::new(),
    /// The section's line, 1-based.
    line: u32 = 0,
    /// `description`.
    description: Option<String> = None,
    /// `rw`.
    rw: Workload = Workload { read: true, write: false, trim: false, random: false },
    /// `rw=...:N`: sequential I/Os per random offset, or bytes to skip after a sequential one.
    rw_modifier: u64 = 0,
    /// `bs`, `bsrange`, `bssplit` for reads, writes, trims.
    bs: [BlockSizes; 3] = [BlockSizes::Fixed(4096), BlockSizes::Fixed(4096), BlockSizes::Fixed(4096)],
    /// `size`; the rest of the target when absent.
    size: Option<Amount> = None,
    /// `io_size`; `size` when absent.
    io_size: Option<Amount> = None,
    /// `offset`.
    offset: Amount = Amount::Bytes(0),
    /// `offset_increment` per clone.
    offset_increment: Amount = Amount::Bytes(0),
    /// `number_ios`.
    number_ios: u64 = 0,
    /// `iodepth` and its batch rules.
    depth: Depth = Depth { max: 1, batch: 1, reap_min: 1, reap_max: 0, low: 0 },
    /// `numjobs`.
    numjobs: u32 = 1,
    /// `group_reporting`.
    group_reporting: bool = false,
    /// `new_group`.
    new_group: bool = false,
    /// `stonewall`: wait for every job before this one.
    stonewall: bool = false,
    /// `sync`: every write is durable when it is acknowledged.
    sync: bool = false,
    /// `fsync`: a flush after this many writes.
    fsync: u64 = 0,
    /// `fdatasync`: the same, since a block target has no other data.
    fdatasync: u64 = 0,
    /// `end_fsync`.
    end_fsync: bool = false,
    /// `time_based`.
    time_based: bool = false,
    /// `runtime`.
    runtime: u64 = 0,
    /// `ramp_time`.
    ramp_time: u64 = 0,
    /// `startdelay`.
    startdelay: u64 = 0,
    /// `loops`.
    loops: u32 = 1,
    /// `rwmixread`, percent.
    rwmixread: u32 = 50,
    /// `norandommap`.
    norandommap: bool = false,
    /// `randrepeat`.
    randrepeat: bool = true,
    /// `randseed`.
    randseed: u64 = 0x89,
    /// `random_distribution`.
    distribution: Distribution = Distribution::Even,
    /// `verify`.
    verify: Option<VerifyKind> = None,
    /// `verify_pattern`.
    verify_pattern: Option<Pattern> = None,
    /// `verify_interval`, bytes; the block size when 0.
    verify_interval: u32 = 0,
    /// `do_verify`.
    do_verify: bool = true,
    /// `verify_only`.
    verify_only: bool = false,
    /// `verify_fatal`.
    verify_fatal: bool = false,
    /// `verify_backlog`, I/Os.
    verify_backlog: u64 = 0,
    /// `verify_backlog_batch`, I/Os; `verify_backlog` when 0.
    verify_backlog_batch: u64 = 0,
    /// `serialize_overlap`.
    serialize_overlap: bool = false,
    /// `rate` for reads, writes, trims: bytes a second.
    rate: [u64; 3] = [0; 3],
    /// `rate_iops` for reads, writes, trims.
    rate_iops: [u64; 3] = [0; 3],
    /// `thinktime`.
    thinktime: u64 = 0,
    /// `thinktime_spin`: the part of `thinktime` that is spent spinning.
    thinktime_spin: u64 = 0,
    /// `thinktime_blocks`.
    thinktime_blocks: u64 = 1,
    /// `cpus_allowed`.
    cpus: Vec<usize> = Vec::new(),
    /// `policy`, of the volume that all jobs share.
    policy: Option<Policy> = None,
    /// `percentile_list`.
    percentiles: Vec<f64> = vec![
        1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9,
        99.95, 99.99,
    ],
    /// `clat_percentiles`.
    clat_percentiles: bool = true,
    /// `lat_percentiles`.
    lat_percentiles: bool = false,
    /// `slat_percentiles`.
    slat_percentiles: bool = false,
    /// `bwavgtime` and `iopsavgtime`.
    sample_time: u64 = 500_000_000,
    /// `zero_buffers`.
    zero_buffers: bool = false,
    /// `refill_buffers`.
    refill_buffers: bool = false,
    /// `scramble_buffers`.
    scramble_buffers: bool = true,
    /// `buffer_pattern`.
    buffer_pattern: Option<Pattern> = None,
    /// Options of this section as written.
    given: Vec<Given> = Vec::new(),
    /// Options that came from `[global]`, as written. Shared, since there may be many jobs.
    inherited: Arc<[Given]> = Arc::from([]),
}

impl JobOptions {
    /// The line of an option in this section or in `[global]`, or else the section's own.
    pub fn line_of(&self, name: &str) -> u32 {
        let mut all = self.inherited.iter().chain(&self.given).rev();
        all.find(|given| given.name == name).map_or(self.line, |given| given.line)
    }

    /// A flush is due after this many writes: by `fsync` or `fdatasync`, whichever comes first; 0 for
    /// never.
    pub fn flush_every(&self) -> u64 {
        match (self.fsync, self.fdatasync) {
            (every, 0) | (0, every) => every,
            (one, other) => one.min(other),
        }
    }

    /// Which of the three directions take part.
    pub(crate) fn directions(&self) -> [bool; 3] {
        [self.rw.read, self.rw.write, self.rw.trim]
    }

    /// Block sizes of the directions that take part.
    pub(crate) fn used_sizes(&self) -> impl Iterator<Item = &BlockSizes> {
        let used = self.directions();
        self.bs.iter().zip(used).filter_map(|(sizes, used)| used.then_some(sizes))
    }
}
