//! The text of a small program, whole.

use tessera_codegen::target::ptx::isa::{
    Asm, Class, Cmp, Entry, Feature, ParamKind, PtxVersion, Round, Special, Symbol, Ty,
};

#[test]
fn a_small_program_reads_well() {
    let mut entry = Entry::new("row_sum", 128).cluster(2).max_registers(96);
    entry.notes.push("sum of each row of 128".to_owned());
    let mut a = Asm::new(entry);
    let (x, y, rows) =
        (a.param("x", ParamKind::Pointer), a.param("y", ParamKind::Pointer), a.param("rows", ParamKind::U32));
    let map = a.param("x_map", ParamKind::TensorMap);
    let (x, y, rows, _map) = (a.ld_param(x), a.ld_param(y), a.ld_param(rows), a.ld_param(map));
    a.comment("one row a block");
    let (row, tid) = (a.special(Special::CtaIdX), a.special(Special::TidX));
    let outside = a.setp(Cmp::Ge, Ty::U32, row, rows);
    let end = a.label("end");
    a.bra_if(outside, end);
    let index = a.mad_u32(row, 128, tid);
    let from = a.element(x, index, 4);
    let value = a.ld_global(Ty::F32, from);
    let sum = a.reg(Class::F32);
    a.mul_f32_to(sum, value, 0.5f32);
    for step in [16, 8, 4, 2, 1] {
        let other = a.shfl_bfly(sum, step);
        a.add_f32_to(sum, sum, other);
    }
    let first = a.setp(Cmp::Eq, Ty::U32, tid, 0);
    let to = a.element(y, row, 4);
    a.guard(first, |a| a.st_global(Ty::F32, to, sum));
    let rounded = a.s32_f32(Round::Near, sum);
    a.guard_not(first, |a| a.st_shared(Ty::B32, Symbol::Smem.at(16), rounded));
    a.place(end);
    a.ret();
    let program = a.finish().unwrap_or_else(|faults| panic!("{faults}"));
    assert_eq!(program.requires(), (PtxVersion(8, 6), Feature::Sm80));
    insta::assert_snapshot!(program.text);
}
