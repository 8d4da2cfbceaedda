//! Random accesses to a file against an array of bytes, for ranks that are threads or processes.
//!
//! All ranks draw the same numbers, so each knows what all of them do, and what must be in the file.

use std::fmt::Debug;
use std::fs;
use std::io::SeekFrom;
use std::ops::Range;
use std::path::Path;

use ferrywire::{Comm, Error, File, FileOptions, FileView, Plain};

/// Items that a number becomes, with the bytes that they have in the file.
pub(crate) trait FileItem: Plain + PartialEq + Debug {
    fn of(number: u64) -> Self;
    fn bytes(&self) -> Vec<u8>;
}

impl FileItem for u8 {
    fn of(number: u64) -> u8 {
        number.to_le_bytes()[0]
    }

    fn bytes(&self) -> Vec<u8> {
        vec![*self]
    }
}

impl FileItem for f64 {
    fn of(number: u64) -> f64 {
        // Any number that is equal to itself.
        f64::from(u32::try_from(number >> 32).unwrap())
    }

    fn bytes(&self) -> Vec<u8> {
        self.to_ne_bytes().into()
    }
}

impl FileItem for [u16; 3] {
    fn of(number: u64) -> [u16; 3] {
        [0, 16, 32].map(|shift| u16::try_from(number >> shift & 0xffff).unwrap())
    }

    fn bytes(&self) -> Vec<u8> {
        self.iter().flat_map(|number| number.to_ne_bytes()).collect()
    }
}

/// The most items of an access, and the highest offset of one.
const COUNT_MAX: u32 = 40;
const OFFSET_MAX: u32 = 150;

/// Random numbers that follow from a seed (splitmix64).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u32) -> u64 {
        self.next() % u64::from(limit)
    }

    fn is_one_in(&mut self, chances: u32) -> bool {
        self.below(chances) == 0
    }
}

/// The items that ranks see: places in a slot, which repeats. Either each rank has its own slots, or all have the same.
struct Shape {
    base: u64,
    slot: u64,
    /// How many slots are before the next one of the same rank.
    slots: u64,
    places: Vec<u64>,
    item_bytes: u64,
}

impl Shape {
    fn all(item_bytes: u64) -> Shape {
        Shape { base: 0, slot: 1, slots: 1, places: vec![0], item_bytes }
    }

    fn draw(draw: &mut Draw, ranks: u32, item_bytes: u64) -> Shape {
        let slots = if draw.is_one_in(3) { 1 } else { u64::from(ranks) };
        let slot = 1 + draw.below(12);
        let mut places: Vec<u64> = (0..slot).filter(|_| !draw.is_one_in(3)).collect();
        if places.is_empty() {
            places.push(slot - 1);
        }
        Shape { base: draw.below(30), slot, slots, places, item_bytes }
    }

    fn is_common(&self) -> bool {
        self.slots == 1
    }

    fn first_slot(&self, rank: u32) -> u64 {
        if self.is_common() { 0 } else { u64::from(rank) }
    }

    /// Where an item is, in bytes of the file.
    fn offset(&self, rank: u32, item: u64) -> u64 {
        let (round, place) =
            (item / self.len(), self.places[usize::try_from(item % self.len()).unwrap()]);
        let slot = round * self.slots + self.first_slot(rank);
        self.base + (slot * self.slot + place) * self.item_bytes
    }

    fn len(&self) -> u64 {
        self.places.len() as u64
    }

    fn runs(&self) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for &place in &self.places {
            match runs.last_mut() {
                Some(run) if run.end == place => run.end += 1,
                _ => runs.push(place..place + 1),
            }
        }
        runs
    }

    /// The view of a rank, in one of the ways to write it.
    fn view(&self, draw: &mut Draw, rank: u32) -> FileView {
        let (start, extent) = (self.first_slot(rank) * self.slot, self.slot * self.slots);
        let runs = self.runs();
        let way = draw.below(3);
        let view = match (&runs[..], way) {
            ([run], 0) => {
                let before = (start + run.start) * self.item_bytes;
                return FileView::strided(run.end - run.start, extent).after(self.base + before);
            }
            ([run], 1) => {
                let mine = self.first_slot(rank);
                FileView::subarray([self.slots, self.slot], [mine..mine + 1, run.clone()])
            }
            _ => {
                FileView::blocks(runs.iter().map(|run| run.start + start..run.end + start), extent)
            }
        };
        view.after(self.base)
    }
}

