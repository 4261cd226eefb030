//! numpy's npy format: one tensor as a small text header and its elements. Depends on no path and no model.
//!
//! Files come from outside, so a header is checked before it is used, and no memory is allocated that the file does not
//! fill. Big-endian elements and Fortran order are converted. Texts are numpy's `U`: each has as many characters of
//! four bytes as the longest, filled up with zeros, so zeros at the end of a text are lost.

use std::io::{self, Read, Write};

use kiln_tensor::{DType, Shape, Tensor, TensorError, TensorSpec};

/// Why bytes are not a tensor, or a tensor cannot be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NpyError {
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Not an npy file, or one of a version from the future.
    #[error("no npy data")]
    Magic,
    /// The header is not the one that numpy writes.
    #[error("malformed npy header: {0}")]
    Header(String),
    /// An element type that has no npy form, or that Kiln does not have.
    #[error("elements of type {0} are not supported in npy files")]
    Type(String),
    /// A text has a code that is no character.
    #[error("{0:#x} in a text is no character of Unicode")]
    Character(u32),
    /// Fewer elements than the header says.
    #[error("{found} bytes of elements where shape {shape:?} needs {need}")]
    Short {
        /// The header's shape.
        shape: Vec<usize>,
        /// Its bytes.
        need: usize,
        /// The bytes in the file.
        found: usize,
    },
    /// The shape cannot be held.
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

const MAGIC: &[u8] = b"\x93NUMPY";

/// numpy refuses longer headers too: no array of plain elements needs more.
const LONGEST_HEADER: usize = 10_000;

/// Reads one tensor, and nothing after it.
pub(crate) fn read(mut from: impl Read) -> Result<Tensor, NpyError> {
    let mut start = [0u8; 8];
    from.read_exact(&mut start).map_err(|_| NpyError::Magic)?;
    if &start[..6] != MAGIC {
        return Err(NpyError::Magic);
    }
    let length = match start[6] {
        1 => usize::from(u16::from_le_bytes(array(&mut from)?)),
        2 | 3 => u32::from_le_bytes(array(&mut from)?) as usize,
        _ => return Err(NpyError::Magic),
    };
    if length > LONGEST_HEADER {
        return Err(NpyError::Header(format!("{length} bytes long")));
    }
    let mut text = vec![0u8; length];
    from.read_exact(&mut text)?;
    let text = std::str::from_utf8(&text).map_err(|_| NpyError::Header("not text".to_owned()))?;
    let header = Header::parse(text)?;

    // The size is checked against the bounds of the element type, and then against the file.
    let spec = TensorSpec::new(header.dtype, header.shape.iter().copied());
    let need = spec.elements()?.checked_mul(header.size).ok_or_else(|| TensorError::TooLarge(header.shape.clone()))?;
    let mut bytes = Vec::new();
    from.take(need as u64).read_to_end(&mut bytes)?;
    if bytes.len() != need {
        return Err(NpyError::Short { shape: header.shape.to_vec(), need, found: bytes.len() });
    }
    if header.big_endian {
        bytes.chunks_exact_mut(header.unit()).for_each(<[u8]>::reverse);
    }
    if header.fortran {
        bytes = row_major(&bytes, &header.shape, header.size);
    }
    if header.dtype == DType::String {
        return Ok(Tensor::from_strings(header.shape.iter().copied(), texts(&bytes, header.size)?)?);
    }
    Ok(Tensor::from_bytes(spec, &bytes)?)
}

fn array<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0u8; N];
    from.read_exact(&mut bytes).map(|()| bytes)
}

/// The texts of elements of `size` bytes each.
fn texts(bytes: &[u8], size: usize) -> Result<Vec<String>, NpyError> {
    let character = |bytes: &[u8]| {
        let code = bytes.try_into().map_or(0, u32::from_le_bytes);
        char::from_u32(code).ok_or_else(|| NpyError::Character(code))
    };
    let text = |bytes: &[u8]| -> Result<String, NpyError> {
        let text = bytes.chunks_exact(CHARACTER).map(character).collect::<Result<String, _>>()?;
        Ok(text.trim_end_matches('\0').to_owned())
    };
    bytes.chunks_exact(size).map(text).collect()
}

