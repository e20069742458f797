#include <godwit/gpu/model/constraints.hpp>

#include "model/reasoning_masks.hpp"
#include "model/token_masks.hpp"
#include "model/token_trie.hpp"

#include <godwit/protocols/grammar/json_schema.hpp>
#include <godwit/protocols/grammar/reasoning_tracker.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

namespace godwit::gpu::model {

namespace grammar = protocols::grammar;
using protocols::token_id;
using std::chrono::nanoseconds;

namespace {

/// How far an answer has been followed.
struct progress {
  std::vector<token_id> tokens;
  protocols::reasoning_start start = protocols::reasoning_start::off;
  grammar::reasoning_tracker thinks; ///< over where the schema binds what follows
  grammar::state at = grammar::dead; ///< of what the schema binds
  bool ended = false;                ///< an end-of-sequence token came
  bool anew = false;                 ///< it came in the middle, and no mask of it has been made here yet
  std::uint64_t used = 0;
};

/// One schema with all that is kept for it.
struct held_grammar {
  std::mutex mutex; ///< of everything but what is under constraints::parts::mutex, and `bytes`
  std::optional<std::string> error;
  std::optional<grammar::text_grammar> compiled;
  std::optional<token_masks> masks;
  constraint_counts before; ///< of masks that are kept no longer
  std::unordered_map<std::uint64_t, progress> requests;
  std::uint64_t clock = 0;
  std::uint64_t replays = 0;
  std::size_t tokens_held = 0; ///< of all requests
  std::atomic<std::size_t> bytes{0};
  // Under constraints::parts::mutex:
  std::uint64_t used = 0; ///< by which call
  nanoseconds used_at{};
  std::optional<nanoseconds> refused_at; ///< there was no room for it
  std::size_t bytes_least = 0;           ///< as it was compiled, without anything kept for answers

  void forget_answers() {
    requests.clear();
    tokens_held = 0;
  }
  void count_bytes() {
    bytes.store(masks->memory_bytes() + requests.size() * sizeof(progress) + tokens_held * sizeof(token_id),
                std::memory_order_relaxed);
  }
};

} // namespace

struct constraints::parts {
  std::vector<std::string> texts;
  std::unordered_map<token_id, std::string> specials;
  std::vector<token_id> ends;
  std::size_t vocabulary;
  constraint_limits limits;
  token_trie trie;
  std::vector<std::uint64_t> only_ends; ///< a mask
  reasoning_masks reasoning{texts, specials};

  mutable std::mutex mutex; ///< of what follows
  std::unordered_map<std::string, std::shared_ptr<held_grammar>> grammars;
  std::uint64_t clock = 0;
  constraint_counts gone; ///< of grammars that are kept no longer

