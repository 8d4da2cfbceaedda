//! The view that fills a terminal, renewed until the job ends or the user leaves.
//!
//! [`Screen`] is what is shown and which keys do what, without a terminal; [`show`] puts it on one.

use std::io;
use std::time::{Duration, Instant};

use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Clear, Paragraph};

use crate::job_facts::{JobFacts, JobNotFound};

use super::detail::{Detail, sentence};
use super::rates::{Activity, RankRow, rows};
use super::sample::Sample;
use super::table::{View, columns, grouped, line_of, ranks, titles};

/// Shows a job until the user leaves, or the job can no longer be seen, most probably since it has ended.
pub(super) fn show(
    job: &mut JobFacts,
    first: Sample,
    interval: Duration,
    colours: bool,
) -> io::Result<Option<JobNotFound>> {
    let mut before = first;
    let mut screen = Screen::new(colours);
    screen.renew(View { rows: rows(&before, &before), sample: before.clone() });
    // Also sees to it that a panic leaves the terminal as it was.
    let mut terminal = ratatui::try_init()?;
    let mut watch = || {
        // The first rates are there soon.
        let mut next = Instant::now() + interval.min(FIRST);
        loop {
            terminal.draw(|frame| screen.draw(frame))?;
            if event::poll(next.saturating_duration_since(Instant::now()))?
                && let Event::Key(key) = event::read()?
                && screen.press(key) == Wish::Leave
            {
                return Ok(None);
            }
            if Instant::now() < next {
                continue;
            }
            next = Instant::now() + interval;
            let sample = match Sample::take(job) {
                Ok(sample) if sample.is_alive() => sample,
                Ok(_) => return Ok(Some(JobNotFound::Over)),
                Err(error) => return Ok(Some(error)),
            };
            screen.renew(View { rows: rows(&before, &sample), sample: sample.clone() });
            before = sample;
        }
    };
    let ended = watch();
    ratatui::try_restore()?;
    ended
}

/// When rates are shown first.
const FIRST: Duration = Duration::from_millis(300);

/// What a key asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Wish {
    Stay,
    Leave,
}

/// What is shown.
struct Screen {
    view: View,
    order: SortOrder,
    reversed: bool,
    /// Whether ranks that are alike share a line; without a wish of the user, if there are more ranks than lines.
    groups: Option<bool>,
    /// The ranks of the group that the user has entered.
    only: Option<Vec<u32>>,
    /// The line that is picked is the one with this rank.
    picked: u32,
    /// The rank whose calls are shown, and how many lines of them have been scrolled away.
    detail: Option<(u32, usize)>,
    colours: bool,
    /// Lines of the table at the last drawing.
    room: usize,
}

impl Screen {
    fn new(colours: bool) -> Screen {
        Screen {
            view: View::default(),
            order: SortOrder::Rank,
            reversed: false,
            groups: None,
            only: None,
            picked: 0,
            detail: None,
            colours,
            room: 1,
        }
    }

    fn renew(&mut self, view: View) {
        self.view = view;
    }

    /// The rows of the table, in their order.
    fn rows(&self) -> Vec<RankRow> {
        let rows = self.view.rows.iter();
        let is_in =
            |row: &&RankRow| self.only.as_ref().is_none_or(|only| only.contains(&row.ranks[0]));
        let mut rows: Vec<RankRow> = rows.filter(is_in).cloned().collect();
        let groups = self.groups.unwrap_or(rows.len() > self.room) && self.only.is_none();
        if groups {
            rows = grouped(&rows, usize::MAX);
        }
        // Groups are in an order of their own until the user asks for another.
        if !groups || self.order != SortOrder::Rank || self.reversed {
            self.order.sort(&mut rows, self.reversed);
        }
        rows
    }

    /// Which of the rows is picked.
    fn place(&self, rows: &[RankRow]) -> usize {
        rows.iter().position(|row| row.ranks.contains(&self.picked)).unwrap_or(0)
    }

