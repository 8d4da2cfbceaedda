//! Hostile or broken modules: each ends in the expected trap or refusal, and leaves the process as it was.
#![allow(missing_docs)]

mod support;

use ferrywire_modules::{Budget, Instance};
use ferrywire_nic::{Module, Trap, Verdict};
use support::{Recorder, compile, compile_within, start};

/// The beginning of all modules in the tables below, so that these are short.
const PRELUDE: &str = r#"
    (import "ferry" "length" (func $length (result i32)))
    (import "ferry" "now" (func $now (result i64)))
    (import "ferry" "read" (func $read (param i32 i32 i32)))
    (import "ferry" "write" (func $write (param i32 i32 i32)))
    (import "ferry" "forward" (func $forward (param i32)))
    (import "ferry" "send" (func $send (param i32 i32 i32 i32)))
    (import "ferry" "reply" (func $reply (param i32 i32)))
    (import "ferry" "raise" (func $raise (param i32 i64)))
    (import "ferry" "arm" (func $arm (param i32 i64)))
    (type $nothing (func))
    (type $number (func (result i32)))
    (memory (export "memory") 1)
    (table $table 4 funcref)
    (elem (i32.const 0) $idle)
    (func $idle)
"#;

/// A body of `on_message` and how its call ends. The payload has ten bytes.
const CALLS: &[(&str, &str, Result<Verdict, Trap>)] = &[
    ("endless loop", "(loop $l (br $l)) (i32.const 1)", FUEL),
    ("recursion", "(call $deep)", Err(Trap::Stack)),
    ("load beyond the end", "(i32.load (i32.const 65533))", MEMORY),
    ("load far beyond", "(i32.load (i32.const -4))", MEMORY),
    ("load, offset overflows", "(i32.load offset=4294967295 (i32.const -1))", MEMORY),
    ("store beyond the end", "(i32.store (i32.const 65536) (i32.const 1)) (i32.const 1)", MEMORY),
    ("load of the last bytes", "(i32.eqz (i32.load (i32.const 65532)))", CONSUME),
    (
        "fill beyond the end",
        "(memory.fill (i32.const 65535) (i32.const 1) (i32.const 2)) (i32.const 1)",
        MEMORY,
    ),
    (
        "copy of minus one",
        "(memory.copy (i32.const 0) (i32.const 8) (i32.const -1)) (i32.const 1)",
        FUEL,
    ),
    ("division by zero", "(i32.div_s (i32.const 1) (i32.const 0))", ARITHMETIC),
    ("remainder by zero", "(i32.rem_u (i32.const 1) (i32.const 0))", ARITHMETIC),
    ("quotient too large", "(i32.div_s (i32.const 0x80000000) (i32.const -1))", ARITHMETIC),
    (
        "remainder of the same",
        "(i32.rem_s (i32.const 0x80000000) (i32.const -1))",
        Ok(Verdict::Deliver),
    ),
    ("integer of no number", "(i32.trunc_f32_s (f32.const nan))", ARITHMETIC),
    ("integer of too much", "(i32.trunc_f64_u (f64.const 1e10))", ARITHMETIC),
    ("saturated instead", "(i32.trunc_sat_f32_s (f32.const nan))", Ok(Verdict::Deliver)),
    ("gives up", "(unreachable)", Err(Trap::Unreachable)),
    ("call of null", "(call_indirect (type $nothing) (i32.const 1)) (i32.const 1)", CALL),
    ("call of another type", "(call_indirect (type $number) (i32.const 0))", CALL),
    ("call beyond the table", "(call_indirect (type $nothing) (i32.const 4)) (i32.const 1)", CALL),
    ("call of minus one", "(call_indirect (type $nothing) (i32.const -1)) (i32.const 1)", CALL),
    ("call that is good", "(call_indirect (type $nothing) (i32.const 0)) (i32.const 1)", CONSUME),
    ("verdict two", "(i32.const 2)", Err(Trap::Verdict)),
    // Traps are negative numbers at the boundary. A module cannot forge one.
    ("verdict minus one", "(i32.const -1)", Err(Trap::Verdict)),
    ("memory keeps to its cap", GROWS, CONSUME),
    ("table keeps to its cap", TABLE_GROWS, CONSUME),
    ("grows for ever", "(loop $l (drop (memory.grow (i32.const 0))) (br $l)) (i32.const 1)", FUEL),
    (
        "grows by what is not there",
        "(loop $l (drop (memory.grow (i32.const -1))) (br $l)) (i32.const 1)",
        FUEL,
    ),
    (
        "fills for ever",
        "(loop $l (memory.fill (i32.const 0) (i32.const 1) (i32.const 65536)) (br $l)) (i32.const 1)",
        FUEL,
    ),
    (
        "copies for ever",
        "(loop $l (memory.copy (i32.const 0) (i32.const 1) (i32.const 65535)) (br $l)) (i32.const 1)",
        FUEL,
    ),
    (
        "fills its table for ever",
        "(loop $l (table.fill $table (i32.const 0) (ref.null func) (i32.const 4)) (br $l)) (i32.const 1)",
        FUEL,
    ),
    (
        "sends for ever",
        "(loop $l (call $reply (i32.const 0) (i32.const 1)) (br $l)) (i32.const 1)",
        Err(Trap::Sends),
    ),
    (
        "forwards for ever",
        "(loop $l (call $forward (i32.const 1)) (br $l)) (i32.const 1)",
        Err(Trap::Sends),
    ),
    (
        "raises for ever",
        "(loop $l (call $raise (i32.const 0) (i64.const 1)) (br $l)) (i32.const 1)",
        FUEL,
    ),
    ("asks for ever", "(loop $l (drop (call $length)) (br $l)) (i32.const 1)", FUEL),
    ("reads the clock for ever", "(loop $l (drop (call $now)) (br $l)) (i32.const 1)", FUEL),
    ("forwards to nobody", "(call $forward (i32.const 4)) (i32.const 1)", Err(Trap::Rank)),
    ("forwards to minus one", "(call $forward (i32.const -1)) (i32.const 1)", Err(Trap::Rank)),
    (
        "sends to minus one",
        "(call $send (i32.const -1) (i32.const 0) (i32.const 0) (i32.const 0)) (i32.const 1)",
        Err(Trap::Rank),
    ),
    (
        "sends a tag below zero",
        "(call $send (i32.const 0) (i32.const -1) (i32.const 0) (i32.const 0)) (i32.const 1)",
        Err(Trap::Tag),
    ),
    (
        "raises what is not there",
        "(call $raise (i32.const 8) (i64.const 1)) (i32.const 1)",
        COUNTER,
    ),
    ("raises minus one", "(call $raise (i32.const -1) (i64.const 1)) (i32.const 1)", COUNTER),
    ("raises by minus one", "(call $raise (i32.const 0) (i64.const -1)) (i32.const 1)", COUNTER),
    ("arms minus one", "(call $arm (i32.const -1) (i64.const 1)) (i32.const 1)", COUNTER),
    (
        "reads it all",
        "(call $read (i32.const 0) (i32.const 0) (i32.const 10)) (i32.const 1)",
        CONSUME,
    ),
    (
        "reads nothing at the end",
        "(call $read (i32.const 65536) (i32.const 10) (i32.const 0)) (i32.const 1)",
        CONSUME,
    ),
    (
        "reads one too many",
        "(call $read (i32.const 0) (i32.const 0) (i32.const 11)) (i32.const 1)",
        PAYLOAD,
    ),
    (
        "reads beyond the end",
        "(call $read (i32.const 0) (i32.const 11) (i32.const 0)) (i32.const 1)",
        PAYLOAD,
    ),
    (
        "reads below zero",
        "(call $read (i32.const 0) (i32.const -1) (i32.const 1)) (i32.const 1)",
        PAYLOAD,
    ),
    (
        "reads a length below zero",
        "(call $read (i32.const 0) (i32.const 0) (i32.const -1)) (i32.const 1)",
        PAYLOAD,
    ),
    (
        "reads a little of much",
        "(call $read (i32.const 0) (i32.const 0x7fffffff) (i32.const 1)) (i32.const 1)",
        PAYLOAD,
    ),
    // The cost is checked before the length: two billion bytes cost more than the fuel there is.
    (
        "reads as much as can be said",
        "(call $read (i32.const 0) (i32.const 1) (i32.const 0x7fffffff)) (i32.const 1)",
        FUEL,
    ),
    (
        "reads into beyond the end",
        "(call $read (i32.const 65530) (i32.const 0) (i32.const 10)) (i32.const 1)",
        MEMORY,
    ),
    (
        "reads into below zero",
        "(call $read (i32.const -5) (i32.const 0) (i32.const 10)) (i32.const 1)",
        MEMORY,
    ),
    (
        "writes one too many",
        "(call $write (i32.const 0) (i32.const 0) (i32.const 11)) (i32.const 1)",
        PAYLOAD,
    ),
    (
        "writes below zero",
        "(call $write (i32.const -1) (i32.const 0) (i32.const 1)) (i32.const 1)",
        PAYLOAD,
    ),
    (
        "writes a length below zero",
        "(call $write (i32.const 0) (i32.const 0) (i32.const -1)) (i32.const 1)",
        PAYLOAD,
    ),
    (
        "writes from beyond the end",
        "(call $write (i32.const 0) (i32.const 65530) (i32.const 10)) (i32.const 1)",
        MEMORY,
    ),
    (
        "writes from below zero",
        "(call $write (i32.const 0) (i32.const -1) (i32.const 1)) (i32.const 1)",
        MEMORY,
    ),
    (
        "sends from beyond the end",
        "(call $reply (i32.const 65536) (i32.const 1)) (i32.const 1)",
        MEMORY,
    ),
    (
        "sends a length below zero",
        "(call $reply (i32.const 0) (i32.const -1)) (i32.const 1)",
        MEMORY,
    ),
    (
        "sends as much as can be said",
        "(call $reply (i32.const 0) (i32.const 0x7fffffff)) (i32.const 1)",
        FUEL,
    ),
    (
        "sends more than it has",
        "(call $reply (i32.const 0) (i32.const 65537)) (i32.const 1)",
        MEMORY,
    ),
];

