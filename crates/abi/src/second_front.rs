//! A second C ABI of three functions, which shows that the bodies of the standard ABI can serve others.
//!
//! Its handles are integers, and it has its own constants and its own status. This file contains all that such a
//! front needs: how each kind of argument is passed, and the name and arguments of each function.

use std::ffi::{c_int, c_void};

use crate::calls::collectives::op::{self, MPI_Reduce_local};
use crate::calls::communicators::comm::MPI_Comm_rank;
use crate::calls::communicators::comm_create::MPI_Comm_dup;
use crate::calls::environment::init::{MPI_Finalize, MPI_Init};
use crate::calls::point_to_point::nonblocking::MPI_Sendrecv;
use crate::convert::argument::{MessageTag, PeerRank, SourceRank};
use crate::convert::callback::{Callback, OperatorCall};
use crate::convert::constants::{MPI_COMM_WORLD, MPI_INT, MPI_OP_NULL, MPI_SUCCESS};
use crate::convert::handle;
use crate::convert::pointer::{Choice, ChoiceMut, Out};
use crate::convert::status::Status;
use crate::convert::types::{MPI_Comm, MPI_Datatype, MPI_Op, MPI_Status};

/// An argument of a body, as this ABI passes it.
trait SecondArgument: Sized {
    /// What C passes.
    type Passed;
    /// The converted value, which lives for the duration of the call.
    type Converted;

    fn convert(passed: Self::Passed) -> Self::Converted;
    fn lend(converted: &mut Self::Converted) -> Self;

    /// Writes results back to the caller after the call.
    fn write_back(_: Self::Converted) {}
}

/// Arguments that are passed by value.
macro_rules! by_value {
    ($($type:ty: $passed:ty = $convert:expr;)*) => { $(
        impl SecondArgument for $type {
            type Passed = $passed;
            type Converted = $type;

            fn convert(passed: $passed) -> $type {
                $convert(passed)
            }

            fn lend(converted: &mut $type) -> $type {
                *converted
            }
        }
    )* };
}

by_value! {
    c_int: c_int = |number| number;
    Choice: *const c_void = Choice;
    ChoiceMut: *mut c_void = ChoiceMut;
    PeerRank: c_int = |rank| PeerRank::of(if rank == PROC_NULL { None } else { Some(rank) });
    SourceRank: c_int = |rank| match rank {
        ANY_SOURCE => SourceRank::ANY,
        PROC_NULL => SourceRank::of(None),
        rank => SourceRank::of(Some(rank)),
    };
    MessageTag: c_int = |tag| if tag == ANY_TAG { MessageTag::ANY } else { MessageTag::of(tag) };
    MPI_Comm: c_int = comm_of;
    MPI_Datatype: c_int = |number| if number == INT { MPI_INT } else { MPI_Datatype(handle::from_int(number)) };
}

fn comm_of(number: c_int) -> MPI_Comm {
    if number == COMM_WORLD { MPI_COMM_WORLD } else { MPI_Comm(handle::from_int(number)) }
}

impl SecondArgument for Out<MPI_Comm> {
    type Passed = *mut c_int;
    type Converted = (*mut c_int, MPI_Comm);

    fn convert(place: *mut c_int) -> (*mut c_int, MPI_Comm) {
        (place, MPI_Comm(0))
    }

    fn lend((_, comm): &mut (*mut c_int, MPI_Comm)) -> Out<MPI_Comm> {
        Out::to(comm)
    }

    fn write_back((place, comm): (*mut c_int, MPI_Comm)) {
        // SAFETY: the test passes a valid pointer.
        unsafe { place.write(handle::to_int(comm.0)) };
    }
}

impl SecondArgument for Out<c_int> {
    type Passed = *mut c_int;
    type Converted = *mut c_int;

    fn convert(place: *mut c_int) -> *mut c_int {
        place
    }

    fn lend(place: &mut *mut c_int) -> Out<c_int> {
        // SAFETY: the test passes a valid pointer.
        Out::to(unsafe { &mut **place })
    }
}

/// The status of a message in this ABI.
#[derive(Debug, Default, Eq, PartialEq)]
#[repr(C)]
struct SecondStatus {
    bytes: u64,
    source: c_int,
    tag: c_int,
}

impl SecondArgument for Out<MPI_Status> {
    type Passed = *mut SecondStatus;
    type Converted = (*mut SecondStatus, MPI_Status);

    fn convert(place: *mut SecondStatus) -> (*mut SecondStatus, MPI_Status) {
        (place, Status::EMPTY.into())
    }

    fn lend((_, status): &mut (*mut SecondStatus, MPI_Status)) -> Out<MPI_Status> {
        Out::to(status)
    }

    fn write_back((place, status): (*mut SecondStatus, MPI_Status)) {
        let Status { bytes, source, tag, .. } = Status::from(status);
        // SAFETY: the test passes a valid pointer.
        unsafe { place.write(SecondStatus { bytes, source, tag }) };
    }
}

