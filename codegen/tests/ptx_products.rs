//! PTX of the products: memory, boxes, bytes that barriers wait for, what the assembler says, instructions beside the products.

use tessera_assembler::{Error, Nvdisasm, Ptxas, sass};
use tessera_codegen::target::ptx;
use tessera_ir::{graph, tile};
use tessera_kernels::sm100::Knobs;
use tessera_kernels::{Family, sm100};

/// A product: what is multiplied, rows it is scheduled for, columns and depth.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    rows: usize,
    n: usize,
    k: usize,
}

const CASES: [Case; 17] = [
    Case { name: "dense", rows: 1, n: 5120, k: 8192 },
    Case { name: "dense", rows: 64, n: 32_768, k: 1280 },
    Case { name: "dense", rows: 4096, n: 5120, k: 2304 },
    Case { name: "plain", rows: 64, n: 129_280, k: 5120 },
    Case { name: "groups", rows: 64, n: 8192, k: 4096 },
    Case { name: "gate", rows: 1, n: 2304, k: 5120 },
    Case { name: "gate", rows: 4096, n: 2304, k: 5120 },
    Case { name: "up", rows: 1, n: 2304, k: 5120 },
    Case { name: "up", rows: 4096, n: 2304, k: 5120 },
    Case { name: "down", rows: 64, n: 5120, k: 2304 },
    Case { name: "down", rows: 4096, n: 5120, k: 2304 },
    Case { name: "mix", rows: 64, n: 24, k: 20_480 },
    Case { name: "dense", rows: 6, n: 24, k: 96 },
    Case { name: "plain", rows: 6, n: 4, k: 64 },
    Case { name: "groups", rows: 6, n: 128, k: 256 },
    Case { name: "up", rows: 6, n: 128, k: 256 },
    Case { name: "mix", rows: 6, n: 24, k: 1024 },
];

/// The fragment's text and family.
fn fragment(c: Case) -> (Family, String) {
    let Case { name, n, k, .. } = c;
    let lists = |x: &str| {
        format!(
            "%0 = input \"x0\" : {x} mx8\n%1 = input \"x1\" : [T, 6] i32\n%2 = weight \"w2\" : [384, {n}, {k}] mx4\n\
             %3 = input \"x3\" : [385] i32\n%4 = input \"x4\" : [6*T] i32\n%5 = input \"x5\" : [6*T] i32\n"
        )
    };
    let half = format!("[T, {n}]");
    let chosen = format!("[T, 6, {n}]");
    let (family, body) = match name {
        "dense" => (
            Family::Linear,
            format!(
                "%0 = input \"x0\" : [T, {k}] mx8\n%1 = weight \"w1\" : [{n}, {k}] w8\n\
                 %2 = linear %0, %1 {{groups = 1}} : {half} bf16\noutput \"y0\" = %2\n"
            ),
        ),
        "plain" => (
            Family::Linear,
            format!(
                "%0 = input \"x0\" : [T, {k}] bf16\n%1 = weight \"w1\" : [{n}, {k}] bf16\n\
                 %2 = linear %0, %1 {{groups = 1}} : {half} f32\noutput \"y0\" = %2\n"
            ),
        ),
        "groups" => (
            Family::Linear,
            format!(
                "%0 = input \"x0\" : [T, 2, {k}] bf16\n%1 = weight \"w1\" : [{n}, {k}] w8\n\
                 %2 = linear %0, %1 {{groups = 2}} : [T, 2, {}] bf16\noutput \"y0\" = %2\n",
                n / 2
            ),
        ),
        "gate" => (
            Family::Linear,
            format!(
                "%0 = input \"x0\" : [T, {k}] mx8\n%1 = weight \"w1\" : [{n}, {k}] w8\n%2 = weight \"w2\" : [{n}, {k}] w8\n\
                 %3 = linear %0, %1 {{groups = 1}} : {half} bf16\n%4 = linear %0, %2 {{groups = 1}} : {half} bf16\n\
                 %5 = swiglu %3, %4, _ {{limit = 10.0}} : {half} bf16\n%6 = quantize %5 : {half} mx8\noutput \"y0\" = %6\n"
            ),
        ),
        "up" => (
            Family::MoeUp,
            format!(
                "{}%6 = weight \"w6\" : [384, {n}, {k}] mx4\n%7 = input \"x7\" : [T, 6] f32\n\
                 %8 = moe.linear %0, %1, %2, %3, %4, %5 : {chosen} bf16\n\
                 %9 = moe.linear %0, %1, %6, %3, %4, %5 : {chosen} bf16\n\
                 %10 = swiglu %8, %9, %7 {{limit = 10.0}} : {chosen} bf16\n%11 = quantize %10 : {chosen} mx8\n\
                 output \"y0\" = %11\n",
                lists(&format!("[T, {k}]"))
            ),
        ),
        "down" => (
            Family::MoeLinear,
            format!(
                "{}%6 = moe.linear %0, %1, %2, %3, %4, %5 : {chosen} bf16\noutput \"y0\" = %6\n",
                lists(&format!("[T, 6, {k}]"))
            ),
        ),
        _ => (
            Family::HcMix,
            format!(
                "%0 = input \"x0\" : [T, 4, {}] bf16\n%1 = weight \"w1\" : [24, {k}] f32\n%2 = weight \"w2\" : [24] f32\n\
                 %3 = weight \"w3\" : [3] f32\n%4, %5, %6 = hc.mix %0, %1, %2, %3 {{iters = 20, eps = 1e-6, norm_eps = 1e-20}} : \
                 [T, 4] f32, [T, 4] f32, [T, 4, 4] f32\noutput \"y0\" = %4\noutput \"y1\" = %5\noutput \"y2\" = %6\n",
                k / 4
            ),
        ),
    };
    (family, format!("tessera.graph 1\nmodule @{name} {{\n{body}}}\n"))
}

