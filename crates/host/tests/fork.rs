//! A process forked from a rank cannot act as that rank.

use std::io::Read;
use std::os::fd::AsRawFd;

use ferrywire_host::{Operators, job};
use ferrywire_nic::Operator;

fn nothing(_: Operator, _: &[u8], _: &mut [u8]) {}

/// Runs `does` in a child; its exit code and its output.
fn child(does: impl FnOnce()) -> (Option<i32>, String) {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    // SAFETY: the child calls only the system and the driver, which are what is tested.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "{}", std::io::Error::last_os_error());
    if pid == 0 {
        // SAFETY: both descriptors are open.
        unsafe { libc::dup2(writer.as_raw_fd(), libc::STDERR_FILENO) };
        does();
        // SAFETY: it takes a number.
        unsafe { libc::_exit(0) };
    }
    drop(writer);
    let (mut said, mut status) = (String::new(), 0);
    reader.read_to_string(&mut said).expect("text");
    // SAFETY: there is room for the status.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    (libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)), said)
}

#[test]
fn a_child_that_drives_a_rank_is_refused_with_a_sentence() {
    let ranks = job::local(1, true, Operators::ours(nothing)).expect("memory");
    let rank = &ranks[0];
    assert!(!rank.driver().is_forked());
    let (code, said) = child(|| rank.driver().turn());
    assert_eq!(code, Some(126), "{said}");
    assert!(said.contains("forked from a rank") && said.contains("exec"), "{said}");
    // A child that only looks, and leaves, does no harm.
    let (code, said) = child(|| {
        assert!(rank.driver().is_forked() && rank.driver().me().0 == 0);
        rank.leave();
    });
    assert_eq!((code, said.as_str()), (Some(0), ""));
    // The rank still works.
    rank.driver().turn();
}
