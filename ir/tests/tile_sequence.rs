//! One order of all roles: merged loops, chosen slots, and the two ways in which there is none.

use tessera_ir::tile::{Kernel, Op, SequenceFault, SlotRef, Stmt, Value, parse, sequence};

fn kernel(text: &str) -> Kernel {
    parse(text).unwrap_or_else(|e| panic!("{e}"))
}

/// Mnemonics in order, `{` and `}` around bodies.
fn outline(block: &[Stmt]) -> String {
    let mut out = Vec::new();
    for stmt in block {
        match stmt {
            Stmt::Op(node) => out.push(node.op.mnemonic().to_owned()),
            Stmt::For { body, .. } => out.push(format!("for {{ {} }}", outline(body))),
            Stmt::If { body, .. } => out.push(format!("if {{ {} }}", outline(body))),
        }
    }
    out.join(" ")
}

const STREAM: &str = "
    param %x : [64, 64] bf16 read
    param %w : [16, 64] bf16 read
    param %y : [64, 16] f32 write
";

/// Two roles that move slots of `%a` and `%b` in loops with the given bounds.
fn stream(copy: &str, matrix: &str, depth: usize) -> String {
    format!(
        "tessera.tile 1 kernel @k {{ {STREAM}
        ring %a : stage tile<16x64, bf16> depth {depth} path copy -> vector
        ring %b : stage tile<16x64, bf16> depth 1 path copy -> vector
        role copy copy {{ %z0 = index.const {{value = 0}} : index {copy} }}
        role vector vector {{ %z1 = index.const {{value = 0}} : index {matrix} }} }}"
    )
}

#[test]
fn straight_roles_follow_each_other() {
    let k = kernel(include_str!("filetests/tile/ok/linear_w8.tile"));
    let s = sequence(&k).expect("an order");
    let text = outline(&s.body);
    assert!(text.contains("copy index.tile index.dim index index.const index mma"), "{text}");
    assert!(text.ends_with("for { slot.load cast index store }"), "{text}");
    // %14 and %21 are the same slot of ring %b, %31 the accumulator that %23 is.
    assert_eq!(s.slot(Value(14)), Some(SlotRef { ring: 1, slot: 0 }));
    assert_eq!(s.slot(Value(21)), s.slot(Value(14)));
    assert_eq!(s.slot(Value(31)), s.slot(Value(23)));
    assert_eq!(s.slot(Value(8)), None);
}

#[test]
fn loops_with_equal_bounds_become_one() {
    let copy = "%n0 = index.const {value = 64} : index
        for %i = %z0 to %n0 step 16 {
          %s = acquire %a : slot %a
          copy %x, (%i, %z0), %s, %n0
          pass %s
        }";
    // The same bound, computed otherwise.
    let vector = "%h = index.const {value = 32} : index
        %n1 = index %h, %h {f = add} : index
        for %j = %z1 to %n1 step 16 {
          %t = take %a : slot %a
          %v = slot.load %t, %z1, %z1 {rows = 16, cols = 16} : tile<16x16, f32>
          store %v, %y, (%j, %z1)
          release %t
        }";
    let k = kernel(&stream(copy, vector, 3));
    let s = sequence(&k).expect("an order");
    assert_eq!(
        outline(&s.body),
        "index.const index.const index.const index.const index for { copy slot.load store }"
    );
    let Some(Stmt::For { var, body, .. }) = s.body.last() else { panic!("a loop") };
    let Stmt::Op(store) = &body[2] else { panic!("an op") };
    let Op::Store { at, .. } = &store.op else { panic!("a store") };
    assert_eq!(at[0], *var, "the second role's counter is replaced by the first's");
}

