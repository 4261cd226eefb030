//! Values: tensors of every type, texts, sequences, maps, optional values, and their memory.

use std::sync::atomic::Ordering;

use kiln::{DType, Dim};

use crate::api::{Api, call, counting, list, text};
use crate::models;
use crate::notes::Notes;
use crate::sessions::described;

pub(crate) fn note(api: Api, notes: &mut Notes) {
    let environment = api.environment();
    element_types(api, environment, notes);
    shapes(api, environment, notes);
    texts(api, environment, notes);
    text_bytes(api, environment, notes);
    sequences(api, environment, notes);
    maps(api, environment, notes);
    memory(api, environment, notes);
    allocators(api, environment, notes);
    infos(api, notes);
    call!(api, ReleaseEnv, environment);
}

/// Each element type, its number in C and the bytes of four elements.
const TYPES: &[(DType, i32, usize)] = &[
    (DType::F32, 1, 16),
    (DType::U8, 2, 4),
    (DType::I8, 3, 4),
    (DType::U16, 4, 8),
    (DType::I16, 5, 8),
    (DType::I32, 6, 16),
    (DType::I64, 7, 32),
    (DType::Bool, 9, 4),
    (DType::F16, 10, 8),
    (DType::F64, 11, 32),
    (DType::U32, 12, 16),
    (DType::U64, 13, 32),
    (DType::BF16, 16, 8),
    (DType::F8E4M3, 17, 4),
    (DType::F8E4M3Fnuz, 18, 4),
    (DType::F8E5M2, 19, 4),
    (DType::F8E5M2Fnuz, 20, 4),
    (DType::U4, 21, 2),
    (DType::I4, 22, 2),
    (DType::F4E2M1, 23, 2),
    (DType::U2, 24, 1),
    (DType::I2, 25, 1),
    (DType::F8E8M0, 26, 4),
];

fn element_types(api: Api, environment: usize, notes: &mut Notes) {
    for &(dtype, number, bytes) in TYPES {
        let name = dtype.name();
        let mut data: Vec<u8> =
            (0..bytes as u8).map(|at| if dtype == DType::Bool { at % 2 } else { at.wrapping_mul(37) + 1 }).collect();
        let kept = data.clone();
        let (mut info, mut value) = (0usize, 0usize);
        api.ok(call!(api, CreateCpuMemoryInfo, 0, 0, &mut info));
        let (start, dims) = (data.as_mut_ptr(), [4i64]);
        let status =
            call!(api, CreateTensorWithDataAsOrtValue, info, start, bytes, &dims[..], 1usize, number, &mut value);
        call!(api, ReleaseMemoryInfo, info);
        notes.note(&format!("{name} as a tensor"), api.says(status, "not supported"));
        if value == 0 {
            continue;
        }
        let mut size = 0usize;
        api.ok(call!(api, GetTensorSizeInBytes, value, &mut size));
        notes.note(&format!("{name} bytes of four"), size);
        let model = models::identity(dtype, &[Dim::from(4)]);
        let (mut session, options) = (0usize, api.options());
        let status = call!(api, CreateSessionFromArray, environment, &model[..], model.len(), options, &mut session);
        let mut outcome = api.taken(status).map_or_else(String::new, |(code, _)| format!("no session, {code}"));
        call!(api, ReleaseSessionOptions, options);
        if session != 0 {
            let mut outputs = [0usize];
            let status = api.run(session, 0, &[(c"x", value)], &[c"y"], &mut outputs);
            let same = status == 0 && api.bytes(outputs[0]) == kept;
            outcome = format!("{}, the same bytes {same}", api.says(status, ""));
            call!(api, ReleaseValue, outputs[0]);
        }
        notes.note(&format!("{name} through Identity"), outcome);
        call!(api, ReleaseSession, session);
        call!(api, ReleaseValue, value);
    }
    let mut value = 0usize;
    let mut create = |number: i32| {
        let dims = [1i64];
        call!(api, CreateTensorAsOrtValue, api.allocator(), &dims[..], 1usize, number, &mut value)
    };
    for number in [0, 14, 15, 27, 99, -1] {
        let outcome = api.says(create(number), "");
        notes.note(&format!("element type {number}"), outcome.split(' ').next().unwrap());
    }
}

