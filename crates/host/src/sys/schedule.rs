//! How the kernel schedules the agent, and on which core.

/// The argument of `sched_setattr`, as far as every kernel that has the call knows it.
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

/// Asks the kernel to run the calling thread, which runs seldom and briefly, soon after it is woken, even while another
/// thread computes. Its share of the core does not grow. Kernels before 6.12 ignore this.
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

/// The core that the calling thread runs on. It may be on another as soon as this returns.
pub(crate) fn current_core() -> u32 {
    // SAFETY: it has no arguments.
    unsafe { libc::sched_getcpu() }.cast_unsigned()
}

/// The shortest slice that the kernel accepts.
const SLICE_NS: u64 = 100_000;
