// `godwit sim --queue-order`.
#include "main/sim_command_support.hpp"

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include <string>

namespace godwit::main::test {

// Places are few, and lengths differ much: what is known of them beforehand decides who goes first.
TEST(SimCommand, ShortJobsGoFirstAsFarAsTheirLengthsAreKnown) {
  const std::string line = "--json --profile llama-7b-a10 --policy round_robin --instances 2 --lengths M-M --rate 0.9 "
                           "--requests 500 --seed 3 --llumlet-sequences-max 6";
  const auto report = [&](const std::string& more) {
    const auto result = typed(line + more);
    EXPECT_EQ(result.code, 0) << result.err;
    return boost::json::parse(result.out).as_object();
  };
  const auto mean = [](const boost::json::object& r) { return r.at("end_to_end_ms").at("mean").as_double(); };
  const auto served = report("");
  EXPECT_EQ(served.if_contains("expected_lengths"), nullptr) << "nobody goes by them";
  const auto known = report(" --queue-order sjf --length-accuracy 1");
  EXPECT_EQ(known.at("expected_lengths").at("class_exact_share").as_double(), 1);
  EXPECT_LT(mean(known), 0.8 * mean(served));
  EXPECT_EQ(known, report(" --queue-order sjf --length-accuracy 1")) << "the same run, byte for byte";
  const auto half = report(" --queue-order sjf --length-accuracy 0.5");
  EXPECT_NEAR(half.at("expected_lengths").at("class_exact_share").as_double(), 0.5, 0.1);
  EXPECT_GT(mean(half), mean(known));
  EXPECT_GT(mean(report(" --queue-order ljf --length-accuracy 1")), mean(served));
  EXPECT_EQ(mean(report(" --queue-order sjf --length-accuracy 1 --llumlet-queue-aging 0ms")), mean(served));
  const auto learned = report(" --queue-order sjf");
  const auto& lengths = learned.at("expected_lengths").as_object();
  EXPECT_GT(lengths.at("answers").to_number<std::size_t>(), 400U);
  EXPECT_GT(lengths.at("class_exact_share").as_double(), 0.05);
  EXPECT_GT(lengths.at("wrong_by_share").as_double(), 0.9)
      << "drawn at random, lengths are not to be learned; max_tokens, which is how long they will be, would tell them";
  const auto text =
      typed("--profile llama-7b-a10 --instances 1 --lengths S-S --rate 1 --requests 20 --queue-order sjf");
  EXPECT_NE(text.out.find("of the expected class"), std::string::npos) << text.out;
}

TEST(SimCommand, DeadlinesAreOfTheWholeAnswerAndTheServerHearsOfThem) {
  const std::string line = "--json --profile llama-7b-a10 --policy round_robin --instances 1 --lengths M-M --rate 0.4 "
                           "--requests 200 --seed 3 --llumlet-sequences-max 6";
  const auto met = [&](const std::string& more) {
    const auto result = typed(line + more);
    EXPECT_EQ(result.code, 0) << result.err;
    return boost::json::parse(result.out).at("slo_attainment").as_double();
  };
  EXPECT_EQ(met(""), 1) << "nobody wants anything";
  EXPECT_EQ(met(" --deadlines 100000-100000"), 1);
  EXPECT_EQ(met(" --deadlines 0.000001-0.00001"), 0);
  const auto served = met(" --deadlines 1-350");
  EXPECT_GT(served, 0.1);
  EXPECT_LT(served, 0.95);
  EXPECT_NE(met(" --deadlines 1-350 --queue-order edf"), served) << "the queue goes by them";
  EXPECT_NE(typed("--profile toy --lengths S-S --rate 1 --requests 5 --deadlines 5-6").out.find("objectives met"),
            std::string::npos);
}

} // namespace godwit::main::test
