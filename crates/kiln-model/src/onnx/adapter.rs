//! Adapters: tensors that requests give in place of a model's defaults (LoRA), in the file format of ONNX Runtime.
//!
//! The format is a flat buffer. Its schema is `onnxruntime/lora/adapter_format/adapter_schema.fbs` of ONNX Runtime: the
//! root has the versions of the format, the adapter and the model, and a list of parameters, each with a name, its
//! dimensions, its element type and its elements.

use std::collections::HashSet;
use std::path::Path;

use kiln_tensor::{DType, Tensor, TensorSpec};

use super::declare::{dtype_code, dtype_of};
use super::flat::{CutOff, Table};
use super::{ModelError, refusable, shown};

/// The word of the format behind the offset of its root.
const WORD: &[u8; 4] = b"TORT";

/// The version of the format that is read and written.
const FORMAT: i32 = 1;

/// The most bytes of a flat buffer.
const MOST: u64 = i32::MAX as u64;

/// Numbers of the fields of the root.
mod root {
    pub(super) const FORMAT: usize = 0;
    pub(super) const ADAPTER: usize = 1;
    pub(super) const MODEL: usize = 2;
    pub(super) const PARAMETERS: usize = 3;
}

/// Numbers of the fields of a parameter.
mod parameter {
    pub(super) const NAME: usize = 0;
    pub(super) const DIMS: usize = 1;
    pub(super) const TYPE: usize = 2;
    pub(super) const BYTES: usize = 3;
}

/// Tensors by the names of the inputs that they are for.
#[derive(Clone, Debug, Default)]
pub struct Adapter {
    /// The adapter's own version.
    pub adapter_version: i32,
    /// The version of the model that the adapter is for.
    pub model_version: i32,
    /// The tensors, in the order of the file. No name is there twice.
    pub parameters: Vec<(String, Tensor)>,
}

impl Adapter {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`ModelError::Io`] and [`ModelError::NotAFile`] for a file that cannot be read, and as [`Adapter::from_bytes`].
    pub fn read(path: &Path) -> Result<Adapter, ModelError> {
        let io = |source| ModelError::Io { path: path.to_owned(), source };
        let place = shown(&path.display().to_string());
        let info = std::fs::metadata(path).map_err(io)?;
        if !info.is_file() {
            return Err(ModelError::NotAFile { path: path.to_owned() });
        }
        check_size(info.len(), &place)?;
        Adapter::decode(&std::fs::read(path).map_err(io)?, &place)
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    ///
    /// [`ModelError::Malformed`] for bytes that are no adapter, with the parameter that is at fault,
    /// [`ModelError::Memory`] where there is no memory for it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Adapter, ModelError> {
        Adapter::decode(bytes, "the adapter")
    }

    fn decode(bytes: &[u8], place: &str) -> Result<Adapter, ModelError> {
        let malformed = |reason: String| ModelError::Malformed { place: place.to_owned(), reason };
        let cut_off = |cut_off: CutOff| malformed(cut_off.to_string());
        if bytes.get(4..8) != Some(WORD) {
            return Err(malformed("it is no adapter of ONNX Runtime".to_owned()));
        }
        let stored = Table::root(bytes).map_err(cut_off)?;
        let format = stored.int(root::FORMAT).map_err(cut_off)?;
        if format != FORMAT {
            return Err(malformed(format!("its format has version {format}, and {FORMAT} is known")));
        }
        let mut adapter = Adapter {
            adapter_version: stored.int(root::ADAPTER).map_err(cut_off)?,
            model_version: stored.int(root::MODEL).map_err(cut_off)?,
            parameters: Vec::new(),
        };
        let (mut names, mut taken) = (HashSet::new(), 0usize);
        for stored in stored.tables(root::PARAMETERS).map_err(cut_off)? {
            let name = stored.text(parameter::NAME).map_err(cut_off)?;
            if !names.insert(name) {
                return Err(malformed(format!("it has two parameters {}", shown(name))));
            }
            let of_parameter = |reason: String| malformed(format!("parameter {}: {reason}", shown(name)));
            let tensor = refusable(|| Ok(tensor(&stored)))?.map_err(of_parameter)?;
            // Parameters may lead to the same bytes, and a small file would then take memory without end.
            taken = taken.saturating_add(tensor.bytes().len());
            if taken > bytes.len() {
                return Err(malformed("its parameters have more bytes than it".to_owned()));
            }
            adapter.parameters.push((name.to_owned(), tensor));
        }
        Ok(adapter)
    }

    /// The bytes of a file.
    ///
    /// # Errors
    ///
    /// [`ModelError::Malformed`] for a parameter of a type that the format has not, or for more than 2 GiB.
    pub fn to_bytes(&self) -> Result<Vec<u8>, ModelError> {
        let mut bytes = 0u64;
        for (name, tensor) in &self.parameters {
            if !is_stored(tensor.dtype()) {
                let reason = format!("elements of {} are not stored in adapters", tensor.dtype());
                return Err(ModelError::Malformed { place: format!("parameter {}", shown(name)), reason });
            }
            // Names, offsets and what fills up are less than this beside the elements.
            bytes = bytes.saturating_add(tensor.bytes().len() as u64 + name.len() as u64 + 128);
        }
        check_size(bytes, "the adapter")?;
        let mut file = Writer::new([FORMAT, self.adapter_version, self.model_version], self.parameters.len());
        for (index, (name, tensor)) in self.parameters.iter().enumerate() {
            file.parameter(index, name, tensor);
        }
        Ok(file.bytes)
    }
}

