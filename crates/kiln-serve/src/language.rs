//! What the server asks of a language model: texts that it continues, piece by piece, as many at a time as it has room
//! for.

use std::sync::Arc;

use crate::ticket::{Failure, Ticket};

/// What a text begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// Characters.
    Text(String),
    /// Tokens by their numbers.
    Tokens(Vec<i64>),
    /// What was said so far, which the model's template makes a text of.
    Chat(Vec<Message>),
}

/// One message of a chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who says it: `system`, `user`, `assistant`, or what else the model's template knows.
    pub role: String,
    /// What is said.
    pub content: String,
}

/// How tokens are chosen. What is `None` is as the model's files say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Choice {
    /// Logits are divided by this before a token is drawn; 0 takes the likeliest token.
    pub temperature: Option<f32>,
    /// As many of the likeliest tokens are drawn from; 0 is all.
    pub top_k: Option<usize>,
    /// The likeliest tokens that have this part of the probability are drawn from.
    pub top_p: Option<f32>,
    /// Tokens that have at least this part of the likeliest one's probability are drawn from.
    pub min_p: Option<f32>,
    /// Positive logits of tokens that the text has are divided by this, others multiplied.
    pub repetition_penalty: Option<f32>,
    /// The same seed draws the same text.
    pub seed: u64,
}

/// A text to be continued.
#[derive(Clone, Debug, PartialEq)]
pub struct Text {
    /// What it begins with.
    pub prompt: Prompt,
    /// How tokens are chosen.
    pub choice: Choice,
    /// Most tokens that are added; `None` is what the model's context has room for.
    pub max_tokens: Option<usize>,
    /// The text ends before the first of these. None is empty.
    pub stop: Vec<String>,
}

/// What a model says of a text: pieces, and an end, behind which nothing comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// More of the text, in whole characters.
    Piece(String),
    /// The text has ended.
    End(Ending),
    /// The text has broken off.
    Failed(Failure),
}

/// The end of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Why it ended.
    pub why: Why,
    /// Tokens that were chosen, the one that ended the text among them.
    pub tokens: usize,
}

/// Why a text ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The model ended it, or one of [`Text::stop`] came.
    Stop,
    /// It has [`Text::max_tokens`], or as many as the context.
    Length,
}

/// Where a model says something. Called from a thread of the model's, and never waits.
pub type Say = Box<dyn FnMut(Said) + Send>;

/// Texts that a model has in hand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InHand {
    /// Those that it continues.
    pub running: usize,
    /// Those that wait for room.
    pub waiting: usize,
}

/// A language model. Threads of the server begin texts at the same time; a thread of the model's own continues them.
pub trait Language: Send + Sync {
    /// Begins to continue a text, and returns how many tokens it begins with. What comes is said until the text ends or
    /// the ticket is no longer wanted, which is looked at between tokens.
    ///
    /// # Errors
    ///
    /// [`Failure::Refused`] for a text that the model cannot continue, [`Failure::Full`] where too many wait. Nothing is
    /// said then.
    fn begin(&self, text: Text, ticket: &Arc<Ticket>, say: Say) -> Result<usize, Failure>;

    /// What it has in hand.
    fn in_hand(&self) -> InHand;
}
