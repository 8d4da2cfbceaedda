//! Groups and sockets over loopback.

use std::collections::BTreeMap;
use std::io::{ErrorKind, IoSlice};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use ferrywire_nic::Sent;

use super::address::SocketAddress;
use super::call;
use super::group::Group;
use super::socket::{Datagram, ReceiveBuffer, Socket, Target};

/// Longer than anything takes here: a watchdog.
const TIMEOUT: Option<Duration> = Some(Duration::from_secs(10));

const UNSPECIFIED: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];

/// The unspecified addresses of the families that this machine has; IPv6 may be missing.
fn families() -> impl Iterator<Item = IpAddr> {
    UNSPECIFIED.into_iter().filter(|address| {
        let there = UdpSocket::bind((here(*address), 0)).is_ok();
        if !there {
            println!("not tested: {address}");
        }
        there
    })
}

/// This machine's address, in the family of `address`.
fn here(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    }
}

/// A group of sockets, and its address.
fn group(local_ranks: u16, address: IpAddr, joins: bool) -> (Vec<Socket>, SocketAddr) {
    let group = Group::open(local_ranks, None, address).expect("opened");
    let sockets = group.sockets.into_iter().map(|socket| Socket::new(socket, joins)).collect();
    (sockets, SocketAddr::new(here(address), group.port))
}

fn datagram(local_rank: u16, number: u16, len: usize) -> Vec<u8> {
    let mut bytes = local_rank.to_be_bytes().to_vec();
    bytes.extend(number.to_be_bytes());
    bytes.resize(len, number.to_be_bytes()[1]);
    bytes
}

/// The next `count` datagrams of a socket, and their sources.
fn receive(socket: &Socket, count: usize) -> Vec<(SocketAddress, Vec<u8>)> {
    let (mut room, mut received) = (ReceiveBuffer::new(), Vec::new());
    while received.len() < count {
        assert!(socket.wait(None, TIMEOUT).expect("waited"), "only {} have come", received.len());
        let taken = socket.receive_many(&mut room, |from, _, bytes| {
            received.push((*from, bytes.to_vec()));
        });
        taken.expect("received");
    }
    received
}

/// Asserts that nothing has arrived.
fn assert_empty(socket: &Socket) {
    let taken = socket
        .receive_many(&mut ReceiveBuffer::new(), |_, _, bytes| panic!("unexpected {bytes:?}"));
    assert_eq!(taken.expect("looked"), 0);
}

/// The same group, grown by one after the other.
fn grown_group(local_ranks: u16, address: IpAddr, joins: bool) -> (Vec<Socket>, SocketAddr) {
    let mut group = Group::open(1, None, address).expect("opened");
    (1..=local_ranks).for_each(|ranks| group.grow_to(ranks).expect("grown"));
    let sockets = group.sockets.into_iter().map(|socket| Socket::new(socket, joins)).collect();
    (sockets, SocketAddr::new(here(address), group.port))
}

#[test]
fn each_slot_gets_its_own() {
    let ways = [group, grown_group];
    for (address, open) in families().flat_map(|address| ways.map(|open| (address, open))) {
        let (sockets, to) = open(4, address, true);
        for number in 0..40 {
            let bytes = datagram(number % 4, number, 30);
            let parts = [IoSlice::new(&bytes[..7]), IoSlice::new(&bytes[7..])];
            // Each of them sends to all of them.
            let from = &sockets[usize::from(number / 10)];
            assert_eq!(from.send(&Target::new(to, number % 4), &parts).expect("sent"), Sent::Away);
        }
        for (local_rank, socket) in (0..4).zip(&sockets) {
            for ((from, bytes), turn) in receive(socket, 10).into_iter().zip(0..) {
                assert_eq!(bytes, datagram(local_rank, local_rank + 4 * turn, 30));
                assert_eq!(from, to.into(), "all send from the port of the group");
            }
            assert_empty(socket);
        }
    }
}

