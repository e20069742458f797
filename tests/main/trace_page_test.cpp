#include "actors/support/fake_exchange.hpp"
#include "support/trace_scenes.hpp"

#include "main/trace_page.hpp"
#include "main/trace_ui_command.hpp"

#include <godwit/runtime/trace/analysis/labels.hpp>
#include <godwit/runtime/trace/analysis/requests.hpp>
#include <godwit/runtime/trace/page_json.hpp>

#include <boost/json.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace godwit::main {

namespace {

namespace json = boost::json;
namespace trace = runtime::trace;
using ::testing::HasSubstr;
using ::testing::Not;

json::object page_of(const trace::recording& from, const trace::page_json_options& options = {}) {
  return json::parse(trace::page_json(from, options)).as_object();
}

std::int64_t number(const json::object& page, const char* column, std::size_t i) {
  return page.at("columns").at(column).at(i).to_number<std::int64_t>();
}

std::size_t rows(const json::object& page) { return page.at("columns").at("kind").as_array().size(); }

trace::recording scene() {
  support::served_settings s;
  s.node = true;
  s.migration = true;
  return support::served(s);
}

} // namespace

TEST(TracePageJson, SaysOfEveryEventWhatTheRecordingSays) {
  const auto from = scene();
  const auto page = page_of(from);
  ASSERT_EQ(rows(page), from.events.size());
  EXPECT_EQ(page.at("left_out").to_number<int>(), 0);
  EXPECT_EQ(page.at("processes").as_array().size(), from.processes.size());
  std::map<trace::event_id, std::size_t> at;
  for (std::size_t i = 0; i < from.events.size(); ++i) at[from.events[i].id] = i;
  std::int64_t begin = std::stoll(std::string(page.at("origin_ns").as_string()));
  for (std::size_t i = 0; i < from.events.size(); ++i) {
    const auto& e = from.events[i];
    begin += number(page, "begin", i);
    EXPECT_EQ(begin, from.at(e));
    EXPECT_EQ(number(page, "queued", i), e.begin_ns - e.queued_ns);
    EXPECT_EQ(number(page, "length", i), e.end_ns - e.begin_ns);
    EXPECT_EQ(number(page, "kind", i), static_cast<int>(e.kind));
    EXPECT_EQ(number(page, "cause", i), e.cause ? static_cast<std::int64_t>(at.at(e.cause)) + 1 : 0);
    EXPECT_EQ(page.at("names").at(static_cast<std::size_t>(number(page, "name", i))).as_string(), from.name_of(e));
    if (const auto who = number(page, "receiver", i); who != 0) {
      const auto& actor = page.at("actors").at(static_cast<std::size_t>(who) - 1).as_array();
      EXPECT_EQ(actor[1].as_string(), std::to_string(e.receiver.id));
      EXPECT_EQ(actor[2].as_string(), from.actors.at(e.receiver));
    }
  }
}

TEST(TracePageJson, KeepsTheNewestEventsAndCountsTheOthers) {
  const auto from = scene();
  trace::page_json_options options;
  options.events_max = 20;
  const auto page = page_of(from, options);
  EXPECT_EQ(rows(page), 20U);
  EXPECT_EQ(page.at("left_out").to_number<std::size_t>(), from.events.size() - 20);
  EXPECT_EQ(page.at("events_total").to_number<std::size_t>(), from.events.size());
  EXPECT_EQ(number(page, "number", 19), static_cast<std::int64_t>(from.events.back().id.number));
  // Causes that are not there are named all the same.
  EXPECT_FALSE(page.at("far_causes").as_array().empty());
  for (const auto& far : page.at("far_causes").as_array())
    EXPECT_EQ(number(page, "cause", far.at(0).to_number<std::size_t>()), -1);
}

// As of the events.
TEST(TracePageJson, KeepsTheNewestContentsWhereThereIsRoomForSome) {
  auto from = scene();
  for (auto& e : from.events) e.text = std::string(100, 'x');
  trace::page_json_options options;
  options.texts_max = 1000;
  const auto page = page_of(from, options);
  const auto& contents = page.at("contents").as_array();
  ASSERT_EQ(contents.size(), 10U);
  for (std::size_t i = 0; i < 10; ++i)
    EXPECT_EQ(contents.at(i).at(0).to_number<std::size_t>(), from.events.size() - 10 + i);
  EXPECT_EQ(page.at("texts_left_out").to_number<std::size_t>(), from.events.size() - 10);
}

