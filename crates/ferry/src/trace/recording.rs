//! Makes the ranks of a job record what they do, and writes the result when the job is over.

use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};

use ferrywire_host::trace::{RECORD_BYTES, RecordingClock, TracePart};
use ferrywire_runtime::words::number;

use super::stats::{Statistics, time};
use super::{RecordedPart, Timeline, merge, perfetto};

/// What the user wants to know about a job.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct RecordingRequest {
    /// The file for the trace.
    pub(crate) trace: Option<PathBuf>,
    /// Statistics are printed.
    pub(crate) stats: bool,
    /// The file for statistics as JSON.
    pub(crate) stats_file: Option<PathBuf>,
}

impl RecordingRequest {
    /// Whether ranks have to record anything.
    pub(crate) fn is_any(&self) -> bool {
        self.trace.is_some() || self.stats || self.stats_file.is_some()
    }
}

/// The result of a recording, while the job runs.
pub(crate) struct Recording {
    request: RecordingRequest,
    trace: Option<File>,
    /// How many bytes each rank may write.
    pub(crate) bytes_max: u64,
}

/// Where the ranks of a host record what they do. Removed with the value.
pub(crate) struct RecordingFolder {
    /// Has a file of each rank, by its name.
    folder: PathBuf,
    bytes_max: u64,
}

/// Why a job that was to be recorded does not start.
#[derive(Debug)]
pub(crate) struct NoRecording {
    what: &'static str,
    path: PathBuf,
    error: io::Error,
}

impl fmt::Display for NoRecording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot write {} to {}: {}", self.what, self.path.display(), self.error)
    }
}

impl RecordingFolder {
    /// Makes the folder of the ranks of this host. `mark` is the mark of the job.
    pub(crate) fn create(mark: &str, bytes_max: u64) -> Result<RecordingFolder, NoRecording> {
        let folder = path_of(mark);
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => Ok(RecordingFolder { folder, bytes_max }),
            Err(error) => Err(NoRecording { what: "what ranks record", path: folder, error }),
        }
    }

    /// The value of the variable that makes a rank record.
    pub(crate) fn variable(&self) -> String {
        format!("{}:{}", self.bytes_max, self.folder.display())
    }

    /// What the ranks have recorded, by their names.
    pub(crate) fn recordings(&self) -> impl Iterator<Item = (String, io::Result<RankRecording>)> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.map(|entry| {
            let path = entry.path();
            let recording = RankRecording::open(&path);
            // The open file is enough, and its room is free as soon as it has been read.
            let _ = fs::remove_file(path);
            (entry.file_name().to_string_lossy().into_owned(), recording)
        })
    }

    /// The same, read, and what to tell the user about those that cannot be.
    pub(crate) fn parts(&self) -> (Vec<RecordedPart>, Vec<String>) {
        let (mut parts, mut lines) = (Vec::new(), Vec::new());
        for (name, recording) in self.recordings() {
            match recording.and_then(|recording| recording.part()) {
                Ok(part) => parts.push(RecordedPart { name, host: None, part }),
                Err(error) => lines.push(format!("rank {name} is missing in the trace: {error}")),
            }
        }
        (parts, lines)
    }
}

impl Drop for RecordingFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Removes the folder of a job whose launcher or daemon was killed.
pub(crate) fn remove_folder(mark: &str) {
    let _ = fs::remove_dir_all(path_of(mark));
}

fn path_of(mark: &str) -> PathBuf {
    std::env::temp_dir().join(format!("ferry-trace-{mark}"))
}

/// The file of a rank that has ended.
pub(crate) struct RankRecording {
    file: File,
    /// How much of it was written.
    pub(crate) bytes: u64,
    /// A moment after that.
    pub(crate) clock: RecordingClock,
}

impl RankRecording {
    fn open(path: &Path) -> io::Result<RankRecording> {
        let file = File::open(path)?;
        let mut first = vec![0; usize::try_from(RECORD_BYTES).unwrap_or(0)];
        file.read_exact_at(&mut first, 0)?;
        let clock = RecordingClock::of(&first).ok_or_else(not_a_recording)?;
        let mut recording = RankRecording { bytes: file.metadata()?.len(), file, clock };
        // Room is reserved in large pieces, whose last records may be empty.
        while recording.bytes > 0 {
            let at = recording.bytes.saturating_sub(PIECE_BYTES);
            let piece = recording.piece(at)?;
            let Some(last) = piece.iter().rposition(|&byte| byte != 0) else {
                recording.bytes = at;
                continue;
            };
            let used = at + last as u64 + 1;
            recording.bytes = used.next_multiple_of(RECORD_BYTES).min(recording.bytes);
            break;
        }
        Ok(recording)
    }

    /// A piece of it.
    fn piece(&self, at: u64) -> io::Result<Vec<u8>> {
        let length = self.bytes.saturating_sub(at).min(PIECE_BYTES);
        let mut piece = vec![0; usize::try_from(length).unwrap_or(0)];
        self.file.read_exact_at(&mut piece, at)?;
        Ok(piece)
    }

