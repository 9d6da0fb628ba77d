//! Counting loops: two disassembled kernels and small texts, every figure counted by hand.

use tessera_assembler::sass::{Kernel, Loop, analyse};
use tessera_assembler::{Error, Nvdisasm, Ptxas};

const RING: &str = include_str!("data/ring.sass");
const LANE: &str = include_str!("data/lane.sass");

fn one(text: &str) -> Kernel {
    let mut kernels = analyse(text).unwrap();
    assert_eq!(kernels.len(), 1);
    kernels.remove(0)
}

/// A section of these lines; instructions get addresses, a line `NAME:` is a label.
fn section(lines: &[&str]) -> Kernel {
    let mut text = "\t.section\t.text.k,\"ax\",@progbits\n".to_owned();
    let mut address = 0;
    for line in lines {
        if line.ends_with(':') {
            text += &format!("{line}\n");
        } else {
            text += &format!("        /*{address:04x}*/                   {line} ;\n");
            address += 16;
        }
    }
    one(&text)
}

/// `first, last, depth, instructions, waiting, mma, others` of a loop, addresses in instructions.
fn figures(l: &Loop) -> [usize; 7] {
    let at = |address: u64| (address / 16) as usize;
    [at(l.first), at(l.last), l.depth, l.instructions, l.waiting, l.mma, l.others]
}

/// The loop at 0460 ends at 05a0: 21 instructions, of which UTCHMMA 2. The wait moved to 0870 has 4, of which a loop of 3.
/// 0170 to 01c0 is the loop that allocates tensor memory.
#[test]
fn a_ring_of_one_warp() {
    let k = one(RING);
    assert_eq!((k.name.as_str(), k.instructions, k.mma, k.mma_outside_loops), ("ring", 0x90 + 1, 2, 0));
    assert_eq!((k.local, k.lane_loops, k.lane_mma, k.unknown_branches), (0, 0, 0, 0));
    let loops: Vec<[usize; 7]> = k.loops.iter().map(figures).collect();
    let want = [[0x17, 0x1c, 0, 6, 0, 0, 6], [0x46, 0x5a, 0, 21, 4, 2, 19], [0x87, 0x89, 1, 3, 0, 0, 3]];
    assert_eq!(loops, want);
    let steady = k.steady().unwrap();
    assert_eq!((steady.first, steady.others_per_mma), (0x460, Some(9.5)));
    assert_eq!((steady.first_line, steady.last_line), (93, 115));
    assert_eq!(k.loops.iter().filter(|l| l.steady).count(), 1);
    let counted = [
        ("BAR", 2),
        ("ELECT", 3),
        ("LDS", 3),
        ("R2UR", 5),
        ("STS", 2),
        ("SYNCS", 4),
        ("UTCBAR", 1),
        ("UTCHMMA", 2),
    ];
    assert_eq!(k.counts.clone().into_iter().collect::<Vec<_>>(), counted);
    let inside = [("R2UR", 4), ("SYNCS", 1), ("UTCBAR", 1), ("UTCHMMA", 2)];
    assert_eq!(steady.counts.clone().into_iter().collect::<Vec<_>>(), inside);
}

/// Three loops closed by BRA.U.ANY, in a loop from 0440 to 06c0.
#[test]
fn instructions_repeated_for_each_lane_are_no_loops() {
    let k = one(LANE);
    // Two products and the commit.
    assert_eq!((k.instructions, k.mma, k.lane_loops, k.lane_mma), (0xa2 + 1, 2, 3, 3));
    let steady = k.steady().unwrap();
    assert_eq!(figures(steady), [0x44, 0x6c, 0, 41, 4, 2, 39]);
}

#[test]
fn a_poll_in_line_counts_as_run_once() {
    let k = section(&[
        "MOV R1, R2",
        "A:",
        ".B:",
        "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR6], R4",
        "@!P0 BRA `(.B)",
        "UTCQMMA.2CTA gdesc[UR4]",
        "UTCQMMA.2CTA gdesc[UR4]",
        "@P1 BRA `(.B2)",
        "EXIT",
        ".B2:",
        "BRA `(.B)",
        "NOP",
    ]);
    // Both branches go back to one instruction: one loop, and its poll is not a loop of its own.
    assert_eq!(k.loops.iter().map(figures).collect::<Vec<_>>(), [[1, 7, 0, 6, 0, 2, 4]]);
    assert_eq!(k.instructions, 8, "the NOP is padding");
}

#[test]
fn a_poll_on_the_only_way_counts_once_and_a_branch_around_it_sets_it_apart() {
    let body = |around: &'static str| {
        section(&[
            ".TOP:",
            around,
            ".SPIN:",
            "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR6], R4",
            "@!P0 BRA `(.SPIN)",
            ".ON:",
            "UTCOMMA gdesc[UR4]",
            "@P1 BRA `(.TOP)",
            "EXIT",
        ])
    };
    let only_way = body("MOV R1, R2");
    assert_eq!(figures(only_way.steady().unwrap()), [0, 4, 0, 5, 0, 1, 4]);
    let around = body("@P2 BRA `(.ON)");
    assert_eq!(figures(around.steady().unwrap()), [0, 4, 0, 3, 2, 1, 2]);
}

/// What a wait leads to counts if it does more than going back.
#[test]
fn work_behind_a_wait_counts() {
    let k = section(&[
        ".TOP:",
        "@P2 BRA `(.ON)",
        ".SPIN:",
        "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR6], R4",
        "@!P0 BRA `(.SPIN)",
        "UTCBAR [UR9], URZ",
        ".ON:",
        "UTCQMMA gdesc[UR4]",
        "@P1 BRA `(.TOP)",
        "EXIT",
    ]);
    assert_eq!(figures(k.steady().unwrap()), [0, 5, 0, 6, 0, 1, 5]);
}

