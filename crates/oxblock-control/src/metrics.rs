//! Figures as metrics, in the text format that Prometheus reads (OpenMetrics 1.0).

use std::fmt::Error;

use oxblock::stats::{DeviceTraffic, Flow};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::report::State;
use crate::source::Seen;

/// The upper ends of the buckets of a histogram, in microseconds.
const BUCKETS: [u32; 19] = [
    5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000,
    500_000, 1_000_000, 2_500_000, 10_000_000,
];

/// All metrics of what was seen.
pub fn metrics(seen: Vec<Seen>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Told(seen)));
    let mut out = String::new();
    // Writing to a string does not fail.
    text::encode(&mut out, &registry).ok();
    out
}

#[derive(Debug)]
struct Told(Vec<Seen>);

type Labels = Vec<(&'static str, String)>;

/// A value with its labels.
type Sample<T> = (Labels, T);

impl Told {
    /// One value of each volume.
    fn volumes<T>(&self, value: impl Fn(&Seen) -> T) -> Vec<Sample<T>> {
        self.0.iter().map(|seen| (vec![("export", seen.name.clone())], value(seen))).collect()
    }

    /// Several values of each volume, told apart by the label `by`.
    fn parts<T, P: IntoIterator<Item = (String, T)>>(
        &self,
        by: &'static str,
        values: impl Fn(&Seen) -> P,
    ) -> Vec<Sample<T>> {
        let of = |seen: &Seen| {
            let export = seen.name.clone();
            let labels = move |part| vec![("export", export.clone()), (by, part)];
            values(seen).into_iter().map(|(part, value)| (labels(part), value)).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of).collect()
    }

    fn kinds<T>(&self, value: impl Fn(&Flow) -> T) -> Vec<Sample<T>> {
        self.parts("kind", |seen| {
            let kinds = seen.traffic.all();
            kinds.map(|(kind, flow)| (kind.name().to_owned(), value(flow))).collect::<Vec<_>>()
        })
    }

    fn devices<T>(&self, value: impl Fn(&DeviceTraffic) -> T) -> Vec<Sample<T>> {
        self.parts("device", |seen| {
            let devices = seen.info.devices.iter();
            devices.map(|device| (device.path.clone(), value(&device.traffic))).collect::<Vec<_>>()
        })
    }

    fn requests(&self, out: &mut Out<'_>) -> Result<(), Error> {
        let count = |flow: &Flow| flow.latency.count();
        out.counter("requests", "Requests that ended, well or not", self.kinds(count))?;
        out.counter("request_bytes", "Bytes of those that went well", self.kinds(|f| f.bytes))?;
        out.counter("request_errors", "Requests that failed", self.kinds(|f| f.errors))?;
        let under_way = self.kinds(|flow| flow.in_flight);
        out.gauge("requests_in_flight", "Requests under way", under_way)?;
        let help = "From the moment a request is queued until its completion is ready";
        let times = self.kinds(|flow| flow.latency.clone());
        out.metrics("request_duration_seconds", help, MetricType::Histogram, times, |time, to| {
            let mut buckets: Vec<(f64, u64)> =
                BUCKETS.iter().map(|end| (f64::from(*end) / 1e6, 0)).collect();
            buckets.push((f64::INFINITY, 0));
            for (longest, count) in time.buckets() {
                let place = BUCKETS.partition_point(|end| u64::from(*end) * 1000 < longest);
                if let Some((_, all)) = buckets.get_mut(place) {
                    *all += count;
                }
            }
            let sum = seconds(time.sum());
            to.encode_histogram::<NoLabelSet>(sum, time.count(), &buckets, None)
        })
    }

    fn space(&self, out: &mut Out<'_>) -> Result<(), Error> {
        let size = self.volumes(|seen| seen.info.size);
        out.gauge("volume_size_bytes", "What users see", size)?;
        let used = self.volumes(|seen| seen.info.used);
        out.gauge("volume_used_bytes", "Of it, what was written and not given up", used)?;
        let capacity = self.volumes(|seen| seen.info.capacity);
        out.gauge("log_capacity_bytes", "Space of the log", capacity)?;
        let segment = self.volumes(|seen| seen.info.segments.size);
        out.gauge("segment_size_bytes", "Bytes of a segment", segment)?;
        let segments = self.parts("state", |seen| {
            let segments = &seen.info.segments;
            [
                ("free", segments.free),
                ("reserved", segments.reserved),
                ("open", segments.open),
                ("sealed", segments.sealed),
                ("pending", segments.pending),
            ]
            .map(|(state, count)| (state.to_owned(), u64::from(count)))
        });
        out.gauge("segments", "Segments by state", segments)?;
        let damaged = self.volumes(|seen| u64::from(seen.info.segments.damaged));
        out.gauge("segments_damaged", "Sealed ones that cannot be cleaned", damaged)
    }

    fn health(&self, out: &mut Out<'_>) -> Result<(), Error> {
        let states = self.parts("state", |seen| {
            let now = State::of(&seen.info);
            State::ALL.map(|state| (state.name().to_owned(), u64::from(state == now)))
        });
        out.gauge("volume_state", "1 for the state in which the volume is", states)?;
        let errors = self.volumes(|seen| seen.info.checksum_errors);
        let help = "Blocks that failed verification in the life of the volume";
        out.counter("checksum_errors", help, errors)?;
        let lost = self.volumes(|seen| seen.info.map.lost as u64);
        out.gauge("map_lost_nodes", "Map nodes that are damaged or cannot be read", lost)
    }

    fn map(&self, out: &mut Out<'_>) -> Result<(), Error> {
        let cached = self.volumes(|seen| seen.info.map.cached as u64);
        out.gauge("map_cached_nodes", "Map nodes in memory, of 4096 bytes", cached)?;
        let limit = self.volumes(|seen| seen.info.map.limit as u64);
        out.gauge("map_limit_nodes", "The most map nodes in memory", limit)?;
        let dirty = self.volumes(|seen| seen.info.map.dirty as u64);
        out.gauge("map_dirty_nodes", "Map nodes that the next checkpoint writes", dirty)?;
        let lookups = self.volumes(|seen| seen.info.map.lookups);
        out.counter("map_lookups", "Look-ups in the map", lookups)?;
        let fetched = self.volumes(|seen| seen.info.map.fetched);
        out.counter("map_fetched_nodes", "Map nodes read, as they were not in memory", fetched)?;
        let evicted = self.volumes(|seen| seen.info.map.evicted);
        out.counter("map_evicted_nodes", "Map nodes dropped to make room", evicted)
    }

    /// All counters of the engine. One that is the same for all volumes comes once, with all of them.
    fn engine(&self, out: &mut Out<'_>) -> Result<(), Error> {
        let named = |seen: &Seen| seen.info.counters.named();
        for place in 0..self.0.first().map_or(0, |seen| named(seen).len()) {
            let of = |seen: &Seen| named(seen).get(place).copied().unwrap_or_default();
            let Some((name, _)) = self.0.first().map(of) else { break };
            let values = self.volumes(|seen| of(seen).1);
            let help = "Counter of the engine, as in the command reference";
            out.counter(&format!("engine_{name}"), help, values)?;
        }
        Ok(())
    }

    fn device_operations(&self, out: &mut Out<'_>) -> Result<(), Error> {
        let size = self.parts("device", |seen| {
            let devices = seen.info.devices.iter();
            devices.map(|device| (device.path.clone(), device.size)).collect::<Vec<_>>()
        });
        out.gauge("device_size_bytes", "Bytes of a device", size)?;
        out.counter("device_reads", "Device reads begun", self.devices(|d| d.reads))?;
        out.counter("device_read_bytes", "Bytes of them", self.devices(|d| d.read_bytes))?;
        out.counter("device_writes", "Device writes begun", self.devices(|d| d.writes))?;
        out.counter("device_written_bytes", "Bytes of them", self.devices(|d| d.written_bytes))?;
        out.counter("device_flushes", "Device flushes begun", self.devices(|d| d.flushes))?;
        out.counter("device_discards", "Device discards begun", self.devices(|d| d.discards))?;
        let errors = self.devices(|device| device.errors);
        out.counter("device_errors", "Device operations that failed", errors)?;
        let under_way = self.devices(|device| device.in_flight);
        out.gauge("device_in_flight", "Device operations under way", under_way)
    }
}

impl Collector for Told {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let out = &mut Out(encoder);
        let built = vec![(vec![("version", env!("CARGO_PKG_VERSION").to_owned())], 1)];
        out.gauge("build_info", "The version of the program", built)?;
        let who = self.0.iter().map(|seen| {
            let info = &seen.info;
            let labels = vec![
                ("export", seen.name.clone()),
                ("uuid", info.uuid.clone()),
                ("label", info.label.clone()),
                ("profile", info.profile.to_owned()),
                ("csum", info.csum.to_owned()),
            ];
            (labels, 1)
        });
        out.gauge("volume_info", "What the volume is", who.collect())?;
        self.health(out)?;
        self.space(out)?;
        self.requests(out)?;
        let clients = self.volumes(|seen| seen.clients);
        let clients =
            clients.into_iter().filter_map(|(labels, count)| Some((labels, count?))).collect();
        out.gauge("clients", "Clients that are connected", clients)?;
        self.map(out)?;
        self.device_operations(out)?;
        self.engine(out)
    }
}

/// Where metrics go.
struct Out<'a>(DescriptorEncoder<'a>);

impl Out<'_> {
    fn counter(&mut self, name: &str, help: &str, values: Vec<Sample<u64>>) -> Result<(), Error> {
        self.metrics(name, help, MetricType::Counter, values, |value, to| {
            to.encode_counter::<NoLabelSet, _, u64>(value, None)
        })
    }

    fn gauge(&mut self, name: &str, help: &str, values: Vec<Sample<u64>>) -> Result<(), Error> {
        self.metrics(name, help, MetricType::Gauge, values, |value, to| to.encode_gauge(value))
    }

    fn metrics<T>(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        values: Vec<Sample<T>>,
        put: impl Fn(&T, &mut MetricEncoder<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if values.is_empty() {
            return Ok(());
        }
        let name = format!("oxblock_{name}");
        let mut family = self.0.encode_descriptor(&name, help, None, kind)?;
        values.iter().try_for_each(|(labels, value)| put(value, &mut family.encode_family(labels)?))
    }
}

fn seconds(nanos: u64) -> f64 {
    std::time::Duration::from_nanos(nanos).as_secs_f64()
}
