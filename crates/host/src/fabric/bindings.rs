//! The parts of libfabric's binary interface that are used here, written from its public headers.
//!
//! Most calls of the library are inline functions in its headers, over tables of function pointers in its
//! objects. So the layouts of these tables are here, each up to the last entry that is used: tables and
//! objects are only ever accessed through pointers, and later versions add to their ends.
//!
//! Invariants:
//!   L1. Strings given to the loader and to the library end with a zero byte.
//!   L2. The library is never closed, so its functions and tables live for ever.
//!   L3. The layouts below are those of symbol version FABRIC_1.3, which every library since 1.6 has, and
//!       which is requested by that name. What the library allocates is given back to the library.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use crate::sys::secure;

/// One way to use a provider: `struct fi_info`.
#[repr(C)]
pub(super) struct Info {
    pub(super) next: *mut Info,
    pub(super) caps: u64,
    pub(super) mode: u64,
    pub(super) addr_format: u32,
    pub(super) src_addrlen: usize,
    pub(super) dest_addrlen: usize,
    pub(super) src_addr: *mut c_void,
    pub(super) dest_addr: *mut c_void,
    pub(super) handle: *mut Fid,
    pub(super) tx_attr: *mut TxAttr,
    pub(super) rx_attr: *mut RxAttr,
    pub(super) ep_attr: *mut EpAttr,
    pub(super) domain_attr: *mut DomainAttr,
    pub(super) fabric_attr: *mut FabricAttr,
    pub(super) nic: *mut c_void,
}

#[repr(C)]
pub(super) struct TxAttr {
    pub(super) caps: u64,
    pub(super) mode: u64,
    pub(super) op_flags: u64,
    pub(super) msg_order: u64,
    pub(super) comp_order: u64,
    pub(super) inject_size: usize,
    pub(super) size: usize,
}

#[repr(C)]
pub(super) struct RxAttr {
    pub(super) caps: u64,
    pub(super) mode: u64,
    pub(super) op_flags: u64,
    pub(super) msg_order: u64,
    pub(super) comp_order: u64,
    pub(super) total_buffered_recv: usize,
    pub(super) size: usize,
}

#[repr(C)]
pub(super) struct EpAttr {
    pub(super) kind: c_int,
    pub(super) protocol: u32,
    pub(super) protocol_version: u32,
    pub(super) max_msg_size: usize,
}

#[repr(C)]
pub(super) struct DomainAttr {
    pub(super) domain: *mut Domain,
    pub(super) name: *mut c_char,
    pub(super) threading: c_int,
    pub(super) control_progress: c_int,
    pub(super) data_progress: c_int,
    pub(super) resource_mgmt: c_int,
    pub(super) av_type: c_int,
    pub(super) mr_mode: c_int,
    pub(super) mr_key_size: usize,
}

#[repr(C)]
pub(super) struct FabricAttr {
    pub(super) fabric: *mut FidFabric,
    pub(super) name: *mut c_char,
    pub(super) prov_name: *mut c_char,
    pub(super) prov_version: u32,
    pub(super) api_version: u32,
}

/// The beginning of every object: `struct fid`.
#[repr(C)]
pub(super) struct Fid {
    class: usize,
    context: *mut c_void,
    pub(super) ops: *const Ops,
}

#[repr(C)]
pub(super) struct Ops {
    size: usize,
    pub(super) close: unsafe extern "C" fn(*mut Fid) -> c_int,
    pub(super) bind: unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> c_int,
    pub(super) control: unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> c_int,
}

#[repr(C)]
pub(super) struct FidFabric {
    pub(super) fid: Fid,
    pub(super) ops: *const FabricOps,
}

#[repr(C)]
pub(super) struct FabricOps {
    size: usize,
    pub(super) domain:
        unsafe extern "C" fn(*mut FidFabric, *mut Info, *mut *mut Domain, *mut c_void) -> c_int,
    passive_ep: *const c_void,
    eq_open: *const c_void,
    wait_open: *const c_void,
    pub(super) trywait: TryWait,
}

#[repr(C)]
pub(super) struct Domain {
    pub(super) fid: Fid,
    pub(super) ops: *const DomainOps,
    pub(super) mr: *const MrOps,
}

