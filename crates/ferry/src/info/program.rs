//! `ferry info FILE`: which MPI a program would load, and whether that fits.
//!
//! The program is only read. Of a Python interpreter, the search path is asked for, and the extension module of mpi4py is
//! read; no module of the user is imported.

use std::ffi::OsStr;
use std::fmt::Write;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use ferrywire_host::ErrorCode;
use ferrywire_host::bootstrap;
use serde::Serialize;

use crate::doctor::{in_path, output_of};
use crate::home::{Home, LIBRARY};
use crate::loader::{self, Cache, Elf, Family, Linker, Loaded, NotElf, Via};
use crate::out;

/// Whether a program runs on Ferrywire.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Fit {
    /// It runs as it is.
    Fits,
    /// It has to be compiled again.
    CompileAgain,
    /// It is right, but would load another library than ours, or none.
    WrongLibrary,
    NoMpi,
}

/// The answer about one file.
#[derive(Debug, Serialize)]
struct ProgramReport {
    file: PathBuf,
    fit: Fit,
    verdict: String,
    /// What the file is.
    sort: String,
    /// The interpreter of a script.
    interpreter: Option<PathBuf>,
    /// Extension modules of mpi4py that the interpreter would import.
    mpi4py: Vec<ExtensionModule>,
    rpath: Vec<String>,
    runpath: Vec<String>,
    needed: Vec<String>,
    libraries: Vec<MpiLibrary>,
}

#[derive(Debug, Serialize)]
struct ExtensionModule {
    file: PathBuf,
    libraries: Vec<MpiLibrary>,
}

/// A library of an MPI that a program needs.
#[derive(Clone, Debug, Serialize)]
struct MpiLibrary {
    name: String,
    family: Family,
    needed_by: PathBuf,
    under_ferry_run: Option<Place>,
    alone: Option<Place>,
}

/// Where the dynamic linker finds a library, and whose it is.
#[derive(Clone, Debug, Serialize)]
struct Place {
    file: PathBuf,
    via: Via,
    maker: Option<&'static str>,
    /// It is the library of this installation.
    is_own: bool,
}

/// Prints the report about a file. The exit code is 1 if it does not fit, and 2 if it cannot be told.
pub(super) fn run(file: &Path, json: bool) -> ExitCode {
    match Machine::look().report(file) {
        Ok(report) => {
            if json {
                out::json(&report);
            } else {
                out::line(report.told().trim_end());
            }
            ExitCode::from(u8::from(!matches!(report.fit, Fit::Fits | Fit::NoMpi)))
        }
        Err(why) => {
            eprintln!("ferry info: {}", ErrorCode::NO_FACTS.ends(why));
            ExitCode::from(2)
        }
    }
}

/// What is the same for all files that are looked at.
struct Machine {
    cache: Cache,
    /// The folder that `ferry run` puts first, and the library in it.
    lib: Option<PathBuf>,
    library: Option<PathBuf>,
    mpicc: String,
    library_path: Vec<PathBuf>,
}

impl Machine {
    fn look() -> Machine {
        let home = Home::find().ok();
        let lib = home.as_ref().and_then(Home::lib_to_load);
        let library = home.as_ref().and_then(|home| home.library().ok());
        let mpicc = match &home {
            Some(home) if home.command.with_file_name("mpicc").exists() => {
                home.command.with_file_name("mpicc").display().to_string()
            }
            Some(home) => format!("{} cc", home.command.display()),
            None => "mpicc".into(),
        };
        let value = std::env::var_os("LD_LIBRARY_PATH");
        Machine {
            cache: Cache::read(),
            lib,
            library: library.and_then(|library| fs::canonicalize(library).ok()),
            mpicc,
            library_path: loader::library_path(value.as_deref()),
        }
    }

