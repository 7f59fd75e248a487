//! The mixed run: every kind of request at changing depth, in rounds, over several lives of a volume, with each event
//! told before what follows from it can happen.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use oxblock::device::sim::Rng;
use oxblock::{Buf, Completion, Request, RequestKind, Volume};

use super::event::Event;
use crate::content::{self, BLOCK, small};

const MIB: u64 = 1 << 20;
/// Waits of up to 100 ms without a completion after which the volume counts as stuck.
const PATIENCE: u32 = 600;

/// What a run is like.
#[derive(Debug, Clone, Copy)]
pub struct Mix {
    /// Where its chance comes from.
    pub seed: u64,
    /// Requests a second, at the most.
    pub rate: u64,
    /// The number of the first write, less one.
    pub after: u64,
}

/// A request under way.
#[derive(Debug, Clone, Copy)]
enum Pending {
    Read,
    Change(u64),
    Flush(u64),
}

/// Told events, in order, before anything that follows from them can happen.
pub type Teller<'a> = dyn FnMut(&[Event]) -> io::Result<()> + 'a;

/// See the module.
pub struct Driver<'a> {
    rng: Rng,
    rate: u64,
    tell: &'a mut Teller<'a>,
    told: Vec<Event>,
    queued: Vec<Request>,
    pending: HashMap<u64, Pending>,
    done: Vec<Completion>,
    tags: u64,
    ids: u64,
    flushes: u64,
    begun: Instant,
    /// First bytes of the stretches that most requests go to; none: everywhere.
    hot: Vec<u64>,
    small: bool,
}

/// Bytes of a stretch that many requests go to.
const HOT: u64 = 256 << 10;
/// Volumes beyond this are not written everywhere.
const LARGE: u64 = 64 << 20;

impl<'a> Driver<'a> {
    /// A driver that tells `tell`.
    pub fn new(mix: &Mix, size: u64, tell: &'a mut Teller<'a>) -> Self {
        let mut rng = Rng::new(mix.seed ^ 0x7ec0_4de4);
        let spots = if size > LARGE { 32 } else { rng.below(3) };
        let hot = (0..spots).map(|_| rng.below(size.saturating_sub(HOT)) / BLOCK * BLOCK).collect();
        Self {
            small: rng.below(3) == 0,
            hot,
            rng,
            rate: mix.rate.max(1),
            tell,
            told: Vec::new(),
            queued: Vec::new(),
            pending: HashMap::new(),
            done: Vec::new(),
            tags: 0,
            ids: mix.after,
            flushes: 0,
            begun: Instant::now(),
        }
    }

