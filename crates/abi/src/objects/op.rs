//! Operators of reductions: those of the standard and those of the program.
//!
//! A user-defined operator gets elements as they lie in memory. Schedules only know packed bytes, so where the two
//! differ, both operands are unpacked for it and the result is packed again. Code on the NIC gets packed elements.
//!
//! Invariants, cited below by number.
//!   I1. The program vouches that its operators have the type that the standard prescribes.
//!   I2. The driver calls an operator with memory for as many elements as it is told, on a thread of the
//!       program.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use ferrywire_host::nic::{Operator, Trap};
use ferrywire_host::{ErrorCode, Operators};
use ferrywire_modules::CodeOperator;
use ferrywire_modules::abi::ELEMENT_BYTES_MAX;
use ferrywire_mpi::collective::ReduceOp;
use ferrywire_mpi::datatype::{Basic, BasicKind, Datatype, Memory, Predefined};
use ferrywire_mpi::operation::{self, Number, Operation, USER_OPERATOR_MIN};
use ferrywire_runtime as runtime;

use crate::convert::callback::{Callback, OperatorCall};
use crate::convert::constants::{
    MPI_BAND, MPI_BOR, MPI_BXOR, MPI_ERR_OP, MPI_LAND, MPI_LOR, MPI_LXOR, MPI_MAX, MPI_MAXLOC,
    MPI_MIN, MPI_MINLOC, MPI_NO_OP, MPI_OP_NULL, MPI_PROD, MPI_REPLACE, MPI_SUM,
};
use crate::convert::failure::{Failure, Result};
use crate::convert::handle::{self, Kind, Shared};
use crate::convert::types::{MPI_Datatype, MPI_Op};
use crate::objects::datatype::{self, FIRST, HANDLES, KeptHandle};

/// A user-defined operator.
pub(crate) struct UserOp {
    pub(crate) function: Function,
    pub(crate) commutative: bool,
}

/// What combines elements.
pub(crate) enum Function {
    /// A function of the program, which runs on its threads.
    OfProgram(Callback<OperatorCall>),
    /// Code that the NIC runs.
    OnNic(Mutex<NicOperator>),
}

/// Code that combines elements on whichever thread turns the NIC.
pub(crate) struct NicOperator {
    code: CodeOperator,
    /// Why it stopped, the first time. What it should have combined is lost, so it is not used again.
    trap: Option<Trap>,
}

impl UserOp {
    /// An operator whose code the NIC runs.
    pub(crate) fn on_nic(code: CodeOperator, commutative: bool) -> UserOp {
        let operator = NicOperator { code, trap: None };
        UserOp { function: Function::OnNic(Mutex::new(operator)), commutative }
    }

    /// Fails if its code has stopped.
    fn check(&self) -> Result {
        let Function::OnNic(operator) = &self.function else { return Ok(()) };
        let trap = operator.lock().unwrap_or_else(PoisonError::into_inner).trap;
        trap.map_or(Ok(()), |trap| {
            let why = format!("the operator failed, and cannot be used any more: {trap}");
            Err(Failure::new(MPI_ERR_OP, why).coded(ErrorCode::MODULE_FAILED))
        })
    }
}

impl NicOperator {
    fn combine(&mut self, source: &[u8], into: &mut [u8], element_bytes: usize) {
        if self.trap.is_none() {
            self.trap = self.code.combine(source, into, element_bytes).err();
        }
    }
}

impl Kind for UserOp {
    const MARK: u32 = 0x4f50_5553;
    const ERROR: c_int = MPI_ERR_OP;
    const NAME: &'static str = "operation";
}

/// The operator that a handle names.
pub(crate) enum Op {
    Ours(Operation),
    User(Shared<UserOp>),
}

/// The operator that a handle names.
pub(crate) fn find(handle: MPI_Op) -> Result<Op> {
    match (predefined(handle), handle) {
        (Some(operation), _) => Ok(Op::Ours(operation)),
        (None, MPI_OP_NULL) => Err(Failure::new(MPI_ERR_OP, "the operation is MPI_OP_NULL")),
        (None, MPI_Op(address)) => Ok(Op::User(handle::share_of(address)?)),
    }
}

