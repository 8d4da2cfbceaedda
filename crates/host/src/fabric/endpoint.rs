//! One libfabric endpoint: messages to and from other ranks, reads of their memory, and the memory lent to the library.

// Invariants of this file, cited below by number.
//   E1. Objects of the library are created in `open`, live as long as the endpoint, and are closed in the
//       order of its fields: each before those that it was created from. The library copies what it is given,
//       except memory as in E3.
//   E2. Two threads never call the library for one endpoint at the same time: its rail and its inlet belong
//       to one driver, which uses both under its lock. We have told the library so (FI_THREAD_DOMAIN).
//   E3. A slot whose `lent` is set belongs to the library, contents and context. `lent` is set before the
//       library gets the slot, and cleared when the library reports that it is done with it, or has refused
//       it. All other slots are ours.
//   E4. `memory` holds the slots, each a context and then room, followed by the contexts of reads; a number
//       below `SLOTS` is a slot, others below `CONTEXTS` are contexts of reads.
//   E5. User memory that is registered, or read into, is lent by the user for that long.

use std::ffi::{c_int, c_void};
use std::net::IpAddr;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use ferrywire_nic::Span;

use super::bindings::{self as fi, Completion, Failure, Fid, Library};
use super::endpoint_address::NAME_BYTES_MAX;
use super::found::{List, NoFabric, library};
use super::object::{Object, Registered, made, register, table};
use super::slots::{
    CONTEXTS, MESSAGE_BYTES_MAX, Memory, RECEIVES, SENDS, SENDS_PER_PEER_MAX, SLOTS,
};

/// An open endpoint.
pub(crate) struct Endpoint {
    ep: NonNull<fi::Ep>,
    cq: NonNull<fi::Cq>,
    av: NonNull<fi::Av>,
    fabric: NonNull<fi::FidFabric>,
    domain: NonNull<fi::Domain>,
    // Kept to be closed, in this order.
    _ep: Object,
    _region: Option<Registered>,
    _cq: Object,
    _av: Object,
    _domain: Object,
    _fabric: Object,
    memory: Memory,
    library: &'static Library,
    calls: Calls,
    /// The provider's descriptor of `memory`, where it has to be registered.
    description: *mut c_void,
    name: Vec<u8>,
    /// Readable when something may have arrived. The library owns it.
    wait: Option<RawFd>,
    /// The library copies messages up to this length at once.
    inject_bytes_max: usize,
    /// How to read other ranks' memory, if the provider can.
    reading: Option<Reading>,
    /// Whether the library makes progress only when called.
    pub(super) is_manual: bool,
    lent: Box<[AtomicBool]>,
    /// Lent slots whose message goes to a peer that is gone: the library may keep them for ever.
    stray: Box<[AtomicBool]>,
    /// The receiver of the message in a slot, or the read that uses a context.
    tokens: Box<[AtomicU32]>,
    /// Where the search for a free send slot starts.
    next: AtomicUsize,
    /// The number of messages whose slots have become free again.
    finished: AtomicU64,
    /// Receive slots that the library has refused so far.
    refused: AtomicUsize,
}

/// How a provider reads other ranks' memory.
struct Reading {
    read: fi::ReadRemote,
    /// Remote memory is named by address, not by offset into the registered region.
    by_address: bool,
    /// The provider chooses keys. Otherwise we do, within `key_bits`.
    own_keys: bool,
    key_bits: u64,
    next_key: AtomicU64,
    /// Memory that is read into has to be registered, too.
    registers_here: bool,
    /// Registered memory has to be bound to the endpoint.
    binds: bool,
    read_bytes_max: u64,
    /// Every read ends, even if its peer is gone.
    ends: bool,
}

/// Functions from the endpoint's tables.
struct Calls {
    read: fi::CqRead,
    readerr: fi::ReadError,
    receive: fi::Receive,
    send: fi::Send,
    inject: fi::Inject,
    insert: fi::Insert,
    trywait: fi::TryWait,
}

