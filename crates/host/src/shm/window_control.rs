//! What the ranks of a host know of each other's part of a window: where it is, and its locks.
//!
//! Invariants, cited below by number.
//!   I1. The memory holds a `WindowControl` for each member, and then an `AttachedMemory` for each if the window is
//!       dynamic, all reserved before another rank maps it. Any bytes are valid for both, and zeros are nothing, with
//!       free locks.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::shm::process_lock::{Hold, ProcessLock};
use crate::shm::shared_memory::SharedMemory;

/// What is known of the parts of a window.
pub struct WindowControls {
    memory: SharedMemory,
    members: u32,
    dynamic: bool,
}

/// What is known of the part of one rank.
#[repr(C, align(64))]
pub struct WindowControl {
    /// The lock of passive targets.
    lock: ProcessLock,
    /// The unit of displacements, in bytes.
    unit: AtomicU32,
    /// The region of the rank's NIC, if all accesses go there.
    region: AtomicU32,
    /// Locks for what no atomic instruction does, by place.
    stripes: [ProcessLock; STRIPES],
    /// Where it begins: an offset in shared memory, or an address of its process.
    base: AtomicU64,
    /// Its length.
    bytes: AtomicU64,
    /// Where it begins in the rank's process.
    nic_address: AtomicU64,
    /// The region of the rank's NIC, also if others need it only for some accesses.
    nic_region: AtomicU32,
}

/// The memory that a rank has attached to a dynamic window.
#[repr(C, align(64))]
pub struct AttachedMemory {
    /// Guards the list.
    lock: ProcessLock,
    len: AtomicU32,
    /// Address and length of each piece.
    pieces: [[AtomicU64; 2]; ATTACHED_MAX],
}

/// Locks for parts of a rank's memory.
const STRIPES: usize = 53;
/// Bytes of memory that have one lock.
const STRIPE_BYTES: u64 = 4096;
/// The most pieces of memory that a rank attaches to a dynamic window.
pub const ATTACHED_MAX: usize = 4095;

const _: () = {
    assert!(size_of::<WindowControl>() == 256);
    assert!(size_of::<AttachedMemory>() == 64 << 10);
};

/// Where the part of a rank is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WindowPart {
    /// An offset in shared memory, or an address of its process.
    pub base: u64,
    /// Its length.
    pub bytes: u64,
    /// The unit of displacements, in bytes.
    pub unit: u32,
    /// The region of its NIC through which it is reached, or 0 if that is not necessary.
    pub region: u32,
}

/// How the NIC of a rank knows its part.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NicPart {
    /// The region, once it is open.
    pub region: u32,
    /// The address of the memory in the process of the rank.
    pub address: u64,
}

impl WindowControls {
    /// The memory that so many members need.
    pub fn bytes(members: u32, dynamic: bool) -> u64 {
        let attached = if dynamic { size_of::<AttachedMemory>() } else { 0 };
        u64::from(members) * (size_of::<WindowControl>() + attached) as u64
    }

    /// The controls in `memory`, which is reserved for so many members.
    pub fn new(memory: SharedMemory, members: u32, dynamic: bool) -> WindowControls {
        WindowControls { memory, members, dynamic }
    }

    /// The control of a member.
    #[inline]
    pub fn of(&self, member: u32) -> &WindowControl {
        assert!(member < self.members, "member {member} of {}", self.members);
        // SAFETY: I1.
        let control = unsafe { self.memory.start().cast::<WindowControl>().add(member as usize) };
        // SAFETY: I1.
        unsafe { control.as_ref() }
    }

    /// The memory that a member has attached, if the window is dynamic.
    pub fn attached(&self, member: u32) -> Option<&AttachedMemory> {
        assert!(member < self.members, "member {member} of {}", self.members);
        let controls = self.memory.start().cast::<WindowControl>();
        self.dynamic.then(|| {
            // SAFETY: I1.
            let first = unsafe { controls.add(self.members as usize).cast::<AttachedMemory>() };
            // SAFETY: I1.
            let attached = unsafe { first.add(member as usize) };
            // SAFETY: I1.
            unsafe { attached.as_ref() }
        })
    }

    /// Gives the memory back, when no member uses it any more.
    pub fn give_back(&self) {
        self.memory.give_back(0, WindowControls::bytes(self.members, self.dynamic));
    }
}

impl WindowControl {
    /// Says where the part is, before other ranks ask.
    pub fn set_part(&self, part: WindowPart, nic: NicPart) {
        self.base.store(part.base, Ordering::Relaxed);
        self.bytes.store(part.bytes, Ordering::Relaxed);
        self.unit.store(part.unit, Ordering::Relaxed);
        self.region.store(part.region, Ordering::Relaxed);
        self.nic_address.store(nic.address, Ordering::Relaxed);
        self.nic_region.store(nic.region, Ordering::Relaxed);
    }

    /// Where the part is.
    #[inline]
    pub fn part(&self) -> WindowPart {
        WindowPart {
            base: self.base.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            unit: self.unit.load(Ordering::Relaxed),
            region: self.region.load(Ordering::Relaxed),
        }
    }

    /// How the NIC of the rank knows the part.
    pub fn nic_part(&self) -> NicPart {
        NicPart {
            region: self.nic_region.load(Ordering::Relaxed),
            address: self.nic_address.load(Ordering::Relaxed),
        }
    }

    /// The lock of passive targets.
    pub fn lock(&self) -> &ProcessLock {
        &self.lock
    }

