//! The addresses of a job's hosts: one list for each host, in memory that its ranks share. So no rank holds a
//! table of its own, however many hosts there are.
//!
//! Invariants, cited below by number.
//!   D1. The file is as long as its header says, and its length is sealed, so no process can shorten it:
//!       `open` has checked both.
//!   D2. Entries are written before the file is handed to any other process; afterwards only `heard` and `spawned`
//!       change.
//!   D3. After the entries there are two bits for each rank that can ever be, in atomic words: first for all of them
//!       whether it is gone, then for all whether it left in order.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::here;
use crate::shm::segment::SPAWNED_MAX;
use crate::sys::map::{self, Map};

/// A host, as the others know it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Host {
    /// Its first rank.
    pub first: u32,
    /// How many ranks it has, from `first` on.
    pub ranks: u32,
    /// The port of its sockets.
    pub port: u16,
    /// Where to reach it, the likeliest address first. At most [`ADDRESSES_MAX`] are kept.
    pub addresses: Vec<IpAddr>,
}

/// How many addresses of one host are tried.
pub const ADDRESSES_MAX: usize = 4;

/// The list of hosts.
pub struct Directory {
    file: File,
    map: Map,
    hosts: u32,
}

#[repr(C, align(64))]
struct DirectoryHeader {
    magic: u64,
    hosts: u32,
    frame_bytes_max: u32,
}

#[repr(C, align(64))]
struct HostEntry {
    first: u32,
    ranks: u32,
    /// One more than the index of the address that the host has been heard from; 0 before.
    heard: AtomicU32,
    /// How many ranks have been spawned on it.
    spawned: AtomicU32,
    port: u16,
    count: u16,
    addresses: [[u8; 16]; ADDRESSES_MAX],
    /// Whether an address is IPv6.
    long: [u8; ADDRESSES_MAX],
}

