//! Files: random accesses against an array of bytes, requests, ranks that leave, errors.
//!
//! Each run has a new seed, which a failure prints:
//!
//!     SEED=7 cargo test -p ferrywire --test files
#![allow(missing_docs)]

mod common;
#[path = "common/random_files.rs"]
mod random_files;

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use common::{block_on, local, watched};
use ferrywire::{Error, File, FileOptions, FileView, Plain, World};
use random_files::{FileItem, random_accesses};

/// The path of a new file, which is removed with the test.
struct TemporaryFile(PathBuf);

impl TemporaryFile {
    fn new(name: &str) -> TemporaryFile {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("ferrywire-{name}-{}-{number}", std::process::id());
        TemporaryFile(std::env::temp_dir().join(name))
    }
}

impl std::ops::Deref for TemporaryFile {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for TemporaryFile {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn random_jobs<T: FileItem>() {
    let given = std::env::var("SEED").ok().map(|seed| seed.parse().expect("SEED is a number"));
    let is_full = std::env::var_os("FULL").is_some();
    let (jobs, rounds) = match (given, is_full) {
        (Some(_), _) => (1, 400),
        (None, true) => (40, 400),
        (None, false) => (8, 100),
    };
    for _ in 0..jobs {
        let seed: u64 = given.unwrap_or_else(|| RandomState::new().hash_one(0));
        println!("SEED={seed} cargo test -p ferrywire --test files");
        let path = TemporaryFile::new("random");
        let ranks = 1 + u32::try_from(seed % 5).unwrap();
        local(ranks, |world| random_accesses::<T>(world, &path, seed, rounds).unwrap());
    }
}

#[test]
fn random_accesses_to_bytes() {
    random_jobs::<u8>();
}

#[test]
fn random_accesses_to_numbers() {
    random_jobs::<f64>();
}

#[test]
fn random_accesses_to_triples() {
    random_jobs::<[u16; 3]>();
}

#[derive(Clone, Copy, Debug, PartialEq, Plain)]
#[repr(C)]
struct Record {
    place: [f32; 3],
    id: u32,
}

#[test]
fn records_are_in_the_file_as_in_memory() {
    let path = TemporaryFile::new("records");
    local(3, |world| {
        let rank = world.rank();
        let file = File::create(world, &path).unwrap();
        file.write_ordered(if rank == 0 { b"head" } else { b"" }).unwrap();
        let view = FileView::strided(1, 3).after(4 + u64::from(rank) * 16);
        let file = file.set_view::<Record>(&view).unwrap();
        let mine = [1, 2].map(|id| Record { place: [rank as f32, 0.5, -1.0], id: 10 * rank + id });
        file.write_all(&mine).unwrap();
        let mut all = [mine[0]; 7];
        let file = file.set_view::<Record>(&FileView::all().after(4)).unwrap();
        assert_eq!(file.read_at_all(0, &mut all).unwrap(), 6);
        assert_eq!(all.map(|record| record.id)[..6], [1, 11, 21, 2, 12, 22]);
        file.close().unwrap();
    });
    assert_eq!(fs::read(&path).unwrap().len(), 4 + 6 * 16);
}

#[test]
fn requests_complete_in_any_order_and_as_futures() {
    let path = TemporaryFile::new("requests");
    local(4, |world| {
        let (rank, size) = (u64::from(world.rank()), u64::from(world.size()));
        let file = File::create(world, &path).unwrap();
        let file = file.set_view::<u64>(&FileView::all()).unwrap();
        let number = |step: u64| 1000 * step + rank;
        // No rank waits for another one when it starts them.
        if rank > 0 {
            world.receive_one::<u8>(world.rank() - 1, 0).unwrap();
        }
        let written: Vec<_> = (0..20)
            .map(|step| match step % 3 {
                0 => file.iwrite_at(step * size + rank, [number(step)]).unwrap(),
                _ => file.iwrite_at_all(step * size + rank, vec![number(step)]).unwrap(),
            })
            .collect();
        if rank + 1 < size {
            world.send(&1u8, world.rank() + 1, 0).unwrap();
        }
        for (step, request) in written.into_iter().enumerate().rev() {
            assert_eq!(request.wait().unwrap(), [number(step as u64)]);
        }
        file.sync().unwrap();
        block_on(async {
            let everything = file.iread_at_all(0, 100)?;
            let mut one = file.iread_at(rank, 1)?;
            let one = loop {
                if let Some(done) = one.test() {
                    break done?;
                }
            };
            assert_eq!(one, [rank]);
            let expected: Vec<u64> =
                (0..20).flat_map(|step| (0..size).map(move |rank| 1000 * step + rank)).collect();
            assert_eq!(everything.await?, expected);
            Ok::<_, Error>(())
        })
        .unwrap();
        file.close().unwrap();
    });
}

#[test]
fn a_request_that_is_dropped_is_completed_by_close() {
    let path = TemporaryFile::new("dropped");
    local(3, |world| {
        let file = File::create(world, &path).unwrap();
        for step in 0..50u8 {
            let offset = u64::from(3 * u32::from(step) + world.rank());
            drop(file.iwrite_at_all(offset, vec![b'a' + step % 26]).unwrap());
        }
        drop(file.iread(1000).unwrap());
        file.close().unwrap();
    });
    let expected: Vec<u8> = (0..50).flat_map(|step| [b'a' + step % 26; 3]).collect();
    assert_eq!(fs::read(&path).unwrap(), expected);
}

/// A byte that says whose it is.
fn byte_of(world: &World) -> u8 {
    u8::try_from(world.rank()).unwrap()
}

#[test]
fn a_rank_that_leaves_does_not_hold_up_the_others() {
    let path = TemporaryFile::new("left");
    local(4, |world| {
        let mut options = FileOptions::new();
        options.read(true).write(true).create(true).delete_on_close(true);
        let file = options.open(world, &path).unwrap();
        if world.rank() == 0 {
            // Its last request still runs.
            drop(file.iwrite_at(0, vec![7; 100_000]).unwrap());
            drop(file);
            return;
        }
        file.write_shared(&[1]).unwrap();
        file.write_at(200_000, &[byte_of(world)]).unwrap();
        let mut found = [0];
        assert_eq!(file.read_at(200_000, &mut found).unwrap(), 1);
        assert!((1..4).contains(&found[0]));
    });
    // Rank 0 deletes it when its request is complete, which may be after the job.
    watched(|| {
        while path.exists() {
            std::thread::yield_now();
        }
    });
}

#[test]
fn what_is_written_in_atomic_mode_is_not_mixed() {
    let path = TemporaryFile::new("atomic");
    local(4, |world| {
        let file = File::create(world, &path).unwrap();
        file.set_len(512).unwrap();
        file.set_atomic(true).unwrap();
        for step in 0..50 {
            let mut found = [0; 512];
            match (step + world.rank()) % 2 {
                0 => file.write_at(0, &[byte_of(world); 512]).unwrap(),
                _ => assert_eq!(file.read_at(0, &mut found).unwrap(), 512),
            }
            assert!(found.iter().all(|byte| *byte == found[0]), "{found:?}");
        }
        file.close().unwrap();
    });
}

#[test]
fn truncated_appended_and_created_only_once() {
    let path = TemporaryFile::new("modes");
    local(2, |world| {
        let file = File::create(world, &path).unwrap();
        file.write_ordered(b"12345").unwrap();
        file.close().unwrap();
        let mut append = FileOptions::new();
        let file = append.write(true).append(true).open(world, &path).unwrap();
        assert_eq!((file.position(), file.shared_position().unwrap()), (10, 10));
        file.write_ordered(b"67").unwrap();
        assert_eq!(file.len().unwrap(), 14);
        file.close().unwrap();
        let file = File::open(world, &path).unwrap();
        let mut text = [0; 20];
        assert_eq!(file.read(&mut text).unwrap(), 14);
        assert_eq!(&text[..14], b"12345123456767");
        file.close().unwrap();
        let mut once = FileOptions::new();
        let error = once.write(true).create_new(true).open(world, &path).unwrap_err();
        let Error::File { kind, .. } = error else { panic!("{error}") };
        assert_eq!(kind, ErrorKind::AlreadyExists);
        let file = File::create(world, &path).unwrap();
        assert_eq!(file.len().unwrap(), 0);
        file.close().unwrap();
    });
}

#[test]
fn errors_are_those_of_all_ranks() {
    let path = TemporaryFile::new("errors");
    let missing = TemporaryFile::new("missing");
    let shown = |path: &Path| format!("the file \"{}\"", path.display());
    local(3, |world| {
        let rank = world.rank();
        let says = |error: Error, text: &str, code: &str, expected: ErrorKind| {
            assert_eq!(error.to_string(), format!("{text} [{code}]"));
            let Error::File { kind, .. } = error else { panic!("{error}") };
            assert_eq!(kind, expected);
        };
        let error = File::open(world, &missing).unwrap_err();
        let text = format!("open, in {}: No such file or directory (os error 2)", shown(&missing));
        let elsewhere = "the call failed at rank 0: ";
        let others = text.replace(": No", &format!(": {elsewhere}No"));
        says(error, if rank == 0 { &text } else { &others }, "FW0602", ErrorKind::NotFound);

        let error = FileOptions::new().open(world, &path).unwrap_err();
        let text = format!("open, in {}: the options have neither read nor write", shown(&path));
        says(error, &text, "FW0606", ErrorKind::InvalidInput);

        let file = File::create(world, &path).unwrap();
        file.write_at_all(0, b"text").unwrap();
        // One rank has an offset that no file has.
        let file = file.set_view::<u64>(&FileView::all()).unwrap();
        let offset = if rank == 1 { u64::MAX / 2 } else { 0 };
        let error = file.write_at_all(offset, &[1]).unwrap_err();
        let (kind, code, why) = match rank {
            1 => (
                ErrorKind::FileTooLarge,
                "FW0613",
                "the access is beyond the largest offset, or the view has no bytes",
            ),
            _ => (
                ErrorKind::InvalidInput,
                "FW0001",
                "the call failed at rank 1: its arguments are invalid",
            ),
        };
        says(error, &format!("write_at_all of 8 bytes, in {}: {why}", shown(&path)), code, kind);
        assert_eq!(file.len().unwrap(), 4);
        let error = file.seek(std::io::SeekFrom::Current(-1)).unwrap_err();
        let why = "the position would be before the beginning of the view";
        says(
            error,
            &format!("seek, in {}: {why}", shown(&path)),
            "FW0613",
            ErrorKind::InvalidInput,
        );
        let error = file.set_view::<u8>(&FileView::strided(3, 2)).unwrap_err();
        let why = "no 3 items are in every 2";
        says(
            error,
            &format!("set_view, in {}: {why}", shown(&path)),
            "FW0612",
            ErrorKind::InvalidInput,
        );

        let file = File::open(world, &path).unwrap();
        let error = file.write(b"more").unwrap_err();
        let why = "the file is not open for writing";
        let text = format!("write of 4 bytes, in {}: {why}", shown(&path));
        says(error, &text, "FW0604", ErrorKind::PermissionDenied);
        let error = file.iwrite_all(b"more".to_vec()).err().unwrap();
        assert!(error.to_string().contains(why), "{error}");
        let view = FileView::blocks([2..3, 0..1], 5);
        let error = file.set_view::<u8>(&view).unwrap_err();
        assert!(error.to_string().contains("decrease"), "{error}");

        let file = File::open(world, &path).unwrap();
        let error = file.set_view::<[u8; 0]>(&FileView::all()).unwrap_err();
        assert!(error.to_string().contains("items of size zero"), "{error}");
    });
}

#[test]
fn no_items_are_nothing() {
    let path = TemporaryFile::new("nothing");
    local(3, |world| {
        let file = File::create(world, &path).unwrap();
        // A rank that sees nothing takes part.
        let block = (world.rank() != 1).then_some(0..2);
        let file = file.set_view::<u16>(&FileView::blocks(block, 2)).unwrap();
        let mine: &[u16] = if world.rank() == 1 { &[] } else { &[5, 6, 7] };
        file.write_at_all(0, mine).unwrap();
        assert_eq!(file.read_at(0, &mut []).unwrap(), 0);
        assert_eq!(file.len().unwrap(), 6);
        file.close().unwrap();
    });
    local(1, |world| {
        let file = File::open(world, &path).unwrap();
        assert_eq!(format!("{file:?}"), format!("the file \"{}\", rank 0 of 1", path.display()));
    });
}
