//! Scans: at each rank, the combined contributions of all ranks up to it.
//!
//! In round k each rank sends what it has combined, 2^k contributions at most, to the rank 2^k ahead. What arrives
//! comes from lower ranks, so rank order costs nothing.

use ferrywire_nic::{Schedule, Span, Step, StepId};

use super::{Member, ReduceOp, copy};

/// Inclusive scan. `bytes` holds our contribution, and then the combined contributions of all ranks up to ours. `work`
/// has room for as many bytes.
pub fn scan(me: Member, reduce_op: ReduceOp, bytes: Span, work: Span) -> Schedule {
    let mut schedule = me.schedule();
    let part = work.part(0, bytes.len);
    let mut done: Option<StepId> = None;
    for reach in reaches(me) {
        let passed = pass_on(me, &mut schedule, reach, bytes, part, done);
        if me.rank < reach {
            continue;
        }
        let step = reduce_op.step(part, bytes);
        done = Some(schedule.push(step, &passed));
    }
    schedule
}

/// Like [`scan`], without our own contribution. On rank 0 `bytes` stays as it is. `work` has room for
/// [`exscan_work_bytes`].
pub fn exscan(me: Member, reduce_op: ReduceOp, bytes: Span, work: Span) -> Schedule {
    let mut schedule = me.schedule();
    let len = bytes.len;
    let (with_ours, part) = (work.part(0, len), work.part(len, len));
    let mut done = copy(&mut schedule, bytes, with_ours, &[]);
    for reach in reaches(me) {
        let passed = pass_on(me, &mut schedule, reach, with_ours, part, done);
        if me.rank < reach {
            continue;
        }
        // The first contribution to arrive is the result so far.
        let result = match reach {
            1 => Step::Copy { source: part, into: bytes },
            _ => reduce_op.step(part, bytes),
        };
        let result = schedule.push(result, &passed);
        let step = reduce_op.step(part, with_ours);
        done = Some(schedule.push(step, &[result]));
    }
    schedule
}

/// Work space of [`exscan`], for `len` bytes.
pub fn exscan_work_bytes(len: u64) -> u64 {
    2 * len
}

fn reaches(me: Member) -> impl Iterator<Item = u32> {
    let size = me.size();
    (0..32).map(|bit| 1 << bit).take_while(move |&reach| reach < size)
}

/// One round: sends `value` to the rank ahead and receives `part` from the rank behind, where these exist.
fn pass_on(
    me: Member,
    schedule: &mut Schedule,
    reach: u32,
    value: Span,
    part: Span,
    after: Option<StepId>,
) -> Vec<StepId> {
    let mut passed = Vec::new();
    if me.rank + reach < me.size() {
        passed.push(schedule.push(me.send(me.rank + reach, value), after.as_slice()));
    }
    if me.rank >= reach {
        passed.push(schedule.push(me.receive(me.rank - reach, part), after.as_slice()));
    }
    passed
}
