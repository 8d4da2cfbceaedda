//! Control variables: the limits of the NIC. Those that `ferry run --limit` sets can also be written here, until the process
//! joins its job; all ranks must then write the same.

use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

use ferrywire_host::job_limits::{JobLimit, JobLimits, LIMIT_VARIABLE};
use ferrywire_host::nic::Limits;

use super::{error, index_of, int, item, name_of, put_text, told};
use crate::calls::entry::answers;
use crate::convert::constants::{
    MPI_T_BIND_NO_OBJECT, MPI_T_ERR_CVAR_SET_NEVER, MPI_T_ERR_CVAR_SET_NOT_NOW, MPI_T_ERR_INVALID,
    MPI_T_ERR_INVALID_HANDLE, MPI_T_ERR_NOT_ACCESSIBLE, MPI_T_SCOPE_ALL_EQ, MPI_T_SCOPE_CONSTANT,
    MPI_T_VERBOSITY_TUNER_BASIC, MPI_UNSIGNED_LONG,
};
use crate::convert::handle::{self, Kind};
use crate::convert::pointer::{Choice, ChoiceMut, Out, Text, TextOut};
use crate::convert::types::{MPI_Datatype, MPI_T_cvar_handle, MPI_T_enum};
use crate::objects::process;

/// A control variable.
pub(super) struct Control {
    name: &'static str,
    text: &'static str,
    read: fn(&Limits) -> u64,
    /// The limit, if it can be set before the process joins its job.
    settable: Option<JobLimit>,
}

/// What has been written before the process joined its job.
static WRITTEN: Mutex<JobLimits> = Mutex::new(JobLimits::NONE);

/// The limits that this process wants, as the environment and variables that were written say: in the form of the
/// environment variable. One that cannot be read is left to whoever joins, who reports it.
pub(crate) fn limits_wanted() -> Option<String> {
    let written = *WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
    let inherited = std::env::var(LIMIT_VARIABLE).ok();
    match inherited.as_deref().unwrap_or_default().parse::<JobLimits>() {
        Ok(limits) => Some(limits.then(written).to_string()),
        Err(_) => inherited,
    }
}

/// All control variables.
pub(super) const CONTROLS: &[Control] = &[
    Control {
        name: "ferrywire_eager_bytes_max",
        text: "The longest message, in bytes, that is sent eagerly, without asking its receiver first.",
        read: |limits| limits.eager_bytes_max.into(),
        settable: Some(JobLimit::Eager),
    },
    Control {
        name: "ferrywire_unexpected_bytes_max",
        text: "Bytes of unexpected messages that one queue may hold.",
        read: |limits| limits.unexpected_bytes_max.into(),
        settable: Some(JobLimit::Budget),
    },
    Control {
        name: "ferrywire_queues",
        text: "Matching queues that the communicators of a rank share.",
        read: |limits| limits.queues.into(),
        settable: None,
    },
    Control {
        name: "ferrywire_credit_bytes",
        text: "Bytes that a receiver initially reserves for each sender.",
        read: |limits| limits.credit_bytes.into(),
        settable: Some(JobLimit::Credit),
    },
    Control {
        name: "ferrywire_piece_bytes_max",
        text: "The longest piece, in bytes, into which a long message is divided.",
        read: |limits| limits.piece_bytes_max.into(),
        settable: None,
    },
];

/// A handle of a control variable.
struct CvarHandle(&'static Control);

impl Kind for CvarHandle {
    const MARK: u32 = 0x4356_4152;
    const ERROR: c_int = MPI_T_ERR_INVALID_HANDLE;
    const NAME: &'static str = "control variable";
}

answers! {
    fn MPI_T_cvar_get_num(num_cvar: Out<c_int>) -> c_int {
        told(|| num_cvar.put(int(CONTROLS.len())))
    }

    fn MPI_T_cvar_get_info(
        cvar_index: c_int, name: TextOut, name_len: Out<c_int>, verbosity: Out<c_int>,
        datatype: Out<MPI_Datatype>, enumtype: Out<MPI_T_enum>, desc: TextOut, desc_len: Out<c_int>,
        bind: Out<c_int>, scope: Out<c_int>,
    ) -> c_int {
        told(|| {
            let control = item(CONTROLS, cvar_index)?;
            put_text(control.name, name, name_len)?;
            put_text(control.text, desc, desc_len)?;
            verbosity.put_if_wanted(MPI_T_VERBOSITY_TUNER_BASIC);
            datatype.put_if_wanted(MPI_UNSIGNED_LONG);
            enumtype.put_if_wanted(MPI_T_enum(0));
            bind.put_if_wanted(MPI_T_BIND_NO_OBJECT);
            scope.put_if_wanted(match control.settable {
                Some(_) => MPI_T_SCOPE_ALL_EQ,
                None => MPI_T_SCOPE_CONSTANT,
            });
            Ok(())
        })
    }

    fn MPI_T_cvar_get_index(name: Text, cvar_index: Out<c_int>) -> c_int {
        told(|| {
            let name = name_of(name)?;
            cvar_index.put(index_of(CONTROLS, |control| control.name == name)?)
        })
    }

    fn MPI_T_cvar_handle_alloc(
        cvar_index: c_int, _obj_handle: *mut c_void, handle: Out<MPI_T_cvar_handle>,
        count: Out<c_int>,
    ) -> c_int {
        told(|| {
            let control = item(CONTROLS, cvar_index)?;
            handle.put(MPI_T_cvar_handle(handle::expose(handle::share(CvarHandle(control)))))?;
            count.put(1)
        })
    }

    fn MPI_T_cvar_handle_free(handle: Out<MPI_T_cvar_handle>) -> c_int {
        told(|| {
            drop(handle::take::<CvarHandle>(handle.get()?.0)?);
            handle.put(MPI_T_cvar_handle(0))
        })
    }

    fn MPI_T_cvar_read(handle: MPI_T_cvar_handle, buf: ChoiceMut) -> c_int {
        told(|| {
            let CvarHandle(control) = **handle::find::<CvarHandle>(handle.0)?;
            let value = match (process::running(), control.settable) {
                (Ok(process), _) => process.rank().driver().inspect(|nic| (control.read)(nic.limits())),
                (Err(_), Some(limit)) => {
                    let wanted = limits_wanted().and_then(|text| text.parse::<JobLimits>().ok());
                    wanted.unwrap_or_default().value(limit).into()
                }
                (Err(_), None) => return Err(error(MPI_T_ERR_NOT_ACCESSIBLE)),
            };
            buf.place::<u64>().put(value)
        })
    }

    fn MPI_T_cvar_write(handle: MPI_T_cvar_handle, buf: Choice) -> c_int {
        told(|| {
            let CvarHandle(control) = **handle::find::<CvarHandle>(handle.0)?;
            let limit = control.settable.ok_or_else(|| error(MPI_T_ERR_CVAR_SET_NEVER))?;
            if process::running().is_ok() {
                return Err(error(MPI_T_ERR_CVAR_SET_NOT_NOW));
            }
            let &[bytes] = buf.items::<u64>().slice(1)? else { return Err(error(MPI_T_ERR_INVALID)) };
            let mut written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
            written.set(limit, bytes).map_err(|_| error(MPI_T_ERR_INVALID))
        })
    }
}
