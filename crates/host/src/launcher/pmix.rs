//! PMIx, which mpirun and prterun of Open MPI speak, and srun of Slurm with `--mpi=pmix`. A library implements its
//! protocol; it is loaded when such a launcher has started us.
//!
//! Invariants:
//!   L1. Strings given to the loader and to the library end with a zero byte.
//!   L2. The library is never closed, so its functions stay valid.
//!   L3. The layouts below are those of versions 2 to 6 of the library: process names, values, directives and the
//!       functions used here have not changed since. Other parts of those structures are never touched. An array of
//!       directives has one element, because the size of an element has changed.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::kvs::{Kvs, KvsError};

/// The kvs of a launcher that speaks PMIx.
pub(super) struct Pmix {
    library: PmixLibrary,
    launcher: &'static str,
    me: PmixProcess,
    size: u32,
    /// No fence has happened yet: all words are stored before the first one, which brings them to all hosts.
    with_words: bool,
}

/// `pmix_proc_t`: a job, and a rank in it.
#[repr(C)]
#[derive(Clone, Copy)]
struct PmixProcess {
    space: [c_char; NAME_BYTES],
    rank: u32,
}

/// `pmix_value_t`: a kind, and room for a value of any kind.
#[repr(C)]
struct Value {
    kind: u16,
    data: [u64; VALUE_WORDS],
}

/// `pmix_info_t`: a directive.
#[repr(C)]
struct Advice {
    key: [c_char; KEY_BYTES],
    flags: u32,
    value: Value,
}

/// The functions of the library that are used here.
struct PmixLibrary {
    init: Init,
    finalize: Finalize,
    abort: Abort,
    put: Put,
    commit: Commit,
    fence: Fence,
    get: Get,
    error: ErrorString,
}

type Init = unsafe extern "C" fn(*mut PmixProcess, *mut c_void, usize) -> c_int;
type Finalize = unsafe extern "C" fn(*const c_void, usize) -> c_int;
type Abort = unsafe extern "C" fn(c_int, *const c_char, *mut PmixProcess, usize) -> c_int;
type Put = unsafe extern "C" fn(u8, *const c_char, *mut Value) -> c_int;
type Commit = unsafe extern "C" fn() -> c_int;
type Fence = unsafe extern "C" fn(*const PmixProcess, usize, *const Advice, usize) -> c_int;
type Get = unsafe extern "C" fn(
    *const PmixProcess,
    *const c_char,
    *const c_void,
    usize,
    *mut *mut Value,
) -> c_int;
type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;

/// Connects to the launcher that the environment names.
pub(super) fn open(read: impl Fn(&str) -> Option<String>) -> Result<Pmix, KvsError> {
    let launcher = match () {
        () if read("SLURM_STEP_ID").is_some() => "Slurm's srun (PMIx)",
        () if read("OMPI_COMM_WORLD_SIZE").is_some() => "Open MPI's mpirun (PMIx)",
        () => "a PMIx launcher",
    };
    let library = PmixLibrary::find(&read).map_err(|looked| {
        let places: Vec<String> = looked.iter().map(|path| path.display().to_string()).collect();
        KvsError::new(
            launcher,
            format_args!(
                "the PMIx library is missing (looked for {}); add the directory of the launcher's libpmix.so.2 \
                 to LD_LIBRARY_PATH, or use `ferry run`",
                places.join(", ")
            ),
        )
    })?;
    let mut me = PmixProcess { space: [0; NAME_BYTES], rank: 0 };
    // SAFETY: L3; `me` is there to be filled in, and there are no directives.
    let code = unsafe { (library.init)(&raw mut me, std::ptr::null_mut(), 0) };
    if code != SUCCESS {
        let why = library.in_words(code);
        return Err(KvsError::new(launcher, format_args!("PMIx_Init failed: {why}")));
    }
    let mut pmix = Pmix { library, launcher, me, size: 0, with_words: true };
    let size = pmix.ask_of_all(JOB_SIZE)?.number();
    pmix.size =
        size.ok_or_else(|| pmix.trouble("the launcher does not say how many ranks there are"))?;
    Ok(pmix)
}

impl Pmix {
    /// Asks for a value of the whole job.
    fn ask_of_all(&self, key: &CStr) -> Result<Told, KvsError> {
        self.ask(PmixProcess { rank: ALL_RANKS, ..self.me }, key)
    }

    fn ask(&self, of: PmixProcess, key: &CStr) -> Result<Told, KvsError> {
        let mut value = std::ptr::null_mut();
        let name = named(key);
        // SAFETY: L1, L3: the names and the place for the answer live until the call returns.
        let code = unsafe {
            (self.library.get)(&raw const of, name.as_ptr(), std::ptr::null(), 0, &raw mut value)
        };
        if code != SUCCESS || value.is_null() {
            let (key, why) = (key.to_string_lossy(), self.library.in_words(code));
            return Err(self.trouble(format_args!("PMIx_Get of {key} failed: {why}")));
        }
        // SAFETY: L3: the library has allocated it for us. It is not freed: a few bytes, a few times.
        let value = unsafe { &*value };
        // SAFETY: the value comes from the library.
        Ok(unsafe { Told::of(value) })
    }

