// A cluster whose processes and operators know each other by certificates.
#include "processes/support/answers.hpp"
#include "processes/support/godwit_processes.hpp"
#include "support/certificates.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace godwit::test {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

namespace {

class ClusterTls : public ::testing::Test {
protected:
  void SetUp() override {
    if (!has_default_model()) GTEST_SKIP() << "built without the embedded model";
    own_.sign("head", "IP:127.0.0.1");
    own_.sign("member", "DNS:member.example");
    own_.sign("operator", "");
    foreign_.sign("stranger", "IP:127.0.0.1");
  }
  static std::vector<std::string> with_tls(const authority& whose, const std::string& subject,
                                           std::vector<std::string> arguments = {}) {
    arguments.insert(arguments.end(), {"--cluster-tls-cert", whose.certificate_of(subject), "--cluster-tls-key",
                                       whose.key_of(subject), "--cluster-tls-ca", whose.file()});
    return arguments;
  }
  struct outcome {
    int code;
    std::string out, err;
  };
  static outcome run(const std::vector<std::string>& arguments) {
    child_process command(godwit_program(), arguments);
    const auto code = command.wait_exit(60s);
    return {code.value_or(-1), command.out(), command.err()};
  }
  std::string status_of(const served& head) const {
    const auto at = "127.0.0.1" + head.control().substr(head.control().rfind(':'));
    const auto said = run(with_tls(own_, "operator", {"status", "--control", at, "--json"}));
    EXPECT_EQ(said.code, 0) << said.err;
    return said.out;
  }

  authority own_{"own"};
  authority foreign_{"foreign"};
};

TEST_F(ClusterTls, AMemberJoinsAndAnswersAndTheOperatorIsHeard) {
  served head(with_tls(own_, "head", patient({"--instances", "1", "--threads", "1"})));
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  joined member(head.control(),
                with_tls(own_, "member", patient({"--instances", "1", "--threads", "1", "--name", "m"})));
  ASSERT_TRUE(member.wait_ready()) << member.process.err();
  ASSERT_TRUE(wait_until(60s, [&] { return status_of(head).find("\"node\":\"m\"") != std::string::npos; }));
  const auto questions = mixed_questions(8, 200);
  for (const auto& answer : ask_all(head.url(), questions)) {
    EXPECT_EQ(answer.error, "");
    EXPECT_EQ(answer.tokens.size(), 200U);
  }
  const auto drained = run(with_tls(own_, "operator", {"drain", "0", "--control", head.control()}));
  EXPECT_EQ(drained.code, 0) << drained.out << drained.err;
  EXPECT_THAT(head.process.err() + member.process.err(), Not(HasSubstr("turned away")));
}

TEST_F(ClusterTls, AProcessThatTheClusterStartsHasItsCertificate) {
  // At all addresses: a child's way is the one that the certificate is for.
  served head(
      with_tls(own_, "head",
               patient({"--instances", "1", "--threads", "1", "--scaling", "on", "--scaling-hold", "300ms",
                        "--scaling-instances-max", "2", "--scaling-freeness-min", "100000", "--scaling-freeness-max",
                        "200000", "--scaling-provisioner", "process", "--control", "0.0.0.0:0"})));
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  const auto second = [&] {
    const auto said = status_of(head);
    const auto first = said.find("\"state\":\"ready\"");
    return first != std::string::npos && said.find("\"state\":\"ready\"", first + 1) != std::string::npos;
  };
  EXPECT_TRUE(wait_until(60s, second)) << status_of(head) << head.process.err();
}

TEST_F(ClusterTls, StrangersNeitherJoinNorCommand) {
  served head(with_tls(own_, "head", patient({"--instances", "1", "--threads", "1"})));
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  const auto foreign = run(with_tls(foreign_, "stranger", {"status", "--control", head.control()}));
  EXPECT_EQ(foreign.code, 1);
  EXPECT_THAT(foreign.err, AllOf(HasSubstr("no godwit answers at"), HasSubstr("certificate verify failed")));
  auto half = with_tls(foreign_, "stranger", {"status", "--control", head.control()});
  half.back() = own_.file(); // it trusts the head, and is not trusted
  const auto refused = run(half);
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("unknown ca"));
  EXPECT_TRUE(head.process.wait_log("turned away 127.0.0.1:", 10s));
  const auto plain = run({"status", "--control", head.control()});
  EXPECT_EQ(plain.code, 1);
  EXPECT_THAT(plain.err, AllOf(HasSubstr("no godwit answers at"), HasSubstr("TLS")));
  EXPECT_THAT(status_of(head), HasSubstr("\"ready\"")) << "it goes on";
}

TEST_F(ClusterTls, FilesThatCannotBeUsedEndTheStartWithOneLine) {
  const auto some = std::vector<std::string>{"--cluster-tls-cert", own_.certificate_of("head")};
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"serve", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"},
        std::vector<std::string>{"node", "--join", "127.0.0.1:1"}, std::vector<std::string>{"status"}}) {
    auto incomplete = command;
    incomplete.insert(incomplete.end(), some.begin(), some.end());
    const auto said = run(incomplete);
    EXPECT_EQ(said.code, 2);
    EXPECT_THAT(said.err, HasSubstr("are given together"));
    const auto missing = run(with_tls(own_, "nobody", command));
    EXPECT_EQ(missing.code, 2);
    EXPECT_THAT(missing.err, HasSubstr("cannot use the certificate " + own_.certificate_of("nobody")));
    EXPECT_EQ(std::count(missing.err.begin(), missing.err.end(), '\n'), 1) << missing.err;
  }
}

} // namespace
} // namespace godwit::test
