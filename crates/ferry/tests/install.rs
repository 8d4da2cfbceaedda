//! `ferry install` and the compiler wrappers, as a user calls them. The library is a stand-in: its functions
//! are not tested here.

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Ended, FERRY, Folder, finish, is_root};

/// A folder as cargo leaves it: the command and the library side by side.
struct Built {
    folder: Folder,
}

impl Built {
    fn new(name: &str) -> Built {
        let built = Built::without_library(name);
        let source = built.folder.join("stand-in.c");
        fs::write(
            &source,
            "int MPI_Init(int *a, char ***b) { return a == 0 && b == 0 ? 0 : 1; }\n",
        )
        .expect("written");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-Wl,-soname,libmpi_abi.so.1", "-o"]);
        compiler.arg(built.folder.join("target/libmpi_abi.so")).arg(&source);
        assert!(compiler.status().expect("a compiler of C").success());
        built
    }

    fn without_library(name: &str) -> Built {
        let folder = Folder::new(name);
        fs::create_dir_all(folder.join("target")).expect("a folder");
        folder.copy(Path::new(FERRY), "target/ferry");
        Built { folder }
    }

    fn ferry(&self) -> PathBuf {
        self.folder.join("target/ferry")
    }

    fn prefix(&self) -> PathBuf {
        self.folder.join("a prefix")
    }

    fn run(&self, program: impl AsRef<Path>, arguments: &[&str]) -> Ended {
        let mut command = Command::new(program.as_ref());
        command.args(arguments).current_dir(&self.folder.0);
        finish(command, &self.folder)
    }

    fn install(&self) -> Ended {
        self.run(self.ferry(), &["install", "--prefix", "a prefix"])
    }

    /// A program that calls the library.
    fn program(&self) -> PathBuf {
        let path = self.folder.join("program.c");
        let text = "#include <mpi.h>\nint main(void) { return MPI_Init(0, 0); }\n";
        fs::write(&path, text).expect("written");
        path
    }
}

fn succeeded(ended: &Ended) {
    assert!(ended.status.success(), "{}\n{}{}", ended.status, ended.out, ended.err);
}

/// How many files a line says this of: those without `part` in their paths, and those with it.
fn files(ended: &Ended, what: &str, part: &str) -> (usize, usize) {
    let lines = ended.out.lines().filter(|line| line.starts_with(what));
    let (with, without): (Vec<_>, Vec<_>) = lines.partition(|line| line.contains(part));
    (without.len(), with.len())
}

/// How many files are below a folder.
fn files_below(folder: &Path) -> usize {
    let entries =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("listed").path());
    entries.map(|path| if path.is_dir() { files_below(&path) } else { 1 }).sum()
}

#[test]
fn everything_is_in_its_place_and_works_after_a_move() {
    let built = Built::new("install");
    let ended = built.install();
    succeeded(&ended);
    let shared = files_below(&built.prefix().join("share"));
    assert_eq!(files(&ended, "written", "/share/"), (14, shared), "{}", ended.out);
    let arguments = ["program.c", "-o", "before"];
    built.program();
    succeeded(&built.run(built.prefix().join("bin/mpicc"), &arguments));
    let prefix = built.folder.join("moved");
    fs::rename(built.prefix(), &prefix).expect("moved");
    let links = [
        ("bin/mpiexec", "ferry"),
        ("bin/mpirun", "ferry"),
        ("bin/mpicc", "ferry"),
        ("bin/mpicxx", "ferry"),
        ("bin/mpic++", "ferry"),
        ("lib/libmpi_abi.so", "libmpi_abi.so.1"),
        ("lib/ferrywire/libmpi_abi.so.1", "../libmpi_abi.so.1"),
    ];
    for (link, target) in links {
        assert_eq!(fs::read_link(prefix.join(link)).expect(link), Path::new(target));
    }
    let mut command = Command::new("pkg-config");
    command.args(["--cflags", "--libs", "mpi"]);
    command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    match command.output() {
        Ok(output) => {
            let flags = String::from_utf8_lossy(&output.stdout);
            let include = prefix.join("lib/pkgconfig/../../include");
            assert!(flags.contains(&format!("-I{}", include.display())), "{flags}");
            assert!(flags.contains("-lmpi_abi"), "{flags}");
        }
        Err(_) => println!("not tested: there is no pkg-config"),
    }

    let source = built.program();
    for compiler in ["mpicc", "mpicxx"] {
        let language = if compiler == "mpicc" { "c" } else { "c++" };
        let arguments = ["-x", language, "program.c", "-o", "program"];
        succeeded(&built.run(prefix.join("bin").join(compiler), &arguments));
        // The program finds the library without being told where it is.
        succeeded(&built.run(built.folder.join("program"), &[]));
    }
    fs::remove_file(source).expect("removed");
    succeeded(&built.run(prefix.join("bin/mpiexec"), &["-n", "2", "true"]));
    // A program linked before the move looks for the library at the old place and does not find it, unless mpiexec
    // starts it. (LD_LIBRARY_PATH is unset, since cargo sets it to the build tree, which has a library, too.)
    let alone = ["-u", "LD_LIBRARY_PATH", "./before"];
    assert!(!built.run("/usr/bin/env", &alone).status.success());
    succeeded(&built.run(prefix.join("bin/mpiexec"), &["-n", "2", "./before"]));
    // Our folder comes first in the user's LD_LIBRARY_PATH, which is kept.
    let script = ["-x", "LD_LIBRARY_PATH=/theirs", "sh", "-c", "echo $LD_LIBRARY_PATH"];
    let ended = built.run(prefix.join("bin/mpiexec"), &script);
    assert_eq!(ended.out, format!("{}/lib/ferrywire:/theirs\n", prefix.display()));
}