fn shapes(api: Api, environment: usize, notes: &mut Notes) {
    let session = api.session(environment, &models::rankless());
    let mut data = [1f32; 24];
    for dims in [&[][..], &[0], &[2, 0, 3], &[1, 1, 1, 1, 1, 1], &[2, 3, 4]] {
        let x = api.tensor(&mut data[..], dims, 1);
        let mut outputs = [0usize];
        let status = api.run(session, 0, &[(c"x", x)], &[c"y"], &mut outputs);
        notes.note(&format!("a tensor of {dims:?}"), {
            let mut size = 9usize;
            api.ok(call!(api, GetTensorSizeInBytes, outputs[0], &mut size));
            format!("{} {:?} {size}", api.says(status, ""), api.dims(outputs[0]))
        });
        let (mut element, mut place, mut rank) = (0i32, 9usize, 9usize);
        let status = call!(api, GetTensorElementTypeAndShapeDataReference, x, &mut element, &mut place, &mut rank);
        notes.note(
            &format!("its shape of {dims:?} where it lies"),
            format!("{} {element} {:?}", api.says(status, ""), list(place, rank)),
        );
        call!(api, ReleaseValue, outputs[0]);
        call!(api, ReleaseValue, x);
    }
    call!(api, ReleaseSession, session);
    let mut info = 0usize;
    api.ok(call!(api, CreateCpuMemoryInfo, 0, 0, &mut info));
    for (what, dims, bytes, words) in [
        ("a negative size", &[2i64, -1][..], 96, "tried creating tensor with negative value in shape"),
        ("memory that is too short", &[5, 5], 96, "not enough space: expected 100, got 96"),
        ("memory that is longer", &[2, 2], 96, ""),
        ("a shape that overflows", &[i64::MAX, 2], 96, "verflow"),
    ] {
        let (start, rank) = (data.as_mut_ptr(), dims.len());
        let mut value = 0usize;
        let status = call!(api, CreateTensorWithDataAsOrtValue, info, start, bytes as usize, dims, rank, 1, &mut value);
        notes.note(what, api.says(status, words));
        call!(api, ReleaseValue, value);
    }
    call!(api, ReleaseMemoryInfo, info);
    let x = api.tensor(&mut data[..], &[2, 3], 1);
    let (mut at, mut start) = (0usize, 0usize);
    api.ok(call!(api, GetTensorMutableData, x, &mut start));
    let mut element = |place: &[i64]| {
        let status = call!(api, TensorAt, x, place, place.len(), &mut at);
        let code = api.taken(status).map_or(0, |(code, _)| code);
        format!("{code} {}", if code == 0 { at - start } else { 0 })
    };
    notes.note("places of elements", [&[1, 2][..], &[0, 0], &[2, 0], &[0, -1], &[1]].map(&mut element).join(", "));
    let mut kind = [9i32; 3];
    api.ok(call!(api, IsTensor, x, &mut kind[0]));
    api.ok(call!(api, HasValue, x, &mut kind[1]));
    api.ok(call!(api, GetValueType, x, &mut kind[2]));
    notes.note("a tensor is a tensor, has a value, is of kind", format!("{kind:?}"));
    let mut count = 9usize;
    notes.note("parts of a tensor", api.says(call!(api, GetValueCount, x, &mut count), "not of type sequence or map"));
    notes.note("texts of numbers", api.taken(call!(api, GetStringTensorDataLength, x, &mut count)).is_some());
    call!(api, ReleaseValue, x);
    call!(api, ReleaseValue, 0usize);
}

/// A tensor of texts.
fn strings(api: Api, dims: &[i64]) -> usize {
    let mut value = 0usize;
    api.ok(call!(api, CreateTensorAsOrtValue, api.allocator(), dims, dims.len(), 8, &mut value));
    value
}

/// The texts of a tensor as bytes, by the content and its offsets.
fn content(api: Api, value: usize, count: usize) -> String {
    let (mut length, mut offsets) = (0usize, vec![0usize; count]);
    api.ok(call!(api, GetStringTensorDataLength, value, &mut length));
    let mut bytes = vec![0u8; length];
    let status = call!(api, GetStringTensorContent, value, bytes.as_mut_ptr(), length, offsets.as_mut_ptr(), count);
    format!("{} {:?} {offsets:?}", api.says(status, ""), String::from_utf8_lossy(&bytes))
}

