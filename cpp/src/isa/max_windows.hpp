// Windows of two or three cells along clean rows, straight from the array: no row is laid out first, padding comes with
// the loads at the ends of a row.
#pragma once

#include "max_values.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// Where the vectors of kLanes neighbouring outputs lie in rows of n cells: `Groups` times `Stride` vectors side by
// side.
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

// What travels with the maxima where nothing does.
struct Nothing {};

// Cells as they are compared: (cell & keep) ^ flip if they are changed.
template <class C, bool Changed>
struct CellChange {
  using Bits = std::make_unsigned_t<int_like<C>>;
  Vector<Bits> keep, flip;

  explicit CellChange(const WindowRun& run)
      : keep(splat(static_cast<Bits>(run.keep))), flip(splat(static_cast<Bits>(run.flip))) {}
  Vector<C> operator()(const Vector<C>& v) const {
    if constexpr (!Changed) return v;
    else return reinterpret<Vector<C>>((reinterpret<Vector<Bits>>(v) & keep) ^ flip);
  }
};

// The windows of kLanes neighbouring outputs. P: a tangent, the number of the tap, or nothing.
template <class C, class P, bool Last, int Stride, int Count, bool Changed>
class WindowFold {
 public:
  explicit WindowFold(const WindowRun& run) : change(run) {}

  static constexpr bool kTangents = std::is_floating_point_v<P>, kPaired = !std::is_same_v<P, Nothing>;
  static constexpr int kGroups = (Count - 1) / Stride + 1;  // of Stride vectors each, `Stride` cells apart
  static constexpr int64_t kReach = Stride * (kLanes<C> + kGroups - 1);  // cells read

  using Pair = Vector<std::conditional_t<kPaired, P, C>>;
  CellChange<C, Changed> change;
  Vector<C> best;
  Pair pair;

  void inner(const C* row, const P* tangents, int64_t first, NanWatch<C>& watch) {
    Vector<C> v[kGroups * Stride];
    Pair u[kGroups * Stride];
    for (int i = 0; i < kGroups * Stride; ++i) {
      v[i] = change(load(row + first + WindowEdge<C, Stride, kGroups>::offset(i)));
      if constexpr (kTangents) u[i] = load(tangents + first + WindowEdge<C, Stride, kGroups>::offset(i));
    }
    for (int s = 0; s < Stride; ++s) watch.see(v[s]);  // the next vector of outputs looks at the rest
    fold(v, u, std::make_integer_sequence<int, Count - 1>{});
  }

  // At an end of a row, from cell `first` of `edge` on.
  template <class Edge>
  void outer(const C* row, const P* tangents, const Edge& edge, NanWatch<C>& watch) {
    Vector<C> v[kGroups * Stride];
    Pair u[kGroups * Stride];
    for (int i = 0; i < kGroups * Stride; ++i) {
      const Vector<C> cells = edge.within[i].or_zero(row + edge.first + Edge::offset(i));
      watch.see(cells);
      v[i] = edge.within[i].or_else(change(cells), splat(lowest_value<C>()));
      if constexpr (kTangents) u[i] = edge.within[i].or_zero(tangents + edge.first + Edge::offset(i));
    }
    fold(v, u, std::make_integer_sequence<int, Count - 1>{});
  }

 private:
  template <int... T>
  void fold(const Vector<C>* v, const Pair* u, std::integer_sequence<int, T...>) {
    best = every<C, Stride, 0>(v);
    if constexpr (kPaired) pair = pair_of<0>(u);
    (join<T + 1>(v, u), ...);
  }
  template <int Tap>
  void join(const Vector<C>* v, const Pair* u) {
    const Vector<C> x = every<C, Stride, Tap % Stride>(v + Tap / Stride * Stride);
    const auto mask = takes_over<C, MaxRule::clean, Last>(x, best);
    best = select(mask, x, best);
    if constexpr (kPaired) pair = select(mask, pair_of<Tap>(u), pair);
  }
  template <int Tap>
  static Pair pair_of(const Pair* u) {
    if constexpr (kTangents) return every<C, Stride, Tap % Stride>(u + Tap / Stride * Stride);
    else return splat(static_cast<P>(Tap));
  }
};

template <class C, class P, bool Last, int Stride, int Count, bool Changed = false>
Contents fold_windows(const C* source, const P* tangents, C* out, P* pairs, const WindowRun& given) {
  using Fold = WindowFold<C, P, Last, Stride, Count, Changed>;
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
    const P* const beside = Fold::kTangents ? tangents + r * run.pair_step : nullptr;
    prefetch_row(row, run.cells);
    if constexpr (Fold::kTangents) prefetch_row(beside, run.cells);
    const auto finish = [&](int64_t o, const Fold& fold) {
      store(out + r * run.to_step + o, fold.best);
      if constexpr (Fold::kPaired) store(pairs + r * run.to_step + o, fold.pair);
    };
    Fold fold(run);
    if (last > 0) {
      fold.outer(row, beside, begin, watch);
      finish(0, fold);
    }
    for (int64_t o = kLanes<C>; o < last; o += kLanes<C>) {
      const int64_t first = Stride * o - run.before;
      if (first >= 0 && first + Fold::kReach <= run.cells) fold.inner(row, beside, first, watch);
      else fold.outer(row, beside, o == before_last ? before_end : edge_at(o), watch);
      finish(o, fold);
    }
    fold.outer(row, beside, end, watch);
    finish(last, fold);
  }
  return watch.found();
}

