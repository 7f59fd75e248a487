//! Making volumes.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use uuid::Uuid;

use crate::csum::CsumKind;
use crate::device::{
    Buf, DeviceCall, DeviceOptions, Extents, IoQueue, Opened, Sharing, open_devices, preallocate,
};
use crate::error::{Error, ErrorKind, Result};
use crate::format::features::Features;
use crate::format::is_zero;
use crate::format::layout::{
    AREA_BYTES, BLOCK_BYTES, BLOCK_LIMIT, LABEL_SIZE, MAX_RESERVE, MAX_SEGMENT_BLOCKS,
    MIN_SEGMENT_BLOCKS, SUPERBLOCK_MAGIC,
};
use crate::format::pointer::{Pointer, PointerWidth};
use crate::format::policy::StoredPolicy;
use crate::format::superblock::{Checkpoint, DeviceEntry, Profile, Superblock, offsets};
use crate::log::append::STREAMS;
use crate::log::load::{Blocking, describe_foreign, read_slots};
use crate::log::table::Table;
use crate::map;

/// Segments that a volume needs besides those that its data fills: open ones, those kept for checkpoints and for
/// cleaning, and those on their way from one use to the next.
const SPARE_SEGMENTS: u64 = 20;
/// Space for data and map over what the data takes when new, so that cleaning finds segments that are worth it: a
/// quarter, or at the least a twelfth.
const USUAL_SPACE: (u64, u64) = (5, 4);
const LEAST_SPACE: (u64, u64) = (13, 12);

/// Bytes of a file's data that are looked at from the first to the last, before samples must do.
const SEARCHED_BYTES: u64 = 64 << 20;
/// Samples of a file's further data, at most, and the bytes of one.
const SAMPLES: u64 = 1024;
const SAMPLE_BYTES: u64 = 64 << 10;

/// What a new volume is to be.
#[derive(Debug, Clone)]
pub struct CreateOptions {
    /// Bytes that the volume shall hold, rounded up to 4096; `None` for what the device has room for.
    pub size: Option<u64>,
    /// Checksum type of its blocks.
    pub csum: CsumKind,
    /// A name of up to 64 bytes.
    pub label: String,
    /// Lanes. This version makes volumes of one.
    pub lanes: u16,
    /// Overwrite what the device holds.
    pub force: bool,
    /// Write the whole backing file once, so that later writes never allocate.
    pub preallocate: bool,
    /// How operations reach the device.
    pub device_call: DeviceCall,
}

impl Default for CreateOptions {
    fn default() -> Self {
        Self {
            size: None,
            csum: CsumKind::default(),
            label: String::new(),
            lanes: 1,
            force: false,
            preallocate: false,
            device_call: DeviceCall::Auto,
        }
    }
}

/// What was made.
#[derive(Debug, Clone)]
pub struct Created {
    /// Bytes that the volume holds.
    pub size: u64,
    /// Bytes of the device that it takes.
    pub device_size: u64,
    /// Identity.
    pub volume: Uuid,
    /// What the user should know.
    pub notices: Vec<String>,
}

/// The shape that a volume gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    blocks: u64,
    segment_blocks: u32,
    segments: u32,
}

fn segment_blocks(capacity_blocks: u64) -> u32 {
    let wanted = (capacity_blocks / 256).next_power_of_two();
    let wanted = u32::try_from(wanted).unwrap_or(MAX_SEGMENT_BLOCKS);
    wanted.clamp(MIN_SEGMENT_BLOCKS, MAX_SEGMENT_BLOCKS)
}

fn scaled(blocks: u64, space: (u64, u64)) -> u64 {
    blocks.div_ceil(space.1).saturating_mul(space.0)
}

impl Shape {
    /// For `blocks` logical blocks on a device that may be as large as it likes.
    fn for_blocks(blocks: u64, space: (u64, u64)) -> Option<Self> {
        let wanted = scaled(blocks, space);
        let segment_blocks = segment_blocks(wanted);
        let segments = wanted.div_ceil(u64::from(segment_blocks)) + SPARE_SEGMENTS;
        Some(Self { blocks, segment_blocks, segments: u32::try_from(segments).ok()? })
    }

    /// For `device` bytes that are there: at most `blocks` logical blocks, or as many as go.
    fn for_device(device: u64, blocks: Option<u64>) -> Option<Self> {
        let room = device.checked_sub(2 * AREA_BYTES)? / BLOCK_BYTES;
        let segment_blocks = segment_blocks(room);
        let segments = room / u64::from(segment_blocks);
        let data = segments.checked_sub(SPARE_SEGMENTS)? * u64::from(segment_blocks);
        let space = if blocks.is_some() { LEAST_SPACE } else { USUAL_SPACE };
        let most = data / space.0 * space.1;
        let blocks = blocks.unwrap_or(most);
        let fits = blocks > 0 && blocks <= most;
        fits.then_some(Self { blocks, segment_blocks, segments: u32::try_from(segments).ok()? })
    }