fn texts(api: Api, environment: usize, notes: &mut Notes) {
    let value = strings(api, &[3]);
    notes.note("texts that were not written", content(api, value, 3));
    let given = [c"one", c"", c"drei"].map(std::ffi::CStr::as_ptr);
    notes.note("three texts", api.says(call!(api, FillStringTensor, value, &given[..], 3usize), ""));
    notes.note(
        "two for three",
        api.says(call!(api, FillStringTensor, value, &given[..], 2usize), "doesn't equal tensor size"),
    );
    notes.note("their content", content(api, value, 3));
    let (mut bytes, mut offsets, mut length) = ([0u8; 16], [0usize; 4], 0usize);
    let room = bytes.as_mut_ptr();
    let status = call!(api, GetStringTensorContent, value, room, 16usize, offsets.as_mut_ptr(), 2usize);
    notes.note("content with too few offsets", api.says(status, "offsets buffer is not equal to tensor size"));
    let status = call!(api, GetStringTensorContent, value, room, 5usize, offsets.as_mut_ptr(), 3usize);
    notes.note("content in too little room", api.says(status, "output buffer is too small"));
    api.ok(call!(api, GetStringTensorElementLength, value, 2usize, &mut length));
    notes.note("length of the third", length);
    notes.note("the third", api.says(call!(api, GetStringTensorElement, value, 4usize, 2usize, room), ""));
    notes.note("its bytes", format!("{:?}", &bytes[..5]));
    notes.note(
        "the third in too little room",
        api.says(call!(api, GetStringTensorElement, value, 3usize, 2usize, room), "buffer size is too small"),
    );
    notes.note(
        "the fourth of three",
        api.says(call!(api, GetStringTensorElementLength, value, 3usize, &mut length), "out of bounds"),
    );
    notes.note("a text for one", api.says(call!(api, FillStringTensorElement, value, c"zwei", 1usize), ""));
    notes.note(
        "a text beyond the last",
        api.says(call!(api, FillStringTensorElement, value, c"x", 3usize), "out of bounds"),
    );
    let session = api.session(environment, &models::identity(DType::String, &[Dim::from("n")]));
    let mut outputs = [0usize];
    let status = api.run(session, 0, &[(c"x", value)], &[c"y"], &mut outputs);
    notes.note("texts through Identity", format!("{} {}", api.says(status, ""), content(api, outputs[0], 3)));
    call!(api, ReleaseValue, outputs[0]);
    call!(api, ReleaseValue, value);
    call!(api, ReleaseSession, session);
    let empty = strings(api, &[0]);
    notes.note("no texts", content(api, empty, 0));
    call!(api, ReleaseValue, empty);
}

fn text_bytes(api: Api, environment: usize, notes: &mut Notes) {
    let session = api.session(environment, &models::identity(DType::String, &[Dim::from("n")]));
    for (what, bytes) in [("a text with a zero", &b"a\0b"[..]), ("a text that is not UTF-8", b"a\xffb")] {
        let (value, mut place, mut length) = (strings(api, &[1]), 0usize, 0usize);
        api.ok(call!(api, GetResizedStringTensorElementBuffer, value, 0usize, bytes.len(), &mut place));
        // SAFETY: the entry gave as many bytes to write.
        unsafe {
            std::ptr::with_exposed_provenance_mut::<u8>(place).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
        };
        api.ok(call!(api, GetStringTensorElementLength, value, 0usize, &mut length));
        notes.note(what, length);
        let (mut outputs, mut read) = ([0usize], [0u8; 3]);
        let status = api.run(session, 0, &[(c"x", value)], &[c"y"], &mut outputs);
        let said = api.says(status, "not UTF-8");
        if outputs[0] != 0 {
            api.ok(call!(api, GetStringTensorElement, outputs[0], 3usize, 0usize, read.as_mut_ptr()));
        }
        notes.note(&format!("{what} through Identity"), format!("{said} {}", read == bytes));
        call!(api, ReleaseValue, outputs[0]);
        call!(api, ReleaseValue, value);
    }
    call!(api, ReleaseSession, session);
}

