// Softmax of rows, see halfulp/softmax.hpp: in double first (float64 in pairs of doubles), the rest in pairs.
#include "softmax/softmax_kernels.hpp"

#include "normalize/kernels/decide.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

constexpr double kFloor = -600.0;  // exponentials below this one are taken for zeros; the bound counts them

// As decide, for a number that is known to be positive (sign 1) or negative (-1), however small.
template <class T, class Real>
inline bool decide_signed(Real y, double error, int sign, T& result) {
  if (sign == 0) return decide(y, error, result);
  using R = RealTraits<Real>;
  error *= 1.0 + 0x1p-40;
  double low, high;
  if constexpr (sizeof(Real) == sizeof(double)) {
    low = y - error;
    high = y + error;
  } else if constexpr (sizeof(T) == sizeof(double)) {
    low = R::high(y) + (R::low(y) - error);
    high = R::high(y) + (R::low(y) + error);
  } else {
    low = rounded_to_odd(R::high(y), R::low(y) - error);
    high = rounded_to_odd(R::high(y), R::low(y) + error);
  }
  low = (sign > 0) & !(low > 0) ? 0.0 : low;
  high = (sign < 0) & !(high < 0) ? -0.0 : high;
  result = round_to<T>(low);
  return same_rounding<T>(low, high) & (std::fabs(high) < std::numeric_limits<double>::infinity());
}

template <class T, class Real>
class Row {
  using R = RealTraits<Real>;
  static constexpr double u = R::unit;

 public:
  Row(const SoftmaxProblem& p, Index row, double top, Index top_at, double least, bool alone, double* scratch)
      : p_(p),
        x_(static_cast<const T*>(p.x) + row * p.length),
        t_(p.t == nullptr ? nullptr : static_cast<const T*>(p.t) + row * p.length),
        n_(p.length),
        top_(top),
        top_at_(top_at),
        alone_(alone),
        high_(scratch),
        low_(scratch + p.length) {
    // A difference is rounded once, which changes its exponential by |d| units at most.
    const double reach = std::fmin(top - least, -kFloor);
    term_ = (10 + reach) * u;
  }

  // False if this kind of number cannot be trusted with this row.
  bool prepare() {
    if (!(std::fabs(top_) < 0x1p1000)) return false;
    Real rest = exponentials();
    const double k = sum_error<Real>(n_);
    // Exponentials below the floor are each less than e^-600.
    tiny_ = static_cast<double>(n_) * 0x1p-860;
    rest_error_ = size_of(rest) * (k + term_) + tiny_;
    total_ = real<Real>(1.0) + rest;
    total_error_ = (rest_error_ + 2 * u * size_of(total_)) / size_of(total_);  // relative
    if (p_.logarithm && p_.work == SoftmaxWork::value) {
      log_ = log_one_plus(rest);
      log_error_ = rest_error_ * 1.01 + size_of(log_) * 20 * u;
    }
    if (t_ != nullptr) sums();
    return std::isfinite(sum_size_);
  }

  Real one(Index i, double& error, int& sign) const {
    sign = 0;
    const Real e = at<Real>(high_, low_, i);
    if (p_.work == SoftmaxWork::value && p_.logarithm) {
      const Real d = difference(number(x_[i]), top_, static_cast<Real*>(nullptr));
      const Real y = d + negated(log_);
      error = log_error_ + 2 * u * (size_of(d) + size_of(y));
      sign = alone_ ? 0 : -1;
      return y;
    }
    const Real p = e / total_;
    const double p_error = size_of(p) * (term_ + total_error_ * 1.01 + 6 * u) + tiny_;
    if (p_.work == SoftmaxWork::value) {
      error = p_error;
      sign = 1;
      return p;
    }
    const Real t = real<Real>(number(t_[i]));
    if (p_.logarithm && p_.work == SoftmaxWork::cotangent) {
      const Real y = t + negated(p * sum_);
      error = p_error * size_of(sum_) * 1.01 + size_of(p) * sum_error_ * 1.01 + 6 * u * (size_of(t) + size_of(p * sum_));
      return y;
    }
    const Real gap = t + negated(sum_);
    const double gap_error = sum_error_ + 4 * u * (size_of(t) + size_of(sum_));
    if (p_.logarithm) {
      error = gap_error;
      return gap;
    }
    const Real y = p * gap;
    sign = size_of(gap) > gap_error ? (R::high(gap) > 0 ? 1 : -1) : 0;
    error = size_of(p) * gap_error * 1.01 + p_error * (size_of(gap) + gap_error) * 1.01 + 4 * u * size_of(y) + 0x1p-1000;
    return y;
  }

 private:
  // exp(d) of every cell into the scratch; returns their sum without that of the largest cell.
  Real exponentials() {
    if constexpr (sizeof(Real) == sizeof(double)) {
      for (Index i = 0; i < n_; ++i) {
        const double d = number(x_[i]) - top_;
        const double e = exponential(d < kFloor ? kFloor : d);
        high_[i] = d < kFloor ? 0.0 : e;
      }
      high_[top_at_] = 0;
      Pair total{0.0, 0.0};
      for (Index at = 0; at < n_; at += kBlock) {
        const Index stop = n_ - at < kBlock ? n_ - at : kBlock, whole = stop / kLanes16 * kLanes16;
        Lanes sums;
        for (Index i = 0; i < whole; i += kLanes16)
          for (int l = 0; l < kLanes16; ++l) sums.lane[l] += high_[at + i + l];
        for (Index i = whole; i < stop; ++i) sums.lane[i - whole] += high_[at + i];
        total = with(total, sums.sum());
      }
      high_[top_at_] = 1;
      return total.high;
    } else {
      Real total{0.0, 0.0};
      for (Index i = 0; i < n_; ++i) {
        const Real d = difference(number(x_[i]), top_, static_cast<Real*>(nullptr));
        const Real e = d.high < kFloor ? Real{0.0, 0.0} : i == top_at_ ? Real{1.0, 0.0} : exponential(d);
        put(high_, low_, i, e);
        if (i != top_at_) total = total + e;
      }
      return total;
    }
  }

