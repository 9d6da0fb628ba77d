//! Tensor types: shape with symbols × format × layout.

use std::fmt;

/// A symbolic dimension, bound to a number when a step runs (`T` rows, `S` sequence slots, …).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sym(Box<str>);

impl Sym {
    /// A symbol named `name`. Names are ASCII letters, digits and `_`, starting with a letter.
    pub fn new(name: &str) -> Self {
        Sym(name.into())
    }
    /// The symbol's name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Sym {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One dimension of a shape: a number, or a whole multiple of a symbol.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Dim {
    /// A dimension known at compile time.
    Fixed(usize),
    /// `times · sym`, `times ≥ 1`.
    Sym {
        /// The symbol.
        sym: Sym,
        /// How many elements each unit of the symbol stands for.
        times: usize,
    },
}

impl Dim {
    /// The plain symbol `name`.
    pub fn sym(name: &str) -> Self {
        Dim::Sym { sym: Sym::new(name), times: 1 }
    }
    /// The number, if this dimension does not depend on a symbol.
    pub fn fixed(&self) -> Option<usize> {
        match self {
            Dim::Fixed(n) => Some(*n),
            Dim::Sym { .. } => None,
        }
    }
    /// This dimension times `n`; `None` if a fixed dimension would overflow.
    pub fn checked_times(&self, n: usize) -> Option<Dim> {
        match self {
            Dim::Fixed(m) => Some(Dim::Fixed(m.checked_mul(n)?)),
            Dim::Sym { sym, times } => Some(Dim::Sym { sym: sym.clone(), times: times.checked_mul(n)? }),
        }
    }
    /// The value under `bindings`; `None` for an unbound symbol or on overflow.
    pub fn eval(&self, bindings: &Bindings) -> Option<usize> {
        match self {
            Dim::Fixed(n) => Some(*n),
            Dim::Sym { sym, times } => bindings.get(sym)?.checked_mul(*times),
        }
    }
}

impl From<usize> for Dim {
    fn from(n: usize) -> Self {
        Dim::Fixed(n)
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Fixed(n) => write!(f, "{n}"),
            Dim::Sym { sym, times: 1 } => write!(f, "{sym}"),
            Dim::Sym { sym, times } => write!(f, "{times}*{sym}"),
        }
    }
}

/// Values of symbols, in the order in which they were bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bindings(Vec<(Sym, usize)>);

impl Bindings {
    /// No symbol bound.
    pub fn new() -> Self {
        Self::default()
    }
    /// Binds `sym` to `value`, replacing an earlier value.
    pub fn set(&mut self, sym: &str, value: usize) -> &mut Self {
        match self.0.iter_mut().find(|(s, _)| s.as_str() == sym) {
            Some((_, v)) => *v = value,
            None => self.0.push((Sym::new(sym), value)),
        }
        self
    }
    /// The value of `sym`.
    pub fn get(&self, sym: &Sym) -> Option<usize> {
        self.0.iter().find(|(s, _)| s == sym).map(|(_, v)| *v)
    }
}

/// Element type of a tensor's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Elem {
    /// IEEE binary32.
    F32,
    /// bfloat16.
    Bf16,
    /// 8-bit float, 4 exponent and 3 mantissa bits, no infinity (V4.1 §3.1).
    E4m3,
    /// 4-bit float, 2 exponent bits and 1 mantissa bit; two to a byte, low nibble first.
    E2m1,
    /// 32-bit signed integer.
    I32,
    /// 64-bit signed integer.
    I64,
}

impl Elem {
    /// Bits one element takes.
    pub const fn bits(self) -> usize {
        match self {
            Elem::F32 | Elem::I32 => 32,
            Elem::Bf16 => 16,
            Elem::E4m3 => 8,
            Elem::E2m1 => 4,
            Elem::I64 => 64,
        }
    }
    /// True for elements that stand for real numbers.
    pub const fn is_float(self) -> bool {
        match self {
            Elem::F32 | Elem::Bf16 | Elem::E4m3 | Elem::E2m1 => true,
            Elem::I32 | Elem::I64 => false,
        }
    }
}

