#include "explore/books.hpp"

#include <godwit/protocols/kv/block_hash.hpp>
#include <godwit/protocols/policy/freeness.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <utility>

namespace godwit::explore {

using protocols::instance_status;
using protocols::load_report;
using protocols::planner_settings;
using protocols::request_state;
using protocols::request_status;

namespace {

std::uint64_t tokens_of(const request_status& r) { return std::uint64_t{r.prompt_tokens} + r.answer_tokens; }

/// Blocks that it needs and does not have, its next token included.
std::uint64_t lacks(const request_status& r) {
  const auto needed = protocols::blocks_for(tokens_of(r) + 1);
  return needed > r.blocks ? needed - r.blocks : 0;
}

class recount {
public:
  recount(const instance_status& instance, const planner_settings& planner)
      : instance_(instance), load_(instance.load), planner_(planner) {
    for (const auto& r : instance.requests) {
      if (r.state == request_state::running) {
        ++running_;
        in_batch_.push_back(&r);
        if (head_ == nullptr) last_running_ = &r; // those behind the queue cannot be preempted as yet
      } else if (r.state == request_state::migrating) {
        ++parked_;
        if (r.blocks > 0) in_batch_.push_back(&r); // one without was in the batch or in the queue
        knows_batch_ = knows_batch_ && r.blocks > 0;
      } else {
        ++waiting_;
        wanted_in_queue_ += lacks(r);
        if (head_ == nullptr) head_ = &r;
      }
    }
  }

  std::string run() {
    compare("running", load_.running, running_);
    compare("waiting", load_.waiting, waiting_);
    compare("parked", load_.migrating, parked_);
    within("blocks used", load_.blocks_used, most_blocks(),
           load_.blocks_total - std::min(load_.blocks_total, load_.blocks_cached));
    if (knows_batch_) {
      compare("execution levels", load_.execution_levels, levels());
      compare("headroom blocks", load_.headroom_blocks, headroom());
      if (continuous()) check_queued();
    }
    if (continuous())
      compare("waiting blocks", load_.waiting_blocks, wanted_in_queue_);
    else // what a request of a batch that stays as it is wants for all its answer is not in its status
      within("waiting blocks", load_.waiting_blocks, wanted_in_queue_, std::uint64_t{waiting_} * load_.blocks_total);
    check_freeness();
    return out_;
  }

private:
  void differs(const char* what, std::uint64_t reported, const std::string& counted) {
    if (out_.empty())
      out_ = "instance " + std::to_string(instance_.instance.value()) + " reports " + std::to_string(reported) + " " +
             what + ", " + counted + " are counted";
  }
  void compare(const char* what, std::uint64_t reported, std::uint64_t counted) {
    if (reported != counted) differs(what, reported, std::to_string(counted));
  }
  void within(const char* what, std::uint64_t reported, std::uint64_t least, std::uint64_t most) {
    if (reported < least || reported > most)
      differs(what, reported, std::to_string(least) + " to " + std::to_string(most));
  }

  /// In a static batch a request demands blocks to its end, which its status does not tell.
  bool continuous() const { return planner_.mode != protocols::batching_mode::static_batch; }
  std::uint64_t most_blocks() const {
    std::uint64_t most = 0;
    for (const auto& r : instance_.requests) most = std::max<std::uint64_t>(most, r.blocks);
    return most;
  }
  std::uint32_t levels() const {
    std::uint32_t bits = 0;
    const auto last = std::max<std::size_t>(planner_.execution_levels.size(), 1) - 1;
    for (const auto* r : in_batch_) bits |= 1U << std::min<std::size_t>(r->execution_level, last);
    return bits;
  }
  std::uint64_t headroom() const {
    std::uint64_t sum = 0;
    for (std::size_t level = 0; level < planner_.execution_levels.size(); ++level)
      if ((levels() >> level & 1U) != 0)
        sum += planner_.execution_levels[level].headroom.value_or(load_.headroom_profiled);
    return sum;
  }

