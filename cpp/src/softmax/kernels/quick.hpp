// Softmax in double, with error bounds for a row. Vectors hold cells of one row, or one cell of each of neighbouring
// columns. For kernels only.
#pragma once

#include "elementwise/kernels/polynomials.hpp"
#include "softmax/kernels/precise.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// Exponentials below e^kLowest are taken for zeros. They are less than kBelow, which no narrow type distinguishes from
// zero; nor its product with the largest number of such a type.
constexpr double kLowest = -200.0, kBelow = 0x1p-288;
constexpr double kUnit = 0x1p-53;
// The polynomial is off by less than 2^-48 where |r| <= 0.347, the reduction and its evaluation by less than 2^-50.
constexpr double kExponentialError = 0x1p-47;

// A difference is rounded once, which changes its exponential by |d| units at most. Where products are fused, ln 2 is
// one double, which adds less than a third of that.
constexpr double kReachUnits = kFused ? 1.5 : 1.0;

// exp(d), -200 <= d <= 0, of some vectors, step by step; exactly 1 for d = 0. One vector's steps wait for each other.
template <int count>
HALFULP_ALWAYS_INLINE void exponentials_of(Doubles (&d)[count]) {
  using Bits = Vector<std::uint64_t>;
  Doubles shifted[count], p[count];
HALFULP_UNROLL(8)
  for (int j = 0; j < count; ++j) shifted[j] = multiply_add(d[j], splat(kInverseLn2), splat(kRounder));
HALFULP_UNROLL(8)
  for (int j = 0; j < count; ++j) {
    const Doubles k = shifted[j] - kRounder;
    if constexpr (kFused) d[j] = multiply_add(k, splat(-(kLn2First + kLn2Second)), d[j]);
    else d[j] = multiply_add(k, splat(-kLn2Second), multiply_add(k, splat(-kLn2First), d[j]));
    p[j] = splat(kExponentialRest[8]);
  }
HALFULP_UNROLL(8)
  for (int i = 7; i >= 0; --i)
HALFULP_UNROLL(8)
    for (int j = 0; j < count; ++j) p[j] = multiply_add(p[j], d[j], splat(kExponentialRest[i]));
HALFULP_UNROLL(2)
  for (int i = 0; i < 2; ++i)
HALFULP_UNROLL(8)
    for (int j = 0; j < count; ++j) p[j] = multiply_add(p[j], d[j], splat(1.0));
HALFULP_UNROLL(8)
  for (int j = 0; j < count; ++j)  // times 2^k
    d[j] = reinterpret<Doubles>(reinterpret<Bits>(p[j]) + (reinterpret<Bits>(shifted[j]) << 52));
}

// What one row's sums are: of e = exp(x - top), and of e t and e |t|, or of t and |t|. Values
// of log-softmax need the logarithm of the total, and in `size` a bound of the sum that it was found with.
struct RowSums {
  double top, least, total, logarithm, product, size;
};

// A bound of the sum of e |t|, or of |t|, from the largest |t| of a row.
template <Kind kind>
inline double size_of_sums(double most, double total, Index length) {
  return most * (kind == Kind::log_cotangent ? static_cast<double>(length) : total) * (1 + 0x1p-20);
}

// The coefficients of a row's outputs, and what bounds their errors.
struct RowForm {
  double top = 0, inverse = 0, low = 0, high = 0;  // the inverse of the sum, and both ends of its interval
  double shift = 0, error = 0, relative = 0;
  bool good = false;
};

template <Kind kind>
inline RowForm row_form(const RowSums& s, Index length) {
  RowForm f;
  const double n = static_cast<double>(length), k = (kLongest + 12) * kUnit, below = n * kBelow;
  f.top = s.top;
  const double depth = s.top - s.least, reach = depth < -kLowest ? depth : -kLowest;
  const double term = kExponentialError + (kReachUnits * reach + 5) * kUnit;
  const double total_error = k + term + below + 4 * kUnit;  // relative; the total is at least 1
  const double p_error = (term + total_error + 8 * kUnit) * 1.01;
  f.inverse = 1.0 / s.total;
  f.low = f.inverse * (1 - p_error);
  f.high = f.inverse * (1 + p_error);
  f.good = std::fabs(s.top) < std::numeric_limits<double>::infinity() && s.total >= 1 && p_error < 0x1p-20;
  if constexpr (kind == Kind::log_value) {
    f.shift = s.logarithm;
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

// One bound for all cells of a row, where there is one. It is wider than an interval, and takes fewer operations.
template <Kind kind>
struct RowBound {
  static constexpr bool kRelative = is_value(kind);
  bool good = false;
  std::uint32_t margin = 0;                    // of values: units of a double's last place
  double factor = 0, low = 0, high = 0;        // of derivatives

  RowBound() = default;
  // Cells are at most `reach` below the top, tangents at most `most`.
  RowBound(const RowForm& f, double reach, double most) {
    if constexpr (kind == Kind::value) {  // e factor
      factor = 0.5 * (f.low + f.high);
      const double size = std::fabs(factor);
      set_margin(0.5 * std::fabs(f.high - f.low) / size);
      good &= reach <= 40 && size >= 0x1p-60 && size <= 0x1p60;  // so that results are normal floats
    } else if constexpr (kind == Kind::log_value) {  // (x - top) - shift, whose magnitude is at least shift
      set_margin(((reach + f.shift) * f.relative + f.error) / f.shift);
      good &= f.shift >= 0x1p-60;
    } else if constexpr (kind == Kind::derivative) {  // between e (t factor + low) and e (t factor + high)
      const double width = ((most + std::fabs(f.shift)) * f.relative + f.error) * 1.01;
      factor = f.inverse;
      low = -(f.shift + width) * f.inverse;
      high = -(f.shift - width) * f.inverse;
      good = std::isfinite(width);
    } else if constexpr (kind == Kind::log_cotangent) {  // t + e factor, off by high; p is at most the inverse
      factor = -(f.shift * f.inverse);
      high = (std::fabs(factor) * f.relative + f.inverse * f.error + 4 * kUnit * most + f.low) * 1.01;
      good = std::isfinite(high);
    }
  }

 private:
  void set_margin(double relative) {
    const double units = (relative * 1.01 + 4 * kUnit) * 0x1p53 + 2;
    good = units < 0x1p20;
    margin = good ? static_cast<std::uint32_t>(units) : 0;
  }
};

// Both ends of derivatives, with the bound of a row.
template <Kind kind>
struct DerivativeEnds {
  Doubles factor{}, low{}, high{};
  DerivativeEnds() = default;
  DerivativeEnds(const Doubles& a, const Doubles& b, const Doubles& c) : factor(a), low(b), high(c) {}
  explicit DerivativeEnds(const RowBound<kind>& b) : factor(splat(b.factor)), low(splat(b.low)), high(splat(b.high)) {}
  HALFULP_ALWAYS_INLINE Interval operator()(const Doubles& e, const Doubles& t) const {
    if constexpr (kind == Kind::derivative)
      return {e * multiply_add(t, factor, low), e * multiply_add(t, factor, high)};
    const Doubles y = multiply_add(e, factor, t);
    return {y - high, y + high};
  }
};

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
