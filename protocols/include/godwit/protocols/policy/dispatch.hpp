#pragma once

#include <godwit/protocols/messages/ids.hpp>
#include <godwit/protocols/messages/load.hpp>
#include <godwit/protocols/messages/scheduling.hpp>
#include <godwit/protocols/policy/expected_latency.hpp>
#include <godwit/protocols/policy/prefix_index.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace godwit::protocols {

/// What a request will need, as far as it is known when it is dispatched. Its scheduling priority says when it is
/// dispatched (dispatch_queue); where, only as far as what is expected there depends on it.
struct dispatch_demand {
  std::uint32_t tokens = 0; ///< prompt and answer so far
  std::uint8_t execution_level = 0;
  std::uint16_t home = 0; ///< that sends it: orders of one come in the order of their picks
  /// Blocks that this level keeps free around it; empty: what each instance found by profiling itself.
  std::optional<std::uint32_t> headroom = 0;
  /// The beginnings of its prompt (kv/prefix_marks.hpp); empty: nobody looks for them. Valid while the call lasts.
  std::span<const block_hash> prefix = {};
  /// Instances that are not expected to meet these (expected_latency.hpp) are no places for the request while there are
  /// others, nor where it is refusable; but of those that idle instances would be late with, ever fewer are let in.
  /// Where queues go by deadlines a refusable one has to be in time behind all of its priority: it would push them
  /// back.
  latency_objectives objectives = {};
  /// What its place in a queue depends on; its serial does not. Empty: it would be the last one.
  std::optional<queued_request> in_queue = {};
  // No built-in policy looks at these.
  request_id request = {};             ///< the same when it is dispatched again
  std::uint32_t answer_tokens_max = 0; ///< its client's, or the default: what the context has room for
  std::uint64_t adapter = 0;           ///< adapter_ref::id; 0: the model as it is
  std::uint64_t salt = 0;              ///< equal where KV is shared: the same tenant and adapter
};

struct dispatch_choice {
  instance_id instance;
  std::uint64_t number = 0; ///< counts up from 1; the instance's reports say up to which they count (load_report)
  dispatch_reason why;
};

/// Chooses the instance of a new or re-dispatched request from the last reports.
///
/// Reports come at intervals, and say nothing of a request that is on its way; a burst would pile up on whichever
/// instance reported the least load. So what was picked counts as load of its instance, its requests, their blocks,
/// their headroom, until a report counts it, longer where the report says that it is held back. One that none of the
/// next eight reports knows never arrived, and counts no longer. Instances that are not ready, terminate, are stale or
/// have no place in batch and queue are never picked; decode instances only while no prefill instance of their kind of
/// KV takes requests, be it full (instance_role), or where roles do not count; for a request with objectives, only
/// those that are expected to meet them, if any are, or if it may be refused. Of equals the one is that was sent most
/// of the prompt's beginning and may have its KV still (prefix_index), and of these the one that was not picked for the
/// longest time. Same calls, same answers. Chosen by name in the configuration.
///
/// A pick looks at 16 bytes of each instance, one of a level with headroom or with objectives at their reports too, and
/// at what is remembered of its prompt's beginnings. A report costs the same however many there are.
class dispatcher {
public:
  virtual ~dispatcher() = default;
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;

  /// Takes a report in; an instance that was stale no longer is. False when it is older than what is known (a sequence
  /// or generation that went by).
  bool report(const load_report& report);
  /// The instance is gone or suspected.
  void remove(instance_id instance);
  /// Whether prefill instances hand their requests over, as they do at first; where not, all are as mixed.
  void set_handoff(bool on) noexcept;
  /// Whether requests migrate by policy to where there is memory, as they do at first: of who lacks some, other things
  /// are to be expected then.
  void set_moves(bool on) noexcept { moves_ = on; }
  /// Nothing has come from it for too long (the caller has the clock): not picked until it reports. Unknown: no effect.
  void set_stale(instance_id instance, bool stale);
  [[nodiscard]] bool stale(instance_id instance) const noexcept;