    /// All of it, in bounded pieces.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = io::Result<Vec<u8>>> {
        let starts = (0..self.bytes.div_ceil(PIECE_BYTES)).map(|nth| nth * PIECE_BYTES);
        starts.map(|at| self.piece(at))
    }

    fn part(&self) -> io::Result<TracePart> {
        let mut bytes = vec![0; usize::try_from(self.bytes).unwrap_or(0)];
        self.file.read_exact_at(&mut bytes, 0)?;
        TracePart::parse(&bytes, self.clock).ok_or_else(not_a_recording)
    }
}

fn not_a_recording() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it is not the trace of a rank")
}

impl Recording {
    /// Opens the file of the result.
    pub(crate) fn begin(
        request: &RecordingRequest,
        ranks: u32,
    ) -> Result<Option<Recording>, NoRecording> {
        if !request.is_any() {
            return Ok(None);
        }
        let open = |what, path: &PathBuf| {
            let failed = |error| NoRecording { what, path: path.clone(), error };
            File::create(path).map_err(failed)
        };
        let trace = request.trace.as_ref().map(|path| open("the trace", path)).transpose()?;
        if let Some(path) = &request.stats_file {
            open("the statistics", path)?;
        }
        let share = BYTES_OF_ALL / u64::from(ranks.max(1));
        let bytes_max = share.clamp(BYTES_OF_RANK_MIN, BYTES_OF_RANK_MAX);
        Ok(Some(Recording { request: request.clone(), trace, bytes_max }))
    }

    /// Writes the result: what ranks have recorded. Returns what to tell the user, after the lines that are known already.
    pub(crate) fn end(mut self, parts: Vec<RecordedPart>, mut lines: Vec<String>) -> Vec<String> {
        if parts.is_empty() {
            self.request.trace.iter().for_each(|path| remove(path));
            lines.push(NOTHING.to_owned());
            return lines;
        }
        let timeline = merge::merge(parts);
        for rank in timeline.ranks.iter().filter(|rank| rank.dropped > 0) {
            let why = match &rank.trouble {
                Some(error) => error.clone(),
                None => format!("the limit of {} MiB is reached", self.bytes_max >> 20),
            };
            let last = rank.calls.last().map_or(rank.start_ns, |call| call.end_ns);
            lines.push(format!(
                "rank {} was recorded for its first {} only: {why}",
                rank.name,
                time(last - rank.start_ns)
            ));
        }
        lines.extend(clock_lines(&timeline));
        if let (Some(file), Some(path)) = (self.trace.take(), &self.request.trace) {
            let mut out = BufWriter::new(file);
            let written = perfetto::write(&timeline, &mut out).and_then(|()| out.flush());
            lines.push(match written {
                Ok(()) => format!(
                    "{} calls of {} ranks are in {}: open it at https://ui.perfetto.dev, or run ferry report",
                    number(timeline.calls()),
                    timeline.ranks.len(),
                    path.display(),
                ),
                Err(error) => {
                    remove(path);
                    format!("cannot write the trace to {}: {error}", path.display())
                }
            });
        }
        if self.request.stats || self.request.stats_file.is_some() {
            let stats = Statistics::of(&timeline);
            if let Some(path) = &self.request.stats_file {
                let text = serde_json::to_string_pretty(&stats).expect("statistics are plain data");
                if let Err(error) = fs::write(path, text + "\n") {
                    lines.push(format!(
                        "cannot write the statistics to {}: {error}",
                        path.display()
                    ));
                }
            }
            if self.request.stats {
                lines.push(stats.lines().join("\n"));
            }
        }
        lines
    }
}

/// Removes a trace that is of no use. What is not a file, such as /dev/null, stays.
fn remove(path: &Path) {
    if path.metadata().is_ok_and(|facts| facts.is_file()) {
        let _ = fs::remove_file(path);
    }
}

/// How well the times of hosts can be compared, and what follows from that.
fn clock_lines(timeline: &Timeline) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(error_ns) = timeline.clock_error_ns() {
        lines.push(format!("times on different hosts can be compared within {}", time(error_ns)));
    }
    let moved = timeline.messages.iter().map(|message| message.moved_ns).filter(|&ns| ns > 0);
    if let Some(most) = moved.clone().max() {
        lines.push(format!(
            "{} of {} messages arrived before they were sent by these clocks, by {} at most: they are shown as arriving \
             when they were sent",
            number(moved.count() as u64),
            number(timeline.messages.len() as u64),
            time(most)
        ));
    }
    lines
}

const NOTHING: &str =
    "no rank has recorded anything: the program has not called MPI_Init, or uses another MPI";
/// How much of a recording is read, or sent to the launcher, in one piece.
const PIECE_BYTES: u64 = 256 << 10;
/// How much all ranks may record together, and each of them.
const BYTES_OF_ALL: u64 = 1 << 30;
const BYTES_OF_RANK_MIN: u64 = 1 << 20;
const BYTES_OF_RANK_MAX: u64 = 128 << 20;
