//! A ring of frames from one process to another, in memory that both have mapped.
//!
//! A frame of up to 56 bytes travels in one cache line together with the mark that says it is there, so that it costs
//! the receiver one miss. A plain message that is a little longer takes two slots, whose lines the receiver fetches at
//! the same time. The bytes of other long frames go to the data lines, and the slot says where. The mark counts slots, so a slot need not be cleared before it is used again. The producer alone decides where data goes; the
//! consumer tells it now and then how many slots it has taken.
//!
//! Invariants, cited below by number.
//!   I1. A ring has one `Producer` and one `Consumer`. Only the producer writes slots and data lines, only the
//!       consumer writes `consumed`.
//!   I2. The producer writes a slot, and the data lines that it names, only when the slot has been consumed; the
//!       consumer reads them only between seeing the mark and publishing `consumed`.
//!   I3. What comes from the other side is compared with the bounds of the ring before it is used.

use crate::sync::{AtomicU32, AtomicU64, Ordering, UnsafeCell, fence};
pub(crate) use crate::sync::{DATA_LINES_MAX, SLOTS, UNTOLD_MAX};

/// The bytes of a frame that fit its slot.
pub(crate) const INLINE_BYTES: usize = 56;
/// The bytes of payload that fit beside an envelope of two words.
const PLAIN_BYTES: usize = INLINE_BYTES - 16;
/// The bytes of payload that fit two slots beside such an envelope.
pub(crate) const PLAIN_BYTES_MAX: usize = PLAIN_BYTES + INLINE_BYTES;
/// The bytes of a data line.
pub(crate) const LINE_BYTES: usize = 64;

/// The most data lines that a frame of this length takes: its payload begins with one.
pub(crate) fn lines_max(len: usize) -> u32 {
    u32::try_from(len.div_ceil(LINE_BYTES) + 1).expect("a frame is short")
}

/// What the consumer tells the producer. A ring begins with zeros, which are the defaults here.
#[derive(Default)]
#[repr(C, align(128))]
pub(crate) struct Control {
    /// Slots that have been taken, since the beginning.
    consumed: AtomicU32,
    /// The producer has found no room, and wants to be woken when there is some.
    want_room: AtomicU32,
}

/// One frame, or where it is.
#[derive(Default)]
#[repr(C, align(64))]
pub(crate) struct Slot {
    /// Mark, then length and kind: see [`head`].
    head: AtomicU64,
    body: UnsafeCell<[u8; INLINE_BYTES]>,
}

/// Room for 64 bytes of long frames.
#[derive(Default)]
#[repr(C, align(64))]
pub(crate) struct CacheLine(UnsafeCell<[u8; LINE_BYTES]>);

impl Slot {
    /// Writes an envelope of two words, and the payload behind it.
    #[inline(always)]
    fn write_plain(&self, [first, second]: [u64; 2], payload: &[u8]) {
        self.body.with_mut(|body| {
            // SAFETY: I2: the slot is the producer's, and two words fit it.
            unsafe { body.cast::<[u64; 2]>().write_unaligned([first.to_le(), second.to_le()]) };
            // SAFETY: as above: the payload begins after the words, and fits.
            let behind = unsafe { body.cast::<u8>().add(16) };
            // SAFETY: as above.
            unsafe { copy_short(payload, behind) };
        });
    }
}

// SAFETY: I1, I2: producer and consumer never touch the same bytes at the same time.
unsafe impl Sync for Slot {}
// SAFETY: as above.
unsafe impl Sync for CacheLine {}

/// The three parts of a ring. Their mapping lives as long as the holder of this keeps it.
#[derive(Clone, Copy)]
pub(crate) struct Ring {
    pub(crate) control: &'static Control,
    pub(crate) slots: &'static [Slot],
    pub(crate) lines: &'static [CacheLine],
}

