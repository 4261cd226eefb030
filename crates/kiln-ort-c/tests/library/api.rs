//! A library that has onnxruntime's table of functions, opened by its path, and calls through the table.
//!
//! Arguments are words: every entry takes only pointers and integers, which are passed as words on 64-bit machines. So
//! a test can pass values that a typed call cannot: numbers outside of enumerations, and dangling pointers. The places
//! of entries in the table are those of `ort-sys`.

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;

/// Entries of the table at version 31.
pub(crate) const ENTRIES: usize = size_of::<ort_sys::OrtApi>() / size_of::<usize>();

/// The table of a library that stays open to the end of the process.
#[derive(Clone, Copy)]
pub(crate) struct Api {
    table: &'static [usize; ENTRIES],
    pub(crate) version: &'static CStr,
    /// `OrtApiBase::GetApi`.
    pub(crate) get: unsafe extern "system" fn(u32) -> *const ort_sys::OrtApi,
}

/// Values that can be arguments.
pub(crate) trait Word {
    fn word(self) -> usize;
}

macro_rules! words {
    ($($kind:ty => |$value:ident| $word:expr;)+) => {
        $(impl Word for $kind {
            fn word(self) -> usize {
                let $value = self;
                $word
            }
        })+
    };
}

words! {
    usize => |value| value;
    i32 => |value| value as isize as usize;
    i64 => |value| value as usize;
    &CStr => |value| value.as_ptr().expose_provenance();
    &CString => |value| value.as_ptr().expose_provenance();
}

impl<T> Word for *const T {
    fn word(self) -> usize {
        self.expose_provenance()
    }
}

impl<T> Word for *mut T {
    fn word(self) -> usize {
        self.expose_provenance()
    }
}

impl<T> Word for &mut T {
    fn word(self) -> usize {
        (&raw mut *self).expose_provenance()
    }
}

impl<T> Word for &[T] {
    fn word(self) -> usize {
        self.as_ptr().expose_provenance()
    }
}

/// Calls an entry by its name: `call!(api, GetValueCount, value, &mut count)`.
macro_rules! call {
    ($api:expr, $name:ident $(, $argument:expr)* $(,)?) => {
        $api.call(
            std::mem::offset_of!(ort_sys::OrtApi, $name) / size_of::<usize>(),
            &[$($crate::api::Word::word($argument)),*],
        )
    };
}
pub(crate) use call;

impl Api {
    /// Opens a library. It is never closed.
    pub(crate) fn open(path: &Path) -> Api {
        // SAFETY: the library is onnxruntime or Kiln's: loading it touches no memory of the test.
        let library = unsafe { libloading::Library::new(path) };
        let library = library.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        // SAFETY: the export has this type in every version.
        let base =
            unsafe { library.get::<unsafe extern "system" fn() -> *const ort_sys::OrtApiBase>(b"OrtGetApiBase\0") };
        // SAFETY: the function takes nothing and gives a static.
        let base = unsafe { &*base.unwrap()() };
        // Dropping it would close it.
        std::mem::forget(library);
        // SAFETY: both functions take what they are given and give statics.
        let (table, version) = unsafe { ((base.GetApi)(31), CStr::from_ptr((base.GetVersionString)())) };
        assert!(!table.is_null(), "{} has no version 31", path.display());
        // SAFETY: the table is a static of as many pointers.
        Api { table: unsafe { &*table.cast() }, version, get: base.GetApi }
    }

    /// Calls entry number `entry` with these words.
    pub(crate) fn call(self, entry: usize, words: &[usize]) -> usize {
        macro_rules! calls {
            ($($count:literal: $($place:literal)*;)+) => {
                match words.len() {
                    $($count => {
                        type Function = extern "C" fn($(calls!(@word $place)),*) -> usize;
                        // SAFETY: all pointers of the table are functions.
                        let function = unsafe { std::mem::transmute::<usize, Function>(self.table[entry]) };
                        function($(words[$place]),*)
                    })+
                    count => panic!("no entry has {count} arguments"),
                }
            };
            (@word $place:literal) => { usize };
        }
        calls! {
            0: ;
            1: 0;
            2: 0 1;
            3: 0 1 2;
            4: 0 1 2 3;
            5: 0 1 2 3 4;
            6: 0 1 2 3 4 5;
            7: 0 1 2 3 4 5 6;
            8: 0 1 2 3 4 5 6 7;
            9: 0 1 2 3 4 5 6 7 8;
            10: 0 1 2 3 4 5 6 7 8 9;
            11: 0 1 2 3 4 5 6 7 8 9 10;
            12: 0 1 2 3 4 5 6 7 8 9 10 11;
        }
    }

