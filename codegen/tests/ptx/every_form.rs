//! Scalar, memory, control, warp and barrier instructions: programs that hold every form.

use tessera_codegen::target::ptx::isa::{
    Addr, Asm, AtomOp, Class, Cmp, Entry, Evict, FenceProxy, LoadHints, Logic, Operand, Pack, ParamKind,
    Prefetch, Program, PtxVersion, Reduce, Reg, Round, Scope, Shuffle, Space, Special, Symbol, Target, Ty,
    Visibility, Vote,
};

/// A program that keeps what it computes: every register given is stored.
fn program(name: &str, body: impl FnOnce(&mut Asm, &Inputs) -> Vec<Reg>) -> Program {
    program_for(Entry::new(name, 128), body)
}

/// Registers with values that the assembler can't know.
struct Inputs {
    x: Reg,
    y: Reg,
    z: Reg,
    wide: Reg,
    wide2: Reg,
    half: Reg,
    f: Reg,
    g: Reg,
    h: Reg,
    d: Reg,
    e: Reg,
    p: Reg,
    q: Reg,
    global: Reg,
}

fn program_for(entry: Entry, body: impl FnOnce(&mut Asm, &Inputs) -> Vec<Reg>) -> Program {
    let mut a = Asm::new(entry);
    let param = a.param("data", ParamKind::Pointer);
    let global = a.ld_param(param);
    let words = a.ld_global_vec(Ty::B32, 4, global);
    let wide = a.ld_global_vec(Ty::B64, 2, global.at(16));
    let floats = a.ld_global_vec(Ty::F32, 4, global.at(32));
    let doubles = a.ld_global_vec(Ty::F64, 2, global.at(48));
    let half = a.ld_global(Ty::B16, global.at(64));
    let p = a.setp(Cmp::Lt, Ty::S32, words[0], words[1]);
    let q = a.setp(Cmp::Gt, Ty::U32, words[1], words[2]);
    let inputs = Inputs {
        x: words[0],
        y: words[1],
        z: words[2],
        wide: wide[0],
        wide2: wide[1],
        half,
        f: floats[0],
        g: floats[1],
        h: floats[2],
        d: doubles[0],
        e: doubles[1],
        p,
        q,
        global,
    };
    let results = body(&mut a, &inputs);
    keep(&mut a, global, &results);
    a.ret();
    a.finish().unwrap_or_else(|faults| panic!("{faults}"))
}

fn keep(a: &mut Asm, global: Reg, results: &[Reg]) {
    for (i, reg) in (0i64..).zip(results) {
        let to = global.at(1024 + 16 * i);
        match reg.class() {
            Class::Pred => {
                let one = a.pred_u32(*reg);
                a.st_global(Ty::B32, to, one);
            }
            Class::B8 => {
                let word = a.u32_u8(*reg);
                a.st_global(Ty::B32, to, word);
            }
            class => a.st_global(Ty::bits_of(class), to, *reg),
        }
    }
}

fn integers() -> Vec<Program> {
    let all = program("integers", |a, i| {
        let (x, y, z, w, v) = (i.x, i.y, i.z, i.wide, i.wide2);
        let mut out = vec![
            a.add_u32(x, y),
            a.add_s32(x, -5),
            a.add_u64(w, v),
            a.add_s64(w, -1i64),
            a.sub_u32(x, y),
            a.sub_s32(x, y),
            a.sub_u64(w, v),
            a.sub_s64(w, v),
            a.mul_u32(x, y),
            a.mul_s32(x, 12),
            a.mul_u32(x, 64),
            a.mul_u64(w, v),
            a.mul_s64(w, 8),
            a.mul_hi_u32(x, y),
            a.mul_hi_u64(w, v),
            a.mul_wide_u32(x, y),
            a.mul_wide_s32(x, -3),
            a.div_u32(x, y),
            a.div_u32(x, 16),
            a.div_s32(x, 3),
            a.div_u64(w, v),
            a.div_s64(w, v),
            a.rem_u32(x, y),
            a.rem_u32(x, 32),
            a.rem_s32(x, 7),
            a.rem_u64(w, v),
            a.rem_s64(w, v),
        ];
        out.extend([
            a.min_u32(x, y),
            a.min_s32(x, y),
            a.min_u64(w, v),
            a.min_s64(w, v),
            a.max_u32(x, y),
            a.max_s32(x, 0),
            a.max_u64(w, v),
            a.max_s64(w, v),
            a.neg_s32(x),
            a.neg_s64(w),
            a.abs_s32(x),
            a.mad_u32(x, y, z),
            a.mad_s32(x, y, 7),
            a.mad_u64(w, v, w),
            a.mad_s64(w, v, 1),
            a.mad_wide_u32(x, 512, w),
            a.mad_wide_s32(x, y, w),
            a.dp4a_s32(x, y, z),
        ]);
        let folded = a.fold_add(x, 0);
        let product = a.fold_mul(3, y);
        let sum = a.fold_add(folded, product);
        let difference = a.fold_sub(100, sum);
        let quotient = a.fold_div(difference, 7);
        let rest = a.fold_rem(quotient, 5);
        out.push(a.in_reg(Ty::U32, rest));
        let element = a.element(i.global, x, 4);
        out.push(element);
        out
    });
    vec![all]
}

