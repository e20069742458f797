#include "cuda/engine.hpp"

#include "cuda/block_moves.hpp"
#include "cuda/step_arrays.hpp"
#include "device/leavable_threads.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <stdexcept>
#include <utility>

namespace godwit::gpu::cuda {

namespace {

constexpr std::size_t graphs_max = 128;

std::unique_ptr<driver_stream> stream_for_steps(driver& from, bool products) {
  auto made = from.make_stream(stream_priority::high);
  if (products) made->prepare_products();
  return made;
}

std::uint32_t logits_rows(const cpu::step_plan& plan) { return static_cast<std::uint32_t>(plan.logits.size()); }

} // namespace

// The stream comes before the KV cache, which takes the rest, and goes before what its work uses.
engine::engine(std::shared_ptr<const device_model> model, const cuda_executor_settings& settings,
               std::shared_ptr<const going> how)
    : engine(model, settings, std::move(how), stream_for_steps(*model->driver, !settings.deterministic)) {}

engine::engine(std::shared_ptr<const device_model> model, const cuda_executor_settings& settings,
               std::shared_ptr<const going> how, std::unique_ptr<driver_stream> stream)
    : model_(std::move(model)), settings_(settings), how_(std::move(how)),
      memory_(*model_->driver, *model_, settings_.deterministic, settings_.step_tokens), kv_(*model_),
      launches_(*model_, kv_, memory_, settings_.deterministic),
      graphs_(graphs_max, !model_->divided(), settings_.warn), stream_(std::move(stream)),
      uploads_(model_->driver->make_stream(stream_priority::high)), uploaded_(model_->driver->make_event()) {
  if (settings_.trials && !settings_.deterministic && !model_->divided()) {
    // What they load the driver keeps: before the KV cache takes the rest of the memory.
    model_->ways->try_once(
        *model_->driver, *stream_, [this] { return launches_.trials(); }, std::chrono::steady_clock::now,
        settings_.tell);
    launches_.use(*model_->ways);
  }
  if (model_->driver->properties().loads_late) { // likewise
    launches_.load(*stream_);
    stream_->synchronize();
  }
  info_.device = "cuda " + std::to_string(model_->driver->properties().index) + " " + kind();
  info_.layers = model_->config.layers;
  info_.vocabulary = model_->config.vocabulary;
  info_.positions_max = model_->config.positions_max;
  info_.block_bytes = kv_.block_bytes();
  info_.weight_bytes = model_->bytes;
  info_.eos = model_->config.eos;
  info_.kv_layout = kv_.layout();
}

engine::~engine() {
  if (group_) group_->abort(name() + " is gone"); // before the stream, which waits for what it has
}

void engine::leave(std::shared_ptr<engine> with, const event& ended) {
  with->left_ = true;
  const auto how = with->how_;
  how->count_left(left_part::work, 1);
  how->is_left();
  how->tell(with->info_.device + ": a step that was given up does not end; it is left with its memory, " +
            "and nothing new begins there before it has");
  leavable_threads().start([how, with = std::move(with), ended]() mutable {
    ended.wait();
    with.reset(); // may be the last one, and then memory is left
    how->count_left(left_part::work, -1);
  });
}

std::shared_ptr<engine> share_engine(std::shared_ptr<const device_model> model,
                                     const cuda_executor_settings& settings) {
  auto how = std::make_shared<going>();
  how->keep = settings.keep;
  how->patience = settings.patience;
  how->memory_patience = settings.memory_patience;
  how->warn = settings.warn;
  how->count = [device = model->driver](left_part what, int more) { device->count_left(what, more); };
  if (settings.waited) how->waited = settings.waited;
  auto own = settings;
  own.keep.reset(); // would go before the memory
  auto* const made = new engine(std::move(model), own, how);
  return {made, [how](engine* gone) mutable {
            const auto its = std::exchange(how, nullptr);
            let_go(
                its, gone->info().device, "", [] {}, [gone] { delete gone; });
          }};
}

void engine::open(std::uint32_t blocks, std::shared_ptr<group_end> group, std::shared_ptr<pipeline::stage_link> before,
                  std::shared_ptr<pipeline::stage_link> after) {
  if (model_->stage.begins() != !before || model_->stage.ends() != !after)
    throw std::invalid_argument("a stage of a model, and not such links");
  before_ = std::move(before);
  after_ = std::move(after);
  const auto [rank, degree] = model_->part;
  if (model_->divided() ? !group || group->rank() != rank || group->ranks() != degree : group != nullptr)
    throw std::invalid_argument("part " + std::to_string(rank) + " of " + std::to_string(degree) +
                                " of a model, and not such a group");
  kv_.take(blocks);
  info_.blocks = kv_.blocks();
  // Steps whose requests share no blocks have no longer tables.
  memory_.reserve_table(kv_.blocks());
  if (settings_.logits_tap && draws())
    tapped_ = model_->driver->allocate_pinned(std::uint64_t{logits_rows_max} * model_->logits_stride * sizeof(float),
                                              "logits to be looked at");
  group_ = std::move(group);
  launches_.join(group_);
}

std::string engine::kind() const {
  return "(" + model_->driver->properties().name + ", " + to_string(model_->type) +
         (settings_.deterministic ? ", deterministic)" : ")");
}

std::string engine::name() const { return "rank " + std::to_string(model_->part.rank); }

void engine::abandon() {
  if (group_) group_->abort("a step was abandoned by " + name());
}

void engine::failed(const std::string& why) {
  if (group_) group_->abort(name() + ": " + why);
}

void engine::check_group() const {
  if (!group_) return;
  if (auto why = group_->error(); !why.empty()) throw driver_error(why);
}

void engine::notify(reaction then) {
  if (!group_) return stream_->notify(std::move(then));
  group_->bound(*stream_);
  // On a broken device this may be called when the engine has gone; and a group must not end where the driver calls.
  stream_->notify([weak = std::weak_ptr(group_), own = name(), then = std::move(then)](const std::string& error) {
    const auto group = weak.lock();
    if (group && !error.empty()) group->abort(own + ": " + error);
    then(error.empty() && group ? group->error() : error);
  });
}

prepared_step engine::begin(protocols::step_input input) {
  if (left_) throw driver_error(info_.device + ": a step before did not end, so there is no other one");
  thread_.expect(); // it wakes up while the step is planned
  prepared_step step;
  step.plan = cpu::plan_step(std::move(input), model_->config, kv_.blocks(), settings_.logits_of_all_rows);
  step.shape = shape_of(step.plan, *model_, settings_.deterministic);
  if (busy_.exchange(true)) throw std::invalid_argument("step: the one before is still in flight");
  try {
    check_group();
    memory_.reserve(step.shape, table_entries(step.plan), step.plan.input.copies.size() * model_->config.layers,
                    logits_rows(step.plan), draw_arrays::top_wanted(step.plan));
    if (draws()) memory_.reserve_lists(draw_arrays::lists_max(step.plan, model_->config.vocabulary));
  } catch (const std::exception& failure) {
    busy_ = false;
    failed(failure.what());
    throw;
  }
  intervals_used_ = 0;
  return step;
}

engine::interval& engine::next_interval() {
  if (intervals_used_ == intervals_.size())
    intervals_.push_back({model_->driver->make_event(true), model_->driver->make_event(true)});
  return intervals_[intervals_used_++];
}

void engine::advance(const prepared_step& step, std::uint32_t first, std::uint32_t last,
                     const std::atomic<bool>& cancelled) {
  check_group(); // a graph of a broken one must not be launched
  auto& time = next_interval();
  stream_->record(*time.begin);
  if (first == 0) {
    move_blocks(*stream_, step.plan.input.copies, kv_, model_->config.layers, memory_);
    upload_step(*stream_, step.plan, step.shape, memory_);
    if (before_) receive(step);
  }
  run_layers(step, first, last, cancelled);
  if (last == model_->config.layers && !cancelled) after_ ? send(step) : finish(step);
  stream_->record(*time.end);
}

void engine::receive(const prepared_step& step) {
  received_ = before_->take(step.plan.input.step, step.plan.rows);
  stream_->copy(memory_.residual, received_->data(),
                std::size_t{step.plan.rows} * model_->config.hidden * sizeof(float));
}

void engine::send(const prepared_step& step) {
  const auto bytes = std::size_t{step.plan.rows} * model_->config.hidden * sizeof(float);
  auto rows = after_->empty(bytes);
  rows->step = step.plan.input.step;
  rows->rows = step.plan.rows;
  stream_->copy(rows->data(), memory_.residual, bytes);
  after_->put(std::move(rows)); // nobody reads them before this step has ended
}

void engine::run_layers(const prepared_step& step, std::uint32_t first, std::uint32_t last,
                        const std::atomic<bool>& cancelled) {
  const std::uint32_t layers = model_->config.layers;
  if (settings_.graphs && step.shape.decodes_only && first == 0 && last == layers) {
    graphs_.run(*stream_, {graph_key::part::layers, step.shape.rows, step.shape.single_positions_max},
                memory_.layers_version(), [&](driver_stream& to) {
                  if (!before_) launches_.embed(to, step.shape);
                  for (std::uint32_t i = 0; i < layers; ++i) launches_.layer(to, step.shape, i);
                  launches_.close(to, step.shape);
                });
    return;
  }
  if (first == 0 && !before_) launches_.embed(*stream_, step.shape);
  for (std::uint32_t i = first; i < last && !cancelled; ++i) launches_.layer(*stream_, step.shape, i);
  if (last == layers && !cancelled) launches_.close(*stream_, step.shape);
}

void engine::finish(const prepared_step& step) {
  const std::uint32_t count = logits_rows(step.plan);
  if (count == 0) return;
  // The layers are under way: what it takes to know the draws' limits is done beside them, and its upload. Nothing
  // reads what was there: the step before has ended.
  if (draws())
    draws_.upload(*uploads_, step.plan, model_->config.vocabulary, settings_.allowed, memory_);
  else
    draw_arrays::upload_rows(*uploads_, step.plan, memory_);
  uploads_->record(*uploaded_);
  stream_->wait(*uploaded_);
  if (settings_.graphs && step.shape.decodes_only && count <= logits_rows_max && !settings_.logits_tap) {
    const std::uint32_t padded = bucket_of(count);
    graphs_.run(*stream_, {graph_key::part::logits, padded, 0}, memory_.logits_version(), [&](driver_stream& to) {
      launches_.logits(to, 0, padded);
      if (!group_) launches_.draw(to, 0, padded);
    });
    // What only one device does is in no graph that all have to capture and launch together.
    if (group_ && draws()) {
      launches_.join_logits(*stream_, padded);
      launches_.draw(*stream_, 0, padded);
    }
  } else {
    for (std::uint32_t first = 0; first < count; first += logits_rows_max)
      enqueue_logits(step, first, std::min(logits_rows_max, count - first));
  }
  if (draws()) draws_.download(*stream_, memory_);
}

void engine::enqueue_logits(const prepared_step& step, std::uint32_t first, std::uint32_t count) {
  launches_.logits(*stream_, first, count);
  if (!draws()) return;
  if (group_) launches_.join_logits(*stream_, count);
  if (settings_.logits_tap) tap_logits(step, first, count);
  launches_.draw(*stream_, first, count);
}

void engine::tap_logits(const prepared_step& step, std::uint32_t first, std::uint32_t count) {
  const std::uint64_t stride = model_->logits_stride;
  stream_->copy(tapped_.data(), memory_.logits, count * stride * sizeof(float));
  stream_->synchronize();
  check_group();
  if (left_) return; // whoever looked has gone
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto& place = step.plan.logits[first + i];
    const auto& planned = step.plan.slices[place.slice];
    cpu::logits_row row;
    row.step = step.plan.input.step;
    row.slice = place.slice;
    row.position = planned.slice->first_position + place.row - planned.first_row;
    row.values = {reinterpret_cast<const float*>(tapped_.data()) + i * stride, model_->config.vocabulary};
    settings_.logits_tap(row);
  }
}

