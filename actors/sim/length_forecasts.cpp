#include "sim/length_forecasts.hpp"

#include <godwit/protocols/lengths/history_predictor.hpp>
#include <godwit/protocols/workload/random.hpp>

#include <algorithm>
#include <limits>
#include <utility>

namespace godwit::actors::sim {

namespace {

using protocols::length_forecast;
using protocols::length_question;

constexpr std::uint64_t length_stream = 0x6c656e; // of the run's seed

class blind final : public protocols::length_predictor {
public:
  explicit blind(std::unique_ptr<protocols::length_predictor> from) : from_(std::move(from)) {}
  length_forecast predict(const length_question& question) override { return from_->predict(unlimited(question)); }
  void ended(const length_question& question, std::uint32_t answer_tokens) override {
    from_->ended(unlimited(question), answer_tokens);
  }

private:
  static length_question unlimited(length_question question) {
    question.max_tokens = std::numeric_limits<std::uint32_t>::max();
    return question;
  }
  std::unique_ptr<protocols::length_predictor> from_;
};

class told final : public protocols::length_predictor {
public:
  told(double accuracy, std::uint64_t seed) : accuracy_(accuracy), random_(seed, length_stream) {}
  length_forecast predict(const length_question& question) override {
    auto thought = static_cast<int>(protocols::length_class(question.max_tokens));
    const bool right = random_.unit() < accuracy_;
    const int by = random_.unit() < 0.5 ? 1 : 2;
    const bool shorter = random_.unit() < 0.5;
    if (!right) thought += shorter && thought >= by ? -by : by;
    thought = std::min(thought, static_cast<int>(protocols::length_classes) - 1);
    const auto first = thought == 0 ? std::uint64_t{0} : std::uint64_t{4} << static_cast<unsigned>(thought);
    const auto middle = thought == 0 ? std::uint64_t{4} : first + first / 2;
    return {static_cast<std::uint32_t>(std::min<std::uint64_t>(middle, std::numeric_limits<std::uint32_t>::max())),
            static_cast<std::uint32_t>(thought)};
  }
  void ended(const length_question&, std::uint32_t) override {}

private:
  double accuracy_;
  protocols::workload::counter_random random_;
};

} // namespace

predictor_factory without_limits(predictor_factory from) {
  return [from = std::move(from)]() -> std::unique_ptr<protocols::length_predictor> {
    auto made = from ? from() : std::make_unique<protocols::history_predictor>();
    return made ? std::make_unique<blind>(std::move(made)) : nullptr;
  };
}

predictor_factory told_lengths(double accuracy, std::uint64_t seed) {
  return [accuracy, seed] { return std::make_unique<told>(accuracy, seed); };
}

} // namespace godwit::actors::sim
