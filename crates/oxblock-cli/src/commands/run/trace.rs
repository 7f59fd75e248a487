//! What `--trace` and `--stages` ask for: the engine's own view of a run.

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oxblock::stats::{Counters, Times};
use oxblock::trace::{ChromeTrace, StageTimes, TraceSink};
use oxblock::volume::Volume;
use serde_json::{Map, Value, json};

/// The version of what is under the key `oxblock`.
const VERSION: u32 = 1;

/// The sinks of a run, and what the volume had counted before it.
pub struct Tracing {
    stages: Arc<Mutex<StageTimes>>,
    file: Option<Arc<Mutex<ChromeTrace>>>,
    before: Counters,
}

impl Tracing {
    /// Begins to trace `volume`; into a file too if there is one, with its name.
    pub fn start(volume: &mut Volume, file: Option<(&Path, File)>) -> Self {
        let stages = Arc::new(Mutex::new(StageTimes::default()));
        let file = file.map(|(name, file)| Arc::new(Mutex::new(ChromeTrace::new(name, file))));
        let mut sinks: Vec<Box<dyn TraceSink>> = vec![Box::new(Arc::clone(&stages))];
        if let Some(file) = &file {
            sinks.push(Box::new(Arc::clone(file)));
        }
        volume.set_trace(Some(Box::new(sinks)));
        Self { stages, file, before: volume.counters() }
    }

    /// What was seen so far.
    pub fn report(&self, volume: &Volume) -> EngineReport {
        let stages = lock(&self.stages);
        let rows = stages.rows().map(|(span, times)| (span.group(), span.name(), times));
        EngineReport { rows: rows.collect(), counters: volume.counters().since(&self.before) }
    }

    /// Closes the file, once the volume is closed.
    pub fn finish(self) -> oxblock::Result<()> {
        self.file.map_or(Ok(()), |file| lock(&file).finish())
    }
}

/// A sink is no worse for a panic elsewhere.
fn lock<T>(sink: &Mutex<T>) -> MutexGuard<'_, T> {
    sink.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Times of the stages and counters of a run.
pub struct EngineReport {
    /// Group, name and times of each span.
    rows: Vec<(&'static str, &'static str, Times)>,
    counters: Vec<(&'static str, u64)>,
}

impl EngineReport {
    /// The value of the key `oxblock`.
    pub fn json(&self) -> Value {
        let mut stages = Map::new();
        for (group, name, times) in &self.rows {
            let group = stages.entry(*group).or_insert_with(|| json!({}));
            if let Value::Object(group) = group {
                group.insert((*name).to_owned(), object(&times.named()));
            }
        }
        json!({ "version": VERSION, "stages": stages, "counters": object(&self.counters) })
    }

    /// An indented block for the text report.
    pub fn text(&self) -> String {
        let mut text = String::from("\noxblock:\n");
        let mut last = "";
        for (group, name, times) in &self.rows {
            if last != *group {
                last = group;
                text += &format!("  {group} (nsec)\n");
            }
            let values = times.named().map(|(name, value)| format!("{name}={value}"));
            text += &format!("    {name:<11}: {}\n", values.join(", "));
        }
        text += "  counters\n";
        for (name, value) in self.counters.iter().filter(|(_, value)| *value > 0) {
            text += &format!("    {name:<18}: {value}\n");
        }
        text
    }
}

fn object(values: &[(&'static str, u64)]) -> Value {
    values.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect()
}
