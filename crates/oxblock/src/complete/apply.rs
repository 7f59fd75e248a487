//! Applying a record to the map: the one piece of code that both retirement and recovery run.

use crate::format::pointer::Pointer;
use crate::format::record::{Entry, Kind};
use crate::map::{Map, Miss, Space};

/// How far a record has been applied.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Progress {
    /// Entries done.
    pub entries: usize,
    /// Progress within a range entry, in blocks from the start of the volume.
    pub at: u64,
    /// Relocations that a write had overtaken.
    pub overtaken: u64,
}

impl Progress {
    /// Passes over what the lost node of `miss` holds: an entry, or its part of a range.
    pub fn skip(&mut self, kind: Kind, miss: Miss, map: &Map) {
        if matches!(kind, Kind::Trim | Kind::Zero) {
            // Beyond the end of the range the next call finds nothing left to do.
            self.at = map.end_of(miss.key);
        } else {
            self.entries += 1;
        }
    }
}

/// Applies the entries from `progress` on. `payload` is the address of the record's first payload block.
///
/// # Errors
/// [`Miss`] when a node must be fetched; call again with the same `progress` then.
pub(crate) fn apply(
    kind: Kind,
    entries: &[Entry],
    payload: u64,
    progress: &mut Progress,
    map: &mut Map,
    space: &mut dyn Space,
) -> Result<(), Miss> {
    while let Some(entry) = entries.get(progress.entries) {
        let new = Pointer { addr: payload + progress.entries as u64, csum: entry.csum };
        match kind {
            Kind::Data => {
                map.set(entry.id, new, space)?;
            }
            Kind::Relocate => {
                let moved = map.swap(entry.id, entry.aux, new, space)?;
                progress.overtaken += u64::from(!moved);
            }
            Kind::Trim | Kind::Zero => {
                progress.at = progress.at.max(entry.id);
                map.trim(&mut progress.at, entry.id + entry.aux, space)?;
                progress.at = 0;
            }
            // Nodes count when a checkpoint points to them.
            Kind::Map | Kind::Pad => {}
        }
        progress.entries += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::pointer::PointerWidth;

    /// Told of nothing that anybody asks about.
    struct Nobody;

    impl Space for Nobody {
        fn born(&mut self, _: u64) {}
        fn died(&mut self, _: u64) {}
    }

    #[test]
    fn what_a_lost_node_holds_is_passed_over_and_nothing_else() {
        // A map whose root is never brought: everything is under it.
        let root = Pointer { addr: 7, csum: 1 };
        let mut map = Map::new(PointerWidth::Narrow, 1000, root, 10, 64);
        let data = [Entry { id: 3, csum: 1, aux: 0 }, Entry { id: 900, csum: 1, aux: 0 }];
        let mut progress = Progress::default();
        for done in 1..=2 {
            let miss = apply(Kind::Data, &data, 50, &mut progress, &mut map, &mut Nobody);
            progress.skip(Kind::Data, miss.unwrap_err(), &map);
            assert_eq!(progress.entries, done);
        }
        assert_eq!(apply(Kind::Data, &data, 50, &mut progress, &mut map, &mut Nobody), Ok(()));

        let range = [Entry { id: 3, csum: 0, aux: 900 }];
        let mut progress = Progress::default();
        let miss = apply(Kind::Trim, &range, 50, &mut progress, &mut map, &mut Nobody).unwrap_err();
        assert_eq!(progress.at, 3);
        progress.skip(Kind::Trim, miss, &map);
        assert_eq!((progress.entries, progress.at), (0, map.end_of(miss.key)));
        assert_eq!(apply(Kind::Trim, &range, 50, &mut progress, &mut map, &mut Nobody), Ok(()));
        assert_eq!((progress.entries, progress.at), (1, 0));
    }
}
