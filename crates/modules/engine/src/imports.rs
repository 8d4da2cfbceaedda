//! The functions that a module may import: those of module `ferry`.
//!
//! All arguments of a module are checked here before use: a negative number, or one that points outside the payload or
//! the memory, ends the call.
//!
//! Invariants, besides those of the boundary (B1 to B4):
//!   M1. `State::message` is null or the message of the call that runs, by B1 ours alone until that call returns.
//!   M2. `Message::payload` is not null only if no callback that changes anything was called since it was written.

use core::fmt;
use core::ptr;
use core::slice;

use ferrywire_modules::abi::{Bytes, DONE, Message, trap_of};
use ferrywire_nic::Trap;
use wasmtime::{Caller, Engine, Linker, Memory, Result};

use crate::instance::State;
use crate::meter;

/// A function that modules may import.
pub(crate) struct Offer {
    pub(crate) name: &'static str,
    /// Its type, as users write it.
    pub(crate) ty: &'static str,
    /// Whether it needs the module's memory.
    pub(crate) memory: bool,
}

/// All importable functions.
pub(crate) const OFFERS: &[Offer] = &[
    Offer { name: "rank", ty: "() -> i32", memory: false },
    Offer { name: "size", ty: "() -> i32", memory: false },
    Offer { name: "sender", ty: "() -> i32", memory: false },
    Offer { name: "tag", ty: "() -> i32", memory: false },
    Offer { name: "length", ty: "() -> i32", memory: false },
    Offer { name: "now", ty: "() -> i64", memory: false },
    Offer { name: "read", ty: "(i32, i32, i32) -> ()", memory: true },
    Offer { name: "write", ty: "(i32, i32, i32) -> ()", memory: true },
    Offer { name: "forward", ty: "(i32) -> ()", memory: false },
    Offer { name: "send", ty: "(i32, i32, i32, i32) -> ()", memory: true },
    Offer { name: "reply", ty: "(i32, i32) -> ()", memory: true },
    Offer { name: "raise", ty: "(i32, i64) -> ()", memory: false },
    Offer { name: "arm", ty: "(i32, i64) -> ()", memory: false },
];

/// The name of their module.
pub(crate) const FROM: &str = "ferry";

/// A linker with all of these functions.
pub(crate) fn linker(engine: &Engine) -> Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    linker
        .func_wrap(FROM, "rank", |caller: Caller<'_, State>| ask(caller, |message| message.rank))?;
    linker
        .func_wrap(FROM, "size", |caller: Caller<'_, State>| ask(caller, |message| message.size))?;
    linker.func_wrap(FROM, "sender", |caller: Caller<'_, State>| {
        ask(caller, |message| message.sender)
    })?;
    linker
        .func_wrap(FROM, "tag", |caller: Caller<'_, State>| ask(caller, |message| message.tag))?;
    linker.func_wrap(FROM, "length", length)?;
    linker.func_wrap(FROM, "now", now)?;
    linker.func_wrap(FROM, "read", read)?;
    linker.func_wrap(FROM, "write", write)?;
    linker.func_wrap(FROM, "forward", forward)?;
    linker.func_wrap(FROM, "send", send)?;
    linker.func_wrap(FROM, "reply", reply)?;
    linker.func_wrap(FROM, "raise", raise)?;
    linker.func_wrap(FROM, "arm", arm)?;
    Ok(linker)
}

/// The NIC, or a check here, stops the module.
#[derive(Debug)]
pub(crate) struct Stopped(pub(crate) Trap);

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl core::error::Error for Stopped {}

/// The module asked for something that exists only with a message.
#[derive(Debug)]
pub(crate) struct NotYet;

impl fmt::Display for NotYet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "it called an import while it was loading; imports work once there is a message",
        )
    }
}

impl core::error::Error for NotYet {}

/// Returns a property of the message.
fn ask(mut caller: Caller<'_, State>, what: impl Fn(&Message) -> u32) -> Result<i32> {
    meter::charge(&mut caller, meter::QUESTION)?;
    Ok(what(message(&caller)?).cast_signed())
}

