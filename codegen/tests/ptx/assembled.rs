//! What the assembler says about every form: taken as printed, on the oldest version and machine that the builder
//! claims, and refused on an older one.

use crate::assembler::{installed, messages};
use crate::{every_form, hardware_forms};
use std::collections::{BTreeMap, BTreeSet};
use tessera_codegen::target::ptx::isa::{Feature, Program, PtxVersion, Special};

fn programs() -> Vec<Program> {
    [every_form::programs(), hardware_forms::programs()].concat()
}

fn numbered(text: &str) -> String {
    (1..).zip(text.lines()).map(|(n, line)| format!("{n:5} {line}\n")).collect()
}

#[test]
fn every_form_is_taken() {
    let Some(ptxas) = installed() else { return };
    for program in programs() {
        let said = messages(&ptxas, &program.text, program.entry.target.name());
        assert!(said.is_empty(), "{said:#?}\n{}", numbered(&program.text));
    }
}

/// The machine that has a set of instructions and nothing more.
fn machine(feature: Feature, version: PtxVersion) -> &'static str {
    match feature {
        Feature::Sm80 => "sm_80",
        Feature::Sm90 => "sm_90",
        Feature::Sm90Own => "sm_90a",
        Feature::Sm100 => "sm_100",
        Feature::Sm100Family if version >= PtxVersion(8, 8) => "sm_100f",
        Feature::Sm100Family | Feature::Sm100Own => "sm_100a",
    }
}

/// The form of a line of a body, mnemonic and variant; none for labels, comments, declarations and branches,
/// which exist everywhere and keep labels used.
fn form(line: &str) -> Option<String> {
    let line = line.strip_prefix("    ").filter(|line| !line.starts_with(['/', '.']))?;
    let mut words = line.trim_end_matches(';').split(' ').skip_while(|word| word.starts_with('@'));
    let name = words.next().filter(|name| !name.starts_with("bra"))?;
    let operands: Vec<&str> = words.collect();
    if name.starts_with("mbarrier.arrive.shared") && operands.len() == 3 {
        return Some(format!("{name} count"));
    }
    let special = operands.iter().find(|word| Special::ALL.iter().any(|special| special.name() == **word));
    Some(special.map_or(name.to_owned(), |special| format!("{name} {special}")))
}

/// The program with only the lines whose form is kept, for another machine.
fn cut(program: &Program, version: PtxVersion, arch: &str, keep: impl Fn(&str) -> bool) -> String {
    let mut text = String::new();
    for line in program.text.lines() {
        let line = if form(line).is_some_and(|form| !keep(&form)) { "" } else { line };
        let old = version < PtxVersion(7, 8);
        let cluster = line.starts_with(".explicitcluster") || line.starts_with(".reqnctapercluster");
        match line {
            line if line.starts_with(".version") => text += &format!(".version {version}"),
            line if line.starts_with(".target") => text += &format!(".target {arch}"),
            _ if cluster && (old || arch == "sm_80") => {}
            line if line.starts_with("    .reg .b128") && version < PtxVersion(8, 3) => {}
            line => text += line,
        }
        text.push('\n');
    }
    text
}

#[test]
fn every_form_is_taken_where_it_is_claimed_to_begin() {
    let Some(ptxas) = installed() else { return };
    let mut complaints = Vec::new();
    for program in programs() {
        let claims: BTreeSet<(PtxVersion, Feature)> = program.forms.values().copied().collect();
        for (version, feature) in claims {
            let arch = machine(feature, version);
            let text = cut(&program, version, arch, |form| program.forms[form] == (version, feature));
            let line = |n: Option<usize>| n.and_then(|n| text.lines().nth(n - 1)).unwrap_or_default().trim();
            let said = messages(&ptxas, &text, arch);
            let said = said.iter().map(|m| format!("{version} {arch}: `{}`: {}", line(m.line), m.text));
            complaints.extend(said);
        }
    }
    assert!(complaints.is_empty(), "{complaints:#?}");
}

/// Version and machine just below a claim, each alone.
fn below((version, feature): (PtxVersion, Feature)) -> Vec<(PtxVersion, &'static str)> {
    let older = match version {
        PtxVersion(8, 0) => PtxVersion(7, 8),
        PtxVersion(major, minor) => PtxVersion(major, minor.saturating_sub(1)),
    };
    // No older version knows the machine, or the text's other parts.
    let first = match feature {
        Feature::Sm80 => PtxVersion(7, 0),
        Feature::Sm90 => PtxVersion(7, 8),
        Feature::Sm90Own => PtxVersion(8, 0),
        Feature::Sm100 | Feature::Sm100Family | Feature::Sm100Own => PtxVersion(8, 6),
    };
    let older = (version > first).then_some(older);
    let smaller = match feature {
        Feature::Sm80 => None,
        Feature::Sm90 => Some("sm_80"),
        Feature::Sm90Own => Some("sm_90"),
        Feature::Sm100 => Some("sm_90"),
        Feature::Sm100Family => Some("sm_100"),
        Feature::Sm100Own => Some("sm_100f"),
    };
    let at = |arch| if arch == "sm_100f" { PtxVersion(8, 8) } else { version };
    let older = older.map(|older| (older, machine(feature, older)));
    older.into_iter().chain(smaller.map(|arch| (at(arch), arch))).collect()
}

#[test]
fn every_form_is_refused_below_its_claim() {
    let Some(ptxas) = installed() else { return };
    let mut accepted = BTreeMap::new();
    for program in programs() {
        let claims: BTreeSet<(PtxVersion, Feature)> = program.forms.values().copied().collect();
        for claim in claims {
            for (version, arch) in below(claim) {
                let text = cut(&program, version, arch, |form| program.forms[form] == claim);
                let said = messages(&ptxas, &text, arch);
                let faulty: BTreeSet<usize> = said.iter().filter_map(|message| message.line).collect();
                for (n, line) in (1..).zip(text.lines()) {
                    if let Some(form) = form(line).filter(|_| !faulty.contains(&n)) {
                        accepted.insert((form, arch), version);
                    }
                }
            }
        }
    }
    assert!(accepted.is_empty(), "{accepted:#?}");
}
