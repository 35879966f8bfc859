// Straight loops over contiguous numbers, which compilers vectorise.
#include "smooth/shared_kernels.hpp"

#include "smooth/decide.hpp"
#include "smooth/kernels/quick_pairs.hpp"
#include "smooth/kernels/real.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// As RealTraits::unit, for the exponentials of this file.
template <class Real>
inline constexpr double kUnit = RealTraits<Real>::unit;
template <>
inline constexpr double kUnit<Pair> = 0x1p-74;

SmoothRange range(const double* u, Index n) {
  constexpr Index lanes = 16;  // independent of each other
  double lowest[lanes], highest[lanes];
  for (Index i = 0; i < lanes; ++i) {
    lowest[i] = kInfinity;
    highest[i] = -kInfinity;
  }
  const auto meet = [&](Index i, double x) {
    lowest[i] = ((x < lowest[i]) & (x > -kInfinity)) ? x : lowest[i];
    highest[i] = ((x > highest[i]) & (x < kInfinity)) ? x : highest[i];
  };
  Index j = 0;
  for (; j + lanes <= n; j += lanes)
    for (Index i = 0; i < lanes; ++i) meet(i, u[j + i]);
  for (; j < n; ++j) meet(0, u[j]);
  SmoothRange all{kInfinity, -kInfinity};
  for (Index i = 0; i < lanes; ++i) {
    all.lowest = lowest[i] < all.lowest ? lowest[i] : all.lowest;
    all.highest = highest[i] > all.highest ? highest[i] : all.highest;
  }
  return all;
}

// What is too low for an exponential, -inf included, gets the lowest there is; what is above all finite cells, NaN.
template <class Real>
void exponentials(const SmoothBeta& given, double top, SmoothParts u, Index n) {
  using R = RealTraits<Real>;
  const Real beta = R::from(given.high, given.low);
  const double farthest = 1.01 * R::lowest_exponent / given.high;  // so that no product overflows
  double* __restrict high = u.high;
  double* __restrict low = u.low;
  for (Index i = 0; i < n; ++i) {
    const Real below = difference(high[i], top, static_cast<Real*>(nullptr));
    const bool far = R::high(below) < farthest;
    const Real d = beta * R::from(far ? farthest : R::high(below), far ? 0.0 : R::low(below));
    const bool tiny = R::high(d) < R::lowest_exponent;
    const Real exponent = R::from(tiny ? R::lowest_exponent : R::high(d), tiny ? 0.0 : R::low(d));
    if constexpr (sizeof(Real) == sizeof(double)) high[i] = exponential(exponent);
    else put(high, low, i, exponent);
  }
  if constexpr (sizeof(Real) != sizeof(double)) quick_exponentials(high, low, n);
}

// Sums are left in two parts that need not be normalised: the low one collects what the additions of high ones lose.
template <class Real, Index FromStep, Index ToStep>
void add_steps(SmoothParts from, Index from_step, SmoothParts to, Index to_step, Index n) {
  const Index a = FromStep == 0 ? from_step : FromStep, b = ToStep == 0 ? to_step : ToStep;
  const double* __restrict x = from.high;
  double* __restrict y = to.high;
  if constexpr (sizeof(Real) == sizeof(double)) {
    for (Index i = 0; i < n; ++i) y[i * b] += x[i * a];
  } else {
    const double* __restrict x_low = from.low;
    double* __restrict y_low = to.low;
    for (Index i = 0; i < n; ++i) {
      const TwoDoubles s = two_sum(y[i * b], x[i * a]);
      y[i * b] = s.high;
      y_low[i * b] += s.low + x_low[i * a];
    }
  }
}

template <class Real>
void add(SmoothParts from, Index from_step, SmoothParts to, Index to_step, Index n) {
  const auto sum = from_step == 1 && to_step == 1   ? add_steps<Real, 1, 1>
                   : from_step == 2 && to_step == 1 ? add_steps<Real, 2, 1>
                   : from_step == 1 && to_step == 2 ? add_steps<Real, 1, 2>
                                                    : add_steps<Real, 0, 0>;
  sum(from, from_step, to, to_step, n);
}

template <class Real>
void weigh(SmoothParts weight, SmoothParts t, Index n) {
  const double* __restrict high = weight.high;
  const double* __restrict low = weight.low;
  double* __restrict to = t.high;
  double* __restrict to_low = t.low;
  for (Index i = 0; i < n; ++i)
    put(to, to_low, i, at<Real>(high, low, i) * RealTraits<Real>::from(to[i], 0.0));
}

// A sum's two parts, normalised.
inline double normal(double x) { return x; }
inline Pair normal(Pair x) {
  const TwoDoubles s = two_sum(x.high, x.low);
  return {s.high, s.low};
}

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// Logarithms of normal sums, in `l`; `e` is scratch. In pairs one step of third order from the logarithm y in double,
// y + 2 (s - e^y) / (s + e^y), cubes its error; the quotient is so small that a double has it.
template <class Real>
void logarithms(const double* high, const double* low, SmoothParts l, [[maybe_unused]] SmoothParts e, Index n) {
  double* __restrict to = l.high;
  if constexpr (sizeof(Real) == sizeof(double)) {
    for (Index i = 0; i < n; ++i) to[i] = logarithm(high[i]);
  } else {
    double* __restrict to_low = l.low;
    double* __restrict power = e.high;
    double* __restrict power_low = e.low;
    for (Index i = 0; i < n; ++i) {
      const double y = logarithm(high[i] + low[i]);
      to[i] = y;
      power[i] = y;
      power_low[i] = 0.0;
    }
    quick_exponentials(power, power_low, n);
    for (Index i = 0; i < n; ++i) {
      const Pair s = normal(Pair{high[i], low[i]});
      const double step = 2.0 * ((s.high - power[i]) + (s.low - power_low[i])) / (s.high + power[i]);
      const TwoDoubles sum = two_sum(to[i], step);
      to[i] = sum.high;
      to_low[i] = sum.low;
    }
  }
}

