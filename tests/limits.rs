//! The program's memory stays near what it must hold: checkpoint, caches and a fixed allowance.
#![cfg(target_os = "linux")]

mod common;

use common::repo;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Bytes beyond checkpoint and caches.
const ALLOWANCE: usize = 150 << 20;

#[test]
fn a_run_stays_near_checkpoint_and_caches() {
    let checkpoint = std::fs::metadata(repo("models/tiny-v41/model.safetensors")).unwrap().len() as usize;
    let mut child = Command::new(env!("CARGO_BIN_EXE_tessera"))
        .args(["run", "--model", "models/tiny-v41", "--prompt", "In the beginning"])
        .args(["--max-tokens", "32", "--stats"])
        .current_dir(repo("."))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The peak only grows, so the last reading before the end is that of the run but for its last milliseconds, in
    // which nothing is set up any more.
    let status = format!("/proc/{}/status", child.id());
    let (mut peak, mut readings) = (0, 0);
    let exit = loop {
        if let Some(now) = std::fs::read_to_string(&status).ok().as_deref().and_then(high_water_mark) {
            peak = now;
            readings += 1;
        }
        if let Some(exit) = child.try_wait().unwrap() {
            break exit;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let (mut text, mut figures) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut figures).unwrap();
    assert!(exit.success(), "{exit}: {figures}");
    assert!(!text.trim().is_empty(), "no text was written: {figures}");
    assert!(readings > 1, "the run ended before its memory could be read");
    assert!(peak > checkpoint, "{peak} bytes at the peak do not even hold the checkpoint's {checkpoint}");
    let limit = checkpoint + caches(&figures) + ALLOWANCE;
    assert!(peak <= limit, "{peak} bytes at the peak, {limit} allowed; {figures}");
}

/// The largest resident size so far. A process that has ended has none.
fn high_water_mark(status: &str) -> Option<usize> {
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<usize>().ok()? * 1024)
}

/// Bytes of the caches, as `--stats` prints them: `caches 208.8 KB`.
fn caches(figures: &str) -> usize {
    let mut words = figures.split_whitespace().skip_while(|word| *word != "caches").skip(1);
    let value: f64 = words.next().expect("the figures name the caches").parse().unwrap();
    let unit = match words.next().expect("a unit follows").trim_end_matches(',') {
        "B" => 1.0,
        "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        other => panic!("{other} is no unit: {figures}"),
    };
    (value * unit) as usize
}