    fn check(&self, code: c_int, what: &str) -> Result<(), KvsError> {
        match code {
            SUCCESS => Ok(()),
            _ => Err(self.trouble(format_args!("{what}: {}", self.library.in_words(code)))),
        }
    }

    fn trouble(&self, trouble: impl std::fmt::Display) -> KvsError {
        KvsError::new(self.launcher, trouble)
    }
}

impl Kvs for Pmix {
    fn launcher(&self) -> &'static str {
        self.launcher
    }

    fn rank(&self) -> u32 {
        self.me.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn program(&mut self) -> Option<u32> {
        self.ask(self.me, APPLICATION).ok()?.number()
    }

    fn neighbours(&mut self) -> Result<Vec<u32>, KvsError> {
        if self.size == 1 {
            return Ok(vec![self.me.rank]);
        }
        let told = self.ask_of_all(LOCAL_PEERS)?;
        let ranks: Option<Vec<u32>> = match &told {
            Told::Text(list) => list.split(',').map(|rank| rank.trim().parse().ok()).collect(),
            _ => None,
        };
        let mut ranks = ranks
            .filter(|ranks| ranks.contains(&self.me.rank))
            .ok_or_else(|| self.trouble("the launcher does not say which ranks share this host"))?;
        ranks.sort_unstable();
        Ok(ranks)
    }

    fn put(&mut self, key: &str, word: &str) -> Result<(), KvsError> {
        let (key, word) = (text(key), text(word));
        let mut value = Value { kind: STRING, data: [0; VALUE_WORDS] };
        value.data[0] = word.as_ptr().expose_provenance() as u64;
        // SAFETY: L1, L3: the library copies what it is given.
        let put = unsafe { (self.library.put)(GLOBAL, named(&key).as_ptr(), &raw mut value) };
        self.check(put, "PMIx_Put failed")
    }

    fn fence(&mut self) -> Result<(), KvsError> {
        let all = PmixProcess { rank: ALL_RANKS, ..self.me };
        // Collected by the fence, not fetched by each rank on demand: on several hosts, some servers would then return
        // only half of the words.
        let collect = Advice { key: named(COLLECT), flags: 0, value: Value::yes() };
        let mut advice = 0;
        if std::mem::take(&mut self.with_words) {
            // All words at once: what is committed later may not arrive.
            // SAFETY: it takes no arguments.
            self.check(unsafe { (self.library.commit)() }, "PMIx_Commit failed")?;
            advice = 1;
        }
        // SAFETY: L3; one process name, and as many directives as the count says.
        let code = unsafe { (self.library.fence)(&raw const all, 1, &raw const collect, advice) };
        self.check(code, "not all ranks have joined: PMIx_Fence failed")
    }

    fn get(&mut self, from: u32, key: &str) -> Result<Zeroizing<String>, KvsError> {
        match self.ask(PmixProcess { rank: from, ..self.me }, &text(key))? {
            Told::Text(word) => Ok(Zeroizing::new(word)),
            _ => Err(self.trouble(format_args!("rank {from} has stored no value under {key}"))),
        }
    }

    fn goodbye(&mut self) -> Result<(), KvsError> {
        // SAFETY: no directives; the library is not used afterwards.
        let code = unsafe { (self.library.finalize)(std::ptr::null(), 0) };
        self.check(code, "PMIx_Finalize failed")
    }

    fn abort(&mut self, code: i32, reason: &str) -> Result<(), KvsError> {
        let reason = text(reason);
        // SAFETY: L1, L3; no processes means all of the job.
        let code = unsafe { (self.library.abort)(code, reason.as_ptr(), std::ptr::null_mut(), 0) };
        self.check(code, "PMIx_Abort failed")
    }
}

impl Value {
    /// A boolean has one byte, at the beginning.
    fn yes() -> Value {
        let mut data = [0; VALUE_WORDS];
        data[0] = u64::from_ne_bytes([1, 0, 0, 0, 0, 0, 0, 0]);
        Value { kind: BOOL, data }
    }
}

/// A value from the library.
enum Told {
    Number(u32),
    Text(String),
    Other,
}

impl Told {
    /// # Safety
    /// The value comes from the library.
    unsafe fn of(value: &Value) -> Told {
        match value.kind {
            // Little- and big-endian machines keep a smaller number at the same place: the beginning.
            UINT32 | RANK => {
                let [a, b, c, d, ..] = value.data[0].to_ne_bytes();
                Told::Number(u32::from_ne_bytes([a, b, c, d]))
            }
            STRING => {
                let start = usize::try_from(value.data[0]).unwrap_or(0);
                let start: *const c_char = std::ptr::with_exposed_provenance(start);
                if start.is_null() {
                    return Told::Other;
                }
                // SAFETY: a string from the library ends with a zero byte.
                let text = unsafe { CStr::from_ptr(start) };
                Told::Text(text.to_string_lossy().into_owned())
            }
            _ => Told::Other,
        }
    }

