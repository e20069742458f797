#pragma once

#include <godwit/protocols/messages/ids.hpp>
#include <godwit/protocols/messages/load.hpp>
#include <godwit/protocols/messages/scheduling.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace godwit::protocols {

/// What a request will need, as far as it is known when it is dispatched.
struct dispatch_demand {
  std::uint32_t tokens = 0; ///< prompt and answer so far
  std::int32_t priority = 0;
};

struct dispatch_choice {
  instance_id instance;
  dispatch_reason why;
};

/// Chooses the instance of a new or re-dispatched request from the last reports.
///
/// Reports come at intervals; within one a burst would pile up on whichever instance reported the least load. So what
/// was picked since an instance's last report counts as load of that instance. Same calls, same answers. Chosen by name
/// in the configuration.
class dispatcher {
public:
  virtual ~dispatcher() = default;
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;

  /// Takes a report in. False when it is older than what is known (a sequence or generation that went by).
  bool report(const load_report& report);
  /// The instance is gone or suspected.
  void remove(instance_id instance);
  /// The instance of this request, which now counts as dispatched there. Empty when no instance is ready or all queues
  /// are full.
  [[nodiscard]] std::optional<dispatch_choice> pick(const dispatch_demand& demand);
  /// As pick, but not this one (it just refused or lost the request) unless it is the only one.
  [[nodiscard]] std::optional<instance_id> pick_other(const dispatch_demand& demand, instance_id avoided);

  /// The last reports, by instance.
  [[nodiscard]] std::vector<load_report> reports() const;

protected:
  struct candidate {
    load_report report;
    std::uint32_t dispatched = 0;        ///< requests picked since the report
    std::uint64_t dispatched_tokens = 0; ///< of these
    std::uint64_t picked_last = 0;       ///< when, counted in picks; 0: never
  };
  /// Of at least one eligible candidate, by ascending instance id.
  [[nodiscard]] virtual instance_id choose(const std::vector<const candidate*>& eligible,
                                           const dispatch_demand& demand) = 0;

private:
  [[nodiscard]] std::optional<instance_id> pick_among(const dispatch_demand& demand,
                                                      std::optional<instance_id> avoided);
  std::map<instance_id, candidate> candidates_;
  std::uint64_t picks_ = 0;
};

/// "least_load": the smallest share of KV blocks used, queued prompts counted as used; then the fewest requests; then
/// the longest not picked. "round_robin": in turn. Null when no policy has this name.
[[nodiscard]] std::unique_ptr<dispatcher> make_dispatcher(std::string_view name);
[[nodiscard]] std::vector<std::string_view> dispatcher_names();

} // namespace godwit::protocols