    /// The addresses of all entries.
    pub(crate) fn entries(self) -> &'static [usize; ENTRIES] {
        self.table
    }

    /// Releases a status; returns its code and message, `None` for success.
    pub(crate) fn taken(self, status: usize) -> Option<(i32, String)> {
        if status == 0 {
            return None;
        }
        let code = call!(self, GetErrorCode, status) as i32;
        let message = text(call!(self, GetErrorMessage, status));
        call!(self, ReleaseStatus, status);
        Some((code, message))
    }

    /// "ok", or the code of a status with the words that its message must have.
    pub(crate) fn says(self, status: usize, words: &str) -> String {
        match self.taken(status) {
            None => "ok".to_owned(),
            Some((code, message)) if message.contains(words) => format!("{code} says '{words}'"),
            Some((code, message)) => format!("{code} says something else than '{words}': {message}"),
        }
    }

    /// Success, or a panic with the message.
    #[track_caller]
    pub(crate) fn ok(self, status: usize) {
        if let Some((code, message)) = self.taken(status) {
            panic!("{code}: {message}");
        }
    }

    /// The default allocator.
    pub(crate) fn allocator(self) -> usize {
        let mut allocator = 0usize;
        self.ok(call!(self, GetAllocatorWithDefaultOptions, &mut allocator));
        allocator
    }

    /// A text that came from the default allocator, which gets it back; "null" for none.
    pub(crate) fn owned_text(self, address: usize) -> String {
        if address == 0 {
            return "null".to_owned();
        }
        let read = text(address);
        self.ok(call!(self, AllocatorFree, self.allocator(), address));
        read
    }

    /// An environment, which the caller releases.
    pub(crate) fn environment(self) -> usize {
        let mut environment = 0usize;
        self.ok(call!(self, CreateEnv, 4, c"test", &mut environment));
        environment
    }

    /// Options of one thread, which the caller releases.
    pub(crate) fn options(self) -> usize {
        let mut options = 0usize;
        self.ok(call!(self, CreateSessionOptions, &mut options));
        self.ok(call!(self, SetIntraOpNumThreads, options, 1));
        options
    }

    /// A session of a model with options of one thread.
    pub(crate) fn session(self, environment: usize, model: &[u8]) -> usize {
        let (options, mut session) = (self.options(), 0usize);
        self.ok(call!(self, CreateSessionFromArray, environment, model, model.len(), options, &mut session));
        call!(self, ReleaseSessionOptions, options);
        session
    }

    /// A tensor over the caller's elements; `element` is a number of `ONNXTensorElementDataType`.
    pub(crate) fn tensor<T>(self, elements: &mut [T], dims: &[i64], element: i32) -> usize {
        let (mut info, mut value) = (0usize, 0usize);
        self.ok(call!(self, CreateCpuMemoryInfo, 0, 0, &mut info));
        let (data, bytes) = (elements.as_mut_ptr(), size_of_val(elements));
        self.ok(call!(self, CreateTensorWithDataAsOrtValue, info, data, bytes, dims, dims.len(), element, &mut value));
        call!(self, ReleaseMemoryInfo, info);
        value
    }

    /// Runs a session; the status.
    pub(crate) fn run(
        self,
        session: usize,
        options: usize,
        inputs: &[(&CStr, usize)],
        names: &[&CStr],
        outputs: &mut [usize],
    ) -> usize {
        let given: Vec<usize> = inputs.iter().map(|(name, _)| Word::word(*name)).collect();
        let values: Vec<usize> = inputs.iter().map(|(_, value)| *value).collect();
        let asked: Vec<usize> = names.iter().map(|name| Word::word(*name)).collect();
        let (count, room) = (outputs.len(), outputs.as_mut_ptr());
        call!(self, Run, session, options, &given[..], &values[..], given.len(), &asked[..], count, room)
    }

    /// The bytes of a tensor of numbers.
    pub(crate) fn bytes(self, value: usize) -> Vec<u8> {
        let (mut data, mut size) = (0usize, 0usize);
        self.ok(call!(self, GetTensorMutableData, value, &mut data));
        self.ok(call!(self, GetTensorSizeInBytes, value, &mut size));
        if size == 0 {
            return Vec::new();
        }
        // SAFETY: the value has as many bytes there.
        unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance::<u8>(data), size) }.to_vec()
    }

    /// A tensor's floats.
    pub(crate) fn floats(self, value: usize) -> Vec<f32> {
        let bytes = self.bytes(value);
        bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    }

    /// A tensor's sizes.
    pub(crate) fn dims(self, value: usize) -> Vec<i64> {
        let (mut info, mut rank) = (0usize, 0usize);
        self.ok(call!(self, GetTensorTypeAndShape, value, &mut info));
        self.ok(call!(self, GetDimensionsCount, info, &mut rank));
        let mut dims = vec![0i64; rank];
        self.ok(call!(self, GetDimensions, info, dims.as_mut_ptr(), rank));
        call!(self, ReleaseTensorTypeAndShapeInfo, info);
        dims
    }
}

