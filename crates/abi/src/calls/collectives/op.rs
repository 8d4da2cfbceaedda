//! User-defined operators, and reductions within a process.

use std::ffi::c_int;

use ferrywire_host::ErrorCode;
use ferrywire_modules::start_operator;
use ferrywire_runtime::code_of_module;

use crate::calls::entry::entries;
use crate::calls::environment::module::code_of;
use crate::convert::callback::{Callback, LargeOperatorFunction, OperatorCall, OperatorFunction};
use crate::convert::constants::{MPI_ERR_OP, MPI_OP_NULL};
use crate::convert::failure::{Failure, Result};
use crate::convert::handle;
use crate::convert::pointer::{Choice, ChoiceMut, Out};
use crate::convert::sizes::Wide;
use crate::convert::types::{MPI_Count, MPI_Datatype, MPI_Op};
use crate::objects::data::Data;
use crate::objects::op::{Combining, Function, Op, UserOp, combine, find, name_of};
use crate::objects::process;

/// Creates an operator from a callback of the program.
pub(crate) fn create(
    function: Option<Callback<OperatorCall>>,
    commute: c_int,
    op: Out<MPI_Op>,
) -> Result {
    let function = Function::OfProgram(function.ok_or_else(no_function)?);
    op.put(MPI_Op(handle::expose(handle::share(UserOp { function, commutative: commute != 0 }))))
}

entries! {
    fn MPI_Op_create(user_fn: Option<OperatorFunction>, commute: c_int, op: Out<MPI_Op>) {
        create(user_fn.map(Into::into), commute, op)
    }

    fn MPI_Op_create_c(user_fn: Option<LargeOperatorFunction>, commute: c_int, op: Out<MPI_Op>) {
        create(user_fn.map(Into::into), commute, op)
    }

    fn Ferry_Op_create(code: Choice, len: MPI_Count, commute: c_int, op: Out<MPI_Op>) {
        let code = start_operator(code_of(code, len)?, |name| std::env::var(name).ok());
        let code = code.map_err(|why| {
            Failure::new(MPI_ERR_OP, why.to_string()).coded(code_of_module(Some(&why)))
        })?;
        op.put(MPI_Op(handle::expose(handle::share(UserOp::on_nic(code, commute != 0)))))
    }

    fn MPI_Op_free(op: Out<MPI_Op>) {
        let freed = op.get()?;
        if let Op::Ours(_) = find(freed)? {
            let why = format!("{} is predefined and cannot be freed", name_of(freed));
            return Err(Failure::new(MPI_ERR_OP, why).coded(ErrorCode::PREDEFINED));
        }
        drop(handle::take::<UserOp>(freed.0)?);
        op.put(MPI_OP_NULL)
    }

    fn MPI_Op_commutative(op: MPI_Op, commute: Out<c_int>) {
        commute.put(match find(op)? {
            Op::Ours(operation) => operation.is_commutative().into(),
            Op::User(users) => users.commutative.into(),
        })
    }

    fn MPI_Reduce_local / MPI_Reduce_local_c (
        inbuf: Choice, inoutbuf: ChoiceMut, count: Size, datatype: MPI_Datatype, op: MPI_Op,
    ) {
        let combining = Combining::new(op, datatype, || Ok(process::running()?.runtime))?;
        let source = Data::to_read(inbuf, count, datatype)?.packed();
        let both = Data::to_write(inoutbuf, count.wide(), datatype)?;
        let mut result = both.packed();
        combine(combining.reduce_op.operator, &source, &mut result);
        combining.check()?;
        both.unpack(&result);
        Ok(())
    }
}

#[cold]
fn no_function() -> Failure {
    Failure::new(MPI_ERR_OP, "the function is a null pointer")
}
