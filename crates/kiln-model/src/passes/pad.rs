//! Folds zeros padded around a convolution's input into the convolution's own padding.

use super::PassCx;
use super::edit::Edit;
use crate::ir::{Attr, Graph, NodeDesc};

pub(super) fn run(graph: &mut Graph, _: &mut PassCx<'_>) -> usize {
    let mut edit = Edit::new(graph);
    for slot in edit.slots() {
        let Some(conv) = edit.cloned(slot, |node| node.is("Conv") || node.is_fused("FusedConv")) else { continue };
        let Some((_, pad)) = conv.input(0).and_then(|x| edit.maker(x)).filter(|(_, node)| node.is("Pad")) else {
            continue;
        };
        if let Some(padded) = with_padding(&edit, &conv, pad) {
            edit.put(slot, padded);
        }
    }
    edit.finish()
}

fn with_padding(edit: &Edit<'_>, conv: &NodeDesc, pad: &NodeDesc) -> Option<NodeDesc> {
    let zero = match edit.constant(pad, 2) {
        Some(value) => value.bytes().iter().all(|&byte| byte == 0),
        None => pad.input(2).is_none() && pad.attributes().float("value") == 0.0,
    };
    if !zero || pad.attributes().text("mode") != "constant" || pad.input(3).is_some() {
        return None;
    }
    let auto = conv.attributes().text("auto_pad");
    if !matches!(auto, "NOTSET" | "VALID") || conv.is_channels_last() {
        return None;
    }
    let pads = match edit.constant(pad, 1) {
        Some(pads) => pads.as_slice::<i64>().ok()?,
        None => pad.ints("pads")?,
    };
    let rank = pads.len() / 2;
    let (begins, ends) = pads.split_at(rank);
    let space = rank.checked_sub(2)?;
    if pads.len() != 2 * rank || begins[..2] != [0, 0] || ends[..2] != [0, 0] || pads.iter().any(|&pad| pad < 0) {
        return None;
    }
    let own = match (auto, conv.ints("pads")) {
        ("NOTSET", Some(own)) => own.to_vec(),
        _ => vec![0; 2 * space],
    };
    if own.len() != 2 * space {
        return None;
    }
    let added = begins[2..].iter().chain(&ends[2..]);
    let sums: Vec<i64> = own.iter().zip(added).map(|(own, added)| own.checked_add(*added)).collect::<Option<_>>()?;
    let mut padded = conv.clone();
    padded.attrs.remove("auto_pad");
    padded.attrs.insert("pads".to_owned(), Attr::Ints(sums));
    padded.inputs[0] = pad.inputs[0];
    Some(padded)
}
