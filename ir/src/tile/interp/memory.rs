//! Tensors in memory: the parameters of a run, with what each tile did to them.

use super::error::{Error, Fault};
use super::slots::RowSource;
use crate::graph::interp::{Data, Tensor};
use crate::tile::{Access, Kernel, Param};
use crate::types::{Bindings, Elem, Layout};

/// No tile yet.
const NOBODY: u32 = u32::MAX;
/// More tiles than one.
const SEVERAL: u32 = u32::MAX - 1;

/// A parameter.
pub(super) struct View<'a> {
    pub(super) param: &'a Param,
    pub(super) shape: Vec<usize>,
    data: Source<'a>,
}

/// Elements of a parameter.
enum Source<'a> {
    /// Only read.
    Read(&'a Data),
    Written(Written),
}

/// A parameter that is written: a copy, until the run is over.
struct Written {
    data: Data,
    /// False where an output was not written yet.
    known: Vec<bool>,
    /// The tile that wrote each element.
    writer: Vec<u32>,
    /// The tile that read each element.
    reader: Vec<u32>,
}

impl<'a> View<'a> {
    /// Views of all parameters.
    pub(super) fn all(
        kernel: &'a Kernel,
        bindings: &Bindings,
        tensors: &'a [Tensor],
    ) -> Result<Vec<Self>, Error> {
        if kernel.params.len() != tensors.len() {
            return Err(Error::Params { want: kernel.params.len(), found: tensors.len() });
        }
        kernel.params.iter().zip(tensors).map(|(p, t)| View::new(p, bindings, t)).collect()
    }

    fn new(param: &'a Param, bindings: &Bindings, tensor: &'a Tensor) -> Result<Self, Error> {
        let shape: Option<Vec<usize>> = param.ty.shape.iter().map(|d| d.eval(bindings)).collect();
        let elements = param.ty.elements(bindings);
        let (Some(shape), Some(elements)) = (shape, elements) else {
            return Err(Error::Size { what: format!("parameter {}", param.name) });
        };
        let kind = match param.ty.format.elem {
            Elem::F32 | Elem::Bf16 | Elem::E4m3 | Elem::E2m1 => "f32",
            Elem::I32 => "i32",
            Elem::I64 => "i64",
        };
        if tensor.shape != shape || tensor.data.len() != elements || tensor.data.kind() != kind {
            return Err(Error::Tensor {
                name: param.name.clone(),
                want: format!("{shape:?} of {kind}"),
                found: format!("{:?} with {} of {}", tensor.shape, tensor.data.len(), tensor.data.kind()),
            });
        }
        let written = |known| Written {
            data: tensor.data.clone(),
            known: vec![known; elements],
            writer: vec![NOBODY; elements],
            reader: vec![NOBODY; elements],
        };
        let data = match param.access {
            Access::Read => Source::Read(&tensor.data),
            Access::Update => Source::Written(written(true)),
            Access::Write => Source::Written(written(false)),
        };
        Ok(View { param, shape, data })
    }

    /// The new contents of a written parameter, all of whose elements must have been written.
    pub(super) fn finish(self) -> Result<Option<Data>, Error> {
        match self.data {
            Source::Read(_) => Ok(None),
            Source::Written(w) => match w.known.iter().position(|k| !k) {
                Some(element) => Err(Error::Unwritten { name: self.param.name.clone(), element }),
                None => Ok(Some(w.data)),
            },
        }
    }

    /// The borders that a list of offsets gives: ascending from 0, at most `most`. `None` if it holds others.
    pub(super) fn borders(&self, most: usize) -> Option<Vec<usize>> {
        let Data::I32(list) = self.data() else { return None };
        let borders: Option<Vec<usize>> = list.iter().map(|v| usize::try_from(*v).ok()).collect();
        let borders = borders?;
        let fine = borders.first() == Some(&0) && borders.is_sorted() && borders.last() <= Some(&most);
        fine.then_some(borders)
    }

    fn data(&self) -> &Data {
        match &self.data {
            Source::Read(data) => data,
            Source::Written(w) => &w.data,
        }
    }

    fn read(&mut self, tile: u32, at: usize) -> Result<(), Fault> {
        let Source::Written(w) = &mut self.data else { return Ok(()) };
        if w.writer[at] != NOBODY && w.writer[at] != tile {
            return Err(Fault::Race { name: self.param.name.clone(), element: at, how: "written" });
        }
        if !w.known[at] {
            return Err(Fault::Poison { what: format!("element {at} of parameter {}", self.param.name) });
        }
        w.reader[at] = if w.reader[at] == NOBODY || w.reader[at] == tile { tile } else { SEVERAL };
        Ok(())
    }

    /// The real at flat element `at`; a NaN for integers.
    pub(super) fn real(&mut self, tile: u32, at: usize) -> Result<f32, Fault> {
        self.read(tile, at)?;
        Ok(match self.data() {
            Data::F32(v) => v[at],
            Data::I32(_) | Data::I64(_) => f32::NAN,
        })
    }

    /// The integer at flat element `at`; 0 for reals.
    pub(super) fn int(&mut self, tile: u32, at: usize) -> Result<i64, Fault> {
        self.read(tile, at)?;
        Ok(match self.data() {
            Data::I32(v) => v[at].into(),
            Data::I64(v) => v[at],
            Data::F32(_) => 0,
        })
    }

    fn write(&mut self, tile: u32, at: usize) -> Result<Option<&mut Data>, Fault> {
        let Source::Written(w) = &mut self.data else { return Ok(None) };
        let race = |how| Err(Fault::Race { name: self.param.name.clone(), element: at, how });
        if w.writer[at] != NOBODY && w.writer[at] != tile {
            return race("written");
        }
        if w.reader[at] != NOBODY && w.reader[at] != tile {
            return race("read");
        }
        w.writer[at] = tile;
        w.known[at] = true;
        Ok(Some(&mut w.data))
    }

