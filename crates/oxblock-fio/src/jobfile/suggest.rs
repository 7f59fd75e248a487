//! "Did you mean ...?": the closest known name by edit distance.

/// The candidate closest to `name`, if it is close enough to be a slip of the hand.
pub(super) fn closest<'a>(
    name: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    // Long names are no slips, and the distance costs their product.
    if name.len() > 40 {
        return None;
    }
    let limit = 1 + name.chars().count() / 4;
    candidates
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance, one row at a time.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        if let Some(first) = row.first_mut() {
            *first = left;
        }
        for (cell, y) in row.iter_mut().skip(1).zip(b.chars()) {
            let replace = diagonal + usize::from(x != y);
            diagonal = *cell;
            left = replace.min(diagonal + 1).min(left + 1);
            *cell = left;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_and_suggestions() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        let names = ["iodepth", "iodepth_batch", "rw", "size"];
        assert_eq!(closest("iodept", names.into_iter()), Some("iodepth"));
        assert_eq!(closest("siz", names.into_iter()), Some("size"));
        assert_eq!(closest("completely", names.into_iter()), None);
    }
}
