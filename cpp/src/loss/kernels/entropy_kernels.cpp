// Cross entropy of rows, see halfulp/loss.hpp: in double first (float64 in pairs of doubles), the rest in pairs.
#include "loss/loss_kernels.hpp"

#include <cmath>
#include <limits>

#include "normalize/kernels/decide.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

constexpr double kFloor = -600.0;  // exponentials below this one are taken for zeros; the bound counts them

// As decide, for a number that is known to be positive (sign > 0) or negative (sign < 0), however small.
template <class T>
HALFULP_ALWAYS_INLINE bool decide_signed(double y, double error, double sign, T& result) {
  double low = y - error, high = y + error;
  low = ((sign > 0) & !(low > 0)) ? 0.0 : low;
  high = ((sign < 0) & !(high < 0)) ? -0.0 : high;
  result = round_to<T>(low);
  return same_rounding<T>(low, high) & (std::fabs(y) < std::numeric_limits<double>::infinity());
}
template <class T>
bool decide_signed(Pair y, double error, double sign, T& result) {
  if (sign == 0) return decide(y, error, result);
  error *= 1.0 + 0x1p-40;
  const bool wide = sizeof(T) == sizeof(double);
  double low = wide ? y.high + (y.low - error) : rounded_to_odd(y.high, y.low - error);
  double high = wide ? y.high + (y.low + error) : rounded_to_odd(y.high, y.low + error);
  low = ((sign > 0) & !(low > 0)) ? 0.0 : low;
  high = ((sign < 0) & !(high < 0)) ? -0.0 : high;
  result = round_to<T>(low);
  return same_rounding<T>(low, high) && std::fabs(y.high) < std::numeric_limits<double>::infinity();
}

double sign_of(double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : 0.0; }

// The sum of term(i) over [0, n), and of the magnitudes.
template <class Real, class F>
HALFULP_ALWAYS_INLINE Real summed(Index n, double& size, F&& term) {
  if constexpr (sizeof(Real) == sizeof(double)) {
    Pair total{0.0, 0.0};
    for (Index from = 0; from < n; from += kBlock) {
      const Index stop = n - from < kBlock ? n - from : kBlock, whole = stop / kLanes16 * kLanes16;
      Lanes sums, sizes;
      const auto one = [&](Index i, int l) {
        const double v = term(i);
        sums.lane[l] += v;
        sizes.lane[l] += std::fabs(v);
      };
      for (Index i = 0; i < whole; i += kLanes16)
        for (int l = 0; l < kLanes16; ++l) one(from + i + l, l);
      for (Index i = whole; i < stop; ++i) one(from + i, static_cast<int>(i - whole));
      total = with(total, sums.sum());
      size += sizes.sum();
    }
    return total.high;
  } else {
    Pair total{0.0, 0.0};
    for (Index i = 0; i < n; ++i) {
      const Pair v = term(i);
      total = total + v;
      size += size_of(v);
    }
    return total;
  }
}

template <class T, class Real>
class Row {
  using R = RealTraits<Real>;
  static constexpr double u = R::unit;

 public:
  Row(const EntropyProblem& p, Index row, double* scratch)
      : p_(p),
        n_(p.classes),
        x_(static_cast<const T*>(p.x) + row * p.classes),
        target_(p.target == nullptr ? nullptr : static_cast<const T*>(p.target) + row * p.classes),
        t_(p.t == nullptr ? nullptr : static_cast<const T*>(p.t) + row * p.classes),
        label_(p.labels == nullptr ? 0 : p.labels[row]),
        dense_(p.target != nullptr || p.base_high != nullptr),
        high_(scratch),
        low_(scratch + p.classes),
        a_high_(scratch + 2 * p.classes),
        a_low_(scratch + 3 * p.classes) {}

  // False if this kind of number cannot be trusted with this row, or if it holds what is not a number.
  bool prepare() {
    double least;
    if (!survey(least) || !(std::fabs(top_) < 0x1p1000)) return false;
    top_at_ = 0;
    while (number(x_[top_at_]) != top_) ++top_at_;
    // A difference is rounded once, which changes its exponential by |d| units at most.
    term_ = (10 + std::fmin(top_ - least, -kFloor)) * u;
    tiny_ = static_cast<double>(n_) * 0x1p-860;
    exponentials();
    double ignored = 0;
    rest_ = summed<Real>(n_, ignored, [&](Index i) { return at<Real>(high_, low_, i); });
    rest_error_ = size_of(rest_) * (sum_error<Real>(n_) + term_) + tiny_;
    total_ = real<Real>(1.0) + rest_;
    total_error_ = (rest_error_ + 2 * u * size_of(total_)) / size_of(total_);  // relative
    return coefficients();
  }

