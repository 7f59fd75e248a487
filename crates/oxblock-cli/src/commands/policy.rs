//! Policies in reports: the same names and the same order wherever one is shown.

use oxblock::Policy;
use oxblock::volume::{InForce, Origin, Reasons};
use serde_json::{Value, json};

/// The parts of a policy, in the order of everything that is said about them.
pub const PARTS: [&str; 4] = ["submit", "complete", "bio_max_bytes", "crc"];

/// The values for programs. The limit is `null` for what suits the device, and 0 for none.
pub fn values(policy: &Policy) -> [Value; 4] {
    [
        policy.submit.name().into(),
        policy.complete.name().into(),
        policy.bio_max_bytes.into(),
        policy.crc.name().into(),
    ]
}

/// A policy as one object.
pub fn object(policy: &Policy) -> Value {
    PARTS.into_iter().map(str::to_owned).zip(values(policy)).collect()
}

/// The policy in force: of each part its value, where that comes from, and why.
pub fn in_force(force: &InForce, reasons: &Reasons) -> Value {
    let parts =
        PARTS.into_iter().zip(values(&force.policy)).zip(force.origin).zip(sentences(reasons));
    parts
        .map(|(((name, value), origin), why)| {
            (name.to_owned(), json!({ "value": value, "origin": origin.name(), "why": why }))
        })
        .collect()
}

/// The same for people, one line each.
pub fn lines(force: &InForce, reasons: &Reasons) -> Vec<String> {
    let parts = force.origin.into_iter().zip(sentences(reasons));
    parts
        .map(|(origin, why)| match origin {
            Origin::Auto => why.to_owned(),
            Origin::Stored => format!("{why}, kept in the volume"),
            Origin::Given => format!("{why}, as given"),
        })
        .collect()
}

fn sentences(reasons: &Reasons) -> [&str; 4] {
    [&reasons.submit, &reasons.complete, &reasons.bio_max_bytes, &reasons.crc]
}
