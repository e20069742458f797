#include <godwit/protocols/requests/ownership.hpp>

#include <godwit/protocols/ensure.hpp>

#include <iterator>
#include <utility>

namespace godwit::protocols {

expected<epoch, request_ownership::dispatch_error> request_ownership::dispatch(instance_id instance) {
  if (phase_ == phase::finished) return unexpected{dispatch_error::finished};
  if (phase_ == phase::owned) return unexpected{dispatch_error::owned_already};
  if (attempts_without_token_ >= limits_.attempts_max || attempts_ >= limits_.attempts_total_max)
    return unexpected{dispatch_error::attempts_exhausted};
  ++attempts_;
  ++attempts_without_token_;
  owner_ = instance;
  owner_generation_ = 0;
  phase_ = phase::owned;
  take(taking::dispatched, epoch_);
  return epoch_;
}

void request_ownership::take(taking how, epoch from) noexcept {
  taken_ = how;
  taken_from_ = from;
  claims_ = static_cast<std::uint8_t>(claims_ << 1U | static_cast<unsigned>(how == taking::claimed));
  epoch_ = epoch{epoch_.value() + 1};
}

std::optional<epoch> request_ownership::claim(epoch from, instance_id to, std::uint64_t generation) {
  if (phase_ != phase::owned) return std::nullopt;
  const bool repeated = claimed_from(from) && owner_ == to && owner_generation_ == generation;
  if (repeated) return epoch_;
  if (from != epoch_ || from == void_from_) return std::nullopt;
  owner_ = to;
  owner_generation_ = generation;
  take(taking::claimed, from);
  return epoch_;
}

std::optional<epoch> request_ownership::reclaim(epoch from) {
  if (phase_ != phase::owned) return std::nullopt;
  if (taken_ == taking::reclaimed && taken_from_ == from) return epoch_;
  if (from != epoch_) return std::nullopt;
  take(taking::reclaimed, from);
  return epoch_;
}

bool request_ownership::moved_from(epoch from) const noexcept {
  if (from >= epoch_) return false;
  const auto before = epoch_.value() - 1 - from.value();
  return before < 8 && (claims_ >> before & 1U) != 0;
}

bool request_ownership::disown(epoch from, instance_id instance) {
  if (phase_ != phase::owned) return false;
  if (owner_ != instance) {
    if (from == epoch_) void_from_ = from;
    return false;
  }
  const bool taken = taken_ != taking::dispatched && taken_from_ == from;
  if (from != epoch_ && !taken) return false;
  if (taken && taken_ == taking::claimed) claims_ &= 0xFEU; // it never had it
  return owner_lost(epoch_);
}

request_ownership::acceptance request_ownership::accept(epoch from, std::uint32_t first_index,
                                                        std::vector<sampled_token> tokens, finish_reason finish) {
  acceptance result;
  result.first_index = next_index();
  if (phase_ == phase::finished) {
    result.what = verdict::finished;
    return result;
  }
  if (phase_ != phase::owned || from != epoch_) return result;
  if (first_index > next_index()) {
    result.what = verdict::gap;
    return result;
  }
  // 64 bits: an index near the top must not wrap around into the accepted part.
  const auto end = std::uint64_t{first_index} + tokens.size();
  if (end < next_index()) { // a finish that came with it is older than what is accepted already
    result.what = verdict::repeated;
    return result;
  }
  tokens.erase(tokens.begin(), tokens.begin() + (next_index() - first_index));
  if (tokens.empty() && finish == finish_reason::none) {
    result.what = verdict::repeated;
    return result;
  }
  for (const auto& token : tokens) answer_.push_back(token.id);
  if (!tokens.empty()) attempts_without_token_ = 0;
  result.what = verdict::accepted;
  result.fresh = std::move(tokens);
  result.finish = finish;
  if (finish != finish_reason::none) this->finish(finish);
  return result;
}

bool request_ownership::owner_lost(epoch owner) {
  if (phase_ != phase::owned || owner != epoch_) return false;
  phase_ = phase::unowned;
  return true;
}

bool request_ownership::refused(epoch owner) {
  if (!owner_lost(owner)) return false;
  --attempts_;
  if (attempts_without_token_ > 0) --attempts_without_token_;
  return true;
}

bool request_ownership::owner_lost(instance_id instance) {
  return phase_ == phase::owned && instance == owner_ && owner_lost(epoch_);
}

void request_ownership::finish(finish_reason reason) {
  ensure(reason != finish_reason::none, "request_ownership: an end has a reason");
  if (phase_ == phase::finished) return;
  phase_ = phase::finished;
  finish_ = reason;
}

std::optional<instance_id> request_ownership::owner() const noexcept {
  if (phase_ != phase::owned) return std::nullopt;
  return owner_;
}

std::string_view to_string(request_ownership::verdict verdict) noexcept {
  switch (verdict) {
  case request_ownership::verdict::accepted:
    return "accepted";
  case request_ownership::verdict::repeated:
    return "repeated";
  case request_ownership::verdict::stale_epoch:
    return "stale_epoch";
  case request_ownership::verdict::gap:
    return "gap";
  case request_ownership::verdict::finished:
    return "finished";
  }
  return "unknown";
}

} // namespace godwit::protocols
