//! Bulk copies, tensor memory and matrix instructions: programs that hold every form.

use tessera_codegen::target::ptx::isa::{
    Asm, BulkLoad, Collector, CpShape, CtaGroup, Entry, Mma, MmaA, MmaKind, Operand, ParamKind, Program,
    PtxVersion, Reg, Symbol, Target, TmemShape, Ty,
};

fn finish(mut a: Asm) -> Program {
    a.ret();
    a.finish().unwrap_or_else(|faults| panic!("{faults}"))
}

fn bulk_copies() -> Program {
    let mut a = Asm::new(Entry::new("bulk", 128).cluster(2));
    let (map, data) = (a.param("map", ParamKind::TensorMap), a.param("data", ParamKind::Pointer));
    let (map, data) = (a.ld_param(map), a.ld_param(data));
    let base = a.smem_base();
    let bar = Symbol::Smem.at(512);
    let x = a.ld_global(Ty::U32, data);
    let leader = a.elect();
    let end = a.label("end");
    a.bra_unless(leader, end);
    a.prefetch_map(map);
    let own = BulkLoad::default();
    let cluster = BulkLoad { cluster: true, ..own };
    let mask = a.mov(Ty::U16, 3);
    let policy = Some(Operand::from(0x1000_0000_0000_0000u64));
    let coordinates: Vec<Operand> = vec![x.into(), 0.into(), x.into(), (-1).into(), x.into()];
    for rank in 1..=5 {
        let at = &coordinates[..rank];
        a.tma_load(own, base, map, at, bar);
        a.tma_load(cluster, base.at(1024), map, at, bar);
        a.tma_store(map, at, base);
        a.tma_add(map, at, base);
        a.tma_prefetch(map, at);
    }
    let at = &coordinates[..2];
    a.tma_load(BulkLoad { policy, ..own }, base, map, at, bar);
    a.tma_load(BulkLoad { multicast: Some(mask.into()), ..cluster }, base, map, at, bar);
    a.tma_load(BulkLoad { multicast: Some(3.into()), policy, pair: true, ..cluster }, base, map, at, bar);
    a.tma_load(BulkLoad { pair: true, ..cluster }, base, map, at, bar);
    let rows = [x, x, x, x].map(Operand::from);
    a.tma_gather4(own, base, map, 64, rows, bar);
    a.tma_gather4(BulkLoad { policy, ..own }, base, map, x, rows, bar);
    a.tma_gather4(BulkLoad { multicast: Some(mask.into()), ..cluster }, base, map, x, rows, bar);
    a.tma_gather4(BulkLoad { pair: true, ..cluster }, base, map, x, rows, bar);
    a.tma_scatter4(map, 0, rows, base);
    a.tma_store_hint(0x14f0_0000_0000_0000u64, map, at, base);
    a.bulk_load(own, base, data, 4096, bar);
    a.bulk_load(BulkLoad { policy, ..cluster }, base, data.at(16), x, bar);
    a.bulk_load(BulkLoad { multicast: Some(mask.into()), ..cluster }, base, data, x, bar);
    a.bulk_store(data, base, 512);
    a.bulk_add_f32(data, base, 512);
    a.bulk_prefetch(data, 8192);
    a.bulk_commit();
    a.bulk_wait(0);
    a.bulk_wait_read(1);
    let (far, far_bar) = (a.mapa(base, 1), a.mov_b32(0));
    a.bulk_to_cluster(far, base, 256, far_bar);
    for n in [1, 2, 4] {
        a.st_async(far, &[x; 4][..n], far_bar);
    }
    a.try_cancel(false, base, bar);
    a.try_cancel(true, base, bar);
    a.place(end);
    a.mbar_wait(bar, 0);
    let answer = a.ld_shared(Ty::B128, base);
    let found = a.is_canceled(answer);
    a.if_then(found, |a| {
        let first = a.first_cta(answer);
        first.iter().for_each(|r| a.st_global(Ty::B32, data, *r));
    });
    finish(a)
}

/// Registers for matrix instructions.
struct Factors {
    d: Reg,
    a: Reg,
    b: Reg,
    idesc: Reg,
    scales: (Reg, Reg),
    on: Reg,
}

fn factors(a: &mut Asm) -> (Factors, Reg) {
    let data = a.param("data", ParamKind::Pointer);
    let data = a.ld_param(data);
    let words = a.ld_global_vec(Ty::B32, 4, data);
    let wide = a.ld_global_vec(Ty::B64, 2, data.at(16));
    let on = a.setp(tessera_codegen::target::ptx::isa::Cmp::Ne, Ty::U32, words[0], 0);
    let factors =
        Factors { d: words[0], a: wide[0], b: wide[1], idesc: words[1], scales: (words[2], words[3]), on };
    (factors, data)
}

