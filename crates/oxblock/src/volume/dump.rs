//! Structures on the media, decoded, with the names of `docs/format.md`.
//!
//! What is shown is what is there, not what recovery makes of it: a volume that does not open can be dumped. The one
//! exception is said by name (`after_replay` of a block's path).

use std::path::PathBuf;

use uuid::Uuid;

use crate::device::{DeviceOptions, IoQueue, Sharing, open_devices};
use crate::error::{Error, ErrorKind, Result};
use crate::format::layout::{BLOCK_BYTES, BLOCK_SIZE, SUPERBLOCK_SIZE};
use crate::format::pointer::{Pointer, identity};
use crate::format::record::{Entry, FLAG_CONTINUES, Header, Kind};
use crate::format::segment::FLAG_DAMAGED;
use crate::format::superblock::{Checkpoint, Head, Superblock};
use crate::log::load::{Slot, choose_superblock, load_table, read_slots};
use crate::map;
use crate::volume::inspect::{HeaderFault, Media, SlotState, judge, newest};
use crate::volume::open::OpenOptions;
use crate::volume::poll::Volume;

/// What to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All superblock slots, and the newest superblock in full.
    Superblock,
    /// The checkpoint in force.
    Checkpoint,
    /// A segment's entry in the table, and its records.
    Segment(u64),
    /// The record whose header is at this address, in blocks of the log space.
    Record(u64),
    /// The path from the root of the map to this logical block.
    Map(u64),
}

/// A value of a dump.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(u64),
    /// Yes or no.
    Flag(bool),
    /// Text: names, hexadecimal checksums, sentences.
    Text(String),
    /// Fields of a structure.
    Group(Fields),
    /// Several of the same sort.
    List(Vec<Value>),
    /// Nothing is there.
    None,
}

/// Named values in their order.
pub type Fields = Vec<(String, Value)>;

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

