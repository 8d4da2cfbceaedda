//! Other MPIs on this machine: commands in `PATH`, libraries in `LD_LIBRARY_PATH`, and libraries that the loader knows.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::HealthCheck;
use super::probe::{in_path, output_of};
use crate::home::Home;
use crate::loader::{self, Cache, Family};

pub(super) fn findings() -> Vec<HealthCheck> {
    let home = Home::find().ok();
    vec![commands(home.as_ref()), library_path(home.as_ref()), standard_folders(home.as_ref())]
}

/// A command of an MPI in `PATH`.
struct MpiCommand {
    name: &'static str,
    path: PathBuf,
    maker: String,
}

fn commands(home: Option<&Home>) -> HealthCheck {
    let about = "mpicc, mpiexec";
    let first = |name| MpiCommand::first(name, home);
    let found: Vec<MpiCommand> = NAMES.iter().filter_map(|name| first(name)).collect();
    let own = home.map(|home| home.command.clone()).unwrap_or_else(|| "ferry".into());
    let own = own.display();
    if found.is_empty() {
        let found = format!("neither is in PATH; {own} cc and {own} run do the same");
        return HealthCheck::ok(about, found);
    }
    let said = told_commands(&found);
    let bin = home.map(|home| home.command.with_file_name("mpicc")).filter(|mpicc| mpicc.exists());
    let ours_first = match bin.as_deref().and_then(Path::parent) {
        Some(bin) => format!("put {} first in PATH", bin.display()),
        None => {
            "run ferry install, and put the folder bin of the installation first in PATH".into()
        }
    };
    let makers = |names: &[&str]| -> Vec<&str> {
        let named = found.iter().filter(|one| names.contains(&one.name));
        named.map(|one| one.maker.as_str()).collect()
    };
    let (compilers, launchers) = (makers(&COMPILERS), makers(&LAUNCHERS));
    let clash = compilers.iter().any(|one| launchers.iter().any(|other| one != other));
    let all_ours = found.iter().all(|one| one.maker == OURS);
    if clash {
        HealthCheck::problem(
            about,
            format!(
                "{said}; programs that one MPI compiles do not run under the launcher of another"
            ),
            format!("{ours_first}, or the folder of another MPI with all of its commands"),
        )
    } else if all_ours {
        HealthCheck::ok(about, said)
    } else {
        HealthCheck::warning(
            about,
            format!(
                "{said}; what this mpicc compiles does not run on Ferrywire, unless it is for the standard ABI"
            ),
            format!("{ours_first}, or use {own} cc and {own} run"),
        )
    }
}

/// The commands in words: together if they are of one MPI and in one folder.
fn told_commands(found: &[MpiCommand]) -> String {
    let place = |one: &MpiCommand| (one.maker.clone(), one.path.parent().map(Path::to_path_buf));
    let first = found.first().map(place);
    if let Some((maker, Some(folder))) = first.clone()
        && found.iter().all(|one| Some(place(one)) == first)
    {
        let names: Vec<&str> = found.iter().map(|one| one.name).collect();
        let verb = if names.len() == 1 { "is" } else { "are" };
        return format!("{} {verb} {maker}, in {}", names.join(", "), folder.display());
    }
    let each = |one: &MpiCommand| format!("{} is {} ({})", one.name, one.maker, one.path.display());
    found.iter().map(each).collect::<Vec<_>>().join("; ")
}

impl MpiCommand {
    /// The command of this name that a shell would start.
    fn first(name: &'static str, home: Option<&Home>) -> Option<MpiCommand> {
        let path = in_path(name).into_iter().next()?;
        let real = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        let maker = if home.is_some_and(|home| home.command == real) {
            OURS.to_owned()
        } else {
            maker_of(&path, &real)
        };
        Some(MpiCommand { name, path, maker })
    }
}

/// Whose command this is: by the name of its file, or else by what it says about itself.
fn maker_of(path: &Path, real: &Path) -> String {
    let name = real.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let by_name = MAKERS_BY_NAME.iter().find(|(part, _)| name.contains(part));
    if let Some((_, maker)) = by_name {
        return (*maker).to_owned();
    }
    // Compilers of Open MPI answer the first, those of MPICH the second, launchers the third.
    for option in ["-showme:version", "-v", "--version"] {
        let Ok(output) = output_of(Command::new(path).arg(option), ASK_MAX) else { continue };
        let said = format!("{}{}", output.out, output.err);
        if let Some((_, maker)) = MAKERS_BY_WORDS.iter().find(|(words, _)| said.contains(words)) {
            return (*maker).to_owned();
        }
    }
    "of an unknown MPI".into()
}