template <class Real>
void values(const SmoothBeta& given, double top, double slack, SmoothParts total, SmoothResults out, Index n) {
  using R = RealTraits<Real>;
  const Real inverse = R::from(1.0, 0.0) / R::from(given.high, given.low);
  const double steepness = R::high(inverse);
  const double* __restrict high = total.high;
  const double* __restrict low = total.low;
  double* __restrict value = out.value.high;
  double* __restrict value_low = out.value.low;
  double* __restrict error = out.error;
  constexpr Index kRun = 256;
  double log_high[kRun], log_low[kRun], power[kRun], power_low[kRun];
  for (Index from = 0; from < n; from += kRun) {
    const Index run = n - from < kRun ? n - from : kRun;
    logarithms<Real>(high + from, sizeof(Real) == sizeof(double) ? low : low + from, {log_high, log_low},
                     {power, power_low}, run);
    for (Index j = 0; j < run; ++j) {
      const Index i = from + j;
      const Real l = at<Real>(log_high, log_low, j);
      const Real y = R::from(top, 0.0) + l * inverse;
      put(value, value_low, i, y);
      const double bound = (slack + 32.0 * std::fabs(R::high(l))) * steepness + 2.0 * std::fabs(R::high(y));
      error[i] = high[i] > kSmoothLeastWeight ? bound * (1.02 * kUnit<Real>) : kUnknown;
    }
  }
}

// At least |log x| for a normal x.
inline double log_magnitude(double x) {
  const auto exponent = std::bit_cast<std::uint64_t>(x) >> 52;
  const double k = std::bit_cast<double>(exponent | 0x4330000000000000) - (0x1p52 + 1023.0);
  return (std::fabs(k) + 1.0) * 0.6932;
}

template <class Real>
void means(double largest, double slack, SmoothParts sum, SmoothParts total, SmoothResults out, Index n) {
  const double* __restrict sum_high = sum.high;
  const double* __restrict sum_low = sum.low;
  const double* __restrict high = total.high;
  const double* __restrict low = total.low;
  double* __restrict value = out.value.high;
  double* __restrict value_low = out.value.low;
  double* __restrict error = out.error;
  for (Index i = 0; i < n; ++i) {
    put(value, value_low, i, normal(at<Real>(sum_high, sum_low, i)) / normal(at<Real>(high, low, i)));
    const bool known = (high[i] > kSmoothLeastWeight) & (std::fabs(value[i]) < kInfinity);
    error[i] = known ? (slack + 8.0 * log_magnitude(high[i])) * (largest * 2.04 * kUnit<Real>) : kUnknown;
  }
}

template <class Real>
void shares(const double* g, SmoothParts total, double* magnitude, Index n) {
  using R = RealTraits<Real>;
  double* __restrict high = total.high;
  double* __restrict low = total.low;
  for (Index i = 0; i < n; ++i) {
    const Real share = R::from(g[i], 0.0) / normal(at<Real>(high, low, i));
    put(high, low, i, share);
    magnitude[i] = std::fabs(R::high(share));
  }
}

template <class Real>
void products(double slack, SmoothParts weight, SmoothParts sum, const double* magnitude, SmoothResults out, Index n) {
  const double* __restrict sum_high = sum.high;
  const double* __restrict sum_low = sum.low;
  const double* __restrict high = weight.high;
  const double* __restrict low = weight.low;
  double* __restrict value = out.value.high;
  double* __restrict value_low = out.value.low;
  double* __restrict error = out.error;
  for (Index i = 0; i < n; ++i) {
    put(value, value_low, i, at<Real>(high, low, i) * normal(at<Real>(sum_high, sum_low, i)));
    error[i] = high[i] > kSmoothLeastWeight ? high[i] * magnitude[i] * (slack * 1.02 * kUnit<Real>) : kUnknown;
  }
}

template <class T>
Index finish(SmoothResults results, void* out, Index n) {
  const double* __restrict high = results.value.high;
  const double* __restrict low = results.value.low;
  const double* __restrict error = results.error;
  T* __restrict to = static_cast<T*>(out);
  Index undecided = 0;
  for (Index i = 0; i < n; ++i)
    undecided += decide_shared<T>(high[i], std::is_same_v<T, double> ? low[i] : 0.0, error[i], to[i]) ? 0 : 1;
  return undecided;
}

}  // namespace

const SmoothSharedKernels& smooth_shared_kernels() {
  static constexpr SmoothSharedKernels table{
      range,
      {exponentials<double>, exponentials<Pair>},
      {add<double>, add<Pair>},
      {weigh<double>, weigh<Pair>},
      {values<double>, values<Pair>},
      {means<double>, means<Pair>},
      {shares<double>, shares<Pair>},
      {products<double>, products<Pair>},
      {finish<Float16>, finish<BFloat16>, finish<float>, finish<double>},
  };
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
