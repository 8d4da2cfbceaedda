//! A table on the user's terminal that shows the progress of each host while a job takes long to start.
//!
//! It is removed when all hosts have joined, or when a rank prints something. When the job fails, its last state stays
//! above the error message.

use std::time::{Duration, Instant};

use super::remote::Remote;
use crate::run::output::Sink;

pub(super) struct ProgressTable {
    /// When it is drawn next. `None` if it is not drawn any more.
    due: Option<Instant>,
    /// How many lines of it are on the screen.
    shown: usize,
}

impl ProgressTable {
    pub(super) fn new(is_terminal: bool) -> ProgressTable {
        ProgressTable { due: is_terminal.then(|| Instant::now() + QUIET), shown: 0 }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.due
    }

    /// Draws the table, if it is due.
    pub(super) fn poll(&mut self, now: Instant, hosts: &[Remote], sink: &mut Sink) {
        if self.due.is_some_and(|due| now >= due) {
            self.draw(now, hosts, sink);
            self.due = Some(now + EACH);
        }
    }

    /// Removes the table for good.
    pub(super) fn remove(&mut self, sink: &mut Sink) {
        self.due = None;
        if self.shown > 0 {
            self.clear(sink);
            // What comes next may go to the other output.
            sink.poll();
        }
    }

    /// The job has failed: if the table is on the screen, updates it and leaves it there.
    pub(super) fn leave(&mut self, hosts: &[Remote], sink: &mut Sink) {
        if self.due.take().is_some() && self.shown > 0 {
            self.draw(Instant::now(), hosts, sink);
            self.shown = 0;
        }
    }

    fn draw(&mut self, now: Instant, hosts: &[Remote], sink: &mut Sink) {
        self.clear(sink);
        for line in lines(hosts.iter().map(|host| (host.name(), host.progress(now)))) {
            sink.say(&line);
            self.shown += 1;
        }
    }

    fn clear(&mut self, sink: &mut Sink) {
        if self.shown > 0 {
            // Move up to its first line, and clear the rest of the screen.
            sink.move_cursor(&format!("\x1b[{}A\r\x1b[J", self.shown));
            self.shown = 0;
        }
    }
}

/// The lines of the table for hosts with these names and states.
fn lines<'a>(hosts: impl Iterator<Item = (&'a str, String)>) -> Vec<String> {
    let hosts: Vec<_> = hosts.collect();
    let width = hosts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let width = width.min(NAME_LETTERS_MAX);
    let told = hosts.iter().take(HOSTS_MAX).map(|(name, state)| {
        let line = format!("{name:width$}  {state}");
        // A wrapped line would count twice.
        line.chars().take(LINE_LETTERS_MAX).collect()
    });
    let mut lines: Vec<String> = told.collect();
    if hosts.len() > HOSTS_MAX {
        lines.push(format!("and {} more hosts", hosts.len() - HOSTS_MAX));
    }
    lines
}

/// A job that starts within this time shows no table.
const QUIET: Duration = Duration::from_secs(1);
/// How often the table is redrawn.
const EACH: Duration = Duration::from_millis(500);
/// More would not fit on the screen.
const HOSTS_MAX: usize = 20;
const LINE_LETTERS_MAX: usize = 79;
const NAME_LETTERS_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_host_and_no_more_than_fit() {
        let few = lines([("a", "joined".into()), ("long", "x".repeat(200))].into_iter());
        assert_eq!(few[0], "a     joined");
        assert_eq!(few[1].len(), LINE_LETTERS_MAX);
        let many = lines((0..300).map(|_| ("n", String::new())));
        assert_eq!((many.len(), many[HOSTS_MAX].as_str()), (HOSTS_MAX + 1, "and 280 more hosts"));
    }
}
