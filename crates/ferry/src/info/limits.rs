//! `ferry info --limits`: the limits that a user can set for a job.

use ferrywire_host::job_limits::{BytesText, LIMIT_ROWS, LIMIT_VARIABLE, LimitRow};
use serde::Serialize;

use crate::out;

/// A limit, for programs.
#[derive(Serialize)]
struct ListedLimit {
    name: &'static str,
    usual: u32,
    least: u32,
    most: u32,
    help: &'static str,
}

/// Prints all limits.
pub(super) fn tell(json: bool) {
    if json {
        let listed = LIMIT_ROWS.map(|row| {
            let LimitRow { name, usual, least, most, help, .. } = row;
            ListedLimit { name, usual, least, most, help }
        });
        return out::json(&listed);
    }
    out::line(format_args!("{:<8} {:>8}  {:<12} {}", "limit", "usually", "allowed", "what it is"));
    for LimitRow { name, usual, least, most, help, .. } in LIMIT_ROWS {
        let allowed = format!("{}-{}", BytesText(least), BytesText(most));
        out::line(format_args!(
            "{name:<8} {:>8}  {allowed:<12} {help}",
            BytesText(usual).to_string()
        ));
    }
    out::line(format_args!(
        "\nSet them with ferry run --limit eager=32K,budget=64M; under other launchers, with {LIMIT_VARIABLE}."
    ));
}
