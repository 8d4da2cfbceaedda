//! Output of ranks: whole lines to the launcher's own output, with labels if asked for.
//!
//! A line that ranks write at the same time is never mixed with another. Two things come without
//! their end all the same: what a rank wrote last, and on a terminal a question that waits for an
//! answer. If another rank writes next, the line is ended first.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Error, ErrorKind, IsTerminal, PipeReader, Read, Result, Write};
use std::os::fd::{AsFd, BorrowedFd};

use super::sys;
use super::wire::{Kind, framed};

/// The longest line that is kept until its end comes. A longer one is passed on in pieces.
const LINE_BYTES_MAX: usize = 1 << 18;

/// What may wait to be written. Beyond it ranks are not read, and wait in turn.
const QUEUE_BYTES_MAX: usize = 1 << 20;

/// What fits into a pipe that says it has room: then a write does not block, and is not torn.
const WRITE_BYTES_MAX: usize = 4096;

/// One stream of one rank.
pub(super) struct Stream {
    pub(super) pipe: PipeReader,
    /// The beginning of a line whose end has not come.
    rest: Vec<u8>,
    label: Vec<u8>,
    number: usize,
}

/// What a read of a stream gave.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Gave {
    Something,
    Nothing,
    End,
}

impl Stream {
    /// `number` is different for each stream.
    pub(super) fn new(pipe: PipeReader, label: String, number: usize) -> Stream {
        Stream { pipe, rest: Vec::new(), label: label.into_bytes(), number }
    }

    /// Passes on what is there now.
    pub(super) fn poll(&mut self, sink: &mut Sink) -> Gave {
        let mut bytes = [0; 1 << 16];
        match self.pipe.read(&mut bytes) {
            Ok(0) => Gave::End,
            Ok(length) => {
                self.feed(&bytes[..length], sink);
                Gave::Something
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Gave::Nothing,
            Err(error) if error.kind() == ErrorKind::Interrupted => Gave::Something,
            Err(_) => Gave::End,
        }
    }

    fn feed(&mut self, bytes: &[u8], sink: &mut Sink) {
        let ends = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        self.rest.extend_from_slice(&bytes[..ends]);
        if ends > 0 {
            self.flush(sink);
        }
        self.rest.extend_from_slice(&bytes[ends..]);
        if self.rest.len() > LINE_BYTES_MAX {
            self.flush(sink);
        }
    }

    /// Whether the beginning of a line waits for its end.
    pub(super) fn waits(&self) -> bool {
        !self.rest.is_empty()
    }

    /// Writes what is kept, whether or not its end has come.
    pub(super) fn flush(&mut self, sink: &mut Sink) {
        let rest = std::mem::take(&mut self.rest);
        self.write(&rest, sink);
    }

    fn write(&mut self, bytes: &[u8], sink: &mut Sink) {
        if bytes.is_empty() {
            return;
        }
        let begun = sink.turn_to(self.number);
        if self.label.is_empty() {
            sink.queue.extend(bytes);
        } else {
            for (at, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
                if at > 0 || !begun {
                    sink.queue.extend(&self.label);
                }
                sink.queue.extend(line);
            }
        }
        sink.open = (bytes.last() != Some(&b'\n')).then_some(self.number);
    }
}

/// Where streams are written to, and what waits to be.
pub(super) struct Sink {
    /// The launcher's own output, past the buffer that the library keeps.
    target: File,
    /// Onto a channel to the launcher, what is written goes in frames of this kind.
    framed: Option<Kind>,
    queue: VecDeque<u8>,
    /// The stream whose line has been begun and not ended.
    open: Option<usize>,
    /// Nobody reads it any more, or it cannot be written.
    pub(super) broken: bool,
    /// Why it cannot be written, until somebody asks.
    pub(super) trouble: Option<Error>,
    pub(super) is_terminal: bool,
}

impl Sink {
    /// A sink onto the launcher's standard output or error.
    pub(super) fn new(target: impl AsFd) -> Result<Sink> {
        let target = File::from(target.as_fd().try_clone_to_owned()?);
        let is_terminal = target.is_terminal();
        Ok(Sink::onto(target, None, is_terminal))
    }

    /// A sink onto a channel to the launcher, whose own output is a terminal or is not.
    pub(super) fn framed(channel: &File, kind: Kind, is_terminal: bool) -> Result<Sink> {
        Ok(Sink::onto(channel.try_clone()?, Some(kind), is_terminal))
    }

    fn onto(target: File, framed: Option<Kind>, is_terminal: bool) -> Sink {
        Sink {
            target,
            framed,
            queue: VecDeque::new(),
            open: None,
            broken: false,
            trouble: None,
            is_terminal,
        }
    }

    /// Whole lines that an agent has sent.
    pub(super) fn pass_on(&mut self, bytes: &[u8]) {
        self.turn_to(usize::MAX);
        self.open = (bytes.last() != Some(&b'\n')).then_some(usize::MAX);
        self.queue.extend(bytes);
    }

