#pragma once

#include <godwit/protocols/messages/sampling.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

namespace godwit::protocols::testing_support {

/// Beam search once more, as a textbook has it and with nothing clever: all beams to the end, all candidates kept. What
/// Hugging Face's transformers do with early_stopping "never".
struct plain_beam_search {
  using tokens = std::vector<token_id>;
  struct found {
    tokens answer;
    double logprob = 0;
    double score = 0;
    bool ended = false;
  };
  /// The most probable next tokens behind these, most probable first.
  std::function<std::vector<token_logprob>(const tokens&)> next;
  std::size_t width = 1, tokens_max = 1, tokens_min = 0;
  double length_penalty = 1;
  tokens ends;

  [[nodiscard]] std::vector<found> run() const {
    std::vector<found> beams(1), finished;
    for (std::size_t length = 1; length <= tokens_max && !beams.empty(); ++length) {
      std::vector<found> all;
      for (const auto& beam : beams) {
        auto candidates = next(beam.answer); // as if those that may not be were impossible
        if (length < tokens_min)
          std::erase_if(candidates, [this](const auto& c) { return std::ranges::count(ends, c.id) > 0; });
        candidates.resize(std::min(candidates.size(), 2 * width));
        for (const auto& c : candidates) {
          const bool ends_here = std::ranges::count(ends, c.id) > 0;
          auto longer = beam;
          longer.answer.push_back(c.id);
          longer.logprob += static_cast<double>(c.logprob);
          longer.score = longer.logprob / std::pow(static_cast<double>(length), length_penalty);
          longer.ended = ends_here;
          all.push_back(std::move(longer));
        }
      }
      std::ranges::stable_sort(all, [](const found& a, const found& b) { return a.logprob > b.logprob; });
      all.resize(std::min(all.size(), 2 * width));
      beams.clear();
      for (std::size_t rank = 0; rank < all.size() && beams.size() < width; ++rank) {
        if (!all[rank].ended)
          beams.push_back(all[rank]);
        else if (rank < width)
          finished.push_back(all[rank]);
      }
    }
    finished.insert(finished.end(), beams.begin(), beams.end());
    std::ranges::stable_sort(finished, [](const found& a, const found& b) { return a.score > b.score; });
    finished.resize(std::min(finished.size(), width));
    return finished;
  }
};

} // namespace godwit::protocols::testing_support