fn length(mut caller: Caller<'_, State>) -> Result<i32> {
    meter::charge(&mut caller, meter::QUESTION)?;
    i32::try_from(message(&caller)?.len).map_err(|_| Stopped(Trap::Length).into())
}

fn now(mut caller: Caller<'_, State>) -> Result<i64> {
    meter::charge(&mut caller, meter::CLOCK)?;
    let context = message(&caller)?.context;
    // SAFETY: B1: the context is the one of the message.
    let now_ns = unsafe { (caller.data().callbacks.now)(context) };
    Ok(now_ns.cast_signed())
}

/// Copies `len` bytes of the payload, from `offset` on, to `into` in the memory.
fn read(mut caller: Caller<'_, State>, into: i32, offset: i32, len: i32) -> Result<()> {
    let (offset, len) = both(offset, len, Trap::Payload)?;
    meter::charge(&mut caller, meter::MOVE + meter::bytes(len))?;
    let payload = payload(&mut caller)?;
    // SAFETY: M2 and B4: nothing moves or changes the payload until the next callback, and we call none.
    let payload = unsafe { slice::from_raw_parts(payload.start, payload.len) };
    let from = payload.get(offset..).and_then(|rest| rest.get(..len)).ok_or(PAYLOAD)?;
    let memory = memory(&caller)?.data_mut(&mut caller);
    piece_mut(memory, into, len)?.copy_from_slice(from);
    Ok(())
}

/// Copies `len` bytes of the memory, from `from` on, to `offset` in the payload.
fn write(mut caller: Caller<'_, State>, offset: i32, from: i32, len: i32) -> Result<()> {
    let (offset, len) = both(offset, len, Trap::Payload)?;
    meter::charge(&mut caller, meter::MOVE + meter::bytes(len))?;
    let message = message_mut(&caller)?;
    let (memory, state) = memory(&caller)?.data_and_store_mut(&mut caller);
    // SAFETY: B1: the context is the one of the message.
    let payload = unsafe { (state.callbacks.payload_mut)(message.context) };
    message.payload = ptr::null();
    // SAFETY: B4; nothing else accesses the payload while the module runs (B1).
    let payload = unsafe { slice::from_raw_parts_mut(payload.start, payload.len) };
    let into = payload.get_mut(offset..).and_then(|rest| rest.get_mut(..len)).ok_or(PAYLOAD)?;
    into.copy_from_slice(piece(memory, from, len)?);
    Ok(())
}

fn forward(mut caller: Caller<'_, State>, to: i32) -> Result<()> {
    let to = natural(to, Trap::Rank)?;
    let message = message_mut(&caller)?;
    meter::charge(&mut caller, meter::SEND + meter::bytes(message.len))?;
    message.payload = ptr::null();
    // SAFETY: B1: the context is the one of the message.
    done(unsafe { (caller.data().callbacks.forward)(message.context, to) })
}

fn send(caller: Caller<'_, State>, to: i32, tag: i32, from: i32, len: i32) -> Result<()> {
    let to = natural(to, Trap::Rank)?;
    let tag = natural(tag, Trap::Tag)?;
    send_bytes(caller, to, tag, from, len)
}

/// Sends to the sender of the message, with its tag.
fn reply(caller: Caller<'_, State>, from: i32, len: i32) -> Result<()> {
    let message = message(&caller)?;
    let (to, tag) = (message.sender, message.tag);
    send_bytes(caller, to, tag, from, len)
}

fn send_bytes(mut caller: Caller<'_, State>, to: u32, tag: u32, from: i32, len: i32) -> Result<()> {
    let len = usize::try_from(len).map_err(|_| MEMORY)?;
    meter::charge(&mut caller, meter::SEND + meter::bytes(len))?;
    let message = message_mut(&caller)?;
    let (memory, state) = memory(&caller)?.data_and_store_mut(&mut caller);
    let bytes = piece(memory, from, len)?;
    message.payload = ptr::null();
    let send = state.callbacks.send;
    // SAFETY: B1 for the context; B4: the bytes are the module's, which does not run meanwhile.
    done(unsafe { send(message.context, to, tag, bytes.as_ptr(), bytes.len()) })
}

