// Softmax in double, with error bounds for a row. Vectors hold cells of one row, or one cell of each of neighbouring
// columns. For kernels only.
#pragma once

#include "elementwise/kernels/polynomials.hpp"
#include "softmax/kernels/precise.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// Exponentials below e^lowest are taken for zeros. They are less than `below`, which no narrow type distinguishes from
// zero; nor, in a derivative, its product with the largest number of such a type.
struct Floor {
  double lowest, below;
};
constexpr Floor floor_of(Kind kind) { return is_value(kind) ? Floor{-110.0, 0x1p-158} : Floor{-200.0, 0x1p-288}; }
constexpr double kUnit = 0x1p-53;
// The polynomial is off by less than 2^-48 where |r| <= 0.347, the reduction and its evaluation by less than 2^-50.
constexpr double kExponentialError = 0x1p-47;

// exp(d), -200 <= d <= 0; exactly 1 for d = 0.
HALFULP_ALWAYS_INLINE Doubles exponential_of(const Doubles& d) {
  const Doubles shifted = multiply_add(d, splat(kInverseLn2), splat(kRounder));
  const Doubles k = shifted - kRounder;
  const Doubles r = multiply_add(k, splat(-kLn2Second), multiply_add(k, splat(-kLn2First), d));
  Doubles p = splat(kExponentialRest[8]);
  for (int i = 7; i >= 0; --i) p = multiply_add(p, r, splat(kExponentialRest[i]));
  const Doubles rest = multiply_add(Doubles(r * r), p, r);
  const Doubles power = reinterpret<Doubles>((reinterpret<Vector<std::uint64_t>>(shifted) + 1023) << 52);
  return multiply_add(rest, power, power);
}

// What one row's sums are: of e = exp(x - top), and of e t and e |t|, or of t and |t|. Where a logarithm needs it,
// `rest` is the sum of e without the largest cell, and `size` bounds the sum that it was found with.
struct RowSums {
  double top, least, total, rest, product, size;
};

// The coefficients of a row's outputs, and what bounds their errors.
struct RowForm {
  double top = 0, inverse = 0, low = 0, high = 0;  // the inverse of the sum, and both ends of its interval
  double shift = 0, error = 0, relative = 0;
  bool good = false;
};

template <Kind kind>
inline RowForm row_form(const RowSums& s, Index length) {
  RowForm f;
  const double n = static_cast<double>(length), k = (kLongest + 12) * kUnit, below = n * floor_of(kind).below;
  f.top = s.top;
  // A difference is rounded once, which changes its exponential by |d| units at most.
  const double reach = std::fmin(s.top - s.least, -floor_of(kind).lowest);
  const double term = kExponentialError + (reach + 4) * kUnit;
  const double total_error = k + term + below + 4 * kUnit;  // relative; the total is at least 1
  const double p_error = (term + total_error + 8 * kUnit) * 1.01;
  f.inverse = 1.0 / s.total;
  f.low = f.inverse * (1 - p_error);
  f.high = f.inverse * (1 + p_error);
  f.good = std::fabs(s.top) < std::numeric_limits<double>::infinity() && s.total >= 1 && p_error < 0x1p-20;
  if constexpr (kind == Kind::log_value) {
    f.shift = log_one_plus(s.rest);
    f.error = (s.size * (k + term) + below) * 1.01 + f.shift * 24 * kUnit;
    f.relative = 6 * kUnit;
  }
  if constexpr (!is_value(kind)) {
    if constexpr (kind == Kind::log_cotangent) {
      f.shift = s.product;  // the sum of g
      f.error = k * s.size * 1.01;
      f.relative = (p_error + 8 * kUnit) * 1.01;
      f.low = below * s.size * 1.01;
    } else {
      f.shift = s.product * f.inverse;
      f.error = (k + term + total_error + 16 * kUnit) * s.size * f.inverse * 1.02;
      f.relative = p_error + 16 * kUnit;
      f.good &= s.size > 0;  // without any tangent the result is +0, whatever their signs
    }
    f.good &= std::isfinite(f.shift) && std::isfinite(f.error);
  }
  return f;
}

// The same in all lanes, or one for each lane.
struct VectorForm {
  Doubles top, inverse, low, high, shift, error, relative;
  explicit VectorForm(const RowForm& f)
      : top(splat(f.top)),
        inverse(splat(f.inverse)),
        low(splat(f.low)),
        high(splat(f.high)),
        shift(splat(f.shift)),
        error(splat(f.error)),
        relative(splat(f.relative)) {}
  explicit VectorForm(const RowForm* forms) : VectorForm(forms[0]) {
    for (int i = 1; i < kWide; ++i) {
      const RowForm& f = forms[i];
      top[i] = f.top;
      inverse[i] = f.inverse;
      low[i] = f.low;
      high[i] = f.high;
      shift[i] = f.shift;
      error[i] = f.error;
      relative[i] = f.relative;
    }
  }
};

struct Interval {
  Doubles low, high;
};

// Both ends of a cell's result; e is its exponential.
template <Kind kind>
HALFULP_ALWAYS_INLINE Interval interval(const VectorForm& f, const Doubles& e, const Doubles& x, const Doubles& t) {
  if constexpr (kind == Kind::value) return {e * f.low, e * f.high};
  if constexpr (kind == Kind::log_value) {
    const Doubles d = max_first(Doubles(x - f.top), splat(-1e300));  // -inf, which every narrow type rounds this to
    const Doubles y = d - f.shift;
    const Doubles error = multiply_add(magnitude(y), f.relative, f.error);
    return {y - error, y + error};
  }
  if constexpr (kind == Kind::log_cotangent) {
    const Doubles p = e * f.inverse;
    const Doubles product = p * f.shift;
    const Doubles y = t - product;
    const Doubles own = multiply_add(magnitude(t), splat(4 * kUnit), f.low);
    const Doubles error = multiply_add(magnitude(product), f.relative, multiply_add(p, f.error, own));
    return {y - error, y + error};
  }
  const Doubles gap = t - f.shift;
  if constexpr (kind == Kind::log_tangent) return {gap - f.error, gap + f.error};
  // The interval of the gap, widened by the relative error of p; its ends keep their signs where p is zero.
  const Doubles width = multiply_add(magnitude(gap), f.relative, f.error);
  const Doubles p = e * f.inverse;
  return {p * (gap - width), p * (gap + width)};
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
