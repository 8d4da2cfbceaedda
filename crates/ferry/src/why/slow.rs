//! The sentence about ranks that may only be slow.

use std::time::Duration;

use ferrywire_host::ErrorCode;
use ferrywire_host::facts::CallKind;
use ferrywire_host::nic::PendingKind;
use ferrywire_runtime::call_name::name_of;

use super::words::plural_of;
use super::{AllRanks, Doing, Seen, Verdict};

/// What ranks have been doing for a while, those that wait first.
pub(crate) fn slow(seen: &[Seen], since: Duration) -> Verdict {
    let job = AllRanks(seen);
    let mut groups: Vec<(bool, String, Vec<usize>)> = Vec::new();
    for (at, rank) in seen.iter().enumerate() {
        let (waits, doing) = match (rank.doing(), job.polls(at)) {
            (_, Some(polls)) => (true, polls),
            (Doing::Waits(_), None) => (true, job.doing(at)),
            (Doing::Left | Doing::Outside, None) => (false, job.doing(at)),
        };
        match groups.iter_mut().find(|(_, known, _)| *known == doing) {
            Some((_, _, ranks)) => ranks.push(at),
            None => groups.push((waits, doing, vec![at])),
        }
    }
    groups.sort_by_key(|(waits, ..)| !waits);
    let part = |(_, doing, ranks): &(bool, String, Vec<usize>)| match ranks.len() {
        1 => format!("{} {doing}", job.ranks(ranks)),
        _ => format!("{} {}", job.ranks(ranks), plural_of(doing)),
    };
    let parts: Vec<String> = groups.iter().map(part).collect();
    let (seconds, parts) = (since.as_secs(), parts.join("; "));
    Verdict::new(ErrorCode::NO_PROGRESS, format_args!("no progress for {seconds} s: {parts}"))
}

impl AllRanks<'_> {
    /// What a rank asks for again and again, if it does.
    fn polls(self, at: usize) -> Option<String> {
        let facts = &self.0[at].facts;
        if facts.waiting > 0 || !self.0[at].polls {
            return None;
        }
        let name = name_of(facts.poll_name);
        let awaited = facts.answer.pending.iter().find(|one| one.kind == PendingKind::Receive);
        let begun = awaited.and_then(|one| {
            facts.calls.iter().rev().find(|call| {
                matches!(call.kind, CallKind::Receive { word, .. } if word.masked(one.mask) == one.word)
            })
        });
        Some(match begun {
            Some(call) => {
                format!("calls {name} again and again for its {}", self.call(at, call))
            }
            None => format!("calls {name} again and again"),
        })
    }
}
