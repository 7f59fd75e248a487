//! From a completion to its job.

use super::{Driver, Kind};
use crate::run::Durable;
use crate::run::job::Job;
use crate::run::stream::{Direction, Io};
use crate::target::Completion;

impl Driver<'_, '_> {
    pub(super) fn complete(&mut self, jobs: &mut [Job<'_>], completion: Completion) {
        let Ok(id) = u32::try_from(completion.tag) else { return };
        let Some(slot) = self.slots.get_mut(id as usize) else { return };
        let Some(job) = jobs.get_mut(slot.job as usize) else { return };
        let kind = std::mem::replace(&mut slot.kind, Kind::Free);
        let (index, offset, len, number) = (slot.job, slot.offset, slot.len, slot.number);
        let (slat, clat) = (slot.issue - slot.start, self.now.saturating_sub(slot.issue));
        let tail = slot.tail.take();
        self.free.push(id);
        self.in_flight -= 1;
        job.in_flight -= 1;
        job.reaped += 1;
        job.batch_reaped += 1;
        let buf = completion.buf;
        match (completion.result, kind) {
            (Err(error), _) => job.failed(offset, len, kind == Kind::ReadBack, error),
            (Ok(()), Kind::Io(direction)) => {
                job.stats.io(direction, len, slat, clat);
                job.completed(&Io { direction, offset, len }, number, buf.as_ref());
                if direction == Direction::Write && job.plan.spec.sync {
                    self.durable(job, index, None);
                }
            }
            (Ok(()), Kind::ReadBack) => {
                job.stats.io(Direction::Read, len, slat, clat);
                if let Some(buf) = &buf {
                    job.read_back(offset, len, buf);
                }
            }
            (Ok(()), Kind::Flush) => {
                job.stats.flush(clat);
                self.durable(job, index, Some(number));
            }
            (Ok(()), Kind::Free) => {}
        }
        if let Some(buf) = buf {
            job.give_buffer(buf, tail);
        }
        // Judging what was read takes time that is not the next request's.
        self.fresh &= !job.fills;
    }

    /// Says which writes of a job are durable now: all up to `number`, or, where every write is
    /// durable when it is acknowledged, all before the oldest in flight.
    fn durable(&self, job: &Job<'_>, index: u32, number: Option<u64>) {
        let Some(tell) = self.options.durable else { return };
        let before_oldest =
            || self.oldest_in_flight(index).map_or(job.writes, |oldest| oldest.saturating_sub(1));
        let writes = number.unwrap_or_else(before_oldest);
        tell(&Durable { job: job.plan.index, writes });
    }

    /// The lowest number of a write of this job in flight.
    pub(super) fn oldest_in_flight(&self, index: u32) -> Option<u64> {
        let writes = self.slots.iter().filter(|slot| {
            slot.job == index && slot.kind == Kind::Io(Direction::Write) && slot.number > 0
        });
        writes.map(|slot| slot.number).min()
    }
}