#[test]
fn local_ranks_that_do_not_exist_do_no_harm() {
    for address in families() {
        let (sockets, to) = group(4, address, false);
        let odd: [&[u8]; 5] = [&[], &[0], &[0, 4], &[0xff, 0xff, 1], &[0x80, 0, 1]];
        for bytes in odd {
            let to = Target::new(to, 0);
            assert_eq!(sockets[0].send(&to, &[IoSlice::new(bytes)]).expect("sent"), Sent::Away);
        }
        for local_rank in 0..4 {
            let bytes = datagram(local_rank, 7, 20);
            sockets[0].send(&Target::new(to, local_rank), &[IoSlice::new(&bytes)]).expect("sent");
        }
        // Any socket may get the odd ones, and each gets its own.
        for (local_rank, socket) in (0..4).zip(&sockets) {
            let mut seen = Vec::new();
            while !seen.contains(&datagram(local_rank, 7, 20)) {
                seen.extend(receive(socket, 1).into_iter().map(|(_, bytes)| bytes));
            }
            assert!(
                seen.iter().all(|bytes| bytes.len() < 20 || bytes[..2] == local_rank.to_be_bytes())
            );
        }
    }
}

#[test]
fn batches_arrive_whole_and_in_order() {
    for address in families() {
        for joins in [true, false] {
            let (sockets, to) = group(2, address, joins);
            let to = Target::new(to, 1);
            let mut batch: Vec<u8> = (0..40).flat_map(|number| datagram(1, number, 1400)).collect();
            batch.extend(datagram(1, 40, 99));
            assert_eq!(sockets[0].send_batch(&to, &batch, 1400).expect("sent"), batch.len());
            let received = receive(&sockets[1], 41);
            assert_eq!(received.len(), 41);
            for ((_, bytes), number) in received.iter().zip(0..) {
                let len = if number == 40 { 99 } else { 1400 };
                assert_eq!(*bytes, datagram(1, number, len));
            }
        }
    }
}

#[test]
fn a_batch_longer_than_the_kernel_takes_goes_in_pieces() {
    let (sockets, to) = group(1, UNSPECIFIED[0], true);
    let to = Target::new(to, 0);
    for (each, count) in [(4, 200), (100, 200), (1400, 200), (40_000, 10)] {
        let batch: Vec<u8> = (0..count).flat_map(|number| datagram(0, number, each)).collect();
        assert_eq!(sockets[0].send_batch(&to, &batch, each).expect("sent"), batch.len());
        for ((_, bytes), number) in receive(&sockets[0], count.into()).into_iter().zip(0..) {
            assert_eq!(bytes, datagram(0, number, each));
        }
    }
}

#[test]
fn many_go_to_many() {
    for address in families() {
        let (sockets, to) = group(3, address, true);
        let bytes: Vec<Vec<u8>> = (0..99).map(|number| datagram(number % 3, number, 64)).collect();
        let targets = [0, 1, 2].map(|local_rank| Target::new(to, local_rank));
        let datagrams: Vec<Datagram<'_>> = bytes
            .iter()
            .zip(targets.iter().cycle())
            .map(|(bytes, to)| Datagram { to, bytes })
            .collect();
        assert_eq!(sockets[0].send_many(&datagrams).expect("sent"), 99);
        for (local_rank, socket) in (0..3).zip(&sockets) {
            for ((_, bytes), turn) in receive(socket, 33).into_iter().zip(0..) {
                assert_eq!(bytes, datagram(local_rank, local_rank + 3 * turn, 64));
            }
        }
    }
}

#[test]
fn what_is_too_long_is_an_error_and_ends_nothing() {
    let (sockets, to) = group(1, UNSPECIFIED[0], true);
    let to = Target::new(to, 0);
    let long = vec![0; 70_000];
    let error = sockets[0].send(&to, &[IoSlice::new(&long)]).expect_err("too long");
    assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
    let error = sockets[0].send_batch(&to, &long, 66_000).expect_err("too long");
    assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
    let batch = [datagram(0, 0, 50), datagram(0, 1, 50)].concat();
    assert_eq!(sockets[0].send_batch(&to, &batch, 50).expect("sent"), 100);
    assert_eq!(receive(&sockets[0], 2).len(), 2);
}

#[test]
fn a_batch_that_the_kernel_does_not_cut_goes_one_by_one() {
    let (sockets, to) = group(1, UNSPECIFIED[0], true);
    let to = Target::new(to, 0);
    // Without checksums it refuses to cut.
    call::set(sockets[0].as_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).expect("set");
    let batch: Vec<u8> = (0..90).flat_map(|number| datagram(0, number, 300)).collect();
    for _ in 0..2 {
        assert_eq!(sockets[0].send_batch(&to, &batch, 300).expect("sent"), batch.len());
        for ((_, bytes), number) in receive(&sockets[0], 90).into_iter().zip(0..) {
            assert_eq!(bytes, datagram(0, number, 300));
        }
        assert!(!sockets[0].cuts());
    }
}

