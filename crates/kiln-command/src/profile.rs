//! Times by operator and by node, for people.

use std::collections::BTreeMap;
use std::time::Duration;

use kiln::session::{NodeProfile, Profile};

use crate::shape;
use crate::table::{Table, milliseconds};

/// Both tables, most expensive first.
pub(crate) fn text(profile: &Profile) -> String {
    let whole = profile.nodes.iter().map(time).sum();
    format!("{}\n{}", by_operator(profile, whole), by_node(profile, whole))
}

/// Preparing counts as time of the node.
fn time(node: &NodeProfile) -> Duration {
    node.prepare + node.execute
}

fn by_operator(profile: &Profile, whole: Duration) -> String {
    let mut operators: BTreeMap<&str, (usize, u64, Duration, Duration)> = BTreeMap::new();
    for node in &profile.nodes {
        let (nodes, calls, prepare, all) = operators.entry(&node.op).or_default();
        *nodes += 1;
        *calls += node.calls;
        *prepare += node.prepare;
        *all += time(node);
    }
    let mut operators: Vec<_> = operators.into_iter().collect();
    operators.sort_by_key(|(_, (_, _, _, all))| std::cmp::Reverse(*all));
    let mut table = Table::new(&["operator", ">nodes", ">calls", ">ms", ">share", ">preparing ms"]);
    for (op, (nodes, calls, prepare, all)) in operators {
        let figures = [nodes.to_string(), calls.to_string(), ms(all), share(all, whole), ms(prepare)];
        table.row([op.to_owned()].into_iter().chain(figures));
    }
    table.text()
}

fn by_node(profile: &Profile, whole: Duration) -> String {
    let mut nodes: Vec<&NodeProfile> = profile.nodes.iter().collect();
    nodes.sort_by_key(|node| std::cmp::Reverse(time(node)));
    let titles =
        ["node", "operator", "family", ">calls", ">ms", ">share", ">hits", ">misses", ">record", "last shapes"];
    let mut table = Table::new(&titles);
    for node in nodes {
        let inputs: Vec<String> = node.inputs.iter().flatten().map(|spec| shape::text(&spec.shape)).collect();
        let outputs: Vec<String> = node.outputs.iter().map(|spec| shape::text(&spec.shape)).collect();
        table.row([
            node.name.clone(),
            node.op.clone(),
            node.family.to_owned(),
            node.calls.to_string(),
            ms(time(node)),
            share(time(node), whole),
            node.hits.to_string(),
            node.misses.to_string(),
            node.record_hits.to_string(),
            format!("{} -> {}", inputs.join(" "), outputs.join(" ")),
        ]);
    }
    table.text()
}

fn ms(time: Duration) -> String {
    milliseconds(time.as_secs_f64() * 1e3)
}

fn share(part: Duration, whole: Duration) -> String {
    format!("{:.1} %", 100.0 * part.as_secs_f64() / whole.as_secs_f64().max(f64::MIN_POSITIVE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_expensive_stands_first_and_shares_add_up() {
        let node = |name: &str, op: &str, ms| NodeProfile {
            name: name.to_owned(),
            op: op.to_owned(),
            calls: 2,
            execute: Duration::from_millis(ms),
            ..NodeProfile::default()
        };
        let profile = Profile { nodes: vec![node("a", "Relu", 10), node("b", "Conv", 60), node("c", "Relu", 30)] };
        let text = text(&profile);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let starts = |line: usize, expected: &[&str]| assert_eq!(&lines[line][..expected.len()], expected);
        starts(1, &["Conv", "1", "2", "60.00", "60.0", "%"]);
        starts(2, &["Relu", "2", "4", "40.00", "40.0", "%"]);
        starts(5, &["b", "Conv", "2", "60.00"]);
        starts(6, &["c", "Relu", "2", "30.00"]);
    }
}
