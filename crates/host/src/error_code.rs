//! The codes of all errors that a user can meet: one table, for both libraries and the command.
//!
//! A text of an error ends with its code in brackets. `ferry explain` has an explanation of each code, which is not in
//! the libraries. A number is never given to another error, so that a code that somebody has looked up or written down
//! keeps its meaning.

use std::fmt::{self, Display};

/// The code of an error, such as `FW0104`.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ErrorCode(u16);

/// A chapter of codes, which begin with the same digits.
#[derive(Clone, Copy, Debug)]
pub struct ErrorChapter {
    /// What its errors are about.
    pub title: &'static str,
    /// Its codes.
    pub rows: &'static [ErrorRow],
}

/// A code in the table.
#[derive(Clone, Copy, Debug)]
pub struct ErrorRow {
    /// The code.
    pub code: ErrorCode,
    /// Its name in our sources.
    pub name: &'static str,
    /// What it stands for, in a few words.
    pub title: &'static str,
}

impl ErrorCode {
    /// The number, of which all but the last two digits are those of the chapter.
    pub fn number(self) -> u16 {
        self.0
    }

    /// A text that ends with this code, unless it ends with one already.
    pub fn ends(self, text: impl Display) -> String {
        let text = text.to_string();
        match split(&text) {
            (_, Some(_)) => text,
            (_, None) => format!("{text} [{self}]"),
        }
    }
}

impl Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FW{:04}", self.0)
    }
}

/// A text of an error and the brackets with the code at its end, if it has them.
fn split(text: &str) -> (&str, Option<&str>) {
    let Some((before, code)) = text.rsplit_once(" [FW") else { return (text, None) };
    let digits = code.strip_suffix(']').unwrap_or_default();
    let is_code = digits.len() == 4 && digits.bytes().all(|digit| digit.is_ascii_digit());
    if is_code { (before, Some(&text[before.len()..])) } else { (text, None) }
}

/// A text of an error without its code.
pub fn uncoded(text: &str) -> &str {
    split(text).0
}

/// A text of an error, continued before its code.
pub fn continued(text: &str, more: impl Display) -> String {
    let (before, code) = split(text);
    format!("{before}{more}{}", code.unwrap_or_default())
}

/// A text of an error that has at most so many bytes, code included.
pub fn shortened(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let (before, code) = split(text);
    let code = code.unwrap_or_default();
    let room = bytes_max.saturating_sub(code.len() + MORE.len());
    let end = (0..=room.min(before.len())).rev().find(|&at| before.is_char_boundary(at));
    format!("{}{MORE}{code}", &before[..end.unwrap_or(0)])
}

/// Stands for what has been left out.
const MORE: &str = "...";

