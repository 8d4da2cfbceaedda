//! Both sides of a bootstrap over a real pair of sockets.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::thread;

use super::*;
use crate::job::this_process;

fn bootstrap(theirs: &OwnedFd) -> Bootstrap {
    let number = theirs.as_raw_fd().to_string();
    from_environment(|name| (name == VARIABLE).then(|| number.clone())).expect("invited")
}

/// Waits for the next word, as a launcher would with poll.
fn next(rank_socket: &mut RankSocket) -> Word {
    loop {
        if let Some(word) = rank_socket.poll().expect("the socket works") {
            return word;
        }
        thread::yield_now();
    }
}

fn segment() -> File {
    File::open("/dev/zero").expect("a file that stands for the segment")
}

const MEMBER: Member = Member {
    rank: 1,
    size: 2,
    spawned: None,
    job: 99,
    oversubscribed: true,
    fault_tolerant: false,
    network: None,
};

/// A rank socket whose rank has joined.
fn joined() -> (RankSocket, LauncherChannel) {
    let (mut rank_socket, theirs) = RankSocket::open(1).expect("open");
    let rank = thread::spawn(move || bootstrap(&theirs).join(this_process()));
    let Word::Hello(process) = next(&mut rank_socket) else { panic!("hello comes first") };
    assert_eq!(process, this_process());
    rank_socket.send_join_reply(MEMBER, &[segment().as_fd()]).expect("admitted");
    let (member, memory, channel) = rank.join().expect("no panic").expect("joined");
    assert_eq!(member, MEMBER);
    assert!(memory.segment.as_raw_fd() > 2);
    (rank_socket, channel)
}

#[test]
fn without_the_variable_there_is_no_bootstrap() {
    assert!(from_environment(|_| None).is_none());
}

#[test]
fn a_rank_joins_says_goodbye_and_is_gone() {
    let (mut rank_socket, channel) = joined();
    channel.goodbye().expect("said");
    assert!(matches!(next(&mut rank_socket), Word::Goodbye));
    drop(channel);
    assert!(matches!(next(&mut rank_socket), Word::Closed));
}

#[test]
fn an_abort_carries_code_and_text() {
    let (mut rank_socket, channel) = joined();
    channel.abort(-7, "no such file").expect("said");
    let Word::Abort { code, text } = next(&mut rank_socket) else { panic!("abort comes") };
    assert_eq!((code, text.as_str()), (-7, "no such file"));
}

#[test]
fn a_second_hello_is_refused_and_names_the_first_process() {
    let (mut rank_socket, theirs) = RankSocket::open(3).expect("open");
    let channel = LauncherChannel { socket: theirs };
    let hello = Message::Hello(Hello::of(this_process()));
    channel.say(&hello, "send hello").expect("said");
    assert!(matches!(next(&mut rank_socket), Word::Hello(_)));
    channel.say(&hello, "send hello").expect("said");
    assert!(matches!(next(&mut rank_socket), Word::Refused(BootstrapError::Taken { rank: 3, .. })));
    let Err(BootstrapError::Refused { text }) = channel.wait_for_join_reply(std::process::id())
    else {
        panic!("refused")
    };
    let expected = format!("rank 3 has already joined as pid {}", std::process::id());
    assert!(text.starts_with(&expected), "{text}");
}

#[test]
fn an_answer_to_another_process_is_told_apart() {
    let (mut rank_socket, theirs) = RankSocket::open(0).expect("open");
    let channel = LauncherChannel { socket: theirs };
    channel
        .say(&Message::Hello(Hello { pid: 1, word: 2, probe_address: 0 }), "send hello")
        .expect("said");
    assert!(matches!(next(&mut rank_socket), Word::Hello(_)));
    rank_socket.refuse("no");
    let answer = channel.wait_for_join_reply(2);
    assert!(matches!(answer, Err(BootstrapError::Crossed { own: 2, other: 1 })), "{answer:?}");
}

#[test]
fn a_launcher_that_is_gone_is_an_error() {
    let (rank_socket, theirs) = RankSocket::open(0).expect("open");
    drop(rank_socket);
    let answer = bootstrap(&theirs).join(this_process());
    assert!(matches!(answer, Err(BootstrapError::LauncherGone)), "{answer:?}");
}

#[test]
fn a_launcher_that_cannot_make_the_segment_says_why() {
    let (mut rank_socket, theirs) = RankSocket::open(0).expect("open");
    let rank = thread::spawn(move || bootstrap(&theirs).join(this_process()));
    assert!(matches!(next(&mut rank_socket), Word::Hello(_)));
    rank_socket.refuse("no memory: 4096 bytes wanted");
    let answer = rank.join().expect("no panic").expect_err("refused");
    assert_eq!(answer.to_string(), "no memory: 4096 bytes wanted");
}

#[test]
fn nonsense_is_refused_and_changes_nothing() {
    let (mut rank_socket, theirs) = RankSocket::open(0).expect("open");
    let mut unknown = Message::Goodbye.emit();
    unknown[6] = 0x63;
    for bytes in [&b"x"[..], &[0; 5000], &unknown] {
        socket::send(theirs.as_fd(), bytes, &[], WaitMode::Wait).expect("sent");
        let word = next(&mut rank_socket);
        assert!(matches!(word, Word::Refused(BootstrapError::Malformed)), "{word:?}");
    }
    // Even an empty packet does not close the socket.
    socket::send(theirs.as_fd(), b"", &[], WaitMode::Wait).expect("sent");
    assert!(matches!(next(&mut rank_socket), Word::Refused(BootstrapError::Malformed)));
    // No process can speak for a rank that has not joined.
    socket::send(theirs.as_fd(), &Message::Goodbye.emit(), &[], WaitMode::Wait).expect("sent");
    assert!(matches!(next(&mut rank_socket), Word::Refused(BootstrapError::NotTheRank { .. })));
    // A flood whose answers are never read does not block the launcher.
    for _ in 0..10_000 {
        socket::send(theirs.as_fd(), b"x", &[], WaitMode::Wait).expect("sent");
        assert!(matches!(next(&mut rank_socket), Word::Refused(_)));
    }
    // A descriptor that comes along is closed, not kept.
    let hello = Message::Hello(Hello { pid: 5, word: 2, probe_address: 0 }).emit();
    socket::send(theirs.as_fd(), &hello, &[theirs.as_fd()], WaitMode::Wait).expect("sent");
    assert!(matches!(next(&mut rank_socket), Word::Hello(_)));
    drop(theirs);
    assert!(matches!(next(&mut rank_socket), Word::Closed));
}

#[test]
fn another_version_is_told_so() {
    let (mut rank_socket, theirs) = RankSocket::open(0).expect("open");
    let mut hello = Message::Hello(Hello { pid: 5, word: 2, probe_address: 0 }).emit();
    hello[4] = 200;
    socket::send(theirs.as_fd(), &hello, &[], WaitMode::Wait).expect("sent");
    assert!(matches!(
        next(&mut rank_socket),
        Word::Refused(BootstrapError::Version { theirs: 200 })
    ));
}

#[test]
fn a_value_that_is_no_socket_is_explained() {
    let with = |value: &str| {
        let bootstrap = from_environment(|_| Some(value.to_owned())).expect("invited");
        bootstrap.join(this_process()).expect_err("nobody there").to_string()
    };
    assert!(with("seven").contains("'seven'"));
    assert!(with("1048576").contains("unset FERRY_BOOTSTRAP"));
    assert!(with("99999999999999").contains("not a number"));
}
