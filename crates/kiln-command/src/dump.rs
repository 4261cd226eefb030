//! Values of a run as a folder of files: a `.npy` for each tensor, and `index.json`, which describes them. Depends on
//! no session.
//!
//! Names come from models, which are untrusted, so files are numbered in the order of the graph and only end with the
//! harmless characters of a name; the index has the name itself. Types that numpy lacks are stored as wider ones that
//! hold them exactly, and strings as a list in JSON.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use kiln_model::{Graph, Map, Value};
use kiln_run::NodeError;
use kiln_tensor::{DType, Tensor, TensorError, TensorSpec, minifloat};
use serde::{Deserialize, Serialize};

use crate::arrays;
use crate::failure::{Failure, Outcome, WithCode};
use crate::selection;

/// The file that describes the others.
const INDEX: &str = "index.json";

/// Most letters of a value's name in a file's name.
const LONGEST: usize = 80;

/// The contents of a folder, in the order of the graph.
#[derive(Debug, Serialize, Deserialize)]
struct Index {
    model: String,
    isa: String,
    values: Vec<Entry>,
}

/// One tensor, or a value without tensors.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    /// The value's name in the model.
    name: String,
    /// `tensor`, `sequence` (an entry a tensor) or `nothing`.
    kind: Kind,
    /// The place in a sequence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    place: Option<usize>,
    /// The node that makes it; none for inputs of the request.
    #[serde(default)]
    node: Option<String>,
    #[serde(default)]
    operator: Option<String>,
    /// The type of its elements.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    dtype: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shape: Option<Vec<usize>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    /// The type in the file, where that is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stored_as: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Tensor,
    Sequence,
    /// The keys of a map, then its values.
    Map,
    /// The same for the maps of a sequence.
    Maps,
    Nothing,
}

/// Writes values in their order, and the index; returns the number of files.
pub(crate) fn write(
    folder: &Path,
    model: &Path,
    isa: &str,
    graph: &Graph,
    values: &[(String, Value)],
) -> Outcome<usize> {
    std::fs::create_dir_all(folder).usage(|| format!("--dump: cannot create {}", folder.display()))?;
    let mut index = Index { model: model.display().to_string(), isa: isa.to_owned(), values: Vec::new() };
    let mut files = 0;
    for (name, value) in values {
        let maker = selection::maker(graph, name);
        let entry = |kind, place| Entry {
            name: name.clone(),
            kind,
            place,
            node: maker.map(|node| node.name.clone()),
            operator: maker.map(selection::operator),
            dtype: None,
            shape: None,
            file: None,
            stored_as: None,
        };
        let mut put = |entry: Entry, tensor: &Tensor| -> Outcome {
            index.values.push(store(folder, files, entry, tensor)?);
            files += 1;
            Ok(())
        };
        match value {
            Value::Tensor(tensor) => put(entry(Kind::Tensor, None), tensor)?,
            Value::Sequence(tensors) if tensors.is_empty() => index.values.push(entry(Kind::Sequence, None)),
            Value::Sequence(tensors) => {
                for (place, tensor) in tensors.iter().enumerate() {
                    put(entry(Kind::Sequence, Some(place)), tensor)?;
                }
            }
            Value::Map(_) => value.tensors().iter().try_for_each(|tensor| put(entry(Kind::Map, None), tensor))?,
            Value::Maps(maps) if maps.is_empty() => index.values.push(entry(Kind::Maps, None)),
            Value::Maps(_) => {
                for (place, tensor) in value.tensors().iter().enumerate() {
                    put(entry(Kind::Maps, Some(place / 2)), tensor)?;
                }
            }
            Value::Nothing => index.values.push(entry(Kind::Nothing, None)),
        }
    }
    let path = folder.join(INDEX);
    let json = serde_json::to_string_pretty(&index).failed(|| "cannot write JSON")?;
    std::fs::write(&path, json).failed(|| format!("cannot write {}", path.display()))?;
    Ok(files)
}

/// Writes one tensor and completes its entry.
fn store(folder: &Path, number: usize, entry: Entry, tensor: &Tensor) -> Outcome<Entry> {
    let ending = if tensor.dtype() == DType::String { "json" } else { "npy" };
    let file = format!("{number:05}-{}.{ending}", harmless(&entry.name));
    let path = folder.join(&file);
    let stored = storable(tensor).failed(|| format!("value '{}'", entry.name))?;
    match stored.dtype() {
        DType::String => {
            let strings = stored.as_strings().failed(|| format!("value '{}'", entry.name))?;
            let json = serde_json::to_string(strings).failed(|| "cannot write JSON")?;
            std::fs::write(&path, json).failed(|| format!("cannot write {}", path.display()))?;
        }
        _ => arrays::write_npy(&path, &stored)?,
    }
    Ok(Entry {
        dtype: Some(tensor.dtype().to_string()),
        shape: Some(tensor.shape().to_vec()),
        file: Some(file),
        stored_as: (stored.dtype() != tensor.dtype()).then(|| stored.dtype().to_string()),
        ..entry
    })
}

