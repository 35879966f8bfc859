// Windows of a plane whose equal cells cannot be told apart (integers, sortable keys): rows are folded first, over
// their whole width, then windows of two or three cells along the folded row. That deinterleaves one row for every row
// of outputs; padding is written once, beside the folded row.
#pragma once

#include "max/kernels/windows.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// Remembers whether keys of NaN or of -0 have been read. A positive NaN is larger than all others: it is seen in the
// maxima.
class KeyRange {
 public:
  using V = Vector<std::int16_t>;
  using U = Vector<std::uint16_t>;
  void see(const V& key) {
    lowest_ = key < lowest_ ? key : lowest_;
    highest_ = max_first(highest_, reinterpret<U>(key));
  }
  void see_maxima(const V& best) { best_ = max_first(best_, best); }
  bool clean(std::int16_t infinity) const {
    std::int16_t lowest[kLanes<std::int16_t>], best[kLanes<std::int16_t>];
    std::uint16_t highest[kLanes<std::int16_t>];
    store(lowest, lowest_);
    store(best, best_);
    store(highest, highest_);
    bool clean = true;
    for (int i = 0; i < kLanes<std::int16_t>; ++i)
      clean = clean && lowest[i] >= -infinity - 1 && best[i] <= infinity && highest[i] != 0xffff;
    return clean;
  }

 private:
  V lowest_{}, best_{};
  U highest_{};
};

template <class C, int Stride, int Count, Change Kind>
class ColumnsFirst {
 public:
  static constexpr bool kKeys = Kind == Change::keys;
  static constexpr int64_t kWide = kLanes<C>, kBefore = 64 / static_cast<int64_t>(sizeof(C));
  using V = Vector<C>;

  ColumnsFirst(void* scratch, const WindowRun& run)
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

  void windows(C* out) const {
    int64_t o = 0;
    for (; o + kWide <= run_.outputs; o += kWide) store(out + o, window_at(o));
    if (o == run_.outputs) return;
    if (run_.outputs >= kWide) store(out + run_.outputs - kWide, window_at(run_.outputs - kWide));
    else store_first<C>(out, window_at(0), run_.outputs);
  }

  Contents found() const {
    if constexpr (kKeys) return watch_.clean(run_.infinity) ? Contents::finite : Contents::nan;
    else return Contents::finite;
  }

 private:
  template <int Taps>
  V folded_at(const void* const* taps, int count, int64_t at, int64_t lanes) {
    V best = tap(taps[0], at, lanes);
    for (int t = 1; t < (Taps > 0 ? Taps : count); ++t) best = max_first(best, tap(taps[t], at, lanes));
    if constexpr (kKeys) watch_.see_maxima(best);
    return best;
  }
  V tap(const void* row, int64_t at, int64_t lanes) {
    const C* const cells = static_cast<const C*>(row) + at;
    const V v = change_(lanes == kWide ? load(cells) : load_first(cells, lanes));
    if constexpr (kKeys) watch_.see(lanes == kWide ? v : reinterpret<V>(v & reinterpret<V>(first(lanes))));
    return v;
  }
  static V first(int64_t lanes) {
    return reinterpret<V>(lane_numbers<C>() < splat(static_cast<C>(lanes)));
  }

  V window_at(int64_t o) const {
    const C* const cells = folded_ + Stride * o - run_.before;
    V best;
    if constexpr (Stride == 1) {
      best = max_first(load(cells), load(cells + 1));
      if constexpr (Count == 3) best = max_first(best, load(cells + 2));
    } else {
      const V low = load(cells), high = load(cells + kWide);
      best = max_first(phase_of_two<0>(low, high), phase_of_two<1>(low, high));
      if constexpr (Count == 3)
        best = max_first(best, phase_of_two<1>(load(cells + 1), load(cells + 1 + kWide)));
      best = in_order(best);
    }
    if constexpr (kKeys) return sortable_key(best) ^ splat(static_cast<C>(run_.flip));
    else return change_.restored(best);
  }

  CellChange<C, Kind> change_;
  WindowRun run_;
  C* folded_;
  std::conditional_t<kKeys, KeyRange, Nothing> watch_;
};

template <class C, int Stride, int Count, Change Kind>
Contents columns_first(const void* const* taps, int count, void* scratch, void* out, const WindowRun& run) {
  ColumnsFirst<C, Stride, Count, Kind> kernel(scratch, run);
  for (int64_t r = 0; r < run.rows; ++r) {
    const int64_t offset = r * run.from_step;
    prefetch_row(static_cast<const C*>(taps[count - 1]) + offset, Stride * run.cells);
    if (count == 3) kernel.template fold<3>(taps, count, offset);
    else kernel.template fold<0>(taps, count, offset);
    kernel.windows(static_cast<C*>(out) + r * run.to_step);
  }
  return kernel.found();
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
