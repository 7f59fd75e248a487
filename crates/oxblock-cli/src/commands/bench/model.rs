//! What an experiment has to say, apart from how it is shown: text, JSON and HTML print the same [`Experiment`].
//!
//! Figures are in base units (bytes, bytes a second, nanoseconds); the unit of a column says how they are shown.

/// One experiment, measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// As in `oxblock bench NAME`.
    pub name: &'static str,
    /// What was to be found out.
    pub question: &'static str,
    /// The answer of the original work.
    pub rule: &'static str,
    /// The job that was run, in fio's language.
    pub job: String,
    /// The figures.
    pub tables: Vec<Table>,
    /// Figures over time.
    pub series: Vec<Series>,
    /// What a reader must know to judge them, in sentences.
    pub notes: Vec<String>,
}

/// A table. Every row has a cell for each column.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    pub title: String,
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
    /// Pictures of it.
    pub charts: Vec<Chart>,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Columns of one group stand together under its name: "then", "now", "device".
    pub group: &'static str,
    pub name: String,
    pub unit: Unit,
}

/// What the figures of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Words, or nothing to add.
    None,
    /// Bytes a second, shown in MiB/s.
    Bandwidth,
    /// Operations a second.
    Iops,
    /// Of a hundred.
    Percent,
    /// CPU seconds for each GiB.
    CpuPerGib,
    /// Nanoseconds, shown in milliseconds.
    Millis,
    /// 10^9 bytes a second.
    GbPerSecond,
}

impl Unit {
    /// As it is written behind a name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Bandwidth => "MiB/s",
            Self::Iops => "IOPS",
            Self::Percent => "%",
            Self::CpuPerGib => "s/GiB",
            Self::Millis => "ms",
            Self::GbPerSecond => "GB/s",
        }
    }

    /// A figure in the unit that is shown.
    pub fn shown(self, figure: f64) -> f64 {
        match self {
            Self::Bandwidth => figure / 1_048_576.0,
            Self::Millis => figure / 1e6,
            _ => figure,
        }
    }

    /// The ends of a spread, unless they would be shown as its median is.
    pub fn ends(self, spread: &Spread) -> Option<String> {
        let [median, min, max] =
            [spread.median, spread.min, spread.max].map(|value| self.text(value));
        (min != median || max != median).then(|| format!("{min}..{max}"))
    }

    /// A figure as text, without the unit's name.
    pub fn text(self, figure: f64) -> String {
        let shown = self.shown(figure);
        match self {
            Self::Iops => grouped(super::num::whole(shown)),
            Self::Bandwidth if shown >= 100.0 => grouped(super::num::whole(shown)),
            Self::Percent if shown >= 1000.0 => grouped(super::num::whole(shown)),
            Self::Percent => format!("{shown:.1}"),
            Self::Bandwidth => format!("{shown:.1}"),
            Self::CpuPerGib | Self::Millis => format!("{shown:.3}"),
            Self::GbPerSecond | Self::None => format!("{shown:.2}"),
        }
    }
}

/// `1234567` as `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The middle of several rounds, and how far they lie apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    /// Of these figures; `None` of none.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let median = *sorted.get(sorted.len() / 2)?;
        Some(Self { median, min: *sorted.first()?, max: *sorted.last()? })
    }
}

/// A cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// There is no such figure.
    Empty,
    Text(String),
    /// One figure.
    Value(f64),
    /// A median, with its spread.
    Spread(Spread),
}

impl Cell {
    /// The figure, or the middle of several.
    fn figure(&self) -> Option<f64> {
        match self {
            Self::Value(value) => Some(*value),
            Self::Spread(spread) => Some(spread.median),
            Self::Empty | Self::Text(_) => None,
        }
    }
}

impl From<Option<Spread>> for Cell {
    fn from(spread: Option<Spread>) -> Self {
        spread.map_or(Self::Empty, Self::Spread)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// A picture of some columns of a table; its first column names the places on the horizontal axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    pub kind: ChartKind,
    pub title: String,
    pub x_label: String,
    /// Columns, by index; they share a unit.
    pub columns: Vec<usize>,
}

/// How figures are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChartKind {
    /// A bar for each column in each row.
    Bars,
    /// A line for each column.
    Lines,
}

