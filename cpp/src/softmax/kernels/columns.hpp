// Rows along another axis than the last: a vector has one cell of each of neighbouring columns. For kernels only.
#pragma once

#include "softmax/kernels/rows.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

HALFULP_ALWAYS_INLINE Doubles smallest_of(const Doubles& first, const Doubles& second) {
  return -max_first(Doubles(-first), Doubles(-second));
}

template <Kind kind>
class Tile {
  static constexpr bool kTangents = !is_value(kind);
  static constexpr bool kPlainSum = kind == Kind::log_cotangent;

 public:
  Tile(const SoftmaxProblem& p, Index outer, Index first, double* scratch, const SoftmaxReport& report)
      : p_(p),
        start_(outer * p.length * p.inner + first),
        count_(p.inner - first < kSoftmaxColumns ? p.inner - first : kSoftmaxColumns),
        scratch_(scratch),
        report_(report) {}

  void run() {
    if (p_.dtype == DType::f64) {
      for (Index j = 0; j < count_; ++j) precise(j);
      return;
    }
    if (is_half(p_.dtype)) {
      widen();
    } else {
      x_ = static_cast<const float*>(p_.x) + start_;
      if (kTangents) t_ = static_cast<const float*>(p_.t) + start_;
      out_ = static_cast<float*>(p_.out) + start_;
      step_ = p_.inner;
    }
    for (Index j = 0; j < count_; j += kWide) {
      if (j + kWide <= count_) vector(j, WholeVector{0});
      else vector(j, FirstItems{0, count_ - j});
    }
  }

 private:
  const float* x(Index j) const { return x_ + j; }
  const float* t(Index j) const { return t_ + j; }
  float* out(Index j) const { return out_ + j; }
  double* spare() const { return scratch_ + kSoftmaxColumns * p_.length; }

  // Half types: cells, tangents and results as floats.
  void widen() {
    const Index n = p_.length, size = n * kSoftmaxColumns;
    float* const floats = reinterpret_cast<float*>(spare() + 4 * n);
    for (Index i = 0; i < n; ++i) {
      const Index from = start_ + i * p_.inner;
      widen_to(floats + i * kSoftmaxColumns, p_.dtype, p_.x, from, count_);
      if (kTangents) widen_to(floats + size + i * kSoftmaxColumns, p_.dtype, p_.t, from, count_);
    }
    x_ = floats;
    t_ = floats + size;
    out_ = floats + 2 * size;
    step_ = kSoftmaxColumns;
  }

  template <class Read>
  void vector(Index j, const Read& read) {
    const float *const xs = x(j), *const ts = kTangents ? t(j) : nullptr;
    const Index n = p_.length, step = step_;
    Doubles top = read(xs, 0.0), least = top;
    for (Index i = 1; i < n; ++i) {
      const Doubles v = read(xs + i * step, 0.0);
      top = max_first(top, v);
      least = smallest_of(least, v);
    }
    VectorPair total{}, products{}, without{};
    Doubles sizes{};
    double* const e_all = scratch_;
    Index i = 0;
    while (i < n) {
      Doubles sum{}, term{};
      for (const Index stop = i + kSteps < n ? i + kSteps : n; i < stop; ++i) {
        Doubles own_e[1] = {Doubles(read(xs + i * step, 0.0) - top)};
        exponentials_below<kind, true>(own_e);
        const Doubles e = own_e[0];
        store(e_all + i * kWide, e);
        sum += e;
        if constexpr (kPlainSum) {
          const Doubles own = read(ts + i * step, 0.0);
          term += own;
          sizes += magnitude(own);
        } else if constexpr (kTangents) {
          const Doubles own = read(ts + i * step, 0.0);
          term = multiply_add(e, own, term);
          sizes = multiply_add(e, magnitude(own), sizes);
        }
      }
      total = with(total, sum);
      if constexpr (kTangents) products = with(products, term);
    }
    if constexpr (kind == Kind::log_value) {
      // Taking the 1 off would cancel in some column.
      const Doubles whole = total.high + total.low;
      without.high = whole - 1.0;
      sizes = whole;
      if (!all_lanes(whole >= splat(1.125))) {
        without = sum_without_tops(n);
        sizes = without.high;
      }
    }
    RowForm forms[kWide];
    for (int lane = 0; lane < kWide; ++lane) {
      const double whole = total.high[lane] + total.low[lane];
      const RowSums sums{top[lane], least[lane], whole, without.high[lane], products.high[lane] + products.low[lane],
                         sizes[lane] * (1 + 0x1p-20)};
      if (lane < read.count()) forms[lane] = row_form<kind>(sums, n);
    }
    outputs(j, read, VectorForm(forms), forms, least);
  }