    fn press(&mut self, key: KeyEvent) -> Wish {
        if key.kind == KeyEventKind::Release {
            return Wish::Stay;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c' | 'd') if control => return Wish::Leave,
            KeyCode::Char('q') => return Wish::Leave,
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Left => self.leave(),
            KeyCode::Enter | KeyCode::Right => self.enter(),
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::PageUp => self.step(-self.page()),
            KeyCode::PageDown => self.step(self.page()),
            KeyCode::Home => self.step(isize::MIN),
            KeyCode::End => self.step(isize::MAX),
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Char('r') => self.reversed = !self.reversed,
            KeyCode::Char('g') => {
                let now = self.groups.unwrap_or(self.view.rows.len() > self.room);
                self.groups = Some(!now);
                self.only = None;
            }
            _ => {}
        }
        Wish::Stay
    }

    fn page(&self) -> isize {
        isize::try_from(self.room).unwrap_or(isize::MAX).max(1)
    }

    /// Shows what the picked line stands for.
    fn enter(&mut self) {
        if self.detail.is_some() {
            return;
        }
        let rows = self.rows();
        let Some(row) = rows.get(self.place(&rows)) else { return };
        match row.ranks[..] {
            [rank] => self.detail = Some((rank, 0)),
            _ => {
                self.picked = row.ranks[0];
                self.only = Some(row.ranks.clone());
            }
        }
    }

    fn leave(&mut self) {
        match self.detail.take() {
            Some(_) => {}
            None => self.only = None,
        }
    }

    /// Picks another line, or scrolls.
    fn step(&mut self, by: isize) {
        if let Some((_, scrolled)) = &mut self.detail {
            *scrolled = scrolled.saturating_add_signed(by);
            return;
        }
        let rows = self.rows();
        let place = self.place(&rows).saturating_add_signed(by).min(rows.len().saturating_sub(1));
        self.picked = rows.get(place).map_or(0, |row| row.ranks[0]);
    }

