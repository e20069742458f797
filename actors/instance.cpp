#include <godwit/actors/instance.hpp>

#include "recorded_decisions.hpp"
#include "shard.hpp"
#include "step_run.hpp"
#include "watchers.hpp"

#include <godwit/gpu/pipeline.hpp>
#include <godwit/protocols/batching/drafting.hpp>
#include <godwit/runtime/trace/recorder.hpp>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace godwit::actors {

using runtime::async::task;

instance::instance(runtime::actor_context context, instance_options options)
    : actor(context), options_(std::move(options)) {}

runtime::behavior_of<instance_interface> instance::make_behavior() {
  return {[this](load_model&) { return respond(load()); },
          [this](protocols::step_input& input) { return respond(run(std::move(input))); }};
}

task<instance_facts> instance::load() {
  auto outcome = co_await callback<executor_outcome>([this](runtime::completer<executor_outcome> done) {
    options_.make_executor(options_.id, [done](executor_outcome made) { done(std::move(made)); });
  });
  if (!outcome) throw std::runtime_error("make_executor let go of `done` and has not called it");
  if (!outcome->made)
    throw std::runtime_error(outcome->error.empty() ? "make_executor gave neither an executor nor an error"
                                                    : outcome->error);
  if (const auto division = outcome->made->division()) {
    const auto stages = outcome->made->stages().size();
    if (division->layers().size() != stages || division->beside().size() != stages)
      throw std::runtime_error("make_executor gave a division that is not of the executor's stages");
  }
  ++loads_;
  end_line("another model is loaded"); // of one that was loaded before
  stop_shards(runtime::stop_reason::shutdown);
  executor_ = std::move(outcome->made);
  spawn_shards();
  const auto& info = executor_->info();
  instance_facts facts;
  facts.device = info.device;
  facts.kv_layout = info.kv_layout;
  facts.blocks = info.blocks;
  facts.positions_max = info.positions_max;
  facts.vocabulary = info.vocabulary;
  facts.block_bytes = info.block_bytes;
  facts.weight_bytes = info.weight_bytes;
  facts.eos = info.eos;
  facts.drafts = executor_->draft() != nullptr;
  facts.steps_max = steps_max();
  facts.executor = executor_;
  co_return facts;
}

task<protocols::step_output> instance::run(protocols::step_input input) {
  if (!executor_) throw std::runtime_error("the model is not loaded");
  if (steps_ >= steps_max()) throw std::logic_error("as many steps are in flight as may be");
  const struct claim {
    std::uint32_t& held;
    explicit claim(std::uint32_t& steps) : held(steps) { ++held; }
    ~claim() { --held; }
  } counted(steps_);
  auto span = begin_step_span(options_.id, input);
  const auto draft = executor_->draft();
  if (!draft) co_return co_await execute(std::move(input), std::move(span));
  protocols::drafting drafting(std::move(input), executor_->info().vocabulary, draft->info().vocabulary);
  std::int64_t drafting_ns = 0;
  while (auto pass = drafting.next()) {
    try {
      const auto drawn = co_await run_step(context(), draft, std::move(*pass), options_.layers_per_advance);
      drafting_ns += drawn.duration_ns;
      drafting.drew(drawn);
    } catch (const std::exception& failure) {
      span.add("error", failure.what());
      span.end();
      throw;
    }
  }
  span.add("drafting_us", std::to_string(drafting_ns / 1000));
  auto drafts = drafting.drafts();
  auto output = co_await execute(std::move(drafting).step(), std::move(span));
  output.drafts = std::move(drafts);
  output.drafting_ns = drafting_ns;
  output.duration_ns += drafting_ns;
  co_return output;
}

task<protocols::step_output> instance::execute(protocols::step_input input, runtime::trace::span span) {
  if (staged_) co_return co_await execute_on_stages(std::move(input), std::move(span));
  if (!shards_.empty()) co_return co_await execute_on_shards(std::move(input), std::move(span));
  co_return co_await run_step(context(), executor_, std::move(input), options_.layers_per_advance, std::move(span));
}

/// What the devices say of one step.
struct instance::shared_step {
  std::size_t left = 0; ///< devices that have not answered
  protocols::step_output output;
  std::optional<runtime::completer<std::string>> done; ///< until it has been called

  void end(std::string error) {
    if (done) std::exchange(done, std::nullopt)->operator()(std::move(error));
  }
};

task<protocols::step_output> instance::execute_on_shards(protocols::step_input input, runtime::trace::span span) {
  const auto whole = std::make_shared<shared_step>();
  const auto load = loads_;
  const auto begin = [this, &input, whole](runtime::completer<std::string> done) {
    whole->left = shards_.size();
    whole->done = std::move(done);
    for (std::size_t rank = 0; rank < shards_.size(); ++rank) start(execute_on(rank, input, whole));
  };
  auto error = co_await callback<std::string>(begin);
  if (error && error->empty()) {
    span.end();
    co_return std::move(whole->output);
  }
  give_up(error ? *error : error.error().message, span, load);
}

