//! Types that the builder infers, and faults of modules that no text can spell.

use tessera_ir::graph::{
    self, Builder, Decl, DeclKind, Module, Node, Op, Output, Rule, Subject, Value, infer, infer_split,
    result_types,
};
use tessera_ir::{Dim, Elem, Format, Sym, TensorType};

/// Reads `[dim, …] format` by way of a declaration.
fn ty(text: &str) -> TensorType {
    let module = graph::parse(&format!("tessera.graph 1\nmodule @m {{ %0 = input \"x\" : {text} }}"));
    module.unwrap_or_else(|e| panic!("{e}")).decls.remove(0).ty
}

fn value(n: u32) -> Value {
    Value(n)
}

#[test]
fn what_an_op_leaves_open_is_the_callers_choice() {
    let types = [ty("[T, 4, 32] bf16")];
    let quantize = Op::Quantize { x: value(0) };
    assert_eq!(infer(&quantize, &types, Format::MX8), Ok(vec![ty("[T, 4, 32] mx8")]));
    assert_eq!(infer(&quantize, &types, Format::KV4), Ok(vec![ty("[T, 4, 32] kv4")]));
    let fault = infer(&quantize, &types, Format::F32).expect_err("f32 is no quantised format");
    assert_eq!((fault.rule, fault.subject), (Rule::Result, Subject::Result(0)));
}

#[test]
fn fixed_formats_are_not_the_callers_choice() {
    let types = [ty("[T, 8] f32"), ty("[8] f32")];
    let router = Op::Router { logits: value(0), bias: value(1), k: 3, scale: 1.0 };
    assert_eq!(infer(&router, &types, Format::BF16), Ok(vec![ty("[T, 3] i32"), ty("[T, 3] f32")]));
}

#[test]
fn a_linear_splits_its_outputs_as_told() {
    let types = [ty("[T, 4, 16] bf16"), ty("[24, 64] w8")];
    let linear = Op::Linear { x: value(0), weight: value(1), groups: 1 };
    assert_eq!(infer(&linear, &types, Format::BF16), Ok(vec![ty("[T, 24] bf16")]));
    assert_eq!(infer_split(&linear, &types, &[6, 4], Format::F32), Ok(vec![ty("[T, 6, 4] f32")]));
    assert!(infer_split(&linear, &types, &[6, 5], Format::F32).is_err());
    assert!(result_types(&linear, &types, &[ty("[T, 2, 3, 4] f32")]).is_ok());
}

#[test]
fn symbolic_rows_are_multiplied_and_divided() {
    let types = [ty("[6*Q, 32] f32"), ty("[6*Q, 2] i32")];
    let every = Op::EveryRow { x: value(0), step: 3, offset: 2 };
    assert_eq!(infer(&every, &types, Format::F32), Ok(vec![ty("[2*Q, 32] f32")]));
    let interleave = Op::InterleaveRows { parts: vec![value(0); 5] };
    assert_eq!(infer(&interleave, &types, Format::F32), Ok(vec![ty("[30*Q, 32] f32")]));
    let group = Op::MoeGroup { experts: value(1), count: 7 };
    let expected = vec![ty("[8] i32"), ty("[12*Q] i32"), ty("[12*Q] i32")];
    assert_eq!(infer(&group, &types, Format::F32), Ok(expected));
}

#[test]
fn inference_survives_huge_dimensions() {
    let huge = TensorType::new([Dim::sym("T"), Dim::Fixed(1 << 62), Dim::Fixed(1 << 62)], Format::F32);
    let types = [huge, ty("[4, 4] bf16")];
    for op in [
        Op::Linear { x: value(0), weight: value(1), groups: 1 },
        Op::EngramGate { x: value(0), kv: value(0), q_weight: value(0), k_weight: value(0), eps: 0.0 },
        Op::HcMix {
            x: value(0),
            function: value(0),
            base: value(0),
            scale: value(0),
            iters: 1,
            eps: 0.0,
            norm_eps: 0.0,
        },
        Op::InterleaveRows { parts: vec![value(0); 3] },
        Op::Concat { parts: vec![value(0); 8] },
        Op::HcOpen { x: value(0), streams: usize::MAX },
        Op::Scale { x: value(0), factor: 1.0 },
    ] {
        assert!(infer(&op, &types, Format::F32).is_err(), "{}", op.mnemonic());
    }
}

