//! The text of every error.
#![allow(missing_docs)]

mod common;

use common::local;
use ferrywire::{ANY, Error, ErrorCode, Operation};

/// The error of rank 1 when rank 0 runs `zero` and rank 1 runs `one`.
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
         buffer or use receive_vec [FW0104]"
    );
    let long = said(
        |world| {
            // The send may succeed or fail; only the receive is checked.
            let _ = world.send(&vec![0u8; 1 << 20], 1, 7);
        },
        |world| world.irecv::<u8>(100, ANY, ANY).unwrap().wait(),
    );
    assert_eq!(
        long,
        "irecv of 100 bytes from any rank, any tag: the message has 1048576 bytes; receive into a \
         longer buffer or use receive_vec [FW0104]"
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
            // The misfit does not block the next message.
            assert_eq!(world.receive_one::<u8>(0, 7).unwrap().0, 1);
            misfit
        },
    );
    assert_eq!(
        misfit,
        "receive_vec from rank 0, tag 7: the message has 10 bytes, which is not a multiple of the \
         item size, 4 bytes; receive the type that was sent [FW0112]"
    );
    let value = said(
        |world| world.send(&[0xffu8; 3], 1, 7).unwrap(),
        |world| world.receive_value::<String>(0, 7),
    );
    assert!(value.starts_with("receive_value of 3 bytes from rank 0, tag 7: "), "{value}");
    assert!(value.ends_with(" [FW0114]"), "{value}");
}

#[test]
fn ranks_and_tags_that_do_not_exist() {
    local(3, |world| {
        let text = |result: Result<(), Error>| result.unwrap_err().to_string();
        assert_eq!(
            text(world.send(&1u8, 3, 0)),
            "send of 1 byte to rank 3, tag 0: invalid rank; ranks go from 0 to 2 [FW0101]"
        );
        assert_eq!(
            text(world.receive(&mut [0u8; 4], -1, 0).map(drop)),
            "receive of 4 bytes from rank -1, tag 0: invalid rank; ranks go from 0 to 2 [FW0101]"
        );
        assert_eq!(
            text(world.send(&1u16, 0, 1 << 24)),
            "send of 2 bytes to rank 0, tag 16777216: invalid tag; tags go from 0 to 16777215 [FW0102]"
        );
        assert_eq!(
            text(world.send(&1u16, 0, ANY)),
            "send of 2 bytes to rank 0, any tag: invalid tag; tags go from 0 to 16777215 [FW0102]"
        );
        assert_eq!(
            text(world.broadcast(&mut 1.0, 7)),
            "broadcast of 8 bytes with root 7: invalid rank; ranks go from 0 to 2 [FW0101]"
        );
        let alone = world.split(world.rank(), 0).unwrap().unwrap();
        let rank = world.rank();
        assert_eq!(
            text(alone.probe(1, 2).map(drop)),
            format!(
                "probe from rank 1, tag 2, in split {rank} of world: invalid rank; the only rank is 0 [FW0101]"
            )
        );
    });
}

#[test]
fn a_collective_that_cannot_be() {
    local(2, |world| {
        let text = |result: Result<(), Error>| result.unwrap_err().to_string();
        assert_eq!(
            text(world.allreduce(&mut 1.5, Operation::BitXor)),
            "allreduce of 8 bytes: BitXor is not defined for numbers of type F64 [FW0203]"
        );
        assert_eq!(
            text(world.alltoall(&[1u8, 2, 3]).map(drop)),
            "alltoall of 3 bytes: the send buffer has 3 items; pass 4 [FW0206]"
        );
        if world.rank() == 0 {
            assert_eq!(
                text(world.scatter(Some(&[1u8, 2, 3]), &mut [0; 2], 0)),
                "scatter of 2 bytes with root 0: the buffer of the root has 3 items; pass 4 [FW0206]"
            );
        }
    });
    let uneven = said(
        |world| world.broadcast(&mut [0u8; 16], 0).unwrap(),
        |world| world.broadcast(&mut [0u8; 8], 0),
    );
    assert_eq!(
        uneven,
        "broadcast of 8 bytes with root 0: another rank passed 16 bytes; all ranks must pass buffers \
         of matching sizes [FW0202]"
    );
}

