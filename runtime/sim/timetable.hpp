#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace godwit::runtime::sim::detail {

struct node;

/// The nodes that have timers, in the order in which they came, and when each has its first one due.
///
/// Which timer of a world is next is drawn while one goes through the nodes in this order, where only a node matters
/// that is due no later than all before it. Of hundreds of nodes these are few, and a tree of the least times of its
/// halves leads to them. A node's time is asked anew only where its timers have changed.
class timetable {
public:
  using time = std::chrono::nanoseconds;

  /// Behind the others.
  void add(node& n);
  void remove(node& n);
  /// What is due on this node may be due at another time than before; any node, also one that is not here.
  void changed(node& n);

  /// Calls `look` for each node that has something due by `earliest`, in order. What it returns is the `earliest` for
  /// those that follow.
  template <class Look> void each_due(time earliest, Look look) {
    refresh();
    if (!nodes_.empty()) visit(1, earliest, look);
  }

  /// When something is due first; the largest time: nothing is.
  [[nodiscard]] time earliest() {
    refresh();
    return nodes_.empty() ? never : least_[1];
  }

private:
  static constexpr time never = time::max();

  template <class Look> void visit(std::size_t at, time& earliest, Look& look) {
    if (least_[at] == never || least_[at] > earliest) return;
    if (at >= nodes_.size()) {
      earliest = look(*nodes_[at - nodes_.size()]);
    } else {
      visit(2 * at, earliest, look);
      visit(2 * at + 1, earliest, look);
    }
  }
  void refresh();
  void set(std::size_t place, time due) noexcept;
  void make_room();

  std::vector<node*> nodes_; ///< by place; null: nobody is there. A power of two, or none
  std::vector<time> least_;  ///< of a tree whose root is 1; below `i` are `2i` and `2i + 1`, last the places
  std::size_t used_ = 0;     ///< places that are or were somebody's
  std::vector<node*> changed_;
};

} // namespace godwit::runtime::sim::detail
