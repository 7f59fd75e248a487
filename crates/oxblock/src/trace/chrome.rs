//! A sink that writes the trace-event format of Chrome, which <https://ui.perfetto.dev> opens.
//!
//! The file is one JSON array of "async" events: `b` begins a span and `e` ends it, and those with the same category and
//! id make one track, in which they nest. Each request has a track of its own (`12`), and so has each further part of it
//! (`12.1`), because tracks must nest and parts overlap. Times are microseconds from the first mark, to the nanosecond.
//! Traces of several volumes stand in one file as processes of their own. Ids of async events are those of all processes,
//! so there each carries its process in front (`3:12.1`).
//! See "Trace Event Format", <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::{Event, Mark, Span, TraceSink};
use crate::error::{Error, Result};

/// Streams a trace into a file, or into any writer.
///
/// The array is closed by [`finish`](Self::finish), or when the sink is dropped, so what is there is JSON however the run
/// ends, unless the process is killed. After the first error nothing more is written; `finish` tells it.
///
/// Without further ado all marks are those of one process, `oxblock`. Where several volumes, or several runs of one, go
/// into a file, [`begin_process`](Self::begin_process) comes before each of them.
pub struct ChromeTrace<W: Write + Send = BufWriter<File>> {
    /// What errors name.
    name: PathBuf,
    out: W,
    /// The process that the marks are of, from 1; 0 before the first.
    process: u32,
    /// Processes were begun by name: there may be several.
    several: bool,
    /// The time of the first mark of the process.
    origin: Option<u64>,
    failed: Option<io::Error>,
    finished: bool,
}

impl ChromeTrace {
    /// Writes to `file`, which errors call `name`.
    pub fn new(name: &Path, file: File) -> Self {
        Self::to_writer(name, BufWriter::with_capacity(1 << 20, file))
    }
}

impl<W: Write + Send> ChromeTrace<W> {
    /// Writes to `out`, which errors call `name`. The writer should be buffered.
    pub fn to_writer(name: &Path, out: W) -> Self {
        Self {
            name: name.to_owned(),
            out,
            process: 0,
            several: false,
            origin: None,
            failed: None,
            finished: false,
        }
    }

    /// Begins the next process, called `name`: the marks that follow are its own, so their numbers may begin anew, and so
    /// do their times, which puts the beginnings of all processes one below the other. What was traced before must have
    /// ended ([`Volume::set_trace`](crate::Volume::set_trace) to something else ends it).
    pub fn begin_process(&mut self, name: &str) {
        if !self.finished {
            self.several = true;
            self.name_process(name);
        }
    }

    fn name_process(&mut self, name: &str) {
        let separator = if self.process == 0 { "[" } else { "," };
        self.process += 1;
        self.origin = None;
        let (process, name) = (self.process, Escaped(name));
        self.put(format_args!(
            "{separator}\n{{\"ph\":\"M\",\"pid\":{process},\"tid\":1,\"name\":\"process_name\",\
             \"args\":{{\"name\":\"{name}\"}}}}"
        ));
    }

    /// The process of whoever names none.
    fn name_the_only_process(&mut self) {
        if self.process == 0 {
            self.name_process("oxblock");
        }
    }

    /// Closes the array and flushes the writer. Further marks are not taken.
    ///
    /// # Errors
    /// The first error of the writer, with the name.
    pub fn finish(&mut self) -> Result<()> {
        if !std::mem::replace(&mut self.finished, true) {
            self.name_the_only_process();
            self.put(format_args!("\n]\n"));
            if self.failed.is_none() {
                self.failed = self.out.flush().err();
            }
        }
        match self.failed.take() {
            None => Ok(()),
            Some(error) => Err(Error::io(format!("write {}", self.name.display()), error)),
        }
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        if self.failed.is_none() {
            self.failed = self.out.write_fmt(text).err();
        }
    }
}

impl<W: Write + Send> TraceSink for ChromeTrace<W> {
    fn event(&mut self, event: &Event) {
        if self.finished || self.failed.is_some() {
            return;
        }
        let phase = match event.mark {
            Mark::Begin => 'b',
            Mark::End => 'e',
        };
        let (category, name) = match event.span {
            Span::Request(kind) => ("request", kind.name()),
            Span::Stage(_, stage) => ("request", stage.name()),
            Span::Bio(kind) => ("bio", kind.name()),
            other => (other.name(), other.name()),
        };
        self.name_the_only_process();
        let process = self.process;
        let at = event.at.saturating_sub(*self.origin.get_or_insert(event.at));
        let (micros, nanos, id, bytes) = (at / 1000, at % 1000, event.id, event.bytes);
        self.put(format_args!(
            ",\n{{\"ph\":\"{phase}\",\"cat\":\"{category}\",\"name\":\"{name}\",\"pid\":{process},\
             \"tid\":1,\"ts\":{micros}.{nanos:03},\"id\":\""
        ));
        if self.several {
            self.put(format_args!("{process}:"));
        }
        self.put(format_args!("{id}"));
        if event.part > 0 {
            self.put(format_args!(".{}", event.part));
        }
        self.put(format_args!("\",\"args\":{{\"bytes\":{bytes}"));
        if event.bio > 0 {
            self.put(format_args!(",\"bio\":{}", event.bio));
        }
        self.put(format_args!("}}}}"));
    }
}

impl<W: Write + Send> Drop for ChromeTrace<W> {
    fn drop(&mut self) {
        // Whoever wants to know of errors has called it before.
        self.finish().ok();
    }
}

impl<W: Write + Send> std::fmt::Debug for ChromeTrace<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChromeTrace").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Text inside of a JSON string.
struct Escaped<'t>(&'t str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '"' | '\\' => write!(f, "\\{c}"),
            '\0'..' ' => write!(f, "\\u{:04x}", u32::from(c)),
            _ => write!(f, "{c}"),
        })
    }
}
