//! Casts: rounding to bf16, quantising along rows by the rules of V4.1 §3.2 and §3.3, and decoding.
//!
//! A group of elements that share a scale lies in neighbouring lanes of one warp, which agree on its largest magnitude by
//! shuffles.

use super::super::view::Rows;
use super::super::{Emitter, Result, unsupported};
use super::flat::{Form, Shape};
use super::{Data, Place, Tile};
use crate::target::ptx::isa::{Class, Cmp, Reg, Ty};
use tessera_ir::tile::Value;
use tessera_ir::types::ScaleElem;
use tessera_ir::{Elem, Format};

/// Bits of +∞.
const INFINITY: u32 = 0x7f80_0000;
/// 2⁻¹²⁷, which has no normal form.
const LEAST_POWER: u32 = 0x0040_0000;

/// A tile's codes and scales: for each chunk that a thread holds.
#[derive(Clone, Debug)]
pub(super) struct Codes {
    format: Format,
    /// Words of packed codes, as many for each chunk.
    words: Vec<Reg>,
    /// The scale's byte, in the lanes of its group alike.
    scales: Vec<Reg>,
}

/// The rule by which a group gets its scale.
pub(super) struct Rule {
    /// Smallest magnitude that counts.
    pub(super) floor: f32,
    /// What the magnitude is multiplied by.
    pub(super) factor: f32,
}

/// The rules of e8m0 scales: `ir::num` says the same of single groups.
pub(super) fn rule(elem: Elem) -> Rule {
    match elem {
        Elem::E2m1 => Rule { floor: 6.0 * f32::MIN_POSITIVE, factor: (1.0f64 / 6.0) as f32 },
        Elem::E4m3 | Elem::F32 | Elem::Bf16 | Elem::I32 | Elem::I64 => {
            Rule { floor: 1e-4, factor: (1.0f64 / 448.0) as f32 }
        }
    }
}

/// Words that a chunk's codes take.
fn words_of(format: Format, chunk: usize) -> usize {
    (chunk * format.elem.bits()).div_ceil(32)
}

