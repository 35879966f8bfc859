// Windows of two or three cells along clean rows, straight from the array: no row is laid out first, padding comes with
// the loads at the ends of a row.
#pragma once

#include "max_values.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// The windows of kLanes neighbouring outputs, from cell `first` on.
template <class C, class P, bool Last, int Stride, int Count, bool Paired>
class WindowFold {
 public:
  static constexpr int kGroups = (Count - 1) / Stride + 1;  // of Stride vectors each, `Stride` cells apart
  static constexpr int64_t kReach = Stride * (kLanes<C> + kGroups - 1);  // cells read

  Vector<C> best;
  Vector<P> pair;

  void inner(const C* row, int64_t first, NanWatch<C>& watch) {
    Vector<C> v[kGroups * Stride];
    for (int g = 0; g < kGroups; ++g)
      for (int s = 0; s < Stride; ++s) v[g * Stride + s] = load(row + first + g * Stride + s * kLanes<C>);
    for (int s = 0; s < Stride; ++s) {
      prefetch(row + first + s * kLanes<C>);
      watch.see(v[s]);  // the next vector of outputs looks at the rest
    }
    fold(v, std::make_integer_sequence<int, Count - 1>{});
  }

  // At an end of a row of n cells.
  void outer(const C* row, int64_t first, int64_t n, C padding, NanWatch<C>& watch) {
    Vector<C> v[kGroups * Stride];
    for (int g = 0; g < kGroups; ++g) {
      for (int s = 0; s < Stride; ++s) {
        const Within<C> cells(row, first + g * Stride + s * kLanes<C>, n);
        watch.see(cells.or_zero());
        v[g * Stride + s] = cells.or_else(padding);
      }
    }
    fold(v, std::make_integer_sequence<int, Count - 1>{});
  }

 private:
  template <int... T>
  void fold(const Vector<C>* v, std::integer_sequence<int, T...>) {
    best = every<C, Stride, 0>(v);
    if constexpr (Paired) pair = splat(P{0});
    (join<T + 1>(every<C, Stride, (T + 1) % Stride>(v + (T + 1) / Stride * Stride)), ...);
  }
  template <int Tap>
  void join(const Vector<C>& x) {
    const auto mask = takes_over<C, MaxRule::clean, Last>(x, best);
    best = select(mask, x, best);
    if constexpr (Paired) pair = select(mask, splat(static_cast<P>(Tap)), pair);
  }
};

template <class C, class P, bool Last, int Stride, int Count, bool Paired>
Contents windows(const C* source, C* out, P* pairs, const WindowRun& run) {
  using Fold = WindowFold<C, P, Last, Stride, Count, Paired>;
  constexpr C padding = lowest_value<C>();
  NanWatch<C> watch;
  for (int64_t r = 0; r < run.rows; ++r) {
    const C* const row = source + r * run.from_step;
    for (int64_t next = 0; next < run.outputs; next += kLanes<C>) {
      // The last vector ends with the outputs, so that it need not look beyond the row; short rows have but one.
      const int64_t o = run.outputs >= kLanes<C> && next + kLanes<C> > run.outputs ? run.outputs - kLanes<C> : next;
      const int64_t first = Stride * o - run.before;
      const bool inside = first >= 0 && first + Fold::kReach <= run.cells && next + kLanes<C> < run.outputs;
      Fold fold;
      if (inside) fold.inner(row, first, watch);
      else fold.outer(row, first, run.cells, padding, watch);
      store(out + r * run.to_step + o, fold.best);
      if constexpr (Paired) store(pairs + r * run.to_step + o, fold.pair);
    }
  }
  return watch.found();
}

template <class C, class P, int Stride>
constexpr WindowKernels<C, P> window_kernels() {
  constexpr bool paired = std::is_floating_point_v<C> && !std::is_floating_point_v<P>;  // codes of floats only
  return {{{windows<C, P, false, Stride, 2, false>, windows<C, P, true, Stride, 2, false>},
           {windows<C, P, false, Stride, 3, false>, windows<C, P, true, Stride, 3, false>}},
          {{windows<C, P, false, Stride, 2, paired>, windows<C, P, true, Stride, 2, paired>},
           {windows<C, P, false, Stride, 3, paired>, windows<C, P, true, Stride, 3, paired>}}};
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
