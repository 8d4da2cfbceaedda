//! The table: which columns fit, which ranks share a line, and what the first lines say.

use std::time::Duration;

use ferrywire_runtime::words::number;

use super::rates::{Activity, RankRow, Totals};
use super::sample::Sample;

/// What is shown of a job at one time.
#[derive(Clone, Default)]
pub(super) struct View {
    pub(super) sample: Sample,
    pub(super) rows: Vec<RankRow>,
}

impl View {
    /// The first line, for at most so many columns.
    pub(super) fn head(&self, width: Option<usize>) -> String {
        let mut hosts: Vec<&str> = self.rows.iter().map(|row| row.host.as_str()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let place = match hosts[..] {
            [only] => format!("on {only}"),
            _ => format!("on {} hosts", hosts.len()),
        };
        let Totals { messages_per_s, bytes_per_s, collectives_per_s, .. } = Totals::of(&self.rows);
        let ranks = self.rows.len();
        let (program, running) = self.sample.program();
        let mut text = format!(
            "{program}: {ranks} rank{} {place}, {}",
            if ranks == 1 { "" } else { "s" },
            span(running)
        );
        let rates = [
            format!("; {} messages/s", short(messages_per_s)),
            format!(", {}/s", bytes(bytes_per_s)),
            format!(", {} collective calls/s", short(collectives_per_s)),
        ];
        for rate in rates {
            if width.is_none_or(|width| text.chars().count() + rate.chars().count() <= width) {
                text.push_str(&rate);
            }
        }
        cut(&text, width.unwrap_or(usize::MAX))
    }

    fn has_several_hosts(&self) -> bool {
        self.rows.iter().any(|row| row.host != self.rows[0].host)
    }
}

/// A column of the table.
#[derive(Clone, Copy)]
pub(super) struct TopColumn {
    pub(super) title: &'static str,
    pub(super) width: usize,
    /// The least width of the terminal in which it is shown.
    from: usize,
    is_number: bool,
    text: fn(&RankRow) -> String,
}

/// All columns but the state, which takes what is left.
const COLUMNS: [TopColumn; 13] = [
    TopColumn { title: "RANK", width: 4, from: 0, is_number: false, text: |row| ranks(&row.ranks) },
    TopColumn {
        title: "PID",
        width: 7,
        from: 100,
        is_number: true,
        text: |row| match row.ranks[..] {
            [_] => row.pid.to_string(),
            _ => String::new(),
        },
    },
    TopColumn { title: "HOST", width: 10, from: 0, is_number: false, text: |row| row.host.clone() },
    TopColumn {
        title: "CALLS/S",
        width: 7,
        from: 0,
        is_number: true,
        text: |row| short(row.calls_per_s),
    },
    TopColumn {
        title: "MSGS/S",
        width: 6,
        from: 100,
        is_number: true,
        text: |row| short(row.messages_per_s),
    },
    TopColumn {
        title: "BYTES/S",
        width: 7,
        from: 50,
        is_number: true,
        text: |row| short(row.bytes_per_s),
    },
    TopColumn {
        title: "POST",
        width: 4,
        from: 60,
        is_number: true,
        text: |row| depth(row, row.posted),
    },
    TopColumn {
        title: "UNEX",
        width: 4,
        from: 60,
        is_number: true,
        text: |row| depth(row, row.unexpected),
    },
    TopColumn { title: "MEM", width: 4, from: 70, is_number: true, text: budget },
    TopColumn {
        title: "RETRY",
        width: 5,
        from: 120,
        is_number: true,
        text: |row| depth(row, row.retries),
    },
    TopColumn {
        title: "REFUSED",
        width: 7,
        from: 120,
        is_number: true,
        text: |row| depth(row, row.refused),
    },
    TopColumn {
        title: "CPU",
        width: 4,
        from: 40,
        is_number: true,
        text: |row| percent(row.cpu_percent),
    },
    TopColumn {
        title: "AGENT",
        width: 5,
        from: 70,
        is_number: true,
        text: |row| percent(row.agent_percent),
    },
];

const FOR: TopColumn = TopColumn {
    title: "FOR",
    width: 4,
    from: 0,
    is_number: true,
    text: |row| match row.waiting_s {
        Some(waiting) if waiting >= 0.1 => span(Duration::from_secs_f64(waiting)).replace(' ', ""),
        _ => String::new(),
    },
};

const WAITS_FOR: TopColumn = TopColumn {
    title: "WAITS FOR",
    width: 9,
    from: 110,
    is_number: false,
    text: |row| match row.waits_for_any && row.waits_for.len() > 1 {
        true => "any rank".into(),
        false => ranks(&row.waits_for),
    },
};

const STATE: TopColumn = TopColumn {
    title: "STATE",
    width: 0,
    from: 0,
    is_number: false,
    text: |row| row.state.clone(),
};

/// The columns of a table in a terminal of this width, or in a file.
pub(super) fn columns(view: &View, rows: &[RankRow], width: Option<usize>) -> Vec<TopColumn> {
    let available = width.unwrap_or(usize::MAX);
    let several = view.has_several_hosts();
    let all = COLUMNS.into_iter().chain([FOR, WAITS_FOR]);
    let shown = all.filter(|column| column.from <= available);
    let shown = shown.filter(|column| column.title != "HOST" || several);
    let mut columns: Vec<TopColumn> = shown.collect();
    for column in &mut columns {
        let longest = rows.iter().map(|row| (column.text)(row).chars().count()).max().unwrap_or(0);
        let most = if width.is_none() { usize::MAX } else { column.width.max(WIDEST) };
        column.width = column.width.max(longest.min(most));
    }
    let taken: usize = columns.iter().map(|column| column.width + 1).sum();
    let left = match width {
        None => rows.iter().map(|row| row.state.chars().count()).max().unwrap_or(0),
        Some(width) => width.saturating_sub(taken),
    };
    columns.push(TopColumn { width: left, ..STATE });
    columns
}

/// How wide a column may become for a long text.
const WIDEST: usize = 12;

/// The titles of columns.
pub(super) fn titles(columns: &[TopColumn]) -> String {
    line(columns, |column| column.title.to_owned())
}

/// The line of a row.
pub(super) fn line_of(columns: &[TopColumn], row: &RankRow) -> String {
    line(columns, |column| (column.text)(row))
}

fn line(columns: &[TopColumn], text: impl Fn(&TopColumn) -> String) -> String {
    let cells = columns.iter().map(|column| {
        let width = column.width;
        let text = cut(&text(column), width);
        if column.is_number { format!("{text:>width$}") } else { format!("{text:<width$}") }
    });
    let cells: Vec<String> = cells.collect();
    cells.join(" ").trim_end().to_owned()
}

/// Puts ranks that are alike into one row each, those first that are most likely to matter: a rank that is gone, one whose
/// memory is full, and then the smallest groups. At most so many rows are left; the last one then has all other ranks.
pub(super) fn grouped(rows: &[RankRow], most: usize) -> Vec<RankRow> {
    let mut groups: Vec<RankRow> = Vec::new();
    for row in rows {
        match groups.iter_mut().find(|group| is_alike(group, row)) {
            Some(group) => join(group, row),
            None => groups.push(row.clone()),
        }
    }
    groups.sort_by_key(|group| {
        let matters = group.activity == Activity::Gone || is_full(group);
        (!matters, group.ranks.len(), group.ranks[0])
    });
    let rest = groups.split_off(most.max(1).min(groups.len()).saturating_sub(1));
    let rest = rest.into_iter().reduce(|mut all, group| {
        join(&mut all, &group);
        all.state = "others".into();
        all
    });
    groups.extend(rest);
    groups
}

/// Whether ranks do the same, whoever their peers are.
fn is_alike(one: &RankRow, other: &RankRow) -> bool {
    fn kind(row: &RankRow) -> (&str, Activity, bool, Option<&(String, u16)>) {
        let call = row.call.as_ref().filter(|_| row.activity == Activity::Waits);
        (&row.host, row.activity, is_full(row), call)
    }
    kind(one) == kind(other)
}

/// Whether there is little room left for unexpected messages.
fn is_full(row: &RankRow) -> bool {
    row.unexpected_bytes_max > 0 && row.unexpected_bytes * 10 >= row.unexpected_bytes_max * 9
}

fn join(group: &mut RankRow, row: &RankRow) {
    group.ranks.extend(&row.ranks);
    group.ranks.sort_unstable();
    if group.host != row.host {
        group.host = "several".into();
    }
    if group.state != row.state {
        group.state = match (&group.call, group.activity) {
            (Some((name, _)), Activity::Waits) => name.clone(),
            (_, Activity::Active) => "active".into(),
            (_, Activity::Computes) => "compute".into(),
            (_, Activity::Sleeps) => "sleep".into(),
            _ => group.state.clone(),
        };
    }
    group.waits_for.extend(&row.waits_for);
    group.waits_for.sort_unstable();
    group.waits_for.dedup();
    group.waits_for_any |= row.waits_for_any;
    let later = |one: Option<f64>, other: Option<f64>| match (one, other) {
        (Some(one), Some(other)) => Some(one.max(other)),
        _ => one.or(other),
    };
    let sum = |one: Option<f64>, other: Option<f64>| match (one, other) {
        (Some(one), Some(other)) => Some(one + other),
        _ => one.or(other),
    };
    group.waiting_s = later(group.waiting_s, row.waiting_s);
    group.calls_per_s += row.calls_per_s;
    group.messages_per_s += row.messages_per_s;
    group.bytes_per_s += row.bytes_per_s;
    group.collectives_per_s += row.collectives_per_s;
    group.estimated |= row.estimated;
    group.has_answered |= row.has_answered;
    group.posted += row.posted;
    group.unexpected += row.unexpected;
    group.sends += row.sends;
    group.steps += row.steps;
    group.unexpected_bytes += row.unexpected_bytes;
    group.unexpected_bytes_max += row.unexpected_bytes_max;
    group.retries += row.retries;
    group.refused += row.refused;
    group.frames_sent += row.frames_sent;
    group.frames_received += row.frames_received;
    group.cpu_percent = sum(group.cpu_percent, row.cpu_percent);
    group.agent_percent = sum(group.agent_percent, row.agent_percent);
}

/// Ranks: `0-4,7`.
pub(super) fn ranks(ranks: &[u32]) -> String {
    let runs = ranks.chunk_by(|&one, &next| one + 1 == next);
    let parts = runs.map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        _ => run.iter().map(u32::to_string).collect(),
    });
    parts.collect::<Vec<_>>().join(",")
}