    /// Writes a real.
    pub(super) fn set_real(&mut self, tile: u32, at: usize, value: f32) -> Result<(), Fault> {
        if let Some(Data::F32(v)) = self.write(tile, at)? {
            v[at] = value;
        }
        Ok(())
    }

    /// Writes an integer, which must fit the format.
    pub(super) fn set_int(&mut self, tile: u32, at: usize, value: i64) -> Result<(), Fault> {
        match self.write(tile, at)? {
            Some(Data::I32(v)) => {
                v[at] = i32::try_from(value).map_err(|_| Fault::Range {
                    what: "the value".into(),
                    value,
                    low: i32::MIN.into(),
                    high: i32::MAX.into(),
                })?;
            }
            Some(Data::I64(v)) => v[at] = value,
            Some(Data::F32(_)) | None => {}
        }
        Ok(())
    }

    /// Flat number of the element at `at`.
    pub(super) fn element(&self, at: &[i64]) -> Result<usize, Fault> {
        let mut flat = 0;
        for (i, (&v, &n)) in at.iter().zip(&self.shape).enumerate() {
            flat = flat * n + within(&format!("index {i}"), v, n)?;
        }
        Ok(flat)
    }

    /// Flat numbers of the first elements of `rows` rows of `cols` columns that start at `at`.
    pub(super) fn block(&self, at: &[i64], rows: usize, cols: usize) -> Result<Vec<usize>, Fault> {
        let rank = self.shape.len();
        let width = self.shape.last().copied().unwrap_or(1);
        let height = if rank >= 2 { self.shape[rank - 2] } else { 1 };
        if rows == 0 {
            return Ok(Vec::new());
        }
        let (col, rest) = at.split_last().map_or((0, at), |(c, rest)| (*c, rest));
        let (row, outer) = rest.split_last().map_or((0, rest), |(r, outer)| (*r, outer));
        let col = fitting("column", col, cols, width)?;
        let row = fitting("row", row, rows, height)?;
        let mut first = 0;
        for (i, (&v, &n)) in outer.iter().zip(&self.shape).enumerate() {
            first = first * n + within(&format!("index {i}"), v, n)?;
        }
        self.aligned(row, col)?;
        Ok((row..row + rows).map(|r| (first * height + r) * width + col).collect())
    }

    /// Where the rows of a block of `rows × cols` that starts at `at` lie; what is outside the view has no place.
    pub(super) fn clipped(&self, at: &[i64], rows: usize, cols: usize) -> Result<Vec<RowSource>, Fault> {
        let rank = self.shape.len();
        let width = self.width();
        let height = if rank >= 2 { self.shape[rank - 2] } else { 1 };
        let (col, rest) = at.split_last().map_or((0, at), |(c, rest)| (*c, rest));
        let (row, outer) = rest.split_last().map_or((0, rest), |(r, outer)| (*r, outer));
        let col = within("the column", col, usize::MAX)?;
        let row = within("the row", row, usize::MAX)?;
        self.aligned(row, col)?;
        let cols = cols.min(width.saturating_sub(col));
        let mut first = 0;
        for (i, (&v, &n)) in outer.iter().zip(&self.shape).enumerate() {
            first = first * n + within(&format!("index {i}"), v, n)?;
        }
        let inside = |i: usize| cols > 0 && row.checked_add(i).is_some_and(|r| r < height);
        let place = |i: usize| inside(i).then(|| (first * height + row + i) * width + col);
        Ok((0..rows).map(|i| RowSource { first: place(i), cols }).collect())
    }

    /// The rows under `outer`: flat number of the first element, and how many there are.
    pub(super) fn rows_under(&self, outer: &[i64]) -> Result<(usize, usize), Fault> {
        let inner = &self.shape[outer.len()..];
        let rows: usize = inner.iter().rev().skip(1).product();
        let mut first = 0;
        for (i, (&v, &n)) in outer.iter().zip(&self.shape).enumerate() {
            first = first * n + within(&format!("index {i}"), v, n)?;
        }
        Ok((first * rows * self.width(), rows))
    }

    /// Columns.
    pub(super) fn width(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    /// Refuses blocks that begin inside a scale group or a panel.
    pub(super) fn aligned(&self, row: usize, col: usize) -> Result<(), Fault> {
        if let Some(g) = self.param.ty.format.group
            && !col.is_multiple_of(g.cols)
        {
            return Err(Fault::Multiple { what: "the column".into(), value: col, of: g.cols });
        }
        if self.param.ty.layout == Layout::Panels16 && !row.is_multiple_of(16) {
            return Err(Fault::Multiple { what: "the row of a panel".into(), value: row, of: 16 });
        }
        Ok(())
    }
}

/// `v` as an index below `n`.
pub(super) fn within(what: &str, v: i64, n: usize) -> Result<usize, Fault> {
    usize::try_from(v).ok().filter(|v| *v < n).ok_or_else(|| Fault::Range {
        what: what.to_owned(),
        value: v,
        low: 0,
        high: n as i64 - 1,
    })
}

/// `v` as the start of `len` elements among `n`.
pub(super) fn fitting(what: &str, v: i64, len: usize, n: usize) -> Result<usize, Fault> {
    let fits = |at: &usize| at.checked_add(len).is_some_and(|end| end <= n);
    usize::try_from(v).ok().filter(fits).ok_or_else(|| Fault::Range {
        what: format!("the first {what} of {len}"),
        value: v,
        low: 0,
        high: n as i64 - len as i64,
    })
}