#[repr(C)]
pub(super) struct DomainOps {
    size: usize,
    pub(super) av_open:
        unsafe extern "C" fn(*mut Domain, *mut AvAttr, *mut *mut Av, *mut c_void) -> c_int,
    pub(super) cq_open:
        unsafe extern "C" fn(*mut Domain, *mut CqAttr, *mut *mut Cq, *mut c_void) -> c_int,
    pub(super) endpoint:
        unsafe extern "C" fn(*mut Domain, *mut Info, *mut *mut Ep, *mut c_void) -> c_int,
}

#[repr(C)]
pub(super) struct MrOps {
    size: usize,
    pub(super) reg: unsafe extern "C" fn(
        *mut Fid,
        *const c_void,
        usize,
        u64,
        u64,
        u64,
        u64,
        *mut *mut Mr,
        *mut c_void,
    ) -> c_int,
}

#[repr(C)]
pub(super) struct Mr {
    pub(super) fid: Fid,
    pub(super) mem_desc: *mut c_void,
    pub(super) key: u64,
}

#[repr(C)]
pub(super) struct Av {
    pub(super) fid: Fid,
    pub(super) ops: *const AvOps,
}

#[repr(C)]
pub(super) struct AvOps {
    size: usize,
    pub(super) insert: Insert,
}

#[repr(C)]
pub(super) struct AvAttr {
    pub(super) kind: c_int,
    pub(super) rx_ctx_bits: c_int,
    pub(super) count: usize,
    pub(super) ep_per_node: usize,
    pub(super) name: *const c_char,
    pub(super) map_addr: *mut c_void,
    pub(super) flags: u64,
}

#[repr(C)]
pub(super) struct Cq {
    pub(super) fid: Fid,
    pub(super) ops: *const CqOps,
}

#[repr(C)]
pub(super) struct CqOps {
    size: usize,
    pub(super) read: CqRead,
    readfrom: *const c_void,
    pub(super) readerr: ReadError,
}

#[repr(C)]
pub(super) struct CqAttr {
    pub(super) size: usize,
    pub(super) flags: u64,
    pub(super) format: c_int,
    pub(super) wait_obj: c_int,
    pub(super) signaling_vector: c_int,
    pub(super) wait_cond: c_int,
    pub(super) wait_set: *mut c_void,
}

/// `struct fi_cq_msg_entry`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Completion {
    pub(super) context: *mut c_void,
    pub(super) flags: u64,
    pub(super) len: usize,
}

/// `struct fi_cq_err_entry`, with room for fields of later versions.
#[repr(C)]
pub(super) struct Failure {
    pub(super) context: *mut c_void,
    pub(super) flags: u64,
    pub(super) len: usize,
    pub(super) buf: *mut c_void,
    pub(super) data: u64,
    pub(super) tag: u64,
    pub(super) olen: usize,
    pub(super) err: c_int,
    pub(super) prov_errno: c_int,
    pub(super) err_data: *mut c_void,
    pub(super) err_data_size: usize,
    pub(super) more: [u64; 8],
}

#[repr(C)]
pub(super) struct Ep {
    pub(super) fid: Fid,
    ops: *const c_void,
    pub(super) cm: *const CmOps,
    pub(super) msg: *const MsgOps,
    pub(super) rma: *const RmaOps,
}

#[repr(C)]
pub(super) struct CmOps {
    size: usize,
    setname: *const c_void,
    pub(super) getname: unsafe extern "C" fn(*mut Fid, *mut c_void, *mut usize) -> c_int,
}

#[repr(C)]
pub(super) struct MsgOps {
    size: usize,
    pub(super) recv: Receive,
    recvv: *const c_void,
    recvmsg: *const c_void,
    pub(super) send: Send,
    sendv: *const c_void,
    sendmsg: *const c_void,
    pub(super) inject: Inject,
}

#[repr(C)]
pub(super) struct RmaOps {
    size: usize,
    pub(super) read: ReadRemote,
}

pub(super) type TryWait = unsafe extern "C" fn(*mut FidFabric, *mut *mut Fid, c_int) -> c_int;
pub(super) type Insert =
    unsafe extern "C" fn(*mut Av, *const c_void, usize, *mut u64, u64, *mut c_void) -> c_int;
pub(super) type CqRead = unsafe extern "C" fn(*mut Cq, *mut c_void, usize) -> isize;
pub(super) type ReadError = unsafe extern "C" fn(*mut Cq, *mut Failure, u64) -> isize;
pub(super) type Receive =
    unsafe extern "C" fn(*mut Ep, *mut c_void, usize, *mut c_void, u64, *mut c_void) -> isize;
pub(super) type Send =
    unsafe extern "C" fn(*mut Ep, *const c_void, usize, *mut c_void, u64, *mut c_void) -> isize;
