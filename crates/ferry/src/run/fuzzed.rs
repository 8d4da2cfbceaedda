//! Entry points of fuzz targets: each function takes any bytes, and must neither panic nor take memory without limit.
//! Only builds for fuzzing contain them.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Seek, Write};
use std::os::unix::ffi::OsStringExt;

use ferrywire_host::trace::{RecordingClock, TracePart};

use super::wire::{self, FrameKind, Frames, News, Order};
use super::{host_list, options};
use crate::job_facts::FactsReport;
use crate::why;

/// Parses bytes as they come over the pipe between launcher and daemon, in either direction.
pub(crate) fn control(bytes: &[u8], pipe: &mut File) {
    pipe.set_len(0).and_then(|()| pipe.rewind()).expect("a file");
    pipe.write_all(bytes).and_then(|()| pipe.rewind()).expect("a file");
    let mut frames = Frames::new(pipe.try_clone().expect("a copy"));
    while frames.poll().is_ok() {
        while let Ok(Some((kind, body))) = frames.next() {
            match kind {
                FrameKind::Words => {
                    let _ = wire::understood::<Order>(&body);
                    let _ = wire::understood::<News>(&body);
                }
                FrameKind::Facts => {
                    let report = FactsReport::parse(&body).unwrap_or_default();
                    let seen = report.seen();
                    let _ = (
                        why::deadlock(&seen),
                        why::groups(&seen),
                        why::mistakes(&seen, true, true),
                    );
                }
                FrameKind::Trace => {
                    if let Some(clock) = RecordingClock::of(&body) {
                        let part = TracePart::parse(&body, clock);
                        assert!(part.is_some(), "it has the header of a recording");
                    }
                }
                FrameKind::Out | FrameKind::Err => {}
            }
        }
    }
}

/// Parses a command line, one word per line, and the text of a hostfile.
pub(crate) fn command_line(bytes: &[u8]) {
    let words: Vec<OsString> =
        bytes.split(|byte| *byte == b'\n').map(|word| OsString::from_vec(word.to_vec())).collect();
    // A fuzzer must not make us read files.
    let names_a_file = |word: &OsString| {
        let word = word.to_string_lossy().into_owned();
        word.contains("file") || word.trim_start_matches('-').starts_with('f')
    };
    if !words.iter().any(names_a_file) {
        let _ = options::parse(&words);
    }
    if let Ok(text) = str::from_utf8(bytes) {
        let _ = host_list::listed(text);
        if let Ok(found) = host_list::in_text("hostfile", text) {
            let size = host_list::capacity(&found, None).min(1 << 12);
            assert_eq!(
                host_list::deal(&found, None, size).iter().map(|share| share.ranks).sum::<u32>(),
                size
            );
        }
    }
}