/// Libraries of MPIs in a folder, by name.
fn libraries_in(folder: &Path) -> Vec<(String, PathBuf)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<(String, PathBuf)> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().to_str()?.to_owned();
            // One file has several names; this is the one that the loader looks for.
            let is_looked_for = name.starts_with("libmpi") && name.matches('.').count() == 2;
            (is_looked_for && Family::of(&name).is_some()).then(|| (name, entry.path()))
        })
        .collect();
    found.sort();
    found
}

fn is_own(path: &Path, home: Option<&Home>) -> bool {
    let real = |path: &Path| fs::canonicalize(path).ok();
    let own = home.and_then(|home| home.library().ok());
    own.and_then(|own| real(&own)).is_some_and(|own| Some(own) == real(path))
}

fn library_path(home: Option<&Home>) -> HealthCheck {
    let about = "library path";
    let value = std::env::var_os("LD_LIBRARY_PATH");
    let folders = loader::library_path(value.as_deref());
    if folders.is_empty() {
        return HealthCheck::ok(about, "LD_LIBRARY_PATH is not set");
    }
    let found: Vec<_> = folders.iter().flat_map(|folder| libraries_in(folder)).collect();
    // Only a library of the same name takes the place of ours.
    let rival = found.iter().find(|(name, _)| Family::of(name) == Some(Family::Standard));
    let rival = rival.filter(|(_, path)| !is_own(path, home));
    let said = match told(&found, home) {
        said if said.is_empty() => "no library of an MPI is in LD_LIBRARY_PATH".to_owned(),
        said => format!("LD_LIBRARY_PATH has {said}"),
    };
    match rival {
        Some((name, path)) => HealthCheck::warning(
            about,
            format!(
                "{said}; a program that is started without ferry run or mpiexec loads that {name}"
            ),
            format!(
                "take {} out of LD_LIBRARY_PATH; ferry run puts its own folder before it",
                path.parent().unwrap_or(path).display()
            ),
        ),
        None => HealthCheck::ok(about, said),
    }
}

fn standard_folders(home: Option<&Home>) -> HealthCheck {
    let about = "libraries";
    let cache = Cache::read();
    let is_mpi = |name: &str| name.starts_with("libmpi") && Family::of(name).is_some();
    let cached = cache.matching(|name| is_mpi(name) && name.matches('.').count() == 2);
    let mut found: Vec<(String, PathBuf)> =
        cached.iter().map(|(name, path)| ((*name).to_owned(), path.to_path_buf())).collect();
    for folder in loader::DEFAULT_FOLDERS.iter().chain(&["/usr/local/lib"]) {
        for (name, path) in libraries_in(Path::new(folder)) {
            let real = fs::canonicalize(&path).ok();
            if !found.iter().any(|(_, known)| fs::canonicalize(known).ok() == real) {
                found.push((name, path));
            }
        }
    }
    let said = match told(&found, home) {
        said if said.is_empty() => "no MPI is where the loader looks by itself".to_owned(),
        said => format!("the loader finds {said}; ferry info FILE says what a program loads"),
    };
    HealthCheck::ok(about, said)
}

/// The libraries in words.
fn told(found: &[(String, PathBuf)], home: Option<&Home>) -> String {
    let tell = |(name, path): &(String, PathBuf)| {
        let maker = match is_own(path, home) {
            true => OURS,
            false => loader::maker(path)
                .or_else(|| Family::of(name).map(Family::name))
                .unwrap_or("another MPI"),
        };
        format!("{} of {maker}", path.display())
    };
    let mut told: Vec<String> = found.iter().map(tell).collect();
    told.dedup();
    told.join(", ")
}

const OURS: &str = "Ferrywire";
const COMPILERS: [&str; 2] = ["mpicc", "mpicxx"];
const LAUNCHERS: [&str; 2] = ["mpiexec", "mpirun"];
const NAMES: [&str; 4] = ["mpicc", "mpicxx", "mpiexec", "mpirun"];
const ASK_MAX: Duration = Duration::from_secs(3);

const MAKERS_BY_NAME: [(&str, &str); 7] = [
    ("opal_wrapper", "Open MPI"),
    ("openmpi", "Open MPI"),
    ("orterun", "Open MPI"),
    ("prterun", "Open MPI"),
    ("hydra", "MPICH"),
    ("mpich", "MPICH"),
    ("ompi", "Open MPI"),
];

const MAKERS_BY_WORDS: [(&str, &str); 8] = [
    ("Ferrywire", OURS),
    ("Open MPI", "Open MPI"),
    ("OpenRTE", "Open MPI"),
    ("PRRTE", "Open MPI"),
    ("Intel(R) MPI", "Intel MPI"),
    ("MVAPICH", "MVAPICH"),
    ("MPICH", "MPICH"),
    ("HYDRA", "MPICH"),
];
