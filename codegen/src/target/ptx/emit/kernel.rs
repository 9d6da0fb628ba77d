//! The entry around the roles: parameters, launch, shared memory, dispatch of warps, the loop over tiles.

use super::{
    Bound, Emitter, Pointers, Result, Team, Uses, copy, grid, maps, matrix, records, rings, shared, slots,
    vector,
};
use crate::error::{Error, Unsupported};
use crate::target::ptx::artifact::{LaunchParam, ParamKind, PtxKernel, content_hash};
use crate::target::ptx::encode::{MapFault, check_map};
use crate::target::ptx::extent::Extent;
use crate::target::ptx::isa::{Asm, Class, Cmp, Entry, ParamKind as Kind, Special, Ty};
use std::collections::BTreeSet;
use std::rc::Rc;
use tessera_ir::machine::sm100;
use tessera_ir::tile::{Kernel, Op, RoleKind, Stmt};
use tessera_ir::{Dim, Sym};

/// Emits `kernel`.
///
/// # Errors
/// [`Error::Unsupported`] with every op that has no code, [`Error::Emit`] for a program that is not legal PTX.
pub(in crate::target::ptx) fn emit(kernel: &Kernel, family: &str) -> std::result::Result<PtxKernel, Error> {
    let starts = warps(kernel);
    let threads = 32 * starts.total;
    if threads as usize > sm100::THREADS || threads == 0 {
        let what = format!("{threads} threads; a block has 1 to {}", sm100::THREADS);
        return Err(refused(kernel, vec![Unsupported { op: "kernel", what }]));
    }
    let mut entry = Entry::new(&kernel.name, threads).cluster(kernel.cluster as u32);
    entry.notes.push(format!("{}: {threads} threads a tile", kernel.name));
    let mut asm = Asm::new(entry);
    let (pointers, symbols, passed) = declare(&mut asm, kernel);
    let smem = asm.reg(Class::B32);
    let thread = asm.special(Special::TidX);
    let lane = asm.and_b32(thread, 31u32);
    let mut e = Emitter {
        asm,
        kernel,
        pointers,
        symbols,
        passed,
        shared: shared::Map::default(),
        places: Rc::new(rings::Places::default()),
        tmem: None,
        pair: None,
        leader: None,
        travel: slots::Travel::default(),
        copies: copy::Copies::default(),
        records: records::Ahead::default(),
        products: matrix::Products::default(),
        maps: maps::Maps::default(),
        smem,
        team: Team { role: 0, warps: starts.total, thread, lane, warp: lane, barrier: 0 },
        tile: Vec::new(),
        values: vec![None; value_count(kernel)],
        uses: uses(kernel),
        vector: vector::State::default(),
        folded: None,
        faults: Vec::new(),
    };
    if let Err(reason) = e.body(&starts) {
        e.faults.push(Unsupported { op: "kernel", what: reason.0 });
    }
    if e.shared.bytes() as usize > sm100::SHARED_BYTES {
        let what = format!("{} bytes of shared memory; there are {}", e.shared.bytes(), sm100::SHARED_BYTES);
        e.faults.push(Unsupported { op: "kernel", what });
    }
    if !e.faults.is_empty() {
        return Err(refused(kernel, e.faults));
    }
    finish(e, family)
}

fn refused(kernel: &Kernel, faults: Vec<Unsupported>) -> Error {
    Error::Unsupported { kernel: kernel.name.clone(), faults }
}

