// tokenizer.json of model directories: any bytes are refused by one line, or make a tokenizer that encodes and decodes
// any text, in pieces as at once.
#include <godwit/gpu/model/tokenizer.hpp>

#include "model/utf8.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace model = godwit::gpu::model;
using godwit::protocols::token_id;

void check(bool good) {
  if (!good) std::abort();
}

const std::array<std::string, 4>& texts() {
  static const std::array<std::string, 4> all{
      "I'm sure they'LL be 1234 \xC3\xA9t\xC3\xA9 e\xCC\x81 \xE4\xBD\xA0\xE5\xA5\xBD\xF0\x9F\x98\x80  \r\n\t "
      "<s>a</s><|im_end|> [INST] x",
      std::string(600, ' ') + std::string(600, 'a') + std::string(100, '\n'),
      "\xE2\x96\x81\xE2\x96\x81"
      "a",
      "\xFF\xC3 \xE2\x96"};
  return all;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto read = model::tokenizer::from_json({reinterpret_cast<const char*>(data), size});
  if (!read) {
    const std::string_view line = read.error().what();
    check(!line.empty() && line.find('\n') == std::string_view::npos && line.size() < 1000);
    return 0;
  }
  const auto tokens = std::make_shared<const model::tokenizer>(std::move(*read));
  for (const auto& text : texts()) {
    for (const bool special : {false, true}) {
      const auto ids = tokens->encode(text, special);
      for (const auto id : ids) check(id >= 0 && static_cast<std::uint32_t>(id) < tokens->size());
      if (model::is_utf8(text)) {
        const std::string_view whole = text;
        const std::vector<model::tokenizer::fragment> halves{{whole.substr(0, 1), special}, {whole.substr(1), special}};
        check(!model::is_utf8(halves[1].text) || tokens->encode(halves) == ids);
      }
      const auto decoded = tokens->decode(ids, !special);
      check(model::is_utf8(decoded));
      model::incremental_decoder stream(tokens, !special);
      std::string pieces;
      for (const auto id : ids) pieces += stream.feed(id);
      check(pieces + stream.finish() == decoded);
    }
  }
  return 0;
}
