// Rows that lie in memory one after the other. For kernels only.
#pragma once

#include "softmax/kernels/precise.hpp"
#include "softmax/kernels/quick.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// The largest and the smallest number of a row; a NaN may be missed.
struct Range {
  double top, least;
};
inline Range range_of(const float* x, Index n) {
  using V = Vector<float>;
  constexpr Index width = kLanes<float>;
  const double first = number(x[0]);
  Range found{first, first};
  Index at = 0;
  if (n >= 2 * width) {
    V top[2] = {load(x), load(x + width)}, least[2] = {top[0], top[1]};
    for (at = 2 * width; at + 2 * width <= n; at += 2 * width)
      for (int j = 0; j < 2; ++j) {
        const V v = load(x + at + j * width);
        top[j] = max_first(top[j], v);
        least[j] = v < least[j] ? v : least[j];
      }
    found.top = static_cast<double>(largest_lane(max_first(top[0], top[1])));
    found.least = -static_cast<double>(largest_lane(max_first(V(-least[0]), V(-least[1]))));
  }
  for (; at < n; ++at) {
    const double v = number(x[at]);
    found.top = v > found.top ? v : found.top;
    found.least = v < found.least ? v : found.least;
  }
  return found;
}

// e of vectors of cells: zero far below the top. A NaN is not far.
template <Kind kind, bool far, int count>
HALFULP_ALWAYS_INLINE void exponentials_below(Doubles (&d)[count]) {
  if constexpr (!far) return exponentials_of(d);
  const Doubles floor = splat(floor_of(kind).lowest);
  Doubles e[count];
  for (int j = 0; j < count; ++j) e[j] = max_first(d[j], floor);  // a NaN stays
  exponentials_of(e);
  for (int j = 0; j < count; ++j) d[j] = select(d[j] < floor, Doubles{}, e[j]);
}

// The sum of a row without one cell.
inline double sum_without(double* e, Index n, Index cell) {
  const double own = e[cell];
  e[cell] = 0.0;
  VectorPair total{};
  Doubles sums[kChains]{};
  in_chains<kChains>(
      n, [&](int chain, const auto& read) HALFULP_INLINE_LAMBDA { sums[chain] += read(e, 0.0); },
      [&]() HALFULP_INLINE_LAMBDA {
        total = with(total, Doubles((sums[0] + sums[1]) + (sums[2] + sums[3])));
        for (Doubles& sum : sums) sum = Doubles{};
      });
  e[cell] = own;
  return lane_sum(total);
}
// The same without the largest cell's exponential, which is 1.
inline double sum_without_top(double* e, Index n) {
  Index top_at = 0;
  while (e[top_at] != 1.0) ++top_at;
  return sum_without(e, n, top_at);
}

template <Kind kind>
class QuickRow {
  static constexpr bool kTangents = !is_value(kind);
  static constexpr bool kPlainSum = kind == Kind::log_cotangent;
  static constexpr bool kNeedsExponentials = kind != Kind::log_value && kind != Kind::log_tangent;

 public:
  QuickRow(const SoftmaxProblem& p, const float* x, const float* t, Index start, float* results, double* scratch)
      : p_(p), x_(x), t_(t), start_(start), results_(results), n_(p.length), e_(scratch) {}

  // False if double cannot be trusted with this row; else `undecided` has the cells that are left.
  bool run(Cells& undecided) {
    RowForm form;
    if (!find(form)) return false;
    put(form, undecided);
    if constexpr (kind == Kind::derivative)
      if (least_ == -std::numeric_limits<double>::infinity())
        for (Index i = 0; i < n_; ++i)
          if (number(x_[i]) == -std::numeric_limits<double>::infinity()) put_as(p_.dtype, 0.0, p_.out, start_ + i);
    return true;
  }
  // The coefficients of the row; its exponentials are in the scratch then.
  bool find(RowForm& form) {
    const Range range = range_of(x_, n_);
    least_ = range.least;
    RowSums& sums = sums_ = RowSums{range.top, range.least, 0, 0, 0, 0};
    if (!(std::fabs(range.top) < std::numeric_limits<double>::infinity())) return false;
    if (range.top - range.least <= -floor_of(kind).lowest && n_ % kWide == 0) exponentials<false>(sums);
    else exponentials<true>(sums);
    if (!std::isfinite(sums.total)) return false;
    if constexpr (kind == Kind::log_value) {
      const bool close = sums.total < 1.125;  // taking the 1 off would cancel
      sums.rest = close ? sum_without_top(e_, n_) : sums.total - 1.0;
      sums.size = close ? sums.rest : sums.total;
    }
    if constexpr (kTangents) {  // a bound of the sum of magnitudes; check() sums them
      most_ = largest_magnitude(t_, n_);
      sums.size = most_ * (kPlainSum ? static_cast<double>(n_) : sums.total) * (1 + 0x1p-20);
      rough_ = true;
    }
    form = row_form<kind>(sums, n_);
    return form.good;
  }
  double least() const { return least_; }
  void put(const RowForm& form, Cells& undecided) {
    form_ = VectorForm(form);
    const RowBound<kind> bound(form, form.top - least_, most_);
    if (!bound.good) intervals(0, n_, undecided);
    else if constexpr (is_value(kind)) values(bound, undecided);
    else derivatives(bound, undecided);
    if (is_half(p_.dtype))
      narrow_floats(p_.dtype, results_, n_, p_.out, start_, [&](Index i) { one(i, undecided); });
  }