impl Ring {
    #[inline(always)]
    fn slot(&self, count: u32) -> &'static Slot {
        &self.slots[(count % SLOTS) as usize]
    }

    /// The bytes of `lines` data lines from `first` on.
    fn data(&self, first: u32, lines: u32) -> *const u8 {
        let lines = &self.lines[first as usize..][..lines as usize];
        // Shows loom that we read them; otherwise it does nothing.
        lines.iter().for_each(|line| line.0.with(|_| ()));
        lines.as_ptr().cast()
    }

    /// The same, to write.
    fn data_mut(&self, first: u32, lines: u32) -> *mut u8 {
        let lines = &self.lines[first as usize..][..lines as usize];
        lines.iter().for_each(|line| line.0.with_mut(|_| ()));
        lines.as_ptr().cast_mut().cast()
    }
}

/// What a slot brings.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Event<'a> {
    /// A frame for the NIC.
    Frame(&'a [u8]),
    /// A write into our memory is over: the receive that it is for, and its bytes.
    Landed { ticket: u64, bytes: u64 },
    /// The slot is invalid: the producer is faulty.
    Broken,
}

/// Why a frame was not taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stuck {
    /// There is no room now.
    Full,
    /// The data lines are empty, but too few: [`Producer::widen`].
    Narrow,
}

/// The right to put frames into a ring.
pub(crate) struct Producer {
    ring: Ring,
    /// Slots written.
    tail: u32,
    /// Slots that we know to be consumed.
    seen: u32,
    /// Data lines in use: their memory has been reserved.
    lines: u32,
    /// The next data line to write.
    next: u32,
    /// Data lines that are not free.
    used: u32,
    /// A frame found no room among the data lines: the ring should be widened.
    cramped: bool,
    /// Data lines that each slot holds, including those skipped at the end of the ring.
    held: [u16; SLOTS as usize],
}

impl Producer {
    /// The producer of a ring that may use `lines` data lines at first.
    pub(crate) fn new(ring: Ring, lines: u32) -> Producer {
        let held = [0; SLOTS as usize];
        let (tail, seen, next, used) = (0, 0, 0, 0);
        Producer { ring, tail, seen, lines, next, used, cramped: false, held }
    }

    /// Puts a frame into the ring: `envelope`, then `payload`.
    #[inline]
    pub(crate) fn push(&mut self, envelope: &[u8], payload: &[u8]) -> Result<(), Stuck> {
        self.find_slots(1)?;
        let len = envelope.len() + payload.len();
        if len > INLINE_BYTES {
            return self.push_long(envelope, payload);
        }
        let slot = self.ring.slot(self.tail);
        slot.body.with_mut(|body| {
            let body = body.cast::<u8>();
            // SAFETY: I2: the slot is ours, and the envelope fits it.
            unsafe { copy_short(envelope, body) };
            // SAFETY: I2, and both together fit.
            let behind = unsafe { body.add(envelope.len()) };
            // SAFETY: as above.
            unsafe { copy_short(payload, behind) };
        });
        self.publish(slot, FRAME, len, 0);
        Ok(())
    }

    /// Puts a short frame whose envelope is two words into the ring; false if there is no room.
    #[inline(always)]
    pub(crate) fn push_plain(&mut self, words: [u64; 2], payload: &[u8]) -> bool {
        if payload.len() > PLAIN_BYTES {
            return self.push_double(words, payload);
        }
        if self.find_slots(1).is_err() {
            return false;
        }
        let slot = self.ring.slot(self.tail);
        slot.write_plain(words, payload);
        self.publish(slot, FRAME, 16 + payload.len(), 0);
        true
    }

    /// The same for a frame that takes two slots.
    #[inline(never)]
    fn push_double(&mut self, words: [u64; 2], payload: &[u8]) -> bool {
        debug_assert!(payload.len() <= PLAIN_BYTES_MAX, "it fits two slots");
        if self.find_slots(2).is_err() {
            return false;
        }
        let (slot, number) = (self.ring.slot(self.tail), self.tail.wrapping_add(1));
        let second = self.ring.slot(number);
        let (begin, rest) = payload.split_at(PLAIN_BYTES);
        slot.write_plain(words, begin);
        second.body.with_mut(|body| {
            // SAFETY: I2: the slot is ours, and the rest fits it.
            unsafe { copy_short(rest, body.cast::<u8>()) };
        });
        self.held[(number % SLOTS) as usize] = 0;
        // The Release of the first slot publishes it.
        second.head.store(head(number, rest.len(), SECOND_HALF), Ordering::Relaxed);
        self.publish(slot, DOUBLE_FRAME, 16 + payload.len(), 0);
        self.tail = self.tail.wrapping_add(1);
        true
    }

