#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::protocols::jinja {

/// A string that knows of each byte whether it is markup or content.
///
/// Problem: a rendered chat template is one string, in which "<|im_end|>" may have been written by the template or by a
/// user who wants to open a turn of somebody else. Markup is what the template says (its literals, bos_token, ...);
/// content is what the conversation brings. Whatever is done with a string (cut, joined, replaced, trimmed) keeps it.
class text {
public:
  struct run {
    std::size_t end = 0; ///< one past the run's last byte
    bool markup = false;
    friend bool operator==(const run&, const run&) = default;
  };

  text() = default;
  text(std::string bytes, bool markup);

  [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size(); }
  [[nodiscard]] bool empty() const noexcept { return bytes_.empty(); }
  /// Ascending, none empty, neighbours differ; the last one ends at size().
  [[nodiscard]] const std::vector<run>& runs() const noexcept { return runs_; }
  [[nodiscard]] bool markup_at(std::size_t at) const noexcept;
  /// True where no byte is content.
  [[nodiscard]] bool all_markup() const noexcept { return runs_.empty() || (runs_.size() == 1 && runs_[0].markup); }

  void append(std::string_view bytes, bool markup);
  void append(const text& other) { append(other, 0, other.size()); }
  /// The bytes [from, to) of `other`, which is not this.
  void append(const text& other, std::size_t from, std::size_t to);
  [[nodiscard]] text slice(std::size_t from, std::size_t to) const;

private:
  void extend(std::size_t end, bool markup);
  std::string bytes_;
  std::vector<run> runs_;
};

} // namespace godwit::protocols::jinja