fn raise(mut caller: Caller<'_, State>, counter: i32, by: i64) -> Result<()> {
    meter::charge(&mut caller, meter::COUNTER)?;
    let counter = natural(counter, Trap::Counter)?;
    let by = u64::try_from(by).map_err(|_| COUNTER)?;
    let message = message_mut(&caller)?;
    message.payload = ptr::null();
    // SAFETY: B1: the context is the one of the message.
    done(unsafe { (caller.data().callbacks.raise)(message.context, counter, by) })
}

fn arm(mut caller: Caller<'_, State>, counter: i32, at_least: i64) -> Result<()> {
    meter::charge(&mut caller, meter::COUNTER)?;
    let counter = natural(counter, Trap::Counter)?;
    let at_least = u64::try_from(at_least).map_err(|_| COUNTER)?;
    let message = message_mut(&caller)?;
    message.payload = ptr::null();
    // SAFETY: B1: the context is the one of the message.
    done(unsafe { (caller.data().callbacks.arm)(message.context, counter, at_least) })
}

/// The message of this call.
fn message<'a>(caller: &Caller<'_, State>) -> Result<&'a Message> {
    message_mut(caller).map(|message| &*message)
}

/// The message of this call, mutable. Not tied to the caller: it belongs to the client, not to the store.
fn message_mut<'a>(caller: &Caller<'_, State>) -> Result<&'a mut Message> {
    // SAFETY: M1. An import has one of these at a time, and it does not outlive the import.
    let message = unsafe { caller.data().message.as_mut() };
    message.ok_or_else(|| NotYet.into())
}

/// Where the payload is now.
fn payload(caller: &mut Caller<'_, State>) -> Result<Bytes> {
    let message = message_mut(caller)?;
    if !message.payload.is_null() {
        return Ok(Bytes { start: message.payload.cast_mut(), len: message.len });
    }
    // SAFETY: B1: the context is the one of the message.
    let bytes = unsafe { (caller.data().callbacks.payload)(message.context) };
    (message.payload, message.len) = (bytes.start, bytes.len);
    Ok(bytes)
}

/// The module's memory. `code` has refused modules that need one and export none.
fn memory(caller: &Caller<'_, State>) -> Result<Memory> {
    caller.data().memory.ok_or_else(|| NotYet.into())
}

fn piece(memory: &[u8], from: i32, len: usize) -> Result<&[u8]> {
    let from = usize::try_from(from).map_err(|_| MEMORY)?;
    Ok(memory.get(from..).and_then(|rest| rest.get(..len)).ok_or(MEMORY)?)
}

fn piece_mut(memory: &mut [u8], from: i32, len: usize) -> Result<&mut [u8]> {
    let from = usize::try_from(from).map_err(|_| MEMORY)?;
    Ok(memory.get_mut(from..).and_then(|rest| rest.get_mut(..len)).ok_or(MEMORY)?)
}

fn both(offset: i32, len: i32, otherwise: Trap) -> Result<(usize, usize)> {
    match (usize::try_from(offset), usize::try_from(len)) {
        (Ok(offset), Ok(len)) => Ok((offset, len)),
        _ => Err(Stopped(otherwise).into()),
    }
}

fn natural(number: i32, otherwise: Trap) -> Result<u32> {
    u32::try_from(number).map_err(|_| Stopped(otherwise).into())
}

fn done(number: i32) -> Result<()> {
    if number == DONE { Ok(()) } else { Err(Stopped(trap_of(number)).into()) }
}

const PAYLOAD: Stopped = Stopped(Trap::Payload);
const MEMORY: Stopped = Stopped(Trap::Memory);
const COUNTER: Stopped = Stopped(Trap::Counter);
