#include <godwit/protocols/kv/sequence_blocks.hpp>

#include <godwit/protocols/ensure.hpp>

#include <algorithm>
#include <utility>

namespace godwit::protocols {

std::uint32_t sequence_blocks::match(block_ledger& ledger, std::span<const token_id> tokens) {
  ensure(table_.empty(), "sequence_blocks: a prefix is matched into an empty table");
  std::optional<block_id> parent;
  for (std::size_t at = 0; at + tokens_per_block <= tokens.size(); at += tokens_per_block) {
    parent = ledger.find(parent, tokens.subspan(at, tokens_per_block), salt_);
    if (!parent) break;
    table_.push_back(*parent);
  }
  sealed_ = size();
  sealable_ = true;
  return static_cast<std::uint32_t>(capacity());
}

void sequence_blocks::take(const block_ledger& ledger, std::vector<block_id> blocks) {
  ensure(table_.empty(), "sequence_blocks: foreign blocks are taken into an empty table");
  const auto own = std::ranges::find_if_not(blocks, [&](block_id block) { return ledger.sealed(block); });
  for (auto block = own; block != blocks.end(); ++block)
    ensure(ledger.references(*block) == 1 && !ledger.sealed(*block),
           "sequence_blocks: foreign blocks are nobody else's");
  sealed_ = static_cast<std::uint32_t>(own - blocks.begin());
  table_ = std::move(blocks);
  sealable_ = true;
}

bool sequence_blocks::grow(block_ledger& ledger, std::uint64_t positions) {
  const auto wanted = blocks_for(positions);
  if (wanted <= size()) return true;
  if (wanted - size() > ledger.available()) return false;
  while (size() < wanted) table_.push_back(*ledger.allocate());
  return true;
}

std::optional<sequence_blocks::written_block> sequence_blocks::make_writable(block_ledger& ledger,
                                                                             std::uint64_t position) {
  const auto index = static_cast<std::uint32_t>(position / tokens_per_block);
  ensure(index < size(), "sequence_blocks: the position lies in the table");
  const auto from = table_[index];
  const auto order = ledger.writable(from);
  if (!order) return std::nullopt;
  if (order->copy) {
    // Blocks behind a copied one would lose their parent.
    ensure(index + 1 == size() || sealed_ <= index, "sequence_blocks: only the last sealed block is written again");
    table_[index] = order->block;
    sealed_ = std::min(sealed_, index);
  }
  return written_block{from, order->block};
}

void sequence_blocks::seal(block_ledger& ledger, std::span<const token_id> computed, std::vector<block_id>* replaced) {
  if (!ledger.prefix_caching()) return;
  const auto full = static_cast<std::uint32_t>(computed.size() / tokens_per_block);
  ensure(full <= size(), "sequence_blocks: computed tokens lie in the table");
  for (; sealable_ && sealed_ < full; ++sealed_) {
    if (ledger.sealed(table_[sealed_])) continue; // by a fork
    const auto parent = sealed_ == 0 ? std::nullopt : std::optional{table_[sealed_ - 1]};
    const auto tokens = computed.subspan(std::size_t{sealed_} * tokens_per_block, tokens_per_block);
    const auto own = table_[sealed_];
    if (replaced != nullptr) ledger.share(own);
    const auto block = ledger.seal(own, parent, tokens, salt_);
    if (replaced != nullptr && block && *block != own)
      replaced->push_back(own);
    else if (replaced != nullptr)
      ledger.release(own);
    if (!block) {
      sealable_ = false;
      return;
    }
    table_[sealed_] = *block;
  }
}

sequence_blocks sequence_blocks::fork(block_ledger& ledger) const {
  for (const auto block : table_) ledger.share(block);
  return *this;
}

void sequence_blocks::truncate(block_ledger& ledger, std::uint64_t positions) {
  const auto kept = blocks_for(positions);
  while (size() > kept) {
    ledger.release(table_.back());
    table_.pop_back();
  }
  sealed_ = std::min(sealed_, size());
  if (table_.empty()) sealable_ = true;
}

} // namespace godwit::protocols
