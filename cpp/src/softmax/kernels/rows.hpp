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
template <class T>
inline Range range_of(const T* x, Index n) {
  using V = std::conditional_t<std::is_same_v<T, float>, Vector<float>, Doubles>;
  constexpr Index width = kLanes<lane_type<V>>;
  const double first = number(x[0]);
  Range found{first, first};
  Index at = 0;
  if (n >= 2 * width) {
    const auto read = [&](Index i) HALFULP_INLINE_LAMBDA {
      if constexpr (std::is_same_v<T, float>) return load(x + i);
      else return load_doubles(x + i);
    };
    V top[2] = {read(0), read(width)}, least[2] = {top[0], top[1]};
    for (at = 2 * width; at + 2 * width <= n; at += 2 * width)
      for (int j = 0; j < 2; ++j) {
        const V v = read(at + j * width);
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
template <SoftmaxWork work, bool far>
HALFULP_ALWAYS_INLINE Doubles exponential_below(const Doubles& d) {
  if constexpr (!far) return exponential_of(d);
  const Doubles floor = splat(Floor<work>::lowest);
  const Doubles e = exponential_of(max_first(d, floor));  // a NaN stays
  return select(d < floor, Doubles{}, e);
}

// A row without the largest cell's exponential, which is 1.
inline double sum_without_top(double* e, Index n) {
  Index top_at = 0;
  while (e[top_at] != 1.0) ++top_at;
  e[top_at] = 0.0;
  VectorPair total{};
  Doubles sums[kChains]{};
  in_chains<kChains>(
      n, [&](int chain, const auto& read) HALFULP_INLINE_LAMBDA { sums[chain] += read(e, 0.0); },
      [&]() HALFULP_INLINE_LAMBDA {
        total = with(total, Doubles((sums[0] + sums[1]) + (sums[2] + sums[3])));
        for (Doubles& sum : sums) sum = Doubles{};
      });
  e[top_at] = 1.0;
  return lane_sum(total);
}

template <class T, SoftmaxWork work, bool logarithm>
class QuickRow {
  static constexpr bool kTangents = work != SoftmaxWork::value;
  static constexpr bool kPlainSum = logarithm && work == SoftmaxWork::cotangent;
  static constexpr bool kNeedsExponentials = !(logarithm && work != SoftmaxWork::cotangent);

 public:
  QuickRow(const T* x, const T* t, T* out, Index n, double* scratch)
      : x_(x), t_(t), out_(out), n_(n), e_(scratch) {}

  // False if double cannot be trusted with this row; else `undecided` has the cells that are left.
  bool run(Cells& undecided) {
    const Range range = range_of(x_, n_);
    RowSums sums{range.top, range.least, 0, 0, 0, 0, 0, 0};
    if (!(std::fabs(range.top) < std::numeric_limits<double>::infinity())) return false;
    if constexpr (kTangents) {
      const Range along = range_of(t_, n_);
      sums.t_top = along.top;
      sums.t_least = along.least;
    }
    if (range.top - range.least <= -Floor<work>::lowest && n_ % kWide == 0) exponentials<false>(sums);
    else exponentials<true>(sums);
    if (!std::isfinite(sums.total)) return false;
    if constexpr (work == SoftmaxWork::value && logarithm) {
      const bool close = sums.total < 1.125;  // taking the 1 off would cancel
      sums.rest = close ? sum_without_top(e_, n_) : sums.total - 1.0;
      sums.size = close ? sums.rest : sums.total;
    }
    const RowForm form = row_form<work, logarithm>(sums, n_);
    if (!form.good) return false;
    outputs(VectorForm(form), undecided);
    if constexpr (kTangents && !logarithm)
      if (range.least == -std::numeric_limits<double>::infinity())
        for (Index i = 0; i < n_; ++i)
          if (number(x_[i]) == -std::numeric_limits<double>::infinity()) out_[i] = round_to<T>(0.0);
    return true;
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
          const Doubles e = exponential_below<work, far>(d);
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
    if constexpr (work == SoftmaxWork::value && logarithm) x = read(x_, 0.0);
    if constexpr (kTangents) t = read(t_, 0.0);
    return interval<work, logarithm>(form, e, x, t);
  }
  void outputs(const VectorForm& given, Cells& undecided) {
    constexpr int together = 4;
    const VectorForm form = given;
    T* const out = out_;
    Index at = 0;
    for (; at + together * kWide <= n_; at += together * kWide) {
      Ends<T> ends;
      for (int i = 0; i < together; ++i) {
        const Interval ends_of = found(form, WholeVector{at + i * kWide});
        ends.put(out + at + i * kWide, ends_of.low, ends_of.high);
      }
      if (ends.differ())
        for (int i = 0; i < together; ++i) check(form, WholeVector{at + i * kWide}, undecided);
    }
    for (; at + kWide <= n_; at += kWide) {
      Ends<T> ends;
      const Interval ends_of = found(form, WholeVector{at});
      ends.put(out + at, ends_of.low, ends_of.high);
      if (ends.differ()) check(form, WholeVector{at}, undecided);
    }
    if (at == n_) return;
    Ends<T> ends;
    const FirstItems read{at, n_ - at};
    const Interval ends_of = found(form, read);
    ends.put_first(out + at, ends_of.low, ends_of.high, read.count());
    check(form, read, undecided);
  }
  template <class Read>
  void check(const VectorForm& form, const Read& read, Cells& undecided) const {
    const Interval ends_of = found(form, read);
    for (int i = 0; i < read.count(); ++i)
      if (!same_rounding<T>(ends_of.low[i], ends_of.high[i])) undecided.add(read.at + i);
  }

  const T *x_, *t_;
  T* out_;
  Index n_;
  double* e_;
};

template <class T, SoftmaxWork work, bool logarithm>
void rows_of(const SoftmaxProblem& p, Index begin, Index end, double* scratch, const SoftmaxReport& report) {
  const Index n = p.length;
  for (Index row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(p.x) + row * n;
    const T* t = p.t == nullptr ? nullptr : static_cast<const T*>(p.t) + row * n;
    T* out = static_cast<T*>(p.out) + row * n;
    Cells undecided;
    bool some = false;
    if constexpr (sizeof(T) < sizeof(double)) {
      some = QuickRow<T, work, logarithm>(x, t, out, n, scratch).run(undecided) && undecided.count <= Cells::capacity;
      if (some && undecided.count == 0) continue;
    }
    struct Shifted {
      const SoftmaxReport& report;
      Index start;
    } shifted{report, row * n};
    const SoftmaxReport own{&shifted, [](void* list, Index position) {
                              const Shifted& to = *static_cast<Shifted*>(list);
                              to.report.add(to.report.list, to.start + position);
                            }};
    precise_row<T, work, logarithm>(p, x, t, out, scratch, own, some ? &undecided : nullptr);
  }
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