impl Factors {
    fn mma(&self, group: CtaGroup, kind: MmaKind) -> Mma {
        Mma {
            group,
            kind,
            d: self.d,
            a: MmaA::Shared(self.a),
            b: self.b,
            idesc: self.idesc,
            scales: kind.scaled().then_some(self.scales),
            accumulate: self.on.into(),
            collector: None,
        }
    }
}

fn matrix_program(name: &str, group: CtaGroup, target: (Target, PtxVersion)) -> Program {
    let entry = Entry::new(name, 128).target(target.0, target.1);
    let mut a = Asm::new(if group == CtaGroup::Two { entry.cluster(2) } else { entry });
    let (f, _) = factors(&mut a);
    let own = target.0 == Target::Sm100a;
    let bar = Symbol::Smem.at(64);
    a.tmem_alloc(group, Symbol::Smem, 512);
    a.tmem_relinquish(group);
    let leader = a.elect();
    let end = a.label("end");
    a.bra_unless(leader, end);
    for kind in MmaKind::ALL.iter().filter(|kind| own || **kind != MmaKind::I8) {
        let mma = f.mma(group, *kind);
        a.mma(mma);
        a.mma(Mma { accumulate: 1.into(), ..mma });
        a.mma(Mma { a: MmaA::Tensor(f.idesc), ..mma });
        for collector in [Collector::Fill, Collector::Use, Collector::LastUse, Collector::Discard] {
            a.mma(Mma { collector: Some(collector), ..mma });
        }
        if !kind.scaled() && group == CtaGroup::One {
            a.mma_ws(mma);
            a.mma_ws(Mma { a: MmaA::Tensor(f.idesc), ..mma });
            for buffer in 0..4 {
                a.mma_ws_with(Mma { collector: Some(Collector::Fill), ..mma }, buffer, Some(f.a));
            }
        }
    }
    for shape in CpShape::ALL {
        a.tmem_cp(group, *shape, f.d, f.a);
        a.tmem_cp_unpack(group, *shape, f.d, f.a);
    }
    if own {
        a.tmem_shift(group, f.d);
    }
    a.mma_commit(group, bar);
    let mask = a.mov(Ty::U16, 3);
    a.mma_commit_multicast(group, bar, mask);
    a.place(end);
    a.mbar_wait_relaxed(bar, 0);
    a.tmem_dealloc(group, f.d, 512);
    finish(a)
}

fn tensor_memory() -> Program {
    let mut a = Asm::new(Entry::new("tmem", 128));
    let (f, data) = factors(&mut a);
    let group = CtaGroup::One;
    a.tmem_alloc(group, Symbol::Smem, f.idesc);
    a.tmem_fence_before();
    a.sync_threads();
    a.tmem_fence_after();
    let base = a.ld_shared(Ty::B32, Symbol::Smem);
    let shapes = [
        TmemShape::S32x32b,
        TmemShape::S16x64b,
        TmemShape::S16x128b,
        TmemShape::S16x256b,
        TmemShape::S16x32bx2(16),
    ];
    for shape in shapes {
        for n in (0..8).map(|n| 1usize << n).filter(|n| n * shape.registers() <= 128) {
            let words = a.tmem_ld(shape, n, base);
            a.tmem_wait_ld();
            a.tmem_st(shape, base, &words);
            let packed = a.tmem_ld_pack(shape, n, base);
            a.tmem_wait_ld();
            a.tmem_st_unpack(shape, base, &packed);
            a.tmem_wait_st();
        }
        let floats = a.tmem_ld_f32(shape, 4, base);
        a.tmem_wait_ld();
        let sum = a.add_f32(floats[0], floats[3]);
        a.tmem_st(shape, base, &floats);
        a.tmem_wait_st();
        a.st_global(Ty::F32, data, sum);
    }
    a.tmem_dealloc(group, base, f.idesc);
    finish(a)
}

/// A program for each family.
pub(crate) fn programs() -> Vec<Program> {
    vec![
        bulk_copies(),
        tensor_memory(),
        matrix_program("mma_one", CtaGroup::One, (Target::Sm100a, PtxVersion(8, 7))),
        matrix_program("mma_two", CtaGroup::Two, (Target::Sm100a, PtxVersion(8, 7))),
        matrix_program("mma_family", CtaGroup::One, (Target::Sm100f, PtxVersion(8, 8))),
    ]
}
