//! The machine itself: the installation, cores, memory, copies between processes, limits.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;

use ferrywire_host::{cores, fabric};

use super::HealthCheck;
use super::probe::{bytes, in_control_groups, limit, limited};
use crate::home::{Home, LIBRARY_TO_LINK, NoHome};
use crate::run::{self, FILES_OF_LAUNCHER, FILES_PER_RANK};

pub(super) fn findings() -> Vec<HealthCheck> {
    let cores = cores::usable();
    vec![
        installation(),
        usable_cores(cores),
        shared_memory(),
        memory(),
        single_copy(),
        open_files(u64::from(cores)),
        processes(u64::from(cores)),
        core_files(),
        locked_memory(),
    ]
}

fn installation() -> HealthCheck {
    let about = "installation";
    let home = match Home::find() {
        Ok(home) => home,
        Err(why) => return HealthCheck::problem(about, why.to_string(), "install Ferrywire again"),
    };
    let command = home.command.display();
    let version = env!("CARGO_PKG_VERSION");
    match home.library().and_then(|_| home.check_header()) {
        Ok(()) => HealthCheck::ok(about, format!("Ferrywire {version}, {command}")),
        // Programs in Rust do not need it.
        Err(NoHome::NoLibrary(folder)) => HealthCheck::warning(
            about,
            format!(
                "Ferrywire {version}, {command}: programs in C and Python have no library, since {LIBRARY_TO_LINK} is not \
                 in {}",
                folder.display()
            ),
            "build it with cargo build --release",
        ),
        Err(why) => HealthCheck::problem(
            about,
            format!("Ferrywire {version}, {command}: programs in C and Python have no library"),
            why.to_string(),
        ),
    }
}

fn usable_cores(usable: u32) -> HealthCheck {
    let about = "cores";
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let online = count_listed(&online).map_or(String::new(), |count| format!(" of {count}"));
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let affinity = allowed.and_then(count_listed).unwrap_or(usable);
    let quota = in_control_groups("cpu", "cpu.max", "cpu.cfs_quota_us");
    // Version 1 has the period, nearly always 100 ms, in another file.
    let percent = |text: &String| {
        let mut words = text.split_whitespace();
        let quota: u64 = words.next()?.parse().ok().filter(|quota| *quota > 0)?;
        let period: u64 = words.next().map_or(Some(100_000), |word| word.parse().ok())?;
        (period > 0).then(|| quota * 100 / period)
    };
    match quota.iter().filter_map(percent).min() {
        Some(percent) if percent < 100 * u64::from(affinity) => HealthCheck::warning(
            about,
            format!(
                "{usable} usable{online}: the control group allows {}.{:02} of {affinity} cores; more ranks than that are \
                 throttled when all compute",
                percent / 100,
                percent % 100
            ),
            format!(
                "start at most {usable} ranks that compute, or raise the quota of the container"
            ),
        ),
        _ => HealthCheck::ok(
            about,
            format!(
                "{usable} usable{online}, no quota; where ranks outnumber them, waiting ranks sleep"
            ),
        ),
    }
}

/// How many numbers a list such as `0-3,8` names.
fn count_listed(list: &str) -> Option<u32> {
    let count = |word: &str| {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        Some(last.checked_sub(first)? + 1)
    };
    list.trim().split(',').map(count).sum()
}

fn shared_memory() -> HealthCheck {
    let about = "shared memory";
    let tried = run::memory_file().and_then(|file| {
        use std::os::unix::fs::FileExt;
        file.set_len(TRIED_BYTES)?;
        file.write_all_at(&[1], TRIED_BYTES - 1)
    });
    match tried {
        Ok(()) => HealthCheck::ok(about, "memfd works; /dev/shm is not needed, whatever its size"),
        Err(error) => HealthCheck::problem(
            about,
            format!("memfd does not work: {error}; ranks of one host cannot share memory"),
            "permit the system call memfd_create in the seccomp profile of the container",
        ),
    }
}

