//! Makes the ranks of a job record what they do, and writes the result when the job is over.

use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use ferrywire_host::trace::TracePart;
use ferrywire_runtime::words::number;

use super::stats::Statistics;
use super::{merge, perfetto};

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

/// A recording while the job runs.
pub(crate) struct Recording {
    request: RecordingRequest,
    trace: Option<File>,
    /// Where each rank has a file.
    folder: PathBuf,
    /// How many bytes each may write.
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

impl Recording {
    /// Opens the file of the result and a folder for those of the ranks. `mark` is the mark of the job.
    pub(crate) fn begin(
        request: &RecordingRequest,
        ranks: u32,
        mark: &str,
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
        let folder = std::env::temp_dir().join(format!("ferry-trace-{mark}"));
        let made = DirBuilder::new().mode(0o700).create(&folder);
        made.map_err(|error| NoRecording {
            what: "what ranks record",
            path: folder.clone(),
            error,
        })?;
        let share = BYTES_OF_ALL / u64::from(ranks.max(1));
        let bytes_max = share.clamp(BYTES_OF_RANK_MIN, BYTES_OF_RANK_MAX);
        Ok(Some(Recording { request: request.clone(), trace, folder, bytes_max }))
    }

    /// The value of the variable that makes a rank record.
    pub(crate) fn variable(&self) -> String {
        format!("{}:{}", self.bytes_max, self.folder.display())
    }

    /// Writes the result. Returns what to tell the user.
    pub(crate) fn end(mut self) -> Vec<String> {
        let (parts, mut lines) = self.parts();
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
                super::stats::time(last - rank.start_ns)
            ));
        }
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

    /// Reads what the ranks have recorded, by their names.
    fn parts(&self) -> (Vec<(String, TracePart)>, Vec<String>) {
        let (mut parts, mut lines) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            match read(&entry.path()) {
                Ok(part) => parts.push((name, part)),
                Err(error) => lines.push(format!("rank {name} is missing in the trace: {error}")),
            }
        }
        (parts, lines)
    }
}

/// Removes a trace that is of no use. What is not a file, such as /dev/null, stays.
fn remove(path: &Path) {
    if path.metadata().is_ok_and(|facts| facts.is_file()) {
        let _ = fs::remove_file(path);
    }
}

/// Reads the file of a rank, and removes it.
fn read(path: &Path) -> io::Result<TracePart> {
    let part = TracePart::read(path);
    let _ = fs::remove_file(path);
    part
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

const NOTHING: &str =
    "no rank has recorded anything: the program has not called MPI_Init, or uses another MPI";
/// How much all ranks may record together, and each of them.
const BYTES_OF_ALL: u64 = 1 << 30;
const BYTES_OF_RANK_MIN: u64 = 1 << 20;
const BYTES_OF_RANK_MAX: u64 = 128 << 20;
