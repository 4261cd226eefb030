//! Requests of language models in JSON: OpenAI's completions and chats, and Triton's `generate`, whose settings gRPC
//! also sends. Unknown fields are ignored, because clients send many; fields that would change the text and that Kiln
//! does not support are refused.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

use crate::language::{Choice, Message, Prompt, Text};
use crate::refusal::Refusal;

/// Most texts of a request.
const TEXTS: usize = 64;

/// Most stop texts of a request.
const STOPS: usize = 16;

/// Tokens of a completion where a request does not say, as in OpenAI's interface.
const COMPLETION: usize = 16;

/// The interface of a request, which decides the form of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// POST `/v1/completions`.
    Completion,
    /// POST `/v1/chat/completions`.
    Chat,
    /// POST `/v2/models/M/generate` and `generate_stream`, and ModelStreamInfer.
    Triton,
}

/// A request that has been read.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) form: Form,
    /// The model's name, where the body has it.
    pub(crate) model: Option<String>,
    /// All texts: each prompt is repeated for its copies.
    pub(crate) texts: Vec<Text>,
    /// How often each prompt is continued.
    pub(crate) copies: usize,
    /// Whether pieces are sent as they come.
    pub(crate) is_stream: bool,
    /// Whether a stream ends with the counts of tokens.
    pub(crate) has_usage: bool,
}

/// The subject of a request.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Subject<'b> {
    model: Option<String>,
    #[serde(borrow)]
    prompt: Option<&'b RawValue>,
    #[serde(borrow)]
    messages: Option<Vec<Said<'b>>>,
    text_input: Option<String>,
    /// Triton's place for settings.
    #[serde(borrow)]
    parameters: Option<&'b RawValue>,
}

/// A message of a chat.
#[derive(Deserialize)]
struct Said<'b> {
    role: String,
    #[serde(borrow, default)]
    content: Option<&'b RawValue>,
}

/// A part of a message.
#[derive(Deserialize)]
struct Part {
    r#type: String,
    #[serde(default)]
    text: String,
}

/// How texts are continued.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Settings<'b> {
    max_tokens: Option<usize>,
    max_completion_tokens: Option<usize>,
    temperature: Option<f32>,
    /// Some clients send -1 for all.
    top_k: Option<i64>,
    top_p: Option<f32>,
    min_p: Option<f32>,
    repetition_penalty: Option<f32>,
    seed: Option<i64>,
    n: Option<usize>,
    #[serde(borrow)]
    stop: Option<&'b RawValue>,
    /// Triton's name for the stop texts.
    #[serde(borrow)]
    stop_words: Option<&'b RawValue>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    // Settings that change a text and are not supported.
    frequency_penalty: Option<f32>,
    presence_penalty: Option<f32>,
    best_of: Option<usize>,
    echo: Option<bool>,
    suffix: Option<String>,
    #[serde(borrow)]
    logit_bias: Option<&'b RawValue>,
    #[serde(borrow)]
    logprobs: Option<&'b RawValue>,
    #[serde(borrow)]
    tools: Option<&'b RawValue>,
    #[serde(borrow)]
    functions: Option<&'b RawValue>,
    response_format: Option<ResponseFormat>,
}

#[derive(Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

#[derive(Deserialize)]
struct ResponseFormat {
    r#type: String,
}

/// A text or a list of texts.
#[derive(Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    Many(Vec<String>),
}

impl Request {
    /// Reads a body.
    pub(crate) fn of(form: Form, body: &[u8]) -> Result<Request, Refusal> {
        let bad = |error: serde_json::Error| Refusal::bad(format!("the body is no request: {error}"));
        let subject: Subject<'_> = serde_json::from_slice(body).map_err(bad)?;
        let settings: Settings<'_> = serde_json::from_slice(body).map_err(bad)?;
        let inner = match subject.parameters.filter(|_| form == Form::Triton) {
            Some(given) => Settings::of("parameters", given.get())?,
            None => Settings::default(),
        };
        let settings = settings.over(inner);
        settings.check()?;
        Request::made(form, subject.prompts(form)?, subject.model, &settings)
    }

    /// A request of Triton's form. Its settings are a JSON object called `name`, if they are given.
    pub(crate) fn of_triton(prompt: String, name: &str, settings: Option<&str>) -> Result<Request, Refusal> {
        let json = settings.map(unquoted);
        let settings = json.as_deref().map(|json| Settings::of(name, json)).transpose()?.unwrap_or_default();
        settings.check()?;
        Request::made(Form::Triton, vec![Prompt::Text(prompt)], None, &settings)
    }