fn memory() -> HealthCheck {
    let about = "memory";
    let number = |text: &String| text.parse::<u64>().ok().filter(|bytes| *bytes < UNLIMITED_BYTES);
    let (most, now) = ("memory.limit_in_bytes", "memory.usage_in_bytes");
    let most = in_control_groups("memory", "memory.max", most);
    let now = in_control_groups("memory", "memory.current", now);
    // All lists go from the own group upward; only the top may lack some of the files.
    let cached = in_control_groups("memory", "memory.stat", "memory.stat");
    let group = most.iter().zip(&now).zip(&cached).filter_map(|((most, now), cached)| {
        Some((number(most)?, number(now)?.saturating_sub(cached_bytes(cached))))
    });
    let group = group.min_by_key(|(most, now)| most.saturating_sub(*now));
    let (space, _) = limit("Max address space");
    let free = fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?.trim();
        Some(line.split(' ').next()?.parse::<u64>().ok()? * 1024)
    });
    let mut left = free.unwrap_or(u64::MAX);
    let mut said =
        free.map_or("free memory is unknown".into(), |free| format!("{} free", bytes(free)));
    match group {
        Some((most, now)) => {
            left = left.min(most.saturating_sub(now));
            said += &format!("; the control group allows {}, {} used", bytes(most), bytes(now));
        }
        None => said += "; no limit of a control group",
    }
    match space {
        Some(space) => said += &format!("; ulimit -v is {}", bytes(space)),
        None => said += "; ulimit -v is unlimited",
    }
    if space.is_some_and(|space| space < SPACE_BYTES_MIN) {
        let fix = format!("run ulimit -v unlimited, or leave at least {}", bytes(SPACE_BYTES_MIN));
        return HealthCheck::warning(about, said, fix);
    }
    match left {
        ..FREE_BYTES_LOW => HealthCheck::problem(about, said, "give the container more memory"),
        FREE_BYTES_LOW..FREE_BYTES_MIN => {
            HealthCheck::warning(about, said, "give the container more memory, or start few ranks")
        }
        _ => HealthCheck::ok(about, said),
    }
}

/// What the kernel takes from the cache of files when a control group needs memory, from its `memory.stat`.
fn cached_bytes(stat: &str) -> u64 {
    let of = |name: &str| {
        let mut lines = stat.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(known, _)| *known == name).and_then(|(_, bytes)| bytes.trim().parse().ok())
    };
    // Version 1 counts the groups below under names of their own.
    let both = |name: &str| of(&format!("total_{name}")).or(of(name)).unwrap_or(0u64);
    both("inactive_file") + both("active_file")
}

fn single_copy() -> HealthCheck {
    let about = "single copy";
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    let scope = scope.map_or("there is no ptrace scope".into(), |text| {
        format!("kernel.yama.ptrace_scope is {}", text.trim())
    });
    let Err(error) = run::try_single_copy() else {
        let found = format!("a process has read the memory of another (process_vm_readv); {scope}");
        return HealthCheck::ok(about, found);
    };
    if error.kind() == ErrorKind::WouldBlock {
        let fix = "raise ulimit -u, or pids.max of the container, and try again";
        return HealthCheck::warning(
            about,
            format!("not tried, for no process can be started: {error}"),
            fix,
        );
    }
    let found = format!(
        "a process cannot read the memory of another (process_vm_readv: {error}); {scope}; long messages on one host take \
         two copies"
    );
    let fix = match error.kind() {
        ErrorKind::PermissionDenied => {
            "in a container, permit process_vm_readv (--cap-add=SYS_PTRACE); elsewhere, run sysctl \
             kernel.yama.ptrace_scope=0; or leave it: only speed is lost"
        }
        _ => "permit the system call process_vm_readv; or leave it: only speed is lost",
    };
    HealthCheck::warning(about, found, fix)
}

fn open_files(cores: u64) -> HealthCheck {
    let about = "open files";
    let (soft, hard) = limit("Max open files");
    let ranks = hard.map(|hard| hard.saturating_sub(FILES_OF_LAUNCHER) / FILES_PER_RANK);
    let found = format!(
        "{} (soft), {} (hard), which is enough for {} ranks",
        limited(soft),
        limited(hard),
        ranks.map_or("any number of".into(), |ranks| ranks.to_string())
    );
    let fix = "raise the hard limit (ulimit -Hn), for example in /etc/security/limits.conf";
    match ranks {
        Some(ranks) if ranks < cores => HealthCheck::problem(about, found, fix),
        Some(ranks) if ranks < 4 * cores => HealthCheck::warning(about, found, fix),
        _ => HealthCheck::ok(about, found),
    }
}

