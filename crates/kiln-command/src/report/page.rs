//! The page of `kiln report`: a table of totals and a chart of each request's latency, drawn as SVG, so that the file
//! needs no script and no other file. Depends on no JSON.

use std::fmt::Write as _;

use super::Series;

/// Colours and labels of outcomes.
const OUTCOMES: [(&str, &str, &str); 5] = [
    ("cache_miss", "#d1495b", "built"),
    ("record_hit", "#edae49", "rebuilt from a record"),
    ("wait", "#8d6a9f", "waited for another's build"),
    ("cache_hit", "#00798c", "found"),
    ("none", "#3a7d44", "not asked: shapes unchanged"),
];
/// Colours of other programs.
const PEERS: [&str; 4] = ["#888888", "#b07d48", "#5b6c9e", "#7a5195"];

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 60.0;

/// The page for these programs' measurements of the same requests; the first one is Kiln's.
pub(super) fn html(all: &[Series]) -> String {
    let model = escaped(&all[0].model);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{model}: requests by outcome</title>\n\
         <style>body{{font:15px system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}}\
         table{{border-collapse:collapse;margin:1rem 0}}td,th{{padding:.25rem .8rem;text-align:right;border-bottom:1px solid #ddd}}\
         td:first-child,th:first-child{{text-align:left}}svg{{width:100%;height:auto}}text{{font:11px system-ui,sans-serif;fill:#444}}\
         .key span{{display:inline-block;margin-right:1.2rem}}.key i{{display:inline-block;width:.8em;height:.8em;\
         border-radius:50%;margin-right:.4em}}</style></head>\n<body><h1>{model}</h1>\n"
    );
    page += &totals(all);
    page += "<h2>Each request for the first time</h2>\n";
    page += &key(all);
    page += &chart(all, |series| &series.first, true);
    page += "<h2>The same requests again</h2>\n";
    page += &chart(all, |series| &series.again, false);
    page += "</body></html>\n";
    page
}

fn totals(all: &[Series]) -> String {
    let mut table = "<table><tr><th></th><th>load ms</th><th>first pass ms</th><th>again ms</th>\
                     <th>new shape over its repeat</th><th>peak MB</th></tr>\n"
        .to_owned();
    for series in all {
        let sum = |list: &[f64]| list.iter().sum::<f64>();
        let maybe = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
        let _ = writeln!(
            table,
            "<tr><td>{}</td><td>{}</td><td>{:.1}</td><td>{:.1}</td><td>{}</td><td>{}</td></tr>",
            escaped(&series.name),
            maybe(series.load_ms),
            sum(&series.first),
            sum(&series.again),
            new_ratio(series).map_or("-".to_owned(), |ratio| format!("{ratio:.3}")),
            maybe(series.peak_mb)
        );
    }
    table + "</table>\n"
}

/// The median of a new shape's first request over its repeat. The very first request also pays one-time costs.
fn new_ratio(series: &Series) -> Option<f64> {
    let pairs = series.first.iter().zip(&series.again).zip(&series.new).skip(1);
    crate::statistics::median(
        pairs.filter(|((_, again), new)| **new && **again > 0.0).map(|((first, again), _)| first / again),
    )
}

fn key(all: &[Series]) -> String {
    let mut text = "<p class=\"key\">".to_owned();
    let mut entry = |colour: &str, words: &str| {
        let _ = write!(text, "<span><i style=\"background:{colour}\"></i>{}</span>", escaped(words));
    };
    for (outcome, colour, words) in OUTCOMES {
        if (0..all[0].first.len()).any(|index| outcome_of(&all[0], index) == outcome) {
            entry(colour, &format!("{}: {words}", all[0].name));
        }
    }
    for (peer, colour) in all[1..].iter().zip(PEERS.iter().cycle()) {
        entry(colour, &peer.name);
    }
    text + "</p>\n"
}

/// The outcome; if the file does not have it, a new shape was built and others were found.
fn outcome_of(series: &Series, index: usize) -> &str {
    match series.outcomes.get(index) {
        Some(outcome) => outcome,
        None if series.new[index] => "cache_miss",
        None => "cache_hit",
    }
}

/// Points over requests, on a logarithmic scale, so that one slow request does not flatten the rest.
fn chart(all: &[Series], values: fn(&Series) -> &[f64], by_outcome: bool) -> String {
    let positive = || all.iter().flat_map(|series| values(series).iter().copied()).filter(|ms| *ms > 0.0);
    let low = positive().fold(f64::INFINITY, f64::min).min(1e6).log10().floor();
    let high = positive().fold(0.0, f64::max).max(1e-6).log10().ceil().max(low + 1.0);
    let y = |ms: f64| HEIGHT - 20.0 - (ms.max(10f64.powf(low)).log10() - low) / (high - low) * (HEIGHT - 30.0);
    let count = values(&all[0]).len();
    let x = |index: usize| LEFT + (index as f64 + 0.5) / count as f64 * (WIDTH - LEFT - 10.0);
    let mut svg =
        format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"latency of each request\">\n");
    for power in low as i32..=high as i32 {
        let (at, ms) = (y(10f64.powi(power)), 10f64.powi(power));
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#e4e4e4\"/>\
             <text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{ms} ms</text>",
            LEFT - 6.0,
            at + 4.0
        );
    }
    for (peer, colour) in all[1..].iter().zip(PEERS.iter().cycle()) {
        for (index, ms) in values(peer).iter().enumerate() {
            point(&mut svg, x(index), y(*ms), colour, 2.2, &format!("{}, request {index}: {ms} ms", peer.name));
        }
    }
    for (index, ms) in values(&all[0]).iter().enumerate() {
        let outcome = if by_outcome { outcome_of(&all[0], index) } else { "cache_hit" };
        let known = OUTCOMES.iter().find(|(name, ..)| *name == outcome);
        let (colour, words) = known.map_or(("#222222", outcome), |(_, colour, words)| (*colour, *words));
        let words = if by_outcome { format!(", {words}") } else { String::new() };
        point(&mut svg, x(index), y(*ms), colour, 3.2, &format!("{}, request {index}: {ms} ms{words}", all[0].name));
    }
    svg + "</svg>\n"
}

fn point(svg: &mut String, x: f64, y: f64, colour: &str, radius: f64, words: &str) {
    let _ = writeln!(
        svg,
        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{colour}\" fill-opacity=\".8\"><title>{}</title></circle>",
        escaped(words)
    );
}

/// Text as HTML: names in files are untrusted.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, outcomes: &[&str]) -> Series {
        Series {
            name: name.to_owned(),
            model: "a <model>".to_owned(),
            first: vec![10.0, 4.0, 0.0],
            again: vec![2.0, 2.0, 1.0],
            new: vec![true, true, false],
            outcomes: outcomes.iter().map(|outcome| (*outcome).to_owned()).collect(),
            load_ms: None,
            peak_mb: Some(1.0),
        }
    }

    #[test]
    fn a_page_holds_every_request_of_every_program_and_no_foreign_markup() {
        let page = html(&[series("Kiln", &["cache_miss", "record_hit", "none"]), series("<b>peer</b>", &[])]);
        assert_eq!(page.matches("<circle").count(), 2 * 2 * 3);
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
        assert!(!page.contains("<b>") && !page.contains("<model>") && !page.contains("NaN") && !page.contains("inf"));
        for (outcome, colour, words) in OUTCOMES {
            let used = ["cache_miss", "record_hit", "none"].contains(&outcome);
            assert_eq!(page.contains(words), used, "{outcome}");
            assert!(!used || page.contains(colour));
        }
        assert!(page.contains("<td>2.000</td>"), "the ratio without the very first request");
    }

    #[test]
    fn without_outcomes_new_shapes_count_as_built() {
        let kiln = series("Kiln", &[]);
        assert_eq!([0, 1, 2].map(|index| outcome_of(&kiln, index)), ["cache_miss", "cache_miss", "cache_hit"]);
    }
}