std::uint32_t instance::steps_max() const noexcept {
  if (!staged_ || executor_->draft()) return 1;
  const auto stages = static_cast<std::uint32_t>(shards_.size());
  return options_.pipeline_steps == 0 ? stages : std::min(options_.pipeline_steps, stages);
}

void instance::give_up(const std::string& why, runtime::trace::span& span, std::uint64_t load) {
  if (load == loads_) { // and no other model has been loaded since
    // The others may wait for the one that failed; nothing that they have can be trusted.
    end_line("another step failed: " + why);
    stop_shards(runtime::stop_reason::killed);
    executor_.reset();
  }
  span.add("error", why);
  span.end();
  throw std::runtime_error(why);
}

task<void> instance::execute_on(std::size_t rank, protocols::step_input input, std::shared_ptr<shared_step> whole) {
  auto answer = co_await ask(shards_[rank], options_.shard_timeout, std::move(input));
  if (!answer) {
    whole->end("device " + std::to_string(rank) + ": " + answer.error().message);
    co_return;
  }
  if (rank == 0) whole->output = std::move(*answer);
  if (--whole->left == 0) whole->end({});
}

/// What the stages say of one step.
struct instance::staged_step {
  staged_step(std::vector<protocols::step_input> cut, std::size_t stages)
      : parts(std::move(cut)), outputs(parts.size()), busy_ns(stages) {
    for (const auto& part : parts) {
      rows += part.tokens();
      for (const auto& slice : part.slices)
        drawn += std::min(slice.tokens.size(), slice.scored.size() + (slice.samples ? 1 + slice.drafted : 0));
    }
  }

  std::vector<protocols::step_input> parts;
  std::vector<protocols::step_output> outputs;         ///< of the last stage
  std::vector<std::int64_t> busy_ns;                   ///< of each stage, with its parts
  std::uint64_t rows = 0, drawn = 0;                   ///< drawn: rows whose logits are computed
  std::uint64_t first = 0;                             ///< part, in the schedule
  std::int64_t duration_ns = 0;                        ///< once it has ended
  std::optional<runtime::completer<std::string>> done; ///< until it has been called

  void end(std::string error) {
    if (done) std::exchange(done, std::nullopt)->operator()(std::move(error));
  }
};

task<protocols::step_output> instance::execute_on_stages(protocols::step_input input, runtime::trace::span span) {
  const auto load = loads_;
  bool waits = co_await wait_for_turn();
  const auto enter = [this, &waits] { // or never
    if (std::exchange(waits, false)) entered();
  };
  std::shared_ptr<staged_step> whole;
  std::string why;
  try {
    if (load != loads_ || !executor_) throw std::runtime_error("another step failed, or another model is loaded");
    const auto stages = static_cast<std::uint32_t>(shards_.size());
    const auto count = protocols::step_parts_for(input.tokens(), stages, options_.pipeline_rows);
    whole = std::make_shared<staged_step>(protocols::cut_step(std::move(input), count), stages);
    span.add("parts", std::to_string(whole->parts.size()));
    const auto begin = [this, &whole, &enter](runtime::completer<std::string> done) {
      whole->done = std::move(done);
      whole->first = schedule_.add(static_cast<std::uint32_t>(whole->parts.size()));
      line_.push_back(whole);
      begin_turns();
      enter();
    };
    auto error = co_await callback<std::string>(begin);
    why = error ? *error : error.error().message;
  } catch (const std::exception& failure) {
    why = failure.what();
    if (why.empty()) why = "a step failed without a word";
    enter();
  }
  if (!why.empty()) give_up(why, span, load);
  span.end();
  auto output = protocols::join_parts(std::move(whole->outputs));
  output.duration_ns = whole->duration_ns;
  co_return output;
}

void instance::end_line(const std::string& why) {
  for (const auto& one : std::exchange(line_, {})) one->end(why);
  balance_.reset();
  wanted_.reset();
  proceed();
}

task<bool> instance::wait_for_turn() {
  if (!wanted_ && waiting_.empty() && !entering_) co_return false;
  auto wait = [this](runtime::completer<bool> done) { waiting_.push_back(std::move(done)); };
  (void)co_await callback<bool>(wait);
  co_return true;
}

void instance::entered() {
  entering_ = false;
  proceed();
}

void instance::proceed() {
  if (wanted_) {
    if (line_.empty() && !entering_ && !moving_) start(move_layers());
    return;
  }
  if (entering_ || waiting_.empty()) return;
  entering_ = true;
  const auto next = std::move(waiting_.front());
  waiting_.pop_front();
  next(true);
}

