//! The last words of a process that dies of a signal. Each test starts this program again, to die in its place.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use kiln_kernels::crash::{trail, watch, within};
use kiln_kernels::{Parallel, Pool};

const SIGILL: i32 = 4;
const SIGABRT: i32 = 6;
const SIGSEGV: i32 = 11;

/// The output of an ignored test of this file, which dies.
fn die(test: &str) -> Output {
    let program = std::env::current_exe().unwrap();
    Command::new(program).args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]).output().unwrap()
}

/// The last line of a process that died of that signal.
fn last_line(output: &Output, signal: i32) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.signal(), Some(signal), "{text}");
    text.lines().find_map(|line| line.strip_prefix("kiln: crashed: ")).unwrap_or_else(|| panic!("{text}")).to_owned()
}

/// Reads an address where no memory is.
fn fault(address: usize) {
    // SAFETY: none: the read ends the process on purpose.
    unsafe { std::ptr::without_provenance::<u8>(address).read_volatile() };
}

#[test]
fn a_fault_names_the_signal_the_address_and_what_was_going_on() {
    assert_eq!(last_line(&die("faults"), SIGSEGV), "SIGSEGV at 0x18, model m, node 'n'");
}

#[test]
#[ignore = "dies; a_fault_names_the_signal_the_address_and_what_was_going_on starts it"]
fn faults() {
    watch().unwrap();
    within(&"model m", || within(&"node 'n'", || fault(0x18)));
}

#[test]
fn a_fault_on_a_thread_of_a_pool_names_what_its_caller_was_doing() {
    assert_eq!(last_line(&die("faults_on_a_worker"), SIGSEGV), "SIGSEGV at 0x28, node 'n'");
}

#[test]
#[ignore = "dies; a_fault_on_a_thread_of_a_pool_names_what_its_caller_was_doing starts it"]
fn faults_on_a_worker() {
    watch().unwrap();
    let pool = Pool::new(2, "faulty").unwrap();
    let caller = std::thread::current().id();
    let (barrier, spare) = (std::sync::Barrier::new(2), "node 'n'");
    within(&spare, || {
        pool.run(2, &|_| {
            barrier.wait();
            if std::thread::current().id() != caller {
                fault(0x28);
            }
            std::thread::sleep(std::time::Duration::from_secs(60));
        });
    });
}

#[test]
fn an_instruction_that_is_none_is_named_without_marks_too() {
    let line = last_line(&die("traps"), SIGILL);
    assert!(line.starts_with("SIGILL at 0x") && !line.contains(','), "{line}");
}

#[test]
#[ignore = "dies; an_instruction_that_is_none_is_named_without_marks_too starts it"]
fn traps() {
    watch().unwrap();
    // SAFETY: none: the instruction ends the process on purpose.
    unsafe { std::arch::asm!("ud2") };
}

#[test]
fn an_abort_is_told_of_and_stays_one() {
    assert_eq!(last_line(&die("aborts"), SIGABRT), "SIGABRT, round 7");
}

#[test]
#[ignore = "dies; an_abort_is_told_of_and_stays_one starts it"]
fn aborts() {
    watch().unwrap();
    within(&format_args!("round {}", 7), || std::process::abort());
}

#[test]
fn an_overflown_stack_is_told_of_once_and_by_the_standard_library_too() {
    let output = die("overflows");
    let line = last_line(&output, SIGABRT);
    assert!(line.starts_with("SIGSEGV at 0x") && line.ends_with(", nesting"), "{line}");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("overflowed its stack"), "{text}");
    assert_eq!(text.matches("kiln: crashed:").count(), 1, "{text}");
}

#[test]
#[ignore = "dies; an_overflown_stack_is_told_of_once_and_by_the_standard_library_too starts it"]
fn overflows() {
    #[inline(never)]
    fn nest(depth: u64) -> u64 {
        let room = std::hint::black_box([depth; 64]);
        if depth == u64::MAX { room[0] } else { nest(depth + 1) + room[63] }
    }
    watch().unwrap();
    within(&"nesting", || assert_ne!(nest(0), 0));
}

#[test]
fn a_mark_that_cannot_be_read_leaves_what_was_said_before_it() {
    let output = die("breaks_a_mark");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(SIGSEGV), "{text}");
    assert!(text.contains("kiln: crashed: SIGSEGV at 0x18, model m"), "{text}");
}

#[test]
#[ignore = "dies; a_mark_that_cannot_be_read_leaves_what_was_said_before_it starts it"]
fn breaks_a_mark() {
    struct Broken;
    impl std::fmt::Display for Broken {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            fault(0x38);
            Ok(())
        }
    }
    watch().unwrap();
    within(&"model m", || within(&Broken, || fault(0x18)));
}

#[test]
fn what_does_not_crash_says_nothing() {
    let output = die("lives");
    assert!(output.status.success());
    assert!(!String::from_utf8_lossy(&output.stderr).contains("crashed"));
}

#[test]
#[ignore = "what_does_not_crash_says_nothing starts it"]
fn lives() {
    watch().unwrap();
    watch().unwrap();
    within(&"model m", || assert_eq!(trail(), "model m"));
}
