//! Cartesian communicators: coordinates, shifts, slices, exchanges with neighbours.
#![allow(missing_docs)]

mod common;

use common::local;
use ferrywire::{Cartesian, Comm, Error, Shift};

fn grid(world: &Comm, dims: &[u32], periodic: &[bool]) -> Option<Cartesian> {
    world.cartesian(dims, periodic, true).unwrap()
}

#[test]
fn ranks_have_coordinates_and_coordinates_ranks() {
    local(8, |world| {
        let Some(grid) = grid(world, &[3, 2], &[true, false]) else {
            assert!(world.rank() >= 6);
            return;
        };
        assert_eq!((grid.dims(), grid.periodic()), (vec![3, 2], vec![true, false]));
        for rank in 0..6 {
            let coords = grid.coords(rank).unwrap();
            assert_eq!(coords, [rank / 2, rank % 2]);
            assert_eq!(grid.rank_at(&[i64::from(coords[0]) - 3, coords[1].into()]), Some(rank));
        }
        assert_eq!(grid.rank_at(&[0, 2]), None);
        assert_eq!(grid.rank_at(&[0]), None);
        let rank = grid.rank();
        let shift = grid.shift(0, 1).unwrap();
        assert_eq!(shift, Shift { source: Some((rank + 4) % 6), target: Some((rank + 2) % 6) });
        assert_eq!(grid.shift(1, 2).unwrap(), Shift { source: None, target: None });
        assert_eq!(format!("{grid:?}"), format!("a grid of world, rank {rank} of 6, [3, 2]"));
    });
}

#[test]
fn slices_are_grids_too() {
    local(12, |world| {
        let grid = grid(world, &[2, 3, 2], &[false, true, false]).unwrap();
        let [x, y, z] = grid.coords(grid.rank()).unwrap()[..] else { panic!("three dimensions") };
        let plane = grid.sub(&[false, true, true]).unwrap();
        assert_eq!((plane.dims(), plane.periodic()), (vec![3, 2], vec![true, false]));
        assert_eq!(plane.coords(plane.rank()).unwrap(), [y, z]);
        assert_eq!(plane.allgather(&x).unwrap(), [x; 6]);
        let point = plane.sub(&[false, false]).unwrap();
        assert_eq!((point.size(), point.neighbours().len()), (1, 0));
        point.neighbour_alltoall::<u8>(&[], &mut []).unwrap();
    });
}

#[test]
fn neighbours_exchange_on_grids_of_every_shape() {
    let shapes: [(&[u32], &[bool]); 6] = [
        (&[1], &[true]),
        (&[2], &[true]),
        (&[4], &[false]),
        (&[2, 3], &[true, true]),
        (&[3, 2], &[false, true]),
        (&[2, 2, 2], &[false, true, false]),
    ];
    for (dims, periodic) in shapes {
        local(dims.iter().product(), |world| {
            let grid = grid(world, dims, periodic).unwrap();
            let rank = grid.rank();
            let neighbours = grid.neighbours();
            assert_eq!(neighbours.len(), 2 * dims.len());
            let mut around = vec![u64::MAX; 2 * neighbours.len()];
            grid.neighbour_allgather(&[rank.into(), 7], &mut around).unwrap();
            for (block, neighbour) in around.chunks(2).zip(&neighbours) {
                assert_eq!(block, neighbour.map_or([u64::MAX; 2], |rank| [rank.into(), 7]));
            }
            // What a rank sends in one direction arrives from the opposite one.
            let ours: Vec<u32> = (0..).take(neighbours.len()).map(|way| 100 * rank + way).collect();
            let mut around = vec![u32::MAX; neighbours.len()];
            grid.neighbour_alltoall(&ours, &mut around).unwrap();
            for ((got, neighbour), way) in around.iter().zip(&neighbours).zip(0..) {
                assert_eq!(*got, neighbour.map_or(u32::MAX, |rank| 100 * rank + (way ^ 1)));
            }
        });
    }
}

#[test]
fn errors_say_what_is_wrong() {
    local(2, |world| {
        let text = |error: Error| error.to_string();
        let error = |dims: &[u32], periodic: &[bool]| {
            text(world.cartesian(dims, periodic, false).unwrap_err())
        };
        assert_eq!(
            error(&[3], &[true]),
            "cartesian: a grid of 3 ranks; the communicator has 2 [FW0307]"
        );
        assert_eq!(error(&[2], &[]), "cartesian: 1 sides and 0 periods; pass as many [FW0307]");
        assert_eq!(
            error(&[0], &[true]),
            "cartesian: a grid of [0] ranks; each side must have some, there may be 128 dimensions [FW0307]"
        );
        let grid = world.cartesian(&[2], &[true], false).unwrap().unwrap();
        assert_eq!(
            text(grid.shift(1, 1).unwrap_err()),
            "shift, in a grid of world: invalid dimension 1; the grid has 1 dimensions [FW0307]"
        );
        assert_eq!(
            text(grid.sub(&[]).unwrap_err()),
            "sub, in a grid of world: 0 choices for a grid of 1 dimensions; pass one for each [FW0307]"
        );
        assert_eq!(
            text(grid.neighbour_allgather(&[1u8], &mut [0]).unwrap_err()),
            "neighbour_allgather of 1 byte, in a grid of world: the receive buffer has 1 items; pass 2 [FW0206]"
        );
        assert!(grid.coords(2).is_err());
        // Errors that one rank finds before it starts do not shift later collectives.
        let mut around = [0; 2];
        grid.neighbour_allgather(&[grid.rank()], &mut around).unwrap();
        assert_eq!(around, [1 - grid.rank(); 2]);
    });
}
