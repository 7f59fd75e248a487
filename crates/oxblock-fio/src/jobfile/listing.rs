//! The option table as text, for `--help-options` and the documentation.

use super::table::{Kind, OPTIONS, OptionDef};
use super::value::TimeUnit;

/// All options: name, alias, type with bounds, default, help; then what is replaced and refused.
pub fn option_listing() -> String {
    let mut out = String::from("Options that are honoured:\n\n");
    for option in OPTIONS {
        if let Some(form) = form(&option.kind) {
            entry(&mut out, option, &form);
        }
    }
    out.push_str("\nAccepted and replaced by the target:\n\n");
    for option in OPTIONS.iter().filter(|option| matches!(option.kind, Kind::Replaced)) {
        out.push_str(&format!("  {:<28}{}\n", names(option), option.help));
    }
    out.push_str("\nKnown to fio and refused:\n\n");
    for option in OPTIONS {
        if let Kind::Refused(reason) = option.kind {
            out.push_str(&format!("  {:<28}{reason}\n", option.name));
        }
    }
    out
}

fn names(option: &OptionDef) -> String {
    match option.alias {
        "" => option.name.to_owned(),
        alias => format!("{}, {alias}", option.name),
    }
}

/// Type and bounds in words; `None` for options that set nothing.
fn form(kind: &Kind) -> Option<String> {
    Some(match kind {
        Kind::Flag(_) => "0 or 1".to_owned(),
        Kind::Int { min, max: u64::MAX, .. } => format!("number from {min}"),
        Kind::Int { min, max, .. } => format!("number from {min} to {max}"),
        Kind::Size { max, .. } => format!("size up to {max}"),
        Kind::Amount(_) => "size or percentage".to_owned(),
        Kind::Time { unit: TimeUnit::Seconds, .. } => "time, seconds if no unit".to_owned(),
        Kind::Time { unit: TimeUnit::Microseconds, .. } => "time, microseconds if no unit".into(),
        Kind::Text { form, .. } => (*form).to_owned(),
        Kind::Replaced | Kind::Refused(_) => return None,
    })
}

fn entry(out: &mut String, option: &OptionDef, form: &str) {
    let default = match option.default {
        "" => String::new(),
        default => format!(" (default: {default})"),
    };
    out.push_str(&format!("  {}\n      {form}{default}\n", names(option)));
    let mut line = String::from("     ");
    for word in option.help.split_whitespace() {
        if line.len() + word.len() > 90 {
            out.push_str(&line);
            out.push('\n');
            line = String::from("     ");
        }
        line.push(' ');
        line.push_str(word);
    }
    out.push_str(&line);
    out.push('\n');
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_option_is_listed() {
        let text = super::option_listing();
        for option in super::OPTIONS {
            assert!(text.contains(option.name), "{}", option.name);
        }
        assert!(text.contains("readwrite"));
    }
}
