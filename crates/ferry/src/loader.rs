//! What libraries a program loads: reads ELF files, and searches as the dynamic linker does (ld.so(8)).
//!
//! Programs are only read, never run.

use std::collections::{HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use object::elf;
use object::read::elf::{Dyn, ElfFile32, ElfFile64, FileHeader};
use object::{Endianness, ReadRef};
use serde::Serialize;

use crate::doctor::output_of;

/// What an ELF file says about libraries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Elf {
    /// Whether it is for 64 bits, and for which processor.
    sort: (bool, u16),
    pub(crate) needed: Vec<String>,
    pub(crate) rpath: Vec<String>,
    pub(crate) runpath: Vec<String>,
    /// Whether it contains an MPI, and whether it calls one.
    pub(crate) defines_mpi: bool,
    pub(crate) uses_mpi: bool,
}

/// Why an ELF file cannot be read.
#[derive(Debug)]
pub(crate) enum NotElf {
    /// It is something else.
    Other,
    Damaged(String),
    Io(io::Error),
}

impl Elf {
    /// Reads the file at a path.
    pub(crate) fn read(path: &Path) -> Result<Elf, NotElf> {
        let mut file = File::open(path).map_err(NotElf::Io)?;
        let mut magic = [0; 4];
        match file.read_exact(&mut magic) {
            Ok(()) if magic == elf::ELFMAG => {}
            Ok(()) => return Err(NotElf::Other),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(NotElf::Other);
            }
            Err(error) => return Err(NotElf::Io(error)),
        }
        let damaged = |error: object::Error| NotElf::Damaged(error.to_string());
        let cache = object::ReadCache::new(file);
        match object::FileKind::parse(&cache).map_err(damaged)? {
            object::FileKind::Elf32 => {
                let file = ElfFile32::<Endianness, _>::parse(&cache).map_err(damaged)?;
                Elf::of(&file).map_err(damaged)
            }
            object::FileKind::Elf64 => {
                let file = ElfFile64::<Endianness, _>::parse(&cache).map_err(damaged)?;
                Elf::of(&file).map_err(damaged)
            }
            _ => Err(NotElf::Other),
        }
    }

    fn of<'a, H: FileHeader<Endian = Endianness>, R: ReadRef<'a>>(
        file: &object::read::elf::ElfFile<'a, H, R>,
    ) -> object::Result<Elf> {
        use object::{Object, ObjectSymbol};
        let (header, data, endian) = (file.elf_header(), file.data(), file.endian());
        let mut found =
            Elf { sort: (header.is_type_64(), header.e_machine(endian)), ..Elf::default() };
        let sections = header.sections(endian, data)?;
        if let Some((entries, link)) = sections.dynamic(endian, data)? {
            let strings = sections.strings(endian, data, link)?;
            for entry in entries {
                let Some(tag) = entry.tag32(endian) else { continue };
                let text = || {
                    let text = entry.string(endian, strings).unwrap_or_default();
                    String::from_utf8_lossy(text).into_owned()
                };
                let folders = || text().split(':').map(str::to_owned).collect();
                match i64::from(tag) {
                    elf::DT_NEEDED => found.needed.push(text()),
                    elf::DT_RPATH => found.rpath = folders(),
                    elf::DT_RUNPATH => found.runpath = folders(),
                    _ => {}
                }
            }
        }
        for symbol in file.dynamic_symbols().chain(file.symbols()) {
            // A tool defines MPI_Init, too, and only a library defines PMPI_Init.
            match symbol.name_bytes() {
                Ok(b"PMPI_Init") if symbol.is_definition() => found.defines_mpi = true,
                Ok(b"MPI_Init" | b"MPI_Init_thread" | b"PMPI_Init") => {
                    found.uses_mpi |= symbol.is_undefined();
                }
                _ => {}
            }
        }
        Ok(found)
    }
}