fn fields<const N: usize>(list: [(&str, Value); N]) -> Fields {
    list.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn hex(csum: u128) -> Value {
    Value::Text(format!("{csum:x}"))
}

fn uuid(bytes: [u8; 16]) -> Value {
    Value::Text(Uuid::from_bytes(bytes).to_string())
}

/// Shows `part` of the volume on `devices`, which nobody may have open for writing.
///
/// # Errors
/// What keeps the part from being found: no volume, one in use, an address out of range. Damage is shown, not an error.
pub fn dump(devices: &[PathBuf], part: Part, options: &OpenOptions) -> Result<Fields> {
    let [path] = devices else {
        let message =
            format!("{} devices given; this version opens volumes of one device", devices.len());
        return Err(Error::new(ErrorKind::Unsupported, message));
    };
    let opened = open_devices(
        devices,
        &DeviceOptions {
            writable: false,
            create_size: None,
            exclusive: true,
            call: options.device_call,
            sharing: Sharing::Exclusive,
        },
    )?;
    dump_on(opened.queue, part, options).map_err(|error| error.context(path.display()))
}

/// Shows `part` of the volume behind a queue of devices.
///
/// # Errors
/// As for [`dump`].
pub fn dump_on(
    mut queue: Box<dyn IoQueue + Send>,
    part: Part,
    options: &OpenOptions,
) -> Result<Fields> {
    let slots = read_slots(queue.as_mut())?;
    let Some(superblock) = newest(&slots).cloned() else {
        // Says what is there instead, or what is wrong with what is.
        choose_superblock(queue.as_mut(), &slots)?;
        return Ok(Vec::new());
    };
    match part {
        Part::Superblock => Ok(superblocks(queue.as_mut(), &slots, &superblock)),
        Part::Checkpoint => Ok(checkpoint(&superblock.checkpoint)),
        Part::Segment(number) => segment(&mut Media::new(queue.as_mut(), &superblock), number),
        Part::Record(addr) => record(&mut Media::new(queue.as_mut(), &superblock), addr),
        Part::Map(block) => path(queue, &superblock, block, options),
    }
}

fn superblocks(queue: &mut dyn IoQueue, slots: &[Slot], newest: &Superblock) -> Fields {
    let size = queue.limits().first().map_or(0, |limits| limits.size);
    let recorded = newest.devices.first().map_or(size, |device| device.size);
    let mut copies = Vec::new();
    for slot in slots {
        let state = match judge(queue, slot, newest, recorded) {
            SlotState::Good => "valid",
            SlotState::Stale => "older than it should be",
            SlotState::Blank => "blank",
            SlotState::Damaged => "damaged",
            SlotState::Stranger => "contradicts the one in force",
        };
        let mut copy = fields([("offset", slot.offset.into()), ("state", state.into())]);
        match &slot.found {
            Ok(Some(found)) => {
                copy.push(("generation".into(), found.checkpoint.generation.into()));
            }
            Ok(None) => {}
            Err(error) => copy.push(("error".into(), error.to_string().into())),
        }
        copies.push(Value::Group(copy));
    }
    let devices = newest.devices.iter().map(|device| {
        Value::Group(fields([
            ("uuid", uuid(device.uuid)),
            ("size", device.size.into()),
            ("path", device.path.as_str().into()),
        ]))
    });
    fields([
        ("copies", Value::List(copies)),
        ("version", crate::format::layout::VERSION.into()),
        ("size", (SUPERBLOCK_SIZE as u64).into()),
        ("compat", newest.features.compat.into()),
        ("ro_compat", newest.features.ro_compat.into()),
        ("incompat", newest.features.incompat.into()),
        ("volume", uuid(newest.volume)),
        ("device", uuid(newest.device)),
        ("created", newest.created.into()),
        ("lane", u64::from(newest.lane).into()),
        ("lanes", u64::from(newest.lanes).into()),
        ("device_index", u64::from(newest.device_index).into()),
        ("csum", newest.csum.name().into()),
        ("profile", newest.profile.name().into()),
        ("streams", u64::from(newest.streams).into()),
        ("volume_blocks", newest.volume_blocks.into()),
        ("segment_blocks", newest.segment_blocks.into()),
        ("segments", newest.segments.into()),
        ("data_start", newest.data_start.into()),
        ("label", newest.label.as_str().into()),
        ("devices", Value::List(devices.collect())),
        ("checkpoint", Value::Group(checkpoint(&newest.checkpoint))),
    ])
}

fn pointer(pointer: Pointer) -> Value {
    if pointer.is_null() {
        return Value::None;
    }
    Value::Group(fields([("addr", pointer.addr.into()), ("csum", hex(pointer.csum))]))
}

fn checkpoint(point: &Checkpoint) -> Fields {
    let head = |head: &Option<Head>| match head {
        None => Value::None,
        Some(head) => {
            Value::Group(fields([("segment", head.segment.into()), ("offset", head.offset.into())]))
        }
    };
    fields([
        ("generation", point.generation.into()),
        ("epoch", point.epoch.into()),
        ("sequence", point.sequence.into()),
        ("clean", point.clean.into()),
        ("used_blocks", point.used_blocks.into()),
        ("checksum_errors", point.checksum_errors.into()),
        ("map_height", u64::from(point.map_height).into()),
        ("map_root", pointer(point.map_root)),
        ("table_height", u64::from(point.table_height).into()),
        ("table_root", pointer(point.table_root)),
        ("heads", Value::List(point.heads.iter().map(head).collect())),
        ("reserve", Value::List(point.reserve.iter().map(|id| (*id).into()).collect())),
    ])
}

fn out_of_range(what: &str, number: u64, limit: u64) -> Error {
    let message =
        format!("{what} {number} does not exist; the last is {}", limit.saturating_sub(1));
    Error::new(ErrorKind::InvalidInput, message)
}

fn segment(media: &mut Media<'_>, number: u64) -> Result<Fields> {
    let superblock = media.superblock;
    let limit = u64::from(superblock.segments);
    let id = u32::try_from(number).ok().filter(|_| number < limit);
    let id = id.ok_or_else(|| out_of_range("segment", number, limit))?;
    let (table, entries, damage) = load_table(media.queue, superblock, &media.csum)?;
    let point = &superblock.checkpoint;
    let first = u64::from(id) * u64::from(superblock.segment_blocks);
    let behind = first + u64::from(superblock.segment_blocks);
    let entry = entries.get(id as usize).copied().unwrap_or_default();
    let tables = table.addresses().filter(|addr| (first..behind).contains(addr)).count();
    let head = point.heads.iter().flatten().find(|head| head.segment == id);
    let state = if head.is_some() {
        "open"
    } else if point.reserve.contains(&id) {
        "reserved"
    } else if entry.live.get() > 0 || tables > 0 {
        "sealed"
    } else {
        "free"
    };
    let mut out = fields([
        ("segment", id.into()),
        ("state", state.into()),
        ("addr", first.into()),
        ("device_offset", media.offset(first).into()),
        ("generation", entry.generation.get().into()),
        ("sealed", entry.sealed.get().into()),
        ("live", entry.live.get().into()),
        ("table_blocks", (tables as u64).into()),
        ("written", head.map_or(entry.written.get(), |head| head.offset).into()),
        ("damaged", (entry.flags.get() & FLAG_DAMAGED != 0).into()),
        ("device", u64::from(entry.device.get()).into()),
        ("slot", entry.slot.get().into()),
    ]);
    if !damage.is_empty() {
        let text = format!("{} blocks are damaged; the entry may be one of theirs", damage.len());
        out.push(("segment_table".into(), text.into()));
    }
    let (records, end) = chain(media, first, behind);
    out.push(("records".into(), Value::List(records)));
    out.push(("records_end".into(), Value::Group(end)));
    Ok(out)
}

/// The chain of records from `addr` to the first place where there is none.
fn chain(media: &mut Media<'_>, addr: u64, behind: u64) -> (Vec<Value>, Fields) {
    let mut records = Vec::new();
    let mut at = addr;
    let mut generation = None;
    let mut sequence = 0;
    let why = loop {
        if at >= behind {
            break "the segment is full".to_owned();
        }
        let (header, _) = match media.header(at) {
            Ok(found) => found,
            Err(fault) => break fault.to_string(),
        };
        if header.volume != media.superblock.volume {
            break "a record of another volume".to_owned();
        }
        if generation.is_some_and(|generation| generation != header.generation)
            || header.sequence <= sequence
        {
            break "a record of an earlier life of the segment".to_owned();
        }
        generation = Some(header.generation);
        sequence = header.sequence;
        records.push(Value::Group(fields([
            ("addr", at.into()),
            ("kind", header.kind.name().into()),
            ("stream", u64::from(header.stream).into()),
            ("sequence", header.sequence.into()),
            ("epoch", header.epoch.into()),
            ("generation", header.generation.into()),
            ("durable", header.durable.into()),
            ("entries", header.entries.into()),
            ("blocks", (u64::from(header.header_blocks) + u64::from(header.payload_blocks)).into()),
        ])));
        at += u64::from(header.header_blocks) + u64::from(header.payload_blocks);
    };
    (records, fields([("addr", at.into()), ("why", why.into())]))
}

fn record(media: &mut Media<'_>, addr: u64) -> Result<Fields> {
    if addr >= media.limit() {
        return Err(out_of_range("address", addr, media.limit()));
    }
    let (header, entries) = media.header(addr).map_err(|fault| {
        let offset = media.offset(addr);
        let kind = match fault {
            HeaderFault::Unreadable(_) => ErrorKind::Io,
            HeaderFault::Invalid(_) => ErrorKind::InvalidInput,
        };
        let message =
            format!("no record begins at address {addr} (device offset {offset}): {fault}");
        Error::new(kind, message)
    })?;
    let sums = media.payload(&header, &entries);
    let first = header.addr + u64::from(header.header_blocks);
    let ours = header.volume == media.superblock.volume;
    let mut bad = 0_u64;
    let mut list = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let mut shown = entry_fields(&header, entry);
        if header.kind.has_payload() {
            let got = sums.get(index).copied().flatten();
            let verifies = got == Some(entry.csum);
            bad += u64::from(!verifies);
            let place = first + index as u64;
            shown.extend(fields([
                ("addr", place.into()),
                ("device_offset", media.offset(place).into()),
                ("verifies", verifies.into()),
            ]));
            if !verifies {
                shown.push(("got".into(), got.map_or("read error".into(), hex)));
            }
        }
        list.push(Value::Group(shown));
    }
    Ok(fields([
        ("addr", addr.into()),
        ("device_offset", media.offset(addr).into()),
        ("kind", header.kind.name().into()),
        ("stream", u64::from(header.stream).into()),
        ("continues", (header.flags & FLAG_CONTINUES != 0).into()),
        ("header_blocks", u64::from(header.header_blocks).into()),
        ("payload_blocks", header.payload_blocks.into()),
        ("volume", uuid(header.volume)),
        ("of_this_volume", ours.into()),
        ("lane", u64::from(header.lane).into()),
        ("sequence", header.sequence.into()),
        ("epoch", header.epoch.into()),
        ("durable", header.durable.into()),
        ("segment", header.segment.into()),
        ("generation", header.generation.into()),
        ("verifies", (bad == 0).into()),
        ("bad_blocks", bad.into()),
        ("entries", Value::List(list)),
    ]))
}