  // -sum(A log p) = sum(A (top - x)) + S log(sum(exp(x - top)))
  Real value(double& error) const {
    const Real log = log_one_plus(rest_);
    const double log_error = rest_error_ * 1.01 + size_of(log) * 20 * u;
    const Real tail = s_ * log;
    double size = 0;
    Real head{};
    if (dense_) {
      head = summed<Real>(n_, size, [&](Index i) { return at<Real>(a_high_, a_low_, i) * depth(i); });
    } else {
      head = s_ * depth(label_);
      size = size_of(head);
    }
    const Real y = head + tail;
    error = size * (sum_error<Real>(n_) + 16 * u) + (size_of(s_) + s_error_) * log_error * 1.01 +
            s_error_ * size_of(log) + 8 * u * size_of(tail);
    return y;
  }

  // S sum(p t) - sum(A t), of differences to the tangent at the label if that is all
  Real tangent(double& error) const {
    const Real origin = dense_ ? real<Real>(0.0) : real<Real>(number(t_[label_]));
    double size = 0, own = 0;
    Real sum = summed<Real>(n_, size, [&](Index i) {
      return at<Real>(high_, low_, i) * (real<Real>(number(t_[i])) + negated(origin));
    });
    const Real top = real<Real>(number(t_[top_at_])) + negated(origin);
    sum = (sum + top) / total_;
    size = (size + size_of(top)) / size_of(total_);
    const double k = sum_error<Real>(n_) + 8 * u;
    double largest = 0;
    for (Index i = 0; i < n_; ++i) {
      const double v = std::fabs(number(t_[i]));
      largest = v > largest ? v : largest;
      if (!trusted(v)) largest = INFINITY;
    }
    const double sum_off = size * (k + term_ + total_error_ * 1.01) * 1.01 + 2 * tiny_ * largest;
    const Real y = s_ * sum;
    error = (size_of(s_) + s_error_) * sum_off + s_error_ * size_of(sum) + 4 * u * size_of(y);
    if (!dense_) return y;
    const Real minus = summed<Real>(n_, own, [&](Index i) {
      return at<Real>(a_high_, a_low_, i) * real<Real>(number(t_[i]));
    });
    error += own * (k + 16 * u) + 4 * u * (size_of(y) + size_of(minus));
    return y + negated(minus);
  }

  // (S p - A) h in every cell; returns how many are undecided, each given to `left`.
  template <class F>
  Index spread(Real h, T* out, F&& left) const {
    const Real f = s_ / total_ * h;
    const double off = term_ + total_error_ * 1.01 + 24 * u + (size_of(s_) > 0 ? s_error_ / size_of(s_) : 0.0);
    const double small = tiny_ * (size_of(s_) + s_error_) * size_of(h) * 1.01;
    return dense_ ? spread_dense(h, f, off, small, out, left) : spread_label(h, f, off, small, out, left);
  }

 private:
  // S p h, but for the label. The largest cell has no exponential in the table.
  template <class F>
  Index spread_label(Real h, Real f, double off, double small, T* out, F&& left) const {
    const double sign = sign_of(R::high(s_)) * sign_of(R::high(h));
    const auto plain = [&](Index i, T& result) {
      const Real y = at<Real>(high_, low_, i) * f;
      return decide_signed(y, size_of(y) * off + small, sign, result);
    };
    Index unsure = 0;
    for (Index i = 0; i < n_; ++i) unsure += plain(i, out[i]) ? 0 : 1;
    T spare;
    unsure -= plain(label_, spare) ? 0 : 1;
    const bool label_sure = at_label(f, off, sign, out[label_]);
    unsure += label_sure ? 0 : 1;
    bool top_sure = true;
    if (top_at_ != label_) {
      unsure -= plain(top_at_, spare) ? 0 : 1;
      top_sure = decide_signed(f, size_of(f) * off, sign, out[top_at_]);
      unsure += top_sure ? 0 : 1;
    }
    if (unsure == 0) return 0;
    for (Index i = 0; i < n_; ++i)
      if (!(i == label_ ? label_sure : i == top_at_ ? top_sure : plain(i, spare))) left(i);
    return unsure;
  }

  template <class F>
  Index spread_dense(Real h, Real f, double off, double small, T* out, F&& left) const {
    const double lost = small + (size_of(s_) > 0 ? 0.0 : s_error_ * size_of(h) * 1.01);
    const auto one = [&](Index i) {
      const Real p = (i == top_at_ ? real<Real>(1.0) : at<Real>(high_, low_, i)) * f;
      const Real a = at<Real>(a_high_, a_low_, i) * h;
      return decide(p + negated(a), size_of(p) * off + lost + 16 * u * size_of(a), out[i]);
    };
    Index unsure = 0;
    for (Index i = 0; i < n_; ++i) unsure += one(i) ? 0 : 1;
    if (unsure == 0) return 0;
    for (Index i = 0; i < n_; ++i)
      if (!one(i)) left(i);
    return unsure;
  }