/// The characters of a name that are safe in file names on any system.
fn harmless(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    name.chars().take(LONGEST).map(|c| if plain(c) { c } else { '_' }).collect()
}

/// The tensor in a type that a `.npy` file can have and that holds all its values: itself, nearly always.
pub(crate) fn storable(tensor: &Tensor) -> Result<Tensor, TensorError> {
    let shape = tensor.shape().to_vec();
    Ok(match tensor.dtype() {
        DType::BF16 => {
            let values = tensor.as_slice::<half::bf16>()?.iter().map(|value| value.to_f32()).collect();
            Tensor::from_vec(shape, values)?
        }
        small if small.is_minifloat() => {
            let values = tensor.bytes().iter().map(|&byte| minifloat::decode(small, byte)).collect();
            Tensor::from_vec(shape, values)?
        }
        // A byte for each element, sign-extended.
        DType::I4 | DType::I2 => Tensor::from_bytes(TensorSpec::new(DType::I8, shape), tensor.bytes())?,
        DType::U4 | DType::U2 => Tensor::from_bytes(TensorSpec::new(DType::U8, shape), tensor.bytes())?,
        _ => tensor.clone(),
    })
}

/// Values by name: those of a folder that was written here, or the arrays of an `.npz` file.
pub(crate) fn read(path: &Path) -> Outcome<BTreeMap<String, Value>> {
    if !path.is_dir() {
        let arrays = arrays::read(path)?;
        return Ok(arrays.into_iter().filter_map(|(name, tensor)| Some((name?, Value::Tensor(tensor)))).collect());
    }
    let place = path.join(INDEX);
    let text = std::fs::read_to_string(&place).usage(|| format!("cannot read {}", place.display()))?;
    let index: Index = serde_json::from_str(&text).usage(|| format!("{}", place.display()))?;
    let mut several: BTreeMap<String, Several> = BTreeMap::new();
    let mut values = BTreeMap::new();
    for entry in index.values {
        match (entry.kind, &entry.file) {
            (Kind::Nothing, _) => {
                values.insert(entry.name, Value::Nothing);
            }
            (kind @ (Kind::Sequence | Kind::Maps), None) => {
                several.entry(entry.name).or_insert(Several { kind, tensors: Vec::new() });
            }
            (Kind::Tensor | Kind::Map, None) => {
                return Err(Failure::usage(format!("{}: '{}' has no file", place.display(), entry.name)));
            }
            (kind @ (Kind::Sequence | Kind::Map | Kind::Maps), Some(file)) => {
                let tensor = restore(path, file, &entry)?;
                several.entry(entry.name).or_insert(Several { kind, tensors: Vec::new() }).tensors.push(tensor);
            }
            (Kind::Tensor, Some(file)) => {
                let tensor = restore(path, file, &entry)?;
                values.insert(entry.name, Value::Tensor(tensor));
            }
        }
    }
    for (name, all) in several {
        let value = all.value().usage(|| format!("{}: '{name}'", place.display()))?;
        values.insert(name, value);
    }
    Ok(values)
}

/// The tensors of a value with several.
struct Several {
    kind: Kind,
    tensors: Vec<Tensor>,
}

impl Several {
    fn value(self) -> Result<Value, NodeError> {
        if self.kind == Kind::Sequence {
            return Ok(Value::sequence(self.tensors));
        }
        let pairs = self.tensors.chunks(2).map(|pair| match pair {
            [keys, values] => Ok(Map::new(keys.clone(), values.clone())?),
            _ => Err(NodeError::Input("a map of keys without values".to_owned())),
        });
        let mut maps: Vec<Map> = pairs.collect::<Result<_, _>>()?;
        match (self.kind, maps.pop()) {
            (Kind::Map, Some(map)) if maps.is_empty() => Ok(Value::Map(Arc::new(map))),
            (_, last) => Ok(Value::Maps(Arc::new(maps.into_iter().chain(last).collect()))),
        }
    }
}

/// Reads the file of an entry, which must be one of the folder's own.
fn restore(folder: &Path, file: &str, entry: &Entry) -> Outcome<Tensor> {
    let mut parts = Path::new(file).components();
    let is_plain = matches!(parts.next(), Some(std::path::Component::Normal(_))) && parts.next().is_none();
    if !is_plain {
        return Err(Failure::usage(format!("{}: '{file}' is no name of a file there", folder.join(INDEX).display())));
    }
    let path = folder.join(file);
    if path.extension().is_some_and(|extension| extension == "json") {
        let text = std::fs::read_to_string(&path).usage(|| format!("cannot read {}", path.display()))?;
        let strings: Vec<String> = serde_json::from_str(&text).usage(|| format!("{}", path.display()))?;
        let shape = entry.shape.clone().unwrap_or_default();
        return Tensor::from_strings(shape, strings).usage(|| format!("{}", path.display()));
    }
    let mut tensors = arrays::read(&path)?;
    let tensor = tensors.pop().filter(|_| tensors.is_empty());
    tensor.map(|(_, tensor)| tensor).ok_or_else(|| Failure::usage(format!("{} holds not one array", path.display())))
}

