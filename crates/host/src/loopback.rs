//! The rail from a rank to itself: a buffer in memory of the process.
//!
//! A frame is shown by a later poll, never inside the call that sends it. The two halves share the buffer in which
//! frames collect; the receiving half exchanges it for an empty one and reads the frames where they are, while the
//! answers to them go into the other. Both halves belong to one NIC and are used under its lock, so the lock in here is
//! always free.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferrywire_nic::{Envelope, Peer, Promises, Sent};

use crate::rail::{Arrival, Inlet, OWN, Rail};

/// The longest frame: a chunk of a put or get, 32 KB, and its envelope.
const FRAME_BYTES_MAX: u32 = (32 << 10) + 76;
/// How many bytes of frames collect before the rail is full.
const BYTES_MAX: usize = 128 << 10;

/// Opens the rail from rank `me` to itself.
pub(crate) fn open(me: Peer, initial_credit_bytes: u32) -> (Loopback, LoopbackInlet) {
    let shared = Arc::new(LoopbackBuffer::default());
    let inlet = LoopbackInlet { me, shared: Arc::clone(&shared), reading: Vec::new(), at: 0 };
    (Loopback { me, shared, initial_credit_bytes, stuck: false }, inlet)
}

/// What the two halves share.
#[derive(Default)]
struct LoopbackBuffer {
    /// Frames one after the other, each behind its length.
    frames: Mutex<Vec<u8>>,
    /// How many frames have been sent and not shown, in this buffer and in that of the receiving half.
    waiting: AtomicUsize,
}

impl LoopbackBuffer {
    fn frames(&self) -> MutexGuard<'_, Vec<u8>> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0
    }
}

/// The sending half.
pub(crate) struct Loopback {
    me: Peer,
    shared: Arc<LoopbackBuffer>,
    initial_credit_bytes: u32,
    /// A frame has found no room.
    stuck: bool,
}

impl Loopback {
    /// Whether nothing waits to be shown.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.shared.is_empty()
    }
}

impl Rail for Loopback {
    fn promises(&self, _: Peer) -> Promises {
        Promises {
            rail: OWN,
            reliable: true,
            may_vanish: false,
            // The NIC copies within its own process without a rail.
            puts: false,
            gets: false,
            frame_bytes_max: FRAME_BYTES_MAX,
            burst_frames_max: 1,
            initial_credit_bytes: self.initial_credit_bytes,
        }
    }

    fn send(&mut self, _: Peer, envelope: &Envelope, payload: &[u8]) -> Sent {
        let mut head = [0; Envelope::BYTES_MAX];
        let head_bytes = envelope.emit(&mut head);
        let len = head_bytes + payload.len();
        let mut frames = self.shared.frames();
        if frames.len() + LEN_BYTES + len > BYTES_MAX {
            self.stuck = true;
            return Sent::Full;
        }
        frames.extend_from_slice(&len.to_ne_bytes());
        frames.extend_from_slice(&head[..head_bytes]);
        frames.extend_from_slice(payload);
        self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        Sent::Away
    }

    fn poll_room(&mut self, mut show: impl FnMut(Peer)) {
        let most = BYTES_MAX - LEN_BYTES - FRAME_BYTES_MAX as usize;
        if self.stuck && self.shared.frames().len() <= most {
            self.stuck = false;
            show(self.me);
        }
    }

    fn is_stuck(&self) -> bool {
        self.stuck
    }

    fn is_drained(&mut self) -> bool {
        self.shared.is_empty()
    }
}

/// The receiving half.
pub(crate) struct LoopbackInlet {
    me: Peer,
    shared: Arc<LoopbackBuffer>,
    /// The frames that are being shown, and where the next one begins.
    reading: Vec<u8>,
    at: usize,
}

impl LoopbackInlet {
    /// The next frame.
    fn next_frame(&mut self) -> &[u8] {
        if self.at == self.reading.len() {
            self.reading.clear();
            self.at = 0;
            std::mem::swap(&mut self.reading, &mut *self.shared.frames());
        }
        let (len, rest) = self.reading[self.at..].split_first_chunk().expect("a frame waits");
        let frame = &rest[..usize::from_ne_bytes(*len)];
        self.at += LEN_BYTES + frame.len();
        frame
    }
}

impl Inlet for LoopbackInlet {
    #[inline(always)]
    fn poll(&mut self, limit: usize, mut take: impl FnMut(Peer, Arrival<'_>)) -> usize {
        let mut taken = 0;
        while taken < limit && self.is_ready() {
            let me = self.me;
            take(me, Arrival::Frame(OWN, self.next_frame()));
            self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
            taken += 1;
        }
        taken
    }

    #[inline(always)]
    fn is_ready(&self) -> bool {
        !self.shared.is_empty()
    }
}

/// The bytes of the length before each frame.
const LEN_BYTES: usize = size_of::<usize>();
