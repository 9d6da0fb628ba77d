//! `tessera verify`: texts before the assembler, and what happens without one.

mod common;

use common::{Ran, repo};
use std::path::Path;
use std::process::Command;
use tessera::codegen::target::ptx::PtxKernel;
use tessera::verify::Checker;

const RING: &str = "assembler/tests/data/ring.ptx";

fn verify(args: &[&str], ptxas: Option<&str>) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tessera"));
    if let Some(ptxas) = ptxas {
        command.env("TESSERA_PTXAS", ptxas);
    }
    let output = command.arg("verify").args(args).current_dir(repo(".")).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// False where the assembler is not installed, which CI does not allow.
#[allow(clippy::print_stderr, reason = "says why nothing was tested")]
fn assembler() -> bool {
    if Checker::find(true).is_ok() {
        return true;
    }
    assert!(std::env::var_os("TESSERA_REQUIRE_PTXAS").is_none(), "no ptxas or nvdisasm, which CI must have");
    eprintln!("skipped: no ptxas");
    false
}

#[test]
fn an_absent_assembler_is_said_with_exit_code_3() {
    let ran = verify(&[RING], Some("no/such/ptxas")).expect(3);
    assert!(ran.stdout.is_empty() && ran.stderr.contains("ptxas is absent"), "{ran:?}");
}

#[test]
fn what_cannot_be_verified_is_refused() {
    let refused = [
        (&[RING, "--level", "executed"][..], "level executed is not in this version"),
        (&[RING, "--seeds", "2"], "--seeds"),
        (&[RING, "--target", "cpu"], "target cpu needs no assembler"),
        (&[RING, "--rows", "1"], "--rows chooses kernels of a model"),
        (&["no/such.ptx"], "no/such.ptx"),
        (&["README.md"], "not a text of ours"),
        (&["linar"], "there is no family linar"),
    ];
    for (args, words) in refused {
        let ran = verify(args, None).expect(2);
        assert!(ran.stdout.is_empty() && ran.stderr.contains(words), "{args:?}: {ran:?}");
    }
}

#[test]
fn a_text_is_assembled_and_an_edited_one_is_refused_by_line() {
    if !assembler() {
        return;
    }
    let report = verify(&[RING, "--code", "--json"], None).expect(0).json();
    let row = &report["kernels"][0];
    assert_eq!((&row["level"], &row["ok"]), (&"assembled".into(), &true.into()));
    // 32 KB of tiles, two barriers, a word.
    assert_eq!((&row["resources"]["smem"], &row["resources"]["spill_stores"]), (&32788.into(), &0.into()));
    assert_eq!(row["code"]["mma"], 2);
    assert_eq!(report["summary"], serde_json::json!({"kernels": 1, "executed": 0, "failed": 0}));
    let text = verify(&[RING], None).expect(0).stdout;
    assert!(text.ends_with("1 kernels, 0 executed, 0 failed\n"), "{text}");

    let folder = tempfile::tempdir().unwrap();
    let source = std::fs::read_to_string(repo(RING)).unwrap();
    let write = |name: &str, from: &str, to: &str| {
        assert!(source.contains(from));
        let path = folder.path().join(name);
        std::fs::write(&path, source.replace(from, to)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let broken = write("broken.ptx", "mov.u32 k, 0;", "mov.u32 kk, 0;");
    let line = 1 + source.lines().position(|line| line.contains("mov.u32 k, 0;")).unwrap();
    let ran = verify(&[&broken, RING, "--json"], None).expect(1);
    let report = ran.json();
    assert_eq!(
        (&report["kernels"][0]["level"], &report["kernels"][0]["ok"]),
        (&"generated".into(), &false.into())
    );
    let said = report["kernels"][0]["reports"][0].as_str().unwrap();
    assert!(said.starts_with(&format!("line {line}: error: ")), "{said}");
    assert_eq!(report["summary"], serde_json::json!({"kernels": 2, "executed": 0, "failed": 1}));
    // Advice of the assembler is a failure too.
    let advised =
        write("advised.ptx", "mov.u32 k, 0;", "mov.u32 k, 0;\n  setmaxnreg.inc.sync.aligned.u32 64;");
    let text = verify(&[&advised], None).expect(1).stdout;
    assert!(text.contains("C7508") && text.ends_with("1 kernels, 0 executed, 1 failed\n"), "{text}");
}

/// What the assembler accepts and this program does not: memory of a thread's own, and too much shared memory.
#[test]
fn limits_are_checked_beyond_what_the_assembler_says() {
    if !assembler() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = std::fs::read_to_string(repo(RING)).unwrap();
    let stack = source.replace(
        "mov.u32 k, 0;",
        "mov.u32 k, 0;\n  .local .align 4 .b8 own[512];\n  mov.u32 x, own;\n  shl.b32 tid, tid, 2;\n  add.u32 x, x, tid;\n  \
         st.local.u32 [x], tid;\n  sub.u32 x, x, n;\n  ld.local.u32 k, [x+8];",
    );
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let said = |path: &Path| verify(&[path.to_str().unwrap(), "--code"], None).expect(1).stdout;
    let text = said(&write("stack.ptx", &stack));
    assert!(
        text.contains("ring: 512 bytes of stack, 0 at most") && text.contains("accesses of local memory"),
        "{text}"
    );
    // The launch adds dynamic shared memory and tensor memory, of which the assembler knows nothing.
    let one = || tessera::codegen::target::ptx::Extent::Const(1);
    let launch = |smem, tmem_columns, entry: &str| PtxKernel {
        name: "ring".to_owned(),
        family: String::new(),
        text: source.clone(),
        entry: entry.to_owned(),
        params: Vec::new(),
        tensor_maps: Vec::new(),
        grid: [one(), one(), one()],
        block: [64, 1, 1],
        cluster: [1; 3],
        smem,
        tmem_columns,
        pdl: false,
        symbols: Vec::new(),
        hash: String::new(),
    };
    let checker = Checker::find(false).unwrap();
    let reports = |launch| checker.check(&source, Some(&launch)).unwrap().reports;
    let most = 232_448 - 32_788;
    assert!(reports(launch(most, 512, "ring")).is_empty());
    let said = reports(launch(most + 1, 513, "other")).join("\n");
    for words in [
        "232449 bytes of shared memory, 232448 at most",
        "513 columns of tensor memory, 512 at most",
        "the text has no entry other",
    ] {
        assert!(said.contains(words), "{said}");
    }
}