#[test]
fn a_fault_adds_nothing_to_the_builder() {
    let mut b = Builder::new("m");
    let x = b.declare(DeclKind::Input, "x", ty("[T, 32] f32"));
    let w = b.declare(DeclKind::Weight, "w", ty("[33] f32"));
    let fault = b.emit(Op::RmsNorm { x, weight: w, eps: 0.0 }, Format::F32).expect_err("33 is not 32");
    assert_eq!(
        fault.to_string(),
        "rmsnorm: operand `weight` has type [33] f32, expected [d] with d = 32 (from `x`) [shape]"
    );
    let y = b.emit(Op::Scale { x, factor: 2.0 }, Format::BF16).expect("a scale of x");
    let z = b.emit_many(Op::HcOpen { x: y, streams: 2 }, Format::F32).expect("streams of y");
    let late = b.declare(DeclKind::Input, "late", ty("[T] i32"));
    b.output("pre", z[1]);
    b.output("late", late);
    let text = "tessera.graph 1\nmodule @m {\n  %0 = input \"x\" : [T, 32] f32\n  %1 = weight \"w\" : [33] f32\n  \
                %2 = input \"late\" : [T] i32\n  %3 = scale %0 {factor = 2.0} : [T, 32] bf16\n  \
                %4, %5 = hc.open %3 {streams = 2} : [T, 2, 32] bf16, [T, 2] f32\n  \
                output \"pre\" = %5\n  output \"late\" = %2\n}\n";
    assert_eq!(graph::print(&b.finish()), text);
}

/// `x` declared, then one `scale` of a value numbered `operand` with results from `first` on.
fn scaled(first: u32, operand: u32, output: u32) -> Module {
    let ty = ty("[T, 4] f32");
    let op = Op::Scale { x: value(operand), factor: 1.0 };
    Module {
        name: "m".to_owned(),
        decls: vec![Decl { kind: DeclKind::Input, name: "x".to_owned(), ty: ty.clone() }],
        nodes: vec![Node { op, first: value(first), types: vec![ty] }],
        outputs: vec![Output { name: "y".to_owned(), value: value(output) }],
    }
}

fn rules(module: Module) -> Vec<Rule> {
    match graph::verify(module) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.faults.iter().map(|f| f.rule).collect(),
    }
}

#[test]
fn values_are_numbered_in_order_and_defined_before_use() {
    assert_eq!(rules(scaled(1, 0, 1)), []);
    assert_eq!(rules(scaled(2, 0, 1)), [Rule::Numbering]);
    assert_eq!(rules(scaled(0, 0, 1)), [Rule::Numbering]);
    assert_eq!(rules(scaled(u32::MAX, 0, 1)), [Rule::Numbering]);
    assert_eq!(rules(scaled(1, 1, 1)), [Rule::Defined], "its own result");
    assert_eq!(rules(scaled(1, u32::MAX, 1)), [Rule::Defined]);
    assert_eq!(rules(scaled(1, 0, 2)), [Rule::Defined]);
    assert_eq!(rules(scaled(1, 7, 9)), [Rule::Defined, Rule::Defined]);
}

#[test]
fn types_that_no_text_spells_are_malformed() {
    let mut module = scaled(1, 0, 1);
    module.decls[0].ty.shape[0] = Dim::Sym { sym: Sym::new("no symbol"), times: 1 };
    module.nodes[0].types[0].shape[0] = module.decls[0].ty.shape[0].clone();
    assert_eq!(rules(module), [Rule::Type, Rule::Type]);
    let mut module = scaled(1, 0, 1);
    module.decls[0].ty.format = Format { elem: Elem::E2m1, group: None };
    assert_eq!(rules(module), [Rule::Type, Rule::Format]);
}
