#include <godwit/protocols/batching/drafting.hpp>

#include <godwit/protocols/ensure.hpp>

#include <algorithm>
#include <utility>

namespace godwit::protocols {

namespace {

/// What a slice's tokens are drawn by, without what only the model is asked.
step_slice plainly(step_slice slice) {
  slice.sampling.logprobs = slice.sampling.prompt_logprobs = -1;
  return slice;
}

} // namespace

drafting::drafting(step_input step, std::uint32_t vocabulary, std::uint32_t draft_vocabulary)
    : step_(std::move(step)), vocabulary_(vocabulary), draft_vocabulary_(draft_vocabulary) {
  for (std::size_t i = 0; i < step_.slices.size(); ++i) {
    auto& slice = step_.slices[i];
    if (slice.drafts_wanted == 0) continue;
    ensure(slice.samples && slice.drafted == 0, "drafting: who wants drafts draws, and has none");
    wants_.push_back({i, std::exchange(slice.drafts_wanted, 0)});
    passes_ = std::max(passes_, wants_.back().wanted + 1);
  }
}

token_id drafting::to_draft(token_id token) const noexcept {
  return token >= 0 && static_cast<std::uint32_t>(token) < draft_vocabulary_ ? token : 0;
}

std::optional<step_input> drafting::next() {
  if (pass_ == passes_) return std::nullopt;
  if (pass_++ == 0) return first_pass();
  step_input out;
  out.step = step_.step;
  for (const auto& of : wants_)
    if (pass_ <= of.wanted + 1) out.slices.push_back(pass_of(of));
  return out;
}

step_input drafting::first_pass() const {
  step_input out;
  out.step = step_.step;
  out.copies = step_.copies;
  out.slices.reserve(step_.slices.size());
  auto want = wants_.begin();
  for (std::size_t i = 0; i < step_.slices.size(); ++i) {
    const auto& from = step_.slices[i];
    const bool draws = want != wants_.end() && want->slice == i;
    auto slice = draws ? plainly(from.drawn_at(0)) : step_slice{};
    want += draws ? 1 : 0;
    slice.request = from.request;
    slice.first_position = from.first_position;
    slice.blocks = from.blocks;
    slice.tokens = from.tokens;
    for (auto& token : slice.tokens) token = to_draft(token);
    out.slices.push_back(std::move(slice));
  }
  return out;
}

/// Its last draft, and what follows it where more are wanted.
step_slice drafting::pass_of(const guesses& of) const {
  const auto& from = step_.slices[of.slice];
  auto slice = pass_ <= of.wanted ? plainly(from.drawn_at(from.drafted)) : step_slice{};
  slice.request = from.request;
  slice.first_position = from.first_position + static_cast<std::uint32_t>(from.tokens.size()) - 1;
  slice.blocks = from.blocks;
  slice.tokens = {to_draft(from.tokens.back())};
  return slice;
}

void drafting::drew(const step_output& output) {
  std::size_t place = 0;
  for (const auto& of : wants_) {
    if (pass_ > of.wanted) continue;
    ensure(place < output.tokens.size(), "drafting: a token for each slice of a pass that draws");
    const auto id = output.tokens[place++].id;
    auto& slice = step_.slices[of.slice];
    slice.tokens.push_back(id >= 0 && static_cast<std::uint32_t>(id) < vocabulary_ ? id : 0);
    ++slice.drafted;
  }
  ensure(place == output.tokens.size(), "drafting: no token for a slice that draws none");
}

std::vector<token_id> drafting::drafts() const {
  std::vector<token_id> out;
  for (const auto& of : wants_) {
    const auto& tokens = step_.slices[of.slice].tokens;
    out.insert(out.end(), tokens.end() - static_cast<std::ptrdiff_t>(of.wanted), tokens.end());
  }
  return out;
}

} // namespace godwit::protocols
