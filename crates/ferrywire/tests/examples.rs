//! The examples, on 1 to 6 ranks.
#![allow(missing_docs, dead_code, unreachable_pub)]

mod common;

#[path = "../../../examples/async_server.rs"]
mod async_server;
#[path = "../../../examples/checkpoint.rs"]
mod checkpoint;
#[path = "../../../examples/pi.rs"]
mod pi;
#[path = "../../../examples/ring.rs"]
mod ring;
#[path = "../../../examples/shared_counter.rs"]
mod shared_counter;
#[path = "../../../examples/stencil.rs"]
mod stencil;
#[path = "../../../examples/work_queue.rs"]
mod work_queue;

use common::local;

#[test]
fn a_token_goes_round() {
    for ranks in 1..=6 {
        let tokens = local(ranks, |world| ring::ring(world).unwrap());
        assert_eq!(tokens[0], u64::from(ranks * (ranks - 1) / 2));
    }
}

#[test]
fn pi_is_about_pi() {
    for ranks in 1..=6 {
        let found = local(ranks, |world| pi::pi(world, 10_000).unwrap());
        assert!((found[0].unwrap() - std::f64::consts::PI).abs() < 1e-8);
        assert!(found[1..].iter().all(Option::is_none));
    }
}

#[test]
fn a_rod_is_as_warm_in_parts_as_in_one_piece() {
    let whole = stencil::serial(30, 200);
    for ranks in 1..=6 {
        let found = local(ranks, |world| stencil::jacobi(world, 30, 200).unwrap());
        let (residual, rod) = &found[0];
        assert!(*residual > 0.0 && *residual < 1.0, "{residual}");
        assert!(rod.as_ref().unwrap() == &whole, "{ranks} ranks");
        assert!(found.iter().all(|(other, _)| other.to_bits() == residual.to_bits()));
    }
}

#[test]
fn a_rod_of_one_cell_for_each_rank() {
    for ranks in 1..=6u32 {
        let found = local(ranks, |world| stencil::jacobi(world, ranks as usize, 50).unwrap());
        assert!(found[0].1.as_ref().unwrap() == &stencil::serial(ranks as usize, 50));
    }
}

#[test]
fn all_work_is_done() {
    let expected: Vec<usize> = (0..100).map(work_queue::work).collect();
    for ranks in 1..=6 {
        let found = local(ranks, |world| work_queue::work_queue(world, 100).unwrap());
        assert_eq!(found[0].as_ref(), Some(&expected));
    }
}

#[test]
fn all_tasks_of_a_shared_counter_are_done() {
    let expected: Vec<usize> = (0..100).map(shared_counter::work).collect();
    for ranks in 1..=6 {
        let found = local(ranks, |world| shared_counter::shared_counter(world, 100).unwrap());
        assert_eq!(found[0].as_ref(), Some(&expected));
    }
}

/// The file is the same on any number of ranks, and does not depend on how it was saved.
#[test]
fn a_matrix_is_saved_and_loaded() {
    let (rows, columns) = (13, 17);
    let all = || (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
    let numbers: Vec<f64> = all().map(|(row, column)| checkpoint::value(row, column)).collect();
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
    let path = std::env::temp_dir().join(format!("ferrywire-checkpoint-{}", std::process::id()));
    for ranks in 1..=6 {
        local(ranks, |world| checkpoint::save(world, &path, rows, columns).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "{ranks} ranks");
        let sums =
            local(7 - ranks, |world| checkpoint::sum_of_rows(world, &path, rows, columns).unwrap());
        assert!(sums.iter().all(|&sum| sum == numbers.iter().sum::<f64>()), "{sums:?}");
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_server_serves_all() {
    for ranks in 1..=6 {
        let answers = local(ranks, |world| async_server::async_server(world, 20).unwrap());
        assert!(answers.iter().all(|&answers| answers == 20));
    }
}