/// A number with at most four characters: `0.5`, `12`, `1.2k`, `340M`.
pub(super) fn short(number: f64) -> String {
    let (mut scaled, mut units) = (number, ["", "k", "M", "G", "T"].into_iter());
    let mut unit = units.next().unwrap_or_default();
    while scaled >= 999.5
        && let Some(next) = units.next()
    {
        scaled /= 1000.0;
        unit = next;
    }
    match scaled {
        0.0 => "0".into(),
        _ if scaled < 9.95 && (!unit.is_empty() || scaled.fract() != 0.0) => {
            format!("{scaled:.1}{unit}")
        }
        _ => format!("{scaled:.0}{unit}"),
    }
}

/// A length: `340 MB`.
fn bytes(number: f64) -> String {
    let text = short(number);
    let digits = text.trim_end_matches(char::is_alphabetic);
    format!("{digits} {}B", &text[digits.len()..])
}

/// A time in the unit that fits: `1.2 s`, `40 s`, `12 min`, `3 h`.
pub(super) fn span(time: Duration) -> String {
    match time.as_secs() {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        seconds @ 10..100 => format!("{seconds} s"),
        seconds @ 100..6000 => format!("{} m", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

/// A text of at most so many characters.
pub(super) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    let dots = if most > 0 { "…" } else { "" };
    format!("{}{dots}", kept.trim_end())
}

fn percent(percent: Option<f64>) -> String {
    percent.map_or_else(|| "-".into(), |percent| format!("{percent:.0}%"))
}

/// What an answer says; nothing is known of a rank that has not answered.
fn depth(row: &RankRow, count: u64) -> String {
    if row.has_answered { short(count as f64) } else { "-".into() }
}

/// Memory of unexpected messages, in percent of what they may take.
fn budget(row: &RankRow) -> String {
    if !row.has_answered || row.unexpected_bytes_max == 0 {
        return "-".into();
    }
    format!("{}%", row.unexpected_bytes * 100 / row.unexpected_bytes_max)
}

/// Things with their number: `1 send`, `2 sends`, `2 steps of a collective call`.
pub(super) fn count(things: u64, name: &str) -> String {
    let (first, rest) = name.split_once(" of ").map_or((name, None), |(a, b)| (a, Some(b)));
    let plural = if things == 1 { "" } else { "s" };
    let rest = rest.map_or_else(String::new, |rest| format!(" of {rest}"));
    format!("{} {first}{plural}{rest}", number(things))
}

/// The numbers of a rank that has no place in the table, in lines.
pub(super) fn numbers(row: &RankRow) -> Vec<String> {
    let about = if row.estimated { "about " } else { "" };
    let mut lines = vec![format!(
        "{} calls/s, {about}{} messages/s, {about}{}/s, {about}{} collective calls/s",
        short(row.calls_per_s),
        short(row.messages_per_s),
        bytes(row.bytes_per_s),
        short(row.collectives_per_s),
    )];
    lines.push(format!(
        "CPU {} of a core, of which the agent {}",
        percent(row.cpu_percent),
        percent(row.agent_percent)
    ));
    let when = if row.has_answered { "" } else { " when it answered last" };
    lines.push(format!(
        "{} posted; {} and {} not over{when}",
        count(row.posted, "receive"),
        count(row.sends, "send"),
        count(row.steps, "step of a collective call"),
    ));
    lines.push(format!(
        "{}, {} of {} bytes for them in use",
        count(row.unexpected, "unexpected message"),
        number(row.unexpected_bytes),
        number(row.unexpected_bytes_max),
    ));
    lines.push(format!(
        "{} sent, {} received, {} sent again; {} refused for lack of memory",
        count(row.frames_sent, "frame"),
        number(row.frames_received),
        number(row.retries),
        count(row.refused, "message"),
    ));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::stories;

    #[test]
    fn numbers_are_short() {
        let texts = [0.0, 0.5, 1.0, 12.3, 999.0, 999.6, 1234.0, 9_960.0, 123_456.0, 9.99e8];
        let short: Vec<String> = texts.iter().map(|&number| super::short(number)).collect();
        assert_eq!(short, ["0", "0.5", "1", "12", "999", "1.0k", "1.2k", "10k", "123k", "999M"]);
    }

    #[test]
    fn times_have_the_unit_that_fits() {
        let texts = [0.25, 9.94, 59.0, 120.0, 7300.0].map(Duration::from_secs_f64).map(span);
        assert_eq!(texts, ["0.2 s", "9.9 s", "59 s", "2 m", "2 h"]);
    }

    #[test]
    fn ranks_are_told_in_runs() {
        assert_eq!(ranks(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(ranks(&[]), "");
    }

    #[test]
    fn a_file_has_all_columns_and_nothing_is_cut() {
        let view = stories::four_ranks();
        let columns = columns(&view, &view.rows, None);
        assert!(titles(&columns).ends_with("WAITS FOR STATE"));
        assert!(
            line_of(&columns, &view.rows[2])
                .ends_with("active: MPI_Send of 8 bytes to rank 3 (tag 0)")
        );
    }

    #[test]
    fn no_line_is_longer_than_the_terminal() {
        let view = stories::many_ranks(64);
        for width in 1..200 {
            let rows = grouped(&view.rows, 2);
            let columns = columns(&view, &rows, Some(width));
            let lines = rows.iter().map(|row| line_of(&columns, row)).chain([titles(&columns)]);
            for line in lines.filter(|_| width >= 40).chain([view.head(Some(width))]) {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn the_last_line_has_all_ranks_for_which_there_is_no_room() {
        let view = stories::four_ranks();
        let rows = grouped(&view.rows, 2);
        assert_eq!(rows.len(), 2);
        assert_eq!(
            (rows[0].ranks.as_slice(), rows[1].ranks.as_slice()),
            (&[0][..], &[1, 2, 3][..])
        );
        assert_eq!(rows[1].state, "others");
        assert_eq!(grouped(&view.rows, 9).len(), 3, "ranks 2 and 3 are alike");
    }
}
