//! The memory of this process as the operating system counts it; 0 if the system does not say.

/// Megabytes (10^6 bytes) resident now.
pub(crate) fn resident_mb() -> f64 {
    status_mb("VmRSS:")
}

/// Megabytes that were resident at the highest moment so far.
pub(crate) fn peak_mb() -> f64 {
    status_mb("VmHWM:")
}

fn status_mb(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib: Option<f64> = status
        .lines()
        .find_map(|line| line.strip_prefix(field))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse().ok());
    kib.unwrap_or(0.0) * 1024.0 / 1e6
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_touched_is_counted() {
        let before = resident_mb();
        let block = vec![1u8; 64 << 20];
        let after = resident_mb();
        assert!(after > before + 50.0, "{before} MB became {after} MB");
        assert!(peak_mb() + 1.0 > after);
        drop(std::hint::black_box(block));
    }
}