impl Emitter<'_> {
    /// `cast`.
    pub(in super::super) fn cast(&mut self, v: Value, x: Value, format: Format) -> Result<()> {
        if self.uses_of(v).all == 0 {
            return Ok(());
        }
        let tile = self.tile_of(x)?;
        let shape = tile.shape;
        let data = match (&tile.data, format) {
            (Data::Quantised(codes), to) if to == codes.format => tile.data.clone(),
            (Data::Quantised(codes), Format::F32) => Data::Regs(self.decoded(&shape, codes)),
            (Data::Quantised(_) | Data::Columns(_), _) => {
                return Err(unsupported("a quantised tile in another format"));
            }
            (_, Format::F32) => tile.data.clone(),
            (_, Format::BF16) if tile.format == Format::BF16 => tile.data.clone(),
            (Data::Rounded { .. } | Data::Pairs(_), Format::BF16) => tile.data.clone(),
            (Data::Products(pairs), Format::BF16) => self.rounded_products(pairs),
            (_, Format::BF16) => {
                let regs = self.regs(&tile)?;
                self.rounded(&regs)
            }
            (_, Format::MX8) if self.by_columns(&shape) && shape.rows.is_multiple_of(4) => {
                let regs = self.regs(&tile)?;
                Data::Columns(self.quantised_columns(&shape, &regs, format)?)
            }
            (_, format) if format.group.is_some_and(|g| g.rows == 1) => {
                let regs = self.regs(&tile)?;
                Data::Quantised(self.quantised(&shape, &regs, format)?)
            }
            (_, format) => return Err(unsupported(format!("a cast to {format}"))),
        };
        self.bind_tile(v, Tile { shape, format, data })
    }

    /// Values rounded to bf16.
    fn rounded(&mut self, regs: &[Reg]) -> Data {
        let (mut out, mut words) =
            (Vec::with_capacity(regs.len()), Vec::with_capacity(regs.len().div_ceil(2)));
        for pair in regs.chunks(2) {
            let low = pair[0];
            let high = pair.get(1).copied().unwrap_or(low);
            let word = self.asm.bf16x2_f32(high, low);
            words.push(word);
            out.extend(self.asm.f32_bf16x2(word).into_iter().take(pair.len()));
        }
        Data::Rounded { regs: out, words }
    }

    /// `2^(byte − 127)` of a byte below 255.
    fn power(&mut self, byte: Reg) -> Reg {
        let bits = self.asm.shl_b32(byte, 23u32);
        let zero = self.asm.setp(Cmp::Eq, Ty::U32, byte, 0u32);
        let bits = self.asm.selp(Ty::B32, LEAST_POWER, bits, zero);
        self.asm.bits(bits)
    }

    fn quantised(&mut self, shape: &Shape, regs: &[Reg], format: Format) -> Result<Codes> {
        let Some(group) = format.group else { return Err(unsupported("a format without groups")) };
        if shape.form == Form::Copies || !group.cols.is_multiple_of(shape.chunk) {
            return Err(unsupported(format!("quantising a tile {}x{} to {format}", shape.rows, shape.cols)));
        }
        let lanes = group.cols / shape.chunk;
        let mut codes = Codes { format, words: Vec::new(), scales: Vec::new() };
        for chunk in shape.chunks() {
            let x = &regs[chunk.first..chunk.first + shape.chunk];
            let largest = self.largest(x, lanes as u32);
            let (scale, quotients) = match group.scale {
                ScaleElem::E8m0 => self.scaled_by_power(x, largest, format.elem),
                ScaleElem::E4m3 => self.scaled_by_code(x, largest),
            };
            let (byte, nan) = scale;
            let words = self.packed(&quotients, format.elem);
            let poison = if format.elem == Elem::E4m3 { 0x7f7f_7f7fu32 } else { 0x7777_7777 };
            for word in words {
                codes.words.push(self.asm.selp(Ty::B32, poison, word, nan));
            }
            codes.scales.push(byte);
        }
        Ok(codes)
    }

    /// Bits of the largest magnitude of a group: infinity above all numbers, NaN above infinity.
    fn largest(&mut self, x: &[Reg], lanes: u32) -> Reg {
        let mut largest: Option<Reg> = None;
        for v in x {
            let bits = self.asm.bits(*v);
            let magnitude = self.asm.and_b32(bits, 0x7fff_ffffu32);
            largest = Some(match largest {
                None => magnitude,
                Some(m) => self.asm.max_u32(m, magnitude),
            });
        }
        let mut largest = largest.unwrap_or_else(|| self.asm.mov_b32(0u32));
        let mut by = lanes / 2;
        while by > 0 {
            let other = self.asm.shfl_bfly(largest, by);
            largest = self.asm.max_u32(largest, other);
            by /= 2;
        }
        largest
    }

    /// Scale byte of e8m0, whether it is the NaN, and the elements divided by the scale.
    fn scaled_by_power(&mut self, x: &[Reg], largest: Reg, elem: Elem) -> ((Reg, Reg), Vec<Reg>) {
        let Rule { floor, factor } = rule(elem);
        let asm = &mut self.asm;
        let at_least = asm.max_u32(largest, floor.to_bits());
        let magnitude = asm.bits(at_least);
        let product = asm.mul_f32(magnitude, factor);
        let bits = asm.bits(product);
        let nan = asm.setp(Cmp::Ge, Ty::U32, largest, INFINITY);
        let up = asm.add_u32(bits, 0x007f_ffffu32);
        let exponent = asm.shr_u32(up, 23u32);
        let exponent = asm.max_u32(exponent, 1u32);
        let exponent = asm.min_u32(exponent, 254u32);
        // Dividing by a power of two is multiplying by its reciprocal.
        let minus = asm.neg_s32(exponent);
        let inverse = asm.add_s32(minus, 254);
        let inverse = self.power(inverse);
        let quotients = x.iter().map(|v| self.asm.mul_f32(*v, inverse)).collect();
        let byte = self.asm.selp(Ty::B32, 255u32, exponent, nan);
        ((byte, nan), quotients)
    }

    /// Scale code of e4m3 (V4.1 §3.3), whether it is the NaN, and the elements divided by the scale.
    fn scaled_by_code(&mut self, x: &[Reg], largest: Reg) -> ((Reg, Reg), Vec<Reg>) {
        const FLOOR: f32 = 6.0 / 512.0;
        let asm = &mut self.asm;
        let at_least = asm.max_u32(largest, FLOOR.to_bits());
        let magnitude = asm.bits(at_least);
        let scale = asm.div_f32(magnitude, 6f32);
        let nan = asm.setp(Cmp::Ge, Ty::U32, largest, INFINITY);
        let pair = asm.e4m3x2_f32(0f32, scale);
        let code = asm.u32_u16(pair);
        let code = asm.selp(Ty::B32, 0x7fu32, code, nan);
        let halves = asm.f16x2_e4m3x2(pair);
        let [scale, _] = asm.f32_f16x2(halves);
        let quotients = x.iter().map(|v| asm.div_f32(*v, scale)).collect();
        ((code, nan), quotients)
    }

    /// Codes of up to 8 elements in words, rounded to nearest even and saturated.
    fn packed(&mut self, x: &[Reg], elem: Elem) -> Vec<Reg> {
        let per_word = 32 / elem.bits();
        let mut words = Vec::new();
        for part in x.chunks(per_word) {
            let fill = if part.len() < per_word { Some(self.asm.mov_f32(0f32)) } else { None };
            let at = |i: usize| part.get(i).copied().or(fill).unwrap_or(part[0]);
            words.push(if elem == Elem::E2m1 {
                self.asm.e2m1x8_f32(std::array::from_fn(at))
            } else {
                self.asm.e4m3x4_f32(std::array::from_fn(at))
            });
        }
        words
    }

    /// Elements of a chunk's words.
    fn unpacked(&mut self, words: &[Reg], elem: Elem, n: usize) -> Vec<Reg> {
        let mut out = Vec::with_capacity(n);
        for word in words {
            let halves = self.asm.split(*word, Class::B16, 2);
            for half in halves {
                if elem == Elem::E4m3 {
                    let pair = self.asm.f16x2_e4m3x2(half);
                    out.extend(self.asm.f32_f16x2(pair));
                } else {
                    for byte in self.asm.split(half, Class::B8, 2) {
                        let pair = self.asm.f16x2_e2m1x2(byte);
                        out.extend(self.asm.f32_f16x2(pair));
                    }
                }
            }
        }
        out.truncate(n);
        out
    }

    /// The number that a scale's byte stands for.
    fn scale(&mut self, byte: Reg, scale: ScaleElem) -> Reg {
        match scale {
            ScaleElem::E8m0 => {
                let power = self.power(byte);
                let nan = self.asm.setp(Cmp::Eq, Ty::U32, byte, 255u32);
                self.asm.selp(Ty::F32, f32::NAN, power, nan)
            }
            ScaleElem::E4m3 => {
                let half = self.asm.u16_u32(byte);
                let pair = self.asm.f16x2_e4m3x2(half);
                let [scale, _] = self.asm.f32_f16x2(pair);
                scale
            }
        }
    }

    fn decoded(&mut self, shape: &Shape, codes: &Codes) -> Vec<Reg> {
        let per = words_of(codes.format, shape.chunk);
        let Some(group) = codes.format.group else { return Vec::new() };
        let mut out = Vec::with_capacity(shape.held());
        for (words, byte) in codes.words.chunks(per).zip(&codes.scales) {
            let scale = self.scale(*byte, group.scale);
            for x in self.unpacked(words, codes.format.elem, shape.chunk) {
                out.push(self.asm.mul_f32(x, scale));
            }
        }
        out
    }

    /// Type of an access to a chunk's codes, and accesses.
    fn code_access(format: Format, chunk: usize) -> (Ty, Class, usize) {
        match chunk * format.elem.bits() / 8 {
            1 => (Ty::U8, Class::B8, 1),
            2 => (Ty::U16, Class::B16, 1),
            bytes => (Ty::U32, Class::B32, bytes / 4),
        }
    }

    /// Places of a chunk's scale.
    fn scale_places(&mut self, shape: &Shape, lies: &Rows, group: usize) -> Result<Vec<Place>> {
        let (scales, pitch) = lies.scales.ok_or_else(|| unsupported("scales that are nowhere"))?;
        let lanes = group / shape.chunk;
        let at = Place::global(scales);
        let mut places = Vec::new();
        // All passes begin at a whole group.
        for chunk in shape.chunks() {
            let (along, row) = self.chunk_at(shape, chunk.pass);
            let along = self.asm.fold_div(along, lanes);
            let place = self.stepped_by(at, along, 1);
            places.push(match row {
                Some(row) => self.stepped_by(place, row, pitch as u32),
                None => place.plus((chunk.row * pitch) as i64),
            });
        }
        Ok(places)
    }

    /// A tile from quantised rows, decoded.
    pub(super) fn load_quantised(&mut self, shape: &Shape, lies: &Rows) -> Result<Vec<Reg>> {
        let format = lies.format;
        let Some(group) = format.group else { return Err(unsupported("no scales")) };
        if shape.form == Form::Copies || !group.cols.is_multiple_of(shape.chunk) {
            return Err(unsupported(format!("loading a tile {}x{} of {format}", shape.rows, shape.cols)));
        }
        let (ty, class, n) = Self::code_access(format, shape.chunk);
        let bits = format.elem.bits();
        let starts = self.code_places(shape, lies, bits);
        let scales = self.scale_places(shape, lies, group.cols)?;
        let mut codes = Codes { format, words: Vec::new(), scales: Vec::new() };
        for ((chunk, at), scale) in shape.chunks().into_iter().zip(starts).zip(scales) {
            let holds = self.holds(shape, chunk.pass);
            for mut word in self.access(at, ty, class, n, lies, holds) {
                if class == Class::B16 {
                    word = self.asm.u32_u16(word);
                } else if class == Class::B8 {
                    word = self.asm.u32_u8(word);
                }
                codes.words.push(word);
            }
            for byte in self.load_words(scale, Ty::U8, Class::B8, 1, lies.constant, holds) {
                codes.scales.push(self.asm.u32_u8(byte));
            }
        }
        Ok(self.decoded(shape, &codes))
    }
    /// Words of codes, read in accesses as wide as the rows' alignment allows.
    fn access(
        &mut self,
        at: Place,
        ty: Ty,
        class: Class,
        n: usize,
        lies: &Rows,
        holds: Option<Reg>,
    ) -> Vec<Reg> {
        let whole = n == 1 || lies.align >= 4 * n;
        if whole {
            return self.load_words(at, ty, class, n, lies.constant, holds);
        }
        let one =
            |e: &mut Self, i: usize| e.load_words(at.plus(4 * i as i64), ty, class, 1, lies.constant, holds);
        (0..n).flat_map(|i| one(self, i)).collect()
    }

    /// Where this thread's codes lie.
    fn code_places(&mut self, shape: &Shape, lies: &Rows, bits: usize) -> Vec<Place> {
        // A chunk is whole bytes: count in units of one.
        let bytes = shape.chunk * bits / 8;
        let unit = Shape { cols: shape.cols / shape.chunk * bytes, chunk: bytes, ..*shape };
        self.chunk_places(&unit, Place::global(lies.codes), lies.pitch, 1)
    }

    /// `store` of a quantised tile.
    pub(super) fn store_quantised(&mut self, shape: &Shape, codes: &Codes, lies: &Rows) -> Result<()> {
        let format = codes.format;
        let Some(group) = format.group else { return Err(unsupported("no scales")) };
        let (ty, _, n) = Self::code_access(format, shape.chunk);
        let starts = self.code_places(shape, lies, format.elem.bits());
        let scales = self.scale_places(shape, lies, group.cols)?;
        let lanes = group.cols / shape.chunk;
        let thread = self.team.thread;
        let place = self.asm.and_b32(thread, lanes - 1);
        let leads = self.asm.setp(Cmp::Eq, Ty::U32, place, 0u32);
        let per = words_of(format, shape.chunk);
        let chunks = shape.chunks().into_iter().zip(starts).zip(scales);
        for (i, ((chunk, at), scale)) in chunks.enumerate() {
            let holds = self.holds(shape, chunk.pass);
            let words = &codes.words[i * per..(i + 1) * per];
            if ty == Ty::U16 || ty == Ty::U8 {
                let part = if ty == Ty::U16 { self.asm.u16_u32(words[0]) } else { self.asm.u8_u32(words[0]) };
                self.store_words(at, ty, &[part], holds);
            } else if n == 1 || lies.align >= 4 * n {
                self.store_words(at, ty, words, holds);
            } else {
                for (j, word) in words.iter().enumerate() {
                    self.store_words(at.plus(4 * j as i64), ty, &[*word], holds);
                }
            }
            let writes = match holds {
                Some(p) => self.asm.and_pred(p, leads),
                None => leads,
            };
            let byte = self.asm.u8_u32(codes.scales[i]);
            self.store_words(scale, Ty::U8, &[byte], Some(writes));
        }
        Ok(())
    }
}