TEST(TracePageJson, AChosenRequestComesWithWhatLedToIt) {
  const auto from = scene();
  trace::page_json_options options;
  options.requests = {2};
  const auto page = page_of(from, options);
  EXPECT_GT(rows(page), 5U);
  EXPECT_LT(rows(page), from.events.size());
  for (std::size_t i = 0; i < rows(page); ++i) EXPECT_NE(number(page, "cause", i), -1);
  std::size_t about = 0;
  for (const auto& e : from.events) about += e.request == 2 ? 1 : 0;
  std::size_t found = 0;
  for (std::size_t i = 0; i < rows(page); ++i)
    found += page.at("requests").at(static_cast<std::size_t>(number(page, "request", i))).as_string() == "2" ? 1 : 0;
  EXPECT_EQ(found, about);
}

TEST(TracePageJson, AChosenRequestComesWithTheStepsThatNameItAmongOthers) {
  support::served_settings s;
  s.requests = 16; // enough for batches
  const auto from = support::served(s);
  trace::page_json_options options;
  options.requests = {3};
  const auto page = page_of(from, options);
  std::set<std::pair<std::int64_t, std::int64_t>> there;
  for (std::size_t i = 0; i < rows(page); ++i) there.emplace(number(page, "process", i), number(page, "number", i));
  std::size_t shared = 0;
  for (const auto& e : from.events) {
    if (from.name_of(e) != "device.step" || e.request != 0) continue;
    const auto named = trace::analysis::numbers_in(trace::analysis::attribute_of(e, "requests"));
    if (std::find(named.begin(), named.end(), 3U) == named.end()) continue;
    ++shared;
    EXPECT_TRUE(there.contains({e.id.process, static_cast<std::int64_t>(e.id.number)})) << e.id.number;
  }
  EXPECT_GT(shared, 0U);
  // They are not missing for their age.
  EXPECT_EQ(page.at("left_out").to_number<int>(), 0);
  EXPECT_EQ(page.at("others_left_out").to_number<std::size_t>(), from.events.size() - rows(page));
}

