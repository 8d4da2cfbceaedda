//! An exchange between two processes through shared memory: the least time that any exchange on this machine takes.
//!
//! One side, [`First`], begins every trip and measures; the other, [`Second`], answers. They share
//! a file without a name, which the first creates and the second maps again. A side whose partner
//! does not answer gives up after a while instead of spinning for ever.
//!
//! All unsafe code of `ferry bench` is here and in `machine.rs`.

use std::cell::UnsafeCell;
use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::{Duration, Instant};

// Invariants, cited below by number.
//   I1. `Mapping` owns MAPPED_BYTES bytes at `base`, aligned to a page, readable and writable, from
//       `Mapping::new` to `drop`; the file behind it is as long as that and is never shortened.
//   I2. They are a `Control`, then, from BUFFER_AT on, a buffer. Any bytes are a valid `Control`.
//   I3. A trip has a turn. The first side writes its line before it releases the turn in its flag,
//       and not again before it has acquired the same turn from the other flag; the second side
//       acquires first and releases last. So a line is never written while the other side reads
//       it. The buffer is the other way round: the second side writes it inside its trip, the
//       first reads it after that and before the next one begins.
//   I4. Memory that a system call is given is ours, and has the size that we pass; its result is
//       checked before it is used.

/// The side that begins each trip.
pub(super) struct First {
    memory: Mapping,
    turn: u32,
}

/// The side that answers.
pub(super) struct Second {
    memory: Mapping,
    turn: u32,
}

/// The data in the cache line of a flag.
pub(super) type Payload = [u8; 56];

/// The partner has not answered for [`TIMEOUT`].
#[derive(Debug)]
pub(super) struct Silent;

impl First {
    /// Creates the memory. The file is for the second side.
    pub(super) fn new() -> io::Result<(First, File)> {
        // SAFETY: I4: the name ends with a zero, and nothing else is read.
        let raw = unsafe { libc::memfd_create(c"ferry-bench".as_ptr(), libc::MFD_CLOEXEC) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: I4: the call has just returned this descriptor; it has no other owner.
        let file = File::from(unsafe { OwnedFd::from_raw_fd(raw) });
        file.set_len(MAPPED_BYTES as u64)?;
        let memory = Mapping::new(&file)?;
        // SAFETY: I1, I2: the buffer is inside the mapping. The second side does not exist yet.
        unsafe { memory.buffer(0).write_bytes(1, BUFFER_BYTES) };
        Ok((First { memory, turn: 0 }, file))
    }

    /// A round trip of a flag, each way in a cache line of its own.
    #[inline]
    pub(super) fn flag(&mut self) -> Result<(), Silent> {
        self.turn += 1;
        let control = self.memory.control();
        // Pairs with the Acquire in `Second::flag`.
        control.ping.0.store(self.turn, Release);
        until(&control.pong.0, self.turn)
    }

    /// A round trip of a flag and a payload in the same cache line.
    #[inline]
    pub(super) fn line(&mut self, payload: Payload) -> Result<Payload, Silent> {
        self.turn += 1;
        let [ours, theirs] = &self.memory.control().lines;
        // SAFETY: I3: the turn before is over, and this one has not been released.
        unsafe { ours.data.get().write(payload) };
        // Pairs with the Acquire in `Second::line`.
        ours.flag.store(self.turn, Release);
        until(&theirs.flag, self.turn)?;
        // SAFETY: I3: the turn has come back; the other side writes again in the next one.
        Ok(unsafe { theirs.data.get().read() })
    }

    /// Lets the other side write a part of the buffer, and times the copy out of it.
    pub(super) fn copy(&mut self, into: &mut [u8]) -> Result<Duration, Silent> {
        self.flag()?;
        let from = self.memory.buffer(slot(into.len(), self.turn));
        let start = Instant::now();
        // SAFETY: I2: `slot` keeps the part inside the buffer. I3: the other side is done with it.
        unsafe { from.copy_to_nonoverlapping(into.as_mut_ptr(), into.len()) };
        let took = start.elapsed();
        std::hint::black_box(into);
        Ok(took)
    }
}

impl Second {
    /// Maps `file`, which the first side created.
    pub(super) fn new(file: &impl AsFd) -> io::Result<Second> {
        Ok(Second { memory: Mapping::new(file)?, turn: 0 })
    }

    #[inline]
    pub(super) fn flag(&mut self) -> Result<(), Silent> {
        self.turn += 1;
        let control = self.memory.control();
        until(&control.ping.0, self.turn)?;
        // Pairs with the Acquire in `First::flag`.
        control.pong.0.store(self.turn, Release);
        Ok(())
    }

    #[inline]
    pub(super) fn line(&mut self) -> Result<(), Silent> {
        self.turn += 1;
        let [theirs, ours] = &self.memory.control().lines;
        until(&theirs.flag, self.turn)?;
        // SAFETY: I3: the turn has come to us; the other side writes again when it is back.
        let payload = std::hint::black_box(unsafe { theirs.data.get().read() });
        // SAFETY: I3: the other side reads our line when we have released the turn.
        unsafe { ours.data.get().write(payload) };
        // Pairs with the Acquire in `First::line`.
        ours.flag.store(self.turn, Release);
        Ok(())
    }

