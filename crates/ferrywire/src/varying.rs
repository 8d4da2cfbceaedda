//! Collectives whose blocks differ in length.
//!
//! Each is two collectives: ranks first exchange the lengths of the blocks, so callers need not know them, and then the
//! blocks.
//!
//! Invariants, cited below by number.
//!   I1. A blocking call borrows its buffers until it returns, and returns when the schedule is complete.

use ferrywire_host::memory;
use ferrywire_host::nic::Span;
use ferrywire_runtime::{Rank, Root};

use crate::collective::{lend_some, what, what_of_all};
use crate::comm::{Comm, What, size};
use crate::error::Error;
use crate::plain::{self, Buffer, Plain};

impl Comm {
    /// Gathers the items of all ranks at the root, a block from each rank. Blocks may differ in length; only the root
    /// gets a result.
    ///
    /// ```
    /// ferrywire::local(3, |world| {
    ///     let mine = vec![7; world.rank() as usize];
    ///     let all = world.gatherv(&mine, 0).unwrap();
    ///     assert_eq!(all, (world.rank() == 0).then(|| vec![vec![], vec![7], vec![7, 7]]));
    /// });
    /// ```
    pub fn gatherv<B: Buffer + ?Sized>(
        &self,
        mine: &B,
        root: impl Into<Rank>,
    ) -> Result<Option<Vec<Vec<B::Item>>>, Error> {
        let items = mine.items();
        let mine = memory::lend(plain::bytes(items));
        let what = what::<B::Item>("gatherv", mine, root.into());
        let root = self.root_of(what).inspect_err(|_| self.leave_out())?;
        let is_root = self.rank() == root;
        let len = [items.len() as u64];
        let mut lens = is_root.then(|| plain::zeroed::<u64>(self.size() as usize));
        let source = memory::lend(plain::bytes(&len));
        let prepared =
            self.runtime().gather(Root::Rank(root), source.len, source, lend_some(&mut lens));
        // SAFETY: I1.
        unsafe { self.run(what, prepared) }?;
        let mut blocks = zeroed_blocks(&lens.unwrap_or_default());
        let prepared =
            self.runtime().gather_blocks(Root::Rank(root), mine, &lend_blocks_mut(&mut blocks));
        // SAFETY: I1.
        unsafe { self.run(what, prepared) }?;
        Ok(is_root.then_some(blocks))
    }

    /// Distributes the root's blocks over the ranks, and returns that of this rank. Blocks may differ in length. `all`
    /// has one for each rank, and only the root passes it.
    ///
    /// ```
    /// ferrywire::local(3, |world| {
    ///     let all = (world.rank() == 1).then(|| vec![vec![1, 2], vec![], vec![3]]);
    ///     let mine = world.scatterv(all.as_deref(), 1).unwrap();
    ///     assert_eq!(mine, [&[1, 2][..], &[], &[3]][world.rank() as usize]);
    /// });
    /// ```
    pub fn scatterv<T: Plain, B: AsRef<[T]>>(
        &self,
        all: Option<&[B]>,
        root: impl Into<Rank>,
    ) -> Result<Vec<T>, Error> {
        let what = What { bytes: None, ..what::<T>("scatterv", Span::EMPTY, root.into()) };
        let root = self.root_of(what).inspect_err(|_| self.leave_out())?;
        let all = all.filter(|_| self.rank() == root).unwrap_or(&[]);
        if self.rank() == root {
            self.check_list(what, "the list of the root", all.len())?;
        }
        let (lens, mut len) = (lens_of(all), [0]);
        let (source, into) =
            (memory::lend(plain::bytes(&lens)), memory::lend_mut(plain::bytes_mut(&mut len)));
        let prepared = self.runtime().scatter(Root::Rank(root), into.len, source, into);
        // SAFETY: I1.
        unsafe { self.run(what, prepared) }?;
        let mut mine = plain::zeroed(size(len[0]));
        let into = memory::lend_mut(plain::bytes_mut(&mut mine));
        let prepared = self.runtime().scatter_blocks(Root::Rank(root), &lend_blocks(all), into);
        // SAFETY: I1.
        unsafe { self.run(what, prepared) }?;
        Ok(mine)
    }

