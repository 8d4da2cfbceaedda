//! Windows: memory of all ranks of a communicator, which each of them reads and writes without the others.
//!
//! # Soundness
//!
//! Other ranks access the memory at any time, and with [`local`](crate::local) they are threads of this process. So
//! there are no references to it: `get` copies from it and `put` into it. All accesses to an item, by whatever call and
//! rank, are atomic instructions on words of the same length, which follows from the type of the items. Conflicting
//! accesses are therefore no data races, whichever locks a program takes or forgets to take, and even if it leaks a
//! guard. What an access of a conflict reads is a mixture of such words, and any words are valid items, because they
//! are [`Plain`].
//!
//! That includes the puts that raise counters, which the NIC of the target writes: it knows the length of the words and
//! stores them by the same instructions. A put that a counter starts reads a buffer that its request owns.
//!
//! Invariants, cited below by number.
//!   I1. The buffer of a put that a counter starts is on the heap, in its request: see `request.rs`.

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use ferrywire_host::memory;
use ferrywire_mpi::datatype::{Datatype, TypeClass};
use ferrywire_mpi::operation::Operation;
use ferrywire_runtime::{
    self as runtime, Created, Locking, Rank, Source, TargetData, WindowError, WindowKind,
    WindowSpace, With, WordWidth,
};

use crate::comm::{Comm, What, size};
use crate::counters::{Counters, Trigger};
use crate::error::Error;
use crate::plain::{self, Number, Plain};
use crate::request::{OwnedBuffer, PutRequest, Request, Sending};

/// Memory of all ranks of a communicator, which each of them reads and writes without the others: see
/// [`Comm::window`].
///
/// Every rank has a part of the memory. An *epoch* allows accesses to parts, and its end completes them, so accesses
/// without an epoch do not compile:
///
/// | epoch | accesses |
/// |---|---|
/// | [`lock`](Window::lock) | the part of one rank, alone or together with others that lock it |
/// | [`lock_all`](Window::lock_all) | all parts, together with others |
/// | [`fence`](Window::fence) | all parts, in an epoch that all ranks enter and leave together |
///
/// A rank locks its own part, too, to access it. [`Part`] has the accesses. A put can raise a counter, which tells its
/// target that the items have arrived: see [`counters`](Window::counters).
///
/// There are no references to the memory, only copies of it, and each word of it is accessed by an atomic instruction.
/// Accesses that conflict are never data races, whichever epochs they are in; [`Part`] says what they see.
///
/// Dropping a window is not collective. Ranks of the same host can still access the part of the rank that has dropped
/// it, those of other hosts get an error, and the memory is released when the job ends. [`free`](Window::free) is
/// collective and releases it at once.
///
/// ```compile_fail
/// ferrywire::local(1, |world| {
///     let window = world.window::<u64>(1).unwrap();
///     window.put(0, &[1]).unwrap(); // No epoch.
/// });
/// ```
/// ```compile_fail
/// use ferrywire::LockKind::Exclusive;
/// ferrywire::local(1, |world| {
///     let window = world.window::<u64>(1).unwrap();
///     let locked = window.lock(0, Exclusive).unwrap();
///     let part = &*locked;
///     drop(locked);
///     part.put(0, &[1]).unwrap(); // The epoch is over.
/// });
/// ```
pub struct Window<T: Plain> {
    /// A communicator of its own, so that its messages meet no others.
    comm: Comm,
    window: Arc<runtime::Window>,
    /// The words that items consist of.
    word: Datatype,
    /// The first error of a guard that was dropped. The next call returns it.
    failed: Mutex<Option<Error>>,
    is_freed: bool,
    items: PhantomData<T>,
}

/// How a part is locked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LockKind {
    /// No other rank has a lock of the part meanwhile.
    Exclusive,
    /// Other ranks may have shared locks of the part.
    Shared,
}

