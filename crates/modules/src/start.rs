//! From code to a live module in one step, for those who load one.

use std::fmt;

use ferrywire_nic::Module;

use crate::{BadSetting, Budget, Engine, Refusal, Unavailable};

/// Why there is no live module.
#[derive(Debug)]
pub enum Trouble {
    /// A setting makes no sense.
    Setting(BadSetting),
    /// There is no engine.
    Engine(Unavailable),
    /// The engine does not take the code.
    Code(Refusal),
}

/// Makes a live module of code, within the budget that settings give.
pub fn start(
    code: &[u8],
    settings: impl Fn(&str) -> Option<String>,
) -> Result<Box<dyn Module>, Trouble> {
    let budget = Budget::read(&settings).map_err(Trouble::Setting)?;
    let engine = Engine::open(settings).map_err(Trouble::Engine)?;
    let code = engine.compile(code, &budget).map_err(Trouble::Code)?;
    let instance = code.start().map_err(Trouble::Code)?;
    Ok(Box::new(instance))
}

impl std::error::Error for Trouble {}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Setting(error) => error.fmt(f),
            Trouble::Engine(error) => error.fmt(f),
            Trouble::Code(error) => error.fmt(f),
        }
    }
}