    fn device_size(self) -> u64 {
        2 * AREA_BYTES + u64::from(self.segments) * u64::from(self.segment_blocks) * BLOCK_BYTES
    }
}

/// Bytes that a device needs for a volume of `size` bytes: data, map, and the space that cleaning works with.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] for a size of zero or beyond the format.
pub fn required_size(size: u64) -> Result<u64> {
    shape_for_size(size).map(Shape::device_size)
}

fn shape_for_size(size: u64) -> Result<Shape> {
    let blocks = size.div_ceil(BLOCK_BYTES);
    let invalid =
        |why: &str| Error::new(ErrorKind::InvalidInput, format!("a volume of {size} bytes: {why}"));
    if blocks == 0 {
        return Err(invalid("it must hold at least one block"));
    }
    if blocks > BLOCK_LIMIT / 4 {
        return Err(invalid("too large for the format"));
    }
    Shape::for_blocks(blocks, USUAL_SPACE).ok_or_else(|| invalid("too large for the format"))
}

/// Makes a volume on one device. A missing file is created, sparse, as large as the volume needs. With
/// [`preallocate`](CreateOptions::preallocate), `progress` is told the bytes written so far and the bytes in all; everything
/// else is done at once.
///
/// # Errors
/// [`ErrorKind::Foreign`] when the device holds something and `force` is not set; [`ErrorKind::NoSpace`] when it is too
/// small, with the smallest that works and the most that fits; [`ErrorKind::InvalidInput`], [`ErrorKind::Unsupported`];
/// what opening a device gives. After an error a file that was missing is missing again.
pub fn create(
    devices: &[PathBuf],
    options: &CreateOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Created> {
    let [path] = devices else {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!("{} devices given; this version makes volumes of one device", devices.len()),
        ));
    };
    validate(options)?;
    let wanted = options.size.map(shape_for_size).transpose()?;
    let device = DeviceOptions {
        writable: true,
        create_size: wanted.map(Shape::device_size),
        exclusive: true,
        call: options.device_call,
        sharing: Sharing::Exclusive,
    };
    let Opened { mut queue, notices, made } = open_devices(devices, &device)?;
    let created = create_opened(queue.as_mut(), path, options, progress);
    if created.is_err() {
        // The lock is held still, so this is nobody else's by now.
        made.iter().for_each(crate::device::Made::remove);
    }
    Ok(Created { notices, ..created? })
}

/// Makes a volume on an open device; checks first, then changes.
fn create_opened(
    queue: &mut dyn IoQueue,
    path: &Path,
    options: &CreateOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Created> {
    let at_path = |error: Error| error.context(path.display());
    let bytes = queue.limits().first().map_or(0, |limits| limits.size);
    if !options.force {
        check_empty(queue, path).map_err(at_path)?;
    }
    choose_shape(bytes, options.size).map_err(at_path)?;
    if options.preallocate {
        preallocate(path, queue, progress)?;
    }
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    create_on(queue, options, &absolute.to_string_lossy()).map_err(at_path)
}

/// Refuses what cannot be made, before anything is touched.
fn validate(options: &CreateOptions) -> Result<()> {
    if options.lanes != 1 {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!("{} lanes asked for; this version makes volumes of one lane", options.lanes),
        ));
    }
    if options.label.len() > LABEL_SIZE || options.label.contains('\0') {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            format!("a label has at most {LABEL_SIZE} bytes and no zero byte"),
        ));
    }
    Ok(())
}

/// Refuses a device that holds something:
///
/// - a superblock of ours, valid or damaged, in any slot; in a file that grew the second area is looked for where the
///   first says that the device ended;
/// - anything but zeroes in the first and the last 1 MiB ([`foreign`](crate::format::foreign));
/// - in a regular file, anything but zeroes in its data. Holes are empty by definition. The first 64 MiB of data are
///   read completely. Of what lies beyond, at most 1024 samples of 64 KiB are read, spread evenly over the file and moved
///   on to the next data where they would hit a hole; zeroes in all of them count as a file that was preallocated.
fn check_empty(queue: &mut dyn IoQueue, path: &Path) -> Result<()> {
    let mut found = holds_superblock(queue)?.then(|| "an oxblock volume".to_string());
    if found.is_none() {
        found = describe_foreign(queue)?;
    }
    if found.is_none() {
        found = find_data(queue, path)?;
    }
    match found {
        None => Ok(()),
        Some(what) => Err(Error::new(
            ErrorKind::Foreign,
            format!("there is {what} on it; use --force to overwrite it"),
        )),
    }
}

