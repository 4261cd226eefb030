//! Which values inputs get, case by case.

use kiln_model::ir::ValueKind;
use kiln_tensor::DType;

use super::*;

fn port(name: &str, dims: &[Dim]) -> Port {
    Port {
        name: name.to_owned(),
        kind: ValueKind::Tensor,
        dtype: Some(DType::F32),
        dims: Some(dims.to_vec()),
        has_default: false,
    }
}

fn named(name: &str) -> Dim {
    Dim::Named(name.to_owned())
}

/// A model of two inputs that share a dimension, and one that has a default.
fn ports() -> Vec<Port> {
    let mut scale = port("scale", &[Dim::Fixed(1)]);
    scale.has_default = true;
    vec![port("ids", &[named("N"), named("S")]), port("past", &[named("N"), Dim::Fixed(8), Dim::Any]), scale]
}

fn args(shapes: &[&str], dims: &[&str]) -> FeedArgs {
    FeedArgs {
        shapes: shapes.iter().map(|text| text.parse().unwrap()).collect(),
        dims: dims.iter().map(|text| text.parse().unwrap()).collect(),
        seed: 1,
    }
}

fn shapes(plan: &Plan) -> Vec<Vec<(String, Vec<usize>)>> {
    let of = |recipe: &Recipe| (recipe.name.clone(), recipe.spec.shape.to_vec());
    plan.requests.iter().map(|request| request.iter().map(of).collect()).collect()
}

fn refusal(ports: &[Port], given: &[(String, Tensor)], args: &FeedArgs) -> String {
    plan(ports, given, args).unwrap_err().line().unwrap()
}

#[test]
fn dimensions_that_are_not_given_are_1_with_a_notice() {
    let plan = plan(&ports(), &[], &args(&[], &[])).unwrap();
    assert_eq!(shapes(&plan), [[("ids".to_owned(), vec![1, 1]), ("past".to_owned(), vec![1, 8, 1])]]);
    assert_eq!(plan.notices.len(), 1);
    assert!(plan.notices[0].contains("N, S, past[2]"), "{}", plan.notices[0]);
}

#[test]
fn a_size_given_once_holds_for_every_input_that_names_it() {
    let plan = plan(&ports(), &[], &args(&["ids[4,16]", "past[?,?,5]"], &[])).unwrap();
    assert_eq!(shapes(&plan), [[("ids".to_owned(), vec![4, 16]), ("past".to_owned(), vec![4, 8, 5])]]);
    assert!(plan.notices.is_empty());
}

#[test]
fn files_and_named_dimensions_give_sizes_too() {
    let given = [("past".to_owned(), Tensor::from_slice([2, 8, 1], &[0f32; 16]).unwrap())];
    let plan = plan(&ports(), &given, &args(&[], &["S=9"])).unwrap();
    assert_eq!(shapes(&plan), [[("ids".to_owned(), vec![2, 9])]]);
}

#[test]
fn an_input_with_a_default_is_fed_only_on_request() {
    let plan = plan(&ports(), &[], &args(&["scale[1]"], &[])).unwrap();
    assert_eq!(plan.requests[0].last().unwrap().name, "scale");
}

#[test]
fn sequences_of_shapes_make_requests_and_single_shapes_stay() {
    let plan = plan(&ports(), &[], &args(&["ids[1,16][1,32][1,16]", "past[?,8,3]"], &[])).unwrap();
    let lengths: Vec<usize> = shapes(&plan).iter().map(|request| request[0].1[1]).collect();
    assert_eq!(lengths, [16, 32, 16]);
    assert!(shapes(&plan).iter().all(|request| request[1].1 == [1, 8, 3]));
}