    /// Writes the part of the buffer that the first side will copy.
    pub(super) fn fill(&mut self, bytes: usize) -> Result<(), Silent> {
        self.turn += 1;
        let control = self.memory.control();
        until(&control.ping.0, self.turn)?;
        let part = self.memory.buffer(slot(bytes, self.turn));
        let [byte, ..] = self.turn.to_le_bytes();
        // SAFETY: I2: `slot` keeps the part inside the buffer. I3: it is our turn.
        unsafe { part.write_bytes(byte, bytes) };
        // Pairs with the Acquire in `First::flag`.
        control.pong.0.store(self.turn, Release);
        Ok(())
    }
}

/// The beginning of the shared memory.
#[repr(C)]
struct Control {
    ping: Flag,
    pong: Flag,
    /// The cache line of the first side, and that of the second.
    lines: [CacheLine; 2],
}

/// A flag, aligned to two cache lines, since processors fetch lines in pairs.
#[repr(C, align(128))]
struct Flag(AtomicU32);

#[repr(C, align(128))]
struct CacheLine {
    flag: AtomicU32,
    data: UnsafeCell<Payload>,
}

// The flag and its data have to be in one cache line.
const _: () = assert!(offset_of!(CacheLine, data) + size_of::<Payload>() <= 64);
const _: () = assert!(size_of::<Control>() <= BUFFER_AT);

struct Mapping {
    base: NonNull<u8>,
}

impl Mapping {
    fn new(file: &impl AsFd) -> io::Result<Mapping> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let descriptor = file.as_fd().as_raw_fd();
        let anywhere = std::ptr::null_mut();
        // SAFETY: I4: the kernel chooses the address, so no other mapping is replaced.
        let base = unsafe {
            libc::mmap(anywhere, MAPPED_BYTES, protection, libc::MAP_SHARED, descriptor, 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { base: NonNull::new(base.cast()).expect("a mapping is not at zero") })
    }

    #[inline]
    fn control(&self) -> &Control {
        // SAFETY: I1, I2. What both sides write is in atomics and cells.
        unsafe { self.base.cast().as_ref() }
    }

    #[inline]
    fn buffer(&self, offset: usize) -> *mut u8 {
        assert!(offset < BUFFER_BYTES);
        // SAFETY: I2: the buffer is BUFFER_BYTES long and ends with the mapping.
        unsafe { self.base.as_ptr().add(BUFFER_AT + offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: I1: the mapping is ours, and references to it borrow from `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), MAPPED_BYTES) };
    }
}

/// Spins, without a pause, until the flag has the value `turn`.
#[inline]
fn until(flag: &AtomicU32, turn: u32) -> Result<(), Silent> {
    let mut since = None;
    loop {
        for _ in 0..POLLS_BETWEEN_CLOCKS {
            // Pairs with the Release of the other side's step of the same name.
            if flag.load(Acquire) == turn {
                return Ok(());
            }
        }
        if since.get_or_insert_with(Instant::now).elapsed() > TIMEOUT {
            return Err(Silent);
        }
    }
}

/// The part of the buffer for a turn. Parts alternate, so that a copy does not find the last one in its cache.
fn slot(bytes: usize, turn: u32) -> usize {
    let slots = (BUFFER_BYTES / bytes).clamp(1, 4);
    assert!(slots * bytes <= BUFFER_BYTES, "{bytes} bytes do not fit the buffer");
    turn as usize % slots * bytes
}

const BUFFER_AT: usize = 4096;
const BUFFER_BYTES: usize = 16 << 20;
const MAPPED_BYTES: usize = BUFFER_AT + BUFFER_BYTES;
const POLLS_BETWEEN_CLOCKS: u32 = 1 << 16;
const TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs both sides. A thread with a mapping of its own is as good as a process.
    fn with_partner(partner: impl FnOnce(Second) + Send, first: impl FnOnce(First)) {
        let (one, file) = First::new().expect("memory can be shared");
        std::thread::scope(|scope| {
            scope.spawn(move || partner(Second::new(&file).expect("it can be mapped again")));
            first(one);
        });
    }

    #[test]
    fn payloads_come_back_as_they_went() {
        with_partner(
            |mut second| (0..10).for_each(|_| second.line().expect("an answer")),
            |mut first| {
                for byte in 0..10 {
                    assert_eq!(first.line([byte; 56]).expect("an answer"), [byte; 56]);
                }
            },
        );
    }

    #[test]
    fn a_copy_is_of_what_the_other_side_wrote_in_this_turn() {
        with_partner(
            |mut second| {
                second.flag().expect("an answer");
                (0..9).for_each(|_| second.fill(4096).expect("an answer"));
            },
            |mut first| {
                first.flag().expect("an answer");
                for turn in 2..11 {
                    let mut into = vec![0; 4096];
                    first.copy(&mut into).expect("an answer");
                    assert!(into.iter().all(|&byte| byte == turn), "turn {turn}");
                }
            },
        );
    }

    #[test]
    fn slots_stay_inside_the_buffer() {
        for bytes in [1, 4096, 4 << 20, 5 << 20, 16 << 20] {
            assert!((0..9).all(|turn| slot(bytes, turn) + bytes <= BUFFER_BYTES));
        }
        assert_ne!(slot(4096, 1), slot(4096, 2));
    }
}
