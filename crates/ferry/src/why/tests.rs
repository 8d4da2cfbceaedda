//! Stories of jobs, told as facts: what is said about them.

use ferrywire_host::facts::{
    CallFact, CallKind, Facts, ObjectFact, PendingFact, RunFact, RunsKnown, Stage,
};
use ferrywire_host::nic::{Mask, MatchWord, Peer, PendingKind};
use ferrywire_mpi::datatype::Datatype;
use ferrywire_runtime::call_name::c_name;
use ferrywire_runtime::words::number;

use super::words::ordinal;
use super::{Outside, Seen, deadlock, disagreement, found, groups, mismatches, slow};

/// A rank of a world of `size` ranks, which waits in the last of its calls.
fn rank(peer: u32, size: u32, calls: Vec<CallFact>) -> Seen {
    let made = calls.iter().filter(|call| matches!(call.kind, CallKind::Collective { .. }));
    let world = ObjectFact {
        number: 0,
        born: 0,
        size,
        group: 77,
        first: 0,
        stride: 1,
        calls: u32::try_from(made.count()).expect("few"),
        name: "MPI_COMM_WORLD".into(),
    };
    let facts = Facts { calls, waiting: 1, objects: vec![world], ..Facts::default() };
    Seen { peer, name: peer.to_string(), facts, ..Seen::default() }
}

fn send(name: &str, to: u32, tag: u32, bytes: u64) -> CallFact {
    let kind = CallKind::Send { to: Peer(to), word: MatchWord::new(0, 0, tag), bytes };
    CallFact { number: 0, name: c_name(name), kind }
}

fn receive(from: Option<u32>, tag: u32) -> CallFact {
    let word = MatchWord::new(0, from.unwrap_or(0), tag);
    let any_source = from.is_none();
    let kind = CallKind::Receive { word, any_source, any_tag: false, bytes: 8 };
    CallFact { number: 0, name: c_name("MPI_Recv"), kind }
}

fn collective(name: &str, nth: u32, root: Option<u32>) -> CallFact {
    let kind = CallKind::Collective {
        object: 0,
        nth,
        nonblocking: false,
        nth_of_kind: nth,
        root,
        operator: 0,
        bytes: 0,
        content: 0,
    };
    CallFact { number: nth, name: c_name(name), kind }
}

fn arrived(from: u32, tag: u32) -> PendingFact {
    let word = MatchWord::new(0, from, tag);
    let (kind, peer) = (PendingKind::Arrived, Some(Peer(from)));
    PendingFact { kind, peer, word, mask: Mask::EXACT, bytes: 8 }
}

#[test]
fn numbers_are_easy_to_read() {
    assert_eq!([7, 999, 1000, 4_194_304].map(number), ["7", "999", "1,000", "4,194,304"]);
    assert_eq!(
        [1, 2, 3, 4, 11, 12, 13, 21, 112].map(ordinal).join(" "),
        "1st 2nd 3rd 4th 11th 12th 13th 21st 112th"
    );
}

#[test]
fn a_message_with_another_tag_is_named() {
    let mut receiver = rank(0, 2, vec![receive(Some(1), 8)]);
    receiver.facts.answer.pending.push(arrived(1, 7));
    let sender = rank(1, 2, vec![collective("MPI_Barrier", 1, None)]);
    assert_eq!(
        deadlock(&[receiver, sender]).0,
        "deadlock: rank 0 waits in MPI_Recv from rank 1 (tag 8); a message from rank 1 (tag 7, 8 bytes) has arrived, \
         and nothing receives it: is the tag wrong? [FW0902]"
    );
}

#[test]
fn a_circle_of_sends_is_followed() {
    let ring: Vec<Seen> =
        (0..3).map(|me| rank(me, 3, vec![send("MPI_Send", (me + 1) % 3, 1, 1 << 20)])).collect();
    assert_eq!(
        deadlock(&ring).0,
        "deadlock: ranks 0-2 send in a circle, 0 -> 1 -> 2 -> 0, and none receives: each is in MPI_Send of 1,048,576 \
         bytes (tag 1) [FW0901]"
    );
}

#[test]
fn ranks_whose_calls_are_unknown_are_only_said_to_wait() {
    let ranks: Vec<Seen> = (0..2).map(|me| rank(me, 2, Vec::new())).collect();
    assert_eq!(deadlock(&ranks).0, "deadlock: all ranks wait, and nothing is on its way [FW0911]");
}

#[test]
fn whoever_is_missing_is_to_blame() {
    let barrier = || collective("MPI_Barrier", 2, None);
    let first = || collective("MPI_Barrier", 1, None);
    let mut ranks: Vec<Seen> = (0..4).map(|me| rank(me, 4, vec![first(), barrier()])).collect();
    ranks[2] = rank(2, 4, vec![first()]);
    ranks[2].facts.waiting = 0;
    ranks[2].facts.stage = Stage::Finalized;
    assert_eq!(
        deadlock(&ranks).0,
        "deadlock: 3 of 4 ranks are in MPI_Barrier of MPI_COMM_WORLD (its 2nd collective call); rank 2 has left the job [FW0906]"
    );
}

