//! Two ranks: latency, message rate, bandwidth.

use ferrywire::Error;

use super::Stage;

const TAG: u32 = 1;
const ANSWER: u32 = 2;
const SMALL: [usize; 4] = [0, 8, 64, 512];
const LARGE: [usize; 6] = [4 << 10, 8 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];

pub(super) fn run(stage: &Stage) -> Result<(), Error> {
    let mut data = vec![1_u8; LARGE[LARGE.len() - 1]];
    for bytes in SMALL.into_iter().chain(LARGE) {
        let data = &mut data[..bytes];
        let ns = stage.typical_ns(repetitions(stage, bytes), |count| trips(stage, data, count))?;
        stage.figure(format_args!("latency bytes={bytes} ns={:.1}", ns / 2.0));
    }
    let ns = message_ns::<64>(stage, 8, if stage.quick { 8000 } else { 32_000 })?;
    stage.figure(format_args!("rate bytes=8 window=64 ns={ns:.2}"));
    for bytes in LARGE {
        let ns = message_ns::<32>(stage, bytes, repetitions(stage, bytes))?;
        stage.figure(format_args!("stream bytes={bytes} mb_per_s={:.1}", bytes as f64 * 1e3 / ns));
    }
    Ok(())
}

fn trips(stage: &Stage, data: &mut [u8], count: usize) -> Result<(), Error> {
    let (world, other) = (&stage.world, stage.other());
    for _ in 0..count {
        if world.rank() == 0 {
            world.send(data, other, TAG)?;
            world.receive(data, other, TAG)?;
        } else {
            world.receive(data, other, TAG)?;
            world.send(data, other, TAG)?;
        }
    }
    Ok(())
}

/// Nanoseconds per message of a stream in windows. The C programs receive all messages of a window into one
/// buffer, over each other, which Rust does not allow: here each has a buffer of its own.
fn message_ns<const WINDOW: usize>(
    stage: &Stage,
    bytes: usize,
    messages: usize,
) -> Result<f64, Error> {
    let windows = (messages / WINDOW).max(1);
    let mut data = vec![1_u8; bytes * WINDOW];
    let ns = stage.typical_ns(windows, |count| {
        (0..count).try_for_each(|_| match stage.world.rank() {
            0 => send_window(stage, &data[..bytes], WINDOW),
            _ => receive_window(stage, &mut data, bytes),
        })
    })?;
    Ok(ns / WINDOW as f64)
}

fn send_window(stage: &Stage, data: &[u8], window: usize) -> Result<(), Error> {
    stage.world.scope(|scope| (0..window).for_each(|_| _ = scope.send(data, 1, TAG)))?;
    stage.world.receive(&mut [0_u8; 0], 1, ANSWER)?;
    Ok(())
}

fn receive_window(stage: &Stage, data: &mut [u8], bytes: usize) -> Result<(), Error> {
    stage.world.scope(|scope| {
        data.chunks_exact_mut(bytes).for_each(|part| _ = scope.receive(part, 0, TAG));
    })?;
    stage.world.send(&[0_u8; 0], 0, ANSWER)
}

/// How many repetitions take a few milliseconds at any size.
fn repetitions(stage: &Stage, bytes: usize) -> usize {
    let full = match bytes {
        0..=8192 => 2000,
        8193..=65_536 => 500,
        65_537..=262_144 => 100,
        _ => 20,
    };
    if stage.quick { full / 4 } else { full }
}