const GROWS: &str = "(i32.and
    (i32.and
        (i32.eq (memory.grow (i32.const 15)) (i32.const 1))
        (i32.eq (memory.grow (i32.const 1)) (i32.const -1)))
    (i32.and
        (i32.eq (memory.grow (i32.const 65535)) (i32.const -1))
        (i32.eq (memory.size) (i32.const 16))))";

const TABLE_GROWS: &str = "(i32.and
    (i32.eq (table.grow $table (ref.null func) (i32.const 1020)) (i32.const 4))
    (i32.eq (table.grow $table (ref.null func) (i32.const 1)) (i32.const -1)))";

const CONSUME: Result<Verdict, Trap> = Ok(Verdict::Consume);
const FUEL: Result<Verdict, Trap> = Err(Trap::Fuel);
const MEMORY: Result<Verdict, Trap> = Err(Trap::Memory);
const PAYLOAD: Result<Verdict, Trap> = Err(Trap::Payload);
const ARITHMETIC: Result<Verdict, Trap> = Err(Trap::Arithmetic);
const CALL: Result<Verdict, Trap> = Err(Trap::Call);
const COUNTER: Result<Verdict, Trap> = Err(Trap::Counter);

#[test]
fn every_call_ends_as_it_should() {
    let mut good = neighbour();
    for (what, body, expected) in CALLS {
        // Growing to the cap and touching it all takes more than the usual fuel.
        let budget = Budget { fuel: 1_000_000, ..Budget::default() };
        let code = compile_within(&with_body(body), &budget).expect("it is good");
        let mut module = code.start().expect("it starts");
        // Three times: after any outcome, the module and the process can go on.
        for _ in 0..3 {
            // Memory that has grown stays grown.
            if what.contains("cap") && module.fuel_used() > 0 {
                continue;
            }
            let answer = module.on_message(&mut Recorder::new(b"0123456789"));
            assert_eq!(answer, *expected, "{what}");
        }
        assert_answers(&mut good);
    }
}

