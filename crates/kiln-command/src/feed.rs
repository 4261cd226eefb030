//! Values of a model's inputs: from files, by shapes on the command line, and generated for the rest. Depends on no
//! session, only the declared ports of a model.
//!
//! A name on the command line that does not exist is an error; every dimension without a size is 1, which is printed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::str::FromStr;

use kiln::session::Port;
use kiln_model::ir::Dim;
use kiln_tensor::{Tensor, TensorSpec};

use crate::arrays;
use crate::failure::{Failure, Outcome};
use crate::shape::{DimArg, ShapeArg};
use crate::values::{Fill, Recipe};

/// Flags of every command that feeds a model.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct FeedArgs {
    /// Shape of an input whose values are generated: 'x[1,3,224,224]' or 'x:1x3x224x224'; '?' leaves a dimension open,
    /// and the name may be left out if there is one input
    #[arg(long = "shape", visible_alias = "shapes", value_name = "SHAPE", help_heading = "Inputs")]
    pub(crate) shapes: Vec<ShapeArg>,
    /// Size of a dimension that the model names: 'batch=4'
    #[arg(long = "dim", value_name = "NAME=SIZE", help_heading = "Inputs")]
    pub(crate) dims: Vec<DimSize>,
    /// Seed of generated values
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Inputs")]
    pub(crate) seed: u64,
}

/// `NAME=SIZE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DimSize {
    name: String,
    size: usize,
}

impl FromStr for DimSize {
    type Err = String;

    fn from_str(text: &str) -> Result<DimSize, String> {
        let parts = text.rsplit_once('=').and_then(|(name, size)| Some((name.trim(), size.trim().parse().ok()?)));
        match parts {
            Some((name, size)) if !name.is_empty() => Ok(DimSize { name: name.to_owned(), size }),
            _ => Err(format!("'{text}' is not NAME=SIZE")),
        }
    }
}

/// `FILE` or `NAME=FILE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InputFile {
    /// The input; `None` to use the file's own names.
    pub(crate) name: Option<String>,
    /// The file.
    pub(crate) path: PathBuf,
}

impl FromStr for InputFile {
    type Err = String;

    fn from_str(text: &str) -> Result<InputFile, String> {
        let (name, path) = text.split_once('=').map_or((None, text), |(name, path)| (Some(name), path));
        if path.is_empty() || name == Some("") {
            return Err(format!("'{text}' is neither FILE nor NAME=FILE"));
        }
        Ok(InputFile { name: name.map(str::to_owned), path: PathBuf::from(path) })
    }
}

/// Reads input files and finds the input of each: by the name given with it, the array's name in an archive, the file's
/// own name, or as the only input.
pub(crate) fn read_files(ports: &[Port], files: &[InputFile]) -> Outcome<Vec<(String, Tensor)>> {
    let mut given: Vec<(String, Tensor)> = Vec::new();
    for file in files {
        let arrays = arrays::read(&file.path)?;
        let shown = file.path.display();
        if file.name.is_some() && arrays.len() != 1 {
            return Err(Failure::usage(format!("{shown} holds {} arrays, not one for one input", arrays.len())));
        }
        let stem = file.path.file_stem().and_then(|stem| stem.to_str());
        for (inner, tensor) in arrays {
            let known = |name: &str| ports.iter().any(|port| port.name == name);
            let name = if let Some(name) = &file.name {
                name.clone()
            } else if let Some(name) = inner {
                name
            } else if let Some(name) = stem.filter(|name| known(name)) {
                name.to_owned()
            } else {
                only_input(ports, &[]).ok_or_else(|| {
                    Failure::usage(format!("which input is {shown} for? Write NAME=FILE; {}", inputs_text(ports)))
                })?
            };
            if !known(&name) {
                return Err(unknown_input(ports, &name));
            }
            if given.iter().any(|(other, _)| *other == name) {
                return Err(Failure::usage(format!("input '{name}' is given twice")));
            }
            given.push((name, tensor));
        }
    }
    Ok(given)
}