    fn draw(&mut self, frame: &mut Frame<'_>) {
        let [head, body, foot] =
            Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(2)])
                .areas(frame.area());
        frame.render_widget(Clear, frame.area());
        let title = self.view.head(Some(head.width.into()));
        frame.render_widget(Line::styled(title, self.style(Emphasis::Title)), head);
        let (said, keys) = match self.detail {
            Some((rank, _)) => {
                self.draw_detail(frame, body, rank);
                (String::new(), "Up/Down scroll   Esc back   q quit".to_owned())
            }
            None => self.draw_table(frame, body),
        };
        let said = Line::styled(said, self.style(Emphasis::Plain));
        let keys = Line::styled(keys, self.style(Emphasis::Quiet));
        frame.render_widget(Text::from(vec![said, keys]), foot);
    }

    /// Draws the table. Returns what the last lines say: the picked row in full, and the keys.
    fn draw_table(&mut self, frame: &mut Frame<'_>, area: Rect) -> (String, String) {
        // One line is for the titles.
        self.room = usize::from(area.height.saturating_sub(1)).max(1);
        let rows = self.rows();
        let place = self.place(&rows);
        let columns = columns(&self.view, &rows, Some(area.width.into()));
        let mut lines = vec![Line::styled(titles(&columns), self.style(Emphasis::Heading))];
        let first = (place + 1).saturating_sub(self.room);
        for (at, row) in rows.iter().enumerate().skip(first).take(self.room) {
            let mut style = self.style(Emphasis::Of(row.activity));
            let mut text = line_of(&columns, row);
            if at == place {
                style = style.add_modifier(Modifier::REVERSED);
                let width = usize::from(area.width);
                text = format!("{text:<width$}");
            }
            lines.push(Line::styled(text, style));
        }
        frame.render_widget(Text::from(lines), area);
        let said = rows.get(place).map_or_else(
            || "no rank has joined yet".into(),
            |row| {
                let plural = if row.ranks.len() > 1 { "s" } else { "" };
                format!("rank{plural} {}: {}", ranks(&row.ranks), sentence(row))
            },
        );
        let arrow = if self.reversed { ", reversed" } else { "" };
        let keys = format!(
            "Up/Down pick   Enter calls   s sort: {}{arrow}   r reverse   g group   q quit",
            self.order.name()
        );
        (said, keys)
    }

    fn draw_detail(&mut self, frame: &mut Frame<'_>, area: Rect, rank: u32) {
        let Some(detail) = Detail::of(&self.view, rank) else {
            self.detail = None;
            return;
        };
        let lines = detail.lines();
        let most = lines.len().saturating_sub(usize::from(area.height));
        let scrolled = self.detail.map_or(0, |(_, scrolled)| scrolled.min(most));
        self.detail = Some((rank, scrolled));
        let shown = lines.into_iter().skip(scrolled).map(|line| {
            let is_title = !line.is_empty() && !line.starts_with(' ');
            let emphasis = if is_title { Emphasis::Heading } else { Emphasis::Plain };
            Line::styled(line, self.style(emphasis))
        });
        frame.render_widget(Paragraph::new(shown.collect::<Vec<_>>()), area);
    }

    fn style(&self, emphasis: Emphasis) -> Style {
        let colour = match emphasis {
            Emphasis::Of(Activity::Gone) => Some(Color::Red),
            Emphasis::Of(Activity::Waits) => Some(Color::Yellow),
            Emphasis::Of(Activity::Polls) => Some(Color::Magenta),
            Emphasis::Of(Activity::Active) => Some(Color::Green),
            Emphasis::Of(Activity::Left | Activity::Sleeps) => Some(Color::DarkGray),
            Emphasis::Quiet => Some(Color::DarkGray),
            Emphasis::Title => Some(Color::Cyan),
            Emphasis::Of(Activity::Computes) | Emphasis::Heading | Emphasis::Plain => None,
        };
        let style = match emphasis {
            Emphasis::Heading | Emphasis::Title => Style::new().add_modifier(Modifier::BOLD),
            _ => Style::new(),
        };
        match colour.filter(|_| self.colours) {
            Some(colour) => style.fg(colour),
            None => style,
        }
    }
}

/// The order of lines.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum SortOrder {
    Rank,
    Calls,
    Bytes,
    Waiting,
    Unexpected,
    Processor,
}

impl SortOrder {
    const ALL: [(SortOrder, &str); 6] = [
        (SortOrder::Rank, "rank"),
        (SortOrder::Waiting, "waiting time"),
        (SortOrder::Calls, "calls/s"),
        (SortOrder::Bytes, "bytes/s"),
        (SortOrder::Unexpected, "unexpected bytes"),
        (SortOrder::Processor, "CPU"),
    ];

    fn name(self) -> &'static str {
        SortOrder::ALL[self.place()].1
    }

    fn next(self) -> SortOrder {
        SortOrder::ALL[(self.place() + 1) % SortOrder::ALL.len()].0
    }

    fn place(self) -> usize {
        SortOrder::ALL.iter().position(|(order, _)| *order == self).expect("all are listed")
    }

    /// What comes first is greatest.
    fn key(self, row: &RankRow) -> f64 {
        match self {
            SortOrder::Rank => -f64::from(row.ranks[0]),
            SortOrder::Calls => row.calls_per_s,
            SortOrder::Bytes => row.bytes_per_s,
            SortOrder::Waiting => row.waiting_s.unwrap_or(-1.0),
            SortOrder::Unexpected => row.unexpected_bytes as f64,
            SortOrder::Processor => row.cpu_percent.unwrap_or(-1.0),
        }
    }

    fn sort(self, rows: &mut [RankRow], reversed: bool) {
        rows.sort_by(|one, other| {
            let order = self.key(other).total_cmp(&self.key(one));
            let order = if reversed { order.reverse() } else { order };
            order.then(one.ranks.cmp(&other.ranks))
        });
    }
}

