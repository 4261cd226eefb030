//! `kiln machine`: the peak rates of this machine, from the records or else measured and recorded.

use std::io::Write;
use std::path::PathBuf;

use kiln::session::SessionOptions;
use kiln_kernels::cpu::machine::{Caches, Figures};
use kiln_kernels::{EMITTER_REVISION, Extension, Isa};
use kiln_knobs::Knobs;
use kiln_run::exec::machine::MachineKey;
use kiln_run::record::{CacheMode, Fingerprint, Store, host_fingerprint};
use kiln_tensor::threads::{Threads, available};
use serde::Serialize;

use crate::failure::{Outcome, WithCode};
use crate::table::{Table, bytes};

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Threads to measure besides one thread; 0 for all of this process
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=1024))]
    threads: u16,
    /// Folder of the records that keep the measurements
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    /// Measure even if there are records
    #[arg(long)]
    fresh: bool,
    /// Write all figures as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// All that is shown, and the JSON object.
#[derive(Debug, Serialize)]
struct View {
    processor: Processor,
    /// For one thread, then for all; empty where this level has no emitted code.
    figures: Vec<FiguresView>,
}

#[derive(Debug, Serialize)]
struct Processor {
    vendor: String,
    family: String,
    model: String,
    stepping: String,
    /// The level in force.
    level: &'static str,
    extensions: Vec<&'static str>,
    l1_bytes: usize,
    l2_bytes: usize,
    l3_bytes: usize,
    /// The fingerprint of its records.
    fingerprint: String,
}

/// Figures for people and programs: a multiply-add is two operations. `None`: not available, or not measured.
#[derive(Debug, Serialize)]
struct FiguresView {
    threads: usize,
    from_record: bool,
    f32_gflops: Option<f64>,
    bf16_gflops: Option<f64>,
    int8_gops: Option<f64>,
    l1_gbs: Option<f64>,
    l2_gbs: Option<f64>,
    l3_gbs: Option<f64>,
    memory_gbs: Option<f64>,
    rows_plain_gbs: Option<f64>,
    rows_far_gbs: Option<f64>,
}

/// Runs the command.
pub(crate) fn run(args: &Args, screen: &mut dyn Write) -> Outcome {
    let knobs = Knobs::from_env().usage(|| "environment")?;
    let options = SessionOptions::from_knobs(&knobs);
    let isa = options.isa();
    let fingerprint = host_fingerprint(isa.name(), EMITTER_REVISION);
    let records = match args.cache_dir.as_ref().or(options.cache_dir.as_ref()) {
        Some(folder) => Store::open(folder, &fingerprint, CacheMode::ReadWrite),
        None => Store::in_memory(),
    };
    let threads = [usize::from(args.threads), options.threads].into_iter().find(|&threads| threads > 0);
    let mut view = View { processor: processor(isa, &fingerprint), figures: Vec::new() };
    let mut counts = vec![1, threads.unwrap_or_else(available)];
    counts.dedup();
    for threads in counts {
        view.figures.extend(figures(isa, threads, &records, args.fresh)?);
    }
    if let Err(error) = records.save() {
        writeln!(screen, "notice: records were not saved: {error}")?;
    }
    if let Some(path) = &args.json {
        let json = serde_json::to_string_pretty(&view).failed(|| "cannot write JSON")?;
        std::fs::write(path, json).usage(|| format!("--json: cannot write {}", path.display()))?;
    }
    print(&view, screen)
}

/// The figures for `threads` threads, from the records or measured.
fn figures(isa: Isa, threads: usize, records: &Store, fresh: bool) -> Outcome<Option<FiguresView>> {
    let key = MachineKey { isa, threads: u32::try_from(threads).unwrap_or(u32::MAX) };
    if let Some(known) = key.recall(records).filter(|_| !fresh) {
        return Ok(Some(FiguresView::new(threads, true, &known)));
    }
    let pool = Threads::new(threads).failed(|| "cannot measure")?;
    let measured = MachineKey::measure(isa, &pool, records);
    Ok(measured.map(|measured| FiguresView::new(threads, false, &measured)))
}

impl FiguresView {
    fn new(threads: usize, from_record: bool, figures: &Figures) -> FiguresView {
        let billions = |millions: u32, each: f64| (millions > 0).then(|| f64::from(millions) * each / 1e3);
        FiguresView {
            threads,
            from_record,
            f32_gflops: billions(figures.f32, 2.0),
            bf16_gflops: billions(figures.bf16_pairs, 2.0),
            int8_gops: billions(figures.bytes, 2.0),
            l1_gbs: billions(figures.l1, 1.0),
            l2_gbs: billions(figures.l2, 1.0),
            l3_gbs: billions(figures.l3, 1.0),
            memory_gbs: billions(figures.memory, 1.0),
            rows_plain_gbs: billions(figures.rows_plain, 1.0),
            rows_far_gbs: billions(figures.rows_far, 1.0),
        }
    }
}

