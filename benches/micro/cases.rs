//! The measured calls: shapes of the released model (V4.1 §1), the largest operand cold, all else in the cache.

use tessera::runtime::micro::Kernels;
use tessera::runtime::micro::pack::{PanelFormat, ScaleTile, pack_bf16, pack_f32, pack_w4, pack_w8};

/// What a kernel does with a copy of the cold operand.
type Call = Box<dyn FnMut(&Kernels, *const u8)>;

/// One measured call.
pub(crate) struct Case {
    /// Kernel, and its size where there are several cases of it.
    pub(crate) name: String,
    /// Multiplications and additions; 0 for kernels that do other things.
    pub(crate) operations: usize,
    /// The operand that comes from memory; of weights, what "GB/s" counts.
    pub(crate) cold: Vec<u8>,
    /// The call; `unsafe` in spirit: its argument must be a copy of `cold`, aligned for f32.
    pub(crate) call: Call,
}

/// Hidden size: K of most products.
const HIDDEN: usize = 5120;
/// Columns of a product's tile, as the schedules cut them.
const COLUMNS: usize = 128;
/// Attention: heads and head dimension.
const HEADS: usize = 64;
const HEAD: usize = 512;
/// Indexer: heads and head dimension.
const INDEX_HEADS: usize = 32;
const INDEX: usize = 128;
/// Keys of a block.
const KEYS: usize = 64;
/// Rows of a call of the small kernels, so that the clock is not what is measured.
const ROWS: usize = 64;
/// Scores to select from, and how many are selected.
const SCORES: usize = 16_384;
const SELECTED: usize = 512;
/// Positions of a block of candidates.
const BLOCK: usize = 8;
/// Routed experts, and how many are chosen.
const EXPERTS: usize = 384;
const CHOSEN: usize = 6;
const VOCABULARY: usize = 129_280;

/// All of them.
pub(crate) fn all() -> Vec<Case> {
    let formats = [PanelFormat::W4, PanelFormat::W8, PanelFormat::Bf16, PanelFormat::F32];
    let products = formats.into_iter().flat_map(|format| [1, 4, 16, 64].map(|m| product(format, m)));
    products.chain(quantisers()).chain(elementwise()).chain(reductions()).chain(others()).collect()
}

/// The closure around a call.
macro_rules! call {
    (|$kernels:ident, $at:ident| $body:expr) => {
        Box::new(move |$kernels: &Kernels, $at: *const u8| {
            // SAFETY: `at` is a copy of the case's cold operand, and every other operand is a vector of the case with
            // the length that the call names.
            let _ = unsafe { $body };
        })
    };
}

fn product(format: PanelFormat, m: usize) -> Case {
    let (n, k) = (COLUMNS, HIDDEN);
    let mut random = Random(1);
    let mut cold = vec![0; format.bytes(n, k)];
    let scales: Vec<u8> = (0..n * k / 32).map(|_| 120 + random.below(8) as u8).collect();
    // Any code but the two NaNs of e4m3.
    let mut codes = |bytes| -> Vec<u8> {
        (0..bytes).map(|_| (random.below(127) + 128 * random.below(2)) as u8).collect()
    };
    let (name, packed) = match format {
        PanelFormat::W4 => ("mma_w4", pack_w4(&codes(n * k / 2), &scales, n, k, &mut cold)),
        PanelFormat::W8 => ("mma_w8", pack_w8(&codes(n * k), &scales, ScaleTile::Row1x32, n, k, &mut cold)),
        PanelFormat::Bf16 => ("mma_bf16", pack_bf16(&bf16(n * k), n, k, &mut cold)),
        PanelFormat::F32 => ("mma_f32", pack_f32(&bytes(&floats(n * k)), n, k, &mut cold)),
    };
    packed.expect("the shapes fit");
    let (a, s, mut out) = (floats(m * k), vec![0.5f32; m * k / 32], vec![0.0f32; m * n]);
    let (stride, panels) = (format.panel_bytes(k), n / 16);
    let call: Call = call!(|kernels, w| {
        let (a, s, out) = (a.as_ptr(), s.as_ptr(), out.as_mut_ptr());
        match format {
            PanelFormat::W4 => (kernels.mma_w4)(m, panels, k, a, k, s, k / 32, w, stride, out, n, 0),
            PanelFormat::W8 => (kernels.mma_w8)(m, panels, k, a, k, s, k / 32, w, stride, out, n, 0),
            PanelFormat::Bf16 => (kernels.mma_bf16)(m, panels, k, a, k, w, stride, out, n, 0),
            PanelFormat::F32 => (kernels.mma_f32)(m, panels, k, a, k, w, stride, out, n, 0),
        }
    });
    Case { name: format!("{name} m={m}"), operations: 2 * m * n * k, cold, call }
}

