//! `ferry info`: the rails of this machine, and which one a job would choose; `ferry info FILE`: which MPI a program loads;
//! `ferry info --limits`: what limits can be set.

mod limits;
mod program;

use std::fmt::Write;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use ferrywire_host::fabric::{self, NoFabric, Providers};
use ferrywire_host::udp::group::Group;
use ferrywire_host::udp::socket::Socket;
use serde::Serialize;

use crate::out;
use crate::run::RailRequest;

/// Lists the rails of this machine, by which ranks can communicate, or says which MPI a program loads.
#[derive(Args)]
pub(crate) struct Info {
    /// A program, a library or a script. Says which MPI it would load, and whether that fits.
    ///
    /// The exit code is 0 if the program fits or does not use MPI, 1 if it does not fit, and 2 if that cannot be told.
    file: Option<PathBuf>,
    /// List the limits that `ferry run --limit` sets.
    #[arg(long, conflicts_with = "file")]
    limits: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// The report.
#[derive(Serialize)]
struct Rails {
    shm: Shm,
    udp: Udp,
    fabric: Fabric,
    /// The rail between hosts that a job uses by default.
    choice: String,
    /// The rail that it uses with `--trust-fabric`, if all hosts have the same.
    trusted: Option<String>,
}

#[derive(Serialize)]
struct Shm {
    /// Whether the system probably lets processes of one user read each other's memory. The actual read may still fail.
    single_copy: bool,
    why: String,
}

#[derive(Serialize)]
pub(crate) struct Udp {
    usable: bool,
    /// Whether the kernel delivers several datagrams at once (GRO). Whether it also takes several at once (GSO) is only
    /// known after the first send.
    pub(crate) joins: bool,
    pub(crate) why: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct Fabric {
    pub(crate) version: Option<String>,
    pub(crate) providers: Vec<String>,
    pub(crate) hardware: Vec<String>,
    pub(crate) why: Option<String>,
}

impl Info {
    pub(crate) fn run(&self) -> ExitCode {
        if let Some(file) = &self.file {
            return program::run(file, self.json);
        }
        if self.limits {
            limits::tell(self.json);
            return ExitCode::SUCCESS;
        }
        let rails = Rails::look();
        if self.json {
            out::json(&rails);
        } else {
            out::line(rails.told().trim_end());
        }
        ExitCode::SUCCESS
    }
}

impl Rails {
    fn look() -> Rails {
        let fabric = Fabric::of(fabric::providers());
        let trusted = RailRequest::Trusting.candidates().unwrap_or_default();
        let trusted = trusted.first().map(|provider| format!("fabric:{provider}"));
        let choice = "udp".into();
        Rails { shm: Shm::look(), udp: Udp::look(), fabric, choice, trusted }
    }

    fn told(&self) -> String {
        let mut text = String::new();
        let mut row = |name: &str, says: String| {
            let _ = writeln!(text, "{name:<10} {says}");
        };
        let copies = if self.shm.single_copy { "one copy" } else { "two copies" };
        row("shm", format!("ranks of one machine; {copies} per long message: {}", self.shm.why));
        row(
            "udp",
            match (&self.udp.why, self.udp.joins) {
                (Some(why), _) => format!("between hosts; cannot open sockets: {why}"),
                (None, true) => {
                    "between hosts, sealed; the kernel delivers datagrams in batches (GRO)".into()
                }
                (None, false) => {
                    "between hosts, sealed; the kernel delivers single datagrams (no GRO)".into()
                }
            },
        );
        match &self.fabric.version {
            Some(version) => {
                row("fabric", format!("between hosts, not sealed; libfabric {version}"));
                row(
                    "",
                    match self.fabric.providers.is_empty() {
                        true => "no provider that can carry messages".into(),
                        false => format!("providers: {}", self.fabric.providers.join(", ")),
                    },
                );
                row(
                    "",
                    match self.fabric.hardware.is_empty() {
                        true => "no provider for messaging hardware".into(),
                        false => format!("for hardware: {}", self.fabric.hardware.join(", ")),
                    },
                );
            }
            None => row("fabric", self.fabric.why.clone().unwrap_or_default()),
        }
        row(
            "choice",
            format!(
                "{}, which is sealed (ferry run --rail auto|udp|fabric[:PROVIDER])",
                self.choice
            ),
        );
        row(
            "",
            match &self.trusted {
                Some(fabric) => format!(
                    "with --trust-fabric: {fabric}, which is not sealed, if all hosts have it"
                ),
                None => "with --trust-fabric: the same, for lack of messaging hardware".into(),
            },
        );
        text
    }
}

impl Shm {
    fn look() -> Shm {
        // What the kernel requires beyond the same user: 0 nothing, 1 to be an ancestor, 2 and above more.
        let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
        let scope = scope.ok().and_then(|text| text.trim().parse::<u32>().ok()).unwrap_or(0);
        let why = match scope {
            0 => "processes may read each other's memory".into(),
            _ => format!(
                "kernel.yama.ptrace_scope is {scope}, which may forbid reading the memory of other processes"
            ),
        };
        Shm { single_copy: scope == 0, why }
    }
}

impl Udp {
    pub(crate) fn look() -> Udp {
        match Group::open(1, None, IpAddr::V4(Ipv4Addr::LOCALHOST)) {
            Ok(group) => {
                let joins =
                    group.sockets.into_iter().all(|socket| Socket::new(socket, true).joins());
                Udp { usable: true, joins, why: None }
            }
            Err(error) => Udp { usable: false, joins: false, why: Some(error.to_string()) },
        }
    }
}

impl Fabric {
    pub(crate) fn of(found: Result<Providers, NoFabric>) -> Fabric {
        match found {
            Ok(found) => Fabric {
                version: Some(format!("{}.{}", found.version.0, found.version.1)),
                hardware: found.hardware(),
                providers: found.names,
                why: None,
            },
            Err(why) => Fabric {
                version: None,
                hardware: Vec::new(),
                providers: Vec::new(),
                why: Some(why.to_string()),
            },
        }
    }
}