fn processor(isa: Isa, fingerprint: &Fingerprint) -> Processor {
    let fact = |wanted: &str| {
        let found = fingerprint.facts().iter().find(|(name, _)| name == wanted);
        found.map_or_else(|| "unknown".to_owned(), |(_, value)| value.clone())
    };
    let caches = Caches::of_machine();
    Processor {
        vendor: fact("vendor"),
        family: fact("family"),
        model: fact("model"),
        stepping: fact("stepping"),
        level: isa.name(),
        extensions: Extension::ALL.into_iter().filter(|each| each.present()).map(Extension::name).collect(),
        l1_bytes: caches.l1,
        l2_bytes: caches.l2,
        l3_bytes: caches.l3,
        fingerprint: fingerprint.digits(),
    }
}

fn print(view: &View, screen: &mut dyn Write) -> Outcome {
    let Processor { vendor, family, model, stepping, level, fingerprint, .. } = &view.processor;
    let [l1, l2, l3] = [view.processor.l1_bytes, view.processor.l2_bytes, view.processor.l3_bytes]
        .map(|size| if size == 0 { "none".to_owned() } else { bytes(size as u64) });
    let extensions = match view.processor.extensions.as_slice() {
        [] => "none".to_owned(),
        some => some.join(", "),
    };
    writeln!(screen, "processor: {vendor}, family {family} model {model} stepping {stepping}")?;
    writeln!(screen, "level: {level}; extensions: {extensions}")?;
    writeln!(screen, "caches: L1 {l1}, L2 {l2}, L3 {l3}")?;
    writeln!(screen, "fingerprint: {fingerprint}")?;
    if view.figures.is_empty() {
        writeln!(screen, "nothing to measure: at this level no code is emitted")?;
        return Ok(());
    }
    let titles = view.figures.iter().map(|figures| match figures.threads {
        1 => ">1 thread".to_owned(),
        threads => format!(">{threads} threads"),
    });
    let titles: Vec<String> = ["what".to_owned(), "unit".to_owned()].into_iter().chain(titles).collect();
    let mut table = Table::new(&titles.iter().map(String::as_str).collect::<Vec<_>>());
    let rows: [(&str, &str, fn(&FiguresView) -> Option<f64>); 9] = [
        ("f32", "GFLOP/s", |figures| figures.f32_gflops),
        ("bf16 pairs", "GFLOP/s", |figures| figures.bf16_gflops),
        ("int8", "Gop/s", |figures| figures.int8_gops),
        ("reads of L1", "GB/s", |figures| figures.l1_gbs),
        ("reads of L2", "GB/s", |figures| figures.l2_gbs),
        ("reads of L3", "GB/s", |figures| figures.l3_gbs),
        ("reads of memory", "GB/s", |figures| figures.memory_gbs),
        ("int4 weights by a row", "GB/s", |figures| figures.rows_plain_gbs),
        ("int4 weights by a row, prefetched far", "GB/s", |figures| figures.rows_far_gbs),
    ];
    for (what, unit, of) in rows {
        let cells =
            view.figures.iter().map(|figures| of(figures).map_or("-".to_owned(), |value| format!("{value:.1}")));
        table.row([what.to_owned(), unit.to_owned()].into_iter().chain(cells));
    }
    let from = |figures: &FiguresView| if figures.from_record { "a record" } else { "now" }.to_owned();
    table.row(["measured".to_owned(), String::new()].into_iter().chain(view.figures.iter().map(from)));
    write!(screen, "\n{}", table.text())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_multiply_add_is_two_operations_and_what_is_not_there_a_dash() {
        let known = Figures { f32: 50_000, bytes: 200_000, l1: 300_000, ..Figures::default() };
        let processor = processor(Isa::Avx2, &host_fingerprint("avx2", EMITTER_REVISION));
        let view =
            View { processor, figures: vec![FiguresView::new(1, false, &known), FiguresView::new(2, true, &known)] };
        let mut screen = Vec::new();
        print(&view, &mut screen).unwrap();
        let text = String::from_utf8(screen).unwrap();
        for part in ["1 thread", "2 threads", "100.0", "400.0", "300.0", "GFLOP/s", " - ", "now", "a record"] {
            assert!(text.contains(part), "no {part} in:\n{text}");
        }
        let json = serde_json::to_value(&view).unwrap();
        assert_eq!(json["figures"][0]["f32_gflops"], 100.0);
        assert!(json["figures"][0]["bf16_gflops"].is_null());
        assert_eq!(json["processor"]["level"], "avx2");
    }

    #[test]
    fn a_level_without_code_has_no_figures() {
        let view = View {
            processor: processor(Isa::Portable, &host_fingerprint("portable", EMITTER_REVISION)),
            figures: Vec::new(),
        };
        assert!(figures(Isa::Portable, 1, &Store::in_memory(), false).unwrap().is_none());
        let mut screen = Vec::new();
        print(&view, &mut screen).unwrap();
        assert!(String::from_utf8(screen).unwrap().contains("nothing to measure"));
    }
}
