//! Data of the program: a buffer, a count and a datatype, as bytes for the NIC.
//!
//! Contiguous data is lent where it lies. Other data is packed before it is sent, and unpacked after it has arrived:
//! the NIC sees contiguous bytes only.
//!
//! Invariants, cited below by number.
//!   I1. The program vouches that its buffers hold what count and datatype say, and leaves them alone until
//!       the call or the request is complete.

use std::borrow::Cow;

use ferrywire_host::ErrorCode;
use ferrywire_host::memory;
use ferrywire_host::nic::Span;
use ferrywire_mpi::datatype::{Datatype, Memory};

use crate::convert::constants::{MPI_ERR_BUFFER, MPI_ERR_COUNT, MPI_IN_PLACE};
use crate::convert::failure::{Failure, Result};
use crate::convert::pointer::{Choice, ChoiceMut};
use crate::convert::sizes::{self, Wide};
use crate::convert::types::MPI_Datatype;
use crate::objects::check;
use crate::objects::datatype;

/// Blocks of this length are accessed one by one rather than packed.
const LONG_BLOCK_BYTES: u64 = 4096;

/// Elements in memory of the program.
#[derive(Clone)]
pub(crate) struct Data {
    address: u64,
    count: u64,
    /// `None` if the data is contiguous.
    datatype: Option<Datatype>,
    bytes: u64,
}

impl Data {
    /// Elements to be read.
    #[inline(always)]
    pub(crate) fn to_read(
        buffer: Choice,
        count: impl Wide,
        datatype: MPI_Datatype,
    ) -> Result<Data> {
        Data::new(buffer.address(), sizes::count(count)?, datatype)
    }

    /// Elements to be written.
    #[inline(always)]
    pub(crate) fn to_write(
        buffer: ChoiceMut,
        count: impl Wide,
        datatype: MPI_Datatype,
    ) -> Result<Data> {
        Data::new(buffer.address(), sizes::count(count)?, datatype)
    }

    /// `count` elements at an address.
    #[inline(always)]
    pub(crate) fn new(address: u64, count: u64, datatype: MPI_Datatype) -> Result<Data> {
        let Some(size) = datatype::straight_bytes(datatype) else {
            return Data::of_made(address, count, datatype::find_committed(datatype)?);
        };
        let bytes = count.checked_mul(size).ok_or_else(too_many)?;
        Data::lent(address, count, bytes)
    }

    /// The same for a datatype that may have gaps. Elements without gaps are lent from their first byte.
    #[inline(never)]
    fn of_made(address: u64, count: u64, datatype: &Datatype) -> Result<Data> {
        let bytes = count.checked_mul(datatype.size()).ok_or_else(too_many)?;
        if let Some(block) = datatype.one_block(count) {
            return Data::lent(address.wrapping_add_signed(block.start), count, bytes);
        }
        let address = User::new(address, datatype)?.0;
        Ok(Data { address, count, datatype: Some(datatype.clone()), bytes })
    }

    /// Contiguous bytes.
    #[inline(always)]
    fn lent(address: u64, count: u64, bytes: u64) -> Result<Data> {
        if address <= MPI_IN_PLACE as u64 && bytes > 0 {
            return Err(no_buffer(address));
        }
        Ok(Data { address, count, datatype: None, bytes })
    }

    /// The length in packed form.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The memory of the data, if it is contiguous.
    #[inline]
    pub(crate) fn contiguous(&self) -> Option<Span> {
        self.datatype.is_none().then(|| Span::new(memory::MEMORY, self.address, self.bytes))
    }

    /// Packs the data.
    pub(crate) fn pack(&self, into: &mut [u8]) {
        match &self.datatype {
            Some(datatype) => datatype.pack(self.count, &User(self.address), into),
            None => User(self.address).load(0, into),
        }
    }

    /// A packed copy.
    pub(crate) fn packed(&self) -> Box<[u8]> {
        let mut packed = room(self.bytes);
        self.pack(&mut packed);
        packed
    }