/// Type of a group's scale; one byte each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScaleElem {
    /// Power of two, `2^(b−127)`; 255 is NaN.
    E8m0,
    /// 8-bit float.
    E4m3,
}

/// Where the scales of a grouped format live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScalePlace {
    /// In a plane of their own, after the data plane.
    Plane,
    /// At the end of each row's record, after its codes.
    Record,
}

/// Scale groups of a format: `rows × cols` elements share one scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    /// Rows (second-last dimension) that share a scale.
    pub rows: usize,
    /// Columns (last dimension) that share a scale.
    pub cols: usize,
    /// The scale's type.
    pub scale: ScaleElem,
    /// Where the scales live.
    pub place: ScalePlace,
}

/// How the numbers of a tensor are stored: element type and scale groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Format {
    /// Element type of the data.
    pub elem: Elem,
    /// Scale groups, if the format has any.
    pub group: Option<Group>,
}

impl Format {
    const fn plain(elem: Elem) -> Self {
        Format { elem, group: None }
    }
    const fn grouped(elem: Elem, rows: usize, cols: usize, scale: ScaleElem, place: ScalePlace) -> Self {
        Format { elem, group: Some(Group { rows, cols, scale, place }) }
    }
    /// Plain f32.
    pub const F32: Format = Self::plain(Elem::F32);
    /// Plain bfloat16.
    pub const BF16: Format = Self::plain(Elem::Bf16);
    /// Plain 32-bit integers.
    pub const I32: Format = Self::plain(Elem::I32);
    /// Plain 64-bit integers.
    pub const I64: Format = Self::plain(Elem::I64);
    /// e4m3, one e8m0 scale per 32 along the row, scales in their own plane.
    pub const MX8: Format = Self::grouped(Elem::E4m3, 1, 32, ScaleElem::E8m0, ScalePlace::Plane);
    /// e2m1, one e8m0 scale per 32 along the row, scales in their own plane.
    pub const MX4: Format = Self::grouped(Elem::E2m1, 1, 32, ScaleElem::E8m0, ScalePlace::Plane);
    /// e4m3 weights, one e8m0 scale per 32×32 tile.
    pub const W8: Format = Self::grouped(Elem::E4m3, 32, 32, ScaleElem::E8m0, ScalePlace::Plane);
    /// Window key/value row: e4m3 codes, then one e8m0 scale per 32 (512 → 528 bytes).
    pub const KV8: Format = Self::grouped(Elem::E4m3, 1, 32, ScaleElem::E8m0, ScalePlace::Record);
    /// Compressed key/value row: e2m1 codes, then one e4m3 scale per 16 (512 → 288 bytes).
    pub const KV4: Format = Self::grouped(Elem::E2m1, 1, 16, ScaleElem::E4m3, ScalePlace::Record);
    /// Index key row: e2m1 codes, then one e8m0 scale per 32 (128 → 68 bytes).
    pub const INDEX4: Format = Self::grouped(Elem::E2m1, 1, 32, ScaleElem::E8m0, ScalePlace::Record);

