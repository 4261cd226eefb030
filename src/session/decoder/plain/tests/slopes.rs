//! Biases that grow along keys by a slope for each head, as BLOOM (from the first key) and MPT (from the last one, cut
//! from a table) write them.

use super::small::HEADS;
use super::*;

/// Positions of MPT's table.
const TABLE: usize = 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    First,
    Last,
}

/// A bias of heads.
#[derive(Clone, Copy, Debug)]
struct Bias {
    from: From,
    /// The slope of the first head, which halves from head to head.
    steepest: f32,
    /// From this distance on it does not grow, if it is a table.
    straight: usize,
}

impl Bias {
    fn of(from: From) -> Bias {
        Bias { from, steepest: 0.3, straight: TABLE }
    }

    fn slope(self, head: usize) -> f32 {
        self.steepest / (1 << head) as f32
    }
}

/// The model with that bias in each layer.
fn biased(model: &Model, own: Bias) -> Graph {
    let mut graph = model.graph();
    let mask = graph.inputs.iter().copied().find(|&input| graph.value(input).name == "attention_mask").unwrap();
    for node in std::mem::take(&mut graph.nodes) {
        let place = match node.op.as_str() {
            "Softmax" => 0,
            "Attention" => 3,
            _ => {
                graph.nodes.push(node);
                continue;
            }
        };
        let bias = match own.from {
            From::First => by_mask(&mut graph, mask, own),
            From::Last => by_table(&mut graph, mask, own),
        };
        let sum = graph.fresh("sum");
        let mut node = node;
        graph.nodes.push(made("Add", Attrs::new(), vec![node.inputs[place], Some(bias)], sum));
        node.inputs[place] = Some(sum);
        graph.nodes.push(node);
    }
    graph
}

fn push(graph: &mut Graph, op: &str, inputs: &[ValueId], attrs: Attrs) -> ValueId {
    let output = graph.fresh(op);
    graph.nodes.push(made(op, attrs, inputs.iter().copied().map(Some).collect(), output));
    output
}

fn numbers(graph: &mut Graph, numbers: &[i64]) -> ValueId {
    graph.add_constant("numbers", Tensor::from_vec([numbers.len()], numbers.to_vec()).unwrap())
}

/// Positions that `attention_mask` counts, times slopes: [sequences, heads, 1, keys].
fn by_mask(graph: &mut Graph, mask: ValueId, own: Bias) -> ValueId {
    let (one, axes) = (graph.add_constant("one", Tensor::scalar(1i64)), numbers(graph, &[1, 2]));
    let counted = push(graph, "CumSum", &[mask, one], Attrs::new());
    let positions = push(graph, "Sub", &[counted, one], Attrs::new());
    let apart = push(graph, "Unsqueeze", &[positions, axes], Attrs::new());
    let floats = push(graph, "Cast", &[apart], Attrs::from([("to".to_owned(), Attr::Int(1))]));
    let slopes = Tensor::from_vec([1, HEADS, 1, 1], (0..HEADS).map(|head| own.slope(head)).collect()).unwrap();
    let slopes = graph.add_constant("slopes", slopes);
    push(graph, "Mul", &[slopes, floats], Attrs::new())
}

/// The last columns of a table: [heads, 1, keys].
fn by_table(graph: &mut Graph, mask: ValueId, own: Bias) -> ValueId {
    let element = |at: usize| {
        let distance = (TABLE - 1 - at % TABLE).min(own.straight);
        -own.slope(at / TABLE) * distance as f32
    };
    let table = Tensor::from_vec([HEADS, 1, TABLE], (0..HEADS * TABLE).map(element).collect()).unwrap();
    let table = graph.add_constant("table", table);
    let (whole, place) = (numbers(graph, &[TABLE as i64]), numbers(graph, &[1]));
    let shape = push(graph, "Shape", &[mask], Attrs::new());
    let total = push(graph, "Gather", &[shape, place], Attrs::new());
    let first = push(graph, "Sub", &[whole, total], Attrs::new());
    let (end, axis) = (numbers(graph, &[i64::MAX]), numbers(graph, &[2]));
    push(graph, "Slice", &[table, first, end, axis], Attrs::new())
}