pub(super) type ReadRemote = unsafe extern "C" fn(
    *mut Ep,
    *mut c_void,
    usize,
    *mut c_void,
    u64,
    u64,
    u64,
    *mut c_void,
) -> isize;
pub(super) type Inject = unsafe extern "C" fn(*mut Ep, *const c_void, usize, u64) -> isize;

type GetInfo = unsafe extern "C" fn(
    u32,
    *const c_char,
    *const c_char,
    u64,
    *const Info,
    *mut *mut Info,
) -> c_int;
type FreeInfo = unsafe extern "C" fn(*mut Info);
type DupInfo = unsafe extern "C" fn(*const Info) -> *mut Info;
type OpenFabric = unsafe extern "C" fn(*mut FabricAttr, *mut *mut FidFabric, *mut c_void) -> c_int;
type StrError = unsafe extern "C" fn(c_int) -> *const c_char;
type Version = unsafe extern "C" fn() -> u32;

/// The library's functions.
pub(super) struct Library {
    pub(super) getinfo: GetInfo,
    pub(super) freeinfo: FreeInfo,
    pub(super) dupinfo: DupInfo,
    pub(super) fabric: OpenFabric,
    strerror: StrError,
    version: Version,
}

impl Library {
    /// The library, loaded once; or the loader's error.
    pub(super) fn find() -> Result<&'static Library, &'static str> {
        static FOUND: OnceLock<Result<Library, String>> = OnceLock::new();
        FOUND.get_or_init(Library::load).as_ref().map_err(String::as_str)
    }

