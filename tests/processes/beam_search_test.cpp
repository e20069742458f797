// Beam search over HTTP with a real model: what it finds is as probable as it says, and more so than what greed finds.
#include "processes/support/answers.hpp"
#include "processes/support/godwit_processes.hpp"

#include <godwit/transport/http/client.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include <string>
#include <variant>
#include <vector>

namespace godwit::test {

using namespace std::chrono_literals;
namespace json = boost::json;

namespace {

class BeamsOfProcesses : public ::testing::Test {
protected:
  void SetUp() override {
    if (!has_default_model()) GTEST_SKIP() << "built without the embedded model";
  }
  static json::value ask(const std::string& url, const json::object& body) {
    transport::http::client client;
    const auto got = client.fetch({"POST", url + "/v1/completions", {}, json::serialize(body)});
    const auto* answer = std::get_if<transport::http::client_answer>(&got);
    EXPECT_TRUE(answer != nullptr && answer->status == 200) << (answer ? answer->body : "no answer");
    return answer ? json::parse(answer->body) : json::value();
  }
  static double sum_of(const json::value& choice, std::size_t first = 0) {
    const auto& all = choice.at("logprobs").at("token_logprobs").as_array();
    double out = 0;
    for (auto i = first; i < all.size(); ++i) out += all[i].to_number<double>();
    return out;
  }
};

} // namespace

TEST_F(BeamsOfProcesses, AreAsProbableAsTheySayAndMoreThanWhatGreedFinds) {
  served head(patient({"--instances", "2", "--threads", "1"}));
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  std::size_t better = 0, compared = 0;
  for (const char* prompt : {"A hacker is", "The GNU project", "int main(void) {", "Once upon a time"}) {
    const json::object base{{"prompt", prompt}, {"max_tokens", 12}, {"logprobs", 1}, {"temperature", 0}};
    auto searched = base;
    searched["use_beam_search"] = true;
    searched["n"] = 4;
    searched["ignore_eos"] = true;
    const auto beams = ask(head.url(), searched);
    ASSERT_EQ(beams.at("choices").as_array().size(), 4U);
    EXPECT_EQ(beams, [&] {
      auto again = ask(head.url(), searched);
      again.at("id") = beams.at("id");
      again.at("created") = beams.at("created");
      return again;
    }()) << "the same again";
    double last = 0;
    for (const auto& choice : beams.at("choices").as_array()) {
      EXPECT_LE(sum_of(choice), last) << "best first";
      last = sum_of(choice);
      // The server scores the whole text as a prompt.
      const auto text = std::string(prompt) + std::string(choice.at("text").as_string());
      const auto scored = ask(head.url(), {{"prompt", text}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 0}});
      const auto& pieces = scored.at("choices").at(0).at("logprobs").at("tokens").as_array();
      const auto& drawn = choice.at("logprobs").at("tokens").as_array();
      if (pieces.size() < drawn.size() || !std::equal(drawn.rbegin(), drawn.rend(), pieces.rbegin()))
        continue; // as a text it has other tokens
      ++compared;
      EXPECT_NEAR(sum_of(scored.at("choices").at(0), pieces.size() - drawn.size()), sum_of(choice), 1e-4) << text;
    }
    auto greedy = base;
    greedy["ignore_eos"] = true;
    const auto one = sum_of(ask(head.url(), greedy).at("choices").at(0));
    EXPECT_GE(sum_of(beams.at("choices").at(0)), one - 1e-6);
    better += sum_of(beams.at("choices").at(0)) > one + 1e-3 ? 1 : 0;
  }
  EXPECT_GT(compared, 3U);
  EXPECT_GT(better, 0U) << "or there is no use in it";
}

} // namespace godwit::test
