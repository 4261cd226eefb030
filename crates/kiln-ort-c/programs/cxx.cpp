// What a C++ program does with onnxruntime through its own header, printed line by line: run on two libraries, it says the
// same. Its arguments are a folder of models (cxx_models.py) and the library's path. It is for headers from version 21 on.

#define ORT_API_MANUAL_INIT
#include <onnxruntime_cxx_api.h>

#include <dlfcn.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

std::string folder;
std::atomic<int> logged{0};

void ORT_API_CALL Log(void*, OrtLoggingLevel, const char*, const char*, const char*, const char*) { ++logged; }

std::string Model(const char* name) { return folder + "/" + name; }

// One line: what was tried, and its outcome.
void Say(const char* what, const std::string& outcome) { std::printf("%s: %s\n", what, outcome.c_str()); }

template <typename T>
std::string Text(const T* values, size_t count) {
  std::string text;
  for (size_t at = 0; at < count; ++at) {
    char number[32];
    std::snprintf(number, sizeof number, "%s%g", at == 0 ? "" : " ", static_cast<double>(values[at]));
    text += number;
  }
  return "[" + text + "]";
}

std::string Text(const std::vector<int64_t>& values) { return Text(values.data(), values.size()); }

// The code of the error that a call throws; texts differ behind their first words.
std::string ErrorOf(const std::function<void()>& call) {
  try {
    call();
    return "no error";
  } catch (const Ort::Exception& error) {
    return "code " + std::to_string(error.GetOrtErrorCode());
  }
}

Ort::Value Tensor(std::vector<float>& data, const std::vector<int64_t>& shape) {
  static auto info = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  return Ort::Value::CreateTensor<float>(info, data.data(), data.size(), shape.data(), shape.size());
}

std::string OfFloats(const Ort::Value& value) {
  auto about = value.GetTensorTypeAndShapeInfo();
  return Text(about.GetShape()) + " " + Text(value.GetTensorData<float>(), about.GetElementCount());
}

std::vector<Ort::Value> RunTwice(Ort::Session& session, std::vector<float>& data, const std::vector<int64_t>& shape) {
  const char* inputs[] = {"x"};
  const char* outputs[] = {"y"};
  auto input = Tensor(data, shape);
  return session.Run(Ort::RunOptions{nullptr}, inputs, &input, 1, outputs, 1);
}

void Describe(Ort::Session& session) {
  Ort::AllocatorWithDefaultOptions allocator;
  Say("inputs", std::to_string(session.GetInputCount()) + " " + session.GetInputNameAllocated(0, allocator).get());
  auto type = session.GetInputTypeInfo(0);
  auto tensor = type.GetTensorTypeAndShapeInfo();
  Say("type", std::to_string(type.GetONNXType()) + " " + std::to_string(tensor.GetElementType()));
  Say("shape", Text(tensor.GetShape()));
  std::vector<const char*> names(tensor.GetDimensionsCount());
  tensor.GetSymbolicDimensions(names.data(), names.size());
  for (const char* name : names) Say("dimension", name);
  auto metadata = session.GetModelMetadata();
  Say("producer", metadata.GetProducerNameAllocated(allocator).get());
  Say("graph", metadata.GetGraphNameAllocated(allocator).get());
  auto found = metadata.LookupCustomMetadataMapAllocated("language", allocator);
  Say("property", found ? found.get() : "none");
  auto absent = metadata.LookupCustomMetadataMapAllocated("absent", allocator);
  Say("absent property", absent ? absent.get() : "none");
  Say("keys", std::to_string(metadata.GetCustomMetadataMapKeysAllocated(allocator).size()));
}

void Shapes(Ort::Session& session) {
  for (int64_t rows : {1, 3, 1, 5}) {
    std::vector<float> data(rows * 2);
    for (size_t at = 0; at < data.size(); ++at) data[at] = static_cast<float>(at);
    Say("run", OfFloats(RunTwice(session, data, {rows, 2})[0]));
  }
  std::vector<float> none;
  Say("empty", OfFloats(RunTwice(session, none, {0, 2})[0]));
}

