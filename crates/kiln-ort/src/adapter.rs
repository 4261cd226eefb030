//! LoRA adapters: tensors that take the place of inputs in the runs whose options name the adapter.

use std::sync::Arc;

use kiln::{Adapter, ModelError};

use crate::error::{Code, Error, Result};
use crate::seam::handle::kind;
use crate::seam::{Allocator, Handle, Memory, Out, Text, entry};
use crate::value::Value;

/// `OrtLoraAdapter`: values by the names of inputs.
pub(crate) struct Lora(pub(crate) Vec<(String, Arc<Value>)>);

kind!(Lora = "OrtLoraAdapter");

impl Lora {
    fn of(adapter: Adapter) -> Result<Lora> {
        let value = |(name, tensor)| Ok((name, Arc::new(Value::of_kiln(kiln::Value::Tensor(tensor), &[])?)));
        Ok(Lora(adapter.parameters.into_iter().map(value).collect::<Result<_>>()?))
    }
}

fn refused(error: ModelError) -> Error {
    let code = match &error {
        ModelError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => Code::NoSuchFile,
        ModelError::Memory(_) => Code::OutOfMemory,
        _ => Code::Fail,
    };
    Error::new(code, error.to_string())
}

entry! {
    /// The tensors are in memory of their own, whatever the allocator, which is for devices.
    fn CreateLoraAdapter(path: Text, _allocator: Allocator, out: Out<Handle<Lora>>) {
        let out = out.place("out")?;
        let adapter = Adapter::read(&path.path("adapter_file_path")?).map_err(refused)?;
        out.put(Handle::new(Lora::of(adapter)?)?);
        Ok(())
    }

    fn CreateLoraAdapterFromArray(bytes: Memory, len: usize, _allocator: Allocator, out: Out<Handle<Lora>>) {
        let out = out.place("out")?;
        let adapter = Adapter::from_bytes(&bytes.copy(len, "bytes")?).map_err(refused)?;
        out.put(Handle::new(Lora::of(adapter)?)?);
        Ok(())
    }

    fn ReleaseLoraAdapter(adapter: Handle<Lora>) -> (), else () => {
        drop(adapter.release());
    }
}
