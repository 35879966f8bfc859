// Interpolation, see halfulp/interpolate.hpp. A row of outputs: the rows of cells that it needs are added up with their
// weights, then the taps of the last axis, in double (float64 in pairs of doubles) with one error bound for the row.
// What that leaves undecided is reported.
#include "interpolate/tap_kernels.hpp"

#include <cmath>
#include <limits>

#include "normalize/kernels/decide.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

template <class T>
constexpr int kDigits = format_of<T>::precision;

template <class T>
void survey_row(const T* x, Index n, TapRow& row) {
  double largest[kLanes16], smallest[kLanes16], odd[kLanes16];
  for (int l = 0; l < kLanes16; ++l) largest[l] = odd[l] = 0, smallest[l] = INFINITY;
  const auto look = [&](Index i, int l) {
    const double v = number(x[i]), size = std::fabs(v);
    largest[l] = size > largest[l] ? size : largest[l];
    const double some = size == 0 ? INFINITY : size;
    smallest[l] = some < smallest[l] ? some : smallest[l];
    // 1 for -0, NaN for what is not finite
    odd[l] += (v - v) + (std::bit_cast<std::uint64_t>(v) == Binary64::sign ? 1.0 : 0.0);
  };
  const Index whole = n / kLanes16 * kLanes16;
  for (Index i = 0; i < whole; i += kLanes16)
    for (int l = 0; l < kLanes16; ++l) look(i + l, l);
  for (Index i = whole; i < n; ++i) look(i, static_cast<int>(i - whole));
  double top = 0, least = INFINITY, strange = 0;
  for (int l = 0; l < kLanes16; ++l) {
    top = largest[l] > top ? largest[l] : top;
    least = smallest[l] < least ? smallest[l] : least;
    strange += odd[l];
  }
  row.largest = strange == strange ? top : std::numeric_limits<double>::quiet_NaN();
  row.negative_zero = !(strange == 0);
  row.unit = INFINITY;
  if (least < INFINITY) {
    const int tiny = format_of<T>::tiny_exponent, own = std::ilogb(least) - kDigits<T> + 1;
    row.unit = std::ldexp(1.0, own < tiny ? tiny : own);
  }
}

// One row of outputs in one kind of number.
template <class T, class Real>
class Row {
  using R = RealTraits<Real>;

 public:
  Row(const TapProblem& p, Index plane, Index row, const TapRow* seen, double* scratch)
      : p_(p),
        x_(static_cast<const T*>(p.x) + plane * p.in_rows() * p.axis[2].size),
        out_(static_cast<T*>(p.out) + (plane * p.out_rows() + row) * p.axis[2].outputs),
        seen_(seen),
        first_(row / p.axis[1].outputs),
        second_(row % p.axis[1].outputs),
        high_(scratch),
        low_(scratch + p.axis[2].size),
        y_(scratch + 2 * p.axis[2].size),
        y_low_(y_ + p.axis[2].outputs) {}

  // The positions in the row that are undecided are given to `left`.
  template <class F>
  void run(F&& left) {
    const TapAxis& last = p_.axis[2];
    if (p_.axis[0].counts[first_] * p_.axis[1].counts[second_] == 0) {
      for (Index o = 0; o < last.outputs; ++o) out_[o] = round_to<T>(0.0);
      return;
    }
    combine();
    along();
    const bool zeros = negative_zero_ || p_.negative;  // a zero may be -0: the exact sum knows
    const double error = bound();
    Index unsure = 0;
    if (!zeros) {
      for (Index o = 0; o < last.outputs; ++o) unsure += decided(o, error, false) ? 0 : 1;
      if (unsure == 0) return;
    }
    for (Index o = 0; o < last.outputs; ++o)
      if (!decided(o, error, zeros)) left(o);
  }

 private:
  HALFULP_ALWAYS_INLINE bool decided(Index o, double error, bool zeros) const {
    if constexpr (sizeof(Real) == sizeof(double)) {
      return decide(y_[o], error, out_[o]) & !(zeros & (y_[o] == 0));
    } else {
      return !(y_[o] == 0) && decide(Pair{y_[o], y_low_[o]}, error, out_[o]);
    }
  }

