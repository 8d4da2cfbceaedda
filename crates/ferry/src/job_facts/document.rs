//! All facts of a rank as JSON, for people and programs that look for more than a sentence says.

use std::io;
use std::path::{Path, PathBuf};

use ferrywire_host::facts::{CallFact, CallKind, PendingFact, Stage};
use ferrywire_host::nic::{MatchWord, Peer, PendingKind};
use ferrywire_mpi::comm::{number_of, user_tag};
use ferrywire_runtime::call_name::name_of;
use serde_json::{Value, json};

use crate::why::{Outside, Seen, groups};

/// Everything that a rank tells about itself.
pub(crate) fn document(seen: &Seen) -> Value {
    let facts = &seen.facts;
    let answer = &facts.answer;
    let objects = facts.objects.iter().map(|object| {
        json!({
            "number": object.number,
            "name": object.name,
            "size": object.size,
            "first_member": object.first,
            "stride": object.stride,
            "group": format!("{:016x}", object.group),
            "collective_calls": object.calls,
        })
    });
    json!({
        "rank": seen.name,
        "number": seen.peer,
        "host": seen.host,
        "process": seen.process,
        "stage": match facts.stage {
            Stage::Running => "running",
            Stage::Finalizing => "finalizing",
            Stage::Finalized => "finalized",
        },
        "ended": seen.ending,
        "outside": seen.outside.map(|outside| match outside {
            Outside::Computes => "computes",
            Outside::Sleeps => "sleeps",
        }),
        "threads_waiting": facts.waiting,
        "waits": facts.waits,
        "polls": facts.polls,
        "calls_made": facts.calls_made,
        "last_calls": facts.calls.iter().map(call).collect::<Vec<_>>(),
        "call_now": facts.plain.map(name_of),
        "objects": objects.collect::<Vec<_>>(),
        "pending": answer.pending.iter().map(pending).collect::<Vec<_>>(),
        "pending_unlisted": answer.unlisted,
        "unexpected_bytes": answer.unexpected_bytes,
        "unexpected_bytes_max": answer.unexpected_bytes_max,
        "activity": answer.activity,
        "frames_in_flight": answer.in_flight,
        "other_threads": answer.other_threads,
        "without_rank": facts.missing.map(|(peer, _)| peer.0),
        "unreachable_rank": facts.unreachable.map(|peer| peer.0),
        "error": facts.error,
    })
}

fn call(call: &CallFact) -> Value {
    let mut value = json!({ "number": call.number, "name": name_of(call.name) });
    let more = match call.kind {
        CallKind::Send { to, word, bytes } => {
            json!({ "kind": "send", "to": to.0, "tag": word.tag(), "communicator": number_of(word), "bytes": bytes })
        }
        CallKind::Receive { word, any_source, any_tag, bytes } => json!({
            "kind": "receive",
            "source": (!any_source).then(|| word.source()),
            "tag": (!any_tag).then(|| word.tag()),
            "communicator": number_of(word),
            "bytes": bytes,
        }),
        CallKind::Collective { object, nth, nonblocking, root, bytes, .. } => json!({
            "kind": "collective",
            "object": object,
            "nth": nth,
            "nonblocking": nonblocking,
            "root": root,
            "bytes": bytes,
        }),
        CallKind::Other { object, peer, count } => {
            json!({ "kind": "other", "object": object, "peer": number(peer), "count": count })
        }
    };
    if let (Value::Object(value), Value::Object(more)) = (&mut value, more) {
        value.extend(more);
    }
    value
}

fn pending(one: &PendingFact) -> Value {
    let kind = match one.kind {
        PendingKind::Send => "send",
        PendingKind::Receive => "receive",
        PendingKind::Step => "step of a collective",
        PendingKind::Arrived => "arrived, not received",
    };
    let word: MatchWord = one.word;
    json!({
        "kind": kind,
        "peer": number(one.peer),
        "communicator": number_of(word),
        "tag": user_tag(word),
        "bytes": one.bytes,
    })
}

fn number(peer: Option<Peer>) -> Option<u32> {
    peer.map(|peer| peer.0)
}

/// Writes a verdict and all facts of all ranks to a file; if `path` is a folder, to a file in it that is named after this
/// process. Returns the path of the file.
pub(crate) fn write_file(path: &Path, verdict: &str, seen: &[Seen]) -> io::Result<PathBuf> {
    let path = match path.is_dir() {
        true => path.join(format!("ferry-why.{}.json", std::process::id())),
        false => path.to_owned(),
    };
    let ranks: Vec<Value> = seen.iter().map(document).collect();
    let all = json!({ "verdict": verdict, "ranks": groups(seen), "facts": ranks });
    let mut text = serde_json::to_vec_pretty(&all).expect("facts are plain data");
    text.push(b'\n');
    std::fs::write(&path, text)?;
    Ok(path)
}
