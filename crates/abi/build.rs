//! Sets the soname of the library, which the standard fixes, and generates the macro `functions!` from the table of
//! functions: `src/functions.rs` says how to use it.

use std::path::Path;
use std::{env, fs};

#[allow(dead_code, reason = "only the test of the headers needs the types of C")]
mod table;

use table::Function;

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmpi_abi.so.1");
    for file in ["build.rs", "table.rs", "functions.txt"] {
        println!("cargo::rerun-if-changed={file}");
    }
    let table = fs::read_to_string("functions.txt").expect("the table of functions");
    let functions = match table::parse(&table) {
        Ok(functions) => functions,
        Err(error) => return println!("cargo::error={error}"),
    };
    let folder = env::var("OUT_DIR").expect("a folder from cargo");
    fs::write(Path::new(&folder).join("functions.rs"), macro_of(&functions)).expect("written");
}

/// The macro, with a rule for all functions, for those of each module, for each function, and for several.
fn macro_of(functions: &[Function]) -> String {
    let mut modules: Vec<&str> = functions.iter().map(|it| it.module.as_str()).collect();
    modules.dedup();
    let parts: String = modules.iter().map(|module| call(&format!("{module}::*"))).collect();
    let mut rules = rule("*", &parts);
    for module in modules {
        let its_own = functions.iter().filter(|function| function.module == module);
        let calls: String = its_own.map(|function| call(&function.name)).collect();
        rules += &rule(&format!("{module}::*"), &calls);
    }
    for function in functions {
        rules += &rule(&function.name, &format!("$front! {{ {} }}", row(function)));
    }
    let several = call("$first") + "$(" + &call("$other") + ")+";
    rules += &rule("$first:ident $($other:ident)+", &several);
    format!("macro_rules! functions {{\n{rules}}}\n")
}

fn rule(which: &str, expansion: &str) -> String {
    format!("($front:ident: {which}) => {{ {expansion} }};\n")
}

fn call(which: &str) -> String {
    format!("$crate::functions::functions! {{ $front: {which} }}\n")
}

/// A function as fronts get it.
fn row(Function { name, module, arguments, answer, .. }: &Function) -> String {
    let argument =
        |(name, value): &(String, table::Value)| format!("({}) {name}: {}", value.kind, value.rust);
    let arguments: Vec<String> = arguments.iter().map(argument).collect();
    let (arguments, kind, answer) = (arguments.join(", "), &answer.kind, &answer.rust);
    format!("fn {name} = {module}::{name} ({arguments}) -> ({kind}) {answer}")
}