    fn report(&self, asked: &Path) -> Result<ProgramReport, String> {
        let file = found(asked)?;
        let shown = file.display();
        match Elf::read(&file) {
            Ok(elf) if is_python(&file) => {
                let mut report = self.of_python(&file, &file)?;
                report.sort = sort_of(&elf).into();
                Ok(report)
            }
            Ok(elf) => Ok(self.of_elf(&file, &elf)),
            Err(NotElf::Other) => self.of_script(&file),
            Err(NotElf::Damaged(why)) => {
                Err(format!("{shown} is a damaged ELF file: {why}; build or copy it again"))
            }
            Err(NotElf::Io(error)) => Err(format!("cannot read {shown}: {error}")),
        }
    }

    fn of_elf(&self, file: &Path, elf: &Elf) -> ProgramReport {
        let libraries = self.mpis_of(file, elf);
        let contains_ours = || loader::file_contains(file, bootstrap::VARIABLE);
        let (fit, verdict) = match self.judged(&libraries) {
            Some(judged) => judged,
            None if elf.defines_mpi && is_library(file) => {
                let maker = loader::maker(file).unwrap_or("another MPI");
                (Fit::NoMpi, format!("is itself a library of an MPI, of {maker}; name a program"))
            }
            None if elf.defines_mpi && !contains_ours() => (
                Fit::CompileAgain,
                format!(
                    "must be compiled again with {}: it contains another MPI, linked statically",
                    self.mpicc
                ),
            ),
            None if contains_ours() => (
                Fit::Fits,
                "fits: it contains Ferrywire, as programs in Rust do, and loads no library of an MPI".into(),
            ),
            None if elf.uses_mpi => (
                Fit::CompileAgain,
                format!(
                    "must be linked again with {}: it calls MPI, and names no library for that",
                    self.mpicc
                ),
            ),
            None => (Fit::NoMpi, "does not use MPI: it needs no library of an MPI".into()),
        };
        ProgramReport {
            file: file.to_path_buf(),
            fit,
            verdict,
            sort: sort_of(elf).into(),
            interpreter: None,
            mpi4py: Vec::new(),
            rpath: elf.rpath.clone(),
            runpath: elf.runpath.clone(),
            needed: elf.needed.clone(),
            libraries,
        }
    }

    /// The libraries of MPIs that a file needs, also indirectly.
    fn mpis_of(&self, file: &Path, elf: &Elf) -> Vec<MpiLibrary> {
        let under = self.lib.iter().chain(&self.library_path).cloned().collect();
        let under = Linker { cache: &self.cache, library_path: under }.libraries(file, elf);
        let alone = self.library_path.clone();
        let alone = Linker { cache: &self.cache, library_path: alone }.libraries(file, elf);
        let mut found: Vec<MpiLibrary> = Vec::new();
        for (loaded, is_under) in
            under.iter().map(|one| (one, true)).chain(alone.iter().map(|one| (one, false)))
        {
            let Some(family) = Family::of(&loaded.name) else { continue };
            let at = found.iter().position(|one| one.name == loaded.name).unwrap_or_else(|| {
                found.push(MpiLibrary {
                    name: loaded.name.clone(),
                    family,
                    needed_by: loaded.needed_by.clone(),
                    under_ferry_run: None,
                    alone: None,
                });
                found.len() - 1
            });
            let place = self.place_of(loaded);
            if is_under {
                found[at].under_ferry_run = place;
            } else {
                found[at].alone = place;
            }
        }
        // What another MPI needs for itself does not matter.
        let theirs: Vec<PathBuf> = found
            .iter()
            .flat_map(|one| [&one.under_ferry_run, &one.alone])
            .flatten()
            .map(|place| place.file.clone())
            .collect();
        found.retain(|one| one.needed_by == file || !theirs.contains(&one.needed_by));
        found
    }

    fn place_of(&self, loaded: &Loaded) -> Option<Place> {
        let (file, via) = loaded.found.clone()?;
        let is_own = fs::canonicalize(&file).ok().is_some_and(|real| Some(real) == self.library);
        let maker = if is_own { Some("Ferrywire") } else { loader::maker(&file) };
        Some(Place { file, via, maker, is_own })
    }

