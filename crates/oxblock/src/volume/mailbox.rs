//! Calls from other threads, made in the thread that drives a volume: it has no lock that anybody could take.
//!
//! A front-end has one [`Mailbox`], [watches](crate::Volume::watch) its descriptor, and makes the calls between two of its
//! rounds. Whoever has a [`Remote`] of it can have something looked at or changed there.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

/// Something to be done to what the thread owns.
pub type Call<T> = Box<dyn FnOnce(&mut T) + Send>;

/// Where calls come in.
#[derive(Debug)]
pub struct Mailbox<T> {
    calls: Receiver<Call<T>>,
    remote: Remote<T>,
}

/// Where calls are made from; as many as are wanted, in any thread.
#[derive(Debug)]
pub struct Remote<T> {
    calls: Sender<Call<T>>,
    wake: Arc<OwnedFd>,
}

impl<T> Clone for Remote<T> {
    fn clone(&self) -> Self {
        Self { calls: self.calls.clone(), wake: Arc::clone(&self.wake) }
    }
}

impl<T> Mailbox<T> {
    /// An empty one.
    ///
    /// # Errors
    /// When no descriptor is to be had.
    pub fn new() -> io::Result<Self> {
        let wake = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let (sender, calls) = mpsc::channel();
        Ok(Self { calls, remote: Remote { calls: sender, wake } })
    }

    /// Polls readable while there are calls to [take](Self::take).
    pub fn descriptor(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.remote.wake)
    }

    /// For others to make calls with.
    pub fn remote(&self) -> Remote<T> {
        self.remote.clone()
    }

    /// The calls that have come, in order.
    pub fn take(&self) -> Vec<Call<T>> {
        // Before looking: what comes after it wakes again. It fails only when nobody has woken this.
        rustix::io::read(&*self.remote.wake, &mut [0; 8]).ok();
        self.calls.try_iter().collect()
    }
}

impl<T> Remote<T> {
    /// Has `call` made soon; false when nobody is there to make it any more. It may be dropped all the same, when the thread
    /// ends before its turn.
    pub fn send(&self, call: impl FnOnce(&mut T) + Send + 'static) -> bool {
        let sent = self.calls.send(Box::new(call)).is_ok();
        if sent {
            #[expect(clippy::host_endian_bytes, reason = "the kernel reads it on this machine")]
            let one = 1u64.to_ne_bytes();
            // It fails only when the count is full, and then it is readable already.
            rustix::io::write(&*self.wake, &one).ok();
        }
        sent
    }

    /// Has `call` made and waits for what it returns; nothing when that takes longer than `within`, or nobody is there to make
    /// it any more.
    pub fn ask<R: Send + 'static>(
        &self,
        within: Duration,
        call: impl FnOnce(&mut T) -> R + Send + 'static,
    ) -> Option<R> {
        let (sender, answer) = mpsc::sync_channel(1);
        // Whoever asked may have gone meanwhile.
        self.send(move |owner| drop(sender.send(call(owner))));
        answer.recv_timeout(within).ok()
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn is_readable(mailbox: &Mailbox<u32>) -> bool {
        let fd = mailbox.descriptor();
        let mut fds = [PollFd::new(&fd, PollFlags::IN)];
        poll(&mut fds, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    #[test]
    fn calls_are_made_in_order_by_the_owner() {
        let mailbox = Mailbox::new().unwrap();
        let (remote, mut owned) = (mailbox.remote(), 1u32);
        assert!(!is_readable(&mailbox));
        assert!(remote.send(|owned| *owned += 1));
        assert!(remote.clone().send(|owned| *owned *= 10));
        assert!(is_readable(&mailbox));
        mailbox.take().into_iter().for_each(|call| call(&mut owned));
        assert_eq!(owned, 20);
        assert!(!is_readable(&mailbox));
    }

    #[test]
    fn whoever_asks_gets_the_answer_or_learns_that_nobody_is_there() {
        let mailbox = Mailbox::new().unwrap();
        let remote = mailbox.remote();
        let asker = std::thread::spawn(move || (remote.ask(LONG, |owned| *owned), remote));
        let mut owned = 7u32;
        while !asker.is_finished() {
            mailbox.take().into_iter().for_each(|call| call(&mut owned));
            std::thread::yield_now();
        }
        let (answer, remote) = asker.join().unwrap();
        assert_eq!(answer, Some(7));
        // An owner that has other things to do does not keep anybody waiting,
        assert_eq!(remote.ask(Duration::from_millis(1), |owned| *owned), None);
        // and neither does one that is gone.
        let late = remote.clone();
        let asker = std::thread::spawn(move || late.ask(LONG, |owned| *owned));
        drop(mailbox);
        assert_eq!(asker.join().unwrap(), None);
        assert!(!remote.send(|_| ()));
    }
}