impl Comm {
    /// Creates a window, in which this rank has a part of `len` items. All ranks must call it; their lengths may
    /// differ. The items are zeros at first.
    ///
    /// ```
    /// use ferrywire::LockKind::{Exclusive, Shared};
    ///
    /// ferrywire::local(3, |world| {
    ///     let window = world.window::<f64>(4).unwrap();
    ///     let right = (world.rank() + 1) % world.size();
    ///     {
    ///         let part = window.lock(right, Exclusive).unwrap();
    ///         part.put(1, &[1.5, f64::from(world.rank())]).unwrap();
    ///     } // Here the put is complete, and the part is unlocked.
    ///     world.barrier().unwrap();
    ///     let mut mine = [0.0; 4];
    ///     window.lock(world.rank(), Shared).unwrap().get(0, &mut mine).unwrap();
    ///     assert_eq!(mine, [0.0, 1.5, f64::from((world.rank() + 2) % 3), 0.0]);
    ///     window.free().unwrap();
    /// });
    /// ```
    pub fn window<T: Plain>(&self, len: usize) -> Result<Window<T>, Error> {
        let what = What { item: Some(T::type_name()), ..self.what_all("window") };
        let (instance, wrong) = self.begin_collective(what);
        if let Some(error) = wrong {
            return Err(error);
        }
        let _waits = self.enter(what);
        let created = self.runtime().duplicate(instance);
        let created: Created = created.map_err(|error| self.not_created(what, error))?;
        let comm = self.made(format!("a window of {}", self.name()), created);
        // More than there is cannot be claimed, and all ranks learn that.
        let bytes = len.saturating_mul(size_of::<T>()) as u64;
        let kind = WindowKind::Allocated { adjacent: false };
        let words = Some(Window::<T>::WIDTH);
        let window = comm.runtime().create_window(WindowSpace { kind, bytes, unit: 1, words });
        let window = Arc::new(window.map_err(|error| self.window_error(what, error))?);
        let word = Datatype::match_size(TypeClass::Integer, Window::<T>::WIDTH.bytes() as u64);
        let word = word.expect("there are integers of these lengths");
        let failed = Mutex::default();
        Ok(Window { comm, window, word, failed, is_freed: false, items: PhantomData })
    }

    /// The error of a call of a window.
    pub(crate) fn window_error(&self, what: What, error: WindowError) -> Error {
        match error {
            WindowError::Failed(failure) => self.error_of(what, failure),
            WindowError::NotCreated(error) => self.not_created(what, error),
            other => {
                let (call, code) = (self.call(what), other.code());
                Error::Window { call, code, why: other.to_string() }
            }
        }
    }
}

impl<T: Plain> Window<T> {
    const WIDTH: WordWidth = WordWidth::dividing(size_of::<T>());

    /// The rank of the caller.
    pub fn rank(&self) -> u32 {
        self.comm.rank()
    }

    /// The number of ranks.
    pub fn size(&self) -> u32 {
        self.comm.size()
    }

    /// The number of items in the part of a rank.
    pub fn len(&self, rank: impl Into<Rank>) -> Result<usize, Error> {
        let rank = self.check_rank("len", rank.into())?;
        Ok(self.items_of(rank))
    }

    /// Gives each rank `count` counters, all 0, which puts into the window can raise: see [`Part::put_notify`]. All
    /// ranks must call it, with the same count, and once for each window.
    ///
    /// Returns those of this rank. They are closed when the window is freed or dropped.
    pub fn counters(&self, count: u32) -> Result<Counters, Error> {
        let what = self.comm.what_all("counters");
        let _waits = self.comm.enter(what);
        self.told(what, self.window.open_counters(self.comm.runtime(), count))?;
        Ok(Counters { comm: self.comm.clone(), window: Arc::clone(&self.window) })
    }

