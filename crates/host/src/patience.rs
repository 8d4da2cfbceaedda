//! How long a thread that waits looks around before it sleeps.

use std::time::{Duration, Instant};

/// What to do next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Next {
    /// Look again.
    Look,
    /// Let somebody else have the core, then look again.
    Yield,
    /// Sleep.
    Sleep,
}

/// The patience of one wait. Where every rank has a core to itself, looking is cheaper than sleeping
/// for a while; where it has not, whoever looks keeps others from doing what is waited for.
pub(crate) struct Patience {
    crowded: bool,
    looks: u32,
    since: Option<Instant>,
}

impl Patience {
    pub(crate) fn new(crowded: bool) -> Patience {
        Patience { crowded, looks: 0, since: None }
    }

    /// Something happened: more may follow.
    #[inline(always)]
    pub(crate) fn renew(&mut self) {
        self.looks = 0;
        self.since = None;
    }

    #[inline(always)]
    pub(crate) fn next(&mut self) -> Next {
        self.looks += 1;
        if self.crowded {
            return if self.looks <= YIELDS_MAX { Next::Yield } else { Next::Sleep };
        }
        if self.looks < LOOKS_PER_LAP {
            return Next::Look;
        }
        self.lap()
    }

    #[cold]
    fn lap(&mut self) -> Next {
        self.looks = 0;
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() < SPIN_MAX { Next::Yield } else { Next::Sleep }
    }
}

/// Looks between two glances at the clock.
const LOOKS_PER_LAP: u32 = 256;
/// Where cores are shared, whoever yields first may find what it waits for when it is its turn again, and
/// has saved two system calls and a wake-up. If nobody else wants the core, it is soon asleep. Measured
/// with 4, 16 and 32 ranks on two cores: more help few ranks little, and are in the way of many.
const YIELDS_MAX: u32 = 16;
/// Sleeping and being woken costs about a tenth of this.
const SPIN_MAX: Duration = Duration::from_micros(100);
