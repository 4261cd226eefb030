//! Gathers, casts and resizes against plain loops and Rust's own conversions.

use super::super::testing::{bytes, near, numbers, run, run_f32, run_marking};
use super::*;

#[test]
fn gathers_take_what_indices_say_from_either_end() {
    let cases: &[(u64, u64, u64, &[i64])] = &[
        (1, 1, 1, &[0]),
        (1, 5, 1, &[4, -1, 0, -5, 2, 2, 2]),
        (3, 7, 1, &[6, -7, 3]),
        (1, 11, 768, &[10, 0, -11]),
        (2, 5, 3, &[1, -2]),
        (2, 5, 6, &[]),
        (0, 5, 6, &[1]),
        (2, 9, 4, &[8; 300]),
    ];
    for &(outer, axis, inner, indices) in cases {
        for width in [1usize, 2, 4, 8] {
            let data = bytes((outer * axis * inner) as usize * width);
            let unit = inner as usize * width;
            let places = indices.iter().map(|&index| if index < 0 { index + axis as i64 } else { index } as usize);
            let wanted: Vec<u8> = (0..outer as usize)
                .flat_map(|slice| places.clone().map(move |place| (slice * axis as usize + place) * unit))
                .flat_map(|start| data[start..start + unit].to_vec())
                .collect();
            let narrow: Vec<i32> = indices.iter().map(|&index| index as i32).collect();
            let each: [&[u8]; 2] = [bytemuck::cast_slice(&narrow), bytemuck::cast_slice(indices)];
            for (index_width, indices) in [4, 8].into_iter().zip(each) {
                let count = places.len() as u64;
                let kernel = GatherKernel::new(width as u8, outer, axis, inner, count, index_width).unwrap();
                let inputs = [Some(data.as_slice()), Some(indices), Some(&[0; 4])];
                let (given, fault) = run_marking(&kernel, &inputs, wanted.len(), 2).unwrap();
                assert_eq!((given, fault), (wanted.clone(), vec![0; 4]), "{kernel:?}");
            }
        }
    }
}

#[test]
fn an_index_out_of_range_is_told_and_reads_nothing() {
    for (axis, wrong) in [(5, 5), (5, -6), (5, i64::MAX), (5, i64::MIN), (0, 0)] {
        let data = bytes(axis as usize * 4);
        let good: i64 = if axis == 0 { wrong } else { 1 };
        let indices = [good, wrong];
        let kernel = GatherKernel::new(4, 1, axis, 1, 2, 8).unwrap();
        let inputs = [Some(data.as_slice()), Some(bytemuck::cast_slice(&indices)), Some(&[0; 4])];
        let (given, fault) = run_marking(&kernel, &inputs, 8, 2).unwrap();
        assert_eq!(fault, 1u32.to_ne_bytes(), "{wrong} of {axis}");
        if axis > 0 {
            assert_eq!(given[..4], data[4..8], "{wrong} of {axis}");
        }
        assert_eq!(given[4..], [0xff; 4], "what was there stays");
    }
    assert!(GatherKernel::new(4, 1, 5, 1, 2, 2).is_err());
}

/// The elements of one type converted to another, by Rust's conversions.
fn cast(from: Scalar, to: Scalar, input: &[u8]) -> Vec<u8> {
    let size = from.size() as usize;
    let each = input.chunks_exact(size).flat_map(|element| {
        macro_rules! read {
            ($type:ty) => {
                <$type>::from_ne_bytes(element.try_into().unwrap())
            };
        }
        macro_rules! write {
            ($value:expr) => {{
                let value = $value;
                match to {
                    Scalar::F32 => (value as f32).to_ne_bytes().to_vec(),
                    Scalar::F64 => (value as f64).to_ne_bytes().to_vec(),
                    Scalar::I64 => (value as i64).to_ne_bytes().to_vec(),
                    Scalar::I32 => (value as i32).to_ne_bytes().to_vec(),
                    Scalar::U8 => vec![value as u8],
                    Scalar::Bool => vec![u8::from(value != Default::default())],
                }
            }};
        }
        match from {
            Scalar::F32 => write!(read!(f32)),
            Scalar::F64 => write!(read!(f64)),
            Scalar::I64 => write!(read!(i64)),
            Scalar::I32 => write!(i64::from(read!(i32))),
            Scalar::U8 => write!(i64::from(element[0])),
            Scalar::Bool => write!(i64::from(element[0] != 0)),
        }
    });
    each.collect()
}