#[test]
fn a_loop_that_leaves_the_rings_alone_runs_whole() {
    let copy = "%p = acquire %a : slot %a
        pass %p";
    let vector = "%q = take %a : slot %a
        %n1 = index.const {value = 2} : index
        for %j = %z1 to %n1 step 1 {
          %v = slot.load %q, %j, %z1 {rows = 1, cols = 16} : tile<1x16, f32>
          store %v, %y, (%j, %z1)
        }
        release %q";
    let s = sequence(&kernel(&stream(copy, vector, 1))).expect("an order");
    assert!(outline(&s.body).ends_with("for { slot.load store }"));
}

#[test]
fn equal_conditions_become_one() {
    let copy = "if %z0 { %p = acquire %a : slot %a pass %p }";
    let vector = "if %z1 { %q = take %a : slot %a release %q }";
    let s = sequence(&kernel(&stream(copy, vector, 1))).expect("an order");
    assert_eq!(outline(&s.body), "index.const index.const if {  }");
}

#[test]
fn slots_of_one_iteration_differ_while_both_are_held() {
    let copy = "%p = acquire %a : slot %a
        pass %p
        %p2 = acquire %a : slot %a
        pass %p2";
    let vector = "%q = take %a : slot %a
        %q2 = take %a : slot %a
        release %q
        release %q2";
    let k = kernel(&stream(copy, vector, 2));
    let s = sequence(&k).expect("an order");
    let slots: Vec<usize> = s.slots.iter().flatten().map(|s| s.slot).collect();
    assert_eq!(slots, [0, 1, 0, 1]);
    // One slot is not enough: the taker releases nothing before it holds both.
    let fault = sequence(&kernel(&stream(copy, vector, 1))).expect_err("a deadlock");
    let SequenceFault::Deadlock { waits } = &fault else { panic!("{fault}") };
    assert_eq!(waits.len(), 2);
    assert_eq!((waits[0].role.as_str(), waits[0].on.as_str()), ("copy", "a free slot of %a (depth 1)"));
    assert_eq!((waits[1].role.as_str(), waits[1].on.as_str()), ("vector", "a slot of %a from role copy"));
}

#[test]
fn opposite_orders_deadlock_even_in_equal_loops() {
    let copy = "%n0 = index.const {value = 4} : index
        for %i = %z0 to %n0 step 1 {
          %p = acquire %a : slot %a
          pass %p
          %q = acquire %a : slot %a
          pass %q
          %r = acquire %b : slot %b
          pass %r
        }";
    let vector = "%n1 = index.const {value = 4} : index
        for %j = %z1 to %n1 step 1 {
          %s = take %b : slot %b
          release %s
          %t = take %a : slot %a
          release %t
          %u = take %a : slot %a
          release %u
        }";
    let fault = sequence(&kernel(&stream(copy, vector, 1))).expect_err("no order");
    let SequenceFault::Deadlock { waits } = &fault else { panic!("{fault}") };
    assert_eq!(waits[0].statement, "%9 = acquire %a : slot %a");
    assert_eq!(waits[1].statement, "%14 = take %b : slot %b");
    sequence(&kernel(&stream(copy, vector, 2))).expect("two slots are enough");
}

#[test]
fn different_trip_counts_are_a_rate_mismatch() {
    let copy = "%n0 = index.const {value = 4} : index
        for %i = %z0 to %n0 step 1 { %p = acquire %a : slot %a pass %p }";
    let vector = "%n1 = index.const {value = 5} : index
        for %j = %z1 to %n1 step 1 { %q = take %a : slot %a release %q }";
    let fault = sequence(&kernel(&stream(copy, vector, 8))).expect_err("no order");
    assert!(matches!(fault, SequenceFault::Bounds { .. }), "{fault}");
}

/// Loops of two roles over slots of `%a`, with bounds that `copy` and `vector` define as `%lo0`, `%hi0` and `%lo1`, `%hi1`.
fn loops(copy: &str, vector: &str) -> String {
    let copy = format!("{copy} for %i = %lo0 to %hi0 step 1 {{ %p = acquire %a : slot %a pass %p }}");
    let vector = format!("{vector} for %j = %lo1 to %hi1 step 1 {{ %q = take %a : slot %a release %q }}");
    let text = stream(&copy, &vector, 1);
    text.replace(
        STREAM,
        "param %ends : [64] i32 read param %state : [64] i32 update param %x : [64] bf16 read",
    )
}

