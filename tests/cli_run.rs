//! `tessera run` as its users see it: text, JSON, jobs, stop strings, sampling, interruption.

mod common;

use common::golden::{Golden, ids};
use common::{Ran, list, repo, tessera};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

/// A request file in a folder of its own.
fn jobs(lines: &[&[u8]]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.jsonl");
    std::fs::write(&path, lines.join(&b'\n')).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

fn run(args: &[&str]) -> Ran {
    tessera(["run"].iter().chain(args))
}

/// The object of a run with `--json`.
fn object(args: &[&str]) -> Value {
    run(&[args, &["--json"]].concat()).expect(0).json()
}

#[test]
fn free_running_text_in_f32_is_the_golden_text() {
    let golden = Golden::open("tiny-v41");
    for prompt in golden.json["prompts"].as_array().unwrap() {
        let tokens = list(&ids(&prompt["ids"]));
        let want = &prompt["modes"]["f32"];
        let args = ["--mode", "f32", "--max-tokens", "48", "--tokens", &tokens];
        let text = want["text"].as_str().unwrap();
        assert_eq!(run(&args).expect(0).stdout, format!("{text}\n"));
        let object = object(&args);
        assert_eq!((&object["text"], &object["tokens"]), (&want["text"], &want["greedy"]));
        assert_eq!(object["finish_reason"], "length");
        assert_eq!(object["usage"]["generated"], 48);
    }
}

/// Bounded replay keeps the last 72 prompt tokens; its golden text is that of every variant of the reference.
#[test]
fn replayed_text_in_f32_is_the_golden_text() {
    let golden = Golden::open("tiny-v41");
    let prompt = &golden.json["prompts"][5];
    let compact = &prompt["modes"]["f32"]["compact"];
    assert_eq!(compact["free_running_stable"], true);
    let tokens = list(&ids(&prompt["ids"]));
    let args = ["--mode", "f32", "--max-tokens", "48", "--tokens", &tokens, "--replay", "compact"];
    for chunk in ["64", "512"] {
        let args = [&args[..], &["--replay-keep", "72", "--prefill-chunk", chunk]].concat();
        assert_eq!(object(&args)["tokens"], compact["greedy"]);
    }
}

#[test]
fn a_text_prompt_begins_with_bos_and_a_question_with_its_turn() {
    let text = object(&["--prompt", "And the LORD", "--max-tokens", "1"]);
    assert_eq!(text["prompt_tokens"][0], 0);
    let whole = ids(&text["prompt_tokens"]);
    let same = object(&["--tokens", &list(&whole), "--max-tokens", "1"]);
    assert_eq!(text["tokens"], same["tokens"]);

    let question = object(&["--chat", "--prompt", "And the LORD", "--max-tokens", "1"]);
    let words = &whole[1..];
    // BOS, User, the question, Assistant, end of an empty reasoning.
    let want: Vec<u32> = [&[0, 2041], words, &[2042, 2044]].concat();
    assert_eq!(ids(&question["prompt_tokens"]), want);

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("prompt.txt");
    std::fs::write(&file, "And the LORD").unwrap();
    let read = object(&["--prompt-file", file.to_str().unwrap(), "--max-tokens", "1"]);
    assert_eq!(read["prompt_tokens"], text["prompt_tokens"]);
}

/// The golden text goes on ", and the cattle thereof, and the bars thereof": stop strings end inside and across tokens.
#[test]
fn text_ends_before_a_stop_string_across_token_borders() {
    let args = ["--tokens", "0", "--mode", "f32", "--max-tokens", "48", "--stop"];
    for (stops, text) in [
        (&["attle th"][..], ", and the c"),
        (&["reof, and the ba"], ", and the cattle the"),
        (&["zzz", "bars", "cattle"], ", and the "),
        (&[","], ""),
    ] {
        let args = [&args[..], stops].concat();
        let object = object(&args);
        assert_eq!((object["text"].as_str(), object["finish_reason"].as_str()), (Some(text), Some("stop")));
        assert_eq!(run(&args).expect(0).stdout, format!("{text}\n"));
    }
    let never = object(&[&args[..], &["bars thereof, and thou"]].concat());
    assert_eq!(never["finish_reason"], "length");
}

#[test]
fn sampled_text_depends_on_the_seed_and_on_nothing_else() {
    let args = ["--prompt", "And the LORD said", "--max-tokens", "24", "--temperature", "0.9", "--seed"];
    let first = object(&[&args[..], &["1"]].concat());
    for other in [&["1", "--threads", "1"][..], &["1", "--threads", "3", "--prefill-chunk", "1"]] {
        assert_eq!(object(&[&args[..], other].concat())["tokens"], first["tokens"]);
    }
    assert_ne!(object(&[&args[..], &["2"]].concat())["tokens"], first["tokens"]);
    let greedy = object(&["--prompt", "And the LORD said", "--max-tokens", "24"]);
    let narrow = object(&[&args[..], &["3", "--top-k", "1"]].concat());
    assert_eq!(narrow["tokens"], greedy["tokens"]);
}

#[test]
fn a_model_without_a_tokenizer_takes_and_gives_tokens() {
    let args = ["--model", "tests/data/random-v41", "--tokens", "166,123", "--max-tokens", "3"];
    let object = object(&args);
    assert_eq!(object["text"], Value::Null);
    let tokens = ids(&object["tokens"]);
    assert_eq!(tokens.len(), 3);
    assert_eq!(run(&args).expect(0).stdout, format!("{}\n", list(&tokens)));
}

#[test]
fn figures_go_to_standard_error() {
    let ran = run(&["--tokens", "0", "--max-tokens", "2", "--stats", "--json"]).expect(0);
    assert_eq!(ran.json_lines().len(), 1);
    assert!(ran.stderr.contains("decode   1 steps"), "{}", ran.stderr);
}

#[test]
fn jobs_answer_in_order_and_a_broken_line_is_an_object() {
    let (_folder, file) = jobs(&[
        br#"{"id": "a", "tokens": [0], "max_tokens": 2}"#,
        b"{broken",
        b"",
        br#"{"id": 7, "prompt": "And", "max_tokens": 1, "temperature": 0.5, "top_k": 3, "top_p": 0.9, "min_p": 0.1}"#,
        br#"{"id": "u", "prompt": "And", "max_token": 1}"#,
        br#"{"id": "r", "tokens": [5000]}"#,
        br#"{"id": "e", "prompt": ""}"#,
        br#"{"id": "two", "prompt": "And", "tokens": [1]}"#,
        br#"{"id": "n", "prompt": "And", "n": 2}"#,
        br#"{"id": "t", "prompt": "And", "temperature": -1}"#,
        br#"{"id": "m", "prompt": "And", "max_tokens": 0}"#,
        br#"{"id": "s", "prompt": "And", "stop": ["x", ""]}"#,
        b"{\"id\": \"b\", \"prompt\": \"\xff\"}",
        br#"{"messages": [{"role": "user", "content": "Who?"}], "max_tokens": 1}"#,
        br#"{"id": "role", "messages": [{"role": "judge", "content": "Who?"}]}"#,
        br#"{"id": "z", "tokens": [0], "max_tokens": 2, "stop": ["zzz"], "seed": 9}"#,
    ]);
    let ran = run(&["--jobs", &file]).expect(0);
    let objects = ran.json_lines();
    let want: [(u64, Value, Option<&str>); 15] = [
        (1, json!("a"), None),
        (2, Value::Null, Some("not a request")),
        (4, json!(7), None),
        (5, json!("u"), Some("unknown field `max_token`")),
        (6, json!("r"), Some("5000")),
        (7, json!("e"), Some("empty")),
        (8, json!("two"), Some("exactly one of prompt, tokens and messages")),
        (9, json!("n"), Some("field n is not supported")),
        (10, json!("t"), Some("temperature is -1")),
        (11, json!("m"), Some("max_tokens is 0")),
        (12, json!("s"), Some("stop string is empty")),
        (13, Value::Null, Some("not valid UTF-8")),
        (14, Value::Null, None),
        (15, json!("role"), Some("role")),
        (16, json!("z"), None),
    ];
    assert_eq!(objects.len(), want.len());
    for (object, (line, id, fault)) in objects.iter().zip(want) {
        assert_eq!((&object["line"], &object["id"]), (&json!(line), &id));
        match fault {
            None => {
                assert_eq!((&object["error"], &object["finish_reason"]), (&Value::Null, &json!("length")))
            }
            Some(part) => {
                let message = object["error"]["message"].as_str().unwrap();
                assert!(
                    message.starts_with(&format!("line {line}: ")) && message.contains(part),
                    "{message}"
                );
                assert_eq!(object["finish_reason"], "error");
            }
        }
    }
    assert_eq!(objects[0]["tokens"], objects[14]["tokens"], "a job depends on those before it");
    assert!(ran.stderr.contains("11 of 15 requests"), "{}", ran.stderr);

    let strict = run(&["--jobs", &file, "--strict"]).expect(2);
    assert_eq!(strict.json_lines().len(), 2, "the line before the broken one, and the broken one");
}

/// A running program whose standard output is read here.
fn start(args: &[&str]) -> std::process::Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tessera"));
    command.arg("run").args(args).current_dir(repo("."));
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[cfg(unix)]
#[test]
fn an_interrupted_request_is_cancelled_and_keeps_its_text() {
    let (_folder, file) = jobs(&[
        br#"{"id": 1, "tokens": [0], "max_tokens": 1}"#,
        br#"{"id": 2, "tokens": [0], "max_tokens": 4000}"#,
    ]);
    let mut child = start(&["--jobs", &file]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("\"id\":1"));
    // The second request runs by now, or begins with the wish to end.
    std::thread::sleep(std::time::Duration::from_millis(150));
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let second: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(second["finish_reason"], "cancelled");
    assert!(ids(&second["tokens"]).len() < 4000);
    assert!(lines.next().is_none(), "nothing comes after a cancelled request");
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[cfg(unix)]
#[test]
fn an_interrupted_text_ends_with_exit_code_130() {
    let mut child = start(&["--prompt", "And", "--max-tokens", "4000"]);
    let mut out = child.stdout.take().unwrap();
    let mut first = [0; 8];
    out.read_exact(&mut first).unwrap();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with('\n'), "the text's last line is ended");
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn a_reader_that_goes_away_ends_the_program_quietly() {
    let mut child = start(&["--prompt", "And", "--max-tokens", "4000"]);
    let mut out = child.stdout.take().unwrap();
    let mut first = [0; 8];
    out.read_exact(&mut first).unwrap();
    drop(out);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}

/// The default model is found from other folders, too.
#[test]
fn the_default_model_is_found_from_anywhere() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tessera"));
    let output =
        command.args(["run", "--tokens", "0", "--max-tokens", "1"]).current_dir(folder.path()).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
}
