#include <godwit/actors/openai_edge.hpp>

#include "beam_searcher.hpp"
#include "openai_answer.hpp"

#include <algorithm>
#include <utility>

/// Answers that are searched for instead of drawn.
namespace godwit::actors {

void openai_edge::search_beams(const protocols::openai::common_request& common,
                               std::vector<std::shared_ptr<submission>> submissions,
                               std::vector<std::weak_ptr<beam_searcher>>& searches, const exchange_ptr& exchange,
                               const std::shared_ptr<openai_answer>& answer) {
  std::vector<std::shared_ptr<beam_searcher>> all;
  for (std::size_t first = 0; first < submissions.size(); first += common.n) {
    auto& request = submissions[first]->request;
    protocols::beam_settings settings;
    settings.width = common.n;
    settings.tokens_max = request.stop.max_tokens;
    settings.tokens_min = request.stop.min_tokens;
    settings.length_penalty = common.length_penalty;
    settings.ends = request.stop.stop_token_ids;
    if (!request.stop.ignore_eos)
      settings.ends.insert(settings.ends.end(), options_.model.eos.begin(), options_.model.eos.end());
    settings.alternatives = static_cast<std::uint32_t>(std::max(common.sampling.logprobs, 0));
    std::vector<std::shared_ptr<answer_sink>> sinks; // of its answers; the submissions would fail them
    for (std::size_t i = first; i < first + common.n; ++i)
      sinks.push_back(std::exchange(submissions[i]->sink, nullptr));
    all.push_back(
        std::make_shared<beam_searcher>(gate_, std::move(submissions[first]), std::move(settings), std::move(sinks)));
    searches.push_back(all.back());
  }
  for (const auto& one : all) one->start();
  exchange->on_close([weak = std::weak_ptr(answer)] {
    if (const auto gone = weak.lock()) gone->client_gone();
  });
}

} // namespace godwit::actors