/// How the dynamic linker found a library.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub(crate) enum Via {
    #[serde(rename = "RPATH")]
    Rpath,
    #[serde(rename = "LD_LIBRARY_PATH")]
    LibraryPath,
    #[serde(rename = "RUNPATH")]
    Runpath,
    #[serde(rename = "ld.so.cache")]
    Cache,
    #[serde(rename = "default folder")]
    Default,
    /// The name is a path.
    #[serde(rename = "path")]
    Path,
}

impl Via {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Via::Rpath => "RPATH",
            Via::LibraryPath => "LD_LIBRARY_PATH",
            Via::Runpath => "RUNPATH",
            Via::Cache => "ld.so.cache",
            Via::Default => "default folder",
            Via::Path => "path",
        }
    }
}

/// A library that a program loads.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) name: String,
    /// The file that needs it.
    pub(crate) needed_by: PathBuf,
    /// `None` if it is not found.
    pub(crate) found: Option<(PathBuf, Via)>,
}

/// The libraries that the dynamic linker knows, by name, in its order.
pub(crate) struct Cache(Vec<(String, PathBuf)>);

impl Cache {
    /// Reads the cache of the dynamic linker, by `ldconfig -p`. Without ldconfig it is empty.
    pub(crate) fn read() -> Cache {
        let places = ["/sbin/ldconfig", "/usr/sbin/ldconfig", "ldconfig"];
        let output = places.iter().find_map(|place| {
            output_of(Command::new(place).arg("-p"), LDCONFIG_MAX)
                .ok()
                .filter(|it| it.code == Some(0))
        });
        Cache::parse(&output.map(|output| output.out).unwrap_or_default())
    }

    /// Parses lines such as `libc.so.6 (libc6,x86-64) => /lib/x86_64-linux-gnu/libc.so.6`.
    fn parse(text: &str) -> Cache {
        let entry = |line: &str| {
            let (name, path) = line.trim().split_once(" => ")?;
            Some((name.split_whitespace().next()?.to_owned(), PathBuf::from(path)))
        };
        Cache(text.lines().filter_map(entry).collect())
    }

    /// The files of this name.
    fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a PathBuf> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, path)| path)
    }

    /// The names and files of all libraries whose names `fits` accepts.
    pub(crate) fn matching(&self, fits: impl Fn(&str) -> bool) -> Vec<(&str, &Path)> {
        let fitting = self.0.iter().filter(|(name, _)| fits(name));
        fitting.map(|(name, path)| (name.as_str(), path.as_path())).collect()
    }
}

/// The dynamic linker, as it would search for a program.
pub(crate) struct Linker<'a> {
    pub(crate) cache: &'a Cache,
    pub(crate) library_path: Vec<PathBuf>,
}

impl Linker<'_> {
    /// All libraries that the program would load, direct ones first.
    pub(crate) fn libraries(&self, program: &Path, elf: &Elf) -> Vec<Loaded> {
        let mut loaded = Vec::new();
        let mut known = HashSet::new();
        // Files whose libraries are to be found, each with the RPATHs of those that needed it.
        let mut open = VecDeque::from([(program.to_path_buf(), elf.clone(), Vec::new())]);
        while let Some((file, elf_of_file, above)) = open.pop_front() {
            let own = expanded(&elf_of_file.rpath, &file);
            // A file with a RUNPATH ignores all RPATHs.
            let rpath: Vec<PathBuf> = match elf_of_file.runpath.is_empty() {
                true => own.iter().chain(&above).cloned().collect(),
                false => Vec::new(),
            };
            for name in &elf_of_file.needed {
                // What is loaded already is not searched again.
                if !known.insert(name.clone()) || known.len() > LIBRARIES_MAX {
                    continue;
                }
                let found = self.find(name, &elf_of_file, &file, &rpath);
                if let Some((path, _)) = &found
                    && let Ok(library) = Elf::read(path)
                {
                    let above = own.iter().chain(&above).cloned().collect();
                    open.push_back((path.clone(), library, above));
                }
                loaded.push(Loaded { name: name.clone(), needed_by: file.clone(), found });
            }
        }
        loaded
    }

    fn find(
        &self,
        name: &str,
        elf: &Elf,
        file: &Path,
        rpath: &[PathBuf],
    ) -> Option<(PathBuf, Via)> {
        // A library for another processor is skipped.
        let fits = |path: &Path| Elf::read(path).is_ok_and(|library| library.sort == elf.sort);
        if name.contains('/') {
            return Some((PathBuf::from(name), Via::Path)).filter(|(path, _)| fits(path));
        }
        let runpath = expanded(&elf.runpath, file);
        let folders = [
            (rpath, Via::Rpath),
            (&self.library_path, Via::LibraryPath),
            (&runpath[..], Via::Runpath),
        ];
        for (folders, via) in folders {
            let mut places = folders.iter().map(|folder| folder.join(name));
            if let Some(path) = places.find(|path| fits(path)) {
                return Some((path, via));
            }
        }
        if let Some(path) = self.cache.named(name).find(|path| fits(path)) {
            return Some((path.clone(), Via::Cache));
        }
        let mut places = DEFAULT_FOLDERS.iter().map(|folder| Path::new(folder).join(name));
        places.find(|path| fits(path)).map(|path| (path, Via::Default))
    }
}

