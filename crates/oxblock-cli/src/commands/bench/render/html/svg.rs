//! A small writer of SVG: shapes with classes, whose colours the page's style decides.

use std::fmt::Write as _;

/// A drawing under way.
pub struct Svg {
    text: String,
}

/// Where a text stands relative to its place.
#[derive(Debug, Clone, Copy)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    /// An empty drawing of this size, described by `label` for those who cannot see it.
    pub fn new(width: f64, height: f64, label: &str) -> Self {
        let label = escape(label);
        Self {
            text: format!(
                "<svg viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{label}\">\n"
            ),
        }
    }

    /// A filled rectangle; `tip` is shown under the pointer.
    pub fn rect(
        &mut self,
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        class: &str,
        tip: &str,
    ) {
        let (width, height) = (width.max(0.0), height.max(0.0));
        self.push(&format!(
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"><title>{}</title></rect>",
            escape(tip)
        ));
    }

    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        self.push(&format!(
            "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    /// A line through `points`.
    pub fn path(&mut self, points: &[(f64, f64)], class: &str) {
        let mut places = String::new();
        for (x, y) in points {
            // Writing to a string cannot fail.
            write!(places, "{x:.1},{y:.1} ").ok();
        }
        self.push(&format!("<polyline class=\"{class}\" points=\"{}\"/>", places.trim_end()));
    }

    pub fn dot(&mut self, (x, y): (f64, f64), class: &str, tip: &str) {
        self.push(&format!(
            "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"><title>{}</title></circle>",
            escape(tip)
        ));
    }

    pub fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.push(&format!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
            escape(text)
        ));
    }

    /// A text that is read from below, around its middle.
    pub fn upright(&mut self, (x, y): (f64, f64), text: &str) {
        self.push(&format!(
            "<text class=\"label\" transform=\"translate({x:.1} {y:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            escape(text)
        ));
    }

    pub fn finish(mut self) -> String {
        self.text.push_str("</svg>");
        self.text
    }

    fn push(&mut self, element: &str) {
        self.text.push_str(element);
        self.text.push('\n');
    }
}

/// `text` where markup is expected.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_text_never_becomes_markup() {
        let mut svg = Svg::new(10.0, 20.0, "a \"b\"");
        svg.text((1.0, 2.0), Anchor::End, "label", "<script>&");
        svg.rect((0.0, 0.0), (-1.0, 5.0), "c1", "<");
        let text = svg.finish();
        assert!(text.starts_with(
            "<svg viewBox=\"0 0 10 20\" role=\"img\" aria-label=\"a &quot;b&quot;\">"
        ));
        assert!(
            text.contains("&lt;script&gt;&amp;</text>") && text.contains("width=\"0.0\""),
            "{text}"
        );
        assert!(text.ends_with("</svg>"));
    }
}