    /// Every named format with its name in the text form.
    pub const NAMED: &'static [(&'static str, Format)] = &[
        ("f32", Self::F32),
        ("bf16", Self::BF16),
        ("i32", Self::I32),
        ("i64", Self::I64),
        ("mx8", Self::MX8),
        ("mx4", Self::MX4),
        ("w8", Self::W8),
        ("kv8", Self::KV8),
        ("kv4", Self::KV4),
        ("index4", Self::INDEX4),
    ];

    /// The format called `name`.
    pub fn from_name(name: &str) -> Option<Format> {
        Self::NAMED.iter().find(|(n, _)| *n == name).map(|(_, f)| *f)
    }
    /// The format's name, if it is one of [`Format::NAMED`].
    pub fn name(&self) -> Option<&'static str> {
        Self::NAMED.iter().find(|(_, f)| f == self).map(|(n, _)| *n)
    }
    /// True where values are reals (with or without scales).
    pub fn is_float(&self) -> bool {
        self.elem.is_float()
    }
    /// Memory planes of a tensor in this format: 2 where scales have a plane of their own, else 1.
    pub fn planes(&self) -> usize {
        match self.group {
            Some(Group { place: ScalePlace::Plane, .. }) => 2,
            Some(Group { place: ScalePlace::Record, .. }) | None => 1,
        }
    }
    /// Bytes of one row of `cols` elements in the data plane (scales of [`ScalePlace::Record`] included).
    /// `None` if `cols` is not a multiple of the group or does not fill whole bytes.
    pub fn row_bytes(&self, cols: usize) -> Option<usize> {
        let bits = cols.checked_mul(self.elem.bits())?;
        if bits % 8 != 0 {
            return None;
        }
        match self.group {
            None => Some(bits / 8),
            Some(g) if !cols.is_multiple_of(g.cols) => None,
            Some(Group { place: ScalePlace::Plane, .. }) => Some(bits / 8),
            Some(g) => (bits / 8).checked_add(cols / g.cols),
        }
    }
    /// Bytes of the scale plane of a `rows × cols` matrix; 0 without such a plane.
    pub fn scale_plane_bytes(&self, rows: usize, cols: usize) -> Option<usize> {
        match self.group {
            Some(g) if g.place == ScalePlace::Plane => {
                rows.div_ceil(g.rows).checked_mul(cols.div_ceil(g.cols))
            }
            Some(_) | None => Some(0),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(n) => f.write_str(n),
            None => write!(f, "<unnamed {:?}>", self.elem),
        }
    }
}

/// Where the elements of a tensor lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Layout {
    /// Row-major, no padding.
    #[default]
    Rows,
    /// A CPU weight matrix cut into panels of 16 output rows, the rows interleaved as lanes; rows are padded
    /// with zeros to a multiple of 16. The byte order inside a panel follows the element type (see the CPU
    /// micro-kernels). Applies to the last two dimensions; leading dimensions are panels one after another.
    Panels16,
    /// A scaled weight for SM100's matrix unit. Codes: row-major, each row padded with zeros to a multiple of 128 elements.
    /// Scales, in a plane of their own: one block of 512 bytes for 128 rows × 128 columns, rows and columns padded with
    /// the scale 2^−127, the blocks row-major; element (n, k)'s scale is byte `(n mod 32)·16 + (n mod 128)/32·4 + (k mod
    /// 128)/32` of its block, which is how the matrix unit takes them. A scale that stands for 32 rows is repeated.
    Blocks128,
    /// Records (codes, then scales) padded with zeros to a multiple of 16 bytes, as bulk copies want rows.
    Pitch16,
    /// Codes and scales of a record format in two planes, rows of codes padded to a multiple of 16 bytes, of scales to 4.
    Split,
    /// An f32 matrix `[N, K]` as three bf16 matrices below each other: `hi = bf16(w)`, `mid = bf16(w − hi)`,
    /// `lo = bf16(w − hi − mid)`, which together hold every bit of w.
    Split3,
}

impl Layout {
    /// Every layout.
    pub const ALL: &'static [Layout] =
        &[Layout::Rows, Layout::Panels16, Layout::Blocks128, Layout::Pitch16, Layout::Split, Layout::Split3];

    /// Name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            Layout::Rows => "rows",
            Layout::Panels16 => "panels16",
            Layout::Blocks128 => "blocks128",
            Layout::Pitch16 => "pitch16",
            Layout::Split => "split",
            Layout::Split3 => "split3",
        }
    }
    /// The layout called `name`.
    pub fn from_name(name: &str) -> Option<Layout> {
        Self::ALL.iter().copied().find(|l| l.name() == name)
    }
}

/// Shape × format × layout.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// Dimensions, outermost first.
    pub shape: Vec<Dim>,
    /// Element type and scale groups.
    pub format: Format,
    /// Order of the elements in memory.
    pub layout: Layout,
}

