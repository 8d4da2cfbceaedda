//! Two ranks: what an 8-byte message costs when queues are long.

use std::time::Instant;

use ferrywire::{ANY, Error, Source};

use super::super::figure::median;
use super::{Stage, ns_since};

const DEPTHS: [u32; 3] = [0, 1024, DEPTH_MAX];
const DEPTH_MAX: u32 = 16_384;
const WANTED: u32 = DEPTH_MAX + 1;
const BATCH: usize = 100;

pub(super) fn run(stage: &Stage) -> Result<(), Error> {
    let other = Source::from(stage.other());
    for (name, source) in [("exact", other), ("any", Source::from(ANY))] {
        for depth in DEPTHS {
            posted(stage, name, source, depth)?;
        }
    }
    DEPTHS.into_iter().try_for_each(|depth| unexpected(stage, depth))
}

/// Half a round trip with `depth` receives posted before the one that matches.
fn posted(stage: &Stage, name: &str, source: Source, depth: u32) -> Result<(), Error> {
    let (world, other) = (&stage.world, stage.other());
    let mut decoys = vec![[0_u8; 0]; depth as usize];
    let ns = world.scope(|scope| {
        for (tag, decoy) in (0..depth).zip(&mut decoys) {
            scope.receive(decoy, source, tag);
        }
        stage.meet()?;
        let ns = stage.typical_ns(trips(stage, depth), |count| posted_trips(stage, count))?;
        (0..depth).try_for_each(|tag| world.send(&[0_u8; 0], other, tag))?;
        Ok::<f64, Error>(ns)
    })??;
    stage.figure(format_args!("posted source={name} depth={depth} ns={:.1}", ns / 2.0));
    stage.meet()
}

/// Each receive is posted before its message is requested.
fn posted_trips(stage: &Stage, count: usize) -> Result<(), Error> {
    let (world, other) = (&stage.world, stage.other());
    let (here, mut there) = ([1_u8; 8], [0_u8; 8]);
    for trip in 0..count {
        world.scope(|scope| {
            let next = scope.receive(&mut there, other, WANTED);
            if world.rank() == 0 || trip > 0 {
                world.send(&here, other, WANTED)?;
            }
            next.wait()
        })??;
    }
    if world.rank() == 1 {
        world.send(&here, other, WANTED)?;
    }
    Ok(())
}

/// Half a round trip with `depth` unexpected messages in the queue; and the time of a receive alone, for a message
/// behind them.
fn unexpected(stage: &Stage, depth: u32) -> Result<(), Error> {
    let (world, other) = (&stage.world, stage.other());
    let here = [1_u8; 8];
    let (ns, arrived) = world.scope(|scope| {
        (0..depth).for_each(|tag| _ = scope.send(&here, other, tag));
        stage.meet()?;
        let ns = stage.typical_ns(trips(stage, depth), |count| plain_trips(stage, count))?;
        let arrived = arrived_ns(stage)?;
        let mut there = [0_u8; 8];
        (0..depth).try_for_each(|tag| world.receive(&mut there, other, tag).map(drop))?;
        Ok::<_, Error>((ns, arrived))
    })??;
    stage.figure(format_args!("unexpected depth={depth} ns={:.1}", ns / 2.0));
    stage.figure(format_args!("arrived depth={depth} ns={arrived:.1}"));
    stage.meet()
}

fn plain_trips(stage: &Stage, count: usize) -> Result<(), Error> {
    let (world, other) = (&stage.world, stage.other());
    let mut data = [1_u8; 8];
    for turn in 0..2 * count {
        if turn % 2 == world.rank() as usize {
            world.send(&data, other, WANTED)?;
        } else {
            world.receive(&mut data, other, WANTED)?;
        }
    }
    Ok(())
}

fn arrived_ns(stage: &Stage) -> Result<f64, Error> {
    let (world, other) = (&stage.world, stage.other());
    let (here, mut there) = ([1_u8; 8], [0_u8; 8]);
    let mut took = Vec::new();
    for _ in 0..stage.rounds {
        let ns = world.scope(|scope| {
            (0..BATCH).for_each(|_| _ = scope.send(&here, other, WANTED));
            stage.meet()?;
            stage.meet()?; // Now the other rank is idle, too.
            let from = Instant::now();
            for _ in 0..BATCH {
                world.receive(&mut there, other, WANTED)?;
            }
            Ok::<f64, Error>(ns_since(from) / BATCH as f64)
        })??;
        took.push(ns);
        stage.meet()?;
    }
    Ok(median(&mut took))
}

fn trips(stage: &Stage, depth: u32) -> usize {
    let full = if depth < DEPTH_MAX { 1000 } else { BATCH };
    if stage.quick { full / 4 } else { full }
}
