#include "gpu/model/bpe_trainer.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <queue>
#include <sstream>
#include <unordered_map>

namespace godwit::gpu::model::tests {

namespace {

struct word {
  std::vector<std::uint32_t> symbols;
  std::uint64_t count = 0;
};

class trainer {
public:
  trainer(const std::map<std::string, std::uint64_t>& words, std::vector<std::string> alphabet)
      : tokens_(std::move(alphabet)) {
    for (std::uint32_t i = 0; i < tokens_.size(); ++i) numbers_.emplace(tokens_[i], i);
    for (const auto& [text, count] : words) {
      word one{{}, count};
      for (std::size_t at = 0; at < text.size();) {
        auto end = at + 1;
        while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) ++end;
        one.symbols.push_back(number(text.substr(at, end - at)));
        at = end;
      }
      words_.push_back(std::move(one));
    }
    for (std::uint32_t i = 0; i < words_.size(); ++i)
      for (std::size_t j = 0; j + 1 < words_[i].symbols.size(); ++j)
        change(words_[i].symbols[j], words_[i].symbols[j + 1], i, static_cast<std::int64_t>(words_[i].count));
    for (const auto& [pair, found] : pairs_) best_.push({found.count, pair});
  }

  trained_bpe run(std::size_t merges_max) {
    trained_bpe out;
    while (out.merges.size() < merges_max && !best_.empty()) {
      const auto [count, pair] = best_.top();
      best_.pop();
      auto& found = pairs_[pair];
      if (count != found.count) {
        if (found.count > 1) best_.push({found.count, pair}); // it was stale
        continue;
      }
      if (count < 2) break;
      const auto left = static_cast<std::uint32_t>(pair >> 32U);
      const auto right = static_cast<std::uint32_t>(pair);
      const auto whole = tokens_[left] + tokens_[right];
      if (numbers_.contains(whole)) { // made already from others
        found.count = 0;
        continue;
      }
      out.merges.emplace_back(tokens_[left], tokens_[right]);
      merge(left, right, number(whole));
    }
    out.tokens = tokens_;
    return out;
  }

private:
  struct occurrences {
    std::int64_t count = 0;
    std::vector<std::uint32_t> words; ///< may hold words that have it no more
  };

  std::uint32_t number(const std::string& text) {
    const auto [at, added] = numbers_.emplace(text, static_cast<std::uint32_t>(tokens_.size()));
    if (added) tokens_.push_back(text);
    return at->second;
  }
  static std::uint64_t key(std::uint32_t left, std::uint32_t right) { return (std::uint64_t{left} << 32U) | right; }
  void change(std::uint32_t left, std::uint32_t right, std::uint32_t where, std::int64_t by) {
    auto& found = pairs_[key(left, right)];
    found.count += by;
    if (by > 0 && (found.words.empty() || found.words.back() != where)) found.words.push_back(where);
  }
  void merge(std::uint32_t left, std::uint32_t right, std::uint32_t into) {
    auto where = std::move(pairs_[key(left, right)].words);
    std::sort(where.begin(), where.end());
    where.erase(std::unique(where.begin(), where.end()), where.end());
    std::vector<std::uint64_t> touched;
    for (const auto index : where) {
      auto& symbols = words_[index].symbols;
      const auto count = static_cast<std::int64_t>(words_[index].count);
      const auto all = [&](std::int64_t by) {
        for (std::size_t j = 0; j + 1 < symbols.size(); ++j) {
          change(symbols[j], symbols[j + 1], index, by);
          touched.push_back(key(symbols[j], symbols[j + 1]));
        }
      };
      all(-count);
      std::vector<std::uint32_t> merged;
      for (std::size_t j = 0; j < symbols.size(); ++j) {
        const bool here = j + 1 < symbols.size() && symbols[j] == left && symbols[j + 1] == right;
        merged.push_back(here ? into : symbols[j]);
        if (here) ++j;
      }
      symbols = std::move(merged);
      all(count);
    }
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    for (const auto pair : touched)
      if (const auto now = pairs_[pair].count; now > 1) best_.push({now, pair});
  }

  struct candidate {
    std::int64_t count;
    std::uint64_t pair;
    friend bool operator<(const candidate& a, const candidate& b) {
      return a.count != b.count ? a.count < b.count : a.pair > b.pair;
    }
  };

  std::vector<std::string> tokens_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::vector<word> words_;
  std::unordered_map<std::uint64_t, occurrences> pairs_;
  std::priority_queue<candidate> best_;
};

} // namespace

trained_bpe train_bpe(const std::map<std::string, std::uint64_t>& words, std::size_t merges_max,
                      std::vector<std::string> alphabet) {
  return trainer(words, std::move(alphabet)).run(merges_max);
}

std::string repository_text(std::size_t bytes_max) {
  const std::filesystem::path root = GODWIT_SOURCE_DIR;
  std::vector<std::filesystem::path> files;
  for (const auto* folder : {"docs", "protocols", "runtime", "transport", "gpu", "actors"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      const auto kind = entry.path().extension();
      // Generated tables are no text.
      if (entry.is_regular_file() && entry.path().filename() != "tables.cpp" &&
          (kind == ".md" || kind == ".cpp" || kind == ".hpp"))
        files.push_back(entry.path());
    }
  std::sort(files.begin(), files.end());
  std::string text;
  for (const auto& file : files) {
    if (text.size() >= bytes_max) break;
    std::ostringstream all;
    all << std::ifstream(file, std::ios::binary).rdbuf();
    text += all.str();
  }
  if (text.size() > bytes_max) text.resize(text.find_last_of('\n', bytes_max) + 1);
  return text;
}

} // namespace godwit::gpu::model::tests
