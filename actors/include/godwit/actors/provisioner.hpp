#pragma once

#include <godwit/protocols/messages/ids.hpp>

#include <functional>
#include <optional>
#include <string>

namespace godwit::actors {

/// Brings processes with instances into being, and takes them away, when the spare instances of the processes that are
/// there are used up: what autoscaling knows of the world outside the cluster.
///
/// The node calls it on its own context, so nothing here may block. An order has succeeded when an instance of a
/// process that joined after it takes requests, one that the head had not known before or that has the order's name;
/// the node gives up waiting by itself.
class provisioner {
public:
  provisioner() = default;
  provisioner(const provisioner&) = delete;
  provisioner& operator=(const provisioner&) = delete;
  virtual ~provisioner() = default;

  /// Orders one instance more. Its process should join under the name `node`, by which it is known again. `failed` is
  /// called at most once, from any thread, with one line that says why the instance will not come; never where it may
  /// still come.
  virtual void order(const std::string& node, std::function<void(std::string why)> failed) = 0;
  /// The process `node` is needed no more: its instance is drained and stopped, or its order was given up; one that
  /// comes even so, later, is stopped and released once more, with its instance. What fails is logged and
  /// tried no further.
  virtual void release(const std::string& node, std::optional<protocols::instance_id> instance) = 0;
  /// Whether it takes away processes that it did not order, too. Where not, it hears of none of them: they stay, and
  /// their stopped instances are started again before anything is ordered. Does not change.
  [[nodiscard]] virtual bool releases_others() const noexcept { return true; }
};

} // namespace godwit::actors
