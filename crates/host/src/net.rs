//! What a rank knows of the other hosts of its job: who it is among them, and what it reaches them by.

pub mod directory;
pub mod host_address;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use directory::Directory;

use crate::fabric::Endpoint;
use crate::udp::keys::{Epochs, Keyring, Secret};
use crate::udp::seal::{DatagramHeader, Form};
use crate::udp::socket::{Socket, Target};

/// A rank in a job of several hosts.
pub(crate) struct Net {
    pub(crate) directory: Directory,
    /// The number of our host, and our place among its ranks.
    pub(crate) host: u32,
    pub(crate) local_rank: u16,
    /// Our rank in the job, and that of the first of our host.
    pub(crate) me: u32,
    pub(crate) first: u32,
    pub(crate) socket: Socket,
    pub(crate) keys: Keyring,
    /// Frames go as they are, since the user wants it.
    pub(crate) insecure: bool,
    /// What frames go through, if the job has chosen libfabric. Then datagrams carry addresses.
    pub(crate) endpoint: Option<Arc<Endpoint>>,
    /// Where ranks of this host wake each other at each other's sockets.
    own: SocketAddr,
    /// The sockets of all ranks of this host, if it is for us to keep them open.
    kept: Vec<OwnedFd>,
}

impl Net {
    /// Rank `me` of a job in whose directory it is. `None` if it is not. The secret of the job is not kept.
    pub(crate) fn new(
        directory: Directory,
        me: u32,
        socket: OwnedFd,
        (secret, epochs): (&Secret, Epochs),
        insecure: bool,
        endpoint: Option<Arc<Endpoint>>,
    ) -> Option<Net> {
        let (host, local_rank) = directory.place(me)?;
        let port = directory.port(host);
        let inside = match directory.addresses(host).next()? {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        };
        let (first, _) = directory.ranks(host);
        let keys = Keyring::new(secret, host, directory.hosts(), epochs);
        let own = SocketAddr::new(inside, port);
        let socket = Socket::new(socket, true);
        let kept = Vec::new();
        Some(Net {
            directory,
            host,
            local_rank,
            me,
            first,
            socket,
            keys,
            insecure,
            endpoint,
            own,
            kept,
        })
    }

    /// The sockets of this host stay open as long as this rank is in the job: there is no agent that keeps them.
    pub(crate) fn keeping(mut self, sockets: Vec<OwnedFd>) -> Net {
        self.kept = sockets;
        self
    }

    /// Waits until something has come from anybody, or until `timeout` is over.
    pub(crate) fn wait(&self, timeout: Option<Duration>) {
        let fabric = self.endpoint.as_ref().and_then(|endpoint| endpoint.wait());
        // What cannot be waited for is looked at in turn.
        let _ = self.socket.wait(fabric, timeout);
    }

    /// Wakes whoever sleeps at the socket of a local rank of this host. If it does not arrive, the sleeper's timeout ends.
    #[cold]
    pub(crate) fn wake(&self, local_rank: u16) {
        let header = DatagramHeader { local_rank, form: Form::Wakeup, source: self.me, counter: 0 };
        let to = Target::new(self.own, local_rank);
        let _ = self.socket.send(&to, &[std::io::IoSlice::new(&header.emit())]);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::job::LocalWire;
    use crate::net::directory::Host;
    use crate::udp::group::Group;

    /// Where all hosts are.
    pub(crate) const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// The ranks of a job on so many hosts, all of them this machine, with so many ranks on each.
    pub(crate) fn ranks(hosts: u32, each: u16, wire: LocalWire<'_>) -> Vec<Arc<Net>> {
        let groups = (0..hosts).map(|_| Group::open(each, None, HERE).expect("a port"));
        let groups: Vec<Group> = groups.collect();
        let ranks = u32::from(each);
        let host = |(host, group): (u32, &Group)| {
            let (first, port) = (host * ranks, group.port);
            Host { first, ranks, port, addresses: vec![HERE] }
        };
        let list: Vec<Host> = (0..).zip(&groups).map(host).collect();
        let secret = Secret::new(&[7; 32]);
        let rank = |(me, socket)| {
            let directory = Directory::create(&list, 1400).expect("memory");
            let endpoint = wire.open(HERE).expect("it is there");
            let keys = (&secret, wire.epochs());
            let net = Net::new(directory, me, socket, keys, wire.is_insecure(), endpoint);
            Arc::new(net.expect("it is in the directory"))
        };
        (0..).zip(groups.into_iter().flat_map(|group| group.sockets)).map(rank).collect()
    }
}
