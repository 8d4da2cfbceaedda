//! Facts of ranks as they go from host to host: what is known of each rank, as JSON, and then the pages, without the
//! zeros that most of them consist of.

use ferrywire_host::facts::{FACTS_BYTES, Facts};
use ferrywire_host::monotonic_ns;
use serde::{Deserialize, Serialize};

use super::ProcessTimes;
use crate::why::{Outside, Seen};

/// What a host, or the launcher, tells about ranks.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct FactsReport {
    /// The number of the question that was asked.
    pub(crate) question: u32,
    /// The time at which it was written, on the clock of its host.
    pub(crate) now_ns: u64,
    pub(crate) ranks: Vec<RankRecord>,
}

/// A rank, as its host sees it.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct RankRecord {
    /// Its number among all ranks, and its name in reports.
    pub(crate) peer: u32,
    pub(crate) name: String,
    /// The name of its host.
    pub(crate) host: String,
    /// Its process id there.
    pub(crate) process: u32,
    /// What the system there says of the process, if it has not ended.
    pub(crate) times: Option<ProcessTimes>,
    /// It has left, or waits in `MPI_Finalize` for all others.
    pub(crate) leaves: bool,
    /// How it has ended, in words, if it has ended with an error.
    pub(crate) ending: Option<String>,
    /// What it does outside of the library, if it is there.
    pub(crate) outside: Option<Outside>,
    /// It asks again and again whether something is over.
    pub(crate) polls: bool,
    /// How far the clock of the host of the report is ahead of that of its own.
    pub(crate) ahead_ns: u64,
    /// The length of its page, without zeros.
    pub(crate) page_bytes: u32,
    /// Its page; empty if it has none.
    #[serde(skip)]
    pub(crate) page: Vec<u8>,
}

impl RankRecord {
    /// The rank as sentences about it need it.
    pub(crate) fn seen(&self) -> Seen {
        let mut facts = Facts::parse(&self.page).unwrap_or_default();
        facts.waiting_since_ns = facts.waiting_since_ns.wrapping_add(self.ahead_ns);
        Seen {
            peer: self.peer,
            name: self.name.clone(),
            host: self.host.clone(),
            process: self.process,
            times: self.times.clone(),
            leaves: self.leaves,
            failed: facts.missing.is_some(),
            ending: self.ending.clone(),
            outside: self.outside.filter(|_| facts.waiting == 0),
            polls: self.polls,
            facts,
        }
    }
}

impl FactsReport {
    /// The bytes that stand for it.
    pub(crate) fn emit(&mut self) -> Vec<u8> {
        let mut pages = Vec::new();
        for rank in &mut self.ranks {
            let before = pages.len();
            pack(&rank.page, &mut pages);
            rank.page_bytes = u32::try_from(pages.len() - before).expect("pages are short");
        }
        let head = serde_json::to_vec(self).expect("reports are plain data");
        let mut bytes = u32::try_from(head.len()).expect("it is short").to_le_bytes().to_vec();
        bytes.extend(head);
        bytes.extend(pages);
        bytes
    }

    /// The report that these bytes stand for.
    pub(crate) fn parse(bytes: &[u8]) -> Option<FactsReport> {
        let (length, rest) = bytes.split_first_chunk()?;
        let (head, mut pages) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let mut report: FactsReport = serde_json::from_slice(head).ok()?;
        for rank in &mut report.ranks {
            let (page, others) = pages.split_at_checked(rank.page_bytes as usize)?;
            (rank.page, pages) = (unpacked(page)?, others);
        }
        pages.is_empty().then_some(report)
    }

    /// An empty report of this host.
    pub(crate) fn now(question: u32) -> FactsReport {
        FactsReport { question, now_ns: monotonic_ns(), ranks: Vec::new() }
    }

