//! PMI, version 1: lines of `key=value`, on a socket that the process inherits (`PMI_FD`) or connects to (`PMI_PORT`).
//! MPICH's mpiexec and its descendants speak it, and so does srun of Slurm with `--mpi=pmi2`.

use std::fs::File;
use std::io::{self, Write};
use std::net::TcpStream;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use zeroize::{Zeroize, Zeroizing};

use super::kvs::{Kvs, KvsError};
use super::layout;

/// The kvs of a launcher that speaks PMI.
pub(super) struct Pmi {
    wire: Lines,
    launcher: &'static str,
    /// The name of the kvs space.
    space: String,
    rank: u32,
    size: u32,
    /// The longest value that the launcher takes.
    word_bytes_max: usize,
}

pub(super) trait Stream: io::Read + Write + Send {}
impl<T: io::Read + Write + Send> Stream for T {}

/// Connects to the launcher that the environment names.
pub(super) fn open(read: impl Fn(&str) -> Option<String>) -> Result<Pmi, KvsError> {
    let launcher = match () {
        () if read("SLURM_STEP_ID").is_some() => "Slurm's srun (PMI)",
        () if read("PMI_HOSTNAME").is_some() => "MPICH's mpiexec (Hydra, PMI)",
        () => "a PMI launcher",
    };
    let number = |name: &str| read(name)?.trim().parse::<u32>().ok();
    let (stream, numbers) = match read("PMI_FD") {
        Some(fd) => (inherited(launcher, &fd)?, number("PMI_RANK").zip(number("PMI_SIZE"))),
        None => (connect(launcher, &read("PMI_PORT").unwrap_or_default())?, None),
    };
    Pmi::begin_with(stream, launcher, numbers, number("PMI_ID"))
}

/// The socket whose descriptor the launcher gave. The descriptor stays open, but does not survive an exec.
fn inherited(launcher: &'static str, value: &str) -> Result<Box<dyn Stream>, KvsError> {
    let bad = |why: &dyn std::fmt::Display| {
        KvsError::new(
            launcher,
            format_args!(
                "PMI_FD is {value}, which is not the launcher's socket in this process ({why}). A program that \
                 a rank starts cannot join its job (unset PMI_FD to run it alone), and a wrapper between the \
                 launcher and a rank must not close inherited file descriptors"
            ),
        )
    };
    let number: RawFd = value.trim().parse().map_err(|error| bad(&error))?;
    // SAFETY: copies a descriptor; an invalid one is an error.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(bad(&io::Error::last_os_error()));
    }
    // SAFETY: sets a flag of a descriptor that exists, as the copy shows.
    unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    // SAFETY: it is new, and owned by nothing else.
    let copy = unsafe { OwnedFd::from_raw_fd(copy) };
    Ok(Box::new(File::from(copy)))
}

fn connect(launcher: &'static str, place: &str) -> Result<Box<dyn Stream>, KvsError> {
    let stream = TcpStream::connect(place).map_err(|error| {
        KvsError::new(
            launcher,
            format_args!("no connection to PMI_PORT, {place}, is possible: {error}"),
        )
    })?;
    // Lines are short, and each is waited for.
    let _ = stream.set_nodelay(true);
    Ok(Box::new(stream))
}

impl Pmi {
    /// Starts the conversation with the launcher. If rank and size are unknown, asks for them with the id of this
    /// process.
    pub(super) fn begin_with(
        stream: Box<dyn Stream>,
        launcher: &'static str,
        numbers: Option<(u32, u32)>,
        id: Option<u32>,
    ) -> Result<Pmi, KvsError> {
        let wire = Lines::new(stream);
        let (space, word_bytes_max) = (String::new(), 0);
        let mut pmi = Pmi { wire, launcher, space, rank: 0, size: 0, word_bytes_max };
        let (rank, size) = match numbers {
            Some(numbers) => numbers,
            None => pmi.identify(id)?,
        };
        if rank >= size {
            return Err(pmi.trouble(format_args!(
                "the launcher says that this is rank {rank} of {size}, which is impossible"
            )));
        }
        (pmi.rank, pmi.size) = (rank, size);
        pmi.begin()?;
        Ok(pmi)
    }

