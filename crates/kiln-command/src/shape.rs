//! The shape syntax of the command line, like that of the peers' tools. Depends on no model.
//!
//! A [`ShapeArg`] gives one input its dimensions; `?` leaves one open. All of these mean the same:
//!
//! - `x[1,3,224,224]`, and `[1,3,224,224]` where the model has a single input
//! - `x:[1,3,224,224]`
//! - `x:1x3x224x224`, and `1x3x224x224`
//!
//! Several bracketed shapes in a row, `x[1,16][1,32][1,16]`, are a sequence of requests. Input names are whatever
//! models call their inputs, brackets and colons included, so the text is read from its end.

use std::fmt;
use std::str::FromStr;

/// One dimension: a size, or open (`?`).
pub(crate) type DimArg = Option<usize>;

/// Shapes for one input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShapeArg {
    /// The input; `None` for the model's only one.
    pub(crate) name: Option<String>,
    /// At least one shape; more than one is a sequence of requests.
    pub(crate) shapes: Vec<Vec<DimArg>>,
}

/// Why a text is not a shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ShapeError {
    /// No brackets, and nothing like `1x3` either.
    #[error("'{0}' is no shape: write 'name[1,3,224,224]' or 'name:1x3x224x224'")]
    Form(String),
    /// A dimension is neither a size nor `?`.
    #[error("'{text}' has the dimension '{dim}', which is neither a size nor '?'")]
    Dim {
        /// The whole text.
        text: String,
        /// The part that is wrong.
        dim: String,
    },
}

impl FromStr for ShapeArg {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<ShapeArg, ShapeError> {
        let mut rest = text.trim();
        let mut shapes = Vec::new();
        // Bracketed groups from the end. A colon before one ends the list: the text before it is the name.
        while let Some(open) = rest.strip_suffix(']').and_then(|inner| inner.rfind('[')) {
            shapes.push(dims(text, &rest[open + 1..rest.len() - 1], ',')?);
            rest = &rest[..open];
            if rest.ends_with(':') {
                break;
            }
        }
        if shapes.is_empty() {
            let (name, list) = rest.rsplit_once(':').map_or((None, rest), |(name, list)| (Some(name), list));
            let looks_like_dims = |c: char| c.is_ascii_digit() || c == '?' || c == 'x';
            if list.is_empty() || !list.chars().all(looks_like_dims) || name == Some("") {
                return Err(ShapeError::Form(text.to_owned()));
            }
            return Ok(ShapeArg { name: name.map(str::to_owned), shapes: vec![dims(text, list, 'x')?] });
        }
        shapes.reverse();
        let name = rest.strip_suffix(':').unwrap_or(rest);
        if name.is_empty() && !rest.is_empty() {
            return Err(ShapeError::Form(text.to_owned()));
        }
        Ok(ShapeArg { name: Some(name.to_owned()).filter(|name| !name.is_empty()), shapes })
    }
}

fn dims(text: &str, list: &str, separator: char) -> Result<Vec<DimArg>, ShapeError> {
    if list.trim().is_empty() {
        return Ok(Vec::new());
    }
    list.split(separator)
        .map(str::trim)
        .map(|dim| match dim {
            "?" => Ok(None),
            // `usize::from_str` would also take "+3".
            _ if dim.starts_with(|c: char| c.is_ascii_digit()) => dim.parse().map(Some).map_err(|_| dim),
            _ => Err(dim),
        })
        .collect::<Result<_, _>>()
        .map_err(|dim| ShapeError::Dim { text: text.to_owned(), dim: dim.to_owned() })
}

impl fmt::Display for ShapeArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.as_deref().unwrap_or_default();
        f.write_str(name)?;
        // A name with these endings would be ambiguous.
        if name.ends_with([':', ']']) {
            f.write_str(":")?;
        }
        self.shapes.iter().try_for_each(|shape| {
            let dims: Vec<String> = shape.iter().map(|dim| dim.map_or("?".to_owned(), |d| d.to_string())).collect();
            write!(f, "[{}]", dims.join(","))
        })
    }
}

/// `[1,3,?]`-like text of known dimensions, as all reports write it.
pub(crate) fn text(shape: &[usize]) -> String {
    let dims: Vec<String> = shape.iter().map(ToString::to_string).collect();
    format!("[{}]", dims.join(","))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn arg(name: Option<&str>, shapes: &[&[DimArg]]) -> ShapeArg {
        ShapeArg { name: name.map(str::to_owned), shapes: shapes.iter().map(|s| s.to_vec()).collect() }
    }

    #[test]
    fn every_spelling_of_a_shape_is_read() {
        let full: &[DimArg] = &[Some(1), Some(3), Some(224), None];
        let cases = [
            ("x[1,3,224,?]", arg(Some("x"), &[full])),
            (" x[ 1, 3, 224, ? ] ", arg(Some("x"), &[full])),
            ("x:[1,3,224,?]", arg(Some("x"), &[full])),
            ("x:1x3x224x?", arg(Some("x"), &[full])),
            ("[1,3,224,?]", arg(None, &[full])),
            ("1x3x224x?", arg(None, &[full])),
            ("7", arg(None, &[&[Some(7)]])),
            ("x[]", arg(Some("x"), &[&[]])),
            ("[]", arg(None, &[&[]])),
            ("x[1,16][1,32]", arg(Some("x"), &[&[Some(1), Some(16)], &[Some(1), Some(32)]])),
            ("input:0[2]", arg(Some("input:0"), &[&[Some(2)]])),
            ("input:0:2x3", arg(Some("input:0"), &[&[Some(2), Some(3)]])),
            ("past.0/key[2][0]", arg(Some("past.0/key"), &[&[Some(2)], &[Some(0)]])),
            ("x[1]:[2]", arg(Some("x[1]"), &[&[Some(2)]])),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<ShapeArg>().as_ref(), Ok(&expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_shape_is_refused_with_the_text_in_the_message() {
        for text in
            ["", "x", "x[", "x]", "x[1,]", "x[,1]", "x[-1]", "x[+1]", "x[a]", "x:1xx2", "x:", ":1x2", ":[1]", "1,3"]
        {
            let error = text.parse::<ShapeArg>().expect_err(text).to_string();
            assert!(error.contains(text), "{text}: {error}");
        }
        let huge = format!("x[{}]", u128::MAX);
        assert!(matches!(huge.parse::<ShapeArg>(), Err(ShapeError::Dim { .. })));
    }

    proptest! {
        #[test]
        fn a_shape_survives_printing_and_reading(
            name in proptest::option::of("[ -~]*[!-~]"),
            shapes in proptest::collection::vec(proptest::collection::vec(proptest::option::of(0usize..100_000), 0..6), 1..4),
        ) {
            let name = name.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
            let shape = ShapeArg { name, shapes };
            prop_assert_eq!(shape.to_string().parse::<ShapeArg>(), Ok(shape));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC*") {
            let _ = text.parse::<ShapeArg>();
        }
    }
}
