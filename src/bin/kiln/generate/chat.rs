//! A prompt by a folder's chat template: Jinja, with the functions that Hugging Face gives to templates. Templates come
//! with models and are not trusted: they read no files, and end after so many steps.

use std::path::Path;

use minijinja::{Environment, Error, ErrorKind, context};
use serde::Deserialize;

use crate::failure::{Failure, Outcome, WithCode};

/// Steps of a template at most. Those of the largest ones are some thousand a message.
const FUEL: u64 = 10_000_000;

/// What tokenizer_config.json says of chats.
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

/// What the model reads for a message of a user.
pub(super) fn prompt(folder: &Path, message: &str) -> Outcome<String> {
    let path = folder.join("tokenizer_config.json");
    let text = std::fs::read_to_string(&path).usage(|| format!("--chat: cannot read {}", path.display()))?;
    let config: Config = serde_json::from_str(&text).usage(|| format!("{} is no configuration", path.display()))?;
    // Newer tokenizers keep it in a file of its own, which comes first.
    let own = folder.join("chat_template.jinja");
    let template = match std::fs::read_to_string(&own) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).usage(|| format!("cannot read {}", own.display())),
    };
    let Some(template) = template.as_deref().or_else(|| chosen(config.chat_template.as_ref())) else {
        return Err(Failure::usage(format!("--chat: {} has no chat_template", path.display())));
    };
    render(template, &config, message).usage(|| "--chat: the template")
}

/// The template for chats without tools.
fn chosen(templates: Option<&Templates>) -> Option<&str> {
    match templates? {
        Templates::One(template) => Some(template),
        Templates::Named(all) => all.iter().find(|one| one.name == "default").map(|one| one.template.as_str()),
    }
}

fn render(template: &str, config: &Config, message: &str) -> Result<String, Error> {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_fuel(Some(FUEL));
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_function("raise_exception", |message: String| -> Result<String, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    let messages = [context! { role => "user", content => message }];
    environment.render_str(
        template,
        context! {
            messages,
            add_generation_prompt => true,
            bos_token => Token::text(config.bos_token.as_ref()),
            eos_token => Token::text(config.eos_token.as_ref()),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(template: &str) -> Result<String, Error> {
        let config = r#"{"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false}}"#;
        render(template, &serde_json::from_str(config).unwrap(), " Hello \"you\" ")
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