template <class C, bool Last, int Stride, int Count, bool Changed = false>
Contents plain_windows(const C* source, C* out, const WindowRun& run) {
  return fold_windows<C, Nothing, Last, Stride, Count, Changed>(source, nullptr, out, nullptr, run);
}

// Four neighbours at every place of a row that has them: the first step towards large windows.
template <class C, bool Last>
Contents fours(const C* source, C* out, const RowRun& rows) {
  NanWatch<C> watch;
  const auto later = [](const Vector<C>& best, const Vector<C>& x) {
    return select(takes_over<C, MaxRule::clean, Last>(x, best), x, best);
  };
  const int64_t places = rows.items - 3;
  for (int64_t r = 0; r < rows.count; ++r) {
    const C* const row = source + r * rows.from_step;
    C* const target = out + r * rows.to_step;
    prefetch_row(row, rows.items);
    const auto fold = [&](int64_t o, auto cells) {
      const Vector<C> a = cells(o), b = cells(o + 1), c = cells(o + 2), d = cells(o + 3);
      watch.see(a);
      watch.see(d);
      store(target + o, later(later(later(a, b), c), d));
    };
    const auto whole = [&](int64_t i) { return load(row + i); };
    if (places < kLanes<C>) {
      fold(0, [&](int64_t i) { return load_first(row + i, rows.items - i < kLanes<C> ? rows.items - i : kLanes<C>); });
      continue;
    }
    for (int64_t o = 0; o + kLanes<C> <= places; o += kLanes<C>) fold(o, whole);
    if (places % kLanes<C> != 0) fold(places - kLanes<C>, whole);
  }
  return watch.found();
}

// Vectors a row is made of, one after the other; zero beyond its end.
template <class C>
class RowReader {
 public:
  RowReader(const C* row, int64_t cells, NanWatch<C>& watch) : row_(row), left_(cells), watch_(watch) {}
  Vector<C> operator()() {
    const Vector<C> v = left_ >= kLanes<C> ? load(row_) : left_ > 0 ? load_first(row_, left_) : Vector<C>{};
    watch_.see(v);
    row_ += kLanes<C>;
    left_ -= kLanes<C>;
    return v;
  }

 private:
  const C* row_;
  int64_t left_;
  NanWatch<C>& watch_;
};

// From vectors that follow each other, those of the winners of four elements `Step` apart.
template <class C, bool Last, int Step, class Next>
class FourJoined {
 public:
  explicit FourJoined(Next& next) : next_(next) {
    for (int i = 1; i < kAhead; ++i) v_[i] = next_();
  }
  Vector<C> operator()() {
    for (int i = 1; i < kAhead; ++i) v_[i - 1] = v_[i];
    v_[kAhead - 1] = next_();
    const Vector<C> two = later(v_[0], elements_from<C, Step>(v_)), three = later(two, elements_from<C, 2 * Step>(v_));
    return later(three, elements_from<C, 3 * Step>(v_));
  }

 private:
  static constexpr int kAhead = 1 + (3 * Step + kLanes<C> - 1) / kLanes<C>;
  static Vector<C> later(const Vector<C>& best, const Vector<C>& x) {
    return select(takes_over<C, MaxRule::clean, Last>(x, best), x, best);
  }
  Next& next_;
  Vector<C> v_[kAhead];
};

// Sixteen neighbours, every cell read once.
template <class C, bool Last>
Contents sixteens(const C* source, C* out, const RowRun& rows) {
  NanWatch<C> watch;
  for (int64_t r = 0; r < rows.count; ++r) {
    const C* const row = source + r * rows.from_step;
    prefetch_row(row, rows.items);
    RowReader<C> cells(row, rows.items, watch);
    FourJoined<C, Last, 1, RowReader<C>> four(cells);
    FourJoined<C, Last, 4, decltype(four)> sixteen(four);
    C* const target = out + r * rows.to_step;
    for (int64_t o = 0; o < rows.items - 15; o += kLanes<C>) store(target + o, sixteen());
  }
  return watch.found();
}

template <class C, class P, int Stride>
constexpr WindowKernels<C, P> window_kernels() {
  constexpr bool last = std::is_floating_point_v<C>;  // equal integers cannot be told apart
  WindowKernels<C, P> table{{{plain_windows<C, false, Stride, 2>, plain_windows<C, last, Stride, 2>},
                             {plain_windows<C, false, Stride, 3>, plain_windows<C, last, Stride, 3>}},
                            {},
                            {}};
  if constexpr (std::is_floating_point_v<C>) {
    table.changed[0][0] = plain_windows<C, false, Stride, 2, true>;
    table.changed[0][1] = plain_windows<C, true, Stride, 2, true>;
    table.changed[1][0] = plain_windows<C, false, Stride, 3, true>;
    table.changed[1][1] = plain_windows<C, true, Stride, 3, true>;
    table.paired[0][0] = fold_windows<C, P, false, Stride, 2>;
    table.paired[0][1] = fold_windows<C, P, true, Stride, 2>;
    table.paired[1][0] = fold_windows<C, P, false, Stride, 3>;
    table.paired[1][1] = fold_windows<C, P, true, Stride, 3>;
  }
  return table;
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
