#pragma once

#include <godwit/protocols/messages/migration.hpp>
#include <godwit/protocols/migration/copy_pacer.hpp>
#include <godwit/protocols/migration/source.hpp>
#include <godwit/runtime/log/logger.hpp>
#include <godwit/runtime/metrics/registry.hpp>
#include <godwit/transport/fabric.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

namespace godwit::actors {

/// Bounds and paces of live migrations, of one instance.
struct migration_settings {
  protocols::migration_limits limits;
  std::uint32_t out_max = 2; ///< migrations away from an instance at a time
  std::uint32_t in_max = 2;  ///< ... towards it
  /// Of a prefill instance `out_max`, of a decode instance `in_max`, where it is more than these.
  std::uint32_t handoff_max = 8;
  std::chrono::nanoseconds answer_timeout{std::chrono::seconds(2)};
  std::chrono::nanoseconds stage_timeout{std::chrono::seconds(30)}; ///< of a bulk stage; the request runs meanwhile
  std::chrono::nanoseconds last_timeout{std::chrono::seconds(2)};   ///< of the last one: the request stands still
  /// The destination gives up a source from which it hears nothing for so long. Longer than a step, for which the
  /// source waits before the last stage.
  std::chrono::nanoseconds lease{std::chrono::seconds(30)};
  std::chrono::nanoseconds claim_timeout{std::chrono::seconds(2)}; ///< of one question to the home ...
  std::uint32_t claims_max = 3;                                    ///< ... which is asked so often
  /// Bulk copies go in portions of this size, and rest between them (protocols::copy_pacer) so that they take this
  /// share of what the link, or the memory, could carry. The last stage does not rest.
  std::uint64_t portion_bytes = std::uint64_t{8} << 20U;
  double copy_share = 0; ///< 0: as the memory asks for it
  /// Of copies between devices' memory: engines copy beside the compute units, and what is shared is the link.
  static constexpr double copy_share_of_engines = 0.25;
  /// Of copies in the host's memory: cores that copy do not compute. So little that others' steps are not felt to be
  /// longer (docs/bench.md), but that much over a slow network too, up to the share above.
  static constexpr double copy_share_of_cores = 0.0125, copy_rate_of_cores = 100e6; ///< bytes per second
  /// How bulk copies of KV are paced that lies in the host's memory, or else in a device's. However small the share:
  /// rests take at most half of a stage's time, and the destination hears of us well within its lease.
  [[nodiscard]] protocols::copy_pacer::pace pace_of_copies(bool in_host_memory) const {
    protocols::copy_pacer::pace out;
    out.stretch_max = stage_timeout / 2;
    out.rest_max = lease / 4;
    out.share = copy_share > 0 ? copy_share : in_host_memory ? copy_share_of_cores : copy_share_of_engines;
    if (copy_share <= 0 && in_host_memory) {
      out.bytes_per_second = copy_rate_of_cores;
      out.share_max = copy_share_of_engines;
    }
    return out;
  }

  /// Longer than any migration may take by these limits.
  [[nodiscard]] constexpr std::chrono::nanoseconds age_max() const {
    return (stage_timeout + 3 * answer_timeout) * (limits.stages_max + 1) + 2 * last_timeout + lease +
           claim_timeout * (claims_max + 2);
  }
  /// By then its source has told how it ended, even where its coordinator had to be ended and its home be asked.
  [[nodiscard]] constexpr std::chrono::nanoseconds told_within() const {
    return age_max() + claim_timeout * claims_max + last_timeout + answer_timeout;
  }
};

/// What is counted of migrations, at the homes of the requests. Made once per process.
struct migration_metrics {
  explicit migration_metrics(runtime::metrics::registry& registry);
  void observe(const protocols::migration_report& report);
  runtime::metrics::family<runtime::metrics::counter>& migrations; ///< by outcome, reason and cause
  runtime::metrics::counter& bytes;
  runtime::metrics::counter& blocks;       ///< of requests that moved
  runtime::metrics::counter& known_blocks; ///< of these, what the destination had already
  runtime::metrics::histogram& stall_seconds;
  runtime::metrics::histogram& seconds;
};

/// Called by the actors of a migration at named places ("source.committing", ...), for drills: may end or stop the
/// process. docs/serving.md has the names.
using failpoints = std::function<void(std::string_view name)>;

/// What an instance's migrations need from outside. Without a fabric it takes part in none.
struct migration_environment {
  migration_settings settings;
  /// Its callbacks post to actors of the host: it ends after the actors and before the host does (stop the actors, let
  /// go of the fabric, then of the host).
  std::shared_ptr<transport::fabric> fabric;
  /// Names landing places; shared by all instances of the process, so that none is used twice.
  std::shared_ptr<std::atomic<std::uint64_t>> transfers = std::make_shared<std::atomic<std::uint64_t>>(0);
  failpoints hit; ///< may be empty
  runtime::log::logger log;
  /// Held as long as llumlets and coordinators are there, for whoever waits for their end; filled in by the cluster.
  /// May be null.
  std::shared_ptr<void> keep;

  void pass(std::string_view name) const {
    if (hit) hit(name);
  }
};

} // namespace godwit::actors
