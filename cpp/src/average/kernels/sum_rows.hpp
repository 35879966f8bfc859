// Rows added into a row of sums: rows of the source, or rows that are sums already. Included by kernels only.
#pragma once

#include "average/kernels/line_values.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// What a row adds at i.
template <class H, class V, class T>
inline V term(const T* row, Index i) {
  return widened<V>(row + i);
}
template <class H, class V>
inline Held<H, V> term(const Sums& row, Index i) {
  return get<H, V>(row, i);
}
template <class H, class V, class T>
inline Held<H, V> first_term(const T* row, Index i) {
  return held<H, V>(widened<V>(row + i));
}
template <class H, class V>
inline Held<H, V> first_term(const Sums& row, Index i) {
  return get<H, V>(row, i);
}

template <class V>
inline V negated(const V& x) {
  return -x;
}
template <class V>
inline Single<V> negated(const Single<V>& a) {
  return {-a.sum};
}
template <class V>
inline Pair<V> negated(const Pair<V>& a) {
  return {-a.sum, -a.low};
}

// Adds `Count` rows to the row of sums, or starts it with them. Weighted: each times its weight.
template <class H, bool Weighted, int Count, bool Start, class Row>
void add_group(const Row& source, const Index* rows, const double* weights, Index n, const Sums& out) {
  Row x[Count];
  double weight[Count];
  for (int r = 0; r < Count; ++r) x[r] = source + rows[r];
  for (int r = 0; r < Count; ++r) weight[r] = Weighted ? weights[r] : 1.0;
  for_each_vector(n, [&](auto tag, Index i) {
    using V = typename decltype(tag)::type;
    const auto more = [&](int r) {
      if constexpr (Weighted) return times(first_term<H, V>(x[r], i), all<V>(weight[r]));
      else return term<H, V>(x[r], i);
    };
    Held<H, V> v;
    if constexpr (!Start) v = plus(get<H, V>(out, i), more(0));
    else if constexpr (Weighted) v = more(0);
    else v = first_term<H, V>(x[0], i);
    for (int r = 1; r < Count; ++r) v = plus(v, more(r));
    put(out, i, v);
  });
}

template <class H, bool Weighted = false, class Row>
void add_rows(const Row& source, const Index* rows, Index count, Index n, const Sums& out,
              const double* weights = nullptr) {
  switch (count) {
    case 1: return add_group<H, Weighted, 1, true>(source, rows, weights, n, out);
    case 2: return add_group<H, Weighted, 2, true>(source, rows, weights, n, out);
    case 3: return add_group<H, Weighted, 3, true>(source, rows, weights, n, out);
    default: add_group<H, Weighted, 4, true>(source, rows, weights, n, out);
  }
  for (Index r = 4; r < count; r += 4) {
    const double* const next = Weighted ? weights + r : nullptr;
    switch (count - r) {
      case 1: return add_group<H, Weighted, 1, false>(source, rows + r, next, n, out);
      case 2: return add_group<H, Weighted, 2, false>(source, rows + r, next, n, out);
      case 3: return add_group<H, Weighted, 3, false>(source, rows + r, next, n, out);
      default: add_group<H, Weighted, 4, false>(source, rows + r, next, n, out);
    }
  }
}

// Brings sum and low back to high and low part of their value, so that low stays small however long a slide goes on.
template <class V>
inline Single<V> renormalised(const Single<V>& a) {
  return a;
}
template <class V>
inline Pair<V> renormalised(const Pair<V>& a) {
  return plus(Pair<V>{a.sum, a.sum - a.sum}, a.low);
}

// Adds one row and subtracts another.
template <class H, bool Enters, bool Leaves, class Row>
HALFULP_NOINLINE void slide_row(const Sums& from, const Row& entering, const Row& leaving, Index n, const Sums& to) {
  const Sums in = from, out = to;
  const Row more = entering, less = leaving;
  for_each_vector(n, [&](auto tag, Index i) {
    using V = typename decltype(tag)::type;
    Held<H, V> v = get<H, V>(in, i);
    if constexpr (Enters) v = plus(v, term<H, V>(more, i));
    if constexpr (Leaves) v = plus(v, negated(term<H, V>(less, i)));
    put(out, i, renormalised(v));
  });
}

template <class H, class Row>
void slide(const Sums& from, bool enters, const Row& entering, bool leaves, const Row& leaving, Index n,
           const Sums& to) {
  const auto run = !leaves  ? slide_row<H, true, false, Row>
                   : enters ? slide_row<H, true, true, Row>
                            : slide_row<H, false, true, Row>;
  run(from, entering, leaving, n, to);
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
