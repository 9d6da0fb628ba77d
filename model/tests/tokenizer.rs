//! Text to ids and back, whole and id by id.

mod common;

use std::sync::LazyLock;

use common::{config, json, root, tiny};
use proptest::prelude::*;
use tessera_model::tokenizer::AddedTokens;
use tessera_model::{Error, StreamDecoder, Tokenizer};

fn tokenizer() -> &'static Tokenizer {
    static TOKENIZER: LazyLock<Tokenizer> =
        LazyLock::new(|| Tokenizer::of_model(tiny(), &config(&tiny())).unwrap().unwrap());
    &TOKENIZER
}

/// The pieces of a stream, the end included.
fn stream(tokenizer: &Tokenizer, ids: &[u32]) -> Vec<String> {
    let mut decoder = StreamDecoder::new(tokenizer);
    let mut pieces: Vec<String> = ids.iter().map(|&id| decoder.push(id).unwrap()).collect();
    pieces.push(decoder.finish());
    pieces
}

#[test]
fn prompts_and_texts_of_the_golden_data_encode_and_decode() {
    let tokenizer = tokenizer();
    let golden = json(&root().join("tests/data/tiny-v41/golden.json"));
    let ids = |value: &serde_json::Value| -> Vec<u32> {
        value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
    };
    let prompts = golden["prompts"].as_array().unwrap();
    assert_eq!(prompts.len(), 6);
    for prompt in prompts {
        let expected = ids(&prompt["ids"]);
        let text = prompt["text"].as_str().unwrap();
        assert_eq!(tokenizer.decode_raw(&expected).unwrap(), text);
        assert_eq!(tokenizer.encode(text, AddedTokens::Recognise).unwrap(), expected);
        let said = text.strip_prefix("<｜begin▁of▁sentence｜>").unwrap();
        assert_eq!(tokenizer.decode(&expected).unwrap(), said);
        assert_eq!(tokenizer.encode(said, AddedTokens::AsText).unwrap(), expected[1..]);
        for mode in ["ref", "f32"] {
            let run = &prompt["modes"][mode];
            assert_eq!(tokenizer.decode(&ids(&run["greedy"])).unwrap(), run["text"].as_str().unwrap());
        }
    }
}

#[test]
fn decoding_agrees_with_the_tokenizers_crate() {
    let tokenizer = tokenizer();
    let other = tokenizers::Tokenizer::from_file(tiny().join("tokenizer.json")).unwrap();
    let all: Vec<u32> = (0..tokenizer.len() as u32).collect();
    assert_eq!(all.len(), 2048);
    for &id in &all {
        assert_eq!(tokenizer.decode_raw(&[id]).unwrap(), other.decode(&[id], false).unwrap());
        assert_eq!(tokenizer.decode(&[id]).unwrap(), other.decode(&[id], true).unwrap());
    }
    assert_eq!(tokenizer.decode(&all).unwrap(), other.decode(&all, true).unwrap());
    for text in
        ["", " ", "And God said,\n\n  12345 <think>x</think>", "naïve 漢字 🙂 é e\u{301}", "<｜User｜>\u{0}"]
    {
        let expected = other.encode(text, false).unwrap();
        assert_eq!(tokenizer.encode(text, AddedTokens::Recognise).unwrap(), expected.get_ids());
    }
}

#[test]
fn special_tokens_are_not_part_of_the_text() {
    let tokenizer = tokenizer();
    let ids = tokenizer.encode("<｜User｜>Hi<｜Assistant｜></think>", AddedTokens::Recognise).unwrap();
    assert!(ids.contains(&2041) && ids.contains(&2042) && ids.contains(&2044));
    assert_eq!(tokenizer.decode(&ids).unwrap(), "Hi");
    assert_eq!(tokenizer.decode_raw(&ids).unwrap(), "<｜User｜>Hi<｜Assistant｜></think>");
    assert_eq!(stream(tokenizer, &ids).concat(), "Hi");
    assert_eq!(tokenizer.added_token("<｜User｜>"), Some(2041));
    assert_eq!(tokenizer.added_token("the"), None);
    let error = tokenizer.added_tokens(["<｜System｜>", "<｜User｜>", "｜DSML｜"], "the prompt").unwrap_err();
    assert_eq!(error.to_string(), "the tokenizer has no `<｜System｜>`, `｜DSML｜`; the prompt needs them");
    assert_eq!(tokenizer.added_tokens(["<think>", "</think>"], "the prompt").unwrap(), [2043, 2044]);
}

#[test]
fn ids_outside_the_vocabulary_are_errors() {
    let tokenizer = tokenizer();
    for id in [2048, 4096, u32::MAX] {
        assert!(matches!(tokenizer.decode(&[0, id]), Err(Error::TokenRange { size: 2048, .. })));
        let error = StreamDecoder::new(tokenizer).push(id).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("token id {id} is outside the vocabulary: ids run from 0 to 2047")
        );
    }
}

/// Ids of single bytes: a text as the least convenient tokens.
fn byte_tokens(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    let id = |byte: u8| {
        (0..tokenizer.len() as u32)
            .find(|&id| tokenizer.token_bytes(id).unwrap() == [byte])
            .unwrap_or_else(|| panic!("no token for byte {byte}"))
    };
    text.bytes().map(id).collect()
}

