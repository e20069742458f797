#include <godwit/protocols/kv/block_ledger.hpp>

#include <godwit/protocols/ensure.hpp>

#include <algorithm>
#include <bit>
#include <utility>

namespace godwit::protocols {

block_ledger::block_ledger(std::uint32_t blocks, bool prefix_caching, block_hash_function hash)
    : blocks_(blocks), chains_(prefix_caching ? std::bit_ceil(std::max<std::size_t>(blocks, 1)) : 1, none),
      prefix_caching_(prefix_caching), hash_(hash) {
  ensure(blocks < none, "block_ledger: too many blocks");
  for (std::uint32_t i = 0; i < blocks; ++i) push_back(free_, i);
}

std::optional<block_id> block_ledger::allocate() {
  if (free_.size == 0 && cached_.size == 0) return std::nullopt;
  auto& from = free_.size > 0 ? free_ : cached_;
  const auto index = from.front;
  remove(from, index);
  auto& taken = blocks_[index];
  if (taken.is_sealed) {
    ensure(taken.children == 0, "block_ledger: a parent is evicted after its children");
    unseal(index);
    ++counters_.evictions;
  }
  taken.where = state::used;
  taken.references = 1;
  ++counters_.allocations;
  return block_id{index};
}

void block_ledger::share(block_id id) {
  ensure(at(id).where == state::used, "block_ledger: only a used block can be shared");
  ++at(id).references;
}

void block_ledger::release(block_id id) {
  auto& released = at(id);
  ensure(released.where == state::used, "block_ledger: only a used block can be released");
  if (released.references > 1) {
    --released.references;
    return;
  }
  ensure(released.children_used == 0, "block_ledger: a table is released from its tail");
  released.references = 0;
  if (!released.is_sealed) {
    released.where = state::free;
    push_back(free_, id.value());
    return;
  }
  if (released.parent != none) --blocks_[released.parent].children_used;
  released.where = state::cached;
  push_back(cached_, id.value());
  ++cache_version_;
}

std::optional<block_ledger::write_order> block_ledger::writable(block_id id) {
  ensure(at(id).where == state::used, "block_ledger: only a used block can be written");
  if (at(id).references == 1 && !at(id).is_sealed) return write_order{id, false};
  const auto fresh = allocate();
  if (!fresh) return std::nullopt;
  ++counters_.copies;
  return write_order{*fresh, true};
}

std::optional<block_id> block_ledger::seal(block_id id, std::optional<block_id> parent,
                                           std::span<const token_id> tokens, std::uint64_t salt) {
  ensure(at(id).where == state::used && !at(id).is_sealed, "block_ledger: only a used, unsealed block can be sealed");
  if (!prefix_caching_) return std::nullopt;
  ensure(!parent || at(*parent).where == state::used, "block_ledger: a parent is used");
  const auto hash = hash_behind(parent, tokens, salt);
  if (const auto other = sealed_as(hash); other != none) {
    if (!holds(blocks_[other], parent, tokens, salt)) {
      ++counters_.collisions;
      return std::nullopt;
    }
    ++counters_.duplicates;
    reference(other);
    release(id);
    return block_id{other};
  }
  auto& sealed = at(id);
  sealed.is_sealed = true;
  sealed.hash = hash;
  sealed.next_sealed = std::exchange(chain_of(hash), id.value());
  sealed.salt = salt;
  std::copy(tokens.begin(), tokens.end(), sealed.tokens.begin());
  sealed.parent = parent ? parent->value() : none;
  if (parent) {
    ++at(*parent).children;
    ++at(*parent).children_used;
  }
  ++counters_.seals;
  return id;
}

std::optional<block_id> block_ledger::find(std::optional<block_id> parent, std::span<const token_id> tokens,
                                           std::uint64_t salt) {
  ensure(!parent || at(*parent).where == state::used, "block_ledger: a parent is used");
  const auto index = sealed_behind(parent, tokens, salt);
  if (index == none) return std::nullopt;
  reference(index);
  return block_id{index};
}

bool block_ledger::knows(std::optional<block_id> parent, std::span<const token_id> tokens, std::uint64_t salt) const {
  return sealed_behind(parent, tokens, salt) != none;
}

bool block_ledger::stands_for(block_id block, std::optional<block_id> parent, std::span<const token_id> tokens,
                              std::uint64_t salt) const {
  return sealed(block) && holds(at(block), parent, tokens, salt);
}

std::uint32_t block_ledger::known_prefix(std::span<const token_id> tokens, std::uint64_t salt) const {
  std::uint32_t count = 0;
  std::optional<block_id> parent;
  for (; (count + 1ULL) * tokens_per_block <= tokens.size(); ++count) {
    const auto index =
        sealed_behind(parent, tokens.subspan(std::size_t{count} * tokens_per_block, tokens_per_block), salt);
    if (index == none) break;
    parent = block_id{index};
  }
  return count;
}

std::uint32_t block_ledger::sealed_behind(std::optional<block_id> parent, std::span<const token_id> tokens,
                                          std::uint64_t salt) const {
  if (!prefix_caching_) return none;
  const auto index = sealed_as(hash_behind(parent, tokens, salt));
  return index != none && holds(blocks_[index], parent, tokens, salt) ? index : none;
}

std::uint32_t block_ledger::references(block_id id) const { return at(id).references; }

bool block_ledger::sealed(block_id id) const { return at(id).is_sealed; }

block_ledger::block& block_ledger::at(block_id id) {
  ensure(id.value() < blocks_.size(), "block_ledger: no such block");
  return blocks_[id.value()];
}

const block_ledger::block& block_ledger::at(block_id id) const {
  ensure(id.value() < blocks_.size(), "block_ledger: no such block");
  return blocks_[id.value()];
}

std::uint32_t& block_ledger::chain_of(block_hash hash) noexcept { return chains_[chain_number(hash)]; }

std::uint32_t block_ledger::sealed_as(block_hash hash) const noexcept {
  auto index = chains_[chain_number(hash)];
  while (index != none && blocks_[index].hash != hash) index = blocks_[index].next_sealed;
  return index;
}

block_hash block_ledger::hash_behind(std::optional<block_id> parent, std::span<const token_id> tokens,
                                     std::uint64_t salt) const {
  ensure(tokens.size() == tokens_per_block, "block_ledger: only full blocks have a hash");
  if (!parent) return hash_(root_hash, tokens, salt);
  ensure(at(*parent).is_sealed, "block_ledger: a parent is sealed");
  return hash_(at(*parent).hash, tokens, salt);
}

bool block_ledger::holds(const block& sealed, std::optional<block_id> parent, std::span<const token_id> tokens,
                         std::uint64_t salt) const noexcept {
  return sealed.parent == (parent ? parent->value() : none) && sealed.salt == salt &&
         std::equal(tokens.begin(), tokens.end(), sealed.tokens.begin(), sealed.tokens.end());
}

void block_ledger::push_back(list& into, std::uint32_t index) noexcept {
  blocks_[index].previous = into.back;
  blocks_[index].next = none;
  if (into.back == none)
    into.front = index;
  else
    blocks_[into.back].next = index;
  into.back = index;
  ++into.size;
}

void block_ledger::remove(list& from, std::uint32_t index) noexcept {
  auto& leaving = blocks_[index];
  if (leaving.previous == none)
    from.front = leaving.next;
  else
    blocks_[leaving.previous].next = leaving.next;
  if (leaving.next == none)
    from.back = leaving.previous;
  else
    blocks_[leaving.next].previous = leaving.previous;
  leaving.previous = leaving.next = none;
  --from.size;
}

void block_ledger::reference(std::uint32_t index) {
  auto& taken = blocks_[index];
  if (taken.where == state::cached) {
    remove(cached_, index);
    ++cache_version_;
    taken.where = state::used;
    if (taken.parent != none) ++blocks_[taken.parent].children_used;
  }
  ++taken.references;
}

void block_ledger::unseal(std::uint32_t index) {
  auto& opened = blocks_[index];
  auto* link = &chain_of(opened.hash);
  while (*link != index) {
    ensure(*link != none, "block_ledger: a sealed block is in its chain");
    link = &blocks_[*link].next_sealed;
  }
  *link = std::exchange(opened.next_sealed, none);
  opened.is_sealed = false;
  if (opened.parent != none) --blocks_[opened.parent].children;
  opened.parent = none;
}

void block_ledger::check() const {
  check_list(free_, state::free);
  check_list(cached_, state::cached);
  std::size_t indexed = 0;
  for (std::size_t chain = 0; chain < chains_.size(); ++chain)
    for (auto i = chains_[chain]; i != none; i = blocks_[i].next_sealed) {
      ensure(blocks_[i].is_sealed && chain_number(blocks_[i].hash) == chain,
             "block_ledger: the index names sealed blocks only");
      ensure(++indexed <= blocks_.size(), "block_ledger: chains end");
    }
  std::uint32_t used_blocks = 0;
  std::size_t sealed_blocks = 0;
  std::vector<std::uint32_t> children(blocks_.size()), children_used(blocks_.size());
  for (std::uint32_t i = 0; i < blocks_.size(); ++i) {
    const auto& b = blocks_[i];
    ensure((b.references > 0) == (b.where == state::used),
           "block_ledger: used blocks, and they alone, have references");
    used_blocks += b.where == state::used ? 1 : 0;
    ensure(b.where != state::cached || b.is_sealed, "block_ledger: cached blocks are sealed");
    ensure(b.where != state::free || !b.is_sealed, "block_ledger: free blocks are not sealed");
    if (!b.is_sealed) {
      ensure(b.parent == none, "block_ledger: only sealed blocks have parents");
      continue;
    }
    ++sealed_blocks;
    ensure(sealed_as(b.hash) == i, "block_ledger: every sealed block is found by its hash");
    const auto parent_hash = b.parent == none ? root_hash : blocks_[b.parent].hash;
    ensure(b.hash == hash_(parent_hash, b.tokens, b.salt), "block_ledger: hashes chain");
    if (b.parent == none) continue;
    ensure(blocks_[b.parent].is_sealed, "block_ledger: a parent outlives its sealed children");
    ++children[b.parent];
    if (b.where != state::used) continue;
    ensure(blocks_[b.parent].where == state::used, "block_ledger: parents of used blocks are used");
    ++children_used[b.parent];
  }
  ensure(used_blocks == used(), "block_ledger: each block is in exactly one state");
  ensure(indexed == sealed_blocks, "block_ledger: the index names each sealed block once");
  for (std::uint32_t i = 0; i < blocks_.size(); ++i)
    ensure(blocks_[i].children == children[i] && blocks_[i].children_used == children_used[i],
           "block_ledger: children are counted");
}

void block_ledger::check_list(const list& of, state where) const {
  std::uint32_t count = 0;
  auto previous = none;
  for (auto i = of.front; i != none; previous = i, i = blocks_[i].next) {
    ensure(blocks_[i].where == where && blocks_[i].previous == previous, "block_ledger: lists are linked both ways");
    ensure(++count <= of.size, "block_ledger: lists end");
  }
  ensure(count == of.size && of.back == previous, "block_ledger: lists are counted");
}

} // namespace godwit::protocols
