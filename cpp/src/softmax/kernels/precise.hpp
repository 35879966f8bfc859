// Rows of softmax in pairs of doubles: float64, what double leaves undecided, and rows with numbers that are not
// finite. For kernels only.
#pragma once

#include "normalize/kernels/sums.hpp"
#include "softmax/softmax_kernels.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// Which formula is evaluated, see halfulp/softmax.hpp. Tangent and cotangent of softmax are one.
enum class Kind { value, derivative, log_value, log_tangent, log_cotangent };
constexpr bool is_value(Kind kind) { return kind == Kind::value || kind == Kind::log_value; }

// body(kind) for the problem.
template <class Body>
void chosen(const SoftmaxProblem& p, const Body& body) {
  if (!p.logarithm) {
    if (p.work == SoftmaxWork::value) return body(std::integral_constant<Kind, Kind::value>{});
    return body(std::integral_constant<Kind, Kind::derivative>{});
  }
  if (p.work == SoftmaxWork::value) return body(std::integral_constant<Kind, Kind::log_value>{});
  if (p.work == SoftmaxWork::tangent) return body(std::integral_constant<Kind, Kind::log_tangent>{});
  body(std::integral_constant<Kind, Kind::log_cotangent>{});
}

constexpr double kPairFloor = -600.0;  // exponentials below this one are taken for zeros; the bound counts them

// Cells of a row that double leaves undecided; if there are too many, all count as undecided.
struct Cells {
  static constexpr Index capacity = 32;
  Index at[capacity], count = 0;
  void add(Index cell) {
    if (count < capacity) at[count] = cell;
    ++count;
  }
};

// What a row holds.
struct Survey {
  double top = -INFINITY, least = INFINITY;  // of the cells that are not -inf
  bool bad = false;
  Index present = 0;

  Survey(const double* x, Index n) {
    for (Index i = 0; i < n; ++i) {
      const double v = x[i];
      bad |= !(v < INFINITY);
      if (v == -INFINITY) continue;
      ++present;
      top = v > top ? v : top;
      least = v < least ? v : least;
    }
  }
};

class PairRow {
  static constexpr double u = RealTraits<Pair>::unit;

 public:
  // The scratch holds 2 * length numbers.
  PairRow(const SoftmaxProblem& p, const double* x, const double* t, const Survey& seen, Index top_at, double* scratch)
      : p_(p),
        x_(x),
        t_(t),
        n_(p.length),
        top_(seen.top),
        top_at_(top_at),
        high_(scratch),
        low_(scratch + p.length),
        // A difference is rounded once, which changes its exponential by |d| units at most.
        term_((10 + std::fmin(seen.top - seen.least, -kPairFloor)) * u) {}

  // False if pairs cannot be trusted with this row.
  bool prepare() {
    if (!(std::fabs(top_) < 0x1p1000)) return false;
    const Pair rest = exponentials();
    const double k = (static_cast<double>(n_) * 0x1p-14 + 16) * u;
    tiny_ = static_cast<double>(n_) * 0x1p-860;  // exponentials below the floor are each less than e^-600
    const double rest_error = rest.high * (k + term_) + tiny_;
    total_ = pair_one() + rest;
    total_error_ = (rest_error + 2 * u * total_.high) / total_.high;  // relative
    inverse_ = pair_one() / total_;
    if (p_.logarithm && p_.work == SoftmaxWork::value) {
      log_ = log_one_plus(rest);
      log_error_ = rest_error * 1.01 + std::fabs(log_.high) * 20 * u;
    }
    if (t_ != nullptr) sums(k + u);
    return std::isfinite(sum_size_);
  }

  template <Kind kind>
  Pair one(Index i, double& error, double& sign) const {
    sign = 0;
    if constexpr (kind == Kind::log_value) {
      const Pair d = difference(x_[i], top_, static_cast<Pair*>(nullptr));
      const Pair y = d + -log_;
      error = log_error_ + 2 * u * (std::fabs(d.high) + std::fabs(y.high));
      sign = -1.0;
      return y;
    }
    const Pair p = Pair{high_[i], low_[i]} * inverse_;
    const double p_error = p.high * (term_ + total_error_ * 1.01 + 12 * u) + tiny_, sum_size = std::fabs(sum_.high);
    if constexpr (kind == Kind::value) {
      error = p_error;
      sign = 1;
      return p;
    }
    const Pair t{t_[i], 0.0};
    const double t_size = std::fabs(t.high);
    if constexpr (kind == Kind::log_cotangent) {
      const Pair product = p * sum_;
      error = (p_error * sum_size + p.high * sum_error_) * 1.02 + 6 * u * (t_size + std::fabs(product.high));
      return t + -product;
    }
    const Pair gap = t + -sum_;
    const double gap_error = sum_error_ + 4 * u * (t_size + sum_size), gap_size = std::fabs(gap.high);
    if constexpr (kind == Kind::log_tangent) {
      error = gap_error;
      return gap;
    }
    const Pair y = p * gap;
    sign = gap_size > gap_error ? (gap.high > 0 ? 1.0 : -1.0) : 0.0;
    error = (p.high * gap_error + p_error * (gap_size + gap_error)) * 1.02 + 4 * u * std::fabs(y.high) + 0x1p-1000;
    return y;
  }

 private:
  static Pair pair_one() { return {1.0, 0.0}; }

