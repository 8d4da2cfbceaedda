//! Active messages: functions of the program that the NIC calls where a message arrives.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ferrywire_host::nic::{Hook, Module as Hooks, Trap, Verdict};

use crate::comm::Comm;
use crate::error::Error;
use crate::module::Module;
use crate::plain::{Plain, bytes};

/// A message for a handler: see [`Comm::handle`].
pub struct ActiveMessage<'a> {
    hook: &'a mut dyn Hook,
}

/// What becomes of a message that a handler has returned from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Handled {
    /// It goes to the application, where a receive gets it.
    Deliver,
    /// It ends here.
    Done,
}

impl Comm {
    /// Creates a communicator of the same ranks, whose messages go to a handler: a function of the program that the NIC
    /// calls where a message arrives, whatever the application there does. All ranks must call it, each with its own
    /// handler. What it returns has the functions for modules: [`wait`](Module::wait) for what the handler raises,
    /// [`stats`](Module::stats), [`unload`](Module::unload).
    ///
    /// The NIC stands still while a handler runs, on any thread of the process. So a handler is short, does not block and
    /// makes no call that communicates. A panic in it ends the message: the receive that would have got it fails.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use ferrywire::Handled;
    ///
    /// ferrywire::local(2, |world| {
    ///     let sum = Arc::new(AtomicU64::new(0));
    ///     let ours = Arc::clone(&sum);
    ///     // Adds, and answers with the sum.
    ///     let adder = world.handle("adder", move |message| {
    ///         if message.tag() != 0 {
    ///             return Handled::Deliver;
    ///         }
    ///         let more: u64 = message.value().expect("a number");
    ///         let sum = ours.fetch_add(more, Ordering::Relaxed) + more;
    ///         message.send(message.source(), 1, &[sum]).expect("the sender is there");
    ///         Handled::Done
    ///     });
    ///     let adder = adder.unwrap();
    ///     let other = 1 - world.rank();
    ///     adder.send(&40u64, other, 0).unwrap();
    ///     adder.send(&2u64, other, 0).unwrap();
    ///     assert_eq!(adder.receive_one::<u64>(other, 1).unwrap().0, 40);
    ///     assert_eq!(adder.receive_one::<u64>(other, 1).unwrap().0, 42);
    ///     adder.unload().unwrap();
    /// });
    /// ```
    pub fn handle(
        &self,
        name: &str,
        handler: impl FnMut(&mut ActiveMessage<'_>) -> Handled + Send + 'static,
    ) -> Result<Module, Error> {
        self.load("handle", name, b"", |_| Ok(Box::new(Handler(handler))))
    }
}

impl ActiveMessage<'_> {
    /// The rank that the handler runs at.
    pub fn rank(&self) -> u32 {
        self.hook.rank()
    }

    /// The number of ranks.
    pub fn size(&self) -> u32 {
        self.hook.size()
    }

    /// The rank that has sent the message.
    pub fn source(&self) -> u32 {
        self.hook.sender()
    }

    /// Its tag.
    pub fn tag(&self) -> u32 {
        self.hook.tag()
    }

    /// Its bytes, at most 65,536: longer messages end with a fault.
    pub fn bytes(&self) -> &[u8] {
        self.hook.payload()
    }

    /// The value that it consists of, if it has as many bytes.
    pub fn value<T: Plain>(&self) -> Option<T> {
        let bytes = self.bytes();
        // SAFETY: there are as many bytes, and any of them are a valid value of a `Plain` type.
        (bytes.len() == size_of::<T>())
            .then(|| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
    }

    /// Sends a copy of these items to the handler of a rank. It may do so 64 times for a message.
    pub fn send<T: Plain>(&mut self, to: u32, tag: u32, items: &[T]) -> Result<(), Trap> {
        self.hook.send(to, tag, bytes(items))
    }

    /// Raises a counter of this rank, from 0 to 7, which [`Module::wait`] waits for.
    pub fn raise(&mut self, counter: u32, by: u64) -> Result<(), Trap> {
        self.hook.raise(counter, by)
    }
}

impl std::fmt::Debug for ActiveMessage<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (source, tag, bytes) = (self.source(), self.tag(), self.bytes().len());
        f.debug_struct("ActiveMessage")
            .field("source", &source)
            .field("tag", &tag)
            .field("bytes", &bytes)
            .finish()
    }
}

/// A handler of the program, as the NIC sees it.
struct Handler<F>(F);

impl<F: FnMut(&mut ActiveMessage<'_>) -> Handled + Send> Hooks for Handler<F> {
    fn on_message(&mut self, hook: &mut dyn Hook) -> Result<Verdict, Trap> {
        let handle = || (self.0)(&mut ActiveMessage { hook });
        // What the handler owns is as it has left it; the NIC is not in the middle of anything.
        match catch_unwind(AssertUnwindSafe(handle)) {
            Ok(Handled::Deliver) => Ok(Verdict::Deliver),
            Ok(Handled::Done) => Ok(Verdict::Consume),
            Err(_) => Err(Trap::Unreachable),
        }
    }

    /// Nothing arms a counter for it.
    fn on_counter(&mut self, _: u32, _: &mut dyn Hook) -> Result<(), Trap> {
        Ok(())
    }

    fn fuel_used(&self) -> u64 {
        0
    }
}