 private:
  template <bool far>
  void exponentials(RowSums& found) {
    const Doubles top = splat(found.top);
    VectorPair total{}, products{};
    Doubles sum{}, term{};
    const float *const x = x_, *const t = t_;
    double* const e = e_;
    const auto flush = [&]() HALFULP_INLINE_LAMBDA {
      total = with(total, sum);
      if constexpr (kTangents) products = with(products, term);
      sum = term = Doubles{};
    };
    // Vectors are added to each other before the chain: no number meets more than kLongest additions.
    const auto add = [&](auto... reads) HALFULP_INLINE_LAMBDA {
      constexpr int count = sizeof...(reads);
      Doubles d[count] = {Doubles(reads(x, -std::numeric_limits<double>::infinity()) - top)...};
      exponentials_below<kind, far>(d);
      int next = 0;
      (store(e + reads.at, d[next++]), ...);  // the scratch has room for a whole vector
      if constexpr (kPlainSum) {
        term += (reads(t, 0.0) + ...);
      } else if constexpr (kTangents) {
        Doubles product{};
        next = 0;
        ((product = multiply_add(d[next++], reads(t, 0.0), product)), ...);
        term += product;
      }
      if constexpr (count == 4) sum += (d[0] + d[1]) + (d[2] + d[3]);
      else sum += d[0];
    };
    Index at = 0;
    while (at + kChains * kWide <= n_) {
      const Index left = (n_ - at) / (kChains * kWide), steps = left < kSteps ? left : kSteps;
      for (const Index stop = at + steps * kChains * kWide; at < stop; at += kChains * kWide)
        add(WholeVector{at}, WholeVector{at + kWide}, WholeVector{at + 2 * kWide}, WholeVector{at + 3 * kWide});
      flush();
    }
    for (; at + kWide <= n_; at += kWide) add(WholeVector{at});
    if (at < n_) add(FirstItems{at, n_ - at});
    flush();
    found.total = lane_sum(total);
    found.product = kTangents ? lane_sum(products) : 0.0;
  }
  // The sum of magnitudes, for intervals of cells.
  __attribute__((noinline)) void refine() {
    Doubles sizes{};
    each_vector(n_, [&](const auto& read) HALFULP_INLINE_LAMBDA {
      const Doubles size = magnitude(read(t_, 0.0));
      sizes = kPlainSum ? Doubles(sizes + size) : multiply_add(Doubles(load(e_ + read.at)), size, sizes);
    });
    sums_.size = 0;
    for (int i = 0; i < kWide; ++i) sums_.size += sizes[i] * (1 + 0x1p-20);
    const RowForm form = row_form<kind>(sums_, n_);
    form_ = VectorForm(form);
    sure_ = form.good;
    rough_ = false;
  }

