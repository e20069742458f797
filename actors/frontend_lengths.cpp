#include <godwit/actors/frontend.hpp>

#include "watchers.hpp"

#include <godwit/protocols/lengths/history_predictor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>

/// How long answers will be, as the front end tells instances and learns from them (docs/design/lengths.md).
namespace godwit::actors {

protocols::length_question frontend::question_of(const protocols::generate_request& request) noexcept {
  return {request.prompt, request.cache_salt, request.stop.max_tokens};
}

template <class Call> void frontend::with_predictor(const Call& call) {
  try {
    call();
  } catch (...) {
    lengths_ = nullptr;
    tell_failure(context(), options_.log, options_.on_failure,
                 "what says how long answers will be threw, and is not asked any more: " +
                     runtime::detail::describe(std::current_exception()).message);
  }
}

void frontend::make_predictor() {
  with_predictor(
      [this] { lengths_ = options_.lengths ? options_.lengths() : std::make_unique<protocols::history_predictor>(); });
}

protocols::length_forecast frontend::forecast(const protocols::generate_request& request) {
  protocols::length_forecast out;
  if (lengths_) with_predictor([&] { out = lengths_->predict(question_of(request)); });
  // Whoever reckons with it need not ask whether there is such a class.
  out.most_likely = std::min(out.most_likely, protocols::length_classes - 1);
  return out;
}

void frontend::learn_length(const open_request& r) {
  if (!lengths_ || r.request.stop.max_tokens == 1)
    return; // as long as was asked for: steps of beam searches, harnesses
  const auto tokens = static_cast<std::uint32_t>(r.ownership.answer().size());
  with_predictor([&] { lengths_->ended(question_of(r.request), tokens); });
  if (!options_.metrics || r.forecast.tokens == 0) return;
  const auto off =
      std::abs(static_cast<int>(protocols::length_class(tokens)) - static_cast<int>(r.forecast.most_likely));
  options_.metrics->count_forecast(static_cast<std::size_t>(off));
}

} // namespace godwit::actors
