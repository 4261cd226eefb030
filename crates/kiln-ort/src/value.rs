//! Values: tensors, texts, sequences, maps, optional values.

use std::ffi::c_int;
use std::sync::{Arc, OnceLock, PoisonError};

use kiln::{DType, Map, Tensor, TensorSpec};
use kiln_fork::Mutex;

use crate::dtype;
use crate::error::{Code, Error, Result, failed, invalid};
use crate::memory_info::MemoryInfo;
use crate::seam::handle::kind;
use crate::seam::{Allocator, Block, Handle, List, Memory, Out, Span, entry};
use crate::type_info::{Shape, TensorInfo, TensorType, TypeInfo};

/// The kind of an `OrtValue`.
pub(crate) enum Value {
    Tensor(Elements),
    Strings(Strings),
    /// Values of one kind in an order.
    Sequence(Vec<Arc<Value>>),
    Map {
        keys: Arc<Value>,
        values: Arc<Value>,
    },
    /// An optional value without an element.
    Nothing,
}

kind!(Value = "OrtValue");

/// A tensor of numbers.
pub(crate) struct Elements {
    pub(crate) dtype: DType,
    /// Sizes; none is negative.
    dims: Vec<i64>,
    /// The elements as in C, where elements of less than a byte share bytes.
    block: Block,
    /// The memory's place, as the caller states it; null is the processor's.
    info: Handle<MemoryInfo>,
    /// The elements for runs that read them in place, made for the first run.
    tensor: OnceLock<Tensor>,
}

/// A tensor of texts, which are bytes in C.
pub(crate) struct Strings {
    dims: Vec<i64>,
    /// Each text ends with a zero that is not part of it. A text that a pointer was given to is not moved until it is
    /// changed.
    texts: Mutex<Vec<Vec<u8>>>,
}

/// The sizes of a shape that a caller gives.
pub(crate) fn sizes(dims: &[i64]) -> Result<Vec<usize>> {
    let size = |&size: &i64| usize::try_from(size);
    dims.iter()
        .map(size)
        .collect::<std::result::Result<_, _>>()
        .map_err(|_| invalid!("tried creating tensor with negative value in shape {dims:?}"))
}

/// The number of elements of a shape.
pub(crate) fn count(dims: &[usize]) -> Result<usize> {
    // With a size of 0 there are no elements, whatever the other sizes are.
    if dims.contains(&0) {
        return Ok(0);
    }
    dims.iter()
        .try_fold(1usize, |count, &size| count.checked_mul(size))
        .ok_or_else(|| failed!("Integer overflow: a shape of {dims:?} has too many elements"))
}

impl Elements {
    /// A tensor over memory that has at least as many bytes as the shape needs.
    fn over(dtype: DType, dims: Vec<i64>, block: Block) -> Elements {
        Elements { dtype, dims, block, info: Handle::NULL, tensor: OnceLock::new() }
    }

    pub(crate) fn spec(&self) -> TensorSpec {
        // Checked when the value was made.
        TensorSpec::new(self.dtype, self.dims.iter().map(|&size| size as usize))
    }

    pub(crate) fn dims(&self) -> &[i64] {
        &self.dims
    }

    pub(crate) fn block(&self) -> &Block {
        &self.block
    }

    pub(crate) fn count(&self) -> usize {
        self.dims.iter().map(|&size| size as usize).product()
    }

    /// Whether a run can read and write the elements in place.
    pub(crate) fn is_plain(&self) -> bool {
        !dtype::is_packed(self.dtype) && self.block.is_aligned(self.dtype.size())
    }

    /// The tensor for a run that reads it.
    pub(crate) fn read(&self) -> Result<Tensor> {
        if !self.is_plain() || self.dtype == DType::Bool {
            let mut bytes = self.block.copy()?;
            if dtype::is_packed(self.dtype) {
                bytes = dtype::unpacked(self.dtype, self.count(), &bytes);
            }
            if self.dtype == DType::Bool {
                bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
            }
            return Tensor::from_bytes(self.spec(), &bytes).map_err(|error| invalid!("{error}"));
        }
        if let Some(tensor) = self.tensor.get() {
            return Ok(tensor.clone());
        }
        let tensor = Tensor::from_foreign(self.spec(), self.block.reading()).map_err(|error| invalid!("{error}"))?;
        Ok(self.tensor.get_or_init(|| tensor).clone())
    }