#[test]
fn bounds_are_compared_as_expressions() {
    let equal = [
        // What is only read is the same for every role.
        ("%lo0 = index.read %ends, (%z0) : index %hi0 = index.read %ends, (%lo0) : index", true),
        (
            "%t0 = index.tile {axis = 0} : index %lo0 = index %t0, %z0 {f = add} : index %hi0 = index.dim {dim = T} : index",
            true,
        ),
        // What is written may have changed in between.
        ("%lo0 = index.read %state, (%z0) : index %hi0 = index.read %ends, (%z0) : index", false),
    ];
    for (bounds, fits) in equal {
        let other = bounds.replace('0', "1").replace("axis = 1", "axis = 0");
        assert_eq!(sequence(&kernel(&loops(bounds, &other))).is_ok(), fits, "{bounds}");
    }
    let sides = |f: &str, a: &str, b: &str| {
        let bounds = |n: usize, a: &str, b: &str| {
            format!(
                "%t{n} = index.tile {{axis = 0}} : index %d{n} = index.dim {{dim = T}} : index
                 %lo{n} = index.const {{value = 0}} : index %hi{n} = index %{a}{n}, %{b}{n} {{f = {f}}} : index"
            )
        };
        sequence(&kernel(&loops(&bounds(0, "t", "d"), &bounds(1, a, b)))).is_ok()
    };
    for f in ["add", "mul", "min", "max", "xor", "and", "eq"] {
        assert!(sides(f, "d", "t") && sides(f, "t", "d"), "{f} has no order");
    }
    for f in ["sub", "div", "rem", "lt", "le"] {
        assert!(!sides(f, "d", "t") && sides(f, "t", "d"), "{f} has an order");
    }
}

#[test]
fn slots_left_over_by_an_iteration_are_a_rate_mismatch() {
    let copy = "%n0 = index.const {value = 4} : index
        for %i = %z0 to %n0 step 1 {
          %p = acquire %a : slot %a
          pass %p
          %o = acquire %a : slot %a
          pass %o
        }";
    let vector = "%n1 = index.const {value = 4} : index
        for %j = %z1 to %n1 step 1 { %q = take %a : slot %a release %q }";
    let fault = sequence(&kernel(&stream(copy, vector, 8))).expect_err("no order");
    let SequenceFault::Rate { ring, place } = &fault else { panic!("{fault}") };
    assert_eq!((ring.as_str(), place.starts_with("an iteration of `for")), ("a", true));
}

#[test]
fn slots_left_over_at_the_end_are_a_rate_mismatch() {
    let copy = "%p = acquire %a : slot %a
        pass %p
        %o = acquire %a : slot %a
        pass %o";
    let vector = "%q = take %a : slot %a
        release %q";
    let fault = sequence(&kernel(&stream(copy, vector, 8))).expect_err("a slot is never taken");
    assert_eq!(fault, SequenceFault::Rate { ring: "a".into(), place: "the whole program".into() });
}

