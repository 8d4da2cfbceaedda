//! A live operator: code that combines the elements of two contributions to a reduction.
//!
//! The code reads and writes its own memory only. So elements are copied there in pieces, and what has become of them is
//! copied back. They lie in a page that the engine adds to the memory.

use ferrywire_modules::abi::{Callbacks, DONE, ELEMENT_BYTES_MAX, number_of};
use ferrywire_nic::Trap;
use wasmtime::{Memory, Store, TypedFunc};

use crate::code::Code;
use crate::instance::{State, begin, end, instantiate, trap_of};

/// A live operator.
pub(crate) struct Operator {
    store: Store<State>,
    memory: Memory,
    /// Gets two addresses and the number of elements at each.
    combine: TypedFunc<(i32, i32, i32), ()>,
    /// Where the elements of both contributions are put.
    from: usize,
    into: usize,
    fuel_max: u64,
}

/// Bytes of each contribution that are combined at once, within the fuel of one message, unless an element is longer.
const PIECE_BYTES: usize = 8 << 10;

impl Operator {
    pub(crate) fn start(code: &Code, callbacks: &'static Callbacks) -> Result<Operator, String> {
        if let Some(import) = code.imports().next() {
            return Err(format!("the operator imports `{import}`; an operator may import nothing"));
        }
        let (mut store, instance, _) = instantiate(code, callbacks)?;
        let Some(combine) = instance.get_func(&mut store, "combine") else {
            return Err("the operator exports no function `combine`".to_string());
        };
        let combine = combine.typed(&store).map_err(|error| format!("{error:#}"))?;
        let Some(memory) = store.data().memory else {
            return Err("the operator exports no memory called `memory`".to_string());
        };
        let from = memory.data_size(&store);
        if memory.grow(&mut store, 1).is_err() {
            return Err("the operator's memory cannot grow by 64 KiB for the elements".to_string());
        }
        let (into, fuel_max) = (from + ELEMENT_BYTES_MAX, code.budget().fuel);
        Ok(Operator { store, memory, combine, from, into, fuel_max })
    }

    /// Combines elements. Returns a number as the boundary defines it.
    pub(crate) fn combine(&mut self, from: &[u8], into: &mut [u8], element_bytes: usize) -> i32 {
        if !(1..=ELEMENT_BYTES_MAX).contains(&element_bytes) {
            return number_of(Trap::Length);
        }
        let piece_bytes = (PIECE_BYTES / element_bytes).max(1) * element_bytes;
        for (from, into) in from.chunks(piece_bytes).zip(into.chunks_mut(piece_bytes)) {
            if let Err(trap) = self.combine_piece(from, into, element_bytes) {
                return number_of(trap);
            }
        }
        DONE
    }

    fn combine_piece(
        &mut self,
        from: &[u8],
        into: &mut [u8],
        element_bytes: usize,
    ) -> Result<(), Trap> {
        let address = |at: usize| i32::try_from(at).map_err(|_| Trap::Memory);
        let addresses = (address(self.from)?, address(self.into)?);
        let count = address(into.len() / element_bytes)?;
        let memory = self.memory.data_mut(&mut self.store);
        memory[self.from..][..from.len()].copy_from_slice(from);
        memory[self.into..][..into.len()].copy_from_slice(into);
        begin(&mut self.store, self.fuel_max, core::ptr::null_mut());
        let answer = self.combine.call(&mut self.store, (addresses.0, addresses.1, count));
        end(&mut self.store, self.fuel_max);
        answer.map_err(|error| trap_of(&error))?;
        let memory = self.memory.data(&self.store);
        into.copy_from_slice(&memory[self.into..][..into.len()]);
        Ok(())
    }
}