    /// The tensor for a run that writes it in place; only for a [plain](Elements::is_plain) one.
    pub(crate) fn write(&self) -> Result<Tensor> {
        Tensor::from_foreign_mut(self.spec(), self.block.writing()).map_err(|error| invalid!("{error}"))
    }

    /// Copies a tensor of the same type and shape there.
    pub(crate) fn fill(&self, from: &Tensor) -> Result<()> {
        if dtype::is_packed(self.dtype) {
            return self.block.write(&dtype::packed(self.dtype, from.bytes()));
        }
        self.block.write(from.bytes())
    }
}

impl Strings {
    pub(crate) fn of(dims: Vec<i64>, texts: Vec<Vec<u8>>) -> Strings {
        Strings { dims, texts: Mutex::new(texts) }
    }

    pub(crate) fn dims(&self) -> &[i64] {
        &self.dims
    }

    /// Reads or changes the texts.
    pub(crate) fn with<T>(&self, what: impl FnOnce(&mut Vec<Vec<u8>>) -> T) -> T {
        what(&mut self.texts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn read(&self) -> Result<Tensor> {
        let texts = self.with(|texts| texts.clone());
        let texts: std::result::Result<Vec<String>, _> = texts.into_iter().map(String::from_utf8).collect();
        let texts = texts.map_err(|_| invalid!("a text is not UTF-8, which Kiln's texts are"))?;
        let sizes = self.dims.iter().map(|&size| size as usize);
        Tensor::from_strings(sizes, texts).map_err(|error| invalid!("{error}"))
    }
}

impl Value {
    /// Zeroed elements in memory of an allocator, or empty texts.
    pub(crate) fn zeroed(allocator: Allocator, dtype: DType, dims: Vec<i64>) -> Result<Value> {
        let count = count(&sizes(&dims)?)?;
        if dtype == DType::String {
            let mut texts = Vec::new();
            texts.try_reserve_exact(count).map_err(|_| failed!("there is no memory for {count} texts"))?;
            texts.resize(count, Vec::new());
            return Ok(Value::Strings(Strings::of(dims, texts)));
        }
        let block = Block::of_allocator(allocator, dtype::bytes_in_c(dtype, count)?)?;
        Ok(Value::Tensor(Elements::over(dtype, dims, block)))
    }

    /// The result of a run. `inputs` has the addresses of the values that the run has read: a result at one of these
    /// addresses is copied, and so is a result that others hold too.
    pub(crate) fn of_kiln(value: kiln::Value, inputs: &[Span]) -> Result<Value> {
        Ok(match value {
            kiln::Value::Tensor(tensor) => Value::of_tensor(tensor, inputs)?,
            kiln::Value::Sequence(tensors) => Value::Sequence(
                tensors
                    .iter()
                    .map(|tensor| Ok(Arc::new(Value::of_tensor(tensor.clone(), inputs)?)))
                    .collect::<Result<_>>()?,
            ),
            kiln::Value::Map(map) => Value::of_map(&map, inputs)?,
            kiln::Value::Maps(maps) => Value::Sequence(
                maps.iter().map(|map| Ok(Arc::new(Value::of_map(map, inputs)?))).collect::<Result<_>>()?,
            ),
            kiln::Value::Nothing => Value::Nothing,
        })
    }

    fn of_map(map: &Map, inputs: &[Span]) -> Result<Value> {
        let [keys, values] = [map.keys(), map.values()].map(|tensor| Value::of_tensor(tensor.clone(), inputs));
        Ok(Value::Map { keys: Arc::new(keys?), values: Arc::new(values?) })
    }

    pub(crate) fn of_tensor(mut tensor: Tensor, inputs: &[Span]) -> Result<Value> {
        let dims: Vec<i64> = tensor.shape().iter().map(|&size| size as i64).collect();
        let dtype = tensor.dtype();
        if let Ok(texts) = tensor.as_strings() {
            let texts = texts.iter().map(|text| text.clone().into_bytes()).collect();
            return Ok(Value::Strings(Strings::of(dims, texts)));
        }
        if dtype::is_packed(dtype) {
            let block = Block::of_bytes(dtype::packed(dtype, tensor.bytes()), Vec::as_mut_slice)?;
            return Ok(Value::Tensor(Elements::over(dtype, dims, block)));
        }
        let address = tensor.bytes().as_ptr().addr();
        let is_input = inputs.iter().any(|input| input.holds(address));
        if is_input || !tensor.is_unique() || tensor.is_in_file() {
            tensor = Tensor::from_bytes(tensor.spec().clone(), tensor.bytes()).map_err(|error| failed!("{error}"))?;
        }
        let block = Block::of_bytes(tensor, Tensor::bytes_mut)?;
        Ok(Value::Tensor(Elements::over(dtype, dims, block)))
    }

    /// The value for a run that reads it. Its addresses are added to `spans`.
    pub(crate) fn to_kiln(&self, spans: &mut Vec<Span>) -> Result<kiln::Value> {
        Ok(match self {
            Value::Tensor(_) | Value::Strings(_) => kiln::Value::Tensor(self.to_tensor(spans)?),
            Value::Sequence(values) if values.iter().any(|value| matches!(**value, Value::Map { .. })) => {
                kiln::Value::Maps(Arc::new(values.iter().map(|value| value.to_map(spans)).collect::<Result<_>>()?))
            }
            Value::Sequence(values) => {
                kiln::Value::sequence(values.iter().map(|value| value.to_tensor(spans)).collect::<Result<_>>()?)
            }
            Value::Map { .. } => kiln::Value::Map(Arc::new(self.to_map(spans)?)),
            Value::Nothing => kiln::Value::Nothing,
        })
    }

    fn to_tensor(&self, spans: &mut Vec<Span>) -> Result<Tensor> {
        match self {
            Value::Tensor(elements) => {
                spans.push(elements.block.span());
                elements.read()
            }
            Value::Strings(strings) => strings.read(),
            _ => Err(invalid!("a sequence or map has {} in it, which is no tensor", self.name())),
        }
    }

    fn to_map(&self, spans: &mut Vec<Span>) -> Result<Map> {
        let Value::Map { keys, values } = self else {
            return Err(invalid!("a sequence of maps has {} in it", self.name()));
        };
        Map::new(keys.to_tensor(spans)?, values.to_tensor(spans)?).map_err(|error| invalid!("{error}"))
    }

    /// Its kind, for messages.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Value::Tensor(_) | Value::Strings(_) => "a tensor",
            Value::Sequence(_) => "a sequence",
            Value::Map { .. } => "a map",
            Value::Nothing => "an empty optional value",
        }
    }

