//! Programs that the builder refuses, with what it says.

use tessera_codegen::target::ptx::isa::{
    Asm, AtomOp, BulkLoad, Class, Cmp, CtaGroup, Entry, Fault, Mma, MmaA, MmaKind, Pack, ParamKind,
    PtxVersion, Reg, Round, Scope, Space, Symbol, Target, TmemShape, Ty, Visibility,
};

/// Faults of a body as text.
fn faults_for(entry: Entry, body: impl FnOnce(&mut Asm)) -> Vec<String> {
    let mut a = Asm::new(entry);
    body(&mut a);
    a.ret();
    match a.finish() {
        Ok(program) => panic!("accepted:\n{}", program.text),
        Err(faults) => faults.faults.iter().map(Fault::to_string).collect(),
    }
}

fn faults(body: impl FnOnce(&mut Asm)) -> Vec<String> {
    faults_for(Entry::new("k", 128), body)
}

fn one(body: impl FnOnce(&mut Asm)) -> String {
    let faults = faults(body);
    assert_eq!(faults.len(), 1, "{faults:#?}");
    faults[0].clone()
}

fn word(a: &mut Asm) -> Reg {
    a.mov_b32(7)
}

fn float(a: &mut Asm) -> Reg {
    a.mov_f32(1.0f32)
}

#[test]
fn registers_of_the_wrong_class() {
    let said = one(|a| {
        let (x, f) = (word(a), float(a));
        a.add_f32(f, x);
    });
    assert_eq!(said, "`add.rn.f32 %f1, %f0, %r0`: %r0 does not hold .f32");
    assert!(
        one(|a| {
            let x = word(a);
            a.ld_global(Ty::B32, x);
        })
        .ends_with("%r0 does not hold .u64")
    );
    assert!(
        one(|a| {
            let f = float(a);
            a.guard(f, |a| a.trap());
        })
        .ends_with("%f0 does not hold .pred")
    );
}

#[test]
fn constants_that_do_not_fit() {
    let said = one(|a| {
        let x = word(a);
        a.add_s32(x, 1i64 << 33);
    });
    assert!(said.ends_with("the constant does not fit the type"), "{said}");
    let said = one(|a| {
        let f = float(a);
        a.mul_f32(f, 0.1f64);
    });
    assert!(said.ends_with("the constant is not an f32"), "{said}");
    let said = one(|a| {
        let f = float(a);
        a.mul_f32(f, 3);
    });
    assert!(said.ends_with("an integer where a float is wanted"), "{said}");
}

#[test]
fn forms_that_do_not_exist() {
    let bodies: [fn(&mut Asm); 9] = [
        |a| {
            let x = word(a);
            a.setp(Cmp::Ltu, Ty::U32, x, x);
        },
        |a| {
            let f = float(a);
            a.pack(Pack::Ue8m0x2, Round::Near, f, f);
        },
        |a| {
            let f = float(a);
            a.s32_f32(Round::Away, f);
        },
        |a| a.setmaxnreg_inc(100),
        |a| a.mbar_init(Symbol::Smem, 0),
        |a| a.bar_sync(16, 128),
        |a| a.bar_sync(1, 100),
        |a| {
            let x = word(a);
            a.st_shared_vec(Ty::B32, Symbol::Smem, &[x; 8]);
        },
        |a| {
            let f = float(a);
            a.atom(Space::Shared, AtomOp::Max, Ty::F32, Symbol::Smem, f);
        },
    ];
    for (i, body) in bodies.into_iter().enumerate() {
        let said = faults_for(Entry::new("k", 128).max_registers(128), body);
        assert!(!said.is_empty(), "case {i}: {said:?}");
        assert!(said.iter().all(|s| s.starts_with('`')), "case {i}: {said:?}");
    }
}

#[test]
fn visibility_of_the_wrong_kind() {
    let said = one(|a| {
        let to = a.mov_b64(0);
        let see = Visibility::Release(Scope::Gpu);
        a.ld_see(Space::Global, see, Ty::B32, to);
    });
    assert!(said.ends_with("loads acquire, they don't release"), "{said}");
}

#[test]
fn instructions_of_newer_machines() {
    let old = Entry::new("k", 128).target(Target::Sm90a, PtxVersion(8, 0));
    let said = faults_for(old, |a| {
        let w = a.mov_b64(0);
        a.add_f32x2(w, w);
    });
    assert_eq!(said, ["`add.rn.f32x2 %rd1, %rd0, %rd0` needs PTX 8.6 and Sm100, not on sm_90a with PTX 8.0"]);
    let said = one(|a| {
        let f = float(a);
        a.max3_f32(f, f, f);
    });
    assert!(said.ends_with("needs PTX 8.8 and Sm100, not on sm_100a with PTX 8.7"), "{said}");
}