    /// Locks the part of a rank, and waits until that is possible. A rank may lock the parts of several ranks, but
    /// each only once at a time.
    ///
    /// ```
    /// use ferrywire::LockKind::Exclusive;
    ///
    /// ferrywire::local(4, |world| {
    ///     // A bank account: nobody sees the sum before the withdrawal and spends it twice.
    ///     let account = world.window::<i64>(1).unwrap();
    ///     if world.rank() == 0 {
    ///         account.lock(0, Exclusive).unwrap().put(0, &[100]).unwrap();
    ///     }
    ///     world.barrier().unwrap();
    ///     let locked = account.lock(0, Exclusive).unwrap();
    ///     let sum = locked.get_one(0).unwrap();
    ///     let spent = if sum >= 30 { 30 } else { 0 };
    ///     locked.put(0, &[sum - spent]).unwrap();
    ///     locked.unlock().unwrap();
    ///     let mut total = spent;
    ///     world.allreduce(&mut total, ferrywire::Operation::Sum).unwrap();
    ///     assert_eq!(total, 90);
    /// });
    /// ```
    pub fn lock(&self, rank: impl Into<Rank>, kind: LockKind) -> Result<Locked<'_, T>, Error> {
        let rank = rank.into();
        let what = What { peer: With::To(rank), ..self.comm.what_all("lock") };
        let rank = self.comm.rank_of(what, rank.0)?;
        self.failure()?;
        let locking = match kind {
            LockKind::Exclusive => Locking::Exclusive,
            LockKind::Shared => Locking::Shared,
        };
        let _waits = self.comm.enter(what);
        self.told(what, self.window.lock(self.comm.runtime(), rank, locking))?;
        Ok(Locked { part: Part { window: self, rank }, is_open: true })
    }

    /// Locks the parts of all ranks, together with others that have shared locks.
    ///
    /// ```
    /// use ferrywire::Operation;
    ///
    /// ferrywire::local(3, |world| {
    ///     let mut histogram = world.window::<u64>(2).unwrap();
    ///     let all = histogram.lock_all().unwrap();
    ///     for value in 0..60 {
    ///         let (rank, place) = (value % 3, (value / 3 % 2) as usize);
    ///         all.part(rank).unwrap().accumulate(place, &[1], Operation::Sum).unwrap();
    ///     }
    ///     all.unlock().unwrap();
    ///     world.barrier().unwrap();
    ///     let mut counts = [0; 2];
    ///     let all = histogram.lock_all().unwrap();
    ///     all.part(world.rank()).unwrap().get(0, &mut counts).unwrap();
    ///     assert_eq!(counts, [30, 30]);
    /// });
    /// ```
    pub fn lock_all(&mut self) -> Result<LockedAll<'_, T>, Error> {
        self.failure()?;
        self.told(self.comm.what_all("lock_all"), self.window.lock_all(true))?;
        Ok(LockedAll { window: self, is_open: true })
    }

    /// Runs `body` in an epoch that all ranks enter together, with a barrier, and leave together, with another one.
    /// When it returns, the accesses of all ranks are complete. All ranks must call it.
    ///
    /// ```
    /// ferrywire::local(3, |world| {
    ///     let (rank, size) = (world.rank(), world.size());
    ///     let mut halo = world.window::<u32>(2).unwrap();
    ///     halo.fence(|epoch| {
    ///         epoch.part((rank + 1) % size)?.put(0, &[rank])?;
    ///         epoch.part((rank + size - 1) % size)?.put(1, &[rank])?;
    ///         epoch.fence()?;
    ///         let mut neighbours = [0; 2];
    ///         epoch.part(rank)?.get(0, &mut neighbours)?;
    ///         assert_eq!(neighbours, [(rank + size - 1) % size, (rank + 1) % size]);
    ///         Ok::<_, ferrywire::Error>(())
    ///     }).unwrap().unwrap();
    /// });
    /// ```
    pub fn fence<R>(&mut self, body: impl FnOnce(&FenceEpoch<'_, T>) -> R) -> Result<R, Error> {
        // The others wait for this rank even if one of its guards has failed.
        let earlier = self.failure();
        self.pass_fence(true)?;
        let result = body(&FenceEpoch { window: self });
        self.pass_fence(false)?;
        earlier.map(|()| result)
    }

    /// Frees the window and its memory, when all ranks have called it. All ranks must.
    pub fn free(mut self) -> Result<(), Error> {
        let what = self.comm.what_all("free");
        let earlier = self.failure();
        let _waits = self.comm.enter(what);
        let freed = self.comm.runtime().free_window(&self.window);
        self.is_freed = freed.is_ok();
        earlier.and(self.told(what, freed))
    }

    /// Completes all accesses of all ranks. `opens` says whether accesses may follow.
    fn pass_fence(&self, opens: bool) -> Result<(), Error> {
        let what = self.comm.what_all("fence");
        let _waits = self.comm.enter(what);
        self.told(what, self.window.fence(self.comm.runtime(), opens))
    }

    fn told(&self, what: What, result: Result<(), WindowError>) -> Result<(), Error> {
        result.map_err(|error| self.comm.window_error(what, error))
    }

    /// Keeps the error of a guard that was dropped for the next call.
    fn keep(&self, result: Result<(), Error>) {
        if let Err(error) = result {
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.get_or_insert(error);
        }
    }

    /// The error of a guard that was dropped, if there is one.
    fn failure(&self) -> Result<(), Error> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner).take();
        failed.map_or(Ok(()), Err)
    }

    fn check_rank(&self, name: &'static str, rank: Rank) -> Result<u32, Error> {
        let what = What { peer: With::To(rank), ..self.comm.what_all(name) };
        self.comm.rank_of(what, rank.0)
    }

    fn items_of(&self, rank: u32) -> usize {
        size(self.window.part_bytes(rank)) / plain::unit::<T>()
    }
}

