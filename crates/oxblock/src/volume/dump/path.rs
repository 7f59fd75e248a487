//! The path through the map to one block.

use super::out_of_range;
use super::value::{Fields, LOST, Value, fields, hex, pointer};
use crate::device::{Buf, IoQueue};
use crate::error::Result;
use crate::format::layout::{BLOCK_BYTES, BLOCK_SIZE};
use crate::format::pointer::{Pointer, identity};
use crate::format::superblock::Superblock;
use crate::map;
use crate::volume::inspect::Media;
use crate::volume::open::OpenOptions;
use crate::volume::poll::Volume;

/// The path to `block` as the checkpoint has it, and where the replayed log takes it.
pub(super) fn path(
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
        (true, false) if at.is_lost() => LOST.into(),
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
fn place(media: &mut Media<'_>, to: Pointer, id: u64) -> (Fields, Option<Buf>) {
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