/// A whole module, and words of the refusal.
const REFUSED: &[(&str, &str, &str)] = &[
    ("no text at all", "", "the code is not WebAssembly: expected at least one module field"),
    ("other text", "hello", "the code is not WebAssembly: "),
    ("no export", "(module)", "the module exports no function `on_message`"),
    (
        "export of something else",
        r#"(module (memory (export "on_message") 1))"#,
        "but not as a function",
    ),
    (
        "export of another type",
        r#"(module (func (export "on_message")))"#,
        "the module's `on_message` is () -> (); it must be () -> i32",
    ),
    (
        "on_load of another type",
        r#"(module (func (export "on_message") (result i32) i32.const 0) (func (export "on_load") (param i64)))"#,
        "the module's `on_load` is (i64) -> (); it must be () -> ()",
    ),
    (
        "import of what is not there",
        r#"(module (import "env" "printf" (func (param i32 i32) (result i32))))"#,
        "the module imports `env.printf`, which the NIC does not provide; it provides ferry.rank, ferry.size, ",
    ),
    (
        "import of WASI",
        r#"(module (import "wasi_snapshot_preview1" "fd_write" (func)))"#,
        "does not provide",
    ),
    (
        "import of a name alone",
        r#"(module (import "env" "rank" (func (result i32))))"#,
        "the module imports `env.rank`",
    ),
    ("import of nothing", r#"(module (import "ferry" "" (func)))"#, "the module imports `ferry.`"),
    (
        "import of another type",
        r#"(module (import "ferry" "rank" (func (param i32) (result i64))))"#,
        "the module imports `ferry.rank` as (i32) -> i64; its type is () -> i32",
    ),
    (
        "import of no function",
        r#"(module (import "ferry" "rank" (memory 1)))"#,
        "but not as a function",
    ),
    ("import of a memory", r#"(module (import "env" "memory" (memory 1)))"#, "does not provide"),
    (
        "reads without memory",
        r#"(module (import "ferry" "read" (func (param i32 i32 i32))) (func (export "on_message") (result i32) i32.const 0))"#,
        "the module imports `ferry.read` but exports no memory called `memory`",
    ),
    (
        "huge memory",
        r#"(module (memory 32) (func (export "on_message") (result i32) i32.const 0))"#,
        "the module's memory starts with 2 MiB; the limit is 1 MiB",
    ),
    (
        "all memory there is",
        r#"(module (memory 65536) (func (export "on_message") (result i32) i32.const 0))"#,
        "the module's memory starts with 4096 MiB; the limit is 1 MiB",
    ),
    (
        "huge table",
        r#"(module (table 4294967295 funcref) (func (export "on_message") (result i32) i32.const 0))"#,
        "the limit is 1024",
    ),
    (
        "table one too large",
        r#"(module (table 1025 funcref) (func (export "on_message") (result i32) i32.const 0))"#,
        "the module's table starts with 1025 elements; the limit is 1024",
    ),
    (
        "many tables",
        r#"(module (table 1 funcref) (table 1 funcref) (func (export "on_message") (result i32) i32.const 0))"#,
        "the module has 2 tables; the limit is 1",
    ),
    ("two memories", "(module (memory 1) (memory 1))", "the NIC cannot run this WebAssembly"),
    ("shared memory", "(module (memory 1 1 shared))", "the NIC cannot run this WebAssembly"),
    ("memory of 64 bits", "(module (memory i64 1))", "the NIC cannot run this WebAssembly"),
    (
        "vectors",
        "(module (func (result v128) (v128.const i64x2 0 0)))",
        "the NIC cannot run this WebAssembly",
    ),
    ("exceptions", "(module (tag))", "the NIC cannot run this WebAssembly"),
    ("collected types", "(module (type (struct)))", "the NIC cannot run this WebAssembly"),
    ("tail calls", "(module (func $f (return_call $f)))", "the NIC cannot run this WebAssembly"),
    ("a component", "(component)", "the code is not WebAssembly: "),
    ("a wrong body", "(module (func (result i32)))", "the NIC cannot run this WebAssembly"),
    (
        "start that never ends",
        r#"(module (func $f (loop $l (br $l))) (start $f) (func (export "on_message") (result i32) i32.const 0))"#,
        "the module cannot be instantiated: it used up its fuel",
    ),
    (
        "start that asks",
        r#"(module (import "ferry" "rank" (func $rank (result i32))) (func $f (drop (call $rank))) (start $f)
            (func (export "on_message") (result i32) i32.const 0))"#,
        "the module cannot be instantiated: it called an import while it was loading",
    ),
    (
        "data beyond the memory",
        r#"(module (memory 1) (data (i32.const 65530) "too long") (func (export "on_message") (result i32) i32.const 0))"#,
        "the module cannot be instantiated: it accessed memory",
    ),
    (
        "on_load that never ends",
        r#"(module (func (export "on_load") (loop $l (br $l))) (func (export "on_message") (result i32) i32.const 0))"#,
        "the module's `on_load` failed: it used up its fuel",
    ),
    (
        "on_load that gives up",
        r#"(module (func (export "on_load") unreachable) (func (export "on_message") (result i32) i32.const 0))"#,
        "the module's `on_load` failed: it executed `unreachable` (a panic or abort)",
    ),
    (
        "on_load that asks",
        r#"(module (import "ferry" "reply" (func $reply (param i32 i32))) (memory (export "memory") 1)
            (func (export "on_load") (call $reply (i32.const 0) (i32.const 0)))
            (func (export "on_message") (result i32) i32.const 0))"#,
        "the module's `on_load` failed: it called an import while it was loading",
    ),
];

