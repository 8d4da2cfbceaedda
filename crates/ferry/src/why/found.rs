//! Mistakes that ranks have found themselves, and that have not stopped them.

use ferrywire_host::ErrorCode;

use super::{AllRanks, Seen, Verdict};

/// The mistakes of all ranks, those that several ranks have made once.
pub(crate) fn found(seen: &[Seen]) -> Vec<Verdict> {
    let job = AllRanks(seen);
    let mut groups: Vec<(&str, Vec<usize>)> = Vec::new();
    for (at, rank) in seen.iter().enumerate() {
        for mistake in &rank.facts.mistakes {
            match groups.iter_mut().find(|(known, _)| known == mistake) {
                Some((_, ranks)) => ranks.push(at),
                None => groups.push((mistake, vec![at])),
            }
        }
    }
    let unlisted = seen.iter().enumerate().filter(|(_, rank)| rank.facts.mistakes_unlisted > 0);
    let more = unlisted.map(|(at, rank)| {
        let count = rank.facts.mistakes_unlisted;
        format!("mistake: {} made {count} more mistakes than are listed", job.ranks(&[at]))
    });
    let told =
        |(mistake, ranks): &(&str, Vec<usize>)| format!("mistake: {} {mistake}", job.ranks(ranks));
    let sentences = groups.iter().map(told).chain(more);
    sentences.map(|sentence| Verdict::new(ErrorCode::MISTAKE, sentence)).collect()
}