/// How a text stands out.
#[derive(Clone, Copy)]
enum Emphasis {
    Title,
    Heading,
    Of(Activity),
    Plain,
    Quiet,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::stories;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    struct Shown {
        screen: Screen,
        terminal: Terminal<TestBackend>,
    }

    impl Shown {
        fn new(view: View, columns: u16, lines: u16) -> Shown {
            let mut screen = Screen::new(true);
            screen.renew(view);
            let terminal = Terminal::new(TestBackend::new(columns, lines)).expect("memory");
            Shown { screen, terminal }
        }

        /// The lines of the terminal, without the blanks at their ends.
        fn lines(&mut self) -> Vec<String> {
            self.terminal.draw(|frame| self.screen.draw(frame)).expect("memory");
            let buffer = self.terminal.backend().buffer();
            let width = usize::from(buffer.area.width);
            let cells: Vec<&str> = buffer.content.iter().map(|cell| cell.symbol()).collect();
            cells.chunks(width).map(|line| line.concat().trim_end().to_owned()).collect()
        }

        fn press(&mut self, code: KeyCode) -> Wish {
            self.screen.press(KeyEvent::new(code, KeyModifiers::NONE))
        }
    }

    #[test]
    fn a_terminal_of_80_columns() {
        let mut shown = Shown::new(stories::four_ranks(), 80, 24);
        let lines = shown.lines();
        assert_eq!(lines[..6], SMALL, "{}", lines.join("\n"));
        assert_eq!(lines[22], "rank 0: MPI_Recv from rank 1 (tag 7), for 1.2 s; waits for rank 1");
        assert_eq!(
            lines[23],
            "Up/Down pick   Enter calls   s sort: rank   r reverse   g group   q quit"
        );
    }

    const SMALL: [&str; 6] = [
        "ring: 4 ranks on host-a, 12 s; 40k messages/s, 320 kB/s, 0 collective calls/s",
        "RANK CALLS/S BYTES/S POST UNEX  MEM  CPU AGENT  FOR STATE",
        "0          0       0    1    2   3%   0%    0% 1.2s MPI_Recv from rank 1 (tag 7)",
        "1          0       0    -    -    - 100%    2%      computes after MPI_Send",
        "2        40k    160k    0    0   0%  80%    0%      active: MPI_Send of 8 bytes…",
        "3        40k    160k    0    0   0%  80%    0%      active: MPI_Send of 8 bytes…",
    ];

    #[test]
    fn a_terminal_of_120_columns() {
        let lines = Shown::new(stories::four_ranks(), 120, 40).lines();
        assert_eq!(lines[..4], LARGE, "{}", lines.join("\n"));
    }

    const LARGE: [&str; 4] = [
        "ring: 4 ranks on host-a, 12 s; 40k messages/s, 320 kB/s, 0 collective calls/s",
        "RANK     PID CALLS/S MSGS/S BYTES/S POST UNEX  MEM RETRY REFUSED  CPU AGENT  FOR WAITS FOR STATE",
        "0       4711       0      0       0    1    2   3%     0       0   0%    0% 1.2s 1         MPI_Recv from rank 1 (tag 7)",
        "1       4712       0      0       0    -    -    -     -       - 100%    2%                computes after MPI_Send",
    ];

