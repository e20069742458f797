// Products by sums of codes (table.hpp, coding::dot...). Included inside an unnamed namespace before gemm.inl.

template <class Values>
void round_activations(const typename Values::element* from, std::size_t units, rounded_rows to) {
  const vec most = set1(127.0F), least = set1(-127.0F);
  for (std::size_t u = 0; u < units; ++u, from += 32, to.codes += 32, to.sums += 2) {
    const vec first = Values::get(from), second = Values::get(from + 16);
    const float largest = reduce_max(max(max(first, sub(zero(), first)), max(second, sub(zero(), second))));
    // Nothing is made up of what is no number.
    to.steps[u] = largest / 127.0F + reduce_add(add(sub(first, first), sub(second, second)));
    const vec inverse = set1(largest > 0.0F ? 127.0F / largest : 0.0F);
    // What is no number becomes the least.
    const auto put = [&](vec value, std::int8_t* codes) {
      return put_int8(min(max(mul(value, inverse), least), most), codes);
    };
    to.sums[0] = put(first, to.codes);
    to.sums[1] = put(second, to.codes + 16);
    to.totals[u] = float(to.sums[0] + to.sums[1]);
  }
}

/// Of codes of four bits those that are multiplied.
template <coding Code> GODWIT_INLINE codes multiplied(codes nibbles) {
  if constexpr (Code == coding::dot_fp4) return looked_up(nibbles, fp4_raised);
  return nibbles;
}

