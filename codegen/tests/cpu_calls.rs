//! The compiler's table of micro-kernels against the runtime's: names and signatures.

use std::any::type_name;
use tessera_codegen::target::cpu::{Arg, Call};
use tessera_runtime::micro::{Symbol, abi};

/// Name, type of the entry point.
macro_rules! entries {
    ($($variant:ident)*) => {
        fn entry(call: Call) -> (Symbol, &'static str) {
            match call { $(Call::$variant => (Symbol::$variant, type_name::<abi::$variant>())),* }
        }
    };
}

entries! {
    MmaW4 MmaW8 MmaBf16 MmaF32 UnpackMx8 QuantMx8 QuantKv8 QuantKv4 QuantIndex4 DequantMx8 DequantKv8 DequantKv4
    DequantIndex4 LoadBf16 Exp Sigmoid Silu SoftplusSqrt Sincos Dot Sum Sumsq Absmax Max AttnScores AttnValues
    IndexScores Topk TopkRanked BlockMax Argmax
}

/// How a Rust type is passed.
fn passed(ty: &str) -> Arg {
    match ty.trim() {
        "usize" => Arg::Size,
        "u32" => Arg::U32,
        "f32" => Arg::F32,
        pointer if pointer.starts_with('*') => Arg::Ptr,
        other => panic!("no argument has type {other}"),
    }
}

#[test]
fn names_and_signatures_are_those_of_the_runtime() {
    for call in Call::ALL {
        let (symbol, ty) = entry(*call);
        assert_eq!(call.name(), symbol.name());
        let (_, rest) = ty.split_once("fn(").expect("a function");
        let (args, result) = rest.split_once(')').expect("arguments");
        let args: Vec<Arg> = args.split(',').map(passed).collect();
        assert_eq!(call.args(), args, "{}", call.name());
        let result = result.trim().strip_prefix("->").map(passed);
        assert_eq!(call.result(), result, "{}", call.name());
    }
}
