//! Whether this process has rights that who started it does not have.

/// Whether the environment comes from somebody with fewer rights: the program is set-user-id, set-group-id, or has
/// capabilities of its own. Then nothing in it may say what is loaded, or whom to believe.
pub(crate) fn is_privileged() -> bool {
    // SAFETY: it takes a number.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}
