//! The thread that continues the texts of a language model: one step reads a token of each continuing text; texts are
//! added and removed between steps.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use kiln::{Batch, Cancel, Decoder, DecoderError, Ended, Finished, GenerateOptions, RunOptions, SessionError};
use kiln_serve::{Ending, Failure, InHand, Said, Say, Ticket, Why};
use tokenizers::Tokenizer;

use super::model;
use super::room::Room;
use crate::failure::{Outcome, WithCode};
use crate::generate::stream::{Pieces, Stops};

/// The longest time of steps before the first text.
const WARM_TIME: Duration = Duration::from_secs(10);

/// Tokens of a prompt whose parts have all sizes in which prompts are read.
const WARM_PROMPT: usize = 511;

/// A text on its way.
pub(super) struct Turn {
    /// The prompt.
    pub(super) tokens: Vec<i64>,
    pub(super) options: GenerateOptions,
    /// Turns its tokens into text.
    pub(super) pieces: Pieces,
    pub(super) stops: Stops,
    /// Tells whether it is still wanted.
    pub(super) ticket: Arc<Ticket>,
    /// Takes the text.
    pub(super) say: Say,
}

/// Gives texts to the thread. The thread ends when this is dropped and no text is left.
pub(super) struct Turns {
    /// A sender is used by one thread at a time.
    sender: Mutex<mpsc::Sender<Turn>>,
    room: Room,
    /// Texts that have begun and not ended.
    open: Arc<AtomicUsize>,
}

impl Turns {
    /// Starts the thread, which first runs steps of the sizes that texts will have, on a token that the model has.
    pub(super) fn start(decoder: Arc<Decoder>, tokenizer: Arc<Tokenizer>, room: Room, token: i64) -> Outcome<Turns> {
        let batch = warmed(Batch::new(decoder, room.texts, room.context)?, room, token)?;
        let (sender, turns) = mpsc::channel();
        let open = Arc::new(AtomicUsize::new(0));
        let table = Table { batch, tokenizer, texts: Vec::new(), open: Arc::clone(&open) };
        let thread = std::thread::Builder::new().name("kiln-texts".to_owned());
        thread.spawn(move || table.serve(&turns)).failed(|| "cannot start the thread of texts".to_owned())?;
        Ok(Turns { sender: Mutex::new(sender), room, open })
    }

    /// Gives the thread a text.
    pub(super) fn take(&self, turn: Turn) -> Result<(), Failure> {
        let most = self.room.texts.saturating_add(self.room.queue);
        let more = |open: usize| (open < most).then_some(open + 1);
        self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).map_err(|_| {
            let Room { texts, queue, .. } = self.room;
            Failure::Full(format!("{texts} texts are continued and {queue} wait already, there is room for no more"))
        })?;
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        sender.send(turn).map_err(|_| {
            self.open.fetch_sub(1, Ordering::Relaxed);
            Failure::Failed("the thread of texts has stopped".to_owned())
        })
    }

    /// The texts that it has in hand.
    pub(super) fn in_hand(&self) -> InHand {
        let open = self.open.load(Ordering::Relaxed);
        let running = open.min(self.room.texts);
        InHand { running, waiting: open - running }
    }
}

/// Has the batch run steps of all sizes that texts will need: a long prompt, and rows of one text, of two, and so on.
/// Stops when these take too long in total.
fn warmed(mut batch: Batch<Arc<Decoder>>, room: Room, token: i64) -> Outcome<Batch<Arc<Decoder>>> {
    let begun = Instant::now();
    let options = |max_tokens| GenerateOptions { max_tokens, context: room.context, ..GenerateOptions::default() };
    let step = |batch: &mut Batch<Arc<Decoder>>| {
        let left = WARM_TIME.saturating_sub(begun.elapsed());
        batch.step(&RunOptions { time_limit: Some(left), ..RunOptions::default() })
    };
    let mut ids = vec![batch.push(&vec![token; WARM_PROMPT.min(room.context.saturating_sub(1)).max(1)], options(1))?];
    'warm: {
        while !batch.is_idle() {
            match step(&mut batch) {
                Err(error) if is_stopped(&error) => break 'warm,
                stepped => drop(stepped?),
            }
        }
        for _ in 0..room.texts {
            ids.push(batch.push(&[token], options(usize::MAX))?);
            match step(&mut batch) {
                Err(error) if is_stopped(&error) => break 'warm,
                stepped => drop(stepped?),
            }
        }
    }
    for id in ids {
        // A text that has ended is gone already.
        let _ = batch.cancel(id);
    }
    drop(batch.finished());
    Ok(batch)
}

/// A text that has not ended.
struct Open {
    id: u64,
    pieces: Pieces,
    stops: Stops,
    ticket: Arc<Ticket>,
    say: Say,
    tokens: usize,
}

/// The state of the thread.
struct Table {
    batch: Batch<Arc<Decoder>>,
    tokenizer: Arc<Tokenizer>,
    texts: Vec<Open>,
    open: Arc<AtomicUsize>,
}

