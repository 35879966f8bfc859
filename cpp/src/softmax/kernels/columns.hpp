// Rows along another axis than the last: a vector has one cell of each of neighbouring columns. For kernels only.
#pragma once

#include "softmax/kernels/rows.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

HALFULP_ALWAYS_INLINE Doubles smallest_of(const Doubles& first, const Doubles& second) {
  return -max_first(Doubles(-first), Doubles(-second));
}

template <class T, SoftmaxWork work, bool logarithm>
class Tile {
  static constexpr bool kTangents = work != SoftmaxWork::value;
  static constexpr bool kPlainSum = logarithm && work == SoftmaxWork::cotangent;

 public:
  Tile(const SoftmaxProblem& p, Index outer, Index first, double* scratch, const SoftmaxReport& report)
      : p_(p),
        start_(outer * p.length * p.inner + first),
        count_(p.inner - first < kSoftmaxColumns ? p.inner - first : kSoftmaxColumns),
        scratch_(scratch),
        report_(report) {}

  void run() {
    if constexpr (sizeof(T) == sizeof(double)) {
      for (Index j = 0; j < count_; ++j) precise(j);
    } else {
      for (Index j = 0; j < count_; j += kWide) {
        if (j + kWide <= count_) vector(j, WholeVector{0});
        else vector(j, FirstItems{0, count_ - j});
      }
    }
  }

 private:
  const T* x(Index j) const { return static_cast<const T*>(p_.x) + start_ + j; }
  const T* t(Index j) const { return p_.t == nullptr ? nullptr : static_cast<const T*>(p_.t) + start_ + j; }
  T* out(Index j) const { return static_cast<T*>(p_.out) + start_ + j; }

  template <class Read>
  void vector(Index j, const Read& read) {
    const T *xs = x(j), *ts = t(j);
    const Index n = p_.length, step = p_.inner;
    Doubles top = read(xs, 0.0), least = top, t_top{}, t_least{};
    if constexpr (kTangents) t_top = t_least = read(ts, 0.0);
    for (Index i = 1; i < n; ++i) {
      const Doubles v = read(xs + i * step, 0.0);
      top = max_first(top, v);
      least = smallest_of(least, v);
      if constexpr (kTangents) {
        const Doubles w = read(ts + i * step, 0.0);
        t_top = max_first(t_top, w);
        t_least = smallest_of(t_least, w);
      }
    }
    VectorPair total{}, products{}, without{};
    Doubles sizes{};
    double* const e_all = scratch_;
    Index i = 0;
    while (i < n) {
      Doubles sum{}, term{};
      for (const Index stop = i + kSteps < n ? i + kSteps : n; i < stop; ++i) {
        const Doubles e = exponential_below<work, true>(Doubles(read(xs + i * step, 0.0) - top));
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
    if constexpr (work == SoftmaxWork::value && logarithm) without = sum_without_tops(n);
    RowForm forms[kWide];
    for (int lane = 0; lane < kWide; ++lane) {
      const double whole = total.high[lane] + total.low[lane];
      const RowSums sums{top[lane], least[lane], whole, without.high[lane], products.high[lane] + products.low[lane],
                         (kTangents ? sizes[lane] : without.high[lane]) * (1 + 0x1p-20), t_top[lane], t_least[lane]};
      if (lane < read.count()) forms[lane] = row_form<work, logarithm>(sums, n);
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
    const Index n = p_.length, step = p_.inner;
    Cells undecided[kWide];
    for (Index i = 0; i < n; ++i) {
      Doubles t_own{};
      const Doubles x_own = read(x(j) + i * step, 0.0);
      if constexpr (kTangents) t_own = read(t(j) + i * step, 0.0);
      const Interval found = interval<work, logarithm>(form, load(scratch_ + i * kWide), x_own, t_own);
      Ends<T> ends;
      if constexpr (std::is_same_v<Read, WholeVector>) ends.put(out(j) + i * step, found.low, found.high);
      else ends.put_first(out(j) + i * step, found.low, found.high, read.count());
      if (ends.differ())
        for (int lane = 0; lane < read.count(); ++lane)
          if (!same_rounding<T>(found.low[lane], found.high[lane])) undecided[lane].add(i);
    }
    for (int lane = 0; lane < read.count(); ++lane) {
      const Cells& own = undecided[lane];
      if (!forms[lane].good || own.count > Cells::capacity) {
        precise(j + lane);
        continue;
      }
      if (own.count > 0) precise(j + lane, &own);
      if (kTangents && !logarithm && least[lane] == -std::numeric_limits<double>::infinity())
        for (Index i = 0; i < n; ++i)
          if (number(x(j + lane)[i * step]) == -std::numeric_limits<double>::infinity())
            out(j + lane)[i * step] = round_to<T>(0.0);
    }
  }

  // One column in pairs of doubles, gathered.
  __attribute__((noinline)) void precise(Index j, const Cells* cells = nullptr) {
    const Index n = p_.length;
    double* const numbers = scratch_ + kSoftmaxColumns * n;
    T* const xs = reinterpret_cast<T*>(numbers + 2 * n);
    T* const ts = reinterpret_cast<T*>(numbers + 3 * n);
    T* const outs = reinterpret_cast<T*>(numbers + 4 * n);
    for (Index i = 0; i < n; ++i) {
      xs[i] = x(j)[i * p_.inner];
      if (kTangents) ts[i] = t(j)[i * p_.inner];
    }
    struct Spread {
      const SoftmaxReport& report;
      Index start, step;
    } spread{report_, start_ + j, p_.inner};
    const SoftmaxReport own{&spread, [](void* list, Index position) {
                              const Spread& to = *static_cast<Spread*>(list);
                              to.report.add(to.report.list, to.start + position * to.step);
                            }};
    precise_row<T, work, logarithm>(p_, xs, kTangents ? ts : nullptr, outs, numbers, own, cells);
    const Index count = cells == nullptr ? n : cells->count;
    for (Index c = 0; c < count; ++c) {
      const Index i = cells == nullptr ? c : cells->at[c];
      out(j)[i * p_.inner] = outs[i];
    }
  }

  const SoftmaxProblem& p_;
  Index start_, count_;
  double* scratch_;
  const SoftmaxReport& report_;
};

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
