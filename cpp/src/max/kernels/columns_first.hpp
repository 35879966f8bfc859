// Windows of a plane of values in one pass: the maxima of columns, in registers, then windows of two or three of them.
// That deinterleaves one row for every row of outputs, and the memory is never idle: nothing is kept for a second pass.
// Rows of large arrays are asked for early: some processors do not foresee two or more rows that are read by turns.
// For floats: equal ones differ if they are zeros, so that no column's first maximum may be -0. For if the maximum of a
// window is a zero, the first of its zeros in row-major order is also the first of its column.
#pragma once

#include "max/kernels/windows.hpp"
#include "simd/across.hpp"
#include "simd/stream.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// Remembers whether a NaN has been read, or infinities of both signs (the sum of the cells is then NaN), and whether a
// -0 was a maximum, which counts as infinite (its bits are the lowest integer).
template <class C>
class FloatRange {
 public:
  using V = Vector<C>;
  using I = int_like<C>;
  void see(const V& v, int sum) { (sum == 1 ? odd_ : even_) += v; }  // the sums do not wait for each other
  void see_maxima(const V& best) { lowest_ = smaller_signed<I>(lowest_, reinterpret<Vector<I>>(best)); }
  void join(const FloatRange& other) {
    even_ += other.even_;
    odd_ += other.odd_;
    lowest_ = smaller_signed<I>(lowest_, other.lowest_);
  }
  Contents found() const {
    C sums[kLanes<C>];
    I lowest[kLanes<C>];
    store(sums, V(even_ + odd_));
    store(lowest, lowest_);
    Contents worst = Contents::finite;
    for (int i = 0; i < kLanes<C>; ++i) {
      if (sums[i] != sums[i]) return Contents::nan;
      if (lowest[i] == std::numeric_limits<I>::min()) worst = Contents::infinite;
    }
    return worst;
  }

 private:
  V even_{}, odd_{};
  Vector<I> lowest_{};
};

// The columns of one row of windows. Taps: how many rows, or 0 if only `count` says so.
template <class C, Change Kind, int Taps>
class Columns {
 public:
  using V = Vector<C>;
  Columns(const void* const* taps, int count, int64_t offset, const CellChange<C, Kind>& change)
      : given_(taps), count_(count), offset_(offset), change_(change) {
    for (int t = 0; t < Taps; ++t) taps_[t] = row(t);
  }

  // The maxima of columns from `cell` on; the first Watched taps are looked at. `number` is that of the vector.
  template <int Watched>
  V at(int64_t cell, int number, FloatRange<C>& range) const {
    if constexpr (Taps == 1) prefetch(taps_[0] + cell);  // nobody asks for single rows early
    return maxima<Watched>(range, number, [&](const C* row) { return load(row + cell); });
  }
  // Asks for the cells that lie `beyond` what the taps from `tap` on read.
  void fetch(int tap, int64_t beyond, int64_t cells) const {
    constexpr int64_t line = 64 / static_cast<int64_t>(sizeof(C));
    for (; tap < count_; ++tap)
      for (int64_t i = 0; i < cells; i += line) prefetch_line(row(tap) + beyond + i);
  }
  // One column in every lane.
  V one(int64_t cell, FloatRange<C>& range) const {
    return maxima<Taps>(range, 0, [&](const C* row) { return splat(row[cell]); });
  }

 private:
  template <int Watched, class Cells>
  V maxima(FloatRange<C>& range, int number, Cells&& cells) const {
    V best{};
    for (int t = 0; t < (Taps > 0 ? Taps : count_); ++t) {
      const V v = change_(cells(Taps > 0 ? taps_[t] : row(t)));
      if (Taps == 0 || t < Watched) range.see(v, Taps == 0 ? number : (number + t) % 2);
      best = t == 0 ? v : max_first(best, v);
    }
    range.see_maxima(best);
    return best;
  }
  const C* row(int t) const { return static_cast<const C*>(given_[t]) + offset_; }

  const void* const* given_;
  int count_;
  int64_t offset_;
  const C* taps_[Taps > 0 ? Taps : 1];
  CellChange<C, Kind> change_;
};

