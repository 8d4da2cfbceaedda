//! Traces: events as text.

use ferrywire_nic::{Envelope, Fault, Key, Kind, MatchWord, Outcome, Span};

/// An outcome as text.
pub(crate) fn outcome(outcome: Outcome) -> String {
    match outcome {
        Outcome::Done => "is done".into(),
        Outcome::Received(received) => {
            format!("has received {}, {} bytes", word(received.word), received.len)
        }
        Outcome::Found(value) => format!("has found {value}"),
        Outcome::Released => "lets its caller go on".into(),
        Outcome::Cancelled => "is cancelled".into(),
        Outcome::Failed(Fault::Truncated { len, .. }) => {
            format!("has failed: {len} bytes came, more than there was room for")
        }
        Outcome::Failed(Fault::PeerDown(peer)) => format!("has failed: rank {} is down", peer.0),
        Outcome::Failed(Fault::Module { trap, .. }) => {
            format!("has failed: its module trapped: {trap}")
        }
        Outcome::Failed(Fault::Denied) => "has failed: denied".into(),
        Outcome::Failed(Fault::Abandoned) => "has failed: abandoned".into(),
        Outcome::Failed(Fault::Revoked) => "has failed: revoked".into(),
    }
}

/// A frame as text.
pub(crate) fn frame(envelope: &Envelope, payload: usize) -> String {
    let marks = envelope.marks.map_or(String::new(), |marks| {
        let gaps = if marks.also == 0 { String::new() } else { format!(" and {:b}", marks.also) };
        let number = match envelope.kind {
            Kind::Ack => String::new(),
            _ => format!("frame {}.{}, ", marks.epoch, marks.sequence),
        };
        format!(" [{number}has {}.{}{gaps}]", marks.ack_epoch, marks.ack)
    });
    format!("{}{marks}", kind(&envelope.kind, payload))
}

fn kind(kind: &Kind, payload: usize) -> String {
    let also = |set: bool, what: &str| if set { format!(", {what}") } else { String::new() };
    match *kind {
        Kind::Ack => "ack".into(),
        Kind::Ask => "ask".into(),
        Kind::Eager { word: w, secured, synchronous } => format!(
            "eager {}, {payload} bytes{}{}",
            word(w),
            also(!secured, "no credit"),
            also(synchronous.is_some(), "synchronous"),
        ),
        Kind::Offer { word: w, secured, first, ticket, source, key } => format!(
            "offer {ticket} {}, {} bytes{}{}{}",
            word(w),
            source.len,
            also(!secured, "no credit"),
            also(first, "first of a sweep"),
            also(key != Key::NONE, "readable"),
        ),
        Kind::Answer { queue, accepted, wanted, credit } => format!(
            "{} in queue {queue}{}, credit {credit}",
            if accepted { "accepted" } else { "refused" },
            also(wanted, "more is wanted"),
        ),
        Kind::Credit { queue, bytes } => format!("credit {bytes} for queue {queue}"),
        Kind::Invite { queue } => format!("invite for queue {queue}"),
        Kind::Vacant { queue } => format!("nothing held for queue {queue}"),
        Kind::Farewell => "farewell".into(),
        Kind::Matched { ticket } => format!("{ticket} has matched"),
        Kind::Grant { ticket, target, into, .. } => {
            format!("grant for {ticket} to {target} {}", span(into))
        }
        Kind::Chunk { ticket, offset } => format!("chunk of {ticket} at {offset}, {payload} bytes"),
        Kind::Done { ticket } => format!("{ticket} is done"),
        Kind::Withdraw { ticket, word: w } => format!("withdraw {ticket} {}", word(w)),
        Kind::Withdrawn { ticket } => format!("{ticket} is withdrawn"),
        Kind::Put { ticket, region, offset, last, notify } => format!(
            "put {ticket} into region {} at {offset}, {payload} bytes{}{}",
            region.0,
            also(last, "last"),
            notify.map_or(String::new(), |counter| format!(", raises counter {counter}")),
        ),
        Kind::Get { ticket, from } => format!("get {ticket} of {}", span(from)),
        Kind::Accumulate { ticket, region, offset, last, operator } => format!(
            "accumulate {ticket} into region {} at {offset}, {payload} bytes, operator {}{}",
            region.0,
            operator.0,
            also(last, "last"),
        ),
        Kind::Fetch { ticket, region, offset, operator } => format!(
            "fetch {ticket} from region {} at {offset}, {payload} bytes, operator {}",
            region.0, operator.0,
        ),
        Kind::Swap { ticket, region, offset, width, expected, value } => format!(
            "swap {ticket} in region {} at {offset}, {width} bytes: {expected} becomes {value}",
            region.0,
        ),
        Kind::Found { ticket, value } => format!("{ticket} finds {value}"),
        Kind::Denied { ticket } => format!("{ticket} is denied"),
    }
}

fn word(word: MatchWord) -> String {
    format!("group {} source {} tag {}", word.group(), word.source(), word.tag())
}

fn span(span: Span) -> String {
    format!("region {} at {}, {} bytes", span.region.0, span.offset, span.len)
}
