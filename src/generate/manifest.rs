//! The list of generated kernels with everything that launching them needs.

use super::{Generated, Target, bindings};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use tessera_codegen::target::ptx::{Extent, ParamKind, TensorMapSpec};
use tessera_ir::Bindings;
use tessera_model::Config;

/// What `manifest.json` holds and `gen --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Manifest {
    /// `tessera.gen/1`.
    pub schema: &'static str,
    /// Target.
    pub target: &'static str,
    /// Kernels.
    pub kernels: Vec<Entry>,
}

/// A kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// Name, unique in the list.
    pub name: String,
    /// Operator family.
    pub family: String,
    /// Graph ops.
    pub op: String,
    /// Sizes of the operator.
    pub shape: BTreeMap<&'static str, usize>,
    /// Numbers of rows it was chosen for.
    pub rows: Vec<usize>,
    /// File of its text.
    pub file: String,
    /// File of its Tile IR.
    pub tile: String,
    /// Entry function.
    pub entry: String,
    /// Parameters of the entry function.
    pub params: Vec<ParamReport>,
    /// Contents of the tensor maps among them.
    pub tensor_maps: Vec<MapReport>,
    /// Blocks along x, y, z.
    pub grid: Vec<GridAxis>,
    /// Threads of a block.
    pub block: [u32; 3],
    /// Blocks of a cluster.
    pub cluster: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub smem: usize,
    /// Columns of tensor memory.
    pub tmem_columns: usize,
    /// Whether it may be launched before the kernel ahead of it is done.
    pub pdl: bool,
    /// Knobs of its schedule.
    pub config: BTreeMap<&'static str, usize>,
    /// Name of the text by its content.
    pub hash: String,
}

/// A parameter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ParamReport {
    /// Name in the text.
    pub name: String,
    /// `tensor_map`, `pointer`, `workspace`, `u32` or `u64`.
    pub kind: &'static str,
    /// Byte offset in the parameter space.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
    /// Tensor that a pointer leads to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensor: Option<String>,
    /// Its plane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plane: Option<usize>,
    /// Bytes of a workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<ExtentReport>,
    /// Whether it starts as zeros.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zeroed: Option<bool>,
    /// Value of a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<ExtentReport>,
}

/// A tensor map; dimensions innermost first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MapReport {
    /// Parameter that it fills.
    pub param: String,
    /// Tensor that it describes.
    pub tensor: String,
    /// Plane of that tensor.
    pub plane: usize,
    /// Bytes from the plane's first byte to the map's.
    pub offset: u64,
    /// Element type.
    pub dtype: &'static str,
    /// Elements along each dimension.
    pub dims: Vec<ExtentReport>,
    /// Bytes from one index to the next, but for the innermost dimension.
    pub strides: Vec<ExtentReport>,
    /// Elements of a box.
    #[serde(rename = "box")]
    pub box_dims: Vec<u32>,
    /// Steps of a box.
    pub elem_strides: Vec<u32>,
    /// Permutation in shared memory.
    pub swizzle: &'static str,
    /// Elements outside.
    pub fill: &'static str,
}

/// A number, or an expression over symbols.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtentReport(Extent);

impl Serialize for ExtentReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.fixed() {
            Some(n) => serializer.serialize_u64(n),
            None => serializer.collect_str(&self.0),
        }
    }
}

/// Blocks along an axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GridAxis {
    /// An expression over symbols.
    pub expr: String,
    /// Its values.
    pub at: Vec<Value>,
}

/// A value at a number of rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Value {
    /// Number of rows.
    pub rows: usize,
    /// The value; none where a symbol has none.
    pub value: Option<u64>,
}

impl Manifest {
    /// The list of what was generated for a model, with values of the symbols of `shape` beside those of each number of rows.
    pub fn new(
        target: Target,
        kernels: &[Generated],
        config: &Config,
        shape: &[(String, usize)],
    ) -> Manifest {
        let bind = |rows: usize| {
            let mut known = bindings(config, rows);
            for (name, value) in shape {
                known.set(name, *value);
            }
            known
        };
        let kernels = kernels.iter().map(|kernel| entry(target, kernel, &bind)).collect();
        Manifest { schema: "tessera.gen/1", target: target.name(), kernels }
    }
}

/// The entry of a kernel; `bind` gives the symbols of a number of rows.
pub fn entry(target: Target, kernel: &Generated, bind: &impl Fn(usize) -> Bindings) -> Entry {
    let code = &kernel.code;
    let axis = |extent: &Extent| GridAxis {
        expr: extent.to_string(),
        at: kernel.rows.iter().map(|rows| Value { rows: *rows, value: extent.eval(&bind(*rows)) }).collect(),
    };
    let params = code.params.iter().map(|param| {
        let mut report = ParamReport {
            name: param.name.clone(),
            kind: "tensor_map",
            offset: param.offset,
            size: param.size,
            tensor: None,
            plane: None,
            bytes: None,
            zeroed: None,
            value: None,
        };
        match &param.kind {
            ParamKind::TensorMap => {}
            ParamKind::Pointer { param, plane } => {
                (report.kind, report.tensor, report.plane) = ("pointer", Some(param.clone()), Some(*plane));
            }
            ParamKind::Workspace { bytes, zeroed } => {
                report.kind = "workspace";
                (report.bytes, report.zeroed) = (Some(ExtentReport(bytes.clone())), Some(*zeroed));
            }
            ParamKind::U32(value) => {
                (report.kind, report.value) = ("u32", Some(ExtentReport(value.clone())));
            }
            ParamKind::U64(value) => {
                (report.kind, report.value) = ("u64", Some(ExtentReport(value.clone())));
            }
        }
        report
    });
    Entry {
        name: kernel.name.clone(),
        family: kernel.family.clone(),
        op: kernel.ops.join(" "),
        shape: kernel.shape.iter().collect(),
        rows: kernel.rows.clone(),
        file: format!("{}.{}", kernel.name, target.ending()),
        tile: format!("{}.tile", kernel.name),
        entry: code.entry.clone(),
        params: params.collect(),
        tensor_maps: code.tensor_maps.iter().map(map).collect(),
        grid: code.grid.iter().map(axis).collect(),
        block: code.block,
        cluster: code.cluster,
        smem: code.smem,
        tmem_columns: code.tmem_columns,
        pdl: code.pdl,
        config: kernel.knobs.iter().copied().collect(),
        hash: code.hash.clone(),
    }
}

fn map(spec: &TensorMapSpec) -> MapReport {
    let extents = |list: &[Extent]| list.iter().cloned().map(ExtentReport).collect();
    MapReport {
        param: spec.param.clone(),
        tensor: spec.tensor.clone(),
        plane: spec.plane,
        offset: spec.offset,
        dtype: spec.dtype.name(),
        dims: extents(&spec.dims),
        strides: extents(&spec.strides),
        box_dims: spec.box_dims.clone(),
        elem_strides: spec.elem_strides.clone(),
        swizzle: spec.swizzle.name(),
        fill: spec.fill.name(),
    }
}
