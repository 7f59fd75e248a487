//! The asynchronous handle.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use crate::device::Buf;
use crate::error::Result;
use crate::submit::request::{Completion, Failed, RequestKind};
use crate::volume::core::{Call, Core, SPIN_LIMIT, nanos};
use crate::volume::handle::buffer;

/// A volume for tasks of any executor: cloneable, `Send`, and without a runtime of its own.
///
/// A task that is polled drives the volume itself, as a blocking caller does. For the time that a fast device takes it
/// asks to be polled again; if that is not enough, a thread that is started when first needed waits for the devices.
///
/// Dropping a future does not take its request back: the request runs to its end, and its buffer is freed then.
#[derive(Debug, Clone)]
pub struct AsyncHandle {
    pub(super) core: Arc<Core>,
}

impl AsyncHandle {
    /// Bytes, a multiple of 4096.
    pub fn size(&self) -> u64 {
        self.core.size
    }

    /// As [`Handle::read_at`](crate::volume::Handle::read_at).
    ///
    /// # Errors
    /// The same.
    pub async fn read_at(&self, offset: u64, buf: impl Into<Buf>) -> Result<Buf, Failed> {
        buffer(self.call(RequestKind::Read { offset, buf: buf.into() }).await)
    }

    /// As [`Handle::write_at`](crate::volume::Handle::write_at).
    ///
    /// # Errors
    /// The same.
    pub async fn write_at(&self, offset: u64, buf: impl Into<Buf>) -> Result<Buf, Failed> {
        buffer(self.call(RequestKind::Write { offset, buf: buf.into(), fua: false }).await)
    }

    /// As [`Handle::write_durable_at`](crate::volume::Handle::write_durable_at).
    ///
    /// # Errors
    /// The same.
    pub async fn write_durable_at(&self, offset: u64, buf: impl Into<Buf>) -> Result<Buf, Failed> {
        buffer(self.call(RequestKind::Write { offset, buf: buf.into(), fua: true }).await)
    }

    /// As [`Handle::flush`](crate::volume::Handle::flush).
    ///
    /// # Errors
    /// The same.
    pub async fn flush(&self) -> Result<()> {
        self.call(RequestKind::Flush).await.result
    }

    /// As [`Handle::discard`](crate::volume::Handle::discard).
    ///
    /// # Errors
    /// The same.
    pub async fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.call(RequestKind::Discard { offset, len }).await.result
    }

    /// As [`Handle::write_zeroes`](crate::volume::Handle::write_zeroes).
    ///
    /// # Errors
    /// The same.
    pub async fn write_zeroes(&self, offset: u64, len: u64) -> Result<()> {
        self.call(RequestKind::WriteZeroes { offset, len, fua: false }).await.result
    }

    fn call(&self, kind: RequestKind) -> Pending<'_> {
        // Posted at the first poll, as futures do nothing before.
        let offset = kind.read_offset();
        Pending { core: &self.core, offset, kind: Some((kind, true)), call: None, asleep: false }
    }
}

/// One call of a task.
struct Pending<'a> {
    core: &'a Arc<Core>,
    /// First byte, if it is a read.
    offset: u64,
    /// What is to be posted, and whether the task verifies what it reads.
    kind: Option<(RequestKind, bool)>,
    call: Option<(Arc<Call>, Instant)>,
    /// The reactor counts this call.
    asleep: bool,
}

impl Future for Pending<'_> {
    type Output = Completion;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Completion> {
        let this = self.get_mut();
        if let Some((kind, client)) = this.kind.take() {
            this.call = Some((this.core.post(kind, client), Instant::now()));
        }
        let Some((call, begin)) = &this.call else {
            unreachable!("a call is posted when first polled")
        };
        this.core.drive();
        if let Some(answer) = call.take() {
            this.wake_up();
            match Core::settle(this.offset, answer) {
                Ok(completion) => return Poll::Ready(completion),
                Err(again) => {
                    // Once more, verified by the engine, and at once.
                    this.kind = Some((again, false));
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
        }
        let patient = nanos(*begin) < SPIN_LIMIT;
        if !patient && !this.asleep {
            this.asleep = true;
            this.core.task_waits();
        }
        let done = !call.wake_with(context.waker());
        if done || patient || !this.core.has_reactor() {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl Pending<'_> {
    fn wake_up(&mut self) {
        if std::mem::take(&mut self.asleep) {
            self.core.task_left();
        }
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.wake_up();
    }
}
