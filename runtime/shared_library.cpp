#include <godwit/runtime/shared_library.hpp>

#include <dlfcn.h>

#include <system_error>

namespace godwit::runtime {

protocols::expected<shared_library, std::string> shared_library::load(const std::filesystem::path& file) {
  std::error_code failure;
  const auto path = std::filesystem::absolute(file, failure); // a name alone would be looked for elsewhere
  if (failure) return protocols::unexpected(file.string() + ": " + failure.message());
  if (const auto what = std::filesystem::status(path, failure); exists(what) && !is_regular_file(what))
    return protocols::unexpected(path.string() + " is no file"); // a pipe would be waited for
  if (void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return shared_library(handle);
  const char* const line = dlerror();
  return protocols::unexpected(std::string(line != nullptr ? line : "unknown error"));
}

void* shared_library::symbol(const char* name) const { return dlsym(handle_, name); }

} // namespace godwit::runtime