#[test]
fn tokens_with_slopes_say_what_the_whole_text_says() {
    for from in [From::First, From::Last] {
        for (written, masked) in [
            (Written::Products, Masked::Compared),
            (Written::Products, Masked::Table(None)),
            (Written::Standard, Masked::Triangle),
        ] {
            let model = Model { masked, written, kv_heads: 4, positions: true };
            let graph = || biased(&model, Bias::of(from));
            let decoder = Decoder::from_graph(graph(), &options());
            let decoder = decoder.unwrap_or_else(|error| panic!("{model:?}, {from:?}: {error}"));
            assert!(decoder.biases.is_empty(), "steps are not of one token");
            let texts = [text(14, 1), text(14, 2)];
            let mut cache = decoder.cache(2, 4, 20).unwrap();
            for (begin, end) in [(0, 5), (5, 6), (6, 7), (7, 14)] {
                let tokens = [&texts[0][begin..end], &texts[1][begin..end]];
                let logits = decoder.step(&mut cache, &tokens, &RunOptions::default()).unwrap();
                for (sequence, text) in texts.iter().enumerate() {
                    let own = &logits.as_slice::<f32>().unwrap()[sequence * WORDS..][..WORDS];
                    close(own, &whole_of(graph(), &model, &text[..end]), &format!("{model:?}, {from:?}, {end}"));
                }
            }
            // Sequences of a batch have lengths of their own.
            cache.rewind(1, 3).unwrap();
            let logits = decoder.step(&mut cache, &[&[4], &[7]], &RunOptions::default()).unwrap();
            let shorter = whole_of(graph(), &model, &[&texts[1][..3], &[7]].concat());
            close(&logits.as_slice::<f32>().unwrap()[WORDS..], &shorter, &format!("{model:?}, {from:?}, rewound"));
        }
    }
}

#[test]
fn layers_share_the_bias_of_a_step_which_makes_no_plan() {
    for from in [From::First, From::Last] {
        let model = Model { masked: Masked::Compared, written: Written::Products, kv_heads: 4, positions: true };
        let decoder = Decoder::from_graph(biased(&model, Bias::of(from)), &options()).unwrap();
        let mut cache = decoder.cache(1, 20, 20).unwrap();
        let mut step = |tokens: &[i64]| {
            decoder.step(&mut cache, &[tokens], &RunOptions::default()).unwrap();
            (decoder.session().plan_stats().misses, decoder.session().cache_stats().misses)
        };
        step(&text(3, 1));
        let first = step(&[1]);
        assert!(text(10, 2).into_iter().all(|token| step(&[token]) == first), "{from:?}");
    }
}

#[test]
fn models_of_f16_have_slopes_too() {
    for from in [From::First, From::Last] {
        let model = Model { masked: Masked::Compared, written: Written::Products, kv_heads: 4, positions: true };
        // `f16` has these slopes. Their products with distances are rounded.
        let own = Bias { steepest: 0.25, ..Bias::of(from) };
        let wide = Decoder::from_graph(biased(&model, own), &options()).unwrap();
        let mut graph = biased(&model, own);
        let casts = graph.nodes.iter_mut().filter(|node| node.is("Cast"));
        casts.for_each(|node| drop(node.attrs.insert("to".to_owned(), Attr::Int(10))));
        let narrow = Decoder::from_graph(halved(graph), &options()).unwrap_or_else(|error| panic!("{from:?}: {error}"));
        let mut caches = [&wide, &narrow].map(|decoder| decoder.cache(1, 4, 20).unwrap());
        for tokens in [&text(9, 1)[..], &[3], &[5, 6]] {
            let [of_wide, of_narrow] = &mut caches;
            let expected = wide.step(of_wide, &[tokens], &RunOptions::default()).unwrap();
            let found = narrow.step(of_narrow, &[tokens], &RunOptions::default()).unwrap();
            let found = found.as_slice::<f16>().unwrap().iter().map(|number| number.to_f32());
            for (found, expected) in found.zip(expected.as_slice::<f32>().unwrap()) {
                assert!((found - expected).abs() < 0.1, "{from:?}: {found}, expected {expected}");
            }
        }
    }
}

#[test]
fn a_bias_that_does_not_grow_by_a_slope_is_refused() {
    let model = Model { masked: Masked::Compared, written: Written::Products, kv_heads: 4, positions: true };
    match Decoder::from_graph(biased(&model, Bias { straight: 20, ..Bias::of(From::Last) }), &options()) {
        Err(DecoderError::Model(reason)) => assert!(reason.contains("none that hides keys"), "{reason}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was taken"),
    }
}