/// The values to make up, request by request.
#[derive(Debug, PartialEq)]
pub(crate) struct Plan {
    /// The inputs of each request that no file gives. At least one request.
    pub(crate) requests: Vec<Vec<Recipe>>,
    /// Assumptions, for the user, one line each.
    pub(crate) notices: Vec<String>,
}

/// Plans the values of every input that is not `given`.
pub(crate) fn plan(ports: &[Port], given: &[(String, Tensor)], args: &FeedArgs) -> Outcome<Plan> {
    let shapes = assign(ports, given, &args.shapes)?;
    let requests = rounds(&shapes)?;
    let mut sizes: BTreeMap<&str, usize> = BTreeMap::new();
    for DimSize { name, size } in &args.dims {
        let declared = |dim: &Dim| matches!(dim, Dim::Named(known) if known == name);
        if !ports.iter().any(|port| port.dims.iter().flatten().any(declared)) {
            return Err(Failure::usage(format!("the model names no dimension '{name}'; {}", inputs_text(ports))));
        }
        sizes.insert(name, *size);
    }
    for (name, tensor) in given {
        let declared = ports.iter().find(|port| port.name == *name).and_then(|port| port.dims.as_ref());
        learn(&mut sizes, declared, tensor.shape().iter().map(|&dim| Some(dim)));
    }
    let mut plan = Plan { requests: Vec::with_capacity(requests), notices: Vec::new() };
    let mut assumed = BTreeSet::new();
    for round in 0..requests {
        // Sizes given for one input apply to every input that declares the same name.
        let mut sizes = sizes.clone();
        for (name, list) in &shapes {
            let declared = ports.iter().find(|port| port.name == *name).and_then(|port| port.dims.as_ref());
            learn(&mut sizes, declared, list[round.min(list.len() - 1)].iter().copied());
        }
        let wanted = ports.iter().zip(0u32..).filter(|(port, _)| {
            let is_given = given.iter().any(|(name, _)| *name == port.name);
            !is_given && (!port.has_default || shapes.iter().any(|(name, _)| *name == port.name))
        });
        let mut recipes = Vec::new();
        for (port, place) in wanted {
            let list = shapes.iter().find(|(name, _)| *name == port.name).map(|(_, list)| list);
            let typed = list.map(|list| list[round.min(list.len() - 1)].as_slice());
            let shape = settle(port, typed, &sizes, &mut assumed)?;
            let dtype = port.dtype.ok_or_else(|| {
                Failure::usage(format!("input '{}' declares no element type, give it a file with --input", port.name))
            })?;
            let spec = TensorSpec::new(dtype, shape);
            recipes.push(Recipe { name: port.name.clone(), spec, fill: Fill::Random(args.seed), place });
        }
        plan.requests.push(recipes);
    }
    if !assumed.is_empty() {
        let list: Vec<String> = assumed.into_iter().collect();
        plan.notices
            .push(format!("dimensions without a size are 1: {} (set them with --shape or --dim)", list.join(", ")));
    }
    Ok(plan)
}

/// The shapes of one input, as typed.
type InputShapes = (String, Vec<Vec<DimArg>>);

/// Shapes by input, names checked and filled in.
fn assign(ports: &[Port], given: &[(String, Tensor)], args: &[ShapeArg]) -> Outcome<Vec<InputShapes>> {
    let mut shapes: Vec<InputShapes> = Vec::new();
    for arg in args {
        let name = match &arg.name {
            Some(name) => name.clone(),
            None => only_input(ports, given)
                .ok_or_else(|| Failure::usage(format!("which input is the shape {arg} for? {}", inputs_text(ports))))?,
        };
        if !ports.iter().any(|port| port.name == name) {
            return Err(unknown_input(ports, &name));
        }
        if given.iter().any(|(other, _)| *other == name) {
            return Err(Failure::usage(format!("input '{name}' has both a file and a shape")));
        }
        if shapes.iter().any(|(other, _)| *other == name) {
            return Err(Failure::usage(format!("input '{name}' has two shapes")));
        }
        shapes.push((name, arg.shapes.clone()));
    }
    Ok(shapes)
}

