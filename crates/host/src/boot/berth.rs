//! What the first rank of a host tells the others of it, in one short word on the board.
//!
//! ```text
//! ranks - door                                    in a job of one host
//! ranks - door - port - frame bytes - machine - address...  in a job of several
//! mixed                                           its ranks do not follow each other
//! shut                                            it cannot be reached by others
//! ```
//!
//! Addresses are in hexadecimal digits, 8 or 32 of them: some boards lose words in which there are other signs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A host, as the others see it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Berth {
    pub(super) ranks: u32,
    /// Where its other ranks come in.
    pub(super) door: String,
    /// How it is reached, if there are other hosts.
    pub(super) way: Option<Reach>,
}

/// How a host is reached from others.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Reach {
    pub(super) port: u16,
    pub(super) frame_bytes_max: u32,
    /// Which machine it is on; 0 if that cannot be known.
    pub(super) machine: u64,
    pub(super) addresses: Vec<IpAddr>,
}

/// What keeps a host out of a job.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kept {
    /// Its ranks do not follow each other.
    Mixed,
    /// It cannot be reached by others.
    Shut,
}

/// What is written on the board.
pub(super) fn word(berth: &Result<Berth, Kept>) -> String {
    let Berth { ranks, door, way } = match berth {
        Ok(berth) => berth,
        Err(Kept::Mixed) => return MIXED.into(),
        Err(Kept::Shut) => return SHUT.into(),
    };
    let mut fields = vec![ranks.to_string(), door.clone()];
    if let Some(Reach { port, frame_bytes_max, machine, addresses }) = way {
        fields.extend([port.to_string(), frame_bytes_max.to_string(), format!("{machine:x}")]);
        fields.extend(addresses.iter().map(|address| match address {
            IpAddr::V4(address) => format!("{:08x}", u32::from(*address)),
            IpAddr::V6(address) => format!("{:032x}", u128::from(*address)),
        }));
    }
    fields.join("-")
}

/// What a word says. `None` if it is none of ours.
pub(super) fn read(word: &str) -> Option<Result<Berth, Kept>> {
    match word {
        MIXED => return Some(Err(Kept::Mixed)),
        SHUT => return Some(Err(Kept::Shut)),
        _ => {}
    }
    let mut fields = word.split('-');
    let ranks = fields.next()?.parse().ok().filter(|&ranks| ranks > 0)?;
    let door = fields.next()?.to_owned();
    let way = match fields.next() {
        None => None,
        Some(port) => {
            let (port, frame_bytes_max) = (port.parse().ok()?, fields.next()?.parse().ok()?);
            let machine = u64::from_str_radix(fields.next()?, 16).ok()?;
            let addresses = fields.map(address).collect::<Option<_>>()?;
            Some(Reach { port, frame_bytes_max, machine, addresses })
        }
    };
    Some(Ok(Berth { ranks, door, way }))
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
        let far = Reach { port: 65535, frame_bytes_max: 8916, machine: u64::MAX, addresses };
        let near = Berth { ranks: 1, door: "0a1b2".into(), way: None };
        let short = Reach { addresses: vec!["10.77.0.1".parse().expect("one")], ..far.clone() };
        for berth in [
            Ok(Berth { way: Some(short), ..near.clone() }),
            Ok(Berth { ranks: 65535, way: Some(far), ..near.clone() }),
            Ok(near),
            Err(Kept::Mixed),
            Err(Kept::Shut),
        ] {
            let word = word(&berth);
            assert!(word.len() < 200, "{word}");
            assert!(word.chars().all(|one| one.is_ascii_alphanumeric() || one == '-'), "{word}");
            assert_eq!(read(&word), Some(berth));
        }
    }

    #[test]
    fn words_of_others_are_none() {
        for word in ["", "4711:5", "0-a", "2", "2-a-70000-1", "2-a-1-1431-5-xyz", "2-a-1-1431-5-12"]
        {
            assert_eq!(read(word), None, "{word}");
        }
    }
}
