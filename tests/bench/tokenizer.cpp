// Encoding text: MB/s of one thread against npm's tiktoken (Rust, compiled to WebAssembly), with the same vocabularies
// (those of GPT-2, GPT-4 and GPT-4o) on the same text (this repository's own), in turns. The ids must be the same.

#include "gpu/model/tiktoken_ranks.hpp"
#include "support/bench.hpp"

#include <godwit/gpu/model/tokenizer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace {

namespace files = std::filesystem;
using godwit::gpu::model::tokenizer;
namespace tests = godwit::gpu::model::tests;

constexpr auto package = GODWIT_SOURCE_DIR "/tests/gpu/model/oracle";
constexpr auto script = GODWIT_SOURCE_DIR "/tests/gpu/model/oracle/tiktoken.mjs";

std::string text_of_this_repository() {
  std::vector<files::path> paths;
  for (const auto* folder : {"docs", "protocols", "runtime", "transport", "gpu", "actors"})
    for (const auto& entry : files::recursive_directory_iterator(files::path(GODWIT_SOURCE_DIR) / folder)) {
      const auto kind = entry.path().extension();
      const bool generated = entry.path().filename() == "tables.cpp";
      if (entry.is_regular_file() && !generated && (kind == ".md" || kind == ".cpp" || kind == ".hpp"))
        paths.push_back(entry.path());
    }
  std::sort(paths.begin(), paths.end());
  std::string text;
  for (const auto& path : paths) {
    std::ifstream in(path, std::ios::binary);
    text.append(std::istreambuf_iterator<char>(in), {});
  }
  return text;
}

class scratch {
public:
  scratch() : path_(files::temp_directory_path() / ("godwit-bench-tokenizer-" + std::to_string(::getpid()))) {
    files::create_directories(path_);
  }
  ~scratch() {
    std::error_code ignored;
    files::remove_all(path_, ignored);
  }
  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;
  [[nodiscard]] const files::path& path() const { return path_; }

private:
  files::path path_;
};

/// The other process. It waits for its turn.
class reference {
public:
  reference(const std::string& encoding, const files::path& text, const files::path& out) {
    int to[2], from[2];
    if (::pipe(to) != 0 || ::pipe(from) != 0) throw std::runtime_error("no pipes");
    child_ = ::fork();
    if (child_ < 0) throw std::runtime_error("cannot fork");
    if (child_ == 0) {
      ::dup2(to[0], 0);
      ::dup2(from[1], 1);
      for (const int fd : {to[0], to[1], from[0], from[1]}) ::close(fd);
      ::execlp("node", "node", script, package, encoding.c_str(), text.c_str(), out.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(to[0]);
    ::close(from[1]);
    ask_ = ::fdopen(to[1], "w");
    answer_ = ::fdopen(from[0], "r");
    if (read_line() != "ready") throw std::runtime_error("node or its package tiktoken does not run");
  }
  ~reference() {
    std::fputs("end\n", ask_);
    std::fclose(ask_);
    std::fclose(answer_);
    ::waitpid(child_, nullptr, 0);
  }
  reference(const reference&) = delete;
  reference& operator=(const reference&) = delete;

  double seconds() {
    std::fputs("go\n", ask_);
    std::fflush(ask_);
    return std::stod(read_line());
  }

private:
  std::string read_line() {
    char line[64];
    if (!std::fgets(line, sizeof line, answer_)) return {};
    std::string text(line);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  }
  ::pid_t child_ = -1;
  std::FILE* ask_ = nullptr;
  std::FILE* answer_ = nullptr;
};

tokenizer same_tokenizer(const files::path& directory) {
  auto read = tokenizer::from_json(tests::tokenizer_json_of_tiktoken(directory.string()));
  if (!read) throw std::runtime_error(read.error().what());
  return std::move(read).value();
}

void compare(godwit::bench::session& session, const std::string& encoding, const std::string& text, double bound) {
  const auto name = "tokenizer/encode/" + encoding;
  if (!session.wants(name)) return;
  const scratch directory;
  std::ofstream(directory.path() / "text") << text;
  reference theirs(encoding, directory.path() / "text", directory.path());
  const auto ours = same_tokenizer(directory.path());
  const auto ids = ours.encode(text, false);
  const auto expected = tests::lines_of((directory.path() / "ids.txt").string());
  const bool same = std::equal(ids.begin(), ids.end(), expected.begin(), expected.end(),
                               [](auto id, const std::string& line) { return std::to_string(id) == line; });
  if (!same) throw std::runtime_error("the ids are not tiktoken's (" + encoding + ")");
  const auto megabytes = static_cast<double>(text.size()) / 1e6;
  const auto measured = godwit::bench::interleave(
      session.repetitions(),
      [&] {
        const auto begin = std::chrono::steady_clock::now();
        if (ours.encode(text, false).size() != ids.size()) throw std::runtime_error("other ids than before");
        return megabytes / std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      },
      [&] { return megabytes / theirs.seconds(); });
  session.add(godwit::bench::compare(name, measured, "MB/s", godwit::bench::figure::direction::at_least, bound));
}

} // namespace

int main(int argc, char** argv) {
  godwit::bench::session session{argc, argv, 9};
  if (!files::exists(std::string(package) + "/node_modules/tiktoken")) {
    std::fprintf(stderr, "bench tokenizer: npm's tiktoken is not there (npm ci in tests/gpu/model/oracle)\n");
    return 1;
  }
  const auto text = text_of_this_repository();
  for (const auto* encoding : {"cl100k_base", "r50k_base", "o200k_base"}) compare(session, encoding, text, 3.0);
  return session.result();
}