impl<T: Plain> Drop for Window<T> {
    fn drop(&mut self) {
        if !self.is_freed {
            self.comm.runtime().leave_window(&self.window);
        }
    }
}

impl<T: Plain> std::fmt::Debug for Window<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, rank {} of {}", self.comm.name(), self.rank(), self.size())
    }
}

/// The part of one rank in a window, in an epoch that allows accesses to it.
///
/// Offsets count items from the beginning of the part. The words of an item, which have up to eight bytes, are accessed
/// one by one: a number is never seen half-written, whereas a struct or an array may be, unless the program excludes
/// conflicts by locks or fences.
///
/// `get`, `fetch_add`, `fetch_op` and `compare_exchange` wait for what they return, and see what this rank has put or
/// accumulated there before. A `put` or `accumulate` to another host may be under way when it returns. The end of the
/// epoch completes it, and so does a flush. A `put_notify` may be under way to any rank, and this rank sees it after
/// the next flush.
pub struct Part<'w, T: Plain> {
    window: &'w Window<T>,
    rank: u32,
}

impl<T: Plain> Part<'_, T> {
    /// The rank whose part it is.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The number of items.
    #[expect(clippy::len_without_is_empty, reason = "a part without items is of no use")]
    pub fn len(&self) -> usize {
        self.window.items_of(self.rank)
    }

    /// Writes items, from `offset` on.
    pub fn put(&self, offset: usize, items: &[T]) -> Result<(), Error> {
        let what = self.writing("put", items);
        let data = self.target(what, offset, items.len())?;
        let Window { comm, window, .. } = self.window;
        let put = window.put_words(comm.runtime(), data, Window::<T>::WIDTH, plain::bytes(items));
        self.window.told(what, put)
    }

    /// Writes items, from `offset` on, and raises a counter of the target by one when all of them are in place. The
    /// counter says nothing about other accesses, not even earlier ones of the same rank. The target need not call
    /// anything for that. See [`Counters`].
    pub fn put_notify(&self, offset: usize, items: &[T], counter: u32) -> Result<(), Error> {
        let what = self.writing("put_notify", items);
        let data = self.target(what, offset, items.len())?;
        let Window { comm, window, .. } = self.window;
        let bytes = plain::bytes(items);
        let put = window.put_notify(comm.runtime(), data, bytes, counter.into());
        self.window.told(what, put)
    }

    /// The same when a counter of this rank reaches a value. The request owns the items, and is complete when they are
    /// in place at the target. The end of the epoch does not wait for it: if others rely on a lock, wait for the
    /// request before unlocking.
    ///
    /// ```
    /// use ferrywire::LockKind::Shared;
    ///
    /// // Each rank passes a token on when it arrives, without calling anything then.
    /// ferrywire::local(3, |world| {
    ///     let (rank, size) = (world.rank(), world.size());
    ///     let window = world.window::<u32>(1).unwrap();
    ///     let counters = window.counters(1).unwrap();
    ///     let next = window.lock((rank + 1) % size, Shared).unwrap();
    ///     if rank == 0 {
    ///         next.put_notify(0, &[7], 0).unwrap();
    ///     } else {
    ///         let passed = next.put_when(counters.reaches(0, 1), 0, [7 + rank], 0).unwrap();
    ///         passed.wait().unwrap();
    ///     }
    ///     next.unlock().unwrap();
    ///     counters.wait(0, 1).unwrap();
    ///     let token = window.lock(rank, Shared).unwrap().get_one(0).unwrap();
    ///     assert_eq!(token, 7 + (rank + size - 1) % size);
    ///     world.barrier().unwrap();
    /// });
    /// ```
    pub fn put_when<B: OwnedBuffer<Item = T>>(
        &self,
        trigger: Trigger<'_>,
        offset: usize,
        data: B,
        counter: u32,
    ) -> Result<PutRequest<T>, Error> {
        let kept = Sending(data.into_vec());
        let what = self.writing("put_when", &kept.0);
        let data = self.target(what, offset, kept.0.len())?;
        let Window { comm, window, .. } = self.window;
        let trigger = trigger.armed(comm, what)?;
        let source = memory::lend(plain::bytes(&kept.0));
        // SAFETY: I1.
        let posted =
            unsafe { window.put_when(comm.runtime(), data, source, counter.into(), trigger) };
        let posted = posted.map_err(|error| comm.window_error(what, error))?;
        Ok(Request::new(comm, what, posted, kept))
    }

    /// Reads items, from `offset` on.
    pub fn get(&self, offset: usize, into: &mut [T]) -> Result<(), Error> {
        let what = self.what("get", With::From(Source::Rank(self.rank.into())), into);
        let data = self.target(what, offset, into.len())?;
        let Window { comm, window, .. } = self.window;
        let bytes = plain::bytes_mut(into);
        let got = window.get_words(comm.runtime(), data, Window::<T>::WIDTH, bytes);
        self.window.told(what, got)
    }

    /// Reads one item.
    pub fn get_one(&self, offset: usize) -> Result<T, Error> {
        let mut one = [plain::zero()];
        self.get(offset, &mut one)?;
        Ok(one[0])
    }

    /// Where items are in the part, if they are.
    fn target(&self, what: What, offset: usize, items: usize) -> Result<TargetData<'_>, Error> {
        let (rank, len) = (self.rank, self.len());
        if offset.checked_add(items).is_none_or(|end| end > len) {
            let call = self.window.comm.call(what);
            return Err(Error::OutsideWindow { call, offset, items, len });
        }
        let words = size_of::<T>() / Window::<T>::WIDTH.bytes();
        let displacement = i64::try_from(offset * size_of::<T>()).expect("it is in the window");
        let count = (items * words) as u64;
        Ok(TargetData { rank, displacement, count, datatype: &self.window.word })
    }

    fn writing(&self, name: &'static str, items: &[T]) -> What {
        self.what(name, With::To(self.rank.into()), items)
    }

    fn what(&self, name: &'static str, peer: With, items: &[T]) -> What {
        let bytes = Some(size_of_val(items) as u64);
        What { name, bytes, peer, tag: None, item: Some(T::type_name()) }
    }
}

