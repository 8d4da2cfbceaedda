//! The documents that Ferrywire comes from: their figures, and what the same NIC does on their machines.
//!
//! Each file is one document: first its machine, with the source of every number, then the programs of its evaluation,
//! then its figures beside ours. A figure that a parameter was fitted on is never counted as reproduced.

mod alpu;
mod bypass;
mod funi;
mod nicvm;
mod rdma;
mod sif;

use serde::Serialize;

/// A document, run.
#[derive(Clone, Debug, Serialize)]
pub struct Paper {
    /// The name that it is asked for by.
    pub name: &'static str,
    /// Its title and authors.
    pub title: &'static str,
    /// The numbers of its machine.
    pub parameters: Vec<Parameter>,
    /// Its figures.
    pub figures: Vec<Figure>,
    /// Curves, to be drawn.
    pub plots: Vec<Plot>,
}

/// A number of a machine.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Parameter {
    /// What it is.
    pub what: &'static str,
    /// Its value.
    pub value: f64,
    /// The unit of the value.
    pub unit: &'static str,
    /// Where it comes from.
    pub origin: Origin,
}

/// Where a parameter comes from.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The document says it: where.
    Given(&'static str),
    /// Chosen so that these points come out right, which then show nothing.
    Fitted(&'static str),
    /// Not in the document; why this value.
    Assumed(&'static str),
}

/// A figure of a document, and ours.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Where in the document.
    pub place: &'static str,
    /// What is measured.
    pub what: String,
    /// The unit of both values.
    pub unit: &'static str,
    /// The document's.
    pub theirs: Theirs,
    /// Ours.
    pub ours: f64,
    /// What ours follows from.
    pub role: Role,
    /// Why a prediction differs by more than a fifth, from the text of the document.
    pub reason: Option<&'static str>,
}

/// A value of a document.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Theirs {
    /// A number.
    Value(f64),
    /// The document says only that it is in this range.
    Range(f64, f64),
}

/// What a value of ours follows from.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It is an input.
    Given,
    /// A parameter was chosen so that it comes out right.
    Fitted,
    /// The model says it.
    Predicted,
}

/// Curves over one axis.
#[derive(Clone, Debug, Serialize)]
pub struct Plot {
    /// The name of its file, without an ending.
    pub file: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// The axes.
    pub x: &'static str,
    /// The axes.
    pub y: &'static str,
    /// Whether the horizontal axis is logarithmic.
    pub log_x: bool,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// One curve.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// What it is of.
    pub name: String,
    /// Whether its points are those of the document.
    pub theirs: bool,
    /// Its points.
    pub points: Vec<(f64, f64)>,
}

/// Runs a document.
type Run = fn() -> Paper;

/// All documents, by name.
const PAPERS: &[(&str, Run)] = &[
    ("alpu", alpu::run),
    ("rdma", rdma::run),
    ("bypass", bypass::run),
    ("nicvm", nicvm::run),
    ("funi", funi::run),
    ("sif", sif::run),
];

/// The most by which a prediction may differ, in percent.
pub const DIFFERENCE_PERCENT_MAX: f64 = 20.0;

/// The names of all documents.
pub fn names() -> impl Iterator<Item = &'static str> {
    PAPERS.iter().map(|&(name, _)| name)
}

/// Runs the evaluation of a document. `None` if there is no such document.
pub fn run(name: &str) -> Option<Paper> {
    PAPERS.iter().find(|&&(known, _)| known == name).map(|&(_, run)| run())
}

impl Paper {
    /// Predictions that differ too much, without a reason.
    pub fn misses(&self) -> impl Iterator<Item = &Figure> {
        self.figures.iter().filter(|figure| figure.is_missed())
    }
}

impl Parameter {
    const fn given(
        what: &'static str,
        value: f64,
        unit: &'static str,
        place: &'static str,
    ) -> Self {
        Parameter { what, value, unit, origin: Origin::Given(place) }
    }

    const fn fitted(what: &'static str, value: f64, unit: &'static str, on: &'static str) -> Self {
        Parameter { what, value, unit, origin: Origin::Fitted(on) }
    }

    const fn assumed(
        what: &'static str,
        value: f64,
        unit: &'static str,
        why: &'static str,
    ) -> Self {
        Parameter { what, value, unit, origin: Origin::Assumed(why) }
    }
}

impl Figure {
    fn predicted(
        place: &'static str,
        what: impl Into<String>,
        unit: &'static str,
        theirs: f64,
        ours: f64,
    ) -> Figure {
        let theirs = Theirs::Value(theirs);
        Figure { place, what: what.into(), unit, theirs, ours, role: Role::Predicted, reason: None }
    }

    fn fitted(
        place: &'static str,
        what: impl Into<String>,
        unit: &'static str,
        theirs: f64,
        ours: f64,
    ) -> Figure {
        Figure { role: Role::Fitted, ..Figure::predicted(place, what, unit, theirs, ours) }
    }

    fn given(
        place: &'static str,
        what: impl Into<String>,
        unit: &'static str,
        theirs: f64,
        ours: f64,
    ) -> Figure {
        Figure { role: Role::Given, ..Figure::predicted(place, what, unit, theirs, ours) }
    }

    /// The document says only that the value is in this range.
    fn within(self, least: f64, most: f64) -> Figure {
        Figure { theirs: Theirs::Range(least, most), ..self }
    }

    fn because(self, reason: &'static str) -> Figure {
        Figure { reason: Some(reason), ..self }
    }

    /// By how much ours differs, in percent of the document's value or of the nearer end of its range.
    pub fn difference_percent(&self) -> f64 {
        let near = match self.theirs {
            Theirs::Value(value) => value,
            Theirs::Range(least, most) => self.ours.clamp(least, most),
        };
        (self.ours - near) / near * 100.0
    }

    /// Whether ours differs by more than a prediction may.
    pub fn differs(&self) -> bool {
        let most = match self.theirs {
            Theirs::Value(_) => DIFFERENCE_PERCENT_MAX,
            Theirs::Range(..) => 0.0,
        };
        let difference = self.difference_percent();
        difference.is_nan() || difference.abs() > most
    }

    /// Whether it is a prediction that differs, without a reason.
    pub fn is_missed(&self) -> bool {
        self.role == Role::Predicted && self.differs() && self.reason.is_none()
    }
}