    pub(super) fn is_full(&self) -> bool {
        self.queue.len() >= QUEUE_BYTES_MAX
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// A line of the launcher itself.
    pub(super) fn say(&mut self, text: &str) {
        self.turn_to(usize::MAX);
        self.open = None;
        self.queue.extend(text.as_bytes());
        self.queue.push_back(b'\n');
    }

    /// Ends the line of whoever has begun one, unless it is `number` itself, who may go on with it.
    /// Says whether that is so.
    fn turn_to(&mut self, number: usize) -> bool {
        let same = self.open == Some(number);
        if !same && self.open.take().is_some() {
            self.queue.push_back(b'\n');
        }
        same
    }

    /// Writes as much as can be written without waiting.
    pub(super) fn poll(&mut self) {
        while !self.queue.is_empty() && sys::writable(self.as_fd()) {
            let piece = piece(self.queue.make_contiguous());
            let written = match self.framed {
                None => self.target.write(piece),
                // The channel is shared: a frame goes whole.
                Some(kind) => self.target.write_all(&framed(kind, piece)).map(|()| piece.len()),
            };
            match written {
                Ok(count) => drop(self.queue.drain(..count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => {
                    self.broken = true;
                    self.queue.clear();
                    // A reader who has seen enough is not trouble.
                    self.trouble = Some(error).filter(|why| why.kind() != ErrorKind::BrokenPipe);
                }
            }
        }
    }
}

impl AsFd for Sink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.target.as_fd()
    }
}

/// As many whole lines as one write takes; of a longer line, a piece.
fn piece(queue: &[u8]) -> &[u8] {
    let most = &queue[..queue.len().min(WRITE_BYTES_MAX)];
    match most.iter().rposition(|byte| *byte == b'\n') {
        Some(end) => &most[..=end],
        None => most,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Pair {
        sink: Sink,
        one: Stream,
        other: Stream,
    }

    fn pair(labels: bool) -> Pair {
        let label = |rank: u32| if labels { format!("[{rank}] ") } else { String::new() };
        let stream = |number: usize, rank| {
            let (pipe, _) = std::io::pipe().expect("a pipe");
            Stream::new(pipe, label(rank), number)
        };
        let sink = Sink::new(std::io::stdout()).expect("a copy");
        Pair { sink, one: stream(0, 0), other: stream(1, 1) }
    }

    impl Pair {
        fn one(&mut self, text: &str) {
            self.one.feed(text.as_bytes(), &mut self.sink);
        }

        fn other(&mut self, text: &str) {
            self.other.feed(text.as_bytes(), &mut self.sink);
        }

        fn flush(&mut self) {
            self.one.flush(&mut self.sink);
            self.other.flush(&mut self.sink);
        }

        fn written(&mut self) -> String {
            let bytes = self.sink.queue.make_contiguous().to_vec();
            self.sink.queue.clear();
            String::from_utf8(bytes).expect("text")
        }
    }

    #[test]
    fn lines_of_two_ranks_are_not_mixed() {
        let mut pair = pair(false);
        pair.one("a");
        pair.other("1\n2");
        pair.one("b\nc");
        pair.flush();
        assert_eq!(pair.written(), "1\nab\nc\n2");
    }

    #[test]
    fn each_line_has_its_label_once() {
        let mut pair = pair(true);
        pair.one("a\nb");
        pair.one("c\n");
        pair.other("x\n\ny");
        pair.flush();
        assert_eq!(pair.written(), "[0] a\n[0] bc\n[1] x\n[1] \n[1] y");
    }

    #[test]
    fn a_question_is_shown_and_goes_on_or_is_ended() {
        let mut pair = pair(true);
        pair.one("how many? ");
        pair.flush();
        pair.one("five\n");
        assert_eq!(pair.written(), "[0] how many? five\n");
        pair.one("how many? ");
        pair.flush();
        pair.other("hello\n");
        pair.one("five\n");
        assert_eq!(pair.written(), "[0] how many? \n[1] hello\n[0] five\n");
    }

    #[test]
    fn a_line_without_end_is_bounded() {
        let mut pair = pair(false);
        pair.one(&"x".repeat(LINE_BYTES_MAX));
        assert!(pair.written().is_empty());
        pair.one("y");
        assert_eq!(pair.written().len(), LINE_BYTES_MAX + 1);
        assert!(!pair.one.waits());
    }

    #[test]
    fn one_write_takes_whole_lines_or_a_piece() {
        assert_eq!(piece(b"ab\ncd\nef"), b"ab\ncd\n");
        assert_eq!(piece(b"ab"), b"ab");
        let long = vec![b'x'; 3 * WRITE_BYTES_MAX];
        assert_eq!(piece(&long).len(), WRITE_BYTES_MAX);
    }
}
