//! What is generated for SM100: the same bytes on any number of threads, texts that can be fed back, launches that fit.

mod common;

use std::collections::BTreeSet;
use tessera::codegen::target::ptx::{Extent, ParamKind};
use tessera::generate::{Generated, Request, Target, bindings, generate, of_text};
use tessera::ir::Bindings;
use tessera::ir::tile::Class;
use tessera::load::default_model;
use tessera::model::{Config, ConfigOptions, Topology};
use tessera::texts::{self, Content, Level};

fn models() -> [Config; 2] {
    let tiny = Config::from_dir(default_model().unwrap(), &ConfigOptions::default()).unwrap();
    [tiny, Config::released().unwrap()]
}

fn all(config: &Config, threads: usize) -> Vec<Generated> {
    let request = Request { threads, ..Request::all(Target::Sm100a) };
    generate(config, &Topology::derive(config), &request).unwrap()
}

#[test]
fn any_number_of_threads_gives_the_same_bytes() {
    for config in models() {
        let one = all(&config, 1);
        assert!(one == all(&config, 3) && one == all(&config, 8));
        let names: BTreeSet<&str> = one.iter().map(|kernel| kernel.name.as_str()).collect();
        assert_eq!(names.len(), one.len(), "names are unique");
    }
}

/// Each kernel's Tile IR, read back, gives the same PTX.
#[test]
fn tile_texts_fed_back_give_the_same_code() {
    for config in models() {
        for kernel in all(&config, 2) {
            let content =
                texts::check(&kernel.tile, Level::Tile).unwrap_or_else(|e| panic!("{}: {e:?}", kernel.name));
            let Content::Tile(tile) = content else { panic!("{}", kernel.name) };
            let again = of_text(&tile, Target::Sm100a).unwrap();
            assert!(again.code.text == kernel.code.text, "{} differs", kernel.name);
            assert_eq!(again.code.hash, kernel.code.hash);
        }
    }
}

/// Products run on a persistent grid, two accumulators let the epilogue of a tile overlap the next tile's products, and the
/// copies of the released experts run at least four blocks ahead.
#[test]
fn products_keep_the_matrix_unit_busy() {
    let [tiny, released] = models();
    for (config, stages) in [(tiny, 2), (released, 4)] {
        let mut seen = 0;
        for kernel in all(&config, 2) {
            let expert = matches!(kernel.family.as_str(), "moe_up" | "moe_linear");
            if !expert && kernel.family != "linear" {
                continue;
            }
            let Ok(Content::Tile(tile)) = texts::check(&kernel.tile, Level::Tile) else {
                panic!("{}", kernel.name)
            };
            let depths = |class: Class| tile.rings.iter().filter(move |r| r.class == class).map(|r| r.depth);
            let fewest = |class: Class| depths(class).min();
            assert!(
                fewest(Class::Accum) >= Some(2),
                "{}: {:?} accumulators",
                kernel.name,
                fewest(Class::Accum)
            );
            let wanted = if expert { stages } else { 2 };
            assert!(
                fewest(Class::Stage) >= Some(wanted),
                "{}: {:?} stages",
                kernel.name,
                fewest(Class::Stage)
            );
            assert!(tile.persistent.is_some(), "{} has no persistent grid", kernel.name);
            seen += 1;
        }
        assert!(seen > 30, "{seen} products only");
    }
}

/// Bulk copies take a tensor map by its generic address: a move of a parameter's name gives its address among the
/// parameters, which assemblers accept in silence. Data that the kernel before may still write is not read through the
/// read-only path.
#[test]
fn maps_have_generic_addresses_and_loads_wait_for_the_kernel_before() {
    for config in models() {
        let mut copies = 0;
        for kernel in all(&config, 2) {
            let (name, text) = (&kernel.name, &kernel.code.text);
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            let bare = |line: &str| match line.strip_prefix('@') {
                Some(guarded) => guarded.split_once(' ').map_or("", |(_, rest)| rest).to_owned(),
                None => line.to_owned(),
            };
            let mut generic = Vec::new();
            for line in &lines {
                let line = bare(line);
                let words: Vec<&str> = line.split([' ', ',', ';']).filter(|w| !w.is_empty()).collect();
                match words.as_slice() {
                    ["cvta.param.u64", dst, _] => generic.push((*dst).to_owned()),
                    [copy, ..] if copy.starts_with("cp.async.bulk.tensor") => {
                        copies += 1;
                        let map = line.split(['[', ',']).find(|p| p.trim().starts_with("%rd")).unwrap_or("");
                        assert!(generic.iter().any(|g| g == map.trim()), "{name}: {line}");
                    }
                    [load, ..] => assert!(!load.starts_with("ld.global.nc"), "{name}: {line}"),
                    [] => {}
                }
            }
        }
        assert!(copies > 100);
    }
}

