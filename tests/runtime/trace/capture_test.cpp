#include "runtime/actor/test_actors.hpp"

#include <godwit/protocols/messages/sampling.hpp>
#include <godwit/runtime/actor_system.hpp>
#include <godwit/runtime/trace/recorder.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <thread>

namespace godwit::runtime::test {
namespace {

using trace::event;
using trace::event_kind;
using trace::message_kind;
using way = question::way;

std::shared_ptr<trace::recorder> make_recorder(trace::recorder_settings settings = {}) {
  trace::process who;
  who.name = "here";
  return std::make_shared<trace::recorder>(who, std::move(settings));
}

std::vector<event> deliveries(const trace::recording& all, std::string_view type) {
  std::vector<event> out;
  for (const auto& e : all.events)
    if (e.kind == event_kind::delivery && all.name_of(e).find(type) != std::string::npos) out.push_back(e);
  return out;
}

const event& by_id(const trace::recording& all, trace::event_id id) {
  const auto found = std::find_if(all.events.begin(), all.events.end(), [&](const event& e) { return e.id == id; });
  if (found == all.events.end()) throw std::runtime_error("no such event");
  return *found;
}

/// What must hold of every recording without gaps of a process.
void expect_sound(const trace::recording& all) {
  std::map<trace::event_id, const event*> known;
  for (const auto& e : all.events) {
    ASSERT_TRUE(e.id);
    EXPECT_TRUE(known.emplace(e.id, &e).second) << "two events of one number";
    EXPECT_LE(e.queued_ns, e.begin_ns);
    EXPECT_LE(e.begin_ns, e.end_ns);
  }
  for (const auto& e : all.events) {
    if (!e.cause) continue;
    const auto cause = known.find(e.cause);
    ASSERT_NE(cause, known.end()) << all.name_of(e);
    const auto& c = *cause->second;
    if (e.kind != event_kind::delivery || (c.kind != event_kind::delivery && c.kind != event_kind::spawned)) continue;
    EXPECT_LE(c.begin_ns, e.begin_ns);
    constexpr auto beside = std::uint64_t{1} << 39U; // of the runtime: that somebody is gone
    if (!e.outside && (e.id.number & beside) == 0) {
      EXPECT_GE(e.id.number, c.first);
      EXPECT_LT(e.id.number, c.first + c.made);
    }
  }
}

class Capture : public ::testing::Test {
protected:
  void start(trace::recorder_settings settings = {}) {
    recorder = make_recorder(std::move(settings));
    actor_system_settings options;
    options.worker_threads = 2;
    options.recorder = recorder;
    system = std::make_unique<actor_system>(options);
    asked = system->spawn<server>(live);
    asking = system->spawn<relay>(asked, live, 1s);
  }
  trace::recording end() {
    system.reset();
    return recorder->snapshot();
  }
  std::atomic<int> live{0};
  std::shared_ptr<trace::recorder> recorder;
  std::unique_ptr<actor_system> system;
  handle<server_interface> asked;
  handle<relay_interface> asking;
};

TEST_F(Capture, AQuestionItsForwardingAndTheAnswerFollowFromEachOther) {
  start();
  EXPECT_EQ(*system->ask(asking, 1s, question{way::value, 7}), number{7});
  const auto all = end();
  expect_sound(all);
  const auto questions = deliveries(all, "question");
  ASSERT_EQ(questions.size(), 2U);
  EXPECT_TRUE(questions[0].outside);
  EXPECT_FALSE(questions[0].cause);
  EXPECT_EQ(questions[0].receiver.id, asking.id());
  EXPECT_EQ(questions[0].message, message_kind::request);
  EXPECT_FALSE(questions[1].outside);
  EXPECT_EQ(questions[1].cause, questions[0].id);
  EXPECT_EQ(questions[1].sender.id, asking.id());
  EXPECT_EQ(questions[1].receiver.id, asked.id());
  const auto answers = deliveries(all, "test::number");
  ASSERT_EQ(answers.size(), 1U) << "the one to the outside is no actor's";
  EXPECT_EQ(answers[0].cause, questions[1].id);
  EXPECT_EQ(answers[0].wait, questions[1].wait);
  EXPECT_EQ(answers[0].message, message_kind::answer);
  EXPECT_TRUE(answers[0].resumed);
  EXPECT_EQ(all.actors.at({0, asked.id()}), "server");
}

TEST_F(Capture, AnAlarmFollowsFromWhatBeganTheWait) {
  start();
  EXPECT_EQ(*system->ask(asked, 1s, question{way::coroutine, 7}), number{8});
  const auto all = end();
  expect_sound(all);
  const auto questions = deliveries(all, "question");
  ASSERT_EQ(questions.size(), 1U);
  const auto timer = std::find_if(all.events.begin(), all.events.end(), [](const event& e) {
    return e.kind == event_kind::delivery && e.message == message_kind::timer && e.resumed;
  });
  ASSERT_NE(timer, all.events.end());
  EXPECT_EQ(timer->cause, questions[0].id);
  EXPECT_GE(timer->begin_ns - questions[0].begin_ns, 1'000'000);
}

TEST_F(Capture, FailuresAndEndsAreSeen) {
  start();
  EXPECT_FALSE(system->ask(asking, 1s, question{way::error}));
  system->stop(asked);
  EXPECT_FALSE(system->ask(asking, 1s, question{way::value}));
  const auto all = end();
  EXPECT_TRUE(std::any_of(all.events.begin(), all.events.end(),
                          [](const event& e) { return e.message == message_kind::failure; }));
  std::size_t spawned = 0, ended = 0, stops = 0;
  for (const auto& e : all.events) {
    spawned += e.kind == event_kind::spawned;
    ended += e.kind == event_kind::ended;
    stops += e.kind == event_kind::delivery && e.message == message_kind::stop;
  }
  EXPECT_EQ(spawned, 2U);
  EXPECT_EQ(ended, 2U);
  EXPECT_GE(stops, 2U);
  expect_sound(all);
}

TEST_F(Capture, OffKeepsNothingAndTheLevelCanChangeMeanwhile) {
  trace::recorder_settings settings;
  settings.level = trace::level::off;
  start(settings);
  EXPECT_TRUE(system->ask(asking, 1s, question{way::value, 1}));
  EXPECT_TRUE(recorder->snapshot().events.empty());
  recorder->set_level(trace::level::headers);
  EXPECT_TRUE(system->ask(asking, 1s, question{way::value, 2}));
  recorder->set_level(trace::level::off);
  EXPECT_TRUE(system->ask(asking, 1s, question{way::value, 3}));
  const auto all = end();
  EXPECT_EQ(deliveries(all, "question").size(), 2U);
  EXPECT_EQ(all.actors.at({0, asked.id()}), "server") << "names are known nevertheless";
}

TEST_F(Capture, ContentIsKeptAsBytesAndAsText) {
  trace::recorder_settings settings;
  settings.level = trace::level::content;
  settings.prompts = true;
  start(settings);
  EXPECT_TRUE(system->ask(asked, 1s, question{way::value, 77}));
  const auto all = end();
  const auto questions = deliveries(all, "question");
  ASSERT_EQ(questions.size(), 1U);
  EXPECT_EQ(questions[0].text, "(0, 77, [\"a\", \"b\"])");
  std::vector<actor_ref> none;
  wire_reader in(std::as_bytes(std::span{questions[0].content}), none);
  question again;
  wire_read(in, again);
  EXPECT_TRUE(in.ok());
  EXPECT_EQ(again.value, 77);
}

TEST_F(Capture, WithoutLeaveForPromptsNoBytesAreKept) {
  trace::recorder_settings settings;
  settings.level = trace::level::content;
  start(settings);
  EXPECT_TRUE(system->ask(asked, 1s, question{way::value, 77}));
  const auto all = end();
  for (const auto& e : all.events) EXPECT_TRUE(e.content.empty());
}

TEST_F(Capture, AFilterLetsThroughWhatItNames) {
  start();
  trace::filter types;
  types.types = {"slow_question"};
  recorder->set_filter(types);
  EXPECT_TRUE(system->ask(asking, 1s, question{way::value, 1}));
  EXPECT_TRUE(system->ask(asking, 1s, slow_question{1ms, 1}));
  trace::filter actors;
  actors.actors = {"server " + std::to_string(asked.id())};
  recorder->set_filter(actors);
  EXPECT_TRUE(system->ask(asking, 1s, question{way::value, 1}));
  const auto all = end();
  EXPECT_EQ(deliveries(all, "slow_question").size(), 2U);
  const auto questions = deliveries(all, "test::question");
  ASSERT_EQ(questions.size(), 1U);
  EXPECT_EQ(questions[0].receiver.id, asked.id());
}

TEST_F(Capture, AFilterHoldsForNotesAndSpansToo) {
  start();
  trace::filter chosen;
  chosen.requests = {7};
  recorder->set_filter(chosen);
  recorder->note("decision", {}, 7);
  recorder->note("decision", {}, 8);
  recorder->begin("span", 7).end();
  recorder->begin("span", 8).end();
  const auto all = end();
  EXPECT_EQ(std::count_if(all.events.begin(), all.events.end(),
                          [](const event& e) { return e.kind == event_kind::note || e.kind == event_kind::span; }),
            2);
}

TEST(CaptureText, WithoutLeaveTokensAreCountedOrNamedAndNothingElseIsLost) {
  std::vector<protocols::token_id> prompt{11, 12, 13};
  protocols::sampled_token drawn(17);
  const auto text = [&](bool prompts) {
    trace::text_writer out(prompts);
    trace::write_text(out, std::tuple_size_v<std::tuple<int>>);
    out.add(" ");
    trace::write_text(out, prompt);
    out.add(" ");
    trace::write_text(out, drawn);
    return std::move(out).take();
  };
  EXPECT_EQ(text(false), "1 [3 tokens] (token)");
  EXPECT_NE(text(true).find("[11, 12, 13] (17"), std::string::npos) << text(true);
}

TEST(CaptureText, WithoutLeaveASchemaIsToldByItsLength) {
  protocols::sampling_params how;
  how.json_schema = R"({"enum":["patient Jane Doe"]})";
  const auto text = [&](bool prompts) {
    trace::text_writer out(prompts);
    trace::write_text(out, how);
    return std::move(out).take();
  };
  EXPECT_NE(text(true).find("Jane Doe"), std::string::npos) << text(true);
  EXPECT_EQ(text(false).find("Jane Doe"), std::string::npos) << text(false);
  EXPECT_NE(text(false).find("(schema, 29 bytes)"), std::string::npos) << text(false);
}

TEST(CaptureText, QuotedTextIsValidUtf8WhereverItIsCut) {
  const auto quoted = [](const std::string& text) {
    trace::text_writer out(true);
    out.quote(text);
    return std::move(out).take();
  };
  const std::string most(199, 'x');
  EXPECT_EQ(quoted(most + "\xC3\xA9"), '"' + most + "...\"");
  EXPECT_EQ(quoted(most.substr(1) + "\xC3\xA9"), '"' + most.substr(1) + "\xC3\xA9\"");
  EXPECT_EQ(quoted("a\xFF\n\"b\""), "\"a\xEF\xBF\xBD\\n\\\"b\\\"\"");
  EXPECT_EQ(quoted(std::string(300, '\x80')).size(), 2 + 3 + 3 * 197); // cut where nothing tells a character's end
}

TEST_F(Capture, WhatIsOverwrittenBeforeItIsStoredIsCountedAsAGap) {
  trace::recorder_settings settings;
  settings.events_per_thread = 16;
  start(settings);
  for (int i = 0; i < 200; ++i) system->tell(asked, poke{});
  EXPECT_TRUE(system->ask(asked, 1s, question{way::value, 1}));
  system.reset();
  std::uint64_t stored = 0, missed = 0;
  recorder->drain([&](event& e, std::string_view) {
    if (e.kind == event_kind::gap)
      missed += e.count;
    else
      stored += e.kind == event_kind::delivery;
  });
  EXPECT_GT(missed, 0U);
  EXPECT_EQ(missed, recorder->lost());
  EXPECT_EQ(stored + missed, 201U + 2) << "and two are told to stop";
}

TEST_F(Capture, SpansAndNotesFollowFromWhatIsHandledAndSpansCause) {
  start();
  auto request = recorder->begin("http.request");
  {
    const trace::because_of it(request);
    system->tell(asked, poke{});
  }
  EXPECT_TRUE(system->ask(asked, 1s, question{way::value, 1}));
  request.add("status", "200");
  request.about(99);
  request.end();
  recorder->note("decision", {{"chosen", "1"}}, 99);
  { auto forgotten = recorder->begin("left"); }
  const auto all = end();
  const auto pokes = deliveries(all, "poke");
  ASSERT_EQ(pokes.size(), 1U);
  const auto& cause = by_id(all, pokes[0].cause);
  EXPECT_EQ(cause.kind, event_kind::span);
  EXPECT_EQ(all.name_of(cause), "http.request");
  EXPECT_EQ(cause.request, 99U);
  EXPECT_EQ(cause.attributes, (std::vector<trace::attribute>{{"status", "200"}}));
  EXPECT_FALSE(deliveries(all, "question")[0].cause) << "the thread's cause is over";
  std::size_t abandoned = 0;
  for (const auto& e : all.events) {
    if (all.name_of(e) == "left") abandoned += e.attributes == std::vector<trace::attribute>{{"abandoned", "true"}};
    if (e.kind == event_kind::note) {
      EXPECT_EQ(e.request, 99U);
    }
  }
  EXPECT_EQ(abandoned, 1U);
}

TEST_F(Capture, WhatIsSaidInAnotherSystemIsOfThatSystemAndDisturbsNothingHere) {
  trace::recorder_settings settings;
  settings.level = trace::level::content; // time stands still meanwhile
  start(settings);
  const auto other = make_recorder();
  actor_system_settings options;
  options.recorder = other;
  auto there = std::make_unique<actor_system>(options);
  const auto far = there->spawn<server>(live);
  std::atomic<std::int64_t> before{0}, after{0}, elsewhere{0};
  class visitor final : public actor<interface<void(poke)>> {
  public:
    visitor(actor_context context, std::function<void()> visit, handle<server_interface> next)
        : actor(context), visit_(std::move(visit)), next_(std::move(next)) {}
    behavior_of<interface_type> make_behavior() override {
      return {[this](poke) {
        visit_();
        tell(next_, poke{});
      }};
    }

  private:
    std::function<void()> visit_;
    handle<server_interface> next_;
  };
  const auto guest = system->spawn<visitor>(
      [&] {
        before = system->clock().now().count();
        there->tell(far, poke{});
        other->note("visit", {});
        std::this_thread::sleep_for(2ms);
        elsewhere = there->clock().now().count();
        after = system->clock().now().count();
      },
      asked);
  system->tell(guest, poke{});
  EXPECT_TRUE(there->ask(far, 1s, question{way::value, 1}));
  const auto both = [&] { return deliveries(recorder->snapshot(), "poke").size() >= 2; };
  for (int look = 0; look < 30'000 && !both(); ++look) std::this_thread::sleep_for(1ms);
  ASSERT_TRUE(both());
  EXPECT_EQ(before, after) << "its own time stands";
  EXPECT_NE(elsewhere, after) << "the other system's does not";
  there.reset();
  const auto all = end();
  expect_sound(all);
  const auto pokes = deliveries(all, "poke");
  ASSERT_EQ(pokes.size(), 2U);
  EXPECT_EQ(pokes[0].receiver.id, guest.id());
  EXPECT_EQ(pokes[1].cause, pokes[0].id);
  EXPECT_FALSE(pokes[1].outside);
  const auto visited = other->snapshot();
  expect_sound(visited);
  const auto theirs = deliveries(visited, "poke");
  ASSERT_EQ(theirs.size(), 1U);
  EXPECT_TRUE(theirs[0].outside);
  EXPECT_FALSE(theirs[0].cause);
}

TEST_F(Capture, WhatThreadsBeyondTheBoundHandleIsCountedAsAGap) {
  trace::recorder_settings settings;
  settings.threads_max = 1;
  recorder = make_recorder(settings);
  recorder->note("the one thread", {});
  actor_system_settings options;
  options.recorder = recorder;
  system = std::make_unique<actor_system>(options);
  asked = system->spawn<server>(live);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(system->ask(asked, 1s, question{way::value, i}));
  system.reset();
  std::uint64_t missed = 0;
  recorder->drain([&](event& e, std::string_view) {
    if (e.kind == event_kind::gap) missed += e.count;
  });
  EXPECT_GE(missed, 10U);
  EXPECT_EQ(missed, recorder->lost());
}

TEST_F(Capture, ATapSeesWhatItChoseUntilItEnds) {
  start();
  std::atomic<int> seen{0};
  {
    trace::filter questions;
    questions.types = {"test::question"};
    auto tap = recorder->tap(questions, [&](const event& e, std::string_view type) {
      EXPECT_NE(type.find("question"), std::string_view::npos);
      EXPECT_TRUE(e.id);
      ++seen;
    });
    EXPECT_TRUE(system->ask(asking, 1s, question{way::value, 1}));
    EXPECT_TRUE(system->ask(asking, 1s, slow_question{1ms, 1}));
    EXPECT_EQ(seen, 2);
    tap = {};
    EXPECT_TRUE(system->ask(asking, 1s, question{way::value, 1}));
  }
  EXPECT_EQ(seen, 2);
  EXPECT_EQ(deliveries(end(), "test::question").size(), 4U);
}

TEST_F(Capture, SnapshotsMayBeTakenWhileEverybodyWrites) {
  trace::recorder_settings settings;
  settings.events_per_thread = 64;
  start(settings);
  std::atomic<bool> done{false};
  std::thread reader([&] {
    while (!done) {
      const auto all = recorder->snapshot();
      for (const auto& e : all.events) {
        ASSERT_TRUE(e.id);
        ASSERT_LE(e.begin_ns, e.end_ns);
      }
    }
  });
  for (int i = 0; i < 3000; ++i) ASSERT_TRUE(system->ask(asking, 5s, question{way::value, i}));
  done = true;
  reader.join();
  EXPECT_GT(end().events.size(), 64U);
}

} // namespace
} // namespace godwit::runtime::test