    /// Tells the launcher at a port which process this is, and receives the rank and the size.
    fn identify(&mut self, id: Option<u32>) -> Result<(u32, u32), KvsError> {
        let id = id.ok_or_else(|| self.trouble("PMI_ID is not set"))?;
        self.say(&format!("cmd=initack pmiid={id}"))?;
        let answer = self.hear("initack")?;
        let numbers = answer.number("rank").zip(answer.number("size"));
        // The same again, in single lines.
        for _ in 0..3 {
            self.hear("set")?;
        }
        numbers.ok_or_else(|| self.trouble("the launcher does not say which rank this is"))
    }

    fn begin(&mut self) -> Result<(), KvsError> {
        let answer = self.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")?;
        if answer.get("rc") != Some("0") {
            let text = answer.shown();
            return Err(self
                .trouble(format_args!("the launcher does not support version 1 of PMI: {text}")));
        }
        let maxes = self.ask("cmd=get_maxes", "maxes")?;
        self.word_bytes_max = maxes.number("vallen_max").unwrap_or(0) as usize;
        let named = self.ask("cmd=get_my_kvsname", "my_kvsname")?;
        let space = named.get("kvsname").map(str::to_owned);
        self.space = space.ok_or_else(|| self.trouble("the launcher names no key-value space"))?;
        Ok(())
    }

    fn say(&mut self, line: &str) -> Result<(), KvsError> {
        // In one piece, which is wiped when dropped.
        let mut whole = Zeroizing::new(String::with_capacity(line.len() + 1));
        whole.push_str(line);
        whole.push('\n');
        let wire = &mut self.wire.stream;
        let said = wire.write_all(whole.as_bytes()).and_then(|()| wire.flush());
        said.map_err(|error| self.trouble(format_args!("sending to the launcher failed: {error}")))
    }

    fn hear(&mut self, command: &str) -> Result<PmiAnswer, KvsError> {
        let answer = match self.wire.next() {
            Ok(Some(text)) => PmiAnswer { text },
            Ok(None) => return Err(self.trouble("the launcher has exited; the job is over")),
            Err(error) => {
                return Err(
                    self.trouble(format_args!("receiving from the launcher failed: {error}"))
                );
            }
        };
        match answer.get("cmd") {
            Some(found) if found == command => Ok(answer),
            _ => {
                let text = answer.shown();
                Err(self
                    .trouble(format_args!("instead of `{command}` the launcher answered: {text}")))
            }
        }
    }

    fn ask(&mut self, line: &str, command: &str) -> Result<PmiAnswer, KvsError> {
        self.say(line)?;
        self.hear(command)
    }

    fn look_up(&mut self, key: &str) -> Result<Option<Zeroizing<String>>, KvsError> {
        let line = format!("cmd=get kvsname={} key={key}", self.space);
        let answer = self.ask(&line, "get_result")?;
        let found = answer.get("rc").is_none_or(|code| code == "0");
        Ok(answer.get("value").filter(|_| found).map(|value| Zeroizing::new(value.to_owned())))
    }

    fn trouble(&self, trouble: impl std::fmt::Display) -> KvsError {
        KvsError::new(self.launcher, trouble)
    }
}