// SAFETY: E2; nothing in it belongs to a thread.
unsafe impl Send for Endpoint {}
// SAFETY: E2.
unsafe impl Sync for Endpoint {}

/// What became of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Given {
    /// The library has it.
    Away,
    /// There is no room for it now.
    Full,
    /// It can never be sent, for this reason.
    Never(c_int),
}

/// An event at an endpoint.
pub(super) enum Happened<'a> {
    /// A message has arrived.
    Message(&'a [u8]),
    /// A message will never arrive; `token` is the one that it was sent with.
    Lost { token: Option<u32>, code: c_int },
    /// A read is over; `token` is the one that it was started with. It succeeded if the code is zero.
    Read { token: u32, code: c_int },
}

/// A piece of a read.
pub(super) struct Piece {
    /// The address in the peer's registered memory, where that memory begins, and its key.
    pub(super) at: u64,
    pub(super) start: u64,
    pub(super) key: u64,
    pub(super) into: Span,
}

impl Endpoint {
    /// Opens an endpoint of a provider, bound to one of our own addresses if the provider uses IP addresses.
    pub(crate) fn open(
        provider: &str,
        own: impl Iterator<Item = IpAddr>,
    ) -> Result<Endpoint, NoFabric> {
        let library = library()?;
        let list = choose(library, provider, own)?;
        let info = list.as_ptr();
        let trouble = |what| {
            move |code| NoFabric::Trouble {
                provider: provider.to_owned(),
                what,
                why: library.in_words(code),
            }
        };
        let facts = ProviderAttributes::of(&list);
        let none = std::ptr::null_mut();
        let fabric = made(|place| {
            // SAFETY: E1.
            unsafe { (library.fabric)(list.first().fabric_attr, place, none) }
        });
        let fabric: NonNull<fi::FidFabric> = fabric.map_err(trouble("open a fabric"))?;
        let fabric_object = Object(fabric.cast());
        let fabric_ops = table(fabric, |fabric| fabric.ops);
        // SAFETY: E1.
        let domain =
            made(|place| unsafe { (fabric_ops.domain)(fabric.as_ptr(), info, place, none) });
        let domain: NonNull<fi::Domain> = domain.map_err(trouble("open a domain"))?;
        let domain_object = Object(domain.cast());
        let domain_ops = table(domain, |domain| domain.ops);
        let mut attributes = facts.av_attributes();
        let av = made(|place| {
            // SAFETY: E1.
            unsafe { (domain_ops.av_open)(domain.as_ptr(), &raw mut attributes, place, none) }
        });
        let av: NonNull<fi::Av> = av.map_err(trouble("open an address vector"))?;
        let av_object = Object(av.cast());
        let (cq, wait) = open_queue(domain).map_err(trouble("open a completion queue"))?;
        let cq_object = Object(cq.cast());
        // SAFETY: E1.
        let ep = made(|place| unsafe { (domain_ops.endpoint)(domain.as_ptr(), info, place, none) });
        let ep: NonNull<fi::Ep> = ep.map_err(trouble("open an endpoint"))?;
        let ep_object = Object(ep.cast());
        let memory = Memory::new();
        ep_object
            .bind(&cq_object, fi::FI_SEND | fi::FI_RECV)
            .map_err(trouble("bind the completion queue"))?;
        ep_object.bind(&av_object, 0).map_err(trouble("bind the address vector"))?;
        ep_object.enable().map_err(trouble("enable an endpoint"))?;
        let binds = facts.mr_mode & fi::FI_MR_ENDPOINT != 0;
        let bind = binds.then_some(&ep_object);
        let region = match facts.mr_mode & fi::FI_MR_LOCAL {
            0 => None,
            _ => Some(memory.register(domain, bind).map_err(trouble("register memory"))?),
        };
        let description = region.as_ref().map_or(std::ptr::null_mut(), |own| own.description);
        let name = name_of(ep).map_err(trouble("get the address of an endpoint"))?;
        let calls = Calls::of(fabric, av, cq, ep);
        let reading = list.reads().then(|| facts.reading(ep, list.ends_reads()));
        // Read buffers are not registered: no provider that needs them requires that.
        let reading = reading.filter(|reading| reading.ends || !reading.registers_here);
        let endpoint = Endpoint {
            ep,
            cq,
            av,
            fabric,
            domain,
            _ep: ep_object,
            _region: region,
            _cq: cq_object,
            _av: av_object,
            _domain: domain_object,
            _fabric: fabric_object,
            memory,
            library,
            calls,
            description,
            name,
            wait,
            inject_bytes_max: facts.inject_bytes_max,
            reading,
            is_manual: facts.is_manual,
            lent: (0..CONTEXTS).map(|_| AtomicBool::new(false)).collect(),
            stray: (0..SLOTS).map(|_| AtomicBool::new(false)).collect(),
            tokens: (0..CONTEXTS).map(|_| AtomicU32::new(0)).collect(),
            next: AtomicUsize::new(0),
            finished: AtomicU64::new(0),
            refused: AtomicUsize::new(RECEIVES),
        };
        endpoint.lend_refused();
        Ok(endpoint)
    }

