// `godwit batch` against a real server, whose process is killed meanwhile.
#include "processes/support/child_process.hpp"
#include "processes/support/godwit_processes.hpp"

#include <boost/json.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

namespace godwit::test {
namespace batches {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
namespace json = boost::json;

class BatchOfProcesses : public ::testing::Test {
protected:
  void SetUp() override {
    if (!has_default_model()) GTEST_SKIP() << "built without the embedded model";
    folder_ = ::testing::TempDir() + "/godwit_batches_" + std::to_string(::getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string input() const { return folder_ + "/in.jsonl"; }
  [[nodiscard]] std::string output() const { return folder_ + "/out.jsonl"; }
  std::unique_ptr<child_process> batch(const std::string& url, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"batch", input(), "--output", output(), "--url", url, "--json"});
    return std::make_unique<child_process>(godwit_program(), more);
  }
  /// Bodies by the ids of their requests; those without an answer have none.
  std::map<std::string, json::object> answered() const {
    std::map<std::string, json::object> out;
    std::ifstream in(output());
    for (std::string line; std::getline(in, line);) {
      boost::system::error_code wrong;
      const auto parsed = json::parse(line, wrong);
      if (wrong) continue;
      const auto& response = parsed.at("response");
      if (response.is_object() && response.at("status_code").as_int64() == 200)
        out.emplace(parsed.at("custom_id").as_string(), response.at("body").as_object());
    }
    return out;
  }
  static void put(std::ostream& to, const std::string& id, const char* url, json::object body) {
    to << json::serialize(json::object{{"custom_id", id}, {"method", "POST"}, {"url", url}, {"body", std::move(body)}})
       << '\n';
  }

  std::string folder_;
};

TEST_F(BatchOfProcesses, EveryEndpointAnswers) {
  const json::array chat{json::object{{"role", "user"}, {"content", "Hello"}}};
  {
    std::ofstream to(input());
    put(to, "completion", "/v1/completions", {{"prompt", "Once"}, {"max_tokens", 8}, {"temperature", 0}});
    put(to, "chat", "/v1/chat/completions", {{"messages", chat}, {"max_tokens", 8}});
    put(to, "response", "/v1/responses", {{"input", "Hello"}, {"max_output_tokens", 16}});
    put(to, "message", "/v1/messages", {{"messages", chat}, {"max_tokens", 8}});
    put(to, "wrong", "/v1/completions", {{"prompt", "Once"}, {"temperature", "warm"}});
  }
  served server(patient({"--instances", "1", "--threads", "1"}));
  ASSERT_TRUE(server.wait_ready()) << server.process.err();
  const auto command = batch(server.url());
  EXPECT_EQ(command->wait_exit(60s), 1) << command->err(); // one is wrong
  const auto got = answered();
  EXPECT_EQ(got.size(), 4U);
  EXPECT_EQ(got.at("completion").at("object").as_string(), "text_completion");
  EXPECT_EQ(got.at("chat").at("object").as_string(), "chat.completion");
  EXPECT_EQ(got.at("response").at("object").as_string(), "response");
  EXPECT_EQ(got.at("message").at("type").as_string(), "message");
  const auto report = json::parse(command->out()).as_object();
  EXPECT_EQ(report.at("failed").as_int64(), 1);
  EXPECT_GE(report.at("answer_tokens").as_int64(), 8);
}

TEST_F(BatchOfProcesses, GoesOnAtTheNextServerWithTheSameTexts) {
  constexpr std::size_t requests = 500;
  {
    std::ofstream to(input());
    for (std::size_t i = 0; i < requests; ++i)
      put(to, "r" + std::to_string(i), "/v1/completions",
          {{"prompt", "Number " + std::to_string(i)}, {"max_tokens", 100}, {"temperature", 0}, {"ignore_eos", true}});
  }
  const std::vector<std::string> arguments{"--instances", "1", "--threads", "1"};
  {
    served first(patient(arguments));
    ASSERT_TRUE(first.wait_ready()) << first.process.err();
    const auto command = batch(first.url(), {"--concurrency", "1", "--retries", "0"});
    ASSERT_TRUE(wait_until(60s, [&] { return answered().size() >= 5; })) << command->err();
    first.process.signal(SIGKILL);
    EXPECT_EQ(command->wait_exit(60s), 1) << command->err();
  }
  const auto before = answered();
  served second(patient(arguments));
  ASSERT_TRUE(second.wait_ready()) << second.process.err();
  auto command = batch(second.url(), {"--resume"});
  EXPECT_EQ(command->wait_exit(120s), 0) << command->err() << command->out();
  const auto resumed = answered();
  EXPECT_EQ(resumed.size(), requests);
  for (const auto& [id, body] : before) EXPECT_EQ(resumed.at(id), body) << "kept as it was: " << id;
  command = batch(second.url(), {"--overwrite"});
  EXPECT_EQ(command->wait_exit(120s), 0) << command->err();
  for (const auto& [id, body] : answered())
    EXPECT_EQ(body.at("choices").as_array()[0].at("text"), resumed.at(id).at("choices").as_array()[0].at("text")) << id;
}

} // namespace batches
} // namespace godwit::test