#[cfg(test)]
mod tests {
    use kiln_model::GraphBuilder;

    use super::*;

    fn graph() -> Graph {
        let mut builder = GraphBuilder::new("test", 17);
        let x = builder.input("x", DType::F32, [1.into()]);
        let y = builder.op("Relu", &[x], &[]);
        builder.output("../y", y);
        builder.finish()
    }

    #[test]
    fn values_of_every_kind_and_type_come_back_from_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let bf16 = Tensor::from_vec([2], vec![half::bf16::from_f32(1.5), half::bf16::from_f32(-2.0)]).unwrap();
        let small = Tensor::from_bytes(TensorSpec::new(DType::I4, [2]), &[0xff, 7]).unwrap();
        let strings = Tensor::from_strings([2], vec!["a\n".to_owned(), String::new()]).unwrap();
        let names = Tensor::from_strings([1], vec!["a".to_owned()]).unwrap();
        let map = Map::new(names, Tensor::from_vec([1], vec![0.5f32]).unwrap()).unwrap();
        let floats = Tensor::from_vec([1, 2], vec![0.5f32, f32::NAN]).unwrap();
        let values = [
            ("../y".to_owned(), Value::Tensor(floats.clone())),
            ("bf16".to_owned(), Value::Tensor(bf16)),
            ("int4".to_owned(), Value::Tensor(small)),
            ("text".to_owned(), Value::Tensor(strings.clone())),
            ("many".to_owned(), Value::sequence(vec![floats.clone(), floats.clone()])),
            ("none".to_owned(), Value::sequence(Vec::new())),
            ("map".to_owned(), Value::Map(Arc::new(map.clone()))),
            ("maps".to_owned(), Value::Maps(Arc::new(vec![map.clone(), map]))),
            ("no maps".to_owned(), Value::Maps(Arc::default())),
            ("nothing".to_owned(), Value::Nothing),
        ];
        assert_eq!(write(folder.path(), Path::new("m.onnx"), "avx2", &graph(), &values).unwrap(), 12);
        let found = read(folder.path()).unwrap();
        assert_eq!(found.len(), values.len());
        let tensor = |name: &str| found[name].as_tensor().unwrap();
        assert!(tensor("../y").same(&floats) && tensor("text").same(&strings));
        assert_eq!(tensor("bf16").as_slice::<f32>().unwrap(), [1.5, -2.0]);
        assert_eq!(tensor("int4").as_slice::<i8>().unwrap(), [-1, 7]);
        assert!(matches!(&found["many"], Value::Sequence(tensors) if tensors.len() == 2));
        assert!(matches!(&found["none"], Value::Sequence(tensors) if tensors.is_empty()));
        assert!(matches!(&found["map"], Value::Map(map) if map.keys().as_strings() == Ok(&["a".to_owned()][..])));
        assert!(matches!(&found["maps"], Value::Maps(maps) if maps.len() == 2 && maps[1].values().len() == 1));
        assert!(matches!(&found["no maps"], Value::Maps(maps) if maps.is_empty()));
        assert!(matches!(found["nothing"], Value::Nothing));
        let index: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(folder.path().join(INDEX)).unwrap()).unwrap();
        let first = &index["values"][0];
        assert_eq!((&first["node"], &first["operator"]), (&"Relu_0".into(), &"Relu".into()));
        assert_eq!((&first["type"], &first["shape"]), (&"float32".into(), &serde_json::json!([1, 2])));
        assert_eq!(index["values"][1]["stored_as"], "float32");
    }

    #[test]
    fn no_name_of_a_value_leaves_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a/b");
        let long = "x".repeat(5000);
        let names = ["../../up", "/etc/passwd", "..", "", "a\0b", "C:\\x", "con", "\u{202e}name", &long, &long];
        let values: Vec<(String, Value)> =
            names.iter().map(|name| ((*name).to_owned(), Value::Tensor(Tensor::scalar(1f32)))).collect();
        write(&inner, Path::new("m.onnx"), "avx2", &graph(), &values).unwrap();
        assert_eq!(std::fs::read_dir(&inner).unwrap().count(), names.len() + 1, "a file each, and the index");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_index_that_points_elsewhere_is_refused() {
        for file in ["../x.npy", "/x.npy", "a/x.npy", "..", ""] {
            let folder = tempfile::tempdir().unwrap();
            let entry = serde_json::json!({"name": "x", "kind": "tensor", "file": file});
            let index = serde_json::json!({"model": "m", "isa": "avx2", "values": [entry]});
            std::fs::write(folder.path().join(INDEX), index.to_string()).unwrap();
            let line = read(folder.path()).unwrap_err().line().unwrap();
            assert!(line.contains("is no name of a file there"), "{line}");
        }
    }
}
