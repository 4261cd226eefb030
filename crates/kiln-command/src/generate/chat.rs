//! A prompt by a folder's chat template: Jinja, with the functions that Hugging Face gives to templates. Templates come
//! with models and are not trusted: they read no files, and end after a bounded number of steps.

use std::path::Path;

use minijinja::{Environment, Error, ErrorKind, context};
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Outcome, WithCode};

/// The most steps of a template. The largest templates take some thousand for each message.
const FUEL: u64 = 10_000_000;

/// The settings for chats in tokenizer_config.json.
#[derive(Debug, Default, Deserialize)]
struct Config {
    chat_template: Option<Templates>,
    bos_token: Option<Token>,
    eos_token: Option<Token>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Templates {
    One(String),
    Named(Vec<Named>),
}

#[derive(Debug, Deserialize)]
struct Named {
    name: String,
    template: String,
}

/// A token is a text, or a table that has it.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Token {
    Text(String),
    Table { content: String },
}

impl Token {
    fn text(token: Option<&Token>) -> &str {
        match token {
            Some(Token::Text(text) | Token::Table { content: text }) => text,
            None => "",
        }
    }
}

/// One message of a chat.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Message<'a> {
    /// The role of its author.
    pub(crate) role: &'a str,
    /// Its text.
    pub(crate) content: &'a str,
}

/// A folder's template, and the tokens that it may write.
pub(crate) struct Template {
    text: String,
    config: Config,
}

impl Template {
    /// Reads it; `None` where the folder has none.
    pub(crate) fn read(folder: &Path) -> Outcome<Option<Template>> {
        let path = folder.join("tokenizer_config.json");
        let config = match found(&path)? {
            Some(text) => serde_json::from_str(&text).usage(|| format!("{} is no configuration", path.display()))?,
            None => Config::default(),
        };
        // Newer tokenizers keep it in a file of its own, which takes precedence.
        let own = found(&folder.join("chat_template.jinja"))?;
        let text = own.or_else(|| chosen(config.chat_template.as_ref()).map(str::to_owned));
        Ok(text.map(|text| Template { text, config }))
    }

    /// The model's prompt for answering the last of these messages.
    pub(crate) fn render(&self, messages: &[Message<'_>]) -> Result<String, Error> {
        let mut environment = Environment::new();
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_fuel(Some(FUEL));
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |message: String| -> Result<String, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message))
        });
        environment.render_str(
            &self.text,
            context! {
                messages,
                add_generation_prompt => true,
                bos_token => Token::text(self.config.bos_token.as_ref()),
                eos_token => Token::text(self.config.eos_token.as_ref()),
            },
        )
    }
}

/// A file's text, if there is one.
fn found(path: &Path) -> Outcome<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).usage(|| format!("cannot read {}", path.display())),
    }
}

/// The model's prompt for a user's message.
pub(super) fn prompt(folder: &Path, message: &str) -> Outcome<String> {
    let none = || format!("--chat: {} has no chat_template", folder.join("tokenizer_config.json").display());
    let template = Template::read(folder)?.ok_or_else(|| Failure::usage(none()))?;
    template.render(&[Message { role: "user", content: message }]).usage(|| "--chat: the template")
}

/// The template for chats without tools.
fn chosen(templates: Option<&Templates>) -> Option<&str> {
    match templates? {
        Templates::One(template) => Some(template),
        Templates::Named(all) => all.iter().find(|one| one.name == "default").map(|one| one.template.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(template: &str) -> Result<String, Error> {
        let config = r#"{"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false}}"#;
        let template = Template { text: template.to_owned(), config: serde_json::from_str(config).unwrap() };
        template.render(&[Message { role: "user", content: " Hello \"you\" " }])
    }

    #[test]
    fn templates_have_messages_tokens_and_methods_of_python() {
        let template = "{{ bos_token }}{% for message in messages %}\n    {% if message['role'] == 'user' %}\n\
             [{{ message.content.strip() }}]\n    {% endif %}\n{% endfor %}\n\
             {% if add_generation_prompt %}{{ '<model>' + eos_token }}{% endif %}";
        assert_eq!(rendered(template).unwrap(), "<s>[Hello \"you\"]\n<model></s>");
        assert_eq!(rendered("{{ messages[0].content | tojson }}").unwrap(), r#"" Hello \"you\" ""#);
        assert_eq!(rendered("{{ messages[0].content | trim }}").unwrap(), "Hello \"you\"", "nothing is escaped");
        assert_eq!(rendered("{% if tools is defined and tools %}a{% else %}b{% endif %}").unwrap(), "b");
        let first = "{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}x{% endfor %}";
        assert_eq!(rendered(first).unwrap(), "");
    }

    #[test]
    fn templates_that_fail_or_never_end_are_refused() {
        let refused = rendered("{{ raise_exception('roles must alternate') }}").unwrap_err();
        assert!(refused.to_string().contains("roles must alternate"), "{refused}");
        assert!(rendered("{% if %}").is_err());
        let long = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}";
        assert_eq!(rendered(long).unwrap_err().kind(), ErrorKind::OutOfFuel);
        assert!(rendered("{% include '/etc/passwd' %}").is_err());
    }

    #[test]
    fn templates_are_one_or_the_default_of_many() {
        let config = |text: &str| serde_json::from_str::<Config>(text).unwrap();
        let named = config(
            r#"{"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]}"#,
        );
        assert_eq!(chosen(named.chat_template.as_ref()), Some("d"));
        assert_eq!(chosen(config(r#"{"chat_template": "o"}"#).chat_template.as_ref()), Some("o"));
        assert_eq!(chosen(config("{}").chat_template.as_ref()), None);
    }
}