    /// The name by which others address it.
    pub(super) fn name(&self) -> &[u8] {
        &self.name
    }

    /// A descriptor to wait on until something may have arrived, if the provider has one.
    pub(crate) fn wait(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: E1: it is open as long as the queue is.
        self.wait.map(|wait| unsafe { BorrowedFd::borrow_raw(wait) })
    }

    /// Inserts an endpoint's name into the address table and returns its address.
    pub(super) fn insert_address(&self, name: &[u8]) -> Result<u64, c_int> {
        let mut address = fi::FI_ADDR_UNSPEC;
        // The library reads a full name of this provider even if a shorter one is given, so the buffer has
        // the full length.
        let mut room = [0; NAME_BYTES_MAX];
        room.get_mut(..name.len()).ok_or(-libc::EINVAL)?.copy_from_slice(name);
        let (at, none) = (room.as_ptr().cast(), std::ptr::null_mut());
        // SAFETY: E1, E2: one name, with room behind it.
        let count =
            unsafe { (self.calls.insert)(self.av.as_ptr(), at, 1, &raw mut address, 0, none) };
        if count == 1 { Ok(address) } else { Err(count.min(-1)) }
    }

    /// Sends a message in parts. Events about it carry `token`.
    pub(super) fn send(&self, to: u64, token: u32, parts: [&[u8]; 3]) -> Given {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if len > self.inject_bytes_max && self.slots_of(token) >= SENDS_PER_PEER_MAX {
            return Given::Full;
        }
        let Some(slot) = self.free_slot() else { return Given::Full };
        self.fill(slot, parts);
        let (ep, bytes) = (self.ep.as_ptr(), self.memory.room(slot).as_ptr());
        if len <= self.inject_bytes_max {
            // SAFETY: E2, E3: the library only reads it, and only during the call.
            return given(unsafe { (self.calls.inject)(ep, bytes.cast(), len, to) });
        }
        self.lent[slot].store(true, Ordering::Relaxed);
        self.stray[slot].store(false, Ordering::Relaxed);
        self.tokens[slot].store(token, Ordering::Relaxed);
        let (context, description) = (self.memory.context(slot), self.description);
        let sent = given({
            // SAFETY: E2, E3.
            unsafe { (self.calls.send)(ep, bytes.cast(), len, description, to, context.as_ptr()) }
        });
        if sent == Given::Away {
            self.next.store(slot - RECEIVES + 1, Ordering::Relaxed);
        } else {
            self.lent[slot].store(false, Ordering::Relaxed);
        }
        sent
    }

    /// Whether other ranks' memory can be read.
    pub(super) fn reads(&self) -> bool {
        self.reading.is_some()
    }

    /// Lets others read our memory, as long as the returned value lives.
    pub(super) fn expose(&self, span: Span) -> Option<Registered> {
        let reading = self.reading.as_ref()?;
        // A key that we choose may still be in use.
        (0..KEY_TRIES).find_map(|_| self.register(reading, span, fi::FI_REMOTE_READ).ok())
    }

