//! The handshake, option by option, byte by byte.

mod common;

use common::{exports, hex, talk, talk_to};
use oxblock_nbd_proto::{Handshake, MAX_OPTIONS, Offer, Session, Step, Style, TlsOffer};

/// Flags of a client that knows everything, which every test here begins with.
const FLAGS: &str = "00000003";
/// The magic of an option.
const OPT: &str = "'IHAVEOPT'";
/// The magic of a reply to one.
const REP: &str = "0003e889045565a9";

/// What a server answers to options, each without its magic; `OPT` and `REP` are put before each line.
fn answers(options: &[&str], replies: &[&str]) -> Step {
    let input: String =
        options.iter().map(|option| format!("{OPT} {option}")).collect::<Vec<_>>().join("");
    let expected: String =
        replies.iter().map(|reply| format!("{REP} {reply}")).collect::<Vec<_>>().join("");
    let (out, step) = talk(&hex(&format!("{FLAGS}{input}")), &exports());
    assert_eq!(out, hex(&expected), "{options:?}");
    step
}

/// An answer that refuses `option`.
fn refusal(option: &str, error: &str, text: &str) -> String {
    format!("{option} {error} {:08x} '{text}'", text.len())
}

fn begun(export: usize, style: Style, allocation: bool) -> Step {
    Step::Begin(Session { export, style, allocation })
}

#[test]
fn the_greeting() {
    let mut out = Vec::new();
    Handshake::greet(&mut out);
    assert_eq!(out, hex("'NBDMAGIC' 'IHAVEOPT' 0003"));
}

#[test]
fn export_name_with_and_without_zeroes() {
    // Flags: has flags, flush, FUA, trim, write zeroes, several connections, cache, fast zeroes.
    let said = "1122334455667788 0d6d";
    let named = format!("{OPT} 00000001 00000004 'disk'");
    let (out, step) = talk(&hex(&format!("00000003 {named}")), &exports());
    assert_eq!((out, step), (hex(said), begun(0, Style::Simple, false)));
    let (out, step) = talk(&hex(&format!("00000001 {named}")), &exports());
    let mut long = hex(said);
    long.resize(long.len() + 124, 0);
    assert_eq!((out, step), (long.clone(), begun(0, Style::Simple, false)));
    // A client that knows of no answers may do this, and nothing else.
    let (out, step) = talk(&hex(&format!("00000000 {named}")), &exports());
    assert_eq!((out, step), (long, begun(0, Style::Simple, false)));
    let (out, step) = talk(&hex(&format!("00000000 {OPT} 00000003 00000000")), &exports());
    assert_eq!((out.len(), matches!(step, Step::End(_))), (0, true));
}

#[test]
fn export_name_of_a_read_only_disk() {
    let (out, step) = talk(&hex(&format!("{FLAGS}{OPT} 00000001 00000002 'cd'")), &exports());
    assert_eq!((out, step), (hex("0000000000001000 051f"), begun(1, Style::Simple, false)));
}

#[test]
fn an_unknown_name_ends_the_session_without_a_word() {
    let (out, step) = talk(&hex(&format!("{FLAGS}{OPT} 00000001 00000003 'tub'")), &exports());
    assert_eq!((out.len(), step), (0, Step::End("there is no export of this name")));
}

#[test]
fn the_empty_name_is_the_first_export() {
    let (_, step) = talk(&hex(&format!("{FLAGS}{OPT} 00000001 00000000")), &exports());
    assert_eq!(step, begun(0, Style::Simple, false));
}

#[test]
fn abort_is_acknowledged_with_and_without_data() {
    let end = Step::End("the client has ended the handshake");
    assert_eq!(answers(&["00000002 00000000"], &["00000002 00000001 00000000"]), end);
    assert_eq!(answers(&["00000002 00000002 beef"], &["00000002 00000001 00000000"]), end);
}

#[test]
fn list() {
    answers(
        &["00000003 00000000"],
        &[
            "00000003 00000002 0000000e 00000004 'disk' 'a disk'",
            "00000003 00000002 00000006 00000002 'cd'",
            "00000003 00000001 00000000",
        ],
    );
    answers(
        &["00000003 00000001 00"],
        &[&refusal("00000003", "80000003", "this option has no data")],
    );
}

#[test]
fn starttls_is_refused() {
    answers(
        &["00000005 00000000"],
        &[&refusal("00000005", "80000001", "this server does not speak TLS")],
    );
}

#[test]
fn an_unknown_option_is_refused_and_the_next_one_is_understood() {
    answers(
        &["0000dead 00000003 010203", "00000008 00000000"],
        &[
            &refusal("0000dead", "80000001", "the option is not known here"),
            "00000008 00000001 00000000",
        ],
    );
}

