//! A connected socket to the most recently used host, so that the kernel does not look up the route for each
//! datagram. While all datagrams go to one local rank there, the hop limit is a socket option instead of a
//! control message. This costs each rank one more socket, however many peers it has.
//!
//! Nothing is received here: a filter drops what arrives. Answers go to the port of our host, whatever the
//! source port of a datagram.

use std::io::Result;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use super::address::SocketAddress;
use super::call;
use super::group::prepare;
use super::socket::{Socket, Target};

/// Sends through the connected socket where that pays off, otherwise through the group's socket.
pub(crate) struct Connected {
    socket: Option<Socket>,
    /// Where the socket is connected to.
    to: SocketAddress,
    /// The target whose hop limit the socket has.
    limited: Target,
    /// The target of the last batch.
    last: Target,
}

impl Connected {
    /// Opens an unconnected socket, bound to the address of the group's socket. If that fails, all traffic
    /// goes through the group's socket, which is slower.
    pub(crate) fn new(group: &Socket) -> Connected {
        let nowhere = Target::NOWHERE;
        let to = SocketAddress::NOWHERE;
        Connected { socket: open(group).ok(), to, limited: nowhere, last: nowhere }
    }

    /// Like [`Socket::send_batch`].
    pub(crate) fn send_batch(
        &mut self,
        group: &Socket,
        to: &Target,
        batch: &[u8],
        each: usize,
    ) -> Result<usize> {
        let connected = self.leads_to(to.address());
        let limited = connected && batch.len() <= each && self.is_limited_for(to);
        self.last = *to;
        match &self.socket {
            Some(socket) if limited => socket.send_on(batch),
            Some(socket) if connected => socket.send_batch(&to.without_address(), batch, each),
            _ => group.send_batch(to, batch, each),
        }
    }

    /// Whether the socket is connected to `address`. Connects it if the last batch went there too.
    fn leads_to(&mut self, address: &SocketAddress) -> bool {
        if self.to == *address {
            return true;
        }
        let Some(socket) = self.socket.as_ref().filter(|_| self.last.address() == address) else {
            return false;
        };
        let connected = call::connect(socket.as_fd(), address).is_ok();
        self.to = if connected { *address } else { SocketAddress::NOWHERE };
        connected
    }

    /// Whether the socket has the hop limit of `target`. Sets it if the last batch went there too.
    fn is_limited_for(&mut self, target: &Target) -> bool {
        if self.limited == *target {
            return true;
        }
        let Some(socket) = self.socket.as_ref().filter(|_| self.last == *target) else {
            return false;
        };
        let set = target.limit(socket.as_fd()).is_ok();
        self.limited = if set { *target } else { Target::NOWHERE };
        set
    }
}

fn open(group: &Socket) -> Result<Socket> {
    let bound = call::name(group.as_fd())?.socket_addr().ok_or(std::io::ErrorKind::InvalidData)?;
    let socket = prepare(bound.ip())?;
    call::drop_all(socket.as_fd())?;
    call::bind(socket.as_fd(), &SocketAddress::from(SocketAddr::new(bound.ip(), 0)))?;
    Ok(Socket::new(socket, false))
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::{Ipv4Addr, UdpSocket};

    use super::*;

    #[test]
    fn what_goes_to_one_host_again_and_again_goes_by_a_connected_socket_and_nothing_comes_back_there()
     {
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let group = UdpSocket::bind(here).expect("a port");
        let port = group.local_addr().expect("it is bound").port();
        let group = Socket::new(group.into(), false);
        let hosts = [0, 1].map(|_| UdpSocket::bind(here).expect("a port"));
        let targets =
            hosts.each_ref().map(|host| Target::new(host.local_addr().expect("it is bound"), 0));
        let mut connected = Connected::new(&group);
        let mut from = |at: usize| {
            let bytes = [7; 3];
            let sent = connected.send_batch(&group, &targets[at], &bytes, 3).expect("it goes");
            assert_eq!(sent, 3);
            let mut got = [0; 8];
            let (len, from) = hosts[at].recv_from(&mut got).expect("it comes");
            assert_eq!(got[..len], bytes);
            hosts[at].send_to(&[1], from).expect("an answer");
            from.port()
        };
        let ports = [0, 0, 0, 1, 0, 1, 1, 0].map(&mut from);
        assert_eq!(
            ports.map(|one| one == port),
            [true, false, false, true, false, true, false, true]
        );
        let connected = connected.socket.as_ref().expect("it was opened");
        let waits = UdpSocket::from(connected.as_fd().try_clone_to_owned().expect("a descriptor"));
        let nothing = waits.recv(&mut [0; 8]).map_err(|error| error.kind());
        assert_eq!(nothing, Err(ErrorKind::WouldBlock));
    }
}
