#pragma once

#include "cuda/driver.hpp"

#include <cstddef>
#include <cstdint>

/// The kernels of the CUDA device: plain structs of device addresses, and functions that launch onto a stream.
///
/// Contract: launches return at once. All addresses are the device's and 16-byte aligned. What changes from step to
/// step (positions, slots, lengths, block tables) lies in device memory, so that a captured graph stays right; what is
/// in a struct is baked into it. `type` is the model's: bf16 or f16; weights, activations, queries and KV have it. The
/// residual stream, logits and tables of angles are f32. Rows are tokens.
///
/// Every launch throws std::invalid_argument for shapes that no kernel is made for and driver_error when the driver
/// refuses. Orders of summation, layouts and limits: docs/design/cuda_kernels.md.
namespace godwit::gpu::cuda {

using model::data_type;

/// x[row] = table[tokens[row]], widened.
struct embedding_job {
  data_type type = data_type::bf16;
  const void* table = nullptr;           ///< [vocabulary][hidden]
  const std::uint32_t* tokens = nullptr; ///< [rows]; one outside the vocabulary gives zeros
  std::uint32_t vocabulary = 0;
  float* x = nullptr; ///< [rows][hidden]
  std::uint32_t rows = 0;
  std::uint32_t hidden = 0;
};
void launch(driver_stream& stream, const embedding_job& job);

/// out = x / sqrt(mean(x^2) + epsilon) * weight. First, where given: x += add + bias, written back. What is added may
/// come in parts, one from each device: then ((part 0 + part 1) + part 2) + ... is.
struct norm_job {
  data_type type = data_type::bf16;
  float* x = nullptr;          ///< [..][hidden], the residual stream; written only when something is added
  const float* add = nullptr;  ///< [parts][rows][hidden], null: nothing
  std::uint32_t add_parts = 1; ///< at least one
  const void* bias = nullptr;  ///< [hidden], null: nothing
  const void* weight = nullptr;
  float epsilon = 0;
  const std::uint32_t* take = nullptr; ///< [rows]: row r of `out` is of row take[r] of x; null: r. Only without `add`
  void* out = nullptr;                 ///< [rows][hidden]
  std::uint32_t rows = 0;
  std::uint32_t hidden = 0;
};
void launch(driver_stream& stream, const norm_job& job);

/// out = silu(gate) * up. A row of `in` is all gates, then all ups.
struct swiglu_job {
  data_type type = data_type::bf16;
  data_type in_type = data_type::f32; ///< f32 or `type`
  const void* in = nullptr;           ///< [rows][2 * intermediate]
  const void* bias = nullptr;         ///< [2 * intermediate], null: none
  void* out = nullptr;                ///< [rows][intermediate]
  std::uint32_t rows = 0;
  std::uint32_t intermediate = 0;
};
void launch(driver_stream& stream, const swiglu_job& job);

/// Puts rows together of which each device has some columns: out[row][first[p] + i] = parts[p][row][i], and zeros from
/// the last column to the stride.
struct join_job {
  static constexpr std::uint32_t parts_max = 64;
  const float* parts = nullptr; ///< [parts_count][rows][width]
  std::uint32_t parts_count = 0;
  std::uint32_t width = 0;              ///< columns of a part, padding included
  std::uint32_t first[parts_max + 1]{}; ///< each part's first column, and the end of the last one's
  float* out = nullptr;                 ///< [rows][stride]
  std::uint32_t stride = 0;
  std::uint32_t rows = 0;
};
void launch(driver_stream& stream, const join_job& job);

/// Where one layer's KV lies: block after block, each K [kv head][16 tokens][head size], then V the same.
struct kv_pool_view {
  void* base = nullptr;           ///< of the layer
  std::uint64_t block_stride = 0; ///< bytes from one block to the next; at least block_bytes
  std::uint32_t kv_heads = 0;
  std::uint32_t head_size = 0; ///< 16, 32, 64, 80, 96 or 128
};
inline constexpr std::uint32_t block_tokens = 16;
/// A row that is none (padding of a batch to its bucket): its KV is not written.
inline constexpr std::uint32_t no_slot = ~0U;
[[nodiscard]] constexpr std::uint64_t block_bytes(std::uint32_t kv_heads, std::uint32_t head_size) noexcept {
  return std::uint64_t{2} * kv_heads * block_tokens * head_size * 2;
}

/// Adds the bias, norms each head of queries and keys as `norm_job` does a row (where there are weights for it), turns
/// them by their positions' angles (element i with element i + head_size / 2), puts keys and values into their blocks
/// and the queries out.
struct rope_job {
  data_type type = data_type::bf16;
  data_type in_type = data_type::f32; ///< f32 or `type`
  const void* qkv = nullptr;          ///< [rows][(heads + 2 * kv heads) * head size]
  const void* bias = nullptr;         ///< as a row of qkv, null: none
  const void* query_norm = nullptr;   ///< [head size], null: none, and no key_norm
  const void* key_norm = nullptr;
  float epsilon = 0;             ///< of the norms
  const float* cosine = nullptr; ///< [positions][head size / 2], as gpu/cpu/rope computes them
  const float* sine = nullptr;
  const std::uint32_t* positions = nullptr; ///< [rows]
  const std::uint32_t* slots = nullptr;     ///< [rows]: block * 16 + token within it, or no_slot
  kv_pool_view kv;
  void* queries = nullptr; ///< [rows][heads * head size]
  std::uint32_t rows = 0;
  std::uint32_t heads = 0;
};
void launch(driver_stream& stream, const rope_job& job);

/// The tokens of one request in a step.
struct attention_slice {
  std::uint32_t first_row = 0;
  std::uint32_t rows = 0; ///< 0: padding
  std::uint32_t first_position = 0;
  std::uint32_t first_block = 0; ///< index of the request's first block in `block_table`
};

/// How a row's positions are shared among blocks of threads.
struct attention_split {
  /// Parts of a row that run side by side; 1: a row is one block's work and needs no scratch.
  std::uint32_t parts = 1;
  /// 0: what a row sees is divided evenly by `parts` (fast mode; the sum's order depends on `parts`). Else a multiple
  /// of 64: part i is positions [i * tokens, (i + 1) * tokens), whatever `parts` is, so that a row's bits depend on
  /// nothing but its own query, KV and this number (deterministic mode).
  std::uint32_t tokens = 0;
};

/// out[row][head] = softmax(query * K^T * scale) * V over positions up to the row's own, paged, causal.
struct attention_job {
  data_type type = data_type::bf16;
  const void* queries = nullptr; ///< [..][heads * head size]
  kv_pool_view kv;
  const std::uint32_t* block_table = nullptr; ///< block ids of all slices
  const attention_slice* slices = nullptr;    ///< [slices_count]
  std::uint32_t slices_count = 0;
  std::uint32_t slice_rows_max = 1; ///< no slice has more rows
  std::uint32_t positions_max = 0;  ///< no slice ends behind it
  std::uint32_t heads = 0;
  std::uint32_t window = 0; ///< 0: all; else how many positions a row sees, its own included
  float scale = 0;
  void* out = nullptr; ///< [..][heads * head size]
  attention_split split;
  float* scratch = nullptr; ///< attention_scratch_bytes; unused where split.parts is 1
};
/// Bytes of scratch; 0 where none is needed.
[[nodiscard]] std::uint64_t attention_scratch_bytes(const attention_job& job) noexcept;
/// For decoding, and for prefill chunks in deterministic mode (split.tokens set, split.parts 1): 16 query rows (token x
/// query head of one kv head) at a time, four warps sharing their positions. With parts > 1 slices have one row, and a
/// second kernel puts the parts together.
void launch_decode(driver_stream& stream, const attention_job& job);
/// Shared memory that a block of its threads takes on a device that has so much for one.
[[nodiscard]] std::uint64_t decode_shared_bytes(std::uint32_t head_size, std::uint32_t shared_bytes_max);
/// For prefill chunks in fast mode: 64 query rows at a time. Ignores `split`.
void launch_prefill(driver_stream& stream, const attention_job& job);

/// As driver_stream::gemm, with one order of summation for all numbers of rows: a row's bits depend on nothing but the
/// row, w and `accumulate`'s y. columns: multiple of 8; depth: multiple of 8.
void launch_fixed(driver_stream& stream, const gemm_job& job);

/// Rows of one expert that a product computes together: entries first .. first + count - 1. 0: none.
struct expert_tile {
  std::uint32_t expert = 0, first = 0, count = 0;
};
/// That there can be, whoever is routed where.
[[nodiscard]] constexpr std::uint32_t expert_tiles_max(std::uint32_t entries, std::uint32_t experts,
                                                       std::uint32_t tile_rows) noexcept {
  return entries / tile_rows + (entries < experts ? entries : experts);
}

/// Of a layer that is a mixture of experts: each row takes the `chosen` experts of its highest logits, of equal ones
/// the first, with the softmax over all experts as weights, which are normed to one where `normed`. What a row has with
/// one of them is an entry; entries lie expert by expert.
struct route_job {
  static constexpr std::uint32_t experts_max = 4096;
  const float* logits = nullptr; ///< [rows][stride]
  std::uint32_t stride = 0;
  std::uint32_t experts = 0, chosen = 0;
  bool normed = true;
  std::uint32_t rows = 0;
  std::uint32_t tile_rows = 0;         ///< of a tile at most
  std::uint32_t* experts_of = nullptr; ///< [rows][chosen], each row's rising
  float* weights = nullptr;            ///< [rows][chosen], of these
  std::uint32_t* entries = nullptr;    ///< [rows][chosen], of these
  std::uint32_t* rows_of = nullptr;    ///< [entries]
  expert_tile* tiles = nullptr;        ///< [tiles_count]
  std::uint32_t tiles_count = 0;       ///< expert_tiles_max
};
void launch(driver_stream& stream, const route_job& job);

/// The product of each entry's row and its expert's matrix, in the order of `launch_fixed`: w
/// [experts][columns][depth], y [entries][columns].
struct expert_gemm_job {
  static constexpr std::uint32_t few = 8, many = 32; ///< rows of a tile that it is made for
  gemm_job product;                                  ///< its rows are the entries
  const std::uint32_t* take = nullptr;               ///< [entries]: the row of x; null: as many as entries
  const expert_tile* tiles = nullptr;
  std::uint32_t tiles_count = 0;
  std::uint32_t tile_rows = few;
};
void launch_fixed(driver_stream& stream, const expert_gemm_job& job);

/// to[row] = sum over a row's entries, in their order, of weight * y[entry]; or that is added to what is there.
struct combine_job {
  data_type y_type = data_type::f32;
  const void* y = nullptr;                ///< [entries][hidden]
  const float* weights = nullptr;         ///< [rows][chosen]
  const std::uint32_t* entries = nullptr; ///< [rows][chosen]
  std::uint32_t chosen = 0;
  float* to = nullptr; ///< [rows][hidden]
  bool accumulate = false;
  std::uint32_t rows = 0;
  std::uint32_t hidden = 0;
};
void launch(driver_stream& stream, const combine_job& job);

/// Copies pieces of one length: blocks from here and there into one buffer, from one buffer to their places, or within
/// the pool (copy-on-write). All run side by side: no piece may read what another writes.
struct move_piece {
  const void* from = nullptr;
  void* to = nullptr;
};
struct move_job {
  const move_piece* pieces = nullptr; ///< [count], in the device's memory or pinned, as what they name
  std::uint32_t count = 0;
  std::uint64_t bytes = 0;          ///< of each; multiple of 16
  std::uint32_t thread_blocks = 64; ///< at most so many run at once, so that a step beside it keeps its processors
};
void launch(driver_stream& stream, const move_job& job);

/// A token's count among those so far, for penalties. Each id once.
struct token_count {
  std::uint32_t id = 0;
  float generated = 0; ///< times in the answer; presence and frequency penalties
};
struct bias_entry {
  std::uint32_t id = 0; ///< entries of one id stand together, in their order
  float bias = 0;
};

/// How one row of logits is drawn from; protocols::sampling_params with lists as ranges of device arrays. Made by
/// `sampling_input` (kernels_sampling_input.hpp).
struct sampling_row {
  std::uint32_t logits_row = 0;
  std::uint32_t draws = 1; ///< 0: only `scored`
  float temperature = 1;   ///< 0: greedy
  float top_p = 1;
  std::uint32_t top_k = 0; ///< 0: off
  float min_p = 0;
  float repetition_penalty = 1;
  float frequency_penalty = 0;
  float presence_penalty = 0;
  std::uint32_t index = 0; ///< of the token in the answer
  std::uint64_t seed = 0;
  std::int32_t logprobs = -1;   ///< as in sampling_params
  std::int32_t scored = -1;     ///< token whose log-probability is wanted (outside the vocabulary: minus infinity's)
  std::int32_t scores_top = -1; ///< how many of the most probable ones besides
  std::uint32_t mask = no_mask; ///< first word in `masks`: one bit for each token, 1: allowed
  std::uint32_t forbidden_first = 0, forbidden_count = 0;
  std::uint32_t bias_first = 0, bias_count = 0;
  std::uint32_t counts_first = 0, counts_count = 0;
  std::uint32_t reserved = 0;
  static constexpr std::uint32_t no_mask = ~0U;
};

/// What came of a row. `top` entries: most probable first; those behind logprobs (or scores_top) are not written.
struct sampled_row {
  std::int32_t token = -1; ///< -1: none could be drawn
  float logprob = 0;
  float scored_logprob = 0;
  std::uint32_t exact_walks = 0; ///< how often a sum had to be formed in the CPU's order to be sure (figures, tests)
};
struct top_entry {
  std::int32_t token = -1;
  float logprob = 0;
};

/// The masses of so many tokens together fit their sum.
inline constexpr std::uint32_t vocabulary_max = (1U << 19U) - 1;

/// Draws from rows of logits: the tokens that model::sampler draws from the same logits.
struct sampling_job {
  const float* logits = nullptr;   ///< [..][logits_stride]
  std::uint32_t logits_stride = 0; ///< multiple of 4
  std::uint32_t vocabulary = 0;
  const sampling_row* rows = nullptr; ///< [count]
  std::uint32_t count = 0;
  const std::uint32_t* masks = nullptr; ///< words of 32 tokens
  const std::uint32_t* forbidden = nullptr;
  const bias_entry* biases = nullptr;
  const token_count* counts = nullptr;
  sampled_row* sampled = nullptr; ///< [count]
  top_entry* top = nullptr;       ///< [count][top_stride]
  std::uint32_t top_stride = 0;   ///< at least every row's logprobs and scores_top
  std::uint32_t rows_at_once = 1; ///< at most so many rows run side by side, a multiprocessor each
  void* scratch = nullptr;        ///< sampling_scratch_bytes(vocabulary) for each of min(count, rows_at_once)
  bool exact_always = false;      ///< tests: form every sum in the CPU's order
};
/// For one row: 1.5 MB for 128 thousand tokens.
[[nodiscard]] std::uint64_t sampling_scratch_bytes(std::uint32_t vocabulary) noexcept;
void launch(driver_stream& stream, const sampling_job& job);

} // namespace godwit::gpu::cuda
