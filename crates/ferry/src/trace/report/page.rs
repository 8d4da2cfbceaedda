//! The page of a report. It has no scripts: plots are elements and drawings without text, which browsers stretch, so that
//! they fit any width.

use std::collections::HashMap;
use std::fmt::{Display, Write as _};

use ferrywire_runtime::call_name::name_of;
use ferrywire_runtime::words::number;

use crate::trace::stats::{Statistics, bytes, time};
use crate::trace::{CallDetail, RankTimeline, TimedCall, Timeline};

/// What sort of call it is, and so its colour.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum CallSort {
    Send,
    Receive,
    Wait,
    Collective,
    Window,
    File,
    Other,
}

impl CallSort {
    const ALL: [CallSort; 7] = [
        CallSort::Send,
        CallSort::Receive,
        CallSort::Wait,
        CallSort::Collective,
        CallSort::Window,
        CallSort::File,
        CallSort::Other,
    ];

    fn of(call: &TimedCall) -> CallSort {
        let name = name_of(call.name);
        match call.details.first() {
            Some(CallDetail::Send { .. }) => return CallSort::Send,
            Some(CallDetail::Receive { .. }) => return CallSort::Receive,
            _ => {}
        }
        let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
        if has(&["Wait", "wait", "Test", "test", "Iprobe", "iprobe"]) {
            CallSort::Wait
        } else if has(&["File", "read_", "write_"]) {
            CallSort::File
        } else if has(&["Win_", "Put", "Get", "ccumulate", "Fetch", "fence", "lock"]) {
            CallSort::Window
        } else if matches!(call.details.first(), Some(CallDetail::Collective { .. })) {
            CallSort::Collective
        } else {
            CallSort::Other
        }
    }

    fn variable(self) -> &'static str {
        match self {
            CallSort::Send => "send",
            CallSort::Receive => "receive",
            CallSort::Wait => "wait",
            CallSort::Collective => "collective",
            CallSort::Window => "memory",
            CallSort::File => "file",
            CallSort::Other => "other",
        }
    }

    fn title(self) -> &'static str {
        match self {
            CallSort::Send => "send",
            CallSort::Receive => "receive",
            CallSort::Wait => "wait and test",
            CallSort::Collective => "collective",
            CallSort::Window => "one-sided",
            CallSort::File => "file",
            CallSort::Other => "other calls",
        }
    }
}

