// The CPU engine beside llama.cpp's own library, on the same GGUF file in the same run: decoding one request and
// several, and reading a prompt. The library is the one of npm's @node-llama-cpp/linux-x64 (tests/llama_cpp), called
// through its C interface.
#include "gpu/model/gguf_files.hpp"
#include "support/bench.hpp"
#include "support/engine_step.hpp"

#include <godwit/gpu/cpu/cpu_executor.hpp>
#include <godwit/gpu/cpu/packed_model.hpp>
#include <godwit/gpu/model/model_directory.hpp>
#include <godwit/gpu/model/random_model.hpp>

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

namespace {

using namespace godwit;
using namespace godwit::gpu;

constexpr auto package = GODWIT_SOURCE_DIR "/tests/llama_cpp/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64";

// ---- llama.cpp -----------------------------------------------------------------------------------------------------

/// Larger than any structure of parameters, and passed on the stack as those are; of it only what is set has a name.
struct parameters {
  std::uint32_t context = 0, batch = 0, batch_part = 0, sequences = 0; ///< of llama_context_params
  std::array<std::byte, 1008> rest{};
};
struct batch {
  std::int32_t tokens = 0;
  std::int32_t* token = nullptr;
  float* embeddings = nullptr;
  std::int32_t* position = nullptr;
  std::int32_t* sequences = nullptr;
  std::int32_t** sequence = nullptr;
  std::int8_t* logits = nullptr;
};

class library {
public:
  library() {
    std::string ggml, llama;
    for (const auto& entry : std::filesystem::directory_iterator(package)) {
      const auto name = entry.path().filename().string();
      if (name.starts_with("libggml.")) ggml = entry.path().string();
      if (name.starts_with("libllama.")) llama = entry.path().string();
    }
    base_ = open(std::string(package) + "/libggml-base.so");
    auto* const backends = open(ggml);
    llama_ = open(llama);
    get<void (*)(void (*)(int, const char*, void*), void*)>(llama_, "llama_log_set")([](int, const char*, void*) {},
                                                                                     nullptr);
    get<void (*)(const char*)>(backends, "ggml_backend_load_all_from_path")(package);
  }
  template <class Function> [[nodiscard]] Function of_llama(const char* name) const {
    return get<Function>(llama_, name);
  }

  /// A matrix in a type of ggml's.
  [[nodiscard]] std::vector<std::byte> quantize(std::uint32_t type, const std::vector<float>& values,
                                                std::int64_t columns) const {
    const auto run =
        get<std::size_t (*)(int, const float*, void*, std::int64_t, std::int64_t, std::int64_t, const float*)>(
            base_, "ggml_quantize_chunk");
    std::vector<std::byte> out(values.size() * 2 + 1024);
    const auto rows = static_cast<std::int64_t>(values.size()) / columns;
    out.resize(run(static_cast<int>(type), values.data(), out.data(), 0, rows, columns, nullptr));
    return out;
  }

private:
  static void* open(const std::string& path) {
    auto* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (handle == nullptr) throw std::runtime_error(std::string("llama.cpp's library: ") + ::dlerror());
    return handle;
  }
  template <class Function> static Function get(void* from, const char* name) {
    auto* const found = ::dlsym(from, name);
    if (found == nullptr) throw std::runtime_error(std::string("llama.cpp's library has no ") + name);
    return reinterpret_cast<Function>(found);
  }

  void* base_ = nullptr;
  void* llama_ = nullptr;
};

class llama_model {
public:
  llama_model(const library& from, const std::string& path, unsigned threads, std::uint32_t requests,
              std::uint32_t context)
      : decode_(from.of_llama<std::int32_t (*)(void*, batch)>("llama_decode")),
        remove_(from.of_llama<bool (*)(void*, std::int32_t, std::int32_t, std::int32_t)>("llama_memory_seq_rm")) {
    model_ = from.of_llama<void* (*)(const char*, parameters)>("llama_model_load_from_file")(
        path.c_str(), from.of_llama<parameters (*)()>("llama_model_default_params")());
    if (model_ == nullptr) throw std::runtime_error("llama.cpp does not open " + path);
    auto of_context = from.of_llama<parameters (*)()>("llama_context_default_params")();
    of_context.context = context * requests;
    of_context.batch = std::max(context, requests);
    of_context.batch_part = 512;
    of_context.sequences = requests;
    context_ = from.of_llama<void* (*)(void*, parameters)>("llama_init_from_model")(model_, of_context);
    if (context_ == nullptr) throw std::runtime_error("llama.cpp makes no context");
    const auto count = static_cast<std::int32_t>(threads);
    from.of_llama<void (*)(void*, std::int32_t, std::int32_t)>("llama_set_n_threads")(context_, count, count);
    memory_ = from.of_llama<void* (*)(void*)>("llama_get_memory")(context_);
    free_ = [end = from.of_llama<void (*)(void*)>("llama_free"),
             of_model = from.of_llama<void (*)(void*)>("llama_model_free"), this] {
      end(context_);
      of_model(model_);
    };
  }
  llama_model(const llama_model&) = delete;
  llama_model& operator=(const llama_model&) = delete;
  ~llama_model() { free_(); }