fn sequences(api: Api, environment: usize, notes: &mut Notes) {
    let (mut one, mut two) = ([1f32, 2.0], [3i64]);
    let (one, two) = (api.tensor(&mut one, &[2], 1), api.tensor(&mut two, &[1], 7));
    let mut value = 0usize;
    let mut create = |parts: &[usize], kind: i32| {
        value = 0;
        let status = call!(api, CreateValue, parts, parts.len(), kind, &mut value);
        (status, value)
    };
    notes.note("an empty sequence", api.says(create(&[], 2).0, "at least 1"));
    notes.note("a sequence of two types", api.taken(create(&[one, two], 2).0).map_or(0, |(code, _)| code));
    notes.note("a tensor as a value of parts", api.taken(create(&[one], 1).0).map_or(0, |(code, _)| code));
    let (status, pair) = create(&[one, one], 2);
    notes.note("a sequence", api.says(status, ""));
    parts(api, "a sequence", pair, notes);
    call!(api, ReleaseValue, pair);
    let session = api.session(environment, &models::sequence());
    let mut outputs = [0usize];
    api.ok(api.run(session, 0, &[(c"x", one)], &[c"s"], &mut outputs));
    parts(api, "a sequence of a run", outputs[0], notes);
    call!(api, ReleaseValue, outputs[0]);
    call!(api, ReleaseSession, session);
    let session = api.session(environment, &models::optional());
    outputs = [0];
    let status = api.run(session, 0, &[(c"x", one)], &[c"o"], &mut outputs);
    notes.note("an optional value of a run", api.says(status, ""));
    let mut kind = [9i32; 3];
    api.ok(call!(api, IsTensor, outputs[0], &mut kind[0]));
    api.ok(call!(api, HasValue, outputs[0], &mut kind[1]));
    api.ok(call!(api, GetValueType, outputs[0], &mut kind[2]));
    notes.note("which is a tensor, has a value, is of kind", format!("{kind:?}"));
    for value in [outputs[0], one, two] {
        call!(api, ReleaseValue, value);
    }
    call!(api, ReleaseSession, session);
}

/// The parts of a sequence or map.
fn parts(api: Api, what: &str, value: usize, notes: &mut Notes) {
    let (mut count, mut kind) = (0usize, [9i32; 3]);
    api.ok(call!(api, GetValueCount, value, &mut count));
    api.ok(call!(api, IsTensor, value, &mut kind[0]));
    api.ok(call!(api, HasValue, value, &mut kind[1]));
    api.ok(call!(api, GetValueType, value, &mut kind[2]));
    notes.note(&format!("{what} has parts, is a tensor, has a value, is of kind"), format!("{count} {kind:?}"));
    let mut info = 0usize;
    api.ok(call!(api, GetTypeInfo, value, &mut info));
    notes.note(&format!("{what} is"), described(api, info));
    call!(api, ReleaseTypeInfo, info);
    for at in [0, count as i32 - 1, count as i32, -1] {
        let mut part = 0usize;
        let status = call!(api, GetValue, value, at, api.allocator(), &mut part);
        let said = api.taken(status).map_or("ok".to_owned(), |(code, _)| code.to_string());
        let mut is_tensor = 0i32;
        if part != 0 {
            api.ok(call!(api, IsTensor, part, &mut is_tensor));
        }
        let data = if is_tensor == 1 { format!("{:?} {:?}", api.dims(part), api.bytes(part)) } else { String::new() };
        notes.note(&format!("{what} part {at}"), format!("{said} {data}"));
        call!(api, ReleaseValue, part);
    }
    notes
        .note(&format!("{what} as a tensor"), api.taken(call!(api, GetTensorMutableData, value, &mut count)).is_some());
}