#[test]
fn the_innermost_loop_with_matrix_instructions_is_steady() {
    let k = section(&[
        ".TILE:",
        "UTCHMMA gdesc[UR4]",
        ".K:",
        "UTCHMMA gdesc[UR4]",
        "UTCHMMA.WS gdesc[UR4]",
        "BRA.U UP0, `(.K)",
        ".COPY:",
        "UTMALDG.2D [UR8], [UR4]",
        "BRA.U !UP1, `(.COPY)",
        "@!P0 BRA `(.TILE)",
        "HMMA.16816.F32 R4, R8, R10, R4",
        "EXIT",
    ]);
    assert_eq!(
        k.loops.iter().map(|l| (figures(l), l.steady)).collect::<Vec<_>>(),
        [([0, 6, 0, 7, 0, 3, 4], false), ([1, 3, 1, 3, 0, 2, 1], true), ([4, 5, 1, 2, 0, 0, 2], false)]
    );
    assert_eq!((k.mma, k.mma_outside_loops), (3, 0), "HMMA works on registers");
}

/// Code behind a BSYNC that was moved away belongs to the loop that its BSSY leads back to.
#[test]
fn barriers_lead_where_they_were_set_up_to_lead() {
    let k = section(&[
        ".TOP:",
        "BSSY.RECONVERGENT B0, `(.JOIN)",
        "@P0 BRA `(.AWAY)",
        "BSYNC.RECONVERGENT B0",
        ".JOIN:",
        "UTCQMMA gdesc[UR4]",
        "@P1 BRA `(.TOP)",
        "EXIT",
        ".AWAY:",
        "MUFU.EX2 R1, R2",
        "BSYNC.RECONVERGENT B0",
        "BRA `(.AWAY)",
    ]);
    // The last branch is never reached: no loop.
    assert_eq!(k.loops.iter().map(figures).collect::<Vec<_>>(), [[0, 4, 0, 7, 0, 1, 6]]);
}

#[test]
fn branches_through_registers_lead_to_their_list_or_are_reported() {
    let k = section(&[
        ".TOP:",
        "BRX R2 -0x1230 (*\"BRANCH_TARGETS .A,.B\"*)",
        ".A:",
        "UTCQMMA gdesc[UR4]",
        "BRA `(.TOP)",
        ".B:",
        "EXIT",
    ]);
    assert_eq!((figures(k.steady().unwrap()), k.unknown_branches), ([0, 2, 0, 3, 0, 1, 2], 0));
    let k = section(&["BRX R2", "UTCQMMA gdesc[UR4]", "EXIT"]);
    assert_eq!((k.unknown_branches, k.mma_outside_loops), (1, 1));
}

#[test]
fn local_memory_is_counted() {
    let k = section(&["LDL.64 R2, [R1]", "STL [R1+0x8], R4", "LDG.E R2, desc[UR4][R2.64]", "EXIT"]);
    assert_eq!((k.local, k.instructions), (2, 4));
}

#[test]
fn what_is_no_disassembly_is_an_error() {
    for text in ["", "nothing", "\t.section\t.text.k,\"ax\"\n        /*zz*/ NOP ;\n"] {
        assert!(matches!(analyse(text), Err(Error::Unexpected { .. })), "{text}");
    }
}

/// The texts beside the disassemblies give them, as far as the figures go, whatever the version of the tools.
#[test]
#[allow(clippy::print_stderr, reason = "says why nothing was tested")]
fn texts_assemble_to_the_disassemblies() {
    let (Ok(ptxas), Ok(nvdisasm)) = (Ptxas::find(), Nvdisasm::find()) else {
        assert!(
            std::env::var_os("TESSERA_REQUIRE_PTXAS").is_none(),
            "no ptxas or nvdisasm, which CI must have"
        );
        eprintln!("skipped: no ptxas");
        return;
    };
    for (text, lanes) in [(include_str!("data/ring.ptx"), 0), (include_str!("data/lane.ptx"), 3)] {
        let assembled = ptxas.assemble(text, "sm_100a").unwrap();
        let function = &assembled.functions[0];
        assert_eq!((function.stack, function.spill_stores, function.spill_loads), (0, 0, 0));
        // Tiles, two barriers, a word.
        assert_eq!(function.shared, 32768 + 16 + 4);
        assert!(function.registers >= 8 && function.barriers == 1 && assembled.messages.is_empty());
        let k = one(&nvdisasm.disassemble(&assembled.cubin).unwrap());
        assert_eq!(k.name, function.entry);
        assert_eq!((k.mma, k.lane_loops, k.steady().unwrap().mma), (2, lanes, 2));
    }
    let broken = include_str!("data/ring.ptx").replace("mov.u32 k, 0;", "mov.u99 k, 0;");
    let line = 1 + include_str!("data/ring.ptx").lines().position(|l| l.contains("mov.u32 k, 0;")).unwrap();
    match ptxas.assemble(&broken, "sm_100a") {
        Err(Error::Refused { messages }) => assert_eq!(messages[0].line, Some(line), "{messages:?}"),
        other => panic!("{other:?}"),
    }
    let advised = include_str!("data/ring.ptx")
        .replace("mov.u32 k, 0;", "mov.u32 k, 0; setmaxnreg.inc.sync.aligned.u32 64;");
    let advice = ptxas.assemble(&advised, "sm_100a").unwrap().messages;
    assert_eq!(advice[0].code.as_deref(), Some("C7508"), "{advice:?}");
    assert!(matches!(nvdisasm.disassemble(b"no cubin"), Err(Error::Unexpected { .. })));
}
