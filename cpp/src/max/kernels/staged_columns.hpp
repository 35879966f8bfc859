// Windows of cells of one or two bytes, some rows of outputs at a time: the maxima of columns go to rows of scratch
// memory between padding, then come windows of two or three cells along them. So rows that windows share are read once,
// and no row has ends that are treated apart. Halves are compared as sortable keys.
#pragma once

#include "max/kernels/windows.hpp"
#include "simd/across.hpp"
#include "simd/stream.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// Remembers whether keys of NaN have been read, and whether a maximum was the key of +0, which orders after that of -0.
// A positive NaN is larger than all others: it is seen in the maxima.
class KeyRange {
 public:
  using V = Vector<std::int16_t>;
  using U = Vector<std::uint16_t>;
  void see(const V& key) { lowest_ = key < lowest_ ? key : lowest_; }
  void see_maxima(const V& best) {
    best_ = max_first(best_, best);
    closest_ = smaller_unsigned(closest_, reinterpret<U>(best));
  }
  bool nan(std::int16_t infinity) const {
    return any(lowest_, [&](std::int16_t x) { return x < -infinity - 1; }) ||
           any(best_, [&](std::int16_t x) { return x > infinity; });
  }
  bool zero() const {
    return any(closest_, [](std::uint16_t x) { return x == 0; });
  }

  template <class W, class Is>
  static bool any(const W& v, Is&& is) {
    lane_type<W> lanes[sizeof(W) / sizeof(v[0])];
    store(lanes, v);
    bool found = false;
    for (const auto x : lanes) found = found || is(x);
    return found;
  }

 private:
  V lowest_{}, best_{};
  U closest_ = U{} - 1;
};

template <class C>
struct NoKeys {
  void see(const Vector<C>&) {}
  void see_maxima(const Vector<C>&) {}
};

template <class C, Change Kind>
class StagedColumns {
 public:
  using V = Vector<C>;
  static constexpr int64_t kWide = kLanes<C>;
  static constexpr int64_t kMostRows = kStagedRows / 2;  // of outputs, whose columns are folded at a time
  static constexpr bool kKeys = Kind == Change::keys;

  StagedColumns(const void* const* taps, int count, void* scratch, const WindowRun& run)
      : taps_(taps), count_(count), change_(run), run_(run), pitch_(run.cells + kWide),
        staged_(static_cast<C*>(scratch) + kWide) {
    const V padding = splat(lowest_value<C>());
    for (int64_t r = 0; r <= (run.rows > 1 ? kStagedRows : 1); ++r) store(staged_ + r * pitch_ - kWide, padding);
  }

  // All rows of outputs: the columns of some, then the windows of those before, so that the memory is never idle and no
  // load waits for a store just made.
  template <int Stride, int Count>
  void run(C* out) {
    const int64_t ahead = run_.from_step < 2 * run_.cells ? run_.from_step : 2 * run_.cells;
    int64_t before = 0, rows = 0, half = 0;
    for (int64_t r = 0; r < run_.rows; r += rows, half ^= kMostRows) {
      rows = fold(r, half);
      windows<Stride, Count>(out + before * run_.to_step, half ^ kMostRows, r - before);
      if (run_.ahead > 0)
        for (int64_t i = r; i < r + rows; ++i) prefetch_row(tap(count_ - 1, i), ahead);
      before = r;
    }
    windows<Stride, Count>(out + before * run_.to_step, half ^ kMostRows, run_.rows - before);
  }

  // The windows along those rows.
  template <int Stride, int Count>
  void windows(C* out, int64_t half, int64_t rows) const {
    const int64_t n = run_.outputs;
    for (int64_t r = 0; r < rows; ++r, out += run_.to_step) {
      const C* const row = staged_ + (half + r) * pitch_ - run_.before;
      for (int64_t next = 0; next < n; next += kWide) {  // the last one overlaps its neighbour
        const int64_t o = next + kWide > n ? n - kWide : next;
        const V maxima = change_.original(window_at<Stride, Count>(row + Stride * o));
        if (run_.stream) stream(out + o, maxima);
        else store(out + o, maxima);
      }
    }
  }

  // Where a maximum is +0, a -0 may have been the first of equal cells.
  Contents found() const {
    if constexpr (kKeys)
      if (range_.nan(run_.infinity) || (range_.zero() && has_negative_zero())) return Contents::nan;
    return Contents::finite;
  }

