// Values of elementwise functions that no formula gives: at infinity, at poles, outside of the domain, and far out,
// where float64 has only 0 or infinity.
#pragma once

#include <cmath>
#include <limits>
#include <optional>

#include "halfulp/elementwise.hpp"

namespace halfulp {

namespace limits {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

inline bool is_odd(double e) { return std::fabs(e) < 0x1p53 && std::fmod(e, 2.0) != 0.0 && std::floor(e) == e; }

// x^e for x that is zero, infinite, or negative with an exponent that is not whole.
inline double power(double x, double e) {
  if (e == 0.0) return 1.0;
  const double sign = std::signbit(x) && is_odd(e) ? -1.0 : 1.0;
  if (x == 0.0) return sign * (e > 0.0 ? 0.0 : kInfinity);
  if (std::isinf(x)) return sign * (e > 0.0 ? kInfinity : 0.0);
  return kNaN;
}

// The end of a function towards which x lies: -inf or +inf where its value or derivative is that of the end already.
inline double end_of(Function f, const FunctionParameters& p, double x, bool slope) {
  if (std::isinf(x)) return x;
  const double far = slope ? 1500.0 : 760.0;  // exp of it, times the largest double, is still below the least one
  switch (f) {
    case Function::exp: return x < -far ? -kInfinity : x > far ? kInfinity : x;
    case Function::expm1: return x > far ? kInfinity : slope && x < -far ? -kInfinity : x;
    case Function::sigmoid:
    case Function::silu:
    case Function::mish: return x < -far ? -kInfinity : f == Function::sigmoid && slope && x > far ? kInfinity : x;
    case Function::gelu: return x < (slope ? -60.0 : -40.0) ? -kInfinity : x;
    case Function::gelu_tanh: return x < -30.0 ? -kInfinity : x;
    case Function::tanh: return slope && std::fabs(x) > far ? std::copysign(kInfinity, x) : x;
    case Function::erf: return slope && std::fabs(x) > 60.0 ? std::copysign(kInfinity, x) : x;
    case Function::elu: return slope && x < -far && std::fabs(p.first) < 1e9 ? -kInfinity : x;
    case Function::softplus:
      return p.first >= 0x1p-30 && p.first <= 0x1p100 && x * p.first < -far - 40.0 ? -kInfinity : x;
    default: return x;
  }
}

inline double value_at_end(Function f, const FunctionParameters& p, double x) {
  const bool up = x > 0.0;
  switch (f) {
    case Function::relu: case Function::hardswish: return up ? kInfinity : 0.0;
    case Function::exp: return up ? kInfinity : 0.0;
    case Function::leaky_relu: return up ? kInfinity : p.first == 0.0 ? 0.0 : -kInfinity * p.first;
    case Function::elu: return up ? kInfinity : -p.first;
    case Function::expm1: return up ? kInfinity : -1.0;
    case Function::sigmoid: case Function::hardsigmoid: return up ? 1.0 : 0.0;
    case Function::tanh: case Function::erf: return up ? 1.0 : -1.0;
    case Function::softplus: return up == (p.first > 0.0) ? x : p.first > 0.0 ? 0.0 : -0.0;
    case Function::gelu: case Function::gelu_tanh: case Function::silu: case Function::mish: return up ? x : -0.0;
    case Function::hardtanh: return up ? p.second : p.first;
    case Function::log: case Function::log1p: case Function::sqrt: return up ? kInfinity : kNaN;
    case Function::rsqrt: return up ? 0.0 : kNaN;
    case Function::reciprocal: return up ? 0.0 : -0.0;
    case Function::abs: return kInfinity;
    case Function::pow: return power(x, p.first);
    default: return kNaN;
  }
}

// A zero has the sign of the side from which it is reached; one that holds on a whole piece is decided before.
inline double slope_at_end(Function f, const FunctionParameters& p, double x) {
  const bool up = x > 0.0;
  switch (f) {
    case Function::gelu: case Function::gelu_tanh: case Function::silu: case Function::mish: return up ? 1.0 : -0.0;
    case Function::relu: case Function::hardswish: return up ? 1.0 : 0.0;
    case Function::leaky_relu: return up ? 1.0 : p.first;
    case Function::elu: return up ? 1.0 : std::copysign(0.0, p.first);
    case Function::exp: case Function::expm1: return up ? kInfinity : 0.0;
    case Function::softplus: return up == (p.first > 0.0) ? 1.0 : 0.0;
    case Function::log: case Function::log1p: case Function::sqrt: return up ? 0.0 : kNaN;
    case Function::rsqrt: return up ? -0.0 : kNaN;
    case Function::reciprocal: return -0.0;
    case Function::abs: return up ? 1.0 : -1.0;
    case Function::pow: return std::copysign(1.0, p.first) * power(x, p.first - 1.0);
    default: return 0.0;
  }
}

// Poles and the outside of a domain, for finite x.
inline std::optional<double> value_outside(Function f, const FunctionParameters& p, double x) {
  switch (f) {
    case Function::log: if (x <= 0.0) return x == 0.0 ? -kInfinity : kNaN; break;
    case Function::log1p: if (x <= -1.0) return x == -1.0 ? -kInfinity : kNaN; break;
    case Function::sqrt: if (x < 0.0) return kNaN; break;
    case Function::rsqrt: if (x <= 0.0) return x == 0.0 ? std::copysign(kInfinity, x) : kNaN; break;
    case Function::reciprocal: if (x == 0.0) return std::copysign(kInfinity, x); break;
    case Function::pow:
      if (x == 0.0 || (x < 0.0 && std::floor(p.first) != p.first)) return power(x, p.first);
      break;
    default: break;
  }
  return std::nullopt;
}
inline std::optional<double> slope_outside(Function f, const FunctionParameters& p, double x) {
  switch (f) {
    case Function::log: case Function::sqrt: if (x <= 0.0) return x == 0.0 ? kInfinity : kNaN; break;
    case Function::log1p: if (x <= -1.0) return x == -1.0 ? kInfinity : kNaN; break;
    case Function::rsqrt: if (x <= 0.0) return x == 0.0 ? -kInfinity : kNaN; break;
    case Function::reciprocal: if (x == 0.0) return -kInfinity; break;
    case Function::pow:
      if (x < 0.0 && std::floor(p.first) != p.first) return kNaN;
      if (x == 0.0) return std::copysign(1.0, p.first) * power(x, p.first - 1.0);
      break;
    default: break;
  }
  return std::nullopt;
}

// slope * t for a finite x so far out that the slope is all but its limit, a zero or an infinity.
inline double far_product(double slope, double t) {
  const double sign = std::copysign(1.0, slope);
  return t == 0.0 || !std::isfinite(t) ? sign * t : slope * t;
}

}  // namespace limits

// The result where it is such a value, or any number of NaN.
inline std::optional<double> limit_of(Function f, const FunctionParameters& p, double x, const double* t) {
  using namespace limits;
  if (std::isnan(x) && f == Function::relu && t != nullptr) return *t;
  if (std::isnan(x)) return f == Function::pow && p.first == 0.0 ? (t == nullptr ? 1.0 : 0.0) : kNaN;
  const double end = end_of(f, p, x, t != nullptr);
  if (t == nullptr) return std::isinf(end) ? value_at_end(f, p, end) : value_outside(f, p, x);
  if (std::isinf(x)) return slope_at_end(f, p, x) * *t;
  if (std::isinf(end)) return far_product(slope_at_end(f, p, end), *t);
  if (const auto slope = slope_outside(f, p, x)) return *slope == 0.0 ? 0.0 : *slope * *t;
  return std::isnan(*t) ? std::optional<double>(kNaN) : std::nullopt;  // a derivative of 0 has been decided before
}

}  // namespace halfulp