/// The text at an address; "null" for none.
pub(crate) fn text(address: usize) -> String {
    if address == 0 {
        return "null".to_owned();
    }
    // SAFETY: callers have it from a library, which ends its texts with a zero.
    unsafe { CStr::from_ptr(std::ptr::with_exposed_provenance::<c_char>(address)) }.to_string_lossy().into_owned()
}

/// The words at an address.
pub(crate) fn list(address: usize, count: usize) -> Vec<usize> {
    if count == 0 {
        return Vec::new();
    }
    // SAFETY: callers have it from a library, with the count.
    unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance::<usize>(address), count) }.to_vec()
}

/// An allocator of the test's own, which counts its blocks that are not freed.
pub(crate) mod counting {
    use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

    use super::c_void;

    /// Blocks that are not freed, and all blocks so far.
    pub(crate) static BALANCE: AtomicI64 = AtomicI64::new(0);
    pub(crate) static GIVEN: AtomicI64 = AtomicI64::new(0);
    static INFO: AtomicUsize = AtomicUsize::new(0);

    /// Bytes before each block, which keep its size.
    const HEAD: usize = 64;

    fn layout(size: usize) -> std::alloc::Layout {
        std::alloc::Layout::from_size_align(size + HEAD, HEAD).unwrap()
    }

    unsafe extern "system" fn alloc(_own: *mut ort_sys::OrtAllocator, size: usize) -> *mut c_void {
        BALANCE.fetch_add(1, Ordering::Relaxed);
        GIVEN.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the layout is not empty, and the head has room for the size.
        unsafe {
            let start = std::alloc::alloc(layout(size));
            start.cast::<usize>().write(size);
            start.add(HEAD).cast()
        }
    }

    unsafe extern "system" fn free(_own: *mut ort_sys::OrtAllocator, block: *mut c_void) {
        if block.is_null() {
            return;
        }
        BALANCE.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: the block is one of `alloc`'s, whose size stands before it.
        unsafe {
            let start = block.cast::<u8>().sub(HEAD);
            let size = start.cast::<usize>().read();
            std::alloc::dealloc(start, layout(size));
        }
    }

    unsafe extern "system" fn info(_own: *const ort_sys::OrtAllocator) -> *const ort_sys::OrtMemoryInfo {
        std::ptr::with_exposed_provenance(INFO.load(Ordering::Relaxed))
    }

    /// The allocator of memory of kind `memory_info`.
    pub(crate) fn allocator(memory_info: usize) -> ort_sys::OrtAllocator {
        INFO.store(memory_info, Ordering::Relaxed);
        // SAFETY: the default has no functions yet.
        let none = unsafe { ort_sys::OrtAllocator::default() };
        // It knows version 17, which has three functions.
        ort_sys::OrtAllocator { version: 17, Alloc: Some(alloc), Free: Some(free), Info: Some(info), ..none }
    }
}
