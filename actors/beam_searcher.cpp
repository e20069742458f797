#include "beam_searcher.hpp"

#include <exception>
#include <string>
#include <utility>

namespace godwit::actors {

/// One beam's next token.
class beam_searcher::step final : public answer_sink {
public:
  step(std::shared_ptr<beam_searcher> of, std::size_t index, bool first)
      : of_(std::move(of)), index_(index), first_(first) {}
  void on_accepted(protocols::request_id request) override {
    if (first_) of_->answers_.front()->on_accepted(request);
  }
  bool on_tokens(std::span<const protocols::sampled_token> tokens, bool) override {
    if (!tokens.empty()) next = tokens.front();
    return true;
  }
  void on_finished(protocols::finish_reason, const answer_usage& usage) override { of_->took(index_, usage); }
  void on_failed(const answer_failure& failure) override { of_->failed(failure); }

  protocols::sampled_token next;

private:
  std::shared_ptr<beam_searcher> of_;
  std::size_t index_;
  bool first_; ///< of the whole search
};

beam_searcher::beam_searcher(std::shared_ptr<frontend_gate> gate, std::shared_ptr<submission> first,
                             protocols::beam_settings settings, std::vector<std::shared_ptr<answer_sink>> answers)
    : gate_(std::move(gate)), first_(std::move(first)), answers_(std::move(answers)), search_(std::move(settings)) {
  auto& request = first_->request;
  request.sampling = {};
  request.sampling.temperature = 0;
  request.stop = {};
  request.stop.max_tokens = 1;
  request.stop.ignore_eos = true; // which tokens end an answer the search knows
}

void beam_searcher::ask() {
  std::vector<std::shared_ptr<submission>> all;
  std::vector<std::shared_ptr<step>> asked, before;
  {
    const std::lock_guard lock(mutex_);
    if (over_) return;
    before = std::exchange(steps_, {});
    const auto& beams = search_.running();
    for (std::size_t i = 0; i < beams.size(); ++i) {
      steps_.push_back(std::make_shared<step>(shared_from_this(), i, rounds_ == 0 && i == 0));
      auto one = std::make_shared<submission>();
      one->request = first_->request;
      one->request.sampling.logprobs = static_cast<std::int32_t>(search_.wanted());
      for (const auto& token : beams[i].tokens) one->request.prompt.push_back(token.id);
      one->client_id = first_->client_id;
      one->ttft = first_->ttft;
      one->tpot = first_->tpot;
      one->seeded = true;
      one->continues = rounds_ > 0;
      if (i > 0) one->first_sample = steps_.front();
      one->sink = steps_.back();
      all.push_back(std::move(one));
    }
    asked = steps_;
    next_.assign(beams.size(), {});
    missing_ = beams.size();
    ++rounds_;
  }
  if (!gate_->submit(std::move(all))) return; // the sinks have heard
  const std::lock_guard lock(mutex_);
  if (over_) // meanwhile: a withdrawal comes after its submission
    for (auto& one : asked) gate_->withdraw(std::move(one));
}

// Whoever throws here is not asked again; nobody but this search would be left to end it.
void beam_searcher::took(std::size_t index, const answer_usage& usage) {
  try {
    go_on(index, usage);
  } catch (const std::exception& error) {
    failed({failure_kind::internal, std::string("the beam search failed: ") + error.what()});
  }
}

void beam_searcher::go_on(std::size_t index, const answer_usage& usage) {
  bool done = false;
  std::vector<std::shared_ptr<step>> asked; // they hold this, and this holds them
  {
    const std::lock_guard lock(mutex_);
    if (over_) return;
    if (rounds_ == 1) usage_ = usage;
    next_[index] = std::move(steps_[index]->next);
    if (--missing_ > 0) return;
    search_.advance(next_);
    done = over_ = search_.done();
    if (done) asked = std::exchange(steps_, {});
  }
  if (done)
    tell();
  else
    ask();
}

void beam_searcher::tell() {
  const auto& found = search_.answers();
  if (found.size() < answers_.size())
    return answers_.front()->on_failed({failure_kind::internal, "the model has too few tokens for so many beams"});
  for (std::size_t i = 0; i < answers_.size(); ++i) {
    auto usage = usage_;
    usage.answer_tokens = static_cast<std::uint32_t>(found[i].tokens.size());
    const bool goes_on = answers_[i]->on_tokens(found[i].tokens, found[i].ended);
    const bool stops = found[i].ended || !goes_on;
    answers_[i]->on_finished(stops ? protocols::finish_reason::stop : protocols::finish_reason::length, usage);
  }
}

void beam_searcher::failed(const answer_failure& failure) {
  if (end()) answers_.front()->on_failed(failure);
}

void beam_searcher::stop() { (void)end(); }

bool beam_searcher::end() {
  std::vector<std::shared_ptr<step>> asked;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(over_, true)) return false;
    asked = std::exchange(steps_, {});
  }
  for (auto& one : asked) gate_->withdraw(std::move(one)); // no effect on those that have ended
  return true;
}

} // namespace godwit::actors