/// Writes a tensor as numpy's own `save` does.
pub(crate) fn write(tensor: &Tensor, mut to: impl Write) -> Result<(), NpyError> {
    let longest = match tensor.dtype() {
        DType::String => tensor.as_strings()?.iter().map(|text| text.chars().count()).max().unwrap_or(0).max(1),
        _ => 0,
    };
    let code = match tensor.dtype() {
        DType::String => format!("U{longest}"),
        plain => code_of(plain).ok_or_else(|| NpyError::Type(plain.to_string()))?.to_owned(),
    };
    let order = if tensor.dtype().size() == 1 { '|' } else { '<' };
    let mut dims: Vec<String> = tensor.shape().iter().map(ToString::to_string).collect();
    if dims.len() == 1 {
        // Python's tuple of one.
        dims.push(String::new());
    }
    let mut header =
        format!("{{'descr': '{order}{code}', 'fortran_order': False, 'shape': ({}), }}", dims.join(", ").trim_end());
    // The elements start at a multiple of 64 bytes, so that a mapped file is aligned; a newline ends the header.
    while !(MAGIC.len() + 4 + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let length = u16::try_from(header.len()).map_err(|_| NpyError::Header("too many dimensions".to_owned()))?;
    to.write_all(MAGIC)?;
    to.write_all(&[1, 0])?;
    to.write_all(&length.to_le_bytes())?;
    to.write_all(header.as_bytes())?;
    if tensor.dtype() != DType::String {
        return Ok(to.write_all(tensor.bytes())?);
    }
    for text in tensor.as_strings()? {
        let mut characters = text.chars();
        for _ in 0..longest {
            to.write_all(&characters.next().map_or(0, u32::from).to_le_bytes())?;
        }
    }
    Ok(())
}

/// The bytes of a character of a text.
const CHARACTER: usize = 4;

/// Types with their numpy codes.
const CODES: [(DType, &str); 12] = [
    (DType::F16, "f2"),
    (DType::F32, "f4"),
    (DType::F64, "f8"),
    (DType::I8, "i1"),
    (DType::I16, "i2"),
    (DType::I32, "i4"),
    (DType::I64, "i8"),
    (DType::U8, "u1"),
    (DType::U16, "u2"),
    (DType::U32, "u4"),
    (DType::U64, "u8"),
    (DType::Bool, "b1"),
];

fn code_of(dtype: DType) -> Option<&'static str> {
    CODES.iter().find(|(known, _)| *known == dtype).map(|&(_, code)| code)
}

/// The fields of the header.
#[derive(Debug, PartialEq, Eq)]
struct Header {
    dtype: DType,
    /// The bytes of an element.
    size: usize,
    big_endian: bool,
    fortran: bool,
    shape: Shape,
}

impl Header {
    /// The number of bytes that are swapped together if the file has the other byte order.
    fn unit(&self) -> usize {
        if self.dtype == DType::String { CHARACTER } else { self.size }
    }

    /// The header is a Python dictionary of exactly three entries, each of a fixed form.
    fn parse(text: &str) -> Result<Header, NpyError> {
        let malformed = || NpyError::Header(text.trim().to_owned());
        let (mut descr, mut fortran, mut shape) = (None, None, None);
        let mut rest = text.trim().strip_prefix('{').ok_or_else(malformed)?.trim_start();
        while !rest.starts_with('}') {
            let (key, after) = quoted(rest).ok_or_else(malformed)?;
            let value = after.trim_start().strip_prefix(':').ok_or_else(malformed)?.trim_start();
            let end = match key {
                "descr" => {
                    let Some((code, after)) = quoted(value) else {
                        return Err(NpyError::Type("record".to_owned()));
                    };
                    descr = Some(code);
                    after
                }
                "fortran_order" => {
                    let word = value.split([',', '}', ' ']).next().unwrap_or_default();
                    fortran = Some(match word {
                        "True" => true,
                        "False" => false,
                        _ => return Err(malformed()),
                    });
                    &value[word.len()..]
                }
                "shape" => {
                    let (list, after) =
                        value.strip_prefix('(').and_then(|v| v.split_once(')')).ok_or_else(malformed)?;
                    shape = Some(dims(list).ok_or_else(malformed)?);
                    after
                }
                _ => return Err(malformed()),
            };
            let end = end.trim_start();
            rest = end.strip_prefix(',').unwrap_or(end).trim_start();
            if !end.starts_with([',', '}']) {
                return Err(malformed());
            }
        }
        let (Some(descr), Some(fortran), Some(shape)) = (descr, fortran, shape) else { return Err(malformed()) };
        let code = descr.trim_start_matches(['<', '>', '|', '=']);
        let characters =
            code.strip_prefix('U').and_then(|count| count.parse::<usize>().ok()).filter(|&count| count > 0);
        let (dtype, size) = match characters.and_then(|count| count.checked_mul(CHARACTER)) {
            Some(size) => (DType::String, size),
            None => {
                let plain = CODES.iter().find(|(_, known)| *known == code).map(|(dtype, _)| *dtype);
                let plain = plain.ok_or_else(|| NpyError::Type(format!("'{descr}'")))?;
                (plain, plain.size())
            }
        };
        Ok(Header { dtype, size, big_endian: descr.starts_with('>'), fortran, shape })
    }
}