void Refill(Ort::Session& session) {
  std::vector<float> from(4), to(4);
  auto input = Tensor(from, {2, 2});
  auto output = Tensor(to, {2, 2});
  const char* inputs[] = {"x"};
  const char* outputs[] = {"y"};
  for (float round : {1.f, 2.f}) {
    from.assign(4, round);
    session.Run(Ort::RunOptions{nullptr}, inputs, &input, 1, outputs, &output, 1);
    Say("refilled", Text(to.data(), to.size()));
  }
}

void Bind(Ort::Session& session) {
  Ort::IoBinding binding(session);
  std::vector<float> from{1, 2, 3, 4}, to(4);
  binding.BindInput("x", Tensor(from, {2, 2}));
  binding.BindOutput("y", Tensor(to, {2, 2}));
  session.Run(Ort::RunOptions{nullptr}, binding);
  Say("bound", Text(to.data(), to.size()));
  binding.ClearBoundOutputs();
  binding.BindOutput("y", Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault));
  session.Run(Ort::RunOptions{nullptr}, binding);
  auto names = binding.GetOutputNames();
  auto values = binding.GetOutputValues();
  Say("bound to a place", names.at(0) + " " + OfFloats(values.at(0)));
  Say("unknown input", ErrorOf([&] { binding.BindInput("z", Tensor(from, {2, 2})); }));
}

void Texts(Ort::Env& env, const Ort::SessionOptions& options) {
  Ort::Session session(env, Model("texts.onnx").c_str(), options);
  Ort::AllocatorWithDefaultOptions allocator;
  const int64_t shape[] = {3};
  auto input = Ort::Value::CreateTensor(allocator, shape, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING);
  const char* texts[] = {"one", "", "drei"};
  input.FillStringTensor(texts, 3);
  input.FillStringTensorElement("zwei", 1);
  const char* inputs[] = {"x"};
  const char* outputs[] = {"y"};
  auto made = session.Run(Ort::RunOptions{nullptr}, inputs, &input, 1, outputs, 1);
  std::string all;
  for (size_t at = 0; at < 3; ++at) all += made[0].GetStringTensorElement(at) + "/";
  Say("texts", all + std::to_string(made[0].GetStringTensorDataLength()));
  Say("text beyond the end", ErrorOf([&] { made[0].GetStringTensorElement(3); }));
}

void Sequences(Ort::Env& env, const Ort::SessionOptions& options) {
  Ort::Session session(env, Model("sequence.onnx").c_str(), options);
  Ort::AllocatorWithDefaultOptions allocator;
  std::vector<float> data{1, 2, 3, 4};
  auto made = RunTwice(session, data, {2, 2});
  Say("sequence", std::to_string(made[0].IsTensor()) + " " + std::to_string(made[0].GetCount()));
  for (int at = 0; at < static_cast<int>(made[0].GetCount()); ++at) Say("element", OfFloats(made[0].GetValue(at, allocator)));
  std::vector<Ort::Value> parts;
  parts.push_back(Tensor(data, {4}));
  parts.push_back(Tensor(data, {2, 2}));
  Say("made", std::to_string(Ort::Value::CreateSequence(parts).GetCount()));
}

