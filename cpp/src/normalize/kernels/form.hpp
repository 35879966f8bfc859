// Moments with their error bounds, and the formulas of outputs in double. For kernels only.
#pragma once

#include "normalize/kernels/sums.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

constexpr double kUnit = 0x1p-53;

// 1 / sqrt(whole), whole being off by `error`.
inline void finish_scale(GroupMoments& m, double whole, double error) {
  const double relative = error / whole + 4 * kUnit;
  m.good = whole > 0 && std::isfinite(whole) && relative < 0.01 ? 1.0 : 0.0;
  m.scale = 1.0 / std::sqrt(whole);
  m.relative = 0.52 * relative + 6 * kUnit;
  if (!std::isfinite(m.scale) || !std::isfinite(m.delta_error)) m.good = 0.0;
}

inline GroupMoments given_moments(const NormProblem& p, Index group) {
  GroupMoments m{};
  m.pivot = number_at(p.dtype, p.mean, group % p.groups);
  m.square = m.largest = std::numeric_limits<double>::infinity();  // nobody has looked at the cells
  const double whole = number_at(p.dtype, p.variance, group % p.groups) + p.eps;
  finish_scale(m, whole, 0.0);
  if (!std::isfinite(m.pivot)) m.good = 0.0;
  return m;
}

// From the sums of c and c^2 of n cells. False if the pivot is far from the mean, and a better one is in m.
inline bool moments_from(GroupMoments& m, double d, double q, double most, double n, double eps, bool final) {
  m.delta = d / n;
  m.square = q / n;
  m.largest = std::sqrt(most) * (1 + 0x1p-40);
  m.good = 0.0;
  if (!std::isfinite(q) || !std::isfinite(d)) return true;
  const double mean = std::fabs(m.delta);
  if (!final && mean * mean > m.square / 2) {
    m.pivot = static_cast<double>(static_cast<float>(m.pivot + m.delta));
    if (std::isfinite(m.pivot)) return false;
    return true;
  }
  m.delta_error = kMomentError * std::sqrt(m.square) * (1 + 0x1p-20) + 2 * kUnit * mean;
  const double error = kMomentError * m.square + 2.1 * mean * m.delta_error + m.delta_error * m.delta_error +
                       6 * kUnit * (m.square + mean * mean);
  finish_scale(m, (m.square - m.delta * m.delta) + eps, error);
  return true;
}

// The mean of some cells as a float, or their value if they are equal.
inline double pivot_of(DType dtype, const void* x, Index start, Index count, Index stride) {
  double sum = 0;
  bool equal = true;
  const double first = number_at(dtype, x, start);
  for (Index i = 0; i < count; ++i) {
    const double v = number_at(dtype, x, start + i * stride);
    sum += v;
    equal &= v == first;
  }
  const double mean = static_cast<double>(static_cast<float>(sum / static_cast<double>(count)));
  return equal || !std::isfinite(mean) ? first : mean;
}
// Of a run of n cells: from four positions. The mean of equal floats is exact.
inline double run_pivot(const float* x, Index n) {
  if (n < 8 * kWide) return pivot_of(DType::f32, x, 0, n < 64 ? n : 64, 1);
  const Index far = n / 4;
  const Doubles a = load_doubles(x) + load_doubles(x + far), b = load_doubles(x + 2 * far) + load_doubles(x + 3 * far);
  const double mean = static_cast<double>(static_cast<float>(lane_sum({a + b, Doubles{}}) / (4.0 * kWide)));
  return std::isfinite(mean) ? mean : number(x[0]);
}

