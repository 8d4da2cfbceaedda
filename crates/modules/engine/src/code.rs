//! Compiles bytes to code, or refuses them with a reason.
//!
//! Whatever can be refused is refused here, before anything runs, with a reason that a user understands.

use std::borrow::Cow;
use std::time::Instant;

use ferrywire_modules::Budget;
use ferrywire_modules::abi::RawFacts;
use wasmparser::{FunctionBody, Operator, Parser, Payload};
use wasmtime::{ExternType, FuncType, InstancePre, Module};

use crate::config::{self, Shared};
use crate::imports::{FROM, OFFERS};
use crate::instance::State;

/// Compiled code, linked with its imports.
pub(crate) struct Code {
    linked: InstancePre<State>,
    budget: Budget,
    wasm_bytes: u64,
    compile_ns: u64,
}

impl Code {
    pub(crate) fn compile(bytes: &[u8], budget: &Budget) -> Result<Code, String> {
        let Shared { engine, linker } = config::shared()?;
        fits(bytes, budget)?;
        let began = Instant::now();
        let wasm = binary(bytes)?;
        fits(&wasm, budget)?;
        check_effort(&wasm)?;
        let module = Module::from_binary(engine, &wasm)
            .map_err(|error| format!("the NIC cannot run this WebAssembly: {error:#}"))?;
        let compile_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        check_imports(&module)?;
        check_exports(&module)?;
        check_sizes(&module, budget)?;
        let linked = linker
            .instantiate_pre(&module)
            .map_err(|error| format!("the module cannot be linked: {error:#}"))?;
        Ok(Code { linked, budget: *budget, wasm_bytes: wasm.len() as u64, compile_ns })
    }

    pub(crate) fn linked(&self) -> &InstancePre<State> {
        &self.linked
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    pub(crate) fn imports(&self) -> impl Iterator<Item = String> + '_ {
        let imports = self.linked.module().imports();
        imports.map(|import| format!("{}.{}", import.module(), import.name()))
    }

    pub(crate) fn exports(&self) -> impl Iterator<Item = String> + '_ {
        self.linked.module().exports().map(|export| export.name().to_string())
    }

    pub(crate) fn facts(&self) -> RawFacts {
        let module = self.linked.module();
        let needs = module.resources_required();
        let memory_bytes_min = needs.max_initial_memory_size.unwrap_or(0) * PAGE_BYTES;
        let declared = match module.get_export("memory") {
            Some(ExternType::Memory(memory)) => memory.maximum().map(|pages| pages * PAGE_BYTES),
            _ => None,
        };
        let memory_bytes_max = match needs.num_memories {
            0 => 0,
            _ => declared.unwrap_or(u64::MAX).min(self.budget.memory_bytes),
        };
        RawFacts {
            memory_bytes_min,
            memory_bytes_max,
            wasm_bytes: self.wasm_bytes,
            machine_bytes: module.text().len() as u64,
            compile_ns: self.compile_ns,
        }
    }
}

/// WebAssembly in binary form, given as binary or as text.
fn binary(bytes: &[u8]) -> Result<Cow<'_, [u8]>, String> {
    if bytes.starts_with(b"\0asm") {
        return Ok(Cow::Borrowed(bytes));
    }
    let neither = "the code is not WebAssembly: it is neither the binary format nor text";
    let text = core::str::from_utf8(bytes).map_err(|_| neither.to_string())?;
    let wasm =
        wat::parse_str(text).map_err(|error| format!("the code is not WebAssembly: {error}"))?;
    Ok(Cow::Owned(wasm))
}

fn fits(bytes: &[u8], budget: &Budget) -> Result<(), String> {
    if bytes.len() as u64 > budget.code_bytes {
        let (has, may) = (size(bytes.len() as u64), size(budget.code_bytes));
        return Err(format!("the code has {has}; the limit is {may}"));
    }
    Ok(())
}

/// Refuses code that is short but takes long to compile: many functions, many locals, of which one line declares
/// thousands, and deep nesting, whose cost is quadratic. Malformed bytes are left to the compiler, which reports why.
fn check_effort(wasm: &[u8]) -> Result<(), String> {
    let (mut functions, mut locals, mut depth_max) = (0_u64, 0_u64, 0_u64);
    for payload in Parser::new(0).parse_all(wasm) {
        let Ok(Payload::CodeSectionEntry(body)) = payload else {
            continue;
        };
        functions += 1;
        let declared = body.get_locals_reader().into_iter().flatten().flatten();
        locals += declared.map(|(count, _)| u64::from(count)).sum::<u64>();
        depth_max = depth_max.max(depth(&body));
    }
    for (has, may, what) in [
        (functions, FUNCTIONS_MAX, "functions"),
        (locals, LOCALS_MAX, "local variables"),
        (depth_max, DEPTH_MAX, "levels of nested blocks"),
    ] {
        if has > may {
            return Err(format!("the module has {has} {what}; the limit is {may}"));
        }
    }
    Ok(())
}