#[test]
fn info_tells_what_is_asked_and_the_handshake_goes_on() {
    let step = answers(
        &["00000006 00000010 00000004 'disk' 0003 0001 0002 0003"],
        &[
            "00000006 00000003 0000000c 0000 1122334455667788 0d6d",
            "00000006 00000003 00000006 0001 'disk'",
            "00000006 00000003 00000008 0002 'a disk'",
            "00000006 00000003 0000000e 0003 00000001 00001000 02000000",
            "00000006 00000001 00000000",
        ],
    );
    assert_eq!(step, Step::Continue);
}

#[test]
fn go_begins_the_transmission_phase() {
    // The name is not said, twice asked for a kind, once for one that is not known.
    let step = answers(
        &["00000008 00000000", "00000007 0000000c 00000000 0003 0001 0001 9999"],
        &[
            "00000008 00000001 00000000",
            "00000007 00000003 0000000c 0000 1122334455667788 0ded",
            "00000007 00000003 00000006 0001 'disk'",
            "00000007 00000001 00000000",
        ],
    );
    assert_eq!(step, begun(0, Style::Structured, false));
}

#[test]
fn go_to_an_unknown_export_is_refused() {
    let step = answers(
        &["00000007 00000009 00000003 'tub' 0000"],
        &[&refusal("00000007", "80000006", "there is no export of this name")],
    );
    assert_eq!(step, Step::Continue);
}

#[test]
fn lengths_that_contradict_each_other_are_refused() {
    let short = "an option is shorter than its own lengths say";
    let long = "an option is longer than its own lengths say";
    for (option, text) in [
        ("00000007 00000004 00000001", short),
        ("00000007 00000006 ffffffff 0000", short),
        ("00000007 00000006 00000000 0001", short),
        ("00000007 00000008 00000000 0000 0001", long),
        ("00000007 00000007 00000000 0000 00", long),
        ("0000000a 00000004 00000000", short),
        ("0000000a 00000008 00000000 00000001", short),
        ("0000000a 00000008 00000000 ffffffff", short),
        ("0000000a 0000000c 00000000 00000001 00000009", short),
        ("0000000a 00000009 00000000 00000000 00", long),
    ] {
        let number = &option[..8];
        answers(
            &["00000008 00000000", option],
            &["00000008 00000001 00000000", &refusal(number, "80000003", text)],
        );
    }
}

#[test]
fn structured_replies_and_extended_headers() {
    let go = "00000007 00000006 00000000 0000";
    let told =
        ["00000007 00000003 0000000c 0000 1122334455667788 0ded", "00000007 00000001 00000000"];
    let step = answers(
        &["0000000b 00000000", "00000008 00000000", go],
        &[
            "0000000b 00000001 00000000",
            &refusal("00000008", "8000000a", "extended headers are agreed on"),
            told[0],
            told[1],
        ],
    );
    assert_eq!(step, begun(0, Style::Extended, false));
    let step = answers(
        &["00000008 00000000", "0000000b 00000000", go],
        &["00000008 00000001 00000000", "0000000b 00000001 00000000", told[0], told[1]],
    );
    assert_eq!(step, begun(0, Style::Extended, false));
    // After that there is no way back to the old option.
    let options = format!("{FLAGS}{OPT} 0000000b 00000000 {OPT} 00000001 00000000");
    let (_, step) = talk(&hex(&options), &exports());
    assert_eq!(step, Step::End("extended headers need another option to begin with"));
}

#[test]
fn metadata_contexts() {
    let structured = ("00000008 00000000", "00000008 00000001 00000000");
    let context = "'base:allocation'";
    answers(
        &["0000000a 00000008 00000000 00000000"],
        &[&refusal("0000000a", "80000003", "metadata contexts need replies in chunks")],
    );
    // All, by name, by namespace; what is not known is passed over.
    for query in [
        "00000009 00000008 00000000 00000000",
        "00000009 0000001b 00000000 00000001 0000000f 'base:allocation'",
        "00000009 00000011 00000000 00000001 00000005 'base:'",
        "00000009 00000022 00000000 00000003 00000005 'base:' 00000001 'x' 00000008 'qemu:abc'",
    ] {
        answers(
            &[structured.0, query],
            &[
                structured.1,
                &format!("00000009 00000004 00000013 00000000 {context}"),
                "00000009 00000001 00000000",
            ],
        );
    }
    answers(
        &[structured.0, "00000009 00000018 00000000 00000001 0000000c 'base:nothing'"],
        &[structured.1, "00000009 00000001 00000000"],
    );
    let set = "0000000a 0000001b 00000000 00000001 0000000f 'base:allocation'";
    let chosen = format!("0000000a 00000004 00000013 00000001 {context}");
    let acked = "0000000a 00000001 00000000";
    let go = "00000007 00000006 00000000 0000";
    let told =
        ["00000007 00000003 0000000c 0000 1122334455667788 0ded", "00000007 00000001 00000000"];
    let step = answers(&[structured.0, set, go], &[structured.1, &chosen, acked, told[0], told[1]]);
    assert_eq!(step, begun(0, Style::Structured, true));
    // What was chosen is forgotten by a choice of nothing, of a wildcard, or one that fails.
    for (other, answer) in [
        ("0000000a 00000008 00000000 00000000", acked),
        ("0000000a 00000011 00000000 00000001 00000005 'base:'", acked),
        (
            "0000000a 0000000b 00000003 'tub' 00000000",
            &refusal("0000000a", "80000006", "there is no export of this name"),
        ),
        (
            "0000000a 00000000",
            &refusal("0000000a", "80000003", "an option is shorter than its own lengths say"),
        ),
    ] {
        let step = answers(
            &[structured.0, set, other, go],
            &[structured.1, &chosen, acked, answer, told[0], told[1]],
        );
        assert_eq!(step, begun(0, Style::Structured, false), "{other}");
    }
    // It holds for the export that it was chosen for.
    let step = answers(
        &[structured.0, "0000000a 0000001d 00000002 'cd' 00000001 0000000f 'base:allocation'", go],
        &[structured.1, &chosen, acked, told[0], told[1]],
    );
    assert_eq!(step, begun(0, Style::Structured, false));
}