    /// Element type and shape, if it is a tensor.
    pub(crate) fn tensor_type(&self) -> Option<TensorType> {
        match self {
            Value::Tensor(elements) => Some(TensorType::of(elements.dtype, &elements.spec().shape)),
            Value::Strings(strings) => {
                Some(TensorType::of(DType::String, &strings.dims.iter().map(|&size| size as usize).collect::<Vec<_>>()))
            }
            _ => None,
        }
    }

    /// Its type with its contents. The elements of a sequence have their shapes in C, too.
    pub(crate) fn shape(&self) -> Shape {
        let undeclared = || Shape::Tensor(TensorType::default());
        match self {
            Value::Tensor(_) | Value::Strings(_) => Shape::Tensor(self.tensor_type().unwrap_or_default()),
            Value::Sequence(values) => {
                let first = values.first().map(|value| match value.shape() {
                    // Elements of a sequence differ in shape.
                    Shape::Tensor(tensor) => Shape::Tensor(tensor.without_shape()),
                    other => other,
                });
                Shape::Sequence(Box::new(first.unwrap_or_else(undeclared)))
            }
            Value::Map { keys, values } => {
                let keys = keys.tensor_type().unwrap_or_default().element;
                let values = values.tensor_type().unwrap_or_default().without_shape();
                Shape::Map(keys, Box::new(Shape::Tensor(values)))
            }
            Value::Nothing => Shape::Optional(Box::new(undeclared())),
        }
    }

