//! Operators of reductions: code that combines elements.
#![allow(missing_docs)]

mod support;

use ferrywire_modules::abi::ELEMENT_BYTES_MAX;
use ferrywire_modules::{Budget, CodeOperator, Engine};
use ferrywire_nic::Trap;
use ferrywire_sim::random::Random;
use support::example::{code, seeds};
use support::{compile, compile_within};

/// Adds numbers of eight bytes: those at `from` and 1 to those at `into`, so that no order of the arguments is like another.
const ADD: &str = r#"(module
    (memory (export "memory") 1)
    (func (export "combine") (param $from i32) (param $into i32) (param $count i32)
        (block $over (loop $next
            (br_if $over (i32.eqz (local.get $count)))
            (i64.store (local.get $into)
                (i64.add (i64.const 1)
                    (i64.add (i64.load (local.get $from)) (i64.load (local.get $into)))))
            (local.set $from (i32.add (local.get $from) (i32.const 8)))
            (local.set $into (i32.add (local.get $into) (i32.const 8)))
            (local.set $count (i32.sub (local.get $count) (i32.const 1)))
            (br $next)))))"#;

fn operator(text: &str) -> CodeOperator {
    compile(text).unwrap().start_operator().unwrap()
}

fn refusal(text: &str) -> String {
    compile(text).unwrap().start_operator().unwrap_err().to_string()
}

#[test]
fn elements_are_combined_whatever_their_number() {
    let mut add = operator(ADD);
    for seed in seeds(200) {
        let mut random = Random::new(seed);
        // Up to more than two pieces.
        let count = random.pick(&[0, 1, 2, 7, 1023, 1024, 1025, 3000]);
        let numbers =
            |random: &mut Random| -> Vec<u64> { (0..count).map(|_| random.any()).collect() };
        let (from, into) = (numbers(&mut random), numbers(&mut random));
        let bytes = |numbers: &[u64]| -> Vec<u8> {
            numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
        };
        let mut combined = bytes(&into);
        add.combine(&bytes(&from), &mut combined, 8).unwrap();
        let sums: Vec<u64> = from
            .iter()
            .zip(&into)
            .map(|(from, into)| from.wrapping_add(*into).wrapping_add(1))
            .collect();
        assert_eq!(combined, bytes(&sums), "seed {seed}");
    }
}

#[test]
fn an_element_may_be_long_but_not_longer() {
    // Keeps the last byte of an element.
    let mut last = operator(
        r#"(module (memory (export "memory") 1)
            (func (export "combine") (param $from i32) (param $into i32) (param $count i32)
                (i32.store8 (i32.add (local.get $into) (i32.const 32767))
                    (i32.load8_u (i32.add (local.get $from) (i32.const 32767))))))"#,
    );
    let (from, mut into) = (vec![7; 3 * ELEMENT_BYTES_MAX], vec![1; 3 * ELEMENT_BYTES_MAX]);
    last.combine(&from, &mut into, ELEMENT_BYTES_MAX).unwrap();
    for element in into.chunks(ELEMENT_BYTES_MAX) {
        let (end, rest) = element.split_last().unwrap();
        assert!(*end == 7 && rest.iter().all(|&byte| byte == 1));
    }
    let longer = vec![0; ELEMENT_BYTES_MAX + 1];
    let ended = last.combine(&longer, &mut longer.clone(), longer.len());
    assert_eq!(ended, Err(Trap::Length));
}

#[test]
fn what_code_does_wrong_stops_it() {
    let code = |body: &str| {
        format!(
            r#"(module (memory (export "memory") 1)
                (func (export "combine") (param i32 i32 i32) {body}))"#
        )
    };
    for (body, trap) in [
        ("(loop $again br $again)", Trap::Fuel),
        ("unreachable", Trap::Unreachable),
        ("(i32.store (i32.const -1) (i32.const 0))", Trap::Memory),
        ("(drop (i32.div_s (i32.const 1) (i32.const 0)))", Trap::Arithmetic),
    ] {
        let mut operator = operator(&code(body));
        // It can be called again, and does the same again.
        for _ in 0..2 {
            assert_eq!(operator.combine(&[1; 8], &mut [2; 8], 8), Err(trap), "{body}");
        }
    }
}

#[test]
fn what_is_no_operator_is_refused() {
    let imports = r#"(module (import "ferry" "rank" (func (result i32)))
        (memory (export "memory") 1) (func (export "combine") (param i32 i32 i32)))"#;
    assert_eq!(
        refusal(imports),
        "the operator imports `ferry.rank`; an operator may import nothing"
    );
    let handles = r#"(module (memory (export "memory") 1)
        (func (export "on_message") (result i32) i32.const 0))"#;
    assert_eq!(refusal(handles), "the operator exports no function `combine`");
    let bare = r#"(module (func (export "combine") (param i32 i32 i32)))"#;
    assert_eq!(refusal(bare), "the operator exports no memory called `memory`");
    let full = r#"(module (memory (export "memory") 1 1)
        (func (export "combine") (param i32 i32 i32)))"#;
    assert_eq!(refusal(full), "the operator's memory cannot grow by 64 KiB for the elements");
    let budget = Budget { memory_bytes: 64 << 10, ..Budget::default() };
    let why = compile_within(ADD, &budget).unwrap().start_operator().unwrap_err();
    assert_eq!(why.to_string(), "the operator's memory cannot grow by 64 KiB for the elements");
    let why = compile(ADD).unwrap().start().unwrap_err();
    assert_eq!(why.to_string(), "the module exports no function `on_message`");
}

/// `examples/modules/variance.c`: sets merged in any grouping have the variance of all their numbers.
#[test]
fn the_example_merges_sets() {
    let Some(code) = code("variance") else { return };
    let engine = Engine::open(|_| None).expect("the build put it here");
    let mut variance = engine.compile(&code, &Budget::default()).unwrap().start_operator().unwrap();
    let mut random = Random::new(1);
    let mut all: Vec<f64> = Vec::new();
    let mut merged = known(&[]);
    for _ in 0..50 {
        let count = random.below(20);
        let numbers: Vec<f64> = (0..count).map(|_| 1e6 + random.below(1000) as f64).collect();
        let mut bytes = merged.map(f64::to_le_bytes);
        let other = known(&numbers).map(f64::to_le_bytes);
        variance.combine(other.as_flattened(), bytes.as_flattened_mut(), 24).unwrap();
        merged = bytes.map(f64::from_le_bytes);
        all.extend(numbers);
    }
    let [count, mean, squares] = known(&all);
    assert_eq!(merged[0], count);
    assert!((merged[1] - mean).abs() < 1e-6 && (merged[2] / squares - 1.0).abs() < 1e-9);
}

/// How many numbers there are, their mean, and the sum of the squares of their distances from it.
fn known(numbers: &[f64]) -> [f64; 3] {
    let count = numbers.len() as f64;
    let mean = if numbers.is_empty() { 0.0 } else { numbers.iter().sum::<f64>() / count };
    [count, mean, numbers.iter().map(|number| (number - mean).powi(2)).sum()]
}