#[test]
fn a_server_that_shuts_down_begins_nothing() {
    let offer = Offer { exports: &exports(), shutdown: true, tls: TlsOffer::None };
    let (out, step) =
        talk_to(&hex(&format!("{FLAGS}{OPT} 00000007 00000006 00000000 0000")), offer);
    let said = format!("{REP} 00000007 80000007 0000001b 'the server is shutting down'");
    assert_eq!((out, step), (hex(&said), Step::Continue));
    let (out, step) = talk_to(&hex(&format!("{FLAGS}{OPT} 00000001 00000000")), offer);
    assert_eq!((out.len(), step), (0, Step::End("the server is shutting down")));
    let (_, step) = talk_to(&hex(&format!("{FLAGS}{OPT} 00000002 00000000")), offer);
    assert_eq!(step, Step::End("the client has ended the handshake"));
}

#[test]
fn flags_that_were_not_offered_end_the_session() {
    for flags in ["00000004", "80000003", "ffffffff"] {
        let (out, step) = talk(&hex(flags), &exports());
        assert_eq!((out.len(), step), (0, Step::End("the client has flags that were not offered")));
    }
}

#[test]
fn a_flood_of_options_ends_the_session() {
    let mut input = hex(FLAGS);
    let option = hex(&format!("{OPT} 00000003 00000000"));
    (0..=MAX_OPTIONS).for_each(|_| input.extend_from_slice(&option));
    let (_, step) = talk(&input, &exports());
    assert_eq!(step, Step::End("too many options"));
    input.truncate(input.len() - option.len());
    assert_eq!(talk(&input, &exports()).1, Step::Continue);
}

#[test]
fn a_long_option_is_passed_over() {
    for (number, error, text) in [
        ("00000007", "80000009", "the option is too long"),
        ("0000dead", "80000001", "the option is not known here"),
    ] {
        let mut input = hex(&format!("{FLAGS}{OPT} {number} 00004001"));
        input.resize(input.len() + 0x4001, 0xaa);
        input.extend(hex(&format!("{OPT} 00000002 00000000")));
        let (out, step) = talk(&input, &exports());
        let said = format!("{REP} {}", refusal(number, error, text));
        let said = said + &format!("{REP} 00000002 00000001 00000000");
        assert_eq!((out, step), (hex(&said), Step::End("the client has ended the handshake")));
    }
}

#[test]
fn hostile_lengths_end_the_session() {
    for (option, why) in [
        ("00000007 00100001", "an option of more than 1 MiB"),
        ("00000007 ffffffff", "an option of more than 1 MiB"),
        ("00000001 00004001", "the name of the export is too long"),
        ("0000dead ffffffff", "an option of more than 1 MiB"),
    ] {
        let (out, step) = talk(&hex(&format!("{FLAGS}{OPT} {option}")), &exports());
        assert_eq!((out.len(), step), (0, Step::End(why)), "{option}");
    }
}

#[test]
fn names_are_text() {
    for (name, why) in [
        ("00000001 00000001 ff", "a string is not UTF-8"),
        ("00000001 00000002 4100", "a string has a NUL in it"),
    ] {
        let (out, step) = talk(&hex(&format!("{FLAGS}{OPT} {name}")), &exports());
        assert_eq!((out.len(), step), (0, Step::End(why)), "{name}");
    }
    let mut input = hex(&format!("{FLAGS}{OPT} 00000001 00001001"));
    input.resize(input.len() + 4097, b'a');
    let (_, step) = talk(&input, &exports());
    assert_eq!(step, Step::End("a string is longer than 4096 bytes"));
}

