//! Good modules, damaged at random: the engine accepts or refuses any bytes, and every call ends.
//!
//! `SEED=7 cargo test -p ferrywire-engine --test mutants -- --nocapture` tries another set.
#![allow(missing_docs)]

mod support;

use ferrywire_modules::{Budget, Engine};
use ferrywire_nic::Module;
use support::Recorder;

const MUTANTS: usize = 20_000;

/// Some of every feature: imports, memory, data, table, elements, globals, loops, floats, start.
const ORIGINALS: [&str; 2] = [
    r#"(module
        (import "ferry" "length" (func $length (result i32)))
        (import "ferry" "read" (func $read (param i32 i32 i32)))
        (import "ferry" "write" (func $write (param i32 i32 i32)))
        (import "ferry" "reply" (func $reply (param i32 i32)))
        (memory (export "memory") 1 4)
        (data (i32.const 32) "some bytes")
        (func (export "on_message") (result i32) (local $at i32)
            (call $read (i32.const 64) (i32.const 0) (call $length))
            (loop $next
                (i32.store8 offset=64 (local.get $at)
                    (i32.xor (i32.load8_u offset=64 (local.get $at)) (i32.const 0x55)))
                (local.set $at (i32.add (local.get $at) (i32.const 1)))
                (br_if $next (i32.lt_u (local.get $at) (call $length))))
            (call $write (i32.const 0) (i32.const 64) (i32.const 4))
            (call $reply (i32.const 64) (call $length))
            (i32.const 1)))"#,
    r#"(module
        (import "ferry" "raise" (func $raise (param i32 i64)))
        (import "ferry" "arm" (func $arm (param i32 i64)))
        (type $step (func (param i32) (result i32)))
        (table 8 16 funcref)
        (elem (i32.const 1) $twice $half)
        (memory 1)
        (global $seen (mut i64) (i64.const 3))
        (func $twice (type $step) (i32.mul (local.get 0) (i32.const 2)))
        (func $half (type $step) (i32.trunc_sat_f64_s
            (f64.div (f64.convert_i32_s (local.get 0)) (f64.const 2))))
        (func $begin (memory.fill (i32.const 0) (i32.const 7) (i32.const 256)))
        (start $begin)
        (func (export "on_load") (drop (memory.grow (i32.const 1))))
        (func (export "on_counter") (param i32) (call $raise (local.get 0) (i64.const 1)))
        (func (export "on_message") (result i32)
            (global.set $seen (i64.add (global.get $seen) (i64.const 1)))
            (call $arm (i32.const 1) (global.get $seen))
            (i32.ne (i32.const 6)
                (call_indirect (type $step) (i32.const 12) (i32.const 2)))))"#,
];

#[test]
fn damaged_modules_do_no_damage() {
    let seed = std::env::var("SEED").map_or(1, |seed| seed.parse().expect("SEED is a number"));
    println!("SEED={seed}");
    let engine = Engine::open(|_| None).expect("the build put it here");
    let budget = Budget { fuel: 20_000, ..Budget::default() };
    let originals = ORIGINALS.map(|text| wat::parse_str(text).unwrap());
    let mut dice = Dice(seed);
    let (mut refused, mut not_started, mut answered, mut trapped) = (0, 0, 0, 0);
    for _ in 0..MUTANTS {
        let bytes = mutant(&originals, &mut dice);
        let Ok(code) = engine.compile(&bytes, &budget) else {
            refused += 1;
            continue;
        };
        let Ok(mut module) = code.start() else {
            not_started += 1;
            continue;
        };
        let mut hook = Recorder::new(b"0123456789");
        match module.on_message(&mut hook) {
            Ok(_) => answered += 1,
            Err(_) => trapped += 1,
        }
        // It may trap or not; it returns.
        let _ = module.on_counter(1, &mut hook);
        assert!(hook.payload.len() == 10);
        assert!(code.facts().memory_bytes_min <= budget.memory_bytes);
    }
    println!(
        "{MUTANTS} mutants: {refused} refused, {not_started} not started, {answered} answered, {trapped} trapped"
    );
    assert_eq!(refused + not_started + answered + trapped, MUTANTS);
    // Otherwise the mutants are damaged too much to show anything.
    assert!(answered > MUTANTS / 100 && trapped > 0 && not_started > 0);
}

fn mutant(originals: &[Vec<u8>; 2], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = originals[dice.below(2)].clone();
    match dice.below(8) {
        0 => bytes.truncate(dice.below(bytes.len())),
        1 => {
            // Inserts a piece of one into the other.
            let other = &originals[dice.below(2)];
            let from = dice.below(other.len());
            let piece = &other[from..(from + dice.below(16)).min(other.len())];
            let at = dice.below(bytes.len());
            bytes.splice(at..at, piece.iter().copied());
        }
        2 => {
            let at = dice.below(bytes.len());
            bytes.remove(at);
        }
        _ => {
            for _ in 0..=dice.below(3) {
                // After the eight bytes of the header: damage there is refused at once.
                let at = 8 + dice.below(bytes.len() - 8);
                bytes[at] ^= 1 << dice.below(8);
            }
        }
    }
    bytes
}

/// A generator that is random enough, and the same everywhere (xorshift64*).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let drawn = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(drawn).expect("it has 31 bits") % bound
    }
}
