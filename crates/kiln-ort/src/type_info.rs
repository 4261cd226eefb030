//! Types of inputs, outputs and values: element types, dimensions, the contents of sequences and maps.

use std::ffi::{CString, c_int};
use std::sync::{OnceLock, PoisonError};

use kiln::{DType, Dim, Port, ValueKind};
use kiln_fork::Mutex;

use crate::dtype;
use crate::error::{Result, failed, invalid};
use crate::seam::c_text;
use crate::seam::handle::kind;
use crate::seam::{Handle, List, Out, Text, entry};

/// Element type and dimensions. A caller may change those that it has made.
#[derive(Default)]
pub(crate) struct TensorInfo(Mutex<TensorType>);

/// The contents of a `TensorInfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TensorType {
    /// C's number of the element type; 0 where no type is declared.
    pub(crate) element: c_int,
    /// Sizes, -1 for unknown sizes; `None` where the rank is unknown too.
    pub(crate) dims: Option<Vec<i64>>,
    /// Names of dimensions, one for each dimension; empty for dimensions without a name.
    names: Vec<CString>,
}

/// The type of an input, an output or a value.
pub(crate) struct TypeInfo {
    shape: Shape,
    /// Handles that live as long as this info.
    tensor: OnceLock<Handle<TensorInfo>>,
    map: OnceLock<Handle<MapInfo>>,
    sequence: OnceLock<Handle<SequenceInfo>>,
    optional: OnceLock<Handle<OptionalInfo>>,
}

/// The kind of a value, with its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Tensor(TensorType),
    Sequence(Box<Shape>),
    /// C's number of the keys' type, and the values.
    Map(c_int, Box<Shape>),
    Optional(Box<Shape>),
}

/// The type of a map: its keys and values.
pub(crate) struct MapInfo(c_int, Shape);
/// The type of a sequence's elements.
pub(crate) struct SequenceInfo(Shape);
/// The type of an optional value's element.
pub(crate) struct OptionalInfo(Shape);

kind! {
    TensorInfo = "OrtTensorTypeAndShapeInfo",
    TypeInfo = "OrtTypeInfo",
    MapInfo = "OrtMapTypeInfo",
    SequenceInfo = "OrtSequenceTypeInfo",
    OptionalInfo = "OrtOptionalTypeInfo",
}

impl TensorType {
    /// The type of a tensor with that shape.
    pub(crate) fn of(dtype: DType, shape: &[usize]) -> TensorType {
        let dims: Vec<i64> = shape.iter().map(|&size| size as i64).collect();
        TensorType {
            element: dtype::number(Some(dtype)),
            names: vec![CString::default(); dims.len()],
            dims: Some(dims),
        }
    }

    /// The same type with unknown rank, for tensors inside of sequences and maps.
    pub(crate) fn without_shape(self) -> TensorType {
        TensorType { dims: None, names: Vec::new(), ..self }
    }

    /// The names of its dimensions, empty for dimensions without a name.
    pub(crate) fn names(&self) -> &[CString] {
        &self.names
    }

    /// The type that a model declares.
    pub(crate) fn declared(dtype: Option<DType>, dims: Option<&[Dim]>) -> TensorType {
        let size = |dim: &Dim| if let Dim::Fixed(size) = dim { *size as i64 } else { -1 };
        let name = |dim: &Dim| if let Dim::Named(name) = dim { c_text(name) } else { CString::default() };
        TensorType {
            element: dtype::number(dtype),
            dims: dims.map(|dims| dims.iter().map(size).collect()),
            names: dims.into_iter().flatten().map(name).collect(),
        }
    }
}

impl TensorInfo {
    pub(crate) fn of(tensor: TensorType) -> TensorInfo {
        TensorInfo(Mutex::new(tensor))
    }

    /// A copy of its contents.
    pub(crate) fn says(&self) -> TensorType {
        self.with(|tensor| tensor.clone())
    }

