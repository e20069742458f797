// Policies of one's own for the command, in a shared library:
//   godwit sim   --policy-plugin ./libpacking.so --policy pack --policy-arguments 0.3
//   godwit serve --policy-plugin ./libpacking.so --policy pack
// Instances are filled one after the other, up to a share of their memory that is kept for answers that grow; and of an
// instance that runs short of memory the longest request leaves, which makes the most room.
#include <godwit/protocols/policy/policy_plugin.hpp>

#include <algorithm>
#include <charconv>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace {

using namespace godwit::protocols;

// Only rates: who is ready, who has a full queue and what is still on its way are the base class's books.
class pack final : public dispatcher {
public:
  explicit pack(double kept) : kept_(kept) {}
  [[nodiscard]] std::string_view name() const noexcept override { return "pack"; }

private:
  [[nodiscard]] double rate(const load_report& report, const picked_load& picked) const noexcept override {
    const auto blocks = static_cast<double>(report.blocks_used + report.queued_blocks + picked.blocks);
    const auto used = blocks / std::max(1U, report.blocks_total);
    return used <= 1 - kept_ ? used : -used; // the fullest that has room, else the one that lacks the least
  }
  [[nodiscard]] double score(double rating) const noexcept override { return rating; }
  double kept_;
};

std::optional<std::size_t> longest(const std::vector<possible_move>& moves, const load_report& /*source*/,
                                   const load_report& /*destination*/) {
  const auto blocks = [](const possible_move& move) { return move.request.blocks; };
  return std::ranges::max_element(moves, {}, blocks) - moves.begin();
}

own_policies packing(std::string_view arguments) {
  double kept = 0.2;
  const auto* const end = arguments.data() + arguments.size();
  const auto read = std::from_chars(arguments.data(), end, kept);
  const bool is_share = read.ec == std::errc{} && read.ptr == end && kept >= 0 && kept < 1;
  if (!arguments.empty() && !is_share)
    throw std::invalid_argument("'" + std::string(arguments) +
                                "' is no share of the memory to be kept, from 0 to below 1");
  own_policies mine;
  mine.dispatchers["pack"] = [kept] { return std::make_unique<pack>(kept); };
  mine.move = longest;
  return mine;
}

} // namespace

GODWIT_POLICIES(packing)