    #[test]
    fn ranks_that_are_alike_share_a_line_where_there_is_no_room() {
        let mut shown = Shown::new(stories::many_ranks(64), 80, 24);
        // The number of lines is known once it has been drawn.
        shown.lines();
        let lines = shown.lines();
        assert!(
            lines[2].starts_with("17") && lines[2].contains("computes"),
            "{}",
            lines.join("\n")
        );
        assert!(lines[3].starts_with("0-16,18-63"), "{}", lines.join("\n"));
        assert!(lines[3].contains("MPI_Barrier of MPI"), "{}", lines.join("\n"));
        assert_eq!(lines[4], "");
        // A group is entered, and left again.
        shown.press(KeyCode::Down);
        assert_eq!(shown.press(KeyCode::Enter), Wish::Stay);
        let lines = shown.lines();
        assert!(lines[2].starts_with("0 ") && lines[3].starts_with("1 "), "{}", lines.join("\n"));
        shown.press(KeyCode::End);
        let lines = shown.lines();
        assert!(lines[21].starts_with("63 "), "the last is seen: {}", lines.join("\n"));
        shown.press(KeyCode::Esc);
        assert!(shown.lines()[2].starts_with("17"));
    }

    #[test]
    fn keys_pick_sort_and_leave() {
        let mut shown = Shown::new(stories::four_ranks(), 80, 24);
        shown.lines();
        shown.press(KeyCode::Down);
        assert!(shown.lines()[22].starts_with("rank 1: computes after MPI_Send"));
        // By waiting time, then calls: the fastest ranks come first, and the picked one stays picked.
        shown.press(KeyCode::Char('s'));
        shown.press(KeyCode::Char('s'));
        let lines = shown.lines();
        assert!(
            lines[2].starts_with('2') && lines[22].starts_with("rank 1:"),
            "{}",
            lines.join("\n")
        );
        assert!(lines[23].contains("s sort: calls/s "));
        shown.press(KeyCode::Char('r'));
        assert!(shown.lines()[23].contains("calls/s, reversed"));
        assert_eq!(shown.press(KeyCode::Char('q')), Wish::Leave);
        let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(shown.screen.press(control), Wish::Leave);
    }

    #[test]
    fn the_calls_of_a_rank_are_shown_and_scrolled() {
        let mut shown = Shown::new(stories::four_ranks(), 80, 24);
        shown.lines();
        shown.press(KeyCode::Enter);
        let text = shown.lines().join("\n");
        for part in [
            "rank 0, pid 4711, on host-a\n\nNow\n  MPI_Recv from rank 1 (tag 7), for 1.2 s",
            "Not over\n  message of 8 bytes from rank 1 (tag 8)",
            "  MPI_COMM_WORLD: 4 members, 0 collective calls",
            "    1st  MPI_Recv from rank 1 (tag 7)",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        shown.press(KeyCode::Esc);
        assert!(shown.lines()[1].starts_with("RANK"));
        let mut shown = Shown::new(stories::four_ranks(), 80, 10);
        shown.press(KeyCode::Enter);
        assert_eq!(shown.lines()[1], "rank 0, pid 4711, on host-a");
        shown.press(KeyCode::End);
        assert_eq!(shown.lines()[7], "    1st  MPI_Recv from rank 1 (tag 7)");
    }

    /// A terminal may have any size.
    #[test]
    fn the_smallest_terminals_are_drawn() {
        for (columns, lines) in [(1, 1), (5, 2), (20, 3), (39, 4), (79, 5)] {
            let mut shown = Shown::new(stories::many_ranks(8), columns, lines);
            shown.lines();
            shown.press(KeyCode::Enter);
            shown.lines();
        }
        let mut empty = Shown::new(View::default(), 80, 24);
        assert!(empty.lines()[22].contains("no rank has joined yet"));
        empty.press(KeyCode::Enter);
        empty.press(KeyCode::Down);
        empty.lines();
    }

    #[test]
    fn without_colours_there_are_none() {
        let mut shown = Shown::new(stories::four_ranks(), 80, 24);
        let coloured = |shown: &mut Shown| {
            shown.lines();
            let cells = &shown.terminal.backend().buffer().content;
            cells.iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
        };
        assert!(coloured(&mut shown));
        shown.screen.colours = false;
        assert!(!coloured(&mut shown));
    }
}
