//! Jobs whose ranks are this test program itself, started once more as `member`. `WORK` says what they do.

use std::fs;
use std::process::Command;

use super::{Ended, FERRY, Folder, MEMBER, finish, me};

/// The command of a job.
pub(crate) fn command(work: &str, options: &[&str]) -> Command {
    let mut job = Command::new(FERRY);
    job.arg("run").args(options).arg(me()).args(MEMBER).env("WORK", work);
    job
}

/// A job that has ended, whose temporary files are in `folder`.
pub(crate) fn job_in(folder: &Folder, work: &str, options: &[&str]) -> Ended {
    let mut job = command(work, options);
    job.env("TMPDIR", &folder.0);
    finish(job, folder)
}

/// Two hosts, which are both this one: their ranks share no memory.
pub(crate) struct TwoHosts {
    pub(crate) folder: Folder,
    rsh: String,
}

impl TwoHosts {
    pub(crate) fn new(name: &str) -> TwoHosts {
        let folder = Folder::new(&format!("hosts-{name}"));
        let script = folder.join("rsh");
        fs::write(&script, "shift; exec \"$@\"\n").expect("written");
        TwoHosts { rsh: format!("sh {}", script.display()), folder }
    }

    pub(crate) fn command(&self, work: &str, options: &[&str]) -> Command {
        command(work, &[&["--rsh", &self.rsh, "--hosts", "east,west"], options].concat())
    }

    pub(crate) fn job(&self, work: &str, options: &[&str]) -> Ended {
        let mut job = self.command(work, options);
        job.env("TMPDIR", &self.folder.0);
        finish(job, &self.folder)
    }
}