  // Every column without the first of its largest cells.
  VectorPair sum_without_tops(Index n) const {
    VectorPair total{};
    Vector<std::int64_t> seen{};
    for (Index i = 0; i < n; ++i) {
      const Doubles e = load(scratch_ + i * kWide);
      const auto own = (e == splat(1.0)) & ~seen;
      seen |= own;
      total = with(total, select(own, Doubles{}, e));
    }
    return total;
  }

  template <class Read>
  void outputs(Index j, const Read& read, const VectorForm& form, const RowForm* forms, const Doubles& least) {
    const Index n = p_.length, step = step_;
    Cells undecided[kWide];
    for (Index i = 0; i < n; ++i) {
      Doubles t_own{};
      const Doubles x_own = read(x(j) + i * step, 0.0);
      if constexpr (kTangents) t_own = read(t(j) + i * step, 0.0);
      const Interval found = interval<kind>(form, load(scratch_ + i * kWide), x_own, t_own);
      Ends<float> ends;
      if constexpr (std::is_same_v<Read, WholeVector>) ends.put(out(j) + i * step, found.low, found.high);
      else ends.put_first(out(j) + i * step, found.low, found.high, read.count());
      if (is_half(p_.dtype)) {
        const bool differ = ends.differ();
        for (int lane = 0; lane < read.count() && differ; ++lane) out(j + lane)[i * step] = undecided_float(p_.dtype);
        narrow_floats(p_.dtype, out(j) + i * step, read.count(), p_.out, start_ + i * p_.inner + j,
                      [&](Index lane) { one(found, i, j, static_cast<int>(lane), undecided); });
      } else if (ends.differ()) {
        for (int lane = 0; lane < read.count(); ++lane) one(found, i, j, lane, undecided);
      }
    }
    for (int lane = 0; lane < read.count(); ++lane) {
      const Cells& own = undecided[lane];
      if (!forms[lane].good || own.count > Cells::capacity) {
        precise(j + lane);
        continue;
      }
      if (own.count > 0) precise(j + lane, &own);
      if (kind == Kind::derivative && least[lane] == -std::numeric_limits<double>::infinity())
        for (Index i = 0; i < n; ++i)
          if (number(x(j + lane)[i * step]) == -std::numeric_limits<double>::infinity())
            put_as(p_.dtype, 0.0, p_.out, start_ + i * p_.inner + j + lane);
    }
  }
  __attribute__((noinline)) void one(const Interval& found, Index i, Index j, int lane, Cells* undecided) const {
    if (!round_ends(p_.dtype, found.low[lane], found.high[lane], p_.out, start_ + i * p_.inner + j + lane))
      undecided[lane].add(i);
  }

  // One column in pairs of doubles, gathered.
  void precise(Index j, const Cells* cells = nullptr) {
    precise_row(p_, start_ + j, p_.inner, spare(), report_, cells);
  }

  const SoftmaxProblem& p_;
  Index start_, count_, step_ = 0;
  const float *x_ = nullptr, *t_ = nullptr;
  float* out_ = nullptr;
  double* scratch_;
  const SoftmaxReport& report_;
};

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
