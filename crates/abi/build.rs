//! Sets the soname of the library, which the standard fixes, and generates the macro `functions!` from the table of
//! functions: `src/functions.rs` says how to use it.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

#[allow(dead_code, reason = "only the test of the headers needs the types of C")]
mod table;

use table::Function;

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmpi_abi.so.1");
    for file in ["build.rs", "table.rs", "functions.txt"] {
        println!("cargo:rerun-if-changed={file}");
    }
    let table = fs::read_to_string("functions.txt").expect("the table of functions");
    let functions = table::parse(&table).unwrap_or_else(|error| panic!("{error}"));
    let folder = env::var("OUT_DIR").expect("a folder from cargo");
    fs::write(Path::new(&folder).join("functions.rs"), macro_of(&functions)).expect("written");
}

/// The macro, with a rule for all functions, for those of each module, for each function, and for several.
fn macro_of(functions: &[Function]) -> String {
    let mut modules: Vec<&str> =
        functions.iter().map(|function| function.module.as_str()).collect();
    modules.dedup();
    let mut text = String::from("macro_rules! functions {\n    ($front:ident: *) => {\n");
    for module in &modules {
        text += &call(&format!("{module}::*"));
    }
    text += "    };\n";
    for module in modules {
        write!(text, "    ($front:ident: {module}::*) => {{\n").expect("memory");
        for function in functions.iter().filter(|function| function.module == module) {
            text += &call(&function.name);
        }
        text += "    };\n";
    }
    for function in functions {
        write!(
            text,
            "    ($front:ident: {}) => {{ $front! {{ {} }} }};\n",
            function.name,
            row(function)
        )
        .expect("memory");
    }
    text += "    ($front:ident: $first:ident $($other:ident)+) => {\n";
    text += &call("$first");
    text += "        $($crate::functions::functions! { $front: $other })+\n    };\n}\n";
    text
}

fn call(which: &str) -> String {
    format!("        $crate::functions::functions! {{ $front: {which} }}\n")
}

/// A function as fronts get it.
fn row(Function { name, module, arguments, answer, .. }: &Function) -> String {
    let argument =
        |(name, value): &(String, table::Value)| format!("({}) {name}: {}", value.kind, value.rust);
    let arguments: Vec<String> = arguments.iter().map(argument).collect();
    let (arguments, kind, answer) = (arguments.join(", "), &answer.kind, &answer.rust);
    format!("fn {name} = {module}::{name} ({arguments}) -> ({kind}) {answer}")
}