fn bits() -> Vec<Program> {
    let all = program("bits", |a, i| {
        let (x, y, z, w, v, h) = (i.x, i.y, i.z, i.wide, i.wide2, i.half);
        let mut out = vec![
            a.and_b16(h, 0xff),
            a.and_b32(x, 0xffff_0000u32),
            a.and_b64(w, v),
            a.and_pred(i.p, i.q),
            a.or_b16(h, 1),
            a.or_b32(x, y),
            a.or_b64(w, 0x4000_4040_0001_0000u64),
            a.or_pred(i.p, i.q),
            a.xor_b16(h, h),
            a.xor_b32(x, 1),
            a.xor_b64(w, u64::MAX),
            a.xor_pred(i.p, i.q),
            a.shl_b16(h, 3),
            a.shl_b32(x, y),
            a.shl_b64(w, 32),
            a.shr_u16(h, 8),
            a.shr_u32(x, 5),
            a.shr_s32(x, 31),
            a.shr_u64(w, x),
            a.shr_s64(w, 63),
        ];
        out.extend([
            a.not_b16(h),
            a.not_b32(x),
            a.not_b64(w),
            a.not_pred(i.p),
            a.popc_b32(x),
            a.popc_b64(w),
            a.clz_b32(x),
            a.clz_b64(w),
            a.brev_b32(x),
            a.brev_b64(w),
            a.bfind_u32(x),
            a.bfind_u64(w),
            a.prmt(x, y, 0x5410),
            a.lop3(x, y, z, 0xe8),
            a.bfe_u32(x, 4, 8),
            a.bfe_s32(x, y, 8),
            a.bfe_u64(w, 4, 40),
            a.bfi_b32(x, y, 8, 4),
            a.bfi_b64(w, v, 8, z),
            a.shf_l(x, y, z),
            a.shf_r(x, y, 7),
        ]);
        out
    });
    vec![all]
}

fn comparisons_and_moves() -> Vec<Program> {
    let all = program("comparisons", |a, i| {
        let mut out = Vec::new();
        for cmp in [Cmp::Eq, Cmp::Ne, Cmp::Lt, Cmp::Le, Cmp::Gt, Cmp::Ge] {
            out.extend([
                a.setp(cmp, Ty::S32, i.x, i.y),
                a.setp(cmp, Ty::U64, i.wide, 5),
                a.setp(cmp, Ty::U16, i.half, 3),
                a.setp(cmp, Ty::F32, i.f, 0.0f32),
                a.setp(cmp, Ty::F64, i.d, 1.5f64),
            ]);
        }
        for cmp in [Cmp::Equ, Cmp::Neu, Cmp::Ltu, Cmp::Leu, Cmp::Gtu, Cmp::Geu, Cmp::Num, Cmp::Nan] {
            out.push(a.setp(cmp, Ty::F32, i.f, i.g));
        }
        for logic in [Logic::And, Logic::Or, Logic::Xor] {
            let operands = [i.x.into(), Operand::Int(9)];
            out.push(a.setp_with(Cmp::Lt, Ty::U32, operands, logic, (i.p, false)));
        }
        out.extend([
            a.setp(Cmp::Eq, Ty::B32, i.x, i.y),
            a.selp(Ty::B32, i.x, i.y, i.p),
            a.selp(Ty::F32, i.f, f32::NEG_INFINITY, i.p),
            a.selp(Ty::U64, i.wide, 0, i.q),
            a.selp(Ty::B16, i.half, 1, i.q),
            a.selp(Ty::F64, i.d, i.e, i.q),
            a.pred_const(true),
            a.pred_u32(i.p),
            a.mov_b32(0xdead_beefu32),
            a.mov_b64(u64::MAX),
            a.mov_f32(-0.0f32),
            a.mov(Ty::F64, 0.1f64),
            a.mov(Ty::U16, 3),
            a.bits(i.f),
            a.bits(i.x),
            a.bits(i.d),
            a.bits(i.wide),
            a.smem_base(),
        ]);
        let pair = a.join2(i.f, i.g);
        let halves = a.split2(pair, Class::F32);
        let quarters = a.split(pair, Class::B16, 4);
        let again = a.join(Class::B64, &[0, 1, 2, 3].map(|n: usize| quarters[n].into()));
        let bytes = a.split(i.x, Class::B8, 4);
        let word = a.join(Class::B16, &[bytes[0].into(), bytes[3].into()]);
        out.extend(halves);
        out.extend([again, word]);
        out.extend(Special::ALL.iter().map(|s| a.special(*s)));
        out
    });
    vec![all]
}

