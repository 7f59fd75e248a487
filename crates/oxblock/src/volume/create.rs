//! Making volumes.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use uuid::Uuid;

use crate::csum::CsumKind;
use crate::device::{Buf, DeviceCall, DeviceOptions, IoQueue, Sharing, open_devices, preallocate};
use crate::error::{Error, ErrorKind, Result};
use crate::format::features::Features;
use crate::format::layout::{
    AREA_BYTES, BLOCK_BYTES, BLOCK_LIMIT, LABEL_SIZE, MAX_RESERVE, MAX_SEGMENT_BLOCKS,
    MIN_SEGMENT_BLOCKS,
};
use crate::format::pointer::{Pointer, PointerWidth};
use crate::format::superblock::{Checkpoint, DeviceEntry, Profile, Superblock, offsets};
use crate::log::append::STREAMS;
use crate::log::load::{Reader, describe_foreign};
use crate::log::table::Table;
use crate::map;

/// Segments that a volume needs besides those that its data fills: open ones, those kept for checkpoints and for
/// cleaning, and those on their way from one use to the next.
const SPARE_SEGMENTS: u64 = 20;
/// Space for data and map over what the data takes when new, so that cleaning finds segments that are worth it: a
/// quarter, or at the least a twelfth.
const USUAL_SPACE: (u64, u64) = (5, 4);
const LEAST_SPACE: (u64, u64) = (13, 12);

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

/// Makes a volume on one device. A missing file is created, sparse, as large as the volume needs.
///
/// # Errors
/// [`ErrorKind::Foreign`] when the device holds something and `force` is not set; [`ErrorKind::NoSpace`] when it is too
/// small, with the most that fits; [`ErrorKind::InvalidInput`], [`ErrorKind::Unsupported`]; what opening a device gives.
pub fn create(devices: &[PathBuf], options: &CreateOptions) -> Result<Created> {
    let [path] = devices else {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!("{} devices given; this version makes volumes of one device", devices.len()),
        ));
    };
    validate(options)?;
    let wanted = options.size.map(shape_for_size).transpose()?;
    let at_path = |error: Error| error.context(path.display());
    let device = DeviceOptions {
        writable: true,
        create_size: wanted.map(Shape::device_size),
        exclusive: true,
        call: options.device_call,
        sharing: Sharing::Exclusive,
    };
    let mut opened = open_devices(devices, &device)?;
    check_empty(opened.queue.as_mut(), options.force).map_err(at_path)?;
    if options.preallocate {
        let bytes = opened.queue.limits().first().map_or(0, |limits| limits.size);
        // It takes the lock itself.
        drop(opened);
        preallocate(path, bytes, &mut |_| {})?;
        opened = open_devices(devices, &DeviceOptions { create_size: None, ..device })?;
    }
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
    let mut created =
        create_on(opened.queue.as_mut(), options, &absolute.to_string_lossy()).map_err(at_path)?;
    created.notices = opened.notices;
    Ok(created)
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

fn check_empty(queue: &mut dyn IoQueue, force: bool) -> Result<()> {
    if force {
        return Ok(());
    }
    match describe_foreign(queue)? {
        None => Ok(()),
        Some(what) => Err(Error::new(
            ErrorKind::Foreign,
            format!("there is {what} on it; use --force to overwrite it"),
        )),
    }
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
        let needed = size.and_then(|size| required_size(size).ok());
        let needed = needed.map_or(String::new(), |needed| {
            format!(": a volume of {} bytes needs {needed}", size.unwrap_or(0))
        });
        let hint = match most {
            0 => "use a larger device".to_string(),
            most => format!("up to {most} bytes go on this device"),
        };
        Error::new(
            ErrorKind::NoSpace,
            format!("the device of {device} bytes is too small{needed}; {hint}"),
        )
    })
}

/// Clears both areas, so that no older superblock is left in any slot, and writes the first one.
fn write_areas(queue: &mut dyn IoQueue, superblock: &Superblock, size: u64) -> Result<()> {
    let failed = |error| Error::io("writing the superblock", error);
    let mut reader = Reader { queue };
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
        assert_eq!(choose_shape(1 << 20, None).unwrap_err().kind(), ErrorKind::NoSpace);
        assert_eq!(shape_for_size(0).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(shape_for_size(u64::MAX).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}
