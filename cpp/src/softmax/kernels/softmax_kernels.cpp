// Softmax of rows, see halfulp/softmax.hpp: in double first (float64 in pairs of doubles), the rest in pairs.
#include "softmax/softmax_kernels.hpp"

#include "normalize/kernels/decide.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

constexpr double kFloor = -600.0;  // exponentials below this one are taken for zeros; the bound counts them

// As decide, for a number that is known to be positive (sign 1) or negative (-1), however small.
template <class T, class Real>
inline bool decide_signed(Real y, double error, double sign, T& result) {
  using R = RealTraits<Real>;
  double low, high;
  if constexpr (sizeof(Real) == sizeof(double)) {
    low = y - error;
    high = y + error;
    low = low == 0 ? 0.0 : low;
    high = high == 0 ? 0.0 : high;
    low = ((sign > 0) & (low <= 0)) ? 0.0 : low;
    high = ((sign < 0) & (high >= 0)) ? -0.0 : high;
    result = round_to<T>(low);
    return same_rounding<T>(low, high) & (std::fabs(high) < std::numeric_limits<double>::infinity());
  }
  if (sign == 0) return decide(y, error, result);
  error *= 1.0 + 0x1p-40;
  if constexpr (sizeof(T) == sizeof(double)) {
    low = R::high(y) + (R::low(y) - error);
    high = R::high(y) + (R::low(y) + error);
  } else {
    low = rounded_to_odd(R::high(y), R::low(y) - error);
    high = rounded_to_odd(R::high(y), R::low(y) + error);
  }
  low = ((sign > 0) & !(low > 0)) ? 0.0 : low;
  high = ((sign < 0) & !(high < 0)) ? -0.0 : high;
  result = round_to<T>(low);
  return same_rounding<T>(low, high) & (std::fabs(high) < std::numeric_limits<double>::infinity());
}

// The same for a sign that is known to the compiler.
template <int Sign, class T>
inline bool decide_known(double y, double error, T& result) {
  double low = y - error, high = y + error;
  if constexpr (Sign > 0) low = low > 0 ? low : 0.0;
  else high = high < 0 ? high : -0.0;
  result = round_to<T>(low);
  return same_rounding<T>(low, high);
}

// What a row holds, found in 16 lanes.
template <class T>
struct Survey {
  double top = -INFINITY, least = INFINITY;
  bool bad = false;
  Index present = 0;

  Survey(const T* x, Index n) {
    double tops[kLanes16], leasts[kLanes16], odd[kLanes16] = {}, absent[kLanes16] = {};
    for (int l = 0; l < kLanes16; ++l) {
      tops[l] = -INFINITY;
      leasts[l] = INFINITY;
    }
    const auto look = [&](Index i, int l) {
      const double v = number(x[i]);
      tops[l] = v > tops[l] ? v : tops[l];
      const double low = v == -INFINITY ? INFINITY : v;
      leasts[l] = low < leasts[l] ? low : leasts[l];
      odd[l] += v < INFINITY ? 0.0 : 1.0;
      absent[l] += v == -INFINITY ? 1.0 : 0.0;
    };
    const Index whole = n / kLanes16 * kLanes16;
    for (Index i = 0; i < whole; i += kLanes16)
      for (int l = 0; l < kLanes16; ++l) look(i + l, l);
    for (Index i = whole; i < n; ++i) look(i, static_cast<int>(i - whole));
    double missing = 0;
    for (int l = 0; l < kLanes16; ++l) {
      top = tops[l] > top ? tops[l] : top;
      least = leasts[l] < least ? leasts[l] : least;
      bad |= odd[l] != 0;
      missing += absent[l];
    }
    present = n - static_cast<Index>(missing);
  }
};

template <class T, class Real>
class Row {
  using R = RealTraits<Real>;
  static constexpr double u = R::unit;

