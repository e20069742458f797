#pragma once

#include <godwit/protocols/messages/ids.hpp>

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace godwit::explore {

/// Looks on while the home gives requests to instances, and says which one was taken for lost without need: its
/// instance had not gone since, or only because it was drained.
class loss_watch {
public:
  struct excuses {
    bool drains_lose = false; ///< who is drained may have been struck as well
    /// Who got a request by a migration may not have it after all, and who was to lose it so may let go of it, where
    /// the home does not answer in time.
    bool moves_lose = false;
    /// The home may hear so much later than we that an instance is gone, and count on it meanwhile.
    std::chrono::nanoseconds late_news = std::chrono::milliseconds(50);
    std::chrono::nanoseconds late_news_elsewhere = std::chrono::milliseconds(50); ///< of homes other than the head's
  };
  explicit loss_watch(excuses known) : excuses_(known) {}

  /// It knows of nobody any more, and all its requests are lost: the head's with the head, of which the next one may
  /// give the same ids.
  void without_head(std::uint16_t home) {
    const auto of_it = [home](const auto& one) { return protocols::home_of(one.first) == home; };
    std::erase_if(owned_, of_it);
    std::erase_if(suspects_, of_it);
  }
  void gone(protocols::instance_id who, bool drained, std::chrono::nanoseconds now) {
    if (!drained || excuses_.drains_lose) gone_[who] = now;
    // A home in the same process hears of its end before the head does: the handle in the next topology is none.
    std::erase_if(suspects_,
                  [who](const auto& one) { return one.second == who && protocols::home_of(one.first) != 0; });
  }
  void given(protocols::request_id request, protocols::instance_id to, std::chrono::nanoseconds now) {
    owned_[request] = {to, now, false};
  }
  void moved(protocols::request_id request, protocols::instance_id to, std::chrono::nanoseconds now) {
    owned_[request] = {to, now, true};
  }
  /// To be dispatched again.
  void lost(protocols::request_id request) {
    const auto found = owned_.find(request);
    if (found == owned_.end()) return; // nobody had said that he has it
    const auto had = found->second;
    owned_.erase(found);
    if (had.moved && excuses_.moves_lose) return;
    const auto went = gone_.find(had.by);
    const auto late = protocols::home_of(request) == 0 ? excuses_.late_news : excuses_.late_news_elsewhere;
    if (went == gone_.end() || went->second < had.since - late) suspects_.emplace(request, had.by);
  }
  /// From there, without having committed; heard after the loss.
  void move_failed(protocols::request_id request, protocols::instance_id from) {
    if (excuses_.moves_lose) suspects_.erase({request, from});
  }
  /// Empty: none, so far.
  [[nodiscard]] std::string wrong() const {
    if (suspects_.empty()) return {};
    return "a request of instance " + std::to_string(suspects_.begin()->second.value()) +
           ", which had not failed, was taken for lost";
  }

private:
  struct owner {
    protocols::instance_id by;
    std::chrono::nanoseconds since{0};
    bool moved = false;
  };
  excuses excuses_;
  std::map<protocols::request_id, owner> owned_;
  std::map<protocols::instance_id, std::chrono::nanoseconds> gone_;
  std::set<std::pair<protocols::request_id, protocols::instance_id>> suspects_;
};

} // namespace godwit::explore
