//! The network: the name of this host, datagrams, libfabric, ssh, and the hosts that the user names.

use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use ferrywire_host::fabric;
use ferrywire_host::net::host_address::{self, InterfaceAddress};

use super::HealthCheck;
use super::probe::{in_path, output_of};
use crate::info::{Fabric, Udp};
use crate::run;

pub(super) fn findings() -> Vec<HealthCheck> {
    vec![own_name(), datagrams(), libfabric(), ssh()]
}

fn own_name() -> HealthCheck {
    let about = "host name";
    let name = run::own_name();
    let begun = Instant::now();
    let (answer, answered) = mpsc::channel();
    let asked = name.clone();
    // A resolver can take minutes; the thread ends with this process.
    let started = thread::Builder::new().spawn(move || {
        let found = (asked.as_str(), 0).to_socket_addrs();
        let found = found.map(|all| all.map(|one| one.ip()).collect::<Vec<IpAddr>>());
        let _ = answer.send(found.map_err(|error| error.to_string()));
    });
    if let Err(error) = started {
        let fix = "raise ulimit -u, or pids.max of the container";
        return HealthCheck::warning(about, format!("no thread can be started: {error}"), fix);
    }
    let needless =
        "a job on one host does not need it, and others need it only where --hosts names this host";
    let fix = format!("add {name} to /etc/hosts");
    match answered.recv_timeout(RESOLVE_MAX) {
        Ok(Ok(mut found)) if !found.is_empty() => {
            found.dedup();
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            let ms = begun.elapsed().as_millis();
            HealthCheck::ok(
                about,
                format!("{name} is {}, found in {ms} ms; {needless}", found.join(", ")),
            )
        }
        Ok(Ok(_)) => HealthCheck::warning(about, format!("{name} has no address; {needless}"), fix),
        Ok(Err(why)) => {
            HealthCheck::warning(about, format!("{name} is not resolved: {why}; {needless}"), fix)
        }
        Err(_) => {
            let seconds = RESOLVE_MAX.as_secs();
            HealthCheck::warning(
                about,
                format!("{name} is not resolved within {seconds} s; {needless}"),
                format!("{fix}, or repair the name servers in /etc/resolv.conf"),
            )
        }
    }
}

fn datagrams() -> HealthCheck {
    let about = "udp";
    let udp = Udp::look();
    if let Some(why) = udp.why {
        return HealthCheck::problem(
            about,
            format!("cannot open sockets: {why}; ranks of several hosts cannot communicate"),
            "permit UDP sockets in the seccomp profile of the container",
        );
    }
    let all = host_address::addresses();
    let usual = host_address::usual(&all);
    let older = usual.iter().any(|one| one.address.is_ipv4());
    let usual: Vec<_> = usual.into_iter().filter(|one| one.address.is_ipv4() == older).collect();
    if usual.iter().all(|one| one.address.is_loopback()) {
        return HealthCheck::warning(
            about,
            "this host has no address but loopback: a job on one host needs none, and other hosts cannot reach it",
            "connect a network, if jobs are to run on several hosts",
        );
    }
    let mut said = Vec::new();
    let mut failed = false;
    for one in usual {
        let place = format!("{} on {}", one.address, one.interface);
        said.push(match reach(one) {
            Ok(port) => format!("{place} is reached at port {port}"),
            Err(error) => {
                failed = true;
                format!("{place} is not reached: {error}")
            }
        });
    }
    let said = said.join("; ");
    if failed {
        let fix = "allow UDP from this host to itself in the firewall, or name a good interface with --iface";
        return HealthCheck::problem(about, said, fix);
    }
    let joins = if udp.joins { "in batches (GRO)" } else { "one by one (no GRO)" };
    HealthCheck::ok(about, format!("{said}; datagrams arrive {joins}"))
}

/// Sends a datagram to this address, from another socket of it. Returns the port that it arrived at.
fn reach(one: &InterfaceAddress) -> io::Result<u16> {
    let receiver = UdpSocket::bind(SocketAddr::new(one.address, 0))?;
    receiver.set_read_timeout(Some(REACH_MAX))?;
    let to = receiver.local_addr()?;
    let sender = UdpSocket::bind(SocketAddr::new(one.address, 0))?;
    let word = sender.local_addr()?.port().to_ne_bytes();
    sender.send_to(&word, to)?;
    let mut bytes = [0; 2];
    loop {
        match receiver.recv_from(&mut bytes) {
            Ok((2, from)) if from == sender.local_addr()? && bytes == word => return Ok(to.port()),
            // Somebody else's.
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "nothing arrived within 1 s"));
            }
            Err(error) => return Err(error),
        }
    }
}

fn libfabric() -> HealthCheck {
    let about = "libfabric";
    let fabric = Fabric::of(fabric::providers());
    let Some(version) = &fabric.version else {
        let why = fabric.why.unwrap_or_default();
        return HealthCheck::ok(about, format!("{why}; not needed: hosts communicate by UDP"));
    };
    let list = |names: &[String]| match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    };
    let (providers, hardware) = (list(&fabric.providers), list(&fabric.hardware));
    HealthCheck::ok(about, format!("{version}; providers: {providers}; for hardware: {hardware}"))
}

