//! The available providers, and which one a job takes by default.

// Invariants of this file, cited below by number.
//   P1. A list from the library is walked by its own pointers while we own it, and freed once, at the end.
//       Its parts and strings live as long as it does; strings end with a zero byte.

use std::ffi::{CStr, CString, c_int};
use std::fmt;
use std::net::IpAddr;
use std::ptr::NonNull;

use super::bindings::{
    API, FI_CONTEXT, FI_CONTEXT2, FI_EP_RDM, FI_MR_ALLOCATED, FI_MR_ENDPOINT, FI_MR_LOCAL,
    FI_MR_PROV_KEY, FI_MR_VIRT_ADDR, FI_MSG, FI_ORDER_SAS, FI_READ, FI_REMOTE_READ, FI_RM_ENABLED,
    FI_RMA, FI_SOURCE, FI_THREAD_DOMAIN, Info, Library,
};

/// Why the rail over libfabric cannot be used.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum NoFabric {
    /// The library is not installed.
    NoLibrary {
        /// The loader's error.
        why: String,
    },
    /// The library has no such provider.
    NoProvider {
        /// The provider asked for.
        asked: String,
        /// The providers available.
        found: Vec<String>,
    },
    /// A call failed that should work.
    Trouble {
        /// The provider.
        provider: String,
        /// What we tried to do.
        what: &'static str,
        /// The library's error.
        why: String,
    },
}

impl fmt::Display for NoFabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoFabric::NoLibrary { why } => write!(
                f,
                "cannot load libfabric.so.1 ({why}); install it (package libfabric1 on Debian and Ubuntu, \
                 libfabric elsewhere), or use --rail udp"
            ),
            NoFabric::NoProvider { asked, found } if found.is_empty() => {
                write!(
                    f,
                    "libfabric has no provider here that can carry messages ({asked} was requested); use \
                     --rail udp"
                )
            }
            NoFabric::NoProvider { asked, found } => {
                write!(f, "libfabric has no provider {asked} here; it has {}", found.join(", "))
            }
            NoFabric::Trouble { provider, what, why } => {
                write!(f, "libfabric cannot {what} with provider {provider}: {why}; use --rail udp")
            }
        }
    }
}

impl std::error::Error for NoFabric {}

/// What the library offers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Providers {
    /// The version of the library: major and minor.
    pub version: (u32, u32),
    /// Providers that can carry frames, each once.
    pub names: Vec<String>,
}

impl Providers {
    /// The providers for messaging hardware. A job takes one of them if all its hosts have it.
    pub fn hardware(&self) -> Vec<String> {
        let of_family = |family: &str| {
            self.names.iter().filter(|name| core_of(name) == family).cloned().collect::<Vec<_>>()
        };
        HARDWARE.iter().flat_map(|family| of_family(family)).collect()
    }
}

/// Whether the machine seems to have such hardware, as far as can be seen without the library.
pub fn has_hardware() -> bool {
    HARDWARE_FOLDERS
        .iter()
        .any(|folder| std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()))
}

/// Loads the library, and asks for its providers.
pub fn providers() -> Result<Providers, NoFabric> {
    let library = library()?;
    let names = match List::ask(library, None, None) {
        Ok(list) => list.names(),
        Err(_) => Vec::new(),
    };
    Ok(Providers { version: library.version(), names })
}

/// Checks that a provider is available and returns its full name.
pub fn look(provider: &str) -> Result<String, NoFabric> {
    let list = List::of_provider(library()?, provider)?;
    Ok(list.names().into_iter().next().unwrap_or_else(|| provider.to_owned()))
}

pub(super) fn library() -> Result<&'static Library, NoFabric> {
    Library::find().map_err(|why| NoFabric::NoLibrary { why: why.to_owned() })
}

/// The core provider, without the layers on top of it.
fn core_of(name: &str) -> &str {
    name.split(';').next().unwrap_or(name)
}

/// A list from the library, of at least one way to use a provider.
pub(super) struct List {
    library: &'static Library,
    first: NonNull<Info>,
}

impl List {
    /// The ways to use a provider that this rail can work with.
    pub(super) fn of_provider(library: &'static Library, provider: &str) -> Result<List, NoFabric> {
        List::ask(library, Some(provider), None).map_err(|_| NoFabric::NoProvider {
            asked: provider.to_owned(),
            found: List::ask(library, None, None).map_or_else(|_| Vec::new(), |list| list.names()),
        })
    }

    /// The same, with `own` as our address. If the provider can read other ranks' memory, only ways that do.
    pub(super) fn ask(
        library: &'static Library,
        provider: Option<&str>,
        own: Option<IpAddr>,
    ) -> Result<List, c_int> {
        let with = |caps| List::ask_for(caps, library, provider, own);
        let reads = provider.and_then(|_| with(FI_MSG | READS).ok());
        reads.map_or_else(|| with(FI_MSG), Ok)
    }