#[test]
fn a_socket_that_joins_no_more_receives_datagrams_one_by_one() {
    let (sockets, to) = group(1, UNSPECIFIED[0], true);
    let to = Target::new(to, 0);
    sockets[0].join_no_more();
    assert!(!sockets[0].joins());
    let batch: Vec<u8> = (0..9).flat_map(|number| datagram(0, number, 300)).collect();
    assert_eq!(sockets[0].send_batch(&to, &batch, 300).expect("sent"), batch.len());
    assert_eq!(receive(&sockets[0], 9).len(), 9);
}

#[test]
fn waiting_ends() {
    let (sockets, to) = group(1, UNSPECIFIED[0], true);
    let to = Target::new(to, 0);
    assert!(!sockets[0].wait(None, Some(Duration::from_millis(1))).expect("waited"));
    sockets[0].send(&to, &[IoSlice::new(&[0, 0])]).expect("sent");
    assert!(sockets[0].wait(None, TIMEOUT).expect("waited"));
    assert!(sockets[0].wait(None, None).expect("waited"));
}

#[test]
fn two_groups_in_one_range_have_different_ports() {
    for address in families() {
        let base = Group::open(1, None, address).expect("opened").port;
        let range = base.saturating_sub(20)..=base.saturating_add(20);
        let groups: Vec<Group> =
            (0..4).map(|_| Group::open(3, Some(range.clone()), address).expect("opened")).collect();
        let mut ports = BTreeMap::new();
        for group in &groups {
            assert!(range.contains(&group.port));
            *ports.entry(group.port).or_insert(0) += 1;
        }
        assert_eq!(ports.len(), 4, "{ports:?}");
        // A port that is taken is refused to another job, also at a single address.
        let taken = groups[0].port..=groups[0].port;
        for address in [address, here(address)] {
            let error = Group::open(2, Some(taken.clone()), address).expect_err("taken");
            assert_eq!(error.kind(), ErrorKind::AddrInUse);
        }
    }
}

/// Jobs that start at the same moment with the same range get different ports.
#[test]
fn groups_that_race_for_a_port_do_not_mix() {
    let base = Group::open(1, None, UNSPECIFIED[0]).expect("opened").port;
    let range = base.saturating_sub(3)..=base.saturating_add(30);
    let open = || Group::open(5, Some(range.clone()), UNSPECIFIED[0]).expect("opened");
    let groups: Vec<Group> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().expect("done")).collect()
    });
    let ports: BTreeMap<u16, usize> = groups.iter().map(|group| (group.port, 0)).collect();
    assert_eq!(ports.len(), groups.len());
}

/// A program of the same user may share the port, which is why frames are sealed.
#[test]
fn a_socket_of_the_same_user_may_share_a_port() {
    for address in families() {
        let (sockets, to) = group(2, address, false);
        let port = to.port();
        let to = Target::new(to, 1);
        // Without `SO_REUSEPORT`, no socket gets the port.
        for place in [address, here(address)] {
            let error = UdpSocket::bind((place, port)).expect_err("taken");
            assert_eq!(error.kind(), ErrorKind::AddrInUse);
        }
        // At the same address, another socket is one more in the group: local ranks keep their sockets.
        let other = sharing(address, port);
        let bytes = datagram(1, 0, 20);
        sockets[0].send(&to, &[IoSlice::new(&bytes)]).expect("sent");
        assert_eq!(receive(&sockets[1], 1)[0].1, bytes);
        assert_empty(&other);
        drop(other);
        // At a more specific address, it receives what is sent there, until it is closed.
        let thief = sharing(here(address), port);
        sockets[0].send(&to, &[IoSlice::new(&bytes)]).expect("sent");
        assert_eq!(receive(&thief, 1)[0].1, bytes);
        assert_empty(&sockets[1]);
        drop(thief);
        sockets[0].send(&to, &[IoSlice::new(&bytes)]).expect("sent");
        assert_eq!(receive(&sockets[1], 1)[0].1, bytes);
    }
}

/// A socket with `SO_REUSEPORT`.
fn sharing(address: IpAddr, port: u16) -> Socket {
    let domain = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let socket = call::datagram_socket(domain).expect("made");
    call::set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEPORT, 1).expect("set");
    call::bind(socket.as_fd(), &SocketAddr::new(address, port).into()).expect("bound");
    Socket::new(socket, false)
}
