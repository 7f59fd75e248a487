//! What follows from an account, and what does not.

use super::prove::*;
use crate::format::pointer::Pointer;

const SHIFT: u32 = 4;

fn place(item: u64, segment: u64, offset: u64, sequence: u64, source: u64) -> Place {
    let to = Pointer { addr: segment << SHIFT | offset, csum: u128::from(sequence) };
    Place { item, block: item, to, order: (sequence, 0), source }
}

fn account(owed: &[i64]) -> Account {
    Account { shift: SHIFT, owed: owed.to_vec(), firm: vec![true; owed.len()] }
}

fn thin(mut places: Vec<Place>, kills: &[Kill]) -> Vec<u64> {
    thin_blocks(&mut places, kills, &[(0..100, u64::MAX)], true);
    places.iter().map(|place| place.order.0).collect()
}

#[test]
fn as_many_places_as_are_owed_are_all_live_and_none_is_where_nothing_is_owed() {
    let places = [place(1, 0, 1, 5, 0), place(2, 0, 2, 6, 0), place(3, 1, 1, 7, 0)];
    let found = prove(&places, &mut account(&[2, 0])).unwrap();
    let here = |place: Place| Verdict::Here(place.to);
    assert_eq!(found, [(1, here(places[0])), (2, here(places[1])), (3, Verdict::Nowhere)]);
}

#[test]
fn what_is_found_in_one_place_is_in_no_other_and_that_goes_on() {
    // Item 1 is sure to be in segment 1; so segment 0 owes only item 2.
    let places = [place(1, 0, 1, 5, 0), place(1, 1, 1, 8, 99), place(2, 0, 2, 6, 0)];
    let found = prove(&places, &mut account(&[1, 1])).unwrap();
    assert_eq!(found, [(1, Verdict::Here(places[1].to)), (2, Verdict::Here(places[2].to))]);
}

#[test]
fn one_of_two_is_nobodys_guess() {
    let places = [place(1, 0, 1, 5, 0), place(2, 0, 2, 6, 0)];
    let found = prove(&places, &mut account(&[1])).unwrap();
    assert_eq!(found, [(1, Verdict::Unknown), (2, Verdict::Unknown)]);
}

#[test]
fn a_segment_with_unknown_records_proves_nothing_but_that_nothing_is_there() {
    let places = [place(1, 0, 1, 5, 0), place(2, 1, 2, 6, 0)];
    let mut account = account(&[1, 0]);
    account.firm = vec![false; 2];
    let found = prove(&places, &mut account).unwrap();
    assert_eq!(found, [(1, Verdict::Unknown), (2, Verdict::Nowhere)]);
}

#[test]
fn an_account_that_owes_more_than_there_is_or_less_than_nothing_is_a_contradiction() {
    let places = [place(1, 0, 1, 5, 0)];
    for owed in [&[2, 0][..], &[-1, 0], &[1, 1], &[1, -1]] {
        assert_eq!(prove(&places, &mut account(owed)), Err(Contradiction), "{owed:?}");
    }
}

#[test]
fn newer_data_and_newer_trims_rule_out_what_is_older() {
    let places = vec![place(1, 0, 1, 5, 0), place(1, 0, 2, 9, 0), place(2, 0, 3, 4, 0)];
    assert_eq!(thin(places.clone(), &[]), [9, 4]);
    let kill = |from, end, sequence| Kill { from, end, order: (sequence, 0) };
    assert_eq!(thin(places.clone(), &[kill(0, 3, 7)]), [9]);
    assert_eq!(thin(places.clone(), &[kill(0, 2, 10), kill(2, 3, 3)]), [4]);
    assert_eq!(thin(places, &[kill(0, 50, 10)]), [0; 0]);
}

#[test]
fn a_relocation_takes_what_it_moved_and_one_of_old_data_does_nothing() {
    let old = place(1, 0, 1, 5, 0);
    // Moved away.
    assert_eq!(thin(vec![old, place(1, 1, 1, 8, old.to.addr)], &[]), [8]);
    // Overtaken by a write: what was moved was out of date.
    let overtaken = place(1, 1, 1, 8, old.to.addr);
    assert_eq!(thin(vec![old, place(1, 0, 2, 7, 0), overtaken], &[]), [7]);
    // What it moved is not to be seen: either may be right.
    assert_eq!(thin(vec![place(1, 0, 2, 7, 0), place(1, 1, 1, 8, 333)], &[]), [7, 8]);
}

#[test]
fn what_came_after_the_record_of_the_node_does_not_count() {
    let mut places = vec![place(1, 0, 1, 5, 0), place(1, 0, 2, 9, 0), place(40, 0, 3, 9, 0)];
    let kills = [Kill { from: 0, end: 50, order: (8, 0) }];
    thin_blocks(&mut places, &kills, &[(0..10, 7), (40..50, 9)], true);
    let left: Vec<(u64, u64)> = places.iter().map(|place| (place.item, place.order.0)).collect();
    assert_eq!(left, [(1, 5), (40, 9)]);
}

#[test]
fn of_a_node_the_newest_content_counts_wherever_it_was_written() {
    let mut places = vec![place(1, 0, 1, 5, 0), place(1, 0, 2, 9, 0), place(1, 1, 2, 3, 0)];
    places[2].to.csum = 9;
    thin_nodes(&mut places, &[(0..10, 100)]);
    let left: Vec<u64> = places.iter().map(|place| place.order.0).collect();
    assert_eq!(left, [3, 9]);
}

#[test]
fn where_entries_were_refused_newer_ones_take_no_place_away() {
    let mut places = vec![place(1, 0, 1, 5, 0), place(1, 1, 1, 9, 0)];
    let kills = [Kill { from: 1, end: 2, order: (7, 0) }];
    thin_blocks(&mut places, &kills, &[(0..10, 20)], false);
    assert_eq!(places.len(), 2);
}