    /// The numbers of a tensor.
    fn elements(&self) -> Result<&Elements> {
        match self {
            Value::Tensor(elements) => Ok(elements),
            Value::Strings(_) => Err(Error::new(
                Code::NotImplemented,
                "the elements of a tensor(string) are no plain memory: read them with GetStringTensorContent",
            )),
            _ => Err(invalid!("the value is {}, not a tensor", self.name())),
        }
    }
}

/// The shape and type of a new tensor.
fn made_of(dims: List<i64>, len: usize, element: c_int) -> Result<(DType, Vec<i64>)> {
    Ok((dtype::of_number(element)?, dims.read(len, "shape")?))
}

/// Memory of `len` bytes under a tensor.
struct Given {
    memory: Memory,
    len: usize,
}

/// A tensor of that element type and shape over memory; `block` makes a block of the size that the tensor needs.
fn over_memory(
    given: &Given,
    dtype: DType,
    dims: Vec<i64>,
    block: impl FnOnce(usize) -> Result<Block>,
) -> Result<Elements> {
    let Given { memory, len } = *given;
    if dtype == DType::String {
        return Err(invalid!("a tensor(string) cannot lie in memory of the caller's: use FillStringTensor"));
    }
    let need = dtype::bytes_in_c(dtype, count(&sizes(&dims)?)?)?;
    if need > len {
        return Err(invalid!("not enough space: expected {need}, got {len}"));
    }
    if memory.is_null() && need > 0 {
        return Err(Error::null("p_data"));
    }
    Ok(Elements::over(dtype, dims, block(need)?))
}