    /// Gathers the items of all ranks at every rank, a block from each. Blocks may differ in length.
    ///
    /// ```
    /// ferrywire::local(3, |world| {
    ///     let all = world.allgatherv(&vec![1u8; world.rank() as usize]).unwrap();
    ///     assert_eq!(all.concat(), [1, 1, 1]);
    ///     assert_eq!(all[2].len(), 2);
    /// });
    /// ```
    pub fn allgatherv<B: Buffer + ?Sized>(&self, mine: &B) -> Result<Vec<Vec<B::Item>>, Error> {
        let items = mine.items();
        let mine = memory::lend(plain::bytes(items));
        let what = what_of_all::<B::Item>("allgatherv", mine);
        let len = [items.len() as u64];
        let mut lens = plain::zeroed::<u64>(self.size() as usize);
        let into = memory::lend_mut(plain::bytes_mut(&mut lens));
        let prepared = self.runtime().allgather(memory::lend(plain::bytes(&len)), into);
        // SAFETY: I1.
        unsafe { self.run(what, prepared) }?;
        let mut blocks = zeroed_blocks(&lens);
        let prepared = self.runtime().allgather_blocks(mine, &lend_blocks_mut(&mut blocks));
        // SAFETY: I1.
        unsafe { self.run(what, prepared) }?;
        Ok(blocks)
    }

    /// Sends each rank its block of `ours`, and returns the blocks that all ranks sent to this one, in rank order.
    /// Blocks may differ in length.
    ///
    /// ```
    /// ferrywire::local(3, |world| {
    ///     // Each rank sends as many items as the rank of the receiver.
    ///     let ours: Vec<Vec<u32>> = (0..3).map(|to| vec![world.rank(); to]).collect();
    ///     let got = world.alltoallv(&ours).unwrap();
    ///     let from = |rank| vec![rank; world.rank() as usize];
    ///     assert_eq!(got, [from(0), from(1), from(2)]);
    /// });
    /// ```
    pub fn alltoallv<T: Plain, B: AsRef<[T]>>(&self, ours: &[B]) -> Result<Vec<Vec<T>>, Error> {
        let what = What { bytes: None, ..what_of_all::<T>("alltoallv", Span::EMPTY) };
        self.check_list(what, "the send list", ours.len())?;
        let (lens, mut theirs) = (lens_of(ours), plain::zeroed::<u64>(ours.len()));
        let into = memory::lend_mut(plain::bytes_mut(&mut theirs));
        let prepared = self.runtime().alltoall(memory::lend(plain::bytes(&lens)), into);
        // SAFETY: I1.
        unsafe { self.run(what, prepared) }?;
        let mut blocks = zeroed_blocks(&theirs);
        let into = lend_blocks_mut(&mut blocks);
        let prepared = self.runtime().alltoall_blocks(&lend_blocks(ours), &into);
        // SAFETY: I1.
        unsafe { self.run(what, prepared) }?;
        Ok(blocks)
    }

    /// Checks that a list has a block for each rank.
    fn check_list(&self, what: What, list: &'static str, blocks: usize) -> Result<(), Error> {
        let checked = self.check_items(what, list, blocks, self.size() as usize);
        // Both collectives are left out.
        checked.inspect_err(|_| self.leave_out())
    }
}

fn lens_of<T, B: AsRef<[T]>>(blocks: &[B]) -> Vec<u64> {
    blocks.iter().map(|block| block.as_ref().len() as u64).collect()
}

fn zeroed_blocks<T: Plain>(lens: &[u64]) -> Vec<Vec<T>> {
    lens.iter().map(|&len| plain::zeroed(size(len))).collect()
}

fn lend_blocks<T: Plain, B: AsRef<[T]>>(blocks: &[B]) -> Vec<Span> {
    blocks.iter().map(|block| memory::lend(plain::bytes(block.as_ref()))).collect()
}

fn lend_blocks_mut<T: Plain>(blocks: &mut [Vec<T>]) -> Vec<Span> {
    blocks.iter_mut().map(|block| memory::lend_mut(plain::bytes_mut(block))).collect()
}
