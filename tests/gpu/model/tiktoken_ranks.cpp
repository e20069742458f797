#include "gpu/model/tiktoken_ranks.hpp"

#include <cstdint>
#include <fstream>
#include <string_view>
#include <unordered_map>

namespace godwit::gpu::model::tests {

namespace {

using rank_map = std::unordered_map<std::string_view, std::uint32_t>;

/// The parts that remain of `token` when all merges of lower ranks are done.
std::vector<std::string_view> parts_of(std::string_view token, const rank_map& ranks, std::uint32_t below) {
  std::vector<std::string_view> parts;
  for (std::size_t i = 0; i < token.size(); ++i) parts.push_back(token.substr(i, 1));
  while (parts.size() > 2) {
    auto lowest = below;
    std::size_t best = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const std::string_view both(parts[i].data(), parts[i].size() + parts[i + 1].size());
      const auto found = ranks.find(both);
      if (found != ranks.end() && found->second < lowest) {
        lowest = found->second;
        best = i;
      }
    }
    if (lowest == below) break;
    parts[best] = {parts[best].data(), parts[best].size() + parts[best + 1].size()};
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  return parts;
}

/// GPT-2's spelling of bytes, escaped for JSON.
std::string spelled(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    unsigned code = byte;
    if (byte < 0x21) code = 0x100 + byte;
    if (byte >= 0x7F && byte <= 0xA0) code = 0x121 + (byte - 0x7FU);
    if (byte == 0xAD) code = 0x143;
    if (c == '"' || c == '\\') out += '\\';
    if (code < 0x80)
      out += static_cast<char>(code);
    else
      (out += static_cast<char>(0xC0U | (code >> 6U))) += static_cast<char>(0x80U | (code & 0x3FU));
  }
  return out;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

} // namespace

std::vector<std::string> lines_of(const std::string& file) {
  std::vector<std::string> lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) lines.push_back(std::move(line));
  return lines;
}

std::string from_base64(const std::string& text) {
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    std::uint32_t value = 0;
    if (c >= 'A' && c <= 'Z')
      value = static_cast<std::uint32_t>(c - 'A');
    else if (c >= 'a' && c <= 'z')
      value = static_cast<std::uint32_t>(c - 'a') + 26;
    else if (c >= '0' && c <= '9')
      value = static_cast<std::uint32_t>(c - '0') + 52;
    else if (c == '+' || c == '/')
      value = c == '+' ? 62 : 63;
    else
      break;
    bits = (bits << 6U) | value;
    count += 6;
    if (count >= 8) {
      count -= 8;
      out += static_cast<char>((bits >> static_cast<unsigned>(count)) & 0xFFU);
    }
  }
  return out;
}

std::string tokenizer_json_of(const std::vector<std::string>& ranks, const std::string& pattern) {
  rank_map numbers;
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank)
    if (!ranks[rank].empty()) numbers.emplace(ranks[rank], rank);
  std::string vocab, merges;
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
    const auto& token = ranks[rank];
    if (token.empty()) continue;
    vocab += (vocab.empty() ? "\"" : ",\"") + spelled(token) + "\":" + std::to_string(rank);
    if (token.size() == 1) continue;
    const auto parts = parts_of(token, numbers, rank);
    if (parts.size() == 2)
      merges += (merges.empty() ? "\"" : ",\"") + spelled(parts[0]) + " " + spelled(parts[1]) + "\"";
  }
  return R"({"added_tokens":[],"normalizer":null,"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split",)"
         R"("pattern":{"Regex":")" +
         escaped(pattern) +
         R"("},"behavior":"Isolated","invert":false},{"type":"ByteLevel","add_prefix_space":false,)" +
         R"("trim_offsets":true,"use_regex":false}]},"post_processor":null,"decoder":{"type":"ByteLevel"},"model":{)" +
         R"("type":"BPE","ignore_merges":false,"vocab":{)" + vocab + "},\"merges\":[" + merges + "]}}";
}

std::string tokenizer_json_of_tiktoken(const std::string& directory) {
  std::vector<std::string> ranks;
  for (const auto& line : lines_of(directory + "/ranks.txt")) ranks.push_back(from_base64(line));
  const auto pattern = lines_of(directory + "/pattern.txt");
  return tokenizer_json_of(ranks, pattern.empty() ? std::string() : pattern.front());
}

} // namespace godwit::gpu::model::tests
