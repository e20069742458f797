#include "explore/requests.hpp"

#include "explore/client.hpp"
#include "explore/deployment.hpp"

#include <memory>
#include <stdexcept>

namespace godwit::explore {

using protocols::reasoning_start;

protocols::generate_request request_of(std::uint32_t kind) {
  protocols::generate_request r;
  r.sampling.seed = kind;
  kind %= prompts;             // all else is that of its other sample, too
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
  if (kind % 7 < 2) // one token in forty
    for (std::uint32_t i = 0; i < vocabulary / 40; ++i) r.stop.stop_token_ids.push_back(token(kind + i * 40));
  auto& how = r.sampling;
  how.temperature = kind % 3 == 0 ? 0.0F : 1.0F;
  if (kind % 6 == 1) how.frequency_penalty = 0.5F;
  if (kind % 6 == 4) how.repetition_penalty = 1.5F;
  if (kind % 12 == 5) how.presence_penalty = 0.5F;
  if (kind % 9 == 2) how.top_p = 0.9F;
  if (kind % 9 == 4) how.top_k = 40;
  if (kind % 9 == 7) how.min_p = 0.1F;
  if (kind % 10 == 6) how.logit_bias = {{token(kind), 5.0F}, {token(kind + 1), -5.0F}};
  if (kind % 16 == 9) how.json_schema = "{}";
  if (kind % 32 == 9) how.reasoning = kind < 32 ? reasoning_start::answer : reasoning_start::thinking;
  if (kind % 4 == 3) how.logprobs = static_cast<std::int32_t>(kind % 3);
  if (kind % 8 == 6) how.prompt_logprobs = 1;
  if (kind % 5 == 1) r.cache_salt = 1 + kind % 2;
  if (kind % 5 == 2) r.adapter = {kind % 2 == 0 ? "a" : "b", 1 + kind % 2};
  if (kind % 5 == 4) r.adapter = {"c", 3};
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
      const auto prompt = request_of(static_cast<std::uint32_t>(out.size())).prompt.size();
      if (!one->finished || !one->wrong.empty()) throw std::logic_error("the calm cluster fails: " + one->wrong);
      out.push_back({one->tokens, one->prompt_scores, *one->finished, static_cast<std::uint32_t>(prompt)});
    }
    return out;
  }();
  return all;
}

std::vector<protocols::token_id> prediction_of(std::uint32_t kind) {
  if (kind % 3 != 2) return {};
  std::vector<protocols::token_id> out;
  for (const auto& token : calm_answers()[kind].tokens) {
    const auto place = out.size();
    if (place % 13 == 12) out.push_back(3); // an insertion
    if (place % 11 != 7) out.push_back(place % 17 == 4 ? token.id + 1 : token.id);
  }
  for (auto& id : out) id %= static_cast<protocols::token_id>(vocabulary);
  return out;
}

} // namespace godwit::explore
