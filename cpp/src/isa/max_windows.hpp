// Windows of two to four cells along clean rows, straight from the array: no row is laid out first, padding comes with
// the loads at the ends of a row.
#pragma once

#include "max_values.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// Where the vectors of kLanes neighbouring outputs lie in rows of n cells: `Groups` times `Stride` vectors side by side.
template <class C, int Stride, int Groups>
struct WindowEdge {
  static constexpr int64_t offset(int i) { return i / Stride * Stride + i % Stride * kLanes<C>; }

  template <int... I>
  WindowEdge(int64_t first_cell, int64_t n, std::integer_sequence<int, I...>)
      : first(first_cell), within{Within<C>(first_cell + offset(I), n)...} {}
  WindowEdge(int64_t first_cell, int64_t n)
      : WindowEdge(first_cell, n, std::make_integer_sequence<int, Groups * Stride>{}) {}

  int64_t first;
  Within<C> within[Groups * Stride];
};

// The windows of kLanes neighbouring outputs.
template <class C, bool Last, int Stride, int Count, bool Paired>
class WindowFold {
 public:
  using P = int_like<C>;
  static constexpr int kGroups = (Count - 1) / Stride + 1;  // of Stride vectors each, `Stride` cells apart
  static constexpr int64_t kReach = Stride * (kLanes<C> + kGroups - 1);  // cells read

  Vector<C> best;
  Vector<P> pair;

  void inner(const C* row, int64_t first, NanWatch<C>& watch) {
    Vector<C> v[kGroups * Stride];
    for (int i = 0; i < kGroups * Stride; ++i) v[i] = load(row + first + WindowEdge<C, Stride, kGroups>::offset(i));
    for (int s = 0; s < Stride; ++s) watch.see(v[s]);  // the next vector of outputs looks at the rest
    fold(v, std::make_integer_sequence<int, Count - 1>{});
  }

  // At an end of a row, from cell `first` of `edge` on.
  template <class Edge>
  void outer(const C* row, const Edge& edge, NanWatch<C>& watch) {
    Vector<C> v[kGroups * Stride];
    for (int i = 0; i < kGroups * Stride; ++i) {
      const Vector<C> cells = edge.within[i].or_zero(row + edge.first + Edge::offset(i));
      watch.see(cells);
      v[i] = edge.within[i].or_else(cells, splat(lowest_value<C>()));
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

template <class C, bool Last, int Stride, int Count, bool Paired>
Contents windows(const C* source, C* out, typename WindowKernels<C>::Code* pairs, const WindowRun& given) {
  using Fold = WindowFold<C, Last, Stride, Count, Paired>;
  using Edge = WindowEdge<C, Stride, Fold::kGroups>;
  const WindowRun run = given;
  // The last vector ends with the outputs, so that it hardly looks beyond the row; short rows have but one. Edges are
  // the same for every row: of each end the outermost are made once.
  const int64_t last = run.outputs >= kLanes<C> ? run.outputs - kLanes<C> : 0;
  const auto edge_at = [&](int64_t o) { return Edge(Stride * o - run.before, run.cells); };
  const int64_t before_last = last > 0 ? (last - 1) / kLanes<C> * kLanes<C> : 0;
  const Edge begin = edge_at(0), before_end = edge_at(before_last), end = edge_at(last);
  NanWatch<C> watch;
  for (int64_t r = 0; r < run.rows; ++r) {
    const C* const row = source + r * run.from_step;
    prefetch_row(row, run.cells);
    const auto finish = [&](int64_t o, const Fold& fold) {
      store(out + r * run.to_step + o, fold.best);
      if constexpr (Paired) store(pairs + r * run.to_step + o, fold.pair);
    };
    Fold fold;
    if (last > 0) {
      fold.outer(row, begin, watch);
      finish(0, fold);
    }
    for (int64_t o = kLanes<C>; o < last; o += kLanes<C>) {
      const int64_t first = Stride * o - run.before;
      if (first >= 0 && first + Fold::kReach <= run.cells) fold.inner(row, first, watch);
      else fold.outer(row, o == before_last ? before_end : edge_at(o), watch);
      finish(o, fold);
    }
    fold.outer(row, end, watch);
    finish(last, fold);
  }
  return watch.found();
}

template <class C, int Stride>
constexpr WindowKernels<C> window_kernels() {
  WindowKernels<C> table{{{windows<C, false, Stride, 2, false>, windows<C, true, Stride, 2, false>},
                          {windows<C, false, Stride, 3, false>, windows<C, true, Stride, 3, false>},
                          {nullptr, nullptr}},
                         {}};
  if constexpr (Stride == 1) {  // the first step towards large windows
    table.plain[2][0] = windows<C, false, Stride, 4, false>;
    table.plain[2][1] = windows<C, true, Stride, 4, false>;
  }
  if constexpr (std::is_floating_point_v<C>) {
    table.paired[0][0] = windows<C, false, Stride, 2, true>;
    table.paired[0][1] = windows<C, true, Stride, 2, true>;
    table.paired[1][0] = windows<C, false, Stride, 3, true>;
    table.paired[1][1] = windows<C, true, Stride, 3, true>;
  }
  return table;
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