impl<T: Number> Part<'_, T> {
    /// Combines items into those from `offset` on, each by an atomic operation.
    pub fn accumulate(
        &self,
        offset: usize,
        items: &[T],
        operation: Operation,
    ) -> Result<(), Error> {
        self.combine(self.writing("accumulate", items), offset, items, operation, None)
    }

    /// Combines an item into the one at `offset` by an atomic operation, and returns what that was before.
    pub fn fetch_op(&self, offset: usize, item: T, operation: Operation) -> Result<T, Error> {
        let what = self.writing("fetch_op", &[item]);
        self.fetch(what, offset, item, operation)
    }

    /// Adds to the item at `offset` by an atomic operation, and returns what it was before. Integers wrap around.
    pub fn fetch_add(&self, offset: usize, item: T) -> Result<T, Error> {
        let what = self.writing("fetch_add", &[item]);
        self.fetch(what, offset, item, Operation::Sum)
    }

    /// Stores `new` at `offset` if `expected` is there, by an atomic operation. Returns what was there before: `Ok` if
    /// it was `expected`, and `Err` otherwise. Items are compared bit by bit.
    ///
    /// ```
    /// use ferrywire::LockKind::Shared;
    ///
    /// let winners = ferrywire::local(4, |world| {
    ///     let leader = world.window::<u32>(1).unwrap();
    ///     let part = leader.lock(0, Shared).unwrap();
    ///     part.compare_exchange(0, 0, world.rank() + 1).unwrap().is_ok()
    /// });
    /// assert_eq!(winners.iter().filter(|won| **won).count(), 1);
    /// ```
    pub fn compare_exchange(
        &self,
        offset: usize,
        expected: T,
        new: T,
    ) -> Result<Result<T, T>, Error> {
        let what = self.writing("compare_exchange", &[new]);
        let data = self.target(what, offset, 1)?;
        let (expected, new) = ([expected], [new]);
        let (expected, new) = (plain::bytes(&expected), plain::bytes(&new));
        let mut before = [plain::zero::<T>()];
        let Window { comm, window, .. } = self.window;
        let bytes = plain::bytes_mut(&mut before);
        let swapped = window.compare_swap(comm.runtime(), data, expected, new, bytes);
        self.window.told(what, swapped)?;
        let is_expected = plain::bytes(&before) == expected;
        Ok(if is_expected { Ok(before[0]) } else { Err(before[0]) })
    }

    fn fetch(&self, what: What, offset: usize, item: T, operation: Operation) -> Result<T, Error> {
        let mut before = [plain::zero()];
        self.combine(what, offset, &[item], operation, Some(&mut before))?;
        Ok(before[0])
    }

    fn combine(
        &self,
        what: What,
        offset: usize,
        items: &[T],
        operation: Operation,
        before: Option<&mut [T]>,
    ) -> Result<(), Error> {
        let Window { comm, window, .. } = self.window;
        let Some(operator) = plain::operator_of::<T>(operation) else {
            return Err(Error::Unsuitable { call: comm.call(what), operation, number: T::SORT });
        };
        let data = self.target(what, offset, items.len())?;
        let before = before.map(|items| plain::bytes_mut(items));
        let source = plain::bytes(items);
        let combined = window.accumulate(comm.runtime(), data, operator, source, before);
        self.window.told(what, combined)
    }
}

