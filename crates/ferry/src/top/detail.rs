//! One rank: its last calls, its communicators, windows and files, and what is not over.

use ferrywire_host::nic::MatchWord;
use ferrywire_runtime::words::number;
use serde::Serialize;

use super::rates::RankRow;
use super::table::{View, count, numbers, ranks, span};
use crate::why::{AllRanks, ordinal};

/// A rank in words.
#[derive(Clone, Default, Serialize)]
pub(super) struct Detail {
    #[serde(skip)]
    pub(super) title: String,
    /// What it does, and how much.
    #[serde(skip)]
    pub(super) numbers: Vec<String>,
    /// Its last calls, the latest first.
    pub(super) calls: Vec<String>,
    /// Communicators, windows and files that it has used.
    pub(super) objects: Vec<String>,
    /// Messages that nothing has received, and operations that are not over.
    pub(super) pending: Vec<String>,
}

impl Detail {
    /// The rank with this number; `None` if there is none.
    pub(super) fn of(view: &View, rank: u32) -> Option<Detail> {
        let at = view.rows.iter().position(|row| row.ranks == [rank])?;
        let (row, job) = (&view.rows[at], AllRanks(&view.sample.seen));
        let facts = &view.sample.seen[at].facts;
        let calls = facts.calls.iter().rev();
        // One of the library's own stands for all ranks that there could ever be.
        let objects = facts.objects.iter().filter(|object| object.size <= MatchWord::SOURCE_MAX);
        let objects = objects.map(|object| {
            let name = match object.name.as_str() {
                "" => format!("object {}", object.number),
                name => name.to_owned(),
            };
            let members = count(object.size.into(), "member");
            format!("{name}: {members}, {}", count(object.calls.into(), "collective call"))
        });
        let each: Vec<String> =
            facts.answer.pending.iter().map(|one| job.pending_words(at, one)).collect();
        let alike = each.chunk_by(|one, next| one == next);
        let mut pending: Vec<String> = alike
            .map(|alike| match alike.len() {
                1 => alike[0].clone(),
                times => format!("{}, {times} times", alike[0]),
            })
            .collect();
        if facts.answer.unlisted > 0 {
            pending.push(format!("and {} more", number(facts.answer.unlisted.into())));
        }
        Some(Detail {
            title: format!("rank {rank}, pid {}, on {}", row.pid, row.host),
            numbers: [vec![sentence(row)], numbers(row)].concat(),
            calls: calls
                .map(|call| format!("{:>5}  {}", ordinal(call.number + 1), job.call(at, call)))
                .collect(),
            objects: objects.collect(),
            pending,
        })
    }

    /// All of it, with titles.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = vec![self.title.clone()];
        let mut add = |title: &str, about: &[String]| {
            if !about.is_empty() {
                lines.extend([String::new(), title.to_owned()]);
            }
            lines.extend(about.iter().map(|line| format!("  {line}")));
        };
        add("Now", &self.numbers);
        add("Not over", &self.pending);
        add("Communicators, windows and files", &self.objects);
        add("Last calls, the latest first", &self.calls);
        lines
    }
}

/// What a rank does, for how long, and for whom it waits.
pub(super) fn sentence(row: &RankRow) -> String {
    let mut text = row.state.clone();
    if let Some(waiting) = row.waiting_s {
        text.push_str(&format!(", for {}", span(std::time::Duration::from_secs_f64(waiting))));
    }
    if !row.waits_for.is_empty() {
        let any = if row.waits_for_any && row.waits_for.len() > 1 { "one of " } else { "" };
        let plural = if row.waits_for.len() > 1 { "s" } else { "" };
        text.push_str(&format!("; waits for {any}rank{plural} {}", ranks(&row.waits_for)));
    }
    if !row.error.is_empty() {
        text.push_str(&format!("; its last error: {}", row.error));
    }
    text
}