fn processes(cores: u64) -> HealthCheck {
    let about = "processes";
    let (soft, _) = limit("Max processes");
    let user = fs::metadata("/proc/self").map(|facts| facts.uid()).unwrap_or(0);
    let used = threads_of(user);
    let pids = |file: &str| in_control_groups("pids", file, file);
    let (most, now) = (pids("pids.max"), pids("pids.current"));
    let number = |text: &String| text.parse::<u64>().ok();
    let group = most.iter().zip(&now).filter_map(|(most, now)| Some((number(most)?, number(now)?)));
    let group = group.min_by_key(|(most, now)| most.saturating_sub(*now));
    // The kernel does not apply the limit of a user to root.
    let by_user = soft.filter(|_| user != 0).map(|soft| soft.saturating_sub(used));
    let by_group = group.map(|(most, now)| most.saturating_sub(now));
    let mut found = format!("{} (ulimit -u), {used} used by this user", limited(soft));
    if user == 0 {
        found += ", to which the limit does not apply";
    }
    match group {
        Some((most, now)) => found += &format!("; the control group allows {most}, {now} used"),
        None => found += "; no limit of a control group",
    }
    let left = by_user.into_iter().chain(by_group).min().unwrap_or(u64::MAX);
    // A rank has up to two threads of ours, and those of its program.
    let fix = "raise ulimit -u, or pids.max of the container";
    if left < 4 + 2 * cores {
        HealthCheck::problem(about, found, fix)
    } else if left < 16 + 8 * cores {
        HealthCheck::warning(about, found, fix)
    } else {
        HealthCheck::ok(about, found)
    }
}

/// The number of threads of all processes of a user that can be seen.
fn threads_of(user: u32) -> u64 {
    let Ok(entries) = fs::read_dir("/proc") else { return 0 };
    let threads = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.ok()?;
        entry.file_name().to_str()?.parse::<u32>().ok()?;
        if entry.metadata().ok()?.uid() != user {
            return None;
        }
        let status = fs::read_to_string(entry.path().join("status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("Threads:"))?.trim().parse::<u64>().ok()
    };
    entries.filter_map(threads).sum()
}

fn core_files() -> HealthCheck {
    let (soft, _) = limit("Max core file size");
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    let found = match soft {
        Some(0) => "off: a rank that crashes leaves none; ulimit -c unlimited turns them on".into(),
        _ => format!("on ({}), kept as the pattern says: {}", limited(soft), pattern.trim()),
    };
    HealthCheck::ok("core files", found)
}

fn locked_memory() -> HealthCheck {
    let about = "locked memory";
    let (soft, _) = limit("Max locked memory");
    let said = soft.map_or("unlimited".into(), bytes);
    match soft {
        Some(_) if fabric::has_hardware() => HealthCheck::warning(
            about,
            format!(
                "{said} (ulimit -l), and this machine has messaging hardware, which needs more"
            ),
            "raise the limit (ulimit -l unlimited) for jobs with --trust-fabric",
        ),
        _ => HealthCheck::ok(
            about,
            format!("{said} (ulimit -l); only messaging hardware needs much"),
        ),
    }
}

/// How much memory is written to try whether it can be shared.
const TRIED_BYTES: u64 = 1 << 20;
/// Control groups of version 1 write a number near this for no limit.
const UNLIMITED_BYTES: u64 = 1 << 60;
const FREE_BYTES_LOW: u64 = 64 << 20;
const FREE_BYTES_MIN: u64 = 512 << 20;
/// A rank maps its own queues and those of others, and a program needs some, too.
const SPACE_BYTES_MIN: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_counted_from_a_list() {
        assert_eq!(count_listed("0-3,8\n"), Some(5));
        assert_eq!(count_listed("0"), Some(1));
        assert_eq!(count_listed(""), None);
    }

    #[test]
    fn the_cache_of_files_is_not_counted_as_used() {
        let two = "anon 4096\nfile 900\ninactive_file 500\nactive_file 300\n";
        assert_eq!(cached_bytes(two), 800);
        let one = "inactive_file 5\nactive_file 3\ntotal_inactive_file 50\ntotal_active_file 30";
        assert_eq!(cached_bytes(one), 80);
        assert_eq!(cached_bytes(""), 0);
    }
}