    /// The texts of prompts and checked settings.
    fn made(
        form: Form,
        prompts: Vec<Prompt>,
        model: Option<String>,
        settings: &Settings<'_>,
    ) -> Result<Request, Refusal> {
        let copies = settings.n.unwrap_or(1);
        if form == Form::Triton && copies != 1 {
            return Err(Refusal::bad(format!("'n' is {copies}: a request of this form has one text")));
        }
        let texts = prompts.len().saturating_mul(copies);
        if texts == 0 || texts > TEXTS {
            return Err(Refusal::bad(format!("{texts} texts are asked for, 1 to {TEXTS} are answered")));
        }
        let stop = settings.stops()?;
        let max_tokens = settings.max_completion_tokens.or(settings.max_tokens);
        let max_tokens = max_tokens.or((form == Form::Completion).then_some(COMPLETION));
        let mut all = Vec::with_capacity(texts);
        for prompt in prompts {
            for copy in 0..copies {
                let choice = settings.choice(copy);
                all.push(Text { prompt: prompt.clone(), choice, max_tokens, stop: stop.clone() });
            }
        }
        Ok(Request {
            form,
            model,
            texts: all,
            copies,
            is_stream: settings.stream.unwrap_or(false),
            has_usage: settings.stream_options.as_ref().is_some_and(|options| options.include_usage),
        })
    }
}

impl Subject<'_> {
    fn prompts(&self, form: Form) -> Result<Vec<Prompt>, Refusal> {
        match form {
            Form::Completion => prompts(self.prompt.ok_or_else(|| Refusal::bad("'prompt' is missing"))?.get()),
            Form::Triton => {
                let text = self.text_input.as_ref().ok_or_else(|| Refusal::bad("'text_input' is missing"))?;
                Ok(vec![Prompt::Text(text.clone())])
            }
            Form::Chat => {
                let messages = self.messages.as_ref().ok_or_else(|| Refusal::bad("'messages' is missing"))?;
                if messages.is_empty() {
                    return Err(Refusal::bad("'messages' has no message"));
                }
                let message =
                    |said: &Said<'_>| Ok(Message { role: said.role.clone(), content: content(said.content)? });
                Ok(vec![Prompt::Chat(messages.iter().map(message).collect::<Result<_, Refusal>>()?)])
            }
        }
    }
}

/// A text, a list of texts, a list of tokens, or a list of such lists. The first character tells which, so that nothing
/// is read twice or stored in a form that fits all.
fn prompts(json: &str) -> Result<Vec<Prompt>, Refusal> {
    let bad = |error: serde_json::Error| Refusal::bad(format!("'prompt' is no text, tokens or list of such: {error}"));
    let first = |json: &str| json.trim_start().chars().next();
    if first(json) != Some('[') {
        return Ok(vec![Prompt::Text(serde_json::from_str(json).map_err(bad)?)]);
    }
    Ok(match json.trim_start().strip_prefix('[').and_then(first) {
        Some('"') => {
            let texts: Vec<String> = serde_json::from_str(json).map_err(bad)?;
            texts.into_iter().map(Prompt::Text).collect()
        }
        Some('[') => {
            let lists: Vec<Vec<i64>> = serde_json::from_str(json).map_err(bad)?;
            lists.into_iter().map(Prompt::Tokens).collect()
        }
        _ => vec![Prompt::Tokens(serde_json::from_str(json).map_err(bad)?)],
    })
}

