//! The compiler's list of micro-kernels is the runtime's: names, arguments and results.

use std::any::type_name;
use tessera::codegen::target::cpu::{Arg, Call};
use tessera::runtime::micro::{Symbol, abi};

macro_rules! types {
    ($($name:ident)*) => { vec![$((Call::$name, Symbol::$name, type_name::<abi::$name>())),*] };
}

/// Each call of the compiler with the runtime's symbol of the same name and the spelling of its function type.
fn table() -> Vec<(Call, Symbol, &'static str)> {
    types![MmaW4 MmaW8 MmaBf16 MmaF32 UnpackMx8 QuantMx8 QuantKv8 QuantKv4 QuantIndex4 DequantMx8 DequantKv8 DequantKv4
        DequantIndex4 LoadBf16 Exp Sigmoid Silu SoftplusSqrt Sincos Dot Sum Sumsq Absmax Max AttnScores AttnValues
        IndexScores Topk TopkRanked BlockMax Argmax]
}

fn arg(ty: &str) -> Arg {
    match ty.trim() {
        "usize" => Arg::Size,
        "u32" => Arg::U32,
        "f32" => Arg::F32,
        pointer if pointer.starts_with('*') => Arg::Ptr,
        other => panic!("no argument type is spelled {other}"),
    }
}

/// Arguments and result of `unsafe extern "C" fn(…) -> …`.
fn signature(spelled: &str) -> (Vec<Arg>, Option<Arg>) {
    let inner = spelled.strip_prefix("unsafe extern \"C\" fn(").unwrap_or_else(|| panic!("{spelled}"));
    let (args, result) = inner.split_once(')').unwrap_or_else(|| panic!("{spelled}"));
    (args.split(',').map(arg).collect(), result.trim().strip_prefix("->").map(arg))
}

#[test]
fn compiler_and_runtime_agree_on_every_micro_kernel() {
    let table = table();
    assert_eq!(
        table.iter().map(|(call, _, _)| *call).collect::<Vec<_>>(),
        Call::ALL,
        "a call is missing here"
    );
    for (call, symbol, spelled) in table {
        assert_eq!(call.name(), symbol.name());
        assert_eq!(signature(spelled), (call.args().to_vec(), call.result()), "{}", call.name());
    }
}