/// Launches are within the machine's limits at every number of rows they are for, and at 0, 1 and many rows.
#[test]
fn launches_fit_the_machine() {
    for config in models() {
        for kernel in all(&config, 2) {
            let name = &kernel.name;
            let code = &kernel.code;
            let threads: u32 = code.block.iter().product();
            assert!((32..=1024).contains(&threads) && threads.is_multiple_of(32), "{name}: {threads}");
            let cluster: u32 = code.cluster.iter().product();
            assert!((1..=8).contains(&cluster), "{name}: {cluster}");
            for rows in kernel.rows.iter().copied().chain([0, 1, 100_000]) {
                let known = bindings(&config, rows);
                let value = |e: &Extent, what: &str| {
                    e.eval(&known).unwrap_or_else(|| panic!("{name}: {what} {e} has no value at {rows} rows"))
                };
                let [x, y, z] = [0, 1, 2].map(|axis| value(&code.grid[axis], "grid"));
                assert!(x <= i32::MAX as u64 && y <= 65535 && z <= 65535, "{name}: {x} x {y} x {z}");
                for (blocks, cluster) in [x, y, z].into_iter().zip(code.cluster) {
                    assert!(
                        blocks.is_multiple_of(cluster.into()),
                        "{name}: {blocks} blocks in clusters of {cluster}"
                    );
                }
                for map in &code.tensor_maps {
                    map_fits(name, map, &known);
                }
            }
            let mut end = 0;
            for param in &code.params {
                assert!(param.offset >= end && param.size > 0, "{name}: {}", param.name);
                let aligned = if param.kind == ParamKind::TensorMap { 64 } else { param.size.min(8) };
                assert!(param.offset.is_multiple_of(aligned), "{name}: {} at {}", param.name, param.offset);
                end = param.offset + param.size;
            }
            // The parameter space of the oldest driver that takes these texts.
            assert!(end <= 32_764, "{name}: {end} bytes of parameters");
            let maps: Vec<&str> = code.tensor_maps.iter().map(|map| map.param.as_str()).collect();
            let wanted = code.params.iter().filter(|param| param.kind == ParamKind::TensorMap);
            assert_eq!(maps, wanted.map(|param| param.name.as_str()).collect::<Vec<_>>(), "{name}");
        }
    }
}

/// The driver's rules for tensor maps (CUDA driver API, cuTensorMapEncodeTiled).
fn map_fits(kernel: &str, map: &tessera::codegen::target::ptx::TensorMapSpec, known: &Bindings) {
    use tessera::codegen::target::ptx::{MapElem, MapSwizzle};
    let name = format!("{kernel}: {}", map.param);
    let rank = map.dims.len();
    assert!((1..=5).contains(&rank), "{name}: rank {rank}");
    assert_eq!(
        (map.strides.len(), map.box_dims.len(), map.elem_strides.len()),
        (rank - 1, rank, rank),
        "{name}"
    );
    let unpacked = map.dtype == MapElem::U4Align16;
    let granule = if unpacked { 32 } else { 16 };
    assert!(map.offset.is_multiple_of(granule), "{name}: offset {}", map.offset);
    for stride in &map.strides {
        let bytes = stride.eval(known).unwrap_or_else(|| panic!("{name}: {stride} has no value"));
        assert!(bytes.is_multiple_of(granule) && bytes < 1 << 40, "{name}: stride {stride} is {bytes}");
    }
    for dim in &map.dims {
        let size = dim.eval(known).unwrap_or_else(|| panic!("{name}: {dim} has no value"));
        assert!(size <= 1 << 32, "{name}: {dim} is {size}");
    }
    assert!(map.box_dims.iter().all(|n| (1..=256).contains(n)), "{name}: box {:?}", map.box_dims);
    assert!(map.elem_strides.iter().all(|n| (1..=8).contains(n)), "{name}: steps {:?}", map.elem_strides);
    let inner = map.box_dims[0] as usize * map.dtype.bits() / 8;
    if unpacked {
        assert_eq!(map.box_dims[0], 128, "{name}");
        assert!(matches!(map.swizzle, MapSwizzle::None | MapSwizzle::B128), "{name}");
    } else {
        assert!(inner.is_multiple_of(16), "{name}: {inner} bytes of a box");
        assert!(
            map.swizzle == MapSwizzle::None || inner <= map.swizzle.bytes(),
            "{name}: {inner} bytes of a box"
        );
    }
}