  /// The instance of this request, which now counts as dispatched there. Empty when there is none, see `why_none`.
  [[nodiscard]] std::optional<dispatch_choice> pick(const dispatch_demand& demand);

  /// The request of this pick has not reached its instance, and does not: it counts no longer. No effect where it does
  /// not count anyway.
  void take_back(instance_id instance, std::uint64_t number, const dispatch_demand& demand);

  /// Why nothing can be picked now.
  enum class lack : std::uint8_t {
    none,      ///< something can
    not_ready, ///< no instance is ready, or those that are terminate
    stale,     ///< those that are ready have been silent for too long
    full,      ///< those that are ready and not stale have full queues
    late,      ///< the request of the last pick was refusable, and none is expected to meet its objectives
    sense      ///< something can, but the last `find` chose what is no place, or not eligible, or nothing is rated
  };
  [[nodiscard]] lack why_none() const noexcept;

  struct expectation {
    double ttft_ns = 0;
    double tpot_ns = 0;
    bool alone = false; ///< it would have met them, had nobody been before the request, and is not for prefill only
  };
  /// With lack::late: what is expected of the instance that comes closest to the objectives; where its queue goes by
  /// deadlines, behind all of the request's priority.
  [[nodiscard]] expectation least_expected() const noexcept { return least_expected_; }

  /// The last reports, by ascending instance id; stale ones too. Valid until the next call that is not const.
  [[nodiscard]] const std::vector<load_report>& reports() const noexcept { return reports_; }

  /// Knows from now on what the other one knows, for a change of policy in the middle of a burst.
  void take_over(const dispatcher& before);

  /// What was picked and is in no report yet.
  struct picked_load {
    std::uint64_t requests = 0;
    std::uint64_t blocks = 0;  ///< without headroom
    std::int64_t headroom = 0; ///< blocks more than the report says, or less where the rating is for one of the level
    std::uint32_t levels = 0;  ///< bit i: of execution level i, as in load_report
    std::uint64_t tokens = 0;  ///< to be computed before they decode
    double pairs = 0;          ///< attention_pairs of these
    void operator+=(const picked_load& more) noexcept;
    /// Some of these requests, none of which is known better than another.
    void shrink_to(std::uint64_t some) noexcept;
    friend bool operator==(const picked_load&, const picked_load&) = default;
  };
  /// Of this instance; at rest nothing is.
  [[nodiscard]] picked_load picked(instance_id instance) const noexcept;

protected:
  /// How good an instance is; more is better, always finite: one that is rated otherwise is not eligible. Asked after
  /// each change of an instance that takes requests, and by `counts_headroom` for each request of a level that has
  /// headroom. Knows no request: `find` does. Must not throw, as `score`: that would end the process.
  [[nodiscard]] virtual double rate(const load_report& report, const picked_load& picked) const noexcept = 0;
  /// Whether the rating depends on headroom.
  [[nodiscard]] virtual bool counts_headroom() const noexcept { return false; }
  /// What people are told of a rating.
  [[nodiscard]] virtual double score(double rating) const noexcept = 0;

  struct place {
    double rating = 0;             ///< -infinity: not eligible
    std::uint64_t picked_last = 0; ///< when, counted in picks; 0: never
  };
  /// What was found among the eligible.
  struct finding {
    std::size_t best = none;
    double runner_up = 0;              ///< rating
    std::optional<double> rating = {}; ///< of the best, where this request sees another one than its place has
    std::uint32_t candidates = 0;
    static constexpr std::size_t none = ~std::size_t{0};
  };
  /// The choice for this request, by default the best rating. `places[i]` is that of `reports()[i]`, its rating perhaps
  /// as a request of this level sees it; valid until the call returns. `best` is the index of an eligible place, or
  /// `none`, where no instance is to take the request for now; anything else is not followed (lack::sense). A function
  /// of its arguments, the reports and the calls before.
  [[nodiscard]] virtual finding find(const std::vector<place>& places, const dispatch_demand& demand);
  /// What the default `find` gives, of the places that `wanted` says (their index; empty: of all). For a `find` that
  /// narrows them down by its request, and leaves the rest to the ratings.
  [[nodiscard]] finding best_of(const std::vector<place>& places,
                                const std::function<bool(std::size_t)>& wanted = {}) const;
  /// Whether, of equal places, `best_of` gives the one that was sent more of the prompt's beginning. What was sent
  /// where is remembered in any case: first tokens are expected by it.
  [[nodiscard]] virtual bool looks_at_prefixes() const noexcept { return true; }
  struct known_prefix {
    std::size_t place = 0; ///< its index
    std::uint32_t tokens = 0;
  };
  /// Within `find`: the places whose instances were sent the beginning of this request's prompt, and how much of it; of
  /// very many those that were sent most.
  [[nodiscard]] const std::vector<known_prefix>& known_prefixes() const noexcept { return known_; }