fn maps(api: Api, environment: usize, notes: &mut Notes) {
    let (mut keys, mut scores, mut square) = ([20i64, 10], [0.5f32, 0.25], [1i64, 2, 3, 4]);
    let keys = api.tensor(&mut keys, &[2], 7);
    let scores = api.tensor(&mut scores, &[2], 1);
    let square = api.tensor(&mut square, &[2, 2], 7);
    let mut value = 0usize;
    let mut create = |parts: &[usize]| {
        value = 0;
        let status = call!(api, CreateValue, parts, parts.len(), 3, &mut value);
        (status, value)
    };
    notes.note("a map of one part", api.says(create(&[keys]).0, "MUST be 2"));
    notes.note("a map of keys of rank 2", api.says(create(&[square, scores]).0, "> 1"));
    notes.note("a map with floats as keys", api.taken(create(&[scores, scores]).0).map_or(0, |(code, _)| code));
    let (status, map) = create(&[keys, scores]);
    notes.note("a map", api.says(status, ""));
    parts(api, "a map", map, notes);
    for value in [map, keys, square] {
        call!(api, ReleaseValue, value);
    }
    let session = api.session(environment, &models::maps());
    let (mut outputs, mut rows, mut first) = ([0usize], [0.5f32, 0.25, 1.0, 2.0], 0usize);
    let x = api.tensor(&mut rows, &[2, 2], 1);
    api.ok(api.run(session, 0, &[(c"x", x)], &[c"z"], &mut outputs));
    parts(api, "maps of a run", outputs[0], notes);
    api.ok(call!(api, GetValue, outputs[0], 1, api.allocator(), &mut first));
    parts(api, "the second map", first, notes);
    for value in [outputs[0], first, x, scores] {
        call!(api, ReleaseValue, value);
    }
    call!(api, ReleaseSession, session);
}

fn memory(api: Api, environment: usize, notes: &mut Notes) {
    let session = api.session(environment, &models::weighted());
    let mut x = vec![1f32, 2.0];
    let input = api.tensor(&mut x, &[2], 1);
    for round in 0..2 {
        let start = std::hint::black_box(x.as_mut_ptr());
        // SAFETY: the tensor borrows the vector, which is alive; nothing runs meanwhile.
        unsafe { start.write(round as f32 * 10.0) };
        let mut outputs = [0usize];
        api.ok(api.run(session, 0, &[(c"x", input)], &[c"y"], &mut outputs));
        notes.note(&format!("memory written in place, round {round}"), format!("{:?}", api.floats(outputs[0])));
        call!(api, ReleaseValue, outputs[0]);
    }
    let mut place = 0usize;
    api.ok(call!(api, GetTensorMutableData, input, &mut place));
    notes.note("data of a tensor is the program's", place == x.as_ptr().addr());
    let mut info = 0usize;
    api.ok(call!(api, GetTensorMemoryInfo, input, &mut info));
    let mut name = 0usize;
    api.ok(call!(api, MemoryInfoGetName, info, &mut name));
    notes.note("memory of a tensor", text(name));
    call!(api, ReleaseValue, input);
    call!(api, ReleaseSession, session);
}

fn allocators(api: Api, environment: usize, notes: &mut Notes) {
    let allocator = api.allocator();
    let mut block = 9usize;
    let said = api.says(call!(api, AllocatorAlloc, allocator, 0usize, &mut block), "");
    notes.note("no bytes of the allocator", format!("{said} {block}"));
    notes.note("nothing goes back", api.says(call!(api, AllocatorFree, allocator, 0usize), ""));
    api.ok(call!(api, AllocatorAlloc, allocator, 100usize, &mut block));
    notes.note("a block is aligned to 64", block.is_multiple_of(64));
    api.ok(call!(api, AllocatorFree, allocator, block));
    let (mut info, mut own) = (0usize, 0usize);
    api.ok(call!(api, CreateCpuMemoryInfo, 0, 0, &mut info));
    let session = api.session(environment, &models::weighted());
    notes.note("an allocator of a session", api.says(call!(api, CreateAllocator, session, info, &mut own), ""));
    let (mut value, dims) = (0usize, [2i64]);
    api.ok(call!(api, CreateTensorAsOrtValue, own, &dims[..], 1usize, 1, &mut value));
    notes.note("a tensor of it", api.bytes(value).len());
    call!(api, ReleaseValue, value);
    call!(api, ReleaseAllocator, own);
    // An allocator of the program's own.
    counting::BALANCE.store(0, Ordering::Relaxed);
    counting::GIVEN.store(0, Ordering::Relaxed);
    let mut counted = counting::allocator(info);
    let mut name = 0usize;
    api.ok(call!(api, SessionGetInputName, session, 0usize, &mut counted, &mut name));
    notes.note("a name of the program's allocator", text(name));
    api.ok(call!(api, AllocatorFree, &mut counted, name));
    api.ok(call!(api, CreateTensorAsOrtValue, &mut counted, &dims[..], 1usize, 1, &mut value));
    let mut outputs = [0usize];
    api.ok(api.run(session, 0, &[(c"x", value)], &[c"y"], &mut outputs));
    call!(api, ReleaseValue, outputs[0]);
    call!(api, ReleaseValue, value);
    let mut memory = 0usize;
    api.ok(call!(api, AllocatorAlloc, &mut counted, 8usize, &mut memory));
    let status = call!(
        api,
        CreateTensorWithDataAndDeleterAsOrtValue,
        &mut counted,
        memory,
        8usize,
        &dims[..],
        1usize,
        1,
        &mut value
    );
    notes.note("memory handed over", api.says(status, ""));
    call!(api, ReleaseValue, value);
    notes.note("blocks of the program's allocator", counting::GIVEN.load(Ordering::Relaxed));
    notes.note("blocks that are still out", counting::BALANCE.load(Ordering::Relaxed));
    notes.note("registered", api.says(call!(api, RegisterAllocator, environment, &mut counted), ""));
    notes.note("taken back", api.says(call!(api, UnregisterAllocator, environment, info), ""));
    call!(api, ReleaseSession, session);
    call!(api, ReleaseMemoryInfo, info);
}