    /// Registers memory to read into, where that is necessary.
    pub(super) fn prepare(&self, into: Span) -> Result<Option<Registered>, c_int> {
        let reading = self.reading.as_ref().ok_or(-libc::ENOSYS)?;
        let necessary = reading.registers_here;
        necessary.then(|| self.register(reading, into, fi::FI_READ)).transpose()
    }

    fn register(&self, reading: &Reading, span: Span, access: u64) -> Result<Registered, c_int> {
        let key = match reading.own_keys {
            true => 0,
            false => reading.next_key.fetch_add(1, Ordering::Relaxed) & reading.key_bits,
        };
        let len = usize::try_from(span.len).map_err(|_| -libc::EINVAL)?;
        let start = usize::try_from(span.offset).map_err(|_| -libc::EINVAL)?;
        let start = std::ptr::with_exposed_provenance(start);
        let bind = reading.binds.then_some(&self._ep);
        // SAFETY: E5.
        unsafe { register(self.domain, start, len, access, key, bind) }
    }

    /// Starts a read of a piece of a peer's memory. Events about it carry `token`.
    pub(super) fn read(
        &self,
        address: u64,
        token: u32,
        piece: &Piece,
        registered: Option<&Registered>,
    ) -> Given {
        let Some(reading) = &self.reading else { return Given::Never(-libc::ENOSYS) };
        let mut contexts = SLOTS..CONTEXTS;
        let free = contexts.find(|&at| !self.lent[at].load(Ordering::Relaxed));
        let Some(context) = free else { return Given::Full };
        let (Ok(into), Ok(len)) =
            (usize::try_from(piece.into.offset), usize::try_from(piece.into.len))
        else {
            return Given::Never(-libc::EINVAL);
        };
        let at = if reading.by_address { piece.at } else { piece.at - piece.start };
        self.lent[context].store(true, Ordering::Relaxed);
        self.tokens[context].store(token, Ordering::Relaxed);
        let given = given({
            let into = std::ptr::with_exposed_provenance_mut(into);
            let description = registered.map_or(std::ptr::null_mut(), |own| own.description);
            let own = self.memory.context(context).as_ptr();
            // SAFETY: E2, E3, E5.
            unsafe {
                (reading.read)(
                    self.ep.as_ptr(),
                    into,
                    len,
                    description,
                    address,
                    at,
                    piece.key,
                    own,
                )
            }
        });
        if given != Given::Away {
            self.lent[context].store(false, Ordering::Relaxed);
        }
        given
    }

    /// Whether every read ends, even if its peer is gone.
    pub(super) fn gives_back(&self) -> bool {
        self.reading.as_ref().is_some_and(|reading| reading.ends)
    }

    /// The longest piece of a read.
    pub(super) fn read_bytes_max(&self) -> u64 {
        self.reading.as_ref().map_or(0, |reading| reading.read_bytes_max)
    }

