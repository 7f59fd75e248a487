//! The handle that a test keeps: it outlives queues, power and engines.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use super::cache::{Cut, Media};
use super::config::SimConfig;
use super::device::{Device, Stats};
use super::fault::{Fault, FaultPlan, FaultRule, OpKind};
use super::machine::{Counted, Machine};
use super::queue::{Shared, SimQueue, lock};
use super::rng::Rng;
use super::store::PAGE_BYTES;
use crate::device::{DeviceIndex, QueueLimits};

/// A set of simulated devices. Clones are handles to the same devices.
///
/// Calls that name a device that does not exist do nothing, or return nothing.
#[derive(Clone)]
pub struct SimDisk {
    machine: Shared,
}

/// The content of all devices at one moment, durable and volatile. Cheap to take, clone and
/// restore: pages are shared until they change.
#[derive(Clone)]
pub struct Snapshot(Vec<Media>);

impl SimDisk {
    /// New, empty devices; device `n` is like `configs[n]`.
    pub fn new(configs: impl IntoIterator<Item = SimConfig>) -> Self {
        let machine = Machine::new(configs.into_iter().collect());
        Self { machine: Arc::new(Mutex::new(machine)) }
    }

    /// One device.
    pub fn single(config: SimConfig) -> Self {
        Self::new([config])
    }

    /// A queue over all devices. Several may be open at once; they share the clock. After
    /// [`cut_after_ops`](Self::cut_after_ops) or [`power_off`](Self::power_off) this is where the
    /// power comes back, with an arbitrary choice of what survived.
    pub fn queue(&self) -> SimQueue {
        SimQueue::open(&self.machine)
    }

    /// How many devices there are.
    pub fn devices(&self) -> usize {
        lock(&self.machine).devices.len()
    }

    /// What an engine is told about a device.
    pub fn limits(&self, device: DeviceIndex) -> Option<QueueLimits> {
        self.with(device, |device| device.config.limits())
    }

    /// Simulated nanoseconds since the disk was made.
    pub fn now(&self) -> u64 {
        lock(&self.machine).now()
    }

    // Power.

    /// Cuts the power and brings it back. Of each 512-byte sector the durable version or any later
    /// one is left, writes in flight included. Queues open until now fail everything with
    /// `BrokenPipe`.
    pub fn power_cut(&self) {
        self.power_cut_with(Cut::Arbitrary);
    }

    /// As [`power_cut`](Self::power_cut), with only what was durable left.
    pub fn power_cut_keep_none(&self) {
        self.power_cut_with(Cut::KeepNone);
    }

    /// As [`power_cut`](Self::power_cut), with everything left: the engine died, the devices did
    /// not. Writes in flight are all stored, overlapping ones in an arbitrary order.
    pub fn power_cut_keep_all(&self) {
        self.power_cut_with(Cut::KeepAll);
    }

    /// Cuts the power and brings it back, with what `how` says left.
    pub fn power_cut_with(&self, how: Cut) {
        lock(&self.machine).power_cut(how);
    }

    /// Cuts the power and leaves it off: queues fail with `BrokenPipe`, and what survives is not
    /// decided yet. A [`snapshot`](Self::snapshot) now can be restored to try several outcomes,
    /// each after [`reseed`](Self::reseed).
    pub fn power_off(&self) {
        lock(&self.machine).freeze();
    }

    /// [`power_off`](Self::power_off) when `operations` more operations of any kind are done (0:
    /// at once). Those are reported well; everything after them fails. With the count of a first
    /// run from [`stats`](Self::stats), a test cuts at every point in turn.
    pub fn cut_after_ops(&self, operations: u64) {
        lock(&self.machine).cut_after(Counted::Operations, operations);
    }

    /// As [`cut_after_ops`](Self::cut_after_ops), counting only writes, flushes and discards
    /// ([`Stats::changes`]), since a cut between two reads shows nothing new.
    pub fn cut_after_changes(&self, changes: u64) {
        lock(&self.machine).cut_after(Counted::Changes, changes);
    }

    /// True from the moment the power failed until it is back.
    pub fn is_off(&self) -> bool {
        lock(&self.machine).frozen
    }

    /// Makes all chance from now on a function of `seed`.
    pub fn reseed(&self, seed: u64) {
        lock(&self.machine).reseed(seed);
    }

    // Faults.

    /// Replaces the plan of what goes wrong.
    pub fn set_faults(&self, plan: FaultPlan) {
        lock(&self.machine).plan = plan;
    }

    /// Nothing goes wrong from now on; what is damaged stays damaged.
    pub fn clear_faults(&self) {
        self.set_faults(FaultPlan::new());
    }

    /// Adds a rule after those of the plan.
    pub fn add_fault(&self, rule: FaultRule) {
        let mut machine = lock(&self.machine);
        machine.plan = std::mem::take(&mut machine.plan).rule(rule);
    }

    /// The next operation of this kind on this device ends with `errno`.
    pub fn fail_next(&self, device: DeviceIndex, kind: OpKind, errno: i32) {
        self.add_fault(FaultRule::new(kind, Fault::Fail(errno)).on(device));
    }

    /// Operations of this kind that touch the range end with `errno`, for good.
    pub fn fail_range(&self, device: DeviceIndex, kind: OpKind, range: Range<u64>, errno: i32) {
        self.add_fault(FaultRule::new(kind, Fault::Fail(errno)).on(device).within(range).forever());
    }

    /// Pulls the device, or plugs it in again with its content: while it is gone everything fails
    /// with `ENODEV`.
    pub fn set_gone(&self, device: DeviceIndex, gone: bool) {
        self.with(device, |device| device.gone = gone);
    }

