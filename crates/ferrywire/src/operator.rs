//! User-defined operators of reductions.
//!
//! A schedule names its operator by a number. A user-defined one has a number of this process while its call is open.
//! The driver runs it without its lock, on any thread of the rank that waits in a call, so it is `Send` and `Sync`. A
//! panic in it does not unwind through the driver: it is kept, and resumes in the call that passed the operator.
//!
//! Invariants, cited below by number.
//!   I1. A blocking call borrows its buffers until it returns, and returns when the schedule is complete.
//!   I2. Any bytes are valid items of a plain type.

use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use ferrywire_host::nic::{Operator, Span};
use ferrywire_host::{Operators, memory};
use ferrywire_mpi::collective::ReduceOp;
use ferrywire_mpi::operation::{self, USER_OPERATOR_MIN};
use ferrywire_runtime::{self as runtime, Prepared, Process, Rank};

use crate::collective::{what, what_of_all};
use crate::comm::{Comm, What};
use crate::error::Error;
use crate::plain::{self, Buffer, Plain};

/// The order in which a reduction with a user-defined operator combines what the ranks pass. Operators are associative
/// in any case.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CombineOrder {
    /// Any order: for an operator that is commutative.
    Any,
    /// The order of ranks: the first argument of the operator comes from lower ranks than the second.
    ByRank,
}

impl Comm {
    /// Combines the items of all ranks by an operator, element by element. Every rank gets the result. All ranks pass
    /// the same operator and order.
    ///
    /// The operator may run on any thread of this rank that waits in a call. If it panics, this call does.
    ///
    /// ```
    /// use ferrywire::CombineOrder;
    /// ferrywire::local(3, |world| {
    ///     // Functions of the form `a * x + b`, composed in the order of ranks.
    ///     let mut function = [[2.0, f64::from(world.rank())]];
    ///     world.allreduce_with(&mut function[..], CombineOrder::ByRank, |[a, b], [c, d]| [a * c, b * c + d]).unwrap();
    ///     assert_eq!(function, [[8.0, 4.0]]);
    /// });
    /// ```
    pub fn allreduce_with<B: Buffer + ?Sized>(
        &self,
        data: &mut B,
        order: CombineOrder,
        operator: impl Fn(B::Item, B::Item) -> B::Item + Send + Sync + 'static,
    ) -> Result<(), Error> {
        self.run_in_place("allreduce_with", data, order, operator, |comm, reduce_op, bytes| {
            comm.allreduce(reduce_op, bytes, bytes)
        })
    }

    /// Combines the items of all ranks by an operator, element by element. The root gets the result in its buffer; the
    /// buffers of the other ranks stay unchanged. All ranks wait, and pass the same operator and order; see
    /// [`allreduce_with`](Comm::allreduce_with).
    ///
    /// ```
    /// use ferrywire::CombineOrder;
    /// ferrywire::local(4, |world| {
    ///     let mut digits = u64::from(world.rank() + 1);
    ///     world.reduce_with(&mut digits, CombineOrder::Any, |a, b| a * b % 7, 2).unwrap();
    ///     assert_eq!(digits, if world.rank() == 2 { 24 % 7 } else { u64::from(world.rank() + 1) });
    /// });
    /// ```
    pub fn reduce_with<B: Buffer + ?Sized>(
        &self,
        data: &mut B,
        order: CombineOrder,
        operator: impl Fn(B::Item, B::Item) -> B::Item + Send + Sync + 'static,
        root: impl Into<Rank>,
    ) -> Result<(), Error> {
        let items = data.items_mut();
        let mine = memory::lend(plain::bytes(items));
        let what = what::<B::Item>("reduce_with", mine, root.into());
        let root = self.root_of(what)?;
        // A reduce releases ranks before it is over, and nobody would run the operator of a rank that computes.
        let mut result = plain::zeroed::<B::Item>(items.len());
        let into = memory::lend_mut(plain::bytes_mut(&mut result));
        let prepare = |reduce_op| self.runtime().allreduce(reduce_op, mine, into);
        // SAFETY: I1.
        unsafe { self.run_with(what, order, operator, prepare) }?;
        if self.rank() == root {
            items.copy_from_slice(&result);
        }
        Ok(())
    }