    /// What the libraries of MPIs mean for a program. `None` if there are none.
    fn judged(&self, libraries: &[MpiLibrary]) -> Option<(Fit, String)> {
        let first = libraries.first()?;
        if let Some(other) = libraries.iter().find(|one| one.family != Family::Standard) {
            let (name, family) = (&other.name, other.family.name());
            let needs = format!("it needs {name} of {family}");
            return Some((
                Fit::CompileAgain,
                format!("must be compiled again with {}: {needs}", self.mpicc),
            ));
        }
        if first.name != LIBRARY {
            let name = &first.name;
            return Some((
                Fit::CompileAgain,
                format!("must be linked again with {}: it needs {name}, not {LIBRARY}", self.mpicc),
            ));
        }
        Some(match &first.under_ferry_run {
            Some(place) if place.is_own => (
                Fit::Fits,
                format!("fits: it needs {LIBRARY}, and ferry run loads that of Ferrywire"),
            ),
            Some(place) => {
                let what = place.maker.unwrap_or("another MPI");
                let (file, via) = (place.file.display(), place.via.name());
                let fix = match place.via {
                    Via::Rpath => {
                        "link it with -Wl,--enable-new-dtags, so that LD_LIBRARY_PATH can choose"
                    }
                    _ => {
                        "install Ferrywire with ferry install, and start the program with its ferry run"
                    }
                };
                (
                    Fit::WrongLibrary,
                    format!(
                        "fits, but loads the wrong {LIBRARY}: {file}, found by {via}, is of {what}; {fix}"
                    ),
                )
            }
            None => (
                Fit::WrongLibrary,
                format!(
                    "fits, but {LIBRARY} is not found: build it with cargo build --release, or install Ferrywire again"
                ),
            ),
        })
    }

    fn of_script(&self, file: &Path) -> Result<ProgramReport, String> {
        let shown = file.display();
        let mut start = Vec::new();
        let read = File::open(file).and_then(|file| file.take(1024).read_to_end(&mut start));
        read.map_err(|error| format!("cannot read {shown}: {error}"))?;
        let first = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let first = String::from_utf8_lossy(first).into_owned();
        let named = first.strip_prefix("#!").and_then(interpreter);
        let by_ending = || {
            let is_python = file.extension().is_some_and(|ending| ending == "py");
            is_python.then(|| "python3".to_owned())
        };
        // A script that stands in for Python, such as a shim of pyenv, is asked like Python itself.
        if is_python(file) {
            return self.of_python(file, file);
        }
        let Some(name) = named.or_else(by_ending) else {
            return Err(format!(
                "{shown} is neither an ELF file nor a script: expected a program, a library, or a script that begins with #!"
            ));
        };
        let path = match name.contains('/') {
            true => Some(PathBuf::from(&name)).filter(|path| path.exists()),
            false => in_path(&name).into_iter().next(),
        };
        let Some(path) = path else {
            return Err(format!(
                "cannot find {name}, the interpreter of {shown}: install it, or correct the first line of the script"
            ));
        };
        if is_python(&path) {
            return self.of_python(file, &path);
        }
        let verdict = match Elf::read(&path).map(|elf| self.of_elf(&path, &elf)) {
            Ok(report) if report.fit != Fit::NoMpi => {
                return Ok(ProgramReport {
                    file: file.to_path_buf(),
                    sort: "script".into(),
                    interpreter: Some(path),
                    ..report
                });
            }
            _ => {
                "does not use MPI: its interpreter needs no MPI; what the script starts is not known"
            }
        };
        Ok(ProgramReport {
            interpreter: Some(path),
            ..ProgramReport::of(file, "script", Fit::NoMpi, verdict)
        })
    }