  [[nodiscard]] nanoseconds now() const {
    return limits.now ? limits.now() : std::chrono::steady_clock::now().time_since_epoch();
  }
  /// A step of late has used it, so the next one may.
  [[nodiscard]] bool in_use(const held_grammar& one, nanoseconds at) const noexcept {
    return at - one.used_at < limits.kept_for;
  }
  /// Drops what is not in use, the longest unused first, while too much is kept.
  void drop_unused(nanoseconds at, std::vector<std::shared_ptr<held_grammar>>& dropped);
  void count_as_gone(const std::vector<std::shared_ptr<held_grammar>>& dropped);
  /// `begun`: for an answer that has tokens. It is never refused.
  std::shared_ptr<held_grammar> find(const std::string& schema, bool begun);
  void compile(held_grammar& into, const std::string& schema, bool begun);
  /// Whether a newly compiled one may stay; those in use do not go for it.
  [[nodiscard]] bool admit(held_grammar& one, std::size_t bytes, bool begun);
  void start_anew(held_grammar& one) const;
  /// So that no other request tries it again.
  [[noreturn]] static void give_up(held_grammar& on);
  /// What was found out elsewhere step by step, each within its bound, has to be found out here at once.
  [[nodiscard]] std::uint64_t work_for(const progress& answer) const noexcept {
    return limits.work_max * (answer.anew ? 8 : 1);
  }
  progress& follow(held_grammar& in, const protocols::step_slice& slice) const;
  /// False: this token does not keep the answer within its schema.
  [[nodiscard]] bool advance(progress& answer, token_masks& masks, token_id token) const;
  [[nodiscard]] std::shared_ptr<const token_mask> mask_of(const progress& answer, token_masks& masks);
  static void add(constraint_counts& sum, held_grammar& of);
};

constraints::constraints(std::vector<std::string> texts, std::vector<token_id> ends, std::uint32_t vocabulary,
                         constraint_limits limits)
    : parts_(std::make_unique<parts>()) {
  texts.resize(vocabulary);
  for (const auto id : ends)
    if (id >= 0 && static_cast<std::size_t>(id) < texts.size()) texts[static_cast<std::size_t>(id)].clear();
  parts_->trie = token_trie::of(texts);
  parts_->texts = std::move(texts);
  parts_->vocabulary = vocabulary;
  parts_->limits = limits;
  parts_->only_ends.assign((vocabulary + std::size_t{63}) / 64, 0);
  for (const auto id : ends)
    if (id >= 0 && static_cast<std::uint32_t>(id) < vocabulary)
      parts_->only_ends[static_cast<std::size_t>(id) / 64] |= std::uint64_t{1} << (static_cast<std::size_t>(id) % 64);
  parts_->ends = std::move(ends);
}

namespace {

std::vector<std::string> texts_of(const tokenizer& tokens) {
  std::vector<std::string> out(tokens.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto id = static_cast<token_id>(i);
    if (!tokens.is_special(id)) out[i] = tokens.bytes(id);
  }
  return out;
}

} // namespace

constraints::constraints(const tokenizer& tokens, std::vector<token_id> ends, std::uint32_t vocabulary,
                         constraint_limits limits)
    : constraints(texts_of(tokens), std::move(ends), vocabulary, std::move(limits)) {
  for (std::size_t i = 0; i < std::min<std::size_t>(tokens.size(), vocabulary); ++i)
    if (const auto id = static_cast<token_id>(i); tokens.is_special(id)) parts_->specials.emplace(id, tokens.bytes(id));
}

constraints::~constraints() = default;

void constraints::parts::add(constraint_counts& sum, held_grammar& of) {
  const std::lock_guard lock(of.mutex);
  if (!of.masks) return;
  sum.grammars += 1;
  sum.masks += of.before.masks + of.masks->counts().masks;
  sum.walks += of.before.walks + of.masks->counts().walks;
  sum.replays += of.replays;
}

void constraints::parts::drop_unused(nanoseconds at, std::vector<std::shared_ptr<held_grammar>>& dropped) {
  const auto size_of = [](const auto& one) {
    return one.second->bytes.load(std::memory_order_relaxed) + one.first.size();
  };
  std::size_t bytes = 0;
  for (const auto& one : grammars) bytes += size_of(one);
  while (bytes > limits.bytes_max || grammars.size() > limits.grammars_max) {
    const auto oldest = std::ranges::min_element(grammars, {}, [](const auto& one) { return one.second->used; });
    if (oldest == grammars.end() || in_use(*oldest->second, at)) return;
    bytes -= std::min(bytes, size_of(*oldest));
    dropped.push_back(std::move(oldest->second));
    grammars.erase(oldest);
  }
}

void constraints::parts::count_as_gone(const std::vector<std::shared_ptr<held_grammar>>& dropped) {
  for (const auto& one : dropped) {
    constraint_counts sum;
    add(sum, *one);
    const std::lock_guard lock(mutex);
    gone.grammars += sum.grammars;
    gone.masks += sum.masks;
    gone.walks += sum.walks;
    gone.replays += sum.replays;
  }
}

std::shared_ptr<held_grammar> constraints::parts::find(const std::string& schema, bool begun) {
  std::vector<std::shared_ptr<held_grammar>> dropped;
  std::shared_ptr<held_grammar> out, largest;
  {
    const std::lock_guard lock(mutex);
    const auto at = now();
    auto& entry = grammars[schema];
    // There may be room by now.
    if (!entry || (entry->refused_at && (begun || at - *entry->refused_at >= limits.kept_for)))
      entry = std::make_shared<held_grammar>();
    entry->used = ++clock;
    entry->used_at = at;
    out = entry;
    drop_unused(at, dropped);
    // All that is left is in use: then what grew most for its answers is made again from what was compiled.
    std::size_t bytes = 0, most = 0;
    for (const auto& [text, held] : grammars) {
      const auto its = held->bytes.load(std::memory_order_relaxed);
      bytes += its + text.size();
      if (held == out || its <= held->bytes_least + most) continue;
      most = its - held->bytes_least;
      largest = held;
    }
    if (bytes <= limits.bytes_max) largest.reset();
  }
  if (largest) {
    const std::unique_lock lock(largest->mutex, std::try_to_lock);
    if (lock.owns_lock() && largest->masks) start_anew(*largest);
  }
  count_as_gone(dropped);
  return out;
}

void constraints::parts::start_anew(held_grammar& one) const {
  one.before.masks += one.masks->counts().masks;
  one.before.walks += one.masks->counts().walks;
  one.masks.emplace(*one.compiled, trie, ends, vocabulary, limits);
  one.forget_answers();
  one.count_bytes();
}

bool constraints::parts::admit(held_grammar& one, std::size_t bytes, bool begun) {
  // The rest is for what is kept for answers.
  const auto compiled_max = limits.bytes_max / 4 * 3;
  const std::lock_guard lock(mutex);
  const auto at = now();
  std::size_t others = 0;
  for (const auto& [text, held] : grammars)
    if (in_use(*held, at) && held.get() != &one) others += held->bytes_least + text.size();
  const bool fits = begun || others + bytes <= compiled_max;
  if (fits)
    one.bytes_least = bytes;
  else
    one.refused_at = at;
  return fits;
}

void constraints::parts::compile(held_grammar& into, const std::string& schema, bool begun) {
  auto made = grammar::compile_schema(schema);
  if (!made) {
    into.error = "the schema cannot be followed: " + (made.error().path.empty() ? "" : made.error().path + ": ") +
                 made.error().message;
    return;
  }
  into.compiled.emplace(std::move(*made));
  into.masks.emplace(*into.compiled, trie, ends, vocabulary, limits);
  if (const auto bytes = into.masks->memory_bytes(); !admit(into, bytes, begun)) {
    into.error = "there is no room for the schema now: compiled it takes " + std::to_string(bytes >> 10U) +
                 " KiB, and those of the other requests have most of the " + std::to_string(limits.bytes_max >> 20U) +
                 " MiB for all; give it fewer or shorter texts and patterns, or try again";
    into.masks.reset();
    into.compiled.reset();
    return;
  }
  into.count_bytes();
}

void constraints::parts::give_up(held_grammar& on) {
  on.error = "the schema is too complex: finding the tokens that may follow takes too long; give it fewer or less "
             "ambiguous patterns and alternatives";
  on.masks.reset();
  on.compiled.reset();
  on.forget_answers();
  on.bytes.store(0, std::memory_order_relaxed);
  throw std::runtime_error(*on.error);
}

progress& constraints::parts::follow(held_grammar& in, const protocols::step_slice& slice) const {
  const auto begin = [&](progress& one) {
    one.start = slice.sampling.reasoning;
    one.thinks = grammar::reasoning_tracker(one.start);
    one.at = in.masks->start();
    one.ended = false;
  };
  const auto forget = [&in](auto one) {
    in.tokens_held -= one->second.tokens.size();
    in.requests.erase(one);
  };
  if (in.masks->renew()) in.forget_answers();
  const auto key = slice.request.value();
  auto found = in.requests.find(key);
  if (found == in.requests.end()) {
    while (!in.requests.empty() && in.requests.size() >= limits.requests_max)
      forget(std::ranges::min_element(in.requests, {}, [](const auto& one) { return one.second.used; }));
    found = in.requests.emplace(key, progress{}).first;
    begin(found->second);
    in.replays += slice.generated.empty() ? 0 : 1;
  }
  auto& known = found->second;
  known.used = ++in.clock;
  // An answer that is followed anew has as many steps to do as it has tokens.
  constexpr std::size_t tokens_per_mask = 256;
  known.anew = known.anew || (known.tokens.empty() && !slice.generated.empty());
  in.masks->begin_work(std::max(work_for(known), limits.work_max * (1 + slice.generated.size() / tokens_per_mask)));
  // Another answer under the same id, or one that was cut back: from the start.
  if (known.start != slice.sampling.reasoning || known.tokens.size() > slice.generated.size() ||
      !std::equal(known.tokens.begin(), known.tokens.end(), slice.generated.begin())) {
    in.tokens_held -= known.tokens.size();
    known.tokens.clear();
    begin(known);
    in.replays += 1;
  }
  for (auto i = known.tokens.size(); i < slice.generated.size(); ++i) {
    const auto id = slice.generated[i];
    if (!advance(known, *in.masks, id)) {
      const bool exploded = in.masks->exhausted();
      forget(found);
      if (in.masks->too_much()) give_up(in);
      throw std::runtime_error(exploded ? "the schema is too complex to be followed further"
                                        : "the answer so far is outside of its schema, at token " + std::to_string(i));
    }
    known.tokens.push_back(id);
    in.tokens_held += 1;
  }
  return known;
}

bool constraints::parts::advance(progress& answer, token_masks& masks, token_id token) const {
  using part = grammar::reasoning_tracker::part;
  if (std::ranges::find(ends, token) != ends.end()) {
    answer.ended = true;
    return answer.at != grammar::dead;
  }
  if (answer.ended) return false;
  const auto was = answer.thinks.where();
  if (was == part::before || was == part::within) {
    answer.thinks.push(reasoning.bytes(token));
    if (answer.thinks.where() == part::within || answer.thinks.where() == part::behind) {
      answer.at = masks.start();
      return true;
    }
    if (was == part::within) return false; // it said something with the marker
  }
  const bool has_text =
      token >= 0 && static_cast<std::size_t>(token) < texts.size() && !texts[static_cast<std::size_t>(token)].empty();
  if (answer.at != grammar::dead)
    answer.at = has_text ? masks.advance(answer.at, texts[static_cast<std::size_t>(token)]) : grammar::dead;
  return answer.at != grammar::dead;
}

std::shared_ptr<const token_mask> constraints::parts::mask_of(const progress& answer, token_masks& masks) {
  using part = grammar::reasoning_tracker::part;
  if (answer.thinks.where() == part::within) return reasoning.within(answer.thinks);
  if (answer.thinks.where() != part::before || !answer.tokens.empty()) return masks.at(answer.at);
  const auto opening = reasoning.opening();
  auto both = std::make_shared<token_mask>(*masks.at(answer.at));
  both->must_end = false;
  for (std::size_t i = 0; i < both->words.size(); ++i) both->words[i] |= opening->words[i];
  return both;
}

std::shared_ptr<const token_mask> constraints::allowed(const protocols::step_slice& slice) {
  if (slice.generated.size() != slice.sample_index)
    throw std::runtime_error("a step lacks the answer so far, which a constrained answer needs");
  const bool begun = !slice.generated.empty();
  const auto held = parts_->find(slice.sampling.json_schema, begun);
  const std::lock_guard lock(held->mutex);
  if (!held->masks && !held->error) parts_->compile(*held, slice.sampling.json_schema, begun);
  if (held->error) throw std::runtime_error(*held->error);
  auto& answer = parts_->follow(*held, slice);
  if (answer.ended) {
    auto ended = std::make_shared<token_mask>();
    ended->words = parts_->only_ends;
    ended->must_end = true;
    return ended;
  }
  held->masks->begin_work(parts_->work_for(answer));
  auto mask = parts_->mask_of(answer, *held->masks);
  if (held->masks->too_much()) parts_->give_up(*held);
  answer.anew = false;
  held->count_bytes();
  if (held->masks->exhausted()) throw std::runtime_error("the schema is too complex to be followed further");
  return mask;
}

constraint_counts constraints::counts() const {
  std::vector<std::shared_ptr<held_grammar>> all;
  constraint_counts sum;
  {
    const std::lock_guard lock(parts_->mutex);
    sum = parts_->gone;
    for (const auto& [text, held] : parts_->grammars) all.push_back(held);
  }
  for (const auto& one : all) parts::add(sum, *one);
  return sum;
}

std::size_t constraints::memory_bytes() const {
  const std::lock_guard lock(parts_->mutex);
  std::size_t sum = 0;
  for (const auto& [text, held] : parts_->grammars) sum += held->bytes.load(std::memory_order_relaxed) + text.size();
  return sum;
}

} // namespace godwit::gpu::model
