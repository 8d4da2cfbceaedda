//! Collectives: operations that all ranks of a communicator call.
//!
//! Each is a schedule that the NIC runs, built in one place for its blocking and its nonblocking form. A communicator
//! can have 32,767 of them open at a time, the number of instances that tell them apart.
//!
//! Invariants, cited below by number.
//!   I1. A blocking call borrows its buffers until it returns. It returns when the schedule is complete, or
//!       when the schedule has released its caller: then it needs only its work space, which the driver keeps.
//!   I2. A request keeps the buffers that its schedule was lent, as `request.rs` says.

use ferrywire_host::nic::{Outcome, Span};
use ferrywire_host::{Keep, memory};
use ferrywire_mpi::collective::ReduceOp;
use ferrywire_mpi::operation::Operation;
use ferrywire_runtime::{Prepared, Rank, Root, With};

use crate::comm::{Comm, What, traced};
use crate::error::Error;
use crate::plain::{self, Buffer, Number, Numbers, Plain};
use crate::request::{End, Kept, Request, sealed};

/// A nonblocking collective whose result is an `R`.
pub type CollectiveRequest<R> = Request<Collecting<R>>;

/// The buffers of a nonblocking collective.
pub struct Collecting<R> {
    result: R,
    #[expect(dead_code, reason = "it is read by others, until the schedule is over")]
    source: Option<Keep>,
    work: Box<[u8]>,
}

impl<R> sealed::Sealed for Collecting<R> {}

impl<R: Send + Unpin + 'static> Kept for Collecting<R> {
    type Output = R;
    const REVOCABLE: bool = false;

    fn finish(self, end: End<'_>) -> Result<R, Error> {
        match end.outcome {
            Outcome::Done | Outcome::Released => Ok(self.result),
            other => Err(end.comm.error(end.what, other)),
        }
    }

    fn still_needed(&mut self) -> Option<Keep> {
        Some(Box::new(std::mem::take(&mut self.work)))
    }
}

impl Comm {
    /// Runs a prepared collective, and waits until it is complete or releases its caller.
    ///
    /// # Safety
    /// The buffers that it was made of are borrowed during the call.
    pub(crate) unsafe fn run(&self, what: What, prepared: Prepared) -> Result<(), Error> {
        let (instance, wrong) = self.begin_collective(what);
        if let Some(error) = wrong {
            return Err(error);
        }
        let _waits = self.enter(what);
        // SAFETY: I1, and the caller vouches for it.
        let done = unsafe { self.runtime().perform(instance, prepared) };
        done.map_err(|failure| self.error_of(what, failure))
    }

    /// Starts a prepared collective.
    ///
    /// # Safety
    /// The buffers that it was made of are on the heap, in `result` and `source`.
    unsafe fn begin<R: Send + Unpin + 'static>(
        &self,
        what: What,
        prepared: Prepared,
        result: R,
        source: Option<Keep>,
    ) -> CollectiveRequest<R> {
        let (instance, wrong) = self.begin_collective(what);
        // A request could not report the error before it is waited for.
        if let Some(error) = wrong {
            panic!("{error}");
        }
        let _call = traced(what.name);
        // SAFETY: I2, and the caller vouches for it.
        let posted = unsafe { self.runtime().start(instance, &prepared) };
        Request::new(self, what, posted, Collecting { result, source, work: prepared.work })
    }

    fn reduce_op<B: Numbers + ?Sized>(
        &self,
        what: What,
        operation: Operation,
    ) -> Result<ReduceOp, Error> {
        let number = B::SORT;
        match plain::operator_of::<B>(operation) {
            Some(operator) => Ok(ReduceOp {
                operator,
                element_bytes: number.bytes(),
                commutative: operation.is_commutative(),
            }),
            None => {
                Err(self.refused(Error::Unsuitable { call: self.call(what), operation, number }))
            }
        }
    }

    /// The number of items of all ranks together.
    fn times_size(&self, items: usize) -> usize {
        items * self.size() as usize
    }

    pub(crate) fn check_items(
        &self,
        what: What,
        buffer: &'static str,
        items: usize,
        wanted: usize,
    ) -> Result<(), Error> {
        match items == wanted {
            true => Ok(()),
            false => {
                let call = self.call(what);
                Err(self.refused(Error::WrongLength { call, buffer, items, wanted }))
            }
        }
    }
}