    /// The report about a Python script, or about Python itself: that of the mpi4py that would be imported.
    fn of_python(&self, file: &Path, python: &Path) -> Result<ProgramReport, String> {
        let shown = python.display();
        let mut command = Command::new(python);
        // -B: writes nothing. The folder of the script is left out, since it is not searched by name here.
        command.args(["-B", "-c", "import sys; print('\\n'.join(p for p in sys.path if p))"]);
        let asked = output_of(&mut command, PYTHON_MAX);
        let asked =
            asked.map_err(|why| format!("cannot ask {shown} where its modules are: it {why}"))?;
        if asked.code != Some(0) {
            let said = asked.first_line();
            return Err(format!("cannot ask {shown} where its modules are: {said}"));
        }
        let own = file.parent().filter(|_| file != python).map(Path::to_path_buf);
        let folders = own.into_iter().chain(asked.out.lines().map(PathBuf::from));
        let package = folders.map(|folder| folder.join("mpi4py")).find(|place| place.is_dir());
        let sort = if file == python { "Python" } else { "Python script" };
        let mut report = ProgramReport {
            interpreter: Some(python.to_path_buf()),
            ..ProgramReport::of(file, sort, Fit::NoMpi, "")
        };
        let Some(package) = package else {
            report.verdict = format!("does not use MPI: {shown} has no mpi4py");
            return Ok(report);
        };
        report.mpi4py = self.extension_modules(&package);
        let shown = package.display();
        let judged = |module: &ExtensionModule| self.judged(&module.libraries);
        let all: Vec<_> = report.mpi4py.iter().filter_map(judged).collect();
        // Some wheels have a module for each ABI, and choose when they are imported.
        let best = all.iter().find(|(fit, _)| *fit == Fit::Fits).or(all.first());
        let again = format!(
            "must be compiled again with {}: MPICC='{}' pip install --no-cache-dir --no-binary mpi4py mpi4py",
            self.mpicc, self.mpicc
        );
        (report.fit, report.verdict) = match best {
            Some((Fit::Fits, _)) => {
                (Fit::Fits, format!("fits: mpi4py in {shown} is for the standard ABI"))
            }
            Some((Fit::WrongLibrary, why)) => {
                (Fit::WrongLibrary, format!("mpi4py in {shown} {why}"))
            }
            Some(_) => {
                let families = report.mpi4py.iter().flat_map(|module| &module.libraries);
                let family = families.map(|one| one.family.name()).next().unwrap_or("another MPI");
                (Fit::CompileAgain, format!("{again}; mpi4py in {shown} is for {family}"))
            }
            None => (
                Fit::CompileAgain,
                format!("{again}; no module of mpi4py in {shown} names the library of an MPI"),
            ),
        };
        Ok(report)
    }

    fn extension_modules(&self, package: &Path) -> Vec<ExtensionModule> {
        let entries = fs::read_dir(package).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries
            .map(|entry| entry.path())
            .filter(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                name.starts_with("MPI.") && name.ends_with(".so")
            })
            .collect();
        files.sort();
        let module = |file: PathBuf| {
            let libraries =
                Elf::read(&file).map_or_else(|_| Vec::new(), |elf| self.mpis_of(&file, &elf));
            ExtensionModule { file, libraries }
        };
        files.into_iter().map(module).collect()
    }
}

impl ProgramReport {
    fn of(file: &Path, sort: &str, fit: Fit, verdict: &str) -> ProgramReport {
        ProgramReport {
            file: file.to_path_buf(),
            fit,
            verdict: verdict.into(),
            sort: sort.into(),
            interpreter: None,
            mpi4py: Vec::new(),
            rpath: Vec::new(),
            runpath: Vec::new(),
            needed: Vec::new(),
            libraries: Vec::new(),
        }
    }

    fn told(&self) -> String {
        let mut text = String::new();
        for line in out::wrapped(&format!("{} {}", self.file.display(), self.verdict), COLUMNS) {
            let _ = writeln!(text, "{line}");
        }
        let mut row = |name: &str, says: &str| {
            for (at, line) in out::wrapped(says, COLUMNS - INDENT).into_iter().enumerate() {
                let name = if at == 0 { name } else { "" };
                let _ = writeln!(text, "{name:<INDENT$}{line}");
            }
        };
        row("file", &self.sort);
        if let Some(interpreter) = &self.interpreter {
            row("interpreter", &interpreter.display().to_string());
        }
        let listed = [("needs", &self.needed), ("RPATH", &self.rpath), ("RUNPATH", &self.runpath)];
        for (name, list) in listed {
            if !list.is_empty() {
                row(name, &list.join(", "));
            }
        }
        for module in &self.mpi4py {
            row("mpi4py", &module.file.display().to_string());
        }
        for (file, library) in self.all_libraries() {
            row("MPI", &format!("{}, {}", library.name, library.family.name()));
            if library.needed_by != *file {
                row("needed by", &library.needed_by.display().to_string());
            }
            row("ferry run", &Place::told(library.under_ferry_run.as_ref()));
            row("without it", &Place::told(library.alone.as_ref()));
        }
        text
    }

