//! Operators of ai.onnx.ml on tables that are products, comparisons and means: LinearClassifier, LinearRegressor,
//! Normalizer, Imputer, OneHotEncoder, FeatureVectorizer. Their parameters are attributes, which become constants.

use super::Expanded;
use super::given::Given;
use crate::onnx::ModelError;
use crate::onnx::draft::{Draft, float, floats, int, ints, texts};

/// The domain of classical models.
const LEARN: &str = "ai.onnx.ml";

pub(super) const OPERATORS: &[Expanded] = &[
    Expanded {
        domain: LEARN,
        name: "LinearRegressor",
        inputs: [1, 1],
        outputs: 1,
        attributes: &["coefficients", "intercepts", "post_transform", "targets"],
        expand: regressor,
    },
    Expanded {
        domain: LEARN,
        name: "LinearClassifier",
        inputs: [1, 1],
        outputs: 2,
        attributes: &[
            "classlabels_ints",
            "classlabels_strings",
            "coefficients",
            "intercepts",
            "multi_class",
            "post_transform",
        ],
        expand: classifier,
    },
    Expanded {
        domain: LEARN,
        name: "Normalizer",
        inputs: [1, 1],
        outputs: 1,
        attributes: &["norm"],
        expand: normalizer,
    },
    Expanded {
        domain: LEARN,
        name: "Imputer",
        inputs: [1, 1],
        outputs: 1,
        attributes: &["imputed_value_floats", "imputed_value_int64s", "replaced_value_float", "replaced_value_int64"],
        expand: imputer,
    },
    Expanded {
        domain: LEARN,
        name: "OneHotEncoder",
        inputs: [1, 1],
        outputs: 1,
        attributes: &["cats_int64s", "cats_strings", "zeros"],
        expand: one_hot,
    },
    Expanded {
        domain: LEARN,
        name: "FeatureVectorizer",
        inputs: [1, 255],
        outputs: 1,
        attributes: &["inputdimensions"],
        expand: vectorizer,
    },
];

/// ONNX's numbers of element types.
const FLOAT: i64 = 1;
const INT64: i64 = 7;

/// Rows of features as numbers; a list is one row.
fn rows_of(draft: &mut Draft, of: &str, name: &str) -> String {
    let x = draft.op("Cast", &[of], &format!("{name}/float"), vec![int("to", FLOAT)]);
    draft.op("Flatten", &[&x], name, vec![int("axis", -1)])
}

/// The products of rows of features with `rows` rows of coefficients, and the intercepts added.
fn product(given: &Given<'_>, draft: &mut Draft, rows: usize, output: String) -> Result<(), ModelError> {
    let (coefficients, intercepts) = (given.floats("coefficients")?, given.floats("intercepts")?);
    if rows == 0 || coefficients.is_empty() || !coefficients.len().is_multiple_of(rows) {
        return Err(given.malformed(format!("{} coefficients for {rows} rows of them", coefficients.len())));
    }
    if !intercepts.is_empty() && intercepts.len() != rows {
        return Err(given.malformed(format!("{} intercepts for {rows} rows of coefficients", intercepts.len())));
    }
    let x = rows_of(draft, given.required(0)?, "x");
    let all = draft.op("Constant", &[], "coefficients/all", vec![floats("value_floats", coefficients)]);
    let shape = draft.list(&[rows as i64, -1], "coefficients/shape");
    let coefficients = draft.op("Reshape", &[&all, &shape], "coefficients", Vec::new());
    let mut inputs = vec![x, coefficients];
    if !intercepts.is_empty() {
        inputs.push(draft.op("Constant", &[], "intercepts", vec![floats("value_floats", intercepts)]));
    }
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    draft.node("", "Gemm", &inputs, output, vec![int("transB", 1)]);
    Ok(())
}

