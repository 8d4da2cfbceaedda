//! The hosts of a job: reads their list, and decides which ranks each host gets.

use std::fmt;
use std::fs;
use std::io;
use std::net::IpAddr;

/// A host as the user named it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Host {
    pub(super) name: String,
    /// How many ranks it takes before the next host, if the user said so.
    pub(super) slots: Option<u32>,
}

impl Host {
    /// Whether the name is of this machine. Names are compared, never looked up.
    pub(super) fn is_here(&self) -> bool {
        is_here(&self.name, &own_name())
    }
}

fn is_here(name: &str, own_name: &str) -> bool {
    let short = own_name.split('.').next().unwrap_or_default();
    let names = ["localhost", "localhost.localdomain", own_name, short];
    let loopback = name.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    loopback || names.iter().any(|own| !own.is_empty() && name.eq_ignore_ascii_case(own))
}

/// Whether what a rank says about the host of a program fits this one: its name, or nothing.
pub(super) fn names_this_host(name: &[u8]) -> bool {
    name.is_empty() || std::str::from_utf8(name).is_ok_and(|name| is_here(name, &own_name()))
}

/// Whether a name is of this machine, as for `--hosts`.
pub(crate) fn is_this_host(name: &str) -> bool {
    is_here(name, &own_name())
}

/// The name of this machine, or an empty string.
pub(crate) fn own_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// The ranks of one host.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Share {
    pub(super) name: String,
    /// The host is this machine.
    pub(super) is_here: bool,
    pub(super) first: u32,
    pub(super) ranks: u32,
}

/// What is wrong with a list of hosts.
#[derive(Debug)]
pub(super) enum HostListError {
    File { path: String, error: io::Error },
    Line { place: String, text: String },
    None { place: String },
}

impl fmt::Display for HostListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostListError::File { path, error } => {
                write!(f, "cannot read the list of hosts {path}: {error}")
            }
            HostListError::Line { place, text } => write!(
                f,
                "{place}: '{text}' is not a host; write `name`, `name:4`, or in a file also `name slots=4`"
            ),
            HostListError::None { place } => write!(f, "{place} names no host"),
        }
    }
}

/// Parses `name,name:slots,...`, as on the command line.
pub(super) fn listed(list: &str) -> Result<Vec<Host>, HostListError> {
    let place = || format!("--hosts {list}");
    let words = list.split(',').map(str::trim).filter(|word| !word.is_empty());
    let hosts = words.map(|word| host(word).ok_or_else(|| bad(place(), word)));
    some(hosts.collect::<Result<_, _>>()?, place)
}

/// Reads a hostfile, one host per line: `name`, `name:slots` as in MPICH, or `name slots=number` as in Open MPI.
pub(super) fn in_file(path: &str) -> Result<Vec<Host>, HostListError> {
    let text = fs::read_to_string(path)
        .map_err(|error| HostListError::File { path: path.into(), error })?;
    in_text(path, &text)
}

/// Parses the text of a hostfile.
pub(super) fn in_text(path: &str, text: &str) -> Result<Vec<Host>, HostListError> {
    let mut hosts = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if !line.is_empty() {
            let found = line_of_file(line);
            hosts.push(found.ok_or_else(|| bad(format!("{path}, line {number}"), line))?);
        }
    }
    some(hosts, || path.to_owned())
}

fn bad(place: String, text: &str) -> HostListError {
    HostListError::Line { place, text: text.to_owned() }
}

fn some(hosts: Vec<Host>, place: impl Fn() -> String) -> Result<Vec<Host>, HostListError> {
    if hosts.is_empty() { Err(HostListError::None { place: place() }) } else { Ok(hosts) }
}

fn line_of_file(line: &str) -> Option<Host> {
    let mut words = line.split_whitespace();
    let mut host = host(words.next()?)?;
    for word in words {
        match word.split_once('=')? {
            ("slots", number) => host.slots = Some(slots(number)?),
            ("max_slots" | "max-slots", _) => {}
            _ => return None,
        }
    }
    Some(host)
}

