//! The experiments: each makes its points and sides, has them measured, and fills its tables.

mod clients;
mod complete;
mod crc;
mod csum;
mod delay;
mod split;
mod submit;

use anyhow::Result;
use oxblock::volume::Policy;

use super::lab::{Grid, Lab, Point, Samples, Side};
use super::machine::cores;
use super::model::{Cell, Column, Experiment, Table, Unit};

pub use complete::run as complete;
pub use crc::run as crc;
pub use csum::run as csum;
pub use delay::traced_read;
pub use split::run as split;
pub use submit::run as submit;

/// An experiment: what runs it.
pub type Runner = fn(&mut Lab) -> Result<Experiment>;

/// The policy that is the default but for what `text` names.
fn policy(text: &str) -> Result<Policy> {
    Ok(text.parse::<Policy>()?)
}

/// What is said where workers are compared and have no core of their own.
fn crowded_note(notes: &mut Vec<String>) {
    if cores() < 2 {
        notes.push("There is one core: workers share it with the issuer.".into());
    }
}

/// A column of figures for each side, from `first` on; the bare device stands in a group of its own.
fn side_columns(sides: &[Side], unit: Unit) -> Vec<Column> {
    let group = |side: &Side| if side.name == "raw" { "device" } else { "now" };
    sides.iter().map(|side| Column::new(group(side), side.name.clone(), unit)).collect()
}

/// A table of one figure: `then` in front, a row for each point, a column for each side.
struct Layout<'a> {
    points: &'a [Point],
    sides: &'a [Side],
    grid: &'a Grid,
    /// Heading of the first column.
    first: &'static str,
    /// Columns of what the authors measured, and the cells of each point.
    then: (&'a [&'static str], &'a dyn Fn(usize) -> Vec<f64>),
}

impl Layout<'_> {
    fn table(
        &self,
        title: impl Into<String>,
        unit: Unit,
        figure: impl Fn(&super::lab::Figures) -> f64 + Copy,
    ) -> Table {
        let mut columns = vec![Column::new("", self.first, Unit::None)];
        columns.extend(self.then.0.iter().map(|name| Column::new("then", *name, unit)));
        columns.extend(side_columns(self.sides, unit));
        let rows = self.points.iter().enumerate().map(|(index, point)| {
            let mut row = vec![Cell::Text(point.label.clone())];
            row.extend((self.then.1)(index).into_iter().map(Cell::Value));
            let samples = (0..self.sides.len()).map(|side| self.grid.at(index, side));
            row.extend(samples.map(|samples: Samples| samples.cell(figure)));
            row
        });
        Table { title: title.into(), columns, rows: rows.collect(), charts: Vec::new() }
    }
}

/// No figures of the authors.
fn nothing_then(_: usize) -> Vec<f64> {
    Vec::new()
}