    /// True while the device is pulled.
    pub fn is_gone(&self, device: DeviceIndex) -> bool {
        self.with(device, |device| device.gone).unwrap_or(false)
    }

    /// True while there is something volatile that a failed flush has abandoned: no later one makes it durable.
    pub fn has_abandoned(&self, device: DeviceIndex) -> bool {
        self.with(device, |device| device.media.has_abandoned()).unwrap_or(false)
    }

    /// Allows at most `limit` allocated pages: beyond it a write that needs a fresh page fails
    /// with `ENOSPC` and stores nothing, as a sparse file on a full disk does. Overwrites go on.
    pub fn limit_pages(&self, device: DeviceIndex, limit: Option<u64>) {
        self.with(device, |device| device.limit_pages = limit);
    }

    /// Full: no fresh page from now on; or no limit.
    pub fn set_full(&self, device: DeviceIndex, full: bool) {
        self.limit_pages(device, full.then_some(0));
    }

    // Content.

    /// The bytes that a read would see; beyond the end of the device zeros.
    pub fn read_raw(&self, device: DeviceIndex, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.with(device, |device| device.media.store().read(offset, &mut bytes));
        bytes
    }

    /// Changes bytes behind everybody's back: visible and durable at once, and no volatile version
    /// of the sectors is left. Any alignment; what lies beyond the end of the device is cut off.
    pub fn write_raw(&self, device: DeviceIndex, offset: u64, data: &[u8]) {
        self.with(device, |device| {
            let room = super::store::small(device.size.saturating_sub(offset));
            let data = data.get(..room).unwrap_or(data);
            device.media.set_raw(offset, data);
        });
    }

    /// Bit rot: flips bit `bit` (0-7) of the byte at `offset`.
    pub fn flip_bit(&self, device: DeviceIndex, offset: u64, bit: u32) {
        let flipped: Vec<u8> =
            self.read_raw(device, offset, 1).iter().map(|byte| byte ^ (1 << (bit % 8))).collect();
        self.write_raw(device, offset, &flipped);
    }

    /// Replaces the range by noise, a function of the range alone; every byte changes.
    pub fn corrupt(&self, device: DeviceIndex, range: Range<u64>) {
        let len = super::store::small(range.end.saturating_sub(range.start));
        let mut noise = Rng::new(range.start ^ range.end.rotate_left(32));
        let mut bytes = self.read_raw(device, range.start, len);
        for byte in &mut bytes {
            let change = u8::try_from(1 + noise.below(255)).unwrap_or(1);
            *byte ^= change;
        }
        self.write_raw(device, range.start, &bytes);
    }

    /// Forgets all content of a device: it is blank, as a replacement is.
    pub fn erase(&self, device: DeviceIndex) {
        self.with(device, |device| device.media = Media::default());
    }

    /// Pages of 4096 bytes that hold content.
    pub fn allocated_pages(&self, device: DeviceIndex) -> u64 {
        self.with(device, |device| device.media.store().allocated()).unwrap_or(0)
    }

    /// The byte offsets of the allocated pages in a range, in order: what a test may damage.
    pub fn allocated_in(&self, device: DeviceIndex, range: Range<u64>) -> Vec<u64> {
        let pages = range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES);
        let found = self.with(device, |device| device.media.store().allocated_in(pages));
        found.unwrap_or_default().into_iter().map(|page| page * PAGE_BYTES).collect()
    }

    /// Pages with content that a power cut could still lose.
    pub fn volatile_pages(&self, device: DeviceIndex) -> usize {
        self.with(device, |device| device.media.volatile_pages()).unwrap_or(0)
    }

    /// The content of all devices, without what is in flight (unless the power is off: then those
    /// writes are volatile content).
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(lock(&self.machine).devices.iter().map(|device| device.media.clone()).collect())
    }

    /// Puts the content back. Queues open until now fail everything with `BrokenPipe`. If the
    /// snapshot was taken with the power off, cut the power next to decide what survived. Faults,
    /// counters, clock and chance stay as they are.
    pub fn restore(&self, snapshot: &Snapshot) {
        let mut machine = lock(&self.machine);
        machine.freeze();
        machine.frozen = false;
        for (device, media) in machine.devices.iter_mut().zip(&snapshot.0) {
            device.media = media.clone();
        }
    }

    // Observation.

    /// What all devices did, summed.
    pub fn stats(&self) -> Stats {
        lock(&self.machine).stats()
    }

    /// What one device did.
    pub fn device_stats(&self, device: DeviceIndex) -> Stats {
        self.with(device, |device| device.stats).unwrap_or_default()
    }

    /// A hash over every operation that was done: time, tag, kind, device, offset, data, result.
    /// Two runs with the same seed and a deterministic engine have the same digest.
    pub fn digest(&self) -> u64 {
        lock(&self.machine).digest()
    }

    fn with<R>(&self, device: DeviceIndex, act: impl FnOnce(&mut Device) -> R) -> Option<R> {
        lock(&self.machine).devices.get_mut(usize::from(device)).map(act)
    }
}

impl std::fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let machine = lock(&self.machine);
        let sizes: Vec<u64> = machine.devices.iter().map(|device| device.size).collect();
        f.debug_struct("SimDisk").field("sizes", &sizes).field("stats", &machine.stats()).finish()
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pages: Vec<u64> = self.0.iter().map(|media| media.store().allocated()).collect();
        f.debug_struct("Snapshot").field("allocated_pages", &pages).finish()
    }
}
