#include "protocols/jinja/template_files.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

namespace godwit::protocols::jinja {
namespace {

const std::string folder = GODWIT_SOURCE_DIR "/tests/protocols/jinja";

/// Every case by name, with its text; none where rendering fails.
std::map<std::string, std::optional<std::string>> rendered() {
  std::map<std::string, std::optional<std::string>> out;
  const auto add = [&](const std::string& name, const std::string& source, const variables& given) {
    const auto compiled = compiled_template::compile(source);
    const auto text = compiled ? compiled->render(given) : unexpected(compiled.error());
    out[name] = text ? std::optional(text->bytes()) : std::nullopt;
  };
  const auto conversations = boost::json::parse(tests::read_file(folder + "/conversations.json"));
  for (const auto& file : std::filesystem::directory_iterator(folder + "/templates"))
    for (std::size_t i = 0; i < conversations.as_array().size(); ++i)
      add(file.path().filename().string() + ":" + std::to_string(i), tests::read_file(file.path().string()),
          tests::variables_of(conversations.as_array()[i]));
  const auto snippets = boost::json::parse(tests::read_file(folder + "/snippets.json"));
  const auto given = tests::variables_of(snippets.at("context"));
  for (std::size_t i = 0; i < snippets.at("snippets").as_array().size(); ++i)
    add("snippet:" + std::to_string(i), tests::text_of(snippets.at("snippets").as_array()[i]), given);
  return out;
}

std::string hash_of(const std::string& text) {
  std::uint64_t state = 14695981039346656037ULL;
  for (const char c : text) state = (state ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  char out[17];
  std::snprintf(out, sizeof out, "%016llx", static_cast<unsigned long long>(state));
  return out;
}

/// The lines "name rest" of a file.
std::map<std::string, std::string> lines_of(const std::string& file) {
  std::map<std::string, std::string> out;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) out[line.substr(0, line.find(' '))] = line.substr(line.find(' ') + 1);
  return out;
}

TEST(ChatTemplates, RealTemplatesGiveWhatHuggingFacesJinjaGave) {
  const auto expected = lines_of(folder + "/expected.txt");
  const auto ours = rendered();
  EXPECT_EQ(expected.size(), ours.size()) << "expected.txt is older than the cases; README.md says how to write it";
  EXPECT_GT(ours.size(), 600U);
  for (const auto& [name, text] : ours) {
    const auto known = expected.find(name);
    ASSERT_NE(known, expected.end()) << name;
    EXPECT_EQ(text ? hash_of(*text) : "error", known->second) << name << "\n" << text.value_or("(an error)");
  }
}

TEST(ChatTemplates, RealTemplatesGiveWhatHuggingFacesJinjaGives) {
  if (!std::filesystem::exists(folder + "/oracle/node_modules/.package-lock.json"))
    GTEST_SKIP() << "no node_modules in tests/protocols/jinja/oracle; `npm ci` there fetches the oracle";
  const auto out = std::filesystem::temp_directory_path() / ("godwit-jinja-" + std::to_string(::getpid()) + ".txt");
  const auto command = "cd '" + folder + "/oracle' && node render.mjs .. '" + out.string() + "'";
  ASSERT_EQ(std::system(command.c_str()), 0);
  const auto expected = lines_of(out.string());
  std::filesystem::remove(out);
  const auto ours = rendered();
  EXPECT_EQ(expected.size(), ours.size());
  for (const auto& [name, text] : ours) {
    const auto known = expected.find(name);
    ASSERT_NE(known, expected.end()) << name;
    const auto theirs = boost::json::parse(known->second);
    if (theirs.is_null())
      EXPECT_FALSE(text.has_value()) << name;
    else
      EXPECT_EQ(text.value_or("(an error)"), tests::text_of(theirs)) << name;
  }
}

} // namespace
} // namespace godwit::protocols::jinja
