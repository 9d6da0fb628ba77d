//! What the chore `sass` prints follows its schema.

mod common;

use tessera::assembler::sass::{File, RULE, Report, analyse};
use tessera::assembler::{Ptxas, Resources};

#[test]
fn a_report_on_machine_code_follows_its_schema() {
    let text = std::fs::read_to_string(common::repo("assembler/tests/data/ring.sass")).unwrap();
    let resources = vec![Resources { entry: "ring".to_owned(), ..Resources::default() }];
    let file = File { file: "ring.ptx".to_owned(), resources, kernels: analyse(&text).unwrap() };
    let text = serde_json::to_string(&Report::new(vec![file])).unwrap();
    assert!(text.starts_with("{\"schema\":\"tessera.sass/1\""), "{text}");
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    common::schema::check(&value);
    assert_eq!(value["rule"], RULE);
    assert_eq!(value["files"][0]["kernels"][0]["loops"][1]["others_per_mma"], 9.5);
}

/// An assembler that is named and not there is absent, and nothing else is tried.
#[test]
fn a_named_assembler_that_is_not_there_is_absent() {
    let here = std::env::current_exe().unwrap();
    let run = |value: &str| {
        let out = std::process::Command::new(&here)
            .args(["--exact", "says_what_it_finds", "--nocapture"])
            .env("TESSERA_PTXAS", value)
            .output()
            .unwrap();
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    let said = run("no/such/program");
    assert!(said.contains("TESSERA_PTXAS names no/such/program, which is no file"), "{said}");
    let itself = here.display().to_string();
    let said = run(&itself);
    assert!(said.contains(&format!("found {itself}")), "{said}");
}

/// For the test above, which sets a variable that this reads.
#[test]
#[allow(clippy::print_stderr, reason = "read by the test above")]
fn says_what_it_finds() {
    match Ptxas::find() {
        Ok(found) => eprintln!("found {}", found.path().display()),
        Err(error) => eprintln!("{error}"),
    }
}