#[test]
fn the_first_difference_is_told_and_no_other() {
    let calls =
        |root| vec![collective("MPI_Bcast", 1, Some(root)), collective("MPI_Barrier", 2, None)];
    let mut ranks: Vec<Seen> = (0..3).map(|me| rank(me, 3, calls(0))).collect();
    assert_eq!(disagreement(&ranks), None);
    ranks[1] = rank(1, 3, calls(1));
    ranks[2].facts.calls[1].name = c_name("MPI_Allreduce");
    assert_eq!(
        disagreement(&ranks).expect("they disagree").0,
        "mistake: ranks disagree on the 1st collective call of MPI_COMM_WORLD: MPI_Bcast from root 0 at ranks 0 and 2, \
         MPI_Bcast from root 1 at rank 1 [FW1201]"
    );
}

#[test]
fn calls_of_an_object_that_had_the_number_before_are_not_compared() {
    let mut ranks = [
        rank(0, 2, vec![collective("MPI_Barrier", 1, None)]),
        rank(1, 2, vec![collective("MPI_Allreduce", 1, None)]),
    ];
    assert!(disagreement(&ranks).is_some());
    ranks[1].facts.objects[0].born = 2;
    assert_eq!(disagreement(&ranks), None);
}

#[test]
fn ranks_that_do_the_same_are_one_line() {
    let mut ranks: Vec<Seen> =
        (0..5).map(|me| rank(me, 5, vec![collective("MPI_Barrier", 1, None)])).collect();
    ranks[3].facts.waiting = 0;
    ranks[3].outside = Some(Outside::Computes);
    let wait = std::time::Duration::from_secs(9);
    let waits = "in MPI_Barrier of MPI_COMM_WORLD (its 1st collective call)";
    let computes = "rank 3 computes, and has not called MPI since MPI_Barrier";
    let line = format!("ranks 0-2 and 4 are {waits}");
    assert_eq!(groups(&ranks), [line.clone(), computes.into()]);
    assert_eq!(slow(&ranks, wait).0, format!("no progress for 9 s: {line}; {computes} [FW0912]"));
}

/// Messages from rank 0 to rank 1, as one of them describes them.
fn run(sends: bool, datatype: &str, from: u32, to: u32) -> RunFact {
    let datatype = Datatype::by_name(datatype).expect("it is a datatype");
    let name = c_name(if sends { "MPI_Send" } else { "MPI_Recv" });
    let (peer, content) = (Peer(u32::from(sends)), datatype.content(datatype.size()).bits());
    RunFact { sends, name, peer, word: MatchWord::new(0, 0, 5), content, from, to }
}

fn pair_with(sent: Vec<RunFact>, received: Vec<RunFact>) -> [Seen; 2] {
    let mut ranks = [rank(0, 2, Vec::new()), rank(1, 2, Vec::new())];
    ranks[0].facts.runs = sent;
    ranks[1].facts.runs = received;
    ranks
}

#[test]
fn a_message_received_as_another_type_is_named_by_its_number() {
    let sent = vec![run(true, "MPI_INT", 0, 3), run(true, "MPI_DOUBLE", 3, 4)];
    let right = pair_with(
        sent.clone(),
        vec![
            run(false, "MPI_INT", 0, 2),
            run(false, "MPI_BYTE", 2, 3),
            run(false, "MPI_DOUBLE", 3, 4),
        ],
    );
    assert_eq!(mismatches(&right), []);
    let wrong = pair_with(sent, vec![run(false, "MPI_INT", 0, 4)]);
    assert_eq!(
        mismatches(&wrong)[0].0,
        "mistake: rank 0 sent MPI_DOUBLE in MPI_Send to rank 1 (tag 5, message 4), and rank 1 received it as MPI_INT in \
         MPI_Recv: is a datatype wrong? [FW1204]"
    );
}

#[test]
fn messages_that_were_never_received_are_counted_if_all_are_known() {
    let mut ranks = pair_with(vec![run(true, "MPI_INT", 0, 3)], vec![run(false, "MPI_INT", 0, 1)]);
    assert_eq!(
        mismatches(&ranks)[0].0,
        "mistake: rank 0 sent 2 messages to rank 1 in MPI_Send (tag 5), and rank 1 never received them: is MPI_Recv \
         missing? [FW1204]"
    );
    ranks[1].facts.runs_known = RunsKnown::Some;
    assert_eq!(mismatches(&ranks), []);
}

#[test]
fn mistakes_that_several_ranks_make_are_one_line() {
    let mut ranks = [rank(0, 3, Vec::new()), rank(1, 3, Vec::new()), rank(2, 3, Vec::new())];
    for (at, mistakes) in [&["never freed 1 group"][..], &[], &["never freed 1 group", "did more"]]
        .into_iter()
        .enumerate()
    {
        ranks[at].facts.mistakes = mistakes.iter().map(|&text| text.into()).collect();
    }
    let told: Vec<String> = found(&ranks).into_iter().map(|verdict| verdict.0).collect();
    assert_eq!(
        told,
        [
            "mistake: ranks 0 and 2 never freed 1 group [FW1203]",
            "mistake: rank 2 did more [FW1203]"
        ]
    );
}