/// A text for a page, in which no character has a meaning.
fn escaped(text: impl Display) -> String {
    let text = text.to_string();
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

/// The page.
pub(super) fn page(title: &str, timeline: &Timeline, stats: &Statistics) -> String {
    let mut page =
        String::from("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    let _ = writeln!(page, "<title>{}: where the time went</title>", escaped(title));
    let _ = write!(page, "<style>\n{}</style>\n</head>\n<body>\n", include_str!("page.css"));
    let _ = writeln!(page, "<h1>{}</h1>", escaped(title));
    tiles(&mut page, timeline, stats);
    ranks(&mut page, timeline, stats);
    timelines(&mut page, timeline);
    heat_map(&mut page, timeline, stats);
    page.push_str("<div class=\"plots\">\n");
    sizes(&mut page, stats);
    durations(&mut page, timeline);
    page.push_str("</div>\n");
    tables(&mut page, stats);
    let _ = writeln!(
        page,
        "<footer>Made by ferry report {}. The trace itself opens at \
         <a href=\"https://ui.perfetto.dev\">ui.perfetto.dev</a>.</footer>\n</body>\n</html>",
        env!("CARGO_PKG_VERSION")
    );
    page
}

fn tiles(page: &mut String, timeline: &Timeline, stats: &Statistics) {
    let share = stats.mpi_percent();
    let _ = writeln!(
        page,
        "<p>{} ranks, from the first that joined the job to the last that left it.</p>",
        timeline.ranks.len()
    );
    if let Some(hosts) = stats.hosts() {
        let _ = writeln!(page, "<p>{}.</p>", escaped(hosts));
    }
    if stats.missing_events > 0 {
        let _ = writeln!(
            page,
            "<p class=\"warning\">{} events are missing, since there was no room for them: all numbers are too small.</p>",
            number(stats.missing_events)
        );
    }
    for rank in timeline.ranks.iter().filter(|rank| !rank.left).take(WARNINGS_MAX) {
        let _ = writeln!(
            page,
            "<p class=\"warning\">Rank {} did not leave the job in order: it ends after {}.</p>",
            escaped(&rank.name),
            time(rank.end_ns)
        );
    }
    page.push_str("<div class=\"tiles\">\n");
    for (value, title) in [
        (time(stats.run_ns), "run"),
        (format!("{share} %"), "of it in MPI, mean of ranks"),
        (number(stats.calls), "calls"),
        (number(stats.messages), "messages"),
        (bytes(stats.message_bytes), "in messages"),
        (time(stats.late_senders.total_ns), "waited for late senders"),
        (time(stats.collectives.total_ns), "waited in collective calls for the last rank"),
    ] {
        let _ = writeln!(page, "<div class=\"tile\"><b>{value}</b><span>{title}</span></div>");
    }
    page.push_str("</div>\n");
}

fn legend(page: &mut String, sorts: &[CallSort]) {
    page.push_str("<div class=\"legend\">");
    for sort in sorts {
        let (variable, title) = (sort.variable(), sort.title());
        let _ = write!(page, "<span><i style=\"background:var(--{variable})\"></i>{title}</span>");
    }
    page.push_str("<span><i style=\"background:var(--outside)\"></i>outside of MPI</span></div>\n");
}

/// The sorts of calls that occur.
fn sorts(timeline: &Timeline) -> Vec<CallSort> {
    let calls = || timeline.ranks.iter().flat_map(|rank| &rank.calls);
    let occurs = |sort: &CallSort| calls().any(|call| CallSort::of(call) == *sort);
    CallSort::ALL.into_iter().filter(occurs).collect()
}

/// A bar for each rank: how much of its time it spent in which calls.
fn ranks(page: &mut String, timeline: &Timeline, stats: &Statistics) {
    page.push_str("<h2>Time in MPI by rank</h2>\n");
    legend(page, &sorts(timeline));
    page.push_str("<div class=\"rows\">\n");
    let shown = shown(timeline);
    for &at in &shown {
        let rank = &timeline.ranks[at];
        let mut by_sort = [0_u64; CallSort::ALL.len()];
        for call in outermost(rank) {
            by_sort[CallSort::of(call) as usize] += call.inside_ns;
        }
        let whole = (rank.end_ns - rank.start_ns).max(1).max(by_sort.iter().sum());
        let name = escaped(&rank.name);
        let _ = write!(page, "<span class=\"name\">rank {name}</span><div class=\"bar\">");
        for (sort, ns) in CallSort::ALL.into_iter().zip(by_sort).filter(|(_, ns)| *ns > 0) {
            let (variable, title) = (sort.variable(), sort.title());
            let _ = write!(
                page,
                "<i style=\"width:{:.3}%;background:var(--{variable})\" title=\"rank {name}: {} in {title}\"></i>",
                share(ns, whole),
                time(ns)
            );
        }
        let _ = writeln!(page, "</div><span class=\"value\">{}</span>", stats.mpi_of(at));
    }
    page.push_str("</div>\n");
    hidden(page, timeline, &shown);
}

/// The calls that are not within another call of their thread, of the thread that is in MPI first.
fn outermost(rank: &RankTimeline) -> impl Iterator<Item = &TimedCall> {
    let thread = rank.calls.first().map_or(1, |call| call.thread);
    let mut until = 0;
    rank.calls.iter().filter(move |call| call.thread == thread).filter(move |call| {
        let is_outer = call.begin_ns >= until;
        until = until.max(call.end_ns);
        is_outer
    })
}

/// The ranks that have a row of their own.
fn shown(timeline: &Timeline) -> Vec<usize> {
    let all = timeline.ranks.len();
    let step = all.div_ceil(ROWS_MAX).max(1);
    (0..all).step_by(step).collect()
}

fn hidden(page: &mut String, timeline: &Timeline, shown: &[usize]) {
    if shown.len() < timeline.ranks.len() {
        let _ = writeln!(
            page,
            "<p>Shown are {} of {} ranks, at equal distances.</p>",
            shown.len(),
            timeline.ranks.len()
        );
    }
}

/// A strip for each rank: in which call it was when.
fn timelines(page: &mut String, timeline: &Timeline) {
    let calls: usize = timeline.ranks.iter().map(|rank| rank.calls.len()).sum();
    page.push_str("<h2>Timeline</h2>\n");
    let end_ns = timeline.end_ns().max(1);
    let _ = writeln!(
        page,
        "<p>Each strip is cut into {COLUMNS} columns; the colour of a column is that of the calls in which the rank spent \
         most of it. {} calls in total{}.</p>",
        number(calls as u64),
        if timeline.ranks.iter().any(|rank| !rank.agent.is_empty()) {
            "; the low strip is the agent, which works while the program computes"
        } else {
            ""
        }
    );
    legend(page, &sorts(timeline));
    page.push_str("<div class=\"rows two\">\n");
    let shown = shown(timeline);
    for &at in &shown {
        let rank = &timeline.ranks[at];
        let spans: Vec<_> = outermost(rank)
            .map(|call| (call.begin_ns, call.end_ns, CallSort::of(call) as usize))
            .collect();
        let _ = write!(page, "<span class=\"name\">rank {}</span>", escaped(&rank.name));
        strip(page, "tall", &columns(&spans, end_ns));
        if !rank.agent.is_empty() {
            let other = CallSort::Other as usize;
            let spans: Vec<_> =
                rank.agent.iter().map(|span| (span.begin_ns, span.end_ns, other)).collect();
            page.push_str("<span></span>");
            strip(page, "low", &columns(&spans, end_ns));
        }
    }
    let _ = writeln!(
        page,
        "<span></span><div class=\"axis\"><span>0</span><span>{}</span><span>{}</span></div></div>",
        time(end_ns / 2),
        time(end_ns)
    );
    hidden(page, timeline, &shown);
}

/// For each column, the sort of call that takes most of it, if any call takes a part, and which part all take.
fn columns(spans: &[(u64, u64, usize)], end_ns: u64) -> Vec<Option<(usize, f64)>> {
    let width = end_ns.div_ceil(COLUMNS as u64).max(1);
    let mut times = vec![[0_u64; CallSort::ALL.len()]; COLUMNS];
    for &(begin, end, sort) in spans {
        let first = index(begin / width);
        let last = index(end / width).min(COLUMNS - 1);
        for (column, times) in times.iter_mut().enumerate().take(last + 1).skip(first) {
            let from = begin.max(column as u64 * width);
            let to = end.min((column as u64 + 1) * width);
            // Even a call without length leaves a trace.
            times[sort] += to.saturating_sub(from).max(1);
        }
    }
    let most = |times: &[u64; CallSort::ALL.len()]| {
        let (sort, &longest) = times.iter().enumerate().max_by_key(|&(_, ns)| *ns)?;
        let part = (share(times.iter().sum(), width) / 100.0).clamp(0.15, 1.0);
        (longest > 0).then_some((sort, part))
    };
    times.iter().map(most).collect()
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Columns as a drawing, equal ones next to each other as one.
fn strip(page: &mut String, class: &str, columns: &[Option<(usize, f64)>]) {
    let _ = write!(
        page,
        "<svg class=\"strip {class}\" viewBox=\"0 0 {COLUMNS} 10\" preserveAspectRatio=\"none\" shape-rendering=\"crispEdges\">"
    );
    let key =
        |column: &Option<(usize, f64)>| column.map(|(sort, part)| (sort, (part * 10.0).ceil()));
    let mut at = 0;
    for run in columns.chunk_by(|one, next| key(one) == key(next)) {
        if let Some((sort, tenths)) = key(&run[0]) {
            let height = tenths;
            let _ = write!(
                page,
                "<rect x=\"{at}\" y=\"{}\" width=\"{}\" height=\"{height}\" fill=\"var(--{})\"/>",
                10.0 - height,
                run.len(),
                CallSort::ALL[sort].variable()
            );
        }
        at += run.len();
    }
    page.push_str("</svg>\n");
}

/// Who sends how much to whom. Of many ranks, neighbours are added up.
fn heat_map(page: &mut String, timeline: &Timeline, stats: &Statistics) {
    if stats.messages == 0 {
        return;
    }
    let ranks = timeline.ranks.len();
    let step = ranks.div_ceil(CELLS_MAX).max(1);
    let size = ranks.div_ceil(step);
    let mut cells: HashMap<(usize, usize), (u64, u64)> = HashMap::new();
    for (from, to, messages, bytes) in stats.matrix() {
        let cell = cells.entry((from / step, to / step)).or_default();
        *cell = (cell.0 + messages, cell.1 + bytes);
    }
    page.push_str("<h2>Who sends to whom</h2>\n");
    let _ = writeln!(
        page,
        "<p>A row for each sender, a column for each receiver{}. Messages of the program, without those within collective \
         calls.</p>",
        if step > 1 { format!(", {step} ranks in each") } else { String::new() }
    );
    page.push_str(
        "<div class=\"switch\"><input type=\"radio\" name=\"heat\" id=\"by-bytes\" checked> ",
    );
    page.push_str("<label for=\"by-bytes\">bytes</label> <input type=\"radio\" name=\"heat\" ");
    page.push_str("id=\"by-messages\"> <label for=\"by-messages\">messages</label>\n");
    let name = |cell: usize| {
        let first = escaped(&timeline.ranks[cell * step].name);
        let last = &timeline.ranks[((cell + 1) * step).min(ranks) - 1].name;
        if step == 1 { first } else { format!("{first}-{}", escaped(last)) }
    };
    for (class, pick) in [("of-bytes", 1), ("of-messages", 0)] {
        let value = |cell: Option<&(u64, u64)>| cell.map_or(0, |cell| [cell.0, cell.1][pick]);
        let most = cells.values().map(|cell| value(Some(cell))).max().unwrap_or(0).max(1);
        let _ = write!(
            page,
            "<div class=\"heat {class}\" style=\"max-width:{}rem;grid-template-columns:max-content repeat({size},minmax(0,1fr))\"><span></span>",
            (2 + 3 * size).min(34)
        );
        let is_named =
            |cell: usize| size <= NAMES_MAX || cell.is_multiple_of(size.div_ceil(NAMES_MAX));
        for column in 0..size {
            let _ = write!(
                page,
                "<span>{}</span>",
                if is_named(column) { name(column) } else { String::new() }
            );
        }
        for row in 0..size {
            let _ = write!(
                page,
                "<span>{}</span>",
                if is_named(row) { name(row) } else { String::new() }
            );
            for column in 0..size {
                let cell = cells.get(&(row, column));
                if value(cell) == 0 {
                    page.push_str("<div></div>");
                    continue;
                }
                let (messages, length) = cell.copied().unwrap_or_default();
                let part = 12.0 + 0.88 * share(value(cell), most);
                let _ = write!(
                    page,
                    "<div style=\"background:color-mix(in srgb,var(--heat) {part:.0}%,var(--card))\" title=\"{} to {}: {} in {} \
                     messages\"></div>",
                    name(row),
                    name(column),
                    bytes(length),
                    number(messages)
                );
            }
        }
        page.push_str("</div>\n");
    }
    page.push_str("</div>\n");
}

/// How many messages are how long.
fn sizes(page: &mut String, stats: &Statistics) {
    if stats.messages == 0 {
        return;
    }
    page.push_str(
        "<section><h2>Lengths of messages</h2>\n<p>Messages of up to so many bytes.</p>\n",
    );
    let bars = stats.sizes.iter().map(|size| {
        let most = if size.bytes_max == u64::MAX { "more".into() } else { bytes(size.bytes_max) };
        (most, size.messages)
    });
    histogram(page, &bars.collect::<Vec<_>>(), "messages");
    page.push_str("</section>\n");
}

/// How many calls took how long.
fn durations(page: &mut String, timeline: &Timeline) {
    let mut classes: Vec<u64> = Vec::new();
    for call in timeline.ranks.iter().flat_map(|rank| &rank.calls).filter(|call| call.times == 1) {
        let class = LIMITS.partition_point(|&limit| limit < call.inside_ns);
        if classes.len() <= class {
            classes.resize(class + 1, 0);
        }
        classes[class] += 1;
    }
    page.push_str("<section><h2>Lengths of calls</h2>\n<p>Calls that took up to so long.</p>\n");
    let first = classes.iter().position(|&calls| calls > 0).unwrap_or(0);
    let bars = classes.iter().enumerate().skip(first);
    let limit = |class: usize| LIMITS.get(class).map_or("more".into(), |&limit| time(limit));
    let bars = bars.map(|(class, &calls)| (limit(class), calls));
    histogram(page, &bars.collect::<Vec<_>>(), "calls");
    page.push_str("</section>\n");
}

fn histogram(page: &mut String, bars: &[(String, u64)], what: &str) {
    let most = bars.iter().map(|bar| bar.1).max().unwrap_or(0).max(1);
    page.push_str("<div class=\"columns\">");
    for (limit, height) in bars {
        let _ = write!(
            page,
            "<div style=\"height:{:.2}%\" title=\"up to {limit}: {} {what}\"></div>",
            share(*height, most),
            number(*height)
        );
    }
    page.push_str("</div>\n<div class=\"ticks\">");
    for (limit, _) in bars {
        let _ = write!(page, "<span>{limit}</span>");
    }
    let _ = writeln!(page, "</div>\n<p>The highest column is {} {what}.</p>", number(most));
}

/// What the columns of a table are called; numbers are on the right.
type Heads<'a> = &'a [(&'a str, bool)];

fn table(page: &mut String, title: &str, text: &str, heads: Heads<'_>, rows: &[Vec<String>]) {
    if rows.is_empty() {
        return;
    }
    let _ = write!(page, "<h2>{title}</h2>\n<p>{text}</p>\n<div class=\"scroll\"><table>\n<tr>");
    let class = |is_number: bool| if is_number { " class=\"n\"" } else { "" };
    for (head, is_number) in heads {
        let _ = write!(page, "<th{}>{head}</th>", class(*is_number));
    }
    page.push_str("</tr>\n");
    for row in rows.iter().take(TABLE_ROWS_MAX) {
        page.push_str("<tr>");
        for (cell, (_, is_number)) in row.iter().zip(heads) {
            let _ = write!(page, "<td{}>{}</td>", class(*is_number), escaped(cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table></div>\n");
    if rows.len() > TABLE_ROWS_MAX {
        let _ = writeln!(page, "<p>And {} more.</p>", rows.len() - TABLE_ROWS_MAX);
    }
}

fn tables(page: &mut String, stats: &Statistics) {
    let rows = stats.by_call.iter().map(|call| {
        let mean = time(call.total_ns / call.calls.max(1));
        let max = if call.max_ns > 0 { time(call.max_ns) } else { "-".into() };
        let length = if call.bytes > 0 { bytes(call.bytes) } else { "-".into() };
        vec![call.call.to_owned(), number(call.calls), time(call.total_ns), mean, max, length]
    });
    table(
        page,
        "Calls",
        "All ranks together.",
        &[
            ("call", false),
            ("calls", true),
            ("total", true),
            ("mean", true),
            ("max", true),
            ("bytes", true),
        ],
        &rows.collect::<Vec<_>>(),
    );
    let rows = stats.late_senders.pairs.iter().map(|pair| {
        let mean = time(pair.lost_ns / pair.messages.max(1));
        let (receiver, sender) = (pair.receiver.clone(), pair.sender.clone());
        vec![receiver, sender, time(pair.lost_ns), number(pair.messages), mean]
    });
    table(
        page,
        "Late senders",
        "The receiver waited in a call for a message whose sender came later.",
        &[
            ("receiver", false),
            ("sender", false),
            ("waited", true),
            ("messages", true),
            ("mean", true),
        ],
        &rows.collect::<Vec<_>>(),
    );
    let rows = stats.collectives.by_call.iter().map(|one| {
        let last = format!("rank {}, {} times", one.last_rank, number(one.last_times));
        let (mean, max) = (time(one.spread_mean_ns), time(one.spread_max_ns));
        let object = one.object.clone();
        vec![one.call.to_owned(), object, number(one.calls), time(one.lost_ns), mean, max, last]
    });
    table(
        page,
        "Imbalance of collective calls",
        "How long ranks waited for the last that came, and how far the first and the last were apart.",
        &[
            ("call", false),
            ("of", false),
            ("calls", true),
            ("waited", true),
            ("mean", true),
            ("max", true),
            ("most often last", false),
        ],
        &rows.collect::<Vec<_>>(),
    );
    let rows = stats.pairs.iter().map(|pair| {
        vec![pair.from.clone(), pair.to.clone(), bytes(pair.bytes), number(pair.messages)]
    });
    table(
        page,
        "Hottest pairs",
        "The pairs of ranks with the most bytes.",
        &[("from", false), ("to", false), ("bytes", true), ("messages", true)],
        &rows.collect::<Vec<_>>(),
    );
}

#[expect(clippy::cast_precision_loss, reason = "a plot need not be exact")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

/// The limits of the columns of the lengths of calls, in nanoseconds.
const LIMITS: [u64; 16] = [
    64,
    250,
    1_000,
    4_000,
    16_000,
    64_000,
    250_000,
    1_000_000,
    4_000_000,
    16_000_000,
    64_000_000,
    250_000_000,
    1_000_000_000,
    4_000_000_000,
    16_000_000_000,
    64_000_000_000,
];
/// Columns of a strip.
const COLUMNS: usize = 600;
/// Ranks that have rows of their own.
const ROWS_MAX: usize = 64;
/// Rows and columns of the heat map, and how many of them have names.
const CELLS_MAX: usize = 64;
const NAMES_MAX: usize = 16;
/// Rows of a table.
const TABLE_ROWS_MAX: usize = 24;
/// Ranks that are named because they did not leave in order.
const WARNINGS_MAX: usize = 4;