    #[inline(never)]
    fn push_long(&mut self, envelope: &[u8], payload: &[u8]) -> Result<(), Stuck> {
        let len = envelope.len() + payload.len();
        // The payload begins with a line, so that both sides copy whole lines.
        let lead = envelope.len().next_multiple_of(LINE_BYTES) - envelope.len();
        let lines = u32::try_from((lead + len).div_ceil(LINE_BYTES)).expect("a frame is short");
        let (first, held) = self.place(lines)?;
        // SAFETY: I2: `place` found lines for what is before the frame, too.
        let data = unsafe { self.ring.data_mut(first, lines).add(lead) };
        // SAFETY: I2: `place` found lines that no slot holds, enough for the whole frame.
        unsafe { std::ptr::copy_nonoverlapping(envelope.as_ptr(), data, envelope.len()) };
        // SAFETY: as above; the envelope is shorter than the frame.
        let behind = unsafe { data.add(envelope.len()) };
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(payload.as_ptr(), behind, payload.len()) };
        let slot = self.ring.slot(self.tail);
        let place = [first, u32::try_from(lead).expect("it is shorter than a line")];
        slot.body.with_mut(|body| {
            // SAFETY: I2: the slot is ours, and has room for eight bytes.
            unsafe { body.cast::<[[u8; 4]; 2]>().write(place.map(u32::to_le_bytes)) };
        });
        self.publish(slot, LONG_FRAME, len, held);
        Ok(())
    }

    /// Tells the consumer that bytes have been written into its memory.
    pub(crate) fn push_landed(&mut self, ticket: u64, bytes: u64) -> Result<(), Stuck> {
        self.find_slots(1)?;
        let slot = self.ring.slot(self.tail);
        slot.body.with_mut(|body| {
            // SAFETY: I2: the slot is ours, and has room for two numbers.
            unsafe { body.cast::<[[u8; 8]; 2]>().write([ticket, bytes].map(u64::to_le_bytes)) };
        });
        self.publish(slot, LANDED, 16, 0);
        Ok(())
    }

    /// Makes sure that this many slots from `tail` on are ours to write (I2).
    #[inline(always)]
    fn find_slots(&mut self, count: u32) -> Result<(), Stuck> {
        let is_full = |ring: &Producer| ring.tail.wrapping_sub(ring.seen) > SLOTS - count;
        if is_full(self) {
            self.look();
            if is_full(self) {
                return Err(Stuck::Full);
            }
        }
        Ok(())
    }

    /// Shows the consumer what is in `slot`, the one at `tail`.
    #[inline(always)]
    fn publish(&mut self, slot: &Slot, kind: u64, len: usize, held: u16) {
        self.held[(self.tail % SLOTS) as usize] = held;
        // Pairs with the Acquire in `peek`: the frame is written before it is seen.
        slot.head.store(head(self.tail, len, kind), Ordering::Release);
        self.tail = self.tail.wrapping_add(1);
    }

    /// Finds free data lines, and returns the first and how many they take, including those skipped.
    fn place(&mut self, lines: u32) -> Result<(u32, u16), Stuck> {
        if self.used + self.skip(lines) + lines > self.lines {
            self.look();
        }
        if self.used == 0 {
            self.next = 0;
            if lines > self.lines || self.cramped && self.lines < DATA_LINES_MAX {
                return Err(Stuck::Narrow);
            }
        }
        let held = self.skip(lines) + lines;
        if self.used + held > self.lines {
            self.cramped = true;
            return Err(Stuck::Full);
        }
        let first = if self.wraps(lines) { 0 } else { self.next };
        self.next = first + lines;
        self.used += held;
        Ok((first, u16::try_from(held).expect("fewer than 65,536 lines")))
    }

    /// Whether a frame of this many data lines has to begin at the first line, because a frame is in one piece.
    fn wraps(&self, lines: u32) -> bool {
        self.next + lines > self.lines
    }

    /// The lines before the end that such a frame skips.
    fn skip(&self, lines: u32) -> u32 {
        if self.wraps(lines) { self.lines - self.next } else { 0 }
    }

    /// How many data lines there are, and how many there would be after [`Producer::widen`] for a waiting frame of
    /// `len` bytes: twice as many, or enough for the frame.
    pub(crate) fn wider(&self, len: usize) -> (u32, u32) {
        (self.lines, (self.lines * 2).max(lines_max(len)).min(DATA_LINES_MAX))
    }

    /// Allows more data lines to be used. None may be in use.
    pub(crate) fn widen(&mut self, lines: u32) {
        assert!(self.used == 0 && lines <= DATA_LINES_MAX, "only an empty ring can be widened");
        self.lines = lines;
        self.cramped = false;
    }

    /// Stops asking for more data lines, because there is no memory for them.
    pub(crate) fn give_up_widening(&mut self) {
        self.cramped = false;
    }

    /// Reads how far the consumer is; true if it has moved.
    pub(crate) fn look(&mut self) -> bool {
        // Pairs with the Release in `Consumer::publish`: it has read what it says it has.
        let consumed = self.ring.control.consumed.load(Ordering::Acquire);
        // I3: it cannot have taken more than there was.
        if consumed.wrapping_sub(self.seen) > self.tail.wrapping_sub(self.seen) {
            return false;
        }
        let moved = consumed != self.seen;
        while self.seen != consumed {
            self.used -= u32::from(self.held[(self.seen % SLOTS) as usize]);
            self.seen = self.seen.wrapping_add(1);
        }
        moved
    }

    /// Slots that we know to be consumed, since the beginning.
    pub(crate) fn seen(&self) -> u32 {
        self.seen
    }

    /// Asks to be woken when there is room. True if something has been consumed meanwhile, for which no wake-up will
    /// come.
    #[must_use]
    pub(crate) fn want_room(&mut self) -> bool {
        self.ring.control.want_room.store(1, Ordering::Relaxed);
        // Pairs with the fence in `Consumer::publish`: either we see its count, or it sees our `want_room`.
        fence(Ordering::SeqCst);
        self.look()
    }

    /// Whether everything has been consumed.
    pub(crate) fn is_drained(&mut self) -> bool {
        self.look();
        self.seen == self.tail
    }
}