  // Every product and sum is off by a unit of something that is at most largest * reach. No error at all if all partial
  // sums are multiples of one power of two and below 2^53 times that.
  double bound() const {
    const double size = largest_ * p_.reach;
    double terms = 12;
    for (const TapAxis& axis : p_.axis) terms += 2.0 * static_cast<double>(axis.most);
    if constexpr (sizeof(Real) == sizeof(double)) {
      if (p_.bits >= 0 && size < std::ldexp(unit_, 52 - p_.bits)) return 0.0;
      return size * terms * 0x1p-52;
    } else {
      if (size != 0 && !(size < 0x1p1000 && unit_ > 0x1p-900)) return INFINITY;
      return size * terms * 0x1p-98;
    }
  }

  // The weighted sum of the rows of cells.
  void combine() {
    const TapAxis &a = p_.axis[0], &b = p_.axis[1];
    const Index n = p_.axis[2].size;
    bool fresh = true;
    for (Index i = 0; i < a.counts[first_]; ++i) {
      for (Index j = 0; j < b.counts[second_]; ++j) {
        const Index at = i * a.outputs + first_, bt = j * b.outputs + second_;
        const Index row = a.cells[at] * b.size + b.cells[bt];
        const T* const x = x_ + row * n;
        largest_ = seen_[row].largest > largest_ || seen_[row].largest != seen_[row].largest ? seen_[row].largest
                                                                                             : largest_;
        unit_ = seen_[row].unit < unit_ ? seen_[row].unit : unit_;
        negative_zero_ |= seen_[row].negative_zero;
        add(x, n, weight(a, at) * weight(b, bt), fresh);
        fresh = false;
      }
    }
  }
  Real weight(const TapAxis& axis, Index at) const { return R::from(axis.high[at], axis.low[at]); }

  void add(const T* x, Index n, Real w, bool fresh) {
    double* const high = high_;
    double* const low = low_;
    if constexpr (sizeof(Real) == sizeof(double)) {
      if (fresh)
        for (Index i = 0; i < n; ++i) high[i] = w * number(x[i]);
      else
        for (Index i = 0; i < n; ++i) high[i] += w * number(x[i]);
    } else {
      for (Index i = 0; i < n; ++i) {
        const Pair term = w * Pair{number(x[i]), 0.0};
        const Pair sum = fresh ? term : Pair{high[i], low[i]} + term;
        high[i] = sum.high;
        low[i] = sum.low;
      }
    }
  }

  // The taps of the last axis. One beyond an output's own adds a zero times a finite number.
  void along() {
    const TapAxis& axis = p_.axis[2];
    const double* const high = high_;
    double* const y = y_;
    for (Index k = 0; k < axis.most; ++k) {
      const std::int64_t* const cells = axis.cells + k * axis.outputs;
      const double* const w = axis.high + k * axis.outputs;
      if constexpr (sizeof(Real) == sizeof(double)) {
        if (k == 0)
          for (Index o = 0; o < axis.outputs; ++o) y[o] = w[o] * high[cells[o]];
        else
          for (Index o = 0; o < axis.outputs; ++o) y[o] += w[o] * high[cells[o]];
      } else {
        const double* const w_low = axis.low + k * axis.outputs;
        for (Index o = 0; o < axis.outputs; ++o) {
          const Pair term = Pair{w[o], w_low[o]} * Pair{high[cells[o]], low_[cells[o]]};
          const Pair sum = k == 0 ? term : Pair{y[o], y_low_[o]} + term;
          y[o] = sum.high;
          y_low_[o] = sum.low;
        }
      }
    }
    if (axis.most == 0)
      for (Index o = 0; o < axis.outputs; ++o) y[o] = y_low_[o] = 0;
  }

  const TapProblem& p_;
  const T* x_;
  T* out_;
  const TapRow* seen_;
  Index first_, second_;
  double *high_, *low_, *y_, *y_low_;
  double largest_ = 0, unit_ = INFINITY;
  bool negative_zero_ = false;
};

void survey(const TapProblem& problem, Index plane, TapRow* rows) {
  visit_float(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Index n = problem.axis[2].size;
    const T* const x = static_cast<const T*>(problem.x) + plane * problem.in_rows() * n;
    for (Index row = 0; row < problem.in_rows(); ++row) survey_row(x + row * n, n, rows[row]);
  });
}

void row(const TapProblem& problem, Index plane, Index which, const TapRow* rows, double* scratch,
         const TapReport& report) {
  visit_float(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    using Real = std::conditional_t<std::is_same_v<T, double>, Pair, double>;
    const Index start = (plane * problem.out_rows() + which) * problem.axis[2].outputs;
    Row<T, Real>(problem, plane, which, rows, scratch).run([&](Index o) { report.add(report.list, start + o); });
  });
}

}  // namespace

const TapKernels& tap_kernels() {
  static const TapKernels table{survey, row};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