/// The number of requests: inputs with one shape keep it in all requests.
fn rounds(shapes: &[InputShapes]) -> Outcome<usize> {
    let most = shapes.iter().map(|(_, list)| list.len()).max().unwrap_or(1);
    match shapes.iter().find(|(_, list)| list.len() != 1 && list.len() != most) {
        Some((name, list)) => {
            Err(Failure::usage(format!("input '{name}' has {} shapes where another has {most}", list.len())))
        }
        None => Ok(most),
    }
}

/// Notes the sizes of named dimensions; the first size of a name is kept.
fn learn<'a>(
    sizes: &mut BTreeMap<&'a str, usize>,
    declared: Option<&'a Vec<Dim>>,
    shape: impl Iterator<Item = DimArg>,
) {
    for (dim, size) in declared.into_iter().flatten().zip(shape) {
        if let (Dim::Named(name), Some(size)) = (dim, size) {
            sizes.entry(name).or_insert(size);
        }
    }
}

/// The shape of one input in one request: sizes as typed, as declared, as in other inputs, else 1.
fn settle(
    port: &Port,
    typed: Option<&[DimArg]>,
    sizes: &BTreeMap<&str, usize>,
    assumed: &mut BTreeSet<String>,
) -> Outcome<Vec<usize>> {
    let name = &port.name;
    let declared = match (&port.dims, typed) {
        (Some(dims), _) => dims.clone(),
        (None, Some(typed)) => vec![Dim::Any; typed.len()],
        (None, None) => return Err(Failure::usage(format!("input '{name}' declares no shape, give it with --shape"))),
    };
    if let Some(typed) = typed.filter(|typed| typed.len() != declared.len()) {
        return Err(Failure::usage(format!(
            "input '{name}' has {} dimensions {}, the shape given has {}",
            declared.len(),
            dims_text(&declared),
            typed.len()
        )));
    }
    let mut shape = Vec::with_capacity(declared.len());
    for (place, dim) in declared.iter().enumerate() {
        let size = typed.and_then(|typed| typed[place]);
        shape.push(match (dim, size) {
            (Dim::Fixed(fixed), Some(size)) if size != *fixed => {
                return Err(Failure::usage(format!(
                    "dimension {place} of input '{name}' is {fixed} in the model, not {size}"
                )));
            }
            (Dim::Fixed(fixed), _) => *fixed,
            (_, Some(size)) => size,
            (Dim::Named(dim), None) => sizes.get(dim.as_str()).copied().unwrap_or_else(|| {
                assumed.insert(dim.clone());
                1
            }),
            (Dim::Any, None) => {
                assumed.insert(format!("{name}[{place}]"));
                1
            }
        });
    }
    Ok(shape)
}

/// The input of a text without a name: the only one that still needs values.
fn only_input(ports: &[Port], given: &[(String, Tensor)]) -> Option<String> {
    let mut open = ports.iter().filter(|port| !port.has_default && !given.iter().any(|(name, _)| *name == port.name));
    match (open.next(), open.next()) {
        (Some(port), None) => Some(port.name.clone()),
        _ => None,
    }
}

fn unknown_input(ports: &[Port], name: &str) -> Failure {
    Failure::usage(format!("the model has no input '{name}'; {}", inputs_text(ports)))
}

fn inputs_text(ports: &[Port]) -> String {
    let list: Vec<String> = ports.iter().map(port_text).collect();
    format!("its inputs are {}", list.join(", "))
}

/// `x float32 [N,3,224,224]`.
pub(crate) fn port_text(port: &Port) -> String {
    let dtype = port.dtype.map_or("any type".to_owned(), |dtype| dtype.to_string());
    format!("{} {dtype} {}", port.name, port.dims.as_deref().map_or("any shape".to_owned(), dims_text))
}

fn dims_text(dims: &[Dim]) -> String {
    let list: Vec<String> = dims.iter().map(ToString::to_string).collect();
    format!("[{}]", list.join(","))
}

#[cfg(test)]
mod tests;