task<void> instance::move_layers() {
  moving_ = true;
  const auto load = loads_;
  const auto text = [](const std::vector<std::uint32_t>& layers) {
    std::string out;
    for (const auto count : layers) out += (out.empty() ? "" : ",") + std::to_string(count);
    return out;
  };
  const auto was = text(balance_->layers()), will_be = text(wanted_->layers);
  auto span = runtime::trace::begin_span("layers.move");
  span.add("instance", std::to_string(options_.id.value()));
  span.add("from", was);
  span.add("to", will_be);
  const auto move = [this](runtime::completer<std::string> done) {
    try {
      executor_->division()->move(wanted_->layers, [done](std::string error) { done(std::move(error)); });
    } catch (const std::exception& failure) {
      done(failure.what());
    }
  };
  const auto told = co_await callback<std::string>(options_.shard_timeout, move);
  const auto error = told ? *told : told.error().message;
  if (!error.empty()) span.add("error", error);
  span.end();
  moving_ = false;
  if (load != loads_ || !wanted_) { // of another model by now, or of none
    proceed();
    co_return;
  }
  if (!told) { // nobody knows what is where
    options_.log.error("instance {}: layers do not get from stage to stage: {}", options_.id.value(), error);
    quit(runtime::stop_reason::failed);
    co_return;
  }
  const auto made = *std::exchange(wanted_, std::nullopt);
  if (error.empty()) {
    balance_->moved(made.layers);
    options_.log.info("instance {}: layers by stage {} instead of {}; the slowest one took {} us, and is to take {}",
                      options_.id.value(), will_be, was, made.slowest_ns / 1000, made.expected_ns / 1000);
    tell_layers(true);
  } else {
    options_.log.warning("instance {}: layers stay as they are, {} by stage: {}", options_.id.value(), was, error);
    balance_.reset();
  }
  proceed();
}

void instance::tell_layers(bool moved) {
  if (options_.on_layers && balance_)
    tell_watcher(context(), "on_layers", [&] { options_.on_layers(options_.id, balance_->layers(), moved); });
}

void instance::begin_turns() {
  for (const auto what : schedule_.begin())
    for (const auto& whole : line_)
      if (what.part >= whole->first && what.part < whole->first + whole->parts.size()) {
        start(run_turn(what, whole));
        break;
      }
}

task<void> instance::run_turn(protocols::stage_schedule::turn what, std::shared_ptr<staged_step> whole) {
  if (!whole->done || what.stage >= shards_.size()) co_return; // the step has failed
  const bool last = what.stage + 1 == shards_.size();
  auto& part = whole->parts[what.part - whole->first];
  auto input = last ? std::move(part) : part;
  auto answer = co_await ask(shards_[what.stage], options_.shard_timeout, std::move(input));
  if (!whole->done) co_return; // another one failed, and the step with it
  if (!answer) {
    whole->end("stage " + std::to_string(what.stage) + ": " + answer.error().message);
    co_return;
  }
  schedule_.ended(what, answer->duration_ns);
  whole->busy_ns[what.stage] += answer->duration_ns;
  if (last) whole->outputs[what.part - whole->first] = std::move(*answer);
  const auto parts = static_cast<std::uint32_t>(whole->parts.size());
  const bool ended = schedule_.done() == whole->first + parts; // the oldest: others are behind it on the last stage
  if (ended) {
    whole->duration_ns = schedule_.take(parts);
    line_.pop_front();
    if (balance_) balance_->ran(whole->busy_ns, whole->rows, whole->drawn);
    if (balance_ && !wanted_) wanted_ = balance_->review();
  }
  begin_turns();
  if (ended) proceed();
  if (ended) whole->end({});
}

void instance::spawn_shards() {
  staged_ = !executor_->stages().empty();
  schedule_ =
      protocols::stage_schedule(static_cast<std::uint32_t>(std::max<std::size_t>(1, executor_->stages().size())));
  for (const auto& device : staged_ ? executor_->stages() : executor_->shards()) {
    shards_.push_back(spawn<shard>(device, static_cast<std::uint32_t>(shards_.size()), options_.layers_per_advance));
    monitor(shards_.back(), [this, rank = shards_.size() - 1, who = shards_.back()](runtime::stop_reason reason) {
      if (rank >= shards_.size() || shards_[rank] != who) return; // that was us, perhaps for a model loaded since
      options_.log.warning("instance {}: {} {} is down ({})", options_.id.value(), staged_ ? "stage" : "device", rank,
                           to_string(reason));
      quit(runtime::stop_reason::failed);
    });
  }
  if (const auto division = executor_->division(); division && staged_) {
    balance_.emplace(division->layers(), division->beside(), options_.pipeline_balance);
    tell_layers(false);
  }
  if (options_.on_shards && !shards_.empty())
    tell_watcher(context(), "on_shards", [&] { options_.on_shards(options_.id, shards_); });
}

void instance::stop_shards(runtime::stop_reason reason) {
  for (const auto& one : std::exchange(shards_, {})) stop(one, reason);
}

void instance::on_stop() { stop_shards(runtime::stop_reason::shutdown); }

} // namespace godwit::actors