/// A case without arithmetic that counts.
fn plain(name: &str, cold: Vec<u8>, call: Call) -> Case {
    Case { name: name.to_owned(), operations: 0, cold, call }
}

/// Quantisers and dequantisers: activations of one row, records of [`ROWS`] keys.
fn quantisers() -> Vec<Case> {
    /// Bytes of a record: codes of `bits` bits and a scale for each `group`.
    const fn record(n: usize, bits: usize, group: usize) -> usize {
        n * bits / 8 + n / group
    }
    let n = HIDDEN * 4;
    let (mut codes, mut scales, mut out, mut out_scales) =
        (vec![0u8; n], vec![0u8; n / 32], vec![0.0f32; n], vec![0.0f32; n / 32]);
    let mut cases = vec![plain(
        "quant_mx8",
        bytes(&floats(n)),
        call!(|k, x| (k.quant_mx8)(x.cast(), n, codes.as_mut_ptr(), scales.as_mut_ptr())),
    )];
    cases.push(plain(
        "unpack_mx8",
        codes_and_scales(n + n / 32),
        call!(|k, x| (k.unpack_mx8)(x, x.add(n), n, out.as_mut_ptr(), out_scales.as_mut_ptr())),
    ));
    let mut out = vec![0.0f32; n];
    cases.push(plain(
        "dequant_mx8",
        codes_and_scales(n + n / 32),
        call!(|k, x| (k.dequant_mx8)(x, x.add(n), n, out.as_mut_ptr())),
    ));
    macro_rules! records {
        ($quant:ident $dequant:ident $n:expr, $bits:expr, $group:expr) => {
            let (n, size) = ($n, record($n, $bits, $group));
            let mut out = vec![0u8; ROWS * size];
            cases.push(plain(
                stringify!($quant),
                bytes(&floats(ROWS * n)),
                call!(|k, x| for row in 0..ROWS {
                    (k.$quant)(x.cast::<f32>().add(row * n), n, out.as_mut_ptr().add(row * size));
                }),
            ));
            let mut out = vec![0.0f32; ROWS * n];
            cases.push(plain(
                stringify!($dequant),
                codes_and_scales(ROWS * size),
                call!(|k, x| for row in 0..ROWS {
                    (k.$dequant)(x.add(row * size), n, out.as_mut_ptr().add(row * n));
                }),
            ));
        };
    }
    records!(quant_kv8 dequant_kv8 HEAD, 8, 32);
    records!(quant_kv4 dequant_kv4 HEAD, 4, 16);
    records!(quant_index4 dequant_index4 INDEX, 4, 32);
    cases
}

/// Functions of every element.
fn elementwise() -> Vec<Case> {
    let n = HIDDEN * 4;
    let mut cases = Vec::new();
    macro_rules! elementwise {
        ($($name:ident $cold:expr, $out:expr;)*) => {$(
            let mut out = vec![$out; n];
            cases.push(plain(
                stringify!($name),
                $cold,
                call!(|k, x| (k.$name)(out.as_mut_ptr(), x.cast(), n)),
            ));
        )*};
    }
    elementwise! {
        bf16_round bytes(&floats(n)), 0.0f32;
        load_bf16 bf16(n), 0.0f32;
        store_bf16 bytes(&floats(n)), 0u16;
        exp bytes(&floats(n)), 0.0f32;
        sigmoid bytes(&floats(n)), 0.0f32;
        silu bytes(&floats(n)), 0.0f32;
        softplus_sqrt bytes(&floats(n)), 0.0f32;
    }
    // Positions are the cold operand, though there are few of them.
    let positions: Vec<u8> = (0..ROWS as i32).flat_map(|i| (1000 * i).to_ne_bytes()).collect();
    let frequencies: Vec<f32> = (0..32).map(|i| 10_000f32.powf(-(i as f32) / 32.0)).collect();
    let (mut cos, mut sin) = (vec![0.0f32; ROWS * 32], vec![0.0f32; ROWS * 32]);
    cases.push(plain(
        "sincos",
        positions,
        call!(|k, x| {
            let (cos, sin) = (cos.as_mut_ptr(), sin.as_mut_ptr());
            (k.sincos)(x.cast(), ROWS, frequencies.as_ptr(), 32, cos, sin)
        }),
    ));
    cases
}