fn floats() -> Vec<Program> {
    let all = program("floats", |a, i| {
        let (f, g, h, d, e, w, v, x, y) = (i.f, i.g, i.h, i.d, i.e, i.wide, i.wide2, i.x, i.y);
        let mut out = vec![
            a.add_f32(f, g),
            a.sub_f32(f, 1.0),
            a.mul_f32(f, g),
            a.div_f32(f, g),
            a.min_f32(f, g),
            a.max_f32(f, 0.0),
            a.min_nan_f32(f, g),
            a.max_nan_f32(f, g),
            a.copysign_f32(f, g),
            a.fma_f32(f, g, h),
            a.neg_f32(f),
            a.abs_f32(f),
            a.sqrt_f32(f),
            a.rcp_f32(f),
            a.rcp_approx_f32(f),
            a.rsqrt_approx_f32(f),
            a.sqrt_approx_f32(f),
            a.ex2_f32(f),
            a.lg2_f32(f),
            a.tanh_approx_f32(f),
            a.sin_approx_f32(f),
            a.cos_approx_f32(f),
            a.rcp_ftz_f32(f),
            a.rsqrt_ftz_f32(f),
            a.ex2_ftz_f32(f),
            a.lg2_ftz_f32(f),
        ];
        out.extend([
            a.add_f64(d, e),
            a.sub_f64(d, e),
            a.mul_f64(d, e),
            a.div_f64(d, e),
            a.min_f64(d, e),
            a.max_f64(d, e),
            a.fma_f64(d, e, 0.5),
            a.neg_f64(d),
            a.abs_f64(d),
            a.sqrt_f64(d),
            a.rcp_f64(d),
            a.add_f32x2(w, v),
            a.sub_f32x2(w, v),
            a.mul_f32x2(w, v),
            a.fma_f32x2(w, v, w),
            a.splat_f32x2(f),
            a.add_bf16x2(x, y),
            a.sub_bf16x2(x, y),
            a.mul_bf16x2(x, y),
            a.fma_bf16x2(x, y, x),
            a.max_nan_bf16x2(x, y),
            a.min_nan_bf16x2(x, y),
            a.neg_bf16x2(x),
            a.abs_bf16x2(x),
            a.ex2_bf16x2(x),
            a.add_f16x2(x, y),
            a.mul_f16x2(x, y),
            a.fma_f16x2(x, y, x),
        ]);
        out
    });
    let newer = Entry::new("floats_88", 128).target(Target::Sm100a, PtxVersion(8, 8));
    let newer = program_for(newer, |a, i| {
        let wide = a.ld_global_vec(Ty::F32, 8, i.global.at(128));
        a.st_global_vec(Ty::F32, i.global.at(256), &wide);
        vec![a.max3_f32(i.f, i.g, i.h), a.min3_f32(i.f, i.g, 0.0)]
    });
    assert_eq!(newer.requires().0, PtxVersion(8, 8));
    vec![all, newer]
}