#[test]
fn a_second_time_changes_nothing_and_an_update_changes_what_differs() {
    let built = Built::new("again");
    succeeded(&built.install());
    let header = built.prefix().join("include/mpi.h");
    let written = || fs::metadata(&header).and_then(|it| it.modified()).expect("a time");
    let before = written();
    let ended = built.install();
    succeeded(&ended);
    let shared = files_below(&built.prefix().join("share"));
    assert_eq!(files(&ended, "unchanged", "/share/"), (14, shared), "{}", ended.out);
    assert_eq!(written(), before);

    fs::write(&header, "of an older version").expect("written");
    let ended = built.install();
    succeeded(&ended);
    assert_eq!(files(&ended, "written", "/share/"), (1, 0), "{}", ended.out);
    assert!(fs::read_to_string(&header).expect("text").contains("MPI_Send_c"));
    // An installed command can install itself.
    let elsewhere = built.folder.join("elsewhere");
    let arguments = ["install", "--prefix", elsewhere.to_str().expect("text")];
    succeeded(&built.run(built.prefix().join("bin/ferry"), &arguments));
    assert!(elsewhere.join("lib/libmpi_abi.so.1").exists());
}

#[test]
fn a_missing_library_is_a_sentence() {
    let built = Built::without_library("missing");
    let ended = built.install();
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.err.contains("build it first with cargo build --release"), "{}", ended.err);
    assert!(!built.prefix().exists());
    built.program();
    let ended = built.run(built.ferry(), &["cc", "program.c"]);
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.err.starts_with("mpicc: cannot find libmpi_abi.so in "), "{}", ended.err);
    // Compiling does not need the library.
    succeeded(&built.run(built.ferry(), &["cc", "-c", "program.c"]));
}

#[test]
fn a_header_of_another_mpi_is_not_used() {
    let built = Built::new("overwritten");
    succeeded(&built.install());
    built.program();
    fs::write(built.prefix().join("include/mpi.h"), "int MPI_Init(int *, char ***);\n")
        .expect("written");
    let ended = built.run(built.prefix().join("bin/mpicc"), &["-c", "program.c"]);
    assert_eq!(ended.status.code(), Some(1));
    let sentence =
        "include/mpi.h does not belong to this command: another MPI was installed over it";
    assert!(ended.err.contains(sentence), "{}", ended.err);
}

#[test]
fn an_installation_that_has_lost_a_file_names_it() {
    let built = Built::new("lost");
    succeeded(&built.install());
    built.program();
    for file in ["lib/libmpi_abi.so.1", "include/mpi.h"] {
        fs::remove_file(built.prefix().join(file)).expect("removed");
        let ended = built.run(built.prefix().join("bin/mpicc"), &["program.c"]);
        assert_eq!(ended.status.code(), Some(1));
        let sentence =
            format!("{file}, which belongs to this command: install Ferrywire again [FW0824]\n");
        assert!(ended.err.ends_with(&sentence), "{}", ended.err);
    }
}

