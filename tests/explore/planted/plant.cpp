// plant BUGS ROOT OUTPUT_DIR: writes each source that bugs.txt names, with all its bugs planted, to OUTPUT_DIR/FILE,
// and OUTPUT_DIR/count.inc with their number. Ends with 1 where a text is not there exactly once: the source has
// changed, and its bug with it.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;

struct bug {
  std::string number, file, original, planted;
};

std::string read(const fs::path& from) {
  std::ifstream in(from, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + from.string());
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<bug> parse(std::istream& in) {
  std::vector<bug> out;
  const auto block = [&](const std::string& begin, const std::string& end) {
    std::string line, text;
    if (!begin.empty() && (!std::getline(in, line) || line != begin)) throw std::runtime_error("expected " + begin);
    while (std::getline(in, line) && line != end) text += line + "\n";
    return text;
  };
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("bug ")) continue;
    std::istringstream head(line);
    std::string word, in_word;
    bug b;
    head >> word >> b.number >> in_word >> b.file;
    if (in_word != "in" || !b.file.ends_with(':')) throw std::runtime_error("not a bug's first line: " + line);
    b.file.pop_back();
    constexpr std::string_view breaks = "  breaks: ";
    if (!std::getline(in, line) || !line.starts_with(breaks) || line.size() == breaks.size())
      throw std::runtime_error("bug " + b.number + " does not say which promises it breaks");
    if (in.peek() == ' ') std::getline(in, line); // scenarios:, for who searches
    b.original = block("<<<<", "====");
    b.planted = block("", ">>>>");
    out.push_back(std::move(b));
    if (out.back().number != std::to_string(out.size()))
      throw std::runtime_error("bugs are numbered from 1 on: " + line);
  }
  return out;
}

void replace_all(std::string& text, const std::string& what, const std::string& with) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  try {
    const fs::path root = argv[2], to = argv[3];
    std::ifstream list(argv[1]);
    auto bugs = parse(list);
    std::map<std::string, std::string> sources;
    for (auto& b : bugs) {
      auto found = sources.find(b.file);
      if (found == sources.end()) found = sources.emplace(b.file, read(root / b.file)).first;
      auto& text = found->second;
      // the last line of a text may go on
      if (b.original.ends_with('\n')) b.original.pop_back();
      if (b.planted.ends_with('\n')) b.planted.pop_back();
      const auto at = text.find(b.original);
      if (at == std::string::npos || text.find(b.original, at + 1) != std::string::npos)
        throw std::runtime_error("bug " + b.number + ": its text is not there once in " + b.file +
                                 "; mend tests/explore/planted/bugs.txt");
      replace_all(b.planted, "BUG", "::godwit::explore::planted(" + b.number + ")");
      text.replace(at, b.original.size(), b.planted);
    }
    for (const auto& [file, text] : sources) {
      const auto target = to / file;
      fs::create_directories(target.parent_path());
      std::ofstream out(target, std::ios::binary);
      out << "#include \"explore/planted/switch.hpp\"\n" << text;
      if (!out.flush()) throw std::runtime_error("cannot write " + target.string());
    }
    std::ofstream(to / "count.inc") << bugs.size() << "\n";
  } catch (const std::exception& wrong) {
    std::cerr << "plant: " << wrong.what() << "\n";
    return 1;
  }
  return 0;
}
