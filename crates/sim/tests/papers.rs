//! The figures of the documents: predictions are near enough, or say why not.

use ferrywire_sim::papers::{self, Figure, Paper, Role, Theirs};

fn judge(name: &str) {
    let paper = papers::run(name).expect("a document");
    for figure in &paper.figures {
        println!(
            "{:<10} {:<60} {:?} ours {:.3} {} {:+.1} % {:?}",
            figure.place,
            figure.what,
            figure.theirs,
            figure.ours,
            figure.unit,
            figure.difference_percent(),
            figure.role
        );
    }
    let misses: Vec<_> = paper.misses().collect();
    assert!(misses.is_empty(), "{name}: {misses:#?}");
    assert!(paper.figures.iter().any(|figure| figure.role == Role::Predicted));
    assert!(!paper.parameters.is_empty() && !paper.plots.is_empty());
    fits_are_right(&paper);
}

/// What a parameter was fitted on comes out right, and what is given is what goes in.
fn fits_are_right(paper: &Paper) {
    for figure in paper.figures.iter().filter(|figure| figure.role != Role::Predicted) {
        let off = figure.difference_percent().abs();
        assert!(
            matches!(figure.theirs, Theirs::Value(_)) && off < 10.0,
            "{}: {figure:#?}",
            paper.name
        );
    }
}

#[test]
fn a_prediction_is_missed_if_it_is_too_far_and_has_no_reason() {
    let figure = |theirs, ours, role, reason| {
        let (place, what, unit) = ("1", "a figure".into(), "ns");
        Figure { place, what, unit, theirs, ours, role, reason }.is_missed()
    };
    let predicted = |theirs, ours| figure(theirs, ours, Role::Predicted, None);
    assert!(!predicted(Theirs::Value(100.0), 119.0) && !predicted(Theirs::Value(100.0), 81.0));
    assert!(predicted(Theirs::Value(100.0), 121.0) && predicted(Theirs::Value(100.0), 79.0));
    assert!(!predicted(Theirs::Range(1.0, 2.0), 1.5) && predicted(Theirs::Range(1.0, 2.0), 2.1));
    assert!(predicted(Theirs::Value(100.0), f64::NAN));
    assert!(!figure(Theirs::Value(1.0), 2.0, Role::Fitted, None));
    assert!(!figure(Theirs::Value(1.0), 2.0, Role::Predicted, Some("why")));
}

#[test]
fn every_document_is_judged_here() {
    let names: Vec<_> = papers::names().collect();
    assert_eq!(names, ["alpu", "rdma", "bypass", "nicvm", "funi", "sif"]);
    assert!(papers::run("another").is_none());
}

#[test]
fn alpu() {
    judge("alpu");
}

#[test]
fn rdma() {
    judge("rdma");
}

#[test]
fn bypass() {
    judge("bypass");
}

#[test]
fn nicvm() {
    judge("nicvm");
}

#[test]
fn funi() {
    judge("funi");
}

#[test]
fn sif() {
    judge("sif");
}