    fn ask_for(
        caps: u64,
        library: &'static Library,
        provider: Option<&str>,
        own: Option<IpAddr>,
    ) -> Result<List, c_int> {
        let hints = Hints::new(library, provider, caps)?;
        let node = own.map(|own| text(&own.to_string()));
        let (node, flags) = match &node {
            Some(node) => (node.as_ptr(), FI_SOURCE),
            None => (std::ptr::null(), 0),
        };
        let mut first = std::ptr::null_mut();
        let no_service = std::ptr::null();
        // SAFETY: the hints come from the library, and the strings live until it returns.
        let code = unsafe {
            (library.getinfo)(API, node, no_service, flags, hints.0.first.as_ptr(), &raw mut first)
        };
        let first = NonNull::new(first).filter(|_| code == 0).ok_or(code)?;
        Ok(List { library, first })
    }

    pub(super) fn first(&self) -> &Info {
        // SAFETY: P1.
        unsafe { self.first.as_ref() }
    }

    /// Whether this way to use a provider can read other ranks' memory, and was asked for it.
    pub(super) fn reads(&self) -> bool {
        self.first().caps & READS == READS
    }

    /// Whether every read ends, even if the peer is gone. Hardware ensures that; providers over sockets or
    /// shared memory may wait for ever.
    pub(super) fn ends_reads(&self) -> bool {
        self.names().first().is_some_and(|name| HARDWARE.contains(&core_of(name)))
    }

    pub(super) fn as_ptr(&self) -> *mut Info {
        self.first.as_ptr()
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let mut next = Some(self.first());
        while let Some(info) = next {
            // SAFETY: P1.
            let fabric = unsafe { info.fabric_attr.as_ref() };
            if let Some(name) = fabric.filter(|fabric| !fabric.prov_name.is_null()) {
                // SAFETY: P1.
                let name = unsafe { CStr::from_ptr(name.prov_name) }.to_string_lossy();
                if !names.iter().any(|known| *known == name) {
                    names.push(name.into_owned());
                }
            }
            // SAFETY: P1.
            next = unsafe { info.next.as_ref() };
        }
        names
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: P1.
        unsafe { (self.library.freeinfo)(self.first.as_ptr()) };
    }
}

/// The hints for `fi_getinfo`.
struct Hints(List);

impl Hints {
    fn new(library: &'static Library, provider: Option<&str>, caps: u64) -> Result<Hints, c_int> {
        // SAFETY: null asks for a new one.
        let made = unsafe { (library.dupinfo)(std::ptr::null()) };
        let mut list = List { library, first: NonNull::new(made).ok_or(-libc::ENOMEM)? };
        // SAFETY: P1, and we are the only owner.
        let info = unsafe { list.first.as_mut() };
        info.caps = caps;
        info.mode = FI_CONTEXT | FI_CONTEXT2;
        // SAFETY: P1: a new one has all its parts.
        if let Some(endpoint) = unsafe { info.ep_attr.as_mut() } {
            endpoint.kind = FI_EP_RDM;
        }
        // SAFETY: as above.
        if let Some(sending) = unsafe { info.tx_attr.as_mut() } {
            sending.msg_order = FI_ORDER_SAS;
        }
        // SAFETY: as above.
        if let Some(receiving) = unsafe { info.rx_attr.as_mut() } {
            receiving.msg_order = FI_ORDER_SAS;
        }
        // SAFETY: as above.
        if let Some(domain) = unsafe { info.domain_attr.as_mut() } {
            domain.threading = FI_THREAD_DOMAIN;
            domain.resource_mgmt = FI_RM_ENABLED;
            domain.mr_mode =
                FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
        }
        // SAFETY: as above.
        if let (Some(fabric), Some(provider)) = (unsafe { info.fabric_attr.as_mut() }, provider) {
            // SAFETY: it ends with a zero byte. The library frees the copy together with the hints.
            fabric.prov_name = unsafe { libc::strdup(text(provider).as_ptr()) };
        }
        Ok(Hints(list))
    }
}

/// What it takes to read other ranks' memory, and to let others read ours.
const READS: u64 = FI_RMA | FI_READ | FI_REMOTE_READ;

fn text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).expect("without zeros")
}

/// Providers for messaging hardware, the likeliest first.
const HARDWARE: [&str; 6] = ["cxi", "efa", "opx", "psm3", "psm2", "verbs"];

/// Where the kernel lists such hardware: InfiniBand, RoCE, EFA and Omni-Path adapters, and Slingshot adapters.
const HARDWARE_FOLDERS: [&str; 2] = ["/sys/class/infiniband", "/sys/class/cxi"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_goes_before_what_is_made_of_sockets() {
        let names = ["tcp;ofi_rxm", "verbs;ofi_rxm", "shm", "efa"].map(str::to_owned).to_vec();
        let found = Providers { version: (1, 17), names };
        assert_eq!(found.hardware(), ["efa", "verbs;ofi_rxm"]);
        let none = Providers { version: (1, 17), names: vec!["tcp;ofi_rxm".into(), "shm".into()] };
        assert_eq!(none.hardware(), [""; 0]);
    }

    #[test]
    fn what_is_missing_is_named() {
        let found = vec!["tcp;ofi_rxm".to_owned(), "shm".to_owned()];
        let said = NoFabric::NoProvider { asked: "tpc".into(), found }.to_string();
        assert_eq!(said, "libfabric has no provider tpc here; it has tcp;ofi_rxm, shm");
        let said = NoFabric::NoLibrary { why: "no such file".into() }.to_string();
        assert!(said.contains("libfabric1") && said.contains("--rail udp"), "{said}");
    }
}