impl TensorType {
    /// A row-major tensor.
    pub fn new(shape: impl IntoIterator<Item = impl Into<Dim>>, format: Format) -> Self {
        TensorType { shape: shape.into_iter().map(Into::into).collect(), format, layout: Layout::Rows }
    }
    /// Elements after the first `skip` dimensions; `None` if one of them is symbolic or on overflow.
    pub fn fixed_tail(&self, skip: usize) -> Option<usize> {
        self.shape.get(skip..)?.iter().try_fold(1usize, |n, d| n.checked_mul(d.fixed()?))
    }
    /// Number of elements under `bindings`.
    pub fn elements(&self, bindings: &Bindings) -> Option<usize> {
        self.shape.iter().try_fold(1usize, |n, d| n.checked_mul(d.eval(bindings)?))
    }
    /// Memory planes of the tensor.
    pub fn planes(&self) -> usize {
        match self.layout {
            Layout::Rows => self.format.planes(),
            Layout::Panels16 | Layout::Pitch16 | Layout::Split3 => 1,
            Layout::Blocks128 | Layout::Split => 2,
        }
    }
    /// Bytes of each memory plane under `bindings`: data, then scales where the format has such a plane.
    /// For [`Layout::Panels16`] data and scales are interleaved in one plane; see the other layouts for theirs.
    pub fn plane_bytes(&self, bindings: &Bindings) -> Option<Vec<usize>> {
        let dims: Option<Vec<usize>> = self.shape.iter().map(|d| d.eval(bindings)).collect();
        let dims = dims?;
        let cols = dims.last().copied().unwrap_or(1);
        let rows = if dims.len() >= 2 { dims[dims.len() - 2] } else { 1 };
        let outer = dims.iter().rev().skip(2).try_fold(1usize, |n, d| n.checked_mul(*d))?;
        match self.layout {
            Layout::Rows => {
                let data = outer.checked_mul(rows)?.checked_mul(self.format.row_bytes(cols)?)?;
                let mut planes = vec![data];
                if self.format.planes() == 2 {
                    planes.push(outer.checked_mul(self.format.scale_plane_bytes(rows, cols)?)?);
                }
                Some(planes)
            }
            Layout::Panels16 => {
                let panel = panel_bytes(self.format, cols)?;
                Some(vec![outer.checked_mul(rows.div_ceil(16))?.checked_mul(panel)?])
            }
            Layout::Blocks128 => {
                let row = self.format.elem.bits().checked_mul(cols.checked_next_multiple_of(128)?)? / 8;
                let blocks = rows.div_ceil(128).checked_mul(cols.div_ceil(128))?;
                let (rows, scales) = (outer.checked_mul(rows)?, outer.checked_mul(blocks)?);
                Some(vec![rows.checked_mul(row)?, scales.checked_mul(SCALE_BLOCK)?])
            }
            Layout::Pitch16 => {
                let pitch = self.format.row_bytes(cols)?.checked_next_multiple_of(16)?;
                Some(vec![outer.checked_mul(rows)?.checked_mul(pitch)?])
            }
            Layout::Split => {
                let codes = cols.checked_mul(self.format.elem.bits())?.div_ceil(8);
                let scales = self.format.group.map_or(0, |g| cols / g.cols);
                let rows = outer.checked_mul(rows)?;
                let plane = |bytes: usize, of: usize| rows.checked_mul(bytes.checked_next_multiple_of(of)?);
                Some(vec![plane(codes, 16)?, plane(scales, 4)?])
            }
            Layout::Split3 => {
                Some(vec![outer.checked_mul(rows)?.checked_mul(3)?.checked_mul(cols)?.checked_mul(2)?])
            }
        }
    }
}

/// Bytes of the scales of 128 rows × 128 columns in [`Layout::Blocks128`].
pub const SCALE_BLOCK: usize = 512;

/// Bytes of one panel of 16 rows × `cols` in [`Layout::Panels16`]: per 32 columns the codes of 16 lanes and
/// 16 scale bytes for scaled formats, plain elements otherwise.
pub fn panel_bytes(format: Format, cols: usize) -> Option<usize> {
    let data = cols.checked_mul(16)?.checked_mul(format.elem.bits())? / 8;
    match format.group {
        Some(g) if !cols.is_multiple_of(g.cols) => None,
        Some(g) => data.checked_add(cols / g.cols * 16),
        None => Some(data),
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, d) in self.shape.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{d}")?;
        }
        write!(f, "] {}", self.format)?;
        match self.layout {
            Layout::Rows => Ok(()),
            Layout::Panels16 | Layout::Blocks128 | Layout::Pitch16 | Layout::Split | Layout::Split3 => {
                write!(f, " {}", self.layout.name())
            }
        }
    }
}