#[test]
fn registers_never_written() {
    let said = one(|a| {
        let r = a.reg(Class::B32);
        a.add_s32(r, 1);
    });
    assert_eq!(said, "%r0 is read but never written");
}

#[test]
fn labels_and_guards() {
    assert_eq!(
        one(|a| {
            let l = a.label("nowhere");
            a.bra(l);
        }),
        "label L0_NOWHERE stands nowhere"
    );
    assert_eq!(
        one(|a| {
            let l = a.here("twice");
            a.place(l);
        }),
        "label L0_TWICE stands twice"
    );
    assert_eq!(
        one(|a| {
            let p = a.pred_const(true);
            a.guard(p, |a| a.guard(p, |a| a.trap()));
        }),
        "a guard inside a guard"
    );
}

#[test]
fn heads_that_cannot_be() {
    let entry = Entry::new("0bad", 2048).cluster(17).max_registers(300);
    let said = faults_for(entry.target(Target::Sm100f, PtxVersion(8, 7)), |a| {
        a.param("x", ParamKind::U32);
        a.param("x", ParamKind::U32);
        a.param("smem", ParamKind::U32);
        for n in 0..32 {
            a.param(&format!("map{n}"), ParamKind::TensorMap);
        }
    });
    assert_eq!(
        said,
        [
            "`0bad` is no name for an entry",
            "blocks of 2048 threads",
            "clusters of 17 blocks",
            "300 registers per thread",
            "sm_100f is newer than PTX 8.7",
            "two parameters `x`",
            "`smem` names shared memory",
            "parameters of 4160 bytes; 4096 at most",
        ]
    );
    assert_eq!(one(|a| a.setmaxnreg_inc(64)), "setmaxnreg without a number of registers at launch");
}

fn mma(a: &mut Asm, group: CtaGroup, kind: MmaKind, scaled: bool) -> Mma {
    let (d, wide, on) = (a.mov_b32(0), a.mov_b64(0), a.pred_const(true));
    let scales = scaled.then_some((d, d));
    let collector = None;
    Mma { group, kind, d, a: MmaA::Shared(wide), b: wide, idesc: d, scales, accumulate: on.into(), collector }
}

#[test]
fn matrix_instructions_that_do_not_exist() {
    let said = one(|a| {
        let first = mma(a, CtaGroup::One, MmaKind::F16, false);
        a.mma(first);
        a.tmem_relinquish(CtaGroup::Two);
        a.entry_mut().cluster = 2;
    });
    assert!(said.ends_with("a kernel uses one cta_group throughout"), "{said}");
    assert_eq!(one(|a| a.tmem_relinquish(CtaGroup::Two)), "pairs need clusters of an even number of blocks");
    let said = one(|a| {
        let bare = mma(a, CtaGroup::One, MmaKind::Mxf4, false);
        a.mma(bare);
    });
    assert!(said.ends_with("scales go with kinds that have scales"), "{said}");
    let said = one(|a| {
        let scaled = mma(a, CtaGroup::One, MmaKind::Mxf8f6f4, true);
        a.mma_ws(scaled);
    });
    assert!(said.ends_with("the weight-stationary form takes no scales"), "{said}");
    let said = one(|a| a.tmem_alloc(CtaGroup::One, Symbol::Smem, 96));
    assert!(said.ends_with("32, 64, 128, 256 or 512 columns"), "{said}");
    for n in [3, 64] {
        let said = one(|a| {
            let at = word(a);
            a.tmem_ld(TmemShape::S16x256b, n, at);
        });
        assert!(said.ends_with("a power of two of repeats, 128 registers at most"), "{said}");
    }
    let family = Entry::new("k", 128).target(Target::Sm100f, PtxVersion(8, 8));
    let said = faults_for(family, |a| {
        let bytes = mma(a, CtaGroup::One, MmaKind::I8, false);
        a.mma(bytes);
    });
    assert!(said[0].contains("needs PTX 8.6 and Sm100Own"), "{said:?}");
}

#[test]
fn bulk_copies_that_do_not_exist() {
    let load = |to: BulkLoad, coordinates: usize| {
        one(|a| {
            let map = a.mov_b64(0);
            a.tma_load(to, Symbol::Smem, map, &vec![0.into(); coordinates], Symbol::Smem.at(8));
        })
    };
    let own = BulkLoad::default();
    assert!(load(own, 6).ends_with("tensors have 1 to 5 dimensions"));
    let multicast = BulkLoad { multicast: Some(3.into()), ..own };
    assert!(load(multicast, 2).ends_with("multicast goes to the cluster's shared memory"));
    let pair = BulkLoad { pair: true, ..own };
    assert!(load(pair, 2).ends_with("pairs share barriers of the cluster's shared memory"));
    let said = one(|a| {
        let to = a.mov_b64(0);
        a.bulk_store(to, Symbol::Smem, 100);
    });
    assert!(said.ends_with("bulk copies have a multiple of 16 bytes"), "{said}");
}