  // Who waits for a place and not for memory counts all that is free as wanted.
  void check_queued() {
    std::uint64_t outstanding = 0;
    for (const auto* r : in_batch_) outstanding += lacks(*r);
    compare("outstanding blocks", load_.outstanding_blocks, outstanding);
    const auto wanted = outstanding + (head_ != nullptr ? lacks(*head_) : 0);
    const auto all = std::max<std::uint64_t>(wanted, load_.blocks_total - load_.blocks_used);
    const bool outranks = head_ != nullptr && last_running_ != nullptr && head_->priority < last_running_->priority;
    const bool starts = head_ == nullptr || outranks || load_.places_taken() < load_.running_max;
    within("places taken", load_.places_taken(), in_batch_.size(), load_.running_max);
    compare("queued blocks", load_.queued_blocks, starts ? wanted : all);
  }

  void check_freeness() {
    const auto free =
        static_cast<double>(load_.blocks_total) - load_.blocks_used - load_.queued_blocks - load_.headroom_blocks;
    const auto counted = load_.terminating ? -std::numeric_limits<double>::infinity()
                         : free <= 0       ? free
                                           : free / static_cast<double>(std::max<std::uint64_t>(running_, 1));
    const auto said = protocols::freeness(load_);
    if (said != counted && out_.empty())
      out_ = "instance " + std::to_string(instance_.instance.value()) + " has a freeness of " + std::to_string(said) +
             ", " + std::to_string(counted) + " is counted";
  }

  const instance_status& instance_;
  const load_report& load_;
  const planner_settings& planner_;
  std::uint64_t running_ = 0, waiting_ = 0, parked_ = 0;
  std::uint64_t wanted_in_queue_ = 0;           ///< blocks
  std::vector<const request_status*> in_batch_; ///< parked ones included, which keep their places
  bool knows_batch_ = true;
  const request_status* head_ = nullptr;
  const request_status* last_running_ = nullptr;
  std::string out_;
};

} // namespace

std::string compare_books(const protocols::cluster_status& status, const planner_settings& planner) {
  std::set<std::pair<protocols::request_id, protocols::epoch>> owned;
  for (const auto& instance : status.instances) {
    if (instance.state == protocols::instance_state::down || instance.load.blocks_total == 0) continue;
    if (auto wrong = recount(instance, planner).run(); !wrong.empty()) return wrong;
    for (const auto& r : instance.requests)
      if (!owned.emplace(r.request, r.epoch).second)
        return "request " + std::to_string(r.request.value()) + " runs twice in one epoch";
  }
  return {};
}

double recounted_mean(std::vector<load_report> loads, const protocols::scaling_settings& settings) {
  const auto prefills = [](const load_report& r) { return r.role == protocols::instance_role::prefill; };
  if (!std::ranges::all_of(loads, prefills)) std::erase_if(loads, prefills);
  if (settings.rule == protocols::scaling_rule::total) {
    double left = 0, requests = 0;
    bool any = false;
    for (const auto& load : loads) {
      if (!load.ready || load.terminating) continue;
      any = true;
      left += static_cast<double>(load.blocks_total) - static_cast<double>(load.blocks_used) -
              static_cast<double>(load.headroom_blocks) - static_cast<double>(load.outstanding_blocks) -
              static_cast<double>(load.waiting_blocks);
      requests += static_cast<double>(load.running) + static_cast<double>(load.waiting);
    }
    if (!any) return protocols::finite(protocols::no_freeness);
    return protocols::finite(left > 0 ? left / std::max(requests, 1.0) : left);
  }
  const auto cap = 2 * std::max(std::abs(settings.freeness_min), std::abs(settings.freeness_max));
  double sum = 0;
  std::uint64_t count = 0;
  for (const auto& load : loads) {
    if (!load.ready || load.terminating) continue;
    sum += std::min(cap, std::max(-cap, protocols::freeness(load)));
    ++count;
  }
  return count == 0 ? -cap : sum / static_cast<double>(count);
}

} // namespace godwit::explore
