//! Nonblocking operations, as futures that own their buffers.
//!
//! Invariants, cited below by number.
//!   I1. The buffers that an operation was lent are on the heap, in `kept`: moving the request does not
//!       move them, and leaking it leaks them. They are freed only after the operation is complete: dropping
//!       the request hands them to the driver.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use ferrywire_host::nic::{Mode, Outcome, Posted, Ticket};
use ferrywire_host::{Keep, memory};
use ferrywire_runtime::call_name::rust_name;
use ferrywire_runtime::{Rank, Source, Tag};

use crate::comm::{Comm, Status, What, traced};
use crate::error::Error;
use crate::plain::{self, Plain};

/// A nonblocking operation.
///
/// It is a [`Future`] for any async runtime; without one, use [`wait`](Request::wait) or [`test`](Request::test). It
/// makes progress in any case. Dropping a request cancels a receive; a send or a collective runs to completion.
#[must_use = "dropping a receive cancels it, and dropping a send discards its result"]
pub struct Request<K: Kept> {
    comm: Comm,
    what: What,
    /// `None` if the result has been returned.
    posted: Option<Posted>,
    kept: Option<K>,
}

/// A nonblocking send. It returns the buffer.
pub type SendRequest<T> = Request<Sending<T>>;
/// A put that a counter starts. It returns the buffer when the put is complete at its target.
pub type PutRequest<T> = Request<Sending<T>>;
/// A nonblocking receive. It returns the items and the status.
pub type ReceiveRequest<T> = Request<Receiving<T>>;

/// The buffers of an operation, and the result that they become.
pub trait Kept: Send + Unpin + Sized + 'static + sealed::Sealed {
    /// The result of the request.
    type Output;

    /// Whether dropping the request cancels the operation.
    #[doc(hidden)]
    const REVOCABLE: bool;

    /// Makes the result of an operation that is complete.
    #[doc(hidden)]
    fn finish(self, end: End<'_>) -> Result<Self::Output, Error>;

    /// The buffers that an operation still needs after it has released its caller.
    #[doc(hidden)]
    fn still_needed(&mut self) -> Option<Keep> {
        None
    }
}

/// The operation, and how it ended.
#[doc(hidden)]
pub struct End<'a> {
    pub(crate) comm: &'a Comm,
    pub(crate) what: What,
    pub(crate) outcome: Outcome,
}

pub(crate) mod sealed {
    pub trait Sealed {}
    impl<T> Sealed for super::Sending<T> {}
    impl<T> Sealed for super::Receiving<T> {}
}

/// The buffer of a nonblocking send, or of a put that a counter starts.
pub struct Sending<T>(pub(crate) Vec<T>);

impl<T: Plain> Kept for Sending<T> {
    type Output = Vec<T>;
    const REVOCABLE: bool = false;

    fn finish(self, end: End<'_>) -> Result<Vec<T>, Error> {
        end.comm.sent(end.what, end.outcome).map(|()| self.0)
    }
}

/// The buffer of a nonblocking receive.
pub struct Receiving<T>(Vec<T>);

impl<T: Plain> Kept for Receiving<T> {
    type Output = (Vec<T>, Status);
    const REVOCABLE: bool = true;

    fn finish(mut self, end: End<'_>) -> Result<(Vec<T>, Status), Error> {
        let status = end.comm.received(end.what, plain::unit::<T>(), end.outcome)?;
        self.0.truncate(status.count);
        Ok((self.0, status))
    }
}

/// A buffer that can be handed over to be sent: a vector, a boxed slice or an array.
pub trait OwnedBuffer {
    /// The type of the items.
    type Item: Plain;

    /// Moves the items to the heap, if they are not there.
    fn into_vec(self) -> Vec<Self::Item>;
}

impl<T: Plain> OwnedBuffer for Vec<T> {
    type Item = T;

    fn into_vec(self) -> Vec<T> {
        self
    }
}

impl<T: Plain> OwnedBuffer for Box<[T]> {
    type Item = T;

    fn into_vec(self) -> Vec<T> {
        self.into_vec()
    }
}

impl<T: Plain, const N: usize> OwnedBuffer for [T; N] {
    type Item = T;

    fn into_vec(self) -> Vec<T> {
        self.into()
    }
}

