#pragma once

#include "support/trace_builder.hpp"

#include <functional>
#include <queue>
#include <random>

namespace godwit::support {

struct served_settings {
  std::uint32_t requests = 4;
  std::uint32_t instances = 2;
  std::uint32_t tokens = 6; ///< of each answer
  bool node = false;        ///< the last instance is in a process of its own, whose clock is off by an hour
  bool migration = false;   ///< of the first request, from the first instance to the last
  std::uint64_t seed = 1;
};

/// A recording as `godwit serve` makes it: HTTP requests, dispatches, steps of instances, tokens.
class served_scene {
public:
  explicit served_scene(served_settings s) : settings_(s), random_(s.seed) {}

  trace::recording run() {
    head_ = b_.process("head");
    const auto away = settings_.node ? b_.process("node-2", 3'600'000'000'000) : head_;
    const auto node = b_.actor(head_, "node", 0);
    frontend_ = b_.actor(head_, "frontend", 5'000);
    scheduler_ = b_.actor(head_, "global_scheduler", 6'000);
    b_.actor(head_, "member", 7'000);
    for (std::uint32_t i = 0; i < settings_.instances; ++i) {
      const auto where = i + 1 == settings_.instances ? away : head_;
      pair p;
      p.instance = b_.actor(where, "instance", 10'000 + i * 1'000);
      p.llumlet = b_.actor(where, "llumlet", 20'000 + i * 1'000);
      pairs_.push_back(p);
      b_.deliver({}, node, p.llumlet, "godwit::actors::topology", 30'000 + i * 1'000, 4'000);
    }
    for (std::uint32_t r = 0; r < settings_.requests; ++r) at(1'000'000 + r * 700'000, [this, r] { arrive(r + 1); });
    while (!todo_.empty()) {
      auto next = todo_.top();
      todo_.pop();
      now_ = next.at_ns;
      next.run();
    }
    return b_.finish();
  }

private:
  struct running {
    std::uint64_t request = 0;
    std::uint32_t left = 0;
    std::uint32_t given = 0;
  };
  struct pair {
    trace::actor_id instance;
    trace::actor_id llumlet;
    std::vector<running> batch;
    bool stepping = false;
  };
  struct action {
    std::int64_t at_ns = 0;
    std::uint64_t order = 0;
    std::function<void()> run;
    friend bool operator<(const action& a, const action& b) {
      return std::pair(a.at_ns, a.order) > std::pair(b.at_ns, b.order);
    }
  };

  void at(std::int64_t ns, std::function<void()> what) { todo_.push({ns, ++order_, std::move(what)}); }
  std::int64_t around(std::int64_t ns) {
    return std::uniform_int_distribution<std::int64_t>(ns - ns / 4, ns + ns / 4)(random_);
  }
  static sending asks(std::uint64_t request, std::uint64_t wait) {
    sending s;
    s.kind = trace::message_kind::request;
    s.request = request;
    s.wait = wait;
    return s;
  }
  static sending answers(std::uint64_t request, std::uint64_t wait) {
    sending s = asks(request, wait);
    s.kind = trace::message_kind::answer;
    s.resumed = true;
    return s;
  }

  void arrive(std::uint64_t request) {
    const auto id = std::to_string(request);
    http_[request] = b_.span(
        {}, head_, {}, "http.request", now_, now_,
        {{"method", "POST"},
         {"target", "/v1/completions"},
         {"status", "200"},
         {"client_id", "cmpl-" + id},
         {"traceparent", "00-4bf92f3577b34da6a3ce929d0e0e47" +
                             std::string(2 - std::min<std::size_t>(2, id.size()), '0') + id + "-00f067aa0ba902b7-01"},
         {"request", id}},
        request);
    sending in;
    in.request = request;
    in.outside = true;
    const auto submit =
        b_.deliver(http_[request], {}, frontend_, "godwit::actors::submit_request", now_ + 40'000, around(30'000), in);
    const auto wait = ++waits_;
    const auto query = b_.deliver(submit, frontend_, scheduler_, "godwit::actors::dispatch_query",
                                  b_.end_of(submit) - 2'000, around(8'000), asks(request, wait));
    const auto which = static_cast<std::size_t>(request - 1) % pairs_.size();
    b_.note(query, scheduler_, "decision.dispatch", b_.end_of(query) - 1'000,
            {{"instance", std::to_string(which)}, {"policy", "freeness"}}, request);
    const auto decision = b_.deliver(query, scheduler_, frontend_, "godwit::actors::dispatch_decision",
                                     b_.end_of(query) - 500, around(12'000), answers(request, wait));
    auto& p = pairs_[which];
    const auto order_wait = ++waits_;
    const auto order = b_.deliver(decision, frontend_, p.llumlet, "godwit::actors::generate_order",
                                  b_.end_of(decision) - 1'000, around(20'000), asks(request, order_wait));
    b_.deliver(order, p.llumlet, frontend_, "godwit::protocols::admission", b_.end_of(order) - 1'000, around(6'000),
               answers(request, order_wait));
    at(b_.end_of(order), [this, request, order, which] {
      auto& mine = pairs_[which];
      mine.batch.push_back({request, settings_.tokens, 0});
      if (!mine.stepping) step(which, order);
    });
  }

  void step(std::size_t which, trace::event_id cause) {
    auto& p = pairs_[which];
    p.stepping = !p.batch.empty();
    if (!p.stepping) return;
    const auto alone = p.batch.size() == 1 ? p.batch.front().request : 0;
    const auto wait = ++waits_;
    const auto input = b_.deliver(cause, p.llumlet, p.instance, "godwit::protocols::step_input", now_, around(15'000),
                                  asks(alone, wait));
    const auto begin = b_.end_of(input);
    const auto end = begin + around(400'000 + 50'000 * static_cast<std::int64_t>(p.batch.size()));
    std::string requests;
    for (const auto& r : p.batch) requests += (requests.empty() ? "" : " ") + std::to_string(r.request);
    b_.span(input, p.instance.process, p.instance, "device.step", begin, end,
            {{"instance", std::to_string(which)},
             {"requests", requests},
             {"decode_tokens", std::to_string(p.batch.size())}},
            alone);
    sending back;
    back.outside = true;
    back.request = alone;
    back.resumed = true;
    const auto done = b_.deliver(input, {}, p.instance, "godwit::gpu::step_done", end, around(9'000), back);
    const auto output = b_.deliver(done, p.instance, p.llumlet, "godwit::protocols::step_output",
                                   b_.end_of(done) - 1'000, around(25'000), answers(alone, wait));
    sending news;
    news.request = alone;
    const auto tokens = b_.deliver(output, p.llumlet, frontend_, "godwit::protocols::token_updates",
                                   b_.end_of(output) - 3'000, around(18'000), news);
    const auto told = b_.end_of(tokens);
    for (auto& r : p.batch) {
      ++r.given;
      if (--r.left == 0) b_.ends(http_[r.request], told + 30'000);
    }
    std::erase_if(p.batch, [](const running& r) { return r.left == 0; });
    at(b_.end_of(output), [this, which, output] {
      if (settings_.migration && which == 0 && !moved_ && !pairs_[0].batch.empty()) move(output);
      step(which, output);
    });
  }

  /// The first of the first instance's requests goes to the last instance.
  void move(trace::event_id cause) {
    moved_ = true;
    auto& from = pairs_.front();
    auto& to = pairs_.back();
    const auto r = from.batch.front();
    from.batch.erase(from.batch.begin());
    const auto source = b_.actor(head_, "migration_source", now_, cause);
    auto t = now_;
    const auto say = [&](trace::event_id because, trace::actor_id a, trace::actor_id z, std::string_view type,
                         sending how = {}) {
      how.request = r.request;
      const auto id = b_.deliver(because, a, z, type, t, around(10'000), how);
      t = b_.end_of(id);
      return id;
    };
    const auto wait = ++waits_;
    const auto open = say(cause, source, to.llumlet, "godwit::actors::open_migration", asks(r.request, wait));
    const auto target = b_.actor(to.llumlet.process, "migration_destination", t - 1'000, open);
    const auto opened = say(open, to.llumlet, source, "godwit::actors::migration_opened", answers(r.request, wait));
    b_.note(opened, source, "migration.source", t, {{"from", "reserving"}, {"to", "copying"}, {"event", "opened"}},
            r.request);
    b_.span(
        opened, head_, source, "fabric.transfer", t, t + 900'000,
        {{"direction", "out"}, {"peer", "1"}, {"transfer", "1"}, {"stage", "0"}, {"blocks", "3"}, {"bytes", "49152"}},
        r.request);
    t += 900'000;
    sending landed;
    landed.outside = true;
    const auto news = say(opened, {}, target, "godwit::actors::landed_news", landed);
    const auto claim_wait = ++waits_;
    const auto claim = say(news, target, frontend_, "godwit::protocols::claim_request", asks(r.request, claim_wait));
    b_.note(claim, frontend_, "ownership", t - 1'000,
            {{"request", std::to_string(r.request)}, {"epoch", "2"}, {"what", "claimed"}}, r.request);
    const auto granted =
        say(claim, frontend_, target, "godwit::protocols::claim_answer", answers(r.request, claim_wait));
    const auto adopt = say(granted, target, to.llumlet, "godwit::actors::adopt_order");
    b_.ended(source, t);
    const auto which = pairs_.size() - 1;
    at(t, [this, r, adopt, which] {
      auto& mine = pairs_[which];
      mine.batch.push_back(r);
      if (!mine.stepping) step(which, adopt);
    });
  }

  served_settings settings_;
  std::mt19937_64 random_;
  trace_builder b_;
  std::uint32_t head_ = 0;
  trace::actor_id frontend_;
  trace::actor_id scheduler_;
  std::vector<pair> pairs_;
  std::priority_queue<action> todo_;
  std::uint64_t order_ = 0;
  std::uint64_t waits_ = 0;
  std::int64_t now_ = 0;
  bool moved_ = false;
  std::map<std::uint64_t, trace::event_id> http_;
};

inline trace::recording served(served_settings s = {}) { return served_scene(s).run(); }

/// Two requests that the scheduler decides upon at once, as the first one's question has it do; their numbers are 1 and
/// 2.
inline trace::recording decided_together() {
  trace_builder b;
  b.process("p");
  const auto frontend = b.actor(0, "frontend");
  const auto scheduler = b.actor(0, "global_scheduler");
  const auto llumlet = b.actor(0, "llumlet");
  std::map<std::uint64_t, trace::event_id> submits, queries;
  const auto said_of = [](std::uint64_t request, trace::message_kind kind) {
    sending how;
    how.request = kind == trace::message_kind::answer ? 0 : request;
    how.wait = request;
    how.kind = kind;
    return how;
  };
  for (std::uint64_t request : {1U, 2U}) {
    sending in;
    in.outside = true;
    const auto submit = submits[request] =
        b.deliver({}, {}, frontend, "submit_request", 1'000 * static_cast<std::int64_t>(request), 100, in);
    b.note(submit, frontend, "request.accepted", b.end_of(submit), {}, request);
    queries[request] = b.deliver(submit, frontend, scheduler, "dispatch_query", b.end_of(submit), 100,
                                 said_of(request, trace::message_kind::request));
  }
  const auto decide = b.deliver(queries[1], scheduler, scheduler, "decide_queued", b.end_of(queries[1]), 5'000);
  for (std::uint64_t request : {1U, 2U}) {
    b.note(decide, scheduler, "decision.dispatch", b.end_of(decide) - 100, {}, request);
    sending back;
    back.outside = true;
    back.kind = trace::message_kind::answer;
    const auto chosen = b.deliver(decide, {}, scheduler, "local<dispatch_decision>", b.end_of(decide), 100, back);
    const auto decision = b.deliver(chosen, scheduler, frontend, "dispatch_decision", b.end_of(chosen), 100,
                                    said_of(request, trace::message_kind::answer));
    sending about;
    about.request = request;
    const auto order = b.deliver(decision, frontend, llumlet, "generate_order", b.end_of(decision), 100, about);
    b.deliver(order, llumlet, frontend, "token_updates", b.end_of(order), 100, about);
  }
  sending alarm; // the front end looks at all deadlines
  alarm.kind = trace::message_kind::timer;
  for (const auto& [request, submit] : submits) b.deliver(submit, frontend, frontend, "", 1'000'000, 100, alarm);
  return b.finish();
}

/// Actors that send each other messages at random: any forest.
inline trace::recording random_forest(std::uint64_t seed, std::uint32_t events = 200, std::uint32_t processes = 2) {
  std::mt19937_64 random(seed);
  const auto below = [&random](std::uint64_t n) {
    return std::uniform_int_distribution<std::uint64_t>(0, n - 1)(random);
  };
  trace_builder b;
  std::vector<trace::actor_id> actors;
  for (std::uint32_t p = 0; p < processes; ++p) {
    b.process("p" + std::to_string(p), static_cast<std::int64_t>(p) * 5'000'000'000);
    for (int i = 0; i < 4; ++i) actors.push_back(b.actor(p, "actor_" + std::to_string(i)));
  }
  std::vector<trace::event_id> handled;
  std::int64_t start = 0;
  for (std::uint32_t i = 0; i < events; ++i) {
    const auto to = actors[below(actors.size())];
    sending how;
    how.request = below(5);
    const std::string type = "godwit::random::type_" + std::to_string(below(6));
    const auto handling = static_cast<std::int64_t>(1 + below(50'000));
    if (handled.empty() || below(10) == 0) {
      how.outside = true;
      handled.push_back(b.deliver({}, {}, to, type, start += 10'000, handling, how));
      continue;
    }
    const auto cause = handled[below(handled.size())];
    const auto from = b.get(cause).receiver;
    handled.push_back(b.deliver(cause, from, to, type, b.end_of(cause), handling, how));
    if (below(8) == 0) b.note(handled.back(), to, "note", b.end_of(handled.back()), {{"n", std::to_string(i)}});
  }
  return b.finish();
}

} // namespace godwit::support
