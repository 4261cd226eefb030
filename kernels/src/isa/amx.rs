//! Whether this process may use the tile registers of AMX. They are 8 KiB a thread, so Linux saves them only for
//! processes that request it.

/// Whether the processor multiplies tiles of `bf16` and of bytes, and the operating system permits this process to.
/// Requested once; the permission holds for all threads.
pub(super) fn permitted() -> bool {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    {
        use std::sync::OnceLock;
        static PERMITTED: OnceLock<bool> = OnceLock::new();
        PERMITTED.get().copied().unwrap_or_else(|| {
            let _stay = crate::fork::stay();
            *PERMITTED.get_or_init(|| processor_has_them() && ask())
        })
    }
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    false
}

/// AMX-BF16, AMX-TILE and AMX-INT8: bits 22, 24 and 25 of EDX of CPUID leaf 7.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn processor_has_them() -> bool {
    const BITS: u32 = 1 << 22 | 1 << 24 | 1 << 25;
    std::arch::x86_64::__cpuid(0).eax >= 7 && std::arch::x86_64::__cpuid_count(7, 0).edx & BITS == BITS
}

/// Requests from Linux (5.16 and newer) the state of tiles, component 18 of XSAVE; other systems refuse the request.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn ask() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_ulong = 0x1023;
    const TILE_DATA: libc::c_ulong = 18;
    // SAFETY: this request takes two numbers and no memory.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0 }
}