fn conversions() -> Vec<Program> {
    let all = program("conversions", |a, i| {
        let (f, g, x, h) = (i.f, i.g, i.x, i.half);
        let byte = a.u8_u32(x);
        let mut out = vec![
            a.u64_u32(x),
            a.s64_s32(x),
            a.u32_u64(i.wide),
            a.u32_u16(h),
            a.u16_u32(x),
            a.u32_u8(byte),
            a.cvt(Ty::S32, Ty::S16, None, h),
            a.cvt(Ty::S32, Ty::S8, None, byte),
            a.f32_u32(x),
            a.f32_s32(x),
            a.cvt(Ty::F32, Ty::U64, Some(Round::Near), i.wide),
            a.cvt(Ty::U64, Ty::F32, Some(Round::Zero), f),
            a.f64_f32(f),
            a.f32_f64(i.d),
            a.cvt(Ty::F64, Ty::S32, Some(Round::Near), x),
            a.cvt(Ty::S64, Ty::F64, Some(Round::Down), i.d),
            a.f32_bf16(h),
            a.bf16_f32(f),
            a.f32_f16(h),
            a.cvt(Ty::F16, Ty::F32, Some(Round::Near), f),
            a.cvt(Ty::Bf16, Ty::F32, Some(Round::Zero), f),
            a.tf32_f32(f),
            a.cvt(Ty::Tf32, Ty::F32, Some(Round::Near), f),
        ];
        for round in [Round::Near, Round::Zero, Round::Down, Round::Up] {
            out.extend([a.s32_f32(round, f), a.cvt(Ty::F32, Ty::F64, Some(round), i.d)]);
        }
        out.extend(a.f32_bf16x2(x));
        out.extend(a.f32_f16x2(x));
        let e4m3 = a.e4m3x2_f32(f, g);
        let e2m1 = a.e2m1x2_f32(f, g);
        let scale = a.ue8m0x2_f32(Round::Up, f, g);
        let f16 = a.f16x2_f32(f, g);
        out.extend([
            e4m3,
            e2m1,
            scale,
            f16,
            a.bf16x2_f32(f, g),
            a.pack(Pack::Bf16x2, Round::Zero, f, 0.0),
            a.pack(Pack::E5m2x2, Round::Near, f, g),
            a.ue8m0x2_f32(Round::Zero, f, g),
            a.e4m3x4_f32([f, g, f, g]),
            a.e2m1x8_f32([f, g, f, g, g, f, g, f]),
            a.f16x2_e4m3x2(e4m3),
            a.repack(Pack::F16x2, Pack::E5m2x2, e4m3),
            a.f16x2_e2m1x2(e2m1),
            a.bf16x2_ue8m0x2(scale),
            a.repack(Pack::E4m3x2, Pack::F16x2, f16),
        ]);
        out
    });
    vec![all]
}