#[test]
fn casts_are_those_of_rust() {
    let floats = [
        0.0,
        -0.0,
        0.5,
        -0.5,
        1.9,
        -1.9,
        255.0,
        255.9,
        256.0,
        -1.0,
        2_147_483_647.0,
        2_147_483_648.0,
        -2_147_483_648.0,
        -2_147_483_904.0,
        9.3e18,
        -9.3e18,
        1e30,
        1e-40,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        16_777_217.0,
    ];
    let whole =
        [0, 1, -1, 255, 256, -256, i64::MAX, i64::MIN, 1 << 31, (1 << 31) - 1, -(1 << 31), (1 << 53) + 1, 1 << 24];
    let shorter = floats.map(|value| value as f32);
    let words = whole.map(|value| value as i32);
    let input = |from: Scalar| -> Vec<u8> {
        match from {
            Scalar::F32 => bytemuck::cast_slice(&shorter).to_vec(),
            Scalar::F64 => bytemuck::cast_slice(&floats).to_vec(),
            Scalar::I64 => bytemuck::cast_slice(&whole).to_vec(),
            Scalar::I32 => bytemuck::cast_slice(&words).to_vec(),
            Scalar::U8 => (0..=255).collect(),
            Scalar::Bool => vec![0, 1, 1, 0, 1],
        }
    };
    for (from, to) in Scalar::ALL.into_iter().flat_map(|from| Scalar::ALL.map(|to| (from, to))) {
        let input = input(from);
        let wanted = cast(from, to, &input);
        let kernel = CastKernel::new(from, to, input.len() as u64 / from.size()).unwrap();
        let given = run(&kernel, &[Some(&input)], wanted.len()).unwrap();
        // All NaNs count as equal.
        let quiet = |bytes: &[u8]| -> Vec<u8> {
            let each = bytes.chunks(to.size() as usize);
            let is_nan = |bytes: &[u8]| match to {
                Scalar::F32 => f32::from_ne_bytes(bytes.try_into().unwrap()).is_nan(),
                Scalar::F64 => f64::from_ne_bytes(bytes.try_into().unwrap()).is_nan(),
                _ => false,
            };
            each.flat_map(|bytes| if is_nan(bytes) { vec![0xff; bytes.len()] } else { bytes.to_vec() }).collect()
        };
        assert_eq!(quiet(&given), quiet(&wanted), "{from:?} to {to:?}");
    }
    assert!(run(&CastKernel::new(Scalar::F32, Scalar::U8, 0).unwrap(), &[Some(&[])], 0).unwrap().is_empty());
}

/// Neighbours and weights that differ from place to place; some weights are zero.
fn table(axis: Resized, seed: u32) -> (Vec<u32>, Vec<f32>) {
    let count = (axis.output * axis.taps) as usize;
    let places = (0..count).map(|at| ((at as u64 * 7 + u64::from(seed)) % axis.input) as u32).collect();
    let weights = numbers(count, seed).iter().map(|&weight| if weight < -2.0 { 0.0 } else { weight }).collect();
    (places, weights)
}