    /// The bytes of the data, in packed form: where they are, or a copy.
    pub(crate) fn to_bytes(&self) -> Cow<'_, [u8]> {
        match (&self.datatype, usize::try_from(self.bytes)) {
            (None, Ok(len)) if len > 0 => {
                // SAFETY: I1.
                Cow::Borrowed(unsafe { std::slice::from_raw_parts(User(self.address).at(0), len) })
            }
            _ => Cow::Owned(self.packed().into()),
        }
    }

    /// Fills the data with bytes in packed form: where it is, or by a copy.
    pub(crate) fn fill<E>(
        &self,
        fill: impl FnOnce(&mut [u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        self.fill_part(|bytes| fill(bytes).map(|()| self.bytes)).map(|_| ())
    }

    /// Fills the first bytes of the data, of which `fill` says how many they are.
    pub(crate) fn fill_part<E>(
        &self,
        fill: impl FnOnce(&mut [u8]) -> std::result::Result<u64, E>,
    ) -> std::result::Result<u64, E> {
        match (&self.datatype, usize::try_from(self.bytes)) {
            (None, Ok(len)) if len > 0 => {
                // SAFETY: I1.
                fill(unsafe { std::slice::from_raw_parts_mut(User(self.address).at(0), len) })
            }
            _ => {
                let mut packed = room(self.bytes);
                let filled = fill(&mut packed)?;
                let len = usize::try_from(filled).unwrap_or(usize::MAX).min(packed.len());
                self.unpack(&packed[..len]);
                Ok(filled)
            }
        }
    }

    /// The blocks of the data, if they are long enough that it does not pay to pack them.
    pub(crate) fn pieces(&self) -> Option<Vec<&[u8]>> {
        let blocks = self.long_blocks()?;
        let slices = blocks.into_iter().map(|(at, len)| {
            // SAFETY: I1.
            unsafe { std::slice::from_raw_parts(at.cast_const(), len) }
        });
        Some(slices.collect())
    }

    /// The same for data to be written. Blocks of such data do not overlap.
    pub(crate) fn pieces_mut(&mut self) -> Option<Vec<&mut [u8]>> {
        let blocks = self.long_blocks()?;
        let slices = blocks.into_iter().map(|(at, len)| {
            // SAFETY: I1.
            unsafe { std::slice::from_raw_parts_mut(at, len) }
        });
        Some(slices.collect())
    }

    fn long_blocks(&self) -> Option<Vec<(*mut u8, usize)>> {
        let datatype = self.datatype.as_ref()?;
        let count = datatype.block_count().checked_mul(self.count)?;
        if self.bytes.checked_div(count)? < LONG_BLOCK_BYTES {
            return None;
        }
        let mut blocks = Vec::new();
        let mut base = 0_i64;
        for _ in 0..self.count {
            datatype.each_block(0, datatype.size(), &mut |offset, bytes| {
                let at = User(self.address).at(base.wrapping_add(offset));
                blocks.push((at, usize::try_from(bytes).expect("it is in memory")));
            });
            base = base.wrapping_add(datatype.extent());
        }
        Some(blocks)
    }

    /// Packs the data into lent memory of the same length.
    pub(crate) fn pack_to(&self, into: Span) {
        assert_eq!(into.len, self.bytes, "there is as much room as it has bytes");
        let Ok(len) = usize::try_from(into.len) else { return };
        if len == 0 {
            return;
        }
        // SAFETY: I1: the memory is the program's or ours, and no other code accesses it before this returns.
        let room = unsafe { std::slice::from_raw_parts_mut(User(into.offset).at(0), len) };
        self.pack(room);
    }

    /// Unpacks as many bytes as there are in lent memory, of which this is the only user.
    pub(crate) fn unpack_from(&self, from: Span) {
        let Ok(len) = usize::try_from(from.len) else { return };
        if len > 0 {
            // SAFETY: as in `pack_to`.
            self.unpack(unsafe { std::slice::from_raw_parts(User(from.offset).at(0), len) });
        }
    }

    /// Unpacks as many bytes as there are.
    pub(crate) fn unpack(&self, from: &[u8]) {
        match &self.datatype {
            Some(datatype) => datatype.unpack(self.count, from, &mut User(self.address)),
            None => User(self.address).store(0, from),
        }
    }
}

/// The memory of elements to be read, of a predefined datatype without gaps. `None` for all that is less simple, or wrong:
/// [`Data`] is for that, and says what is wrong.
#[inline(always)]
pub(crate) fn plain_span(buffer: Choice, count: impl Wide, datatype: MPI_Datatype) -> Option<Span> {
    plain_span_at(buffer.address(), count, datatype)
}

/// The same for elements to be written.
#[inline(always)]
pub(crate) fn plain_span_mut(
    buffer: ChoiceMut,
    count: impl Wide,
    datatype: MPI_Datatype,
) -> Option<Span> {
    plain_span_at(buffer.address(), count, datatype)
}

#[inline(always)]
fn plain_span_at(address: u64, count: impl Wide, datatype: MPI_Datatype) -> Option<Span> {
    let count = u64::try_from(count.wide()).ok()?;
    let bytes = count.checked_mul(datatype::straight_bytes(datatype)?)?;
    let is_somewhere = address > MPI_IN_PLACE as u64 || bytes == 0;
    is_somewhere.then(|| Span::new(memory::MEMORY, address, bytes))
}

/// Some elements to be read, of a predefined datatype without gaps. `None` for all that is less simple, or wrong.
#[inline(always)]
pub(crate) fn plain_bytes<'a>(
    buffer: Choice,
    count: impl Wide,
    datatype: MPI_Datatype,
) -> Option<&'a [u8]> {
    let (at, len) = plain(buffer.address(), count, datatype)?;
    // SAFETY: I1.
    Some(unsafe { std::slice::from_raw_parts(at, len) })
}

