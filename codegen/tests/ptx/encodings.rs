//! Layouts and descriptors against numbers that CuTe prints, and every boundary of the tables of legal shapes.

use std::collections::BTreeMap;
use tessera_codegen::target::ptx::encode::{
    AccLayout, Cell, EncodeFault, Factor, InstrDesc, Major, MmaShape, SmemDesc, SmemLayout, Sum, Swizzle,
    columns, holder, k_step, scale_byte, scale_columns, scale_desc, scale_place, scale_words,
};
use tessera_codegen::target::ptx::isa::{CtaGroup, MmaKind, TmemShape};

const CUTE: &str = include_str!("../data/cute_layouts.txt");

/// What follows `name` on its line.
fn printed(name: &str) -> &'static str {
    let found = CUTE.lines().find_map(|line| line.strip_prefix(name));
    found.unwrap_or_else(|| panic!("no line {name}")).trim_start_matches([' ', ':', '='])
}

/// A layout of CuTe: nested sizes with strides; index to offset, first size fastest.
#[derive(Debug)]
enum Layout {
    Mode(u64, u64),
    Modes(Vec<Layout>),
}

impl Layout {
    fn parse(text: &str) -> Layout {
        let (sizes, strides) = text.split_once(":(").map_or((text, ""), |(a, b)| (a, b));
        let (sizes, strides) = (tokens(sizes), tokens(&format!("({strides}")));
        assert_eq!(sizes.len(), strides.len(), "{text}");
        let mut at = 0;
        let layout = Layout::build(&sizes, &strides, &mut at);
        assert_eq!(at, sizes.len(), "{text}");
        layout
    }
    fn build(sizes: &[String], strides: &[String], at: &mut usize) -> Layout {
        if sizes[*at] != "(" {
            *at += 1;
            return Layout::Mode(sizes[*at - 1].parse().unwrap(), strides[*at - 1].parse().unwrap());
        }
        *at += 1;
        let mut modes = Vec::new();
        while sizes[*at] != ")" {
            modes.push(Layout::build(sizes, strides, at));
        }
        *at += 1;
        Layout::Modes(modes)
    }
    fn size(&self) -> u64 {
        match self {
            Layout::Mode(size, _) => *size,
            Layout::Modes(modes) => modes.iter().map(Layout::size).product(),
        }
    }
    fn offset(&self, index: u64) -> u64 {
        match self {
            Layout::Mode(_, stride) => index * stride,
            Layout::Modes(modes) => {
                let mut rest = index;
                let step = |mode: &Layout| {
                    let here = rest % mode.size();
                    rest /= mode.size();
                    mode.offset(here)
                };
                modes.iter().map(step).sum()
            }
        }
    }
    fn mode(&self, n: usize) -> &Layout {
        match self {
            Layout::Modes(modes) => &modes[n],
            Layout::Mode(..) => panic!("no modes"),
        }
    }
}

