//! `ferry sim scale`: collectives on many ranks, and what each rank costs.

use std::process::ExitCode;

use clap::Args;
use ferrywire_sim::scale::{self, BEFORE_CONTACT_BYTES_MAX, PER_PEER_BYTES_MAX, Phase, Report};
use serde::Serialize;

use super::peak_rss_bytes;
use crate::out;

/// The options of a scale run.
#[derive(Args)]
pub(crate) struct Scale {
    /// How many ranks to simulate.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(2..=16_777_216))]
    ranks: u32,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct ScaleResult {
    #[serde(flatten)]
    report: Report,
    before_contact_bytes_max: u64,
    per_peer_bytes_max: u64,
    peak_rss_bytes: Option<u64>,
    holds: bool,
}

impl Scale {
    /// Runs the collectives; fails if a result is wrong or a rank costs too much.
    pub(crate) fn run(self) -> ExitCode {
        if !self.json {
            out::line(format_args!(
                "{:<12} {:>12} {:>11} {:>12} {:>13} {:>9}",
                self.ranks, "frames/rank", "peers/rank", "bytes/rank", "virtual us", "real s"
            ));
        }
        let json = self.json;
        let report = scale::run(self.ranks, |phase| {
            if !json {
                print_phase(phase);
            }
        });
        let holds = report.right
            && report.bytes_before_contact <= BEFORE_CONTACT_BYTES_MAX
            && report.bytes_per_peer_max <= PER_PEER_BYTES_MAX;
        let judged = ScaleResult {
            report,
            before_contact_bytes_max: BEFORE_CONTACT_BYTES_MAX,
            per_peer_bytes_max: PER_PEER_BYTES_MAX,
            peak_rss_bytes: peak_rss_bytes(),
            holds,
        };
        if json {
            out::json(&judged);
        } else {
            print_result(&judged);
        }
        ExitCode::from(u8::from(!holds))
    }
}

fn print_phase(phase: &Phase) {
    out::line(format_args!(
        "{:<12} {:>12.1} {:>11.1} {:>12} {:>13.1} {:>9.1}",
        phase.name,
        phase.frames_per_rank,
        phase.peers_per_rank,
        phase.bytes_per_rank,
        phase.virtual_us,
        phase.real_seconds
    ));
}

fn print_result(judged: &ScaleResult) {
    let report = &judged.report;
    out::line(format_args!(
        "NIC state per rank: {} bytes before first contact (at most {BEFORE_CONTACT_BYTES_MAX}), \
         {} bytes more per contacted peer, {} at the rank with most (at most {PER_PEER_BYTES_MAX})",
        report.bytes_before_contact, report.bytes_per_peer, report.bytes_per_peer_max,
    ));
    if let Some(bytes) = judged.peak_rss_bytes {
        out::line(format_args!(
            "memory of the whole simulation at its peak: {:.1} GB",
            bytes as f64 / 1e9
        ));
    }
    out::line(format_args!(
        "{}, {}",
        if report.right { "all results right" } else { "RESULTS WRONG" },
        if judged.holds { "all targets hold" } else { "A TARGET IS MISSED" }
    ));
}