/// Refuses files that are longer than a flat buffer may be.
fn check_size(bytes: u64, place: &str) -> Result<(), ModelError> {
    if bytes <= MOST {
        return Ok(());
    }
    let reason = format!("{bytes} bytes, where the format ends at 2 GiB");
    Err(ModelError::Malformed { place: place.to_owned(), reason })
}

/// Whether the format has elements of this type, a number of bytes each.
fn is_stored(dtype: DType) -> bool {
    dtype.packed_bits() >= 8
}

/// The tensor of a parameter, or why there is none.
fn tensor(stored: &Table<'_>) -> Result<Tensor, String> {
    let cut_off = |cut_off: CutOff| cut_off.to_string();
    let code = stored.int(parameter::TYPE).map_err(cut_off)?;
    let dtype = dtype_of(code).ok().filter(|dtype| is_stored(*dtype)).ok_or_else(|| format!("element type {code}"))?;
    let mut shape = Vec::new();
    for size in stored.numbers::<8>(parameter::DIMS).map_err(cut_off)? {
        let size = i64::from_le_bytes(size);
        shape.push(usize::try_from(size).map_err(|_| format!("a dimension of {size}"))?);
    }
    let bytes = stored.bytes(parameter::BYTES).map_err(cut_off)?;
    Tensor::from_bytes(TensorSpec::new(dtype, shape), bytes).map_err(|error| error.to_string())
}

/// A file while it is written, front to back. Offsets lead forwards, so that what they lead to comes later.
struct Writer {
    bytes: Vec<u8>,
    /// Where the offsets to the parameters are.
    offsets: usize,
    /// The layout that all parameters share.
    layout: usize,
}

/// A table of four fields of four bytes each, in order: the lengths of this layout and of the table, and where the
/// fields are.
const LAYOUT: [u16; 6] = [12, 20, 4, 8, 12, 16];

impl Writer {
    fn new(versions: [i32; 3], parameters: usize) -> Writer {
        let mut file = Writer { bytes: Vec::new(), offsets: 0, layout: 0 };
        // The root is behind its offset, the word of the format and the root's layout.
        file.word(20);
        file.bytes.extend_from_slice(WORD);
        let layout = file.table_layout();
        file.table(layout);
        for version in versions {
            file.word(version.cast_unsigned());
        }
        let list = file.bytes.len();
        file.word(0);
        file.lead(list);
        file.word(parameters as u32);
        file.offsets = file.bytes.len();
        file.bytes.resize(file.offsets + 4 * parameters, 0);
        file.layout = file.table_layout();
        file
    }

