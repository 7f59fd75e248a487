//! What is served, by name.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Result;
use oxblock::Volume;
use oxblock_nbd::Offered;

use crate::output::Usage;

/// The longest name of an export that the protocol knows, in bytes.
const NAME_MOST: usize = 4096;

/// A volume and its name, as `--volume` has them.
#[derive(Clone)]
pub struct Named {
    pub name: String,
    pub device: PathBuf,
}

impl FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, device)) if !name.is_empty() && !device.is_empty() => {
                Ok(Self { name: name.into(), device: device.into() })
            }
            _ => Err(format!("'{text}' is not NAME=DEVICE")),
        }
    }
}

/// Refuses names that clients could not use.
pub fn judge(first: &str, more: &[Named]) -> Result<()> {
    let mut names = vec![first];
    for name in more.iter().map(|one| one.name.as_str()) {
        if names.contains(&name) {
            return Err(Usage(format!("two volumes with the name '{name}'")).into());
        }
        names.push(name);
    }
    if names.iter().any(|name| name.len() > NAME_MOST) {
        let text = format!("the name of an export has more than {NAME_MOST} bytes");
        return Err(Usage(text).into());
    }
    Ok(())
}

/// A volume as clients see it.
pub fn offer(name: String, volume: Volume, read_only: bool) -> Offered {
    let description = match volume.label() {
        "" => "oxblock volume".into(),
        label => format!("oxblock volume {label}"),
    };
    Offered { volume, name, description, read_only }
}

/// `text`, which is about the export at `place`, with its name where there are several.
pub fn labelled(names: &[String], place: usize, text: &str) -> String {
    match names.get(place) {
        Some(name) if names.len() > 1 => format!("export '{name}': {text}"),
        _ => text.into(),
    }
}