#[test]
fn loops_of_two_roles_run_before_a_third_joins() {
    // Both pairs of loops have equal bounds, but the second pair needs what the first one's roles pass after it.
    let text = "tessera.tile 1 kernel @k {
        param %x : [64, 64] bf16 read
        ring %a : stage tile<16x64, bf16> depth 1 path one -> two
        ring %b : vec tile<16x64, bf16> depth 1 path two -> three
        ring %c : vec tile<16x64, bf16> depth 1 path two -> three
        role copy one {
          %z0 = index.const {value = 0} : index
          %n0 = index.const {value = 4} : index
          for %i = %z0 to %n0 step 1 { %p = acquire %a : slot %a pass %p }
        }
        role vector two {
          %z1 = index.const {value = 0} : index
          %n1 = index.const {value = 4} : index
          for %j = %z1 to %n1 step 1 { %q = take %a : slot %a release %q }
          %r = acquire %b : slot %b
          pass %r
          for %l = %z1 to %n1 step 1 { %s = acquire %c : slot %c pass %s }
        }
        role vector three {
          %z2 = index.const {value = 0} : index
          %n2 = index.const {value = 4} : index
          for %m = %z2 to %n2 step 1 { %t = take %c : slot %c release %t }
          %u = take %b : slot %b
          release %u
        }
      }";
    let s = sequence(&kernel(text)).expect("an order");
    assert_eq!(outline(&s.body).matches("for").count(), 2);
}

/// The slots of all values whose statement contains `what`, by role.
fn slots_of(k: &Kernel, what: &str) -> Vec<(String, SlotRef)> {
    fn walk(k: &Kernel, block: &[Stmt], what: &str, out: &mut Vec<Value>) {
        for stmt in block {
            match stmt {
                Stmt::Op(node) => {
                    let text = tessera_ir::tile::print_node(k, node);
                    out.extend(node.result.as_ref().filter(|_| text.contains(what)).map(|(v, _)| *v));
                }
                Stmt::For { body, .. } | Stmt::If { body, .. } => walk(k, body, what, out),
            }
        }
    }
    let s = sequence(k).unwrap_or_else(|e| panic!("{e}"));
    let mut found = Vec::new();
    for role in &k.roles {
        let mut values = Vec::new();
        walk(k, &role.body, what, &mut values);
        found.extend(values.into_iter().filter_map(|v| Some((role.name.clone(), s.slot(v)?))));
    }
    found
}

#[test]
fn roles_of_one_station_hold_the_same_slot() {
    let k = kernel(include_str!("filetests/tile/ok/sm100_linear.tile"));
    let slot = SlotRef { ring: 1, slot: 0 };
    let holders: Vec<_> = ["codes", "scales", "matrix"].iter().map(|r| ((*r).to_owned(), slot)).collect();
    assert_eq!(slots_of(&k, "slot %b"), holders);
    let text = outline(&sequence(&k).expect("an order").body);
    // One iteration: the weights, both parts of the rows, the product.
    assert!(text.contains("for { copy.tile copy.tile copy.tile index mma.tile }"), "{text}");
}

#[test]
fn a_slot_moves_on_when_all_readers_gave_it_away() {
    let text = include_str!("filetests/tile/ok/sm100_readers.tile").replace("depth 2", "depth 1");
    let k = kernel(&text);
    let holders: Vec<String> = slots_of(&k, "slot %a").into_iter().map(|(role, _)| role).collect();
    assert_eq!(holders, ["rows", "matrix", "mix"]);
    let order = outline(&sequence(&k).expect("one slot is enough").body);
    assert!(order.contains("index mma.tile slot.load dot slot.load zip slot.store"), "{order}");
    // The first reader's release alone frees nothing: a second role that keeps its slot stops the first station.
    let mut kept = k.clone();
    let mix = kept.roles.iter_mut().find(|r| r.name == "mix").expect("a role");
    for stmt in &mut mix.body {
        if let Stmt::For { body, .. } = stmt {
            body.retain(|s| !matches!(s, Stmt::Op(node) if matches!(node.op, Op::Release { .. })));
        }
    }
    let fault = sequence(&kept).expect_err("no slot is ever free again");
    assert!(matches!(fault, SequenceFault::Rate { .. } | SequenceFault::Deadlock { .. }), "{fault}");
}

/// A slot that goes from `one` to `two` and back.
fn to_and_fro(one: &str, two: &str) -> Kernel {
    kernel(&format!(
        "tessera.tile 1 kernel @k for sm100 {{
         param %y : [1, 4] f32 write
         ring %s : vec tile<1x4, f32> depth 1 path one -> two
         role vector one {{ %z = index.const {{value = 0}} : index %n = index.const {{value = 4}} : index {one} }}
         role vector two {{ %z1 = index.const {{value = 0}} : index %n1 = index.const {{value = 4}} : index {two} }} }}"
    ))
}

