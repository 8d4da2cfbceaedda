//! What a host has sent of the recordings of its ranks, as the launcher keeps it until the job is over.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use ferrywire_host::trace::{RecordingClock, TracePart};

use super::RecordedPart;
use super::clock::HostClock;

/// The recordings of a host.
///
/// They are in a file without a name, so that nothing is left if the launcher is killed.
#[derive(Default)]
pub(crate) struct HostRecordings {
    file: Option<File>,
    recordings: Vec<ReceivedRecording>,
    /// What is missing, and why.
    missing: Vec<String>,
}

/// The recording of a rank, in pieces.
struct ReceivedRecording {
    /// What the rank is called.
    rank: String,
    clock: RecordingClock,
    /// Where it begins in the file, how long it is, and how much of it has come.
    at: u64,
    bytes: u64,
    received: u64,
    /// Why it cannot be kept.
    error: Option<io::Error>,
}

impl HostRecordings {
    /// The recording of a rank follows, in so many bytes.
    pub(crate) fn begin(&mut self, rank: String, bytes: u64, clock: RecordingClock) {
        let at = self.recordings.last().map_or(0, |last| last.at + last.received);
        let recording = ReceivedRecording { rank, clock, at, bytes, received: 0, error: None };
        self.recordings.push(recording);
    }

    /// A recording is missing.
    pub(crate) fn miss(&mut self, rank: &str, why: &str) {
        self.missing.push(format!("rank {rank} is missing in the trace: {why}"));
    }

    /// The next piece of the last recording. What is longer than was announced is dropped.
    pub(crate) fn add(&mut self, piece: &[u8]) {
        let Some(last) = self.recordings.last_mut().filter(|last| last.error.is_none()) else {
            return;
        };
        let room = usize::try_from(last.bytes - last.received).unwrap_or(usize::MAX);
        let piece = &piece[..piece.len().min(room)];
        let file = match &mut self.file {
            Some(file) => Ok(file),
            none => nameless().map(|file| none.insert(file)),
        };
        match file.and_then(|file| file.write_all_at(piece, last.at + last.received)) {
            Ok(()) => last.received += piece.len() as u64,
            Err(error) => last.error = Some(error),
        }
    }

    /// All recordings, with the name and the clock of the host, and what to tell the user about those that are missing.
    pub(crate) fn parts(&self, host: &str, clock: &HostClock) -> (Vec<RecordedPart>, Vec<String>) {
        let (mut parts, mut lines) = (Vec::new(), self.missing.clone());
        for recording in &self.recordings {
            match self.part(recording) {
                Ok(part) => parts.push(RecordedPart {
                    name: recording.rank.clone(),
                    host: Some((host.to_owned(), clock.clone())),
                    part,
                }),
                Err(error) => {
                    lines.push(format!("rank {} is missing in the trace: {error}", recording.rank))
                }
            }
        }
        (parts, lines)
    }

    fn part(&self, recording: &ReceivedRecording) -> io::Result<TracePart> {
        if let Some(error) = &recording.error {
            return Err(io::Error::new(error.kind(), error.to_string()));
        }
        let mut bytes = vec![0; usize::try_from(recording.received).unwrap_or(0)];
        if let Some(file) = &self.file {
            file.read_exact_at(&mut bytes, recording.at)?;
        }
        let part = TracePart::parse(&bytes, recording.clock);
        part.filter(|_| recording.received == recording.bytes)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it did not arrive whole"))
    }
}

/// A file in the temporary folder that has no name any more.
fn nameless() -> io::Result<File> {
    let random = RandomState::new().hash_one(std::process::id());
    let path = std::env::temp_dir().join(format!("ferry-trace-{random:016x}"));
    let mut options = File::options();
    let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_are_kept_in_pieces_and_apart() {
        let mut host = HostRecordings::default();
        for (rank, pieces) in [("0", [&b"abc"[..], b"de"]), ("1", [b"f", b"ghij"])] {
            host.begin(rank.into(), 5, RecordingClock::default());
            pieces.into_iter().for_each(|piece| host.add(piece));
            host.add(b"more than was announced");
        }
        let file = host.file.as_ref().expect("a file");
        let mut bytes = [0; 10];
        file.read_exact_at(&mut bytes, 0).expect("all of it");
        assert_eq!(&bytes, b"abcdefghij");
        assert!(file.read_exact_at(&mut [0], 10).is_err(), "nothing more is kept");
    }

    #[test]
    fn what_is_missing_is_told() {
        let mut host = HostRecordings::default();
        host.add(b"a piece of nothing");
        host.begin("3".into(), 64, RecordingClock::default());
        host.add(&[0; 10]);
        host.miss("4", "no room");
        let (parts, lines) = host.parts("east", &HostClock::default());
        assert!(parts.is_empty());
        let expected = [
            "rank 4 is missing in the trace: no room",
            "rank 3 is missing in the trace: it did not arrive whole",
        ];
        assert_eq!(lines, expected);
    }
}