/// Defines the codes and the table: number, name and title of each, by chapter.
macro_rules! error_codes {
    ($($chapter:literal { $($number:literal $name:ident $title:literal,)+ })+) => {
        impl ErrorCode {
            $($(#[doc = $title] pub const $name: ErrorCode = ErrorCode($number);)+)+
        }

        /// All codes.
        pub const ERROR_CHAPTERS: &[ErrorChapter] = &[$(ErrorChapter {
            title: $chapter,
            rows: &[$(ErrorRow {
                code: ErrorCode::$name,
                name: stringify!($name),
                title: $title,
            }),+],
        }),+];
    };
}

error_codes! {
    "Arguments and the environment" {
        1 ARGUMENT "invalid argument",
        2 NULL_POINTER "null pointer where a result or an array belongs",
        3 OTHER "error without a class of its own",
        4 INTERNAL "internal error of Ferrywire",
        5 NOT_INITIALISED "call before MPI_Init or after MPI_Finalize",
        6 INITIALISED_TWICE "MPI initialised twice",
        7 INFO "invalid info object",
        8 INFO_KEY "invalid or unknown info key",
        9 INFO_VALUE "invalid info value",
        10 ERROR_HANDLER "invalid error handler",
        11 ERROR_CLASS "invalid error class or code",
        12 ATTRIBUTE_KEY "invalid attribute key",
        13 NO_MEMORY "out of memory",
        14 SIZE "invalid size",
        15 ABI "not possible with the standard binary interface",
        16 TOOL "error of the tool interface",
        17 UNSUPPORTED "unsupported operation",
        18 NOT_SAME "different values where ranks must pass the same",
        19 VALUE_TOO_LARGE "value too large for its type",
        20 SETTING "invalid setting in the environment",
        21 UNKNOWN "unknown error",
        22 PREDEFINED "attempt to free a predefined object",
    }

    "Messages and requests" {
        101 RANK "invalid rank",
        102 TAG "invalid tag",
        103 COUNT "invalid count",
        104 TRUNCATED "message longer than the receive buffer",
        105 BUFFER "invalid buffer",
        106 REQUEST "invalid request",
        107 PENDING "request not complete yet",
        108 IN_STATUS "errors in the statuses",
        109 REQUEST_STATE "request started or freed at the wrong time",
        110 BUFFERED_SEND "no buffer, or no room in it, for a buffered send",
        111 PARTITION "invalid partition",
        112 MISFIT "message that is not a whole number of items",
        113 WRONG_TYPE "message of another type",
        114 VALUE "value that cannot be sent or received",
        115 CANCELLED "operation cancelled or abandoned",
    }

    "Collective calls and operations" {
        201 ROOT "invalid root",
        202 COLLECTIVE_LENGTH "different lengths in a collective call",
        203 OPERATION "operation that does not suit the datatype",
        204 IN_PLACE "MPI_IN_PLACE where it is not allowed",
        205 OVERLAP "overlapping send and receive buffers",
        206 WRONG_LENGTH "buffer of the wrong length in a collective call",
    }

    "Communicators, groups and topologies" {
        301 COMM "invalid communicator",
        302 GROUP "invalid group",
        303 TOO_MANY_COMMS "too many communicators",
        304 REVOKED "revoked communicator",
        305 INTERCOMM "communicator of the wrong kind",
        306 SPLIT "invalid color or type of a split",
        307 TOPOLOGY "invalid topology",
        308 DIMENSIONS "invalid dimensions",
    }

    "Datatypes" {
        401 DATATYPE "invalid datatype",
        402 NOT_COMMITTED "datatype that is not committed",
        403 CONSTRUCTION "invalid construction of a datatype",
        404 PACKING "packed buffer that is too small",
        405 REPRESENTATION "unknown data representation",
        406 CONVERSION "failed conversion of data",
    }

    "Windows" {
        501 WINDOW "invalid window",
        502 WINDOW_RANGE "access outside a window",
        503 EPOCH "access or synchronisation outside its epoch",
        504 WINDOW_CONFLICT "conflicting accesses to a window",
        505 ATTACH "memory that is not attached to a window",
        506 SHARED_WINDOW "window whose memory cannot be shared",
        507 FLAVOR "window of the wrong kind",
        508 LOCK_TYPE "invalid type of lock",
        509 ASSERTION "invalid assertion",
        510 DISPLACEMENT "invalid displacement",
        511 BASE "invalid base address",
        512 COUNTER "invalid counter",
        513 BETWEEN_HOSTS "operation that windows between hosts lack",
    }

    "Files" {
        601 FILE "invalid file handle",
        602 NO_SUCH_FILE "no such file",
        603 FILE_EXISTS "file exists already",
        604 FILE_ACCESS "access to a file refused",
        605 READ_ONLY "write to what may only be read",
        606 ACCESS_MODE "invalid access mode of a file",
        607 NO_SPACE "no space left on the device",
        608 QUOTA "quota exceeded",
        609 FILE_IO "input or output failed",
        610 FILE_NAME "invalid file name",
        611 FILE_IN_USE "file in use",
        612 VIEW "invalid view of a file",
        613 FILE_POSITION "invalid position in a file",
        614 SPLIT_ACCESS "split collective access out of order",
        615 SEQUENTIAL "call that a sequential file does not allow",
    }

    "Processes" {
        701 RANK_LEFT "rank that has left the job",
        702 RANK_UNREACHABLE "rank that cannot be reached",
        703 SENDER_MAY_BE_LOST "receive from any rank after a death",
        704 RANK_ABORTED "job ended because of another rank",
        705 NOT_FAULT_TOLERANT "recovery in a job that ends with its first death",
        706 JOIN "rank that cannot join its job",
        707 JOIN_ELSEWHERE "rank that cannot join under another launcher",
        708 JOIN_VERSION "launcher and library of different versions",
        709 JOIN_CHILD "second process that joins as the same rank",
        710 JOIN_USER "launcher and rank of different users or rights",
        711 SPAWN "processes that cannot be started",
        712 PORT "invalid or closed port",
        713 PORT_TIMEOUT "connection at a port that is not accepted in time",
        714 SERVICE "service name that cannot be published or found",
        715 SESSION "invalid session or process set",
        716 JOIN_LIMITS "limits that are invalid, or differ between ranks",
    }

    "The launcher and the command" {
        801 ABORTED "job aborted by a rank",
        802 EXIT_CODE "rank that ended with an exit code other than 0",
        803 DIED "rank that died of a signal",
        804 NOT_FINALISED "rank that ended without finalising",
        805 NOT_JOINED "rank that ended without joining",
        806 TIME_LIMIT "job that ran longer than its time limit",
        807 JOB_MEMORY "no memory for the ranks to share",
        808 SECOND_SIGNAL "job killed at a second signal",
        809 SIGNAL_IGNORED "ranks that did not end after a signal",
        810 OUTPUT "output that cannot be written",
        811 REAPER "reaper that cannot be started or was killed",
        812 UNKNOWN_OPTION "unknown option",
        813 OPTION_VALUE "option with a missing or invalid value",
        814 OPTION_CONFLICT "option that is unsupported, or excluded by another",
        815 NO_PROGRAM "no program to run",
        816 PROGRAM_NOT_FOUND "program that cannot be found",
        817 PROGRAM_NOT_EXECUTABLE "program that cannot be executed",
        818 NO_FOLDER "folder that does not exist",
        819 OPEN_FILES "too many open files",
        820 DEBUGGER "debugger that cannot be started",
        821 SYSTEM "request that the operating system refused",
        822 LAUNCHER_GONE "launcher that is gone",
        823 NO_JOB "no job to explain",
        824 INSTALLATION "damaged or mixed installation",
        825 COMPILER "compiler that cannot be started",
        826 NO_FACTS "file about which nothing can be said",
        827 PANICKED "rank that panicked",
        828 TRACE "trace or statistics that cannot be written or read",
        829 TRACE_OF_HOST "recordings of a host that are missing in a trace",
    }

    "Deadlocks and jobs that hang" {
        901 DEADLOCK_CIRCLE "ranks that wait for each other in a circle",
        902 NEAREST_MISS "receive that a message nearly matches",
        903 TAKEN_MESSAGE "message that a receive from any rank has taken",
        904 RECEIVED_COLLECTIVE "receive in place of a collective call",
        905 NO_ROOM "no room left for messages that nothing receives",
        906 MISSED_COLLECTIVE "collective call that some ranks do not make",
        907 TWO_COMMUNICATORS "collective calls of communicators in another order",
        908 WAITS_FOR_REQUESTS "requests that never complete",
        909 WINDOW_WAIT "lock or epoch that is never ended",
        910 ONE_WAITS "rank that waits for one that does something else",
        911 ALL_WAIT "all ranks wait",
        912 NO_PROGRESS "ranks that make no progress",
    }

    "Hosts and networks" {
        1001 HOST_UNREACHED "host that cannot be reached",
        1002 HOST_WITHOUT_FERRY "host without the command ferry",
        1003 HOST_LOST "host lost while the job ran",
        1004 HOST_LATE "host that does not answer in time",
        1005 HOST_OUTPUT "host that answers with something else",
        1006 HOST_VERSION "hosts with different versions",
        1007 HOST_LIST "invalid list of hosts",
        1008 RSH "command to reach hosts that cannot be started",
        1009 ADDRESS "no address or port that other hosts can use",
        1010 RAIL "rail that cannot be used",
        1011 HOST_NOT_ENDED "host that does not end",
        1012 HOSTS_NOT_BUILT "program built without support for several hosts",
    }

    "Modules" {
        1101 MODULE_ENGINE "module engine that is missing or cannot be used",
        1102 MODULE_REFUSED "module that cannot be loaded",
        1103 MODULE_FAILED "module that failed on a message",
        1104 NO_MODULE "no module, or no such counter of it",
    }

    "Mistakes that need not hang" {
        1201 DISAGREEMENT "ranks that disagree on a collective call",
        1202 UNFINISHED_REQUEST "request not completed before MPI_Finalize",
        1203 MISTAKE "mistake that a rank has found while it ran",
        1204 MISMATCH "message received as something else, or never",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_one_code_at_its_end() {
        let code = ErrorCode::TRUNCATED;
        assert_eq!(code.ends("too long"), "too long [FW0104]");
        assert_eq!(ErrorCode::ABORTED.ends("too long [FW0104]"), "too long [FW0104]");
        assert_eq!(code.ends("in [FW0101] x"), "in [FW0101] x [FW0104]");
        assert_eq!(code.ends("in list [FW]"), "in list [FW] [FW0104]");
    }

    #[test]
    fn a_text_is_continued_before_its_code() {
        assert_eq!(continued("died [FW0803]", ", on b"), "died, on b [FW0803]");
        assert_eq!(continued("died", ", on b"), "died, on b");
    }

    #[test]
    fn a_text_is_shortened_before_its_code() {
        assert_eq!(shortened("short [FW0104]", 14), "short [FW0104]");
        assert_eq!(shortened("somewhat long [FW0104]", 20), "somewhat... [FW0104]");
        assert_eq!(shortened("ééééééé [FW0104]", 17), "éé... [FW0104]");
        assert_eq!(shortened("long without a code", 10), "long wi...");
        assert!((0..40).all(|room| shortened("long [FW0104]", room).len() <= room.max(12)));
    }
}