/// The function that is applied to several scores; none where the scores are the result.
fn after_many(given: &Given<'_>) -> Result<Option<&'static str>, ModelError> {
    match given.text("post_transform", "NONE")?.as_str() {
        "NONE" => Ok(None),
        "LOGISTIC" => Ok(Some("Sigmoid")),
        "SOFTMAX" => Ok(Some("Softmax")),
        other => Err(given.unsupported(format!("attribute \"post_transform\" = {other:?}"))),
    }
}

fn regressor(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let targets = given.int("targets", 1)?;
    let targets = usize::try_from(targets).map_err(|_| given.malformed(format!("targets = {targets}")))?;
    // ONNX Runtime applies no function to a single target.
    let is_plain = targets == 1 && given.text("post_transform", "NONE")? == "SOFTMAX_ZERO";
    let function = if is_plain { None } else { after_many(given)?.filter(|_| targets > 1) };
    let Some(function) = function else {
        return product(given, draft, targets, given.result().to_owned());
    };
    let scores = draft.named("scores");
    product(given, draft, targets, scores.clone())?;
    draft.node("", function, &[&scores], given.result().to_owned(), Vec::new());
    Ok(())
}

/// The names of classes as a constant, and their number.
fn labels(given: &Given<'_>, draft: &mut Draft) -> Result<Option<(String, usize)>, ModelError> {
    let (names, numbers) = (given.texts("classlabels_strings")?, given.ints("classlabels_ints")?.unwrap_or_default());
    Ok(match (names.len(), numbers.len()) {
        (0, 0) => None,
        (0, count) => Some((draft.list(numbers, "labels"), count)),
        (count, _) => Some((draft.op("Constant", &[], "labels", vec![texts("value_strings", names)]), count)),
    })
}

/// The label of the greatest score. A single score stands for two classes: the second where it is above 0.
fn classifier(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let intercepts = given.floats("intercepts")?.len();
    let labels = labels(given, draft)?;
    let rows = match (&labels, intercepts) {
        (Some((_, count)), 0) => *count,
        (_, count) => count,
    };
    let function = after_many(given)?;
    let scores = given.output(1).map_or_else(|| draft.named("made"), str::to_owned);
    let is_two = rows == 1 && labels.as_ref().is_some_and(|(_, count)| *count == 2);
    let raw = if function.is_some() || is_two { draft.named("scores") } else { scores.clone() };
    product(given, draft, rows, raw.clone())?;
    let labels = match labels {
        Some((labels, count)) if count == rows || is_two => labels,
        Some((_, count)) => return Err(given.malformed(format!("{count} labels for {rows} scores"))),
        None => draft.list(&[0, 1], "labels"),
    };
    let place = if rows == 1 {
        let zero = draft.op("Constant", &[], "zero", vec![float("value_float", 0.0)]);
        let above = draft.op("Greater", &[&raw, &zero], "above", Vec::new());
        let above = draft.op("Cast", &[&above], "above/int", vec![int("to", INT64)]);
        let axis = draft.list(&[1], "axis");
        draft.op("Squeeze", &[&above, &axis], "place", Vec::new())
    } else {
        draft.op("ArgMax", &[&raw], "place", vec![int("axis", 1), int("keepdims", 0)])
    };
    draft.node("", "Gather", &[&labels, &place], given.result().to_owned(), Vec::new());
    match (is_two, function) {
        (false, None) => {}
        (false, Some(function)) => draft.node("", function, &[&raw], scores, Vec::new()),
        (true, Some("Sigmoid")) => {
            let other = draft.op("Neg", &[&raw], "other", Vec::new());
            let both = draft.op("Concat", &[&other, &raw], "both", vec![int("axis", 1)]);
            draft.node("", "Sigmoid", &[&both], scores, Vec::new());
        }
        (true, _) => {
            let one = draft.op("Constant", &[], "one", vec![float("value_float", 1.0)]);
            let other = draft.op("Sub", &[&one, &raw], "other", Vec::new());
            draft.node("", "Concat", &[&other, &raw], scores, vec![int("axis", 1)]);
        }
    }
    Ok(())
}

/// Each row divided by its norm; a row of norm 0 is kept.
fn normalizer(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let reduce = match given.text("norm", "MAX")?.as_str() {
        "MAX" => "ReduceMax",
        "L1" => "ReduceL1",
        "L2" => "ReduceL2",
        other => return Err(given.unsupported(format!("attribute \"norm\" = {other:?}"))),
    };
    let x = draft.op("Cast", &[given.required(0)?], "x", vec![int("to", FLOAT)]);
    let axis = draft.list(&[-1], "axis");
    let norm = draft.op(reduce, &[&x, &axis], "norm", Vec::new());
    let zero = draft.op("Constant", &[], "zero", vec![float("value_float", 0.0)]);
    let one = draft.op("Constant", &[], "one", vec![float("value_float", 1.0)]);
    let none = draft.op("Equal", &[&norm, &zero], "none", Vec::new());
    let norm = draft.op("Where", &[&none, &one, &norm], "divisor", Vec::new());
    draft.node("", "Div", &[&x, &norm], given.result().to_owned(), Vec::new());
    Ok(())
}

/// Replaces missing values (NaN, or a number that stands for "missing") by one value, or by one for each feature.
fn imputer(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let x = given.required(0)?;
    let (numbers, whole) =
        (given.floats("imputed_value_floats")?, given.ints("imputed_value_int64s")?.unwrap_or_default());
    let (imputed, missing) = match (numbers, whole) {
        ([], []) => return Err(given.malformed("nothing to impute".to_owned())),
        ([], whole) => {
            let replaced = draft.list(&[given.int("replaced_value_int64", 0)?], "replaced");
            let imputed = draft.list(whole, "imputed");
            (imputed, draft.op("Equal", &[x, &replaced], "missing", Vec::new()))
        }
        (numbers, _) => {
            let all = draft.op("Constant", &[], "imputed/float", vec![floats("value_floats", numbers)]);
            let imputed = draft.op("CastLike", &[&all, x], "imputed", Vec::new());
            let replaced = given.float("replaced_value_float", 0.0)?;
            let missing = if replaced.is_nan() {
                draft.op("IsNaN", &[x], "missing", Vec::new())
            } else {
                let replaced = draft.number(replaced, x, "replaced");
                draft.op("Equal", &[x, &replaced], "missing", Vec::new())
            };
            (imputed, missing)
        }
    };
    draft.node("", "Where", &[&missing, &imputed, x], given.result().to_owned(), Vec::new());
    Ok(())
}

/// A column for each category: 1 where the value is that category. Without `zeros`, a value of no category is refused:
/// its place is one past the last category, where `Gather` finds no element.
fn one_hot(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let (names, numbers) = (given.texts("cats_strings")?, given.ints("cats_int64s")?.unwrap_or_default());
    let x = given.required(0)?.to_owned();
    let (x, keys) = match (names, numbers) {
        ([], []) => return Err(given.malformed("it has no categories".to_owned())),
        ([], numbers) => (draft.op("Cast", &[&x], "x", vec![int("to", INT64)]), ints("keys_int64s", numbers)),
        (names, _) => (x, texts("keys_strings", names)),
    };
    let count = if names.is_empty() { numbers.len() } else { names.len() } as i64;
    let range: Vec<i64> = (0..count).collect();
    let place = draft.named("place");
    let attributes = vec![keys, ints("values_int64s", &range), int("default_int64", count)];
    draft.node(LEARN, "LabelEncoder", &[&x], place.clone(), attributes);
    let all = draft.list(&range, "places");
    let place = match given.int("zeros", 1)? {
        0 => draft.op("Gather", &[&all, &place], "place/known", Vec::new()),
        _ => place,
    };
    let axis = draft.list(&[-1], "axis");
    let place = draft.op("Unsqueeze", &[&place, &axis], "place/one", Vec::new());
    let is = draft.op("Equal", &[&place, &all], "is", Vec::new());
    draft.node("", "Cast", &[&is], given.result().to_owned(), vec![int("to", FLOAT)]);
    Ok(())
}

/// Columns of several tables side by side.
fn vectorizer(given: &Given<'_>, draft: &mut Draft) -> Result<(), ModelError> {
    let widths = given.ints("inputdimensions")?.unwrap_or_default();
    if widths.len() != given.count() || widths.iter().any(|&width| width <= 0) {
        return Err(given.malformed(format!("inputdimensions = {widths:?} of {} inputs", given.count())));
    }
    let mut parts = Vec::with_capacity(widths.len());
    for (index, &width) in widths.iter().enumerate() {
        let x = rows_of(draft, given.required(index)?, &format!("{index}/x"));
        // A table of another width than stated is refused.
        let shape = draft.list(&[0, width], &format!("{index}/shape"));
        parts.push(draft.op("Reshape", &[&x, &shape], &format!("{index}/rows"), Vec::new()));
    }
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    draft.node("", "Concat", &parts, given.result().to_owned(), vec![int("axis", 1)]);
    Ok(())
}