impl Table {
    /// Continues texts until no more can come.
    fn serve(mut self, turns: &mpsc::Receiver<Turn>) {
        loop {
            if self.texts.is_empty() {
                match turns.recv() {
                    Ok(turn) => self.begin(turn),
                    Err(mpsc::RecvError) => return,
                }
            }
            turns.try_iter().for_each(|turn| self.begin(turn));
            self.leave();
            if !self.texts.is_empty() {
                self.step();
            }
        }
    }

    fn begin(&mut self, turn: Turn) {
        let Turn { tokens, options, pieces, stops, ticket, mut say } = turn;
        match self.batch.push(&tokens, options) {
            Ok(id) => self.texts.push(Open { id, pieces, stops, ticket, say, tokens: 0 }),
            Err(error) => {
                self.open.fetch_sub(1, Ordering::Relaxed);
                say(Said::Failed(Failure::Refused(error.to_string())));
            }
        }
    }

    /// Drops texts that are no longer wanted.
    fn leave(&mut self) {
        let unwanted = |text: &Open| Some((text.id, text.ticket.check().err()?));
        let gone: Vec<(u64, Failure)> = self.texts.iter().filter_map(unwanted).collect();
        for (id, failure) in gone {
            self.batch.cancel(id);
            self.end(id, Said::Failed(failure));
        }
    }

    /// Runs a step, and passes its tokens on.
    fn step(&mut self) {
        // A step that no text waits for any more is cancelled.
        let tickets: Vec<Arc<Ticket>> = self.texts.iter().map(|text| Arc::clone(&text.ticket)).collect();
        let cancel = Cancel::asking(move || tickets.iter().all(|ticket| ticket.check().is_err()));
        let options = RunOptions { cancel: Some(cancel), ..RunOptions::default() };
        match self.batch.step(&options) {
            Ok(said) => said.into_iter().for_each(|(id, token)| self.say(id, token)),
            Err(error) => self.give_way(error),
        }
        for finished in self.batch.finished() {
            self.finish(finished);
        }
    }

    /// Handles a failed step, which has left all texts unchanged. Unless the step was stopped, the newest text ends,
    /// which makes room if memory was short.
    fn give_way(&mut self, error: DecoderError) {
        let is_stopped = is_stopped(&error);
        if let Some(last) = self.texts.last().map(|text| text.id).filter(|_| !is_stopped) {
            self.batch.cancel(last);
            self.end(last, Said::Failed(failure(error)));
        }
    }

    /// Passes a token of a text on, as far as it has whole characters and cannot begin a stop.
    fn say(&mut self, id: u64, token: i64) {
        let Some(text) = self.texts.iter_mut().find(|text| text.id == id) else { return };
        text.tokens += 1;
        let piece = match u32::try_from(token) {
            Ok(token) => text.pieces.push(token, |tokens| self.tokenizer.decode(tokens, true)),
            Err(_) => Err(format!("the token {token} is no word").into()),
        };
        match piece {
            Ok(piece) => {
                let shown = text.stops.push(&piece);
                if !shown.is_empty() {
                    (text.say)(Said::Piece(shown));
                }
                if text.stops.found() {
                    let ending = Ending { why: Why::Stop, tokens: text.tokens };
                    self.batch.cancel(id);
                    self.end(id, Said::End(ending));
                }
            }
            Err(error) => {
                self.batch.cancel(id);
                self.end(id, Said::Failed(Failure::Failed(error.to_string())));
            }
        }
    }

    /// Passes the rest of a text on that the batch has ended, with its end.
    fn finish(&mut self, finished: Finished) {
        let Some(text) = self.texts.iter_mut().find(|text| text.id == finished.id) else { return };
        let rest = match finished.error {
            Some(error) => Err(failure(error)),
            None => text
                .pieces
                .finish(|tokens| self.tokenizer.decode(tokens, true))
                .map_err(|error| Failure::Failed(error.to_string())),
        };
        let said = match rest {
            Ok(rest) => {
                let mut shown = text.stops.push(&rest);
                let is_stopped = text.stops.found();
                shown.push_str(&text.stops.finish());
                if !shown.is_empty() {
                    (text.say)(Said::Piece(shown));
                }
                let ended_itself = matches!(finished.ended, Ended::Token(_));
                let why = if is_stopped || ended_itself { Why::Stop } else { Why::Length };
                Said::End(Ending { why, tokens: text.tokens + usize::from(ended_itself) })
            }
            Err(failure) => Said::Failed(failure),
        };
        self.end(finished.id, said);
    }

    /// Passes the last part of a text on, and forgets the text.
    fn end(&mut self, id: u64, said: Said) {
        let Some(at) = self.texts.iter().position(|text| text.id == id) else { return };
        // Freed first, so that there is room when the client gets the end.
        self.open.fetch_sub(1, Ordering::Relaxed);
        (self.texts.remove(at).say)(said);
    }
}

/// Whether a step was cancelled, or out of time.
fn is_stopped(error: &DecoderError) -> bool {
    matches!(error, DecoderError::Session(SessionError::Run(run)) if run.stopped().is_some())
}

/// A step's error for a client.
fn failure(error: DecoderError) -> Failure {
    match error {
        DecoderError::Session(error) => model::failure(error),
        error => Failure::Failed(error.to_string()),
    }
}
