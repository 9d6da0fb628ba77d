//! The rules of tensor maps, each at its boundary.

use tessera_codegen::target::ptx::encode::{
    MapFault, box_bytes, check_map, dtype_code, swizzle_code, transfer_bytes,
};
use tessera_codegen::target::ptx::{Extent, MapElem, MapFill, MapSwizzle, TensorMapSpec};
use tessera_ir::{Dim, Sym};

/// A matrix of bytes, rows of 4096, boxes of 128 × 64.
fn matrix() -> TensorMapSpec {
    TensorMapSpec {
        param: "map".to_owned(),
        tensor: "x".to_owned(),
        plane: 0,
        offset: 0,
        dtype: MapElem::U8,
        dims: vec![Extent::Const(4096), Extent::sym("T")],
        strides: vec![Extent::Const(4096)],
        box_dims: vec![128, 64],
        elem_strides: vec![1, 1],
        swizzle: MapSwizzle::B128,
        fill: MapFill::Zero,
    }
}

/// Padded 4-bit elements.
fn padded() -> TensorMapSpec {
    TensorMapSpec { dtype: MapElem::U4Align16, strides: vec![Extent::Const(2048)], ..matrix() }
}

fn faults(spec: &TensorMapSpec) -> Vec<MapFault> {
    check_map(spec).err().unwrap_or_default()
}

#[test]
fn usual_maps_are_legal() {
    assert_eq!(check_map(&matrix()), Ok(()));
    assert_eq!(check_map(&padded()), Ok(()));
    let bf16 =
        TensorMapSpec { dtype: MapElem::Bf16, box_dims: vec![64, 256], fill: MapFill::Nan, ..matrix() };
    assert_eq!(check_map(&bf16), Ok(()));
    let row = TensorMapSpec {
        dims: vec![Extent::Const(16)],
        strides: vec![],
        box_dims: vec![16],
        elem_strides: vec![1],
        swizzle: MapSwizzle::None,
        ..matrix()
    };
    assert_eq!(check_map(&row), Ok(()));
}

#[test]
fn ranks() {
    for n in [0usize, 6] {
        let spec = TensorMapSpec {
            dims: vec![Extent::Const(64); n],
            strides: vec![Extent::Const(64); n.saturating_sub(1)],
            box_dims: vec![16; n],
            elem_strides: vec![1; n],
            ..matrix()
        };
        assert!(matches!(faults(&spec)[..], [MapFault::Rank { .. }]), "{n}");
    }
    let five = TensorMapSpec {
        dims: vec![Extent::Const(64); 5],
        strides: vec![Extent::Const(64); 4],
        box_dims: vec![16, 2, 2, 2, 2],
        elem_strides: vec![1; 5],
        ..matrix()
    };
    assert_eq!(check_map(&five), Ok(()));
    let short = TensorMapSpec { elem_strides: vec![1], ..matrix() };
    let lengths = MapFault::Rank { dims: 2, strides: 1, box_dims: 2, elem_strides: 1 };
    assert_eq!(faults(&short), [lengths]);
}

#[test]
fn dimensions_and_strides() {
    let dims = |n: u64| TensorMapSpec { dims: vec![Extent::Const(4096), Extent::Const(n)], ..matrix() };
    assert_eq!(check_map(&dims(1 << 32)), Ok(()));
    for n in [0, (1 << 32) + 1] {
        assert_eq!(faults(&dims(n)), [MapFault::Dim { dim: 1, size: n.to_string() }]);
    }
    let stride = |stride: Extent| TensorMapSpec { strides: vec![stride], ..matrix() };
    assert_eq!(check_map(&stride(Extent::Const((1 << 40) - 16))), Ok(()));
    for bad in [0u64, 4104, 1 << 40] {
        let fault = MapFault::Stride { dim: 1, stride: bad.to_string(), multiple: 16 };
        assert_eq!(faults(&stride(Extent::Const(bad))), [fault]);
    }
    // With symbols: a multiple whatever they are.
    let sym = |times| Extent::Dim(Dim::Sym { sym: Sym::new("S"), times });
    assert_eq!(check_map(&stride(sym(16))), Ok(()));
    assert_eq!(check_map(&stride(sym(4).mul(4u64))), Ok(()));
    assert_eq!(check_map(&stride(sym(16).add(32u64))), Ok(()));
    for bad in [sym(8), sym(16).add(8u64), sym(64).ceil_div(2).mul(8u64)] {
        assert!(matches!(faults(&stride(bad))[..], [MapFault::Stride { .. }]));
    }
}

