#include "main/usage_error.hpp"

#include "main/bench_command.hpp"
#include "main/command.hpp"
#include "main/drain_command.hpp"
#include "main/node_command.hpp"
#include "main/serve_command.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace godwit::main {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// What is said of a command line that is wrong.
std::string said_of(const std::string& line) {
  CLI::App app("godwit", "godwit");
  command_result command;
  add_serve_command(app, command);
  add_node_command(app, command);
  add_drain_command(app, command);
  add_bench_command(app, command);
  try {
    app.parse(line);
  } catch (const CLI::ParseError& error) {
    return explain(app, error);
  }
  return "nothing";
}

TEST(UsageError, NamesTheNearestFlag) {
  EXPECT_EQ(said_of("serve --lisen :1"), "unknown flag --lisen; did you mean --listen?");
  EXPECT_THAT(said_of("serve --no-such-thing-at-all"), HasSubstr("see 'godwit serve --help'"));
}

TEST(UsageError, KnowsWhatOthersCallIt) {
  EXPECT_EQ(said_of("serve --host 0.0.0.0"),
            "unknown flag --host; here it is --listen HOST:PORT; see 'godwit serve --help'");
  EXPECT_THAT(said_of("serve m --max-model-len=4096"), HasSubstr("here it is --model-context-max"));
  EXPECT_THAT(said_of("serve m --ssl-keyfile k"), HasSubstr("here it is --tls-key;"));
  EXPECT_THAT(said_of("serve --model m"), HasSubstr("a folder as first argument"));
  EXPECT_THAT(said_of("node --host 0.0.0.0"), Not(HasSubstr("--listen"))) << "a node has no such flag";
  EXPECT_THAT(said_of("drain --model m 1"), Not(HasSubstr("folder"))) << "nor has that one a model";
}

TEST(UsageError, SaysWhatIsWrongInItsOwnWords) {
  EXPECT_EQ(said_of("--lisen :1"), "unknown flag --lisen; see 'godwit --help'");
  EXPECT_EQ(said_of("serv"), "no command is called 'serv'; did you mean serve?");
  EXPECT_EQ(said_of("drain x"), "instance: 'x' is not a number that it may be; see 'godwit drain --help'");
  EXPECT_EQ(said_of("bench --timeout 1ms"),
            "--timeout: '1ms' is not a number of seconds that it may be; see 'godwit bench --help'");
  EXPECT_THAT(said_of("drain"), HasSubstr("instance is missing: "));
  EXPECT_EQ(said_of("drain 1 2"), "unexpected argument 2; see 'godwit drain --help'");
}

/// A name of ours that has gone would be bad advice.
TEST(UsageError, GivesNoAdviceThatIsWrongToo) {
  for (const char* theirs :
       {"--host", "--port", "-m", "--served-model-name", "--alias", "--max-model-len", "--ctx-size", "--max-num-seqs",
        "--parallel", "--max-num-batched-tokens", "--enable-prefix-caching", "--kv-cache-dtype",
        "--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size", "--api-key", "--ssl-certfile",
        "--allowed-origins"})
    EXPECT_THAT(said_of(std::string("serve ") + theirs + " x"), HasSubstr("here it is")) << theirs;
}

} // namespace
} // namespace godwit::main