/// The part of a rank, locked. Dropping it completes all accesses and unlocks the part; if that fails, the next call of
/// the window returns the error. It dereferences to [`Part`].
#[must_use = "the part is unlocked when this is dropped"]
pub struct Locked<'w, T: Plain> {
    part: Part<'w, T>,
    is_open: bool,
}

impl<'w, T: Plain> Deref for Locked<'w, T> {
    type Target = Part<'w, T>;

    fn deref(&self) -> &Part<'w, T> {
        &self.part
    }
}

impl<T: Plain> Locked<'_, T> {
    /// Waits until all accesses so far are complete at the target.
    pub fn flush(&self) -> Result<(), Error> {
        let Part { window, rank } = self.part;
        let what = self.part.writing("flush", &[]);
        let _waits = window.comm.enter(what);
        window.told(what, window.window.flush(window.comm.runtime(), Some(rank)))
    }

    /// Completes all accesses and unlocks the part.
    pub fn unlock(mut self) -> Result<(), Error> {
        self.close()
    }

    fn close(&mut self) -> Result<(), Error> {
        if !std::mem::replace(&mut self.is_open, false) {
            return Ok(());
        }
        let Part { window, rank } = self.part;
        let what = self.part.writing("unlock", &[]);
        let _waits = window.comm.enter(what);
        window.told(what, window.window.unlock(window.comm.runtime(), rank))
    }
}

