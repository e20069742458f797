#include "explore/requests.hpp"

#include "explore/client.hpp"
#include "explore/deployment.hpp"

#include <memory>
#include <stdexcept>

namespace godwit::explore {

protocols::generate_request request_of(std::uint32_t kind) {
  protocols::generate_request r;
  const auto group = kind % 4; // 0: begins like no other
  const auto shared = group == 0 ? 0 : 12 + 20 * group;
  const auto token = [](std::uint32_t number) {
    return static_cast<protocols::token_id>(3 + number % (vocabulary - 3));
  };
  for (std::uint32_t i = 0; i < shared; ++i) r.prompt.push_back(token(group * 101 + i * 31));
  const auto own = 1 + (kind * 37) % 80;
  for (std::uint32_t i = 0; i < own; ++i) r.prompt.push_back(token(kind * 7919 + i * 31));
  r.stop.max_tokens = 1 + (kind * 53) % 100;
  r.stop.ignore_eos = kind % 5 == 0;
  r.stop.min_tokens = kind % 7 == 0 ? r.stop.max_tokens / 2 : 0;
  r.sampling.temperature = kind % 3 == 0 ? 0.0F : 1.0F;
  r.sampling.seed = kind;
  if (kind % 6 == 1) r.sampling.frequency_penalty = 0.5F;
  if (kind % 8 == 3) r.sampling.logprobs = 2;
  return r;
}

const std::vector<calm_answer>& calm_answers() {
  static const auto all = [] {
    auto s = usual_shape();
    s.head_instances = 1;
    s.blocks = 16 * request_kinds;
    s.node.llumlet.planner.waiting_max = request_kinds;
    deployment calm(0, s, nullptr, {});
    if (!calm.world().run_until([&] { return calm.all_ready(1); }, 1'000'000))
      throw std::logic_error("the calm cluster does not come up");
    std::vector<std::shared_ptr<client>> clients;
    for (std::uint32_t kind = 0; kind < request_kinds; ++kind) {
      auto one = std::make_shared<actors::submission>();
      one->request = request_of(kind);
      one->seeded = true;
      one->sink = clients.emplace_back(std::make_shared<client>(nullptr));
      if (!calm.actors().gate()->submit({std::move(one)})) throw std::logic_error("the calm cluster has no front end");
    }
    const auto over = [&] {
      for (const auto& one : clients)
        if (!one->over()) return false;
      return true;
    };
    if (!calm.world().run_until(over, 10'000'000)) throw std::logic_error("the calm cluster does not answer");
    std::vector<calm_answer> out;
    for (const auto& one : clients) {
      if (!one->finished || !one->wrong.empty()) throw std::logic_error("the calm cluster fails: " + one->wrong);
      out.push_back({one->tokens, *one->finished});
    }
    return out;
  }();
  return all;
}

} // namespace godwit::explore
