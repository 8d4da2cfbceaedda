//! The figures of the documents: predictions are near enough, or say why not.

use ferrywire_sim::papers::{self, Paper, Role, Theirs};

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
    fits_are_right(&paper);
}

/// What a parameter was fitted on comes out right, and what is given is what goes in.
fn fits_are_right(paper: &Paper) {
    for figure in paper.figures.iter().filter(|figure| figure.role != Role::Predicted) {
        let off = figure.difference_percent().abs();
        assert!(
            matches!(figure.theirs, Theirs::Value(_)) && off < 5.0,
            "{}: {figure:#?}",
            paper.name
        );
    }
}

#[test]
fn alpu() {
    judge("alpu");
}

#[test]
fn rdma() {
    judge("rdma");
}