// With a pivot of zero first if the mean is thought to be small, which saves the subtractions.
HALFULP_NOINLINE inline GroupMoments group_moments(const NormProblem& p, Index group, bool at_zero = false) {
  if (p.mean != nullptr) return given_moments(p, group);
  CellRow<float> x(p.dtype, p.x);
  const Index head = CellRow<float>::chunk(p.dtype, p.inner);
  GroupMoments m{};
  m.pivot = at_zero ? 0.0 : run_pivot(x.at(p.start(group, 0), head), head);
  for (const bool final : {false, true}) {
    MomentSums sums;
    for (Index run = 0; run < p.runs(); ++run)
      in_chunks<float>(p.dtype, p.inner, [&](Index at, Index count) {
        sums.add(x.at(p.start(group, run) + at, count), count, m.pivot);
      });
    const double n = static_cast<double>(p.cells());
    if (moments_from(m, lane_sum(sums.d), lane_sum(sums.q), largest_lane(sums.most), n, p.eps, final)) break;
  }
  return m;
}

// Which formula gives an output, c = x - pivot:
enum class Rule {
  value,           // c across + constant
  cotangent_given,  // t along
  both,            // t along + (c across + constant)
  cell_value,      // (c scale + shift) w + b
  cell_cotangent,  // (t w) along + (c across + constant)
  cell_tangent,    // w (t along + (c across + constant)) + (dw (c scale + shift) + db)
};

constexpr bool uses_cells(Rule rule) { return rule != Rule::cotangent_given; }
constexpr bool uses_tangents(Rule rule) { return rule != Rule::value && rule != Rule::cell_value; }
constexpr bool uses_weights(Rule rule) {
  return rule == Rule::cell_value || rule == Rule::cell_cotangent || rule == Rule::cell_tangent;
}

// The coefficients, and how much of an output's error each factor has.
struct Form {
  double pivot = 0, across = 0, along = 0, constant = 0, scale = 0, shift = 0;
  double across_error = 0, along_error = 0, constant_error = 0, scale_error = 0, shift_error = 0;

  template <Rule rule, class V>
  HALFULP_ALWAYS_INLINE V value(const V& c, const V& t, const V& w, const V& b, const V& dw, const V& db) const {
    const auto all = [](double x) HALFULP_IN_LINE { return V(x - V{}); };
    if constexpr (rule == Rule::value) return multiply_add(c, all(across), all(constant));
    if constexpr (rule == Rule::cotangent_given) return multiply_add(t, all(along), V{});
    if constexpr (rule == Rule::cell_value) return multiply_add(multiply_add(c, all(scale), all(shift)), w, b);
    const V rest = multiply_add(c, all(across), all(constant));
    if constexpr (rule == Rule::both) return multiply_add(t, all(along), rest);
    if constexpr (rule == Rule::cell_cotangent) return multiply_add(V(t * w), all(along), rest);
    const V normal = multiply_add(c, all(scale), all(shift));
    return multiply_add(w, multiply_add(t, all(along), rest), multiply_add(dw, normal, db));
  }
  // From the magnitudes of the same numbers.
  template <Rule rule, class V>
  HALFULP_ALWAYS_INLINE V error(const V& c, const V& t, const V& w, const V& b, const V& dw, const V& db) const {
    const auto all = [](double x) HALFULP_IN_LINE { return V(x - V{}); };
    if constexpr (rule == Rule::value) return multiply_add(c, all(across_error), all(constant_error));
    if constexpr (rule == Rule::cotangent_given) return t * along_error;
    const V normal = multiply_add(c, all(scale_error), all(shift_error));
    if constexpr (rule == Rule::cell_value) return multiply_add(w, normal, V(b * (8 * kUnit)));
    const V rest = multiply_add(c, all(across_error), all(constant_error));
    if constexpr (rule == Rule::both) return multiply_add(t, all(along_error), rest);
    if constexpr (rule == Rule::cell_cotangent) return multiply_add(V(t * w), all(along_error), rest);
    return multiply_add(w, multiply_add(t, all(along_error), rest),
                        multiply_add(dw, normal, V(db * (8 * kUnit))));
  }
  bool finite() const {
    double sum = 0;
    for (const double x : {pivot, across, along, constant, scale, shift, across_error, along_error, constant_error,
                           scale_error, shift_error})
      sum += x * 0.0;
    return sum == 0;
  }
};

