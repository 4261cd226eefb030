//! A GPU as a [`Device`]: memory, copies, times, and entry points to the compiler and the libraries.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use cudarc::driver::sys::{self, CUresult};

use super::OpenOptions;
use super::context::Context;
use super::cublaslt::Lt;
use super::cudnn::Cudnn;
use super::library::Libraries;
use super::module::CudaModule;
use super::probe::{facts, initialise};
use super::status::check;
use super::{compiler, graph, legacy};
use crate::error::{KernelError, Result};
use crate::gpu::{
    ALIGNMENT, Algorithm, ConvProblem, Device, DeviceFacts, Engine, Heuristic, Module, Policy, Problem, Region, Solver,
    Source,
};

/// Opens a GPU.
///
/// # Errors
///
/// [`KernelError::Device`] where there is no device of that number, or no driver; [`probe`](super::probe()) says more.
pub fn open(ordinal: u32, options: &OpenOptions) -> Result<Arc<dyn Device>> {
    let libraries = Libraries::find(options);
    initialise(&libraries)?;
    let (device, facts) = facts(ordinal, &libraries, options)?;
    let context = Context::open(device)?;
    Ok(Arc::new(CudaDevice { facts, libraries, lt: OnceLock::new(), cudnn: OnceLock::new(), context }))
}

/// Proposals that a policy allows and a request reads: the one that it takes, and runners-up for its record.
const ENOUGH: usize = 4;

/// A library's handle, created at its first use, or the reason why it could not be.
type Started<T> = OnceLock<std::result::Result<Arc<T>, String>>;

/// A GPU with its context, which is dropped last.
#[derive(Debug)]
struct CudaDevice {
    facts: DeviceFacts,
    libraries: Libraries,
    lt: Started<Lt>,
    cudnn: Started<Cudnn>,
    context: Arc<Context>,
}

impl CudaDevice {
    /// cuBLASLt. Creating its handle takes a part of a second, so it is done at the first product.
    fn lt(&self) -> Result<&Arc<Lt>> {
        self.lack("cuBLASLt", &self.libraries.cublaslt)?;
        let start = || Lt::open(&self.context).map_err(|error| error.to_string());
        let started = self.lt.get_or_init(start).as_ref();
        started.map_err(|reason| KernelError::Device { call: "cuBLASLt", reason: reason.clone() })
    }

    /// cuDNN.
    fn cudnn(&self) -> Result<&Arc<Cudnn>> {
        self.lack("cuDNN", &self.libraries.cudnn)?;
        let start = || Cudnn::open(&self.context).map_err(|error| error.to_string());
        let started = self.cudnn.get_or_init(start).as_ref();
        started.map_err(|reason| KernelError::Device { call: "cuDNN", reason: reason.clone() })
    }

    /// Proposals for a convolution: those of the graph interface, then the numbered algorithms, some of which always
    /// compute in strict `f32`. A request asks for the latter only if it may use none of the former. It is an error
    /// only if neither interface has any.
    fn convolutions(&self, conv: &ConvProblem, policy: &Policy, heuristic: Heuristic) -> Result<Vec<Algorithm>> {
        let cudnn = self.cudnn()?;
        let (all, mut allowed) = (heuristic != Heuristic::Quick, 0);
        let mut graph = graph::heuristics(cudnn, conv, heuristic, |one| {
            allowed += usize::from(policy.allows(one).is_ok());
            !all && allowed >= ENOUGH
        });
        if !all && allowed > 0 {
            return graph;
        }
        // The slower mode ranks better and has other proposals; neither list contains the other.
        if heuristic == Heuristic::Thorough
            && let Ok(quick) = graph::heuristics(cudnn, conv, Heuristic::Quick, |_| false)
        {
            let mut all = graph.unwrap_or_default();
            let new: Vec<Algorithm> = quick.into_iter().filter(|one| !all.contains(one)).collect();
            all.extend(new);
            graph = Ok(all);
        }
        match (graph, legacy::heuristics(cudnn, conv, policy)) {
            (Ok(mut found), Ok(more)) => {
                found.extend(more);
                Ok(found)
            }
            (Ok(found), Err(_)) | (Err(_), Ok(found)) => Ok(found),
            (Err(error), Err(_)) => Err(error),
        }
    }

