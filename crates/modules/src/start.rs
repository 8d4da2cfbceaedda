//! From code to a live module in one step.

use std::fmt;

use ferrywire_nic::Module;

use crate::{BadSetting, Budget, Code, CodeOperator, Engine, Refusal, Unavailable};

/// Why no module was started.
#[derive(Debug)]
pub enum Trouble {
    /// A setting is invalid.
    Setting(BadSetting),
    /// No engine is available.
    Engine(Unavailable),
    /// The engine refuses the code.
    Code(Refusal),
}

/// Starts a live module from code, with the budget of the settings.
pub fn start(
    code: &[u8],
    settings: impl Fn(&str) -> Option<String>,
) -> Result<Box<dyn Module>, Trouble> {
    let instance = compile(code, settings)?.start().map_err(Trouble::Code)?;
    Ok(Box::new(instance))
}

/// Starts a live operator from code, with the budget of the settings.
pub fn start_operator(
    code: &[u8],
    settings: impl Fn(&str) -> Option<String>,
) -> Result<CodeOperator, Trouble> {
    compile(code, settings)?.start_operator().map_err(Trouble::Code)
}

fn compile(code: &[u8], settings: impl Fn(&str) -> Option<String>) -> Result<Code, Trouble> {
    let budget = Budget::read(&settings).map_err(Trouble::Setting)?;
    let engine = Engine::open(settings).map_err(Trouble::Engine)?;
    engine.compile(code, &budget).map_err(Trouble::Code)
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