#[test]
fn wrong_magic_ends_the_session() {
    let (out, step) = talk(&hex(&format!("{FLAGS} 'IHAVEOPS' 00000002 00000000")), &exports());
    assert_eq!((out.len(), step), (0, Step::End("an option does not begin with its magic")));
}

#[test]
fn no_part_of_a_handshake_is_taken_for_all_of_it() {
    let options = [
        "00000005 00000000",
        "0000dead 00000003 010203",
        "0000000b 00000000",
        "0000000a 0000001f 00000004 'disk' 00000001 0000000f 'base:allocation'",
        "00000007 0000000c 00000004 'disk' 0001 0003",
    ];
    let options: String = options.iter().map(|option| format!("{OPT} {option}")).collect();
    let input = hex(&format!("{FLAGS}{options}"));
    let (said, step) = talk(&input, &exports());
    assert_eq!(step, begun(0, Style::Extended, true));
    for end in 0..input.len() {
        let (part, step) = talk(&input[..end], &exports());
        assert_eq!(step, Step::Continue, "after {end} bytes");
        assert!(said.starts_with(&part));
    }
    // In pieces it means the same.
    let (exports, mut out) = (exports(), Vec::new());
    let offer = Offer { exports: &exports, shutdown: false, tls: TlsOffer::None };
    let mut handshake = Handshake::greet(&mut Vec::new());
    let (mut at, mut step) = (0, Step::Continue);
    for end in 1..=input.len() {
        let mut consumed = 1;
        while consumed > 0 && step == Step::Continue {
            (consumed, step) = handshake.advance(&input[at..end], offer, &mut out);
            at += consumed;
        }
    }
    assert_eq!((at, out, step), (input.len(), said, begun(0, Style::Extended, true)));
}

#[test]
fn tls_begins_once_and_forgets_what_was_agreed_on_before() {
    let exports = exports();
    let offer = |tls| Offer { exports: &exports, shutdown: false, tls };
    let said = format!("{FLAGS} {OPT} 00000008 00000000 {OPT} 00000005 00000000");
    let (out, step) = talk_to(&hex(&said), offer(TlsOffer::Optional));
    let acks = format!("{REP} 00000008 00000001 00000000 {REP} 00000005 00000001 00000000");
    assert_eq!((out, step), (hex(&acks), Step::Secure));

    let mut handshake = Handshake::greet(&mut Vec::new());
    let offer = offer(TlsOffer::Required);
    let say = |handshake: &mut Handshake, what: &str| {
        let (input, mut out, mut at) = (hex(what), Vec::new(), 0);
        loop {
            let (consumed, step) = handshake.advance(&input[at..], offer, &mut out);
            at += consumed;
            if step != Step::Continue || consumed == 0 {
                return (out, at, step);
            }
        }
    };
    say(&mut handshake, FLAGS);
    let (_, _, step) = say(&mut handshake, &format!("{OPT} 00000005 00000000"));
    assert_eq!((step, handshake.is_securing()), (Step::Secure, true));
    // What comes in between is not looked at.
    let list = format!("{OPT} 00000003 00000000");
    assert_eq!(say(&mut handshake, &list), (Vec::new(), 0, Step::Continue));
    handshake.secured();
    let again = refusal("00000005", "80000003", "TLS is spoken already");
    let (out, _, _) = say(&mut handshake, &format!("{OPT} 00000005 00000000"));
    assert_eq!(out, hex(&format!("{REP} {again}")));
    let go = format!("{OPT} 00000007 00000006 00000000 0000");
    let (_, _, step) = say(&mut handshake, &go);
    assert_eq!(step, begun(0, Style::Simple, false));
}

#[test]
fn nothing_is_to_be_had_without_tls_where_it_is_required() {
    let exports = exports();
    let offer = Offer { exports: &exports, shutdown: false, tls: TlsOffer::Required };
    for option in [3u32, 6, 7, 8, 9, 10, 11, 99] {
        let said = format!("{FLAGS} {OPT} {option:08x} 00000000");
        let number = format!("{option:08x}");
        let refused = refusal(&number, "80000005", "nothing is to be had without TLS");
        let (out, step) = talk_to(&hex(&said), offer);
        assert_eq!((out, step), (hex(&format!("{REP} {refused}")), Step::Continue));
    }
    let (out, step) = talk_to(&hex(&format!("{FLAGS} {OPT} 00000001 00000004 'disk'")), offer);
    assert!(out.is_empty() && matches!(step, Step::End(_)));
    let (_, step) = talk_to(&hex(&format!("{FLAGS} {OPT} 00000002 00000000")), offer);
    assert!(matches!(step, Step::End(_)));
}
