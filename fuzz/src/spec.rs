//! Where the fields of each structure are, read from the tables of `docs/format.md`, which a test of the library holds to
//! the code: so a new field is mutated from the day on which it is written down.

use std::sync::OnceLock;

const FORMAT: &str = include_str!("../../docs/format.md");

/// A field of a structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Bytes from the start of the structure.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
}

/// The fields of the table under the heading `heading`.
pub fn table(heading: &str) -> Vec<Field> {
    FORMAT
        .lines()
        .skip_while(|line| line.trim_start_matches('#').trim() != heading)
        .skip(1)
        .take_while(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let mut cells = line.split('|').skip(1).map(str::trim);
            let offset = cells.next()?.parse().ok()?;
            let size = cells.next()?.parse().ok()?;
            Some(Field { offset, size })
        })
        .collect()
}

fn repeated(fields: &[Field], start: usize, stride: usize, count: usize) -> Vec<Field> {
    let at = |index: usize| {
        let moved =
            move |field: &Field| Field { offset: start + index * stride + field.offset, ..*field };
        fields.iter().map(moved).collect::<Vec<_>>()
    };
    (0..count).flat_map(at).collect()
}

fn cached(
    cell: &'static OnceLock<Vec<Field>>,
    make: impl FnOnce() -> Vec<Field>,
) -> &'static [Field] {
    cell.get_or_init(make)
}

/// Everything in a superblock: its fields, the parts of roots and heads, the reserve list, the device table.
pub fn superblock() -> &'static [Field] {
    static FIELDS: OnceLock<Vec<Field>> = OnceLock::new();
    cached(&FIELDS, || {
        let mut fields = table("Superblock fields");
        let at = |fields: &[Field], size: usize| {
            fields
                .iter()
                .filter(|field| field.size == size)
                .map(|field| field.offset)
                .collect::<Vec<_>>()
        };
        let (roots, heads) = (at(&fields, 32), at(&fields, 64));
        for root in roots {
            fields.extend(repeated(&table("Wide pointer"), root, 32, 1));
        }
        // The label and the heads are the fields of 64 bytes; the heads come last.
        if let Some(heads) = heads.last() {
            fields.extend(repeated(&table("Head"), *heads, 8, 8));
        }
        fields.extend(repeated(&[Field { offset: 0, size: 4 }], 4096, 4, 24));
        fields.extend(repeated(&table("Device table"), 8192, 256, 2));
        fields
    })
}

/// The fields of the superblock that are its checkpoint.
pub fn checkpoint() -> &'static [Field] {
    static FIELDS: OnceLock<Vec<Field>> = OnceLock::new();
    cached(&FIELDS, || {
        let part = |field: &&Field| field.size <= 16 && (200..384).contains(&field.offset);
        let reserve = |field: &&Field| (4096..8192).contains(&field.offset);
        superblock().iter().filter(|field| part(field) || reserve(field)).copied().collect()
    })
}

/// A record header and its first entries, which are laid out as pointers of `pointer` bytes are.
pub fn header(pointer: usize) -> Vec<Field> {
    let mut fields = table("Record header");
    fields.extend(repeated(&pointer_fields(pointer), 128, pointer, 24));
    fields
}

fn pointer_fields(pointer: usize) -> Vec<Field> {
    table(if pointer == 16 { "Narrow pointer" } else { "Wide pointer" })
}

/// A node of pointers.
pub fn node(pointer: usize) -> Vec<Field> {
    repeated(&pointer_fields(pointer), 0, pointer, 4096 / pointer)
}

/// A block of segment entries.
pub fn entries() -> Vec<Field> {
    repeated(&table("Segment entry"), 0, 32, 128)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_found() {
        assert_eq!(table("Superblock fields").first(), Some(&Field { offset: 0, size: 8 }));
        assert_eq!(table("Record header").len(), 19);
        assert_eq!(table("Head").len(), 2);
        assert_eq!(entries().len(), 7 * 128);
        assert_eq!(node(16).len(), 512);
        assert_eq!(node(32).len(), 3 * 128);
        assert!(superblock().contains(&Field { offset: 312 + 8, size: 4 }));
        assert!(checkpoint().contains(&Field { offset: 248, size: 8 }));
        assert!(header(16).contains(&Field { offset: 128 + 16, size: 8 }));
    }
}
