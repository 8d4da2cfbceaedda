//! What modules can do: one scenario each.
#![allow(missing_docs)]

mod support;

use ferrywire_modules::Budget;
use ferrywire_nic::{Module, Trap, Verdict};
use support::{Asked, Recorder, compile, compile_within, start};

/// Sends back what it receives.
const ECHO: &str = r#"(module
    (import "ferry" "length" (func $length (result i32)))
    (import "ferry" "read" (func $read (param i32 i32 i32)))
    (import "ferry" "reply" (func $reply (param i32 i32)))
    (memory (export "memory") 1 2)
    (func (export "on_message") (result i32)
        (call $read (i32.const 64) (i32.const 0) (call $length))
        (call $reply (i32.const 64) (call $length))
        (i32.const 1)))"#;

#[test]
fn a_module_echoes() {
    let mut echo = start(ECHO);
    for payload in [&b"hello"[..], b"", b"again"] {
        let mut hook = Recorder::new(payload);
        assert_eq!(echo.on_message(&mut hook), Ok(Verdict::Consume));
        assert_eq!(hook.asked, [Asked::Send { to: 1, tag: 7, bytes: payload.to_vec() }]);
    }
}

#[test]
fn a_module_knows_where_it_is() {
    let mut module = start(
        r#"(module
        (import "ferry" "rank" (func $rank (result i32)))
        (import "ferry" "size" (func $size (result i32)))
        (import "ferry" "sender" (func $sender (result i32)))
        (import "ferry" "tag" (func $tag (result i32)))
        (import "ferry" "length" (func $length (result i32)))
        (import "ferry" "now" (func $now (result i64)))
        (import "ferry" "raise" (func $raise (param i32 i64)))
        (func (export "on_message") (result i32)
            (call $raise (i32.const 0) (i64.extend_i32_u (call $rank)))
            (call $raise (i32.const 1) (i64.extend_i32_u (call $size)))
            (call $raise (i32.const 2) (i64.extend_i32_u (call $sender)))
            (call $raise (i32.const 3) (i64.extend_i32_u (call $tag)))
            (call $raise (i32.const 4) (i64.extend_i32_u (call $length)))
            (call $raise (i32.const 5) (call $now))
            (i32.const 0)))"#,
    );
    let mut hook = Recorder::new(b"abc");
    assert_eq!(module.on_message(&mut hook), Ok(Verdict::Deliver));
    let raised = [2, 4, 1, 7, 3, 1234].into_iter().enumerate();
    let raised: Vec<Asked> =
        raised.map(|(at, by)| Asked::Raise { counter: u32::try_from(at).unwrap(), by }).collect();
    assert_eq!(hook.asked, raised);
}

#[test]
fn what_is_written_is_delivered_forwarded_and_read_again() {
    let mut module = start(
        r#"(module
        (import "ferry" "read" (func $read (param i32 i32 i32)))
        (import "ferry" "write" (func $write (param i32 i32 i32)))
        (import "ferry" "forward" (func $forward (param i32)))
        (import "ferry" "send" (func $send (param i32 i32 i32 i32)))
        (memory (export "memory") 1)
        (data (i32.const 0) "XY")
        (func (export "on_message") (result i32)
            (call $forward (i32.const 3))
            (call $write (i32.const 1) (i32.const 0) (i32.const 2))
            (call $forward (i32.const 0))
            (call $read (i32.const 16) (i32.const 0) (i32.const 4))
            (call $send (i32.const 3) (i32.const 9) (i32.const 16) (i32.const 4))
            (i32.const 0)))"#,
    );
    let mut hook = Recorder::new(b"abcd");
    assert_eq!(module.on_message(&mut hook), Ok(Verdict::Deliver));
    assert_eq!(
        hook.asked,
        [
            Asked::Forward { to: 3, bytes: b"abcd".to_vec() },
            Asked::Forward { to: 0, bytes: b"aXYd".to_vec() },
            Asked::Send { to: 3, tag: 9, bytes: b"aXYd".to_vec() },
        ]
    );
    assert_eq!(hook.payload, b"aXYd");
}