 private:
  const C* tap(int t, int64_t row) const { return static_cast<const C*>(taps_[t]) + row * run_.from_step; }

  // The maxima of the columns of output row r and the next ones, which share rows of cells; how many.
  int64_t fold(int64_t r, int64_t half) {
    if (count_ == 3 && run_.fresh == 2) return fold_some<3, 2, 2>(r, half);
    if (count_ == 3 && run_.fresh == 1) return fold_some<3, 1, 4>(r, half);
    if (count_ == 2 && run_.fresh == 2) return fold_some<2, 2, 2>(r, half);
    return fold_some<0, 0, 1>(r, half);
  }
  // A row of outputs has Taps taps, or count_ if that is 0; the first Fresh of them are not among those of the next.
  template <int Taps, int Fresh, int Rows>
  int64_t fold_some(int64_t r, int64_t half) {
    if constexpr (Rows > 1)
      if (run_.rows - r < Rows) return fold_some<Taps, Fresh, 1>(r, half);
    std::conditional_t<kKeys, KeyRange, NoKeys<C>> range = range_;
    constexpr int sources = Taps + (Rows - 1) * Fresh;
    const C* rows[sources > 0 ? sources : 1];
    for (int k = 0; k < sources; ++k) rows[k] = k < Taps ? tap(k, r) : rows[k - Fresh] + run_.from_step;
    C* const staged = staged_ + half * pitch_;
    const int64_t pitch = pitch_, n = run_.cells;
    for (int64_t next = 0; next < n; next += kWide) {  // the last one overlaps its neighbour
      const int64_t i = next + kWide > n ? n - kWide : next;
      const auto cells = [&](const C* row) {
        const V v = change_(load(row + i));
        range.see(v);
        return v;
      };
      const auto keep = [&](int row, const V& best) {
        range.see_maxima(best);
        store(staged + row * pitch + i, best);
      };
      if constexpr (Taps == 0) {
        V best = cells(tap(0, r));
        for (int t = 1; t < count_; ++t) best = max_first(best, cells(tap(t, r)));
        keep(0, best);
      } else {
        V v[sources];
        for (int k = 0; k < sources; ++k) v[k] = cells(rows[k]);
        for (int row = 0; row < Rows; ++row) {
          V best = v[row * Fresh];
          for (int t = 1; t < Taps; ++t) best = max_first(best, v[row * Fresh + t]);
          keep(row, best);
        }
      }
    }
    range_ = range;
    return Rows;
  }

  // Outputs whose windows begin at `cells`.
  template <int Stride, int Count>
  static V window_at(const C* cells) {
    if constexpr (Stride == 1) {
      const V best = max_first(load(cells), load(cells + 1));
      return Count == 3 ? max_first(best, load(cells + 2)) : best;
    } else {
      const auto pairs = [](const C* from) {
        const V v = load(from), best = max_first(v, second_as_first(v));
        return Count == 3 ? max_first(best, load(from + 2)) : best;
      };
      return deinterleaved2<0>(pairs(cells), pairs(cells + kWide));
    }
  }

  bool has_negative_zero() const {
    Vector<std::uint16_t> highest{};
    for (int64_t r = 0; r < run_.rows; ++r)
      for (int t = r > 0 && run_.fresh > 0 ? count_ - run_.fresh : 0; t < count_; ++t)
        for (int64_t next = 0; next < run_.cells; next += kWide) {
          const int64_t i = next + kWide > run_.cells ? run_.cells - kWide : next;
          highest = max_first(highest, reinterpret<Vector<std::uint16_t>>(change_(load(tap(t, r) + i))));
        }
    return KeyRange::any(highest, [](std::uint16_t x) { return x == 0xffff; });
  }

  const void* const* taps_;
  int count_;
  CellChange<C, Kind> change_;
  WindowRun run_;
  int64_t pitch_;
  C* staged_;
  std::conditional_t<kKeys, KeyRange, NoKeys<C>> range_;
};

template <class C, Change Kind>
Contents staged_columns(const void* const* taps, int count, void* scratch, void* out, const WindowRun& run) {
  StagedColumns<C, Kind> kernel(taps, count, scratch, run);
  with_sizes(run, [&](auto stride, auto cells) {
    kernel.template run<stride, cells>(static_cast<C*>(out));
  });
  return kernel.found();
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
