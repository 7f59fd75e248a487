//! The language as a whole: one table of refusals, one of effects, and random text.

use proptest::prelude::*;

use super::*;

fn job(options: &str) -> JobOptions {
    parse(&format!("[j]\n{options}\n"), "t").unwrap().jobs.remove(0)
}

fn refusal(options: &str) -> String {
    parse(&format!("[j]\n{options}\n"), "job.fio").unwrap_err().to_string()
}

#[test]
fn refusals_name_option_and_line() {
    let table = [
        ("foo=1", "job.fio:2: unknown option 'foo'"),
        ("rw=read\niodept=4", "job.fio:3: unknown option 'iodept'; did you mean 'iodepth'?"),
        ("bs=4x", "job.fio:2: bs: '4x' is not a size"),
        ("iodepth=0", "job.fio:2: iodepth: 0 is not within 1 to 65536"),
        ("iodepth", "job.fio:2: iodepth: a value is missing"),
        ("rw=", "job.fio:2: rw: a value is missing"),
        ("rw=backwards", "'backwards' is not an I/O pattern"),
        ("verify=sha1", "verify: 'sha1' is not offered"),
        ("continue_on_error=all", "job.fio:2: option 'continue_on_error' is not honoured here"),
        ("write_bw_log=x", "logs are not written"),
        ("size=200%", "'200' is not within 0 to 100"),
        ("time_based", "job.fio:2: time_based: needs a runtime"),
        ("verify=pattern", "needs a verify_pattern"),
        ("random_distribution=zoned:1", "is not offered"),
        ("sync=maybe", "is not one of"),
        ("include x", "'include' is not offered"),
        ("policy=submit=never", "job.fio:2: policy: no submit policy is called 'never'"),
        ("policy=colour=red", "job.fio:2: policy: no policy is called 'colour'"),
        ("policy", "job.fio:2: policy: a value is missing"),
        ("policy=crc=table\n[k]\npolicy=crc=fast", "job.fio:4: policy: all jobs share one volume"),
    ];
    for (options, expected) in table {
        let message = refusal(options);
        assert!(message.contains(expected), "{options:?}: {message}");
    }
}

#[test]
fn the_policy_belongs_to_all_jobs() {
    let text = "[global]\npolicy=submit=offload,bio_max_bytes=4M\n[a]\n[b]\nrw=write\n";
    let file = parse(text, "x").unwrap();
    assert_eq!(file.policy, Some("submit=offload,bio_max_bytes=4M".parse().unwrap()));
    assert_eq!(file.jobs[1].policy, file.policy);
    // One that names none goes along, and one that says the same otherwise agrees.
    let text =
        "[a]\n[b]\npolicy=crc=table,complete=issuer\n[c]\npolicy=complete=issuer,crc=table\n";
    let file = parse(text, "x").unwrap();
    assert_eq!(file.policy, Some("complete=issuer,crc=table".parse().unwrap()));
    assert_eq!(parse("[a]\n", "x").unwrap().policy, None);
}

#[test]
fn the_experiments_job_descriptions_parse() {
    let text = "[global]\nioengine=libaio\ndirect=1\nfallocate=posix\ninvalidate=1\n\
                [submit]\nrw=write\niodepth=64\niodepth_batch=64\niodepth_batch_complete=64\n\
                iodepth_low=64\nsize=8g\nsync=0\ngroup_reporting\nruntime=30\nbs=512k\n\
                [complete]\nstonewall\ntime_based=1\nruntime=10\nbs=4096\nrw=randwrite\n\
                norandommap\nbuffered=0\ncpus_allowed=1\niodepth=16\nnumjobs=1\n\
                [split]\nstonewall\nrw=read\nbs=64m\nsize=512m\n\
                [crc]\nwait_for_previous\nrw=write\nbs=1m\nio_size=200g\n";
    let file = parse(text, "x").unwrap();
    assert_eq!(file.jobs.len(), 4);
    assert_eq!(file.replaced, ["ioengine", "direct", "fallocate", "invalidate", "buffered"]);
    let submit = &file.jobs[0];
    assert_eq!(submit.depth, Depth { max: 64, batch: 64, reap_min: 64, reap_max: 0, low: 64 });
    assert!(submit.group_reporting && !submit.sync);
    assert_eq!(file.jobs[1].cpus, [1]);
    assert_eq!(file.jobs[3].io_size, Some(Amount::Bytes(200 << 30)));
    assert!(file.jobs[3].stonewall);
}

