//! Encoder-decoders as packed models: three files, one for each graph that is run.

use std::path::Path;
use std::sync::Arc;

use super::{
    EncoderDecoder, EncoderDecoderFiles, EncoderDecoderGraphs, OF_ENCODER, PAST, PRESENT, Parts, on_one_pool,
    states_of, steps_of, within,
};
use crate::packed;
use crate::session::decoder::branch;
use crate::session::decoder::packed::{of_session, user};
use crate::session::decoder::rewrite::refused;
use crate::session::decoder::{Decoder, DecoderError};
use crate::session::pack::{self, Packer, User, Waiting};
use crate::session::{LoadClock, PackReport, Session, SessionError, SessionOptions, attempt};

/// The names of packed files.
const NAMES: [&str; 3] = ["encoder_model.kpk", "decoder_model.kpk", "decoder_with_past_model.kpk"];

impl EncoderDecoderFiles {
    /// The files of a folder as [`EncoderDecoder::pack`] names them: the encoder, the keys and values of
    /// cross-attention, and the steps. They need not exist.
    #[must_use]
    pub fn packed(folder: &Path) -> EncoderDecoderFiles {
        let [encoder, decoder, with_past] = NAMES.map(|name| folder.join(name));
        EncoderDecoderFiles { encoder, decoder, with_past: Some(with_past) }
    }

    /// The file of the steps.
    fn steps(&self) -> &Path {
        self.with_past.as_deref().unwrap_or(&self.decoder)
    }

    /// The names of the files of the three graphs.
    pub(super) fn names(&self) -> [String; 3] {
        [&self.encoder, &self.decoder, self.steps()].map(|path| path.display().to_string())
    }
}

impl EncoderDecoder {
    /// Writes the graphs of a model that are run, with their weights packed, to the files
    /// [`EncoderDecoderFiles::packed`] of a folder, which [`EncoderDecoder::load`] takes. See [`Session::pack`].
    ///
    /// # Errors
    ///
    /// As [`EncoderDecoder::load`]; [`SessionError::Packed`] if a file cannot be written.
    pub fn pack(
        files: &EncoderDecoderFiles,
        folder: &Path,
        options: &SessionOptions,
    ) -> Result<[PackReport; 3], DecoderError> {
        let begun = LoadClock::now(options);
        let options = &on_one_pool(options)?;
        let names = files.names();
        let to = EncoderDecoderFiles::packed(folder);
        let Parts { encoder, cross, steps, beside, .. } = parts(files, options, &begun)?;
        let session = |graph, name: &str, user: &User, to: &Path| {
            attempt(name, &begun, || pack::write(graph, user, pack::Beside::default(), to, options, &begun))
        };
        let [of_encoder, of_decoder, of_steps] = &names;
        let encoder = session(encoder, of_encoder, &User::Session, &to.encoder)?;
        let cross = session(cross, of_decoder, &User::CrossAttention, &to.decoder)?;
        let steps = Decoder::write(steps, &beside, of_steps, to.steps(), options, &begun);
        Ok([encoder, cross, steps.map_err(|error| within(of_steps, error))?])
    }

    /// The model of packed files, if these are packed, or of the packed files that are kept for ONNX files, if all are
    /// there and usable.
    pub(super) fn ready(
        files: &EncoderDecoderFiles,
        options: &SessionOptions,
        begun: &LoadClock,
    ) -> Result<Option<EncoderDecoder>, DecoderError> {
        let names = files.names();
        let [of_encoder, of_decoder, of_steps] = &names;
        let paths = [&files.encoder, &files.decoder, files.steps()];
        let other = paths.into_iter().find(|path| !packed::is_packed(path));
        let of_steps_user = steps_user(options);
        if let Some(other) = other {
            if let Some(packed) = paths.into_iter().find(|path| packed::is_packed(path)) {
                let (packed, other) = (packed.display(), other.display());
                return Err(refused(format!("{packed} is a packed model, and {other} is none")));
            }
            let kept = || -> Result<Option<[Session; 2]>, SessionError> {
                let Some(encoder) = Session::find_packed(&files.encoder, of_encoder, options, begun)? else {
                    return Ok(None);
                };
                let cross = find_cross(files, of_decoder, options, begun)?;
                Ok(cross.map(|cross| [encoder, cross]))
            };
            let Some([encoder, cross]) = attempt(of_encoder, begun, kept)? else { return Ok(None) };
            let is_merged = files.with_past.is_none();
            let steps = move |graph| steps_of(if is_merged { branch::taken(&graph, true)? } else { graph });
            let find = || Decoder::find_packed(files.steps(), of_steps, &of_steps_user, options, begun, steps);
            let Some(decoder) = attempt(of_steps, begun, find)? else { return Ok(None) };
            // Kept parts may belong to different models, and then do not fit together.
            return Ok(EncoderDecoder::joined(encoder, cross, decoder).ok());
        }
        let session = |path: &Path, name: &str, user: &User| {
            attempt(name, begun, || Session::load_packed(path, name.to_owned(), user, options, begun))
        };
        let encoder = session(&files.encoder, of_encoder, &User::Session)?;
        let cross = session(&files.decoder, of_decoder, &User::CrossAttention)?;
        let load = || Decoder::load_packed(files.steps(), of_steps, &of_steps_user, options, begun);
        let decoder = attempt(of_steps, begun, load)?;
        EncoderDecoder::joined(encoder, cross, decoder).map(Some).map_err(|error| within(of_decoder, error))
    }