  // exp(d) of every cell into the scratch; returns their sum without that of the largest cell.
  Pair exponentials() {
    PairSum total;
    const Doubles top = splat(-top_), floor = splat(kPairFloor);
    each_vector(n_, [&](const auto& read) HALFULP_IN_LINE {
      const VectorPair d = sum_of(read(x_, -INFINITY), top);
      const auto far = d.high < floor;
      VectorPair e = exponential(VectorPair{select(far, floor, d.high), select(far, Doubles{}, d.low)});
      e = VectorPair{select(far, Doubles{}, e.high), select(far, Doubles{}, e.low)};
      double high[kWide], low[kWide];
      store(high, e.high);
      store(low, e.low);
      for (Index i = 0; i < read.count(); ++i) {
        const bool own = read.at + i == top_at_;
        high_[read.at + i] = own ? 1.0 : high[i];
        low_[read.at + i] = own ? 0.0 : low[i];
        high[i] = own ? 0.0 : high[i];
        low[i] = own ? 0.0 : low[i];
      }
      total.add(VectorPair{load(high), load(low)});
    });
    return total.sum();
  }

  // The sum of p t, or of the cotangents.
  void sums(double k) {
    const bool plain = p_.logarithm && p_.work == SoftmaxWork::cotangent;
    PairSum terms;
    Doubles sizes{}, most{}, least = splat(kLargest);
    each_vector(n_, [&](const auto& read) HALFULP_IN_LINE {
      const Doubles t = read(t_, 0.0), t_size = magnitude(t);
      const auto own = read;
      const VectorPair e{own(high_, 0.0), own(low_, 0.0)};
      const VectorPair term = plain ? VectorPair{t, Doubles{}} : VectorPair{t, Doubles{}} * e;
      terms.add(term);
      sizes += magnitude(term.high);
      most = max_first(most, t_size);
      least = select((t_size < least) & (t_size != Doubles{}), t_size, least);
    });
    const Pair total = terms.sum();
    double size = 0, largest = 0;
    for (int i = 0; i < kWide; ++i) {
      size += sizes[i] * (1 + 0x1p-20);
      largest = std::fmax(largest, most[i]);
      if (!(least[i] > kSmallest)) size = INFINITY;
    }
    if (!(largest < kLargest)) size = INFINITY;
    sum_size_ = size;
    if (plain) {
      sum_ = total;
      sum_error_ = size * k * 1.01;
      return;
    }
    sum_ = total / total_;
    sum_error_ = (size / total_.high) * (k + term_ + total_error_ * 1.01 + 6 * u) * 1.01 + tiny_ * largest;
  }

  const SoftmaxProblem& p_;
  const double *x_, *t_;
  Index n_;
  double top_;
  Index top_at_;
  double *high_, *low_;
  double term_, tiny_ = 0, total_error_ = 0, log_error_ = 0, sum_error_ = 0, sum_size_ = 0;
  Pair total_{}, inverse_{}, log_{}, sum_{};
};

// All of a row, or some cells. The row is gathered from every step-th position on from `start`; the scratch holds
// 4 * length numbers.
HALFULP_NOINLINE inline void precise_row(const SoftmaxProblem& p, Index start, Index step, double* scratch,
                                                  const SoftmaxReport& report, const Cells* cells) {
  const Index n = p.length;
  const SoftmaxWork work = p.work;
  double *const x = scratch + 2 * n, *const t = p.t == nullptr ? nullptr : scratch + 3 * n;
  if (step == 1) widen_to(x, p.dtype, p.x, start, n);
  if (step == 1 && t != nullptr) widen_to(t, p.dtype, p.t, start, n);
  for (Index i = 0; i < n && step != 1; ++i) {
    x[i] = number_at(p.dtype, p.x, start + i * step);
    if (t != nullptr) t[i] = number_at(p.dtype, p.t, start + i * step);
  }
  const auto put = [&](Index i, double value) { put_as(p.dtype, value, p.out, start + i * step); };
  const Survey seen(x, n);
  bool bad = seen.bad, equal = false;
  if (t != nullptr) {
    const Survey along(t, n);
    bad |= along.bad | (along.present != n);
    equal = along.top == along.least;
  }
  const auto fill = [&](double value) {
    for (Index i = 0; i < n; ++i) put(i, value);
  };
  if (bad || seen.present == 0) return fill(std::numeric_limits<double>::quiet_NaN());
  // Equal tangents: t - sum(p t) is zero.
  if (equal && !(p.logarithm && work == SoftmaxWork::cotangent)) return fill(0.0);
  Index top_at = 0;
  while (x[top_at] != seen.top) ++top_at;
  if (work == SoftmaxWork::value && seen.present == 1) {  // nothing else counts
    fill(p.logarithm ? -INFINITY : 0.0);
    return put(top_at, p.logarithm ? 0.0 : 1.0);
  }
  PairRow row(p, x, t, seen, top_at, scratch);
  const bool good = row.prepare();
  chosen(p, [&](auto kind) {
    for (Index c = 0; c < (cells == nullptr ? n : cells->count); ++c) {
      const Index i = cells == nullptr ? c : cells->at[c];
      if (x[i] == -INFINITY && kind() != Kind::log_tangent) {  // p is 0
        put(i, !p.logarithm ? 0.0 : work == SoftmaxWork::value ? -INFINITY : t[i] + 0.0);
        continue;
      }
      double error, sign;
      const Pair y = row.template one<kind()>(i, error, sign);
      if (!good || !decide_signed(p.dtype, y, error, sign, p.out, start + i * step))
        report.add(report.list, start + i * step);
    }
  });
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
