//! Operators on `f64` by table: the same as on `f32`, and with the digits that `f32` has no room for.

use kiln_model::Attr;

use crate::trial::Trial;
use crate::wide::widened;

/// Numbers that are whole in no type, the same in `f32` and in `f64` but for the last digits.
fn numbers(count: usize, seed: usize) -> Vec<f64> {
    (0..count).map(|at| ((at * 37 + seed * 11) % 101) as f64 / 30.0 - 1.6 + 1e-9 * at as f64).collect()
}

/// An operator with inputs of these shapes; those of variances are positive.
struct Case {
    name: &'static str,
    trial: fn() -> Trial,
    shapes: &'static [&'static [usize]],
    positive: &'static [usize],
}

fn case(name: &'static str, trial: fn() -> Trial, shapes: &'static [&'static [usize]]) -> Case {
    Case { name, trial, shapes, positive: &[] }
}

fn windows(op: &str) -> Trial {
    Trial::new(op).ints("kernel_shape", &[2, 3]).ints("strides", &[2, 1]).ints("pads", &[1, 0, 0, 2])
}

fn cases() -> Vec<Case> {
    let image: &[&[usize]] = &[&[2, 4, 5, 6]];
    vec![
        case("softmax", || Trial::new("Softmax").int("axis", 1), &[&[3, 5, 2]]),
        case("logarithm of a softmax", || Trial::new("LogSoftmax"), &[&[3, 5]]),
        case("old softmax", || Trial::new("Softmax").version(11).int("axis", 1), &[&[2, 3, 2]]),
        case("rows", || Trial::new("LayerNormalization").outputs(3), &[&[4, 6], &[6], &[6]]),
        case("rows of planes", || Trial::new("LayerNormalization").int("axis", 1), &[&[2, 3, 4], &[3, 4]]),
        case("rows by their squares", || Trial::new("RMSNormalization"), &[&[4, 6], &[6]]),
        Case {
            positive: &[4],
            ..case("channels", || Trial::new("BatchNormalization"), &[&[2, 3, 4], &[3], &[3], &[3], &[3]])
        },
        Case {
            positive: &[4],
            ..case(
                "training",
                || Trial::new("BatchNormalization").int("training_mode", 1).outputs(3),
                &[&[2, 3, 4], &[3], &[3], &[3], &[3]],
            )
        },
        case("instances", || Trial::new("InstanceNormalization"), &[&[2, 3, 4, 2], &[3], &[3]]),
        case("groups", || Trial::new("GroupNormalization").int("num_groups", 2), &[&[2, 4, 3], &[4], &[4]]),
        case(
            "old groups",
            || Trial::new("GroupNormalization").version(18).int("num_groups", 2),
            &[&[2, 4, 3], &[2], &[2]],
        ),
        case("neighbouring channels", || Trial::new("LRN").int("size", 3).attr("alpha", Attr::Float(0.5)), image),
        case("mean and variance", || Trial::new("MeanVarianceNormalization"), image),
        case("sums of magnitudes", || Trial::new("LpNormalization").int("p", 1).int("axis", 1), &[&[2, 3, 4]]),
        case("roots of squares", || Trial::new("LpNormalization"), &[&[2, 3, 4]]),
        case("averages", || windows("AveragePool"), image),
        case("powers", || windows("LpPool").int("p", 3), image),
        case("largest", || windows("MaxPool").outputs(2), image),
        case("average of all", || Trial::new("GlobalAveragePool"), image),
        case("largest of all", || Trial::new("GlobalMaxPool"), image),
        case(
            "convolution",
            || Trial::new("Conv").int("group", 2).ints("strides", &[2, 1]).ints("pads", &[1, 2, 0, 1]),
            &[&[2, 4, 5, 6], &[6, 2, 3, 2], &[6]],
        ),
        case("dilated", || Trial::new("Conv").ints("dilations", &[3]), &[&[1, 2, 9], &[3, 2, 3]]),
        case(
            "transposed",
            || Trial::new("ConvTranspose").int("group", 2).ints("strides", &[2, 3]).ints("pads", &[1, 0, 1, 2]),
            &[&[2, 4, 3, 4], &[4, 3, 3, 2], &[6]],
        ),
        case(
            "an LSTM",
            || Trial::new("LSTM").int("hidden_size", 3).text("direction", "bidirectional").outputs(3),
            &[&[4, 2, 3], &[2, 12, 3], &[2, 12, 3], &[2, 24]],
        ),
        case(
            "a GRU",
            || Trial::new("GRU").int("hidden_size", 3).int("linear_before_reset", 1).outputs(2),
            &[&[4, 2, 3], &[1, 9, 3], &[1, 9, 3], &[1, 18]],
        ),
        case("a GRU without bias", || Trial::new("GRU").outputs(2), &[&[4, 2, 3], &[1, 9, 3], &[1, 9, 3]]),
        case(
            "an RNN",
            || Trial::new("RNN").int("hidden_size", 3).text("direction", "reverse").outputs(2),
            &[&[4, 2, 3], &[1, 3, 3], &[1, 3, 3], &[1, 6]],
        ),
    ]
}

impl Case {
    fn values(&self, index: usize) -> Vec<f64> {
        let values = numbers(self.shapes[index].iter().product(), index);
        let of = |value: f64| if self.positive.contains(&index) { value.abs() + 0.1 } else { value };
        values.into_iter().map(of).collect()
    }
}

#[test]
fn doubles_are_computed_as_floats_are_with_digits_that_these_have_not() {
    for case in cases() {
        let (mut narrow, mut wide) = ((case.trial)(), (case.trial)());
        for (index, &shape) in case.shapes.iter().enumerate() {
            let values = case.values(index);
            narrow = narrow.input(shape, &values.iter().map(|&value| value as f32).collect::<Vec<f32>>());
            wide = wide.input(shape, &values);
        }
        let (narrow, wide) = (narrow.run().expect(case.name), wide.run().expect(case.name));
        let wanted = narrow[0].as_slice::<f32>().unwrap();
        let found = wide[0].as_slice::<f64>().unwrap_or_else(|error| panic!("{}: {error}", case.name));
        assert_eq!(narrow[0].shape(), wide[0].shape(), "{}", case.name);
        for (at, (&wanted, &found)) in wanted.iter().zip(found).enumerate() {
            let bound = 2e-5 * f64::from(wanted).abs().max(1.0);
            assert!((f64::from(wanted) - found).abs() <= bound, "{} {at}: {found} for {wanted}", case.name);
        }
        let kept = found.iter().filter(|&&value| value != f64::from(value as f32)).count();
        assert!(2 * kept > found.len(), "{}: {kept} of {} have more digits", case.name, found.len());
        for (index, (narrow, wide)) in narrow.iter().zip(&wide).enumerate().skip(1) {
            assert_eq!(narrow.shape(), wide.shape(), "{} {index}", case.name);
            let [narrow, wide] = [narrow, wide].map(|tensor| widened::<f64>(tensor).unwrap());
            let far = narrow.iter().zip(&wide).any(|(a, b)| (a - b).abs() > 2e-5 * a.abs().max(1.0));
            assert!(!far, "{} {index}: {wide:?} for {narrow:?}", case.name);
        }
    }
}

#[test]
fn operands_of_no_float_are_refused_beside_doubles() {
    let numbers = [1f64, 2.0, 3.0, 4.0];
    Trial::new("Conv").input(&[1, 1, 4], &numbers).input(&[1, 1, 1], &[1i32]).is_refused("int32");
    Trial::new("LayerNormalization").input(&[1, 4], &numbers).input(&[4], &[1i32; 4]).is_refused("int32");
    let bias = Trial::new("Conv").input(&[1, 1, 4], &numbers).input(&[1, 1, 1], &[1f64]);
    bias.input(&[2], &[1f64, 2.0]).is_refused("bias of shape");
    let batch = Trial::new("BatchNormalization").input(&[1, 4], &numbers).input(&[4], &numbers);
    batch.input(&[4], &numbers).input(&[3], &numbers[..3]).input(&[4], &numbers).is_refused("3 elements");
}
