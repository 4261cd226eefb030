//! Language models of the server: from a text to tokens and back. [`super::turns`] continues the texts.

use std::path::Path;
use std::sync::Arc;

use kiln::{Chooser, Decoder, GenerateOptions};
use kiln_serve::{Failure, InHand, Language, Load, Lookups, Message, Model, Port, Prompt, Say, Tensor, Text, Ticket};
use tokenizers::Tokenizer;

use super::room::Room;
use super::turns::{Turn, Turns};
use crate::failure::Outcome;
use crate::generate::chat::{self, Template};
use crate::generate::folder::{Folder, Wish};
use crate::generate::read_tokenizer;
use crate::generate::stream::{Pieces, Stops};

/// A language model of a folder.
pub(super) struct Speaker {
    folder: Folder,
    tokenizer: Arc<Tokenizer>,
    /// The template that turns a chat into a text, if the folder has one.
    template: Option<Template>,
    decoder: Arc<Decoder>,
    turns: Turns,
}

impl Speaker {
    /// The decoder of that folder with its tokenizer. Runs steps of the sizes that texts will have.
    pub(super) fn new(home: &Path, config: Folder, decoder: Decoder, room: Room) -> Outcome<Speaker> {
        let mut folder = config;
        folder.context = folder.context.min(room.context);
        let tokenizer = Arc::new(read_tokenizer(&home.join("tokenizer.json"))?);
        let template = Template::read(home)?;
        let decoder = Arc::new(decoder);
        let room = Room { context: folder.context, ..room };
        let turns = Turns::start(Arc::clone(&decoder), Arc::clone(&tokenizer), room, folder.begin.unwrap_or(0))?;
        Ok(Speaker { folder, tokenizer, template, decoder, turns })
    }

    /// The tokens of a prompt.
    fn tokens(&self, prompt: Prompt) -> Result<Vec<i64>, Failure> {
        let encoded = |text: &str, adds: bool| {
            let encoded = self.tokenizer.encode(text, adds).map_err(|error| Failure::Refused(error.to_string()))?;
            Ok(encoded.get_ids().iter().copied().map(i64::from).collect::<Vec<i64>>())
        };
        let mut tokens = match prompt {
            Prompt::Tokens(tokens) => tokens,
            Prompt::Text(text) => encoded(&text, true)?,
            // A template writes the tokens that begin a text.
            Prompt::Chat(messages) => encoded(&self.chat(&messages)?, false)?,
        };
        if tokens.is_empty() {
            tokens.extend(self.folder.begin);
        }
        let (length, context) = (tokens.len(), self.folder.context);
        match length {
            0 => {
                Err(Failure::Refused("the prompt has no tokens, and the model none that a text begins with".to_owned()))
            }
            _ if length >= context => Err(Failure::Refused(format!(
                "the prompt has {length} tokens, and a text has {context} at most with what is said"
            ))),
            _ => Ok(tokens),
        }
    }

    fn chat(&self, messages: &[Message]) -> Result<String, Failure> {
        let Some(template) = &self.template else {
            return Err(Failure::Refused("the model has no chat template: ask for a completion".to_owned()));
        };
        let messages: Vec<chat::Message<'_>> =
            messages.iter().map(|Message { role, content }| chat::Message { role, content }).collect();
        template.render(&messages).map_err(|error| Failure::Refused(format!("the chat template: {error:#}")))
    }
}

impl Language for Speaker {
    fn begin(&self, text: Text, ticket: &Arc<Ticket>, say: Say) -> Result<usize, Failure> {
        let Text { prompt, choice, max_tokens, stop } = text;
        let asks = choice.temperature.is_some()
            || choice.top_k.is_some()
            || choice.top_p.is_some()
            || choice.min_p.is_some()
            || self.folder.search.do_sample;
        let sampling = self.folder.search.sampling(&Wish {
            temperature: choice.temperature,
            top_k: choice.top_k,
            top_p: choice.top_p,
            min_p: choice.min_p,
            repetition_penalty: choice.repetition_penalty,
            // A seed alone draws no tokens.
            seed: asks.then_some(choice.seed),
        });
        Chooser::new(sampling).map_err(|error| Failure::Refused(error.to_string()))?;
        let tokens = self.tokens(prompt)?;
        let count = tokens.len();
        let search = &self.folder.search;
        let options = GenerateOptions {
            sampling,
            no_repeat_ngram: search.no_repeat_ngram_size.unwrap_or(0),
            min_tokens: search.min_length.unwrap_or(0).saturating_sub(tokens.len()),
            ends: self.folder.ends.clone(),
            max_tokens: max_tokens.unwrap_or(usize::MAX),
            context: self.folder.context,
            ..GenerateOptions::default()
        };
        let (pieces, stops) = (Pieces::default(), Stops::new(stop));
        self.turns.take(Turn { tokens, options, pieces, stops, ticket: Arc::clone(ticket), say })?;
        Ok(count)
    }

    fn in_hand(&self) -> InHand {
        self.turns.in_hand()
    }
}

impl Model for Speaker {
    fn inputs(&self) -> &[Port] {
        &[]
    }

    fn outputs(&self) -> &[Port] {
        &[]
    }

    fn run(&self, _: Vec<Tensor>, _: &Arc<Ticket>, _: Load) -> Result<Vec<Tensor>, Failure> {
        Err(Failure::Refused("a language model continues texts, and runs no tensors".to_owned()))
    }

    fn language(&self) -> Option<&dyn Language> {
        Some(self)
    }

    fn lookups(&self) -> Lookups {
        let stats = self.decoder.session().share_stats();
        Lookups { hit: stats.hits + stats.waits, record: stats.record_hits, miss: stats.misses }
    }

    fn save(&self) {
        // Choices that cannot be saved are made again by the next process; the library warns of it.
        drop(self.decoder.session().save_records());
    }
}