#[test]
fn a_character_split_over_tokens_appears_whole_and_at_once() {
    let tokenizer = tokenizer();
    let text = "aé漢🙂\u{10ffff}z👩‍👧";
    let ids = byte_tokens(tokenizer, text);
    let pieces = stream(tokenizer, &ids);
    assert_eq!(pieces.concat(), text);
    // Each piece comes with the last byte of its character.
    let mut expected = vec![String::new(); ids.len() + 1];
    for (at, c) in text.char_indices() {
        expected[at + c.len_utf8() - 1] = c.to_string();
    }
    assert_eq!(pieces, expected);
    // A special token between the bytes changes nothing.
    let parted: Vec<u32> = ids.iter().flat_map(|&id| [id, 1]).collect();
    assert_eq!(stream(tokenizer, &parted).concat(), text);
    // Whatever prefix has come, what was printed is a prefix of the text.
    for length in 0..=ids.len() {
        let mut pieces = stream(tokenizer, &ids[..length]);
        let end = pieces.pop().unwrap();
        assert!(text.starts_with(&pieces.concat()));
        assert_eq!(end.is_empty(), text.is_char_boundary(length));
        assert_eq!(pieces.concat() + &end, tokenizer.decode(&ids[..length]).unwrap());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_text_survives_encoding_and_streams_without_replacement(text in "\\PC{0,40}|[ \\n\\ta-zé漢🙂<>/|｜]{0,40}") {
        let tokenizer = tokenizer();
        for added in [AddedTokens::AsText, AddedTokens::Recognise] {
            let ids = tokenizer.encode(&text, added).unwrap();
            prop_assert_eq!(tokenizer.decode_raw(&ids).unwrap(), text.clone());
        }
        let ids = tokenizer.encode(&text, AddedTokens::AsText).unwrap();
        let pieces = stream(tokenizer, &ids);
        prop_assert_eq!(pieces.concat(), text.clone());
        let replaced = |text: &str| text.contains(char::REPLACEMENT_CHARACTER);
        prop_assert!(replaced(&text) || !pieces.iter().any(|piece| replaced(piece)));
    }

    #[test]
    fn any_ids_stream_to_what_they_decode_to(ids in proptest::collection::vec(0_u32..2048, 0..60)) {
        let tokenizer = tokenizer();
        prop_assert_eq!(stream(tokenizer, &ids).concat(), tokenizer.decode(&ids).unwrap());
    }
}

#[test]
fn tokenizers_that_do_not_fit_are_refused() {
    let text = std::fs::read_to_string(tiny().join("tokenizer.json")).unwrap();
    let refuse = |text: &str, expected: &str| {
        let message = Tokenizer::parse(text, "tokenizer.json").unwrap_err().to_string();
        assert!(message.starts_with("tokenizer.json: ") && message.contains(expected), "{message}");
    };
    refuse("", "EOF");
    refuse("{}", "");
    refuse(&text[..text.len() / 2], "EOF");
    // A control character where the loader reads its decoder: it must be refused, not panic.
    refuse(&text.replace("\"decoder\": {", "\"decoder\": {\u{b}"), "not valid JSON");
    let mut tokenizer: serde_json::Value = serde_json::from_str(&text).unwrap();
    tokenizer["decoder"] = serde_json::json!({"type": "Fuse"});
    refuse(&tokenizer.to_string(), "the decoder is not ByteLevel");
    tokenizer["decoder"] = serde_json::Value::Null;
    refuse(&tokenizer.to_string(), "the decoder is not ByteLevel");
    let moved = text.replace("\"id\": 2047", "\"id\": 3047");
    assert_ne!(moved, text);
    refuse(
        &moved,
        "added token \"<｜▁dspark▁noise▁｜>\" says id 3047, but its place in the vocabulary is 2047",
    );

    let mut small = config(&tiny());
    small.text.vocab_size = 2047;
    let message = Tokenizer::of_model(tiny(), &small).unwrap_err().to_string();
    assert!(message.contains("tokenizer.json: 2048 ids exceed the model's vocab_size = 2047"), "{message}");
    let dir = tempfile::tempdir().unwrap();
    assert!(Tokenizer::of_model(dir.path(), &small).unwrap().is_none());
    std::fs::write(dir.path().join("tokenizer.json"), b"\xff{}").unwrap();
    let message = Tokenizer::of_model(dir.path(), &small).unwrap_err().to_string();
    assert!(message.contains("tokenizer.json: byte 0 is not valid UTF-8"), "{message}");
}

#[test]
fn a_tokenizer_exported_with_truncation_does_not_cut_prompts() {
    let text = std::fs::read_to_string(tiny().join("tokenizer.json")).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    json["truncation"] =
        serde_json::json!({"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0});
    json["padding"] = serde_json::json!({
        "strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": null,
        "pad_id": 2, "pad_type_id": 0, "pad_token": "x"
    });
    let cutting = Tokenizer::parse(&json.to_string(), "tokenizer.json").unwrap();
    let prompt = "In the beginning God created the heaven and the earth.";
    let expected = tokenizer().encode(prompt, AddedTokens::Recognise).unwrap();
    assert!(expected.len() > 4);
    assert_eq!(cutting.encode(prompt, AddedTokens::Recognise).unwrap(), expected);
    assert_eq!(cutting.encode(prompt, AddedTokens::AsText).unwrap(), expected);
}
