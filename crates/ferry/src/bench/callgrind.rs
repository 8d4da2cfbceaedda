//! Instructions, counted by callgrind: they are the same on a busy machine and on an idle one.
//!
//! One child of ourselves does all cases in a row. Callgrind collects inside one function only and
//! writes a file each time that function returns, so the n-th file is the n-th case, and what
//! it took to prepare the case is in none of them.

use std::path::Path;
use std::process::{Command, Stdio};

/// Runs this program with `arguments` under callgrind, and returns what each call of `function`
/// took. The error is a sentence for the user.
pub(crate) fn count(function: &str, arguments: &[&str]) -> Result<Vec<u64>, String> {
    let folder = std::env::temp_dir().join(format!("ferry-callgrind-{}", std::process::id()));
    std::fs::create_dir(&folder).map_err(|cause| format!("{}: {cause}", folder.display()))?;
    let counts = run(function, arguments, &folder).and_then(|()| read(&folder));
    // What is left behind in the temporary folder is no reason to lose the counts.
    let _ = std::fs::remove_dir_all(&folder);
    counts
}

fn run(function: &str, arguments: &[&str], folder: &Path) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|cause| format!("own path: {cause}"))?;
    let status = Command::new("valgrind")
        .arg("--tool=callgrind")
        .arg(format!("--toggle-collect=*{function}*"))
        .arg(format!("--dump-after=*{function}*"))
        .arg(format!("--callgrind-out-file={}", folder.join("out").display()))
        .arg(program)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(|cause| format!("valgrind does not start: {cause}"))?;
    status.success().then_some(()).ok_or_else(|| format!("valgrind ends with {status}"))
}

/// The files are `out.1`, `out.2` and so on, and `out` with nothing in it at the end.
fn read(folder: &Path) -> Result<Vec<u64>, String> {
    let mut counts = Vec::new();
    while let Ok(text) = std::fs::read_to_string(folder.join(format!("out.{}", counts.len() + 1))) {
        counts.push(total(&text).ok_or("a callgrind file without a total")?);
    }
    Ok(counts)
}

fn total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("totals: "))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_found() {
        assert_eq!(total("version: 1\nevents: Ir\nfn=(1)\n12 7\ntotals: 1234\n"), Some(1234));
        assert_eq!(total("version: 1\n"), None);
    }
}