impl Comm {
    /// Waits until all ranks have called it.
    pub fn barrier(&self) -> Result<(), Error> {
        let prepared = self.runtime().barrier();
        // SAFETY: no buffers are lent.
        unsafe { self.run(self.what_all("barrier"), prepared) }
    }

    /// Like [`barrier`](Comm::barrier), as a future.
    pub fn ibarrier(&self) -> CollectiveRequest<()> {
        let prepared = self.runtime().barrier();
        // SAFETY: no buffers are lent.
        unsafe { self.begin(self.what_all("ibarrier"), prepared, (), None) }
    }

    /// Copies the root's data to all ranks. All ranks pass buffers of the same length.
    ///
    /// ```
    /// ferrywire::local(3, |world| {
    ///     let mut data = if world.rank() == 1 { [1, 2, 3] } else { [0; 3] };
    ///     world.broadcast(&mut data, 1).unwrap();
    ///     assert_eq!(data, [1, 2, 3]);
    /// });
    /// ```
    pub fn broadcast<B: Buffer + ?Sized>(
        &self,
        data: &mut B,
        root: impl Into<Rank>,
    ) -> Result<(), Error> {
        let bytes = memory::lend_mut(plain::bytes_mut(data.items_mut()));
        let what = what::<B::Item>("broadcast", bytes, root.into());
        let root = self.root_of(what)?;
        let prepared = self.runtime().broadcast(Root::Rank(root), bytes);
        // SAFETY: I1.
        unsafe { self.run(what, prepared) }
    }

    /// Like [`broadcast`](Comm::broadcast), as a future that returns the data.
    pub fn ibroadcast<T: Plain>(
        &self,
        mut data: Vec<T>,
        root: impl Into<Rank>,
    ) -> Result<CollectiveRequest<Vec<T>>, Error> {
        let bytes = memory::lend_mut(plain::bytes_mut(&mut data));
        let what = what::<T>("ibroadcast", bytes, root.into());
        let root = self.root_of(what)?;
        let prepared = self.runtime().broadcast(Root::Rank(root), bytes);
        // SAFETY: I2.
        Ok(unsafe { self.begin(what, prepared, data, None) })
    }

    /// Combines the numbers of all ranks, element by element. Every rank gets the result, the same to the last bit.
    ///
    /// ```
    /// use ferrywire::Operation;
    /// ferrywire::local(4, |world| {
    ///     let mut pair = [1.0, f64::from(world.rank())];
    ///     world.allreduce(&mut pair, Operation::Sum).unwrap();
    ///     assert_eq!(pair, [4.0, 6.0]);
    /// });
    /// ```
    pub fn allreduce<B: Numbers + ?Sized>(
        &self,
        data: &mut B,
        operation: Operation,
    ) -> Result<(), Error> {
        let bytes = memory::lend_mut(plain::bytes_mut(data.items_mut()));
        let what = what_of_all::<B::Item>("allreduce", bytes);
        let reduce_op = self.reduce_op::<B>(what, operation)?;
        let prepared = self.runtime().allreduce(reduce_op, bytes, bytes);
        // SAFETY: I1.
        unsafe { self.run(what, prepared) }
    }

    /// Like [`allreduce`](Comm::allreduce), as a future that returns the result.
    pub fn iallreduce<T: Number>(
        &self,
        mut data: Vec<T>,
        operation: Operation,
    ) -> Result<CollectiveRequest<Vec<T>>, Error> {
        let bytes = memory::lend_mut(plain::bytes_mut(&mut data));
        let what = what_of_all::<T>("iallreduce", bytes);
        let reduce_op = self.reduce_op::<T>(what, operation)?;
        let prepared = self.runtime().allreduce(reduce_op, bytes, bytes);
        // SAFETY: I2.
        Ok(unsafe { self.begin(what, prepared, data, None) })
    }

