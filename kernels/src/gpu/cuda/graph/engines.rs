//! Engines: the library's proposals for a graph, as numbers that another process can use, and engines from these
//! numbers.

use std::sync::Arc;

use cudarc::cudnn::sys::{
    cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind, cudnnBackendHeurMode_t as Mode,
};

use super::super::cudnn::{Cudnn, believable};
use super::descriptor::{Descriptor, Handle, KnobKind, NumericalNote};
use super::operations::graph;
use crate::error::{KernelError, Result};
use crate::gpu::{Algorithm, ConvProblem, Engine, Heuristic, Notes};

/// Knobs that an engine may have; cuDNN 9 numbers 41 kinds.
const MOST_KNOBS: usize = 64;

/// Notes that an engine may have; there are 10 kinds.
const MOST_NOTES: usize = 32;

/// The library's proposals for a problem, best first, in one mode, until one of them is `enough`: reading a proposal
/// takes the library as long as a small kernel runs.
pub(in super::super) fn heuristics(
    cudnn: &Cudnn,
    conv: &ConvProblem,
    heuristic: Heuristic,
    mut enough: impl FnMut(&Algorithm) -> bool,
) -> Result<Vec<Algorithm>> {
    let mode = match heuristic {
        Heuristic::Quick => Mode::CUDNN_HEUR_MODE_A,
        Heuristic::Thorough => Mode::CUDNN_HEUR_MODE_B,
        Heuristic::Fallback => Mode::CUDNN_HEUR_MODE_FALLBACK,
    };
    cudnn.with(|handle| {
        let graph = graph(conv, Some(handle))?;
        let mut asked = Descriptor::new(Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)?;
        asked.set_parts(Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &[graph])?;
        asked.set(Name::CUDNN_ATTR_ENGINEHEUR_MODE, &[mode])?;
        let answer = asked.finish()?;
        let configs =
            answer.all_parts(Name::CUDNN_ATTR_ENGINEHEUR_RESULTS, Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)?;
        let mut found = Vec::new();
        for config in configs {
            // A proposal that cannot be read is left out.
            let Ok(one) = read(config, handle) else { continue };
            let last = enough(&one);
            found.push(one);
            if last {
                break;
            }
        }
        Ok(found)
    })
}

/// A proposal as numbers.
fn read(config: Descriptor, handle: cudarc::cudnn::sys::cudnnHandle_t) -> Result<Algorithm> {
    let none = || KernelError::Unsupported { family: "cuDNN", reason: "a proposal without an engine".to_owned() };
    let engines = config.get_parts(Name::CUDNN_ATTR_ENGINECFG_ENGINE, Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1)?;
    let engine = engines.first().ok_or_else(none)?;
    let index = engine.get_one(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX)?;
    let notes = notes(engine)?;
    let choices = Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR;
    let choices = config.get_parts(Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, choices, MOST_KNOBS)?;
    let mut knobs = Vec::with_capacity(choices.len());
    for choice in choices {
        let mut kind = [KnobKind::default()];
        choice.get(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, &mut kind)?;
        knobs.push((kind[0].0, choice.get_one(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE)?));
    }
    // Older libraries report it for plans only.
    let workspace = match config.get_one(Name::CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE) {
        Ok(bytes) => bytes,
        Err(_) => finished(Arc::new(config), handle)?.get_one(Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)?,
    };
    Ok(Algorithm { engine: Engine::Graph { index, knobs }, workspace: believable(workspace)?, notes })
}

/// The plan of an engine with its knobs.
pub(super) fn finished(config: Arc<Descriptor>, handle: cudarc::cudnn::sys::cudnnHandle_t) -> Result<Descriptor> {
    let mut plan = Descriptor::new(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)?;
    plan.set(Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE, &[Handle(handle)])?;
    plan.set_parts(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &[config])?;
    plan.finish()
}

/// An engine's notes on its arithmetic.
pub(super) fn notes(engine: &Descriptor) -> Result<Notes> {
    let mut found = [NumericalNote::default(); MOST_NOTES];
    let count = engine.get(Name::CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, &mut found)?;
    let bits =
        found[..count].iter().filter_map(|note| u32::try_from(note.0).ok().and_then(|note| 1u32.checked_shl(note)));
    Ok(Notes(bits.fold(0, |notes, bit| notes | bit)))
}

/// How many engines the library has for a graph: they are numbered from zero.
pub(super) fn engine_count(graph: &Descriptor) -> Result<i64> {
    graph.get_one(Name::CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT)
}

/// The engine with that number.
pub(super) fn engine(graph: &Arc<Descriptor>, index: i64) -> Result<Descriptor> {
    let count = engine_count(graph)?;
    if !(0..count).contains(&index) {
        let reason = format!("engine {index} of {count}");
        return Err(KernelError::Unsupported { family: "cuDNN", reason });
    }
    let mut engine = Descriptor::new(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR)?;
    engine.set_parts(Name::CUDNN_ATTR_ENGINE_OPERATION_GRAPH, std::slice::from_ref(graph))?;
    engine.set(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, &[index])?;
    engine.finish()
}

/// An engine with its knobs, which may come from a record: the library checks them.
pub(super) fn configured(graph: &Arc<Descriptor>, index: i64, knobs: &[(i32, i64)]) -> Result<Arc<Descriptor>> {
    if knobs.len() > MOST_KNOBS {
        let reason = format!("{} knobs", knobs.len());
        return Err(KernelError::Unsupported { family: "cuDNN", reason });
    }
    let engine = Arc::new(engine(graph, index)?);
    let mut choices = Vec::with_capacity(knobs.len());
    for &(kind, value) in knobs {
        let mut choice = Descriptor::new(Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR)?;
        choice.set(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, &[KnobKind(kind)])?;
        choice.set(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, &[value])?;
        choices.push(Arc::new(choice.finish()?));
    }
    let mut config = Descriptor::new(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)?;
    config.set_parts(Name::CUDNN_ATTR_ENGINECFG_ENGINE, &[engine])?;
    if !choices.is_empty() {
        config.set_parts(Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, &choices)?;
    }
    Ok(Arc::new(config.finish()?))
}
