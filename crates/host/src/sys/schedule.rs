//! How the kernel shares out cores.

/// What `sched_setattr` takes, as far as every kernel that has it knows it.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    bytes: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Asks that the calling thread, which runs seldom and for a short time, has a core soon after it is
/// woken, also where another thread computes. It gets no larger share for that. Kernels before 6.12 take no
/// notice.
pub(crate) fn prefer_short_slices() {
    let mut attributes = Attributes::default();
    let bytes = u32::try_from(size_of::<Attributes>()).expect("it is small");
    // SAFETY: the kernel writes no more bytes than it is told.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, bytes, 0) };
    if got != 0 || attributes.policy != 0 {
        return;
    }
    attributes.bytes = bytes;
    attributes.runtime = SLICE_NS;
    // SAFETY: the kernel reads as many bytes as `attributes.bytes` says.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

/// The shortest that there is.
const SLICE_NS: u64 = 100_000;
