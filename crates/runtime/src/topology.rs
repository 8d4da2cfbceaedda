//! Communicators with a topology: who takes which node of it.
//!
//! Invariants, cited below by number.
//!   I1. Memory lent to a schedule is on the stack of a call that waits for it.

use ferrywire_host::memory;
use ferrywire_mpi::collective::{self as algorithm, Locality};
use ferrywire_mpi::topology::{Link, by_locality};

use crate::comm::Comm;
use crate::comm_create::{Created, Result, lend};

impl Comm<'_> {
    /// Creates a communicator in which rank `n` takes node `n` of a topology with `nodes` nodes. With `links`, ranks are
    /// reordered so that less is sent between hosts. `None` for members without a node.
    pub fn create_with_nodes(
        self,
        instance: u16,
        nodes: u32,
        links: Option<impl FnOnce() -> Vec<Link>>,
    ) -> Result<Option<Created>> {
        let group = self.members().group();
        let takers = match links {
            Some(links) if self.process().locality() == Locality::Unknown => {
                let hosts = self.hosts(instance)?;
                by_locality(&hosts[..nodes as usize], &links())
            }
            _ => (0..nodes).collect(),
        };
        self.create(instance, group.select(&takers))
    }

    /// The host of each member, named after its lowest rank in the job.
    fn hosts(self, instance: u16) -> Result<Vec<u32>> {
        let here = self.process().rank().first_here().0;
        let all = self.gather_from_everyone(instance, &[here.into()])?;
        Ok(all.into_iter().map(|host| u32::try_from(host).expect("it was one")).collect())
    }

    /// Gathers a list of numbers from each member.
    pub fn gather_lists(self, instance: u16, mine: &[i64]) -> Result<Vec<Vec<i64>>> {
        let lens = self.gather_from_everyone(instance, &[mine.len() as i64])?;
        let mut lists: Vec<Vec<i64>> =
            lens.iter().map(|&len| vec![0; usize::try_from(len).expect("a length")]).collect();
        let mut mine = mine.to_vec();
        let spans: Vec<_> = lists.iter_mut().map(|list| lend(list)).collect();
        let me = self.members().member();
        let at = |rank: u32| spans[rank as usize];
        let bytes = algorithm::allgather_blocks_work_bytes(me, at);
        let mut work = vec![0; usize::try_from(bytes).expect("as much as all lists")];
        let work = memory::lend_mut(&mut work);
        let schedule = algorithm::allgather_blocks(me, lend(&mut mine), at, work);
        // SAFETY: I1.
        unsafe { self.run(instance, schedule) }?;
        Ok(lists)
    }
}
