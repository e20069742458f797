#if defined(GODWIT_NCCL)

#include "cuda/native/nccl_library.hpp"

#include "cuda/driver.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <type_traits>

namespace godwit::gpu::cuda::native {

namespace {

constexpr const char* file = "libnccl.so.2";

struct loaded {
  nccl_functions functions;
  std::string error; ///< empty: all is there
};

std::string last_error() {
  const char* line = dlerror();
  return line != nullptr ? line : "unknown error";
}

loaded load() {
  loaded out;
  // Buffers with the handles, as before NCCL 2.22, and not with the first operation of each algorithm: by then the KV
  // cache has the rest of the memory. Whoever has set it knows better.
  ::setenv("NCCL_RUNTIME_CONNECT", "0", 0);
  void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    out.error = "NCCL is missing, by which GPUs that share a model talk to each other: " + last_error();
    return out;
  }
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr && out.error.empty()) out.error = std::string("NCCL is too old: it has no ") + name;
  };
  auto& f = out.functions;
  find(f.get_unique_id, "ncclGetUniqueId");
  find(f.init_rank, "ncclCommInitRankConfig");
  find(f.group_start, "ncclGroupStart");
  find(f.group_end, "ncclGroupEnd");
  find(f.all_reduce, "ncclAllReduce");
  find(f.all_gather, "ncclAllGather");
  find(f.async_error, "ncclCommGetAsyncError");
  find(f.abort, "ncclCommAbort");
  find(f.error_string, "ncclGetErrorString");
  return out;
}

} // namespace

const nccl_functions& nccl() {
  static const loaded found = load();
  if (!found.error.empty()) throw driver_error(found.error);
  return found.functions;
}

} // namespace godwit::gpu::cuda::native

#endif