/// Figures over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    pub title: String,
    /// Nanoseconds from one figure to the next.
    pub window: u64,
    pub unit: Unit,
    pub lines: Vec<Line>,
}

/// One line of a series.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    pub name: String,
    pub values: Vec<f64>,
}

impl Column {
    pub fn new(group: &'static str, name: impl Into<String>, unit: Unit) -> Self {
        Self { group, name: name.into(), unit }
    }
}

impl Table {
    /// The unit that all its figures share, if they do.
    pub fn unit(&self) -> Option<Unit> {
        let mut units =
            self.columns.iter().map(|column| column.unit).filter(|unit| *unit != Unit::None);
        let first = units.next()?;
        units.all(|unit| unit == first).then_some(first)
    }

    /// Its title, with that unit.
    pub fn heading(&self) -> String {
        match self.unit() {
            Some(unit) => format!("{} ({})", self.title, unit.name()),
            None => self.title.clone(),
        }
    }

    /// The name of a column, with its unit unless that is in the heading.
    pub fn name_of(&self, column: &Column) -> String {
        match column.unit {
            Unit::None => column.name.clone(),
            _ if self.unit().is_some() => column.name.clone(),
            unit => format!("{}, {}", column.name, unit.name()),
        }
    }

    /// Adds a column: what `auto` reaches of the best of the other policies, which `sides` names, in percent.
    pub fn compare_auto(&mut self, sides: &[&str]) {
        let Some(auto) = self.columns.iter().position(|column| column.name == "auto") else {
            return;
        };
        let group = self.columns.get(auto).map_or("", |column| column.group);
        let others: Vec<usize> = self
            .of_group(group)
            .filter(|index| {
                let column = self.columns.get(*index);
                *index != auto && column.is_some_and(|column| sides.contains(&&*column.name))
            })
            .collect();
        for row in &mut self.rows {
            let figure = |index: usize| row.get(index).and_then(Cell::figure);
            let best = others.iter().filter_map(|index| figure(*index)).reduce(f64::max);
            let share = figure(auto).zip(best.filter(|best| *best > 0.0));
            row.push(share.map_or(Cell::Empty, |(auto, best)| Cell::Value(auto / best * 100.0)));
        }
        self.columns.push(Column::new("auto", "of the best", Unit::Percent));
    }

    /// Columns of `group` by index.
    pub fn of_group<'t>(&'t self, group: &'t str) -> impl Iterator<Item = usize> + 't {
        let columns = self.columns.iter().enumerate();
        columns.filter(move |(_, column)| column.group == group).map(|(index, _)| index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_spreads() {
        let spread = Spread::of([3.0, 1.0, 2.0]).unwrap();
        assert_eq!(spread, Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn auto_is_compared_with_the_best_of_its_group_by_name() {
        let spread = |median| Cell::Spread(Spread { median, min: 0.0, max: 9e9 });
        let mut table = Table {
            title: String::new(),
            columns: [("", "bs"), ("then", "a"), ("now", "a"), ("now", "b"), ("now", "auto")]
                .map(|(group, name)| Column::new(group, name, Unit::Iops))
                .into(),
            rows: vec![
                vec![Cell::from("4k"), Cell::Value(9.0), spread(2.0), spread(4.0), spread(3.0)],
                vec![Cell::from("8k"), Cell::Value(9.0), Cell::Empty, Cell::Empty, spread(3.0)],
            ],
            charts: Vec::new(),
        };
        table.compare_auto(&["a", "b", "auto"]);
        let last: Vec<&Cell> = table.rows.iter().filter_map(|row| row.last()).collect();
        assert_eq!(last, [&Cell::Value(75.0), &Cell::Empty]);
        assert_eq!(table.columns.len(), 6);
    }

    #[test]
    fn figures_are_shown_in_their_units() {
        for (unit, figure, text) in [
            (Unit::Bandwidth, 1_048_576.0 * 1234.4, "1,234"),
            (Unit::Bandwidth, 1_048_576.0 * 12.34, "12.3"),
            (Unit::Iops, 1_234_567.0, "1,234,567"),
            (Unit::Iops, 999.0, "999"),
            (Unit::Millis, 834_000.0, "0.834"),
            (Unit::Percent, 37.44, "37.4"),
            (Unit::GbPerSecond, 21.346, "21.35"),
        ] {
            assert_eq!(unit.text(figure), text, "{unit:?}");
        }
    }
}
