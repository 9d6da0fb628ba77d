//! The static memory plan: live buffers do not overlap, planes are aligned, the plan depends on the program alone.

use proptest::prelude::*;
use tessera_ir::artifact::{Buffer, BufferKind, Kernel, MemoryPlan, PlanFault, Program, Size};
use tessera_ir::tile::Axis;
use tessera_ir::{Bindings, Dim, Format, Sym, TensorType};

const ALIGN: usize = 64;

fn program(buffers: Vec<Buffer>) -> Program {
    Program { name: "step".into(), buffers, steps: Vec::new() }
}

fn buffer(i: usize, rows: Dim, cols: usize, format: Format, kind: BufferKind) -> Buffer {
    Buffer { name: format!("b{i}"), ty: TensorType::new([rows, cols.into()], format), kind }
}

fn bindings(t: usize) -> Bindings {
    let mut b = Bindings::new();
    b.set("T", t);
    b
}

/// First and last step of a buffer in the arena.
fn life(kind: &BufferKind) -> Option<(usize, usize)> {
    match kind {
        BufferKind::Input | BufferKind::Output => Some((0, usize::MAX)),
        BufferKind::Temp { first, last } => Some((*first, *last)),
        BufferKind::Weight | BufferKind::State => None,
    }
}

fn any_kind() -> impl Strategy<Value = BufferKind> {
    prop_oneof![
        1 => Just(BufferKind::Input),
        1 => Just(BufferKind::Output),
        1 => Just(BufferKind::Weight),
        1 => Just(BufferKind::State),
        12 => (0usize..20, 0usize..6).prop_map(|(first, n)| BufferKind::Temp { first, last: first + n }),
    ]
}

fn any_buffers() -> impl Strategy<Value = Vec<Buffer>> {
    let formats = [Format::F32, Format::BF16, Format::I32, Format::MX8, Format::KV4];
    let one = (
        prop_oneof![Just(Dim::sym("T")), (1usize..40).prop_map(Dim::Fixed)],
        1usize..20,
        0..5usize,
        any_kind(),
    );
    prop::collection::vec(one, 0..24).prop_map(move |list| {
        let made = list.into_iter().enumerate();
        made.map(|(i, (rows, cols, f, kind))| buffer(i, rows, cols * 32, formats[f], kind)).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn live_buffers_do_not_overlap(buffers in any_buffers(), t in 0usize..9) {
        let program = program(buffers);
        let plan = MemoryPlan::new(&program, &bindings(t)).expect("a plan");
        prop_assert_eq!(&plan, &MemoryPlan::new(&program, &bindings(t)).expect("a plan"));
        let mut spans = Vec::new();
        for (b, offsets) in program.buffers.iter().zip(&plan.planes) {
            let bytes = b.ty.plane_bytes(&bindings(t)).expect("a size");
            let Some(life) = life(&b.kind) else {
                prop_assert!(offsets.is_empty(), "{} lives elsewhere", b.name);
                continue;
            };
            prop_assert_eq!(offsets.len(), bytes.len());
            for (offset, bytes) in offsets.iter().zip(bytes) {
                prop_assert_eq!(offset % ALIGN, 0);
                prop_assert!(offset + bytes <= plan.bytes, "{} ends outside the arena", b.name);
                spans.push((life, *offset..offset + bytes, &b.name));
            }
        }
        for (i, (life, span, name)) in spans.iter().enumerate() {
            for (other_life, other, other_name) in &spans[..i] {
                let together = life.0 <= other_life.1 && other_life.0 <= life.1;
                let overlap = span.start < other.end && other.start < span.end;
                prop_assert!(!(together && overlap), "{} {:?} and {} {:?}", name, span, other_name, other);
            }
        }
    }
}

#[test]
fn space_is_used_again() {
    let temp = |i, first, last| buffer(i, 64.into(), 64, Format::F32, BufferKind::Temp { first, last });
    let plan = MemoryPlan::new(&program(vec![temp(0, 0, 1), temp(1, 1, 2), temp(2, 2, 3)]), &Bindings::new());
    let plan = plan.expect("a plan");
    // The third is born after the first has died.
    assert_eq!(plan.planes, [[0], [16384], [0]]);
    assert_eq!(plan.bytes, 32768);
}

#[test]
fn sizes_that_nobody_knows_are_refused() {
    let unknown = program(vec![buffer(0, Dim::sym("S"), 32, Format::F32, BufferKind::Input)]);
    assert_eq!(MemoryPlan::new(&unknown, &bindings(1)), Err(PlanFault::Size("b0".into())));
    let huge = program(vec![buffer(0, usize::MAX.into(), 32, Format::F32, BufferKind::Input)]);
    assert_eq!(MemoryPlan::new(&huge, &bindings(1)), Err(PlanFault::Size("b0".into())));
    let half = || buffer(0, (usize::MAX / 256).into(), 32, Format::F32, BufferKind::Input);
    let both = program(vec![half(), half(), half()]);
    assert_eq!(MemoryPlan::new(&both, &bindings(1)), Err(PlanFault::Size("b0".into())));
}

#[test]
fn sizes_and_tiles_follow_the_bindings() {
    let size = Size { fixed: 10, per: vec![(Sym::new("T"), 3), (Sym::new("T"), 1)] };
    assert_eq!(size.eval(&bindings(5)), Some(30));
    assert_eq!(size.eval(&Bindings::new()), None);
    assert_eq!(size.eval(&bindings(usize::MAX / 2)), None);
    let axis = |extent: Dim, tile| Axis { name: "m".into(), extent, tile, groups: None };
    let mut kernel = Kernel {
        name: "k".into(),
        family: "linear".into(),
        code: Vec::new(),
        imports: Vec::new(),
        params: Vec::new(),
        symbols: Vec::new(),
        grid: vec![axis(512.into(), 128), axis(Dim::sym("T"), 16)],
        scratch: Size::default(),
    };
    assert_eq!(kernel.tiles(&bindings(17)), Some(8));
    assert_eq!(kernel.tiles(&bindings(0)), Some(0));
    assert_eq!(kernel.tiles(&Bindings::new()), None);
    kernel.grid[0].tile = 0;
    assert_eq!(kernel.tiles(&bindings(17)), None);
}