    /// The libraries of the program, and those of its modules, each with the file that it is for.
    fn all_libraries(&self) -> impl Iterator<Item = (&PathBuf, &MpiLibrary)> {
        let own = self.libraries.iter().map(|library| (&self.file, library));
        let modules = self.mpi4py.iter();
        own.chain(modules.flat_map(|module| module.libraries.iter().map(|one| (&module.file, one))))
    }
}

impl Place {
    fn told(place: Option<&Place>) -> String {
        match place {
            None => "is not found".into(),
            Some(place) => {
                let maker = place.maker.map_or_else(String::new, |maker| format!(" of {maker}"));
                let (file, via) = (place.file.display(), place.via.name());
                format!("{file}{maker}, found by {via}")
            }
        }
    }
}

/// The file that the user means: at this path, or else of this name in `PATH`.
fn found(asked: &Path) -> Result<PathBuf, String> {
    let shown = asked.display();
    let file = match asked.metadata() {
        Ok(_) => asked.to_path_buf(),
        Err(error) => {
            let name = asked.to_str().filter(|name| !name.contains('/'));
            let in_path = name.and_then(|name| in_path(name).into_iter().next());
            in_path.ok_or_else(|| match name {
                Some(_) => format!("cannot find {shown}, neither here nor in PATH"),
                None => format!("cannot read {shown}: {error}"),
            })?
        }
    };
    match file.metadata() {
        Ok(facts) if facts.is_file() => Ok(file),
        Ok(facts) if facts.is_dir() => Err(format!("{shown} is a folder: name a program")),
        _ => Err(format!("{shown} is not a file: name a program")),
    }
}

/// The interpreter that the first line of a script names, without `#!`: a path, or a name to be found in `PATH`.
fn interpreter(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    let first = words.next()?;
    if !first.ends_with("/env") {
        return Some(first.to_owned());
    }
    // env takes options, such as -S, and variables before the name.
    words.find(|word| !word.starts_with('-') && !word.contains('=')).map(str::to_owned)
}

/// Whether a file is named like an interpreter of Python.
fn is_python(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let rest = name.strip_prefix("python").or(name.strip_prefix("pypy"));
    rest.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

/// Whether a file is named like the library of an MPI.
fn is_library(file: &Path) -> bool {
    file.file_name().and_then(OsStr::to_str).and_then(Family::of).is_some()
}

fn sort_of(elf: &Elf) -> &'static str {
    match elf.needed.is_empty() {
        true => "ELF, without libraries",
        false => "ELF",
    }
}

const COLUMNS: usize = 80;
const INDENT: usize = 13;
const PYTHON_MAX: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_is_named_directly_or_by_env() {
        assert_eq!(interpreter("/bin/sh -e").as_deref(), Some("/bin/sh"));
        assert_eq!(interpreter(" /usr/bin/env python3").as_deref(), Some("python3"));
        assert_eq!(interpreter("/usr/bin/env -S A=1 python3 -u").as_deref(), Some("python3"));
        assert_eq!(interpreter(""), None);
    }

    #[test]
    fn python_is_known_by_its_name() {
        for name in ["python", "/usr/bin/python3", "/x/python3.11", "pypy3"] {
            assert!(is_python(Path::new(name)), "{name}");
        }
        for name in ["pythonx", "bash", "python3-config"] {
            assert!(!is_python(Path::new(name)), "{name}");
        }
    }
}
