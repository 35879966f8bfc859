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

// e of a vector of cells: zero far below the top. A NaN is not far.
template <Kind kind, bool far>
HALFULP_ALWAYS_INLINE Doubles exponential_below(const Doubles& d) {
  if constexpr (!far) return exponential_of(d);
  const Doubles floor = splat(floor_of(kind).lowest);
  const Doubles e = exponential_of(max_first(d, floor));  // a NaN stays
  return select(d < floor, Doubles{}, e);
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
    RowSums sums{range.top, range.least, 0, 0, 0, 0};
    if (!(std::fabs(range.top) < std::numeric_limits<double>::infinity())) return false;
    if (range.top - range.least <= -floor_of(kind).lowest && n_ % kWide == 0) exponentials<false>(sums);
    else exponentials<true>(sums);
    if (!std::isfinite(sums.total)) return false;
    if constexpr (kind == Kind::log_value) {
      const bool close = sums.total < 1.125;  // taking the 1 off would cancel
      sums.rest = close ? sum_without_top(e_, n_) : sums.total - 1.0;
      sums.size = close ? sums.rest : sums.total;
    }
    form = row_form<kind>(sums, n_);
    return form.good;
  }
  double least() const { return least_; }
  void put(const RowForm& form, Cells& undecided) {
    const VectorForm all(form);
    outputs(all, undecided);
    if (is_half(p_.dtype))
      narrow_floats(p_.dtype, results_, n_, p_.out, start_, [&](Index i) { one(all, i, undecided); });
  }

 private:
  template <bool far>
  void exponentials(RowSums& found) {
    const Doubles top = splat(found.top);
    VectorPair total{}, products{};
    constexpr int chains = 2;
    Doubles sums[chains]{}, terms[chains]{}, sizes{};
    in_chains<chains>(
        n_,
        [&](int chain, const auto& read) HALFULP_INLINE_LAMBDA {
          const Doubles d = read(x_, -std::numeric_limits<double>::infinity()) - top;
          const Doubles e = exponential_below<kind, far>(d);
          store(e_ + read.at, e);  // the scratch has room for a whole vector
          sums[chain] += e;
          if constexpr (kPlainSum) {
            const Doubles t = read(t_, 0.0);
            terms[chain] += t;
            sizes += magnitude(t);
          } else if constexpr (kTangents) {
            const Doubles t = read(t_, 0.0);
            terms[chain] = multiply_add(e, t, terms[chain]);
            sizes = multiply_add(e, magnitude(t), sizes);
          }
        },
        [&]() HALFULP_INLINE_LAMBDA {
          total = with(total, Doubles(sums[0] + sums[1]));
          if constexpr (kTangents) products = with(products, Doubles(terms[0] + terms[1]));
          for (int i = 0; i < chains; ++i) sums[i] = terms[i] = Doubles{};
        });
    found.total = lane_sum(total);
    found.product = kTangents ? lane_sum(products) : 0.0;
    for (int i = 0; i < kWide; ++i) found.size += sizes[i] * (1 + 0x1p-20);
  }

  template <class Read>
  HALFULP_ALWAYS_INLINE Interval found(const VectorForm& form, const Read& read) const {
    Doubles e{}, x{}, t{};
    if constexpr (kNeedsExponentials) e = load(e_ + read.at);
    if constexpr (kind == Kind::log_value) x = read(x_, 0.0);
    if constexpr (kTangents) t = read(t_, 0.0);
    return interval<kind>(form, e, x, t);
  }
  void outputs(const VectorForm& given, Cells& undecided) {
    constexpr int together = 4;
    const VectorForm form = given;
    float* const out = results_;
    Index at = 0;
    for (; at + together * kWide <= n_; at += together * kWide) {
      Ends<float> ends;
      for (int i = 0; i < together; ++i) {
        const Interval ends_of = found(form, WholeVector{at + i * kWide});
        ends.put(out + at + i * kWide, ends_of.low, ends_of.high);
      }
      if (ends.differ()) check(given, at, together * kWide, undecided);
    }
    for (; at < n_; at += kWide) {
      Ends<float> ends;
      const FirstItems read{at, n_ - at < kWide ? n_ - at : kWide};
      const Interval ends_of = found(form, read);
      ends.put_first(out + at, ends_of.low, ends_of.high, read.count());
      if (ends.differ()) check(given, at, read.count(), undecided);
    }
  }
  __attribute__((noinline)) void check(const VectorForm& form, Index at, Index count, Cells& undecided) const {
    for (Index i = at; i < at + count; ++i) {
      if (is_half(p_.dtype)) results_[i] = undecided_float(p_.dtype);
      else one(form, i, undecided);
    }
  }
  __attribute__((noinline)) void one(const VectorForm& form, Index i, Cells& undecided) const {
    const Interval ends_of = found(form, FirstItems{i, 1});
    if (!round_ends(p_.dtype, ends_of.low[0], ends_of.high[0], p_.out, start_ + i)) undecided.add(i);
  }

  const SoftmaxProblem& p_;
  const float *x_, *t_;
  Index start_;
  float* results_;
  Index n_;
  double* e_;
  double least_ = 0;
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
