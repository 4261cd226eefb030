//! The cost of `Run` beyond the Rust call, in a process with both: medians of rounds that alternate, for 1, 3 and 10
//! inputs of four numbers each. With the path of a `libonnxruntime.so` as argument, that library's `Run` stands beside
//! them.
//!
//! `cargo bench -p kiln-ort --features ort --bench overhead -- [LIBRARY]`

#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::ffi::CString;
use std::ptr::{null, null_mut};
use std::time::Instant;

use kiln::{Dim, GraphBuilder, SessionOptions, Tensor, Value};
use ort_sys::{ONNXTensorElementDataType, OrtApi, OrtLoggingLevel, OrtMemoryInfo, OrtSession, OrtStatusPtr, OrtValue};

const ROUNDS: usize = 41;
const CALLS: usize = 2000;

/// The sum of all inputs.
fn model(inputs: usize) -> Vec<u8> {
    let mut build = GraphBuilder::new("sum", 17);
    let inputs: Vec<_> =
        (0..inputs).map(|number| build.input(&format!("x{number}"), kiln::DType::F32, [Dim::from("n")])).collect();
    let y = build.op("Sum", &inputs, &[]);
    build.output_of("y", y, kiln::DType::F32, [Dim::from("n")]);
    kiln_model::onnx::write(&build.finish()).expect("the graph can be written")
}

fn expect(api: &OrtApi, status: OrtStatusPtr) {
    if !status.0.is_null() {
        // SAFETY: the status is live, and its text lives as long as the status.
        let message = unsafe { std::ffi::CStr::from_ptr((api.GetErrorMessage)(status.0)) };
        panic!("the library refused a call: {}", message.to_string_lossy());
    }
}

/// A session of a library, with values to run it on.
struct Case<'a> {
    api: &'a OrtApi,
    session: *mut OrtSession,
    names: Vec<CString>,
    values: Vec<*const OrtValue>,
}

impl<'a> Case<'a> {
    fn new(api: &'a OrtApi, model: &[u8], data: &'a mut [Vec<f32>]) -> Case<'a> {
        let (mut env, mut options, mut session) = (null_mut(), null_mut(), null_mut());
        let mut info: *mut OrtMemoryInfo = null_mut();
        let names = (0..data.len()).map(|number| CString::new(format!("x{number}")).expect("no zero")).collect();
        let mut values = Vec::new();
        // SAFETY: the calls follow the header, with pointers that outlive the calls.
        unsafe {
            expect(api, (api.CreateEnv)(OrtLoggingLevel::ORT_LOGGING_LEVEL_ERROR, c"bench".as_ptr(), &mut env));
            expect(api, (api.CreateSessionOptions)(&mut options));
            expect(api, (api.SetIntraOpNumThreads)(options, 1));
            expect(api, (api.CreateSessionFromArray)(env, model.as_ptr().cast(), model.len(), options, &mut session));
            expect(
                api,
                (api.CreateCpuMemoryInfo)(
                    ort_sys::OrtAllocatorType::OrtDeviceAllocator,
                    ort_sys::OrtMemType::OrtMemTypeDefault,
                    &mut info,
                ),
            );
            for data in data.iter_mut() {
                let mut value = null_mut();
                let shape = [data.len() as i64];
                expect(
                    api,
                    (api.CreateTensorWithDataAsOrtValue)(
                        info,
                        data.as_mut_ptr().cast(),
                        size_of_val(&data[..]),
                        shape.as_ptr(),
                        1,
                        ONNXTensorElementDataType::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
                        &mut value,
                    ),
                );
                values.push(value.cast_const());
            }
        }
        Case { api, session, names, values }
    }

    fn run(&self) {
        let names: Vec<_> = self.names.iter().map(|name| name.as_ptr()).collect();
        let mut output = null_mut();
        let outputs = [c"y".as_ptr()];
        // SAFETY: as in `new`.
        unsafe {
            expect(
                self.api,
                (self.api.Run)(
                    self.session,
                    null(),
                    names.as_ptr(),
                    self.values.as_ptr(),
                    names.len(),
                    outputs.as_ptr(),
                    1,
                    &mut output,
                ),
            );
            (self.api.ReleaseValue)(output);
        }
    }
}

/// Nanoseconds a call.
fn time(run: &mut dyn FnMut()) -> f64 {
    let begun = Instant::now();
    (0..CALLS).for_each(|_| run());
    begun.elapsed().as_nanos() as f64 / CALLS as f64
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let library = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    // SAFETY: the caller names a library of onnxruntime's, whose initialisers may run.
    let library = library.map(|path| unsafe { libloading::Library::new(path) }.expect("the library can be loaded"));
    let real = library.as_ref().map(|library| {
        // SAFETY: this is the type of the function in every release, and the table lives as long as the library.
        unsafe {
            let base: libloading::Symbol<'_, unsafe extern "C" fn() -> *const ort_sys::OrtApiBase> =
                library.get(b"OrtGetApiBase").expect("it has onnxruntime's first function");
            &*((*base()).GetApi)(ort_sys::ORT_API_VERSION)
        }
    });
    let own = kiln_ort::api();
    println!("inputs   Rust ns   table ns   beyond ns   library ns");
    for count in [1, 3, 10] {
        let model = model(count);
        let mut data = vec![vec![1.0f32; 4]; count];
        let mut again = data.clone();
        let options = SessionOptions { threads: 1, ..SessionOptions::default() };
        let session = kiln::Session::load_bytes(model.clone(), &options).expect("the model loads");
        let names: Vec<String> = (0..count).map(|number| format!("x{number}")).collect();
        let given: Vec<(&str, Value)> = names
            .iter()
            .map(|name| (name.as_str(), Value::Tensor(Tensor::from_vec([4], vec![1.0f32; 4]).expect("a tensor"))))
            .collect();
        let table = Case::new(&own, &model, &mut data);
        let beside = real.map(|real| Case::new(real, &model, &mut again));
        let [mut of_rust, mut of_table, mut of_library] = [(); 3].map(|()| Vec::new());
        for _ in 0..ROUNDS {
            of_rust.push(time(&mut || drop(session.run_values(&given).expect("it runs"))));
            of_table.push(time(&mut || table.run()));
            if let Some(beside) = &beside {
                of_library.push(time(&mut || beside.run()));
            }
        }
        let (rust, table) = (median(of_rust), median(of_table));
        let library = if of_library.is_empty() { String::new() } else { format!("{:12.0}", median(of_library)) };
        println!("{count:6}{rust:10.0}{table:11.0}{:12.0}{library}", table - rust);
    }
}