impl Directory {
    /// Creates a list of these hosts, in the order of their ranks. No frame between them is longer than
    /// `frame_bytes_max`.
    pub fn create(hosts: &[Host], frame_bytes_max: u32) -> io::Result<Directory> {
        let count = u32::try_from(hosts.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let size = hosts.last().map_or(0, |last| last.first + last.ranks);
        let len = bytes(count) + 2 * bitmap_bytes(here::spawned_first(size, count));
        let file = map::memory_file(len)?;
        map::reserve(&file, 0, len)?;
        map::seal_length(&file)?;
        let map = Map::new(&file, 0, len)?;
        let head = DirectoryHeader { magic: MAGIC, hosts: count, frame_bytes_max };
        // SAFETY: D1: there is room for a header, and no other process has the file yet.
        unsafe { map.start().cast::<DirectoryHeader>().write(head) };
        let directory = Directory { file, map, hosts: count };
        for (number, host) in (0..).zip(hosts) {
            let mut entry = HostEntry {
                first: host.first,
                ranks: host.ranks,
                heard: AtomicU32::new(0),
                spawned: AtomicU32::new(0),
                port: host.port,
                count: 0,
                addresses: [[0; 16]; ADDRESSES_MAX],
                long: [0; ADDRESSES_MAX],
            };
            for (at, address) in host.addresses.iter().take(ADDRESSES_MAX).enumerate() {
                let (octets, long) = match address {
                    IpAddr::V4(address) => (address.to_ipv6_mapped().octets(), 0),
                    IpAddr::V6(address) => (address.octets(), 1),
                };
                (entry.addresses[at], entry.long[at]) = (octets, long);
                entry.count += 1;
            }
            let place = std::ptr::from_ref(directory.entry(number)).cast_mut();
            // SAFETY: D1, and no other process has the file yet.
            unsafe { place.write(entry) };
        }
        Ok(directory)
    }

    /// Opens a list that another process has created.
    pub fn open(file: OwnedFd) -> io::Result<Directory> {
        let file = File::from(file);
        let len = file.metadata()?.len();
        if len < size_of::<DirectoryHeader>() as u64 || !map::is_length_sealed(&file) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let map = Map::new(&file, 0, len)?;
        let directory = Directory { file, map, hosts: 0 };
        let head = directory.head();
        let hosts = head.hosts;
        if head.magic != MAGIC || bytes(hosts) > len || hosts == 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let directory = Directory { hosts, ..directory };
        let last = directory.entry(hosts - 1);
        if last.first.checked_add(last.ranks).is_none() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        match bytes(hosts) + 2 * bitmap_bytes(directory.peers_max()) == len {
            true => Ok(directory),
            false => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// The file, for handing to ranks.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The longest frame between hosts.
    pub fn frame_bytes_max(&self) -> u32 {
        self.head().frame_bytes_max
    }

    /// The number of hosts.
    pub fn hosts(&self) -> u32 {
        self.hosts
    }

    /// The number of ranks on all hosts when the job began.
    pub fn size(&self) -> u32 {
        let last = self.entry(self.hosts - 1);
        last.first + last.ranks
    }

    /// Above the numbers of all ranks that there can ever be.
    pub fn peers_max(&self) -> u32 {
        here::spawned_first(self.size(), self.hosts)
    }

    /// The ranks that there are or were on all hosts, those that were spawned included.
    pub fn peers(&self) -> impl Iterator<Item = u32> {
        let size = self.size();
        let spawned = (0..self.hosts).flat_map(move |host| {
            let first = here::spawned_first(size, host);
            first..first + self.spawned(host)
        });
        (0..size).chain(spawned)
    }

    /// Whether ranks have been spawned, on any host.
    pub fn has_spawned(&self) -> bool {
        (0..self.hosts).any(|host| self.spawned(host) > 0)
    }

    /// How many ranks have been spawned on a host.
    fn spawned(&self, host: u32) -> u32 {
        let count = self.entry(host).spawned.load(Ordering::Relaxed).min(SPAWNED_MAX);
        count.min(self.peers_max() - here::spawned_first(self.size(), host))
    }

    /// Notes how many ranks have been spawned on a host so far.
    pub fn note_spawned(&self, host: u32, count: u32) {
        if host < self.hosts {
            self.entry(host).spawned.fetch_max(count, Ordering::Relaxed);
        }
    }

    /// The host of a rank, and its local rank there.
    pub fn place(&self, rank: u32) -> Option<(u32, u16)> {
        if let Some((host, index)) = here::spawned_place(self.size(), rank) {
            let is_there = host < self.hosts && index < self.spawned(host);
            let local_rank = || self.entry(host).ranks.checked_add(index)?.try_into().ok();
            return is_there.then(local_rank)?.map(|local_rank| (host, local_rank));
        }
        let (mut low, mut high) = (0, self.hosts);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match self.entry(middle).first <= rank {
                true => low = middle,
                false => high = middle,
            }
        }
        let entry = self.entry(low);
        let local_rank =
            rank.checked_sub(entry.first).filter(|&local_rank| local_rank < entry.ranks)?;
        Some((low, u16::try_from(local_rank).ok()?))
    }

    /// The first rank of a host, and how many it has.
    pub fn ranks(&self, host: u32) -> (u32, u32) {
        let entry = self.entry(host);
        (entry.first, entry.ranks)
    }

    /// The port of a host.
    pub fn port(&self, host: u32) -> u16 {
        self.entry(host).port
    }

    /// The addresses of a host.
    pub fn addresses(&self, host: u32) -> impl Iterator<Item = IpAddr> {
        let entry = self.entry(host);
        let count = usize::from(entry.count).min(ADDRESSES_MAX);
        entry.addresses.iter().zip(&entry.long).take(count).map(|(octets, &long)| {
            let address = Ipv6Addr::from(*octets);
            match long {
                0 => address.to_ipv4_mapped().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V4),
                _ => IpAddr::V6(address),
            }
        })
    }

    /// The address that a host has been heard from, which is where to reach it; `None` before.
    pub fn heard(&self, host: u32) -> Option<SocketAddr> {
        let at = self.entry(host).heard.load(Ordering::Relaxed).checked_sub(1)?;
        let address = self.addresses(host).nth(at as usize)?;
        Some(SocketAddr::new(address, self.port(host)))
    }

    /// Notes that a genuine frame of a host came from this address.
    pub fn note_heard(&self, host: u32, from: IpAddr) {
        if let Some(at) = self.addresses(host).position(|address| address == from) {
            self.entry(host).heard.store(u32::try_from(at).unwrap_or(0) + 1, Ordering::Relaxed);
        }
    }

    /// Marks a rank on any host as gone, for all ranks that share this list.
    pub fn mark_down(&self, rank: u32) {
        self.mark(GONE, rank);
    }

    /// Marks a rank as gone because it left in order.
    pub fn mark_left(&self, rank: u32) {
        self.mark(LEFT, rank);
        self.mark(GONE, rank);
    }

    /// Whether a rank is marked as gone.
    pub fn is_gone(&self, rank: u32) -> bool {
        self.is_marked(GONE, rank)
    }

    /// Whether a rank is marked as one that left in order.
    pub fn has_left(&self, rank: u32) -> bool {
        self.is_marked(LEFT, rank)
    }

    fn mark(&self, bitmap: u64, rank: u32) {
        if let Some(word) = self.word(bitmap, rank) {
            word.fetch_or(1 << (rank % 64), Ordering::SeqCst);
        }
    }

    fn is_marked(&self, bitmap: u64, rank: u32) -> bool {
        let word = self.word(bitmap, rank);
        word.is_some_and(|word| word.load(Ordering::SeqCst) >> (rank % 64) & 1 != 0)
    }

    /// The word of a bitmap that has the bit of a rank.
    fn word(&self, bitmap: u64, rank: u32) -> Option<&AtomicU64> {
        let peers_max = self.peers_max();
        let start = usize::try_from(bytes(self.hosts) + bitmap * bitmap_bytes(peers_max)).ok()?;
        let offset = start + rank as usize / 64 * 8;
        if rank >= peers_max || offset + 8 > self.map.len() {
            return None;
        }
        // SAFETY: D1: the word is inside, as just checked.
        let word = unsafe { self.map.start().add(offset) };
        // SAFETY: D3; entries are as long as their alignment, so what follows them is aligned.
        Some(unsafe { word.cast::<AtomicU64>().as_ref() })
    }

    fn head(&self) -> &DirectoryHeader {
        // SAFETY: D1, D2: the header is at the beginning, and does not change.
        unsafe { self.map.start().cast::<DirectoryHeader>().as_ref() }
    }

    fn entry(&self, host: u32) -> &HostEntry {
        let offset = size_of::<DirectoryHeader>() + host as usize * size_of::<HostEntry>();
        assert!(offset + size_of::<HostEntry>() <= self.map.len(), "host {host} of {}", self.hosts);
        // SAFETY: D1: the entry is inside, as just checked.
        let entry = unsafe { self.map.start().add(offset) };
        // SAFETY: D2; any bytes are a valid entry.
        unsafe { entry.cast::<HostEntry>().as_ref() }
    }
}

fn bytes(hosts: u32) -> u64 {
    size_of::<DirectoryHeader>() as u64 + u64::from(hosts) * size_of::<HostEntry>() as u64
}

/// Room for one bit of each peer.
fn bitmap_bytes(peers: u32) -> u64 {
    u64::from(peers).div_ceil(64) * 8
}

/// Which bitmap is which.
const GONE: u64 = 0;
const LEFT: u64 = 1;

const MAGIC: u64 = u64::from_le_bytes(*b"ferryd\0\x03");

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    fn three() -> Vec<Host> {
        let host = |first, ranks, port, addresses: &[&str]| Host {
            first,
            ranks,
            port,
            addresses: addresses.iter().map(|text| text.parse().expect("an address")).collect(),
        };
        vec![
            host(0, 2, 7001, &["10.0.0.1", "fe80::1"]),
            host(2, 1, 7002, &["10.0.0.2"]),
            host(3, 4, 7003, &["10.0.0.3"]),
        ]
    }

