#pragma once

#include <godwit/runtime/log/logger.hpp>

#include <string>
#include <system_error>

namespace godwit::main {

/// A file that is there while this process takes requests, for whoever cannot ask it otherwise: the probe of a
/// container or a script. It holds the process id. It appears whole, by renaming, and goes with its object; only a
/// killed process leaves one, which the next one removes when it begins; a living process's is left alone, and this
/// one has none until that one's is gone. What cannot be written or removed is said in the log once, and tried again.
class ready_file {
public:
  /// Empty: there is none.
  ready_file(std::string path, runtime::log::logger log);
  ready_file(const ready_file&) = delete;
  ready_file& operator=(const ready_file&) = delete;
  ~ready_file();

  /// As often as one likes; the file is touched only where this is news.
  void set(bool ready);

private:
  [[nodiscard]] bool write();
  [[nodiscard]] bool remove();
  [[nodiscard]] bool failed(const char* doing, const std::error_code& failure);
  std::string path_;
  runtime::log::logger log_;
  bool ready_ = false;
  bool told_ = false; ///< of the failure that is being tried again
};

} // namespace godwit::main