 public:
  Row(const SoftmaxProblem& p, Index row, double top, Index top_at, double least, double* scratch)
      : p_(p),
        x_(static_cast<const T*>(p.x) + row * p.length),
        t_(p.t == nullptr ? nullptr : static_cast<const T*>(p.t) + row * p.length),
        n_(p.length),
        top_(top),
        top_at_(top_at),
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
    inverse_ = real<Real>(1.0) / total_;
    if (p_.logarithm && p_.work == SoftmaxWork::value) {
      log_ = log_one_plus(rest);
      log_error_ = rest_error_ * 1.01 + size_of(log_) * 20 * u;
    }
    if (t_ != nullptr) sums();
    return std::isfinite(sum_size_);
  }

  template <SoftmaxWork work, bool logarithm>
  HALFULP_ALWAYS_INLINE Real one(Index i, double& error, double& sign) const {
    sign = 0;
    const Real e = at<Real>(high_, low_, i);
    if (work == SoftmaxWork::value && logarithm) {
      const Real d = difference(number(x_[i]), top_, static_cast<Real*>(nullptr));
      const Real y = d + negated(log_);
      error = log_error_ + 2 * u * (size_of(d) + size_of(y));
      sign = -1.0;
      return y;
    }
    const Real p = e * inverse_;
    const double p_error = size_of(p) * (term_ + total_error_ * 1.01 + 12 * u) + tiny_;
    if (work == SoftmaxWork::value) {
      error = p_error;
      sign = 1;
      return p;
    }
    const Real t = real<Real>(number(t_[i]));
    if (logarithm && work == SoftmaxWork::cotangent) {
      const Real y = t + negated(p * sum_);
      error = (p_error * size_of(sum_) + size_of(p) * sum_error_) * 1.02 + 6 * u * (size_of(t) + size_of(p * sum_));
      return y;
    }
    const Real gap = t + negated(sum_);
    const double gap_error = sum_error_ + 4 * u * (size_of(t) + size_of(sum_));
    if (logarithm) {
      error = gap_error;
      return gap;
    }
    const Real y = p * gap;
    sign = size_of(gap) > gap_error ? (R::high(gap) > 0 ? 1.0 : -1.0) : 0.0;
    error = (size_of(p) * gap_error + p_error * (size_of(gap) + gap_error)) * 1.02 + 4 * u * size_of(y) + 0x1p-1000;
    return y;
  }

 private:
  // exp(d) of every cell into the scratch; returns their sum without that of the largest cell.
  Real exponentials() {
    if constexpr (sizeof(Real) == sizeof(double)) {
      const double top = top_;
      const Index n = n_;
      const T* const x = x_;
      double* const high = high_;
      for (Index i = 0; i < n; ++i) {
        const double d = number(x[i]) - top;
        const double e = exponential(d < kFloor ? kFloor : d);
        high[i] = d < kFloor ? 0.0 : e;
      }
      high_[top_at_] = 0;
      Pair total{0.0, 0.0};
      for (Index at = 0; at < n_; at += kBlock) {
        const Index stop = n_ - at < kBlock ? n_ - at : kBlock, whole = stop / kLanes16 * kLanes16;
        Lanes sums;
        for (Index i = 0; i < whole; i += kLanes16)
          for (int l = 0; l < kLanes16; ++l) sums.lane[l] += high[at + i + l];
        for (Index i = whole; i < stop; ++i) sums.lane[i - whole] += high[at + i];
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
        const T* const t = t_;
        const double* const high = high_;
        const double keep = plain ? 1.0 : 0.0, take = plain ? 0.0 : 1.0;
        const auto add = [&](Index i, int l) {
          const double term = number(t[i]) * (keep + take * high[i]);
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
    const Survey<T> along(t_, n_);
    const double largest = std::fmax(std::fabs(along.top), std::fabs(along.least));
    sum_ = total / total_;
    sum_error_ = (size / size_of(total_)) * (k + term_ + total_error_ * 1.01 + 6 * u) * 1.01 + tiny_ * largest;
  }

  const SoftmaxProblem& p_;
  const T *x_, *t_;
  Index n_;
  double top_;
  Index top_at_;
  double *high_, *low_;
  double term_ = 0, tiny_ = 0, rest_error_ = 0, total_error_ = 0, log_error_ = 0, sum_error_ = 0, sum_size_ = 0;
  Real total_{}, inverse_{}, log_{}, sum_{};
};

template <class T, SoftmaxWork work, bool logarithm>
void one_row(const SoftmaxProblem& p, Index row, double* scratch, const SoftmaxReport& report) {
  const T* x = static_cast<const T*>(p.x) + row * p.length;
  T* out = static_cast<T*>(p.out) + row * p.length;
  const Index n = p.length, start = row * p.length;
  const Survey<T> seen(x, n);
  bool bad = seen.bad, equal = false;
  if (p.t != nullptr) {
    const Survey<T> along(static_cast<const T*>(p.t) + start, n);
    bad |= along.bad | (along.present != n);
    equal = along.top == along.least;
  }
  const auto fill = [&](double value) {
    for (Index i = 0; i < n; ++i) out[i] = round_to<T>(value);
  };
  if (bad || seen.top == -INFINITY) return fill(std::numeric_limits<double>::quiet_NaN());
  // Equal tangents: t - sum(p t) is zero.
  if (equal && !(logarithm && work == SoftmaxWork::cotangent)) return fill(0.0);
  Index top_at = 0;
  while (number(x[top_at]) != seen.top) ++top_at;
  if (work == SoftmaxWork::value && seen.present == 1) {  // nothing else counts
    fill(logarithm ? -INFINITY : 0.0);
    out[top_at] = round_to<T>(logarithm ? 0.0 : 1.0);
    return;
  }
  const bool quick = sizeof(T) < sizeof(double);
  Index unsure = quick ? 0 : n;
  if (quick) {
    Row<T, double> first(p, row, seen.top, top_at, seen.least, scratch);
    if (first.prepare()) {
      const Row<T, double> own = first;
      for (Index i = 0; i < n; ++i) {
        double error;
        double sign;
        const double y = own.template one<work, logarithm>(i, error, sign);
        if constexpr (work == SoftmaxWork::value) unsure += decide_known<logarithm ? -1 : 1>(y, error, out[i]) ? 0 : 1;
        else if constexpr (logarithm) unsure += decide(y, error, out[i]) ? 0 : 1;
        else unsure += decide_signed(y, error, sign, out[i]) ? 0 : 1;
      }
    } else {
      unsure = n;
    }
  }
  if (unsure == 0 && seen.present == n) return;
  Row<T, Pair> second(p, row, seen.top, top_at, seen.least, scratch);
  const bool good = second.prepare();
  for (Index i = 0; i < n; ++i) {
    if (number(x[i]) == -INFINITY && !(logarithm && work != SoftmaxWork::value)) {
      out[i] = round_to<T>(logarithm ? -INFINITY : 0.0);
      continue;
    }
    double error;
    double sign;
    const Pair y = second.template one<work, logarithm>(i, error, sign);
    if (good && decide_signed(y, error, sign, out[i])) continue;
    report.add(report.list, start + i);
  }
}

template <class T, bool logarithm>
void any_row(const SoftmaxProblem& p, Index row, double* scratch, const SoftmaxReport& report) {
  if (p.work == SoftmaxWork::value) return one_row<T, SoftmaxWork::value, logarithm>(p, row, scratch, report);
  if (p.work == SoftmaxWork::tangent) return one_row<T, SoftmaxWork::tangent, logarithm>(p, row, scratch, report);
  one_row<T, SoftmaxWork::cotangent, logarithm>(p, row, scratch, report);
}

void row(const SoftmaxProblem& problem, Index which, double* scratch, const SoftmaxReport& report) {
  visit_float(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (problem.logarithm) any_row<T, true>(problem, which, scratch, report);
    else any_row<T, false>(problem, which, scratch, report);
  });
}

}  // namespace

const SoftmaxKernels& softmax_kernels() {
  static const SoftmaxKernels table{row};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
