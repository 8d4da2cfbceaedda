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
    // Not by the function of the C library, which those that wheels are for lack.
    // SAFETY: the call has no arguments, and cannot fail.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) };
    i32::try_from(thread).expect("the number of a thread")
}

/// Whether another thread of this process may do something before the calling one does: it is not one of ours, and does
/// not sleep until a thread wakes it. True also if the system does not say.
pub(crate) fn others_may_act() -> bool {
    let own = OWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let Ok(list) = fs::read_dir("/proc/self/task") else { return true };
    let threads: Option<Vec<i32>> =
        list.map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    let Some(threads) = threads else { return true };
    let me = current();
    let others = threads.iter().filter(|&&thread| thread != me && !own.contains(&thread));
    others.into_iter().any(|thread| {
        let line = fs::read_to_string(format!("/proc/self/task/{thread}/syscall"));
        !line.is_ok_and(|line| sleeps_until_woken(&line, &threads))
    })
}

/// Whether a line of `/proc/PID/task/TID/syscall` is a wait without a time limit for one of these threads of the process:
/// on a futex of the process alone, or for the end of a thread. Other processes could wake others.
fn sleeps_until_woken(line: &str, threads: &[i32]) -> bool {
    let mut words = line.split_whitespace();
    let number = words.next().and_then(|word| word.parse::<i64>().ok());
    let mut arguments =
        words.map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok());
    let mut next = || arguments.next().flatten();
    let (_, Some(operation), Some(value), Some(timeout)) = (next(), next(), next(), next()) else {
        return false;
    };
    let is = |command: i32| u64::try_from(command) == Ok(operation & 0x7f);
    let is_private = operation & 0x80 != 0;
    // `pthread_join` waits until the system clears the number of the thread, on a futex that is not private.
    let joins = || i32::try_from(value).is_ok_and(|value| threads.contains(&value));
    number == Some(libc::SYS_futex)
        && (is(libc::FUTEX_WAIT) || is(libc::FUTEX_WAIT_BITSET))
        && timeout == 0
        && (is_private || joins())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn only_a_wait_for_a_thread_of_the_process_has_no_other_end() {
        let futex = libc::SYS_futex;
        let line = |operation: u32, value: u32, timeout: &str| {
            format!(
                "{futex} 0x7f00 {operation:#x} {value:#x} {timeout} 0x0 0xffffffff 0x7ffe 0x7f01\n"
            )
        };
        let sleeps = |line: &str| sleeps_until_woken(line, &[70, 71]);
        assert!(sleeps(&line(0x80, 2, "0x0")));
        assert!(sleeps(&line(0x189, 2, "0x0")));
        assert!(!sleeps(&line(0x189, 2, "0x7ffe0000")), "it has a time limit");
        assert!(!sleeps(&line(0x81, 2, "0x0")), "it wakes others");
        assert!(sleeps(&line(0x109, 71, "0x0")), "it joins a thread");
        assert!(!sleeps(&line(0x109, 0, "0x0")), "another process can post this semaphore");
        assert!(!sleeps("running\n"));
        assert!(!sleeps("-1 0x7ffe 0x7f01\n"));
        assert!(!sleeps(""));
    }

    /// What the system really says about a thread that waits for a lock, and about one that joins it.
    #[test]
    fn threads_that_wait_for_each_other_are_recognised() {
        let lock = Arc::new(Mutex::new(()));
        let held = lock.lock().expect("nobody has panicked");
        let (tell, told) = mpsc::channel();
        let (lock_too, tell_too) = (Arc::clone(&lock), tell.clone());
        let waits = thread::spawn(move || {
            tell_too.send(current()).expect("the test listens");
            drop(lock_too.lock());
        });
        let joins = thread::spawn(move || {
            tell.send(current()).expect("the test listens");
            waits.join().expect("it ends");
        });
        let threads = [told.recv().expect("a number"), told.recv().expect("a number")];
        let sleeps = |thread: &i32| {
            let line = fs::read_to_string(format!("/proc/self/task/{thread}/syscall"));
            line.is_ok_and(|line| sleeps_until_woken(&line, &threads))
        };
        let until = Instant::now() + Duration::from_secs(60);
        while !threads.iter().all(sleeps) {
            assert!(Instant::now() < until, "they sleep, and are not taken to");
            thread::yield_now();
        }
        drop(held);
        joins.join().expect("it ends");
    }
}