    /// Combines the numbers of all ranks, element by element. The root gets the result in its buffer; the buffers of
    /// the other ranks stay unchanged.
    ///
    /// Only the root waits. On the other ranks the call returns as soon as their numbers are copied; the numbers of
    /// late ranks are combined and forwarded while the caller computes.
    pub fn reduce<B: Numbers + ?Sized>(
        &self,
        data: &mut B,
        operation: Operation,
        root: impl Into<Rank>,
    ) -> Result<(), Error> {
        let bytes = memory::lend_mut(plain::bytes_mut(data.items_mut()));
        let what = what::<B::Item>("reduce", bytes, root.into());
        let root = self.root_of(what)?;
        let reduce_op = self.reduce_op::<B>(what, operation)?;
        let prepared = self.runtime().reduce(Root::Rank(root), reduce_op, bytes);
        // SAFETY: I1.
        unsafe { self.run(what, prepared) }
    }

    /// Like [`reduce`](Comm::reduce), as a future that returns the result at the root, and the unchanged data
    /// elsewhere.
    pub fn ireduce<T: Number>(
        &self,
        mut data: Vec<T>,
        operation: Operation,
        root: impl Into<Rank>,
    ) -> Result<CollectiveRequest<Vec<T>>, Error> {
        let bytes = memory::lend_mut(plain::bytes_mut(&mut data));
        let what = what::<T>("ireduce", bytes, root.into());
        let root = self.root_of(what)?;
        let reduce_op = self.reduce_op::<T>(what, operation)?;
        let prepared = self.runtime().reduce(Root::Rank(root), reduce_op, bytes);
        // SAFETY: I2.
        Ok(unsafe { self.begin(what, prepared, data, None) })
    }

    /// Combines, element by element, the numbers of ranks 0 to the caller's own.
    ///
    /// ```
    /// use ferrywire::Operation;
    /// ferrywire::local(4, |world| {
    ///     let mut sum = world.rank() + 1;
    ///     world.scan(&mut sum, Operation::Sum).unwrap();
    ///     assert_eq!(sum, [1, 3, 6, 10][world.rank() as usize]);
    /// });
    /// ```
    pub fn scan<B: Numbers + ?Sized>(
        &self,
        data: &mut B,
        operation: Operation,
    ) -> Result<(), Error> {
        let bytes = memory::lend_mut(plain::bytes_mut(data.items_mut()));
        let what = what_of_all::<B::Item>("scan", bytes);
        let reduce_op = self.reduce_op::<B>(what, operation)?;
        let prepared = self.runtime().scan(reduce_op, bytes);
        // SAFETY: I1.
        unsafe { self.run(what, prepared) }
    }

    /// Like [`scan`](Comm::scan), as a future that returns the result.
    pub fn iscan<T: Number>(
        &self,
        mut data: Vec<T>,
        operation: Operation,
    ) -> Result<CollectiveRequest<Vec<T>>, Error> {
        let bytes = memory::lend_mut(plain::bytes_mut(&mut data));
        let what = what_of_all::<T>("iscan", bytes);
        let reduce_op = self.reduce_op::<T>(what, operation)?;
        let prepared = self.runtime().scan(reduce_op, bytes);
        // SAFETY: I2.
        Ok(unsafe { self.begin(what, prepared, data, None) })
    }

    /// Combines the numbers of the ranks below the caller's own, element by element. Rank 0 keeps its numbers.
    pub fn exscan<B: Numbers + ?Sized>(
        &self,
        data: &mut B,
        operation: Operation,
    ) -> Result<(), Error> {
        let bytes = memory::lend_mut(plain::bytes_mut(data.items_mut()));
        let what = what_of_all::<B::Item>("exscan", bytes);
        let reduce_op = self.reduce_op::<B>(what, operation)?;
        let prepared = self.runtime().exscan(reduce_op, bytes);
        // SAFETY: I1.
        unsafe { self.run(what, prepared) }
    }

