//! Output of ranks: whole lines to the launcher's own output, with labels if asked for.
//!
//! Lines that ranks write at the same time are never mixed. An incomplete line is passed on in two cases: at
//! the end of a stream, and on a terminal if it may be a prompt. If another rank writes next, the incomplete
//! line is ended first.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Error, ErrorKind, IsTerminal, Read, Result, Write};
use std::os::fd::{AsFd, BorrowedFd};

use super::sys;
use super::wire::{FrameKind, framed};

/// The longest line that is kept until it is complete. A longer one is passed on in pieces, with a note.
pub(super) const LINE_BYTES_MAX: usize = 4 << 20;

/// How much output may wait to be written. Beyond it, the output of ranks is not read, so that their writes block.
const QUEUE_BYTES_MAX: usize = 1 << 20;

/// How much a pipe takes when `poll` says that it is writable (PIPE_BUF): such a write neither blocks nor is split.
const WRITE_BYTES_MAX: usize = 4096;

/// The standard output or error of one rank.
pub(super) struct Stream {
    /// Our end of a pipe or of a terminal.
    pub(super) pipe: File,
    /// The beginning of an incomplete line.
    rest: Vec<u8>,
    label: Vec<u8>,
    number: usize,
    /// A line was longer than [`LINE_BYTES_MAX`].
    pub(super) was_cut: bool,
}

/// What a read of a stream found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Gave {
    Something,
    Nothing,
    End,
}

impl Stream {
    /// `number` identifies the stream.
    pub(super) fn new(pipe: File, label: String, number: usize) -> Stream {
        Stream { pipe, rest: Vec::new(), label: label.into_bytes(), number, was_cut: false }
    }

    /// Reads once, and passes on complete lines.
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
            self.was_cut = true;
            self.flush(sink);
        }
    }

    /// Whether an incomplete line is kept.
    pub(super) fn waits(&self) -> bool {
        !self.rest.is_empty()
    }

    /// Writes what is kept, complete or not.
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

/// A destination of streams, with the bytes that wait to be written to it.
pub(super) struct Sink {
    /// The launcher's own output, without the buffer of the standard library.
    target: File,
    /// The kind of frames to write, if the target is the channel to the launcher.
    framed: Option<FrameKind>,
    queue: VecDeque<u8>,
    /// The stream whose incomplete line was written last.
    open: Option<usize>,
    /// The reader has closed it, or writing has failed.
    pub(super) broken: bool,
    /// Why writing failed. The caller takes it.
    pub(super) trouble: Option<Error>,
    pub(super) is_terminal: bool,
    /// The launcher has no room for output now: it waits here, and the writes of ranks block.
    pub(super) held: bool,
}

impl Sink {
    /// A sink for the launcher's standard output or error.
    pub(super) fn new(target: impl AsFd) -> Result<Sink> {
        let target = File::from(target.as_fd().try_clone_to_owned()?);
        let is_terminal = target.is_terminal();
        Ok(Sink::onto(target, None, is_terminal))
    }

    /// A sink for the channel to the launcher. `is_terminal` says whether the launcher's own output is a terminal.
    pub(super) fn framed(channel: &File, kind: FrameKind, is_terminal: bool) -> Result<Sink> {
        Ok(Sink::onto(channel.try_clone()?, Some(kind), is_terminal))
    }

    fn onto(target: File, framed: Option<FrameKind>, is_terminal: bool) -> Sink {
        Sink {
            target,
            framed,
            queue: VecDeque::new(),
            open: None,
            broken: false,
            trouble: None,
            is_terminal,
            held: false,
        }
    }

    /// Queues what the daemon of a host has sent: whole lines, or a piece of a line that it may continue.
    pub(super) fn pass_on(&mut self, host: usize, bytes: &[u8]) {
        self.turn_to(host);
        self.open = (bytes.last() != Some(&b'\n')).then_some(host);
        self.queue.extend(bytes);
    }

    pub(super) fn is_full(&self) -> bool {
        self.queue.len() >= QUEUE_BYTES_MAX
    }

    /// Whether daemons should hold their output back; `before` says whether they do now. They resume when half of the
    /// queue is free, not at the first byte, or they would be told at every turn.
    pub(super) fn is_held_back(&self, before: bool) -> bool {
        self.queue.len() >= if before { QUEUE_BYTES_MAX / 2 } else { QUEUE_BYTES_MAX }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether to wait until the target is writable.
    pub(super) fn wants_to_write(&self) -> bool {
        !self.held && !self.is_empty()
    }

    /// Queues a line of the launcher itself.
    pub(super) fn say(&mut self, text: &str) {
        self.turn_to(usize::MAX);
        self.open = None;
        self.queue.extend(text.as_bytes());
        self.queue.push_back(b'\n');
    }

    /// Queues a control sequence for the terminal. The caller has completed its last line.
    pub(super) fn move_cursor(&mut self, sequence: &str) {
        self.queue.extend(sequence.as_bytes());
    }

    /// Ends the incomplete line of any other stream. Returns whether `number` itself has one, which it may continue.
    fn turn_to(&mut self, number: usize) -> bool {
        let same = self.open == Some(number);
        if !same && self.open.take().is_some() {
            self.queue.push_back(b'\n');
        }
        same
    }

    /// Drops what waits: the output is not read any more.
    pub(super) fn give_up(&mut self) {
        self.broken = true;
        self.queue.clear();
    }

    /// Writes as much as the target takes without blocking.
    pub(super) fn poll(&mut self) {
        while self.wants_to_write() && sys::writable(self.as_fd()) {
            let queue = self.queue.make_contiguous();
            let written = match self.framed {
                None => self.target.write(piece(queue, WRITE_BYTES_MAX)),
                // Sinks share the channel, and hosts share the launcher's output: a frame is written whole, and has
                // whole lines.
                Some(kind) => {
                    let piece = piece(queue, usize::MAX);
                    self.target.write_all(&framed(kind, piece)).map(|()| piece.len())
                }
            };
            match written {
                Ok(count) => drop(self.queue.drain(..count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => {
                    self.give_up();
                    // A reader that closes the pipe is not an error.
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

/// As many whole lines as fit into `bytes_max`, or a piece of a longer line.
fn piece(queue: &[u8], bytes_max: usize) -> &[u8] {
    let most = &queue[..queue.len().min(bytes_max)];
    match most.iter().rposition(|byte| *byte == b'\n') {
        Some(end) => &most[..=end],
        None => most,
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

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
            Stream::new(File::from(OwnedFd::from(pipe)), label(rank), number)
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
        assert!(pair.one.was_cut && !pair.other.was_cut);
        assert!(!pair.one.waits());
    }

    #[test]
    fn one_write_takes_whole_lines_or_a_piece() {
        assert_eq!(piece(b"ab\ncd\nef", 8), b"ab\ncd\n");
        assert_eq!(piece(b"ab", 8), b"ab");
        assert_eq!(piece(b"abcdefghijkl\n", 8), b"abcdefgh");
    }
}
