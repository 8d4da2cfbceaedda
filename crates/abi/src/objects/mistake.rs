//! Mistakes of the program that do not stop it, as reports say them.
//!
//! Each is a sentence without its subject, which is this rank. The launcher reads it in the facts of the rank.

use std::sync::PoisonError;

use ferrywire_host::ErrorCode;
use ferrywire_host::nic::{MatchWord, Outcome, Peer, Received, Span};
use ferrywire_mpi::datatype::Predefined;
use ferrywire_runtime::call_name::name_of;
use ferrywire_runtime::words::bytes;
use ferrywire_runtime::{CallName, TAG_MAX};

use crate::convert::argument::{MessageTag, PeerRank, SourceRank};
use crate::convert::handle::{self, Listed};
use crate::convert::types::MPI_Datatype;
use crate::objects::attribute;
use crate::objects::check;
use crate::objects::comm::Comm;
use crate::objects::datatype::{self, Type};
use crate::objects::process;
use crate::objects::request;

/// Tells a mistake to whoever reads the facts of this rank.
#[cold]
pub(crate) fn tell(mistake: &str) {
    let Ok(process) = process::running() else { return };
    let rank = process.rank();
    if rank.facts().mistake(mistake) && check::prints_mistakes() {
        eprintln!("ferrywire: mistake: rank {} {mistake}", rank.driver().me().0);
    }
}

/// A call that sends: `MPI_Isend of 8 bytes to rank 1 (tag 3)`.
pub(crate) fn sending(
    call: &str,
    comm: &Comm,
    length: u64,
    dest: PeerRank,
    tag: MessageTag,
) -> String {
    let to = match dest.below(comm.members.targets().size()) {
        Some(rank) => format!(" to {}", member(comm, rank)),
        None => String::new(),
    };
    format!("{call} of {}{to}{}", bytes(length), brackets(comm, tag.up_to(TAG_MAX)))
}

/// A call that receives: `MPI_Irecv from rank 1 (tag 6)`.
pub(crate) fn receiving(call: &str, comm: &Comm, source: SourceRank, tag: MessageTag) -> String {
    let size = comm.members.targets().size();
    let from = match source.peer() {
        None => " from any rank".into(),
        Some(peer) => match peer.below(size) {
            Some(rank) => format!(" from {}", member(comm, rank)),
            None => String::new(),
        },
    };
    let tag = if tag.is_any() { None } else { tag.up_to(TAG_MAX) };
    format!("{call}{from}{}", brackets(comm, tag))
}

/// A rank of a communicator, by its rank in MPI_COMM_WORLD, if it has one.
pub(crate) fn member(comm: &Comm, rank: u32) -> String {
    let targets = comm.members.targets();
    let world = process::running().map_or(0, |process| process.world.members.group().size());
    match (rank < targets.size()).then(|| targets.peer_of(rank).0) {
        Some(peer) if peer < world => format!("rank {peer}"),
        _ => format!("its rank {rank}"),
    }
}

/// The tag, and the communicator if it is not MPI_COMM_WORLD.
pub(crate) fn brackets(comm: &Comm, tag: Option<u32>) -> String {
    let tag = tag.map(|tag| format!("tag {tag}"));
    let is_world = process::running()
        .is_ok_and(|process| process.world.members.number() == comm.members.number());
    let place = (!is_world).then(|| {
        let title = comm.title();
        if title.contains(' ') { title } else { format!("communicator {title}") }
    });
    match (tag, place) {
        (None, None) => String::new(),
        (tag, place) => {
            let parts: Vec<String> = tag.into_iter().chain(place).collect();
            format!(" ({})", parts.join(", "))
        }
    }
}

/// Tells if a message that has filled a buffer in part does not end with an element. A datatype that the program has made,
/// or a pair, may also be received in part.
#[cold]
#[inline(never)]
pub(crate) fn check_length(name: CallName, comm: &Comm, datatype: MPI_Datatype, got: &Received) {
    let Ok(datatype) = datatype::find(datatype) else { return };
    let (Some(Predefined::One(_)), Some(title)) = (datatype.predefined(), datatype.name()) else {
        return;
    };
    if datatype.elements_in(got.len).is_none() {
        let (length, call) = (bytes(got.len), name_of(name));
        let from = member(comm, got.word.source());
        let brackets = brackets(comm, Some(got.word.tag()));
        tell(&format!(
            "received {length} in {call} from {from}{brackets}, which is not a whole number of {title}: is the datatype \
             wrong?"
        ));
    }
}

