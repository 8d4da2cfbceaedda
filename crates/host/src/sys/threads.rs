//! What the other threads of this process are doing.

use std::fs;
use std::sync::{Mutex, PoisonError};

/// Threads of the library that make no calls of the program.
static OWN: Mutex<Vec<i32>> = Mutex::new(Vec::new());

/// The calling thread belongs to the library as long as this lives.
pub(crate) struct OwnThread(i32);

impl OwnThread {
    pub(crate) fn begin() -> OwnThread {
        let thread = current();
        OWN.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        OwnThread(thread)
    }
}

impl Drop for OwnThread {
    fn drop(&mut self) {
        OWN.lock().unwrap_or_else(PoisonError::into_inner).retain(|&thread| thread != self.0);
    }
}

fn current() -> i32 {
    // SAFETY: the call has no arguments, and cannot fail.
    unsafe { libc::gettid() }
}

/// Whether another thread of this process may do something before the calling one does: it is not one of ours, and does
/// not sleep until a thread wakes it. True also if the system does not say.
pub(crate) fn others_may_act() -> bool {
    let own = OWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let Ok(list) = fs::read_dir("/proc/self/task") else { return true };
    let me = current();
    list.flatten().any(|entry| {
        let thread = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(thread) = thread else { return true };
        thread != me
            && !own.contains(&thread)
            && !fs::read_to_string(entry.path().join("syscall"))
                .is_ok_and(|text| sleeps_until_woken(&text))
    })
}

/// Whether a line of `/proc/PID/task/TID/syscall` is a wait on a futex without a time limit.
fn sleeps_until_woken(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let number = words.next().and_then(|word| word.parse::<i64>().ok());
    let mut arguments = words.map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16));
    let (_, operation) = (arguments.next(), arguments.next());
    let (_, timeout) = (arguments.next(), arguments.next());
    let command = operation.and_then(Result::ok).map(|bits| bits & 0x7f);
    let waits = [libc::FUTEX_WAIT, libc::FUTEX_WAIT_BITSET].map(|wait| u64::try_from(wait).ok());
    number == Some(libc::SYS_futex) && waits.contains(&command) && timeout == Some(Ok(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_wait_on_a_futex_without_a_limit_is_one() {
        let futex = libc::SYS_futex;
        let line = |operation: u32, timeout: &str| {
            format!("{futex} 0x7f00 {operation:#x} 0x2 {timeout} 0x0 0xffffffff 0x7ffe 0x7f01\n")
        };
        assert!(sleeps_until_woken(&line(0x80, "0x0")));
        assert!(sleeps_until_woken(&line(0x189, "0x0")));
        assert!(!sleeps_until_woken(&line(0x189, "0x7ffe0000")));
        assert!(!sleeps_until_woken(&line(0x81, "0x0")));
        assert!(!sleeps_until_woken("running\n"));
        assert!(!sleeps_until_woken("-1 0x7ffe 0x7f01\n"));
        assert!(!sleeps_until_woken(""));
    }
}