    /// Combines, element by element, the items of ranks 0 to the caller's own by an operator. See
    /// [`allreduce_with`](Comm::allreduce_with).
    ///
    /// ```
    /// use ferrywire::CombineOrder;
    /// ferrywire::local(3, |world| {
    ///     let mut last = [10 + world.rank(), world.rank() % 2];
    ///     // The last value whose flag is set.
    ///     world.scan_with(&mut last, CombineOrder::ByRank, |a, b| if b[1] == 1 { b } else { a }).unwrap();
    ///     assert_eq!(last[0], [10, 11, 11][world.rank() as usize]);
    /// });
    /// ```
    pub fn scan_with<B: Buffer + ?Sized>(
        &self,
        data: &mut B,
        order: CombineOrder,
        operator: impl Fn(B::Item, B::Item) -> B::Item + Send + Sync + 'static,
    ) -> Result<(), Error> {
        self.run_in_place("scan_with", data, order, operator, runtime::Comm::scan)
    }

    /// Combines the items of the ranks below the caller's own by an operator, element by element. Rank 0 keeps its
    /// items. See [`allreduce_with`](Comm::allreduce_with).
    pub fn exscan_with<B: Buffer + ?Sized>(
        &self,
        data: &mut B,
        order: CombineOrder,
        operator: impl Fn(B::Item, B::Item) -> B::Item + Send + Sync + 'static,
    ) -> Result<(), Error> {
        self.run_in_place("exscan_with", data, order, operator, runtime::Comm::exscan)
    }

    /// Runs a collective whose items and results are in one buffer, the only one that `prepare` knows. It releases
    /// nobody early.
    fn run_in_place<'a, B: Buffer + ?Sized>(
        &'a self,
        name: &'static str,
        data: &mut B,
        order: CombineOrder,
        operator: impl Fn(B::Item, B::Item) -> B::Item + Send + Sync + 'static,
        prepare: fn(runtime::Comm<'a>, ReduceOp, Span) -> Prepared,
    ) -> Result<(), Error> {
        let bytes = memory::lend_mut(plain::bytes_mut(data.items_mut()));
        let what = what_of_all::<B::Item>(name, bytes);
        // SAFETY: I1.
        unsafe { self.run_with(what, order, operator, |op| prepare(self.runtime(), op, bytes)) }
    }

    /// Runs a collective with an operator that has a number meanwhile. If the operator panics, resumes that.
    ///
    /// # Safety
    /// The buffers of the collective are borrowed during the call, and it releases nobody.
    unsafe fn run_with<T: Plain>(
        &self,
        what: What,
        order: CombineOrder,
        operator: impl Fn(T, T) -> T + Send + Sync + 'static,
        prepare: impl FnOnce(ReduceOp) -> Prepared,
    ) -> Result<(), Error> {
        let panic = Arc::new(Mutex::new(None));
        let guarded = guarded(operator, Arc::clone(&panic));
        let registered = Registered::new(Arc::new(guarded), self.process());
        let reduce_op = ReduceOp {
            operator: Operator(registered.number),
            element_bytes: plain::unit::<T>() as u64,
            commutative: order == CombineOrder::Any,
        };
        // SAFETY: the caller vouches for it.
        let done = unsafe { self.run(what, prepare(reduce_op)) };
        drop(registered);
        let panic = panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        match panic {
            Some(panic) => resume_unwind(panic),
            None => done,
        }
    }
}

/// The payload of the first panic of an operator.
type PanicCell = Arc<Mutex<Option<Box<dyn Any + Send>>>>;

/// An operator on bytes that keeps a panic, and does nothing after it.
fn guarded<T: Plain>(
    operator: impl Fn(T, T) -> T + Send + Sync + 'static,
    panic: PanicCell,
) -> impl Fn(&[u8], &mut [u8]) + Send + Sync + 'static {
    move |source, into| {
        if panic.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            return;
        }
        let combine = AssertUnwindSafe(|| combine_items(&operator, source, into));
        if let Err(payload) = catch_unwind(combine) {
            *panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(payload);
        }
    }
}