    fn load() -> Result<Library, String> {
        // The library loads files named by its own environment variables.
        if secure::is_privileged() {
            return Err("this program is set-user-id, set-group-id or has capabilities".into());
        }
        let signals = Signals::note();
        // SAFETY: L1. The library's initialisers run, as those of any linked library do.
        let handle = unsafe { libc::dlopen(NAME.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        signals.restore();
        if handle.is_null() {
            return Err(loader_says());
        }
        macro_rules! function {
            ($name:literal, $version:literal, $type:ty) => {{
                // SAFETY: L1; the library was just opened.
                let symbol = unsafe { libc::dlvsym(handle, $name.as_ptr(), $version.as_ptr()) };
                if symbol.is_null() {
                    return Err(loader_says());
                }
                // SAFETY: L2, L3: a function of this name and version has this type.
                unsafe { std::mem::transmute::<*mut c_void, $type>(symbol) }
            }};
        }
        Ok(Library {
            getinfo: function!(c"fi_getinfo", c"FABRIC_1.3", GetInfo),
            freeinfo: function!(c"fi_freeinfo", c"FABRIC_1.3", FreeInfo),
            dupinfo: function!(c"fi_dupinfo", c"FABRIC_1.3", DupInfo),
            fabric: function!(c"fi_fabric", c"FABRIC_1.1", OpenFabric),
            strerror: function!(c"fi_strerror", c"FABRIC_1.0", StrError),
            version: function!(c"fi_version", c"FABRIC_1.0", Version),
        })
    }

    /// The library's version: major and minor.
    pub(super) fn version(&self) -> (u32, u32) {
        // SAFETY: it takes no arguments.
        let version = unsafe { (self.version)() };
        (version >> 16, version & 0xffff)
    }

    /// The text for an error number.
    pub(super) fn in_words(&self, code: c_int) -> String {
        // SAFETY: it takes any number, and returns a static string.
        let words = unsafe { (self.strerror)(code.abs()) };
        if words.is_null() {
            return format!("error {code}");
        }
        // SAFETY: the string ends with a zero byte.
        let words = unsafe { CStr::from_ptr(words) };
        format!("{} ({})", words.to_string_lossy(), code.abs())
    }
}

/// The signal dispositions before loading. Some of libfabric's dependencies install handlers for crash
/// signals when they are loaded, which print a trace, leave a file and end the process with another exit
/// code. They are restored: how a program crashes is its own business.
struct Signals([libc::sigaction; SIGNALS]);

impl Signals {
    fn note() -> Signals {
        Signals(std::array::from_fn(|at| {
            // SAFETY: it is plain data: all zeros is a valid value.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            // SAFETY: there is room for one. For a number that is no signal, the call fails and writes nothing.
            unsafe { libc::sigaction(number(at), std::ptr::null(), &raw mut action) };
            action
        }))
    }

    fn restore(&self) {
        for (at, action) in self.0.iter().enumerate() {
            // SAFETY: it is what the system returned. Those that cannot be set have not changed.
            unsafe { libc::sigaction(number(at), action, std::ptr::null_mut()) };
        }
    }
}

/// The signals that have names, from 1 on.
const SIGNALS: usize = 31;

fn number(at: usize) -> c_int {
    c_int::try_from(at).map_or(0, |at| at + 1)
}

fn loader_says() -> String {
    // SAFETY: it takes no arguments, and returns a string or null.
    let says = unsafe { libc::dlerror() };
    if says.is_null() {
        return "unknown reason".into();
    }
    // SAFETY: the string ends with a zero byte, and is valid until this thread's next call of the loader.
    let says = unsafe { CStr::from_ptr(says) };
    says.to_string_lossy().into_owned()
}

const NAME: &CStr = c"libfabric.so.1";

/// The interface version that we request: 1.14.
pub(super) const API: u32 = (1 << 16) | 14;

pub(super) const FI_MSG: u64 = 1 << 1;
pub(super) const FI_RMA: u64 = 1 << 2;
pub(super) const FI_READ: u64 = 1 << 8;
pub(super) const FI_RECV: u64 = 1 << 10;
pub(super) const FI_SEND: u64 = 1 << 11;
pub(super) const FI_REMOTE_READ: u64 = 1 << 12;
/// With `fi_getinfo`: the given address is our own.
pub(super) const FI_SOURCE: u64 = 1 << 57;
/// Operations lend the library four, or eight, words of ours.
pub(super) const FI_CONTEXT: u64 = 1 << 59;
pub(super) const FI_CONTEXT2: u64 = 1 << 52;
/// Sends arrive in the order in which they were posted.
pub(super) const FI_ORDER_SAS: u64 = 1 << 8;
pub(super) const FI_EP_RDM: c_int = 3;
pub(super) const FI_THREAD_DOMAIN: c_int = 3;
pub(super) const FI_PROGRESS_AUTO: c_int = 1;
pub(super) const FI_RM_ENABLED: c_int = 2;
pub(super) const FI_AV_UNSPEC: c_int = 0;
pub(super) const FI_AV_MAP: c_int = 1;
/// What memory has to be registered for.
pub(super) const FI_MR_LOCAL: c_int = 1 << 2;
pub(super) const FI_MR_VIRT_ADDR: c_int = 1 << 4;
pub(super) const FI_MR_ALLOCATED: c_int = 1 << 5;
pub(super) const FI_MR_PROV_KEY: c_int = 1 << 6;
pub(super) const FI_MR_ENDPOINT: c_int = 1 << 9;
pub(super) const FI_CQ_FORMAT_MSG: c_int = 2;
pub(super) const FI_WAIT_NONE: c_int = 0;
pub(super) const FI_WAIT_FD: c_int = 3;
/// Commands of `control`.
pub(super) const FI_GETWAIT: c_int = 5;
pub(super) const FI_ENABLE: c_int = 6;
pub(super) const FI_ADDR_UNSPEC: u64 = u64::MAX;
pub(super) const FI_EAVAIL: c_int = 259;

#[cfg(target_pointer_width = "64")]
const _: () = {
    use std::mem::offset_of;
    // As a C compiler lays them out.
    assert!(size_of::<Info>() == 120 && offset_of!(Info, tx_attr) == 72);
    assert!(offset_of!(TxAttr, inject_size) == 40 && offset_of!(EpAttr, max_msg_size) == 16);
    assert!(offset_of!(DomainAttr, threading) == 16 && offset_of!(FabricAttr, prov_version) == 24);
    assert!(size_of::<Fid>() == 24 && size_of::<Completion>() == 24);
    assert!(offset_of!(Failure, err) == 56 && offset_of!(Failure, more) == 80);
    assert!(offset_of!(DomainAttr, mr_key_size) == 40 && offset_of!(Mr, key) == 32);
    assert!(offset_of!(Ep, rma) == 48 && offset_of!(RmaOps, read) == 8);
    assert!(size_of::<CqAttr>() == 40 && size_of::<AvAttr>() == 48);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_signals_do_stays_as_it_is() {
        let before = Signals::note();
        let _ = Library::find();
        let after = Signals::note();
        for (at, (before, after)) in before.0.iter().zip(&after.0).enumerate() {
            assert_eq!(before.sa_sigaction, after.sa_sigaction, "signal {}", number(at));
        }
    }
}
