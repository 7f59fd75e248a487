//! The report as one page that needs nothing else: style and drawings are in it, there are no scripts, and it is light or
//! dark as its reader's system is.

mod axis;
mod draw;
mod frame;
mod plot;
mod svg;

use super::Report;
use crate::commands::bench::model::{Cell, Column, Experiment, Table, Unit};
use draw::draw;
use plot::Plot;
use svg::escape;

/// The page's style.
const STYLE: &str = include_str!("style.css");

/// The whole page.
pub fn page(report: &Report) -> String {
    let facts: String = report
        .facts()
        .iter()
        .map(|fact| format!("<p class=\"facts\">{}</p>\n", escape(fact)))
        .collect();
    let comparison = report.comparison.as_ref().map(|comparison| comparison.experiment());
    let all = || comparison.iter().chain(&report.experiments);
    let links: String =
        all().map(|one| format!("<a href=\"#{0}\">{0}</a>", escape(one.name))).collect();
    let parts: String = all().map(experiment).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>oxblock bench</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>oxblock bench</h1>\n{facts}<nav>{links}</nav>\n{parts}</body>\n</html>"
    )
}

fn experiment(experiment: &Experiment) -> String {
    let mut text = format!(
        "<h2 id=\"{0}\">{0}: {1}</h2>\n<p class=\"rule\">{2}</p>\n",
        escape(experiment.name),
        escape(experiment.question),
        escape(experiment.rule)
    );
    if !experiment.job.is_empty() {
        let job: Vec<&str> = experiment.job.lines().collect();
        text.push_str(&format!("<p class=\"job\">{}</p>\n", escape(&job.join(" "))));
    }
    for table in &experiment.tables {
        text.push_str(&format!("<h3>{}</h3>\n", escape(&table.heading())));
        let charts = table.charts.iter().map(|chart| Plot::of_chart(table, chart));
        text.push_str(&figures(charts));
        text.push_str(&table_text(table));
    }
    for series in &experiment.series {
        text.push_str(&format!("<h3>{}</h3>\n", escape(&series.title)));
        text.push_str(&figures([Plot::of_series(series)].into_iter()));
    }
    let notes = experiment.notes.iter().map(|note| format!("<li>{}</li>\n", escape(note)));
    let notes: String = notes.collect();
    if !notes.is_empty() {
        text.push_str(&format!("<ul class=\"notes\">\n{notes}</ul>\n"));
    }
    text
}

/// Drawings beside each other, as far as there is room.
fn figures(plots: impl Iterator<Item = Plot>) -> String {
    let figures: String = plots
        .map(|plot| {
            let title = escape(&plot.title);
            format!("<figure><figcaption>{title}</figcaption>\n{}</figure>\n", draw(&plot))
        })
        .collect();
    if figures.is_empty() { figures } else { format!("<div class=\"charts\">\n{figures}</div>\n") }
}

fn table_text(table: &Table) -> String {
    let head: String = table
        .columns
        .iter()
        .map(|column| format!("<th{}>{}</th>", class(column), escape(&table.name_of(column))))
        .collect();
    let rows: String = table
        .rows
        .iter()
        .map(|row| {
            let cells = row.iter().zip(&table.columns);
            let cells: String = cells
                .map(|(cell, column)| {
                    format!("<td{}>{}</td>", class(column), cell_text(cell, column.unit))
                })
                .collect();
            format!("<tr>{cells}</tr>\n")
        })
        .collect();
    format!(
        "<div class=\"table\"><table>\n{}<tr>{head}</tr>\n{rows}</table></div>\n",
        group_row(table)
    )
}

/// The line above the columns' names, unless there are no groups.
fn group_row(table: &Table) -> String {
    if table.columns.iter().all(|column| column.group.is_empty()) {
        return String::new();
    }
    let groups: String = table
        .columns
        .chunk_by(|one, two| one.group == two.group)
        .filter_map(|columns| Some((columns.first()?.group, columns.len())))
        .map(|(group, count)| {
            format!("<th class=\"group\" colspan=\"{count}\">{}</th>", escape(group))
        })
        .collect();
    format!("<tr>{groups}</tr>\n")
}

fn class(column: &Column) -> &'static str {
    if column.group == "then" { " class=\"then\"" } else { "" }
}

fn cell_text(cell: &Cell, unit: Unit) -> String {
    match cell {
        Cell::Empty => "–".into(),
        Cell::Text(text) => escape(text),
        Cell::Value(figure) => unit.text(*figure),
        Cell::Spread(spread) => {
            let ends =
                unit.ends(spread).map(|ends| format!("<span class=\"spread\">{ends}</span>"));
            unit.text(spread.median) + &ends.unwrap_or_default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn the_page_needs_nothing_else() {
        let page = page(&sample::report());
        for foreign in ["<script", "<link", "<img", "http:", "https:", "url(", "@import"] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        assert!(page.contains("prefers-color-scheme: dark"));
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"));
    }

    #[test]
    fn everything_in_the_report_is_on_the_page() {
        let page = page(&sample::report());
        for text in [
            "submit: Inline or not?",
            "Sometimes.",
            "<h3>Mixed</h3>",
            "1,500<span class=\"spread\">1,000..2,000</span>",
            "<td class=\"then\">113</td>",
            "<th class=\"group\" colspan=\"1\">then</th>",
            "2 cores, Some &amp; Other",
            "<li>A note.</li>",
            "Over time",
        ] {
            assert!(page.contains(text), "{text}");
        }
        for tag in ["table", "figure", "svg", "div", "ul", "p", "h2", "h3", "tr", "td", "th"] {
            let opened = page.matches(&format!("<{tag}>")).count()
                + page.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
    }
}