TEST(TracePageJson, HostileNamesAndContentsStayText) {
  support::trace_builder b;
  b.process("</script><script>alert(1)</script>");
  const auto who = b.actor(0, std::string("bad \xff utf8 <!--\0 nul", 20));
  support::sending how;
  how.text = "<img src=x onerror=alert(1)> \"quotes\" \\ \n end";
  how.request = 0xFFFF'FFFF'FFFF'FFFFULL;
  how.wait = 0x8000'0000'0000'0001ULL;
  b.deliver({}, {}, who, std::string(10'000, 'x'), 1'000, 10, how);
  const auto from = b.finish();
  const auto text = trace::page_json(from);
  EXPECT_THAT(text, Not(HasSubstr("<")));
  const auto page = json::parse(text).as_object();
  EXPECT_EQ(page.at("processes").at(0).at("name").as_string(), "</script><script>alert(1)</script>");
  EXPECT_EQ(page.at("contents").at(0).at(3).as_string(), how.text);
  EXPECT_EQ(page.at("requests").at(1).as_string(), "18446744073709551615");
  // More than a browser's numbers hold: as text, so that it stays what it is.
  EXPECT_EQ(page.at("columns").at("wait").as_array().back().as_string(), "9223372036854775809");
}

TEST(TracePageJson, LongTextsAreCutBetweenCharactersAndTooManyAreCounted) {
  support::trace_builder b;
  b.process("p");
  const auto who = b.actor(0, "a");
  for (int i = 0; i < 4; ++i) {
    support::sending how;
    for (int n = 0; n < 100; ++n) how.text += "\xc3\xa4"; // two bytes each
    b.deliver({}, {}, who, "t", 1'000 * i, 10, how);
  }
  const auto from = b.finish();
  trace::page_json_options options;
  options.text_max = 51;
  options.texts_max = 500;
  const auto page = page_of(from, options);
  ASSERT_EQ(page.at("contents").as_array().size(), 2U);
  EXPECT_EQ(page.at("texts_left_out").to_number<int>(), 2);
  const std::string shown(page.at("contents").at(0).at(3).as_string());
  EXPECT_THAT(shown, HasSubstr("[150 more bytes"));
  EXPECT_THAT(shown, Not(HasSubstr("\xef\xbf\xbd")));
}

TEST(TracePageJson, ContentsLeaveRoomForAttributes) {
  support::trace_builder b;
  b.process("p");
  const auto who = b.actor(0, "a");
  support::sending how;
  how.text = std::string(400, 'x');
  auto cause = b.deliver({}, {}, who, "t", 1'000, 10, how);
  cause = b.deliver(cause, who, who, "t", 2'000, 10, how);
  b.span(cause, 0, who, "http.request", 3'000, 4'000, {{"status", "200"}, {"request", "1"}});
  b.note(cause, who, "large", 4'000, {{"value", std::string(600, 'y')}});
  trace::page_json_options options;
  options.texts_max = 500;
  const auto page = page_of(b.finish(), options);
  EXPECT_EQ(page.at("contents").as_array().size(), 1U);
  EXPECT_EQ(page.at("texts_left_out").to_number<int>(), 1);
  ASSERT_EQ(page.at("attributes").as_array().size(), 1U);
  EXPECT_EQ(page.at("attributes").at(0).at(1).as_string(), "status");
  EXPECT_EQ(page.at("attributes_left_out").to_number<int>(), 1);
}

TEST(TracePageJson, ACycleInABrokenRecordingEnds) {
  support::trace_builder b;
  b.process("p");
  const auto who = b.actor(0, "a");
  support::sending how;
  how.request = 1;
  const auto one = b.deliver({}, {}, who, "t", 1'000, 10, how);
  const auto two = b.deliver(one, who, who, "t", 2'000, 10, how);
  b.get(one).cause = two;
  auto from = b.finish();
  trace::page_json_options options;
  options.requests = {1};
  EXPECT_EQ(rows(page_of(from, options)), 2U);
}

TEST(TracePage, HoldsTheRecordingThatItIsGiven) {
  const auto page = trace_page_with(R"({"godwit_trace_page":1})");
  EXPECT_THAT(page, HasSubstr(R"(<script type="application/json" id="recording">{"godwit_trace_page":1}</script>)"));
  EXPECT_EQ(page.size(), trace_page().size() + 23);
}

TEST(TracePage, NamesNoOtherSite) {
  const std::string page(trace_page());
  EXPECT_THAT(page, HasSubstr("default-src 'none'; script-src 'sha256-"));
  EXPECT_THAT(page, Not(HasSubstr("unsafe")));
  EXPECT_THAT(page, Not(HasSubstr("https://")));
  EXPECT_THAT(page, Not(HasSubstr("innerHTML")));
  std::set<std::string> sites;
  for (auto at = page.find("http://"); at != std::string::npos; at = page.find("http://", at + 1))
    sites.insert(page.substr(at, page.find_first_of("'\"", at) - at));
  EXPECT_EQ(sites, std::set<std::string>{"http://www.w3.org/2000/svg"}); // a name and no address
}

namespace {

transport::http::response ask(bool loopback_only, const std::string& method, const std::string& target,
                              const std::string& host) {
  const auto exchange = std::make_shared<godwit::test::fake_exchange>();
  transport::http::request request;
  request.method = method;
  request.target = target;
  request.fields.add("Host", host);
  trace_ui_handler(std::make_shared<const std::string>("{}"), loopback_only)(request, exchange);
  EXPECT_TRUE(exchange->complete);
  return exchange->whole;
}

} // namespace

TEST(TraceUi, ServesThePageAndItsRecording) {
  const auto page = ask(true, "GET", "/", "127.0.0.1:4000");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.body, trace_page());
  EXPECT_EQ(ask(true, "GET", "/recording.json", "localhost").body, "{}");
  EXPECT_EQ(ask(true, "GET", "/etc/passwd", "[::1]:1").status, 404);
  EXPECT_EQ(ask(true, "POST", "/", "127.0.0.1").status, 405);
}

TEST(TraceUi, RefusesNamesThatASiteCouldGiveToThisMachine) {
  EXPECT_EQ(ask(true, "GET", "/recording.json", "attacker.example:4000").status, 403);
  EXPECT_EQ(ask(true, "GET", "/recording.json", "127.attacker.example:4000").status, 403);
  EXPECT_EQ(ask(true, "GET", "/recording.json", "127.0.0.1.attacker.example:4000").status, 403);
  EXPECT_EQ(ask(true, "GET", "/recording.json", "127.0.0.2:4000").status, 200);
  EXPECT_EQ(ask(false, "GET", "/recording.json", "box.example:4000").status, 200);
}

} // namespace godwit::main