/// Counts messages from 40 on, in a global that `on_load` sets, and arms a counter.
const COUNTS: &str = r#"(module
    (import "ferry" "raise" (func $raise (param i32 i64)))
    (import "ferry" "arm" (func $arm (param i32 i64)))
    (global $seen (mut i64) (i64.const 0))
    (func (export "on_load") (global.set $seen (i64.const 40)))
    (func (export "on_message") (result i32)
        (global.set $seen (i64.add (global.get $seen) (i64.const 1)))
        (call $arm (i32.const 5) (global.get $seen))
        (i32.const 1))
    (func (export "on_counter") (param $counter i32)
        (call $raise (local.get $counter) (global.get $seen))))"#;

#[test]
fn state_is_kept_and_counters_come_back() {
    let mut module = start(COUNTS);
    let mut hook = Recorder::new(b"");
    assert_eq!(module.on_message(&mut hook), Ok(Verdict::Consume));
    assert_eq!(module.on_message(&mut hook), Ok(Verdict::Consume));
    assert_eq!(module.on_counter(6, &mut hook), Ok(()));
    assert_eq!(
        hook.asked,
        [
            Asked::Arm { counter: 5, at_least: 41 },
            Asked::Arm { counter: 5, at_least: 42 },
            Asked::Raise { counter: 6, by: 42 },
        ]
    );
}

#[test]
fn a_module_without_on_counter_does_not_mind_one() {
    let mut module = start(ECHO);
    assert_eq!(module.on_counter(3, &mut Recorder::new(b"")), Ok(()));
}

#[test]
fn instances_of_one_code_share_nothing_and_may_move() {
    let code = compile(COUNTS).unwrap();
    let seen = |messages: u64| {
        let code = code.clone();
        std::thread::spawn(move || {
            let mut module = code.start().unwrap();
            let mut hook = Recorder::new(b"");
            for _ in 0..messages {
                module.on_message(&mut hook).unwrap();
            }
            (module, hook)
        })
    };
    let threads = [seen(3), seen(5)];
    for (thread, messages) in threads.into_iter().zip([3, 5]) {
        // The module was created on another thread, and is called on this one.
        let (mut module, mut hook) = thread.join().unwrap();
        module.on_counter(0, &mut hook).unwrap();
        assert_eq!(hook.asked.last(), Some(&Asked::Raise { counter: 0, by: 40 + messages }));
    }
}

#[test]
fn fuel_is_counted_and_bytes_cost_more_than_their_call() {
    let mut echo = start(ECHO);
    let mut used = |payload: &[u8]| {
        let before = echo.fuel_used();
        echo.on_message(&mut Recorder::new(payload)).unwrap();
        echo.fuel_used() - before
    };
    let little = used(b"x");
    assert_eq!(used(b"y"), little);
    // One unit for each sixteen bytes, read and sent.
    assert_eq!(used(&[0; 16 + 16 * 100]), little + 200);
}

#[test]
fn a_trap_ends_the_call_and_keeps_what_was_done_before() {
    let mut module = start(
        r#"(module
        (import "ferry" "length" (func $length (result i32)))
        (import "ferry" "raise" (func $raise (param i32 i64)))
        (global $seen (mut i64) (i64.const 0))
        (func (export "on_message") (result i32)
            (global.set $seen (i64.add (global.get $seen) (i64.const 1)))
            (call $raise (i32.const 0) (global.get $seen))
            (if (i32.eqz (call $length)) (then (unreachable)))
            (i32.const 1)))"#,
    );
    let mut hook = Recorder::new(b"");
    assert_eq!(module.on_message(&mut hook), Err(Trap::Unreachable));
    let mut hook = Recorder::new(b"x");
    assert_eq!(module.on_message(&mut hook), Ok(Verdict::Consume));
    assert_eq!(hook.asked, [Asked::Raise { counter: 0, by: 2 }]);
}

#[test]
fn facts_tell_what_is_in_it() {
    let facts = compile(ECHO).unwrap().facts();
    assert_eq!(facts.imports, ["ferry.length", "ferry.read", "ferry.reply"]);
    assert_eq!(facts.exports, ["memory", "on_message"]);
    assert_eq!((facts.memory_bytes_min, facts.memory_bytes_max), (64 << 10, 128 << 10));
    assert!(facts.wasm_bytes > 50 && facts.machine_bytes > 100 && facts.compile_ns > 0);

    let large = Budget { memory_bytes: 64 << 10, ..Budget::default() };
    assert_eq!(compile_within(ECHO, &large).unwrap().facts().memory_bytes_max, 64 << 10);
    let none =
        compile(r#"(module (func (export "on_message") (result i32) i32.const 0))"#).unwrap();
    assert_eq!(none.facts().memory_bytes_max, 0);
}
