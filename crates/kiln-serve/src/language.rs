//! The server's interface to a language model: the model continues texts, piece by piece, as many at a time as it has
//! room for.

use std::sync::Arc;

use crate::ticket::{Failure, Ticket};

/// The beginning of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// Characters.
    Text(String),
    /// Tokens by their numbers.
    Tokens(Vec<i64>),
    /// The messages so far; the model's template turns them into a text.
    Chat(Vec<Message>),
}

/// One message of a chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who says it: `system`, `user`, `assistant`, or another role that the model's template knows.
    pub role: String,
    /// Its text.
    pub content: String,
}

/// How tokens are chosen. For a field that is `None` the model's files decide.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Choice {
    /// Logits are divided by this before a token is drawn; 0 takes the likeliest token.
    pub temperature: Option<f32>,
    /// The number of likeliest tokens to draw from; 0 is all.
    pub top_k: Option<usize>,
    /// Tokens are drawn from the likeliest ones that together have this share of the probability.
    pub top_p: Option<f32>,
    /// Tokens are drawn from those with at least this share of the likeliest one's probability.
    pub min_p: Option<f32>,
    /// Positive logits of tokens that are in the text are divided by this, other logits of such tokens multiplied.
    pub repetition_penalty: Option<f32>,
    /// The same seed draws the same text.
    pub seed: u64,
}

/// A text to be continued.
#[derive(Clone, Debug, PartialEq)]
pub struct Text {
    /// Its beginning.
    pub prompt: Prompt,
    /// How tokens are chosen.
    pub choice: Choice,
    /// Most tokens that are added; `None` allows as many as the model's context has room for.
    pub max_tokens: Option<usize>,
    /// The text ends before the first of these that appears. None of these is empty.
    pub stop: Vec<String>,
}

/// A model's message about a text: pieces, and then one end.
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
    /// Chosen tokens, including the one that ended the text.
    pub tokens: usize,
}

/// Why a text ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The model ended it, or one of [`Text::stop`] came.
    Stop,
    /// It has [`Text::max_tokens`] tokens, or fills the context.
    Length,
}

/// The receiver of a model's messages. A thread of the model's calls it, and it never waits.
pub type Say = Box<dyn FnMut(Said) + Send>;

/// The texts of a model under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InHand {
    /// Texts that it continues.
    pub running: usize,
    /// Texts that wait for room.
    pub waiting: usize,
}

/// A language model. Threads of the server begin texts at the same time; a thread of the model's own continues them.
pub trait Language: Send + Sync {
    /// Begins to continue a text, and returns the number of tokens of its beginning. Pieces are sent to `say` until the
    /// text ends or the ticket is no longer wanted, which is checked between tokens.
    ///
    /// # Errors
    ///
    /// [`Failure::Refused`] for a text that the model cannot continue, [`Failure::Full`] where too many texts wait.
    /// Then nothing is sent to `say`.
    fn begin(&self, text: Text, ticket: &Arc<Ticket>, say: Say) -> Result<usize, Failure>;

    /// Its texts under way.
    fn in_hand(&self) -> InHand;
}