const BEGIN: &str = "%a = acquire %s : slot %s slot.fill %a {value = 0.0} pass %a";
const END: &str = "%d = take %s : slot %s %v = slot.load %d, %z1, %z1 {rows = 1, cols = 4} : tile<1x4, f32>
    store %v, %y, (%z1, %z1) release %d";

fn again(n: &str) -> String {
    format!("for %i = %z to {n} step 1 {{ %b = take %s : slot %s slot.fill %b {{value = 1.0}} pass %b }}")
}

fn back(n: &str) -> String {
    format!("for %j = %z1 to {n} step 1 {{ %c = take %s : slot %s slot.fill %c {{value = 2.0}} return %c }}")
}

#[test]
fn slots_that_come_back_are_taken_again() {
    let k = to_and_fro(&format!("{BEGIN} {}", again("%n")), &format!("{} {END}", back("%n1")));
    let text = outline(&sequence(&k).expect("an order").body);
    // In each iteration the second role is first: it has the slot when the loops begin.
    assert_eq!(
        text,
        "index.const index.const slot.fill index.const index.const for { slot.fill slot.fill } slot.load store"
    );
}

#[test]
fn slots_that_come_back_in_another_number_are_refused() {
    let fault = |one: &str, two: &str| sequence(&to_and_fro(one, two)).expect_err("no order");
    // More turns on one side than on the other.
    let fewer = format!("%m = index.const {{value = 3}} : index {BEGIN} {}", again("%m"));
    let found = fault(&fewer, &format!("{} {END}", back("%n1")));
    assert!(matches!(found, SequenceFault::Bounds { .. }), "{found}");
    // Nobody takes what comes back.
    let found = fault(BEGIN, &format!("%e = take %s : slot %s return %e {END}"));
    let SequenceFault::Deadlock { waits } = &found else { panic!("{found}") };
    assert_eq!((waits[0].role.as_str(), waits[0].on.as_str()), ("two", "a slot of %s from role one"));
    // The first role waits for a slot that the second keeps.
    let found = fault(&format!("{BEGIN} %e = take %s : slot %s pass %e"), END);
    let SequenceFault::Deadlock { waits } = &found else { panic!("{found}") };
    assert_eq!((waits[0].role.as_str(), waits[0].on.as_str()), ("one", "a slot of %s that comes back"));
    // It comes back at the end, and stays.
    let found = fault(BEGIN, "%e = take %s : slot %s return %e");
    assert_eq!(found, SequenceFault::Rate { ring: "s".into(), place: "the whole program".into() });
}

#[test]
fn a_filler_that_is_missing_or_late_is_a_fault() {
    let text = include_str!("filetests/tile/ok/sm100_linear.tile");
    // The fillers' loops differ: the matrix role waits for both.
    let k = kernel(text);
    let mut late = k.clone();
    let scales = late.roles.iter_mut().find(|r| r.name == "scales").expect("a role");
    for stmt in &mut scales.body {
        if let Stmt::For { step, .. } = stmt {
            *step /= 2;
        }
    }
    let fault = sequence(&late).expect_err("scales come twice as often");
    assert!(matches!(fault, SequenceFault::Deadlock { .. } | SequenceFault::Bounds { .. }), "{fault}");
    let mut missing = k.clone();
    missing.roles.iter_mut().filter(|r| r.name == "scales").for_each(|r| r.body.clear());
    let fault = sequence(&missing).expect_err("nobody fills the scales");
    let SequenceFault::Deadlock { waits } = &fault else { panic!("{fault}") };
    assert!(waits.iter().any(|w| w.on == "a slot of %b from roles codes and scales"), "{fault}");
}