/// Declares the entry's parameters: the planes of each tensor in order, then every symbol.
#[allow(clippy::type_complexity, reason = "what a kernel's parameters are, taken apart at once")]
fn declare(
    asm: &mut Asm,
    kernel: &Kernel,
) -> (Vec<Pointers>, Vec<(Sym, crate::target::ptx::isa::Symbol)>, Vec<(String, ParamKind)>) {
    let mut passed = Vec::new();
    let mut pointers = Vec::new();
    for param in &kernel.params {
        let mut planes = Vec::new();
        for plane in 0..param.ty.planes() {
            let name = if plane == 0 { param.name.clone() } else { format!("{}_scales", param.name) };
            let name = if kernel.params.iter().any(|p| p.name == name) && plane > 0 {
                format!("{}_plane1", param.name)
            } else {
                name
            };
            let name = legal(&name);
            planes.push(asm.param(&name, Kind::Pointer));
            passed.push((name, ParamKind::Pointer { param: param.name.clone(), plane }));
        }
        pointers.push(Pointers { planes });
    }
    let mut symbols = Vec::new();
    for sym in symbols_of(kernel) {
        let name = format!("dim_{sym}");
        let symbol = asm.param(&name, Kind::U32);
        passed.push((name, ParamKind::U32(Extent::sym(sym.as_str()))));
        symbols.push((sym, symbol));
    }
    (pointers, symbols, passed)
}

/// A parameter's name in PTX, where names have no dots and `smem` is taken.
fn legal(name: &str) -> String {
    let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    format!("p_{name}")
}

/// Symbols that a kernel's code reads, in a canonical order.
fn symbols_of(kernel: &Kernel) -> Vec<Sym> {
    let mut all = BTreeSet::new();
    let mut add = |dim: &Dim| {
        if let Dim::Sym { sym, .. } = dim {
            all.insert(sym.clone());
        }
    };
    kernel.params.iter().flat_map(|p| &p.ty.shape).for_each(&mut add);
    kernel.grid.iter().map(|axis| &axis.extent).for_each(&mut add);
    visit(kernel, &mut |op| {
        if let Op::IndexDim { dim } = op {
            add(dim);
        }
    });
    all.into_iter().collect()
}

/// Runs `f` on every op.
fn visit<'k>(kernel: &'k Kernel, f: &mut dyn FnMut(&'k Op)) {
    fn block<'k>(stmts: &'k [Stmt], f: &mut dyn FnMut(&'k Op)) {
        for stmt in stmts {
            match stmt {
                Stmt::Op(node) => f(&node.op),
                Stmt::For { body, .. } | Stmt::If { body, .. } => block(body, f),
            }
        }
    }
    for role in &kernel.roles {
        block(&role.body, f);
    }
}

fn value_count(kernel: &Kernel) -> usize {
    fn block(stmts: &[Stmt], n: &mut usize) {
        for stmt in stmts {
            match stmt {
                Stmt::Op(node) => {
                    if let Some((v, _)) = &node.result {
                        *n = (*n).max(v.index() + 1);
                    }
                }
                Stmt::For { var, body, .. } => {
                    *n = (*n).max(var.index() + 1);
                    block(body, n);
                }
                Stmt::If { body, .. } => block(body, n),
            }
        }
    }
    let mut n = kernel.params.len() + kernel.rings.len();
    for role in &kernel.roles {
        block(&role.body, &mut n);
    }
    n
}

fn uses(kernel: &Kernel) -> Vec<Uses> {
    let mut uses = vec![Uses::default(); value_count(kernel)];
    visit(kernel, &mut |op| {
        for v in op.operands() {
            let Some(u) = uses.get_mut(v.index()) else { continue };
            u.all += 1;
            if matches!(op, Op::Slice { .. } | Op::Reshape { .. }) {
                u.parts += 1;
            }
            if matches!(op, Op::Rotate { table, .. } if *table == v) {
                u.tables += 1;
            }
        }
    });
    uses
}

/// Which warps of the block run each role.
struct Warps {
    /// Roles in the order of their warps, with the first warp of each.
    order: Vec<(usize, u32)>,
    /// Warps of the block.
    total: u32,
}

