#pragma once

#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace godwit::bench {

/// A process with pipes at its input and output. Ends with its owner.
class child {
public:
  explicit child(const std::vector<std::string>& command,
                 const std::vector<std::pair<std::string, std::string>>& environment = {});
  child(const child&) = delete;
  child& operator=(const child&) = delete;
  ~child(); ///< kills it
  void tell(const std::string& line) const;
  /// The next line; throws where none comes in half a minute or the process has ended.
  [[nodiscard]] std::string hear();
  /// All that it prints until it ends.
  [[nodiscard]] std::string rest();

private:
  [[nodiscard]] bool more();
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
  std::string heard_;
};

} // namespace godwit::bench