/// Folders in which `$ORIGIN` stands for that of the file. Those with other variables are left out.
fn expanded(folders: &[String], file: &Path) -> Vec<PathBuf> {
    let real = fs::canonicalize(file).unwrap_or_else(|_| file.to_path_buf());
    let origin = real.parent().unwrap_or(Path::new("/")).to_string_lossy().into_owned();
    let expand = |folder: &String| {
        let folder = folder.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin);
        (!folder.is_empty() && !folder.contains('$')).then(|| PathBuf::from(folder))
    };
    folders.iter().filter_map(expand).collect()
}

/// The folders of `LD_LIBRARY_PATH`, or of another variable of that form. An empty one is the current folder.
pub(crate) fn library_path(value: Option<&OsStr>) -> Vec<PathBuf> {
    let Some(value) = value.filter(|value| !value.is_empty()) else { return Vec::new() };
    let folders = value.as_bytes().split(|byte| matches!(byte, b':' | b';'));
    let folder = |bytes: &[u8]| match bytes {
        b"" => PathBuf::from("."),
        bytes => PathBuf::from(OsString::from(OsStr::from_bytes(bytes))),
    };
    folders.map(folder).collect()
}

/// The MPIs that a library can belong to, by its name.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub(crate) enum Family {
    /// The ABI of the standard, which is ours.
    #[serde(rename = "standard ABI")]
    Standard,
    #[serde(rename = "MPICH ABI")]
    Mpich,
    #[serde(rename = "Open MPI")]
    OpenMpi,
    #[serde(rename = "another MPI")]
    Other,
}

impl Family {
    /// The family of a library such as `libmpi.so.40`; `None` if it is not of an MPI.
    pub(crate) fn of(name: &str) -> Option<Family> {
        let name = name.rsplit('/').next().unwrap_or(name);
        let (stem, version) = name.split_once(".so").unwrap_or((name, ""));
        let version = version.trim_start_matches('.').split('.').next().unwrap_or_default();
        match stem {
            "libmpi_abi" => Some(Family::Standard),
            "libmpich" | "libmpichcxx" | "libmpichfort" | "libmpicxx" | "libmpifort" => {
                Some(Family::Mpich)
            }
            "libmpi" if version == "12" => Some(Family::Mpich),
            "libmpi" if matches!(version, "0" | "1" | "20" | "40") => Some(Family::OpenMpi),
            "libmpi" => Some(Family::Other),
            "libmpi_cxx"
            | "libmpi_mpifh"
            | "libmpi_usempif08"
            | "libmpi_usempi_ignore_tkr"
            | "libmpi_usempi"
            | "libopen-pal"
            | "libopen-rte" => Some(Family::OpenMpi),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Family::Standard => "the standard ABI of MPI 5",
            Family::Mpich => "the older ABI of MPICH",
            Family::OpenMpi => "Open MPI",
            Family::Other => "another MPI",
        }
    }
}