void Threads(Ort::Session& session) {
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < 8; ++number) {
    threads.emplace_back([&session, &right, number] {
      for (int turn = 0; turn < 50; ++turn) {
        std::vector<float> data((turn % 5 + 1) * 2, static_cast<float>(number));
        auto made = RunTwice(session, data, {turn % 5 + 1, 2});
        if (made[0].GetTensorData<float>()[0] == 2.f * number) ++right;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  Say("threads", std::to_string(right.load()));
}

struct Chain {
  Ort::Session* session;
  std::mutex mutex;
  std::condition_variable done;
  int left = 3;
  std::vector<float> data{1, 2};
  Ort::Value input{nullptr};
  Ort::Value output{nullptr};
  std::string said;
};

void Next(Chain* chain);

void Ended(void* given, OrtValue** outputs, size_t count, OrtStatusPtr status) {
  auto* chain = static_cast<Chain*>(given);
  Ort::Status owned(status);
  chain->said += std::to_string(count) + (owned.IsOK() && outputs != nullptr ? " right " : " wrong ");
  if (--chain->left > 0) return Next(chain);
  std::lock_guard<std::mutex> lock(chain->mutex);
  chain->done.notify_one();
}

void Next(Chain* chain) {
  static const char* inputs[] = {"x"};
  static const char* outputs[] = {"y"};
  chain->output = Ort::Value{nullptr};
  chain->session->RunAsync(Ort::RunOptions{nullptr}, inputs, &chain->input, 1, outputs, &chain->output, 1, Ended, chain);
}

void Asynchronous(Ort::Env& env) {
  Ort::SessionOptions options;
  options.SetIntraOpNumThreads(2);
  Ort::Session session(env, Model("twice.onnx").c_str(), options);
  Chain chain;
  chain.session = &session;
  chain.input = Tensor(chain.data, {1, 2});
  std::unique_lock<std::mutex> lock(chain.mutex);
  Next(&chain);
  chain.done.wait(lock, [&chain] { return chain.left == 0; });
  Say("asynchronous", chain.said + OfFloats(chain.output));
}

void Errors(Ort::Env& env, Ort::Session& session, const Ort::SessionOptions& options) {
  std::vector<float> data{1, 2};
  Say("no such file", ErrorOf([&] { Ort::Session(env, "/nowhere.onnx", options); }));
  Say("no model", ErrorOf([&] { Ort::Session(env, "nonsense", 8, options); }));
  Say("wrong rank", ErrorOf([&] { RunTwice(session, data, {2}); }));
  Say("wrong dimension", ErrorOf([&] { RunTwice(session, data, {2, 1}); }));
  Say("too little memory", ErrorOf([&] { Tensor(data, {2, 2}); }));
  Say("negative size", ErrorOf([&] { Tensor(data, {-1, 2}); }));
  const char* inputs[] = {"z"};
  const char* outputs[] = {"y"};
  auto input = Tensor(data, {1, 2});
  Say("unknown name", ErrorOf([&] { session.Run(Ort::RunOptions{nullptr}, inputs, &input, 1, outputs, 1); }));
  Ort::RunOptions ended;
  ended.SetTerminate();
  const char* known[] = {"x"};
  Say("terminated", ErrorOf([&] { session.Run(ended, known, &input, 1, outputs, 1); }));
  ended.UnsetTerminate();
  Say("taken back", ErrorOf([&] { session.Run(ended, known, &input, 1, outputs, 1); }));
}

void Options() {
  Ort::SessionOptions options;
  options.AddConfigEntry("session.set_denormal_as_zero", "1");
  options.SetGraphOptimizationLevel(ORT_ENABLE_EXTENDED).SetExecutionMode(ORT_SEQUENTIAL).DisableMemPattern();
  auto copy = options.Clone();
  Say("entry", copy.GetConfigEntry("session.set_denormal_as_zero"));
  Say("has", std::to_string(copy.HasConfigEntry("absent")));
  Say("default", copy.GetConfigEntryOrDefault("absent", "none"));
}

// Two sessions that share packed weights. Version 21 of the header has no class for the container.
void Prepacked(Ort::Env& env, const Ort::SessionOptions& options) {
  OrtPrepackedWeightsContainer* container = nullptr;
  Ort::ThrowOnError(Ort::GetApi().CreatePrepackedWeightsContainer(&container));
  {
    Ort::Session one(env, Model("twice.onnx").c_str(), options, container);
    Ort::Session other(env, Model("twice.onnx").c_str(), options, container);
    std::vector<float> data{3, 4};
    Say("prepacked", OfFloats(RunTwice(one, data, {1, 2})[0]) + OfFloats(RunTwice(other, data, {1, 2})[0]));
  }
  Ort::GetApi().ReleasePrepackedWeightsContainer(container);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  folder = arguments[1];
  void* library = dlopen(arguments[2], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  auto base = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(library, "OrtGetApiBase"));
  Ort::InitApi(base()->GetApi(ORT_API_VERSION));
  Ort::Env env(ORT_LOGGING_LEVEL_VERBOSE, "program", Log, nullptr);
  Ort::Env again(ORT_LOGGING_LEVEL_FATAL, "again");
  Ort::SessionOptions options;
  options.SetIntraOpNumThreads(1);
  Ort::Session session(env, Model("twice.onnx").c_str(), options);
  Say("logged", logged > 0 ? "yes" : "no");
  Describe(session);
  Shapes(session);
  Refill(session);
  Bind(session);
  Texts(env, options);
  Sequences(env, options);
  Threads(session);
  Asynchronous(env);
  Errors(env, session, options);
  Options();
  Prepacked(env, options);
  return 0;
}