/// Roles of whole warpgroups come first: tensor memory is divided among the four warps of a group.
fn warps(kernel: &Kernel) -> Warps {
    let mut order: Vec<usize> = (0..kernel.roles.len()).collect();
    order.sort_by_key(|r| !kernel.roles[*r].warps.is_multiple_of(4));
    let mut next = 0;
    let order = order
        .into_iter()
        .map(|role| {
            let first = next;
            next += kernel.roles[role].warps as u32;
            (role, first)
        })
        .collect();
    // Registers move between whole warpgroups.
    let moves = kernel.roles.iter().any(|r| r.registers.is_some());
    let total = if moves { next.next_multiple_of(4) } else { next };
    Warps { order, total }
}

impl Emitter<'_> {
    fn body(&mut self, starts: &Warps) -> Result<()> {
        let smem = self.smem;
        self.asm.mov_to(smem, crate::target::ptx::isa::Symbol::Smem);
        self.asm.griddep_launch();
        self.place_rings()?;
        let tables = self.group_tables()?;
        self.set_up();
        let early = self.waits_by_role(&tables);
        if !early {
            // Offsets come from the kernel before, as everything else that is not a weight.
            self.asm.griddep_wait();
        }
        if !tables.is_empty() {
            let thread = self.team.thread;
            let end = self.asm.label("tables");
            let others = self.asm.setp(Cmp::Ge, Ty::U32, thread, 32u32);
            self.asm.bra_if(others, end);
            for table in &tables {
                self.fill_table(table)?;
            }
            self.asm.place(end);
            self.asm.sync_threads();
        }
        let whole = self.team;
        let number = self.asm.shr_u32(whole.thread, 5u32);
        let number = self.asm.shfl_idx(number, 0u32);
        let done = self.asm.label("done");
        let several = starts.order.len() > 1;
        // Barrier 0 is the block's.
        for (barrier, (role, first)) in (1..).zip(&starts.order) {
            let of = &self.kernel.roles[*role];
            let end = first + of.warps as u32;
            let next = self.asm.label(&format!("after_{}", legal(&of.name)));
            self.asm.comment(&format!("role {} in warps {first} to {}", of.name, end - 1));
            if several {
                let before = self.asm.setp(Cmp::Lt, Ty::U32, number, *first);
                let after = self.asm.setp(Cmp::Ge, Ty::U32, number, end);
                let other = self.asm.or_pred(before, after);
                self.asm.bra_if(other, next);
            }
            let thread = if *first == 0 { whole.thread } else { self.asm.sub_u32(whole.thread, 32 * first) };
            let warp = if *first == 0 { number } else { self.asm.sub_u32(number, *first) };
            let thread = match self.pair {
                // Rows of the second block's half follow those of the first one's.
                Some(pair) if of.kind == RoleKind::Vector => {
                    self.asm.mad_u32(pair.rank, 32 * of.warps as u32, thread)
                }
                Some(_) | None => thread,
            };
            if let Some(pair) = self.pair.filter(|_| of.kind == RoleKind::Matrix) {
                // The first block multiplies for both.
                let other = self.asm.setp(Cmp::Ne, Ty::U32, pair.rank, 0u32);
                self.asm.bra_if(other, next);
            }
            self.team = Team { role: *role, warps: of.warps as u32, thread, lane: whole.lane, warp, barrier };
            self.vector = vector::State::default();
            self.folded = None;
            if of.kind == RoleKind::Vector && sm100::folded_role(self.kernel, *role) {
                self.folded_start();
            }
            if early && self.reads_activations() {
                self.asm.griddep_wait();
            }
            self.begin_role();
            self.role_body(&tables)?;
            if several {
                self.asm.bra_uni(done);
            }
            self.asm.place(next);
        }
        self.asm.place(done);
        self.tear_down();
        self.asm.ret();
        Ok(())
    }

    /// The current role's program: once, or for one tile after another.
    fn role_body(&mut self, tables: &[grid::Table]) -> Result<()> {
        let body = &self.kernel.roles[self.team.role].body;
        let block = self.asm.special(Special::CtaIdX);
        let pair = if self.kernel.cluster > 1 { self.asm.div_u32(block, self.kernel.cluster) } else { block };
        let limited = self.kernel.persistent.is_some() || !tables.is_empty();
        if !limited {
            self.locate(pair, tables);
            self.begin_tile();
            self.block(body);
            return Ok(());
        }
        let all = self.all_tiles(tables);
        let all = self.asm.in_reg(Ty::U32, all);
        let number = self.asm.mov_b32(pair);
        let (top, end) = (self.asm.label("tile"), self.asm.label("tiles_done"));
        let none = self.asm.setp(Cmp::Ge, Ty::U32, number, all);
        self.asm.bra_if(none, end);
        self.asm.place(top);
        self.locate(number, tables);
        self.begin_tile();
        self.block(body);
        if self.kernel.persistent.is_some() {
            let blocks = self.asm.special(Special::NCtaIdX);
            let step =
                if self.kernel.cluster > 1 { self.asm.div_u32(blocks, self.kernel.cluster) } else { blocks };
            self.asm.add_u32_to(number, number, step);
            let more = self.asm.setp(Cmp::Lt, Ty::U32, number, all);
            // Shared memory of the tile before is written anew.
            if self.vector.hazards.any() {
                self.meet();
            }
            self.asm.bra_if(more, top);
        }
        self.asm.place(end);
        Ok(())
    }

    /// Forgets what was computed for the tile before.
    fn begin_tile(&mut self) {
        self.travel_tile();
        self.copies.forget();
        self.products.forget();
        self.values.iter_mut().for_each(|v| {
            if matches!(v, Some(Bound::Index(_) | Bound::Tile(_) | Bound::Own(_))) {
                *v = None;
            }
        });
    }
}