fn memory() -> Vec<Program> {
    let all = program("memory", |a, i| {
        let g = i.global;
        let base = a.smem_base();
        let cpu = Scope::Cluster;
        let mut out = vec![
            a.ld_shared(Ty::B32, base.at(-16)),
            a.ld_shared(Ty::F32, Symbol::Smem.at(64)),
            a.ld_see(Space::Global, Visibility::Acquire(Scope::Gpu), Ty::B32, g),
            a.ld_see(Space::Global, Visibility::Relaxed(Scope::Sys), Ty::U64, g),
            a.ld_see(Space::Shared, Visibility::Volatile, Ty::U32, base),
            a.atom(Space::Global, AtomOp::Add, Ty::U32, g, 1),
            a.atom(Space::Shared, AtomOp::Add, Ty::U32, base, i.x),
            a.atom(Space::Shared, AtomOp::Max, Ty::S32, Symbol::Smem, i.x),
            a.atom(Space::Global, AtomOp::Add, Ty::F32, g, i.f),
            a.atom(Space::Global, AtomOp::Min, Ty::U64, g, i.wide),
            a.atom(Space::Shared, AtomOp::Or, Ty::B32, base, i.x),
            a.atom(Space::Shared, AtomOp::Xor, Ty::B64, base, i.wide),
            a.atom(Space::Global, AtomOp::And, Ty::B32, g, i.x),
            a.atom(Space::Global, AtomOp::Exch, Ty::B32, g, i.x),
            a.atom(Space::Global, AtomOp::Inc, Ty::U32, g, 7),
            a.atom_see(Space::Global, Visibility::AcqRel(Scope::Gpu), AtomOp::Add, Ty::U32, g, 1),
            a.cas(Space::Global, Ty::B32, g, i.x, i.y),
            a.mapa(base, 1),
        ];
        out.extend(a.ld_hint(LoadHints::STREAM, Ty::B32, 4, g));
        out.extend(a.ld_hint(LoadHints::CONSTANT, Ty::B64, 2, g));
        let policy = Some(Operand::from(0x12f0_0000_0000_0000u64));
        let kept = LoadHints { constant: false, l1: Some(Evict::First), l2: Some(Prefetch::B128), policy };
        out.extend(a.ld_hint(kept, Ty::F32, 2, g));
        let policy = Some(i.wide.into());
        let last = LoadHints { constant: true, l1: Some(Evict::Last), l2: Some(Prefetch::B64), policy };
        out.extend(a.ld_hint(last, Ty::B32, 1, g));
        out.extend(a.ld_shared_vec(Ty::B32, 4, base));
        out.extend(a.ld_shared_vec(Ty::F64, 2, base));
        out.extend(a.ld_shared_vec(Ty::B16, 4, base));
        let quad = a.ld_shared(Ty::B128, base.at(16));
        out.extend(a.split(quad, Class::B64, 2));
        out.extend(a.ldmatrix(4, false, base));
        out.extend(a.ldmatrix(2, true, base));
        out.extend(a.ldmatrix(1, false, base));
        let byte = a.ld_global(Ty::B8, g.at(5));
        a.st_global(Ty::B8, g.at(6), byte);
        a.st_shared(Ty::B8, base, byte);
        let byte = a.ld_shared(Ty::U8, base);
        out.push(byte);
        a.st_shared(Ty::B32, base, 17);
        a.st_shared(Ty::F32, base.at(4), 1.5f32);
        a.st_shared(Ty::B16, base.at(4), i.half);
        a.st_shared_vec(Ty::B32, base.at(16), &[i.x, i.y, i.x, i.y]);
        a.st_shared_vec(Ty::B64, base.at(16), &[i.wide, i.wide2]);
        a.st_global_vec(Ty::F32, g.at(16), &[i.f, i.g]);
        a.st_see(Space::Global, Visibility::Release(Scope::Gpu), Ty::B32, g, i.x);
        a.st_see(Space::Shared, Visibility::Relaxed(cpu), Ty::B32, base, i.x);
        a.st_hint(Some(Evict::NoAllocate), Some(0x14f0_0000_0000_0000u64.into()), Ty::B32, g, &[i.x, i.y]);
        let far = a.mapa(base, i.x);
        a.st(Space::Cluster, Ty::B32, far, i.x);
        out.push(a.ld(Space::Cluster, Ty::B32, far));
        out.push(a.atom(Space::Cluster, AtomOp::Add, Ty::U32, far, 1));
        a.red(Space::Global, AtomOp::Add, Ty::U32, g, 1);
        a.red(Space::Shared, AtomOp::Max, Ty::U32, base, i.x);
        a.red(Space::Global, AtomOp::Add, Ty::F32, g, i.f);
        a.red_add_f32_vec(g, &[i.f, i.g, i.f, i.g]);
        a.red_add_f32_vec(g, &[i.f, i.g]);
        a.red_add_bf16x2(g, i.x);
        a.red_release_add_u32(Scope::Gpu, g, 1);
        a.stmatrix(false, base, &[i.x, i.y, i.x, i.y]);
        a.stmatrix(true, base, &[i.x, i.y]);
        a.stmatrix_b8(base, &[i.x, i.y, i.x, i.y]);
        a.stmatrix_b8(base, &[i.x]);
        a.cp_async(16, base, g);
        a.cp_async(4, base, g.at(4));
        a.cp_async_valid(8, base, g, i.x);
        a.cp_async_commit();
        a.cp_async_wait(1);
        a.cp_async_arrive(base.at(128));
        a.prefetch_l2(g);
        let address: Addr = Symbol::Smem.at(8).plus(8);
        a.st_shared(Ty::B32, address, 0);
        out
    });
    vec![all]
}