/// The same for elements to be written.
#[inline(always)]
pub(crate) fn plain_bytes_mut<'a>(
    buffer: ChoiceMut,
    count: impl Wide,
    datatype: MPI_Datatype,
) -> Option<&'a mut [u8]> {
    let (at, len) = plain(buffer.address(), count, datatype)?;
    // SAFETY: I1.
    Some(unsafe { std::slice::from_raw_parts_mut(at, len) })
}

#[inline(always)]
fn plain(address: u64, count: impl Wide, datatype: MPI_Datatype) -> Option<(*mut u8, usize)> {
    let count = u64::try_from(count.wide()).ok()?;
    let bytes = count.checked_mul(datatype::straight_bytes(datatype)?)?;
    let is_some = bytes > 0 && address > MPI_IN_PLACE as u64;
    usize::try_from(bytes).ok().filter(|_| is_some).map(|len| (User(address).at(0), len))
}

/// Data to be sent: in place, or a packed copy. It is small, because many may be in progress and few are packed.
pub(crate) struct Outgoing {
    at: u64,
    bytes: u64,
    packed: Option<Box<Packed>>,
}

/// Data to be received: in place, or with a buffer for the packed bytes.
pub(crate) struct Incoming {
    at: u64,
    bytes: u64,
    packed: Option<Box<Packed>>,
}

/// Data that is not contiguous, and a buffer for its packed form.
struct Packed {
    data: Data,
    room: Box<[u8]>,
    /// Whether the buffer has been packed for good.
    fixed: bool,
}

impl Packed {
    /// A buffer for data that is not contiguous.
    #[inline]
    fn room_for(data: Data) -> Option<Box<Packed>> {
        data.datatype.is_some().then(|| Packed::new(data))
    }

    fn new(data: Data) -> Box<Packed> {
        Box::new(Packed { room: room(data.bytes), data, fixed: false })
    }

    fn load(&mut self) -> Span {
        if !self.fixed {
            self.data.pack(&mut self.room);
        }
        memory::lend(&self.room)
    }

    fn unload(&self, bytes: u64) {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).min(self.room.len());
        self.data.unpack(&self.room[..bytes]);
    }
}

impl Outgoing {
    /// Data to be sent. It is packed by [`Outgoing::load`].
    #[inline]
    pub(crate) fn new(data: Data) -> Outgoing {
        Outgoing { at: data.address, bytes: data.bytes, packed: Packed::room_for(data) }
    }

    /// Contiguous bytes to be sent in place.
    #[inline]
    pub(crate) fn contiguous(Span { offset, len, .. }: Span) -> Outgoing {
        Outgoing { at: offset, bytes: len, packed: None }
    }

    /// A copy of the current data, after which the program may use its memory again.
    pub(crate) fn copied(data: Data) -> Outgoing {
        let (at, bytes) = (data.address, data.bytes);
        let mut packed = Packed::new(data);
        packed.load();
        packed.fixed = true;
        Outgoing { at, bytes, packed: Some(packed) }
    }

    /// Whether the bytes are sent from where the program has them.
    pub(crate) fn is_in_place(&self) -> bool {
        self.packed.is_none()
    }

