#pragma once

#include <stdexcept>
#include <string>

namespace godwit::gpu::model {

/// Why a model cannot be used: one line that names the file, the field and what would do instead.
///
/// The readers below gpu/model throw it to leave deeply nested input; the public functions that open something return
/// it in an `expected`. Text from the input is quoted, shortened and stripped of control characters.
class model_error : public std::runtime_error {
public:
  explicit model_error(const std::string& line) : std::runtime_error(line) {}
  model_error(const std::string& file, const std::string& line) : std::runtime_error(file + ": " + line) {}
};

} // namespace godwit::gpu::model