/// The name of the MPI in a library file, from what its text says. `None` if it says nothing known.
pub(crate) fn maker(file: &Path) -> Option<&'static str> {
    let mut bytes = Vec::new();
    File::open(file).ok()?.take(LIBRARY_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    let makers = [
        ("Ferrywire", "Ferrywire"),
        ("Intel(R) MPI Library", "Intel MPI"),
        ("MVAPICH", "MVAPICH"),
        ("Open MPI v", "Open MPI"),
        ("MPICH Version", "MPICH"),
        ("MPICH_", "MPICH"),
    ];
    makers.iter().find(|(text, _)| contains(&bytes, text.as_bytes())).map(|(_, maker)| *maker)
}

/// Whether a file contains these bytes.
pub(crate) fn file_contains(file: &Path, text: &str) -> bool {
    let mut bytes = Vec::new();
    let read =
        File::open(file).and_then(|file| file.take(LIBRARY_BYTES_MAX).read_to_end(&mut bytes));
    read.is_ok() && contains(&bytes, text.as_bytes())
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    let Some(first) = text.first() else { return true };
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| byte == first) {
        if rest[at..].starts_with(text) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}

/// Where the dynamic linker looks last.
pub(crate) const DEFAULT_FOLDERS: [&str; 4] = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"];
const LDCONFIG_MAX: Duration = Duration::from_secs(5);
/// Programs have hundreds of libraries at most; a cycle of names cannot be longer.
const LIBRARIES_MAX: usize = 4096;
const LIBRARY_BYTES_MAX: u64 = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_belongs_to_a_family_by_its_name() {
        assert_eq!(Family::of("libmpi_abi.so.1"), Some(Family::Standard));
        assert_eq!(Family::of("libmpi.so.12"), Some(Family::Mpich));
        assert_eq!(Family::of("/usr/lib/libmpi.so.40"), Some(Family::OpenMpi));
        assert_eq!(Family::of("libmpi.so.40.30.4"), Some(Family::OpenMpi));
        assert_eq!(Family::of("libmpi.so"), Some(Family::Other));
        assert_eq!(Family::of("libmpfr.so.6"), None);
    }

    #[test]
    fn the_cache_is_read_from_what_ldconfig_prints() {
        let cache = Cache::parse(
            "2 libs found in cache `/etc/ld.so.cache'\n\tlibm.so.6 (libc6,x86-64) => /lib/libm.so.6\n",
        );
        assert_eq!(cache.named("libm.so.6").collect::<Vec<_>>(), [Path::new("/lib/libm.so.6")]);
        assert!(cache.named("libc.so.6").next().is_none());
    }

    #[test]
    fn the_origin_is_the_folder_of_the_file() {
        let folders = ["$ORIGIN/../lib", "${ORIGIN}", "/a", "", "/$LIB"].map(str::to_owned);
        let expanded = expanded(&folders, Path::new("/no/such/bin/a"));
        let wanted = ["/no/such/bin/../lib", "/no/such/bin", "/a"];
        assert_eq!(expanded, wanted.map(PathBuf::from));
    }

    #[test]
    fn this_test_is_an_elf_file_and_its_source_is_not() {
        let own = std::env::current_exe().expect("a path");
        let elf = Elf::read(&own).expect("an ELF file");
        assert!(elf.needed.iter().any(|name| name.starts_with("libc.so")), "{:?}", elf.needed);
        assert!(matches!(Elf::read(Path::new(file!())), Err(NotElf::Other | NotElf::Io(_))));
    }

    #[test]
    fn folders_of_a_library_path_may_be_empty() {
        let folders = library_path(Some(OsStr::new("/a::/b")));
        assert_eq!(folders, ["/a", ".", "/b"].map(PathBuf::from));
        assert!(library_path(None).is_empty());
    }
}