    fn word(&mut self, word: u32) {
        self.bytes.extend_from_slice(&word.to_le_bytes());
    }

    /// Has the offset at `from` lead to what is written next.
    fn lead(&mut self, from: usize) {
        let offset = (self.bytes.len() - from) as u32;
        self.bytes[from..from + 4].copy_from_slice(&offset.to_le_bytes());
    }

    fn table_layout(&mut self) -> usize {
        let at = self.bytes.len();
        LAYOUT.iter().for_each(|word| self.bytes.extend_from_slice(&word.to_le_bytes()));
        at
    }

    /// Begins a table of that layout; returns its place.
    fn table(&mut self, layout: usize) -> usize {
        let at = self.bytes.len();
        self.word((at - layout) as u32);
        at
    }

    /// Fills up with zeros until `before` more bytes end at a multiple of `to`.
    fn align(&mut self, before: usize, to: usize) {
        let end = (self.bytes.len() + before).next_multiple_of(to);
        self.bytes.resize(end - before, 0);
    }

    fn parameter(&mut self, index: usize, name: &str, tensor: &Tensor) {
        self.align(0, 4);
        self.lead(self.offsets + 4 * index);
        let at = self.table(self.layout);
        let fields = [0, 1, 2, 3].map(|field| at + 4 + 4 * field);
        self.bytes.resize(at + 20, 0);
        let code = dtype_code(tensor.dtype()).to_le_bytes();
        self.bytes[fields[parameter::TYPE]..][..4].copy_from_slice(&code);
        self.lead(fields[parameter::NAME]);
        self.word(name.len() as u32);
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        // Lists of eight bytes, and elements, are at multiples of eight; their lengths are before them.
        self.align(4, 8);
        self.lead(fields[parameter::DIMS]);
        self.word(tensor.shape().len() as u32);
        tensor.shape().iter().for_each(|&size| self.bytes.extend_from_slice(&(size as u64).to_le_bytes()));
        self.align(4, 8);
        self.lead(fields[parameter::BYTES]);
        self.word(tensor.bytes().len() as u32);
        self.bytes.extend_from_slice(tensor.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two parameters as ONNX Runtime 1.32 writes them: `w`, f32 [[0, 1, 2], [3, 4, 5]], and `h`, f16 [0, 1, 2].
    const THEIRS: &str = "\
        0c000000544f525400000000acffffff01000000030000000700000004000000020000004800000004000000ccffffff\
        28000000180000000a00000004000000060000000000003c004000000100000003000000000000000100000068000000\
        0c001400040008000c0010000c0000004000000028000000010000000400000018000000000000000000803f00000040\
        00004040000080400000a04002000000020000000000000003000000000000000100000077000000";

    fn theirs() -> Vec<u8> {
        let digits = |at: usize| u8::from_str_radix(&THEIRS[at..at + 2], 16).unwrap();
        (0..THEIRS.len()).step_by(2).map(digits).collect()
    }

    fn halves() -> Tensor {
        Tensor::from_slice([3], &[0f32, 1.0, 2.0].map(half::f16::from_f32)).unwrap()
    }

    fn adapter() -> Adapter {
        let parameters = vec![
            ("h".to_owned(), halves()),
            ("a name".to_owned(), Tensor::from_slice([2, 3], &[0f32, 1.0, 2.0, 3.0, 4.0, 5.0]).unwrap()),
            ("none".to_owned(), Tensor::from_slice([0, 4], &[0i64; 0]).unwrap()),
            ("scalar".to_owned(), Tensor::from_slice([], &[-7i8]).unwrap()),
        ];
        Adapter { adapter_version: -3, model_version: 7, parameters }
    }

    fn same(found: &Tensor, expected: &Tensor) -> bool {
        found.spec() == expected.spec() && found.bytes() == expected.bytes()
    }

    #[test]
    fn a_file_of_onnx_runtime_is_read() {
        let adapter = Adapter::from_bytes(&theirs()).unwrap();
        assert_eq!((adapter.adapter_version, adapter.model_version), (3, 7));
        let [(w, matrix), (h, found)] = &adapter.parameters[..] else { panic!("{adapter:?}") };
        assert_eq!((w.as_str(), h.as_str()), ("w", "h"));
        assert!(same(found, &halves()));
        assert!(same(matrix, &Tensor::from_slice([2, 3], &[0f32, 1.0, 2.0, 3.0, 4.0, 5.0]).unwrap()));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let written = adapter();
        let read = Adapter::from_bytes(&written.to_bytes().unwrap()).unwrap();
        assert_eq!((read.adapter_version, read.model_version), (-3, 7));
        assert_eq!(read.parameters.len(), written.parameters.len());
        for ((found, tensor), (name, expected)) in read.parameters.iter().zip(&written.parameters) {
            assert_eq!(found, name);
            assert!(same(tensor, expected), "{name}");
        }
        assert!(Adapter::from_bytes(&Adapter::default().to_bytes().unwrap()).unwrap().parameters.is_empty());
        let texts = Tensor::from_strings([1], vec!["a".to_owned()]).unwrap();
        let refused = Adapter { parameters: vec![("t".to_owned(), texts)], ..Adapter::default() }.to_bytes();
        assert!(refused.unwrap_err().to_string().contains("\"t\""));
    }

    #[test]
    fn no_damage_of_a_file_is_more_than_an_error() {
        let whole = adapter().to_bytes().unwrap();
        for file in [whole, theirs()] {
            // A text may lack what fills up the file behind it.
            for length in 0..file.len() - 3 {
                assert!(Adapter::from_bytes(&file[..length]).is_err(), "{length} bytes");
            }
            for at in 0..file.len() {
                for byte in [0, 1, 4, 0x7f, 0x80, 0xff] {
                    let mut damaged = file.clone();
                    damaged[at] = byte;
                    drop(Adapter::from_bytes(&damaged));
                }
            }
        }
    }

    #[test]
    fn parameters_over_the_same_bytes_do_not_take_more_than_the_file() {
        const LONG: usize = 4096;
        let of = |length: usize| Tensor::from_slice([length], &vec![1u8; length]).unwrap();
        let parameters = (0..8usize).map(|index| (index.to_string(), of(if index < 7 { 0 } else { LONG }))).collect();
        let mut file = Adapter { parameters, ..Adapter::default() }.to_bytes().unwrap();
        let elements = file.len() - LONG - 4;
        let led = |file: &[u8], at: usize| at + u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
        // The first seven become as long as the last, over its elements. The list's first offset is behind its length.
        let list = led(&file, led(&file, 0) + 16) + 4;
        for index in 0..7 {
            let table = led(&file, list + 4 * index);
            let (dims, bytes) = (led(&file, table + 8), table + 16);
            file[dims + 4..dims + 12].copy_from_slice(&(LONG as u64).to_le_bytes());
            file[bytes..bytes + 4].copy_from_slice(&((elements - bytes) as u32).to_le_bytes());
        }
        assert!(Adapter::from_bytes(&file).unwrap_err().to_string().contains("more bytes than it"));
    }

    #[test]
    fn files_that_are_no_adapters_are_refused() {
        let says = |bytes: &[u8], part: &str| {
            let error = Adapter::from_bytes(bytes).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        says(b"", "no adapter of ONNX Runtime");
        says(&[0; 64], "no adapter of ONNX Runtime");
        let changed = |at: usize, byte: u8| {
            let mut file = theirs();
            file[at] = byte;
            file
        };
        says(&changed(0x10, 2), "version 2");
        says(&changed(0x38, 8), "\"h\": element type 8");
        says(&changed(0x57, 0x80), "\"h\": a dimension of -");
        says(&changed(0x50, 4), "\"h\"");
        says(&changed(0xb4, b'h'), "two parameters \"h\"");
        let missing = Adapter::read(Path::new("no/such.onnx_adapter")).unwrap_err();
        assert!(matches!(missing, ModelError::Io { .. }));
        assert!(matches!(Adapter::read(Path::new(".")).unwrap_err(), ModelError::NotAFile { .. }));
    }
}
