#include "device/joined_swap_space.hpp"

#include "device/all_of.hpp"

#include <algorithm>
#include <utility>

namespace godwit::gpu {

namespace {

class joined_swap_space final : public swap_space {
public:
  explicit joined_swap_space(std::vector<std::shared_ptr<swap_space>> parts) : parts_(std::move(parts)) {
    for (const auto& part : parts_) slots_ = std::min(slots_, part->slots());
  }
  [[nodiscard]] std::uint32_t slots() const noexcept override { return slots_; }
  void copy_out(std::vector<swap_move> moves, completion done) override {
    const auto all = std::make_shared<all_of>(parts_.size(), std::move(done));
    for (const auto& part : parts_) part->copy_out(moves, [all](std::string error) { all->end(std::move(error)); });
  }
  void copy_in(std::vector<swap_move> moves, completion done) override {
    const auto all = std::make_shared<all_of>(parts_.size(), std::move(done));
    for (const auto& part : parts_) part->copy_in(moves, [all](std::string error) { all->end(std::move(error)); });
  }

private:
  std::vector<std::shared_ptr<swap_space>> parts_;
  std::uint32_t slots_ = ~0U;
};

} // namespace

std::shared_ptr<swap_space> join_swap_spaces(std::vector<std::shared_ptr<swap_space>> parts) {
  if (parts.empty() || std::ranges::count(parts, nullptr) > 0) return nullptr;
  return std::make_shared<joined_swap_space>(std::move(parts));
}

} // namespace godwit::gpu