/// Rows x Panels outputs over some tiles. `unit`: of the first row in the first tile; `step`: units of a tile.
template <coding Code, int Rows, int Panels, bool Stream>
GODWIT_INLINE void dot_block(const rounded_rows& a, std::size_t unit, std::size_t step, const std::byte* w,
                             std::size_t panel, std::uint32_t tiles, float* y, std::size_t y_stride, bool goes_on) {
  constexpr auto layout = layout_of(Code);
  constexpr int halves = int(layout.units), loads = (layout.four_bits ? 4 : 8) / halves;
  constexpr std::size_t load_bytes = 64, lines = (layout.bytes() + 63) / 64;
  vec sum[Rows][Panels];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 16
    for (int c = 0; c < Panels; ++c) sum[r][c] = goes_on ? load(y + r * y_stride + c * 16) : zero();
  for (std::uint32_t tile = 0; tile < tiles; ++tile, unit += step, w += layout.bytes()) {
    if constexpr (Stream)
#pragma GCC unroll 16
      for (int c = 0; c < Panels; ++c)
#pragma GCC unroll 16
        for (std::size_t line = 0; line < lines; ++line) prefetch(w + c * panel + line * 64 + prefetch_bytes);
#pragma GCC unroll 2
    for (int half = 0; half < halves; ++half) {
      const auto sum_of = [&](int r) {
        const auto* both = a.sums + (unit + r) * 2;
        return halves == 2 ? both[half] : both[0] + both[1];
      };
      ints dots[Rows][Panels];
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) {
        const ints begin = set1_int(-layout.zero * sum_of(r));
#pragma GCC unroll 16
        for (int c = 0; c < Panels; ++c) dots[r][c] = begin;
      }
#pragma GCC unroll 8
      for (int i = 0; i < loads; ++i)
#pragma GCC unroll 16
        for (int c = 0; c < Panels; ++c) {
          const auto all = load_codes(w + c * panel + layout.codes_at() + std::size_t(half * loads + i) * load_bytes);
#pragma GCC unroll 16
          for (int r = 0; r < Rows; ++r) {
            const auto* four = a.codes + (unit + r) * 32 + (half * loads + i) * (layout.four_bits ? 8 : 4);
            if constexpr (layout.four_bits) {
              dots[r][c] = dot_of_nibbles(dots[r][c], multiplied<Code>(low_nibbles(all)), four);
              dots[r][c] = dot_of_nibbles(dots[r][c], multiplied<Code>(high_nibbles(all)), four + 4);
            } else {
              dots[r][c] = dot_of_bytes(dots[r][c], all, four);
            }
          }
        }
#pragma GCC unroll 16
      for (int c = 0; c < Panels; ++c) {
        const auto* scales = reinterpret_cast<const float*>(w + c * panel) + half * 16;
#pragma GCC unroll 16
        for (int r = 0; r < Rows; ++r) {
          vec t = mul(to_floats(dots[r][c]), load(scales));
          if constexpr (layout.offsets)
            t = fma(load(scales + layout.offsets_at() / sizeof(float)),
                    set1(halves == 2 ? float(sum_of(r)) : a.totals[unit + r]), t);
          sum[r][c] = fma(set1(a.steps[unit + r]), t, sum[r][c]);
        }
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 16
    for (int c = 0; c < Panels; ++c) store(y + r * y_stride + c * 16, sum[r][c]);
}

/// All rows of one group of panels.
template <coding Code, int Panels>
void dot_panels(const gemm_job& job, const rounded_rows& a, std::uint32_t first, std::uint32_t count,
                const std::byte* w, std::size_t panel, float* y) {
  const std::size_t tiles = job.depth / 32;
  for (std::uint32_t top = 0; top < job.rows; top += 16) {
    const std::uint32_t tall = job.rows - top < 16 ? job.rows - top : 16;
    const auto rows = [&]<int Rows>(std::uint32_t r) {
      dot_block<Code, Rows, Panels, false>(a, top * tiles + std::size_t(first) * tall + r, tall, w, panel, count,
                                           y + (top + r) * job.y_stride, job.y_stride, first != 0);
    };
    std::uint32_t r = 0;
    for (; r + rows_per_block <= tall; r += rows_per_block) rows.template operator()<rows_per_block>(r);
    if constexpr (rows_per_block > 3)
      if (tall - r == 3) rows.template operator()<3>(r), r += 3;
    if constexpr (rows_per_block > 2)
      if (tall - r == 2) rows.template operator()<2>(r), r += 2;
    for (; r < tall; ++r) rows.template operator()<1>(r);
  }
}

template <coding Code> void dot_codes(const gemm_job& job) {
  const auto& a = job.rounded;
  constexpr std::size_t tile_bytes = layout_of(Code).bytes();
  const auto* w = static_cast<const std::byte*>(job.w);
  const std::uint32_t tiles = job.depth / 32;
  const std::size_t panel = tiles * tile_bytes;
  std::uint32_t done = 0;
  if (job.rows == 1) {
    const auto block = [&]<int Panels, bool Stream>() {
      dot_block<Code, 1, Panels, Stream>(a, 0, 1, w + done * panel, panel, tiles, job.y + done * 16, 0, false);
      done += Panels;
    };
    while (done + panels_single <= job.panels)
      job.fetch_ahead ? block.template operator()<panels_single, true>()
                      : block.template operator()<panels_single, false>();
    while (done < job.panels)
      job.fetch_ahead ? block.template operator()<1, true>() : block.template operator()<1, false>();
    return;
  }
  const auto pass = job.rows < rows_for_passes ? tiles : tiles_per_pass;
  for (std::uint32_t first = 0; first < tiles; first += pass) {
    const auto count = tiles - first < pass ? tiles - first : pass;
    const auto* from = w + first * tile_bytes;
    for (done = 0; done + panels_per_block <= job.panels; done += panels_per_block)
      dot_panels<Code, panels_per_block>(job, a, first, count, from + done * panel, panel, job.y + done * 16);
    if constexpr (panels_per_block > 1)
      for (; done < job.panels; ++done)
        dot_panels<Code, 1>(job, a, first, count, from + done * panel, panel, job.y + done * 16);
  }
}

/// Calls `act` with the way in which activations are multiplied with codes.
template <class Act> void with_dot(coding code, const Act& act) {
  switch (code) {
  case coding::dot4:
    return act.template operator()<coding::dot4>();
  case coding::dot4_offset:
    return act.template operator()<coding::dot4_offset>();
  case coding::dot4_offset_halves:
    return act.template operator()<coding::dot4_offset_halves>();
  case coding::dot8:
    return act.template operator()<coding::dot8>();
  case coding::dot8_offset:
    return act.template operator()<coding::dot8_offset>();
  case coding::dot8_halves:
    return act.template operator()<coding::dot8_halves>();
  case coding::dot_fp4:
    return act.template operator()<coding::dot_fp4>();
  case coding::none:
  case coding::int4:
  case coding::int8:
  case coding::e4m3:
  case coding::fp4:
    break;
  }
}

[[maybe_unused]] void gemm_dot(const gemm_job& job) {
  with_dot(job.code, [&]<coding Code>() { dot_codes<Code>(job); });
}
