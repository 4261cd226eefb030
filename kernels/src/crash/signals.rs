//! The last line of a process that a signal kills: the signal, the address, and the thread's marks.
//!
//! The handler does only what handlers may do: it reads the marks, formats into memory on its own stack and calls
//! `write`. Then the signal acts as it would have without the handler, so that a waiting parent sees the same exit
//! status: a fault happens again under the previous handler (the standard library's reports stack overflows), and a
//! signal that was sent is sent again.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::fmt::{self, Write};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use libc::{c_int, siginfo_t};

use super::{SEPARATOR, each_mark};

/// Signals of faults and aborts.
const SIGNALS: [(c_int, &str); 5] = [
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGABRT, "SIGABRT"),
];

/// Bytes of the handler's stack on each thread. The standard library's is only as large as the processor's registers,
/// which with tile registers leaves no room to format.
const STACK: usize = 128 << 10;

/// Longest text of one mark.
const TEXT: usize = 2048;

/// The previous handlers, in the order of [`SIGNALS`].
static BEFORE: OnceLock<[libc::sigaction; SIGNALS.len()]> = OnceLock::new();

static WATCHED: AtomicBool = AtomicBool::new(false);

/// The thread that writes the line; 0 before.
static TELLER: AtomicI32 = AtomicI32::new(0);

/// Whether this process writes such lines.
#[inline]
pub fn is_watched() -> bool {
    WATCHED.load(Ordering::Relaxed)
}

/// From now on this process writes to standard error the signal that killed it and the thread's current work: `kiln:
/// crashed: SIGSEGV at 0x10, model m.onnx, node 'conv' (Conv), ...`. For programs; a library leaves signals to its
/// program.
///
/// # Errors
///
/// The error of the operating system; then nothing has changed.
pub fn watch() -> io::Result<()> {
    if BEFORE.get().is_some() {
        return Ok(());
    }
    let mut before = [MaybeUninit::<libc::sigaction>::zeroed(); SIGNALS.len()];
    for (place, (signal, _)) in before.iter_mut().zip(SIGNALS) {
        // SAFETY: only reads the action, and `place` is large enough.
        let status = unsafe { libc::sigaction(signal, ptr::null(), place.as_mut_ptr()) };
        if status != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // SAFETY: each was written above; all zeros were valid before.
    let before = before.map(|action| unsafe { action.assume_init() });
    if BEFORE.set(before).is_err() {
        return Ok(());
    }
    // SAFETY: all zeros are a valid `sigaction`, and its fields follow.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = tell as extern "C" fn(c_int, *mut siginfo_t, *mut c_void) as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    for (signal, _) in SIGNALS {
        // SAFETY: the handler does only what signal handlers may, and lives as long as the process.
        unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
    }
    WATCHED.store(true, Ordering::Relaxed);
    prepare_thread();
    Ok(())
}

thread_local! {
    /// Whether this thread has a stack for the handler.
    static HAS_STACK: Cell<bool> = const { Cell::new(false) };
    static OWN_STACK: RefCell<Option<HandlerStack>> = const { RefCell::new(None) };
}

/// Gives this thread a stack for the handler, once, where crashes are reported.
#[inline]
pub(super) fn prepare_thread() {
    if is_watched() && !HAS_STACK.get() {
        HAS_STACK.set(true);
        // Without one, as on a thread that ends, the handler runs on the standard library's.
        let _ = OWN_STACK.try_with(|own| *own.borrow_mut() = HandlerStack::install());
    }
}

/// The stack of the handler, which faults of the thread do not touch.
struct HandlerStack {
    memory: *mut u8,
}

impl HandlerStack {
    #[cold]
    fn install() -> Option<HandlerStack> {
        let memory = Box::into_raw(vec![0_u8; STACK].into_boxed_slice()).cast::<u8>();
        let stack = libc::stack_t { ss_sp: memory.cast(), ss_flags: 0, ss_size: STACK };
        let own = HandlerStack { memory };
        // SAFETY: the memory is this thread's alone until `drop` has taken the stack away again.
        let status = unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) };
        (status == 0).then_some(own)
    }
}

impl Drop for HandlerStack {
    fn drop(&mut self) {
        let none = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: STACK };
        // SAFETY: afterwards no handler runs on the memory, which came from a box of this length.
        unsafe {
            if libc::sigaltstack(&raw const none, ptr::null_mut()) == 0 {
                drop(Box::from_raw(ptr::slice_from_raw_parts_mut(self.memory, STACK)));
            }
        }
    }
}

/// The handler.
extern "C" fn tell(signal: c_int, info: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: only returns a number.
    let own = unsafe { libc::syscall(libc::SYS_gettid) } as i32;
    match TELLER.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => write_report(signal, info),
        // For example the abort that follows a stack overflow.
        Err(teller) if teller == own => {}
        // Another thread writes its line, and then the process ends.
        Err(_) => loop {
            // SAFETY: only waits for signals.
            unsafe { libc::pause() };
        },
    }
    // SAFETY: the system gives a valid one to handlers that were set with `SA_SIGINFO`.
    let is_fault = unsafe { (*info).si_code } > 0;
    let before = SIGNALS.iter().position(|(known, _)| *known == signal).zip(BEFORE.get());
    // SAFETY: `sigaction`, `raise` and zeros as the default action are allowed in handlers.
    unsafe {
        match before.filter(|_| is_fault) {
            // The instruction faults again, under the previous handler.
            Some((place, before)) => {
                libc::sigaction(signal, &raw const before[place], ptr::null_mut());
            }
            None => {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &raw const action, ptr::null_mut());
                libc::raise(signal);
            }
        }
    }
}

fn write_report(signal: c_int, info: *const siginfo_t) {
    // Written piece by piece: if a mark cannot be read because memory is corrupt, the pieces before it have been
    // written.
    let mut line = Line { bytes: [0; TEXT], used: 0 };
    let name = SIGNALS.iter().find(|(known, _)| *known == signal).map_or("a signal", |(_, name)| name);
    // Text that does not fit is left out.
    let _ = write!(line, "kiln: crashed: {name}");
    // SAFETY: the system gives a valid one, and faults have an address.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr()) };
    if code > 0 {
        let _ = write!(line, " at {address:p}");
    }
    line.flush();
    let _ = each_mark(&mut |what| {
        let _ = write!(line, "{SEPARATOR}{what}");
        line.flush();
        Ok(())
    });
    let _ = line.write_str("\n");
    line.write_out();
}

/// A piece of the line.
struct Line {
    bytes: [u8; TEXT],
    used: usize,
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = TEXT - self.used;
        let fits = &text.as_bytes()[..text.len().min(room)];
        self.bytes[self.used..self.used + fits.len()].copy_from_slice(fits);
        self.used += fits.len();
        if fits.len() < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

impl Line {
    /// Writes the bytes so far, as a part of one line.
    fn flush(&mut self) {
        self.bytes[..self.used].iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
        self.write_out();
    }

    fn write_out(&mut self) {
        let mut rest = &self.bytes[..self.used];
        while !rest.is_empty() {
            // SAFETY: the bytes are initialised.
            let written = unsafe { libc::write(libc::STDERR_FILENO, rest.as_ptr().cast(), rest.len()) };
            // Standard error is closed.
            let Some(after) = usize::try_from(written).ok().filter(|count| *count > 0) else { break };
            rest = &rest[after..];
        }
        self.used = 0;
    }
}
