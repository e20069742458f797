#include "main/migration_parts.hpp"

#include "main/device_hold.hpp"

#include <godwit/gpu/shared_memory.hpp>
#include <godwit/transport/in_process/fabric.hpp>
#include <godwit/transport/ucx/fabric.hpp>

#include <spdlog/fmt/fmt.h>

#include <cstdlib>
#include <exception>
#include <string>
#include <utility>

namespace godwit::main {

namespace {

/// Of the first device: addresses are unique among the devices of a process.
std::shared_ptr<protocols::memory_copier> make_copier(gpu::cuda::cuda_backend& devices) {
  struct counted {
    device_hold hold; // goes last
    std::shared_ptr<protocols::memory_copier> copier;
  };
  const auto made = std::make_shared<counted>();
  made->copier = devices.make_copier(0);
  return {made, made->copier.get()};
}

} // namespace

protocols::expected<std::shared_ptr<transport::fabric>, start_error>
make_fabric(const serve_settings& settings, const std::string& met_at, const runtime::log::logger& log,
            const std::shared_ptr<gpu::cuda::cuda_backend>& cuda) {
  const bool reaches_others = !met_at.empty();
  auto backend = settings.fabric.backend;
  if (backend == fabric_choice::automatic) backend = reaches_others ? fabric_choice::ucx : fabric_choice::in_process;
  if (backend == fabric_choice::none) return std::shared_ptr<transport::fabric>{};
  if (backend == fabric_choice::in_process && reaches_others)
    log.component("fabric").warning("fabric.backend is in_process: requests do not migrate between this process and "
                                    "others");
  transport::device_memory device;
  try {
    if (cuda) device.copier = make_copier(*cuda);
    if (backend == fabric_choice::in_process)
      return transport::in_process::make_fabric(transport::in_process::make_hub({.device = std::move(device)}));
  } catch (const std::exception& failure) {
    return protocols::unexpected(start_error{std::string("the fabric cannot reach the GPU's memory: ") +
                                             failure.what() + "; fabric.backend none does without migrations"});
  }
  if (is_loopback(settings.fabric.listen) && !met_at.empty() && !is_loopback(met_at))
    log.component("fabric").warning("fabric.listen is {}: this process cannot exchange requests with instances on "
                                    "other machines",
                                    settings.fabric.listen);
  if (!is_loopback(settings.fabric.listen))
    log.component("fabric").warning("the fabric at {} is open to other machines, and authenticates nobody",
                                    settings.fabric.listen);
  else if (!transport::ucx::leaves_host_by_tcp_only(settings.fabric.transports))
    log.component("fabric").warning("with fabric.transports {} UCX may listen on other interfaces than that of {}, and "
                                    "authenticates nobody",
                                    settings.fabric.transports, settings.fabric.listen);
  transport::ucx::settings options;
  options.listen = settings.fabric.listen;
  options.port = settings.fabric.port;
  options.advertise = settings.fabric.advertise;
  options.transports = settings.fabric.transports;
  options.cross_memory = settings.fabric.cross_memory;
  options.reads = settings.fabric.remote_reads;
  options.shared_memory = gpu::find_shared_memory;
  options.checksum = settings.fabric.checksum;
  options.busy_poll = settings.fabric.busy_poll;
  if (std::getenv("UCX_LOG_LEVEL") != nullptr) options.log_level.clear(); // as whoever started this process wants it
  options.device = std::move(device);
  options.on_end = [fabric = log.component("fabric")](const transport::ucx::link_end& end) {
    const auto more = end.left_out == 0 ? std::string() : fmt::format(" ({} more before it)", end.left_out);
    if (end.goes_on)
      fabric.warning("{}: {}{}", end.peer, end.reason, more);
    else if (end.gone)
      fabric.info("the connection with {} is gone, with transfers under way or waiting for it: {}{}", end.peer,
                  end.reason, more);
    else
      fabric.warning("the connection with {} was closed: {}{}", end.peer, end.reason, more);
  };
  try {
    auto asked = options; // what UCX finds is asked when the fabric's thread works with the device
    auto made = transport::ucx::make_fabric(std::move(options));
    if (asked.device.copier)
      log.component("fabric").info("KV of {} {}; UCX knows memory of: {}", asked.device.copier->name(),
                                   transport::ucx::reads_devices(asked)
                                       ? "is read by UCX itself where the other side can have it read"
                                       : "goes through page-locked memory",
                                   transport::ucx::memory_types(asked.transports));
    log.component("fabric").debug("{} at {}", transport::ucx::library_version(), made->address());
    return made;
  } catch (const std::exception& failure) {
    const bool wrong = dynamic_cast<const transport::ucx::wrong_settings*>(&failure) != nullptr;
    return protocols::unexpected(start_error{std::string("the fabric cannot start: ") + failure.what() +
                                                 "; see fabric.listen, fabric.port and fabric.transports, or choose "
                                                 "fabric.backend none to do without migrations",
                                             wrong ? 2 : 1});
  }
}

actors::migration_environment make_migration(const serve_settings& settings, std::shared_ptr<transport::fabric> fabric,
                                             const runtime::log::logger& log) {
  const auto& from = settings.migration;
  actors::migration_environment out;
  out.settings.limits.stages_max = from.stages_max;
  out.settings.limits.last_blocks_max = from.last_blocks_max;
  out.settings.out_max = from.out_max;
  out.settings.in_max = from.in_max;
  out.settings.handoff_max = from.handoff_max;
  out.settings.answer_timeout = from.answer_timeout;
  out.settings.stage_timeout = from.stage_timeout;
  out.settings.last_timeout = from.last_timeout;
  out.settings.lease = from.lease;
  out.settings.claim_timeout = from.claim_timeout;
  out.settings.claims_max = from.claims_max;
  out.settings.portion_bytes = from.portion_bytes;
  out.settings.copy_share = from.copy_share;
  out.fabric = std::move(fabric);
  if (auto traps = parse_failpoints(settings.debug.failpoints)) out.hit = std::move(*traps);
  out.log = log.component("migration");
  return out;
}

} // namespace godwit::main