    /// Shows at most `limit` events and returns how many. The library makes progress during this call.
    #[inline]
    pub(super) fn poll(&self, limit: usize, mut show: impl FnMut(Happened<'_>)) -> usize {
        if self.refused.load(Ordering::Relaxed) > 0 {
            self.lend_refused();
        }
        let mut list = [NOTHING; BATCH_MAX];
        let (start, room) = (list.as_mut_ptr().cast(), limit.min(BATCH_MAX));
        // SAFETY: E2: there is room for that many.
        let count = unsafe { (self.calls.read)(self.cq.as_ptr(), start, room) };
        let Ok(count) = usize::try_from(count) else {
            return match c_int::try_from(-count) {
                Ok(fi::FI_EAVAIL) => self.poll_failure(&mut show),
                _ => 0,
            };
        };
        for completion in &list[..count.min(room)] {
            let Some(slot) = self.memory.slot(completion.context) else { continue };
            self.lent[slot].store(false, Ordering::Relaxed);
            if slot < RECEIVES {
                // SAFETY: E3: it is ours until `lend` below, and the length is within the room.
                let message =
                    unsafe { self.memory.bytes(slot, completion.len.min(MESSAGE_BYTES_MAX)) };
                show(Happened::Message(message));
                if !self.lend(slot) {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                }
            } else {
                self.finished.fetch_add(1, Ordering::Relaxed);
                if slot >= SLOTS {
                    let token = self.tokens[slot].load(Ordering::Relaxed);
                    show(Happened::Read { token, code: 0 });
                }
            }
        }
        count
    }

    /// Whether something has arrived, or the library has work to do, so that no thread should sleep.
    /// Afterwards the descriptor can be waited on.
    pub(super) fn is_ready(&self) -> bool {
        if self.wait.is_none() {
            return false;
        }
        let mut queue: *mut Fid = self.cq.as_ptr().cast();
        // SAFETY: E1, E2: one object.
        unsafe { (self.calls.trywait)(self.fabric.as_ptr(), &raw mut queue, 1) != 0 }
    }

    /// How many messages are known to have left, of those that needed a slot.
    pub(super) fn finished(&self) -> u64 {
        self.finished.load(Ordering::Relaxed)
    }

    /// Whether no message in a slot is on its way to a peer that is still there.
    pub(super) fn is_drained(&self) -> bool {
        let is_set = |flags: &[AtomicBool], slot: usize| flags[slot].load(Ordering::Relaxed);
        (RECEIVES..SLOTS).all(|slot| !is_set(&self.lent, slot) || is_set(&self.stray, slot))
    }

    /// Notes that the peer with this token is gone.
    pub(super) fn forget(&self, token: u32) {
        for slot in RECEIVES..SLOTS {
            if self.tokens[slot].load(Ordering::Relaxed) == token {
                self.stray[slot].store(true, Ordering::Relaxed);
            }
        }
    }

    /// The text for an error number.
    pub(super) fn in_words(&self, code: c_int) -> String {
        self.library.in_words(code)
    }

    #[cold]
    fn poll_failure(&self, show: &mut impl FnMut(Happened<'_>)) -> usize {
        // SAFETY: it is plain data: all zeros is a valid value.
        let mut failure: Failure = unsafe { std::mem::zeroed() };
        // SAFETY: E2.
        let count = unsafe { (self.calls.readerr)(self.cq.as_ptr(), &raw mut failure, 0) };
        if count < 1 {
            return 0;
        }
        match self.memory.slot(failure.context) {
            Some(slot) if slot < RECEIVES => {
                // Nothing arrived in it, and the sender is unknown.
                self.lent[slot].store(false, Ordering::Relaxed);
                self.refused.fetch_add(1, Ordering::Relaxed);
            }
            Some(slot) => {
                self.lent[slot].store(false, Ordering::Relaxed);
                self.finished.fetch_add(1, Ordering::Relaxed);
                let (token, code) = (self.tokens[slot].load(Ordering::Relaxed), failure.err);
                show(match slot < SLOTS {
                    true => Happened::Lost { token: Some(token), code },
                    false => {
                        Happened::Read { token, code: if code == 0 { libc::EIO } else { code } }
                    }
                });
            }
            None => show(Happened::Lost { token: None, code: failure.err }),
        }
        1
    }

    /// How many slots to send from are lent for messages to a peer.
    fn slots_of(&self, token: u32) -> usize {
        let is_its = |&slot: &usize| {
            self.lent[slot].load(Ordering::Relaxed)
                && self.tokens[slot].load(Ordering::Relaxed) == token
        };
        (RECEIVES..SLOTS).filter(is_its).count()
    }

    /// A free slot to send from.
    #[inline]
    fn free_slot(&self) -> Option<usize> {
        let first = self.next.load(Ordering::Relaxed);
        let mut slots = (first..first + SENDS).map(|number| RECEIVES + number % SENDS);
        slots.find(|&slot| !self.lent[slot].load(Ordering::Relaxed))
    }

    /// Writes a message into a slot of ours.
    #[inline]
    fn fill(&self, slot: usize, parts: [&[u8]; 3]) {
        let mut len = 0;
        for part in parts {
            assert!(len + part.len() <= MESSAGE_BYTES_MAX, "a frame is longer than was promised");
            // SAFETY: E4: it is inside, as just checked.
            let place = unsafe { self.memory.room(slot).add(len) };
            // SAFETY: E3: the slot is ours, and no part is in it.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), place.as_ptr(), part.len()) };
            len += part.len();
        }
    }

    /// Lends a receive slot to the library. False if the library refuses it now.
    #[inline]
    fn lend(&self, slot: usize) -> bool {
        self.lent[slot].store(true, Ordering::Relaxed);
        let (room, context) = (self.memory.room(slot), self.memory.context(slot));
        let (ep, from_any) = (self.ep.as_ptr(), fi::FI_ADDR_UNSPEC);
        // SAFETY: E2, E3.
        let code = unsafe {
            (self.calls.receive)(
                ep,
                room.as_ptr().cast(),
                MESSAGE_BYTES_MAX,
                self.description,
                from_any,
                context.as_ptr(),
            )
        };
        self.lent[slot].store(code == 0, Ordering::Relaxed);
        code == 0
    }

    #[cold]
    fn lend_refused(&self) {
        for slot in 0..RECEIVES {
            if !self.lent[slot].load(Ordering::Relaxed) {
                if !self.lend(slot) {
                    return;
                }
                self.refused.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

/// The longest piece of a read. Longer ones delay other messages, and bytes that pass through a read buffer
/// leave the cache before they are copied, which costs a quarter of the speed.
const READ_BYTES_MAX: u64 = 256 << 10;
/// How many keys are tried.
const KEY_TRIES: usize = 3;
/// Completions taken in one call.
const BATCH_MAX: usize = 8;
const NOTHING: Completion = Completion { context: std::ptr::null_mut(), flags: 0, len: 0 };

fn given(code: isize) -> Given {
    match c_int::try_from(code) {
        Ok(0) => Given::Away,
        Ok(code) if -code == libc::EAGAIN => Given::Full,
        code => Given::Never(code.unwrap_or(-libc::EIO)),
    }
}

/// A provider's attributes.
struct ProviderAttributes {
    inject_bytes_max: usize,
    mr_mode: c_int,
    mr_key_bytes: usize,
    message_bytes_max: usize,
    av_type: c_int,
    is_manual: bool,
}

impl ProviderAttributes {
    fn of(list: &List) -> ProviderAttributes {
        let info = list.first();
        // SAFETY: E1: the library's lists have these parts, or null.
        let sending = unsafe { info.tx_attr.as_ref() };
        // SAFETY: as above.
        let domain = unsafe { info.domain_attr.as_ref() };
        // SAFETY: as above.
        let endpoint = unsafe { info.ep_attr.as_ref() };
        ProviderAttributes {
            inject_bytes_max: sending.map_or(0, |sending| sending.inject_size),
            mr_mode: domain.map_or(0, |domain| domain.mr_mode),
            mr_key_bytes: domain.map_or(0, |domain| domain.mr_key_size),
            message_bytes_max: endpoint.map_or(0, |endpoint| endpoint.max_msg_size),
            av_type: domain.map_or(fi::FI_AV_UNSPEC, |domain| domain.av_type),
            is_manual: domain.is_none_or(|domain| domain.data_progress != fi::FI_PROGRESS_AUTO),
        }
    }

    fn reading(&self, ep: NonNull<fi::Ep>, ends: bool) -> Reading {
        let has = |mode| self.mr_mode & mode != 0;
        Reading {
            read: table(ep, |ep| ep.rma).read,
            by_address: has(fi::FI_MR_VIRT_ADDR),
            own_keys: has(fi::FI_MR_PROV_KEY),
            key_bits: match self.mr_key_bytes {
                bytes @ 1..8 => (1 << (8 * bytes)) - 1,
                _ => u64::MAX,
            },
            next_key: AtomicU64::new(1),
            registers_here: has(fi::FI_MR_LOCAL),
            binds: has(fi::FI_MR_ENDPOINT),
            read_bytes_max: READ_BYTES_MAX.min(self.message_bytes_max as u64),
            ends,
        }
    }

    fn av_attributes(&self) -> fi::AvAttr {
        let kind = if self.av_type == fi::FI_AV_UNSPEC { fi::FI_AV_MAP } else { self.av_type };
        fi::AvAttr {
            kind,
            rx_ctx_bits: 0,
            count: 0,
            ep_per_node: 0,
            name: std::ptr::null(),
            map_addr: std::ptr::null_mut(),
            flags: 0,
        }
    }
}

/// The way to use a provider. If it uses IP addresses, it is bound to one of our own, so that others arrive
/// by the network that they know us by.
fn choose(
    library: &'static Library,
    provider: &str,
    mut own: impl Iterator<Item = IpAddr>,
) -> Result<List, NoFabric> {
    let any = List::of_provider(library, provider)?;
    match any.first().addr_format {
        SOCKET_ADDRESS_FIRST..=SOCKET_ADDRESS_LAST => {
            let bound = own.find_map(|own| List::ask(library, Some(provider), Some(own)).ok());
            Ok(bound.unwrap_or(any))
        }
        _ => Ok(any),
    }
}

/// Address formats that contain an IP address.
const SOCKET_ADDRESS_FIRST: u32 = 1;
const SOCKET_ADDRESS_LAST: u32 = 3;

/// A completion queue, and its descriptor to wait on, if there is one.
fn open_queue(domain: NonNull<fi::Domain>) -> Result<(NonNull<fi::Cq>, Option<RawFd>), c_int> {
    let ops = table(domain, |domain| domain.ops);
    let open = |wait_obj| {
        let mut attributes = fi::CqAttr {
            size: 2 * SLOTS,
            flags: 0,
            format: fi::FI_CQ_FORMAT_MSG,
            wait_obj,
            signaling_vector: 0,
            wait_cond: 0,
            wait_set: std::ptr::null_mut(),
        };
        let none = std::ptr::null_mut();
        made(|place| {
            // SAFETY: E1.
            unsafe { (ops.cq_open)(domain.as_ptr(), &raw mut attributes, place, none) }
        })
    };
    let Ok(cq) = open(fi::FI_WAIT_FD) else {
        return Ok((open(fi::FI_WAIT_NONE)?, None));
    };
    let mut wait: c_int = -1;
    let fid: NonNull<Fid> = cq.cast();
    let control = table(fid, |fid| fid.ops).control;
    // SAFETY: E1: the answer is a descriptor, which is a number.
    let code = unsafe { control(fid.as_ptr(), fi::FI_GETWAIT, (&raw mut wait).cast()) };
    Ok((cq, (code == 0 && wait >= 0).then_some(wait)))
}

fn name_of(ep: NonNull<fi::Ep>) -> Result<Vec<u8>, c_int> {
    let getname = table(ep, |ep| ep.cm).getname;
    let mut name = vec![0_u8; NAME_BYTES_MAX];
    let mut len = name.len();
    // SAFETY: E1: there is room for `len` bytes.
    let code = unsafe { getname(ep.as_ptr().cast(), name.as_mut_ptr().cast(), &raw mut len) };
    if code != 0 || len == 0 || len > NAME_BYTES_MAX {
        return Err(if code == 0 { -libc::EOVERFLOW } else { code });
    }
    name.truncate(len);
    Ok(name)
}

impl Calls {
    /// For an enabled endpoint: before that, its tables may change.
    fn of(
        fabric: NonNull<fi::FidFabric>,
        av: NonNull<fi::Av>,
        cq: NonNull<fi::Cq>,
        ep: NonNull<fi::Ep>,
    ) -> Calls {
        let (messages, queue) = (table(ep, |ep| ep.msg), table(cq, |cq| cq.ops));
        Calls {
            read: queue.read,
            readerr: queue.readerr,
            receive: messages.recv,
            send: messages.send,
            inject: messages.inject,
            insert: table(av, |av| av.ops).insert,
            trywait: table(fabric, |fabric| fabric.ops).trywait,
        }
    }
}
