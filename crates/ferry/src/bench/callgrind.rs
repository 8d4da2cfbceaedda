//! Counts instructions with callgrind: the counts are the same on a busy machine and on an idle one.
//!
//! A child process runs all cases in a row, and calls a mark before and after the steps of each. At each call
//! of the mark, callgrind writes what it has counted since the last call to a file. So every second file is a
//! case, and the others are its preparation.

use std::path::Path;
use std::process::{Command, Stdio};

/// Runs this program with `arguments` under callgrind, and returns the instructions between each
/// pair of calls of `mark`. The error is a sentence for the user.
pub(crate) fn count(mark: &str, arguments: &[&str]) -> Result<Vec<u64>, String> {
    let folder = std::env::temp_dir().join(format!("ferry-callgrind-{}", std::process::id()));
    std::fs::create_dir(&folder).map_err(|cause| format!("{}: {cause}", folder.display()))?;
    let counts = run(mark, arguments, &folder).and_then(|()| read(&folder));
    // A folder that cannot be removed is no reason to lose the counts.
    let _ = std::fs::remove_dir_all(&folder);
    counts
}

fn run(mark: &str, arguments: &[&str], folder: &Path) -> Result<(), String> {
    let program = std::env::current_exe()
        .map_err(|cause| format!("cannot find the path of this program: {cause}"))?;
    let status = Command::new("valgrind")
        .arg("--tool=callgrind")
        .arg(format!("--dump-before=*{mark}*"))
        .arg(format!("--callgrind-out-file={}", folder.join("out").display()))
        .arg(program)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(|cause| format!("cannot start valgrind: {cause}"))?;
    status.success().then_some(()).ok_or_else(|| format!("valgrind ended with {status}"))
}

/// Reads the counts. The files are `out.1`, `out.2` and so on, and `out` for what came after the last mark.
fn read(folder: &Path) -> Result<Vec<u64>, String> {
    let mut counts = Vec::new();
    let text = |number| std::fs::read_to_string(folder.join(format!("out.{number}")));
    while let Ok(text) = text(2 * counts.len() + 2) {
        counts.push(total(&text).ok_or("a file of callgrind has no total")?);
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