    /// Lives, one after the other, until `stop`.
    ///
    /// # Errors
    /// What keeps the volume from doing what it must on a sound device.
    pub fn lives(
        &mut self,
        open: &mut dyn FnMut() -> Result<Volume, oxblock::Error>,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<(), oxblock::Error> {
        while !stop() {
            let mut volume = open()?;
            self.say(Event::Opened)?;
            for _ in 0..1 + self.rng.below(12) {
                if stop() {
                    break;
                }
                self.round(&mut volume)?;
            }
            self.end(volume)?;
        }
        Ok(())
    }

    /// Ends a life: closes the volume, now and then with requests under way, or lets go of it as it is.
    fn end(&mut self, mut volume: Volume) -> Result<(), oxblock::Error> {
        let how = self.rng.below(4);
        if how > 1 {
            self.drain(&mut volume, 0)?;
        }
        if how == 0 {
            for _ in 0..self.rng.below(30) {
                self.request(volume.size());
            }
            self.pump(&mut volume)?;
            drop(volume);
            self.pending.clear();
            return Ok(());
        }
        self.start(&mut volume)?;
        self.pending.clear();
        volume.close()?;
        self.say(Event::Closed)
    }

    fn round(&mut self, volume: &mut Volume) -> Result<(), oxblock::Error> {
        let depths = [1, 1, 2, 4, 8, 16, 32];
        let depth = depths.get(small(self.rng.below(7))).copied().unwrap_or(1);
        for _ in 0..10 + self.rng.below(200) {
            self.request(volume.size());
            if self.pending.len() >= depth {
                let left = small(self.rng.below(depth as u64));
                self.drain(volume, left)?;
            } else if self.rng.below(2) == 0 {
                self.pump(volume)?;
            }
            self.pace();
        }
        self.drain(volume, 0)?;
        if self.rng.below(2) == 0 {
            self.flush();
            self.drain(volume, 0)?;
            self.say(Event::Settled)?;
        }
        Ok(())
    }

    /// Waits where it has gone faster than it shall.
    fn pace(&mut self) {
        let due = Duration::from_micros(self.tags.saturating_mul(1_000_000) / self.rate);
        let early = due.saturating_sub(self.begun.elapsed());
        // Bursts are what a log is for.
        if early > Duration::from_millis(20) {
            std::thread::sleep(early);
        }
    }

    fn say(&mut self, event: Event) -> Result<(), oxblock::Error> {
        self.told.push(event);
        self.tell_all()
    }

    fn tell_all(&mut self) -> Result<(), oxblock::Error> {
        if self.told.is_empty() {
            return Ok(());
        }
        let told = (self.tell)(&self.told);
        self.told.clear();
        told.map_err(|error| oxblock::Error::io("writing down what happens", error))
    }

    /// Hands over what was queued.
    fn start(&mut self, volume: &mut Volume) -> Result<(), oxblock::Error> {
        self.tell_all()?;
        self.queued.drain(..).for_each(|request| volume.queue(request));
        volume.submit();
        Ok(())
    }

    fn pump(&mut self, volume: &mut Volume) -> Result<usize, oxblock::Error> {
        self.start(volume)?;
        let mut done = std::mem::take(&mut self.done);
        volume.poll(&mut done);
        let count = done.len();
        for done in done.drain(..) {
            let pending = self.pending.remove(&done.tag);
            done.result?;
            match pending {
                Some(Pending::Change(id)) => self.told.push(Event::Acked { id }),
                Some(Pending::Flush(number)) => self.told.push(Event::FlushAcked { number }),
                Some(Pending::Read) | None => {}
            }
        }
        self.done = done;
        self.tell_all()?;
        Ok(count)
    }

    /// Runs until at most `left` requests are under way.
    fn drain(&mut self, volume: &mut Volume, left: usize) -> Result<(), oxblock::Error> {
        let mut idle = 0;
        while self.pending.len() > left || !self.queued.is_empty() {
            if self.pump(volume)? > 0 {
                idle = 0;
                continue;
            }
            idle += 1;
            if idle > PATIENCE {
                let text = format!("{} requests never complete", self.pending.len());
                return Err(oxblock::Error::new(oxblock::ErrorKind::Io, text));
            }
            volume.wait(Some(Duration::from_millis(100)));
        }
        Ok(())
    }

    fn queue(&mut self, kind: RequestKind, pending: Pending) {
        self.tags += 1;
        self.pending.insert(self.tags, pending);
        self.queued.push(Request { tag: self.tags, kind });
    }

    fn begin(&mut self, from: u64, to: u64, zeroes: bool, fua: bool) -> Pending {
        self.ids += 1;
        let id = self.ids;
        let atomic = !zeroes && to - from <= MIB;
        self.told.push(Event::Begin { id, zeroes, from, to, atomic, fua });
        Pending::Change(id)
    }

    fn write(&mut self, from: u64, to: u64, fua: bool) {
        let pending = self.begin(from, to, false, fua);
        let mut buf = Buf::new(small(to - from));
        content::fill(self.ids, from, &mut buf);
        self.queue(RequestKind::Write { offset: from, buf, fua }, pending);
    }

    fn zero(&mut self, from: u64, to: u64, fua: bool) {
        let pending = self.begin(from, to, true, fua);
        self.queue(RequestKind::WriteZeroes { offset: from, len: to - from, fua }, pending);
    }

    fn trim(&mut self, from: u64, to: u64) {
        let first = from.div_ceil(BLOCK) * BLOCK;
        let last = (to / BLOCK * BLOCK).max(first);
        let pending = self.begin(first, last, true, false);
        self.queue(RequestKind::Discard { offset: from, len: to - from }, pending);
    }

    fn flush(&mut self) {
        self.flushes += 1;
        let number = self.flushes;
        self.told.push(Event::FlushBegin { number });
        self.queue(RequestKind::Flush, Pending::Flush(number));
    }

    /// A length in bytes, of any alignment.
    fn draw_len(&mut self) -> u64 {
        let rng = &mut self.rng;
        match rng.below(if self.small { 24 } else { 64 }) {
            0..16 => BLOCK,
            16..20 => (1 + rng.below(8)) * BLOCK,
            20..24 => 1 + rng.below(2 * BLOCK),
            24..42 => (1 + rng.below(8)) * BLOCK,
            42..50 => (1 + rng.below(32)) * BLOCK,
            50..56 => 512 * (1 + rng.below(64)),
            56..59 => 1 + rng.below(200_000),
            59 | 60 => (1 + rng.below(256)) * BLOCK,
            61 | 62 => MIB,
            _ => 1 + rng.below(3 * MIB),
        }
    }

    /// A range of the volume that is `len` bytes long, or shorter.
    fn draw_range(&mut self, len: u64, size: u64) -> (u64, u64) {
        let rng = &mut self.rng;
        let len = len.min(size);
        let spots = self.hot.len() as u64;
        let everywhere = spots == 0 || (size <= LARGE && rng.below(8) == 0);
        let mut from = if everywhere {
            rng.below(size - len + 1)
        } else {
            let start = self.hot.get(small(rng.below(spots))).copied().unwrap_or(0);
            (start + rng.below(HOT)).min(size - len)
        };
        if len.is_multiple_of(BLOCK) && rng.below(4) != 0 {
            from -= from % BLOCK;
        } else if rng.below(2) == 0 {
            from -= from % 512;
        }
        (from, from + len)
    }

    /// Makes one random request.
    fn request(&mut self, size: u64) {
        let len = self.draw_len();
        let (from, to) = self.draw_range(len, size);
        let fua = self.rng.below(12) == 0;
        match self.rng.below(64) {
            0..42 => self.write(from, to, fua),
            42..50 => {
                let buf = Buf::new(small(to - from));
                self.queue(RequestKind::Read { offset: from, buf }, Pending::Read);
            }
            50..56 => self.flush(),
            56..60 => self.trim(from, to),
            60..63 => self.zero(from, to, fua),
            _ => {
                // All of a large range, now and then.
                let len = 1 + self.rng.below(size);
                let (from, to) = self.draw_range(len, size);
                match self.rng.below(8) {
                    0 => self.zero(from, to, fua),
                    1 => self.trim(from, to),
                    _ => self.flush(),
                }
            }
        }
    }
}