/// The predefined operation that a handle names.
#[inline]
fn predefined(handle: MPI_Op) -> Option<Operation> {
    Some(match handle {
        MPI_SUM => Operation::Sum,
        MPI_PROD => Operation::Product,
        MPI_MIN => Operation::Min,
        MPI_MAX => Operation::Max,
        MPI_BAND => Operation::BitAnd,
        MPI_BOR => Operation::BitOr,
        MPI_BXOR => Operation::BitXor,
        MPI_LAND => Operation::LogicalAnd,
        MPI_LOR => Operation::LogicalOr,
        MPI_LXOR => Operation::LogicalXor,
        MPI_MINLOC => Operation::MinPlace,
        MPI_MAXLOC => Operation::MaxPlace,
        MPI_REPLACE => Operation::Replace,
        MPI_NO_OP => Operation::Keep,
        _ => return None,
    })
}

/// How contributions are combined, while this is alive.
pub(crate) struct Combining {
    /// The form that schedules use.
    pub(crate) reduce_op: ReduceOp,
    /// The registration of a user-defined operator, which has a number meanwhile.
    registered: Option<Registered>,
}

impl Combining {
    /// The effect of `op` on elements of `datatype`. User-defined operators are registered with the process.
    pub(crate) fn new(
        op: MPI_Op,
        handle: MPI_Datatype,
        process: impl FnOnce() -> Result<&'static runtime::Process>,
    ) -> Result<Combining> {
        let datatype = datatype::find_committed(handle)?;
        let element_bytes = datatype.size().max(1);
        match find(op)? {
            Op::Ours(operation) => {
                let number = datatype.predefined().and_then(number_of);
                let operator = number.and_then(|number| operation::operator(operation, number));
                let operator = operator.ok_or_else(|| unsuitable(op, datatype))?;
                let commutative = operation.is_commutative();
                let reduce_op = ReduceOp { operator, element_bytes, commutative };
                Ok(Combining { reduce_op, registered: None })
            }
            Op::User(users) => {
                users.check()?;
                if let Function::OnNic(_) = users.function {
                    fits_on_nic(datatype)?;
                }
                let commutative = users.commutative;
                let (datatype, kept) = (datatype.clone(), KeptHandle::new(handle)?);
                let reduction = Reduction { users, datatype, kept };
                let registered = Registered::new(reduction, process()?);
                let operator = Operator(registered.number);
                let reduce_op = ReduceOp { operator, element_bytes, commutative };
                Ok(Combining { reduce_op, registered: Some(registered) })
            }
        }
    }
}

impl Combining {
    /// Fails if contributions could not be combined here.
    pub(crate) fn check(&self) -> Result {
        self.registered.as_ref().map_or(Ok(()), |registered| registered.users.check())
    }
}

/// Whether code on the NIC has room for two elements.
fn fits_on_nic(datatype: &Datatype) -> Result {
    let bytes = datatype.size();
    if bytes <= ELEMENT_BYTES_MAX as u64 {
        return Ok(());
    }
    let why = format!(
        "an element has {bytes} bytes; an operator on the NIC takes at most {ELEMENT_BYTES_MAX}"
    );
    Err(Failure::new(MPI_ERR_OP, why).coded(ErrorCode::MODULE_REFUSED))
}

/// The operator of an accumulate on elements of a predefined datatype; `None` if there is none, or it is not so simple.
#[inline]
pub(crate) fn accumulating_plainly(op: MPI_Op, datatype: MPI_Datatype) -> Option<Operator> {
    static NUMBERS: LazyLock<[Option<Number>; HANDLES]> = LazyLock::new(|| {
        std::array::from_fn(|at| Datatype::named(FIRST + at)?.predefined().and_then(number_of))
    });
    let number = *NUMBERS.get(datatype.0.wrapping_sub(FIRST))?;
    operation::operator(predefined(op)?, number?)
}

/// The operator of an accumulate on elements of a datatype, which all have the same type.
pub(crate) fn accumulating(op: MPI_Op, datatype: &Datatype) -> Result<Operator> {
    let Op::Ours(operation) = find(op)? else {
        return Err(Failure::new(MPI_ERR_OP, "an accumulate takes predefined operations only"));
    };
    let number = datatype.element().and_then(number_of);
    let operator = number.and_then(|number| operation::operator(operation, number));
    operator.ok_or_else(|| {
        let op = name_of(op);
        let why = match datatype.name() {
            Some(name) => format!("{op} cannot be used with {name}"),
            None => format!("{op} cannot be used with the elements of this datatype"),
        };
        Failure::new(MPI_ERR_OP, why)
    })
}