/// A Python string without escapes, and what follows it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|c| ['\'', '"'].contains(c))?;
    text[1..].split_once(quote)
}

fn dims(list: &str) -> Option<Shape> {
    let list = list.trim();
    let list = list.strip_suffix(',').unwrap_or(list);
    if list.is_empty() {
        return Some(Shape::new());
    }
    // Python 2 wrote an L after long integers.
    list.split(',').map(|dim| dim.trim().trim_end_matches('L').parse().ok()).collect()
}

/// Elements in row-major order, of an array in column-major order.
fn row_major(bytes: &[u8], shape: &[usize], size: usize) -> Vec<u8> {
    let mut strides = Vec::with_capacity(shape.len());
    let mut step = 1;
    for &dim in shape {
        strides.push(step);
        step *= dim;
    }
    let mut ordered = Vec::with_capacity(bytes.len());
    let mut index = vec![0; shape.len()];
    for _ in 0..bytes.len() / size {
        let at: usize = index.iter().zip(&strides).map(|(i, stride)| i * stride).sum();
        ordered.extend_from_slice(&bytes[at * size..][..size]);
        for (place, &dim) in index.iter_mut().zip(shape).rev() {
            *place += 1;
            if *place < dim {
                break;
            }
            *place = 0;
        }
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, elements: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(elements);
        bytes
    }

    fn floats(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    #[test]
    fn every_type_and_rank_survives_writing_and_reading() {
        for (dtype, _) in CODES {
            for shape in [&[][..], &[3], &[2, 3], &[0, 2], &[1, 1, 1, 1, 2]] {
                let mut tensor = Tensor::zeros(TensorSpec::new(dtype, shape.iter().copied())).unwrap();
                tensor.bytes_mut().iter_mut().zip(1u8..).for_each(|(byte, value)| *byte = value);
                let mut bytes = Vec::new();
                write(&tensor, &mut bytes).unwrap();
                assert!(bytes.len() - tensor.bytes().len() == 128 || (bytes.len() - tensor.bytes().len()) == 64);
                assert!(read(&bytes[..]).unwrap().same(&tensor), "{dtype} {shape:?}");
            }
        }
    }

    /// What `numpy.save` of numpy 2.4.6 wrote: the header and its elements, which begin at byte 128.
    fn of_numpy(header: &str, elements: &[u8]) -> Vec<u8> {
        [&b"\x93NUMPY\x01\x00v\x00"[..], format!("{header:<117}\n").as_bytes(), elements].concat()
    }

    #[test]
    fn what_is_written_is_what_numpy_writes() {
        let values = [1f32, -2.0, 3.5, f32::INFINITY];
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }";
        let elements = b"\x00\x00\x80\x3f\x00\x00\x00\xc0\x00\x00\x60\x40\x00\x00\x80\x7f";
        let matrix = (of_numpy(header, elements), Tensor::from_slice([2, 2], &values).unwrap());
        let header = "{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }";
        let elements: Vec<u8> = [1u8, 2, 3].iter().flat_map(|&v| [v, 0, 0, 0, 0, 0, 0, 0]).collect();
        let vector = (of_numpy(header, &elements), Tensor::from_slice([3], &[1i64, 2, 3]).unwrap());
        for (file, tensor) in [matrix, vector] {
            let mut bytes = Vec::new();
            write(&tensor, &mut bytes).unwrap();
            assert_eq!(bytes, file);
            assert!(read(&file[..]).unwrap().same(&tensor));
        }
    }

    #[test]
    fn fortran_order_and_big_endian_are_turned_around() {
        let header = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }";
        let tensor = read(&file(header, &floats(&[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]))[..]).unwrap();
        assert_eq!(tensor.as_slice::<f32>().unwrap(), &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        let header = "{'shape': (2,), 'fortran_order': False, 'descr': '>i2'}";
        let tensor = read(&file(header, &[1, 2, 0xff, 0xfe])[..]).unwrap();
        assert_eq!(tensor.as_slice::<i16>().unwrap(), &[258, -2]);
    }

    #[test]
    fn damaged_files_are_refused() {
        let good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
        let data = floats(&[1.0, 2.0]);
        assert!(read(&file(good, &data)[..]).is_ok());
        let cases: [(Vec<u8>, &str); 11] = [
            (Vec::new(), "no npy data"),
            (b"PK\x03\x04 something else".to_vec(), "no npy data"),
            (file(good, &data[..7]), "7 bytes of elements where shape [2] needs 8"),
            (file(&good.replace("f4", "c8"), &data), "'<c8' are not supported"),
            (file(&good.replace("'<f4'", "[('a', '<f4')]"), &data), "record are not supported"),
            (file(&good.replace("(2,)", "(-2,)"), &data), "malformed"),
            (file(&good.replace("(2,)", "(2,"), &data), "malformed"),
            (file(&good.replace("False", "Maybe"), &data), "malformed"),
            (file(&good.replace("'shape'", "'form'"), &data), "malformed"),
            (file("{", &data), "malformed"),
            (file(&good.replace("(2,)", "(9999999999, 9999999999)"), &data), "too large"),
        ];
        for (bytes, message) in cases {
            let error = read(&bytes[..]).unwrap_err().to_string();
            assert!(error.contains(message), "{error} instead of {message}");
        }
    }

    #[test]
    fn a_large_shape_over_a_short_file_takes_no_memory() {
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (100000000000,), }";
        assert!(matches!(read(&file(header, &[0; 8])[..]), Err(NpyError::Short { found: 8, .. })));
    }

    #[test]
    fn texts_are_numpys_and_end_before_zeros() {
        let of = |shape: &[usize], texts: &[&str]| {
            Tensor::from_strings(shape.iter().copied(), texts.iter().map(|&text| text.to_owned()).collect()).unwrap()
        };
        // As numpy 2.4.6 saves np.array(["a", "\u00f6b"]), and swapped to '>U2'.
        let header = "{'descr': '<U2', 'fortran_order': False, 'shape': (2,), }";
        let codes = [0x61u32, 0, 0xf6, 0x62];
        let texts = of(&[2], &["a", "\u{f6}b"]);
        let mut bytes = Vec::new();
        write(&texts, &mut bytes).unwrap();
        let little: Vec<u8> = codes.iter().flat_map(|code| code.to_le_bytes()).collect();
        assert_eq!(bytes, of_numpy(header, &little));
        assert_eq!(read(&bytes[..]).unwrap().as_strings().unwrap(), texts.as_strings().unwrap());
        let big: Vec<u8> = codes.iter().flat_map(|code| code.to_be_bytes()).collect();
        let swapped = read(&file(&header.replace('<', ">"), &big)[..]).unwrap();
        assert_eq!(swapped.as_strings().unwrap(), texts.as_strings().unwrap());

        for (shape, texts) in [(&[][..], &["\u{1f525}"][..]), (&[0, 3], &[]), (&[2, 1], &["", ""])] {
            let mut bytes = Vec::new();
            write(&of(shape, texts), &mut bytes).unwrap();
            let found = read(&bytes[..]).unwrap();
            assert_eq!((found.shape(), found.as_strings().unwrap()), (shape, of(shape, texts).as_strings().unwrap()));
        }
        // Texts without places would be memory that no file fills.
        let empty = read(&file("{'descr': '<U0', 'fortran_order': False, 'shape': (9999999,), }", &[])[..]);
        assert!(empty.unwrap_err().to_string().contains("'<U0' are not supported"));
        let surrogate = read(&file(header, &[0, 0xd8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])[..]);
        assert!(surrogate.unwrap_err().to_string().contains("0xd800 in a text"));
        for shape in ["(9999999999, 9999999999)", "(4611686018427387905,)"] {
            let huge = header.replace("(2,)", shape);
            assert!(read(&file(&huge, &[])[..]).is_err());
        }
    }

    #[test]
    fn types_without_an_npy_form_are_refused_by_name() {
        let tensor = Tensor::zeros(TensorSpec::new(DType::BF16, [1])).unwrap();
        assert!(write(&tensor, Vec::new()).unwrap_err().to_string().contains("bfloat16"));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(header in "\\PC{0,80}", data in proptest::collection::vec(0u8.., 0..64)) {
            let _ = read(&file(&header, &data)[..]);
        }
    }
}