    fn with<T>(&self, what: impl FnOnce(&mut TensorType) -> T) -> T {
        what(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Shape {
    /// The type of an input or output.
    pub(crate) fn of_port(port: &Port) -> Shape {
        let tensor = || Shape::Tensor(TensorType::declared(port.dtype, port.dims.as_deref()));
        let element = || Shape::Tensor(TensorType::declared(port.dtype, None));
        match port.kind {
            ValueKind::Tensor => tensor(),
            ValueKind::Sequence => Shape::Sequence(Box::new(element())),
            ValueKind::Optional => Shape::Optional(Box::new(tensor())),
            ValueKind::OptionalSequence => Shape::Optional(Box::new(Shape::Sequence(Box::new(element())))),
            ValueKind::Map(keys) => Shape::Map(dtype::number(Some(keys)), Box::new(element())),
            ValueKind::Maps(keys) => {
                Shape::Sequence(Box::new(Shape::Map(dtype::number(Some(keys)), Box::new(element()))))
            }
        }
    }

    /// How deep types are nested.
    fn depth(&self) -> usize {
        match self {
            Shape::Tensor(_) => 1,
            Shape::Sequence(inside) | Shape::Map(_, inside) | Shape::Optional(inside) => 1 + inside.depth(),
        }
    }

    /// C's number of the kind (`ONNXType`).
    pub(crate) fn kind(&self) -> c_int {
        match self {
            Shape::Tensor(_) => 1,
            Shape::Sequence(_) => 2,
            Shape::Map(..) => 3,
            Shape::Optional(_) => 6,
        }
    }
}

impl TypeInfo {
    /// A handle of a type.
    pub(crate) fn handle(shape: Shape) -> Result<Handle<TypeInfo>> {
        Handle::new(TypeInfo::of(shape))
    }

    pub(crate) fn of(shape: Shape) -> TypeInfo {
        TypeInfo {
            shape,
            tensor: OnceLock::new(),
            map: OnceLock::new(),
            sequence: OnceLock::new(),
            optional: OnceLock::new(),
        }
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }
}

impl Drop for TypeInfo {
    fn drop(&mut self) {
        self.tensor.get().map(|handle| handle.release());
        self.map.get().map(|handle| handle.release());
        self.sequence.get().map(|handle| handle.release());
        self.optional.get().map(|handle| handle.release());
    }
}

/// The handle in `of`, made when first needed.
pub(crate) fn inner<T: crate::seam::Kind>(of: &OnceLock<Handle<T>>, value: T) -> Result<Handle<T>> {
    if let Some(handle) = of.get() {
        return Ok(*handle);
    }
    let made = Handle::new(value)?;
    let kept = *of.get_or_init(|| made);
    if kept.address() != made.address() {
        drop(made.release());
    }
    Ok(kept)
}

/// The deepest nesting of types: deeper than any value's, and small enough to be copied and dropped.
const DEEPEST: usize = 8;

/// The type that goes inside of another type.
fn inside(info: Handle<TypeInfo>, what: &str) -> Result<Box<Shape>> {
    let shape = info.get(what)?.shape.clone();
    if shape.depth() >= DEEPEST {
        return Err(invalid!("{what} has types inside of types {DEEPEST} deep, which no value has"));
    }
    Ok(Box::new(shape))
}

entry! {
    fn CastTypeInfoToTensorInfo(info: Handle<TypeInfo>, out: Out<Handle<TensorInfo>>) {
        let out = out.place("out")?;
        let info = info.get("type_info")?;
        out.put(match &info.shape {
            Shape::Tensor(tensor) => inner(&info.tensor, TensorInfo::of(tensor.clone()))?,
            _ => Handle::NULL,
        });
        Ok(())
    }

    fn CastTypeInfoToMapTypeInfo(info: Handle<TypeInfo>, out: Out<Handle<MapInfo>>) {
        let out = out.place("out")?;
        let info = info.get("type_info")?;
        out.put(match &info.shape {
            Shape::Map(keys, values) => inner(&info.map, MapInfo(*keys, (**values).clone()))?,
            _ => Handle::NULL,
        });
        Ok(())
    }

    fn CastTypeInfoToSequenceTypeInfo(info: Handle<TypeInfo>, out: Out<Handle<SequenceInfo>>) {
        let out = out.place("out")?;
        let info = info.get("type_info")?;
        out.put(match &info.shape {
            Shape::Sequence(element) => inner(&info.sequence, SequenceInfo((**element).clone()))?,
            _ => Handle::NULL,
        });
        Ok(())
    }

    fn CastTypeInfoToOptionalTypeInfo(info: Handle<TypeInfo>, out: Out<Handle<OptionalInfo>>) {
        let out = out.place("out")?;
        let info = info.get("type_info")?;
        out.put(match &info.shape {
            Shape::Optional(element) => inner(&info.optional, OptionalInfo((**element).clone()))?,
            _ => Handle::NULL,
        });
        Ok(())
    }

    fn GetOnnxTypeFromTypeInfo(info: Handle<TypeInfo>, out: Out<c_int>) {
        let out = out.place("out")?;
        out.put(info.get("type_info")?.shape.kind());
        Ok(())
    }

    fn GetDenotationFromTypeInfo(info: Handle<TypeInfo>, denotation: Out<Text>, len: Out<usize>) {
        let (denotation, len) = (denotation.place("denotation")?, len.place("len")?);
        let _ = info.get("type_info")?;
        denotation.put(Text::within(c""));
        len.put(0);
        Ok(())
    }

    fn GetMapKeyType(info: Handle<MapInfo>, out: Out<c_int>) {
        let out = out.place("out")?;
        out.put(info.get("map_type_info")?.0);
        Ok(())
    }

    fn GetMapValueType(info: Handle<MapInfo>, out: Out<Handle<TypeInfo>>) {
        let out = out.place("type_info")?;
        out.put(TypeInfo::handle(info.get("map_type_info")?.1.clone())?);
        Ok(())
    }

    fn GetSequenceElementType(info: Handle<SequenceInfo>, out: Out<Handle<TypeInfo>>) {
        let out = out.place("type_info")?;
        out.put(TypeInfo::handle(info.get("sequence_type_info")?.0.clone())?);
        Ok(())
    }

    fn GetOptionalContainedTypeInfo(info: Handle<OptionalInfo>, out: Out<Handle<TypeInfo>>) {
        let out = out.place("type_info")?;
        out.put(TypeInfo::handle(info.get("optional_type_info")?.0.clone())?);
        Ok(())
    }

    fn CreateTensorTypeAndShapeInfo(out: Out<Handle<TensorInfo>>) {
        let out = out.place("out")?;
        out.put(Handle::new(TensorInfo::default())?);
        Ok(())
    }

    fn SetTensorElementType(info: Handle<TensorInfo>, element: c_int) {
        let info = info.get("info")?;
        if !(0..=26).contains(&element) {
            return Err(invalid!("element type {element} is not known"));
        }
        info.with(|tensor| tensor.element = element);
        Ok(())
    }

    fn SetDimensions(info: Handle<TensorInfo>, dims: List<i64>, count: usize) {
        let info = info.get("info")?;
        let dims = dims.read(count, "dim_values")?;
        info.with(|tensor| {
            tensor.names = vec![CString::default(); dims.len()];
            tensor.dims = Some(dims);
        });
        Ok(())
    }

    fn SetSymbolicDimensions(info: Handle<TensorInfo>, names: List<Text>, count: usize) {
        let info = info.get("info")?;
        let names = names.read(count, "dim_params")?;
        let names: Vec<CString> = names.iter().map(|name| c_text(&name.lossy())).collect();
        info.with(|tensor| match &tensor.dims {
            Some(dims) if dims.len() != names.len() => {
                Err(invalid!("{} names of dimensions for {} dimensions", names.len(), dims.len()))
            }
            _ => {
                tensor.dims.get_or_insert_with(|| vec![-1; names.len()]);
                tensor.names = names;
                Ok(())
            }
        })
    }

    fn GetTensorElementType(info: Handle<TensorInfo>, out: Out<c_int>) {
        let out = out.place("out")?;
        out.put(info.get("info")?.with(|tensor| tensor.element));
        Ok(())
    }

    fn GetDimensionsCount(info: Handle<TensorInfo>, out: Out<usize>) {
        let out = out.place("out")?;
        out.put(info.get("info")?.with(|tensor| tensor.dims.as_ref().map_or(0, Vec::len)));
        Ok(())
    }

    fn GetDimensions(info: Handle<TensorInfo>, dims: Out<i64>, len: usize) {
        let says = info.get("info")?.says();
        dims.fill(len, says.dims.as_deref().unwrap_or_default(), "dim_values")
    }

    fn GetSymbolicDimensions(info: Handle<TensorInfo>, names: Out<Text>, len: usize) {
        // The texts live as long as the info and are not changed meanwhile.
        let pointers = info.get("info")?.with(|tensor| {
            tensor.names.iter().map(|name| Text::within(name)).collect::<Vec<_>>()
        });
        names.fill(len, &pointers, "dim_params")
    }

    fn GetTensorShapeElementCount(info: Handle<TensorInfo>, out: Out<usize>) {
        let out = out.place("out")?;
        let says = info.get("info")?.says();
        // An unknown shape has no dimensions.
        let Some(dims) = says.dims else {
            out.put(0);
            return Ok(());
        };
        let count = dims.iter().try_fold(1usize, |count, &size| {
            count.checked_mul(usize::try_from(size).ok()?)
        });
        out.put(count.ok_or_else(|| failed!("Integer overflow: a dimension is not known, or their product is too large"))?);
        Ok(())
    }

    fn TensorTypeAndShape_HasShape(info: Handle<TensorInfo>) -> bool, else false => {
        info.live().is_some_and(|info| info.with(|tensor| tensor.dims.is_some()))
    }

    fn CreateTensorTypeInfo(tensor: Handle<TensorInfo>, out: Out<Handle<TypeInfo>>) {
        let out = out.place("type_info")?;
        out.put(TypeInfo::handle(Shape::Tensor(tensor.get("tensor_info")?.says()))?);
        Ok(())
    }

    fn CreateMapTypeInfo(keys: c_int, values: Handle<TypeInfo>, out: Out<Handle<TypeInfo>>) {
        let out = out.place("type_info")?;
        dtype::of_number(keys)?;
        out.put(TypeInfo::handle(Shape::Map(keys, inside(values, "map_value_type")?))?);
        Ok(())
    }

    fn CreateSequenceTypeInfo(elements: Handle<TypeInfo>, out: Out<Handle<TypeInfo>>) {
        let out = out.place("type_info")?;
        out.put(TypeInfo::handle(Shape::Sequence(inside(elements, "sequence_type")?))?);
        Ok(())
    }

    fn CreateOptionalTypeInfo(contained: Handle<TypeInfo>, out: Out<Handle<TypeInfo>>) {
        let out = out.place("type_info")?;
        out.put(TypeInfo::handle(Shape::Optional(inside(contained, "contained_type")?))?);
        Ok(())
    }

    fn ReleaseTypeInfo(info: Handle<TypeInfo>) -> (), else () => {
        drop(info.release());
    }

    fn ReleaseTensorTypeAndShapeInfo(info: Handle<TensorInfo>) -> (), else () => {
        drop(info.release());
    }

    fn ReleaseMapTypeInfo(info: Handle<MapInfo>) -> (), else () => {
        drop(info.release());
    }

    fn ReleaseSequenceTypeInfo(info: Handle<SequenceInfo>) -> (), else () => {
        drop(info.release());
    }
}