/// Parentheses and numbers; underscores mark numbers known when CuTe is compiled.
fn tokens(text: &str) -> Vec<String> {
    let spaced = text.replace('(', " ( ").replace(')', " ) ").replace([',', '_'], " ");
    spaced.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn sums_lie_where_cute_says() {
    let lines = [
        ("D 1sm M128 N64", AccLayout::D, 128),
        ("D 1sm M64 N64", AccLayout::F, 64),
        ("D 2sm M64/SM N64 (Layout B)", AccLayout::B, 64),
        ("D 2sm M128/SM N64 (Layout A)", AccLayout::A, 128),
        ("D ws M32 N64 (Layout G)", AccLayout::G, 32),
        // A block of a weight-stationary instruction with 64 rows is one of a pair's blocks alone.
        ("D 2sm M64/SM N64 (Layout B)", AccLayout::E, 64),
    ];
    for (name, layout, rows) in lines {
        let cute = Layout::parse(printed(name));
        let cute = cute.mode(0);
        for m in 0..rows {
            for n in 0..64 {
                let want = cute.offset(u64::from(m + rows * n));
                let place = layout.place(m, n, 64);
                assert_eq!((place.cta, u64::from(place.address())), (0, want), "{name}: ({m}, {n})");
                assert_eq!(layout.element(place.lane, place.column, 64), Some((m, n)), "{name}");
                assert!(place.column < layout.width(64), "{name}");
            }
        }
    }
    // The second block of a pair holds the second half of the rows, at the same places.
    for (layout, rows) in [(AccLayout::A, 128), (AccLayout::B, 64)] {
        let (first, second) = (layout.place(5, 40, 64), layout.place(5 + rows, 40, 64));
        assert_eq!((second.cta, second.address()), (1, first.address()));
    }
    assert_eq!(AccLayout::F.element(16, 0, 64), None);
}

#[test]
fn layouts_follow_from_the_instruction() {
    let cases = [
        (CtaGroup::Two, false, 256, Some(AccLayout::A)),
        (CtaGroup::Two, false, 128, Some(AccLayout::B)),
        (CtaGroup::One, false, 128, Some(AccLayout::D)),
        (CtaGroup::One, true, 128, Some(AccLayout::D)),
        (CtaGroup::One, true, 64, Some(AccLayout::E)),
        (CtaGroup::One, false, 64, Some(AccLayout::F)),
        (CtaGroup::One, true, 32, Some(AccLayout::G)),
        (CtaGroup::One, false, 32, None),
        (CtaGroup::Two, true, 128, None),
        (CtaGroup::Two, false, 64, None),
    ];
    for (group, ws, m, layout) in cases {
        assert_eq!(AccLayout::of(group, ws, m), layout, "{group:?} {ws} {m}");
    }
}

#[test]
fn scales_lie_where_cute_says() {
    // Offsets count bytes: a lane has 4 · 65536 of them. Rows are (32, 4), each four times; then 32 elements of K share
    // a scale, four blocks of them.
    let cute = Layout::parse(printed("SFA M128 VS32 4 k-blocks"));
    let rows = cute.mode(0).mode(0).mode(0);
    let blocks = cute.mode(2);
    assert_eq!((rows.size(), blocks.size()), (128, 4));
    for row in 0..128 {
        for k in 0..4 {
            let want = rows.offset(row.into()) + blocks.offset(k.into());
            let (place, byte) = scale_place(row, k);
            let got = u64::from(place.address()) * 4 + u64::from(byte);
            assert_eq!(got, want, "row {row}, block {k}");
            // The copy gives each lane 16 bytes: four columns.
            assert_eq!(scale_byte(row, k), place.lane * 16 + place.column * 4 + byte);
        }
    }
    let copies = cute.mode(0).mode(0).mode(1);
    assert_eq!((copies.size(), copies.offset(1)), (4, 32 * 4 * 65536));
    assert_eq!(scale_desc(), Ok(0x0000_4008_0000_0000));
    assert_eq!([1, 128, 129, 256].map(scale_columns), [4, 4, 8, 8]);
    // Turning a block of row-linear words around gives the block's order.
    for lane in 0..32 {
        for (word, row) in (0u32..).zip(scale_words(lane)) {
            assert_eq!(scale_byte(row, 0), lane * 16 + word * 4);
        }
    }
}

/// Lines `t4 : r0=(lane 1,col 0) r1=…` under a heading.
fn fragment(heading: &str) -> BTreeMap<(u32, u32), Cell> {
    let lines = CUTE.lines().skip_while(|line| !line.starts_with(heading)).skip(1);
    let mut cells = BTreeMap::new();
    for line in lines.take_while(|line| line.starts_with("  t")) {
        let (thread, rest) = line.split_once(':').unwrap();
        let thread = thread.trim().trim_start_matches('t').parse().unwrap();
        for part in rest.split(" r").skip(1) {
            let numbers: Vec<u32> = part
                .split(|c: char| !c.is_ascii_digit())
                .filter(|word| !word.is_empty())
                .map(|word| word.parse().unwrap())
                .collect();
            cells.insert((thread, numbers[0]), Cell { lane: numbers[1], column: numbers[2] });
        }
    }
    assert!(cells.len() >= 9, "{heading}: {cells:?}");
    cells
}

#[test]
fn loads_give_what_cute_says() {
    let cases = [
        ("32x32b.x2", TmemShape::S32x32b),
        ("16x64b.x1", TmemShape::S16x64b),
        ("16x128b.x1", TmemShape::S16x128b),
        ("16x256b.x1", TmemShape::S16x256b),
        ("16x32bx2.x1", TmemShape::S16x32bx2(1)),
    ];
    for (heading, shape) in cases {
        for ((thread, register), cell) in fragment(heading) {
            assert_eq!(holder(shape, thread, register), cell, "{heading}: t{thread} r{register}");
        }
    }
}

#[test]
fn loads_cover_every_cell_once() {
    let shapes = [
        TmemShape::S32x32b,
        TmemShape::S16x64b,
        TmemShape::S16x128b,
        TmemShape::S16x256b,
        TmemShape::S16x32bx2(8),
    ];
    for shape in shapes {
        let registers = 8 * shape.registers() as u32;
        let all = (0..32).flat_map(|t| (0..registers).map(move |r| holder(shape, t, r)));
        let mut cells: Vec<Cell> = all.collect();
        cells.sort();
        let lanes = if shape == TmemShape::S32x32b { 32 } else { 16 };
        let wide = if matches!(shape, TmemShape::S16x32bx2(_)) { 16 } else { 8 * columns(shape) };
        let want = (0..lanes).flat_map(|lane| (0..wide).map(move |column| Cell { lane, column }));
        assert_eq!(cells, want.collect::<Vec<_>>(), "{shape:?}");
    }
}

#[test]
fn swizzles_permute_as_cute_says() {
    // Eight rows of eight chunks: which chunk lies where.
    let table: Vec<u32> = CUTE
        .lines()
        .filter(|line| line.starts_with("  ") && !line.contains(':'))
        .flat_map(|line| line.split_whitespace().map(|n| n.parse().unwrap()))
        .collect();
    assert_eq!(table.len(), 64);
    for (at, chunk) in (0u32..).zip(&table) {
        assert_eq!(Swizzle::B128.address(at * 16), chunk * 16);
    }
    for swizzle in Swizzle::ALL {
        let repeat = swizzle.repeat();
        let mut reached: Vec<u32> = (0..repeat).map(|a| swizzle.address(a)).collect();
        assert!(reached.iter().zip(0..).all(|(to, from)| swizzle.address(*to) == from), "{swizzle:?}");
        assert!((0..repeat).all(|a| swizzle.address(a + repeat) == reached[a as usize] + repeat));
        reached.sort_unstable();
        assert!(reached.into_iter().eq(0..repeat), "{swizzle:?}");
    }
}

#[test]
fn factors_lie_where_cute_says() {
    let shifts = |line: &str| {
        let (swizzle, layout) = printed(line).split_once(" o smem_ptr").unwrap();
        assert_eq!(swizzle, "Sw<3,4,3>");
        Layout::parse(layout.split_once(" o ").unwrap().1)
    };
    // Sw<3,4,3>: three bits from bit 7 on, on the three bits from bit 4 on.
    let swizzled = |byte: u64| byte ^ ((byte >> 7 & 7) << 4);
    let atom = shifts("SW128 K atom fp8");
    let layout = SmemLayout { major: Major::K, element: 1, desc: SmemDesc::k_major(Swizzle::B128) };
    for (row, k) in (0..8).flat_map(|row| (0..128).map(move |k| (row, k))) {
        let want = swizzled(atom.offset(u64::from(row + 8 * k)));
        assert_eq!(u64::from(layout.byte(row, k)), want);
        assert_eq!(u64::from(layout.byte(row + 16, k)), want + 2048, "groups of rows are SBO apart");
    }
    let atom = shifts("SW128 MN atom bf16");
    let desc = SmemDesc { swizzle: Swizzle::B128, leading: 8192, stride: 1024 };
    let layout = SmemLayout { major: Major::Mn, element: 2, desc };
    for (m, k) in (0..64).flat_map(|m| (0..8).map(move |k| (m, k))) {
        let want = swizzled(2 * atom.offset(u64::from(m + 64 * k)));
        assert_eq!(u64::from(layout.byte(m, k)), want);
        assert_eq!(u64::from(layout.byte(m + 64, k + 8)), want + 8192 + 1024);
    }
}

/// The canonical layouts of PTX ISA 9.7.16.5 in units of elements, by CuTe's rule.
#[test]
fn canonical_layouts_hold_without_and_with_narrow_swizzles() {
    let (leading, stride) = (2048u32, 512u32);
    for (swizzle, width, bits) in [(Swizzle::None, 1u64, 0u64), (Swizzle::B32, 2, 1), (Swizzle::B64, 4, 3)] {
        for element in [1u32, 2, 4] {
            let t = u64::from(16 / element);
            let (l, s) = (u64::from(leading / element), u64::from(stride / element));
            let permuted = |offset: u64| {
                let byte = offset * u64::from(element);
                byte ^ ((byte >> 7 & bits) << 4)
            };
            let desc = SmemDesc { swizzle, leading, stride };
            let k_major = SmemLayout { major: Major::K, element, desc };
            let mn_major = SmemLayout { major: Major::Mn, element, desc };
            // ((8, m), (T, chunks)) : ((width·T, SBO), (1, T or LBO))
            let chunk_stride = if swizzle == Swizzle::None { l } else { t };
            for (row, k) in (0..32u64).flat_map(|row| (0..width * t).map(move |k| (row, k))) {
                let offset = row % 8 * width * t + row / 8 * s + k % t + k / t * chunk_stride;
                assert_eq!(u64::from(k_major.byte(row as u32, k as u32)), permuted(offset), "{swizzle:?}");
            }
            // ((T, width, m), (8, k)) : ((1, T, LBO), (width·T, SBO)); without a pattern the strides change places.
            let (far, groups) = if swizzle == Swizzle::None { (s, l) } else { (l, s) };
            for (m, k) in (0..4 * width * t).flat_map(|m| (0..16u64).map(move |k| (m, k))) {
                let w = width * t;
                let offset = m % w + m / w * far + k % 8 * w + k / 8 * groups;
                assert_eq!(u64::from(mn_major.byte(m as u32, k as u32)), permuted(offset), "{swizzle:?}");
            }
        }
    }
}

#[test]
fn shared_descriptors() {
    let k = SmemDesc::k_major(Swizzle::B128);
    assert_eq!(k.constant(), Ok(0x4000_4040_0001_0000));
    assert_eq!(k.encode(0x2400), Ok(0x4000_4040_0001_0240));
    assert_eq!(k.encode(0x3_fc00), Ok(0x4000_4040_0001_3fc0));
    assert_eq!(k_step(32), 2);
    let codes = [
        (Swizzle::None, 0u64),
        (Swizzle::B128Chunk32, 1),
        (Swizzle::B128, 2),
        (Swizzle::B64, 4),
        (Swizzle::B32, 6),
    ];
    for (swizzle, code) in codes {
        let desc = SmemDesc { swizzle, leading: 0, stride: 0 }.constant();
        assert_eq!(desc, Ok(code << 61 | 1 << 46));
    }
    for (swizzle, aligned) in
        [(Swizzle::None, 16), (Swizzle::B32, 256), (Swizzle::B64, 512), (Swizzle::B128, 1024)]
    {
        let desc = SmemDesc::k_major(swizzle);
        assert!(desc.encode(aligned).is_ok());
        let half = desc.encode(aligned / 2);
        assert!(
            matches!(half, Err(EncodeFault::Alignment { .. } | EncodeFault::Field { .. })),
            "{swizzle:?}: {half:?}"
        );
    }
    let long = SmemDesc { leading: 1 << 18, ..k };
    assert_eq!(long.constant(), Err(EncodeFault::Field { field: "leading stride", bytes: 1 << 18 }));
    let odd = SmemDesc { stride: 8, ..k };
    assert_eq!(odd.constant(), Err(EncodeFault::Field { field: "stride", bytes: 8 }));
    assert_eq!(k.encode(1 << 18), Err(EncodeFault::Field { field: "address", bytes: 1 << 18 }));
}

fn shape(kind: MmaKind, group: CtaGroup, m: u32, n: u32) -> MmaShape {
    MmaShape { kind, group, ws: false, m, n, a_in_tensor: false }
}

#[test]
fn instruction_descriptors_equal_cutes() {
    let hex = |name: &str| u32::from_str_radix(printed(name).trim_start_matches("0x"), 16).unwrap();
    let bf16 = shape(MmaKind::F16, CtaGroup::One, 128, 256);
    let bf16 = InstrDesc::new(bf16, Factor::Bf16, Factor::Bf16);
    assert_eq!(bf16.encode(), Ok(hex("idesc f16 bf16 128x256")));
    let mixed = shape(MmaKind::Mxf8f6f4, CtaGroup::One, 128, 128);
    let mixed = InstrDesc::new(mixed, Factor::E4m3, Factor::E2m1);
    assert_eq!(mixed.encode(), Ok(hex("idesc mxf8f6f4 e4m3 x e2m1 128x128")));
    let four = shape(MmaKind::Mxf4, CtaGroup::One, 128, 128);
    let four = InstrDesc::new(four, Factor::E2m1, Factor::E2m1);
    assert_eq!(four.encode(), Ok(hex("idesc mxf4 128x128")));
    for k in 0..4 {
        let step = mixed.scales(k, k).encode();
        assert_eq!(step, Ok(hex("idesc mxf8f6f4 e4m3 x e2m1 128x128") | k << 29 | k << 4));
    }
    // bf16 with 256 columns from the same with 16 and a number known later.
    let narrow = InstrDesc { shape: shape(MmaKind::F16, CtaGroup::One, 128, 16), ..bf16 };
    let open = narrow.without_columns().unwrap();
    assert_eq!((open >> 17 & 63, open | InstrDesc::columns(256)), (0, 0x0840_0490));
    assert_eq!(mixed.scales(1, 3).encode(), Ok(0x08A0_1400 | 1 << 29 | 3 << 4));
}

/// Fields one by one, by the bit positions of PTX ISA 9.7.16.4.2.
#[test]
fn instruction_descriptors_field_by_field() {
    let pair = shape(MmaKind::Mxf8f6f4, CtaGroup::Two, 256, 48);
    let bits = InstrDesc::new(pair, Factor::E5m2, Factor::E3m2).encode().unwrap();
    assert_eq!(
        (bits >> 7 & 7, bits >> 10 & 7, bits >> 17 & 63, bits >> 24 & 31, bits >> 23 & 1),
        (1, 4, 6, 16, 1)
    );
    let fp8 = InstrDesc::new(shape(MmaKind::F8f6f4, CtaGroup::One, 64, 8), Factor::E4m3, Factor::E2m3);
    let half = InstrDesc { d: Sum::F16, ..fp8 }.encode().unwrap();
    assert_eq!((half >> 4 & 3, half >> 10 & 7, half >> 17 & 63, half >> 24 & 31), (0, 3, 1, 4));
    let tf32 = InstrDesc::new(shape(MmaKind::Tf32, CtaGroup::One, 128, 64), Factor::Tf32, Factor::Tf32);
    let tf32 = tf32.majors(Major::Mn, Major::K).encode().unwrap();
    assert_eq!((tf32 >> 4 & 3, tf32 >> 7 & 7, tf32 >> 10 & 7, tf32 >> 15 & 3), (1, 2, 2, 1));
    let bytes =
        InstrDesc::new(shape(MmaKind::I8, CtaGroup::One, 128, 64), Factor::S8, Factor::U8).encode().unwrap();
    assert_eq!((bytes >> 4 & 3, bytes >> 7 & 7, bytes >> 10 & 7), (2, 1, 0));
    let nv = InstrDesc::new(shape(MmaKind::Mxf4nvf4, CtaGroup::One, 128, 64), Factor::E2m1, Factor::E2m1);
    assert_eq!(nv.encode().unwrap() >> 23 & 1, 0, "a scale per 16 is ue4m3");
}

#[test]
fn every_boundary_of_the_table_of_shapes() {
    // Kind, group, rows, step of columns, least columns.
    let (one, two) = (CtaGroup::One, CtaGroup::Two);
    for kind in MmaKind::ALL.iter().copied().filter(|kind| *kind != MmaKind::I8) {
        for group in [one, two] {
            let legal: &[u32] = match (group, kind.scaled()) {
                (CtaGroup::One, false) => &[64, 128],
                (CtaGroup::One, true) => &[128],
                (CtaGroup::Two, _) => &[128, 256],
            };
            let step = if group == one { 8 } else { 16 };
            for m in [0, 16, 32, 64, 96, 128, 192, 256, 512] {
                for n in 0..=280 {
                    let want = legal.contains(&m) && (step..=256).contains(&n) && n % step == 0;
                    let got = shape(kind, group, m, n).check();
                    assert_eq!(got.is_ok(), want, "{kind:?} {group:?} {m}x{n}: {got:?}");
                    if !legal.contains(&m) {
                        assert_eq!(got, Err(EncodeFault::M { kind, group, m }));
                    }
                }
            }
        }
        let ws = |m, n| MmaShape { ws: true, ..shape(kind, one, m, n) }.check().is_ok();
        for (m, n) in [(32, 64), (64, 128), (128, 256)] {
            assert_eq!(ws(m, n), !kind.scaled(), "{kind:?} ws {m}x{n}");
        }
        assert!(!ws(64, 32) && !ws(256, 64) && !ws(64, 96));
        assert!(MmaShape { ws: true, ..shape(kind, two, 128, 64) }.check().is_err());
    }
    // A in tensor memory with 128 rows goes in steps of 16 columns.
    let tensor = |m, n| MmaShape { a_in_tensor: true, ..shape(MmaKind::F16, one, m, n) }.check().is_ok();
    assert!(tensor(64, 8) && tensor(128, 16) && !tensor(128, 8) && !tensor(128, 24));
    let bytes = |group, n| shape(MmaKind::I8, group, 128, n).check().is_ok();
    let fit: Vec<u32> = (0..=80).filter(|n| bytes(one, *n)).collect();
    assert_eq!(fit, [8, 16, 24, 32, 48, 64, 80]);
    let fit: Vec<u32> = (0..=80).filter(|n| bytes(two, *n)).collect();
    assert_eq!(fit, [32, 64]);
    let ks = MmaKind::ALL.iter().map(|kind| MmaShape::k(*kind));
    assert!(ks.eq([16, 8, 32, 32, 32, 64, 64]));
    let scales = MmaKind::ALL.iter().map(|kind| MmaShape::scales(*kind));
    assert!(scales.eq([0, 0, 0, 0, 1, 2, 4]));
}

/// The kind's factors and sums, by PTX ISA 9.7.16.2.
#[test]
fn every_combination_of_formats() {
    let small = [Factor::E4m3, Factor::E5m2, Factor::E2m3, Factor::E3m2, Factor::E2m1];
    for kind in MmaKind::ALL.iter().copied() {
        let base = shape(kind, CtaGroup::One, 128, 64);
        for a in Factor::ALL.iter().copied() {
            for b in Factor::ALL.iter().copied() {
                for d in Sum::ALL.iter().copied() {
                    let factors = match kind {
                        MmaKind::F16 => a == b && matches!(a, Factor::F16 | Factor::Bf16),
                        MmaKind::Tf32 => a == Factor::Tf32 && b == Factor::Tf32,
                        MmaKind::F8f6f4 | MmaKind::Mxf8f6f4 => small.contains(&a) && small.contains(&b),
                        MmaKind::I8 => [a, b].iter().all(|f| matches!(f, Factor::U8 | Factor::S8)),
                        MmaKind::Mxf4 | MmaKind::Mxf4nvf4 => a == Factor::E2m1 && b == Factor::E2m1,
                    };
                    let sums = match d {
                        Sum::F32 => kind != MmaKind::I8,
                        Sum::F16 => kind == MmaKind::F8f6f4 || (kind == MmaKind::F16 && a == Factor::F16),
                        Sum::S32 => kind == MmaKind::I8,
                    };
                    let desc = InstrDesc { d, ..InstrDesc::new(base, a, b) };
                    let got = desc.encode();
                    assert_eq!(got.is_ok(), factors && sums, "{kind:?} {a:?} {b:?} {d:?}: {got:?}");
                }
            }
        }
    }
}

#[test]
fn orders_and_scale_bytes_that_do_not_exist() {
    let (mn, k) = (Major::Mn, Major::K);
    let desc = |kind, group, n, a, b| InstrDesc::new(shape(kind, group, 128, n), a, b);
    let mixed = desc(MmaKind::Mxf8f6f4, CtaGroup::One, 64, Factor::E4m3, Factor::E2m1);
    assert!(mixed.majors(mn, k).encode().is_ok());
    let fault = EncodeFault::Major { kind: MmaKind::Mxf8f6f4, factor: Factor::E2m1 };
    assert_eq!(mixed.majors(k, mn).encode(), Err(fault));
    let four = desc(MmaKind::Mxf4, CtaGroup::One, 64, Factor::E2m1, Factor::E2m1);
    assert!(four.majors(mn, k).encode().is_err());
    // Bytes with N as the fastest dimension: steps of 16, or 32 for pairs.
    let bytes =
        |group, n| desc(MmaKind::F8f6f4, group, n, Factor::E4m3, Factor::E4m3).majors(k, mn).encode().is_ok();
    assert!(bytes(CtaGroup::One, 16) && !bytes(CtaGroup::One, 24));
    assert!(bytes(CtaGroup::Two, 32) && !bytes(CtaGroup::Two, 48));
    let legal =
        |desc: InstrDesc| (0..6).filter(|id| desc.scales(*id, 0).encode().is_ok()).collect::<Vec<_>>();
    assert_eq!(legal(mixed), [0, 1, 2, 3]);
    assert_eq!(legal(four), [0, 2]);
    assert_eq!(legal(desc(MmaKind::Mxf4nvf4, CtaGroup::One, 64, Factor::E2m1, Factor::E2m1)), [0]);
    let fault = EncodeFault::ScaleId { kind: MmaKind::Mxf4, id: 1 };
    assert_eq!(four.scales(0, 1).encode(), Err(fault));
}