impl Comm {
    /// Starts a send and returns at once. The request owns the buffer and returns it when the send is complete.
    ///
    /// ```
    /// ferrywire::local(2, |world| {
    ///     let other = 1 - world.rank();
    ///     let received = world.irecv::<u64>(3, other, 0).unwrap();
    ///     let sent = world.isend(vec![1u64, 2, 3], other, 0).unwrap();
    ///     // … compute …
    ///     let (items, status) = received.wait().unwrap();
    ///     assert_eq!((items, status.source), (vec![1, 2, 3], other));
    ///     let buffer = sent.wait().unwrap();
    ///     assert_eq!(buffer.len(), 3);
    /// });
    /// ```
    pub fn isend<B: OwnedBuffer>(
        &self,
        data: B,
        to: impl Into<Rank>,
        tag: impl Into<Tag>,
    ) -> Result<SendRequest<B::Item>, Error> {
        let (to, tag) = (to.into(), tag.into());
        let data = data.into_vec();
        let bytes = plain::bytes(&data);
        let what = What::sending::<B::Item>("isend", bytes, to, tag);
        let to = self.address(what, to, tag)?;
        let source = memory::lend(bytes);
        let kept = Sending(data);
        let _call = traced(what.name);
        let name = const { rust_name("isend") };
        self.runtime().note_send(name, to, source.len);
        // SAFETY: I1.
        let posted = unsafe { self.runtime().start_send(to, source, Mode::Standard) };
        Ok(Request::new(self, what, posted, kept))
    }

    /// Starts a receive of up to `count` items and returns at once.
    pub fn irecv<T: Plain>(
        &self,
        count: usize,
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<ReceiveRequest<T>, Error> {
        let (from, tag) = (from.into(), tag.into());
        let mut items = plain::zeroed::<T>(count);
        let bytes = plain::bytes_mut(&mut items);
        let what = What::receiving::<T>("irecv", bytes, from, tag);
        let wanted = self.wanted(what, from, tag)?;
        let into = memory::lend_mut(bytes);
        let kept = Receiving(items);
        let _call = traced(what.name);
        let name = const { rust_name("irecv") };
        self.runtime().note_receive(name, wanted, into.len);
        // SAFETY: I1.
        let posted = unsafe { self.runtime().start_receive(wanted, into) };
        Ok(Request::new(self, what, posted, kept))
    }
}

impl<K: Kept> Request<K> {
    pub(crate) fn new(comm: &Comm, what: What, posted: Posted, kept: K) -> Request<K> {
        Request { comm: comm.clone(), what, posted: Some(posted), kept: Some(kept) }
    }

    /// Waits until the operation is complete.
    pub fn wait(mut self) -> Result<K::Output, Error> {
        if let Some(Posted::Pending(ticket)) = self.posted {
            let outcome = self.comm.wait_for(self.what, ticket);
            self.end(ticket, outcome);
        }
        self.tell()
    }

    /// Returns the result if the operation is complete, and `None` otherwise. The result is returned only once.
    pub fn test(&mut self) -> Option<Result<K::Output, Error>> {
        if let Posted::Pending(ticket) = self.posted? {
            let outcome = self.comm.plane().test(ticket)?;
            self.end(ticket, outcome);
        }
        Some(self.tell())
    }

    /// Records the outcome. If the schedule has released its caller, the driver keeps what it still needs.
    fn end(&mut self, ticket: Ticket, outcome: Outcome) {
        self.posted = Some(Posted::Done(outcome));
        if outcome == Outcome::Released {
            let keep = self.kept.as_mut().and_then(K::still_needed);
            self.comm.plane().detach(ticket, keep);
        }
    }

    fn tell(&mut self) -> Result<K::Output, Error> {
        let Some(Posted::Done(outcome)) = self.posted.take() else {
            panic!("a request was polled after it had returned its result");
        };
        let kept = self.kept.take().expect("what is not told is kept");
        kept.finish(End { comm: &self.comm, what: self.what, outcome })
    }
}

impl<K: Kept> Future for Request<K> {
    type Output = Result<K::Output, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(Posted::Pending(ticket)) = self.posted {
            match self.comm.plane().poll(ticket, context.waker()) {
                Poll::Ready(outcome) => self.end(ticket, outcome),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(self.tell())
    }
}

impl<K: Kept> Drop for Request<K> {
    fn drop(&mut self) {
        if let Some(Posted::Pending(ticket)) = self.posted {
            let keep = self.kept.take().map(|kept| Box::new(kept) as Keep);
            self.comm.abandon(ticket, K::REVOCABLE, keep);
        }
    }
}
