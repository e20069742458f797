#include "processes/support/calm_answers.hpp"

#include "processes/support/godwit_processes.hpp"

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>

#include <unistd.h>

namespace godwit::test {

namespace {

namespace json = boost::json;
namespace fs = std::filesystem;

const std::vector<std::string> arguments{"--instances", "1", "--threads", "1"};

std::string in_words(const std::vector<question>& questions) {
  json::array all;
  for (const auto& q : questions)
    all.push_back(json::array{q.prompt, q.temperature, q.seed, q.tokens, q.request_id, q.model});
  return json::serialize(all);
}

/// The program as it is now, how it is called, and what decides by which kernels it computes.
std::string program_in_words() {
  const fs::path program = godwit_program();
  std::string processor;
  std::ifstream all("/proc/cpuinfo");
  while (std::getline(all, processor) && !processor.starts_with("flags")) continue;
  return std::to_string(fs::last_write_time(program).time_since_epoch().count()) + " " +
         std::to_string(fs::file_size(program)) + " " + processor + " " +
         json::serialize(json::value_from(patient(arguments))) + " ";
}

/// Empty: there are none, or of another program.
std::optional<std::vector<streamed_answer>> read(const fs::path& file, const std::string& key) {
  std::ifstream in(file);
  boost::system::error_code wrong;
  const auto page = json::parse(std::string(std::istreambuf_iterator<char>(in), {}), wrong);
  const auto* const known = !wrong && page.is_object() ? page.as_object().if_contains("key") : nullptr;
  if (known == nullptr || *known != json::value(key)) return std::nullopt;
  std::vector<streamed_answer> out;
  for (const auto& one : page.at("answers").as_array()) {
    auto& answer = out.emplace_back();
    answer.text = json::value_to<std::string>(one.at("text"));
    answer.tokens = json::value_to<std::vector<std::string>>(one.at("tokens"));
    answer.finish = json::value_to<std::string>(one.at("finish"));
    answer.usage_tokens = json::value_to<std::uint64_t>(one.at("usage_tokens"));
  }
  return out;
}

void write(const fs::path& file, const std::string& key, const std::vector<streamed_answer>& answers) {
  json::array all;
  for (const auto& a : answers)
    all.push_back(json::object{{"text", a.text},
                               {"tokens", json::value_from(a.tokens)},
                               {"finish", a.finish},
                               {"usage_tokens", a.usage_tokens}});
  fs::create_directories(file.parent_path());
  const auto part = fs::path(file) += "." + std::to_string(::getpid()); // whole or not at all
  std::ofstream(part) << json::object{{"key", key}, {"answers", std::move(all)}};
  fs::rename(part, file);
}

} // namespace

std::vector<streamed_answer> calm_answers(const std::vector<question>& questions) {
  const auto asked = in_words(questions), key = program_in_words() + asked;
  const auto file = fs::path(GODWIT_BINARY_DIR) / "tests/calm_answers" /
                    (std::to_string(std::hash<std::string>{}(asked)) + ".json"); // which the next program writes anew
  if (auto known = read(file, key)) return *std::move(known);
  served head(patient(arguments));
  EXPECT_TRUE(head.wait_ready()) << head.process.err();
  auto answers = ask_all(head.url(), questions);
  bool whole = true;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    EXPECT_EQ(answers.at(i).error, "");
    EXPECT_EQ(answers.at(i).usage_tokens, questions[i].tokens);
    whole = whole && answers[i].error.empty() && answers[i].usage_tokens == questions[i].tokens;
  }
  if (whole) write(file, key, answers);
  return answers;
}

} // namespace godwit::test