// The normal form c r - delta r: the errors of the moments and of ten operations.
inline void normal_part(Form& f, const GroupMoments& m) {
  f.pivot = m.pivot;
  f.scale = m.scale;
  f.shift = -(m.delta * m.scale);
  f.scale_error = m.scale * (m.relative + 10 * kUnit) * 1.01;
  f.shift_error = m.scale * (m.delta_error + std::fabs(m.delta) * (m.relative + 10 * kUnit)) * 1.02;
}

// weight (c r - delta r) + bias for one channel
inline Form value_form(const GroupMoments& m, double weight, double bias) {
  Form f;
  normal_part(f, m);
  const double size = std::fabs(weight);
  f.across = f.scale * weight;
  f.constant = (f.shift * weight + bias) + 0.0;
  f.across_error = f.scale_error * size * 1.01;
  f.constant_error = (f.shift_error * size + 8 * kUnit * std::fabs(bias)) * 1.01;
  return f;
}

// Sums over a whole group: of h, h c, h^2.
struct GroupSums {
  double h = 0, hc = 0, hh = 0, most = 0;
};

// r (h - mean(h) - (c - delta) slope), slope = r^2 mean(h (c - delta)), over n cells: along is the factor of h.
inline Form derivative_form(const GroupMoments& m, const GroupSums& s, double n) {
  Form f;
  normal_part(f, m);
  const double r = m.scale, delta = std::fabs(m.delta), k = kProjectionError * (1 + 0x1p-18);
  const double h_error = (k * std::sqrt(s.hh * n) + 4 * kUnit * std::fabs(s.h)) / n;
  const double hc_error = (k * std::sqrt(s.hh * (m.square * n)) + 4 * kUnit * std::fabs(s.hc)) / n;
  const double mean = s.h / n, product = s.hc / n - m.delta * mean;
  const double product_error = hc_error + delta * h_error + m.delta_error * (std::fabs(mean) + h_error) +
                               4 * kUnit * (std::fabs(s.hc / n) + delta * std::fabs(mean));
  const double slope = r * r * product, steep = std::fabs(slope);
  const double slope_error = r * r * product_error * 1.02 + steep * (2 * m.relative + 8 * kUnit) * 1.02;
  const double middle = mean - m.delta * slope;
  const double middle_error = h_error + delta * slope_error + m.delta_error * (steep + slope_error) +
                              6 * kUnit * (std::fabs(mean) + delta * steep);
  f.along = r;
  f.across = -(r * slope);
  f.constant = -(r * middle) + 0.0;
  f.along_error = r * (m.relative + 10 * kUnit) * 1.01;
  f.across_error = r * (slope_error + steep * (m.relative + 10 * kUnit)) * 1.02;
  f.constant_error = r * (middle_error + std::fabs(middle) * (m.relative + 10 * kUnit)) * 1.02;
  return f;
}

// weight times a derivative, and d_weight (c r - delta r) + d_bias, for one channel
inline Form tangent_form(const Form& derivative, double weight, double d_weight, double d_bias) {
  Form f = derivative;
  const double size = std::fabs(weight), d_size = std::fabs(d_weight);
  f.along *= weight;
  f.across = f.across * weight + f.scale * d_weight;
  f.constant = (f.constant * weight + (f.shift * d_weight + d_bias)) + 0.0;
  const double more = 8 * kUnit;
  f.along_error = (derivative.along_error + more * std::fabs(derivative.along)) * size * 1.01;
  f.across_error = ((derivative.across_error + more * std::fabs(derivative.across)) * size +
                    (f.scale_error + more * f.scale) * d_size) * 1.01;
  f.constant_error = ((derivative.constant_error + more * std::fabs(derivative.constant)) * size +
                      (f.shift_error + more * std::fabs(f.shift)) * d_size + more * std::fabs(d_bias)) * 1.01;
  return f;
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
