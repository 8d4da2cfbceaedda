//! The watch of `local` over its ranks, which share a process: the types of messages and collectives, and the calls
//! that wait. None of it travels between processes.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ferrywire_host::nic::{MatchWord, Peer};

use crate::error::Call;

/// Watches the ranks of one job of threads.
pub(crate) struct Watch {
    types: Mutex<Types>,
    /// For each rank, the calls in which its threads wait; `None` once the rank has ended.
    waiting: Mutex<Vec<Option<Vec<Waiting>>>>,
}

/// Types that have not been compared yet.
#[derive(Default)]
struct Types {
    /// Types of messages that have been sent and not received, by receiver and match word.
    sent: HashMap<(Peer, MatchWord), Vec<&'static str>>,
    /// Collectives that some ranks have called, by the first member and the number of the communicator, and the
    /// instance. Communicators without common members may have the same number.
    collectives: HashMap<(Peer, u16, u16), Begun>,
}

/// The first call of a collective, and how many ranks have not called it yet.
struct Begun {
    call: Collective,
    missing: u32,
}

/// A collective as one rank has called it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Collective {
    pub(crate) rank: u32,
    pub(crate) name: &'static str,
    pub(crate) item: Option<&'static str>,
}

impl Collective {
    /// Whether the two calls match. A blocking call matches its nonblocking form.
    fn fits(self, other: Collective) -> bool {
        let base = |name: &'static str| name.strip_prefix('i').unwrap_or(name);
        base(self.name) == base(other.name) && self.item == other.item
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.item {
            Some(item) => write!(f, "{} of {item}", self.name),
            None => write!(f, "{}", self.name),
        }
    }
}

/// A call that has not returned.
struct Waiting {
    id: u64,
    call: Box<Call>,
    since: Instant,
}

impl Watch {
    pub(crate) fn new(ranks: u32) -> Watch {
        let waiting = (0..ranks).map(|_| Some(Vec::new())).collect();
        Watch { types: Mutex::default(), waiting: Mutex::new(waiting) }
    }

    fn types(&self) -> MutexGuard<'_, Types> {
        self.types.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Option<Vec<Waiting>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the type of a message that is about to be sent.
    pub(crate) fn on_send(&self, to: Peer, word: MatchWord, item: &'static str) {
        self.types().sent.entry((to, word)).or_default().push(item);
    }

    /// Compares a message received as `item` with those on their way. If none has that type, returns the type of the
    /// first.
    pub(crate) fn on_received(
        &self,
        at: Peer,
        word: MatchWord,
        item: &'static str,
    ) -> Option<&'static str> {
        let mut types = self.types();
        let on_the_way = types.sent.get_mut(&(at, word))?;
        match on_the_way.iter().position(|sent| *sent == item) {
            Some(place) => {
                on_the_way.remove(place);
                if on_the_way.is_empty() {
                    types.sent.remove(&(at, word));
                }
                None
            }
            None => on_the_way.first().copied(),
        }
    }

    /// Records a rank's call of a collective on `size` ranks. Returns the first rank's call if it differs.
    pub(crate) fn on_collective(
        &self,
        of: (Peer, u16, u16),
        size: u32,
        call: Collective,
    ) -> Option<Collective> {
        let mut types = self.types();
        let begun = types.collectives.entry(of).or_insert(Begun { call, missing: size });
        let first = begun.call;
        begun.missing -= 1;
        if begun.missing == 0 {
            types.collectives.remove(&of);
        }
        (!first.fits(call)).then_some(first)
    }

    /// Records that a rank waits in a call, until the result is dropped.
    pub(crate) fn enter(&self, rank: u32, call: Box<Call>) -> Entered<'_> {
        let mut waiting = self.waiting();
        let calls = waiting[rank as usize].get_or_insert_default();
        let id = calls.last().map_or(0, |last| last.id + 1);
        calls.push(Waiting { id, call, since: Instant::now() });
        Entered { watch: self, rank, id }
    }

    /// Records that a rank has ended.
    pub(crate) fn on_ended(&self, rank: u32) {
        self.waiting()[rank as usize] = None;
    }

    /// How long all ranks that have not ended have been waiting; `None` if one of them is not waiting.
    pub(crate) fn all_wait_for(&self) -> Option<Duration> {
        let waiting = self.waiting();
        let mut last = None;
        for calls in waiting.iter().flatten() {
            last = last.max(Some(calls.iter().map(|call| call.since).max()?));
        }
        last.map(|since| since.elapsed())
    }

    /// Describes where each rank is.
    pub(crate) fn told(&self) -> String {
        let mut text = String::new();
        for (rank, calls) in self.waiting().iter().enumerate() {
            let comma = if rank > 0 { "; " } else { "" };
            let _ = write!(text, "{comma}rank {rank} ");
            let _ = match calls {
                None => write!(text, "has ended"),
                Some(calls) if calls.is_empty() => write!(text, "is not waiting in a call"),
                Some(calls) => {
                    let calls: Vec<String> =
                        calls.iter().map(|waiting| waiting.call.to_string()).collect();
                    write!(text, "waits in {}", calls.join(" and in "))
                }
            };
        }
        text
    }
}

/// Marks a call as waiting until it is dropped.
pub(crate) struct Entered<'a> {
    watch: &'a Watch,
    rank: u32,
    id: u64,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if let Some(calls) = &mut self.watch.waiting()[self.rank as usize] {
            calls.retain(|waiting| waiting.id != self.id);
        }
    }
}