/// The text of a message: a string, nothing, or a list of parts that are all texts.
fn content(json: Option<&RawValue>) -> Result<String, Refusal> {
    let bad = |error: serde_json::Error| Refusal::bad(format!("the content of a message: {error}"));
    let Some(json) = json else { return Ok(String::new()) };
    if !json.get().starts_with('[') {
        let text: Option<String> = serde_json::from_str(json.get()).map_err(bad)?;
        return Ok(text.unwrap_or_default());
    }
    let parts: Vec<Part> = serde_json::from_str(json.get()).map_err(bad)?;
    let mut text = String::new();
    for part in parts {
        if part.r#type != "text" {
            return Err(Refusal::bad(format!("a message has a part of type '{}': only 'text' is read", part.r#type)));
        }
        text.push_str(&part.text);
    }
    Ok(text)
}

/// Settings that are numbers.
const NUMBERS: [&str; 10] = [
    "max_tokens",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "seed",
    "n",
    "frequency_penalty",
    "presence_penalty",
];

/// An object of settings whose numbers may be texts, as in `{"temperature": "0.1"}` of clients of Triton's vLLM
/// backend; returns it with numbers in their place.
fn unquoted(json: &str) -> Cow<'_, str> {
    let Ok(mut settings) = serde_json::from_str::<Map<String, Value>>(json) else { return json.into() };
    let mut has_changed = false;
    for name in NUMBERS {
        if let Some(value) = settings.get_mut(name)
            && let Some(number) = value.as_str().and_then(|text| text.trim().parse::<Number>().ok())
        {
            *value = Value::Number(number);
            has_changed = true;
        }
    }
    match has_changed.then(|| serde_json::to_string(&settings)) {
        Some(Ok(json)) => json.into(),
        _ => json.into(),
    }
}

/// Whether a field has an effect: null, false, 0, {} and [] have none.
fn says(json: Option<&RawValue>) -> bool {
    json.is_some_and(|json| !matches!(json.get(), "null" | "false" | "0" | "{}" | "[]"))
}

impl<'b> Settings<'b> {
    /// The settings in the JSON object called `name`.
    fn of(name: &str, json: &'b str) -> Result<Settings<'b>, Refusal> {
        if !json.trim_start().starts_with('{') {
            return Err(Refusal::bad(format!("{name}: no object of JSON")));
        }
        serde_json::from_str(json).map_err(|error| Refusal::bad(format!("{name}: {error}")))
    }

    /// These settings, completed by others where these have no value.
    fn over(self, other: Settings<'b>) -> Settings<'b> {
        Settings {
            max_tokens: self.max_tokens.or(other.max_tokens),
            max_completion_tokens: self.max_completion_tokens.or(other.max_completion_tokens),
            temperature: self.temperature.or(other.temperature),
            top_k: self.top_k.or(other.top_k),
            top_p: self.top_p.or(other.top_p),
            min_p: self.min_p.or(other.min_p),
            repetition_penalty: self.repetition_penalty.or(other.repetition_penalty),
            seed: self.seed.or(other.seed),
            n: self.n.or(other.n),
            stop: self.stop.or(other.stop),
            stop_words: self.stop_words.or(other.stop_words),
            stream: self.stream.or(other.stream),
            stream_options: self.stream_options.or(other.stream_options),
            frequency_penalty: self.frequency_penalty.or(other.frequency_penalty),
            presence_penalty: self.presence_penalty.or(other.presence_penalty),
            best_of: self.best_of.or(other.best_of),
            echo: self.echo.or(other.echo),
            suffix: self.suffix.or(other.suffix),
            logit_bias: self.logit_bias.or(other.logit_bias),
            logprobs: self.logprobs.or(other.logprobs),
            tools: self.tools.or(other.tools),
            functions: self.functions.or(other.functions),
            response_format: self.response_format.or(other.response_format),
        }
    }

    /// Refuses settings that would change the text and are not supported.
    fn check(&self) -> Result<(), Refusal> {
        let asked = [
            ("frequency_penalty", self.frequency_penalty.is_some_and(|penalty| penalty != 0.0)),
            ("presence_penalty", self.presence_penalty.is_some_and(|penalty| penalty != 0.0)),
            ("best_of", self.best_of.is_some_and(|best| best != self.n.unwrap_or(1))),
            ("echo", self.echo == Some(true)),
            ("suffix", self.suffix.as_ref().is_some_and(|suffix| !suffix.is_empty())),
            ("logit_bias", says(self.logit_bias)),
            ("logprobs", says(self.logprobs)),
            ("tools", says(self.tools)),
            ("functions", says(self.functions)),
            ("response_format", self.response_format.as_ref().is_some_and(|format| format.r#type != "text")),
        ];
        match asked.iter().find(|(_, asked)| *asked) {
            Some((name, _)) => Err(Refusal::bad(format!("'{name}' is not there: leave it out"))),
            None => Ok(()),
        }
    }

    fn stops(&self) -> Result<Vec<String>, Refusal> {
        let Some(json) = self.stop.or(self.stop_words) else { return Ok(Vec::new()) };
        let texts: Option<Texts> =
            serde_json::from_str(json.get()).map_err(|_| Refusal::bad("'stop' is no text and no list of texts"))?;
        let stops = match texts {
            None => Vec::new(),
            Some(Texts::One(stop)) => vec![stop],
            Some(Texts::Many(stops)) => stops,
        };
        if stops.len() > STOPS {
            return Err(Refusal::bad(format!("'stop' has {} texts, {STOPS} are taken", stops.len())));
        }
        // An empty stop text has no effect.
        Ok(stops.into_iter().filter(|stop| !stop.is_empty()).collect())
    }

    /// How the tokens of one copy are chosen.
    fn choice(&self, copy: usize) -> Choice {
        let seed = self.seed.map_or_else(any_seed, |seed| seed as u64);
        Choice {
            temperature: self.temperature,
            top_k: self.top_k.map(|most| usize::try_from(most).unwrap_or(0)),
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            seed: seed.wrapping_add(copy as u64),
        }
    }
}

/// A seed that no other request is likely to have.
fn any_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(form: Form, body: &str) -> Request {
        Request::of(form, body.as_bytes()).unwrap()
    }

    fn refused(form: Form, body: &str) -> String {
        Request::of(form, body.as_bytes()).unwrap_err().message
    }

    fn first_prompts(body: &str) -> Vec<Prompt> {
        read(Form::Completion, body).texts.into_iter().map(|text| text.prompt).collect()
    }

    #[test]
    fn numbers_of_sampling_parameters_may_be_texts() {
        let asked = |settings: &str| Request::of_triton("a".to_owned(), "sampling_parameters", Some(settings));
        let text = |settings: &str| asked(settings).unwrap().texts.remove(0);
        let texts = r#"{"temperature": "0.1", "top_p": "0.95", "max_tokens": "256", "seed": " 7 ", "stop": "1"}"#;
        let numbers = r#"{"temperature": 0.1, "top_p": 0.95, "max_tokens": 256, "seed": 7, "stop": "1"}"#;
        assert_eq!(text(texts), text(numbers));
        for settings in [r#"{"max_tokens": "many"}"#, r#"{"max_tokens": "-1"}"#, r#"{"max_tokens": "1.5"}"#, "[\"1\"]"]
        {
            assert!(asked(settings).is_err_and(|error| error.message.contains("sampling_parameters")), "{settings}");
        }
    }

    #[test]
    fn prompts_are_texts_tokens_or_lists_of_them() {
        let text = |text: &str| Prompt::Text(text.to_owned());
        assert_eq!(first_prompts(r#"{"prompt": "a\n"}"#), [text("a\n")]);
        assert_eq!(first_prompts(r#"{"prompt": [ "a", "b"]}"#), [text("a"), text("b")]);
        assert_eq!(first_prompts(r#"{"prompt": [1, 2]}"#), [Prompt::Tokens(vec![1, 2])]);
        assert_eq!(
            first_prompts(r#"{"prompt": [[1], [2, 3]]}"#),
            [Prompt::Tokens(vec![1]), Prompt::Tokens(vec![2, 3])]
        );
        for body in ["{}", r#"{"prompt": null}"#, r#"{"prompt": [1, "a"]}"#, r#"{"prompt": {}}"#, "[", "[]", "3", ""] {
            assert!(!refused(Form::Completion, body).is_empty());
        }
    }

    #[test]
    fn a_request_has_each_prompt_as_often_as_it_asks_and_other_seeds_for_each() {
        let request = read(Form::Completion, r#"{"prompt": ["a", "b"], "n": 2, "seed": 7, "max_tokens": 3}"#);
        let seeds: Vec<u64> = request.texts.iter().map(|text| text.choice.seed).collect();
        assert_eq!((request.copies, seeds), (2, vec![7, 8, 7, 8]));
        assert!(request.texts.iter().all(|text| text.max_tokens == Some(3)));
        let [one, other] = [(); 2].map(|()| read(Form::Completion, r#"{"prompt": "a"}"#).texts[0].choice.seed);
        assert_ne!(one, other, "requests without a seed draw other texts");
        assert!(refused(Form::Completion, r#"{"prompt": "a", "n": 65}"#).contains("65 texts"));
        assert!(refused(Form::Completion, r#"{"prompt": "a", "n": 0}"#).contains("0 texts"));
        assert!(refused(Form::Completion, r#"{"prompt": [[1],[2]], "n": 9223372036854775807}"#).contains("texts"));
    }

    #[test]
    fn completions_have_sixteen_tokens_and_chats_as_many_as_there_is_room_for() {
        assert_eq!(read(Form::Completion, r#"{"prompt": "a"}"#).texts[0].max_tokens, Some(16));
        let chat = r#"{"messages": [{"role": "user", "content": "a"}]}"#;
        assert_eq!(read(Form::Chat, chat).texts[0].max_tokens, None);
        let newer = r#"{"messages": [{"role": "user", "content": "a"}], "max_tokens": 5, "max_completion_tokens": 4}"#;
        assert_eq!(read(Form::Chat, newer).texts[0].max_tokens, Some(4));
    }

    #[test]
    fn contents_of_messages_are_texts_or_parts_of_texts() {
        let chat = r#"{"messages": [{"role": "system", "content": "be brief"}, {"role": "assistant", "content": null},
            {"role": "user", "name": "x", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]}"#;
        let [Text { prompt: Prompt::Chat(messages), .. }] = &read(Form::Chat, chat).texts[..] else { panic!() };
        let said: Vec<(&str, &str)> = messages.iter().map(|m| (m.role.as_str(), m.content.as_str())).collect();
        assert_eq!(said, [("system", "be brief"), ("assistant", ""), ("user", "ab")]);
        let image = r#"{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}"#;
        assert!(refused(Form::Chat, image).contains("image_url"));
        assert!(refused(Form::Chat, r#"{"messages": []}"#).contains("no message"));
        assert!(refused(Form::Chat, r#"{"messages": [{"content": "a"}]}"#).contains("role"));
    }

    #[test]
    fn settings_of_triton_stand_at_the_top_or_among_the_parameters() {
        let body = r#"{"text_input": "a", "max_tokens": 5, "parameters": {"max_tokens": 9, "temperature": 0.5,
            "stop_words": ["x", ""], "top_k": -1}}"#;
        let text = read(Form::Triton, body).texts.remove(0);
        assert_eq!((text.max_tokens, text.choice.temperature, text.choice.top_k), (Some(5), Some(0.5), Some(0)));
        assert_eq!(text.stop, ["x"]);
        for parameters in ["3", "[5]", "\"{}\"", "{\"max_tokens\": \"5\"}"] {
            let body = format!(r#"{{"text_input": "a", "parameters": {parameters}}}"#);
            assert!(refused(Form::Triton, &body).starts_with("parameters: "), "{parameters}");
        }
        assert!(refused(Form::Triton, r#"{"text_input": "a", "n": 2}"#).contains("'n' is 2"));
    }

    #[test]
    fn settings_by_themselves_are_those_of_a_body() {
        let text = |settings: Option<&str>| {
            Request::of_triton("a".to_owned(), "s", settings).map(|mut request| {
                assert_eq!((request.form, request.copies, request.texts.len()), (Form::Triton, 1, 1));
                request.texts.remove(0)
            })
        };
        let settings = r#"{"max_tokens": 5, "temperature": 0.5, "top_k": 3, "top_p": 0.25, "min_p": 0.125, "seed": 7,
            "repetition_penalty": 1.5, "stop": ["x"], "unknown": 1}"#;
        let body = format!(r#"{{"text_input": "a", "parameters": {settings}}}"#);
        assert_eq!(text(Some(settings)).unwrap(), read(Form::Triton, &body).texts[0]);
        let none = text(None).unwrap();
        assert_eq!((none.prompt, none.max_tokens, none.stop), (Prompt::Text("a".to_owned()), None, Vec::new()));
        for settings in ["", "5", "[5]", "{", r#"{"top_k": "x"}"#] {
            assert!(text(Some(settings)).unwrap_err().message.starts_with("s: "), "{settings}");
        }
        for settings in [r#"{"best_of": 2}"#, r#"{"logprobs": 1}"#, r#"{"n": 2}"#] {
            let body = format!(r#"{{"text_input": "a", "parameters": {settings}}}"#);
            assert_eq!(text(Some(settings)).unwrap_err().message, refused(Form::Triton, &body));
        }
    }

    #[test]
    fn what_would_change_the_text_and_is_not_there_is_refused_by_name() {
        for (name, value) in [
            ("frequency_penalty", "0.5"),
            ("presence_penalty", "-1"),
            ("best_of", "3"),
            ("echo", "true"),
            ("suffix", "\"x\""),
            ("logit_bias", "{\"5\": 1}"),
            ("logprobs", "1"),
            ("logprobs", "true"),
            ("tools", "[{}]"),
            ("functions", "[{}]"),
            ("response_format", "{\"type\": \"json_object\"}"),
        ] {
            let refused = refused(Form::Completion, &format!(r#"{{"prompt": "a", "{name}": {value}}}"#));
            assert!(refused.contains(&format!("'{name}'")), "{refused}");
        }
        let silent = r#"{"prompt": "a", "frequency_penalty": 0, "best_of": 1, "echo": false, "suffix": null, "tools": [],
            "logit_bias": {}, "logprobs": null, "response_format": {"type": "text"}, "user": "u", "stop": null}"#;
        assert_eq!(read(Form::Completion, silent).texts.len(), 1);
        let many = serde_json::json!({"prompt": "a", "stop": vec!["x"; 17]}).to_string();
        assert!(refused(Form::Completion, &many).contains("17"));
    }
}