/// The right to take frames out of a ring.
pub(crate) struct Consumer {
    ring: Ring,
    /// Slots taken.
    next: u32,
    /// Slots that the producer knows to be taken.
    told: u32,
    /// Slots of the frame that `peek` showed.
    width: u32,
    /// The bytes of a frame that takes two slots, in one piece.
    double: [u8; 2 * INLINE_BYTES],
}

impl Consumer {
    pub(crate) fn new(ring: Ring) -> Consumer {
        Consumer { ring, next: 0, told: 0, width: 1, double: [0; 2 * INLINE_BYTES] }
    }

    /// Whether a frame is there.
    #[inline(always)]
    pub(crate) fn is_ready(&self) -> bool {
        // Pairs with the Release in `Producer::publish`.
        let head = self.ring.slot(self.next).head.load(Ordering::Acquire);
        mark(head) == mark_of(self.next)
    }

    /// The next frame, if it is there. It stays until [`Consumer::advance`].
    #[inline(always)]
    pub(crate) fn peek(&mut self) -> Option<Event<'_>> {
        let slot = self.ring.slot(self.next);
        // Pairs with the Release in `Producer::publish`: what is seen is written.
        let head = slot.head.load(Ordering::Acquire);
        if mark(head) != mark_of(self.next) {
            return None;
        }
        let len = len(head);
        let body = slot.body.with(<*const [u8; INLINE_BYTES]>::cast::<u8>);
        self.width = 1;
        Some(match kind(head) {
            FRAME if len <= INLINE_BYTES => {
                // SAFETY: I2: the slot is ours until `advance`; I3: `len` fits it.
                Event::Frame(unsafe { std::slice::from_raw_parts(body, len) })
            }
            LONG_FRAME => self.peek_long(body, len),
            DOUBLE_FRAME => self.peek_double(body, len),
            LANDED => {
                // SAFETY: I2: the slot is ours until `advance`.
                let numbers = unsafe { body.cast::<[[u8; 8]; 2]>().read() };
                let [ticket, bytes] = numbers.map(u64::from_le_bytes);
                Event::Landed { ticket, bytes }
            }
            _ => Event::Broken,
        })
    }

    #[inline(never)]
    fn peek_double(&mut self, body: *const u8, len: usize) -> Event<'_> {
        let number = self.next.wrapping_add(1);
        let second = self.ring.slot(number);
        let rest = len.wrapping_sub(INLINE_BYTES);
        // It was published by the head of the first slot.
        if second.head.load(Ordering::Relaxed) != head(number, rest, SECOND_HALF)
            || rest > INLINE_BYTES
        {
            return Event::Broken;
        }
        self.width = 2;
        let (begin, end) = self.double.split_at_mut(INLINE_BYTES);
        // SAFETY: I2: both slots are ours until `advance`.
        begin.copy_from_slice(unsafe { std::slice::from_raw_parts(body, INLINE_BYTES) });
        let body = second.body.with(<*const [u8; INLINE_BYTES]>::cast::<u8>);
        // SAFETY: as above.
        end.copy_from_slice(unsafe { std::slice::from_raw_parts(body, INLINE_BYTES) });
        Event::Frame(&self.double[..len])
    }

    #[inline(never)]
    fn peek_long(&self, body: *const u8, len: usize) -> Event<'_> {
        // SAFETY: I2: the slot is ours until `advance`.
        let place = unsafe { body.cast::<[[u8; 4]; 2]>().read() };
        let [first, lead] = place.map(u32::from_le_bytes);
        let lines = (lead as usize + len).div_ceil(LINE_BYTES);
        let lines = u32::try_from(lines).unwrap_or(u32::MAX);
        if first.checked_add(lines).is_none_or(|end| end > DATA_LINES_MAX) {
            return Event::Broken;
        }
        // SAFETY: I3: the frame begins in these lines, and ends with the last.
        let data = unsafe { self.ring.data(first, lines).add(lead as usize) };
        // SAFETY: I2: the lines are ours until `advance`; I3: they are inside the ring.
        Event::Frame(unsafe { std::slice::from_raw_parts(data, len) })
    }

    /// Releases what `peek` showed. True if the producer wants to be woken.
    #[inline(always)]
    pub(crate) fn advance(&mut self, fenced: bool) -> bool {
        self.next = self.next.wrapping_add(self.width);
        // Not for every slot: the producer would have to fetch the line from us each time.
        self.next.wrapping_sub(self.told) >= UNTOLD_MAX && self.publish(fenced)
    }

    /// Tells the producer, when there is nothing to take, how many slots have been taken.
    #[inline(always)]
    pub(crate) fn rest(&mut self, fenced: bool) -> bool {
        self.told != self.next && self.publish(fenced)
    }

    fn publish(&mut self, fenced: bool) -> bool {
        self.told = self.next;
        // Pairs with the Acquire in `Producer::look`: we have read what we say we have.
        self.ring.control.consumed.store(self.next, Ordering::Release);
        if fenced {
            // Pairs with the fence in `Producer::want_room`.
            fence(Ordering::SeqCst);
        }
        let want_room = &self.ring.control.want_room;
        want_room.load(Ordering::Relaxed) != 0 && want_room.swap(0, Ordering::Relaxed) != 0
    }
}

