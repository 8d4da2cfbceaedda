//! How many cores this process may really use: what the scheduler allows, and what a control group leaves of it.
//!
//! A container that may use half a core of a machine with 64 must not spin as if it had 64. A file that is missing or
//! unreadable limits nothing.

// Invariants of this file, cited below by number.
//   C1. `cpu_set_t` is plain bits: all zeros is a valid value.
//   C2. The kernel writes at most the size that it is told.

use std::fs;
use std::path::{Path, PathBuf};

/// Cores that this process may use: the smaller of its affinity and the quotas of its control groups, rounded up, at
/// least one.
#[must_use]
pub fn usable() -> u32 {
    within_quota(affinity_of(0).unwrap_or(u32::MAX))
}

fn within_quota(affinity: u32) -> u32 {
    let quota = quota(Path::new("/proc/self/cgroup"), Path::new("/sys/fs/cgroup"));
    let cores = affinity.min(quota.unwrap_or(u32::MAX));
    // Neither is known: with one core no thread spins.
    if cores == u32::MAX { 1 } else { cores.max(1) }
}

/// Cores that all ranks of a job on this machine may use together, where each rank may be bound to a few: those of our
/// parent, which started them all.
#[must_use]
pub(crate) fn of_job() -> u32 {
    let parent = std::os::unix::process::parent_id();
    let affinity = affinity_of(parent).unwrap_or(u32::MAX);
    within_quota(affinity)
}

/// A number that identifies this machine until it is restarted. Containers on it, which may pass for separate hosts,
/// have the same number. `None` if it is unknown.
#[must_use]
pub fn machine() -> Option<u64> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits: String = id.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    u64::from_str_radix(&digits, 16).ok()
}

/// Whether this many ranks have to share this many cores.
#[must_use]
pub fn oversubscribed(ranks: u32, cores: u32) -> bool {
    ranks > cores
}

/// Cores in the affinity mask of a process; 0 is this one. `None` if the kernel has more processors than the mask has
/// bits and refuses.
fn affinity_of(process: u32) -> Option<u32> {
    let process = libc::pid_t::try_from(process).ok()?;
    // SAFETY: by C1.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: by C2, `set` being as large as we say.
    let code =
        unsafe { libc::sched_getaffinity(process, size_of::<libc::cpu_set_t>(), &raw mut set) };
    if code != 0 {
        return None;
    }
    // SAFETY: counts the bits of an initialised set.
    let count = unsafe { libc::CPU_COUNT(&set) };
    u32::try_from(count).ok().filter(|count| *count > 0)
}

/// The smallest quota among the control groups, of either version, that `membership` names below `root`.
fn quota(membership: &Path, root: &Path) -> Option<u32> {
    let text = fs::read_to_string(membership).ok()?;
    text.lines().filter_map(|line| quota_of_line(line, root)).min()
}

/// The quota for one line of `/proc/self/cgroup`: `number:controllers:/path`.
fn quota_of_line(line: &str, root: &Path) -> Option<u32> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    if controllers.is_empty() {
        return tightest(root, path, quota_v2);
    }
    // Version 1 names its controllers; the folder is named like the line, or like one of them where there is a link.
    if !controllers.split(',').any(|name| name == "cpu") {
        return None;
    }
    let folders = [controllers, "cpu", "cpu,cpuacct"];
    folders.iter().filter_map(|folder| tightest(&root.join(folder), path, quota_v1)).min()
}

/// The smallest quota of the group and of all groups above it, each of which limits. Inside a container the path may be
/// that of the machine outside; then only the top is found.
fn tightest(root: &Path, path: &str, read: fn(&Path) -> Option<u32>) -> Option<u32> {
    let mut folder: PathBuf = root.join(path.trim_start_matches('/'));
    let mut least = None;
    loop {
        if let Some(cores) = read(&folder) {
            least = Some(least.map_or(cores, |least: u32| least.min(cores)));
        }
        if folder == root || !folder.starts_with(root) || !folder.pop() {
            return least;
        }
    }
}