impl Kvs for Pmi {
    fn launcher(&self) -> &'static str {
        self.launcher
    }

    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn program(&mut self) -> Option<u32> {
        self.ask("cmd=get_appnum", "appnum").ok()?.number("appnum")
    }

    fn neighbours(&mut self) -> Result<Vec<u32>, KvsError> {
        if self.size == 1 {
            return Ok(vec![0]);
        }
        let mapping = self.look_up("PMI_process_mapping")?;
        let mapping = mapping
            .ok_or_else(|| self.trouble("the launcher does not say which ranks share a host"))?;
        layout::neighbours(&mapping, self.rank, self.size).ok_or_else(|| {
            self.trouble(format_args!("the launcher's process mapping is invalid: {}", *mapping))
        })
    }

    fn put(&mut self, key: &str, word: &str) -> Result<(), KvsError> {
        if word.len() >= self.word_bytes_max {
            let most = self.word_bytes_max;
            return Err(self.trouble(format_args!(
                "the launcher accepts only values shorter than {most} bytes"
            )));
        }
        // A string that grows leaves copies behind, and the word may be secret.
        let before = format!("cmd=put kvsname={} key={key} value=", self.space);
        let mut line = Zeroizing::new(String::with_capacity(before.len() + word.len()));
        line.extend([&before, word]);
        let answer = self.ask(&line, "put_result")?;
        match answer.get("rc") {
            None | Some("0") => Ok(()),
            Some(_) => {
                let text = answer.shown();
                Err(self.trouble(format_args!("the launcher refused to store a value: {text}")))
            }
        }
    }

    fn fence(&mut self) -> Result<(), KvsError> {
        self.ask("cmd=barrier_in", "barrier_out").map(drop)
    }

    fn get(&mut self, from: u32, key: &str) -> Result<Zeroizing<String>, KvsError> {
        let word = self.look_up(key)?;
        word.ok_or_else(|| {
            self.trouble(format_args!("rank {from} has stored no value under {key}"))
        })
    }

    fn goodbye(&mut self) -> Result<(), KvsError> {
        self.ask("cmd=finalize", "finalize_ack").map(drop)
    }

    fn abort(&mut self, code: i32, text: &str) -> Result<(), KvsError> {
        // Values end at a space.
        let text = text.replace(|letter: char| letter.is_whitespace(), "_");
        self.say(&format!("cmd=abort exitcode={code} message={text}"))
    }
}

/// A line from the launcher: `key=value` pairs, whose values are unquoted and hold no space.
struct PmiAnswer {
    text: Zeroizing<String>,
}

impl PmiAnswer {
    fn get(&self, key: &str) -> Option<&str> {
        let mut words = self.text.split_ascii_whitespace();
        words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    fn number(&self, key: &str) -> Option<u32> {
        self.get(key)?.parse().ok()
    }

    /// The beginning of the line, for messages. What ranks have stored is at the end of a line, and is not shown.
    fn shown(&self) -> &str {
        let end = self.text.find(" value=").unwrap_or(self.text.len());
        &self.text[..self.text.floor_char_boundary(end.min(SHOWN_BYTES_MAX))]
    }
}

/// Reads the launcher's answers line by line. What has been read is wiped, because words of ranks may be secret.
struct Lines {
    stream: Box<dyn Stream>,
    bytes: Zeroizing<Vec<u8>>,
    /// How many bytes have arrived and not been read.
    filled: usize,
}

impl Lines {
    fn new(stream: Box<dyn Stream>) -> Lines {
        Lines { stream, bytes: Zeroizing::new(vec![0; LINE_BYTES_MAX]), filled: 0 }
    }

    /// The next line, without its end. `None` after the last one.
    fn next(&mut self) -> io::Result<Option<Zeroizing<String>>> {
        loop {
            let come = &self.bytes[..self.filled];
            if let Some(end) = come.iter().position(|byte| *byte == b'\n') {
                let text = str::from_utf8(&come[..end]).map(|text| text.trim_end().to_owned());
                let text = text.map(Zeroizing::new);
                self.bytes.copy_within(end + 1..self.filled, 0);
                let left = self.filled - end - 1;
                self.bytes[left..self.filled].zeroize();
                self.filled = left;
                return text.map(Some).map_err(io::Error::other);
            }
            // A line has a few hundred bytes; no launcher sends an endless one.
            if self.filled == self.bytes.len() {
                return Err(io::Error::other("a line is too long"));
            }
            match self.stream.read(&mut self.bytes[self.filled..]) {
                Ok(0) if self.filled == 0 => return Ok(None),
                Ok(0) => {
                    return Err(io::Error::other("the connection ended in the middle of a line"));
                }
                Ok(length) => self.filled += length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The longest line that a launcher may send.
const LINE_BYTES_MAX: usize = 1 << 16;
/// How much of a line is shown.
const SHOWN_BYTES_MAX: usize = 200;
