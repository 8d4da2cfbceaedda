//! Terminals of the test's own: windows of a server of tmux.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::{Ended, Folder, TIMEOUT, finish};

/// A server of tmux with one window, which runs `line`. It ends with the test.
pub(crate) struct Tmux {
    folder: Folder,
}

impl Tmux {
    pub(crate) fn start(name: &str, line: &str) -> Tmux {
        Tmux::sized(name, line, 100, 50)
    }

    /// With so many columns and lines.
    pub(crate) fn sized(name: &str, line: &str, columns: u32, lines: u32) -> Tmux {
        let tmux = Tmux { folder: Folder::new(name) };
        // When the job has ended, the window stays until the test has looked.
        let line = format!("exec 2>&1; {line}; echo code $?; read x; echo read $x; sleep 1000");
        let started = tmux.command(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-s",
            "job",
            "-x",
            &columns.to_string(),
            "-y",
            &lines.to_string(),
            &line,
        ]);
        assert!(started.status.success(), "{}", started.err);
        tmux
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Ended {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.folder.join("socket")).args(arguments);
        command.env_remove("TMUX").env_remove("DISPLAY").env("TERM", "xterm");
        finish(command, &self.folder)
    }

    pub(crate) fn keys(&self, window: &str, line: &str) {
        let sent = self.command(&["send-keys", "-t", &format!("job:{window}"), line, "Enter"]);
        assert!(sent.status.success(), "{}", sent.err);
    }

    pub(crate) fn windows(&self) -> Vec<String> {
        let ended = self.command(&["list-windows", "-t", "job", "-F", "#{window_name}"]);
        ended.out.lines().skip(1).map(str::to_owned).collect()
    }

    pub(crate) fn shown(&self, window: &str) -> String {
        self.command(&["capture-pane", "-p", "-J", "-t", &format!("job:{window}")]).out
    }

    /// Waits until a window shows a text.
    pub(crate) fn shows(&self, window: &str, text: &str) {
        let until = Instant::now() + TIMEOUT;
        loop {
            let shown = self.shown(window);
            if shown.contains(text) {
                return;
            }
            assert!(Instant::now() < until, "never in window {window}: {text}\n{shown}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = self.command(&["kill-server"]);
    }
}

/// Whether a program is installed, and says "not tested" if not.
pub(crate) fn is_there(program: &str) -> bool {
    let there = Command::new(program).arg("-V").output().is_ok();
    if !there {
        println!("not tested: there is no {program}");
    }
    there
}