  /// Where in a queue a request is thought of: where it will be, or behind all of its priority, for whoever it goes
  /// before waits for it instead.
  enum class standing : std::uint8_t { own, last };
  /// Within `find`: expected_ttft_ns of this request on each eligible place, by its index.
  [[nodiscard]] const std::vector<double>& expected_ttfts(const std::vector<place>& places,
                                                          const dispatch_demand& demand, standing as = standing::own);

  [[nodiscard]] static bool better(const place& a, const place& b) noexcept {
    return a.rating != b.rating ? a.rating > b.rating : a.picked_last < b.picked_last;
  }
  [[nodiscard]] static std::uint64_t places_in_batch(const load_report& report) noexcept;
  [[nodiscard]] static bool eligible(const place& p) noexcept;

private:
  /// Picks whose requests are on their way, as far as is known: one, or several where there is no room for one more.
  struct on_the_way {
    std::uint64_t first = 0;
    std::uint64_t number = 0; ///< of the last one
    std::uint16_t home = 0;   ///< that sends the last one
    picked_load load;
    std::uint32_t reports = 0; ///< that came since and do not count it
    queue_place first_place;   ///< in their instance's queue
    queue_place last_place;
  };
  struct blocks_left {
    std::uint64_t kind = 0; ///< of KV
    std::uint64_t blocks = 0;
  };
  /// Requests that an instance was too slow for though it was idle.
  struct refusals {
    std::uint32_t refused = 0; ///< since it got one all the same
    std::uint32_t refused_max = 8;
    double pace_ns = 0; ///< as it was then
  };
  struct account {
    picked_load picked; ///< the sum
    refusals refusing;
    blocks_left left; ///< as it counts in the sum of its kind
    bool stale = false;
    std::optional<std::uint64_t> prefills; ///< counts as a prefill instance that takes requests, of this kind of KV
    std::uint32_t count = 0;
    std::array<on_the_way, 8> on_way{}; ///< oldest first; a burst has fewer between two reports
    void forget() noexcept;
    void add(std::uint64_t number, std::uint16_t home, const picked_load& load, const queue_place& place) noexcept;
    [[nodiscard]] picked_load before(const queue_place& place) const noexcept;
    void take_back(std::uint64_t number, const picked_load& one) noexcept;
    /// Those that this report counts are its own now.
    void settle(const load_report& report) noexcept;
  };
  void look_for_prefix(const dispatch_demand& demand);
  [[nodiscard]] std::uint32_t known_at(std::size_t index) const noexcept; ///< tokens of this request's prompt
  /// The places as a request of a level with headroom sees them.
  [[nodiscard]] const std::vector<place>& seen_by(const dispatch_demand& demand);
  /// Without those that are not expected to meet the request's objectives; all of them where none is.
  [[nodiscard]] const std::vector<place>& narrowed_down(const std::vector<place>& places,
                                                        const dispatch_demand& demand);
  [[nodiscard]] bool idle(std::size_t index) const noexcept;
  /// Whether a request that would be refused is let in all the same, by an idle place, which then is in `narrowed_`.
  [[nodiscard]] bool looks_again(const std::vector<place>& places, std::int64_t ttft_ns);
  [[nodiscard]] double expected_ttft(std::size_t index, const dispatch_demand& demand, std::uint32_t known,
                                     standing as) const noexcept;
  /// Behind all that have the same otherwise.
  [[nodiscard]] queue_place place_there(std::size_t index, const dispatch_demand& demand, standing as) const noexcept;
  void find_decoders();
  [[nodiscard]] double expected_tpot(std::size_t index) const noexcept;
  /// The instance's, or a guess.
  [[nodiscard]] step_pace pace_of(std::size_t index) const noexcept;
  /// Blocks that other instances of its kind have left.
  [[nodiscard]] std::uint64_t free_beside(std::size_t index) const noexcept;
  /// What one request counts as on its way; without headroom and level.
  [[nodiscard]] static picked_load load_of(const dispatch_demand& demand, std::uint32_t known) noexcept;
  [[nodiscard]] std::size_t at(instance_id instance) const noexcept;
  [[nodiscard]] bool is_full(std::size_t index) const noexcept;
  /// A decode instance that prefill instances hand requests to.
  [[nodiscard]] bool is_spared(std::size_t index) const noexcept;
  void refresh(std::size_t index) noexcept;
  void rate_anew(std::size_t index) noexcept;
  void rate_decode_instances_anew() noexcept;
  void count_left(std::size_t index, blocks_left now) noexcept;
  void count_prefill(std::size_t index, std::optional<std::uint64_t> kind) noexcept;