impl<T: Plain> Drop for Locked<'_, T> {
    fn drop(&mut self) {
        let closed = self.close();
        self.part.window.keep(closed);
    }
}

/// The parts of all ranks, locked. Dropping it completes all accesses and unlocks them; if that fails, the next call of
/// the window returns the error.
#[must_use = "the parts are unlocked when this is dropped"]
pub struct LockedAll<'w, T: Plain> {
    window: &'w Window<T>,
    is_open: bool,
}

impl<T: Plain> LockedAll<'_, T> {
    /// The part of a rank.
    pub fn part(&self, rank: impl Into<Rank>) -> Result<Part<'_, T>, Error> {
        let rank = self.window.check_rank("part", rank.into())?;
        Ok(Part { window: self.window, rank })
    }

    /// Waits until all accesses so far are complete at their targets.
    pub fn flush(&self) -> Result<(), Error> {
        let Window { comm, window, .. } = self.window;
        let what = comm.what_all("flush");
        let _waits = comm.enter(what);
        self.window.told(what, window.flush(comm.runtime(), None))
    }

    /// Completes all accesses and unlocks the parts.
    pub fn unlock(mut self) -> Result<(), Error> {
        self.close()
    }

    fn close(&mut self) -> Result<(), Error> {
        if !std::mem::replace(&mut self.is_open, false) {
            return Ok(());
        }
        let Window { comm, window, .. } = self.window;
        let what = comm.what_all("unlock_all");
        let _waits = comm.enter(what);
        self.window.told(what, window.unlock_all(comm.runtime()))
    }
}

impl<T: Plain> Drop for LockedAll<'_, T> {
    fn drop(&mut self) {
        let closed = self.close();
        self.window.keep(closed);
    }
}

/// An epoch that all ranks are in: see [`Window::fence`].
pub struct FenceEpoch<'w, T: Plain> {
    window: &'w Window<T>,
}

impl<T: Plain> FenceEpoch<'_, T> {
    /// The part of a rank.
    pub fn part(&self, rank: impl Into<Rank>) -> Result<Part<'_, T>, Error> {
        let rank = self.window.check_rank("part", rank.into())?;
        Ok(Part { window: self.window, rank })
    }

    /// Waits until all ranks have called it, and their accesses so far are complete. All ranks must call it.
    pub fn fence(&self) -> Result<(), Error> {
        self.window.pass_fence(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_dropped_guard_is_returned_by_the_next_call() {
        crate::local(2, |world| {
            let mut window = world.window::<u8>(1).unwrap();
            let error = |name| Error::Cancelled { call: world.call(world.what_all(name)) };
            // Of several errors, the first is kept.
            window.keep(Err(error("first")));
            window.keep(Err(error("second")));
            assert_eq!(window.lock(0, LockKind::Shared).err(), Some(error("first")));
            assert!(window.lock(0, LockKind::Shared).is_ok());
            window.keep(Err(error("third")));
            assert_eq!(window.lock_all().err(), Some(error("third")));
            // A rank that has an error to return takes part in what all ranks do.
            if world.rank() == 0 {
                window.keep(Err(error("fourth")));
            }
            let fenced = window.fence(|epoch| epoch.fence().unwrap());
            assert_eq!(fenced.is_err(), world.rank() == 0);
            window.keep(Err(error("fifth")));
            assert_eq!(window.free(), Err(error("fifth")));
        });
    }
}