    /// The model of three parts.
    ///
    /// # Errors
    ///
    /// [`DecoderError::Model`] where they are not those of one model.
    fn joined(encoder: Session, cross: Session, decoder: Decoder) -> Result<EncoderDecoder, DecoderError> {
        let states = states_of(encoder.outputs(), cross.inputs())?;
        let known = [super::TOKENS, super::STATES, super::ENCODER_MASK];
        if let Some(other) = cross.inputs().iter().find(|port| !known.contains(&port.name.as_str())) {
            return Err(refused(format!("keys and values of cross-attention follow from input '{}'", other.name)));
        }
        let of_encoder = decoder.beside().iter().filter(|name| name.contains(OF_ENCODER));
        let mut read: Vec<String> = of_encoder.map(|name| name.replacen(PAST, PRESENT, 1)).collect();
        let mut made: Vec<String> = cross.outputs().iter().map(|port| port.name.clone()).collect();
        read.sort_unstable();
        made.sort_unstable();
        if read != made {
            return Err(refused(format!("its outputs are {made:?}, and steps read {read:?}")));
        }
        Ok(EncoderDecoder { encoder, cross, decoder: Arc::new(decoder), states })
    }
}

/// The user of the packed model of steps.
fn steps_user(options: &SessionOptions) -> User {
    user(&[super::STATES.to_owned()], options)
}

/// The graphs that are run, from the files of a model.
fn parts(files: &EncoderDecoderFiles, options: &SessionOptions, begun: &LoadClock) -> Result<Parts, DecoderError> {
    Parts::of(EncoderDecoderGraphs::read(files, options, begun)?, &files.names())
}

/// The session that is kept for the keys and values of cross-attention.
fn find_cross(
    files: &EncoderDecoderFiles,
    name: &str,
    options: &SessionOptions,
    begun: &LoadClock,
) -> Result<Option<Session>, SessionError> {
    pack::find(&files.decoder, &User::CrossAttention, options, |found, own| {
        let session = Session::load_packed(&found.path, name.to_owned(), &User::CrossAttention, own, begun)?;
        let files = files.clone();
        let read = move |options: &SessionOptions| {
            parts(&files, options, &LoadClock::now(options)).map(|parts| parts.cross).map_err(of_session)
        };
        Ok(session.with_source(found.files.clone(), options, Box::new(read)))
    })
}

/// The preparation for packing the three graphs.
pub(super) fn wanted(
    files: &EncoderDecoderFiles,
    graphs: &EncoderDecoderGraphs,
    options: &SessionOptions,
) -> [Option<Waiting>; 3] {
    let EncoderDecoderGraphs { encoder, decoder, with_past } = graphs;
    let steps = with_past.as_ref().unwrap_or(decoder);
    let each = [(&*files.encoder, encoder), (&*files.decoder, decoder), (files.steps(), steps)];
    each.map(|(path, graph)| Packer::wanted(path, &[graph], options))
}

/// Packs the three graphs in the background.
pub(super) fn start(
    waiting: [Option<Waiting>; 3],
    model: &mut EncoderDecoder,
    files: &EncoderDecoderFiles,
    options: &SessionOptions,
) {
    let [encoder, cross, steps] = waiting;
    let own = files.clone();
    let pack_encoder = move |to: &Path, options: &SessionOptions| Session::pack(&own.encoder, to, options).map(drop);
    let own = files.clone();
    let pack_cross = move |to: &Path, options: &SessionOptions| {
        let begun = LoadClock::now(options);
        let graph = parts(&own, options, &begun).map_err(of_session)?.cross;
        pack::write(graph, &User::CrossAttention, pack::Beside::default(), to, options, &begun).map(drop)
    };
    let own = files.clone();
    let pack_steps = move |to: &Path, options: &SessionOptions| {
        let begun = LoadClock::now(options);
        let Parts { steps, beside, .. } = parts(&own, options, &begun).map_err(of_session)?;
        let name = own.steps().display().to_string();
        Decoder::write(steps, &beside, &name, to, options, &begun).map(drop).map_err(of_session)
    };
    model.encoder.packer = encoder.and_then(|waiting| waiting.start(&User::Session, options, pack_encoder));
    model.cross.packer = cross.and_then(|waiting| waiting.start(&User::CrossAttention, options, pack_cross));
    if let Some(decoder) = Arc::get_mut(&mut model.decoder) {
        decoder.pack_behind(steps.and_then(|waiting| waiting.start(&steps_user(options), options, pack_steps)));
    }
}