    /// Runs `change` while no other does so with bytes of the same range.
    pub fn alone<R>(&self, start: u64, bytes: u64, change: impl FnOnce() -> R) -> R {
        let stripes = self.stripes_of(start, bytes);
        stripes.clone().for_each(|lock| lock.acquire(Hold::Exclusive));
        let result = change();
        stripes.for_each(|lock| lock.release(Hold::Exclusive));
        result
    }

    /// The locks of a range, always in the same order.
    fn stripes_of(&self, start: u64, bytes: u64) -> impl Iterator<Item = &ProcessLock> + Clone {
        let first = start / STRIPE_BYTES;
        let last = start.saturating_add(bytes.saturating_sub(1)) / STRIPE_BYTES;
        let count = (last - first).saturating_add(1);
        let has = move |stripe: u64| {
            let ahead = (stripe + STRIPES as u64 - first % STRIPES as u64) % STRIPES as u64;
            ahead < count
        };
        (0..).zip(&self.stripes).filter(move |&(stripe, _)| has(stripe)).map(|(_, lock)| lock)
    }
}

impl AttachedMemory {
    /// Adds memory to a dynamic window. False if there is no room in the list.
    pub fn add(&self, address: u64, bytes: u64) -> bool {
        self.locked(|len| {
            let Some(place) = self.pieces.get(len) else { return (len, false) };
            place[0].store(address, Ordering::Relaxed);
            place[1].store(bytes, Ordering::Relaxed);
            (len + 1, true)
        })
    }

    /// Removes memory from a dynamic window. False if it is not attached.
    pub fn remove(&self, address: u64) -> bool {
        self.locked(|len| {
            let list = &self.pieces[..len];
            let at = list.iter().position(|place| place[0].load(Ordering::Relaxed) == address);
            let Some(at) = at else { return (len, false) };
            for (place, last) in list[at].iter().zip(&list[len - 1]) {
                place.store(last.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            (len - 1, true)
        })
    }

    /// The address and the length of each piece.
    pub fn pieces(&self) -> Vec<[u64; 2]> {
        let load = |piece: &[AtomicU64; 2]| [0, 1].map(|word| piece[word].load(Ordering::Relaxed));
        self.locked(|len| (len, self.pieces[..len].iter().map(load).collect()))
    }

    /// Whether a range is in attached memory, which may be several pieces next to each other.
    pub fn holds(&self, address: u64, bytes: u64) -> bool {
        let Some(end) = address.checked_add(bytes) else { return false };
        self.locked(|len| {
            // The end of the piece that holds the byte at `at`.
            let end_of = |at: u64| {
                let ends = self.pieces[..len].iter().map(|piece| {
                    let [start, bytes] = [0, 1].map(|word| piece[word].load(Ordering::Relaxed));
                    (start, start.saturating_add(bytes))
                });
                ends.filter(|&(start, end)| (start..end).contains(&at)).map(|(_, end)| end).max()
            };
            let mut at = Some(address);
            while let Some(reached) = at.filter(|&reached| reached < end) {
                at = end_of(reached);
            }
            (len, at.is_some())
        })
    }

    /// Runs `change` with the length of the list, and stores the length that it returns.
    fn locked<R>(&self, change: impl FnOnce(usize) -> (usize, R)) -> R {
        self.lock.acquire(Hold::Exclusive);
        let len = self.len.load(Ordering::Relaxed) as usize;
        let (len, result) = change(len.min(ATTACHED_MAX));
        self.len.store(u32::try_from(len).expect("few"), Ordering::Relaxed);
        self.lock.release(Hold::Exclusive);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::segment::Segment;

    fn controls(members: u32, dynamic: bool) -> WindowControls {
        let segment = Segment::create(1, 7, false).expect("memory");
        let bytes = WindowControls::bytes(members, dynamic);
        let offset = segment.claim_for_window(bytes).expect("room");
        let memory = SharedMemory::map(&segment, offset, bytes).expect("a mapping");
        memory.reserve(0, bytes).expect("memory");
        WindowControls::new(memory, members, dynamic)
    }

    #[test]
    fn attached_memory_is_found_until_it_is_detached() {
        let controls = controls(2, true);
        let attached = controls.attached(1).expect("a dynamic window");
        assert!(attached.add(1000, 100) && attached.add(5000, 10));
        assert!(attached.holds(1000, 100) && attached.holds(5003, 7));
        assert!(!attached.holds(999, 2) && !attached.holds(1050, 51));
        assert!(!attached.holds(u64::MAX, 2));
        assert_eq!(attached.pieces(), [[1000, 100], [5000, 10]]);
        assert!(attached.add(1100, 50) && attached.holds(1050, 100) && !attached.holds(1050, 101));
        assert!(attached.remove(1100));
        assert!(attached.remove(1000) && !attached.remove(1000));
        assert!(!attached.holds(1000, 1) && attached.holds(5000, 10));
        assert!(!controls.attached(0).expect("a dynamic window").holds(5000, 10));
        assert!((0..ATTACHED_MAX as u64 - 1).all(|at| attached.add(at, 1)));
        assert!(!attached.add(77, 1));
    }

    #[test]
    fn a_range_has_the_locks_of_all_its_stripes() {
        let controls = controls(1, false);
        let control = controls.of(0);
        let locks = |start, bytes| control.stripes_of(start, bytes).count();
        assert_eq!(locks(0, 0), 1);
        assert_eq!(locks(4095, 1), 1);
        assert_eq!(locks(4095, 2), 2);
        assert_eq!(locks(56 * 4096, 4097), 2);
        assert_eq!(locks(12345, 1 << 30), STRIPES);
        // Whoever has one of them keeps others out.
        control.alone(0, 8, || assert!(!control.stripes[0].try_acquire(Hold::Exclusive)));
        assert!(control.stripes[0].try_acquire(Hold::Exclusive));
    }
}
