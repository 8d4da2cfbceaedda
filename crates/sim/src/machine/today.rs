//! Machines of today: files with their numbers and where each number comes from.

use std::collections::BTreeMap;

use ferrywire_nic::{Promises, RailId};
use serde::{Deserialize, Serialize};

use super::{
    BusCosts, Linear, Machine, MatchingCosts, NicCosts, Path, Runner, Topology, WireCosts, rounded,
};

/// A machine, as its file describes it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MachineFile {
    /// What kind of machine it is.
    pub about: String,
    /// What runs the NIC.
    pub runner: Runner,
    /// What copies bytes between the memories of host and NIC.
    pub copies: Copies,
    /// The network.
    pub topology: Topology,
    /// What its parts cost, and how large it is.
    pub numbers: Numbers,
}

/// What copies bytes between the memories of host and NIC.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Copies {
    /// The processor that runs the NIC.
    Processor,
    /// A DMA engine beside it.
    Dma,
}

/// A number of a machine.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Sourced {
    /// Its value, in the unit that its name ends with.
    pub value: f64,
    /// Where it comes from.
    #[serde(flatten)]
    pub source: Source,
}

/// Where a number of a machine comes from.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// It defines the machine, or a data sheet says it.
    Given(String),
    /// A benchmark of ours has measured it: where.
    Measured(String),
    /// Chosen so that these measured points come out right.
    Fitted(String),
    /// Neither; why this value.
    Assumed(String),
}

/// The numbers of a machine. A file that lacks one, or has another, is refused.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Numbers {
    /// The host: a call that posts something, until the NIC can be told.
    pub call_ns: Sourced,
    /// The host: from seeing that what it waits for is over until the call has returned.
    pub reap_ns: Sourced,
    /// From the host's write until the NIC sees it.
    pub doorbell_ns: Sourced,
    /// From the NIC's write until the host sees it.
    pub notice_ns: Sourced,
    /// A command to receive.
    pub receive_ns: Sourced,
    /// A frame, until it leaves.
    pub frame_out_ns: Sourced,
    /// A frame that has arrived.
    pub frame_in_ns: Sourced,
    /// Each byte that is combined.
    pub reduce_byte_ns: Sourced,
    /// A copy between the memories of host and NIC.
    pub copy_ns: Sourced,
    /// Each byte of it.
    pub copy_byte_ns: Sourced,
    /// Bytes of a header on this network.
    pub header_bytes: Sourced,
    /// The longest frame.
    pub frame_max_bytes: Sourced,
    /// Credit before first contact.
    pub initial_credit_bytes: Sourced,
    /// Each byte of a short frame on its link.
    pub short_byte_ns: Sourced,
    /// A long frame on its link, without its bytes. A frame takes what is less, as a short one or as a long one.
    pub long_ns: Sourced,
    /// Each byte of it.
    pub long_byte_ns: Sourced,
    /// The latency of every way.
    pub path_ns: Sourced,
    /// What each switch adds.
    pub hop_ns: Sourced,
    /// How many of a million frames are lost.
    pub lost_in_a_million: Sourced,
    /// Starting a job, however small it is.
    pub start_ms: Sourced,
    /// Starting the ranks of one more host.
    pub start_host_ms: Sourced,
    /// Ranks on a host.
    pub ranks_per_host: Sourced,
    /// The most ranks that such machines have.
    pub ranks_max: Sourced,
}

/// The files in this repository, by name.
const FILES: [(&str, &str); 4] = [
    ("laptop", include_str!("today/laptop.json")),
    ("hpc", include_str!("today/hpc.json")),
    ("cloud", include_str!("today/cloud.json")),
    ("dpu", include_str!("today/dpu.json")),
];

/// The names of the machines.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|&(name, _)| name)
}

/// The machine of this name. `None` if there is none.
pub fn named(name: &str) -> Option<MachineFile> {
    let (_, text) = FILES.iter().find(|(known, _)| *known == name)?;
    Some(MachineFile::parse(text).expect("the files of the repository are right"))
}

impl MachineFile {
    /// Reads a file. The error says what is wrong with it.
    pub fn parse(text: &str) -> Result<MachineFile, String> {
        let file: MachineFile = serde_json::from_str(text).map_err(|error| error.to_string())?;
        for (name, number) in file.numbers.all() {
            if !number.value.is_finite() || number.value < 0.0 {
                return Err(format!("{name} is {}", number.value));
            }
        }
        if file.numbers.lost_in_a_million.value > 0.0 && file.runner != Runner::Processor {
            return Err("frames are lost, so the NIC needs a processor to send them again".into());
        }
        Ok(file)
    }