    #[test]
    fn every_rank_is_found_and_no_other() {
        let directory = Directory::create(&three(), 1400).expect("memory");
        let places: Vec<_> = (0..8).map(|rank| directory.place(rank)).collect();
        let expected = [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1), (2, 2), (2, 3)].map(Some);
        assert_eq!(places[..7], expected);
        assert_eq!((places[7], directory.size(), directory.frame_bytes_max()), (None, 7, 1400));
    }

    #[test]
    fn a_host_is_reached_where_it_has_been_heard() {
        let made = Directory::create(&three(), 1400).expect("memory");
        let file = made.file().try_clone().expect("a copy");
        let theirs = Directory::open(file.into()).expect("it is whole");
        assert_eq!(theirs.heard(0), None);
        made.note_heard(0, "10.9.9.9".parse().expect("an address"));
        assert_eq!(theirs.heard(0), None, "not an address of that host");
        made.note_heard(0, "fe80::1".parse().expect("an address"));
        assert_eq!(theirs.heard(0), Some("[fe80::1]:7001".parse().expect("an address")));
        assert_eq!(theirs.addresses(0).count(), 2);
    }

    #[test]
    fn ranks_that_are_gone_are_known_to_all() {
        let made = Directory::create(&three(), 1400).expect("memory");
        let file = made.file().try_clone().expect("a copy");
        let theirs = Directory::open(file.into()).expect("it is whole");
        made.mark_down(5);
        made.mark_down(7);
        let gone: Vec<u32> = theirs.peers().filter(|&rank| theirs.is_gone(rank)).collect();
        assert_eq!(gone, [5], "no rank 7 has been spawned, and nobody asks for it");
        assert!(!theirs.has_left(5), "it died");
    }

    #[test]
    fn spawned_ranks_are_found_once_they_are_noted() {
        let made = Directory::create(&three(), 1400).expect("memory");
        let file = made.file().try_clone().expect("a copy");
        let theirs = Directory::open(file.into()).expect("it is whole");
        let second = 7 + SPAWNED_MAX;
        assert!(theirs.place(second).is_none() && !theirs.has_spawned());
        made.note_spawned(1, 2);
        made.note_spawned(1, 1);
        let places = [second, second + 1, second + 2, 7].map(|rank| theirs.place(rank));
        assert_eq!(places, [Some((1, 1)), Some((1, 2)), None, None]);
        assert_eq!(theirs.peers().skip(7).collect::<Vec<_>>(), [second, second + 1]);
        made.mark_left(second + 1);
        let gone = |rank| (theirs.is_gone(rank), theirs.has_left(rank));
        assert_eq!([second, second + 1].map(gone), [(false, false), (true, true)]);
    }

    #[test]
    fn a_file_of_another_sort_is_not_taken() {
        let file = map::memory_file(4096).expect("memory");
        assert!(Directory::open(file.into()).is_err());
        let file = map::memory_file(3).expect("memory");
        assert!(Directory::open(file.into()).is_err());
    }

    #[test]
    fn its_length_stays() {
        let made = Directory::create(&three(), 1400).expect("memory");
        let len = made.file().metadata().expect("a file").len();
        assert!(made.file().set_len(0).is_err() && made.file().set_len(2 * len).is_err());
        // The same bytes in a file that another process could truncate beneath us.
        let copy = map::memory_file(len).expect("memory");
        let mut bytes = vec![0; usize::try_from(len).expect("short")];
        made.file().read_exact_at(&mut bytes, 0).expect("read");
        copy.write_all_at(&bytes, 0).expect("written");
        assert!(Directory::open(copy.try_clone().expect("a copy").into()).is_err());
        map::seal_length(&copy).expect("sealed");
        assert!(Directory::open(copy.into()).is_ok());
    }
}