#[cold]
fn unsuitable(op: MPI_Op, datatype: &Datatype) -> Failure {
    let op = name_of(op);
    let why = match datatype.name() {
        Some(name) => format!("{op} cannot be used with {name}"),
        None => format!(
            "{op} works on predefined datatypes only; create an operation for others with MPI_Op_create"
        ),
    };
    Failure::new(MPI_ERR_OP, why)
}

/// The name of a predefined operator in the standard.
pub(crate) fn name_of(op: MPI_Op) -> &'static str {
    match op {
        MPI_SUM => "MPI_SUM",
        MPI_PROD => "MPI_PROD",
        MPI_MIN => "MPI_MIN",
        MPI_MAX => "MPI_MAX",
        MPI_BAND => "MPI_BAND",
        MPI_BOR => "MPI_BOR",
        MPI_BXOR => "MPI_BXOR",
        MPI_LAND => "MPI_LAND",
        MPI_LOR => "MPI_LOR",
        MPI_LXOR => "MPI_LXOR",
        MPI_MINLOC => "MPI_MINLOC",
        MPI_MAXLOC => "MPI_MAXLOC",
        MPI_REPLACE => "MPI_REPLACE",
        MPI_NO_OP => "MPI_NO_OP",
        _ => "the operation",
    }
}

/// The type of number of a predefined datatype.
fn number_of(predefined: Predefined) -> Option<Number> {
    Some(match predefined {
        Predefined::One(basic) => one(basic)?,
        Predefined::Pair { value, index } => match (one(value)?, one(index)?) {
            (Number::F32, Number::I32) => Number::F32AndI32,
            (Number::F64, Number::I32) => Number::F64AndI32,
            (Number::LongDouble, Number::I32) => Number::LongDoubleAndI32,
            (Number::I16, Number::I32) => Number::I16AndI32,
            (Number::I32, Number::I32) => Number::I32AndI32,
            (Number::I64, Number::I32) => Number::I64AndI32,
            (Number::F32, Number::F32) => Number::F32AndF32,
            (Number::F64, Number::F64) => Number::F64AndF64,
            _ => return None,
        },
    })
}

fn one(basic: Basic) -> Option<Number> {
    Some(match (basic.sort(), basic.bytes()) {
        (BasicKind::Signed, 1) => Number::I8,
        (BasicKind::Signed, 2) => Number::I16,
        (BasicKind::Signed, 4) => Number::I32,
        (BasicKind::Signed, 8) => Number::I64,
        (BasicKind::Unsigned, 1) => Number::U8,
        (BasicKind::Unsigned, 2) => Number::U16,
        (BasicKind::Unsigned, 4) => Number::U32,
        (BasicKind::Unsigned, 8) => Number::U64,
        (BasicKind::Float, 4) => Number::F32,
        (BasicKind::Float, 8) => Number::F64,
        (BasicKind::Extended, 16) => Number::LongDouble,
        (BasicKind::Complex, 8) => Number::ComplexF32,
        (BasicKind::Complex, 16) => Number::ComplexF64,
        (BasicKind::ExtendedComplex, 32) => Number::ComplexLongDouble,
        (BasicKind::Logical, 1) => Number::Bool,
        (BasicKind::Logical, 2) => Number::Logical16,
        (BasicKind::Logical, 4) => Number::Logical32,
        (BasicKind::Logical, 8) => Number::Logical64,
        (BasicKind::Byte | BasicKind::Packed, 1) => Number::Byte,
        _ => return None,
    })
}

/// The operators of this process.
pub(crate) const OPERATORS: Operators = Operators {
    combine,
    is_users: |operator| operator.0 >= USER_OPERATOR_MIN && operator.0 & ON_NIC == 0,
};

/// Set in the numbers of user-defined operators that the NIC may run on any thread.
const ON_NIC: u16 = 0x4000;

/// Combines two contributions.
pub(crate) fn combine(operator: Operator, source: &[u8], into: &mut [u8]) {
    if operator.0 < USER_OPERATOR_MIN {
        return operation::combine(operator, source, into);
    }
    let reduction = registry().reductions.get(&operator.0).map(Arc::clone);
    reduction.expect("it is registered until its schedule is over").combine(source, into);
}

/// A user-defined operator on a datatype.
struct Reduction {
    users: Shared<UserOp>,
    datatype: Datatype,
    /// The datatype handle that the operator is passed.
    kept: KeptHandle,
}