  // S (p - 1) h = -S h (the sum of the other exponentials) / total
  bool at_label(Real f, double off, double sign, T& result) const {
    Real others = rest_;
    double others_error = rest_error_;
    if (label_ != top_at_) {
      const Real own = at<Real>(high_, low_, label_);
      others = total_ + negated(own);
      others_error = size_of(total_) * total_error_ * 1.01 + size_of(own) * term_ + 2 * u * size_of(others);
    }
    if (n_ == 1) {
      result = round_to<T>(0.0);
      return true;
    }
    const Real y = negated(others * f);
    return decide_signed(y, size_of(y) * off + others_error * size_of(f) * 1.01, -sign, result);
  }

  // Pairs neither overflow nor lose bits within a range.
  static bool trusted(double v) {
    return sizeof(Real) == sizeof(double) || v == 0 || (std::fabs(v) > kSmallest && std::fabs(v) < kLargest);
  }

  Real depth(Index i) const { return difference(top_, number(x_[i]), static_cast<Real*>(nullptr)); }

  // The largest and the smallest cell, in 16 lanes; false if a cell is not finite.
  bool survey(double& least) {
    double tops[kLanes16], leasts[kLanes16], odd[kLanes16];
    for (int l = 0; l < kLanes16; ++l) {
      tops[l] = -INFINITY;
      leasts[l] = INFINITY;
      odd[l] = 0;
    }
    const T* const x = x_;
    const auto look = [&](Index i, int l) {
      const double v = number(x[i]);
      tops[l] = v > tops[l] ? v : tops[l];
      leasts[l] = v < leasts[l] ? v : leasts[l];
      odd[l] += v - v;  // NaN for infinities, too
    };
    const Index whole = n_ / kLanes16 * kLanes16;
    for (Index i = 0; i < whole; i += kLanes16)
      for (int l = 0; l < kLanes16; ++l) look(i + l, l);
    for (Index i = whole; i < n_; ++i) look(i, static_cast<int>(i - whole));
    double strange = 0;
    top_ = -INFINITY;
    least = INFINITY;
    for (int l = 0; l < kLanes16; ++l) {
      top_ = tops[l] > top_ ? tops[l] : top_;
      least = leasts[l] < least ? leasts[l] : least;
      strange += odd[l];
    }
    return strange == 0;
  }

  // exp(x - top) of every cell but the largest.
  void exponentials() {
    if constexpr (sizeof(Real) == sizeof(double)) {
      const double top = top_;
      const T* const x = x_;
      double* const high = high_;
      const Index n = n_;
      for (Index i = 0; i < n; ++i) {
        const double d = number(x[i]) - top;
        const double e = exponential(d < kFloor ? kFloor : d);
        high[i] = d < kFloor ? 0.0 : e;
      }
    } else {
      for (Index i = 0; i < n_; ++i) {
        const Real d = difference(number(x_[i]), top_, static_cast<Real*>(nullptr));
        put(high_, low_, i, d.high < kFloor ? Real{0.0, 0.0} : exponential(d));
      }
    }
    put(high_, low_, top_at_, real<Real>(0.0));
  }

  Real lead(Index i) const {
    return p_.lead_high == nullptr ? real<Real>(1.0) : R::from(p_.lead_high[i], p_.lead_low[i]);
  }
  Real base(Index i) const {
    return p_.base_high == nullptr ? real<Real>(0.0) : R::from(p_.base_high[i], p_.base_low[i]);
  }

  // A and its sum.
  bool coefficients() {
    if (!dense_) {
      s_ = lead(label_);
      s_error_ = 2 * u * size_of(s_);
      return trusted(size_of(s_));
    }
    double size = 0;
    if (target_ == nullptr) {
      for (Index i = 0; i < n_; ++i) put(a_high_, a_low_, i, base(i));
      const Real own = lead(label_);
      put(a_high_, a_low_, label_, own + base(label_));
      const Real total = R::from(p_.base_total[0], p_.base_total[1]);
      s_ = own + total;
      size = size_of(own) + size_of(total);
      s_error_ = 4 * u * size;
      return std::isfinite(size) && trusted(size_of(own)) && trusted(size_of(total));
    }
    for (Index i = 0; i < n_; ++i) put(a_high_, a_low_, i, lead(i) * real<Real>(number(target_[i])) + base(i));
    s_ = summed<Real>(n_, size, [&](Index i) { return at<Real>(a_high_, a_low_, i); });
    bool good = true;
    for (Index i = 0; i < n_; ++i) {
      size += std::fabs(R::high(lead(i)) * number(target_[i])) + size_of(base(i));
      good = good && trusted(number(target_[i])) && trusted(size_of(lead(i)));
    }
    s_error_ = size * (sum_error<Real>(n_) + 8 * u);
    return good && std::isfinite(size);
  }