    /// Moves times to the clock of this host. To be called when the report has just come.
    pub(crate) fn adopt_clock(&mut self) {
        let now_ns = monotonic_ns();
        let ahead_ns = now_ns.wrapping_sub(self.now_ns);
        self.now_ns = now_ns;
        for rank in &mut self.ranks {
            rank.ahead_ns = rank.ahead_ns.wrapping_add(ahead_ns);
        }
    }

    /// The ranks, ordered by their numbers.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        let mut seen: Vec<Seen> = self.ranks.iter().map(RankRecord::seen).collect();
        seen.sort_unstable_by_key(|rank| rank.peer);
        seen
    }
}

/// Writes the parts of a page that are not zero, each after the number of words before it and in it.
fn pack(page: &[u8], into: &mut Vec<u8>) {
    let (words, _) = page.as_chunks::<WORD_BYTES>();
    let mut at = 0;
    for run in words.chunk_by(|one, next| is_zero(one) == is_zero(next)) {
        if !is_zero(&run[0]) {
            let counts =
                [at, run.len()].map(|count| u16::try_from(count).expect("pages are short"));
            counts.iter().for_each(|count| into.extend(count.to_le_bytes()));
            into.extend(run.as_flattened());
        }
        at += run.len();
    }
}

/// The page of which only these parts are not zero. Nothing stands for no page.
fn unpacked(mut bytes: &[u8]) -> Option<Vec<u8>> {
    if bytes.is_empty() {
        return Some(Vec::new());
    }
    let mut page = vec![0; usize::try_from(FACTS_BYTES).ok()?];
    while let Some((&[a, b, c, d], rest)) = bytes.split_first_chunk() {
        let [start, count] =
            [[a, b], [c, d]].map(|count| usize::from(u16::from_le_bytes(count)) * WORD_BYTES);
        let (part, rest) = rest.split_at_checked(count)?;
        page.get_mut(start..start + count)?.copy_from_slice(part);
        bytes = rest;
    }
    bytes.is_empty().then_some(page)
}

fn is_zero(word: &[u8; WORD_BYTES]) -> bool {
    *word == [0; WORD_BYTES]
}

const WORD_BYTES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn page(set: &[(usize, u8)]) -> Vec<u8> {
        let mut page = vec![0; usize::try_from(FACTS_BYTES).expect("short")];
        set.iter().for_each(|&(at, byte)| page[at] = byte);
        page
    }

    #[test]
    fn reports_come_out_as_they_went_in() {
        let last = usize::try_from(FACTS_BYTES).expect("short") - 1;
        let pages =
            [page(&[(0, 1), (7, 2), (8, 3), (4000, 4), (last, 5)]), Vec::new(), page(&[(9, 1)])];
        let ranks =
            pages.iter().map(|page| RankRecord { page: page.clone(), ..RankRecord::default() });
        let mut report = FactsReport { question: 7, now_ns: 8, ranks: ranks.collect() };
        let bytes = report.emit();
        assert!(bytes.len() < 1000, "zeros are left out: {} bytes", bytes.len());
        let again = FactsReport::parse(&bytes).expect("it is whole");
        assert_eq!((again.question, again.now_ns), (7, 8));
        let found: Vec<&Vec<u8>> = again.ranks.iter().map(|rank| &rank.page).collect();
        assert_eq!(found, pages.iter().collect::<Vec<_>>());
    }

    /// Any bytes at all, and each report with any one byte changed or missing, are taken without a panic.
    #[test]
    fn broken_reports_are_refused() {
        let rank = RankRecord { page: page(&[(100, 1)]), ..RankRecord::default() };
        let bytes = FactsReport { question: 1, now_ns: 2, ranks: vec![rank] }.emit();
        for length in 0..bytes.len() {
            assert!(FactsReport::parse(&bytes[..length]).is_none(), "cut after {length}");
        }
        for at in 0..bytes.len() {
            for byte in [0, 1, b'9', 0xff] {
                let mut changed = bytes.clone();
                changed[at] = byte;
                for rank in FactsReport::parse(&changed).iter().flat_map(|report| &report.ranks) {
                    let _ = rank.seen();
                }
            }
        }
    }
}
