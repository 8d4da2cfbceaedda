//! Runs a service beside the application, in whichever thread turns.
//!
//! The service gets its messages through a receive that is always posted, so that the agent listens while the
//! application is away, and it is woken like any task. One thread at a time works for it; a thread that is woken
//! meanwhile requests another pass.
//!
//! Invariants, cited below by number.
//!   R1. `inbox` is lent while `listening` has a ticket, and nothing else touches it.
//!   R2. What is sent lives until it has gone: the driver keeps it.

use std::collections::BTreeSet;
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
    /// The match word under which its messages go, and those that it receives.
    own: MatchWord,
    wanted: (MatchWord, Mask),
    /// Work that may be due.
    work: Coalesced<Inbox>,
}

/// What only the working thread touches.
struct Inbox {
    inbox: Box<[u8]>,
    listening: Option<Ticket>,
    /// The peers that the service knows to be gone.
    known: BTreeSet<Peer>,
}

impl<R: Service + 'static> RunningService<R> {
    /// Starts a service whose messages have at most `bytes_max` bytes.
    pub fn open(
        rank: &'static Rank,
        service: R,
        own: MatchWord,
        wanted: (MatchWord, Mask),
        bytes_max: usize,
    ) -> Arc<RunningService<R>> {
        let inbox = vec![0; bytes_max].into();
        let running = Arc::new(RunningService {
            rank,
            service: Mutex::new(service),
            own,
            wanted,
            work: Coalesced::new(Inbox { inbox, listening: None, known: BTreeSet::new() }),
        });
        rank.driver().watch_deaths(Waker::from(Arc::clone(&running)));
        running.look();
        running
    }

    /// Calls the service, and performs the actions that result. The caller must not hold the lock of a driver.
    pub fn ask<T>(self: &Arc<Self>, question: impl FnOnce(&mut R) -> T) -> T {
        let answer = question(&mut self.service());
        self.look();
        answer
    }

    fn service(&self) -> std::sync::MutexGuard<'_, R> {
        self.service.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does the work that is due, or leaves it to the thread that is at work.
    fn look(self: &Arc<Self>) {
        let waker = Waker::from(Arc::clone(self));
        self.work.request(|mail| while self.turn(mail, &waker) {});
    }

    /// Checks everything once; true if there was something.
    fn turn(&self, mail: &mut Inbox, waker: &Waker) -> bool {
        let fallen = self.fallen(mail);
        let heard = self.hear(mail, waker);
        let actions = self.service().take_actions();
        let busy = fallen || heard || !actions.is_empty();
        actions.into_iter().for_each(|action| self.perform(action));
        busy
    }

    /// Tells the service which peers are gone.
    fn fallen(&self, mail: &mut Inbox) -> bool {
        let fallen: Vec<Peer> = self.rank.driver().inspect(|nic| {
            let unknown = self.rank.driver().peers().filter(|peer| !mail.known.contains(peer));
            unknown.filter(|&peer| nic.is_down(peer)).collect()
        });
        for &peer in &fallen {
            mail.known.insert(peer);
            self.rank.tell_if_silent(peer);
            let how = self.rank.driver().departure_of(peer);
            self.service().on_gone(peer, how);
        }
        !fallen.is_empty()
    }

    /// Gives the service a message, if one has come, and listens for the next.
    fn hear(&self, mail: &mut Inbox, waker: &Waker) -> bool {
        let outcome = match mail.listening.take() {
            Some(ticket) => match self.rank.driver().poll(ticket, waker) {
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
                    self.rank
                        .driver()
                        .submit(|nic, port| nic.post_receive(None, word, mask, into, port))
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
            self.rank
                .driver()
                .submit(|nic, port| nic.post_send(to, word, source, Mode::Standard, port))
        };
        if let Posted::Pending(ticket) = posted {
            self.rank.driver().detach(ticket, Some(Box::new(bytes)));
        }
    }
}

impl<R: Service + 'static> Wake for RunningService<R> {
    fn wake(self: Arc<Self>) {
        self.look();
    }
}
