//! One record: its header, its entries, and whether its payload verifies.

use super::out_of_range;
use super::value::{Fields, Value, fields, hex, uuid};
use crate::error::{Error, ErrorKind, Result};
use crate::format::pointer::identity;
use crate::format::record::{Entry, FLAG_CONTINUES, Header, Kind};
use crate::volume::inspect::{HeaderFault, Media};

pub(super) fn record(media: &mut Media<'_>, addr: u64) -> Result<Fields> {
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
    let first = header.payload_addr();
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