    /// Gathers the items of all ranks at the root, in rank order. All ranks pass the same number of items; only the
    /// root gets a result.
    ///
    /// ```
    /// ferrywire::local(3, |world| {
    ///     let all = world.gather(&world.rank(), 0).unwrap();
    ///     assert_eq!(all, (world.rank() == 0).then(|| vec![0, 1, 2]));
    /// });
    /// ```
    pub fn gather<B: Buffer + ?Sized>(
        &self,
        mine: &B,
        root: impl Into<Rank>,
    ) -> Result<Option<Vec<B::Item>>, Error> {
        let items = mine.items().len();
        let mine = memory::lend(plain::bytes(mine.items()));
        let what = what::<B::Item>("gather", mine, root.into());
        let root = self.root_of(what)?;
        let mut all = (self.rank() == root).then(|| plain::zeroed(self.times_size(items)));
        let prepared = self.runtime().gather(Root::Rank(root), mine.len, mine, lend_some(&mut all));
        // SAFETY: I1.
        unsafe { self.run(what, prepared) }?;
        Ok(all)
    }

    /// Like [`gather`](Comm::gather), as a future.
    pub fn igather<T: Plain>(
        &self,
        mine: Vec<T>,
        root: impl Into<Rank>,
    ) -> Result<CollectiveRequest<Option<Vec<T>>>, Error> {
        let span = memory::lend(plain::bytes(&mine));
        let what = what::<T>("igather", span, root.into());
        let root = self.root_of(what)?;
        let mut all = (self.rank() == root).then(|| plain::zeroed(self.times_size(mine.len())));
        let prepared = self.runtime().gather(Root::Rank(root), span.len, span, lend_some(&mut all));
        // SAFETY: I2.
        Ok(unsafe { self.begin(what, prepared, all, Some(Box::new(mine))) })
    }

    /// Distributes the root's items over the ranks, in rank order. Each rank gets as many as `mine` holds; `all` has
    /// that many for each rank, and only the root passes it.
    ///
    /// ```
    /// ferrywire::local(3, |world| {
    ///     let all = (world.rank() == 0).then_some([1, 2, 3, 4, 5, 6]);
    ///     let mut mine = [0; 2];
    ///     world.scatter(all.as_ref().map(|all| &all[..]), &mut mine, 0).unwrap();
    ///     assert_eq!(mine, [[1, 2], [3, 4], [5, 6]][world.rank() as usize]);
    /// });
    /// ```
    pub fn scatter<T: Plain>(
        &self,
        all: Option<&[T]>,
        mine: &mut [T],
        root: impl Into<Rank>,
    ) -> Result<(), Error> {
        let items = mine.len();
        let mine = memory::lend_mut(plain::bytes_mut(mine));
        let what = what::<T>("scatter", mine, root.into());
        let root = self.root_of(what)?;
        let all = if self.rank() == root { all.unwrap_or(&[]) } else { &[] };
        if self.rank() == root {
            self.check_items(what, "the buffer of the root", all.len(), self.times_size(items))?;
        }
        let prepared = self.runtime().scatter(
            Root::Rank(root),
            mine.len,
            memory::lend(plain::bytes(all)),
            mine,
        );
        // SAFETY: I1.
        unsafe { self.run(what, prepared) }
    }

    /// Like [`scatter`](Comm::scatter), as a future that returns this rank's `items` items.
    pub fn iscatter<T: Plain>(
        &self,
        all: Option<Vec<T>>,
        items: usize,
        root: impl Into<Rank>,
    ) -> Result<CollectiveRequest<Vec<T>>, Error> {
        let mut mine = plain::zeroed::<T>(items);
        let span = memory::lend_mut(plain::bytes_mut(&mut mine));
        let what = what::<T>("iscatter", span, root.into());
        let root = self.root_of(what)?;
        let all = all.filter(|_| self.rank() == root).unwrap_or_default();
        if self.rank() == root {
            self.check_items(what, "the buffer of the root", all.len(), self.times_size(items))?;
        }
        let prepared = self.runtime().scatter(
            Root::Rank(root),
            span.len,
            memory::lend(plain::bytes(&all)),
            span,
        );
        // SAFETY: I2.
        Ok(unsafe { self.begin(what, prepared, mine, Some(Box::new(all))) })
    }