/// Reductions of a row.
fn reductions() -> Vec<Case> {
    let n = HIDDEN * 4;
    let y = floats(n);
    let case = |name: &str, operations, call| Case {
        name: name.to_owned(),
        operations,
        cold: bytes(&floats(n)),
        call,
    };
    vec![
        case("dot", 2 * n, call!(|k, x| (k.dot)(x.cast(), y.as_ptr(), n))),
        case("sum", n, call!(|k, x| (k.sum)(x.cast(), n))),
        case("sumsq", 2 * n, call!(|k, x| (k.sumsq)(x.cast(), n))),
        case("absmax", 0, call!(|k, x| (k.absmax)(x.cast(), n))),
        case("max", 0, call!(|k, x| (k.max)(x.cast(), n))),
    ]
}

/// Attention over one block of keys, and selections.
fn others() -> Vec<Case> {
    let (q, mut scores) = (floats(HEADS * HEAD), vec![0.0f32; HEADS * KEYS]);
    let (e, mut values) = (floats(HEADS * KEYS), vec![0.0f32; HEADS * HEAD]);
    let (iq, iw, mut index) = (floats(INDEX_HEADS * INDEX), floats(INDEX_HEADS), vec![0.0f32; KEYS]);
    let (mut selected, mut work) = (vec![0i32; SELECTED], vec![0u64; SCORES]);
    let (mut chosen, mut blocks) = (vec![0i32; CHOSEN], vec![0.0f32; SCORES / BLOCK]);
    vec![
        Case {
            name: "attn_scores".to_owned(),
            operations: 2 * HEADS * KEYS * HEAD,
            cold: bytes(&floats(KEYS * HEAD)),
            call: call!(|k, keys| {
                let (q, out) = (q.as_ptr(), scores.as_mut_ptr());
                (k.attn_scores)(q, HEADS, HEAD, keys.cast(), KEYS, 0.04, out, KEYS)
            }),
        },
        Case {
            name: "attn_values".to_owned(),
            operations: 2 * HEADS * KEYS * HEAD,
            cold: bytes(&floats(KEYS * HEAD)),
            call: call!(|k, v| {
                (k.attn_values)(e.as_ptr(), KEYS, HEADS, KEYS, v.cast(), HEAD, values.as_mut_ptr())
            }),
        },
        Case {
            name: "index_scores".to_owned(),
            operations: 2 * INDEX_HEADS * KEYS * INDEX,
            cold: bytes(&floats(KEYS * INDEX)),
            call: call!(|k, keys| {
                let (q, w, out) = (iq.as_ptr(), iw.as_ptr(), index.as_mut_ptr());
                (k.index_scores)(q, w, INDEX_HEADS, INDEX, keys.cast(), KEYS, 1, out)
            }),
        },
        plain(
            "topk",
            bytes(&floats(SCORES)),
            call!(|k, x| {
                let (out, work) = (selected.as_mut_ptr(), work.as_mut_ptr());
                (k.topk)(x.cast(), SCORES, SELECTED, out, work)
            }),
        ),
        plain(
            "topk_ranked",
            bytes(&floats(EXPERTS)),
            call!(|k, x| (k.topk_ranked)(x.cast(), EXPERTS, CHOSEN, chosen.as_mut_ptr())),
        ),
        plain(
            "block_max",
            bytes(&floats(SCORES)),
            call!(|k, x| (k.block_max)(x.cast(), SCORES, BLOCK, 0, blocks.as_mut_ptr())),
        ),
        plain("argmax", bytes(&floats(VOCABULARY)), call!(|k, x| (k.argmax)(x.cast(), VOCABULARY))),
    ]
}

/// splitmix64.
struct Random(u64);

impl Random {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: usize) -> usize {
        (self.word() % n as u64) as usize
    }
}

/// Numbers in (−4, 4).
fn floats(n: usize) -> Vec<f32> {
    let mut random = Random(n as u64);
    (0..n).map(|_| (random.word() >> 40) as f32 / (1 << 21) as f32 - 4.0).collect()
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_ne_bytes()).collect()
}

/// bf16 words: the upper halves of numbers, as checkpoints hold them.
fn bf16(n: usize) -> Vec<u8> {
    floats(n).iter().flat_map(|v| ((v.to_bits() >> 16) as u16).to_le_bytes()).collect()
}

/// Bytes that are numbers both as codes and as scales of every format.
fn codes_and_scales(n: usize) -> Vec<u8> {
    let mut random = Random(n as u64);
    (0..n).map(|_| 0x70 + random.below(15) as u8).collect()
}