void engine::drain() noexcept {
  for (auto* one : {uploads_.get(), stream_.get()}) {
    try {
      one->synchronize();
    } catch (const driver_error&) { // the step's completion says so
    }
  }
}

double engine::time_graphs(std::uint32_t launches) {
  const auto begin = model_->driver->make_event(true), end = model_->driver->make_event(true);
  stream_->record(*begin);
  for (std::uint32_t i = 0; i < launches; ++i)
    if (!graphs_.launch_again(*stream_, 2))
      throw std::logic_error("the last step was not launched as graphs" +
                             (graphs_.why_not().empty() ? "" : ": " + graphs_.why_not()));
  stream_->record(*end);
  end->synchronize();
  return end->milliseconds_since(*begin) / 1e3 / launches;
}

protocols::step_output engine::collect(const prepared_step& step) {
  auto out = draws() ? draws_.collect(step.plan, model_->config.vocabulary, memory_) : protocols::step_output{};
  out.step = step.plan.input.step;
  double milliseconds = 0;
  for (std::size_t i = 0; i < intervals_used_; ++i)
    milliseconds += intervals_[i].end->milliseconds_since(*intervals_[i].begin);
  out.duration_ns = static_cast<std::int64_t>(milliseconds * 1e6);
  return out;
}

} // namespace godwit::gpu::cuda