#[test]
fn resizes_mix_what_their_tables_name() {
    let axis = |input, output, taps| Resized { input, output, taps };
    let cases: &[(u64, &[Resized], u64)] = &[
        (1, &[axis(1, 1, 1)], 1),
        (3, &[axis(5, 11, 2)], 1),
        (6, &[axis(7, 13, 2), axis(5, 3, 4)], 1),
        (2, &[axis(7, 4, 4), axis(5, 9, 2)], 3),
        (2, &[axis(2, 3, 2), axis(3, 4, 2), axis(4, 5, 2)], 1),
        (0, &[axis(2, 3, 2)], 1),
        (2, &[axis(3, 0, 2)], 4),
    ];
    for &(outer, axes, inner) in cases {
        let sizes =
            |size: &dyn Fn(&Resized) -> u64| axes.iter().map(size).map(|size| size as usize).collect::<Vec<_>>();
        let (from, to) = (sizes(&|axis| axis.input), sizes(&|axis| axis.output));
        let (outer, inner) = (outer as usize, inner as usize);
        let inputs = outer * from.iter().product::<usize>() * inner;
        let outputs = outer * to.iter().product::<usize>() * inner;
        let mut x = numbers(inputs, 51);
        let tables: Vec<_> = axes.iter().zip(52..).map(|(&axis, seed)| table(axis, seed)).collect();
        // One axis after another, each at all its places.
        let along = |weighed: bool| {
            let mut values: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
            let mut before = outer;
            for (index, axis) in axes.iter().enumerate() {
                let behind = from[index + 1..].iter().product::<usize>() * inner;
                let (places, weights) = &tables[index];
                let mut next = vec![];
                for (row, place) in (0..before).flat_map(|row| (0..axis.output as usize).map(move |place| (row, place)))
                {
                    for unit in 0..behind {
                        let taps = place * axis.taps as usize..(place + 1) * axis.taps as usize;
                        let taps = taps.take(if weighed { usize::MAX } else { 1 });
                        next.push(taps.fold(0.0, |sum, tap| {
                            let of = (row * axis.input as usize + places[tap] as usize) * behind + unit;
                            sum + values[of] * if weighed { f64::from(weights[tap]) } else { 1.0 }
                        }));
                    }
                }
                (values, before) = (next, before * axis.output as usize);
            }
            values.iter().map(|&value| value as f32).collect::<Vec<f32>>()
        };
        let (blended, picked) = (along(true), along(false));
        let flat: Vec<&[u8]> = tables.iter().map(|(places, _)| bytemuck::cast_slice(places)).collect();
        let kernel = ResizeKernel::new(Mix::Pick { width: 4 }, outer as u64, axes, inner as u64).unwrap();
        let mut operands = vec![Some(bytemuck::cast_slice(&x))];
        operands.extend(flat.iter().map(|&places| Some(places)));
        let given = run(&kernel, &operands, outputs * 4).unwrap();
        assert_eq!(given, bytemuck::cast_slice::<f32, u8>(&picked), "{kernel:?}");

        let kernel = ResizeKernel::new(Mix::Blend, outer as u64, axes, inner as u64).unwrap();
        let blend = |x: &[f32]| {
            let mut operands = vec![x.to_vec()];
            for (places, weights) in &tables {
                operands.extend([places.iter().map(|&place| f32::from_bits(place)).collect(), weights.clone()]);
            }
            let operands: Vec<Option<&[f32]>> = operands.iter().map(|operand| Some(operand.as_slice())).collect();
            run_f32(&kernel, &operands, outputs)
        };
        near(&blend(&x), &blended, 64.0, 8.0, &kernel);
        // A neighbour of weight zero does not count, whatever its value is.
        if let ([axis], false) = (axes, x.is_empty()) {
            let (places, weights) = &tables[0];
            let idle =
                |at: usize| places.iter().zip(weights).all(|(&place, &weight)| place as usize != at || weight == 0.0);
            (0..axis.input as usize).filter(|&at| idle(at)).for_each(|at| x[at] = f32::NAN);
            near(&blend(&x), &blended, 64.0, 8.0, &kernel);
        }
    }
    for axes in [&[][..], &[axis(2, 2, 1); 4], &[axis(2, 2, 0)], &[axis(0, 2, 1)]] {
        assert!(ResizeKernel::new(Mix::Blend, 1, axes, 1).is_err(), "{axes:?}");
    }
}