fn warps_and_control() -> Vec<Program> {
    let entry = Entry::new("warps", 128).cluster(2).max_registers(128);
    let all = program_for(entry, |a, i| {
        a.griddep_wait();
        let mut out = vec![
            a.shfl(Shuffle::Up, i.x, 1),
            a.shfl_width(Shuffle::Bfly, i.f, 4, 8),
            a.shfl_width(Shuffle::Up, i.f, 1, 16),
            a.shfl_bfly(i.x, 16),
            a.shfl_idx(i.f, i.y),
            a.ballot(i.p),
            a.vote(Vote::All, i.p),
            a.vote(Vote::Any, i.p),
            a.vote(Vote::Uni, i.p),
            a.redux(Reduce::Add, Ty::U32, i.x),
            a.redux(Reduce::Add, Ty::S32, i.x),
            a.redux(Reduce::Min, Ty::S32, i.x),
            a.redux(Reduce::Max, Ty::U32, i.x),
            a.redux(Reduce::And, Ty::B32, i.x),
            a.redux(Reduce::Or, Ty::B32, i.x),
            a.redux(Reduce::Xor, Ty::B32, i.x),
            a.redux_max_f32(i.f, true, true),
            a.redux_max_f32(i.f, false, false),
            a.redux_min_f32(i.f, false, true),
            a.match_any(Ty::B32, i.x),
            a.match_any(Ty::B64, i.wide),
            a.elect(),
            a.active_mask(),
        ];
        let (down, valid) = a.shfl_down(i.f, 2);
        out.extend([down, valid]);
        a.warp_sync();
        a.comment("loops\nand branches");
        let sum = a.mov_b32(0);
        a.for_range("rows", 0, i.y, 2, |a, n| a.add_s32_to(sum, sum, n));
        a.do_while("again", |a| {
            a.sub_s32_to(sum, sum, 3);
            a.setp(Cmp::Gt, Ty::S32, sum, 0)
        });
        a.if_then(i.p, |a| a.add_s32_to(sum, sum, 1));
        a.if_not(i.p, |a| a.add_s32_to(sum, sum, 2));
        a.if_else(i.q, |a| a.add_s32_to(sum, sum, 3), |a| a.add_s32_to(sum, sum, 4));
        a.guard(i.p, |a| a.add_s32_to(sum, sum, 5));
        a.guard_not(i.p, |a| a.trap());
        let end = a.label("end");
        a.bra_if(i.q, end);
        a.nanosleep(64);
        a.nanosleep(sum);
        a.place(end);
        let over = a.label("over");
        a.bra_uni(over);
        a.place(over);
        a.setmaxnreg_dec(64);
        a.setmaxnreg_inc(128);
        out.push(sum);
        a.griddep_launch();
        a.guard(i.p, |a| a.exit());
        out
    });
    vec![all]
}

fn barriers() -> Vec<Program> {
    let all = program_for(Entry::new("barriers", 128).cluster(2), |a, i| {
        let base = a.smem_base();
        a.mbar_init(base, 1);
        a.mbar_init(Symbol::Smem.at(8), 256);
        a.fence_mbarrier_init();
        a.cluster_sync();
        a.cluster_arrive_relaxed();
        a.cluster_wait();
        a.sync_threads();
        a.bar_sync(1, 64);
        a.bar_sync(i.x, i.y);
        a.bar_arrive(2, 64);
        let out = vec![
            a.bar_any(3, 128, i.p),
            a.bar_all(4, 128, i.p),
            a.bar_count(5, 128, i.q),
            a.mbar_try_wait(base, i.x),
            a.mbar_test_wait(base, 1),
        ];
        for scope in [Scope::Cta, Scope::Cluster, Scope::Gpu, Scope::Sys] {
            a.fence(scope);
        }
        for which in [FenceProxy::All, FenceProxy::SharedCta, FenceProxy::Global] {
            a.fence_proxy(which);
        }
        a.mbar_arrive(base);
        a.mbar_arrive_n(base, 2);
        a.mbar_expect_tx(base, 4096);
        a.mbar_arrive_expect_tx(base, i.x);
        let far = a.mapa(base, 0);
        a.mbar_arrive_remote(far);
        a.mbar_arrive_expect_tx_remote(far, 16384);
        a.mbar_wait(base, 0);
        a.mbar_wait_cluster(base.at(8), i.x);
        a.mbar_wait_relaxed(base, i.x);
        a.mbar_inval(base);
        out
    });
    vec![all]
}

/// A program or more for each family.
pub(crate) fn programs() -> Vec<Program> {
    [
        integers(),
        bits(),
        comparisons_and_moves(),
        floats(),
        conversions(),
        memory(),
        warps_and_control(),
        barriers(),
    ]
    .concat()
}
