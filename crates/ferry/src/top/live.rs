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

use crate::job_facts::JobNotFound;

use super::detail::{Detail, sentence};
use super::rates::{Activity, Row, rows};
use super::sample::{Sample, Source};
use super::table::{Order, View, columns, grouped, line_of, ranks, titles};

/// Shows a job until the user leaves, or the job can no longer be seen, most probably since it has ended.
pub(super) fn show(
    source: &mut Source,
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
            let sample = match source.look() {
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
    order: Order,
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
            order: Order::Rank,
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
    fn rows(&self) -> Vec<Row> {
        let rows = self.view.rows.iter();
        let is_in = |row: &&Row| self.only.as_ref().is_none_or(|only| only.contains(&row.ranks[0]));
        let mut rows: Vec<Row> = rows.filter(is_in).cloned().collect();
        let groups = self.groups.unwrap_or(rows.len() > self.room) && self.only.is_none();
        if groups {
            rows = grouped(&rows, usize::MAX);
        }
        // Groups are in an order of their own until the user asks for another.
        if !groups || self.order != Order::Rank || self.reversed {
            self.order.sort(&mut rows, self.reversed);
        }
        rows
    }

    /// Which of the rows is picked.
    fn place(&self, rows: &[Row]) -> usize {
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

/// How a text stands out.
#[derive(Clone, Copy)]
enum Emphasis {
    Title,
    Heading,
    Of(Activity),
    Plain,
    Quiet,
}
