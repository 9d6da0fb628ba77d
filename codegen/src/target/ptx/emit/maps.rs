//! Tensor maps of a kernel: which boxes of which planes its bulk copies move.

use super::Emitter;
use crate::target::ptx::artifact::{MapElem, MapFill, MapSwizzle, ParamKind as Passed, TensorMapSpec};
use crate::target::ptx::extent::Extent;
use crate::target::ptx::isa::{ParamKind, Symbol};
use tessera_ir::tile::Param;
use tessera_ir::types::SCALE_BLOCK;
use tessera_ir::{Dim, Elem, Format, Layout};

/// Bytes of a row of a box: one swizzle row.
const ROW: usize = 128;

/// The tensor maps declared so far, with their parameters.
#[derive(Debug, Default)]
pub(super) struct Maps {
    pub(super) specs: Vec<TensorMapSpec>,
    symbols: Vec<Symbol>,
}

/// What a box of operand rows looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Boxed {
    /// Element type of the map.
    pub(super) elem: MapElem,
    /// Elements of a row of the box.
    pub(super) cols: u32,
    /// Bytes that count as transferred for a row of the box.
    pub(super) row_bytes: u32,
    pub(super) swizzle: MapSwizzle,
}

impl Boxed {
    /// The box of operands in `format`; `None` where bulk copies have none.
    pub(super) fn of(format: Format) -> Option<Self> {
        let row = |elem: MapElem, cols: usize| Boxed {
            elem,
            cols: cols as u32,
            row_bytes: (cols * elem.bits() / 8) as u32,
            swizzle: MapSwizzle::B128,
        };
        match format {
            Format::MX8 | Format::W8 => Some(row(MapElem::U8, ROW)),
            Format::MX4 => Some(row(MapElem::U4Align16, ROW)),
            Format::BF16 | Format::F32 => Some(row(MapElem::Bf16, ROW / 2)),
            Format::INDEX4 => Some(Boxed { swizzle: MapSwizzle::B64, ..row(MapElem::U4Align8, ROW) }),
            Format {
                elem: Elem::F32 | Elem::Bf16 | Elem::E4m3 | Elem::E2m1 | Elem::I32 | Elem::I64, ..
            } => None,
        }
    }
}

/// Rows of a scaled weight and of its blocks, and bytes of its scale plane's rows of blocks.
pub(super) fn blocks_of(param: &Param) -> (usize, usize) {
    let cols = param.ty.shape.last().and_then(Dim::fixed).unwrap_or(1);
    let rows = match param.ty.shape.as_slice() {
        [.., rows, _] => rows.fixed().unwrap_or(1),
        _ => 1,
    };
    (rows.div_ceil(128), cols.div_ceil(128))
}

/// Bytes of a scale block.
pub(super) const BLOCK_BYTES: u32 = SCALE_BLOCK as u32;

impl Emitter<'_> {
    /// The map of plane 0 of `param`, in boxes of `rows` rows (1 for gathers); declares it the
    /// first time. Dimensions of the map: columns, rows, then the parts of a split weight or the outer dimension.
    pub(super) fn map_of(&mut self, param: &Param, boxed: Boxed, rows: u32) -> Symbol {
        let ty = &param.ty;
        let bits = boxed.elem.bits() as u64;
        let cols = ty.shape.last().and_then(Dim::fixed).unwrap_or(1) as u64;
        let cols = match ty.layout {
            Layout::Blocks128 => cols.next_multiple_of(128),
            Layout::Rows | Layout::Panels16 | Layout::Pitch16 | Layout::Split | Layout::Split3 => cols,
        };
        let pitch = match ty.layout {
            Layout::Split => (cols * bits / 8).next_multiple_of(16),
            Layout::Rows | Layout::Panels16 | Layout::Pitch16 | Layout::Blocks128 | Layout::Split3 => {
                cols * bits / 8
            }
        };
        let row_dim = match ty.shape.as_slice() {
            [.., rows, _] => Extent::from(rows.clone()),
            _ => Extent::from(1u64),
        };
        let mut dims = vec![Extent::from(cols), row_dim.clone()];
        let mut strides = vec![Extent::from(pitch)];
        let mut box_dims = vec![boxed.cols, rows];
        let outer = match ty.layout {
            Layout::Split3 => Some((Extent::from(3u64), 3)),
            Layout::Rows | Layout::Panels16 | Layout::Pitch16 | Layout::Blocks128 | Layout::Split => {
                let n = ty.shape.len();
                (n > 2).then(|| {
                    let all = ty.shape[..n - 2].iter().fold(Extent::from(1u64), |all, d| all.mul(d.clone()));
                    (all, 1)
                })
            }
        };
        if let Some((count, boxes)) = outer {
            dims.push(count);
            strides.push(row_dim.mul(pitch));
            box_dims.push(boxes);
        }
        self.declared_map(TensorMapSpec {
            param: String::new(),
            tensor: param.name.clone(),
            plane: 0,
            offset: 0,
            dtype: boxed.elem,
            elem_strides: vec![1; dims.len()],
            dims,
            strides,
            box_dims,
            swizzle: boxed.swizzle,
            fill: MapFill::Zero,
        })
    }
    /// The map of a weight's scale blocks, one in a box.
    pub(super) fn blocks_map(&mut self, param: &Param) -> Symbol {
        let (rows, cols) = blocks_of(param);
        let words = BLOCK_BYTES / 4;
        self.declared_map(TensorMapSpec {
            param: String::new(),
            tensor: param.name.clone(),
            plane: 1,
            offset: 0,
            dtype: MapElem::U32,
            dims: vec![Extent::from(u64::from(words)), Extent::from(rows * cols)],
            strides: vec![Extent::from(u64::from(BLOCK_BYTES))],
            box_dims: vec![words, 1],
            elem_strides: vec![1; 2],
            swizzle: MapSwizzle::None,
            fill: MapFill::Zero,
        })
    }
    /// The map that `spec` describes, named by its number; declares it the first time.
    pub(super) fn declared_map(&mut self, spec: TensorMapSpec) -> Symbol {
        let spec = TensorMapSpec { param: format!("map{}", self.maps.specs.len()), ..spec };
        let same = |s: &TensorMapSpec| TensorMapSpec { param: spec.param.clone(), ..s.clone() } == spec;
        if let Some(i) = self.maps.specs.iter().position(same) {
            return self.maps.symbols[i];
        }
        let symbol = self.asm.param(&spec.param, ParamKind::TensorMap);
        self.passed.push((spec.param.clone(), Passed::TensorMap));
        self.maps.specs.push(spec);
        self.maps.symbols.push(symbol);
        symbol
    }
}