    /// Packs the current data, and returns the location of the bytes, which does not change.
    #[inline]
    pub(crate) fn load(&mut self) -> Span {
        match &mut self.packed {
            None => Span::new(memory::MEMORY, self.at, self.bytes),
            Some(packed) => packed.load(),
        }
    }

    /// The memory of the program that is sent, if it is contiguous.
    pub(crate) fn in_place(&self) -> Option<Span> {
        self.is_in_place().then(|| Span::new(memory::MEMORY, self.at, self.bytes))
    }

    /// A number that changes with the data of the program. Of a copy, it does not.
    pub(crate) fn checksum(&self) -> u64 {
        match &self.packed {
            Some(packed) if packed.fixed => 0,
            Some(packed) => check::checksum(&packed.data.packed()),
            None => {
                let data = Data { address: self.at, count: 1, datatype: None, bytes: self.bytes };
                check::checksum(&data.to_bytes())
            }
        }
    }

    /// The length in packed form.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Incoming {
    /// Data to be received.
    #[inline]
    pub(crate) fn new(data: Data) -> Incoming {
        Incoming { at: data.address, bytes: data.bytes, packed: Packed::room_for(data) }
    }

    /// Contiguous bytes to be received in place.
    #[inline]
    pub(crate) fn contiguous(Span { offset, len, .. }: Span) -> Incoming {
        Incoming { at: offset, bytes: len, packed: None }
    }

    /// Whether the bytes arrive where the program wants them.
    #[inline(always)]
    pub(crate) fn is_in_place(&self) -> bool {
        self.packed.is_none()
    }

    /// The location for the received bytes, which does not change.
    #[inline]
    pub(crate) fn span(&mut self) -> Span {
        match &mut self.packed {
            None => Span::new(memory::MEMORY, self.at, self.bytes),
            Some(packed) => memory::lend_mut(&mut packed.room),
        }
    }

    /// Unpacks the first `bytes` bytes, which have arrived.
    #[inline]
    pub(crate) fn unload(&mut self, bytes: u64) {
        if let Some(packed) = &self.packed {
            packed.unload(bytes);
        }
    }

    /// The memory of the program that is written, if it is contiguous.
    pub(crate) fn in_place(&self) -> Option<Span> {
        self.is_in_place().then(|| Span::new(memory::MEMORY, self.at, self.bytes))
    }

    /// The largest length that can be received.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Memory of the program as datatypes see it: offsets from the address that the program passed.
pub(crate) struct User(u64);

impl User {
    /// A buffer with elements of this datatype. MPI_BOTTOM is valid if the datatype contains addresses.
    pub(crate) fn new(address: u64, datatype: &Datatype) -> Result<User> {
        match address.wrapping_add_signed(datatype.true_lb()) {
            0 => Err(no_buffer(0)),
            _ if address == MPI_IN_PLACE as u64 => Err(no_buffer(address)),
            _ => Ok(User(address)),
        }
    }

    #[inline(always)]
    fn at(&self, offset: i64) -> *mut u8 {
        let address = self.0.wrapping_add_signed(offset);
        std::ptr::with_exposed_provenance_mut(usize::try_from(address).expect("it is an address"))
    }
}

impl Memory for User {
    #[inline(always)]
    fn load(&self, offset: i64, into: &mut [u8]) {
        // SAFETY: I1.
        unsafe {
            std::ptr::copy_nonoverlapping(self.at(offset), into.as_mut_ptr(), into.len());
        }
    }

    #[inline(always)]
    fn store(&mut self, offset: i64, from: &[u8]) {
        // SAFETY: I1.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.at(offset), from.len()) };
    }
}

/// An uninitialised buffer of `bytes` bytes, to be written before it is read.
#[inline]
pub(crate) fn room(bytes: u64) -> Box<[u8]> {
    if bytes == 0 {
        return Box::default();
    }
    vec![0; usize::try_from(bytes).expect("the program has as much in memory")].into()
}

#[cold]
fn too_many() -> Failure {
    Failure::new(MPI_ERR_COUNT, "invalid count: the size in bytes does not fit 64 bits")
}

#[cold]
fn no_buffer(address: u64) -> Failure {
    let (why, code) = match address {
        0 => ("the buffer is a null pointer, but the count is not 0", ErrorCode::BUFFER),
        _ => ("MPI_IN_PLACE is not allowed for this buffer", ErrorCode::IN_PLACE),
    };
    Failure::new(MPI_ERR_BUFFER, why).coded(code)
}