fn finish(mut e: Emitter<'_>, family: &str) -> std::result::Result<PtxKernel, Error> {
    let (kernel, passed, smem) = (e.kernel, e.passed, e.shared.bytes() as usize);
    let (tensor_maps, tmem_columns) = (e.maps.specs, e.places.columns as usize);
    let illegal = |what: String| Error::Emit { kernel: kernel.name.clone(), reason: what };
    for map in &tensor_maps {
        let said =
            |faults: Vec<MapFault>| faults.iter().map(MapFault::to_string).collect::<Vec<_>>().join("; ");
        check_map(map)
            .map_err(|faults| illegal(format!("tensor map of {}: {}", map.tensor, said(faults))))?;
    }
    let threads = e.asm.entry_mut().threads;
    let program = e.asm.finish().map_err(|faults| illegal(faults.to_string()))?;
    let mut offset = 0usize;
    let mut params = Vec::new();
    for ((name, kind), param) in passed.into_iter().zip(&program.params) {
        let (size, align) = param.kind.size();
        offset = offset.next_multiple_of(align as usize);
        params.push(LaunchParam { name, kind, offset, size: size as usize });
        offset += size as usize;
    }
    let grid = [grid::blocks(kernel), Extent::Const(1), Extent::Const(1)];
    let mut symbols = Vec::new();
    grid.iter().for_each(|extent| extent.symbols(&mut symbols));
    for param in &params {
        match &param.kind {
            ParamKind::U32(extent) | ParamKind::U64(extent) => extent.symbols(&mut symbols),
            ParamKind::Workspace { bytes, .. } => bytes.symbols(&mut symbols),
            ParamKind::TensorMap | ParamKind::Pointer { .. } => {}
        }
    }
    for extent in tensor_maps.iter().flat_map(|m| m.dims.iter().chain(&m.strides)) {
        extent.symbols(&mut symbols);
    }
    symbols.sort();
    symbols.dedup();
    Ok(PtxKernel {
        name: kernel.name.clone(),
        family: family.to_owned(),
        entry: program.entry.name.clone(),
        params,
        tensor_maps,
        grid,
        block: [threads, 1, 1],
        cluster: [kernel.cluster as u32, 1, 1],
        smem,
        tmem_columns,
        pdl: true,
        symbols,
        hash: content_hash(&program.text),
        text: program.text,
    })
}
