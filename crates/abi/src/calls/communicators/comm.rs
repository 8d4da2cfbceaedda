//! Queries about a communicator.

use std::ffi::c_int;

use ferrywire_mpi::topology::Topology;

use crate::calls::entry::entries;
use crate::convert::constants::{MPI_CART, MPI_DIST_GRAPH, MPI_GRAPH, MPI_UNDEFINED};
use crate::convert::pointer::Out;
use crate::convert::types::{MPI_Comm, MPI_Info};
use crate::objects::comm::{find, int};
use crate::objects::info;

entries! {
    fn MPI_Comm_rank(comm: MPI_Comm, rank: Out<c_int>) on comm {
        rank.put(int(find(comm)?.members.rank()))
    }

    fn MPI_Topo_test(comm: MPI_Comm, status: Out<c_int>) on comm {
        status.put(match find(comm)?.topology().map(|topology| &**topology) {
            None => MPI_UNDEFINED,
            Some(Topology::Grid(_)) => MPI_CART,
            Some(Topology::Graph(_)) => MPI_GRAPH,
            Some(Topology::Neighbours(_)) => MPI_DIST_GRAPH,
        })
    }

    fn MPI_Comm_get_info(comm: MPI_Comm, info_used: Out<MPI_Info>) on comm {
        info_used.put(info::create(find(comm)?.info()))
    }

    fn MPI_Comm_set_info(comm: MPI_Comm, info: MPI_Info) on comm {
        let mut hints = find(comm)?.info();
        for (key, value) in info::hints(info)?.entries() {
            hints.set(key, value);
        }
        find(comm)?.set_info(hints);
        Ok(())
    }

    fn MPI_Comm_size(comm: MPI_Comm, size: Out<c_int>) on comm {
        size.put(int(find(comm)?.members.group().size()))
    }
}
