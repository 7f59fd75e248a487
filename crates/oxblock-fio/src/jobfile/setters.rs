//! The values that have a form of their own: patterns, mixes, distributions, checks, rates.

use super::blocksize;
use super::options::{Distribution, JobOptions, VerifyKind, Workload};
use super::pattern::Pattern;
use super::value;

type Outcome = Result<(), String>;

/// `rw=`.
pub(super) fn workload(job: &mut JobOptions, text: &str) -> Outcome {
    let (name, modifier) = match text.split_once(':') {
        Some((name, modifier)) => (name.trim(), Some(modifier.trim())),
        None => (text, None),
    };
    let (read, write, trim, random) = match name {
        "read" => (true, false, false, false),
        "write" => (false, true, false, false),
        "trim" => (false, false, true, false),
        "randread" => (true, false, false, true),
        "randwrite" => (false, true, false, true),
        "randtrim" => (false, false, true, true),
        "rw" | "readwrite" => (true, true, false, false),
        "randrw" => (true, true, false, true),
        "trimwrite" => (false, true, true, false),
        "randtrimwrite" => (false, true, true, true),
        _ => return Err(format!("'{name}' is not an I/O pattern")),
    };
    job.rw = Workload { read, write, trim, random };
    job.rw_modifier = modifier.map_or(Ok(0), value::size)?;
    if job.rw.trim_then_write() && job.rw_modifier != 0 {
        return Err("trimwrite takes no ':N'".into());
    }
    Ok(())
}

/// `bs=`.
pub(super) fn block_size(job: &mut JobOptions, text: &str) -> Outcome {
    blocksize::fixed(text, &mut job.bs)
}

/// `bsrange=`.
pub(super) fn block_range(job: &mut JobOptions, text: &str) -> Outcome {
    blocksize::range(text, &mut job.bs)
}

/// `bssplit=`.
pub(super) fn block_split(job: &mut JobOptions, text: &str) -> Outcome {
    blocksize::split(text, &mut job.bs)
}

/// `random_distribution=`. Defaults of the parameters are fio's.
pub(super) fn distribution(job: &mut JobOptions, text: &str) -> Outcome {
    let (name, parameter) = match text.split_once(':') {
        Some((name, parameter)) => (name.trim(), Some(parameter.trim())),
        None => (text, None),
    };
    job.distribution = match name {
        "random" if parameter.is_none() => Distribution::Even,
        "zipf" => Distribution::Zipf(parameter.map_or(Ok(1.1), |p| {
            value::decimal(p, 0.01, 20.0).map_err(|error| format!("theta: {error}"))
        })?),
        "pareto" => Distribution::Pareto(parameter.map_or(Ok(0.2), |p| {
            value::decimal(p, 0.0001, 0.9999).map_err(|error| format!("h: {error}"))
        })?),
        _ => return Err(format!("'{text}' is not offered: random, zipf[:theta], pareto[:h]")),
    };
    Ok(())
}

/// `random_generator=`: any known one will do.
pub(super) fn generator(_: &mut JobOptions, text: &str) -> Outcome {
    match text {
        "lfsr" | "tausworthe" | "tausworthe64" => Ok(()),
        _ => Err(format!("'{text}' is not a random generator")),
    }
}

/// `sync=`.
pub(super) fn sync(job: &mut JobOptions, text: &str) -> Outcome {
    job.sync = match text {
        "0" | "none" => false,
        "1" | "sync" | "dsync" => true,
        _ => return Err(format!("'{text}' is not one of none, sync, dsync")),
    };
    Ok(())
}

/// `verify=`.
pub(super) fn verify(job: &mut JobOptions, text: &str) -> Outcome {
    job.verify = match text {
        "0" => None,
        "crc32c" | "crc32c-intel" => Some(VerifyKind::Crc32c),
        "md5" => Some(VerifyKind::Md5),
        "sha256" => Some(VerifyKind::Sha256),
        "xxhash" => Some(VerifyKind::Xxhash),
        "pattern" => Some(VerifyKind::Pattern),
        _ => {
            let offered = "crc32c, md5, sha256, xxhash, pattern";
            return Err(format!("'{text}' is not offered: {offered}"));
        }
    };
    Ok(())
}

/// `verify_pattern=`.
pub(super) fn verify_pattern(job: &mut JobOptions, text: &str) -> Outcome {
    job.verify_pattern = Some(Pattern::parse(text)?);
    Ok(())
}

/// `buffer_pattern=`.
pub(super) fn buffer_pattern(job: &mut JobOptions, text: &str) -> Outcome {
    job.buffer_pattern = Some(Pattern::parse(text)?);
    Ok(())
}

/// `policy=`.
pub(super) fn policy(job: &mut JobOptions, text: &str) -> Outcome {
    job.policy = Some(text.parse().map_err(|error: oxblock::Error| error.to_string())?);
    Ok(())
}

/// `rate=`.
pub(super) fn rate(job: &mut JobOptions, text: &str) -> Outcome {
    value::triple(text, &mut job.rate, value::size)
}

/// `rate_iops=`.
pub(super) fn rate_iops(job: &mut JobOptions, text: &str) -> Outcome {
    value::triple(text, &mut job.rate_iops, value::integer)
}