fn host(word: &str) -> Option<Host> {
    let (name, slots) = match word.rsplit_once(':') {
        // An IPv6 address has colons of its own.
        Some((name, number)) if !name.contains(':') => (name, Some(self::slots(number)?)),
        _ => (word, None),
    };
    // The command that reaches the host would take a name with a leading dash for an option.
    let plain = !name.is_empty() && !name.starts_with('-') && !name.contains(char::is_whitespace);
    plain.then(|| Host { name: name.to_owned(), slots })
}

fn slots(number: &str) -> Option<u32> {
    number.parse().ok().filter(|&slots| slots > 0)
}

/// How many ranks the hosts take if the user does not give a number. Without a list, this machine is meant.
pub(super) fn capacity(hosts: &[Host], per_host: Option<u32>) -> u32 {
    if hosts.is_empty() {
        return per_host.unwrap_or(1);
    }
    hosts.iter().map(|host| taken(host, per_host)).fold(0, u32::saturating_add)
}

fn taken(host: &Host, per_host: Option<u32>) -> u32 {
    per_host.or(host.slots).unwrap_or(1)
}

/// Assigns ranks to hosts in blocks of consecutive ranks. Each host takes `per_host` ranks, or as many as it has slots;
/// if that is too few for all, the hosts take more in turn. If neither is given, the ranks are spread evenly.
pub(super) fn deal(hosts: &[Host], per_host: Option<u32>, size: u32) -> Vec<Share> {
    let said = per_host.is_some() || hosts.iter().any(|host| host.slots.is_some());
    let mut counts = vec![0; hosts.len()];
    let mut left = size;
    while left > 0 {
        for (count, host) in counts.iter_mut().zip(hosts) {
            let more = if said { taken(host, per_host).min(left) } else { left.min(1) };
            *count += more;
            left -= more;
        }
    }
    let mut first = 0;
    let mut shares = Vec::new();
    for (host, ranks) in hosts.iter().zip(counts).filter(|&(_, ranks)| ranks > 0) {
        let (name, is_here) = (host.name.clone(), host.is_here());
        shares.push(Share { name, is_here, first, ranks });
        first += ranks;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dealt(list: &str, per_host: Option<u32>, size: u32) -> Vec<(String, u32, u32)> {
        let hosts = listed(list).expect("hosts");
        let shares = deal(&hosts, per_host, size);
        shares.into_iter().map(|share| (share.name, share.first, share.ranks)).collect()
    }

    #[test]
    fn ranks_are_dealt_in_blocks() {
        let told = |rows: &[(&str, u32, u32)]| -> Vec<(String, u32, u32)> {
            rows.iter().map(|&(name, first, ranks)| (name.to_owned(), first, ranks)).collect()
        };
        assert_eq!(dealt("a,b", None, 5), told(&[("a", 0, 3), ("b", 3, 2)]));
        assert_eq!(dealt("a:4,b:4", None, 5), told(&[("a", 0, 4), ("b", 4, 1)]));
        assert_eq!(dealt("a:2,b:2", None, 7), told(&[("a", 0, 4), ("b", 4, 3)]));
        assert_eq!(dealt("a:9,b", Some(2), 3), told(&[("a", 0, 2), ("b", 2, 1)]));
        assert_eq!(dealt("a,b,c", Some(2), 2), told(&[("a", 0, 2)]));
    }

    #[test]
    fn this_machine_is_known_by_its_names() {
        let own = "node7.cluster";
        for here in ["localhost", "127.0.0.1", "127.0.1.1", "::1", "node7", "Node7.Cluster"] {
            assert!(is_here(here, own), "{here}");
        }
        for elsewhere in ["node8", "node", "node7.other", "10.0.0.7", "localhost.example.org"] {
            assert!(!is_here(elsewhere, own), "{elsewhere}");
        }
        assert!(!is_here("", "") && !is_here("node7", ""));
    }

    #[test]
    fn names_and_slots_are_read() {
        let host = |name: &str, slots| Host { name: name.into(), slots };
        assert_eq!(
            listed("a, b:3,fe80::1").expect("hosts"),
            [host("a", None), host("b", Some(3)), host("fe80::1", None)]
        );
        assert_eq!(line_of_file("n1 slots=8 max_slots=16"), Some(host("n1", Some(8))));
        for wrong in ["", ",", "a:x", "a:0", "-oProxyCommand=x"] {
            assert!(listed(wrong).is_err(), "{wrong}");
        }
        assert_eq!(line_of_file("n1 slotz=8"), None);
    }
}