fn infos(api: Api, notes: &mut Notes) {
    for name in [
        c"Cpu",
        c"Cuda",
        c"CudaPinned",
        c"Hip",
        c"DML",
        c"OpenVINO_GPU",
        c"WebGPU_Buf",
        c"HipPinned",
        c"Cann",
        c"CannPinned",
        c"OpenVINO_CPU",
        c"OpenVINO_RT",
        c"OpenVINO_RT_NPU",
        c"QnnHtpShared",
        c"WebNN_Ten",
        c"WebNN_Tensor",
        c"WebGPU_Buffer",
        c"NoSuch",
        c"cpu",
        c"",
    ] {
        let mut info = 0usize;
        let status = call!(api, CreateMemoryInfo, name, 0, 0, 0, &mut info);
        let said = api.says(status, "Specified device is not supported. Try CreateMemoryInfo_V2.");
        let mut device = 9i32;
        if info != 0 {
            call!(api, MemoryInfoGetDeviceType, info, &mut device);
        }
        notes.note(&format!("memory named '{}'", name.to_str().unwrap()), format!("{said} {device}"));
        call!(api, ReleaseMemoryInfo, info);
    }
    let mut infos = [0usize; 4];
    api.ok(call!(api, CreateCpuMemoryInfo, 0, 0, &mut infos[0]));
    api.ok(call!(api, CreateCpuMemoryInfo, 1, 0, &mut infos[1]));
    api.ok(call!(api, CreateMemoryInfo, c"Cpu", 0, 0, 0, &mut infos[2]));
    api.ok(call!(api, CreateMemoryInfo_V2, c"mine", 1, 0x1234, 2, 5, 0usize, 0, &mut infos[3]));
    let mut compared = [9i32; 3];
    for (at, other) in [1, 2, 3].into_iter().enumerate() {
        api.ok(call!(api, CompareMemoryInfo, infos[0], infos[other], &mut compared[at]));
    }
    notes.note("infos compared", format!("{compared:?}"));
    let (mut name, mut numbers) = (0usize, [9i32; 3]);
    api.ok(call!(api, MemoryInfoGetName, infos[3], &mut name));
    api.ok(call!(api, MemoryInfoGetId, infos[3], &mut numbers[0]));
    api.ok(call!(api, MemoryInfoGetMemType, infos[3], &mut numbers[1]));
    api.ok(call!(api, MemoryInfoGetType, infos[3], &mut numbers[2]));
    let memory = call!(api, MemoryInfoGetDeviceMemType, infos[3]) as i32;
    let vendor = call!(api, MemoryInfoGetVendorId, infos[3]) as u32;
    notes.note("an info of a device", format!("{} {numbers:?} {memory} {vendor:#x}", text(name)));
    for info in infos {
        call!(api, ReleaseMemoryInfo, info);
    }
}
