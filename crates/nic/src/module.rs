//! The interface between the NIC and modules: user code that runs when a message has arrived for it.
//!
//! The NIC knows neither what language a module is written in nor how its bounds are enforced: the engine does.
//! The NIC knows when a module runs ([`Module`]), what it may call ([`Hook`]), and what becomes of the message
//! ([`Verdict`], [`Trap`]).

/// A loaded module. The engine ensures that each call ends within bounded time and memory.
pub trait Module: Send {
    /// A message has arrived.
    fn on_message(&mut self, hook: &mut dyn Hook) -> Result<Verdict, Trap>;

    /// A counter has reached the value that the module armed it for. There is no message: the payload is empty,
    /// and the sender is this rank.
    fn on_counter(&mut self, counter: u32, hook: &mut dyn Hook) -> Result<(), Trap>;

    /// All fuel used so far.
    fn fuel_used(&self) -> u64;
}

/// What a module runs for. Ranks are those of its group.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The rank that the module runs at.
    pub rank: u32,
    /// The size of the group.
    pub size: u32,
    /// The rank that the message claims to be from.
    pub sender: u32,
    /// The tag of the message.
    pub tag: u32,
    /// The current bytes of the message.
    pub payload: &'a [u8],
}

/// What a module may call while it runs. Ranks are those of its group.
pub trait Hook {
    /// What the module runs for, in one call, since nearly every module needs most of it.
    fn message(&self) -> Message<'_>;

    /// The rank that the module runs at.
    fn rank(&self) -> u32 {
        self.message().rank
    }

    /// The size of the group.
    fn size(&self) -> u32 {
        self.message().size
    }

    /// The rank that the message claims to be from.
    fn sender(&self) -> u32 {
        self.message().sender
    }

    /// The tag of the message.
    fn tag(&self) -> u32 {
        self.message().tag
    }

    /// The bytes of the message.
    fn payload(&self) -> &[u8] {
        self.message().payload
    }

    /// The bytes of the message, mutable. A later delivery or forward uses the changed bytes.
    fn payload_mut(&mut self) -> &mut [u8];

    /// Forwards the message, as it is now, to the module at another rank. Its sender and tag stay the same.
    fn forward(&mut self, to: u32) -> Result<(), Trap>;

    /// Sends bytes to the module at a rank, with this rank as the sender.
    fn send(&mut self, to: u32, tag: u32, bytes: &[u8]) -> Result<(), Trap>;

    /// Raises a counter of the module, which the application can wait for.
    fn raise(&mut self, counter: u32, by: u64) -> Result<(), Trap>;

    /// Asks for one [`Module::on_counter`] when a counter is at least `at_least`.
    fn arm(&mut self, counter: u32, at_least: u64) -> Result<(), Trap>;

    /// The time, in nanoseconds since an arbitrary start.
    fn now(&self) -> u64;
}

/// What becomes of a message that a module has handled.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// It goes to the application, and is matched like any other.
    Deliver,
    /// It ends here.
    Consume,
}

/// Why a module trapped. A trap ends the message that the module ran for, and nothing else.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Trap {
    /// The fuel for one message is used up.
    Fuel,
    /// The run took too long.
    Time,
    /// The stack overflowed.
    Stack,
    /// Access outside the module's memory.
    Memory,
    /// Division by zero, or an invalid conversion to an integer.
    Arithmetic,
    /// The module executed `unreachable`.
    Unreachable,
    /// A call of something that is not a function, or of a function of another type.
    Call,
    /// Access beyond the end of the payload.
    Payload,
    /// A rank that is not in the group.
    Rank,
    /// An invalid tag.
    Tag,
    /// A counter number that is out of range.
    Counter,
    /// The module sent too many messages for one that it handled.
    Sends,
    /// The module returned an invalid verdict.
    Verdict,
    /// The message is longer than modules take.
    Length,
    /// The module did not run: it has used up its fuel, time, stack or sends so often in a row that it no longer
    /// runs for every message.
    Barred,
    /// Any other failure of the engine.
    Engine,
}

impl Trap {
    /// All traps, by code.
    pub(crate) const ALL: [Trap; 16] = [
        Trap::Fuel,
        Trap::Time,
        Trap::Stack,
        Trap::Memory,
        Trap::Arithmetic,
        Trap::Unreachable,
        Trap::Call,
        Trap::Payload,
        Trap::Rank,
        Trap::Tag,
        Trap::Counter,
        Trap::Sends,
        Trap::Verdict,
        Trap::Length,
        Trap::Barred,
        Trap::Engine,
    ];

    /// The index in [`Trap::ALL`].
    pub(crate) fn code(self) -> usize {
        self as usize
    }

    /// The trap with this code.
    pub(crate) fn from_code(code: u64) -> Trap {
        let known = usize::try_from(code).ok().and_then(|code| Trap::ALL.get(code));
        known.copied().unwrap_or(Trap::Engine)
    }
}

impl core::fmt::Display for Trap {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Trap::Fuel => "it used up its fuel for one message",
            Trap::Time => "it exceeded its time limit",
            Trap::Stack => "its calls are nested too deeply",
            Trap::Memory => "it accessed memory that it does not have",
            Trap::Arithmetic => "it divided by zero, or converted an invalid number to an integer",
            Trap::Unreachable => "it executed `unreachable` (a panic or abort)",
            Trap::Call => "it called a function pointer that is invalid or of another type",
            Trap::Payload => "it read or wrote beyond the end of the payload",
            Trap::Rank => "it named a rank that does not exist",
            Trap::Tag => "it used an invalid tag",
            Trap::Counter => "it named a counter that does not exist",
            Trap::Sends => "it exceeded its limit of sends for one message",
            Trap::Verdict => "it returned an invalid verdict",
            Trap::Barred => {
                "it exceeded its limits so often in a row that it now runs for few messages only"
            }
            Trap::Length => "the message is longer than modules accept",
            Trap::Engine => "the module engine failed",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Trap;

    #[test]
    fn a_trap_is_known_by_its_code() {
        for trap in Trap::ALL {
            assert_eq!(Trap::from_code(trap.code() as u64), trap);
        }
    }
}