    fn lack(&self, call: &'static str, found: &std::result::Result<super::Found, String>) -> Result<()> {
        found.as_ref().map(|_| ()).map_err(|reason| KernelError::Device { call, reason: reason.clone() })
    }
}

impl Device for CudaDevice {
    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn reserve(&self, bytes: u64) -> Result<u64> {
        self.context.bind()?;
        let mut address = 0;
        // SAFETY: a context is bound, and the driver writes one address.
        let status = unsafe { sys::cuMemAlloc_v2(&raw mut address, bytes.max(1) as usize) };
        if status == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return Err(KernelError::DeviceMemory { need: bytes, room: self.free_bytes()? });
        }
        check("cuMemAlloc", status)?;
        if !address.is_multiple_of(ALIGNMENT) {
            self.release(address);
            return Err(KernelError::Device { call: "cuMemAlloc", reason: format!("{address:#x} is not aligned") });
        }
        Ok(address)
    }

    fn release(&self, address: u64) {
        // Where the driver is unloaded or earlier work has failed, all memory is lost with the context.
        if self.context.synchronise().is_ok() {
            // SAFETY: the address is one that `reserve` gave, and no started work runs any more.
            let _ = unsafe { sys::cuMemFree_v2(address) };
        }
    }

    fn free_bytes(&self) -> Result<u64> {
        self.context.bind()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: a context is bound, and the driver writes two sizes.
        check("cuMemGetInfo", unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) })?;
        Ok(free as u64)
    }

    fn upload(&self, bytes: &[u8], to: &Region) -> Result<()> {
        to.holds("upload", "region", bytes.len() as u64, 1)?;
        if bytes.is_empty() {
            return Ok(());
        }
        let stream = self.context.stream()?;
        // SAFETY: the region holds this many bytes, and is lent to the caller. The copy comes after all started work.
        // The bytes are borrowed until the copy has been waited for, because pinned memory is read after the call
        // returns.
        let status = unsafe { sys::cuMemcpyHtoDAsync_v2(to.address(), bytes.as_ptr().cast(), bytes.len(), stream) };
        let copied = check("cuMemcpyHtoDAsync", status);
        self.context.synchronise()?;
        copied
    }

    fn download(&self, from: &Region, bytes: &mut [u8]) -> Result<()> {
        from.holds("download", "region", bytes.len() as u64, 1)?;
        if bytes.is_empty() {
            return self.context.synchronise();
        }
        let stream = self.context.stream()?;
        // SAFETY: the region holds this many bytes; ours are borrowed until the copy has been waited for.
        let status =
            unsafe { sys::cuMemcpyDtoHAsync_v2(bytes.as_mut_ptr().cast(), from.address(), bytes.len(), stream) };
        let copied = check("cuMemcpyDtoHAsync", status);
        self.context.synchronise()?;
        copied
    }

    fn synchronise(&self) -> Result<()> {
        self.context.synchronise()
    }

    fn time(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<u64> {
        self.context.time(work)
    }

    fn compile(&self, source: &Source) -> Result<Arc<dyn Module>> {
        self.lack("NVRTC", &self.libraries.nvrtc)?;
        let image = compiler::compile(source, self.facts.compute)?;
        Ok(Arc::new(CudaModule::load(&self.context, source, &image)?))
    }

    fn heuristics(&self, problem: &Problem, policy: &Policy, heuristic: Heuristic) -> Result<Vec<Algorithm>> {
        match problem {
            Problem::Conv(conv) => self.convolutions(conv, policy, heuristic),
            Problem::MatMul(product) => self.lt()?.heuristics(product, policy),
        }
    }

    fn solver(&self, problem: &Problem, algorithm: &Algorithm) -> Result<Arc<dyn Solver>> {
        Ok(match (problem, &algorithm.engine) {
            (Problem::Conv(conv), Engine::Graph { index, knobs }) => {
                Arc::new(graph::solver(self.cudnn()?, conv, *index, knobs)?)
            }
            (Problem::Conv(conv), Engine::Legacy { algo, math }) => {
                Arc::new(legacy::solver(self.cudnn()?, conv, *algo, *math)?)
            }
            (Problem::MatMul(product), Engine::Lt { data }) => {
                Arc::new(self.lt()?.solver(product, *data, algorithm.notes)?)
            }
            (_, engine) => {
                let reason = format!("{engine:?} is no way of solving such a problem");
                return Err(KernelError::Unsupported { family: "cuda", reason });
            }
        })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
