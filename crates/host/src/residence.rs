//! Where a resident lives: beside the application, in whichever thread turns.
//!
//! It gets its messages by a receive that is always posted, so that the agent listens while the application is away,
//! and is woken like any task. One thread at a time does what it says; another that is woken meanwhile leaves it a note.
//!
//! Invariants, cited below by number.
//!   R1. `inbox` is lent while `listening` has a ticket, and nobody else touches it.
//!   R2. What is sent lives until it has gone: the driver keeps it.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Wake, Waker};

use ferrywire_nic::{Deed, Mask, MatchWord, Mode, Outcome, Peer, Posted, Resident, Ticket};

use crate::memory;
use crate::notes::Notes;
use crate::rank::Rank;

/// A resident, and what it lives in.
pub struct Residence<R> {
    rank: &'static Rank,
    resident: Mutex<R>,
    /// Under which word its messages go, and which it wants.
    own: MatchWord,
    wanted: (MatchWord, Mask),
    /// Notes that there may be something to do.
    notes: Notes<Mail>,
}

/// What only the thread touches that does what is to be done.
struct Mail {
    inbox: Box<[u8]>,
    listening: Option<Ticket>,
    /// Of whom the resident knows that they are gone.
    known: Vec<bool>,
}

impl<R: Resident + 'static> Residence<R> {
    /// The resident moves in. Its messages are of at most so many bytes.
    pub fn open(
        rank: &'static Rank,
        resident: R,
        own: MatchWord,
        wanted: (MatchWord, Mask),
        bytes_max: usize,
    ) -> Arc<Residence<R>> {
        let known = vec![false; rank.size() as usize];
        let inbox = vec![0; bytes_max].into();
        let residence = Arc::new(Residence {
            rank,
            resident: Mutex::new(resident),
            own,
            wanted,
            notes: Notes::new(Mail { inbox, listening: None, known }),
        });
        rank.watch_deaths(Waker::from(Arc::clone(&residence)));
        residence.look();
        residence
    }

    /// Asks the resident something, and does what it wants done. Nobody may hold the lock of a driver.
    pub fn ask<T>(self: &Arc<Self>, question: impl FnOnce(&mut R) -> T) -> T {
        let answer = question(&mut self.resident());
        self.look();
        answer
    }

    fn resident(&self) -> std::sync::MutexGuard<'_, R> {
        self.resident.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what there is to do, or leaves it to whoever is at it.
    fn look(self: &Arc<Self>) {
        let waker = Waker::from(Arc::clone(self));
        self.notes.leave(|mail| while self.turn(mail, &waker) {});
    }

    /// Looks once at everything; true if there was something.
    fn turn(&self, mail: &mut Mail, waker: &Waker) -> bool {
        let fallen = self.fallen(mail);
        let heard = self.hear(mail, waker);
        let deeds = self.resident().take_deeds();
        let busy = fallen || heard || !deeds.is_empty();
        deeds.into_iter().for_each(|deed| self.perform(deed));
        busy
    }

    /// Tells the resident who is gone.
    fn fallen(&self, mail: &mut Mail) -> bool {
        let fallen: Vec<Peer> = self.rank.inspect(|nic| {
            let unknown = (0..).zip(&mail.known).filter(|(_, known)| !**known);
            unknown.map(|(rank, _)| Peer(rank)).filter(|&peer| nic.is_down(peer)).collect()
        });
        for &peer in &fallen {
            mail.known[peer.0 as usize] = true;
            self.rank.tell_if_silent(peer);
            let how = self.rank.departure_of(peer);
            self.resident().on_gone(peer, how);
        }
        !fallen.is_empty()
    }

    /// Gives the resident a message, if one has come, and listens for the next.
    fn hear(&self, mail: &mut Mail, waker: &Waker) -> bool {
        let outcome = match mail.listening.take() {
            Some(ticket) => match self.rank.poll(ticket, waker) {
                Poll::Ready(outcome) => Some(outcome),
                Poll::Pending => {
                    mail.listening = Some(ticket);
                    return false;
                }
            },
            None => {
                let ((word, mask), into) = (self.wanted, memory::lend_mut(&mut mail.inbox));
                // SAFETY: R1.
                let posted = unsafe {
                    self.rank.submit(|nic, port| nic.post_receive(None, word, mask, into, port))
                };
                match posted {
                    Posted::Done(outcome) => Some(outcome),
                    Posted::Pending(ticket) => {
                        mail.listening = Some(ticket);
                        None
                    }
                }
            }
        };
        if let Some(Outcome::Received(got)) = outcome {
            let len = usize::try_from(got.len).unwrap_or(0).min(mail.inbox.len());
            self.resident().on_message(Peer(got.word.source()), &mail.inbox[..len]);
        }
        true
    }

    fn perform(&self, deed: Deed) {
        let Deed::Send { to, bytes } = deed else {
            for driver in self.rank.drivers() {
                // SAFETY: nothing is lent.
                unsafe { driver.submit(|nic, port| nic.end_for(&deed, port)) };
            }
            return;
        };
        let (source, word) = (memory::lend(&bytes), self.own);
        // SAFETY: R2.
        let posted = unsafe {
            self.rank.submit(|nic, port| nic.post_send(to, word, source, Mode::Standard, port))
        };
        if let Posted::Pending(ticket) = posted {
            self.rank.detach(ticket, Some(Box::new(bytes)));
        }
    }
}

impl<R: Resident + 'static> Wake for Residence<R> {
    fn wake(self: Arc<Self>) {
        self.look();
    }
}
