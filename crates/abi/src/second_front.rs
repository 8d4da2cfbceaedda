//! A second C ABI of four functions, which shows that the bodies of the standard ABI can serve others.
//!
//! Its handles are integers, and it has its own constants, truth values and status. This file contains all that such a
//! front needs: how each kind of argument is passed, and the names of the functions. Their arguments come from the
//! table.

use crate::calls::collectives::op::{self, MPI_Reduce_local};
use crate::calls::environment::init::{MPI_Finalize, MPI_Init};
use crate::convert::constants::{
    MPI_COMM_WORLD, MPI_INT, MPI_OP_NULL, MPI_PROC_NULL, MPI_SUCCESS, MPI_UNDEFINED,
};
use crate::convert::handle;
use crate::convert::status::Status;
use crate::functions::functions;
use crate::functions::types::*;

/// Defines a function of this ABI.
macro_rules! second {
    (
        fn $name:ident = $($path:ident)::+ ($(($($kind:tt)*) $arg:ident: $type:ty),*)
        -> (error) $answer:ty
    ) => {
        #[allow(clippy::too_many_arguments, reason = "the standard says how many")]
        #[allow(non_snake_case, reason = "the standard gives the name")]
        extern "C" fn $name($($arg: <conversion!($($kind)*) as Conversion>::Passed),*) -> $answer {
            $(let mut $arg = <conversion!($($kind)*)>::convert($arg);)*
            let code = crate::$($path)::+::body($(<conversion!($($kind)*)>::lend(&mut $arg)),*);
            $(<conversion!($($kind)*)>::write_back($arg);)*
            code
        }
    };
}

/// The conversion of a kind.
macro_rules! conversion {
    (size) => {
        Number
    };
    (rank) => {
        Rank
    };
    (out rank) => {
        OutRank
    };
    (source) => {
        Source
    };
    (tag) => {
        Tag
    };
    (out logical) => {
        OutLogical
    };
    (comm) => {
        Comm
    };
    (out comm) => {
        OutComm
    };
    (datatype) => {
        Datatype
    };
    (out status) => {
        OutStatus
    };
    (buffer) => {
        Buffer
    };
    (out buffer) => {
        OutBuffer
    };
}

functions! { second: MPI_Initialized MPI_Comm_rank MPI_Comm_dup MPI_Sendrecv }

/// How this ABI passes arguments of a kind.
trait Conversion {
    /// What C passes.
    type Passed;
    /// The converted value, which lives for the duration of the call.
    type Converted;
    /// What the body takes.
    type Argument;

    fn convert(passed: Self::Passed) -> Self::Converted;
    fn lend(converted: &mut Self::Converted) -> Self::Argument;

    /// Writes results back to the caller after the call.
    fn write_back(_: Self::Converted) {}
}

/// Arguments that are passed by value.
macro_rules! by_value {
    ($($kind:ident: $passed:ty => $argument:ty = $convert:expr;)*) => { $(
        struct $kind;

        impl Conversion for $kind {
            type Passed = $passed;
            type Converted = $argument;
            type Argument = $argument;

            fn convert(passed: $passed) -> $argument {
                $convert(passed)
            }

            fn lend(converted: &mut $argument) -> $argument {
                *converted
            }
        }
    )* };
}

by_value! {
    Number: c_int => c_int = |number| number;
    Buffer: *const c_void => Choice = Choice;
    OutBuffer: *mut c_void => ChoiceMut = ChoiceMut;
    Rank: c_int => PeerRank = |rank| PeerRank::of(if rank == PROC_NULL { None } else { Some(rank) });
    Source: c_int => SourceRank = |rank| match rank {
        ANY_SOURCE => SourceRank::ANY,
        PROC_NULL => SourceRank::of(None),
        rank => SourceRank::of(Some(rank)),
    };
    Tag: c_int => MessageTag = |tag| if tag == ANY_TAG { MessageTag::ANY } else { MessageTag::of(tag) };
    Comm: c_int => MPI_Comm = comm_of;
    Datatype: c_int => MPI_Datatype =
        |number| if number == INT { MPI_INT } else { MPI_Datatype(handle::from_int(number)) };
}

fn comm_of(number: c_int) -> MPI_Comm {
    if number == COMM_WORLD { MPI_COMM_WORLD } else { MPI_Comm(handle::from_int(number)) }
}

/// Results, each of which the body writes to a variable of ours.
macro_rules! results {
    ($($kind:ident: $passed:ty, $result:ty = $first:expr => $convert:expr;)*) => { $(
        struct $kind;

        impl Conversion for $kind {
            type Passed = *mut $passed;
            type Converted = (*mut $passed, $result);
            type Argument = Out<$result>;

            fn convert(place: *mut $passed) -> (*mut $passed, $result) {
                (place, $first)
            }

            fn lend((_, result): &mut (*mut $passed, $result)) -> Out<$result> {
                Out::to(result)
            }

            fn write_back((place, result): (*mut $passed, $result)) {
                // SAFETY: the test passes a valid pointer.
                unsafe { place.write($convert(result)) };
            }
        }
    )* };
}

results! {
    OutRank: c_int, c_int = 0 => |rank| match rank {
        MPI_PROC_NULL => PROC_NULL,
        MPI_UNDEFINED => UNDEFINED,
        rank => rank,
    };
    OutLogical: c_int, c_int = 0 => |flag| if flag == 0 { FALSE } else { TRUE };
    OutComm: c_int, MPI_Comm = MPI_Comm(0) => |comm: MPI_Comm| handle::to_int(comm.0);
    OutStatus: SecondStatus, MPI_Status = Status::EMPTY.into() => |status: MPI_Status| {
        let Status { bytes, source, tag, .. } = Status::from(status);
        SecondStatus { bytes, source, tag }
    };
}

/// The status of a message in this ABI.
#[derive(Debug, Default, Eq, PartialEq)]
#[repr(C)]
struct SecondStatus {
    bytes: u64,
    source: c_int,
    tag: c_int,
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
const UNDEFINED: c_int = -9;
const FALSE: c_int = 0;
const TRUE: c_int = -1;

#[test]
fn its_handles_constants_status_and_callbacks_are_its_own() {
    assert_eq!(MPI_Init::body(null(), null()), MPI_SUCCESS);
    let (mut initialized, mut rank, mut comm) = (FALSE, -7, 0);
    assert_eq!(MPI_Initialized(&raw mut initialized), MPI_SUCCESS);
    assert_eq!(initialized, TRUE);
    assert_eq!(MPI_Comm_rank(COMM_WORLD, &raw mut rank), MPI_SUCCESS);
    assert_eq!(MPI_Comm_dup(COMM_WORLD, &raw mut comm), MPI_SUCCESS);
    assert_eq!((rank, comm_of(comm).0 > handle::PREDEFINED_MAX), (0, true));
    let (sent, mut received) = ([3, 4, 5], [0; 4]);
    let mut status = SecondStatus::default();
    let mut exchange = |dest, source| {
        let code = MPI_Sendrecv(
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
