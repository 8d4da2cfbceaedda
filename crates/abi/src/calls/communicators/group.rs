//! Groups: their members, and set operations.

use std::ffi::c_int;

use ferrywire_host::ErrorCode;
use ferrywire_mpi::group::{Group, Likeness, Range};

use crate::calls::entry::entries;
use crate::convert::constants::{
    MPI_ERR_ARG, MPI_ERR_COMM, MPI_ERR_RANK, MPI_GROUP_EMPTY, MPI_GROUP_NULL, MPI_IDENT,
    MPI_PROC_NULL, MPI_SIMILAR, MPI_UNDEFINED, MPI_UNEQUAL,
};
use crate::convert::failure::{Failure, Result};
use crate::convert::handle;
use crate::convert::pointer::{In, Out};
use crate::convert::sizes;
use crate::convert::types::{MPI_Comm, MPI_Group};
use crate::objects::comm::{self, int};
use crate::objects::group::{GroupObject, create_in, find, session_of};
use crate::objects::process;

/// Checks that a rank exists in a group.
fn rank_in(group: &Group, rank: c_int) -> Result<u32> {
    let known = u32::try_from(rank).ok().filter(|&rank| rank < group.size());
    known.ok_or_else(|| {
        let why = format!("invalid rank {rank} in a group of size {}", group.size());
        Failure::new(MPI_ERR_RANK, why)
    })
}

/// Checks that ranks exist in a group and are distinct.
fn ranks_in(group: &Group, ranks: impl Iterator<Item = c_int>) -> Result<Vec<u32>> {
    let mut known = Vec::new();
    let mut seen = vec![false; group.size() as usize];
    for rank in ranks {
        let rank = rank_in(group, rank)?;
        if std::mem::replace(&mut seen[rank as usize], true) {
            return Err(Failure::new(MPI_ERR_RANK, format!("rank {rank} occurs twice")));
        }
        known.push(rank);
    }
    Ok(known)
}

/// Ranks that the program passes one by one.
fn listed(group: &Group, n: c_int, ranks: In<c_int>) -> Result<Vec<u32>> {
    ranks_in(group, ranks.slice(sizes::length(n)?)?.iter().copied())
}

/// Ranks that the program passes as ranges.
fn ranged(group: &Group, n: c_int, ranges: In<[c_int; 3]>) -> Result<Vec<u32>> {
    let mut ranks = Vec::new();
    for &[first, last, stride] in ranges.slice(sizes::length(n)?)? {
        let Some(range) = (Range { first, last, stride }).ranks() else {
            let why =
                format!("invalid range: a stride of {stride} does not lead from {first} to {last}");
            return Err(Failure::new(MPI_ERR_ARG, why).coded(ErrorCode::GROUP));
        };
        // Stops at the first rank that does not exist, because a range may be very long.
        for rank in range {
            rank_in(group, rank)?;
            ranks.push(rank);
        }
    }
    ranks_in(group, ranks.into_iter())
}

/// Creates a group from others, which comes from the same session.
fn derived(from: &[MPI_Group], group: Group) -> MPI_Group {
    create_in(from.iter().find_map(|&from| session_of(from)), group)
}

