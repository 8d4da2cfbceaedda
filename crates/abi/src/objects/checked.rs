//! Messages with a request in a program that is checked.

use ferrywire_host::nic::{Fault, Outcome, Posted};
use ferrywire_mpi::datatype::Datatype;
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
            let (checksum, loan) = (0, None);
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
    checksum: u64,
    loan: Option<Loan>,
}

impl Recipe for CheckedSend {
    fn start(&mut self, comm: &Shared<Comm>) -> Result<Posted> {
        self.checksum = self.sending.data.checksum();
        let origin = self.sending.origin(comm, false);
        let in_place = self.sending.data.in_place();
        self.loan = in_place.map(|span| check::lend(span, false, &origin));
        if let Some(to) = self.sending.address(comm)? {
            let content = self.datatype.content(self.sending.data.bytes());
            check::count_sent(self.name, to, content, comm);
        }
        self.sending.start(comm)
    }

    fn arm(&mut self, comm: &Shared<Comm>, trigger: Trigger<'_>) -> Result<Posted> {
        // The NIC decides when the message is sent.
        check::lose_count();
        self.checksum = self.sending.data.checksum();
        self.sending.arm(comm, trigger)
    }

    fn finish(&mut self, comm: &Shared<Comm>, end: End) -> Result<Next> {
        self.loan = None;
        if self.sending.data.checksum() != self.checksum {
            let origin = self.sending.origin(comm, false);
            mistake::tell(&format!(
                "changed the buffer of its {origin} before that was complete: is MPI_Wait called too late?"
            ));
        }
        if matches!(end.outcome, Outcome::Cancelled) {
            check::lose_count();
        }
        self.sending.finish(comm, end)
    }

    fn origin(&self, comm: &Comm, persistent: bool) -> String {
        self.sending.origin(comm, persistent)
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
        let origin = self.receiving.origin(comm, false);
        let in_place = self.receiving.data.in_place();
        self.loan = in_place.map(|span| check::lend(span, true, &origin));
        self.number = Some(check::count_receive());
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

    fn origin(&self, comm: &Comm, persistent: bool) -> String {
        self.receiving.origin(comm, persistent)
    }

    fn freed(&mut self) -> Result {
        if self.number.is_some() {
            // Nobody learns which message it gets.
            check::lose_count();
        }
        Ok(())
    }
}
