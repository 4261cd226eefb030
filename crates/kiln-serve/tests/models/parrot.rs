//! A language model that repeats the words of its prompt, and a server with such models.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use kiln_serve::{
    Ending, Failure, InHand, Language, Load, Loader, Lookups, Message, Model, Port, Prompt, Said, Say, Server,
    Settings, Source, Tensor, Text, Ticket, Why,
};

/// A text that the model has begun.
pub(crate) type Begun = (Text, Arc<Ticket>, Say);

/// Repeats the words of a prompt, one for each allowed token. It says nothing if the first word is `hold`. A prompt
/// that begins with `slow` begins only when the test has stopped listening.
struct Parrot(Mutex<mpsc::Sender<Begun>>);

pub(crate) fn text_of(prompt: &Prompt) -> String {
    match prompt {
        Prompt::Text(text) => text.clone(),
        Prompt::Tokens(tokens) => tokens.iter().map(|token| format!("<{token}>")).collect::<Vec<_>>().join(" "),
        Prompt::Chat(messages) => {
            messages.iter().map(|Message { role, content }| format!("{role}:{content}")).collect::<Vec<_>>().join(" ")
        }
    }
}

impl Language for Parrot {
    fn begin(&self, text: Text, ticket: &Arc<Ticket>, mut say: Say) -> Result<usize, Failure> {
        let all = text_of(&text.prompt);
        let words: Vec<String> = all.split(' ').map(|word| format!("{word} ")).collect();
        match words[0].trim() {
            "refuse" => return Err(Failure::Refused("it does not say that".to_owned())),
            "full" => return Err(Failure::Full("5 texts wait".to_owned())),
            "slow" => {
                while self.0.lock().unwrap().send((text.clone(), Arc::clone(ticket), Box::new(drop))).is_ok() {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            "hold" => {
                self.0.lock().unwrap().send((text, Arc::clone(ticket), say)).unwrap();
                return Ok(words.len());
            }
            _ => {}
        }
        let most = text.max_tokens.unwrap_or(usize::MAX).min(words.len());
        words[..most].iter().for_each(|word| say(Said::Piece(word.clone())));
        match words[0].trim() {
            "break" => say(Said::Failed(Failure::Failed("it broke".to_owned()))),
            _ => {
                let why = if most < words.len() { Why::Length } else { Why::Stop };
                say(Said::End(Ending { why, tokens: most }));
            }
        }
        Ok(words.len())
    }

    fn in_hand(&self) -> InHand {
        InHand { running: 2, waiting: 3 }
    }
}

impl Model for Parrot {
    fn inputs(&self) -> &[Port] {
        &[]
    }

    fn outputs(&self) -> &[Port] {
        &[]
    }

    fn run(&self, _: Vec<Tensor>, _: &Arc<Ticket>, _: Load) -> Result<Vec<Tensor>, Failure> {
        unreachable!("the server sends no tensors to a language model")
    }

    fn language(&self) -> Option<&dyn Language> {
        Some(self)
    }

    fn lookups(&self) -> Lookups {
        Lookups::default()
    }

    fn save(&self) {}
}

struct Parrots(Mutex<mpsc::Sender<Begun>>);

impl Loader for Parrots {
    fn load(&self, file: &Path) -> Result<Arc<dyn Model>, String> {
        assert!(file.ends_with("genai_config.json"));
        Ok(Arc::new(Parrot(Mutex::new(self.0.lock().unwrap().clone()))))
    }

    fn memory(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// The addresses of a server of parrots.
pub(crate) struct Addresses {
    pub(crate) rest: SocketAddr,
    pub(crate) grpc: SocketAddr,
}

/// A server of parrots with these names, with room for `queue` waiting requests, and the texts that they hold.
pub(crate) fn server(names: &[&str], queue: usize) -> (Addresses, mpsc::Receiver<Begun>) {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        std::fs::write(folder.path().join(name).join("genai_config.json"), "").unwrap();
    }
    let settings = Settings::local(vec![Source::Folder(folder.path().to_owned())]);
    let server = Server::bind(Settings { queue, grpc_port: Some(0), ..settings }).unwrap();
    let addresses = Addresses { rest: server.address(), grpc: server.grpc_address().unwrap() };
    let (held, holds) = mpsc::channel();
    let (ready, is_ready) = mpsc::channel();
    std::thread::spawn(move || {
        // The folder lives as long as the server.
        let _folder = folder;
        server.run(Arc::new(Parrots(Mutex::new(held))), &mut |_| ready.send(()).unwrap_or_default())
    });
    is_ready.recv().unwrap();
    (addresses, holds)
}