#[test]
fn another_mpi_is_left_alone() {
    let built = Built::new("another");
    let theirs = built.prefix().join("bin/mpicc");
    fs::create_dir_all(theirs.parent().expect("a folder")).expect("made");
    symlink("opal_wrapper", &theirs).expect("a link");
    let ended = built.install();
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.err.contains("another MPI is installed there"), "{}", ended.err);
    assert_eq!(common::names_in(&built.prefix()), ["bin"]);
}

#[test]
fn a_folder_that_may_not_be_written_is_named() {
    let built = Built::new("closed");
    fs::create_dir(built.prefix()).expect("a folder");
    fs::set_permissions(built.prefix(), fs::Permissions::from_mode(0o555)).expect("closed");
    let mut command = Command::new(built.ferry());
    command.args(["install", "--prefix", "a prefix"]).current_dir(&built.folder.0);
    if is_root() {
        command.uid(61_234);
    }
    let ended = finish(command, &built.folder);
    assert_eq!(ended.status.code(), Some(1));
    let sentence = "a prefix/bin: Permission denied";
    assert!(ended.err.contains(sentence), "{}", ended.err);
}

/// The limit on the size of files stands in for a full disk: mounting a file system would take root.
#[test]
fn a_full_disk_leaves_no_half_of_a_file() {
    let built = Built::new("full");
    let script = "trap '' XFSZ; ulimit -f 1; exec \"$0\" install --prefix 'a prefix'";
    let ferry = built.ferry();
    let ended = built.run("sh", &["-c", script, ferry.to_str().expect("text")]);
    assert_eq!(ended.status.code(), Some(1), "{}{}", ended.out, ended.err);
    assert!(ended.err.contains("cannot write "), "{}", ended.err);
    assert!(ended.err.contains("bin/ferry: File too large"), "{}", ended.err);
    assert_eq!(common::names_in(&built.prefix().join("bin")), [""; 0]);
}

#[test]
fn wrappers_show_what_they_would_do() {
    let built = Built::new("show");
    succeeded(&built.install());
    let mpicc = built.prefix().join("bin/mpicc");
    let prefix = built.prefix();
    let prefix = prefix.to_str().expect("text");
    for option in ["-show", "--show", "-showme", "--showme"] {
        let ended = built.run(&mpicc, &[option, "x y.c"]);
        succeeded(&ended);
        let line = format!(
            "cc 'x y.c' -I\"{prefix}/include\" -L\"{prefix}/lib\" \
             -Wl,\"--enable-new-dtags,-rpath,{prefix}/lib\" -lmpi_abi\n"
        );
        assert_eq!(ended.out, line);
    }
    let ended = built.run(&mpicc, &["-show", "-c", "x.c"]);
    assert_eq!(ended.out, format!("cc -c x.c -I\"{prefix}/include\"\n"));
    for option in ["--cflags", "-showme:compile", "-compile_info", "-show-compile-info"] {
        assert_eq!(built.run(&mpicc, &[option]).out, format!("-I\"{prefix}/include\"\n"));
    }
    for option in ["--libs", "-showme:link", "-link_info", "-show-link-info"] {
        assert!(built.run(&mpicc, &[option]).out.ends_with(" -lmpi_abi\n"));
    }
    assert_eq!(built.run(&mpicc, &["-showme:libs"]).out, "mpi_abi\n");
    assert_eq!(built.run(&mpicc, &["-showme:command"]).out, "cc\n");
    let version = built.run(&mpicc, &["--showme:version"]).out;
    assert_eq!(version, concat!("mpicc: Ferrywire ", env!("CARGO_PKG_VERSION"), " (MPI 5.0)\n"));

    let mut command = Command::new(&mpicc);
    command.arg("-show").env("FERRY_CC", "ccache gcc");
    assert!(finish(command, &built.folder).out.starts_with("ccache gcc -I\""), "two words");
    let mut command = Command::new(&mpicc);
    command.arg("-v").env("FERRY_CC", "/no/compiler");
    let ended = finish(command, &built.folder);
    assert_eq!(ended.status.code(), Some(127));
    assert!(
        ended.err.starts_with("mpicc: cannot start the compiler /no/compiler: "),
        "{}",
        ended.err
    );
    assert!(
        ended.err.ends_with("install it, or name another in FERRY_CC [FW0825]\n"),
        "{}",
        ended.err
    );
}

