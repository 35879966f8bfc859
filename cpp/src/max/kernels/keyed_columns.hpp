// Windows of half-precision cells as sortable keys, in wide vectors: the rows of a window are folded over their whole
// width into a row of scratch memory, whose padding is written once; then windows of two or three cells along it. Rows
// of these cells are short beside such vectors, and a partial one costs less here than in columns_first.hpp.
#pragma once

#include "max/kernels/columns_first.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

class KeyedColumns {
 public:
  using C = std::int16_t;
  using V = Vector<C>;
  static constexpr int64_t kWide = kLanes<C>, kBefore = 32;

  KeyedColumns(void* scratch, const WindowRun& run)
      : change_(run), run_(run), folded_(static_cast<C*>(scratch) + kBefore) {
    const V padding = splat(lowest_value<C>());
    for (int64_t i = 0; i < kBefore; i += kWide) store(folded_ + i - kBefore, padding);
    for (int64_t i = 0; i < 3; ++i) store(folded_ + run.cells + i * kWide, padding);
  }

  // The winners of rows of cells; Taps: how many, or 0 if only `count` says so.
  template <int Taps>
  void fold(const void* const* taps, int count, int64_t offset) {
    const int64_t n = run_.cells;
    int64_t i = 0;
    for (; i + kWide <= n; i += kWide) store(folded_ + i, folded_at<Taps>(taps, count, offset + i, kWide));
    if (i == n) return;
    const int64_t rest = n >= kWide ? n - kWide : 0;  // overlaps its neighbour
    store_first<C>(folded_ + rest, folded_at<Taps>(taps, count, offset + rest, n - rest), n - rest);
  }

  template <int Stride, int Count>
  void windows(C* out) const {
    const int64_t n = run_.outputs;
    if (n < kWide) return store_first<C>(out, window_at<Stride, Count>(0), n);
    for (int64_t next = 0; next < n; next += kWide) {  // the last one overlaps its neighbour
      const int64_t o = next + kWide > n ? n - kWide : next;
      store(out + o, window_at<Stride, Count>(o));
    }
  }

  Contents found() const { return range_.found(run_.infinity); }

 private:
  template <int Taps>
  V folded_at(const void* const* taps, int count, int64_t at, int64_t lanes) {
    V best = tap(taps[0], at, lanes);
    for (int t = 1; t < (Taps > 0 ? Taps : count); ++t) best = max_first(best, tap(taps[t], at, lanes));
    range_.see_maxima(best);
    return best;
  }
  V tap(const void* row, int64_t at, int64_t lanes) {
    const C* const cells = static_cast<const C*>(row) + at;
    const V v = change_(lanes == kWide ? load(cells) : load_first(cells, lanes));
    const auto within = [&] { return reinterpret<V>(lane_numbers<C>() < splat(static_cast<C>(lanes))); };
    range_.see(lanes == kWide ? v : reinterpret<V>(v & within()), 0);
    return v;
  }

  template <int Stride, int Count>
  V window_at(int64_t o) const {
    const C* const cells = folded_ + Stride * o - run_.before;
    V best;
    if constexpr (Stride == 1) {
      best = max_first(load(cells), load(cells + 1));
      if constexpr (Count == 3) best = max_first(best, load(cells + 2));
    } else {
      const V low = load(cells), high = load(cells + kWide);
      best = max_first(phase_of_two<0>(low, high), phase_of_two<1>(low, high));
      if constexpr (Count == 3) best = max_first(best, phase_of_two<1>(load(cells + 1), load(cells + 1 + kWide)));
      best = in_order(best);
    }
    return change_.original(best);
  }

  CellChange<C, Change::keys> change_;
  WindowRun run_;
  C* folded_;
  KeyRange range_;
};

[[maybe_unused]] Contents keyed_columns(const void* const* taps, int count, void* scratch, void* out,
                                        const WindowRun& run) {
  KeyedColumns kernel(scratch, run);
  const int64_t ahead = run.from_step < 2 * run.cells ? run.from_step : 2 * run.cells;
  for (int64_t r = 0; r < run.rows; ++r) {
    const int64_t offset = r * run.from_step;
    prefetch_row(static_cast<const std::int16_t*>(taps[count - 1]) + offset, ahead);
    if (count == 3) kernel.fold<3>(taps, count, offset);
    else kernel.fold<0>(taps, count, offset);
    auto* const target = static_cast<std::int16_t*>(out) + r * run.to_step;
    with_sizes(run, [&](auto stride, auto cells) { kernel.windows<stride, cells>(target); });
  }
  return kernel.found();
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