  // The sum of p t, or of the cotangents.
  void sums() {
    const bool plain = p_.logarithm && p_.work == SoftmaxWork::cotangent;
    Real total{};
    double size = 0;
    if constexpr (sizeof(Real) == sizeof(double)) {
      Pair sum{0.0, 0.0};
      for (Index at = 0; at < n_; at += kBlock) {
        const Index stop = n_ - at < kBlock ? n_ - at : kBlock, whole = stop / kLanes16 * kLanes16;
        Lanes sums, sizes;
        const auto add = [&](Index i, int l) {
          const double term = number(t_[i]) * (plain ? 1.0 : high_[i]);
          sums.lane[l] += term;
          sizes.lane[l] += std::fabs(term);
        };
        for (Index i = 0; i < whole; i += kLanes16)
          for (int l = 0; l < kLanes16; ++l) add(at + i + l, l);
        for (Index i = whole; i < stop; ++i) add(at + i, static_cast<int>(i - whole));
        sum = with(sum, sums.sum());
        size += sizes.sum();
      }
      total = sum.high;
    } else {
      for (Index i = 0; i < n_; ++i) {
        const Real t = real<Real>(number(t_[i]));
        const Real term = plain ? t : t * at<Real>(high_, low_, i);
        total = total + term;
        size += size_of(term);
        if (t.high != 0 && !(std::fabs(t.high) > kSmallest && std::fabs(t.high) < kLargest)) size = INFINITY;
      }
    }
    sum_size_ = size;
    const double k = sum_error<Real>(n_) + u;
    if (plain) {
      sum_ = total;
      sum_error_ = size * k * 1.01;
      return;
    }
    double largest = 0;
    for (Index i = 0; i < n_; ++i) largest = std::fmax(largest, std::fabs(number(t_[i])));
    sum_ = total / total_;
    sum_error_ = (size / size_of(total_)) * (k + term_ + total_error_ * 1.01 + 6 * u) * 1.01 + tiny_ * largest;
  }

  const SoftmaxProblem& p_;
  const T *x_, *t_;
  Index n_;
  double top_;
  Index top_at_;
  bool alone_;  // no other cell counts
  double *high_, *low_;
  double term_ = 0, tiny_ = 0, rest_error_ = 0, total_error_ = 0, log_error_ = 0, sum_error_ = 0, sum_size_ = 0;
  Real total_{}, log_{}, sum_{};
};

template <class T>
void one_row(const SoftmaxProblem& p, Index row, double* scratch, const SoftmaxReport& report) {
  const T* x = static_cast<const T*>(p.x) + row * p.length;
  T* out = static_cast<T*>(p.out) + row * p.length;
  const Index n = p.length, start = row * p.length;
  double top = -INFINITY, least = INFINITY;
  bool bad = false;
  Index present = 0;
  for (Index i = 0; i < n; ++i) {
    const double v = number(x[i]);
    top = v > top ? v : top;
    bad |= !(v < INFINITY);
    present += v == -INFINITY ? 0 : 1;
    least = (v < least) & (v != -INFINITY) ? v : least;
  }
  bool equal = p.t != nullptr;
  if (p.t != nullptr) {
    const T* t = static_cast<const T*>(p.t) + start;
    const double first = number(t[0]);
    for (Index i = 0; i < n; ++i) {
      const double v = number(t[i]);
      bad |= !(std::fabs(v) < INFINITY);
      equal &= v == first;
    }
  }
  const auto fill = [&](double value) {
    for (Index i = 0; i < n; ++i) out[i] = round_to<T>(value);
  };
  if (bad || top == -INFINITY) return fill(std::numeric_limits<double>::quiet_NaN());
  // Equal tangents: t - sum(p t) is zero.
  if (equal && !(p.logarithm && p.work == SoftmaxWork::cotangent)) return fill(0.0);
  Index top_at = 0;
  while (number(x[top_at]) != top) ++top_at;
  const bool quick = sizeof(T) < sizeof(double);
  Index unsure = quick ? 0 : n;
  Row<T, double> first(p, row, top, top_at, least, present == 1, scratch);
  if (quick) {
    if (first.prepare()) {
      const Row<T, double> own = first;
      for (Index i = 0; i < n; ++i) {
        double error;
        int sign;
        const double y = own.one(i, error, sign);
        unsure += decide_signed(y, error, sign, out[i]) ? 0 : 1;
      }
    } else {
      unsure = n;
    }
  }
  if (unsure == 0 && present == n) return;
  Row<T, Pair> second(p, row, top, top_at, least, present == 1, scratch);
  const bool good = second.prepare();
  for (Index i = 0; i < n; ++i) {
    if (number(x[i]) == -INFINITY && !(p.logarithm && p.work != SoftmaxWork::value)) {
      out[i] = round_to<T>(p.logarithm ? -INFINITY : 0.0);
      continue;
    }
    double error;
    int sign;
    const Pair y = second.one(i, error, sign);
    if (good && decide_signed(y, error, sign, out[i])) continue;
    report.add(report.list, start + i);
  }
}

void row(const SoftmaxProblem& problem, Index which, double* scratch, const SoftmaxReport& report) {
  visit_float(problem.dtype, [&](auto zero) { one_row<decltype(zero)>(problem, which, scratch, report); });
}

}  // namespace

const SoftmaxKernels& softmax_kernels() {
  static const SoftmaxKernels table{row};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
