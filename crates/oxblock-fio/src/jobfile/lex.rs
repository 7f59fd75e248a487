//! Lines to sections: `[name]`, `key=value`, bare flags, comments and `${VAR}`.
//!
//! Nothing here knows an option's name. `;` and `#` start a comment anywhere in a line, blanks
//! around names and values do not count, and a file that pulls in another one is refused.

use super::JobError;

/// One option as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RawOption {
    /// Left of the `=`.
    pub(super) name: String,
    /// Right of the `=`; `None` for a bare flag.
    pub(super) value: Option<String>,
    /// 1-based.
    pub(super) line: u32,
}

/// One `[name]` and the options under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RawSection {
    pub(super) name: String,
    pub(super) line: u32,
    pub(super) options: Vec<RawOption>,
}

/// Splits `text` into sections, in order.
pub(super) fn lex(text: &str, file: &str) -> Result<Vec<RawSection>, JobError> {
    let mut sections: Vec<RawSection> = Vec::new();
    for (number, full) in (1u32..).zip(text.lines()) {
        let error = |message: String| JobError::new(file, Some(number), message);
        let line = full.split([';', '#']).next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            let Some((name, tail)) = rest.split_once(']') else {
                return Err(error("a section starts with '[' and must end with ']'".into()));
            };
            if !tail.trim().is_empty() {
                return Err(error(format!("'{}' follows the section name", tail.trim())));
            }
            if name.trim().is_empty() {
                return Err(error("a section needs a name between '[' and ']'".into()));
            }
            let name = name.trim().to_owned();
            sections.push(RawSection { name, line: number, options: Vec::new() });
            continue;
        }
        if line.split_whitespace().next() == Some("include") && !line.contains('=') {
            return Err(error("'include' is not offered: paste the other file's text".into()));
        }
        let line = expand(line);
        let (name, value) = match line.split_once('=') {
            Some((name, value)) => (name.trim(), Some(value.trim().to_owned())),
            None => (line.trim(), None),
        };
        if name.is_empty() {
            return Err(error("an option needs a name before '='".into()));
        }
        let Some(section) = sections.last_mut() else {
            return Err(error(format!("option '{name}' before the first [section]")));
        };
        section.options.push(RawOption { name: name.to_owned(), value, line: number });
    }
    Ok(sections)
}

/// Replaces `${VAR}` by the environment's value, or by nothing when it is not set, as fio does.
fn expand(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, tail)) = rest.split_once("${") {
        let Some((name, after)) = tail.split_once('}') else { break };
        out.push_str(before);
        // `var` panics on names that no environment can hold.
        if !name.is_empty() && !name.contains(['=', '\0']) {
            out.push_str(&std::env::var(name).unwrap_or_default());
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_options_flags_and_comments() {
        let text = "; head\n[global]\nbs = 4k # tail\n\n[a b]\nstonewall\nrw=read;x\n";
        let sections = lex(text, "t").unwrap();
        assert_eq!(sections.len(), 2);
        assert_eq!(sections[0].options[0].value.as_deref(), Some("4k"));
        assert_eq!(sections[1].name, "a b");
        assert_eq!(sections[1].options[0].value, None);
        assert_eq!(sections[1].options[1].value.as_deref(), Some("read"));
        assert_eq!(sections[1].options[1].line, 7);
    }

    #[test]
    fn what_is_not_a_job_file_is_refused_by_line() {
        let table = [
            ("bs=4k", "1: option 'bs' before the first [section]"),
            ("[a]\ninclude other.fio", "2: 'include' is not offered"),
            ("[a", "1: a section starts with"),
            ("[a] x", "1: 'x' follows"),
            ("[ ]", "1: a section needs a name"),
            ("[a]\n\n=4", "3: an option needs a name"),
        ];
        for (text, expected) in table {
            let error = lex(text, "j").unwrap_err().to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }

    #[test]
    fn the_environment_is_expanded() {
        assert_eq!(expand("a=${}x${OXBLOCK_SURELY_UNSET}y${"), "a=xy${");
        let path = std::env::var("PATH").unwrap();
        assert_eq!(expand("p=${PATH}"), format!("p={path}"));
    }
}