/// A superblock is in any slot, or what was one.
fn holds_superblock(queue: &mut dyn IoQueue) -> Result<bool> {
    for slot in read_slots(queue) {
        match slot.found {
            Ok(None) => {}
            Ok(Some(_)) => return Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported) => {
                return Ok(true);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// What a regular file has in its middle, by the rule of [`check_empty`].
fn find_data(queue: &mut dyn IoQueue, path: &Path) -> Result<Option<String>> {
    const PIECE: u64 = 1 << 20;
    let size = queue.limits().first().map_or(0, |limits| limits.size);
    let Some(extents) = Extents::of(path, size)? else { return Ok(None) };
    let step = size.div_ceil(SAMPLES).next_multiple_of(SAMPLE_BYTES);
    let mut reader = Blocking { queue };
    let mut searched = 0;
    let mut from = 0;
    while let Some(data) = extents.next(from) {
        let start = (data.start / BLOCK_BYTES * BLOCK_BYTES).max(from);
        let end = data.end.next_multiple_of(BLOCK_BYTES).min(size);
        let whole = searched < SEARCHED_BYTES;
        let len = (end - start).min(if whole { PIECE } else { SAMPLE_BYTES });
        let bytes = reader
            .read(start, usize::try_from(len).unwrap_or(0))
            .map_err(|error| Error::io(format!("reading at offset {start}"), error))?;
        if !is_zero(&bytes) {
            let at = bytes.iter().position(|byte| *byte != 0).unwrap_or(0);
            let ours = bytes.get(at..).is_some_and(|rest| rest.starts_with(&SUPERBLOCK_MAGIC));
            return Ok(Some(if ours {
                "an oxblock volume".into()
            } else {
                let offset = start + at as u64;
                format!("unknown data (first non-zero byte at offset {offset})")
            }));
        }
        searched += len;
        from = start + if whole { len } else { step };
    }
    Ok(None)
}

/// Makes a volume on the first device of an open queue, whatever it holds.
///
/// # Errors
/// As for [`create`].
pub fn create_on(queue: &mut dyn IoQueue, options: &CreateOptions, path: &str) -> Result<Created> {
    validate(options)?;
    let Some(limits) = queue.limits().first().cloned() else {
        return Err(Error::new(ErrorKind::InvalidInput, "no device"));
    };
    let shape = choose_shape(limits.size, options.size)?;
    let volume = Uuid::new_v4();
    let device = Uuid::new_v4().into_bytes();
    let width = PointerWidth::for_csum(options.csum.width());
    let tail = (shape.segments / 4).max(8).min(shape.segments / 2) as usize;
    let reserve = (0..shape.segments).take(tail.min(MAX_RESERVE / 2)).collect();
    let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let superblock = Superblock {
        features: Features::CURRENT,
        volume: volume.into_bytes(),
        device,
        created,
        lane: 0,
        lanes: 1,
        device_index: 0,
        csum: options.csum,
        profile: Profile::Single,
        streams: STREAMS,
        volume_blocks: shape.blocks,
        segment_blocks: shape.segment_blocks,
        segments: shape.segments,
        data_start: AREA_BYTES,
        label: options.label.clone(),
        devices: vec![DeviceEntry { uuid: device, size: limits.size, path: path.into() }],
        policy: StoredPolicy::default(),
        checkpoint: Checkpoint {
            generation: 1,
            epoch: 1,
            sequence: 0,
            durable: 0,
            map_height: map::height(width, shape.blocks),
            map_root: Pointer::NULL,
            table_height: Table::new(width, shape.segments).height(),
            table_root: Pointer::NULL,
            heads: vec![None; usize::from(STREAMS)],
            reserve,
            used_blocks: 0,
            clean: true,
            checksum_errors: 0,
        },
    };
    write_areas(queue, &superblock, limits.size)?;
    Ok(Created {
        size: shape.blocks * BLOCK_BYTES,
        device_size: limits.size,
        volume,
        notices: Vec::new(),
    })
}

fn choose_shape(device: u64, size: Option<u64>) -> Result<Shape> {
    if let Some(size) = size {
        let usual = shape_for_size(size)?;
        if usual.device_size() == device {
            return Ok(usual);
        }
    }
    let blocks = size.map(|size| size.div_ceil(BLOCK_BYTES));
    Shape::for_device(device, blocks).ok_or_else(|| {
        let most = Shape::for_device(device, None).map_or(0, |shape| shape.blocks * BLOCK_BYTES);
        let volume = match size {
            Some(size) => format!("a volume of {size} bytes"),
            None => "the smallest volume".into(),
        };
        let needed = match smallest_device(blocks.unwrap_or(1)) {
            Some(needed) => format!("{volume} needs at least {needed} bytes"),
            None => format!("{volume} is too large for the format"),
        };
        let hint = match most {
            0 => String::new(),
            most => format!("; up to {most} bytes go on this device"),
        };
        Error::new(
            ErrorKind::NoSpace,
            format!("the device of {device} bytes is too small: {needed}{hint}"),
        )
    })
}

/// Bytes of the smallest device that takes `blocks` logical blocks.
fn smallest_device(blocks: u64) -> Option<u64> {
    let data = blocks.div_ceil(LEAST_SPACE.1).checked_mul(LEAST_SPACE.0)?;
    let sizes = std::iter::successors(Some(u64::from(MIN_SEGMENT_BLOCKS)), |size| Some(size * 2))
        .take_while(|size| *size <= u64::from(MAX_SEGMENT_BLOCKS));
    // A device's size decides the size of its segments, and that how much the spare ones take.
    let least = sizes.filter_map(|size| {
        let room = (data.div_ceil(size) + SPARE_SEGMENTS) * size;
        let room = if size == u64::from(MIN_SEGMENT_BLOCKS) {
            room
        } else {
            room.max((size / 2 + 1) * 256)
        };
        let bytes = room.checked_mul(BLOCK_BYTES)?.checked_add(2 * AREA_BYTES)?;
        Shape::for_device(bytes, Some(blocks)).map(|_| bytes)
    });
    let usual = Shape::for_blocks(blocks, USUAL_SPACE).map(Shape::device_size);
    least.chain(usual).min()
}

/// Clears both areas, so that no older superblock is left in any slot, and writes the first one.
fn write_areas(queue: &mut dyn IoQueue, superblock: &Superblock, size: u64) -> Result<()> {
    let failed = |error| Error::io("writing the superblock", error);
    let mut reader = Blocking { queue };
    let area = usize::try_from(AREA_BYTES).unwrap_or(0);
    for start in [0, size - AREA_BYTES] {
        reader.write(start, Buf::new(area)).map_err(failed)?;
    }
    let bytes = superblock.encode();
    for offset in offsets(0, superblock.checkpoint.generation, size) {
        reader.write(offset, Buf::copy_of(&bytes)).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_have_the_room_they_promise() {
        for size in [1, 4096, 1 << 20, 64 << 20, 1 << 30, 1 << 40, 16 << 40] {
            let shape = shape_for_size(size).unwrap();
            let data = u64::from(shape.segments - 20) * u64::from(shape.segment_blocks);
            assert!(data * 4 >= shape.blocks * 5);
            // A device of exactly that size takes it again.
            assert_eq!(choose_shape(shape.device_size(), Some(size)).unwrap(), shape);
            let most = Shape::for_device(shape.device_size(), None).unwrap();
            assert!(most.blocks >= shape.blocks * 9 / 10, "{size}: {most:?} {shape:?}");
        }
    }

    #[test]
    fn too_small_a_device_is_refused_with_what_fits() {
        let error = choose_shape(1 << 30, Some(1 << 30)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace);
        assert!(error.to_string().contains("bytes go on this device"), "{error}");
        let error = choose_shape(1 << 20, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace);
        assert!(error.to_string().contains("needs at least 46137344 bytes"), "{error}");
        assert!(choose_shape(46_137_344, None).is_ok());
        assert_eq!(shape_for_size(0).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(shape_for_size(u64::MAX).unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn the_smallest_device_is_the_smallest() {
        let sizes = (0..400).map(|step| 1 + step * 1009).chain([1 << 28, 1 << 32]);
        for blocks in sizes {
            let least = smallest_device(blocks).unwrap();
            assert!(choose_shape(least, Some(blocks * BLOCK_BYTES)).is_ok(), "{blocks}");
            let less = (1..2000).map(|step| least.saturating_sub(step * (BLOCK_BYTES << 6)));
            for less in less.chain([least - BLOCK_BYTES]) {
                assert!(
                    choose_shape(less, Some(blocks * BLOCK_BYTES)).is_err(),
                    "{blocks}: {less}"
                );
            }
        }
    }
}