  /// How long some tokens of each request take, of which the last one's logits are asked for.
  double seconds_of(std::uint32_t requests, std::uint32_t before, std::uint32_t tokens) {
    for (std::uint32_t one = 0; one < requests; ++one)
      remove_(memory_, static_cast<std::int32_t>(one), static_cast<std::int32_t>(before), -1);
    std::vector<std::int32_t> token, position, sequences, own(requests);
    std::vector<std::int32_t*> sequence;
    std::vector<std::int8_t> logits;
    for (std::uint32_t one = 0; one < requests; ++one) {
      own[one] = static_cast<std::int32_t>(one);
      for (std::uint32_t i = 0; i < tokens; ++i) {
        token.push_back(static_cast<std::int32_t>((before + i + one) * 7919U % 32000U));
        position.push_back(static_cast<std::int32_t>(before + i));
        sequences.push_back(1);
        sequence.push_back(&own[one]);
        logits.push_back(i + 1 == tokens ? 1 : 0);
      }
    }
    const double start = bench::seconds();
    const auto failed = decode_(context_, {static_cast<std::int32_t>(token.size()), token.data(), nullptr,
                                           position.data(), sequences.data(), sequence.data(), logits.data()});
    if (failed != 0) throw std::runtime_error("llama_decode says " + std::to_string(failed));
    return bench::seconds() - start;
  }

private:
  std::int32_t (*decode_)(void*, batch);
  bool (*remove_)(void*, std::int32_t, std::int32_t, std::int32_t);
  void* model_ = nullptr;
  void* context_ = nullptr;
  void* memory_ = nullptr;
  std::function<void()> free_;
};

// ---- the file ------------------------------------------------------------------------------------------------------

/// In which types a file has its matrices.
struct kept {
  const char* name;
  std::uint32_t type, of_some; ///< of values and the second matrix of every other MLP, as llama.cpp's "medium" has them
};
constexpr std::array all_kept{kept{"f16", 1, 1}, kept{"q8_0", 8, 8}, kept{"q4_0", 2, 2}, kept{"q4_k_m", 12, 14}};

/// A Llama of this shape, of which every layer has the same matrices: what they are does not matter for the time.
void write_model(const library& ggml, const model::config& c, const kept& as, const std::filesystem::path& to) {
  auto out = model::tests::small_gguf();
  out.tensors.clear();
  model::tests::put_sizes(out, c);
  out.put_u32("llama.vocab_size", c.vocabulary);
  const auto own = model::tests::small_gguf_tokens();
  auto tokens = own.texts;
  auto kinds = own.kinds;
  for (auto id = static_cast<std::uint32_t>(tokens.size()); id < c.vocabulary; ++id) {
    tokens.push_back("[PAD" + std::to_string(id) + "]");
    kinds.push_back(5);
  }
  out.put_texts("tokenizer.ggml.tokens", tokens);
  out.put_i32s("tokenizer.ggml.token_type", kinds);
  out.put_texts("tokenizer.ggml.merges", {});
  std::uint32_t state = 1;
  const auto made = [&](std::uint32_t type, std::uint64_t rows, std::uint64_t columns) {
    std::vector<float> values(rows * columns);
    for (auto& value : values) {
      state = state * 1664525U + 1013904223U;
      value = (static_cast<float>(state >> 8U) * 0x1p-24F - 0.5F) * 0.05F;
    }
    return ggml.quantize(type, values, static_cast<std::int64_t>(columns));
  };
  const std::uint64_t hidden = c.hidden, keys = std::uint64_t{c.kv_heads} * c.head_size, inner = c.intermediate;
  const std::vector<float> ones(hidden, 1.0F);
  const auto bytes_of_ones = std::as_bytes(std::span(ones));
  const auto norm = [&](const std::string& name) {
    out.tensors.push_back({name, 0, {hidden}, {bytes_of_ones.begin(), bytes_of_ones.end()}, 0});
  };
  const auto rest = as.type == 1 ? 1U : 14U; // the head, in six bits
  out.tensors.push_back({"token_embd.weight", as.type, {c.vocabulary, hidden}, made(as.type, c.vocabulary, hidden), 0});
  out.tensors.push_back({"output.weight", rest, {c.vocabulary, hidden}, made(rest, c.vocabulary, hidden), 0});
  norm("output_norm.weight");
  struct matrix {
    const char* name;
    std::uint64_t rows, columns;
    std::array<std::vector<std::byte>, 2> bytes; ///< of every layer, or of every other one
  };
  std::vector<matrix> all{{"attn_q", hidden, hidden, {}},  {"attn_k", keys, hidden, {}},
                          {"attn_v", keys, hidden, {}},    {"attn_output", hidden, hidden, {}},
                          {"ffn_gate", inner, hidden, {}}, {"ffn_up", inner, hidden, {}},
                          {"ffn_down", hidden, inner, {}}};
  for (auto& one : all) one.bytes = {made(as.type, one.rows, one.columns), made(as.of_some, one.rows, one.columns)};
  for (std::uint32_t i = 0; i < c.layers; ++i) {
    const auto layer = "blk." + std::to_string(i) + ".";
    norm(layer + "attn_norm.weight");
    norm(layer + "ffn_norm.weight");
    for (const auto& one : all) {
      const std::string name = one.name;
      const bool other = (name == "attn_v" || name == "ffn_down") && i % 2 == 0;
      out.tensors.push_back({layer + name + ".weight",
                             other ? as.of_some : as.type,
                             {one.rows, one.columns},
                             one.bytes[other ? 1 : 0],
                             0});
    }
  }
  const auto bytes = out.build();
  std::ofstream file(to, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file) throw std::runtime_error("cannot write " + to.string());
}

void measure(bench::session& session, const library& theirs, const std::filesystem::path& file,
             const std::string& name) {
  constexpr std::uint32_t context = 1024, requests = 8, prompt = 512, before = 128;
  const auto threads = std::max(1U, std::thread::hardware_concurrency());
  auto opened = model::open_model(file);
  if (!opened) throw std::runtime_error(opened.error().what());
  const auto packed = cpu::pack_model(opened->configuration, *opened->tensors);
  const auto ours = cpu::make_cpu_executor(packed, {.threads = threads, .blocks = requests * context / 16});
  llama_model reference(theirs, file.string(), threads, requests, context);
  reference.seconds_of(requests, 0, before);
  const auto compare = [&](const std::string& what, std::uint32_t together, std::uint32_t at, std::uint32_t tokens,
                           std::uint32_t steps) {
    const auto figure = "llama_cpp/" + name + "/" + what;
    if (!session.wants(figure)) return;
    const auto rate = [&](const auto& seconds_of) {
      double spent = 0;
      for (std::uint32_t i = 0; i < steps; ++i) spent += seconds_of(at + i);
      std::this_thread::sleep_for(std::chrono::milliseconds(20)); // threads that watch for work go to sleep
      return steps * tokens * together / spent;
    };
    const auto result = bench::interleave(
        session.repetitions(),
        [&] {
          return rate([&](std::uint32_t now) {
            return bench::seconds_of(*ours, {.requests = together, .before = now, .tokens = tokens});
          });
        },
        [&] { return rate([&](std::uint32_t now) { return reference.seconds_of(together, now, tokens); }); });
    session.add(bench::told(figure, result, "tokens/s"));
  };
  compare("decode", 1, before, 1, 8);
  compare("decode8", requests, before, 1, 4);
  compare("prompt", 1, 0, prompt, 1);
}

} // namespace

int main(int argc, char** argv) {
  bench::session session(argc, argv, 5);
  if (!std::filesystem::exists(package)) {
    std::fprintf(stderr, "bench llama_cpp: llama.cpp's library is not there (npm ci in tests/llama_cpp)\n");
    return 2;
  }
  const auto folder = std::filesystem::temp_directory_path() / ("godwit-bench-llama-" + std::to_string(::getpid()));
  try {
    const library theirs;
    std::filesystem::create_directories(folder);
    for (const auto& as : all_kept) {
      const std::string name = as.name;
      if (!session.wants("llama_cpp/" + name) && !session.wants("llama_cpp/" + name + "/decode") &&
          !session.wants("llama_cpp/" + name + "/decode8") && !session.wants("llama_cpp/" + name + "/prompt"))
        continue;
      const auto file = folder / (name + ".gguf");
      write_model(theirs, model::find_random_model("1b")->configuration, as, file);
      measure(session, theirs, file, name);
      std::filesystem::remove(file);
    }
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "bench llama_cpp: %s\n", failure.what());
    std::filesystem::remove_all(folder);
    return 1;
  }
  std::filesystem::remove_all(folder);
  return session.result();
}