/// Combines items, of which `source` comes from lower ranks.
fn combine_items<T: Plain>(operator: &impl Fn(T, T) -> T, source: &[u8], into: &mut [u8]) {
    // SAFETY: I2.
    let (before, lower, after) = unsafe { source.align_to::<T>() };
    if before.is_empty() && after.is_empty() {
        // SAFETY: I2.
        if let ([], higher, []) = unsafe { into.align_to_mut::<T>() } {
            return combine_aligned(operator, lower, higher);
        }
    }
    // Work space has no alignment.
    let mut lower = plain::zeroed::<T>(source.len() / plain::unit::<T>());
    let mut higher = lower.clone();
    plain::bytes_mut(&mut lower).copy_from_slice(source);
    plain::bytes_mut(&mut higher).copy_from_slice(into);
    combine_aligned(operator, &lower, &mut higher);
    into.copy_from_slice(plain::bytes(&higher));
}

fn combine_aligned<T: Plain>(operator: &impl Fn(T, T) -> T, lower: &[T], higher: &mut [T]) {
    for (higher, &lower) in higher.iter_mut().zip(lower) {
        *higher = operator(lower, *higher);
    }
}

/// The operators of this process.
pub(crate) const OPERATORS: Operators =
    Operators { combine, is_users: |operator| operator.0 >= USER_OPERATOR_MIN };

/// Combines two contributions.
fn combine(operator: Operator, source: &[u8], into: &mut [u8]) {
    if operator.0 < USER_OPERATOR_MIN {
        return operation::combine(operator, source, into);
    }
    let users = registry().operators.get(&operator.0).cloned();
    users.expect("it is registered until its schedule is over")(source, into);
}

type UserOperator = Arc<dyn Fn(&[u8], &mut [u8]) + Send + Sync>;

/// The user-defined operators that open calls of all ranks of this process use, by number.
#[derive(Default)]
struct Registry {
    operators: HashMap<u16, UserOperator>,
    next: u16,
}

fn registry() -> MutexGuard<'static, Registry> {
    static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of an operator, valid while this is alive.
struct Registered<'a> {
    number: u16,
    process: &'a Process,
}

impl Registered<'_> {
    fn new(operator: UserOperator, process: &Process) -> Registered<'_> {
        let mut registry = registry();
        // As many calls as there are numbers cannot be open: each has a thread.
        while registry.operators.contains_key(&(registry.next | USER_OPERATOR_MIN)) {
            registry.next = registry.next.wrapping_add(1);
        }
        let number = registry.next | USER_OPERATOR_MIN;
        registry.next = number.wrapping_add(1);
        registry.operators.insert(number, operator);
        process.add_user_operator();
        Registered { number, process }
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        registry().operators.remove(&self.number);
        self.process.remove_user_operator();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_combined_whatever_their_alignment() {
        let subtract = |lower: u64, higher: u64| lower.wrapping_sub(higher);
        for (from, to) in [(0, 0), (1, 0), (0, 3), (5, 7)] {
            let mut source = [0; 40];
            let mut into = [0; 40];
            source[from..from + 32].copy_from_slice(plain::bytes(&[10_u64, 20, 30, 40]));
            into[to..to + 32].copy_from_slice(plain::bytes(&[1_u64, 2, 3, 4]));
            combine_items(&subtract, &source[from..from + 32], &mut into[to..to + 32]);
            assert_eq!(into[to..to + 32], *plain::bytes(&[9_u64, 18, 27, 36]));
        }
    }

    #[test]
    fn a_number_is_used_by_one_operator_at_a_time() {
        let numbers = crate::local(3, |world| {
            let nothing: UserOperator = Arc::new(|_, _| ());
            let held: Vec<_> =
                (0..50).map(|_| Registered::new(Arc::clone(&nothing), world.process())).collect();
            world.barrier().unwrap();
            held.iter().map(|held| held.number).collect::<Vec<u16>>()
        });
        let mut numbers = numbers.concat();
        numbers.sort_unstable();
        assert!(numbers.iter().all(|number| *number >= USER_OPERATOR_MIN));
        numbers.dedup();
        assert_eq!(numbers.len(), 150);
    }
}