/// What the call of a message finds wrong with it once it has arrived, in a program that is checked.
#[cold]
#[inline(never)]
pub(crate) fn check_received(
    name: CallName,
    comm: &Comm,
    datatype: MPI_Datatype,
    into: Span,
    outcome: Outcome,
) {
    let call = name_of(name);
    let (Ok(datatype), number) = (datatype::find(datatype), check::count_receive()) else { return };
    check::end_receive(name, number, outcome, datatype, comm);
    let from = match outcome {
        Outcome::Received(got) => format!(" from {}", member(comm, got.word.source())),
        _ => String::new(),
    };
    drop(check::lend(into, true, &format!("{call}{from}")));
}

/// The same for a message that is about to be sent.
#[cold]
#[inline(never)]
pub(crate) fn check_sent(
    name: CallName,
    comm: &Comm,
    datatype: MPI_Datatype,
    source: Span,
    to: (Peer, MatchWord),
    (dest, tag): (PeerRank, MessageTag),
) {
    check::count_sent(name, to, check::content_of(datatype, source.len), comm);
    let call = sending(name_of(name), comm, source.len, dest, tag);
    drop(check::lend(source, false, &call));
}

/// Tells about a collective call whose buffers overlap.
#[cold]
#[inline(never)]
pub(crate) fn overlapping(name: CallName, comm: &Comm) {
    tell(&format!(
        "passed overlapping buffers to {} of {}: is MPI_IN_PLACE missing?",
        name_of(name),
        comm.title()
    ));
}

/// Tells about objects that the program has not freed. It is about to leave the job.
#[cold]
pub(crate) fn check_objects() {
    let parent = process::running().map_or(0, |process| process.parent().0);
    let is_predefined = |one: &Listed| {
        let datatype = handle::find::<Type>(one.handle).map(|found| found.datatype.predefined());
        one.handle == parent || datatype.is_ok_and(|predefined| predefined.is_some())
    };
    let listed: Vec<Listed> =
        handle::listed().into_iter().filter(|one| !is_predefined(one)).collect();
    let persistent = request::left_behind().unwrap_or_default();
    let persistent = persistent.iter().filter(|request| !request.is_active()).count();
    let mut parts = Vec::new();
    for kind in KINDS {
        let those: Vec<&Listed> = listed.iter().filter(|one| one.kind == *kind).collect();
        let count = those.iter().map(|one| one.shares).sum();
        let titles: Vec<String> = those.iter().filter_map(|one| title(one)).collect();
        let names = match titles.len() {
            0 => String::new(),
            1..=TITLES_MAX => format!(" ({})", titles.join(", ")),
            _ => format!(" ({}, ...)", titles[..TITLES_MAX].join(", ")),
        };
        parts.extend(counted(count, kind).map(|part| part + &names));
    }
    parts.extend(counted(persistent, "persistent request"));
    parts.extend(counted(attribute::count_keys(), "attribute key"));
    if let Some((last, others)) = parts.split_last() {
        let all = match others {
            [] => last.clone(),
            _ => format!("{} and {last}", others.join(", ")),
        };
        tell(&format!("never freed {all}"));
    }
}

/// The kinds of objects that a program has to free. Those of tools may live longer.
const KINDS: &[&str] = &[
    "communicator",
    "group",
    "datatype",
    "operation",
    "window",
    "file",
    "info object",
    "error handler",
    "session",
];

/// How many objects of a kind are named.
const TITLES_MAX: usize = 3;

/// What an object is called, or how it was made.
fn title(one: &Listed) -> Option<String> {
    if let Ok(comm) = handle::find::<Comm>(one.handle) {
        return Some(comm.title());
    }
    let datatype = handle::find::<Type>(one.handle).ok()?;
    let name = datatype.name.lock().unwrap_or_else(PoisonError::into_inner).clone();
    (!name.is_empty()).then_some(name)
}

/// `2 groups`; `None` if there are none.
fn counted(count: usize, kind: &str) -> Option<String> {
    let ending = if count == 1 { "" } else { "s" };
    (count > 0).then(|| format!("{count} {kind}{ending}"))
}

/// Tells about requests that the program has begun and not completed. It is about to leave the job.
#[cold]
pub(crate) fn check_requests() {
    let Some(left) = request::left_behind() else { return };
    let left: Vec<_> = left.into_iter().filter(|request| request.is_active()).collect();
    let Some(first) = left.first() else { return };
    let origin = first.origin();
    let leaves = match process::initialized() {
        Ok(_) => "called MPI_Finalize",
        Err(_) => "ended",
    };
    let told = match left.len() {
        1 => format!("{leaves} without completing its {origin}: is MPI_Wait missing?"),
        count => format!(
            "{leaves} without completing {count} requests, such as its {origin}: is MPI_Waitall missing?"
        ),
    };
    tell(&ErrorCode::UNFINISHED_REQUEST.ends(told));
}
