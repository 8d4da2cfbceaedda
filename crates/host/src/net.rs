//! A rank's view of the other hosts of its job: its own place among them, and the means to reach them.

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
    /// The number of our host, and our local rank on it.
    pub(crate) host: u32,
    pub(crate) local_rank: u16,
    /// Our rank in the job, and the first rank of our host.
    pub(crate) me: u32,
    pub(crate) first: u32,
    pub(crate) socket: Socket,
    pub(crate) keys: Keyring,
    /// Frames go unsealed: the user asked for `--insecure`.
    pub(crate) insecure: bool,
    /// The endpoint that carries frames, if the job has chosen libfabric. Datagrams then carry only endpoint addresses.
    pub(crate) endpoint: Option<Arc<Endpoint>>,
    /// The loopback address of this host's sockets, for wakeups between its ranks.
    own: SocketAddr,
    /// The sockets of all ranks of this host, if this rank has to keep them open.
    kept: Vec<OwnedFd>,
}

impl Net {
    /// The net of rank `me`. `None` if the directory does not list it. The job's secret is not kept.
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

    /// Keeps the sockets of this host open as long as this rank is in the job, where no daemon does.
    pub(crate) fn keeping(mut self, sockets: Vec<OwnedFd>) -> Net {
        self.kept = sockets;
        self
    }

    /// Waits until something arrives from any other host, or until `timeout` is over.
    pub(crate) fn wait(&self, timeout: Option<Duration>) {
        let fabric = self.endpoint.as_ref().and_then(|endpoint| endpoint.wait());
        // What cannot be waited for is polled every turn.
        let _ = self.socket.wait(fabric, timeout);
    }

    /// Wakes the thread that sleeps at the socket of a local rank of this host. If the datagram is lost, the
    /// sleeper's timeout ends the sleep.
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

    /// The address of all hosts.
    pub(crate) const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// The ranks of a job on `hosts` hosts, all of them this machine, with `each` ranks on each.
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
