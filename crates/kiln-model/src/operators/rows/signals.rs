//! Windows, transforms into frequencies, and random numbers.

use crate::operators::arithmetic::Arithmetic::PerElement;
use crate::operators::attributes::{Attribute, int, number, optional, required};
use crate::operators::row::{Operator, Shapes, Types, between, exactly};
use crate::operators::{kinds, shapes, signals, work};

pub(in crate::operators) const ROWS: &[Operator] = &[
    window("HannWindow"),
    window("HammingWindow"),
    window("BlackmanWindow"),
    Operator {
        types: Types::By(kinds::window),
        shapes: Shapes::First(signals::mel_weights),
        ..Operator::plain(
            work::RARE,
            PerElement,
            "",
            "MelWeightMatrix",
            &[17],
            exactly(5),
            &[int("output_datatype", 1)],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(signals::dft),
        ..Operator::plain(
            work::RARE,
            PerElement,
            "",
            "DFT",
            &[17, 20],
            between(1, 3),
            &[int("axis", 1), int("inverse", 0), int("onesided", 0)],
        )
    },
    Operator {
        types: Types::Input(0),
        shapes: Shapes::First(signals::stft),
        ..Operator::plain(work::RARE, PerElement, "", "STFT", &[17], between(2, 4), &[int("onesided", 1)])
    },
    Operator {
        types: Types::By(kinds::drawn_like),
        shapes: Shapes::Input(0),
        draws: true,
        ..Operator::plain(
            work::RANDOM,
            PerElement,
            "",
            "Bernoulli",
            &[15, 22],
            exactly(1),
            &[optional("dtype"), optional("seed")],
        )
    },
    Operator {
        types: Types::By(kinds::drawn),
        shapes: Shapes::First(signals::classes_drawn),
        draws: true,
        ..Operator::plain(
            work::RANDOM,
            PerElement,
            "",
            "Multinomial",
            &[7, 22],
            exactly(1),
            &[int("dtype", 6), int("sample_size", 1), optional("seed")],
        )
    },
    Operator {
        types: Types::By(kinds::drawn_like),
        shapes: Shapes::Input(0),
        draws: true,
        ..Operator::plain(
            work::RANDOM,
            PerElement,
            "",
            "RandomUniformLike",
            &[1, 22],
            exactly(1),
            &[optional("dtype"), number("high", 1.0), number("low", 0.0), optional("seed")],
        )
    },
    Operator {
        types: Types::By(kinds::drawn_like),
        shapes: Shapes::Input(0),
        draws: true,
        ..Operator::plain(
            work::RANDOM,
            PerElement,
            "",
            "RandomNormalLike",
            &[1, 22],
            exactly(1),
            &[optional("dtype"), number("mean", 0.0), number("scale", 1.0), optional("seed")],
        )
    },
    Operator {
        types: Types::By(kinds::drawn),
        shapes: Shapes::First(shapes::own),
        draws: true,
        ..Operator::plain(
            work::RANDOM,
            PerElement,
            "",
            "RandomUniform",
            &[1, 22],
            exactly(0),
            &[int("dtype", 1), number("high", 1.0), number("low", 0.0), optional("seed"), required("shape")],
        )
    },
    Operator {
        types: Types::By(kinds::drawn),
        shapes: Shapes::First(shapes::own),
        draws: true,
        ..Operator::plain(
            work::RANDOM,
            PerElement,
            "",
            "RandomNormal",
            &[1, 22],
            exactly(0),
            &[int("dtype", 1), number("mean", 0.0), number("scale", 1.0), optional("seed"), required("shape")],
        )
    },
];

/// A window of as many numbers as the input says.
const fn window(name: &'static str) -> Operator {
    const ATTRIBUTES: &[Attribute] = &[int("output_datatype", 1), int("periodic", 1)];
    Operator {
        types: Types::By(kinds::window),
        shapes: Shapes::First(signals::window),
        ..Operator::plain(work::RARE, PerElement, "", name, &[17], exactly(1), ATTRIBUTES)
    }
}