// Rows [first, stop) of outputs. The inner ones go in vectors, the last of which overlaps its neighbour.
template <class C, int Stride, int Count, Change Kind, int Taps, int Watched>
void column_rows(const void* const* taps, int count, C* out, const WindowRun& run, int64_t first, int64_t stop,
                 FloatRange<C>& seen) {
  using V = Vector<C>;
  constexpr int wide = kLanes<C>;
  constexpr int64_t back = Count - Stride;  // cells of an output's window before the block that it is made from
  const CellChange<C, Kind> change(run);
  const V padding = splat(lowest_value<C>());
  const auto block = [&](int64_t o) { return Stride * o - run.before + back; };
  int64_t begin = 0, end = (run.cells - Count + run.before) / Stride + 1;
  while (block(begin) < 0) ++begin;
  if (end > run.outputs) end = run.outputs;
  FloatRange<C> range, ends;  // that of the vectors stays in registers
  for (int64_t r = first; r < stop; ++r) {
    const Columns<C, Kind, Taps> columns(taps, count, r * run.from_step, change);
    C* const target = out + r * run.to_step;
    if (run.ahead > 0 && (run.fresh > 0 || r + run.ahead < stop))
      columns.fetch(run.fresh > 0 ? count - run.fresh : 0, run.ahead * run.from_step, run.cells);
    const auto single = [&](int64_t o) {
      const int64_t start = Stride * o - run.before, stop = start + Count < run.cells ? start + Count : run.cells;
      V best = padding;
      for (int64_t cell = start > 0 ? start : 0; cell < stop; ++cell) best = max_first(best, columns.one(cell, ends));
      store_first<C>(target + o, change.original(best), 1);
    };
    // What comes before the block of output o: its last lanes count.
    const auto before = [&](int64_t o) {
      if (back == 0) return padding;
      if (block(o) >= wide) return columns.template at<0>(block(o) - wide, 0, ends);
      V last = padding, lanes = padding;
      for (int64_t cell = block(o) > back ? block(o) - back : 0; cell < block(o); ++cell) {
        lanes = last;
        last = columns.one(cell, ends);
      }
      return with_last_of(lanes, last, lane_sequence<V>{});
    };
    const auto windows = [&](int64_t o, V& previous) {
      const int64_t cell = block(o);
      V best = columns.template at<Watched>(cell, 0, range);
      if constexpr (Stride == 1) {
        const V now = best;
        best = max_first(shifted_in<1>(previous, now), now);
        if constexpr (Count == 3) best = max_first(shifted_in<2>(previous, now), best);
        previous = now;
      } else {
        const V high = columns.template at<Watched>(cell + wide, 1, range);
        const V odd = phase_of_two<1>(best, high);
        best = in_order(max_first(phase_of_two<0>(best, high), odd));
        if constexpr (Count == 3) {
          const V now = in_order(odd);
          best = max_first(shifted_in<1>(previous, now), best);
          previous = now;
        }
      }
      return change.original(best);
    };
    for (int64_t o = begin > 0 ? 0 : end; o < run.outputs; o = o + 1 == begin ? end : o + 1) single(o);
    bool streams = run.stream;
    for (int64_t o = begin; o < end; streams = false) {  // whole vectors, then one that ends at the last window
      if (o + wide > end) o = end - wide;
      V previous = before(o);
      for (; o + wide <= end; o += wide) {
        const V maxima = windows(o, previous);
        if (streams) stream(target + o, maxima);
        else store(target + o, maxima);
      }
    }
  }
  range.join(ends);
  seen.join(range);
}

// Windows of one row and those as high as they are wide have code of their own, but for rows at the ends.
template <class C, int Stride, int Count, Change Kind>
Contents columns_of(const void* const* taps, int count, void* out, const WindowRun& given) {
  const WindowRun run = given;
  FloatRange<C> range;
  C* const target = static_cast<C*>(out);
  if (count == 1) {
    column_rows<C, Stride, Count, Kind, 1, 1>(taps, count, target, run, 0, run.rows, range);
    return range.found();
  }
  // The taps that the next row has as well need not be looked at.
  constexpr bool watches = Stride < Count;
  int64_t first = count == Count ? run.rows : 0;
  if (watches && first > 0) first = run.fresh > 0 && run.fresh <= Stride ? run.rows - 1 : 0;
  if (first > 0)
    column_rows<C, Stride, Count, Kind, Count, watches ? Stride : Count>(taps, count, target, run, 0, first, range);
  if (first < run.rows) column_rows<C, Stride, Count, Kind, 0, 0>(taps, count, target, run, first, run.rows, range);
  return range.found();
}

template <class C, Change Kind>
Contents columns_first(const void* const* taps, int count, void*, void* out, const WindowRun& run) {
  const auto kernel = with_sizes(run, [](auto stride, auto cells) { return columns_of<C, stride, cells, Kind>; });
  return kernel(taps, count, out, run);
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
