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
        report_(report),
        kept_(p.kept == nullptr ? nullptr
                                : p.kept + (outer * ((p.inner + kSoftmaxColumns - 1) / kSoftmaxColumns) +
                                            first / kSoftmaxColumns) * kept_of_tile(p.length)) {}

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
    e_ = kept_ == nullptr ? scratch_ : kept_ + 3 * kSoftmaxColumns + j;
    e_step_ = kept_ == nullptr ? kWide : kSoftmaxColumns;
    if constexpr (kTangents)
      if (kept_ != nullptr) return vector_of_kept(j, read);
    const float *const xs = x(j), *const ts = kTangents ? t(j) : nullptr;
    const Index n = p_.length, step = step_, e_step = e_step_;
    Doubles top = read(xs, 0.0), least = top;
    for (Index i = 1; i < n; ++i) {
      const Doubles v = read(xs + i * step, 0.0);
      top = max_first(top, v);
      least = smallest_of(least, v);
    }
    VectorPair total{}, products{}, without{};
    Doubles sizes{};
    double* const e_all = e_;
    Index i = 0;
    while (i < n) {
      Doubles sum{}, term{};
      for (const Index stop = i + kSteps < n ? i + kSteps : n; i < stop; ++i) {
        Doubles own_e[1] = {Doubles(read(xs + i * step, 0.0) - top)};
        exponentials_below<true>(own_e);
        const Doubles e = own_e[0];
        store(e_all + i * e_step, e);
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
    const Doubles whole = total.high + total.low;
    if (kept_ != nullptr) {
      store(kept_ + j, top);
      store(kept_ + kSoftmaxColumns + j, least);
      store(kept_ + 2 * kSoftmaxColumns + j, whole);
    }
    finish(j, read, {top, least, whole, without.high, products.high + products.low, sizes});
  }

  // The sums of eight columns.
  struct Sums {
    Doubles top, least, total, rest, product, size;
  };
  template <class Read>
  void finish(Index j, const Read& read, const Sums& s) {
    RowForm forms[kWide];
    double logarithms[kWide]{};
    if constexpr (kind == Kind::log_value)
      for (int lane = 0; lane < kWide; ++lane) logarithms[lane] = log_one_plus(s.rest[lane]);
    for (int lane = 0; lane < read.count(); ++lane)
      forms[lane] = row_form<kind>(RowSums{s.top[lane], s.least[lane], s.total[lane], logarithms[lane], s.product[lane],
                                           s.size[lane] * (1 + 0x1p-20)},
                                   p_.length);
    outputs(j, read, VectorForm(forms), forms, s.least);
  }

  // A pullback of what the value has kept.
  template <class Read>
  void vector_of_kept(Index j, const Read& read) {
    const float* const ts = t(j);
    const Index n = p_.length, step = step_;
    VectorPair products{};
    Doubles sizes{};
    const double* const e_all = e_;
    for (Index i = 0; i < n;) {
      Doubles term{};
      for (const Index stop = i + kSteps < n ? i + kSteps : n; i < stop; ++i) {
        const Doubles own = read(ts + i * step, 0.0);
        if constexpr (kPlainSum) {
          term += own;
          sizes += magnitude(own);
        } else {
          const Doubles e = load(e_all + i * kSoftmaxColumns);
          term = multiply_add(e, own, term);
          sizes = multiply_add(e, magnitude(own), sizes);
        }
      }
      products = with(products, term);
    }
    finish(j, read, {load(kept_ + j), load(kept_ + kSoftmaxColumns + j), load(kept_ + 2 * kSoftmaxColumns + j),
                     Doubles{}, products.high + products.low, sizes});
  }

  // Every column without the first of its largest cells.
  VectorPair sum_without_tops(Index n) const {
    VectorPair total{};
    Vector<std::int64_t> seen{};
    for (Index i = 0; i < n; ++i) {
      const Doubles e = load(e_ + i * e_step_);
      const auto own = (e == splat(1.0)) & ~seen;
      seen |= own;
      total = with(total, select(own, Doubles{}, e));
    }
    return total;
  }

  template <class Read>
  void outputs(Index j, const Read& read, const VectorForm& form, const RowForm* forms, const Doubles& least) {
    const Index n = p_.length, step = step_, e_step = e_step_;
    const double* const e_all = e_;
    Cells undecided[kWide];
    for (Index i = 0; i < n; ++i) {
      Doubles t_own{};
      Doubles x_own{};
      if constexpr (kind == Kind::log_value) x_own = read(x(j) + i * step, 0.0);
      if constexpr (kTangents) t_own = read(t(j) + i * step, 0.0);
      const Interval found = interval<kind>(form, load(e_all + i * e_step), x_own, t_own);
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
  double* kept_;            // the tile's, see kKeptHead
  double* e_ = nullptr;     // of a vector of columns
  Index e_step_ = 0;
};

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
