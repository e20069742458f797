#pragma once

#include "migration/shape.hpp"

#include <godwit/actors/cluster.hpp>
#include <godwit/actors/member.hpp>
#include <godwit/runtime/actor_system.hpp>
#include <godwit/transport/fabric.hpp>

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace godwit::bench {

/// Where the instances live.
enum class setup {
  in_process,   ///< all in this process; blocks are copied by the in_process fabric
  two_processes ///< instance 0 here, the others in a child; control over CAF on loopback, blocks over UCX
};
[[nodiscard]] const char* to_string(setup where) noexcept;

/// A cluster of real actors and instances, on the CPU of one thread each. Instances 0 and 1 migrate live; what leaves
/// instance 2, if there is one, is parked first and copied in one piece. The constructor throws where something cannot
/// start; the destructor ends everything, the child included.
class world {
public:
  world(const served_model& model, const shape& how, setup where);
  ~world();
  world(const world&) = delete;
  world& operator=(const world&) = delete;

  [[nodiscard]] actors::cluster& cluster() noexcept { return *cluster_; }
  [[nodiscard]] const served_model& model() const noexcept { return model_; }
  [[nodiscard]] setup where() const noexcept { return where_; }

private:
  void start_child(std::uint16_t port);
  void wait_for(std::uint32_t instances);

  const served_model& model_;
  shape shape_;
  setup where_;
  std::shared_ptr<transport::fabric> fabric_;
  std::unique_ptr<runtime::actor_system> system_;
  std::unique_ptr<actors::cluster> cluster_;
  std::vector<runtime::handle<actors::member_interface>> members_;
  pid_t child_ = -1;
};

/// The child's main: joins the head with the shape of the arguments, and stays until it is killed.
/// argv: --member PORT CONTEXT COPY_SHARE THIRD ON_GPU
[[nodiscard]] bool is_member(int argc, char** argv);
int run_member(char** argv);

} // namespace godwit::bench