entries! {
    fn MPI_Group_size(group: MPI_Group, size: Out<c_int>) {
        size.put(int(find(group)?.size()))
    }

    fn MPI_Group_rank(group: MPI_Group, rank: Out<c_int>) {
        let group = find(group)?;
        let me = process::running().ok().and_then(|process| group.rank_of(process.rank().driver().me()));
        rank.put(me.map_or(MPI_UNDEFINED, int))
    }

    fn MPI_Group_translate_ranks(
        group1: MPI_Group, n: c_int, ranks1: In<c_int>, group2: MPI_Group, ranks2: Out<c_int>,
    ) {
        let (from, to, n) = (find(group1)?, find(group2)?, sizes::length(n)?);
        for (&rank, place) in ranks1.slice(n)?.iter().zip(ranks2.slice(n)?) {
            *place = match rank {
                MPI_PROC_NULL => MPI_PROC_NULL,
                _ => to.rank_of(from.peer_of(rank_in(&from, rank)?)).map_or(MPI_UNDEFINED, int),
            };
        }
        Ok(())
    }

    fn MPI_Group_compare(group1: MPI_Group, group2: MPI_Group, result: Out<c_int>) {
        result.put(match find(group1)?.compare(&find(group2)?) {
            Likeness::Same => MPI_IDENT,
            Likeness::Similar => MPI_SIMILAR,
            Likeness::Different => MPI_UNEQUAL,
        })
    }

    fn MPI_Group_union(group1: MPI_Group, group2: MPI_Group, newgroup: Out<MPI_Group>) {
        newgroup.put(derived(&[group1, group2], find(group1)?.union(&find(group2)?)))
    }

    fn MPI_Group_intersection(
        group1: MPI_Group, group2: MPI_Group, newgroup: Out<MPI_Group>,
    ) {
        newgroup.put(derived(&[group1, group2], find(group1)?.intersection(&find(group2)?)))
    }

    fn MPI_Group_difference(group1: MPI_Group, group2: MPI_Group, newgroup: Out<MPI_Group>) {
        newgroup.put(derived(&[group1, group2], find(group1)?.difference(&find(group2)?)))
    }

    fn MPI_Group_incl(
        group: MPI_Group, n: c_int, ranks: In<c_int>, newgroup: Out<MPI_Group>,
    ) {
        let all = find(group)?;
        newgroup.put(derived(&[group], all.select(&listed(&all, n, ranks)?)))
    }

    fn MPI_Group_excl(
        group: MPI_Group, n: c_int, ranks: In<c_int>, newgroup: Out<MPI_Group>,
    ) {
        let all = find(group)?;
        newgroup.put(derived(&[group], all.without(&listed(&all, n, ranks)?)))
    }

    fn MPI_Group_range_incl(
        group: MPI_Group, n: c_int, ranges: In<[c_int; 3]>, newgroup: Out<MPI_Group>,
    ) {
        let all = find(group)?;
        newgroup.put(derived(&[group], all.select(&ranged(&all, n, ranges)?)))
    }

    fn MPI_Group_range_excl(
        group: MPI_Group, n: c_int, ranges: In<[c_int; 3]>, newgroup: Out<MPI_Group>,
    ) {
        let all = find(group)?;
        newgroup.put(derived(&[group], all.without(&ranged(&all, n, ranges)?)))
    }

    fn MPI_Group_free(group: Out<MPI_Group>) {
        let own = group.get()?;
        find(own)?;
        // Some calls return the empty group, so programs free it like any other.
        if own != MPI_GROUP_EMPTY {
            drop(handle::take::<GroupObject>(own.0)?);
        }
        group.put(MPI_GROUP_NULL)
    }

    fn MPI_Comm_group(comm: MPI_Comm, group: Out<MPI_Group>) on comm {
        let comm = comm::find(comm)?;
        group.put(create_in(comm.session().cloned(), comm.members.group().clone()))
    }

    fn MPI_Comm_remote_group(comm: MPI_Comm, group: Out<MPI_Group>) on comm {
        group.put(create_in(comm::find(comm)?.session().cloned(), remote(comm)?))
    }

    fn MPI_Comm_remote_size(comm: MPI_Comm, size: Out<c_int>) on comm {
        size.put(int(remote(comm)?.size()))
    }

    fn MPI_Comm_test_inter(comm: MPI_Comm, flag: Out<c_int>) on comm {
        flag.put(comm::find(comm)?.members.inter().is_some().into())
    }
}

/// The remote group of an intercommunicator.
fn remote(comm: MPI_Comm) -> Result<Group> {
    match comm::find(comm)?.members.inter() {
        Some(inter) => Ok(inter.remote.clone()),
        None => Err(Failure::new(MPI_ERR_COMM, "the communicator is not an intercommunicator")
            .coded(ErrorCode::INTERCOMM)),
    }
}