#[test]
fn globals_apply_to_what_follows_and_sections_override() {
    let file = parse("[a]\n[global]\nbs=8k\nname=n\n[b]\nbs=16k\n[c]\n", "t").unwrap();
    let sizes: Vec<u32> = file.jobs.iter().map(|job| job.bs[0].min()).collect();
    assert_eq!(sizes, [4096, 16384, 8192]);
    assert_eq!(file.jobs[2].name, "c");
    assert_eq!(file.jobs[1].line_of("bs"), 6);
    assert_eq!(file.jobs[2].line_of("bs"), 3);
    assert_eq!(file.globals.len(), 2);
}

#[test]
fn a_later_flush_interval_replaces_the_earlier_one() {
    let every = |global: &str, job: &str| {
        let file = parse(&format!("[global]\n{global}\n[j]\n{job}\n"), "t").unwrap();
        file.jobs[0].flush_every()
    };
    assert_eq!(every("fsync=1", "fsync=32"), 32);
    assert_eq!(every("fsync=1", "fsync=0"), 0);
    assert_eq!(every("fsync=1", "fdatasync=32"), 1);
    assert_eq!(every("fsync=8", "fsync=0\nfdatasync=16"), 16);
}

#[test]
fn options_reach_their_fields() {
    let parsed = job("readwrite=randrw:4\nrwmixwrite=30\nblocksize=4k,8k\nfsync=8\nfdatasync=4\n\
         io_limit=1g\noffset=10%\nthinktime=5ms\nrate=1m,,3m\nrate_iops=9\nsync=dsync\n\
         random_distribution=pareto:0.3\nrandseed=7\nverify=md5\niodepth_batch_submit=2");
    assert_eq!(parsed.rw.name(), "randrw");
    assert_eq!((parsed.rw_modifier, parsed.rwmixread), (4, 70));
    assert_eq!(parsed.flush_every(), 4);
    assert_eq!(parsed.thinktime, 5_000_000);
    assert_eq!(parsed.rate, [1 << 20, 0, 3 << 20]);
    assert_eq!(parsed.rate_iops, [9; 3]);
    assert_eq!(parsed.distribution, Distribution::Pareto(0.3));
    assert!(parsed.sync);
    let names: Vec<&str> = parsed.given.iter().map(|given| given.name).collect();
    assert_eq!(names[..3], ["rw", "rwmixwrite", "bs"]);
}

/// Every honoured option takes its own default, so that the table does not lie about it.
#[test]
fn the_defaults_in_the_table_are_the_defaults() {
    let untouched = JobOptions { given: vec![], ..job("") };
    for def in table::OPTIONS {
        let skip = ["name", "io_size", "size", "iodepth_low", "percentile_list"];
        let words = ["", "block size", "verify_backlog"];
        if matches!(def.kind, Kind::Replaced | Kind::Refused(_))
            || skip.contains(&def.name)
            || words.contains(&def.default)
        {
            continue;
        }
        let set = JobOptions { given: vec![], ..job(&format!("{}={}", def.name, def.default)) };
        assert_eq!(set, untouched, "{}", def.name);
    }
}

/// Text that looks enough like a job file to get past the lexer.
fn near_job_file() -> impl Strategy<Value = String> {
    let names: Vec<&'static str> = table::OPTIONS.iter().map(|def| def.name).collect();
    let value = prop_oneof![
        "[0-9]{0,22}[kmgtpKMGTPibBus%]{0,3}",
        "\\PC{0,20}",
        "(0x)?[0-9a-f:,/%.-]{0,24}",
        "(zipf|pareto|randrw|\"%o)[:,0-9.e\"-]{0,12}"
    ];
    let line = (proptest::sample::select(names), value)
        .prop_map(|(name, value)| format!("{name}={value}"));
    proptest::collection::vec(line, 0..8).prop_map(|lines| format!("[j]\n{}", lines.join("\n")))
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC*") {
        parse(&text, "t").ok();
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        parse(&String::from_utf8_lossy(&bytes), "t").ok();
    }

    #[test]
    fn no_value_panics(text in near_job_file()) {
        parse(&text, "t").ok();
    }
}

#[test]
fn many_sections_do_not_multiply_what_a_file_takes() {
    // Each job would have a copy of all that came before it.
    let globals = "[global]\nzero_buffers=1\ndescription=text\n".repeat(5000);
    let file = parse(&format!("{globals}{}", "[a]\n".repeat(4096)), "t").unwrap();
    assert_eq!((file.jobs.len(), file.globals.len()), (4096, 2));
    let first = &file.jobs[0].inherited;
    assert!(file.jobs.iter().all(|job| std::sync::Arc::ptr_eq(&job.inherited, first)));
    let error = parse(&"[a]\n".repeat(4097), "t").unwrap_err().to_string();
    assert!(error.contains("4097 jobs are more than the 4096"), "{error}");
    for long in [format!("description={}", "x".repeat(5000)), "x".repeat(5000)] {
        assert!(refusal(&long).contains("at most 4096 bytes"));
    }
}