const FRAME: u64 = 0;
const LONG_FRAME: u64 = 1;
const LANDED: u64 = 2;
const DOUBLE_FRAME: u64 = 3;
const SECOND_HALF: u64 = 4;

/// Mark in the low half, then 24 bits of length and 8 of kind.
#[inline(always)]
fn head(count: u32, len: usize, kind: u64) -> u64 {
    kind << 56 | (len as u64) << 32 | u64::from(mark_of(count))
}

/// The mark of slot number `count`, counted since the beginning. It differs from what the slot holds: the mark of one
/// lap earlier, or zero.
#[inline(always)]
fn mark_of(count: u32) -> u32 {
    count.wrapping_add(1)
}

#[inline(always)]
fn mark(head: u64) -> u32 {
    (head & 0xffff_ffff) as u32
}

#[inline(always)]
fn len(head: u64) -> usize {
    (head >> 32 & 0xff_ffff) as usize
}

#[inline(always)]
fn kind(head: u64) -> u64 {
    head >> 56
}

/// Copies a few bytes without a call.
///
/// # Safety
/// `into` has room for them, and does not overlap them.
#[inline(always)]
pub(crate) unsafe fn copy_short(bytes: &[u8], into: *mut u8) {
    let (from, len) = (bytes.as_ptr(), bytes.len());
    match len {
        // The most common lengths come first.
        // SAFETY: here and below, the caller vouches for `len` bytes, and a word is no longer.
        8..=16 => unsafe { copy_ends::<u64>(from, into, len) },
        // SAFETY: as above.
        4..8 => unsafe { copy_ends::<u32>(from, into, len) },
        // SAFETY: as above.
        17..=32 => unsafe { copy_ends::<u128>(from, into, len) },
        // SAFETY: as above.
        2..4 => unsafe { copy_ends::<u16>(from, into, len) },
        // SAFETY: as above.
        1 => unsafe { copy_ends::<u8>(from, into, len) },
        0 => {}
        // SAFETY: the caller vouches for both.
        _ => unsafe { std::ptr::copy_nonoverlapping(from, into, len) },
    }
}

