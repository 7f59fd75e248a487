//! Where marks go.

use std::sync::{Arc, Mutex, PoisonError};

use super::Event;

/// Takes the marks of a trace. It is called in the context that drives the volume, so it must not block for long, and
/// must not call the volume.
///
/// `Arc<Mutex<S>>` is a sink when `S` is one: keep a clone, and look at it while the volume has the other. `Vec<Box<dyn
/// TraceSink>>` passes each mark to all.
pub trait TraceSink: Send {
    /// Takes one mark.
    fn event(&mut self, event: &Event);
}

impl<S: TraceSink> TraceSink for Arc<Mutex<S>> {
    fn event(&mut self, event: &Event) {
        self.lock().unwrap_or_else(PoisonError::into_inner).event(event);
    }
}

impl TraceSink for Vec<Box<dyn TraceSink>> {
    fn event(&mut self, event: &Event) {
        self.iter_mut().for_each(|sink| sink.event(event));
    }
}
