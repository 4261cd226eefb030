//! Compiled models (`OrtCompileApi`): Kiln's packed models, with a graph after its passes and weights as kernels read
//! them.

use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use kiln_fork::Mutex;

use crate::env::Env;
use crate::error::{Error, Result, failed, invalid};
use crate::log::Severity;
use crate::options::Settings;
use crate::seam::handle::kind;
use crate::seam::{Allocator, Failure, Handle, Memory, Out, Status, Text, entry};
use crate::source::{Loading, Source};
use crate::sub_table::sub_table;

/// The model to compile, and its destination.
pub(crate) struct Compilation {
    settings: Option<Arc<Settings>>,
    says: Mutex<Wanted>,
}

kind!(Compilation = "OrtModelCompilationOptions");

#[derive(Clone, Default)]
struct Wanted {
    input: Option<Input>,
    output: Option<Output>,
    /// Bits of `OrtCompileApiFlags`.
    flags: u32,
}

#[derive(Clone)]
enum Input {
    Path(PathBuf),
    /// The caller's, until the model is compiled.
    Memory(Given),
}

#[derive(Clone, Copy)]
struct Given {
    start: Memory,
    len: usize,
}

#[derive(Clone)]
enum Output {
    Path(PathBuf),
    /// The caller's allocator, and where to write the address that it returns and the size.
    Memory {
        allocator: Allocator,
        start: Out<Memory>,
        len: Out<usize>,
    },
}

/// The flag that makes an existing file an error. The other flag, for models in which nothing was compiled, has no
/// effect: every model is compiled as a whole.
const KEEP_FILES: u32 = 1 << 1;