#[test]
fn every_refusal_says_why() {
    for (what, text, expected) in REFUSED {
        let refusal = match compile(text) {
            Err(refusal) => refusal,
            Ok(code) => code.start().err().unwrap_or_else(|| panic!("{what}: it was taken")),
        };
        assert!(refusal.to_string().contains(expected), "{what}: {refusal}");
    }
}

#[test]
fn code_that_is_too_long_is_not_looked_at() {
    let budget = Budget { code_bytes: 100, ..Budget::default() };
    let refusal = compile_within(&" ".repeat(101), &budget).unwrap_err();
    assert_eq!(refusal.to_string(), "the code has 101 bytes; the limit is 100 bytes");
}

/// Short code that takes long to compile.
#[test]
fn code_that_would_keep_the_compiler_busy_is_refused() {
    let functions = "(func)".repeat(8193);
    let refusal = compile(&format!("(module {functions})")).unwrap_err();
    assert_eq!(refusal.to_string(), "the module has 8193 functions; the limit is 8192");

    let locals = "i64 ".repeat(40_000);
    let functions = format!("(func (local {locals}))").repeat(2);
    let refusal = compile(&format!("(module {functions})")).unwrap_err();
    assert_eq!(refusal.to_string(), "the module has 80000 local variables; the limit is 65536");
}