/// Where an access begins.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    Offset,
    Own,
    Shared,
}

struct Run<'a, T: FileItem> {
    world: &'a Comm,
    path: &'a Path,
    draw: Draw,
    file: Option<File<T>>,
    shape: Shape,
    /// What must be in the file.
    model: Vec<u8>,
    own: Vec<u64>,
    shared: u64,
}

/// Runs random accesses. All ranks call it, with the same arguments; the file must not exist.
pub(crate) fn random_accesses<T: FileItem>(
    world: &Comm,
    path: &Path,
    seed: u64,
    rounds: u32,
) -> Result<(), Error> {
    let shape = Shape::all(size_of::<T>() as u64);
    let own = vec![0; world.size() as usize];
    let (draw, model) = (Draw(seed), Vec::new());
    let mut run: Run<'_, T> = Run { world, path, draw, file: None, shape, model, own, shared: 0 };
    run.reopen(true)?;
    for round in 0..rounds {
        run.step()?;
        let len = run.file().len()?;
        assert_eq!(len, run.model.len() as u64, "seed {seed}, round {round}");
        world.barrier()?;
    }
    run.file.take().expect("it is open").close()?;
    world.barrier()?;
    assert_eq!(fs::read(path).unwrap(), run.model, "seed {seed}");
    Ok(())
}