  // By ascending instance id, in step with each other. `places_` is all that a pick reads of those it does not choose.
  std::vector<place> places_;
  std::vector<load_report> reports_;
  std::vector<account> accounts_;
  std::vector<place> seen_; ///< kept for its memory, as the next two
  std::vector<place> narrowed_;
  std::vector<double> expected_;
  expectation least_expected_;
  std::map<std::uint64_t, double> decoders_; ///< by kind of KV
  step_pace usual_;                          ///< of the instance that knew last
  std::unordered_map<instance_id, std::size_t> index_;
  prefix_index prefixes_;
  std::vector<known_prefix> known_; ///< of the request of this pick
  std::uint64_t picks_ = 0;
  std::map<std::uint64_t, std::size_t> prefill_instances_; ///< that take requests, by their kind of KV
  std::map<std::uint64_t, std::uint64_t> left_;            ///< blocks of all that take requests, by their kind of KV
  bool by_roles_ = true;
  bool moves_ = true;
  bool found_wrong_ = false; ///< by the last `find`
  bool late_ = false;        ///< the last pick was refused
};

/// Null when no policy has this name. The score of each is what `dispatch_reason` gives.
///
/// * "freeness": the highest F (Llumnix section 4.4.3). F knows of a queue only its head; here the blocks of those
///   behind count too, and all that wait as requests, since the next step starts them. An instance whose batch has no
///   place for one more has at most 0, less what waits: its free memory is of no use to a request that cannot start. A
///   request of a level with headroom sees another F than others do: what is kept free for its level is free for it,
///   and where nothing is kept yet, what would have to be is taken off.
/// * "infaas": the smallest share of KV blocks used, all queued prompts counted as used (INFaaS++ of the paper).
/// * "least_requests": the fewest requests, waiting and running.
/// * "power_of_two": the one with fewer requests of two drawn at random (Mitzenmacher, 2001). `seed` is of no use to
///   others.
/// * "round_robin": in turn.
/// * "cache_aware": the least cost, which is the blocks in use or asked for and the tokens of this request that are to
///   be computed: all but those of its prompt that were sent there before (NVIDIA Dynamo's router has it so, with a
///   weight for blocks to be computed, which is 16 here).
/// * "ttft": the least expected time to this request's first token as the last one of its priority, its prompt's known
///   beginning left out (expected_latency.hpp), in milliseconds (Mooncake's Conductor, FAST '25, section 6.1).
[[nodiscard]] std::unique_ptr<dispatcher> make_dispatcher(std::string_view name, std::uint64_t seed = 0);
/// The default first.
[[nodiscard]] std::vector<std::string_view> dispatcher_names();

} // namespace godwit::protocols
