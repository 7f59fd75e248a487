//! The window: what has been read of the victim. A read that fails, and bytes that do not verify, are read again before
//! anything is decided on them.

use smallvec::smallvec;

use super::Victim;
use crate::device::{Action, Buf, Done, Op};
use crate::format::layout::{BLOCK_SIZE, MAX_RECORD_PAYLOAD};
use crate::lane::{Class, Lane, tag};
use crate::profile;

impl Lane {
    /// Reads `blocks` blocks of the victim from block `start` on, of which `needed` are really needed; more where small
    /// reads do not pay, and no more than those after a read that failed.
    pub(super) fn read_window(
        &mut self,
        victim: &mut Victim,
        start: u32,
        blocks: u32,
        needed: u32,
    ) {
        let wide = self.tuning.window_blocks.max(blocks).min(victim.most).max(needed);
        (victim.needed, victim.again) = (needed, false);
        self.send_window(victim, start, wide.min(self.segments.blocks() - start));
    }

    /// Reads one block of the victim again, before anything is decided on what the first read gave.
    pub(super) fn read_once_more(&mut self, victim: &mut Victim, start: u32) {
        (victim.needed, victim.again) = (1, true);
        self.send_window(victim, start, 1);
    }

    fn send_window(&mut self, victim: &mut Victim, start: u32, count: u32) {
        let buf = self.window_buf(victim, count as usize * BLOCK_SIZE);
        victim.start = start;
        victim.reading = true;
        self.segments.pin(victim.segment);
        let addr = self.segments.addr(victim.segment, start);
        let (device, offset) = profile::locate(&self.geometry.superblock, addr);
        self.queue.push(Op {
            tag: tag(Class::Clean, 0),
            device,
            offset,
            action: Action::Read(smallvec![buf]),
        });
    }

    /// A buffer for a window, cut from memory that windows use again and again.
    fn window_buf(&mut self, victim: &mut Victim, len: usize) -> Buf {
        let (window, rest) = (victim.window.take(), self.cleaner.rest.take());
        let mut whole = match (window, rest) {
            (Some(mut window), Some(rest)) => match window.join(rest) {
                Ok(()) => window,
                Err(_) => unreachable!("window and rest are one buffer"),
            },
            (window, rest) => window.or(rest).unwrap_or_else(|| Buf::new(0)),
        };
        if whole.len() < len {
            whole = Buf::new(len.max(MAX_RECORD_PAYLOAD * BLOCK_SIZE));
        }
        self.cleaner.rest = Some(whole.split_off(len));
        whole
    }

    /// The window has come. One that failed is read again, smaller, and what is really needed twice. If that fails too it
    /// looks like nothing: what is live there stays, and the segment is left alone.
    pub fn window_read(&mut self, mut done: Done) {
        let Some(mut victim) = self.cleaner.victim.take() else {
            unreachable!("a window without a victim")
        };
        self.segments.unpin(victim.segment);
        victim.reading = false;
        victim.unreadable = done.result.is_err();
        let mut window = done.bufs.pop().unwrap_or_else(|| Buf::new(0));
        let (start, blocks) =
            (victim.start, u32::try_from(window.len() / BLOCK_SIZE).unwrap_or(u32::MAX));
        let wide = blocks > victim.needed;
        if victim.unreadable && !wide && victim.again {
            window.fill(0);
        }
        victim.window = Some(window);
        if victim.unreadable && (wide || !victim.again) {
            self.counters.second_reads += 1;
            (victim.most, victim.again) = ((blocks / 2).max(1), !wide);
            let blocks = victim.most.max(victim.needed);
            self.send_window(&mut victim, start, blocks);
        }
        self.cleaner.victim = Some(victim);
    }
}