fn entry_fields(header: &Header, entry: &Entry) -> Fields {
    match header.kind {
        Kind::Data => fields([("block", entry.id.into()), ("csum", hex(entry.csum))]),
        Kind::Relocate => fields([
            ("block", entry.id.into()),
            ("csum", hex(entry.csum)),
            ("old_addr", entry.aux.into()),
        ]),
        Kind::Map => match identity::parse_node(entry.id) {
            Some((table, level, index)) => fields([
                ("tree", if table { "segment table" } else { "map" }.into()),
                ("level", u64::from(level).into()),
                ("index", index.into()),
                ("csum", hex(entry.csum)),
            ]),
            None => fields([("id", entry.id.into()), ("csum", hex(entry.csum))]),
        },
        Kind::Trim | Kind::Zero | Kind::Pad => {
            fields([("block", entry.id.into()), ("blocks", entry.aux.into())])
        }
    }
}

/// The path to `block` as the checkpoint has it, and where the replayed log takes it.
fn path(
    mut queue: Box<dyn IoQueue + Send>,
    superblock: &Superblock,
    block: u64,
    options: &OpenOptions,
) -> Result<Fields> {
    if block >= superblock.volume_blocks {
        return Err(out_of_range("block", block, superblock.volume_blocks));
    }
    let mut media = Media::new(queue.as_mut(), superblock);
    let shift = media.width.fanout_shift();
    let height = map::height(media.width, superblock.volume_blocks);
    let mut at = superblock.checkpoint.map_root;
    let mut nodes = Vec::new();
    let mut whole = true;
    for level in (0..height).rev() {
        if at.is_null() {
            break;
        }
        let index = block >> (shift * (u32::from(level) + 1));
        let slot = block >> (shift * u32::from(level)) & ((1 << shift) - 1);
        let (mut node, page) = place(&mut media, at, identity::node(false, level, index));
        node.splice(
            0..0,
            fields([
                ("level", u64::from(level).into()),
                ("index", index.into()),
                ("slot", slot.into()),
            ]),
        );
        nodes.push(Value::Group(node));
        let Some(page) = page else {
            whole = false;
            break;
        };
        at = media.width.get(&page, usize::try_from(slot).unwrap_or(0));
    }
    let mut out = fields([
        ("block", block.into()),
        ("byte_offset", (block * BLOCK_BYTES).into()),
        ("map_height", u64::from(height).into()),
        ("nodes", Value::List(nodes)),
    ]);
    let data = match (whole, at.is_null()) {
        (false, _) => "cannot be found: a node on the path is damaged".into(),
        (true, true) => Value::None,
        (true, false) => Value::Group(place(&mut media, at, identity::data(block)).0),
    };
    out.push(("data".into(), data));
    let options = OpenOptions { read_only: true, ..options.clone() };
    let after = match Volume::open_on(queue, &options) {
        Ok(mut volume) => loop {
            match volume.lane.map.get(block) {
                Ok(now) => break pointer(now),
                Err(miss) if volume.lane.fetches.is_lost(miss.key) => {
                    break "cannot be found: a node on the path is damaged".into();
                }
                Err(miss) => volume.lane.fetch_now(miss),
            }
        },
        Err(error) => format!("the volume does not open: {error}").into(),
    };
    out.push(("after_replay".into(), after));
    Ok(out)
}

/// Where a pointer leads, whether what is there verifies, and the bytes if it does.
fn place(media: &mut Media<'_>, to: Pointer, id: u64) -> (Fields, Option<crate::device::Buf>) {
    let mut out = fields([("addr", to.addr.into())]);
    if to.addr >= media.limit() {
        out.extend(fields([("csum", hex(to.csum)), ("verifies", false.into())]));
        out.push(("error".into(), "the address is beyond the log space".into()));
        return (out, None);
    }
    out.push(("device_offset".into(), media.offset(to.addr).into()));
    let page = media.read(to.addr, 1).ok();
    let got = page.as_ref().map(|page| media.csum.of(id, page));
    let verifies = got == Some(to.csum);
    out.extend(fields([("csum", hex(to.csum)), ("verifies", verifies.into())]));
    if !verifies {
        out.push(("got".into(), got.map_or("read error".into(), hex)));
    }
    (out, page.filter(|page| verifies && page.len() == BLOCK_SIZE))
}
