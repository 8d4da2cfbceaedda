//! The choice of the rail between hosts, from what the user asks for and what the hosts have.
//!
//! One rail serves the whole job, since both ends have to use the same.

use std::fmt;

use ferrywire_host::fabric::{self, NoFabric, Providers};
use serde::{Deserialize, Serialize};

/// What the user asks for by `--rail` and `--trust-fabric`.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum RailRequest {
    /// Sealed datagrams: the user has not said that the network may be trusted.
    #[default]
    Auto,
    /// `auto` with `--trust-fabric`: a provider of libfabric for messaging hardware, if all hosts have the same one;
    /// else sealed datagrams.
    Trusting,
    /// Sealed datagrams over UDP.
    Udp,
    /// Libfabric, with any provider or with this one.
    Fabric(Option<String>),
}

impl RailRequest {
    pub(super) fn parse(word: &str) -> Option<RailRequest> {
        match word.split_once(':') {
            None if word == "auto" => Some(RailRequest::Auto),
            None if word == "udp" => Some(RailRequest::Udp),
            None if word == "fabric" => Some(RailRequest::Fabric(None)),
            Some(("fabric", provider)) if !provider.is_empty() => {
                Some(RailRequest::Fabric(Some(provider.to_owned())))
            }
            _ => None,
        }
    }

    /// The request with `--trust-fabric`: the user trusts everything that can reach the network of a fabric.
    pub(super) fn trusting(self) -> RailRequest {
        if self == RailRequest::Auto { RailRequest::Trusting } else { self }
    }

    /// The suitable providers of this host, the best first. Empty for datagrams.
    pub(crate) fn candidates(&self) -> Result<Vec<String>, NoFabric> {
        match self {
            RailRequest::Auto | RailRequest::Udp => Ok(Vec::new()),
            // Loading libfabric takes half a second: only where there may be hardware.
            RailRequest::Trusting if !fabric::has_hardware() => Ok(Vec::new()),
            RailRequest::Trusting => {
                Ok(fabric::providers().map_or_else(|_| Vec::new(), |all| all.hardware()))
            }
            RailRequest::Fabric(None) => fabric::providers().and_then(any_of),
            RailRequest::Fabric(Some(provider)) => fabric::look(provider).map(|whole| vec![whole]),
        }
    }
}

/// All providers of a host that reach other hosts, hardware first.
fn any_of(all: Providers) -> Result<Vec<String>, NoFabric> {
    let mut candidates = all.hardware();
    let others = all.names.iter().filter(|name| !all.hardware().contains(name));
    candidates.extend(others.filter(|name| *name != WITHIN_A_MACHINE).cloned());
    if candidates.is_empty() {
        return Err(NoFabric::NoProvider { asked: "any".into(), found: all.names });
    }
    Ok(candidates)
}

/// The provider that does not leave its machine. It is only for tests.
const WITHIN_A_MACHINE: &str = "shm";

impl fmt::Display for RailRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RailRequest::Auto | RailRequest::Trusting => f.write_str("auto"),
            RailRequest::Udp => f.write_str("udp"),
            RailRequest::Fabric(None) => f.write_str("fabric"),
            RailRequest::Fabric(Some(provider)) => write!(f, "fabric:{provider}"),
        }
    }
}

/// The first provider that is suitable on all hosts; `None` for datagrams.
pub(super) fn choose(
    request: &RailRequest,
    hosts: &[(&str, &[String])],
) -> Result<Option<String>, String> {
    let Some(((_, first), others)) = hosts.split_first() else { return Ok(None) };
    let common = first.iter().find(|name| others.iter().all(|(_, has)| has.contains(name)));
    match (request, common) {
        // Never unsealed without the user's request, whatever the hosts have.
        (RailRequest::Auto | RailRequest::Udp, _) | (RailRequest::Trusting, None) => Ok(None),
        (RailRequest::Trusting | RailRequest::Fabric(_), Some(name)) => Ok(Some(name.clone())),
        (RailRequest::Fabric(_), None) => {
            let said = |(host, has): &(&str, &[String])| format!("{host} has {}", has.join(", "));
            let said: Vec<String> = hosts.iter().map(said).collect();
            Err(format!(
                "--rail {request}: no libfabric provider is on all hosts: {}",
                said.join("; ")
            ))
        }
    }
}

/// The warning at the start of a job whose frames are not sealed.
pub(super) fn warning(provider: &str) -> String {
    format!(
        "hosts communicate by libfabric, provider {provider}: frames are neither encrypted nor authenticated, so anyone \
         on that network can read and forge them; --rail udp seals them"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(words: &str) -> Vec<String> {
        words.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn requests_are_read_as_they_are_written() {
        for word in ["auto", "udp", "fabric", "fabric:tcp", "fabric:udp;ofi_rxd"] {
            assert_eq!(
                RailRequest::parse(word).map(|request| request.to_string()).as_deref(),
                Some(word)
            );
        }
        for word in ["", "tcp", "fabric:", "udp:tcp", "Fabric"] {
            assert_eq!(RailRequest::parse(word), None, "{word}");
        }
    }

    #[test]
    fn the_first_that_all_have_is_taken() {
        let (one, two) = (names("cxi verbs;ofi_rxm"), names("efa verbs;ofi_rxm"));
        let hosts = [("a", &one[..]), ("b", &two[..])];
        assert_eq!(choose(&RailRequest::Trusting, &hosts), Ok(Some("verbs;ofi_rxm".into())));
        let hosts = [("a", &one[..1]), ("b", &two[..])];
        assert_eq!(choose(&RailRequest::Trusting, &hosts), Ok(None));
        let said = choose(&RailRequest::Fabric(None), &hosts).expect_err("nothing in common");
        assert!(said.contains("a has cxi; b has efa, verbs;ofi_rxm"), "{said}");
        assert_eq!(choose(&RailRequest::Trusting, &[("a", &[]), ("b", &[])]), Ok(None));
    }

    #[test]
    fn hardware_that_all_have_is_not_taken_unless_somebody_trusts_it() {
        let has = names("efa verbs;ofi_rxm");
        let hosts = [("a", &has[..]), ("b", &has[..])];
        for sealed in [RailRequest::Auto, RailRequest::Udp] {
            assert_eq!(choose(&sealed, &hosts), Ok(None), "{sealed:?}");
            assert_eq!(sealed.candidates(), Ok(Vec::new()), "{sealed:?}");
        }
        for trusting in [
            RailRequest::Auto.trusting(),
            RailRequest::Fabric(None),
            RailRequest::Fabric(None).trusting(),
        ] {
            assert_eq!(choose(&trusting, &hosts), Ok(Some("efa".into())), "{trusting:?}");
        }
        assert_eq!(RailRequest::Udp.trusting(), RailRequest::Udp);
    }
}