#[test]
fn what_does_not_fit_the_model_is_refused_with_its_name() {
    let given = [("ids".to_owned(), Tensor::from_slice([1, 1], &[0f32]).unwrap())];
    type Case<'a> = (&'a [(String, Tensor)], &'a [&'a str], &'a [&'a str], &'a str);
    let cases: [Case<'_>; 9] = [
        (&[], &["x[1]"], &[], "the model has no input 'x'; its inputs are ids float32 [N,S], past float32 [N,8,?]"),
        (&[], &["[1,2]"], &[], "which input is the shape [1,2] for?"),
        (&[], &["ids[1,2,3]"], &[], "input 'ids' has 2 dimensions [N,S], the shape given has 3"),
        (&[], &["past[1,7,1]"], &[], "dimension 1 of input 'past' is 8 in the model, not 7"),
        (&[], &["ids[1,2]", "ids[1,3]"], &[], "input 'ids' has two shapes"),
        (&given, &["ids[1,2]"], &[], "input 'ids' has both a file and a shape"),
        (&[], &["ids[1,2][1,3]", "past[1,8,1][1,8,2][1,8,3]"], &[], "input 'ids' has 2 shapes where another has 3"),
        (&[], &[], &["T=3"], "the model names no dimension 'T'"),
        (&given, &["[3]", "[1,8,1]"], &[], "has two shapes"),
    ];
    for (given, shapes, dims, message) in cases {
        let line = refusal(&ports(), given, &args(shapes, dims));
        assert!(line.contains(message), "{line} instead of {message}");
    }
    let mut unknown = port("x", &[]);
    unknown.dims = None;
    assert!(refusal(&[unknown.clone()], &[], &args(&[], &[])).contains("'x' declares no shape"));
    unknown.dtype = None;
    assert!(refusal(&[unknown], &[], &args(&["x[2]"], &[])).contains("'x' declares no element type"));
}

#[test]
fn a_file_finds_its_input_by_the_name_given_or_its_own_name() {
    let folder = tempfile::tempdir().unwrap();
    let tensor = Tensor::from_slice([1], &[1f32]).unwrap();
    let path = folder.path().join("past.npy");
    arrays::write_npy(&path, &tensor).unwrap();
    let other = folder.path().join("other.npy");
    arrays::write_npy(&other, &tensor).unwrap();
    let archive = folder.path().join("both.npz");
    arrays::write_npz(&archive, &[("ids".to_owned(), tensor.clone()), ("past".to_owned(), tensor)]).unwrap();

    let file =
        |name: Option<&str>, path: &std::path::Path| InputFile { name: name.map(str::to_owned), path: path.to_owned() };
    let names = |files: &[InputFile]| -> Result<Vec<String>, String> {
        let read = read_files(&ports(), files).map_err(|failure| failure.line().unwrap())?;
        let mut names: Vec<String> = read.into_iter().map(|(name, _)| name).collect();
        names.sort();
        Ok(names)
    };
    assert_eq!(names(&[file(None, &path)]).unwrap(), ["past"]);
    assert_eq!(names(&[file(Some("ids"), &path)]).unwrap(), ["ids"]);
    assert_eq!(names(&[file(None, &archive)]).unwrap(), ["ids", "past"]);
    assert!(names(&[file(None, &other)]).unwrap_err().contains("which input is"));
    assert!(names(&[file(Some("x"), &path)]).unwrap_err().contains("no input 'x'"));
    assert!(names(&[file(None, &path), file(Some("past"), &other)]).unwrap_err().contains("given twice"));
    assert!(names(&[file(Some("ids"), &archive)]).unwrap_err().contains("holds 2 arrays"));
    assert_eq!(only_input(&ports()[..1], &[]).as_deref(), Some("ids"));
}

#[test]
fn input_flags_are_read() {
    let cases = [
        ("x.npy", Some((None, "x.npy"))),
        ("a=x.npy", Some((Some("a"), "x.npy"))),
        ("=x.npy", None),
        ("a=", None),
        ("", None),
    ];
    for (text, expected) in cases {
        let expected = expected.map(|(name, path)| InputFile { name: name.map(str::to_owned), path: path.into() });
        assert_eq!(text.parse::<InputFile>().ok(), expected, "{text}");
    }
    assert_eq!("batch=4".parse(), Ok(DimSize { name: "batch".to_owned(), size: 4 }));
    assert!("batch".parse::<DimSize>().is_err() && "=4".parse::<DimSize>().is_err());
}
