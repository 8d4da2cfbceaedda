//! What several checks need: commands with a time limit, control groups, and the limits of this process.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How a command ended, and what it printed.
pub(crate) struct CommandOutput {
    /// `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) took: Duration,
}

impl CommandOutput {
    /// The first line that it printed, of its errors if there is no other.
    pub(crate) fn first_line(&self) -> &str {
        let mut lines = self.out.lines().chain(self.err.lines()).map(str::trim);
        lines.find(|line| !line.is_empty()).unwrap_or("it printed nothing")
    }
}

/// Runs a command without input to its end. After the time limit, kills it and says so.
pub(crate) fn output_of(command: &mut Command, limit: Duration) -> Result<CommandOutput, String> {
    let begun = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("does not start: {error}"))?;
    let out = child.stdout.take().map(text_of).transpose();
    let err = child.stderr.take().map(text_of).transpose();
    let (out, err) = match (out, err) {
        (Ok(out), Ok(err)) => (out, err),
        // At the limit on processes, which is for threads, too.
        (Err(error), _) | (_, Err(error)) => {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("cannot be listened to: no thread can be started: {error}"));
        }
    };
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if begun.elapsed() > limit => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("has not ended within {} s", limit.as_secs()));
            }
            Ok(None) => thread::sleep(Duration::from_millis(2)),
            Err(error) => return Err(format!("cannot be waited for: {error}")),
        }
    };
    let took = begun.elapsed();
    // A process that the command left behind can keep its output open: then what was printed so far is lost.
    let text = |reader: Option<thread::JoinHandle<String>>| match reader {
        Some(reader) => {
            let until = Instant::now() + Duration::from_secs(1);
            while !reader.is_finished() && Instant::now() < until {
                thread::sleep(Duration::from_millis(1));
            }
            if reader.is_finished() { reader.join().unwrap_or_default() } else { String::new() }
        }
        None => String::new(),
    };
    Ok(CommandOutput { code: status.code(), out: text(out), err: text(err), took })
}

/// Reads a pipe in a thread, so that the command never waits for us.
fn text_of(pipe: impl Read + Send + 'static) -> io::Result<thread::JoinHandle<String>> {
    thread::Builder::new().spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// All files of this name in the folders of `PATH` that can be executed, in order.
pub(crate) fn in_path(name: &str) -> Vec<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found: Vec<PathBuf> = Vec::new();
    for folder in std::env::split_paths(&path).filter(|folder| folder.is_absolute()) {
        let file = folder.join(name);
        let fits = fs::metadata(&file)
            .is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0);
        if fits && !found.contains(&file) {
            found.push(file);
        }
    }
    found
}

/// A limit of this process, soft and hard, by its name in `/proc/self/limits`. `None` is unlimited.
pub(crate) fn limit(name: &str) -> (Option<u64>, Option<u64>) {
    let text = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let rest = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let mut numbers = rest.split_whitespace().map(|word| word.parse().ok());
    (numbers.next().flatten(), numbers.next().flatten())
}

/// A file of the control groups of this process, from its own group to the top, for version 2 and version 1.
pub(crate) fn in_control_groups(controller: &str, v2: &str, v1: &str) -> Vec<String> {
    let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let root = Path::new("/sys/fs/cgroup");
    let mut found = Vec::new();
    for line in membership.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, file) = match controllers {
            "" => (root.to_path_buf(), v2),
            some if some.split(',').any(|one| one == controller) => (root.join(controller), v1),
            _ => continue,
        };
        let mut folder = root.join(path.trim_start_matches('/'));
        while folder.starts_with(&root) {
            found.extend(fs::read_to_string(folder.join(file)).map(|text| text.trim().to_owned()));
            if folder == root || !folder.pop() {
                break;
            }
        }
    }
    found
}

/// A number of bytes for people.
pub(crate) fn bytes(number: u64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let unit = (number.max(1).ilog2() / 10).min(4);
    let scaled = number >> (10 * unit);
    // One more digit where one alone would be coarse.
    let tenths = ((number >> (10 * unit.saturating_sub(1))) % 1024) * 10 / 1024;
    match (unit, scaled) {
        (1.., 0..10) => format!("{scaled}.{tenths} {}", units[unit as usize]),
        _ => format!("{scaled} {}", units[unit as usize]),
    }
}

/// A limit for people.
pub(crate) fn limited(limit: Option<u64>) -> String {
    limit.map_or_else(|| "unlimited".into(), |number| number.to_string())
}

const OUTPUT_BYTES_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_told_with_two_digits() {
        assert_eq!(bytes(0), "0 bytes");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(64 << 20), "64 MiB");
        assert_eq!(bytes((3 << 30) + (900 << 20)), "3.8 GiB");
    }

    #[test]
    fn a_command_ends_or_is_ended() {
        let ended =
            output_of(Command::new("sh").args(["-c", "echo a; exit 3"]), TEN_S).expect("ended");
        assert_eq!((ended.code, ended.first_line()), (Some(3), "a"));
        let slow = output_of(Command::new("sleep").arg("60"), Duration::ZERO);
        assert_eq!(slow.err().as_deref(), Some("has not ended within 0 s"));
    }

    #[test]
    fn a_command_that_is_not_there_does_not_begin() {
        assert!(output_of(&mut Command::new("/no/such"), TEN_S).is_err());
    }

    const TEN_S: Duration = Duration::from_secs(10);
}
