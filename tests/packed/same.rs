//! The same bits as without packing.

use kiln::session::{Numerics, Precision, Session, SessionOptions};
use kiln_kernels::Isa;
use proptest::prelude::*;

use crate::draw::{Form, draw};
use crate::{expect_same, load, models, options, packed};

#[test]
fn every_kind_of_weights_gives_the_same_bits() {
    for model in models::all() {
        let (_folder, path) = packed(&model.graph, &options());
        let plain = Session::from_graph(model.graph, &options()).unwrap();
        expect_same(&plain, &load(&path), &model.requests, model.name);
    }
}

#[test]
fn every_level_and_precision_has_a_file_of_its_own_with_the_same_bits() {
    let levels = Isa::ALL.into_iter().filter(|isa| *isa <= Isa::detect());
    for isa in levels {
        for precision in [Precision::F32, Precision::Bf16, Precision::Int8, Precision::Int4] {
            let options = SessionOptions { max_isa: Some(isa), precision, numerics: Numerics::Strict, ..options() };
            for model in models::all() {
                let (_folder, path) = packed(&model.graph, &options);
                let plain = Session::from_graph(model.graph, &options).unwrap();
                let mapped = Session::load(&path, &options).unwrap_or_else(|error| panic!("{}: {error}", model.name));
                expect_same(&plain, &mapped, &model.requests, &format!("{} {isa} {precision:?}", model.name));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn drawn_graphs_give_the_same_bits(choices in prop::collection::vec(any::<u16>(), 8..160)) {
        let drawn = draw(&choices, Form::default());
        let (_folder, path) = packed(&drawn.graph, &options());
        let plain = Session::from_graph(drawn.graph.clone(), &options()).unwrap();
        expect_same(&plain, &load(&path), &drawn.requests, &drawn.told());
    }
}
