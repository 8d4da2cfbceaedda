//! Collective calls in which the members of an object differ: another call, root, operator or length.

use std::collections::BTreeMap;

use ferrywire_host::ErrorCode;
use ferrywire_host::facts::{CallFact, CallKind, CallName};

use ferrywire_mpi::datatype::Content;
use ferrywire_runtime::words::bytes;

use super::words::{ordinal, signature};
use super::{AllRanks, Seen, Verdict};

/// What identifies a collective call: the number of its object, its members, whether it is nonblocking, and its number
/// among the calls of its kind.
type Key = (u16, u64, bool, u32);

/// The first collective call on which ranks disagree, if they do on any that they still remember.
pub(crate) fn disagreement(seen: &[Seen]) -> Option<Verdict> {
    let job = AllRanks(seen);
    let mut calls: BTreeMap<Key, Vec<(usize, &CallFact)>> = BTreeMap::new();
    for (at, rank) in seen.iter().enumerate() {
        for call in &rank.facts.calls {
            let CallKind::Collective { object, nonblocking, nth_of_kind, .. } = call.kind else {
                continue;
            };
            // Calls on an object that is gone are not compared: its number may be that of another now.
            if let Some(described) = rank.object(object)
                && described.born <= call.number
            {
                let key = (object, described.group, nonblocking, nth_of_kind);
                calls.entry(key).or_default().push((at, call));
            }
        }
    }
    let differs =
        |ranks: &[(usize, &CallFact)]| ranks.windows(2).any(|pair| !agree(pair[0].1, pair[1].1));
    let (key, ranks) = calls.iter().find(|(_, ranks)| differs(ranks))?;
    let (at, first) = ranks[0];
    let CallKind::Collective { nth, .. } = first.kind else { return None };
    let title = job.object(at, key.0);
    let mut groups: Vec<(&CallFact, Vec<usize>)> = Vec::new();
    for &(at, call) in ranks {
        match groups.iter_mut().find(|(known, _)| agree(known, call)) {
            Some((_, group)) => group.push(at),
            None => groups.push((call, vec![at])),
        }
    }
    let same_name = groups.iter().all(|(call, _)| call.name == first.name);
    let same =
        |part: fn(&CallFact) -> u64| groups.iter().all(|(call, _)| part(call) == part(first));
    let (same_operator, same_bytes) = (same(operator_of), same(bytes_of));
    let same_content = groups.iter().all(|(call, _)| content_of(call).agrees(content_of(first)));
    let parts: Vec<String> = groups
        .iter()
        .map(|(call, group)| {
            let mut text = signature(call);
            if same_name && !same_bytes {
                text += &format!(" of {}", bytes(bytes_of(call)));
            }
            if same_name && !same_content {
                text += &format!(" of {}", content_of(call));
            }
            if same_name && !same_operator {
                text += &format!(" with {}", operator_name(operator_of(call)));
            }
            format!("{text} at {}", job.ranks(group))
        })
        .collect();
    let nth = ordinal(nth);
    let parts = parts.join(", ");
    Some(Verdict::new(
        ErrorCode::DISAGREEMENT,
        format_args!("mistake: ranks disagree on the {nth} collective call of {title}: {parts}"),
    ))
}

/// Whether two members make the same call.
fn agree(one: &CallFact, other: &CallFact) -> bool {
    agreed(one) == agreed(other)
        && (one.name != other.name || content_of(one).agrees(content_of(other)))
}

/// What all members must agree on.
fn agreed(call: &CallFact) -> (CallName, Option<u32>, u64, u64) {
    let CallKind::Collective { root, .. } = call.kind else { return (call.name, None, 0, 0) };
    (call.name, root, operator_of(call), bytes_of(call))
}

fn content_of(call: &CallFact) -> Content {
    match call.kind {
        CallKind::Collective { content, .. } => Content::from_bits(content),
        _ => Content::default(),
    }
}

fn operator_of(call: &CallFact) -> u64 {
    match call.kind {
        CallKind::Collective { operator, .. } => operator.into(),
        _ => 0,
    }
}

fn bytes_of(call: &CallFact) -> u64 {
    match call.kind {
        CallKind::Collective { bytes, .. } => bytes,
        _ => 0,
    }
}

/// The name of a predefined operator, by its number in the standard ABI.
fn operator_name(number: u64) -> &'static str {
    match number {
        0x21 => "MPI_SUM",
        0x22 => "MPI_MIN",
        0x23 => "MPI_MAX",
        0x24 => "MPI_PROD",
        0x28 => "MPI_BAND",
        0x29 => "MPI_BOR",
        0x2a => "MPI_BXOR",
        0x30 => "MPI_LAND",
        0x31 => "MPI_LOR",
        0x32 => "MPI_LXOR",
        0x38 => "MPI_MINLOC",
        0x39 => "MPI_MAXLOC",
        0x3c => "MPI_REPLACE",
        0x3d => "MPI_NO_OP",
        _ => "an operator of the program",
    }
}