  template <class Read>
  HALFULP_ALWAYS_INLINE Interval found(const Read& read) const {
    Doubles e{}, x{}, t{};
    if constexpr (kNeedsExponentials) e = load(e_ + read.at);
    if constexpr (kind == Kind::log_value) x = read(x_, 0.0);
    if constexpr (kTangents) t = read(t_, 0.0);
    return interval<kind>(form_, e, x, t);
  }
  // The next row is needed soon.
  HALFULP_ALWAYS_INLINE void fetch(Index at, Index count) const {
    for (Index i = at; i < at + count; i += 16) {
      prefetch_line(x_ + n_ + i);
      if constexpr (kTangents) prefetch_line(t_ + n_ + i);
    }
  }
  // Results that are off by a known number of units.
  void values(const RowBound<kind>& bound, Cells& undecided) {
    constexpr Index together = 4 * kWide, chunk = 512;
    const Doubles factor = splat(bound.factor), top = form_.top, shift = form_.shift;
    const float* const x = x_;
    const double* const e = e_;
    float* const out = results_;
    const auto value = [&](Index i) HALFULP_INLINE_LAMBDA {
      if constexpr (kind == Kind::value) return Doubles(load(e + i) * factor);
      else return Doubles((load_doubles(x + i) - top) - shift);
    };
    const Index whole = n_ - n_ % together;
    for (Index at = 0; at < whole;) {
      const Index from = at, stop = whole - at < chunk ? whole : at + chunk;
      Middles middles(bound.margin);
      for (; at < stop; at += together) {
        fetch(at, together);
        middles.put(out + at, value(at), value(at + kWide));
        middles.put(out + at + 2 * kWide, value(at + 2 * kWide), value(at + 3 * kWide));
      }
      if (middles.unsure(bound.margin)) intervals(from, stop, undecided);
    }
    if (whole < n_) intervals(whole, n_, undecided);
  }
  void derivatives(const RowBound<kind>& bound, Cells& undecided) {
    const Doubles factor = splat(bound.factor), low = splat(bound.low), high = splat(bound.high);
    const float* const t = t_;
    const double* const e = e_;
    outputs(0, n_, undecided, [=](const auto& read) HALFULP_INLINE_LAMBDA {
      const Doubles own = read(t, 0.0), p = load(e + read.at);
      if constexpr (kind == Kind::derivative)
        return Interval{p * multiply_add(own, factor, low), p * multiply_add(own, factor, high)};
      const Doubles y = multiply_add(p, factor, own);
      return Interval{y - high, y + high};
    });
  }
  __attribute__((noinline)) void intervals(Index at, Index end, Cells& undecided) {
    outputs(at, end, undecided, [&](const auto& read) HALFULP_INLINE_LAMBDA { return found(read); });
  }
  // The ends of intervals.
  template <class Ends_of>
  HALFULP_ALWAYS_INLINE void outputs(Index at, Index end, Cells& undecided, const Ends_of& ends_of) {
    constexpr int together = 4;
    float* const out = results_;
    for (; at + together * kWide <= end; at += together * kWide) {
      Ends<float> ends;
      fetch(at, together * kWide);
      for (int i = 0; i < together; ++i) {
        const Interval own = ends_of(WholeVector{at + i * kWide});
        ends.put(out + at + i * kWide, own.low, own.high);
      }
      if (ends.differ()) check(at, together * kWide, undecided);
    }
    for (; at < end; at += kWide) {
      Ends<float> ends;
      const FirstItems read{at, end - at < kWide ? end - at : kWide};
      const Interval own = ends_of(read);
      ends.put_first(out + at, own.low, own.high, read.count());
      if (ends.differ()) check(at, read.count(), undecided);
    }
  }
  __attribute__((noinline)) void check(Index at, Index count, Cells& undecided) {
    for (Index i = at; i < at + count; ++i) {
      if (is_half(p_.dtype)) results_[i] = undecided_float(p_.dtype);
      else one(i, undecided);
    }
  }
  __attribute__((noinline)) void one(Index i, Cells& undecided) {
    if constexpr (kTangents)
      if (rough_) refine();
    const Interval own = found(FirstItems{i, 1});
    if (!sure_ || !round_ends(p_.dtype, own.low[0], own.high[0], p_.out, start_ + i)) undecided.add(i);
  }

  const SoftmaxProblem& p_;
  const float *x_, *t_;
  Index start_;
  float* results_;
  Index n_;
  double* e_;
  double least_ = 0, most_ = 0;
  RowSums sums_{};
  VectorForm form_{RowForm{}};
  bool rough_ = false, sure_ = true;
};

template <Kind kind>
void rows_of(const SoftmaxProblem& p, Index begin, Index end, double* scratch, const SoftmaxReport& report) {
  const Index n = p.length;
  const bool half = is_half(p.dtype);
  float* const floats = reinterpret_cast<float*>(scratch + n + kWide);  // of half types: cells, tangents, results
  for (Index row = begin; row < end; ++row) {
    Cells undecided;
    bool some = false;
    if (p.dtype != DType::f64) {
      if (half) widen_to(floats, p.dtype, p.x, row * n, n);
      if (half && !is_value(kind)) widen_to(floats + n, p.dtype, p.t, row * n, n);
      const float* const x = half ? floats : static_cast<const float*>(p.x) + row * n;
      const float* const t = half || is_value(kind) ? floats + n : static_cast<const float*>(p.t) + row * n;
      float* const results = half ? floats + 2 * n : static_cast<float*>(p.out) + row * n;
      some = QuickRow<kind>(p, x, t, row * n, results, scratch).run(undecided) && undecided.count <= Cells::capacity;
      if (some && undecided.count == 0) continue;
    }
    precise_row(p, row * n, 1, scratch, report, some ? &undecided : nullptr);
  }
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