/// `cpu.max`: `quota period`, or `max period`.
fn quota_v2(folder: &Path) -> Option<u32> {
    let text = fs::read_to_string(folder.join("cpu.max")).ok()?;
    let mut words = text.split_whitespace();
    cores_of(words.next()?, words.next()?)
}

/// `cpu.cfs_quota_us` and `cpu.cfs_period_us`; a quota of -1 means no limit.
fn quota_v1(folder: &Path) -> Option<u32> {
    let quota = fs::read_to_string(folder.join("cpu.cfs_quota_us")).ok()?;
    let period = fs::read_to_string(folder.join("cpu.cfs_period_us")).ok()?;
    cores_of(quota.trim(), period.trim())
}

/// Rounds up, because half a core is one place to run. Anything but a positive number limits nothing.
fn cores_of(quota: &str, period: &str) -> Option<u32> {
    let quota: u64 = quota.parse().ok()?;
    let period: u64 = period.parse().ok()?;
    if quota == 0 || period == 0 {
        return None;
    }
    u32::try_from(quota.div_ceil(period)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree of control groups as files.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str, membership: &str, files: &[(&str, &str)]) -> Tree {
            let root = std::env::temp_dir().join(format!("ferry-{}-{name}", std::process::id()));
            fs::create_dir_all(&root).expect("a folder for the test");
            fs::write(root.join("membership"), membership).expect("written");
            for (path, text) in files {
                let path = root.join("groups").join(path);
                fs::create_dir_all(path.parent().expect("has a folder")).expect("made");
                fs::write(path, text).expect("written");
            }
            Tree(root)
        }

        fn quota(&self) -> Option<u32> {
            quota(&self.0.join("membership"), &self.0.join("groups"))
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn there_is_at_least_one_core() {
        assert!(usable() >= 1);
    }

    #[test]
    fn a_machine_has_a_number_and_keeps_it() {
        assert!(machine().is_some());
        assert_eq!(machine(), machine());
    }

    #[test]
    fn more_ranks_than_cores_are_oversubscribed() {
        assert!(oversubscribed(3, 2));
        assert!(!oversubscribed(2, 2));
    }

    #[test]
    fn a_quota_of_the_second_version_is_rounded_up() {
        let tree = Tree::new("v2", "0::/a/b\n", &[("a/b/cpu.max", "150000 100000\n")]);
        assert_eq!(tree.quota(), Some(2));
    }

    #[test]
    fn the_group_above_limits_too() {
        let files = [("a/b/cpu.max", "max 100000\n"), ("a/cpu.max", "300000 100000\n")];
        assert_eq!(Tree::new("above", "0::/a/b\n", &files).quota(), Some(3));
    }

    #[test]
    fn a_quota_of_the_first_version_is_found_in_its_folder() {
        let files = [
            ("cpu,cpuacct/x/cpu.cfs_quota_us", "400000\n"),
            ("cpu,cpuacct/x/cpu.cfs_period_us", "100000\n"),
        ];
        assert_eq!(Tree::new("v1", "4:cpu,cpuacct:/x\n3:memory:/x\n", &files).quota(), Some(4));
    }

    #[test]
    fn what_is_absent_or_odd_limits_nothing() {
        let files = [
            ("cpu.max", "max 100000\n"),
            ("odd/cpu.max", "-1\n"),
            ("cpu/cpu.cfs_quota_us", "-1\n"),
            ("cpu/cpu.cfs_period_us", "100000\n"),
        ];
        let tree = Tree::new("none", "0::/odd\n1:cpu:/\nnonsense\n", &files);
        assert_eq!(tree.quota(), None);
        assert_eq!(quota(Path::new("/nonexistent/a"), Path::new("/nonexistent/b")), None);
        assert_eq!(cores_of("100000", "0"), None);
    }

    #[test]
    fn a_path_cannot_lead_above_the_root() {
        let tree = Tree::new("up", "0::/../../x\n", &[("cpu.max", "200000 100000\n")]);
        // The odd path has no file; the search stops at the root.
        assert!(tree.quota().is_none_or(|cores| cores == 2));
    }
}