impl Reduction {
    fn combine(&self, source: &[u8], into: &mut [u8]) {
        let element_bytes = self.datatype.size().max(1);
        let function = match &self.users.function {
            Function::OfProgram(function) => *function,
            Function::OnNic(operator) => {
                let element_bytes = usize::try_from(element_bytes).expect("it fits on the NIC");
                let mut operator = operator.lock().unwrap_or_else(PoisonError::into_inner);
                return operator.combine(source, into, element_bytes);
            }
        };
        let count = into.len() as u64 / element_bytes;
        if self.datatype.is_contiguous() {
            self.call(function, source.as_ptr(), into.as_mut_ptr(), count);
            return;
        }
        let mut unpacked_source = Elements::new(&self.datatype, count);
        let mut unpacked_into = Elements::new(&self.datatype, count);
        self.datatype.unpack(count, source, &mut unpacked_source);
        self.datatype.unpack(count, into, &mut unpacked_into);
        self.call(function, unpacked_source.origin(), unpacked_into.origin(), count);
        self.datatype.pack(count, &unpacked_into, into);
    }

    fn call(&self, function: Callback<OperatorCall>, source: *const u8, into: *mut u8, count: u64) {
        let Callback { function, call } = function;
        let (source, into) = (source.cast_mut().cast(), into.cast());
        // SAFETY: I1, I2.
        unsafe { call(function, source, into, count, self.kept.handle) };
    }
}

/// Elements as they would lie in memory of the program.
struct Elements {
    /// In units with the alignment of C's largest types.
    memory: Vec<u128>,
    /// The offset of the first byte from the origin.
    start: i64,
}

impl Elements {
    fn new(datatype: &Datatype, count: u64) -> Elements {
        let window = datatype.window(count);
        // The origin must be aligned too.
        let start = window.start.min(0).div_euclid(16) * 16;
        let bytes = usize::try_from(window.end.max(0) - start).expect("it is in memory elsewhere");
        Elements { memory: vec![0; bytes.div_ceil(16)], start }
    }

    /// The address that offsets count from.
    fn origin(&mut self) -> *mut u8 {
        let first: *mut u8 = self.memory.as_mut_ptr().cast();
        first.wrapping_offset(isize::try_from(-self.start).expect("it is an offset"))
    }

    fn range(&self, offset: i64, len: usize) -> std::ops::Range<usize> {
        let start = usize::try_from(offset - self.start).expect("the window begins before it");
        assert!(start + len <= self.memory.len() * 16, "the window ends behind it");
        start..start + len
    }
}

impl Memory for Elements {
    fn load(&self, offset: i64, into: &mut [u8]) {
        let range = self.range(offset, into.len());
        let first = self.memory.as_ptr().cast::<u8>().wrapping_add(range.start);
        // SAFETY: the range lies in the memory.
        let from = unsafe { std::slice::from_raw_parts(first, range.len()) };
        into.copy_from_slice(from);
    }

    fn store(&mut self, offset: i64, from: &[u8]) {
        let range = self.range(offset, from.len());
        let first = self.memory.as_mut_ptr().cast::<u8>().wrapping_add(range.start);
        // SAFETY: the range lies in the memory.
        let into = unsafe { std::slice::from_raw_parts_mut(first, range.len()) };
        into.copy_from_slice(from);
    }
}

/// The user-defined operators that open schedules use, by number.
#[derive(Default)]
struct Registry {
    reductions: HashMap<u16, Arc<Reduction>>,
    next: u16,
}

fn registry() -> MutexGuard<'static, Registry> {
    static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of an operator, valid while this is alive.
struct Registered {
    number: u16,
    users: Shared<UserOp>,
    process: &'static runtime::Process,
}

impl Registered {
    fn new(reduction: Reduction, process: &'static runtime::Process) -> Registered {
        let users = Shared::clone(&reduction.users);
        let runs_on_nic = matches!(users.function, Function::OnNic(_));
        let class = USER_OPERATOR_MIN | if runs_on_nic { ON_NIC } else { 0 };
        let mut registry = registry();
        loop {
            let number = registry.next & !(USER_OPERATOR_MIN | ON_NIC) | class;
            registry.next = number.wrapping_add(1);
            if let std::collections::hash_map::Entry::Vacant(place) =
                registry.reductions.entry(number)
            {
                place.insert(Arc::new(reduction));
                if !runs_on_nic {
                    process.add_user_operator();
                }
                return Registered { number, users, process };
            }
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        registry().reductions.remove(&self.number);
        if let Function::OfProgram(_) = self.users.function {
            self.process.remove_user_operator();
        }
    }
}