/// Neither the text parser nor the compiler recurses as deeply as its input.
#[test]
fn code_that_is_nested_deeply_ends_somewhere() {
    for (open, within, close) in [
        ("(", "", ")"),
        ("(module ", "", ")"),
        ("(block ", "", ")"),
        ("(drop ", "(i32.const 0)", ")"),
        ("block ", "", "end "),
        ("(if (i32.const 1) (then ", "", "))"),
    ] {
        let nested = [&open.repeat(30_000), within, &close.repeat(30_000)].concat();
        assert!(compile(&nested).is_err());
        assert!(compile(&with_body(&format!("{nested} (i32.const 1)"))).is_err());
    }
    let refusal = compile(&with_body(&"block ".repeat(1025))).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "the module has 1025 levels of nested blocks; the limit is 1024"
    );

    let nested = ["block ".repeat(1024), "end ".repeat(1024)].concat();
    let deep =
        ["(i32.eqz ".repeat(30_000), "(i32.const 1)".to_string(), ")".repeat(30_000)].concat();
    for body in [format!("{nested} (i32.const 1)"), deep] {
        let mut module = start(&with_body(&body));
        assert_eq!(module.on_message(&mut Recorder::new(b"")), Ok(Verdict::Consume));
    }
}

/// Fuel would let these run for hours. The clock stops them.
#[test]
fn the_clock_stops_what_fuel_does_not() {
    let budget = Budget { fuel: u64::MAX, time_ns: 3_000_000, ..Budget::default() };
    for body in [
        "(loop $l (br $l)) (i32.const 1)",
        "(drop (memory.grow (i32.const 15)))
            (loop $l (memory.fill (i32.const 0) (i32.const 1) (i32.const 1048576)) (br $l)) (i32.const 1)",
        "(loop $l (drop (call $length)) (br $l)) (i32.const 1)",
        "(loop $l (call $read (i32.const 0) (i32.const 0) (i32.const 10)) (br $l)) (i32.const 1)",
    ] {
        let code = compile_within(&with_body(body), &budget).unwrap();
        let mut module = code.start().unwrap();
        for _ in 0..2 {
            let answer = module.on_message(&mut Recorder::new(b"0123456789"));
            assert_eq!(answer, Err(Trap::Time), "{body}");
        }
    }
}

#[test]
fn a_send_storm_runs_out_of_fuel_if_nothing_else_stops_it() {
    let mut module = start(&with_body(
        "(loop $l (call $reply (i32.const 0) (i32.const 64)) (br $l)) (i32.const 1)",
    ));
    let mut hook = Recorder::new(b"");
    hook.sends_max = usize::MAX;
    assert_eq!(module.on_message(&mut hook), Err(Trap::Fuel));
    assert!(hook.asked.len() < 2000, "{} sends for one message", hook.asked.len());
    assert_eq!(module.fuel_used(), Budget::default().fuel);
}