    /// Gathers the items of all ranks at every rank, in rank order. All ranks pass the same number of items.
    ///
    /// ```
    /// ferrywire::local(3, |world| {
    ///     let squares = world.allgather(&(world.rank() * world.rank())).unwrap();
    ///     assert_eq!(squares, [0, 1, 4]);
    /// });
    /// ```
    pub fn allgather<B: Buffer + ?Sized>(&self, mine: &B) -> Result<Vec<B::Item>, Error> {
        let mut all = plain::zeroed(self.times_size(mine.items().len()));
        let mine = memory::lend(plain::bytes(mine.items()));
        let what = what_of_all::<B::Item>("allgather", mine);
        let prepared = self.runtime().allgather(mine, memory::lend_mut(plain::bytes_mut(&mut all)));
        // SAFETY: I1.
        unsafe { self.run(what, prepared) }?;
        Ok(all)
    }

    /// Like [`allgather`](Comm::allgather), as a future.
    pub fn iallgather<T: Plain>(&self, mine: Vec<T>) -> CollectiveRequest<Vec<T>> {
        let mut all = plain::zeroed::<T>(self.times_size(mine.len()));
        let span = memory::lend(plain::bytes(&mine));
        let what = what_of_all::<T>("iallgather", span);
        let prepared = self.runtime().allgather(span, memory::lend_mut(plain::bytes_mut(&mut all)));
        // SAFETY: I2.
        unsafe { self.begin(what, prepared, all, Some(Box::new(mine))) }
    }

    /// Sends each rank its block of `ours`, and returns the blocks that all ranks sent to this one, in rank order.
    /// All blocks have the same length.
    ///
    /// ```
    /// ferrywire::local(3, |world| {
    ///     let rank = world.rank();
    ///     let got = world.alltoall(&[10 * rank, 10 * rank + 1, 10 * rank + 2]).unwrap();
    ///     assert_eq!(got, [rank, 10 + rank, 20 + rank]);
    /// });
    /// ```
    pub fn alltoall<T: Plain>(&self, ours: &[T]) -> Result<Vec<T>, Error> {
        let source = memory::lend(plain::bytes(ours));
        let what = what_of_all::<T>("alltoall", source);
        self.check_blocks(what, "the send buffer", ours.len())?;
        let mut got = plain::zeroed::<T>(ours.len());
        let into = memory::lend_mut(plain::bytes_mut(&mut got));
        let prepared = self.runtime().alltoall(source, into);
        // SAFETY: I1.
        unsafe { self.run(what, prepared) }?;
        Ok(got)
    }

    /// Like [`alltoall`](Comm::alltoall), as a future.
    pub fn ialltoall<T: Plain>(&self, ours: Vec<T>) -> Result<CollectiveRequest<Vec<T>>, Error> {
        let source = memory::lend(plain::bytes(&ours));
        let what = what_of_all::<T>("ialltoall", source);
        self.check_blocks(what, "the send buffer", ours.len())?;
        let mut got = plain::zeroed::<T>(ours.len());
        let into = memory::lend_mut(plain::bytes_mut(&mut got));
        let prepared = self.runtime().alltoall(source, into);
        // SAFETY: I2.
        Ok(unsafe { self.begin(what, prepared, got, Some(Box::new(ours))) })
    }