/// The nesting depth of the blocks of a function.
fn depth(body: &FunctionBody<'_>) -> u64 {
    let (mut depth, mut depth_max) = (0_u64, 0_u64);
    for operator in body.get_operators_reader().into_iter().flatten() {
        match operator {
            Ok(Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. }) => depth += 1,
            // The last one ends the function.
            Ok(Operator::End) => depth = depth.saturating_sub(1),
            Ok(_) => {}
            Err(_) => break,
        }
        depth_max = depth_max.max(depth);
    }
    depth_max
}

fn check_imports(module: &Module) -> Result<(), String> {
    for import in module.imports() {
        let name = format!("{}.{}", import.module(), import.name());
        let offer = OFFERS.iter().find(|offer| offer.name == import.name());
        let Some(offer) = offer.filter(|_| import.module() == FROM) else {
            let all: Vec<String> =
                OFFERS.iter().map(|offer| format!("{FROM}.{}", offer.name)).collect();
            let all = all.join(", ");
            return Err(format!(
                "the module imports `{name}`, which the NIC does not provide; it provides {all}"
            ));
        };
        let ExternType::Func(ty) = import.ty() else {
            return Err(format!("the module imports `{name}`, but not as a function"));
        };
        let has = text_of(&ty);
        if has != offer.ty {
            return Err(format!("the module imports `{name}` as {has}; its type is {}", offer.ty));
        }
        let exports_memory = matches!(module.get_export("memory"), Some(ExternType::Memory(_)));
        if offer.memory && !exports_memory {
            return Err(format!(
                "the module imports `{name}` but exports no memory called `memory`"
            ));
        }
    }
    Ok(())
}

fn check_exports(module: &Module) -> Result<(), String> {
    if module.get_export("on_message").is_none() && module.get_export("combine").is_none() {
        return Err("the module exports no function `on_message`".to_string());
    }
    for (name, wanted) in [
        ("on_message", "() -> i32"),
        ("on_load", "() -> ()"),
        ("on_counter", "(i32) -> ()"),
        ("combine", "(i32, i32, i32) -> ()"),
    ] {
        match module.get_export(name) {
            None => {}
            Some(ExternType::Func(ty)) => {
                let has = text_of(&ty);
                if has != wanted {
                    return Err(format!("the module's `{name}` is {has}; it must be {wanted}"));
                }
            }
            Some(_) => return Err(format!("the module exports `{name}`, but not as a function")),
        }
    }
    Ok(())
}

fn check_sizes(module: &Module, budget: &Budget) -> Result<(), String> {
    let needs = module.resources_required();
    let memory_bytes = needs.max_initial_memory_size.unwrap_or(0) * PAGE_BYTES;
    if memory_bytes > budget.memory_bytes {
        let (has, may) = (size(memory_bytes), size(budget.memory_bytes));
        return Err(format!("the module's memory starts with {has}; the limit is {may}"));
    }
    if needs.num_tables > 1 {
        return Err(format!("the module has {} tables; the limit is 1", needs.num_tables));
    }
    if let Some(has) = needs.max_initial_table_size.filter(|&has| has > budget.table_elements) {
        let may = budget.table_elements;
        return Err(format!("the module's table starts with {has} elements; the limit is {may}"));
    }
    Ok(())
}

/// A function type, as users write it.
fn text_of(ty: &FuncType) -> String {
    let list = |types: Vec<String>| types.join(", ");
    let params = list(ty.params().map(|ty| ty.to_string()).collect());
    let results: Vec<String> = ty.results().map(|ty| ty.to_string()).collect();
    match results.as_slice() {
        [one] => format!("({params}) -> {one}"),
        _ => format!("({params}) -> ({})", list(results)),
    }
}

/// A number of bytes, as users write it.
fn size(bytes: u64) -> String {
    match bytes {
        _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} bytes"),
    }
}

/// An empty function takes some tens of microseconds to compile.
const FUNCTIONS_MAX: u64 = 8192;

/// In all functions together. C and Rust compilers generate a few for each function.
const LOCALS_MAX: u64 = 65_536;

/// A switch with many cases is a nest of as many blocks.
const DEPTH_MAX: u64 = 1024;

const PAGE_BYTES: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::Code;

    /// The client lets many threads start one code.
    #[test]
    fn code_may_be_shared_between_threads() {
        fn shares<T: Send + Sync>() {}
        shares::<Code>();
    }
}
