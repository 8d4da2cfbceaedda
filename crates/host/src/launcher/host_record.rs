//! The record of a host: what its first rank tells the others, in one short word in the kvs.
//!
//! ```text
//! ranks - join socket - tokens                                              in a job of one host
//! ranks - join socket - tokens - port - frame bytes - machine - address...  in a job of several
//! mixed                                                                     its ranks are not consecutive
//! shut                                                                      other hosts cannot reach it
//! ```
//!
//! Addresses are written as 8 or 32 hexadecimal digits, because some kvs lose words with other characters. So are the
//! tokens, first the one that joining ranks show. Join socket and tokens are empty on a host with a single rank.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::hex;
use crate::bootstrap::JoinAddress;
use crate::bootstrap::wire::{TOKEN_BYTES, Token};

/// A host, as others see it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct HostRecord {
    pub(super) ranks: u32,
    /// Where its other ranks join, if it has any.
    pub(super) join_socket: Option<JoinAddress>,
    /// How it is reached, if there are other hosts.
    pub(super) network: Option<NetworkRecord>,
}

/// How a host is reached from others.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct NetworkRecord {
    pub(super) port: u16,
    pub(super) frame_bytes_max: u32,
    /// The machine that it is on; 0 if unknown.
    pub(super) machine: u64,
    pub(super) addresses: Vec<IpAddr>,
}

/// Why a host cannot take part in a job.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Excluded {
    /// Its ranks are not consecutive.
    Mixed,
    /// Other hosts cannot reach it.
    Shut,
}

/// The word for the kvs.
pub(super) fn word(record: &Result<HostRecord, Excluded>) -> String {
    let HostRecord { ranks, join_socket, network } = match record {
        Ok(record) => record,
        Err(Excluded::Mixed) => return MIXED.into(),
        Err(Excluded::Shut) => return SHUT.into(),
    };
    let mut fields = vec![ranks.to_string()];
    fields.extend(match join_socket {
        Some(JoinAddress { name, theirs, ours }) => {
            [name.clone(), format!("{}{}", *hex::word(&theirs.0), *hex::word(&ours.0))]
        }
        None => [String::new(), String::new()],
    });
    if let Some(NetworkRecord { port, frame_bytes_max, machine, addresses }) = network {
        fields.extend([port.to_string(), frame_bytes_max.to_string(), format!("{machine:x}")]);
        fields.extend(addresses.iter().map(|address| match address {
            IpAddr::V4(address) => format!("{:08x}", u32::from(*address)),
            IpAddr::V6(address) => format!("{:032x}", u128::from(*address)),
        }));
    }
    fields.join("-")
}

/// Parses a word. `None` if it is not a record.
pub(super) fn read(word: &str) -> Option<Result<HostRecord, Excluded>> {
    match word {
        MIXED => return Some(Err(Excluded::Mixed)),
        SHUT => return Some(Err(Excluded::Shut)),
        _ => {}
    }
    let mut fields = word.split('-');
    let ranks = fields.next()?.parse().ok().filter(|&ranks| ranks > 0)?;
    let join_socket = match (fields.next()?, fields.next()?) {
        ("", "") => None,
        (name, tokens) => {
            let token = |digits: &str| {
                let mut token = Token([0; TOKEN_BYTES]);
                hex::fill(digits, &mut token.0).map(|()| token)
            };
            let (theirs, ours) = tokens.split_at_checked(2 * TOKEN_BYTES)?;
            let (theirs, ours) = (token(theirs)?, token(ours)?);
            Some(JoinAddress { name: name.to_owned(), theirs, ours })
        }
    };
    let network = match fields.next() {
        None => None,
        Some(port) => {
            let (port, frame_bytes_max) = (port.parse().ok()?, fields.next()?.parse().ok()?);
            let machine = u64::from_str_radix(fields.next()?, 16).ok()?;
            let addresses = fields.map(address).collect::<Option<_>>()?;
            Some(NetworkRecord { port, frame_bytes_max, machine, addresses })
        }
    };
    Some(Ok(HostRecord { ranks, join_socket, network }))
}

fn address(digits: &str) -> Option<IpAddr> {
    let number = u128::from_str_radix(digits, 16).ok()?;
    match digits.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(u32::try_from(number).ok()?))),
        32 => Some(IpAddr::V6(Ipv6Addr::from(number))),
        _ => None,
    }
}

const MIXED: &str = "mixed";
const SHUT: &str = "shut";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::directory::ADDRESSES_MAX;

    #[test]
    fn what_is_written_is_read_and_short() {
        let long = IpAddr::V6(Ipv6Addr::from([0xfd; 16]));
        let addresses = vec![long; ADDRESSES_MAX];
        let far =
            NetworkRecord { port: 65535, frame_bytes_max: 8916, machine: u64::MAX, addresses };
        let (theirs, ours) = (Token([1; TOKEN_BYTES]), Token([2; TOKEN_BYTES]));
        let join_socket = Some(JoinAddress { name: "0a1b2".into(), theirs, ours });
        let near = HostRecord { ranks: 2, join_socket, network: None };
        let short =
            NetworkRecord { addresses: vec!["10.77.0.1".parse().expect("one")], ..far.clone() };
        for record in [
            Ok(HostRecord { network: Some(short), ..near.clone() }),
            Ok(HostRecord { ranks: 65535, network: Some(far), ..near.clone() }),
            Ok(HostRecord { ranks: 1, join_socket: None, network: None }),
            Ok(near),
            Err(Excluded::Mixed),
            Err(Excluded::Shut),
        ] {
            let word = word(&record);
            assert!(word.len() < 260, "{word}");
            assert!(word.chars().all(|one| one.is_ascii_alphanumeric() || one == '-'), "{word}");
            assert_eq!(read(&word), Some(record));
        }
    }

    #[test]
    fn foreign_words_are_rejected() {
        for word in [
            "",
            "4711:5",
            "0--",
            "2",
            "2-a",
            "2-a-12",
            "2---70000-1",
            "2---1-1431-5-xyz",
            "2---1-1431-5-12",
        ] {
            assert_eq!(read(word), None, "{word}");
        }
    }
}
