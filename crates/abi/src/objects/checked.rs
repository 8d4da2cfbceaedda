//! Messages with a request in a program that is checked.

use ferrywire_host::nic::{Fault, Outcome, Posted};
use ferrywire_mpi::datatype::Datatype;
use ferrywire_runtime::call_name::name_of;
use ferrywire_runtime::{CallName, Trigger};

use crate::convert::failure::Result;
use crate::convert::handle::Shared;
use crate::convert::types::MPI_Datatype;
use crate::objects::check::{self, Loan};
use crate::objects::comm::Comm;
use crate::objects::datatype;
use crate::objects::message::{Receiving, Sending};
use crate::objects::mistake;
use crate::objects::recipe::{End, Next, Recipe};
use crate::objects::request::Work;

/// A message to be sent, which is watched if the program is checked.
pub(crate) fn send(sending: Sending, name: CallName, handle: MPI_Datatype) -> Work {
    match datatype::find(handle).ok().filter(|_| check::is_on()).cloned() {
        None => sending.into(),
        Some(datatype) => {
            let (checksum, loan) = (None, None);
            Work::Other(Box::new(CheckedSend { sending, name, datatype, checksum, loan }))
        }
    }
}

/// A message to be received, which is watched if the program is checked.
pub(crate) fn receive(receiving: Receiving, name: CallName, handle: MPI_Datatype) -> Work {
    match datatype::find(handle).ok().filter(|_| check::is_on()).cloned() {
        None => receiving.into(),
        Some(datatype) => Work::Other(Box::new(CheckedReceive {
            receiving,
            name,
            handle,
            datatype,
            number: None,
            loan: None,
            is_kept: false,
        })),
    }
}

/// A message to be sent. Its buffer must not change before it is complete.
struct CheckedSend {
    sending: Sending,
    name: CallName,
    datatype: Datatype,
    /// The checksum of its buffer when it was posted, unless the program has freed the request.
    checksum: Option<u64>,
    loan: Option<Loan>,
}

impl Recipe for CheckedSend {
    fn start(&mut self, comm: &Shared<Comm>) -> Result<Posted> {
        self.checksum = Some(self.sending.data.checksum());
        if let Some(to) = self.sending.address(comm)? {
            let (in_place, call) = (self.sending.data.in_place(), self.origin(comm, false));
            self.loan = in_place.map(|span| check::lend(span, false, &call));
            let content = self.datatype.content(self.sending.data.bytes());
            check::count_sent(self.name, to, content, comm);
        }
        self.sending.start(comm)
    }

    fn arm(&mut self, comm: &Shared<Comm>, trigger: Trigger<'_>) -> Result<Posted> {
        // The NIC decides when the message is sent.
        check::lose_count();
        self.checksum = Some(self.sending.data.checksum());
        self.sending.arm(comm, trigger)
    }

    fn finish(&mut self, comm: &Shared<Comm>, end: End) -> Result<Next> {
        self.loan = None;
        let before = self.checksum.take();
        if before.is_some_and(|before| before != self.sending.data.checksum()) {
            mistake::tell(&format!(
                "changed the buffer of its {} before that was complete: is MPI_Wait called too late?",
                self.origin(comm, false)
            ));
        }
        if matches!(end.outcome, Outcome::Cancelled) {
            check::lose_count();
        }
        self.sending.finish(comm, end)
    }

    fn freed(&mut self) -> Result {
        // It learns in another way that the buffer is its own again.
        (self.checksum, self.loan) = (None, None);
        Ok(())
    }

    // The program may not touch the buffer before it asks, even if the bytes are gone.
    fn ends_when_asked(&self) -> bool {
        true
    }

    fn origin(&self, comm: &Comm, _: bool) -> String {
        let Sending { data, dest, tag, .. } = &self.sending;
        mistake::sending(name_of(self.name), comm, data.bytes(), *dest, *tag)
    }
}

/// A message to be received.
struct CheckedReceive {
    receiving: Receiving,
    name: CallName,
    handle: MPI_Datatype,
    datatype: Datatype,
    /// Its number among all receives, while it is posted.
    number: Option<u64>,
    loan: Option<Loan>,
    /// The program keeps the request although a rank that could have sent the message has died.
    is_kept: bool,
}

impl Recipe for CheckedReceive {
    fn start(&mut self, comm: &Shared<Comm>) -> Result<Posted> {
        if self.receiving.wanted(comm)?.is_some() {
            let (in_place, call) = (self.receiving.data.in_place(), self.origin(comm, false));
            self.loan = in_place.map(|span| check::lend(span, true, &call));
            self.number = Some(check::count_receive());
        }
        self.receiving.start(comm)
    }

    fn arm(&mut self, comm: &Shared<Comm>, trigger: Trigger<'_>) -> Result<Posted> {
        check::lose_count();
        self.receiving.arm(comm, trigger)
    }

    fn finish(&mut self, comm: &Shared<Comm>, end: End) -> Result<Next> {
        let lost = matches!(end.outcome, Outcome::Failed(Fault::PeerDown(_)));
        if lost && self.is_kept {
            // As an unchecked receive does: the program may have acknowledged the death.
            return match self.receiving.start(comm)? {
                Posted::Done(outcome) => self.receiving.end(comm, outcome).map(Next::Over),
                pending => Ok(Next::Then(pending)),
            };
        }
        self.is_kept = lost && self.receiving.source.is_any();
        self.loan = None;
        if let Some(number) = self.number.take() {
            check::end_receive(self.name, number, end.outcome, &self.datatype, comm);
        }
        if let Outcome::Received(got) = &end.outcome
            && got.len != self.receiving.data.bytes()
        {
            mistake::check_length(self.name, comm, self.handle, got);
        }
        self.receiving.finish(comm, end)
    }

    fn is_receive(&self) -> bool {
        true
    }

    fn ends_when_asked(&self) -> bool {
        !self.is_kept
    }

    fn origin(&self, comm: &Comm, _: bool) -> String {
        mistake::receiving(name_of(self.name), comm, self.receiving.source, self.receiving.tag)
    }

    fn freed(&mut self) -> Result {
        self.loan = None;
        if self.number.is_some() {
            // Nobody learns which message it gets.
            check::lose_count();
        }
        Ok(())
    }
}