fn emitted(c: Case) -> (tile::Kernel, ptx::PtxKernel) {
    let (family, text) = fragment(c);
    let module = graph::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let module = graph::verify(module).unwrap_or_else(|e| panic!("{e}"));
    let kernel = sm100::schedule(family, &module, &Knobs::for_rows(c.rows)).unwrap_or_else(|e| panic!("{e}"));
    let kernel = tile::verify(kernel).unwrap_or_else(|e| panic!("{e}"));
    let made = ptx::emit(&kernel, family.name()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(made, ptx::emit(&kernel, family.name()).expect("again"), "{c:?}: the text differs");
    ((*kernel).clone(), made)
}

/// The numbers after `what` and a comma, without repetition.
fn numbers(text: &str, what: &str) -> Vec<u32> {
    let lines = text.lines().filter(|l| l.contains(what));
    let mut all: Vec<u32> = lines
        .map(|l| l.rsplit(' ').next().and_then(|n| n.trim_end_matches(';').parse().ok()).expect("a number"))
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[test]
fn memory_stages_and_threads() {
    for c in CASES {
        let (kernel, made) = emitted(c);
        let depth = kernel.rings[0].depth;
        assert!(depth >= 4, "{c:?}: {depth} stages");
        assert!(
            made.smem <= 232_448 && made.tmem_columns <= 512,
            "{c:?}: {} {}",
            made.smem,
            made.tmem_columns
        );
        let scaled = matches!(c.name, "dense" | "gate" | "up" | "down");
        assert_eq!(made.block, [if scaled { 256 } else { 224 }, 1, 1], "{c:?}");
        // One warpgroup takes the accumulators, of which there are two.
        let accumulators = kernel.rings.iter().filter(|r| r.class == tile::Class::Accum);
        assert!(accumulators.clone().count() > 0 && accumulators.into_iter().all(|r| r.depth == 2), "{c:?}");
        assert_eq!(kernel.persistent, Some(148 / kernel.cluster));
        assert_eq!(kernel.cluster, if c.rows == 4096 && c.name == "dense" { 2 } else { 1 }, "{c:?}");
    }
}

/// Bytes of a stage: 128 rows of 128 bytes of e4m3 or bf16, or 64 bytes of e2m1 (its slots' padding does not count), 512
/// bytes of a weight's scales; rows of 128 bytes; three bf16 parts of 32 rows of the mixing weight.
#[test]
fn barriers_wait_for_the_bytes_of_their_boxes() {
    for (c, weights, row) in CASES.iter().map(|c| {
        let weights: u32 = match c.name {
            "dense" => 128 * 128 + 512,
            "gate" => 2 * (128 * 128 + 512),
            "up" => 2 * (128 * 64 + 512),
            "down" => 128 * 64 + 512,
            "mix" => 3 * 32 * 128,
            _ => 128 * 128,
        };
        (c, weights, 128u32)
    }) {
        let (kernel, made) = emitted(*c);
        let rows = kernel.rings.iter().find(|r| r.name == "rows").expect("rows").slot.rows as u32;
        // Each block of a pair brings half of the rows and 128 rows of the weight.
        let cluster = kernel.cluster as u32;
        let mut want = vec![weights, rows / cluster * row];
        want.sort_unstable();
        want.dedup();
        assert_eq!(numbers(&made.text, "expect_tx"), want, "{c:?}");
        // One arrival for the weights, one for the rows, one for each lane that copies scales.
        let full = if c.name == "mix" {
            129
        } else if kernel.roles.len() == 5 {
            34
        } else {
            2
        };
        assert!(numbers(&made.text, "mbarrier.init").contains(&(full * cluster)), "{c:?}");
    }
}

#[test]
fn boxes_of_the_experts() {
    let (_, made) = emitted(CASES[7]);
    let boxes: Vec<(&str, &str, Vec<u32>)> =
        made.tensor_maps.iter().map(|m| (m.tensor.as_str(), m.dtype.name(), m.box_dims.clone())).collect();
    // Gathered rows come in boxes of one.
    let want = [
        ("w2", "16u4_align16b", vec![128, 128, 1]),
        ("w6", "16u4_align16b", vec![128, 128, 1]),
        ("x0", "u8", vec![128, 1]),
    ];
    assert_eq!(boxes, want);
}

/// The assembler and the disassembler, if they are there.
#[allow(clippy::print_stderr, reason = "says why nothing was tested")]
fn tools() -> Option<(Ptxas, Nvdisasm)> {
    match Ptxas::find().and_then(|ptxas| Ok((ptxas, Nvdisasm::find()?))) {
        Ok(tools) => Some(tools),
        Err(Error::Absent { .. }) => {
            assert!(std::env::var_os("TESSERA_REQUIRE_PTXAS").is_none(), "no ptxas, which CI must have");
            eprintln!("skipped: no ptxas");
            None
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn the_assembler_says_nothing_and_spills_nothing() {
    let Some((ptxas, nvdisasm)) = tools() else { return };
    for c in CASES {
        let (_, made) = emitted(c);
        let done = ptxas.assemble(&made.text, "sm_100a").unwrap_or_else(|e| panic!("{c:?}: {e}"));
        assert!(done.messages.is_empty(), "{c:?}: {:?}", done.messages);
        for f in &done.functions {
            assert_eq!((f.stack, f.spill_stores, f.spill_loads), (0, 0, 0), "{c:?}: {f:?}");
        }
        let text = nvdisasm.disassemble(&done.cubin).unwrap_or_else(|e| panic!("{c:?}: {e}"));
        let code = &sass::analyse(&text).unwrap_or_else(|e| panic!("{c:?}: {e}"))[0];
        let unit = if matches!(c.name, "dense" | "gate" | "up" | "down") { "UTCQMMA" } else { "UTCHMMA" };
        assert!(text.contains(unit) && text.contains("UTMALDG"), "{c:?}: {unit}");
        // Released depths have a loop over K; in a small one that is run once the assembler leaves none.
        if c.k < 1280 {
            continue;
        }
        let steady: Vec<_> = code.loops.iter().filter(|l| l.steady).collect();
        assert_eq!(steady.len(), 1, "{c:?}: {:?}", code.loops);
        assert!(steady[0].others_per_mma.is_some_and(|n| n <= 10.0), "{c:?}: {:?}", steady[0]);
    }
}