/// The wrapper works from cargo's target folder, without an installation.
#[test]
fn the_build_tree_compiles_too() {
    let built = Built::new("tree");
    built.program();
    succeeded(&built.run(built.ferry(), &["cc", "program.c", "-o", "program"]));
    succeeded(&built.run(built.folder.join("program"), &[]));
}

#[test]
fn manual_pages_are_where_man_finds_them() {
    let built = Built::new("pages");
    succeeded(&built.install());
    let share = built.prefix().join("share/man");
    let run = fs::read_to_string(share.join("man1/ferry-run.1")).expect("a page");
    assert_eq!(run, built.run(built.ferry(), &["man", "run"]).out);
    assert_eq!(
        fs::read_link(share.join("man1/mpiexec.1")).expect("a link"),
        Path::new("ferry-run.1")
    );
    for page in ["ferry", "ferry-doctor", "ferry-sim-soak", "mpirun", "mpicc", "mpicxx"] {
        let text = fs::read_to_string(share.join(format!("man1/{page}.1"))).expect(page);
        assert!(text.contains(".SH NAME") && text.contains("Ferrywire"), "{page}: {text}");
    }
    let mut command = Command::new("man");
    command.args(["mpiexec"]).env("MANPATH", &share).env("MANWIDTH", "80");
    if Command::new("man").arg("--version").output().is_err() {
        println!("not tested: there is no man");
        return;
    }
    let ended = finish(command, &built.folder);
    if ended.out.contains("This system has been minimized") {
        println!("not tested: this system shows no manual pages");
        return;
    }
    for words in ["--rank-command <COMMAND>", "--gdb[=<RANKS>]", "The exit code is that of"] {
        assert!(ended.out.contains(words), "{words}: {}{}", ended.out, ended.err);
    }
}

#[test]
fn a_page_that_is_not_there_is_a_sentence() {
    let built = Built::new("no-page");
    let ended = built.run(built.ferry(), &["man", "snm"]);
    assert_eq!(ended.status.code(), Some(2));
    assert!(
        ended.err.starts_with("ferry man: ferry has no command snm: expected one of bench, "),
        "{}",
        ended.err
    );
    assert!(built.run(built.ferry(), &["man", "mpicc"]).out.contains("FERRY-CC"));
}

#[test]
fn shells_complete_options_and_their_values() {
    let built = Built::new("completion");
    succeeded(&built.install());
    let share = built.prefix().join("share");
    let complete = |command: &str, words: &str| {
        let path = share.join("bash-completion/completions").join(command);
        // As bash does it: the words, the number of the last, and the function of the command.
        let script = format!(
            ". '{}'; COMP_WORDS=({command} {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _{command} {command} \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"; echo ${{COMPREPLY[*]}}",
            path.display()
        );
        let mut bash = Command::new("bash");
        bash.args(["-c", &script]);
        let ended = finish(bash, &built.folder);
        assert!(ended.status.success(), "{}", ended.err);
        ended.out.trim().to_owned()
    };
    assert_eq!(complete("mpiexec", "--on-d"), "--on-deadlock --on-death");
    assert_eq!(complete("mpirun", "--on-death c"), "continue");
    assert_eq!(complete("ferry", "do"), "doctor");
    assert_eq!(complete("ferry", "run --rank-c"), "--rank-command");
    assert_eq!(complete("ferry", "completion f"), "fish");
    for (shell, path) in
        [("zsh", "zsh/site-functions/_ferry"), ("fish", "fish/vendor_completions.d/ferry.fish")]
    {
        let path = share.join(path);
        let text = fs::read_to_string(&path).expect("written");
        assert!(text.contains("rank-command"), "{shell}");
        let mut command = Command::new(shell);
        command.arg("-n").arg(&path);
        if Command::new(shell).arg("--version").output().is_err() {
            println!("not tested: there is no {shell}");
            continue;
        }
        succeeded(&finish(command, &built.folder));
    }
    let ended = built.run(built.ferry(), &["completion", "bahs"]);
    assert_eq!(ended.status.code(), Some(2));
    assert!(ended.err.contains("a similar value exists: 'bash'"), "{}", ended.err);
}
