//! The table of all figures: a row for each figure, a column for each contender.
//!
//! A cell keeps the values of all runs; its median is printed and compared with targets.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::out;

use super::figure::{Figure, Unit, median};
use super::target::Judged;

/// Figures of contenders, side by side.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Row>,
}

/// The role of a contender in a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Role {
    Peer,
    Bare,
    Ours,
}

#[derive(Clone, Debug)]
struct Column {
    name: &'static str,
    role: Role,
}

/// One figure of all contenders.
#[derive(Debug)]
pub(crate) struct Row {
    figure: String,
    unit: Unit,
    cells: Vec<Cell>,
}

#[derive(Debug)]
struct Cell {
    column: Column,
    runs: Vec<f64>,
}

/// A row of the JSON output.
#[derive(Serialize)]
pub(crate) struct Summary<'a> {
    figure: &'a str,
    unit: Unit,
    medians: BTreeMap<&'static str, f64>,
    ours_to_bare: Option<f64>,
    ours_to_best_peer: Option<f64>,
    runs: BTreeMap<&'static str, &'a [f64]>,
}

impl Table {
    pub(crate) fn new(contenders: &[(&'static str, Role)]) -> Table {
        let columns = contenders.iter().map(|&(name, role)| Column { name, role }).collect();
        Table { columns, rows: Vec::new() }
    }

    /// Adds a value of one run of one contender. Rows are in the order in which they first appear.
    pub(crate) fn add(&mut self, contender: &str, figure: &Figure) {
        let same = |row: &Row| row.figure == figure.name && row.unit == figure.unit;
        let at = self.rows.iter().position(same).unwrap_or_else(|| {
            let cell = |column: &Column| Cell { column: column.clone(), runs: Vec::new() };
            let cells = self.columns.iter().map(cell).collect();
            self.rows.push(Row { figure: figure.name.clone(), unit: figure.unit, cells });
            self.rows.len() - 1
        });
        let cell = self.rows[at].cells.iter_mut().find(|cell| cell.column.name == contender);
        cell.expect("a contender has a column").runs.push(figure.value);
    }

    pub(crate) fn row(&self, figure: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.figure == figure)
    }

    /// Whether the table has any figure of the contender.
    pub(crate) fn has(&self, contender: &str) -> bool {
        self.rows.iter().any(|row| row.of(contender).is_some())
    }

    pub(crate) fn summaries(&self) -> Vec<Summary<'_>> {
        self.rows.iter().map(Row::summary).collect()
    }

    /// Prints the table. It has columns for ratios and targets only if it has what they need.
    pub(crate) fn print(&self, judged: &[Judged]) {
        self.lines(judged).iter().for_each(out::line);
    }

    fn lines(&self, judged: &[Judged]) -> Vec<String> {
        let has = |role| self.columns.iter().any(|column| column.role == role);
        let [ours, bare, peers] = [Role::Ours, Role::Bare, Role::Peer].map(has);
        let mut head = vec!["figure".to_string(), "unit".to_string()];
        head.extend(self.columns.iter().map(|column| column.name.to_string()));
        head.extend((ours && bare).then(|| "ours/bare".to_string()));
        head.extend((ours && peers).then(|| "ours/best".to_string()));
        if !judged.is_empty() {
            head.extend(["at most".to_string(), "target".to_string()]);
        }
        let mut grid = vec![head];
        for row in &self.rows {
            let mut words = vec![row.figure.clone(), row.unit.name().to_string()];
            words.extend(row.cells.iter().map(|cell| shown(cell.median())));
            words.extend((ours && bare).then(|| ratio(row.to_bare())));
            words.extend((ours && peers).then(|| ratio(row.to_best_peer())));
            let mut targets = judged.iter().filter(|judged| judged.target.figure == row.figure);
            let width = words.len();
            if let Some(first) = targets.next() {
                words.extend([first.target.words(), first.words()]);
            }
            grid.push(words);
            // A second target of a figure has a line of its own.
            for more in targets {
                let mut words = vec![String::new(); width];
                words.extend([more.target.words(), more.words()]);
                grid.push(words);
            }
        }
        aligned(&grid)
    }
}

impl Row {
    pub(crate) fn ours(&self) -> Option<f64> {
        self.first(Role::Ours)
    }

    pub(crate) fn bare(&self) -> Option<f64> {
        self.first(Role::Bare)
    }

    pub(crate) fn of(&self, contender: &str) -> Option<f64> {
        self.cells.iter().find(|cell| cell.column.name == contender)?.median()
    }

    pub(crate) fn best_peer(&self) -> Option<f64> {
        let peers = self.cells.iter().filter(|cell| cell.column.role == Role::Peer);
        peers.filter_map(Cell::median).reduce(|one, other| self.unit.better(one, other))
    }

    fn first(&self, role: Role) -> Option<f64> {
        self.cells.iter().find(|cell| cell.column.role == role)?.median()
    }

    fn to_bare(&self) -> Option<f64> {
        Some(self.ours()? / self.bare()?)
    }

    fn to_best_peer(&self) -> Option<f64> {
        Some(self.ours()? / self.best_peer()?)
    }