    /// The costs of its parts.
    pub fn machine(&self) -> Machine {
        let numbers = &self.numbers;
        let copy = Linear::new(numbers.copy_ns.value, numbers.copy_byte_ns.value);
        let small = |number: &Sourced| u32::try_from(rounded(number.value)).unwrap_or(u32::MAX);
        let reliable = numbers.lost_in_a_million.value == 0.0;
        Machine {
            runner: self.runner,
            call_ns: numbers.call_ns.value,
            reap_ns: numbers.reap_ns.value,
            doorbell_ns: numbers.doorbell_ns.value,
            notice_ns: numbers.notice_ns.value,
            nic: NicCosts {
                receive_ns: numbers.receive_ns.value,
                frame_out_ns: numbers.frame_out_ns.value,
                frame_in_ns: numbers.frame_in_ns.value,
                reduce: Linear::new(0.0, numbers.reduce_byte_ns.value),
                ..NicCosts::default()
            },
            bus: match self.copies {
                Copies::Processor => BusCosts::Copy(copy),
                Copies::Dma => BusCosts::Dma(copy),
            },
            wire: WireCosts {
                promises: Promises {
                    rail: RailId(0),
                    reliable,
                    may_vanish: !reliable,
                    puts: false,
                    gets: false,
                    frame_bytes_max: small(&numbers.frame_max_bytes),
                    burst_frames_max: 1,
                    initial_credit_bytes: small(&numbers.initial_credit_bytes),
                },
                header_bytes: rounded(numbers.header_bytes.value),
                path: Path {
                    fixed_ns: numbers.path_ns.value,
                    hop_ns: numbers.hop_ns.value,
                    topology: self.topology,
                    lost_in_a_million: rounded(numbers.lost_in_a_million.value),
                },
                bytes: vec![
                    Linear::new(0.0, numbers.short_byte_ns.value),
                    Linear::new(numbers.long_ns.value, numbers.long_byte_ns.value),
                ],
            },
            matching: MatchingCosts::default(),
        }
    }

    /// The most ranks that such machines, in this topology, have.
    pub fn ranks_max(&self) -> u32 {
        let most = rounded(self.numbers.ranks_max.value);
        u32::try_from(most).unwrap_or(u32::MAX).min(self.topology.ranks_max())
    }

    /// How many hosts this many ranks are on.
    pub fn hosts(&self, ranks: u32) -> u64 {
        u64::from(ranks).div_ceil(rounded(self.numbers.ranks_per_host.value).max(1))
    }

    /// When a rank has been started, from the start of its job on: the launcher starts one host after the other.
    pub fn started_ns(&self, rank: u32) -> f64 {
        let hosts = self.hosts(rank + 1) as f64;
        (self.numbers.start_ms.value + hosts * self.numbers.start_host_ms.value) * 1e6
    }
}

impl Numbers {
    /// All numbers, by name.
    pub fn all(&self) -> BTreeMap<String, Sourced> {
        let all = serde_json::to_value(self).expect("numbers are plain data");
        serde_json::from_value(all).expect("each number is one")
    }
}

impl Source {
    /// As a table shows it.
    pub fn text(&self) -> String {
        match self {
            Source::Given(by) => format!("given: {by}"),
            Source::Measured(place) => format!("measured: {place}"),
            Source::Fitted(on) => format!("fitted on {on}"),
            Source::Assumed(why) => format!("assumed: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_of_the_repository_are_right() {
        for name in names() {
            let file = named(name).expect("it is listed");
            assert!(file.ranks_max() >= 2, "{name}");
            assert!(file.machine().round_ns(8) > 0.0, "{name}");
        }
        assert!(named("abacus").is_none());
    }

    #[test]
    fn a_file_without_a_number_or_with_an_unknown_one_is_refused() {
        let (_, text) = FILES[0];
        let lacks = text.replace("\"hop_ns\"", "\"hops_ns\"");
        let why = MachineFile::parse(&lacks).expect_err("hop_ns is missing");
        assert!(why.contains("hop"), "{why}");
        let mut value: serde_json::Value = serde_json::from_str(text).expect("it is JSON");
        value["numbers"]["call_ns"]["value"] = (-1).into();
        let why = MachineFile::parse(&value.to_string()).expect_err("no time is negative");
        assert!(why.contains("call_ns is -1"), "{why}");
    }

    #[test]
    fn hosts_start_one_after_the_other() {
        let file = named("hpc").expect("it is listed");
        let per_host = u32::try_from(file.hosts(u32::MAX)).map(|hosts| u32::MAX.div_ceil(hosts));
        let per_host = per_host.expect("few hosts");
        assert_eq!((file.hosts(1), file.hosts(per_host), file.hosts(per_host + 1)), (1, 1, 2));
        let later = file.started_ns(per_host) - file.started_ns(per_host - 1);
        assert!((later - file.numbers.start_host_ms.value * 1e6).abs() < 1.0);
    }
}
