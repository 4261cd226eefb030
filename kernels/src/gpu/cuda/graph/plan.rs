//! Plans: an engine with its knobs, compiled for a device, and run.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::cudnn::sys::{cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind};

use super::super::cudnn::{Cudnn, believable};
use super::super::operands::addresses;
use super::descriptor::{Address, Descriptor};
use super::engines::{configured, finished, notes};
use super::operations::{graph, name};
use crate::error::{KernelError, Result};
use crate::gpu::{ConvProblem, Notes, Operands, Problem, Region, Solver};

/// A finalised plan. It is dropped before the library's handle, to which it is bound.
#[derive(Debug)]
pub(in super::super) struct Planned {
    plan: Descriptor,
    problem: Problem,
    workspace: u64,
    notes: Notes,
    cudnn: Arc<Cudnn>,
}

impl Drop for Planned {
    fn drop(&mut self) {
        // Started work may still run the plan's code.
        self.cudnn.settle();
    }
}

/// Makes a plan of an engine with its knobs, which may come from a record: the library checks them.
///
/// # Errors
///
/// [`KernelError::Unsupported`] where this version cannot solve the problem that way on this device.
pub(in super::super) fn solver(
    cudnn: &Arc<Cudnn>,
    conv: &ConvProblem,
    index: i64,
    knobs: &[(i32, i64)],
) -> Result<Planned> {
    let (plan, workspace, notes) = cudnn.with(|handle| {
        let graph = graph(conv, Some(handle))?;
        let config = configured(&graph, index, knobs).map_err(no_way)?;
        // Where the library reports scratch memory for a configuration, an absurd amount is refused before planning.
        if let Ok(bytes) = config.get_one(Name::CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE) {
            believable(bytes)?;
        }
        let notes = notes_of(&config);
        let plan = finished(config, handle).map_err(no_way)?;
        let workspace = believable(plan.get_one(Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)?)?;
        Ok((plan, workspace, notes))
    })?;
    Ok(Planned { plan, problem: Problem::Conv(*conv), workspace, notes, cudnn: cudnn.clone() })
}

/// The notes of a configuration's engine on its arithmetic; empty where the library does not report any.
fn notes_of(config: &Descriptor) -> Notes {
    let engines = config.get_parts(Name::CUDNN_ATTR_ENGINECFG_ENGINE, Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
    let engine = engines.ok().and_then(|engines| engines.into_iter().next());
    engine.and_then(|engine| notes(&engine).ok()).unwrap_or_default()
}

/// A bad parameter of an engine or a knob means that the choice is of another version.
fn no_way(error: KernelError) -> KernelError {
    match error {
        KernelError::Device { call, reason } if reason.contains("BAD_PARAM") || reason.contains("INVALID_VALUE") => {
            KernelError::Unsupported { family: "cuDNN", reason: format!("{call}: {reason}") }
        }
        other => other,
    }
}

impl Solver for Planned {
    fn workspace(&self) -> u64 {
        self.workspace
    }

    fn notes(&self) -> Notes {
        self.notes
    }

    fn run(&self, operands: &Operands<'_>, workspace: Option<&Region>) -> Result<()> {
        let at = addresses("cuDNN", &self.problem, operands, workspace, self.workspace)?;
        let epilogue = self.problem.epilogue();
        let all = [
            (name::INPUT, at.left, true),
            (name::WEIGHTS, at.right, true),
            (name::BIAS, at.bias, epilogue.bias),
            (name::RESIDUAL, at.residual, epilogue.residual),
            (name::OUTPUT, at.output, true),
        ];
        let there = all.iter().filter(|(_, _, there)| *there);
        let names: Vec<i64> = there.clone().map(|(name, _, _)| *name).collect();
        let memory: Vec<Address> = there.map(|(_, address, _)| Address(*address as *mut c_void)).collect();
        let mut pack = Descriptor::new(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)?;
        pack.set(Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &names)?;
        pack.set(Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, &memory)?;
        pack.set(Name::CUDNN_ATTR_VARIANT_PACK_WORKSPACE, &[Address(at.workspace as *mut c_void)])?;
        let pack = pack.finish()?;
        self.cudnn.with(|handle| {
            // SAFETY: the plan was finished by `solver` and the pack just now. The regions hold the problem's operands
            // (`addresses`), from whose sizes the graph was made, and the scratch memory that the plan needs. `with`
            // gives the handle to this thread alone, with its context bound.
            unsafe { self.plan.execute(handle, &pack) }
        })
    }

    fn size(&self) -> usize {
        // The library does not report the memory of a plan. 2,000 plans of ResNet-50's convolutions took 0.12 MB of the
        // processor's memory each (cuDNN 9.14, docs/gpu.md); PyTorch assumes 200 KiB.
        128 << 10
    }
}
