//! The lock of a window, as ranks of other hosts see it: a register that answers requests.
//!
//! The runtime has the same requests and answers. There the lock is a word of shared memory, which ranks of the
//! target's host take without asking; here all ranks ask.

/// How a lock is held.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Hold {
    /// Alone.
    Exclusive,
    /// Together with others.
    Shared,
}

/// The length of a request, and of its answer.
pub const REQUEST_BYTES: u64 = 8;

/// The answer to a request that was granted.
pub const GRANTED: u64 = 1;

/// The request that takes a lock, if it is free.
pub fn acquire(hold: Hold) -> u64 {
    match hold {
        Hold::Exclusive => 1,
        Hold::Shared => 2,
    }
}

/// The request that releases a lock.
pub fn release(hold: Hold) -> u64 {
    acquire(hold) + 2
}

/// A lock and those who hold it.
#[derive(Debug, Default)]
pub struct WindowLock {
    exclusive: u32,
    shared: u32,
}

impl WindowLock {
    /// Answers a request.
    pub fn answer(&mut self, request: &[u8]) -> [u8; 8] {
        let granted = request.try_into().is_ok_and(|code| self.grant(u64::from_le_bytes(code)));
        if granted { GRANTED.to_le_bytes() } else { [0; 8] }
    }

    /// Whether no rank holds it.
    pub fn is_free(&self) -> bool {
        self.exclusive == 0 && self.shared == 0
    }

    fn grant(&mut self, code: u64) -> bool {
        let (count, change) = match code {
            1 if self.is_free() => (&mut self.exclusive, 1),
            2 if self.exclusive == 0 => (&mut self.shared, 1),
            3 => (&mut self.exclusive, -1),
            4 => (&mut self.shared, -1),
            _ => return false,
        };
        // A lock that is not held cannot be released.
        let Some(changed) = count.checked_add_signed(change) else { return false };
        *count = changed;
        true
    }
}