impl Compilation {
    fn with(&self, what: impl FnOnce(&mut Wanted)) {
        what(&mut self.says.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn compile(&self, env: Handle<Env>) -> Result<()> {
        let wanted = self.says.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let loading = Loading::of(env, self.settings.as_deref())?;
        let source = match wanted.input {
            Some(Input::Path(path)) => Source::Path(path),
            Some(Input::Memory(Given { start, len })) => Source::Bytes(start.copy(len, "input_model_data")?),
            None => return Err(invalid!("Input model path or buffer must be set before the model is compiled")),
        };
        let pack = |to: &Path| {
            source.pack(to, &loading.says, &loading.options).inspect_err(|error| {
                loading.log.line(Severity::Error, "compilation", &error.message);
            })
        };
        match wanted.output {
            Some(Output::Path(path)) => {
                if wanted.flags & KEEP_FILES != 0 && path.exists() {
                    return Err(failed!("the output model {} exists already", path.display()));
                }
                pack(&path)
            }
            Some(Output::Memory { allocator, start, len }) => {
                let folder = tempfile::tempdir();
                let folder = folder.map_err(|error| failed!("compiling needs a temporary folder: {error}"))?;
                let path = folder.path().join("model");
                pack(&path)?;
                let bytes =
                    std::fs::read(&path).map_err(|error| failed!("the compiled model was not read: {error}"))?;
                let (start, len) =
                    (start.place("output_model_buffer_ptr")?, len.place("output_model_buffer_size_ptr")?);
                let memory = Memory::of(allocator.alloc(bytes.len(), "allocator")?);
                memory.write(bytes.len(), &bytes, "output_model_buffer")?;
                start.put(memory);
                len.put(bytes.len());
                Ok(())
            }
            None => Err(invalid!("Output model path or buffer must be set before the model is compiled")),
        }
    }
}

/// A path that is not empty.
fn path(text: Text, what: &str) -> Result<PathBuf> {
    let path = text.path(what)?;
    if path.as_os_str().is_empty() { Err(invalid!("Invalid {what}: path is empty")) } else { Ok(path) }
}

sub_table! {
    Known, KNOWN, OrtCompileApi;
    ReleaseModelCompilationOptions(Handle<Compilation>) = compile;
    CreateModelCompilationOptionsFromSessionOptions(
        Handle<Env>, Handle<Settings>, Out<Handle<Compilation>>
    ) -> Status = compile;
    ModelCompilationOptions_SetInputModelPath(Handle<Compilation>, Text) -> Status = compile;
    ModelCompilationOptions_SetInputModelFromBuffer(Handle<Compilation>, Memory, usize) -> Status = compile;
    ModelCompilationOptions_SetOutputModelPath(Handle<Compilation>, Text) -> Status = compile;
    ModelCompilationOptions_SetOutputModelExternalInitializersFile(
        Handle<Compilation>, Text, usize
    ) -> Status = compile;
    ModelCompilationOptions_SetOutputModelBuffer(
        Handle<Compilation>, Allocator, Out<Memory>, Out<usize>
    ) -> Status = compile;
    ModelCompilationOptions_SetEpContextEmbedMode(Handle<Compilation>, u8) -> Status = compile;
    CompileModel(Handle<Env>, Handle<Compilation>) -> Status = compile;
}

// Entries that `ort-sys` does not name.
sub_table! {
    Newer, NEWER;
    ModelCompilationOptions_SetFlags(Handle<Compilation>, u32) -> Status = compile;
    ModelCompilationOptions_SetEpContextBinaryInformation(Handle<Compilation>, Text, Text) -> Status = compile;
    ModelCompilationOptions_SetGraphOptimizationLevel(Handle<Compilation>, c_int) -> Status = compile;
    ModelCompilationOptions_SetOutputModelWriteFunc(Handle<Compilation>, Memory, Memory) -> Status;
    ModelCompilationOptions_SetOutputModelGetInitializerLocationFunc(Handle<Compilation>, Memory, Memory) -> Status;
}

#[repr(C)]
struct CompileApi {
    known: Known,
    newer: Newer,
    /// Places of entries of later headers, which only answer with an error.
    later: [extern "C" fn() -> Status; LATER],
}

const LATER: usize = 8;

static COMPILE: CompileApi = CompileApi { known: KNOWN, newer: NEWER, later: [later; LATER] };

/// It takes no arguments, whatever it is called with.
extern "C" fn later() -> Status {
    Failure::status(Error::not_implemented("an entry of OrtCompileApi behind those of version 31"))
}

entry! {
    fn GetCompileApi() -> Memory, else Memory::NULL => {
        Memory::of((&raw const COMPILE).cast_mut().cast())
    }

    fn CreateModelCompilationOptionsFromSessionOptions(
        env: Handle<Env>,
        settings: Handle<Settings>,
        out: Out<Handle<Compilation>>,
    ) {
        let out = out.place("out")?;
        let _ = env.get("env")?;
        // The options as they are now: later changes do not affect the compilation.
        let settings = Some(Arc::new(settings.get("session_options")?.copy()));
        out.put(Handle::new(Compilation { settings, says: Mutex::default() })?);
        Ok(())
    }

    fn ModelCompilationOptions_SetInputModelPath(options: Handle<Compilation>, input: Text) {
        let options = options.get("model_compile_options")?;
        let input = path(input, "input_model_path")?;
        options.with(|wanted| wanted.input = Some(Input::Path(input)));
        Ok(())
    }

    fn ModelCompilationOptions_SetInputModelFromBuffer(options: Handle<Compilation>, start: Memory, len: usize) {
        let options = options.get("model_compile_options")?;
        if start.is_null() || len == 0 {
            return Err(invalid!("Invalid input model buffer: it is null or has no bytes"));
        }
        options.with(|wanted| wanted.input = Some(Input::Memory(Given { start, len })));
        Ok(())
    }

    fn ModelCompilationOptions_SetOutputModelPath(options: Handle<Compilation>, output: Text) {
        let options = options.get("model_compile_options")?;
        let output = path(output, "output_model_path")?;
        options.with(|wanted| wanted.output = Some(Output::Path(output)));
        Ok(())
    }

    /// No effect: a packed model contains its weights.
    fn ModelCompilationOptions_SetOutputModelExternalInitializersFile(
        options: Handle<Compilation>,
        file: Text,
        _threshold: usize,
    ) {
        let _ = (options.get("model_compile_options")?, path(file, "external_initializers_file_path")?);
        Ok(())
    }

    fn ModelCompilationOptions_SetOutputModelBuffer(
        options: Handle<Compilation>,
        allocator: Allocator,
        start: Out<Memory>,
        len: Out<usize>,
    ) {
        let options = options.get("model_compile_options")?;
        allocator.check("allocator")?;
        let _ = (start.place("output_model_buffer_ptr")?, len.place("output_model_buffer_size_ptr")?);
        options.with(|wanted| wanted.output = Some(Output::Memory { allocator, start, len }));
        Ok(())
    }

    /// No effect, like all settings of execution providers.
    fn ModelCompilationOptions_SetEpContextEmbedMode(options: Handle<Compilation>, _embed: u8) {
        options.get("model_compile_options").map(drop)
    }

    fn ModelCompilationOptions_SetFlags(options: Handle<Compilation>, flags: u32) {
        options.get("model_compile_options")?.with(|wanted| wanted.flags = flags);
        Ok(())
    }

    fn ModelCompilationOptions_SetEpContextBinaryInformation(
        options: Handle<Compilation>,
        folder: Text,
        name: Text,
    ) {
        let _ = (options.get("model_compile_options")?, path(folder, "output_directory")?, path(name, "model_name")?);
        Ok(())
    }

    /// No effect, like the level of sessions.
    fn ModelCompilationOptions_SetGraphOptimizationLevel(options: Handle<Compilation>, level: c_int) {
        let _ = options.get("model_compile_options")?;
        crate::options::check_level(level)
    }

    fn CompileModel(env: Handle<Env>, options: Handle<Compilation>) {
        options.get("model_options")?.compile(env)
    }

    fn ReleaseModelCompilationOptions(options: Handle<Compilation>) -> (), else () => {
        drop(options.release());
    }
}
