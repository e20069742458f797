#pragma once

#include "model/unicode/normalize.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::gpu::model {

/// One step of a tokenizer.json's normalizer.
struct normalizer_step {
  enum class kind : std::uint8_t { form, replace, prepend, strip };
  kind what = kind::form;
  unicode::form form = unicode::form::nfc;
  std::string from;                 ///< replace: this literal
  std::string to;                   ///< replace, prepend: by this, this
  bool left = false, right = false; ///< strip: on these sides
};

/// Bytes [begin, end) of a text.
struct byte_range {
  std::size_t begin;
  std::size_t end;
};

/// Changes a text before it is cut into words. Immutable.
class text_normalizer {
public:
  text_normalizer() = default;
  explicit text_normalizer(std::vector<normalizer_step> steps) : steps_(std::move(steps)) {}

  [[nodiscard]] bool empty() const noexcept { return steps_.empty(); }
  /// `text` (valid UTF-8) normalized: itself where nothing changes, otherwise a view of `buffer`. An empty text stays
  /// empty.
  [[nodiscard]] std::string_view apply(std::string_view text, std::string& buffer) const {
    std::vector<byte_range> none;
    return apply(text, buffer, none);
  }
  /// `marked` (in order, apart) become the ranges of what comes of them alone, and of what is put in front of a text
  /// that begins with one. What other bytes of `text` have a part in is outside; so a range may become empty.
  [[nodiscard]] std::string_view apply(std::string_view text, std::string& buffer,
                                       std::vector<byte_range>& marked) const;

private:
  std::vector<normalizer_step> steps_;
};

/// `text` with every `from` (not empty) replaced by `to`; appends.
void append_replaced(std::string& out, std::string_view text, std::string_view from, std::string_view to);

/// Where white space begins that ends at `end`, not before `least`; and where white space ends that begins at `begin`.
[[nodiscard]] std::size_t space_begin(std::string_view text, std::size_t least, std::size_t end);
[[nodiscard]] std::size_t space_end(std::string_view text, std::size_t begin);

} // namespace godwit::gpu::model