/// Defines functions of this ABI from their names and the arguments of their bodies.
macro_rules! front {
    ($(fn $name:ident = $body:ident ($($arg:ident: $type:ty),* $(,)?);)*) => { $(
        #[allow(clippy::too_many_arguments, reason = "the standard says how many")]
        extern "C" fn $name($($arg: <$type as SecondArgument>::Passed),*) -> c_int {
            $(let mut $arg = <$type as SecondArgument>::convert($arg);)*
            let code = $body::body($(<$type as SecondArgument>::lend(&mut $arg)),*);
            $(<$type as SecondArgument>::write_back($arg);)*
            code
        }
    )* };
}

front! {
    fn comm_rank = MPI_Comm_rank (comm: MPI_Comm, rank: Out<c_int>);
    fn comm_dup = MPI_Comm_dup (comm: MPI_Comm, newcomm: Out<MPI_Comm>);
    fn sendrecv = MPI_Sendrecv (
        sendbuf: Choice, sendcount: c_int, sendtype: MPI_Datatype, dest: PeerRank, sendtag: MessageTag,
        recvbuf: ChoiceMut, recvcount: c_int, recvtype: MPI_Datatype, source: SourceRank, recvtag: MessageTag,
        comm: MPI_Comm, status: Out<MPI_Status>,
    );
}

/// An operator of this ABI, which gets datatypes as integers.
type SecondOperator = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut c_int);

/// Creates an operator from a callback of this ABI, together with the function that calls it.
fn op_create(function: SecondOperator) -> MPI_Op {
    unsafe fn call(
        function: *const (),
        source: *mut c_void,
        into: *mut c_void,
        count: u64,
        datatype: MPI_Datatype,
    ) {
        // SAFETY: `op_create` put a function of this type there.
        let function: SecondOperator = unsafe { std::mem::transmute(function) };
        let mut count = c_int::try_from(count).expect("a few");
        let mut datatype = if datatype == MPI_INT { INT } else { handle::to_int(datatype.0) };
        // SAFETY: the test's own function.
        unsafe { function(source, into, &raw mut count, &raw mut datatype) };
    }
    let mut op = MPI_OP_NULL;
    let callback = Callback { function: function as *const (), call: call as OperatorCall };
    assert!(op::create(Some(callback), 1, Out::to(&mut op)).is_ok());
    op
}

/// Adds the first numbers, and returns the datatype that it was passed as the second.
unsafe extern "C" fn add(
    source: *mut c_void,
    into: *mut c_void,
    count: *mut c_int,
    datatype: *mut c_int,
) {
    // SAFETY: two integers.
    let source = unsafe { &*source.cast::<[c_int; 2]>() };
    // SAFETY: the same.
    let into = unsafe { &mut *into.cast::<[c_int; 2]>() };
    // SAFETY: one integer.
    let count = unsafe { *count };
    // SAFETY: the same.
    let datatype = unsafe { *datatype };
    assert_eq!(count, 2);
    *into = [source[0] + into[0], datatype];
}

const COMM_WORLD: c_int = 0x4400_0000;
const INT: c_int = 0x4c00_0405;
const PROC_NULL: c_int = -1;
const ANY_SOURCE: c_int = -2;
const ANY_TAG: c_int = -1;

#[test]
fn its_handles_constants_status_and_callbacks_are_its_own() {
    assert_eq!(MPI_Init::body(null(), null()), MPI_SUCCESS);
    let (mut rank, mut comm) = (-7, 0);
    assert_eq!(comm_rank(COMM_WORLD, &raw mut rank), MPI_SUCCESS);
    assert_eq!(comm_dup(COMM_WORLD, &raw mut comm), MPI_SUCCESS);
    assert_eq!((rank, comm_of(comm).0 > handle::PREDEFINED_MAX), (0, true));
    let (sent, mut received) = ([3, 4, 5], [0; 4]);
    let mut status = SecondStatus::default();
    let mut exchange = |dest, source| {
        let code = sendrecv(
            sent.as_ptr().cast(),
            3,
            INT,
            dest,
            9,
            received.as_mut_ptr().cast(),
            4,
            INT,
            source,
            ANY_TAG,
            comm,
            &raw mut status,
        );
        assert_eq!(code, MPI_SUCCESS);
        std::mem::take(&mut status)
    };
    assert_eq!(exchange(0, ANY_SOURCE), SecondStatus { bytes: 12, source: 0, tag: 9 });
    assert_eq!(exchange(PROC_NULL, PROC_NULL).bytes, 0);
    assert_eq!(received, [3, 4, 5, 0]);
    let (one, mut two) = ([1, 1], [2, 2]);
    let (from, into) = (Choice(one.as_ptr().cast()), ChoiceMut(two.as_mut_ptr().cast()));
    assert_eq!(MPI_Reduce_local::body(from, into, 2, MPI_INT, op_create(add)), MPI_SUCCESS);
    assert_eq!(two, [3, INT]);
    assert_eq!(MPI_Finalize::body(), MPI_SUCCESS);
}

fn null<T>() -> Out<T> {
    ChoiceMut(std::ptr::null_mut()).place()
}
