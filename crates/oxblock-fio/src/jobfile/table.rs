//! The one table of options: names, types, bounds, defaults, help, and what is done with each.
//!
//! Parser, listing and documentation come from here. An option of fio that is not in the table is
//! unknown; one that is known but cannot be honoured is in the table as [`Kind::Refused`] and says
//! why, so that no job silently measures something else than it says.

use super::options::JobOptions;
use super::setters as set;
use super::value::{Amount, TimeUnit};

/// An option's type, and with it what its value is handed to.
pub(super) enum Kind {
    /// 0 or 1; a bare name means 1.
    Flag(fn(&mut JobOptions, bool)),
    /// A whole number within bounds, inclusive.
    Int { min: u64, max: u64, set: fn(&mut JobOptions, u64) },
    /// Bytes.
    Size { max: u64, set: fn(&mut JobOptions, u64) },
    /// Bytes or percent of the target.
    Amount(fn(&mut JobOptions, Amount)),
    /// A time; the unit is that of a bare number.
    Time { unit: TimeUnit, set: fn(&mut JobOptions, u64) },
    /// Text in a form of its own.
    Text { form: &'static str, set: fn(&mut JobOptions, &str) -> Result<(), String> },
    /// Accepted and without effect: it names a file, an engine or a cache that the target replaces.
    Replaced,
    /// Refused, with the reason.
    Refused(&'static str),
}

/// One option.
pub(super) struct OptionDef {
    /// The main name, which reports use.
    pub(super) name: &'static str,
    /// Another name, or empty.
    pub(super) alias: &'static str,
    /// Type and treatment.
    pub(super) kind: Kind,
    /// The default in the job file's notation; empty for none.
    pub(super) default: &'static str,
    /// One line.
    pub(super) help: &'static str,
}

const fn def(
    name: &'static str,
    alias: &'static str,
    kind: Kind,
    default: &'static str,
    help: &'static str,
) -> OptionDef {
    OptionDef { name, alias, kind, default, help }
}

const fn int(min: u64, max: u64, set: fn(&mut JobOptions, u64)) -> Kind {
    Kind::Int { min, max, set }
}

const fn text(form: &'static str, set: fn(&mut JobOptions, &str) -> Result<(), String>) -> Kind {
    Kind::Text { form, set }
}

const fn seconds(set: fn(&mut JobOptions, u64)) -> Kind {
    Kind::Time { unit: TimeUnit::Seconds, set }
}

const fn micros(set: fn(&mut JobOptions, u64)) -> Kind {
    Kind::Time { unit: TimeUnit::Microseconds, set }
}

const fn replaced(name: &'static str, alias: &'static str, help: &'static str) -> OptionDef {
    def(name, alias, Kind::Replaced, "", help)
}

const fn refused(name: &'static str, reason: &'static str) -> OptionDef {
    def(name, "", Kind::Refused(reason), "", "")
}

const MANY: u64 = u32::MAX as u64;

/// Every option that the parser knows.
#[rustfmt::skip]
pub(super) static OPTIONS: &[OptionDef] = &[
    // The job itself.
    def("name", "", text("text", |o, v| { o.name = v.to_owned(); Ok(()) }), "section name", "The job's name in reports"),
    def("description", "", text("text", |o, v| { o.description = Some(v.to_owned()); Ok(()) }), "", "A remark for the report"),
    def("numjobs", "", int(1, 4096, |o, v| o.numjobs = crate::num::narrow(v)), "1", "Run this many clones of the job"),
    def("group_reporting", "", Kind::Flag(|o, v| o.group_reporting = v), "0", "Report the jobs of a group as one"),
    def("new_group", "", Kind::Flag(|o, v| o.new_group = v), "0", "Start a new reporting group with this job"),
    def("stonewall", "wait_for_previous", Kind::Flag(|o, v| o.stonewall = v), "0", "Start only when all earlier jobs are done"),
    def("loops", "", int(1, MANY, |o, v| o.loops = crate::num::narrow(v)), "1", "Run the job this many times"),
    // What I/O.
    def("rw", "readwrite", text("pattern[:N]", set::workload), "read", "read, write, trim, randread, randwrite, randtrim, rw, randrw, trimwrite, randtrimwrite; ':N' reads or writes N in a row per random offset, or skips N bytes after a sequential I/O"),
    def("bs", "blocksize", text("size[,size][,size]", set::block_size), "4k", "Block size of reads, writes, trims"),
    def("bsrange", "blocksize_range", text("min-max[,...]", set::block_range), "", "Block sizes between two bounds, in steps of the smaller"),
    def("bssplit", "", text("size/percent[:...][,...]", set::block_split), "", "A weighted mix of block sizes"),
    def("size", "", Kind::Amount(|o, v| o.size = Some(v)), "100%", "The range that the job works on"),
    def("io_size", "io_limit", Kind::Amount(|o, v| o.io_size = Some(v)), "size", "Bytes to move in one loop"),
    def("offset", "", Kind::Amount(|o, v| o.offset = v), "0", "Where the range starts"),
    def("offset_increment", "", Kind::Amount(|o, v| o.offset_increment = v), "0", "Moves the range of each clone by this much"),
    def("number_ios", "", int(0, u64::MAX, |o, v| o.number_ios = v), "0", "Stop after this many I/Os; 0 is no limit"),
    def("rwmixread", "", int(0, 100, |o, v| o.rwmixread = crate::num::narrow(v)), "50", "Percentage of reads in a mix"),
    def("rwmixwrite", "", int(0, 100, |o, v| o.rwmixread = 100 - crate::num::narrow(v)), "50", "Percentage of writes in a mix"),
    def("norandommap", "", Kind::Flag(|o, v| o.norandommap = v), "0", "Do not keep random I/O from hitting a block twice in a pass"),
    def("randrepeat", "allrandrepeat", Kind::Flag(|o, v| o.randrepeat = v), "1", "The same random sequence in every run"),
    def("randseed", "", int(0, u64::MAX, |o, v| o.randseed = v), "0x89", "Seed of the random sequences"),
    def("random_distribution", "", text("random, zipf[:theta], pareto[:h]", set::distribution), "random", "How random offsets are spread"),
    def("random_generator", "", text("lfsr, tausworthe, tausworthe64", set::generator), "", "Accepted; the runner's own generator covers each block once per pass"),
    // Depth and batches.
    def("iodepth", "", int(1, 65536, |o, v| o.depth.max = crate::num::narrow(v)), "1", "I/Os in flight at most"),
    def("iodepth_batch", "iodepth_batch_submit", int(0, 65536, |o, v| o.depth.batch = crate::num::narrow(v)), "1", "Submit when this many are queued; 0 is iodepth"),
    def("iodepth_batch_complete_min", "iodepth_batch_complete", int(0, 65536, |o, v| o.depth.reap_min = crate::num::narrow(v)), "1", "Reap at least this many at once; 0 polls"),
    def("iodepth_batch_complete_max", "", int(0, 65536, |o, v| o.depth.reap_max = crate::num::narrow(v)), "0", "With a minimum of 0: do not poll between submissions. All that is ready is reaped"),
    def("iodepth_low", "", int(0, 65536, |o, v| o.depth.low = crate::num::narrow(v)), "iodepth", "Once full, refill only when no more than this many are in flight"),
    def("serialize_overlap", "", Kind::Flag(|o, v| o.serialize_overlap = v), "0", "Hold an I/O back while one to the same blocks is in flight"),
    // Durability.
    def("sync", "", text("0, 1, none, sync, dsync", set::sync), "none", "Every write is durable when acknowledged (FUA)"),
    def("fsync", "", int(0, u64::MAX, |job, writes| job.fsync = writes), "0", "A flush after this many writes"),
    def("fdatasync", "", int(0, u64::MAX, |job, writes| job.fdatasync = writes), "0", "The same as fsync: a block target has no other data"),
    def("end_fsync", "", Kind::Flag(|o, v| o.end_fsync = v), "0", "A flush at the end of the job's writes"),
    // Time.
    def("runtime", "timeout", seconds(|o, v| o.runtime = v), "0", "Stop after this time"),
    def("time_based", "", Kind::Flag(|o, v| o.time_based = v), "0", "Go on until runtime is over, whatever size says"),
    def("ramp_time", "", seconds(|o, v| o.ramp_time = v), "0", "Run this long before anything is counted"),
    def("startdelay", "", seconds(|o, v| o.startdelay = v), "0", "Wait this long before the job starts"),
    def("rate", "", text("size[,size][,size]", set::rate), "", "Bytes a second at most, for reads, writes, trims"),
    def("rate_iops", "", text("N[,N][,N]", set::rate_iops), "", "I/Os a second at most, for reads, writes, trims"),
    def("thinktime", "", micros(|o, v| o.thinktime = v), "0", "Pause after thinktime_blocks I/Os"),
    def("thinktime_spin", "", micros(|o, v| o.thinktime_spin = v), "0", "The part of thinktime that is spent spinning"),
    def("thinktime_blocks", "", int(1, u64::MAX, |o, v| o.thinktime_blocks = v), "1", "Completed I/Os between two pauses"),
    // Verification.
    def("verify", "", text("0, crc32c, md5, sha256, xxhash, pattern", set::verify), "0", "Stamp written blocks and check them when they are read back"),
    def("verify_pattern", "", text("0x..., number, \"text\", %o", set::verify_pattern), "", "The bytes of verify=pattern; %o is the block's offset"),
    def("verify_interval", "", Kind::Size { max: 1 << 30, set: |o, v| o.verify_interval = crate::num::narrow(v) }, "block size", "A header every so many bytes"),
    def("do_verify", "", Kind::Flag(|o, v| o.do_verify = v), "1", "Read back after the write phase"),
    def("verify_only", "", Kind::Flag(|o, v| o.verify_only = v), "0", "Write nothing: check what an earlier run of this job wrote"),
    def("verify_fatal", "", Kind::Flag(|o, v| o.verify_fatal = v), "0", "Stop at the first block that is wrong"),
    def("verify_backlog", "", int(0, u64::MAX, |o, v| o.verify_backlog = v), "0", "Read back after every so many writes, not only at the end"),
    def("verify_backlog_batch", "", int(0, u64::MAX, |o, v| o.verify_backlog_batch = v), "verify_backlog", "Blocks to read back each time"),
    // Buffers and the process.
    def("zero_buffers", "", Kind::Flag(|o, v| o.zero_buffers = v), "0", "Write zeroes"),
    def("refill_buffers", "", Kind::Flag(|o, v| o.refill_buffers = v), "0", "New random bytes for every write"),
    def("scramble_buffers", "", Kind::Flag(|o, v| o.scramble_buffers = v), "1", "Change a few bytes of every 512 for every write"),
    def("buffer_pattern", "", text("0x..., number, \"text\", %o", set::buffer_pattern), "", "Write this pattern"),
    def("cpus_allowed", "", text("0,2-3", |o, v| { o.cpus = super::value::cpus(v)?; Ok(()) }), "", "Pin the loop that drives the jobs to these CPUs"),
    // The volume.
    def("policy", "", text("name=value[,name=value...]", set::policy), "", "Who does what in the volume: submit, complete, bio_max_bytes, crc; what is not named is as the volume keeps it. All jobs of a file share one volume, so those that name a policy name the same"),
    // Reports.
    def("percentile_list", "", text("a:b:c", |o, v| { o.percentiles = super::value::percentiles(v)?; Ok(()) }), "1:5:10:...:99.99", "Percentiles to report"),
    def("clat_percentiles", "", Kind::Flag(|o, v| o.clat_percentiles = v), "1", "Percentiles of completion latency"),
    def("lat_percentiles", "", Kind::Flag(|o, v| o.lat_percentiles = v), "0", "Percentiles of total latency"),
    def("slat_percentiles", "", Kind::Flag(|o, v| o.slat_percentiles = v), "0", "Percentiles of submission latency"),
    def("bwavgtime", "", int(1, MANY, |o, v| o.sample_time = v * 1_000_000), "500", "Length of a bandwidth sample, milliseconds"),
    def("iopsavgtime", "", int(1, MANY, |o, v| o.sample_time = v * 1_000_000), "500", "The same as bwavgtime"),
    // What the target stands for.
    replaced("filename", "", "File or device to work on"),
    replaced("directory", "", "Where files are"),
    replaced("filename_format", "", "How files are named"),
    replaced("ioengine", "", "How I/O reaches the file"),
    replaced("direct", "", "O_DIRECT: the target decides"),
    replaced("buffered", "", "Page cache: the target decides"),
    replaced("fallocate", "", "How files are allocated"),
    replaced("invalidate", "", "Drop the page cache first"),
    replaced("fadvise_hint", "fadvise", "Advice about the page cache"),
    replaced("thread", "", "Threads instead of processes; here all jobs share one loop"),
    replaced("create_serialize", "", "Create files one by one"),
    replaced("create_fsync", "", "Sync files after creation"),
    replaced("create_on_open", "", "Create files late"),
    replaced("allow_file_create", "", "May create files"),
    replaced("allow_mounted_write", "", "May write to mounted devices"),
    replaced("overwrite", "", "Lay files out before writing"),
    replaced("pre_read", "", "Read files into the page cache first"),
    replaced("unlink", "", "Remove files afterwards"),
    replaced("nrfiles", "", "Files per job"),
    replaced("openfiles", "", "Open files per job"),
    replaced("file_service_type", "", "Which file is next"),
    replaced("filesize", "", "Size of each file"),
    replaced("mem", "iomem", "Kind of buffer memory"),
    replaced("iomem_align", "mem_align", "Buffer alignment"),
    replaced("registerfiles", "", "io_uring: registered files"),
    replaced("fixedbufs", "", "io_uring: registered buffers"),
    replaced("hipri", "", "io_uring: polled completions"),
    replaced("sqthread_poll", "", "io_uring: kernel submission thread"),
    replaced("nonvectored", "", "io_uring: plain instead of vectored calls"),
    replaced("uncached", "", "io_uring: uncached buffered I/O"),
    replaced("clocksource", "", "Clock"),
    replaced("disk_util", "", "Utilisation of the disks below"),
    // Known to fio, not honoured here.
    refused("allrandseed", "use randseed"),
    refused("bs_unaligned", "blocks are laid on multiples of their size"),
    refused("bs_is_seq_rand", "give separate jobs their own bs"),
    refused("blockalign", "blocks are laid on multiples of their size"),
    refused("ba", "blocks are laid on multiples of their size"),
    refused("buffer_compress_percentage", "the target does not compress"),
    refused("buffer_compress_chunk", "the target does not compress"),
    refused("dedupe_percentage", "the target does not deduplicate"),
    refused("continue_on_error", "the first error stops a job"),
    refused("ignore_error", "the first error stops a job"),
    refused("exitall", "jobs end on their own"),
    refused("exitall_on_error", "jobs end on their own"),
    refused("exec_prerun", "commands are not run from job files"),
    refused("exec_postrun", "commands are not run from job files"),
    refused("experimental_verify", "verification follows the block map already"),
    refused("fill_device", "a target has a fixed size: use size=100%"),
    refused("file_append", "a target has a fixed size"),
    refused("flow", "use rate or rwmixread"),
    refused("fsync_on_close", "a target is not closed between jobs: use end_fsync"),
    refused("sync_file_range", "use fsync"),
    refused("write_barrier", "use fsync or sync"),
    refused("gtod_reduce", "the clock is read once per batch already"),
    refused("disable_lat", "latency costs nothing to speak of"),
    refused("disable_clat", "latency costs nothing to speak of"),
    refused("disable_slat", "latency costs nothing to speak of"),
    refused("io_submit_mode", "I/O is submitted by the loop"),
    refused("ioscheduler", "set the scheduler of the device itself"),
    refused("latency_target", "use rate_iops and read the percentiles"),
    refused("max_latency", "read the percentiles"),
    refused("kb_base", "sizes are read under kb_base=1024"),
    refused("unit_base", "reports are in bytes"),
    refused("nice", "run the command under nice(1)"),
    refused("prio", "run the command under ionice(1)"),
    refused("prioclass", "run the command under ionice(1)"),
    refused("numa_cpu_nodes", "use cpus_allowed"),
    refused("numa_mem_policy", "use numactl(8)"),
    refused("cpumask", "use cpus_allowed"),
    refused("cpus_allowed_policy", "all jobs share one loop"),
    refused("percentage_random", "use separate jobs"),
    refused("profile", "write the job out"),
    refused("rate_min", "a job is not stopped for being slow"),
    refused("rate_iops_min", "a job is not stopped for being slow"),
    refused("rate_process", "rates are linear"),
    refused("rate_cycle", "rates hold at every moment"),
    refused("read_iolog", "I/O logs are not replayed"),
    refused("write_iolog", "I/O logs are not written"),
    refused("write_bw_log", "logs are not written: use the JSON report"),
    refused("write_lat_log", "logs are not written: use the JSON report"),
    refused("write_iops_log", "logs are not written: use the JSON report"),
    refused("write_hist_log", "logs are not written: use the JSON report"),
    refused("log_avg_msec", "logs are not written: use the JSON report"),
    refused("rw_sequencer", "a ':N' modifier always means sequential I/O in between"),
    refused("significant_figures", "reports have four figures"),
    refused("startup_delay", "use startdelay"),
    refused("steadystate", "use time_based and ramp_time"),
    refused("thinktime_blocks_type", "completed I/Os are counted"),
    refused("thinktime_iotime", "use thinktime_blocks"),
    refused("trim_percentage", "use rw=randtrimwrite"),
    refused("unified_rw_reporting", "directions are reported apart"),
    refused("verify_async", "verification runs in the loop"),
    refused("verify_dump", "the report names each bad block"),
    refused("verify_offset", "the header is at the start of each block"),
    refused("verify_state_load", "the headers hold all that verification needs"),
    refused("verify_state_save", "the headers hold all that verification needs"),
    refused("wait_for", "use stonewall"),
    refused("zonemode", "zoned devices are not offered"),
    refused("zonesize", "zoned devices are not offered"),
    refused("zonerange", "zoned devices are not offered"),
    refused("zoneskip", "zoned devices are not offered"),
];

/// The option with this name or alias.
pub(super) fn find(name: &str) -> Option<&'static OptionDef> {
    OPTIONS.iter().find(|option| option.name == name || (option.alias == name && !name.is_empty()))
}

/// Names that a slip of the hand may have meant.
pub(super) fn usable_names() -> impl Iterator<Item = &'static str> {
    OPTIONS
        .iter()
        .filter(|option| !matches!(option.kind, Kind::Refused(_)))
        .flat_map(|option| [option.name, option.alias])
        .filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_helped() {
        let mut names: Vec<&str> =
            OPTIONS.iter().flat_map(|o| [o.name, o.alias]).filter(|n| !n.is_empty()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for option in OPTIONS {
            let refused = matches!(option.kind, Kind::Refused(_));
            assert!(refused || !option.help.is_empty(), "{}", option.name);
        }
    }
}
