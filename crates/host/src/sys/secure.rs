//! Whether this process has privileges that the user who started it lacks.

/// Whether the environment comes from a user with fewer privileges: the program is set-user-id, set-group-id, or has
/// file capabilities. Then the environment must not decide what is loaded or trusted.
pub(crate) fn is_privileged() -> bool {
    // SAFETY: it takes a number.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}