/// The NIC's driver may run on a stack of 256 KiB. A module gets 64 of them, however it uses them.
#[test]
fn deep_calls_end_on_a_small_stack() {
    let wide: String = (0..12_000)
        .map(|at| format!("(local.set {at} (i64.load offset={} (i32.const 0)))", at * 4))
        .collect();
    // All of them are live across the call, so that they are in the frame.
    let used: String = (0..12_000)
        .map(|at| format!("(i64.store offset={} (i32.const 0) (local.get {at}))", at * 4))
        .collect();
    let locals = "i64 ".repeat(12_000);
    let wide = format!(
        "(module {PRELUDE}
            (func $wide (local {locals}) {wide} (call $idle) {used})
            (func (export \"on_message\") (result i32) (call $wide) (i32.const 1)))"
    );
    let asks = format!(
        "(module {PRELUDE}
            (func $f (drop (call $length)) (call $read (i32.const 0) (i32.const 0) (i32.const 1))
                (call $f))
            (func (export \"on_message\") (result i32) (call $f) (i32.const 1)))"
    );
    let long = Budget { code_bytes: 4 << 20, ..Budget::default() };
    let calls = [with_body("(call $deep)"), asks, wide];
    let calls = calls.map(|text| compile_within(&text, &long).unwrap());
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(move || {
        for code in calls {
            let mut module = code.start().unwrap();
            for _ in 0..3 {
                assert_eq!(module.on_message(&mut Recorder::new(b"x")), Err(Trap::Stack));
            }
        }
    });
    thread.unwrap().join().unwrap();
}

#[test]
fn no_number_has_one_form_only() {
    let mut module = start(
        r#"(module
            (import "ferry" "read" (func $read (param i32 i32 i32)))
            (memory (export "memory") 1)
            (func (export "on_message") (result i32)
                (call $read (i32.const 0) (i32.const 0) (i32.const 8))
                (i32.eq (i32.const 0x7fc00000)
                    (i32.reinterpret_f32 (f32.mul (f32.load (i32.const 0)) (f32.load (i32.const 4)))))))"#,
    );
    // NaNs with different bits, and an operation that produces one.
    for (a, b) in [(0x7fa0_1234, 0x3f80_0000), (0xffc0_0001, 0x7fc0_0002), (0x7f80_0000, 0_u32)] {
        let payload = [u32::to_le_bytes(a), u32::to_le_bytes(b)].concat();
        assert_eq!(module.on_message(&mut Recorder::new(&payload)), Ok(Verdict::Consume));
    }
}

#[test]
fn a_bad_module_does_not_disturb_a_good_one() {
    let budget = Budget { fuel: u64::MAX, time_ns: 20_000_000, ..Budget::default() };
    let bad = compile_within(&with_body("(loop $l (br $l)) (i32.const 1)"), &budget).unwrap();
    let bad = std::thread::spawn(move || {
        let mut bad = bad.start().unwrap();
        bad.on_message(&mut Recorder::new(b""))
    });
    let mut good = neighbour();
    let mut answers = 0;
    while !bad.is_finished() {
        assert_answers(&mut good);
        answers += 1;
    }
    assert_eq!(bad.join().unwrap(), Err(Trap::Time));
    println!("{answers} answers meanwhile");
}

/// A module that adds up the lengths of its messages, and tells whether the sum is even.
fn neighbour() -> Instance {
    start(
        r#"(module
            (import "ferry" "length" (func $length (result i32)))
            (global $sum (mut i32) (i32.const 0))
            (func (export "on_message") (result i32)
                (global.set $sum (i32.add (global.get $sum) (call $length)))
                (i32.and (global.get $sum) (i32.const 1))))"#,
    )
}

fn assert_answers(good: &mut Instance) {
    assert_eq!(good.on_message(&mut Recorder::new(b"odd")), Ok(Verdict::Consume));
    assert_eq!(good.on_message(&mut Recorder::new(b"odd")), Ok(Verdict::Deliver));
}

fn with_body(body: &str) -> String {
    format!(
        "(module {PRELUDE}
            (func $deep (result i32) (i32.add (i32.const 1) (call $deep)))
            (func (export \"on_message\") (result i32) {body}))"
    )
}