entry! {
    fn CreateTensorAsOrtValue(
        allocator: Allocator,
        dims: List<i64>,
        rank: usize,
        element: c_int,
        out: Out<Handle<Value>>,
    ) {
        let out = out.place("out")?;
        allocator.check("allocator")?;
        let (dtype, dims) = made_of(dims, rank, element)?;
        out.put(Handle::new(Value::zeroed(allocator, dtype, dims)?)?);
        Ok(())
    }

    fn CreateTensorWithDataAsOrtValue(
        info: Handle<MemoryInfo>,
        memory: Memory,
        len: usize,
        dims: List<i64>,
        rank: usize,
        element: c_int,
        out: Out<Handle<Value>>,
    ) {
        let out = out.place("out")?;
        let place = info.get("info")?;
        if !place.is_cpu() {
            return Err(invalid!("Specified device is not supported: memory of tensors is the processor's"));
        }
        let block = |need| Block::of_caller(memory, need, "p_data");
        let (dtype, dims) = made_of(dims, rank, element)?;
        let mut elements = over_memory(&Given { memory, len }, dtype, dims, block)?;
        elements.info = Handle::of(place)?;
        out.put(Handle::new(Value::Tensor(elements))?);
        Ok(())
    }

    fn CreateTensorWithDataAndDeleterAsOrtValue(
        deleter: Allocator,
        memory: Memory,
        len: usize,
        dims: List<i64>,
        rank: usize,
        element: c_int,
        out: Out<Handle<Value>>,
    ) {
        let out = out.place("out")?;
        deleter.check("deleter")?;
        let block = |need| Block::handed_over(deleter, memory, need, "p_data");
        let (dtype, dims) = made_of(dims, rank, element)?;
        let elements = over_memory(&Given { memory, len }, dtype, dims, block)?;
        out.put(Handle::new(Value::Tensor(elements))?);
        Ok(())
    }

    fn IsTensor(value: Handle<Value>, out: Out<c_int>) {
        let out = out.place("out")?;
        out.put(c_int::from(value.get("value")?.tensor_type().is_some()));
        Ok(())
    }

    fn HasValue(value: Handle<Value>, out: Out<c_int>) {
        let out = out.place("out")?;
        out.put(c_int::from(!matches!(*value.get("value")?, Value::Nothing)));
        Ok(())
    }

    fn IsSparseTensor(value: Handle<Value>, out: Out<c_int>) {
        let out = out.place("out")?;
        let _ = value.get("value")?;
        out.put(0);
        Ok(())
    }

    fn GetTensorMutableData(value: Handle<Value>, out: Out<Memory>) {
        let out = out.place("out")?;
        out.put(value.get("value")?.elements()?.block.memory());
        Ok(())
    }

    fn GetTensorData(value: Handle<Value>, out: Out<Memory>) {
        let out = out.place("out")?;
        out.put(value.get("value")?.elements()?.block.memory());
        Ok(())
    }

    fn GetTensorSizeInBytes(value: Handle<Value>, out: Out<usize>) {
        let out = out.place("size")?;
        out.put(value.get("ort_value")?.elements()?.block.len());
        Ok(())
    }

    fn TensorAt(value: Handle<Value>, place: List<i64>, len: usize, out: Out<Memory>) {
        let out = out.place("out")?;
        let value = value.get("value")?;
        let elements = value.elements()?;
        let place = place.read(len, "location_values")?;
        if place.len() != elements.dims.len() {
            return Err(invalid!("location dimensions do not match shape size: {} and {}", len, elements.dims.len()));
        }
        if dtype::is_packed(elements.dtype) {
            return Err(invalid!("elements of {} have no address of their own", elements.dtype.name()));
        }
        let mut offset = 0;
        for (at, size) in place.iter().zip(&elements.dims) {
            if !(0..*size).contains(at) {
                return Err(invalid!("invalid location range: {place:?} in a tensor of {:?}", elements.dims));
            }
            offset = offset * *size as usize + *at as usize;
        }
        out.put(elements.block.at(offset * elements.dtype.size()));
        Ok(())
    }

    fn GetTensorTypeAndShape(value: Handle<Value>, out: Out<Handle<TensorInfo>>) {
        let out = out.place("out")?;
        let value = value.get("value")?;
        let tensor = value.tensor_type().ok_or_else(|| invalid!("Argument is not a tensor: it is {}", value.name()))?;
        out.put(Handle::new(TensorInfo::of(tensor))?);
        Ok(())
    }

    fn GetTensorElementTypeAndShapeDataReference(
        value: Handle<Value>,
        element: Out<c_int>,
        dims: Out<List<i64>>,
        rank: Out<usize>,
    ) {
        let (element, dims, rank) = (element.place("elem_type")?, dims.place("shape_data")?, rank.place("shape_data_count")?);
        let value = value.get("value")?;
        let (number, shape) = match &*value {
            Value::Tensor(elements) => (dtype::number(Some(elements.dtype)), &elements.dims),
            Value::Strings(strings) => (dtype::number(Some(DType::String)), &strings.dims),
            _ => return Err(invalid!("the value is {}, not a tensor", value.name())),
        };
        element.put(number);
        dims.put(if shape.is_empty() { List::NULL } else { List::within(shape) });
        rank.put(shape.len());
        Ok(())
    }

    fn GetTypeInfo(value: Handle<Value>, out: Out<Handle<TypeInfo>>) {
        let out = out.place("out")?;
        out.put(TypeInfo::handle(value.get("value")?.shape())?);
        Ok(())
    }

    fn GetValueType(value: Handle<Value>, out: Out<c_int>) {
        let out = out.place("out")?;
        out.put(value.get("value")?.shape().kind());
        Ok(())
    }

    fn GetTensorMemoryInfo(value: Handle<Value>, out: Out<Handle<MemoryInfo>>) {
        let out = out.place("mem_info")?;
        let value = value.get("value")?;
        out.put(match &*value {
            Value::Tensor(Elements { info, .. }) if !info.is_null() => *info,
            Value::Tensor(_) | Value::Strings(_) => MemoryInfo::cpu(),
            _ => return Err(invalid!("the value is {}, not a tensor", value.name())),
        });
        Ok(())
    }

    fn ReleaseValue(value: Handle<Value>) -> (), else () => {
        drop(value.release());
    }
}

impl Drop for Elements {
    fn drop(&mut self) {
        drop(self.info.release());
    }
}
