//! Entries of sequences and maps.

use std::ffi::c_int;
use std::sync::Arc;

use kiln::DType;

use crate::error::{Code, Error, Result, failed};
use crate::seam::{Allocator, Handle, List, Out, entry};
use crate::value::Value;

/// `ONNXType`'s numbers of the types that `CreateValue` makes.
const SEQUENCE: c_int = 2;
const MAP: c_int = 3;

fn sequence(values: Vec<Arc<Value>>) -> Result<Value> {
    let Some(first) = values.first() else { return Err(failed!("Number of values should be at least 1.")) };
    let kind = first.shape();
    let same = |value: &Arc<Value>| match (&**value, &**first) {
        (Value::Map { .. }, Value::Map { .. }) => value.shape() == kind,
        (one, other) => {
            let [one, other] = [one, other].map(|value| value.tensor_type().map(|tensor| tensor.element));
            one.is_some() && one == other
        }
    };
    if !values.iter().all(same) {
        return Err(failed!("All values in a sequence must be tensors of one element type, or maps of one type"));
    }
    Ok(Value::Sequence(values))
}

fn map(mut values: Vec<Arc<Value>>) -> Result<Value> {
    let (Some(of_keys), Some(keys), None) = (values.pop(), values.pop(), values.pop()) else {
        return Err(failed!("For map type num_values MUST be 2"));
    };
    let (values, count) = (of_keys, |value: &Value| value.tensor_type().and_then(|tensor| tensor.dims));
    let (Some(of_keys), Some(of_values)) = (count(&keys), count(&values)) else {
        return Err(failed!("keys and values of a map must be tensors"));
    };
    if of_keys.len() > 1 || of_values.len() > 1 {
        return Err(failed!("Either the key tensor or the value tensor has NumDimensions > 1"));
    }
    if of_keys.iter().product::<i64>() != of_values.iter().product::<i64>() {
        return Err(failed!("Key and value tensors have unequal number of elements: {of_keys:?} and {of_values:?}"));
    }
    let is_key = match &*keys {
        Value::Strings(_) => true,
        Value::Tensor(elements) => elements.dtype == DType::I64,
        _ => false,
    };
    if !is_key {
        return Err(failed!("keys of a map must be int64 or texts"));
    }
    Ok(Value::Map { keys, values })
}

/// A map's keys and values, sorted by the keys.
fn sorted(keys: &Value, values: &Value) -> Result<[Value; 2]> {
    let mut read = Vec::new();
    let [keys, values] = [keys, values].map(|value| value.to_kiln(&mut read));
    let tensor = |value: kiln::Value| value.into_tensor().map_err(|error| failed!("{error}"));
    let (keys, values) = (tensor(keys?)?, tensor(values?)?);
    let flat = |tensor: kiln::Tensor| tensor.reshaped([tensor.len()]).map_err(|error| failed!("{error}"));
    let map = kiln::Map::new(flat(keys)?, flat(values)?).map_err(|error| failed!("{error}"))?;
    let [keys, values] = map.sorted();
    Ok([Value::of_tensor(keys, &read)?, Value::of_tensor(values, &read)?])
}

entry! {
    fn CreateValue(parts: List<Handle<Value>>, count: usize, kind: c_int, out: Out<Handle<Value>>) {
        let out = out.place("out")?;
        let parts = parts.read(count, "in")?;
        let parts = parts.iter().map(|part| part.get("in")).collect::<Result<Vec<_>>>()?;
        let made = match kind {
            SEQUENCE => sequence(parts)?,
            MAP => map(parts)?,
            other => return Err(failed!("Input is not of type sequence or map: {other}")),
        };
        out.put(Handle::new(made)?);
        Ok(())
    }

    fn GetValueCount(value: Handle<Value>, out: Out<usize>) {
        let out = out.place("out")?;
        let value = value.get("value")?;
        out.put(match &*value {
            Value::Sequence(values) => values.len(),
            Value::Map { .. } => 2,
            other => return Err(failed!("Input is not of type sequence or map: it is {}", other.name())),
        });
        Ok(())
    }

    fn GetValue(value: Handle<Value>, index: c_int, allocator: Allocator, out: Out<Handle<Value>>) {
        let out = out.place("out")?;
        allocator.check("allocator")?;
        let value = value.get("value")?;
        let beyond = || failed!("invalid index: {index} of a value of {} parts", match &*value {
            Value::Sequence(values) => values.len(),
            _ => 2,
        });
        let index = usize::try_from(index).map_err(|_| beyond())?;
        out.put(match &*value {
            Value::Sequence(values) => Handle::of(values.get(index).ok_or_else(beyond)?.clone())?,
            Value::Map { keys, values } if index < 2 => {
                let [keys, values] = sorted(keys, values)?;
                Handle::new(if index == 0 { keys } else { values })?
            }
            Value::Map { .. } => return Err(beyond()),
            other => {
                let reason = format!("Input is not of type sequence or map: it is {}", other.name());
                return Err(Error::new(Code::Fail, reason));
            }
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_and_maps_say_what_they_refuse() {
        let text = |result: Result<Value>| result.err().unwrap().message;
        let tensor = |dtype, dims: &[i64]| Arc::new(Value::zeroed(Allocator::default(), dtype, dims.to_vec()).unwrap());
        assert!(text(sequence(vec![])).starts_with("Number of values should be at least 1."));
        assert!(text(sequence(vec![tensor(DType::F32, &[1]), tensor(DType::I64, &[1])])).contains("one element type"));
        assert!(text(map(vec![tensor(DType::I64, &[2])])).contains("MUST be 2"));
        assert!(text(map(vec![tensor(DType::I64, &[1, 2]), tensor(DType::F32, &[2])])).contains("NumDimensions > 1"));
        assert!(text(map(vec![tensor(DType::I64, &[3]), tensor(DType::F32, &[2])])).contains("unequal number"));
        assert!(text(map(vec![tensor(DType::F32, &[2]), tensor(DType::F32, &[2])])).contains("int64 or texts"));
        assert!(map(vec![tensor(DType::String, &[2]), tensor(DType::F32, &[2])]).is_ok());
    }
}