/// Copies `len` bytes, one to two words of them, as the first word and the last, which may overlap.
///
/// # Safety
/// As for [`copy_short`], and `len` is at least the size of a word and at most twice that.
#[inline(always)]
unsafe fn copy_ends<Word>(from: *const u8, into: *mut u8, len: usize) {
    let last = len - size_of::<Word>();
    // SAFETY: the caller vouches for `len` bytes, and the last word begins within them.
    let (from_last, into_last) = (unsafe { from.add(last) }, unsafe { into.add(last) });
    // SAFETY: as above.
    let head = unsafe { from.cast::<Word>().read_unaligned() };
    // SAFETY: as above.
    let tail = unsafe { from_last.cast::<Word>().read_unaligned() };
    // SAFETY: as above.
    unsafe { into.cast::<Word>().write_unaligned(head) };
    // SAFETY: as above.
    unsafe { into_last.cast::<Word>().write_unaligned(tail) };
}

/// What fuzz targets call: another process that writes to a ring arbitrarily.
#[cfg(fuzzing)]
pub(crate) mod fuzzed {
    use super::{INLINE_BYTES, Ordering, Ring};

    pub(crate) fn wipe(ring: &Ring) {
        ring.control.consumed.store(0, Ordering::Release);
        ring.slots.iter().for_each(|slot| slot.head.store(0, Ordering::Release));
    }

    /// Writes a slot: the first bytes go to the head, the others to the body.
    pub(crate) fn write(ring: &Ring, number: u32, bytes: &[u8]) {
        let slot = ring.slot(number);
        let (head, body) = bytes.split_at(bytes.len().min(8));
        let mut whole = [0; INLINE_BYTES];
        whole[..body.len()].copy_from_slice(body);
        // SAFETY: I2: nothing else uses the ring.
        slot.body.with_mut(|place| unsafe { place.write(whole) });
        let mut word = [0; 8];
        word[..head.len()].copy_from_slice(head);
        slot.head.store(u64::from_le_bytes(word), Ordering::Release);
        ring.control
            .consumed
            .store(u32::from_le_bytes([word[0], word[1], word[4], 0]), Ordering::Release);
    }

    /// The first slots, as `write` takes them.
    pub(crate) fn read(ring: &Ring, slots: usize) -> Vec<u8> {
        let read = |slot: &super::Slot| {
            let mut bytes = slot.head.load(Ordering::Acquire).to_le_bytes().to_vec();
            // SAFETY: I2: nothing else uses the ring.
            bytes.extend(slot.body.with(|place| unsafe { place.read() }));
            bytes
        };
        ring.slots[..slots].iter().flat_map(read).collect()
    }
}
