//! What user code on the NIC is to the NIC: a hook that runs when a message has come for it.
//!
//! The NIC knows neither what language a module is written in nor how it is kept within its bounds: that is
//! an engine's business. It knows when a module runs ([`Module`]), what a module may ask for while it
//! does ([`Hook`]), and what becomes of the message ([`Verdict`], [`Trap`]).

/// A live module. The engine sees to it that each call ends in bounded time and memory.
pub trait Module: Send {
    /// A message has come.
    fn on_message(&mut self, hook: &mut dyn Hook) -> Result<Verdict, Trap>;

    /// A counter has reached what the module armed it for. There is no message: its payload is empty, its
    /// sender is this rank.
    fn on_counter(&mut self, counter: u32, hook: &mut dyn Hook) -> Result<(), Trap>;

    /// All the fuel that it has used so far.
    fn fuel_used(&self) -> u64;
}

/// What a module is run for. Ranks are as its group counts.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The rank that the module runs at.
    pub rank: u32,
    /// How many ranks its group has.
    pub size: u32,
    /// The rank that the message says it is from.
    pub sender: u32,
    /// The tag of the message.
    pub tag: u32,
    /// The bytes of the message, as they are now.
    pub payload: &'a [u8],
}

/// What a module may ask for while it runs. Ranks are as its group counts.
pub trait Hook {
    /// What it is run for, in one answer, since nearly every module asks for most of it.
    fn message(&self) -> Message<'_>;

    /// The rank that it runs at.
    fn rank(&self) -> u32 {
        self.message().rank
    }

    /// How many ranks its group has.
    fn size(&self) -> u32 {
        self.message().size
    }

    /// The rank that the message says it is from.
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

    /// The bytes of the message, to be changed: what is delivered or forwarded from now on is what they are
    /// then.
    fn payload_mut(&mut self) -> &mut [u8];

    /// Sends the message on, as it is now, to the module at another rank. It keeps its sender and its tag.
    fn forward(&mut self, to: u32) -> Result<(), Trap>;

    /// Sends bytes to the module at a rank, in the name of this one.
    fn send(&mut self, to: u32, tag: u32, bytes: &[u8]) -> Result<(), Trap>;

    /// Raises a counter of the module's, which the application can wait for.
    fn raise(&mut self, counter: u32, by: u64) -> Result<(), Trap>;

    /// Asks for one [`Module::on_counter`] when a counter is at least this.
    fn arm(&mut self, counter: u32, at_least: u64) -> Result<(), Trap>;

    /// The time, in nanoseconds since whenever the world began to count.
    fn now(&self) -> u64;
}

/// What a module wants to become of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// It goes to the application, matched as any other.
    Deliver,
    /// It ends here.
    Consume,
}

/// Why a module did not come to an end. It ends the message that it ran for, and nothing else.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Trap {
    /// It used all the fuel that it may use for one message.
    Fuel,
    /// It ran for longer than it may, whatever it did.
    Time,
    /// It called itself too deeply.
    Stack,
    /// It touched memory that it does not have.
    Memory,
    /// It divided by zero, or made an integer of a number that is none.
    Arithmetic,
    /// It gave up by itself.
    Unreachable,
    /// It called what is no function, or not of that type.
    Call,
    /// It read or wrote beyond the end of the payload.
    Payload,
    /// It named a rank that its group does not have.
    Rank,
    /// It used a tag that is none.
    Tag,
    /// It named a counter that modules do not have.
    Counter,
    /// It sent more than it may for one message.
    Sends,
    /// It answered something that is no verdict.
    Verdict,
    /// The message was longer than modules take.
    Length,
    /// It has used up its fuel, time, stack or sends so often in a row that it does not run for every message any more, and it did
    /// not run for this one.
    Barred,
    /// Its engine failed in a way that has no other name.
    Engine,
}

impl Trap {
    /// All of them, in order.
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

    /// Its place among them.
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
            Trap::Fuel => "it used all the fuel that it may use for one message",
            Trap::Time => "it ran for longer than it may",
            Trap::Stack => "it called itself too deeply",
            Trap::Memory => "it touched memory that it does not have",
            Trap::Arithmetic => "it divided by zero, or made an integer of what is none",
            Trap::Unreachable => "it gave up",
            Trap::Call => "it called what is no function, or not of that type",
            Trap::Payload => "it read or wrote beyond the end of the payload",
            Trap::Rank => "it named a rank that is not there",
            Trap::Tag => "it used a tag that is none",
            Trap::Counter => "it named a counter that modules do not have",
            Trap::Sends => "it sent more than it may for one message",
            Trap::Verdict => "it answered something that is no verdict",
            Trap::Barred => {
                "it used up what it may use so often in a row that it runs for few messages only"
            }
            Trap::Length => "the message is longer than modules take",
            Trap::Engine => "its engine failed",
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