fn ssh() -> HealthCheck {
    let about = "ssh";
    let Some(path) = in_path("ssh").into_iter().next() else {
        return HealthCheck::warning(
            about,
            "there is no ssh in PATH; jobs on one host do not need it",
            "install it for jobs on several hosts, or name another command with --rsh",
        );
    };
    let version = output_of(Command::new(&path).arg("-V"), LOCAL_MAX);
    let version = version.map_or_else(|why| why, |output| output.first_line().to_owned());
    HealthCheck::ok(
        about,
        format!("{}, {version}; only jobs on several hosts need it", path.display()),
    )
}

/// Whether each host can be reached, and has the same version. All are asked at the same time.
pub(super) fn of_hosts(hosts: &[String], rsh: &str) -> Vec<HealthCheck> {
    let ask = |host: &String| {
        let (host, rsh) = (host.clone(), rsh.to_owned());
        thread::Builder::new().spawn(move || of_host(&host, &rsh)).ok()
    };
    let asked: Vec<_> = hosts.iter().map(|host| (host, ask(host))).collect();
    let answer = |(host, thread): (&String, Option<thread::JoinHandle<HealthCheck>>)| match thread {
        Some(thread) => thread.join().expect("no check panics"),
        // Without threads, one after the other.
        None => of_host(host, rsh),
    };
    asked.into_iter().map(answer).collect()
}

fn of_host(host: &str, rsh: &str) -> HealthCheck {
    if run::is_this_host(host) {
        return HealthCheck::ok(
            host,
            format!("is this machine: {rsh} is not needed to start ranks here"),
        );
    }
    if host.is_empty() || host.starts_with('-') {
        let fix = "write ferry doctor HOST..., as in ferry run --hosts";
        return HealthCheck::problem("hosts", format!("'{host}' is not the name of a host"), fix);
    }
    let mut words: Vec<OsString> = rsh.split_whitespace().map(OsString::from).collect();
    let name = words.first().map(Path::new).and_then(Path::file_name);
    if name.is_some_and(|name| name == "ssh") {
        // Never ask for a password: a job cannot answer.
        words.extend(["-o", "BatchMode=yes"].map(OsString::from));
    }
    words.push(host.into());
    let Some((program, before)) = words.split_first() else {
        return HealthCheck::problem(host, "--rsh names no command", "write --rsh ssh");
    };
    let on_host = |command: &[OsString]| {
        output_of(Command::new(program).args(before).args(command), HOST_MAX)
    };
    let shown = |command: &str| {
        let words: Vec<_> = words.iter().map(|word| word.display().to_string()).collect();
        format!("`{} {command}`", words.join(" "))
    };
    let by_hand = format!("run {} by hand until it works without a question", shown("true"));
    let reached = match on_host(&["true".into()]) {
        Err(why) => return HealthCheck::problem(host, format!("{} {why}", shown("true")), by_hand),
        Ok(output) if output.code != Some(0) => {
            let ended =
                output.code.map_or("was killed".into(), |code| format!("ended with {code}"));
            let said = output.first_line();
            return HealthCheck::problem(
                host,
                format!("{} {ended}: {said}", shown("true")),
                by_hand,
            );
        }
        Ok(output) if !output.out.is_empty() => {
            let said = output.first_line();
            return HealthCheck::problem(
                host,
                format!("{} prints something: {said}", shown("true")),
                "print nothing in login scripts unless the shell is interactive",
            );
        }
        Ok(output) => format!("reached by {rsh} in {} ms", output.took.as_millis()),
    };
    let own = std::env::current_exe().unwrap_or_else(|_| "ferry".into());
    let fix = format!("install Ferrywire {OWN_VERSION} there, as {}", own.display());
    match on_host(&[own.clone().into_os_string(), "--version".into()]) {
        Err(why) => {
            let command = shown(&format!("{} --version", own.display()));
            HealthCheck::problem(host, format!("{reached}, but {command} {why}"), fix)
        }
        Ok(output) if output.code != Some(0) => {
            let said = output.first_line();
            HealthCheck::problem(
                host,
                format!("{reached}, but it has no {}: {said}", own.display()),
                fix,
            )
        }
        Ok(output) => match output.out.trim() {
            OWN_WORDS => {
                HealthCheck::ok(host, format!("{reached}; it has {OWN_WORDS}, as this host"))
            }
            theirs => HealthCheck::problem(
                host,
                format!("{reached}; it has {theirs}, and this host {OWN_WORDS}"),
                fix,
            ),
        },
    }
}

const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");
/// What `ferry --version` prints.
const OWN_WORDS: &str = concat!("ferry ", env!("CARGO_PKG_VERSION"));
/// How long the resolver may take.
const RESOLVE_MAX: Duration = Duration::from_secs(3);
/// How long a datagram within this host may take.
const REACH_MAX: Duration = Duration::from_secs(1);
/// How long a local command may take.
const LOCAL_MAX: Duration = Duration::from_secs(5);
/// How long a host may take for each of two commands.
const HOST_MAX: Duration = Duration::from_secs(15);