    fn summary(&self) -> Summary<'_> {
        let medians = |cell: &Cell| Some((cell.column.name, cell.median()?));
        Summary {
            figure: &self.figure,
            unit: self.unit,
            medians: self.cells.iter().filter_map(medians).collect(),
            ours_to_bare: self.to_bare(),
            ours_to_best_peer: self.to_best_peer(),
            runs: self.cells.iter().map(|cell| (cell.column.name, &cell.runs[..])).collect(),
        }
    }
}

impl Cell {
    fn median(&self) -> Option<f64> {
        (!self.runs.is_empty()).then(|| median(&mut self.runs.clone()))
    }
}

/// A value with three significant digits, or all digits before the point.
fn shown(value: Option<f64>) -> String {
    match value {
        None => "-".to_string(),
        Some(value) if value < 10.0 => format!("{value:.2}"),
        Some(value) if value < 1000.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.0}"),
    }
}

fn ratio(value: Option<f64>) -> String {
    value.map_or("-".to_string(), |value| format!("{value:.2}"))
}

/// The grid as lines: two left-aligned columns, then right-aligned ones, each as wide as its widest cell.
fn aligned(grid: &[Vec<String>]) -> Vec<String> {
    let columns = grid.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| grid.iter().filter_map(|row| row.get(at)).map(String::len).max();
    let widths: Vec<usize> = (0..columns).map(|at| width(at).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cell = |(at, word): (usize, &String)| match at {
            0 | 1 => format!("{word:<0$}", widths[at]),
            _ => format!("{word:>0$}", widths[at]),
        };
        let cells: Vec<String> = row.iter().enumerate().map(cell).collect();
        cells.join("  ").trim_end().to_string()
    };
    grid.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::super::target::{Target, To};
    use super::*;

    fn filled(lines: &[(&'static str, &str)]) -> Table {
        let mut table = Table::new(&[
            ("mpich", Role::Peer),
            ("openmpi", Role::Peer),
            ("bare", Role::Bare),
            ("ferrywire", Role::Ours),
        ]);
        for (contender, line) in lines {
            table.add(contender, &Figure::parse(line).expect("a figure"));
        }
        table
    }

    #[test]
    fn a_cell_is_the_median_of_its_runs() {
        let table = filled(&[
            ("mpich", "latency bytes=8 ns=900"),
            ("mpich", "latency bytes=8 ns=5000"),
            ("mpich", "latency bytes=8 ns=1000"),
        ]);
        let row = table.row("latency bytes=8").expect("the row");
        assert_eq!(row.of("mpich"), Some(1000.0));
        assert_eq!(row.of("openmpi"), None);
        assert_eq!((row.bare(), row.ours(), row.to_best_peer()), (None, None, None));
        assert!(table.has("mpich") && !table.has("openmpi"));
    }

    #[test]
    fn the_best_peer_has_the_shortest_time_or_the_most_bandwidth() {
        let table = filled(&[
            ("mpich", "latency bytes=8 ns=900"),
            ("openmpi", "latency bytes=8 ns=300"),
            ("ferrywire", "latency bytes=8 ns=240"),
            ("bare", "latency bytes=8 ns=200"),
            ("mpich", "stream bytes=4096 mb_per_s=900"),
            ("openmpi", "stream bytes=4096 mb_per_s=300"),
        ]);
        let latency = table.row("latency bytes=8").expect("the row");
        assert_eq!(latency.best_peer(), Some(300.0));
        assert_eq!((latency.to_best_peer(), latency.to_bare()), (Some(0.8), Some(1.2)));
        assert_eq!(table.row("stream bytes=4096").expect("the row").best_peer(), Some(900.0));
    }

    #[test]
    fn it_is_printed_with_every_target_of_a_row() {
        let table = filled(&[
            ("mpich", "latency bytes=8 ns=900"),
            ("bare", "latency bytes=8 ns=200"),
            ("ferrywire", "latency bytes=8 ns=240"),
            ("mpich", "wake us=7"),
        ]);
        let target = |ratio_max, to| Target { figure: "latency bytes=8", ratio_max, to };
        let judged = [target(1.25, To::Bare), target(0.2, To::BestPeer)].map(|t| t.judge(&table));
        let expected = "\
figure           unit  mpich  openmpi   bare  ferrywire  ours/bare  ours/best    at most        target
latency bytes=8  ns    900.0        -  200.0      240.0       1.20       0.27  1.25 bare           met
                                                                               0.20 best  missed, 0.27
wake             us     7.00        -      -          -          -          -";
        assert_eq!(table.lines(&judged).join("\n"), expected);
    }

    #[test]
    fn without_ours_there_are_no_ratios() {
        let mut table = Table::new(&[("mpich", Role::Peer), ("bare", Role::Bare)]);
        table.add("mpich", &Figure::parse("wake us=7").expect("a figure"));
        assert_eq!(table.lines(&[]), ["figure  unit  mpich  bare", "wake    us     7.00     -"]);
    }

    #[test]
    fn programs_get_every_run() {
        let table = filled(&[("mpich", "wake us=7"), ("mpich", "wake us=9")]);
        let json = serde_json::to_value(table.summaries()).expect("plain data");
        assert_eq!(json[0]["figure"], "wake");
        assert_eq!(json[0]["unit"], "us");
        assert_eq!(json[0]["medians"], serde_json::json!({ "mpich": 8.0 }));
        assert_eq!(json[0]["runs"]["mpich"], serde_json::json!([7.0, 9.0]));
        assert_eq!(json[0]["ours_to_bare"], serde_json::Value::Null);
    }
}