impl<T: FileItem> Run<'_, T> {
    fn file(&self) -> &File<T> {
        self.file.as_ref().expect("it is open")
    }

    fn step(&mut self) -> Result<(), Error> {
        match self.draw.below(20) {
            0 => self.reopen(false),
            1 | 2 => {
                self.shape = Shape::draw(&mut self.draw, self.world.size(), size_of::<T>() as u64);
                self.set_view()
            }
            3 => {
                let bytes = self.draw.below(2000);
                self.file().set_len(bytes)?;
                self.model.resize(usize::try_from(bytes).unwrap(), 0);
                Ok(())
            }
            4 => {
                let bytes = self.draw.below(1000);
                self.file().preallocate(bytes)?;
                let len = self.model.len().max(usize::try_from(bytes).unwrap());
                self.model.resize(len, 0);
                Ok(())
            }
            5 => self.seek(),
            6 => {
                let atomic = self.draw.is_one_in(2);
                self.file().set_atomic(atomic)?;
                assert_eq!(self.file().is_atomic(), atomic);
                Ok(())
            }
            7..13 => self.write(),
            _ => self.read(),
        }
    }

    fn reopen(&mut self, is_new: bool) -> Result<(), Error> {
        if let Some(file) = self.file.take() {
            file.close()?;
        }
        let mut options = FileOptions::new();
        options.read(true).write(true).create_new(is_new);
        options.buffer_bytes(4096).aggregators(u32::try_from(1 + self.draw.below(3)).unwrap());
        let file = options.open(self.world, self.path)?;
        self.file = Some(file.set_view::<T>(&FileView::all())?);
        self.shape = Shape::all(size_of::<T>() as u64);
        self.set_view()
    }

    fn set_view(&mut self) -> Result<(), Error> {
        // The ways to write the views of all ranks are drawn by all.
        let (shape, draw) = (&self.shape, &mut self.draw);
        let views: Vec<_> = (0..self.world.size()).map(|rank| shape.view(draw, rank)).collect();
        let file = self.file.take().expect("it is open");
        self.file = Some(file.set_view::<T>(&views[self.world.rank() as usize])?);
        self.own.fill(0);
        self.shared = 0;
        let item = self.draw.below(OFFSET_MAX);
        let offset = self.shape.offset(self.world.rank(), item);
        assert_eq!(self.file().byte_offset(item)?, offset);
        Ok(())
    }

    fn seek(&mut self) -> Result<(), Error> {
        let (to, shared) = (self.draw.below(OFFSET_MAX), self.draw.below(OFFSET_MAX));
        let mine = self.own[self.world.rank() as usize];
        let way = match self.draw.below(3) {
            0 => SeekFrom::Start(to),
            1 => SeekFrom::Current(to.cast_signed() - mine.cast_signed()),
            _ => {
                let end = self.end_of_view();
                SeekFrom::End(to.cast_signed() - end.cast_signed())
            }
        };
        assert_eq!(self.file().seek(way)?, to);
        self.own.fill(to);
        self.file().seek_shared(SeekFrom::Start(shared))?;
        self.shared = shared;
        Ok(())
    }

    /// The first item that is not before the end of the file: those that begin there, and one of which a part does, count.
    fn end_of_view(&self) -> u64 {
        let rank = self.world.rank();
        (0..).find(|&item| self.shape.offset(rank, item) >= self.model.len() as u64).unwrap()
    }

    /// The number and the place of an access of each rank.
    fn accesses(&mut self, at: At, together: bool) -> Vec<(u64, u64)> {
        let (ranks, common) = (self.world.size(), self.draw.below(COUNT_MAX));
        let mut found = Vec::new();
        for rank in 0..ranks {
            let (offset, count) = (self.draw.below(OFFSET_MAX), self.draw.below(COUNT_MAX));
            let count = if at == At::Shared && !together { common } else { count };
            let begin = match at {
                At::Offset => offset,
                At::Own => self.own[rank as usize],
                At::Shared => self.shared,
            };
            match at {
                At::Offset => {}
                At::Own => self.own[rank as usize] += count,
                At::Shared => self.shared += count,
            }
            found.push((begin, count));
        }
        found
    }

    fn draw_way(&mut self) -> (At, bool, bool) {
        let at = match self.draw.below(if self.shape.is_common() { 3 } else { 2 }) {
            0 => At::Offset,
            1 => At::Own,
            _ => At::Shared,
        };
        let (together, is_request) = (self.draw.is_one_in(2), self.draw.is_one_in(2));
        (at, together, is_request && !(at == At::Shared && together))
    }

    fn write(&mut self) -> Result<(), Error> {
        let (at, together, is_request) = self.draw_way();
        let mut accesses = self.accesses(at, together);
        // Writes by all ranks that do not know of each other must not overlap.
        if self.shape.is_common() && !together && at != At::Shared {
            let writer = usize::try_from(self.draw.below(self.world.size())).unwrap();
            for (rank, (_, count)) in accesses.iter_mut().enumerate() {
                if rank != writer {
                    if at == At::Own {
                        self.own[rank] -= *count;
                    }
                    *count = 0;
                }
            }
        }
        let number = self.draw.next();
        let items = |rank: usize, count: u64| -> Vec<T> {
            (0..count).map(|at| T::of(mixed(number, rank as u64, at))).collect()
        };
        let me = self.world.rank() as usize;
        let (offset, count) = accesses[me];
        let (file, mine) = (self.file(), items(me, count));
        match (at, together, is_request) {
            (At::Offset, false, false) => file.write_at(offset, &mine)?,
            (At::Offset, true, false) => file.write_at_all(offset, &mine)?,
            (At::Own, false, false) => file.write(&mine)?,
            (At::Own, true, false) => file.write_all(&mine)?,
            (At::Shared, false, false) => file.write_shared(&mine)?,
            (At::Shared, true, _) => file.write_ordered(&mine)?,
            (_, _, true) => {
                let request = match (at, together) {
                    (At::Offset, false) => file.iwrite_at(offset, mine.clone())?,
                    (At::Offset, true) => file.iwrite_at_all(offset, mine.clone())?,
                    (At::Own, false) => file.iwrite(mine.clone())?,
                    (At::Own, true) => file.iwrite_all(mine.clone())?,
                    (At::Shared, _) => file.iwrite_shared(mine.clone())?,
                };
                assert_eq!(request.wait()?, mine);
            }
        }
        file.sync()?;
        let in_order = at != At::Shared || together;
        let order =
            if in_order { (0..accesses.len()).collect() } else { self.found(&accesses, &items) };
        for (&(begin, count), rank) in accesses.iter().zip(order) {
            let shape_rank = u32::try_from(rank).unwrap();
            for (at, item) in (begin..).zip(items(rank, count)) {
                self.store(self.shape.offset(shape_rank, at), &item.bytes());
            }
        }
        self.check_pointers()
    }

    /// Which rank has written each of the records, of the same length, at the shared pointer.
    fn found(&self, accesses: &[(u64, u64)], items: &dyn Fn(usize, u64) -> Vec<T>) -> Vec<usize> {
        let bytes = fs::read(self.path).unwrap();
        let mut left: Vec<usize> = (0..accesses.len()).collect();
        let mut order = Vec::new();
        for &(begin, count) in accesses {
            let is_there = |rank: &usize| {
                (begin..).zip(items(*rank, count)).all(|(at, item)| {
                    let start = usize::try_from(self.shape.offset(0, at)).unwrap();
                    bytes[start..].starts_with(&item.bytes())
                })
            };
            let place = left.iter().position(is_there).expect("a record of one of the ranks");
            order.push(left.remove(place));
        }
        order
    }

    fn store(&mut self, offset: u64, bytes: &[u8]) {
        let start = usize::try_from(offset).unwrap();
        if self.model.len() < start + bytes.len() {
            self.model.resize(start + bytes.len(), 0);
        }
        self.model[start..start + bytes.len()].copy_from_slice(bytes);
    }

    fn read(&mut self) -> Result<(), Error> {
        let (at, together, is_request) = self.draw_way();
        let accesses = self.accesses(at, together);
        let me = self.world.rank() as usize;
        let (offset, count) = accesses[me];
        let count = usize::try_from(count).unwrap();
        let (file, mut into) = (self.file(), vec![T::of(0); count]);
        let read = match (at, together, is_request) {
            (At::Offset, false, false) => file.read_at(offset, &mut into)?,
            (At::Offset, true, false) => file.read_at_all(offset, &mut into)?,
            (At::Own, false, false) => file.read(&mut into)?,
            (At::Own, true, false) => file.read_all(&mut into)?,
            (At::Shared, false, false) => file.read_shared(&mut into)?,
            (At::Shared, true, _) => file.read_ordered(&mut into)?,
            (_, _, true) => {
                let request = match (at, together) {
                    (At::Offset, false) => file.iread_at(offset, count)?,
                    (At::Offset, true) => file.iread_at_all(offset, count)?,
                    (At::Own, false) => file.iread(count)?,
                    (At::Own, true) => file.iread_all(count)?,
                    (At::Shared, _) => file.iread_shared(count)?,
                };
                into = request.wait()?;
                into.len()
            }
        };
        into.truncate(read);
        let found: Vec<Vec<u8>> = into.iter().map(FileItem::bytes).collect();
        // At the shared pointer, this rank may have come when any of them did.
        let in_order = at != At::Shared || together;
        let here = if in_order { &accesses[me..=me] } else { &accesses[..] };
        let rank = self.world.rank();
        let expected = here.iter().map(|&(begin, count)| self.stored(rank, begin, count));
        assert!(
            expected.clone().any(|expected| expected == found),
            "{at:?}, {together}, {is_request}: {found:?} instead of {:?}",
            expected.collect::<Vec<_>>()
        );
        self.world.barrier()?;
        self.check_pointers()
    }

    /// The bytes of the items that a read finds: as many as the file has.
    fn stored(&self, rank: u32, begin: u64, count: u64) -> Vec<Vec<u8>> {
        let bytes = |item| {
            let start = usize::try_from(self.shape.offset(rank, item)).unwrap();
            self.model.get(start..start + size_of::<T>()).map(<[u8]>::to_vec)
        };
        (begin..begin + count).map_while(bytes).collect()
    }

    fn check_pointers(&self) -> Result<(), Error> {
        assert_eq!(self.file().position(), self.own[self.world.rank() as usize]);
        assert_eq!(self.file().shared_position()?, self.shared);
        Ok(())
    }
}

fn mixed(number: u64, rank: u64, at: u64) -> u64 {
    Draw(number ^ rank << 48 ^ at << 20).next()
}