    /// Combines the numbers of all ranks, element by element, and returns the block of this rank. `ours` has a block
    /// for each rank, all of the same length.
    ///
    /// ```
    /// use ferrywire::Operation;
    /// ferrywire::local(3, |world| {
    ///     let mine = world.reduce_scatter_block(&[1, 10, 100], Operation::Sum).unwrap();
    ///     assert_eq!(mine, [[3], [30], [300]][world.rank() as usize]);
    /// });
    /// ```
    pub fn reduce_scatter_block<T: Number>(
        &self,
        ours: &[T],
        operation: Operation,
    ) -> Result<Vec<T>, Error> {
        let all = memory::lend(plain::bytes(ours));
        let what = what_of_all::<T>("reduce_scatter_block", all);
        self.check_blocks(what, "the buffer", ours.len())?;
        let reduce_op = self.reduce_op::<T>(what, operation)?;
        let mut mine = plain::zeroed::<T>(ours.len() / self.size() as usize);
        let into = memory::lend_mut(plain::bytes_mut(&mut mine));
        let prepared = self.runtime().reduce_scatter_block(reduce_op, all, into);
        // SAFETY: I1.
        unsafe { self.run(what, prepared) }?;
        Ok(mine)
    }

    /// Like [`reduce_scatter_block`](Comm::reduce_scatter_block), with blocks that differ in length: `counts` has the
    /// number of items for each rank, and is the same on all ranks.
    ///
    /// ```
    /// use ferrywire::Operation;
    /// ferrywire::local(2, |world| {
    ///     let mine = world.reduce_scatter(&[1, 2, 3], &[1, 2], Operation::Product).unwrap();
    ///     assert_eq!(mine, [&[1][..], &[4, 9]][world.rank() as usize]);
    /// });
    /// ```
    pub fn reduce_scatter<T: Number>(
        &self,
        ours: &[T],
        counts: &[usize],
        operation: Operation,
    ) -> Result<Vec<T>, Error> {
        let all = memory::lend(plain::bytes(ours));
        let what = what_of_all::<T>("reduce_scatter", all);
        self.check_items(what, "the list of counts", counts.len(), self.size() as usize)?;
        let items = counts.iter().fold(0_usize, |sum, &count| sum.saturating_add(count));
        self.check_items(what, "the buffer", ours.len(), items)?;
        let reduce_op = self.reduce_op::<T>(what, operation)?;
        let lens: Vec<u64> = counts.iter().map(|count| (count * size_of::<T>()) as u64).collect();
        let mut mine = plain::zeroed::<T>(counts[self.rank() as usize]);
        let into = memory::lend_mut(plain::bytes_mut(&mut mine));
        let prepared = self.runtime().reduce_scatter(reduce_op, all, &lens, into);
        // SAFETY: I1.
        unsafe { self.run(what, prepared) }?;
        Ok(mine)
    }

    /// Checks that items can be divided evenly among the ranks.
    fn check_blocks(&self, what: What, buffer: &'static str, items: usize) -> Result<(), Error> {
        self.check_items(what, buffer, items, items.next_multiple_of(self.size() as usize))
    }

    pub(crate) fn root_of(&self, what: What) -> Result<u32, Error> {
        let With::Root(root) = what.peer else { unreachable!("it has a root") };
        self.rank_of(what, root.0).map_err(|error| self.refused(error))
    }

    /// Counts a collective that fails on this rank before it starts: the other ranks count it too, and later
    /// collectives must have the same numbers on all ranks.
    pub(crate) fn refused(&self, error: Error) -> Error {
        self.leave_out();
        error
    }
}

pub(crate) fn what_of_all<T: Plain>(name: &'static str, bytes: Span) -> What {
    let (bytes, item) = (Some(bytes.len), Some(T::type_name()));
    What { name, bytes, peer: With::All, tag: None, item }
}

pub(crate) fn what<T: Plain>(name: &'static str, bytes: Span, root: Rank) -> What {
    let (bytes, item) = (Some(bytes.len), Some(T::type_name()));
    What { name, bytes, peer: With::Root(root), tag: None, item }
}

pub(crate) fn lend_some<T: Plain>(items: &mut Option<Vec<T>>) -> Span {
    items.as_mut().map_or(Span::EMPTY, |items| memory::lend_mut(plain::bytes_mut(items)))
}