#[test]
fn boxes() {
    let boxed = |w, h| TensorMapSpec { box_dims: vec![w, h], ..matrix() };
    assert_eq!(check_map(&boxed(128, 256)), Ok(()));
    for bad in [0, 257] {
        assert_eq!(faults(&boxed(128, bad)), [MapFault::Box { dim: 1, size: bad }]);
    }
    assert_eq!(faults(&boxed(120, 8)), [MapFault::RowBytes { bits: 960 }]);
    assert_eq!(faults(&boxed(144, 8)), [MapFault::Wide { bytes: 144, swizzle: 128 }]);
    for (swizzle, width) in [(MapSwizzle::B32, 32), (MapSwizzle::B64, 64), (MapSwizzle::B128, 128)] {
        assert_eq!(check_map(&TensorMapSpec { swizzle, ..boxed(width, 8) }), Ok(()));
        let wide = TensorMapSpec { swizzle, ..boxed(width + 16, 8) };
        assert!(matches!(faults(&wide)[..], [MapFault::Wide { .. }]), "{swizzle:?}");
    }
    let plain = TensorMapSpec { swizzle: MapSwizzle::None, ..boxed(256, 8) };
    assert_eq!(check_map(&plain), Ok(()));
    let large = TensorMapSpec { dtype: MapElem::F32, swizzle: MapSwizzle::None, ..boxed(256, 256) };
    assert_eq!(faults(&large), [MapFault::Large { bytes: 262_144 }]);
    let steps = |step| TensorMapSpec { elem_strides: vec![1, step], ..matrix() };
    assert_eq!(check_map(&steps(8)), Ok(()));
    for bad in [0, 9] {
        assert_eq!(faults(&steps(bad)), [MapFault::Step { dim: 1, step: bad }]);
    }
}

#[test]
fn padded_elements() {
    let narrow = TensorMapSpec { box_dims: vec![64, 64], ..padded() };
    assert_eq!(faults(&narrow), [MapFault::PaddedBox { size: 64 }]);
    let rows = TensorMapSpec { dims: vec![Extent::Const(4032), Extent::sym("T")], ..padded() };
    assert_eq!(faults(&rows), [MapFault::PaddedDim { size: "4032".to_owned() }]);
    let stride = TensorMapSpec { strides: vec![Extent::Const(2064)], ..padded() };
    let fault = MapFault::Stride { dim: 1, stride: "2064".to_owned(), multiple: 32 };
    assert_eq!(faults(&stride), [fault]);
    let offset = TensorMapSpec { offset: 16, ..padded() };
    assert_eq!(faults(&offset), [MapFault::Offset { offset: 16, multiple: 32 }]);
    let swizzle = TensorMapSpec { swizzle: MapSwizzle::B64, ..padded() };
    assert!(faults(&swizzle).contains(&MapFault::PaddedSwizzle));
    let plain = TensorMapSpec { swizzle: MapSwizzle::None, ..padded() };
    assert_eq!(check_map(&plain), Ok(()));
}

#[test]
fn bytes_of_boxes() {
    assert_eq!((box_bytes(&matrix()), transfer_bytes(&matrix())), (8192, 8192));
    assert_eq!((box_bytes(&padded()), transfer_bytes(&padded())), (8192, 4096));
    let dense = TensorMapSpec { dtype: MapElem::U4Align8, ..padded() };
    assert_eq!((box_bytes(&dense), transfer_bytes(&dense)), (4096, 4096));
}

#[test]
fn offsets_and_fill() {
    let offset = TensorMapSpec { offset: 8, ..matrix() };
    assert_eq!(faults(&offset), [MapFault::Offset { offset: 8, multiple: 16 }]);
    let fill = TensorMapSpec { fill: MapFill::Nan, ..matrix() };
    assert_eq!(faults(&fill), [MapFault::Fill]);
}

#[test]
fn the_drivers_numbers() {
    let dtypes =
        [MapElem::U8, MapElem::F16, MapElem::F32, MapElem::Bf16, MapElem::U4Align8, MapElem::U4Align16];
    assert_eq!(dtypes.map(dtype_code), [0, 6, 7, 9, 13, 14]);
    let swizzles = [MapSwizzle::None, MapSwizzle::B32, MapSwizzle::B64, MapSwizzle::B128];
    assert_eq!(swizzles.map(swizzle_code), [0, 1, 2, 3]);
}
