//! Errors, word by word.
#![allow(missing_docs)]

mod common;

use common::local;
use ferrywire::{ANY, Error, Operation};

/// What rank 1 of two says when rank 0 does `zero` and it does `one`.
fn said<R>(
    zero: impl Fn(&ferrywire::World) + Sync,
    one: impl Fn(&ferrywire::World) -> Result<R, Error> + Sync,
) -> String {
    let said = local(2, |world| match world.rank() {
        0 => {
            zero(world);
            String::new()
        }
        _ => one(world).err().expect("it fails").to_string(),
    });
    said[1].clone()
}

#[test]
fn a_message_longer_than_its_buffer() {
    let short = said(
        |world| world.send(&[1u64, 2, 3], 1, 7).unwrap(),
        |world| world.receive(&mut [0u64; 1], 0, 7),
    );
    assert_eq!(
        short,
        "receive of 8 bytes from rank 0, tag 7: the message has 24 bytes; receive into a longer \
         buffer or use receive_vec"
    );
    let long = said(
        |world| {
            // Whether the sender hears of it is not for the sender to say.
            let _ = world.send(&vec![0u8; 1 << 20], 1, 7);
        },
        |world| world.irecv::<u8>(100, ANY, ANY).unwrap().wait(),
    );
    assert_eq!(
        long,
        "irecv of 100 bytes from any rank, any tag: the message has 1048576 bytes; receive into a \
         longer buffer or use receive_vec"
    );
}

#[test]
fn a_message_of_another_type() {
    let misfit = said(
        |world| {
            world.send(&[1u8; 10], 1, 7).unwrap();
            world.send(&1u8, 1, 7).unwrap();
        },
        |world| {
            let misfit = world.receive_vec::<u32>(0, 7);
            // It is not in the way of the next one.
            assert_eq!(world.receive_one::<u8>(0, 7).unwrap().0, 1);
            misfit
        },
    );
    assert_eq!(
        misfit,
        "receive_vec from rank 0, tag 7: the message has 10 bytes, which is no whole number of \
         items of 4 bytes; receive the type that was sent"
    );
    let value = said(
        |world| world.send(&[0xffu8; 3], 1, 7).unwrap(),
        |world| world.receive_value::<String>(0, 7),
    );
    assert!(value.starts_with("receive_value of 3 bytes from rank 0, tag 7: "), "{value}");
}

#[test]
fn ranks_and_tags_that_do_not_exist() {
    local(3, |world| {
        let text = |result: Result<(), Error>| result.unwrap_err().to_string();
        assert_eq!(
            text(world.send(&1u8, 3, 0)),
            "send of 1 byte to rank 3, tag 0: there are ranks 0 to 2"
        );
        assert_eq!(
            text(world.receive(&mut [0u8; 4], -1, 0).map(drop)),
            "receive of 4 bytes from rank -1, tag 0: there are ranks 0 to 2"
        );
        assert_eq!(
            text(world.send(&1u16, 0, 1 << 24)),
            "send of 2 bytes to rank 0, tag 16777216: tags go from 0 to 16777215"
        );
        assert_eq!(
            text(world.send(&1u16, 0, ANY)),
            "send of 2 bytes to rank 0, any tag: tags go from 0 to 16777215"
        );
        assert_eq!(
            text(world.broadcast(&mut 1.0, 7)),
            "broadcast of 8 bytes with root 7: there are ranks 0 to 2"
        );
        let alone = world.split(world.rank(), 0).unwrap().unwrap();
        let rank = world.rank();
        assert_eq!(
            text(alone.probe(1, 2).map(drop)),
            format!("probe from rank 1, tag 2, in split {rank} of world: there is only rank 0")
        );
    });
}

#[test]
fn a_collective_that_cannot_be() {
    local(2, |world| {
        let text = |result: Result<(), Error>| result.unwrap_err().to_string();
        assert_eq!(
            text(world.allreduce(&mut 1.5, Operation::BitXor)),
            "allreduce of 8 bytes: BitXor makes no sense for numbers of type F64"
        );
        assert_eq!(
            text(world.alltoall(&[1u8, 2, 3]).map(drop)),
            "alltoall of 3 bytes: what we give has 3 items; pass 4"
        );
        if world.rank() == 0 {
            assert_eq!(
                text(world.scatter(Some(&[1u8, 2, 3]), &mut [0; 2], 0)),
                "scatter of 2 bytes with root 0: what the root has has 3 items; pass 4"
            );
        }
    });
    let uneven = said(
        |world| world.broadcast(&mut [0u8; 16], 0).unwrap(),
        |world| world.broadcast(&mut [0u8; 8], 0),
    );
    assert_eq!(
        uneven,
        "broadcast of 8 bytes with root 0: another rank has 16 bytes; all ranks must pass buffers \
         that fit"
    );
}

#[test]
fn a_rank_that_has_left() {
    let left = " rank 0 has left the job";
    let gone = |_: &ferrywire::World| {};
    assert_eq!(
        said(gone, |world| world.receive(&mut 0u64, 0, 7)),
        format!("receive of 8 bytes from rank 0, tag 7:{left}")
    );
    assert_eq!(said(gone, |world| world.barrier()), format!("barrier:{left}"));
    assert_eq!(
        said(gone, |world| world.probe(0, ANY)),
        format!("probe from rank 0, any tag:{left}")
    );
    assert_eq!(
        said(gone, |world| world.receive_vec::<u8>(0, 1)),
        format!("receive_vec from rank 0, tag 1:{left}")
    );
    assert_eq!(
        said(gone, |world| world.synchronous_send(&1u8, 0, 1)),
        format!("synchronous_send of 1 byte to rank 0, tag 1:{left}")
    );
    assert_eq!(
        said(gone, |world| {
            let mut byte = 0u8;
            world.scope(|s| drop(s.receive(&mut byte, 0, 1)))
        }),
        format!("receive of 1 byte from rank 0, tag 1:{left}")
    );
}

#[test]
fn in_another_communicator_both_ranks_are_named() {
    local(3, |world| {
        let back = world.split(0, -i32::try_from(world.rank()).unwrap()).unwrap().unwrap();
        if world.rank() == 0 {
            let error = back.receive(&mut 0u8, 0, 1).unwrap_err();
            assert_eq!(
                error.to_string(),
                "receive of 1 byte from rank 0, tag 1, in split 0 of world: rank 0, which is rank \
                 2 of world, has left the job"
            );
        }
    });
}