  const EntropyProblem& p_;
  Index n_;
  const T *x_, *target_, *t_;
  Index label_;
  bool dense_;
  double *high_, *low_, *a_high_, *a_low_;
  double top_ = 0, term_ = 0, tiny_ = 0, rest_error_ = 0, total_error_ = 0, s_error_ = 0;
  Index top_at_ = 0;
  Real rest_{}, total_{}, s_{};
};

constexpr double kUnknown = std::numeric_limits<double>::infinity();

template <class T, class Real>
Enclosed row_of(const EntropyProblem& p, Index which, double* scratch) {
  if (p.labels != nullptr && p.labels[which] < 0) return {};
  Row<T, Real> row(p, which, scratch);
  if (!row.prepare()) return {0, 0, kUnknown};
  double error;
  const Real y = p.work == EntropyWork::value ? row.value(error) : row.tangent(error);
  using R = RealTraits<Real>;
  const bool good = std::isfinite(error) && (sizeof(Real) == sizeof(double) || size_of(y) < kLargest);
  return {R::high(y), R::low(y), good ? error * (1 + 0x1p-20) : kUnknown};
}

template <class T, class Real>
bool spread_of(const EntropyProblem& p, Index which, double* scratch, const LossReport* report) {
  Row<T, Real> row(p, which, scratch);
  const Index start = which * p.classes;
  T* const out = static_cast<T*>(p.out) + start;
  const double g = number(static_cast<const T*>(p.g)[p.by_row ? which : 0]);
  bool good = std::isfinite(g) && row.prepare();
  if (sizeof(Real) != sizeof(double)) good = good && (g == 0 || (std::fabs(g) > kSmallest && std::fabs(g) < kLargest));
  good = good && std::fabs(p.scale[0]) > kSmallest && std::fabs(p.scale[0]) < kLargest;
  if (good && g == 0) {
    for (Index i = 0; i < p.classes; ++i) out[i] = round_to<T>(0.0);
    return true;
  }
  if (!good) {
    if (report != nullptr)
      for (Index i = 0; i < p.classes; ++i) report->add(report->list, start + i);
    return false;
  }
  const Real h = real<Real>(g) * RealTraits<Real>::from(p.scale[0], p.scale[1]);
  return row.spread(h, out, [&](Index i) {
    if (report != nullptr) report->add(report->list, start + i);
  }) == 0;
}

template <class T>
void any_spread(const EntropyProblem& p, Index which, double* scratch, const LossReport& report) {
  if (p.labels != nullptr && p.labels[which] < 0) {
    T* const out = static_cast<T*>(p.out) + which * p.classes;
    for (Index i = 0; i < p.classes; ++i) out[i] = round_to<T>(0.0);
    return;
  }
  if constexpr (sizeof(T) < sizeof(double))
    if (spread_of<T, double>(p, which, scratch, nullptr)) return;
  spread_of<T, Pair>(p, which, scratch, &report);
}

Enclosed row(const EntropyProblem& problem, Index which, double* scratch, bool twice) {
  return visit_float(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    return twice ? row_of<T, Pair>(problem, which, scratch) : row_of<T, double>(problem, which, scratch);
  });
}

void spread(const EntropyProblem& problem, Index which, double* scratch, const LossReport& report) {
  visit_float(problem.dtype, [&](auto zero) { any_spread<decltype(zero)>(problem, which, scratch, report); });
}

bool finish(const EntropyProblem& problem, Index position, const Enclosed& sum) {
  return visit_float(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (!(sum.error < kUnknown) || !std::isfinite(sum.high)) return false;
    if (!(std::fabs(problem.scale[0]) > kSmallest && std::fabs(problem.scale[0]) < kLargest)) return false;
    if (sum.high != 0 && !(std::fabs(sum.high) > kSmallest && std::fabs(sum.high) < kLargest)) return false;
    const Pair scale{problem.scale[0], problem.scale[1]};
    const Pair y = Pair{sum.high, sum.low} * scale;
    return decide(y, sum.error * std::fabs(scale.high) * (1 + 0x1p-20) + 0x1p-95 * size_of(y),
                  static_cast<T*>(problem.out)[position]);
  });
}

}  // namespace

const EntropyKernels& entropy_kernels() {
  static const EntropyKernels table{row, spread, finish};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