    fn number(&self) -> Option<u32> {
        if let Told::Number(number) = self { Some(*number) } else { None }
    }
}

impl PmixLibrary {
    /// Loads the library from the first place that has it; an error lists the places.
    fn find(read: impl Fn(&str) -> Option<String>) -> Result<PmixLibrary, Vec<PathBuf>> {
        let places = places(read);
        places.iter().find_map(|path| PmixLibrary::load(path)).ok_or(places)
    }

    fn load(path: &Path) -> Option<PmixLibrary> {
        let name = CString::new(path.as_os_str().as_encoded_bytes()).ok()?;
        // SAFETY: L1. The initialisers of the library run, as those of any linked library do.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return None;
        }
        macro_rules! function {
            ($name:literal, $type:ty) => {{
                // SAFETY: L1; the library was just opened.
                let symbol = unsafe { libc::dlsym(handle, $name.as_ptr()) };
                if symbol.is_null() {
                    return None;
                }
                // SAFETY: L2, L3: a function of this name has this type in every version.
                unsafe { std::mem::transmute::<*mut c_void, $type>(symbol) }
            }};
        }
        Some(PmixLibrary {
            init: function!(c"PMIx_Init", Init),
            finalize: function!(c"PMIx_Finalize", Finalize),
            abort: function!(c"PMIx_Abort", Abort),
            put: function!(c"PMIx_Put", Put),
            commit: function!(c"PMIx_Commit", Commit),
            fence: function!(c"PMIx_Fence", Fence),
            get: function!(c"PMIx_Get", Get),
            error: function!(c"PMIx_Error_string", ErrorString),
        })
    }

    fn in_words(&self, code: c_int) -> String {
        // SAFETY: it takes any number, and returns a string that stays valid.
        let words = unsafe { (self.error)(code) };
        if words.is_null() {
            return format!("code {code}");
        }
        // SAFETY: such a string ends with a zero byte.
        let words = unsafe { CStr::from_ptr(words) };
        format!("{} ({code})", words.to_string_lossy())
    }
}

/// Where the library may be: the one that the launcher itself has loaded, if we may see that, and those that the
/// environment and the loader know.
fn places(read: impl Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    let mut places = of_parent();
    let prefixes = ["PMIX_PREFIX", "OPAL_PREFIX", "PRTE_PREFIX"];
    let prefixes = prefixes.iter().filter_map(|name| Some(Path::new(&read(name)?).join("lib")));
    let folders = prefixes.chain(read("OMPI_LIBDIR_LOC").map(PathBuf::from));
    // Some installations keep it beside their other libraries, some in a folder of its own.
    places.extend(
        folders.flat_map(|folder| ["", "openmpi"].map(|own| folder.join(own).join(LIBRARY))),
    );
    places.push(PathBuf::from(LIBRARY));
    places
}

/// The library that our parent has loaded.
fn of_parent() -> Vec<PathBuf> {
    let parent = std::os::unix::process::parent_id();
    let maps = fs::read_to_string(format!("/proc/{parent}/maps")).unwrap_or_default();
    let files = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    let found = files.map(Path::new).find(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(LIBRARY))
    });
    found.map(Path::to_path_buf).into_iter().collect()
}

fn text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).expect("without zeros")
}

/// A key, in as much room as the library's own keys have: some versions copy all of it.
fn named(key: &CStr) -> [c_char; KEY_BYTES] {
    let mut name = [0; KEY_BYTES];
    for (place, &byte) in name.iter_mut().zip(key.to_bytes().iter().take(KEY_BYTES - 1)) {
        *place = c_char::from_ne_bytes([byte]);
    }
    name
}

const LIBRARY: &str = "libpmix.so.2";
const NAME_BYTES: usize = 256;
const KEY_BYTES: usize = 512;
/// More than the largest kind of value needs.
const VALUE_WORDS: usize = 8;
const SUCCESS: c_int = 0;
/// Stands for the whole job instead of a rank.
const ALL_RANKS: u32 = u32::MAX - 1;
/// Kinds of values.
const BOOL: u16 = 1;
const STRING: u16 = 3;
const UINT32: u16 = 14;
const RANK: u16 = 40;
/// The scope of words: for ranks on this host and on others.
const GLOBAL: u8 = 3;
const COLLECT: &CStr = c"pmix.collect";
const JOB_SIZE: &CStr = c"pmix.job.size";
const LOCAL_PEERS: &CStr = c"pmix.lpeers";
const APPLICATION: &CStr = c"pmix.appnum";