#[test]
fn a_rank_that_has_left() {
    let left = " rank 0 has left the job [FW0701]";
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
                 2 of world, has left the job [FW0701]"
            );
        }
    });
}

#[test]
fn a_message_received_as_another_type() {
    let bits = |world: &ferrywire::World| world.send(&[1u64, 2], 1, 7).unwrap();
    let wrong =
        ": rank 0 sent u64, but it is received as f64; receive the type that was sent [FW0113]";
    assert_eq!(
        said(bits, |world| world.receive(&mut [0.0f64; 2], 0, 7)),
        format!("receive of 16 bytes from rank 0, tag 7{wrong}")
    );
    assert_eq!(
        said(bits, |world| world.receive_vec::<f64>(ANY, 7)),
        format!("receive_vec from any rank, tag 7{wrong}")
    );
    assert_eq!(
        said(bits, |world| world.irecv::<f64>(2, 0, 7).unwrap().wait()),
        format!("irecv of 16 bytes from rank 0, tag 7{wrong}")
    );
    assert_eq!(
        said(bits, |world| {
            let mut numbers = [0.0f64; 2];
            world.scope(|s| drop(s.receive(&mut numbers, 0, 7)))
        }),
        format!("receive of 16 bytes from rank 0, tag 7{wrong}")
    );
    // Arrays are sent as their elements.
    local(2, |world| {
        if world.rank() == 0 {
            world.send(&[[1u64, 2], [3, 4]], 1, 7).unwrap();
        } else {
            assert_eq!(world.receive_vec::<u64>(0, 7).unwrap().0, [1, 2, 3, 4]);
        }
    });
}

/// The error of the rank that calls last, when the two ranks call different collectives.
fn last_said(
    zero: impl Fn(&ferrywire::World) -> Result<(), Error> + Sync,
    one: impl Fn(&ferrywire::World) -> Result<(), Error> + Sync,
) -> String {
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        local(2, |world| match world.rank() {
            0 => zero(world).unwrap(),
            _ => one(world).unwrap(),
        })
    }));
    *panic.expect_err("it fails").downcast::<String>().expect("text")
}

#[test]
fn a_collective_that_ranks_call_differently() {
    let sum = |world: &ferrywire::World| world.allreduce(&mut 1u64, Operation::Sum);
    let text = last_said(sum, |world| world.allreduce(&mut 1.0f64, Operation::Sum));
    assert!(text.contains("allreduce of f64") && text.contains("allreduce of u64"), "{text}");
    assert!(text.contains("all ranks must make the same call with the same type"), "{text}");
    let text = last_said(sum, |world| world.barrier());
    assert!(text.contains("allreduce of u64") && text.contains("barrier"), "{text}");
    let text =
        last_said(sum, |world| world.iallreduce(vec![1.0f64], Operation::Sum)?.wait().map(drop));
    assert!(text.contains("iallreduce of f64") && text.contains("allreduce of u64"), "{text}");
}

/// The text that a `main` that returns an error prints, and a failed `unwrap`.
#[test]
fn debug_prints_the_same_text_as_display() {
    local(1, |world| {
        let error = world.send(&1u8, 5, 0).unwrap_err();
        assert_eq!(format!("{error:?}"), error.to_string());
        assert_eq!(error.code(), ErrorCode::RANK);
    });
}

/// Ranks that wait for each other, for the test below.
#[test]
#[ignore = "is started by another test"]
fn deadlock() {
    ferrywire::local(3, |world| match world.rank() {
        2 => {}
        rank => drop(world.receive(&mut 0u32, 1 - rank, 7)),
    });
}

#[test]
fn a_deadlock_ends_when_its_time_is_over() {
    let mut test = std::process::Command::new(std::env::current_exe().unwrap());
    test.args(["deadlock", "--exact", "--ignored", "--nocapture"]);
    let output = test.env("FERRY_LOCAL_TIMEOUT", "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(
        text.contains(
            "the job has not ended within 1 s (FERRY_LOCAL_TIMEOUT): rank 0 waits in receive of 4 bytes from rank 1, \
             tag 7; rank 1 waits in receive of 4 bytes from rank 0, tag 7; rank 2 has ended"
        ),
        "{text}"
    );
}
