//! Runs a service beside the application, in whichever thread turns.
//!
//! It gets its messages by a receive that is always posted, so that the agent listens while the application is away,
//! and is woken like any task. One thread at a time does what it says; another that is woken meanwhile leaves it a note.
//!
//! Invariants, cited below by number.
//!   R1. `inbox` is lent while `listening` has a ticket, and nobody else touches it.
//!   R2. What is sent lives until it has gone: the driver keeps it.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Wake, Waker};

use ferrywire_nic::{Action, Mask, MatchWord, Mode, Outcome, Peer, Posted, Service, Ticket};

use crate::coalesced::Coalesced;
use crate::memory;
use crate::rank::Rank;

/// A service, with the receive that is posted for it.
pub struct RunningService<R> {
    rank: &'static Rank,
    service: Mutex<R>,
    /// Under which word its messages go, and which it wants.
    own: MatchWord,
    wanted: (MatchWord, Mask),
    /// Work that may be due.
    work: Coalesced<Inbox>,
}

/// What only the thread touches that does what is to be done.
struct Inbox {
    inbox: Box<[u8]>,
    listening: Option<Ticket>,
    /// Of whom the service knows that they are gone.
    known: Vec<bool>,
}

impl<R: Service + 'static> RunningService<R> {
    /// Starts a service whose messages have at most so many bytes.
    pub fn open(
        rank: &'static Rank,
        service: R,
        own: MatchWord,
        wanted: (MatchWord, Mask),
        bytes_max: usize,
    ) -> Arc<RunningService<R>> {
        let known = vec![false; rank.size() as usize];
        let inbox = vec![0; bytes_max].into();
        let running = Arc::new(RunningService {
            rank,
            service: Mutex::new(service),
            own,
            wanted,
            work: Coalesced::new(Inbox { inbox, listening: None, known }),
        });
        rank.watch_deaths(Waker::from(Arc::clone(&running)));
        running.look();
        running
    }

    /// Asks the service something, and does what it wants done. Nobody may hold the lock of a driver.
    pub fn ask<T>(self: &Arc<Self>, question: impl FnOnce(&mut R) -> T) -> T {
        let answer = question(&mut self.service());
        self.look();
        answer
    }

    fn service(&self) -> std::sync::MutexGuard<'_, R> {
        self.service.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what there is to do, or leaves it to whoever is at it.
    fn look(self: &Arc<Self>) {
        let waker = Waker::from(Arc::clone(self));
        self.work.request(|mail| while self.turn(mail, &waker) {});
    }

    /// Looks once at everything; true if there was something.
    fn turn(&self, mail: &mut Inbox, waker: &Waker) -> bool {
        let fallen = self.fallen(mail);
        let heard = self.hear(mail, waker);
        let actions = self.service().take_actions();
        let busy = fallen || heard || !actions.is_empty();
        actions.into_iter().for_each(|action| self.perform(action));
        busy
    }

    /// Tells the service who is gone.
    fn fallen(&self, mail: &mut Inbox) -> bool {
        let fallen: Vec<Peer> = self.rank.inspect(|nic| {
            let unknown = (0..).zip(&mail.known).filter(|(_, known)| !**known);
            unknown.map(|(rank, _)| Peer(rank)).filter(|&peer| nic.is_down(peer)).collect()
        });
        for &peer in &fallen {
            mail.known[peer.0 as usize] = true;
            self.rank.tell_if_silent(peer);
            let how = self.rank.departure_of(peer);
            self.service().on_gone(peer, how);
        }
        !fallen.is_empty()
    }

    /// Gives the service a message, if one has come, and listens for the next.
    fn hear(&self, mail: &mut Inbox, waker: &Waker) -> bool {
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
            self.service().on_message(Peer(got.word.source()), &mail.inbox[..len]);
        }
        true
    }

    fn perform(&self, action: Action) {
        let Action::Send { to, bytes } = action else {
            for driver in self.rank.drivers() {
                // SAFETY: nothing is lent.
                unsafe { driver.submit(|nic, port| nic.end_for(&action, port)) };
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

impl<R: Service + 'static> Wake for RunningService<R> {
    fn wake(self: Arc<Self>) {
        self.look();
    }
}
