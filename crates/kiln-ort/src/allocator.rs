//! Entries of allocators and arenas.

use std::ffi::c_int;
use std::sync::Arc;

use crate::env::Env;
use crate::error::{Code, Error, Result, invalid};
use crate::keyvalue::Pairs;
use crate::memory_info::MemoryInfo;
use crate::providers::CPU;
use crate::seam::handle::kind;
use crate::seam::{Allocator, Handle, List, Memory, Out, Text, entry};
use crate::session::Model;

/// Settings of an arena, which have no effect here: tensors have a pool that grows and shrinks by itself.
pub(crate) struct Arena;

kind!(Arena = "OrtArenaCfg");

/// The keys of an arena's settings.
const ARENA: &[&str] = &[
    "max_mem",
    "arena_extend_strategy",
    "initial_chunk_size_bytes",
    "max_dead_bytes_per_chunk",
    "initial_growth_chunk_size_bytes",
    "max_power_of_two_extend_bytes",
];

entry! {
    fn GetAllocatorWithDefaultOptions(out: Out<Allocator>) {
        let out = out.place("out")?;
        out.put(Allocator::default());
        Ok(())
    }

    fn CreateAllocator(session: Handle<Model>, info: Handle<MemoryInfo>, out: Out<Allocator>) {
        let out = out.place("out")?;
        let _ = session.get("session")?;
        let place: Arc<MemoryInfo> = info.get("mem_info")?;
        if !place.is_cpu() {
            return Err(invalid!("No requested allocator available"));
        }
        out.put(Allocator::for_caller(info));
        Ok(())
    }

    fn ReleaseAllocator(allocator: Allocator) -> (), else () => {
        allocator.release();
    }

    fn AllocatorAlloc(allocator: Allocator, bytes: usize, out: Out<Memory>) {
        let out = out.place("out")?;
        out.put(Memory::of(allocator.alloc(bytes, "ort_allocator")?));
        Ok(())
    }

    fn AllocatorFree(allocator: Allocator, memory: Memory) {
        allocator.check("ort_allocator")?;
        if !memory.is_null() {
            allocator.free(memory.raw());
        }
        Ok(())
    }

    fn AllocatorGetInfo(allocator: Allocator, out: Out<Handle<MemoryInfo>>) {
        let out = out.place("out")?;
        out.put(allocator.info("ort_allocator")?);
        Ok(())
    }

    fn AllocatorGetStats(allocator: Allocator, out: Out<Handle<Pairs>>) {
        let out = out.place("out")?;
        let stats = allocator.stats("ort_allocator")?;
        out.put(stats.map_or_else(|| Handle::new(Pairs::default()), Ok)?);
        Ok(())
    }

    fn CreateArenaCfg(_most: usize, _extend: c_int, _first: c_int, _dead: c_int, out: Out<Handle<Arena>>) {
        let out = out.place("out")?;
        out.put(Handle::new(Arena)?);
        Ok(())
    }

    fn CreateArenaCfgV2(keys: List<Text>, values: List<usize>, count: usize, out: Out<Handle<Arena>>) {
        let out = out.place("out")?;
        let keys = keys.read(count, "arena_config_keys")?;
        let _ = values.read(count, "arena_config_values")?;
        for key in keys {
            let key = key.read("arena_config_keys")?;
            if !ARENA.contains(&key.as_str()) {
                return Err(invalid!("Invalid key found: {key}"));
            }
        }
        out.put(Handle::new(Arena)?);
        Ok(())
    }

    fn ReleaseArenaCfg(arena: Handle<Arena>) -> (), else () => {
        drop(arena.release());
    }

    fn CreateAndRegisterAllocator(env: Handle<Env>, info: Handle<MemoryInfo>, arena: Handle<Arena>) {
        let _ = (env.get("env")?, arena.optional("arena_cfg")?);
        only_cpu(&*info.get("mem_info")?)
    }

    fn CreateAndRegisterAllocatorV2(
        env: Handle<Env>,
        provider: Text,
        info: Handle<MemoryInfo>,
        arena: Handle<Arena>,
        _keys: List<Text>,
        _values: List<Text>,
        _count: usize,
    ) {
        let _ = (env.get("env")?, arena.optional("arena_cfg")?);
        let provider = provider.read("provider_type")?;
        if provider != CPU {
            return Err(Error::new(Code::Fail, format!("{provider} is not implemented in CreateAndRegisterAllocatorV2()")));
        }
        only_cpu(&*info.get("mem_info")?)
    }

    fn RegisterAllocator(env: Handle<Env>, allocator: Allocator) {
        let _ = env.get("env")?;
        allocator.check("allocator")
    }

    fn UnregisterAllocator(env: Handle<Env>, info: Handle<MemoryInfo>) {
        let _ = env.get("env")?;
        only_cpu(&*info.get("mem_info")?)
    }

    fn GetSharedAllocator(env: Handle<Env>, info: Handle<MemoryInfo>, out: Out<Allocator>) {
        let out = out.place("allocator")?;
        let _ = env.get("env")?;
        let is_cpu = info.get("mem_info")?.is_cpu();
        out.put(if is_cpu { Allocator::default() } else { Allocator::NULL });
        Ok(())
    }
}

/// Allocators for the processor's memory may be registered, which changes nothing: tensors have a pool of their own.
fn only_cpu(info: &MemoryInfo) -> Result<()> {
    if info.is_cpu() {
        Ok(())
    } else {
        Err(invalid!("Only CPU devices are supported: no allocator for the memory given"))
    }
}
