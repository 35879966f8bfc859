// Straight loops over contiguous numbers, which compilers vectorise.
#include "smooth/shared_kernels.hpp"

#include <algorithm>

#include "simd/deinterleave.hpp"
#include "smooth/decide.hpp"
#include "smooth/kernels/quick_pairs.hpp"
#include "smooth/kernels/real.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// As RealTraits::unit, for the exponentials of this file; and whether their errors grow with the exponents.
template <class Real>
inline constexpr double kUnit = RealTraits<Real>::unit;
template <>
inline constexpr double kUnit<Pair> = 0x1p-73;
template <class Real>
inline constexpr double kGrowth = 1.0;
template <>
inline constexpr double kGrowth<Pair> = 0.0;

SmoothRange range(const double* u, Index n) {
  // Of all numbers but NaN; once more if there are infinities.
  Doubles lowest[2] = {splat(kInfinity), splat(kInfinity)}, highest[2] = {splat(-kInfinity), splat(-kInfinity)};
  Index j = 0;
  for (; j + 2 * kWide <= n; j += 2 * kWide) {
    for (int v = 0; v < 2; ++v) {
      const Doubles x = load(u + j + v * kWide);
      lowest[v] = select(x < lowest[v], x, lowest[v]);
      highest[v] = max_first(highest[v], x);
    }
  }
  SmoothRange all{kInfinity, -kInfinity};
  const auto meet = [&](double low, double high) {
    all = {low < all.lowest ? low : all.lowest, high > all.highest ? high : all.highest};
  };
  for (int v = 0; v < 2; ++v)
    for (int i = 0; i < kWide; ++i) meet(lowest[v][i], highest[v][i]);
  for (Index i = j; i < n; ++i) meet(u[i], u[i]);
  if (all.lowest > -kInfinity && all.highest < kInfinity) return all;
  all = {kInfinity, -kInfinity};
  for (Index i = 0; i < n; ++i)
    if (std::isfinite(u[i])) meet(u[i], u[i]);
  return all;
}

// What is too low for an exponential, -inf included, gets the lowest there is; what is above all finite cells, NaN.
void exponentials(const SmoothBeta& beta, double top, SmoothParts u, Index n) {
  constexpr double lowest = RealTraits<double>::lowest_exponent;
  const double slope = beta.high, farthest = 1.01 * lowest / slope;  // so that no product overflows
  double* __restrict high = u.high;
  for (Index i = 0; i < n; ++i) {
    const double below = high[i] - top;
    const double d = slope * (below < farthest ? farthest : below);
    high[i] = exponential(d < lowest ? lowest : d);
  }
}

// Sums are left in two parts that need not be normalised: the low one collects what the additions of high ones lose.
template <class Real, class V>
struct Sum {
  V high{}, low{};
  HALFULP_ALWAYS_INLINE void add(const V& x, const V& x_low) {
    if constexpr (sizeof(Real) == sizeof(double)) {
      high = high + x;
    } else {
      const PairOf<V> sum = sum_of(high, x);
      high = sum.high;
      low = low + (sum.low + x_low);
    }
  }
};

// Every Step-th number.
template <int Step>
HALFULP_ALWAYS_INLINE Doubles load_steps(const double* x) {
  if constexpr (Step == 1) return load(x);
  else return deinterleaved2<0>(load(x), load(x + kWide));
}

template <class Real, int Step>
void sums_of(SmoothParts from, Index terms, Index term_step, SmoothParts to, Index n) {
  constexpr bool pairs = sizeof(Real) != sizeof(double);
  const auto run = [&](Index i) {
    const double* high = from.high + i * Step;
    const double* low = pairs ? from.low + i * Step : high;
    Sum<Real, Doubles> sum{load_steps<Step>(high), load_steps<Step>(low)};
    for (Index k = 1; k < terms; ++k)
      sum.add(load_steps<Step>(high + k * term_step), load_steps<Step>(low + k * term_step));
    store(to.high + i, sum.high);
    if constexpr (pairs) store(to.low + i, sum.low);
  };
  for (Index i = 0; i + kWide <= n; i += kWide) run(i);
  if (n % kWide != 0) run(n - kWide);
}

template <class Real>
void sums(SmoothParts from, Index terms, Index term_step, Index step, SmoothParts to, Index n) {
  if (n >= kWide && step == 1) return sums_of<Real, 1>(from, terms, term_step, to, n);
  if (n >= kWide && step == 2) return sums_of<Real, 2>(from, terms, term_step, to, n);
  constexpr bool pairs = sizeof(Real) != sizeof(double);
  for (Index i = 0; i < n; ++i) {
    const double* high = from.high + i * step;
    const double* low = pairs ? from.low + i * step : high;
    Sum<Real, double> sum{*high, *low};
    for (Index k = 1; k < terms; ++k) sum.add(high[k * term_step], low[k * term_step]);
    to.high[i] = sum.high;
    if constexpr (pairs) to.low[i] = sum.low;
  }
}

// The transpose of one term: every number is added to a sum.
template <class Real, Index Step>
void spread_to(SmoothParts from, Index to_step, SmoothParts to, Index n) {
  const Index b = Step == 0 ? to_step : Step;
  const double* __restrict x = from.high;
  double* __restrict y = to.high;
  if constexpr (sizeof(Real) == sizeof(double)) {
    for (Index i = 0; i < n; ++i) y[i * b] += x[i];
  } else {
    const double* __restrict x_low = from.low;
    double* __restrict y_low = to.low;
    for (Index i = 0; i < n; ++i) {
      const TwoDoubles s = two_sum(y[i * b], x[i]);
      y[i * b] = s.high;
      y_low[i * b] += s.low + x_low[i];
    }
  }
}

template <class Real>
void add(SmoothParts from, SmoothParts to, Index to_step, Index n) {
  const auto sum = to_step == 1 ? spread_to<Real, 1> : to_step == 2 ? spread_to<Real, 2> : spread_to<Real, 0>;
  sum(from, to_step, to, n);
}

template <class Real>
void weigh(SmoothParts weight, SmoothParts t, Index n) {
  const double* __restrict high = weight.high;
  const double* __restrict low = weight.low;
  double* __restrict to = t.high;
  double* __restrict to_low = t.low;
  for (Index i = 0; i < n; ++i) {
    if constexpr (sizeof(Real) == sizeof(double)) {
      to[i] *= high[i];
    } else {
      const Pair product = product_of(high[i], to[i]);
      to_low[i] = product.low + low[i] * to[i];
      to[i] = product.high;
    }
  }
}

// A sum's two parts, normalised.
inline double normal(double x) { return x; }
inline Pair normal(Pair x) {
  const TwoDoubles s = two_sum(x.high, x.low);
  return {s.high, s.low};
}

// Quotients of normalised numbers; of pairs within 2^-100.
inline double quotient(double a, double b) { return a / b; }
inline Pair quotient(Pair a, Pair b) {
  const double inverse = 1.0 / b.high, q = a.high * inverse;
  const Pair back = product_of(q, b.high);
  return {q, (((a.high - back.high) - back.low) + (a.low - q * b.low)) * inverse};
}

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// NaN where a total is too small.
void values(const SmoothBeta& beta, double top, double slack, SmoothParts total, SmoothResults out, Index n) {
  const double steepness = 1.0 / beta.high;
  const double* __restrict high = total.high;
  double* __restrict value = out.value.high;
  double* __restrict error = out.error;
  for (Index i = 0; i < n; ++i) {
    const double l = logarithm(high[i]), y = top + l * steepness;
    value[i] = y;
    const double bound = (slack + 32.0 * std::fabs(l)) * steepness + 2.0 * std::fabs(y);
    error[i] = high[i] > kSmoothLeastWeight ? bound * (1.02 * kUnit<double>) : kUnknown;
  }
}

// The same in pairs, whose errors do not grow with the logarithm.
void quick_values(const SmoothBeta& beta, double top, double slack, SmoothParts total, SmoothResults out, Index n) {
  const Reference reference = reference_of(beta, top);
  const Pair steepness = Pair{1.0, 0.0} / Pair{beta.high, beta.low};
  const DoublePairs slope{splat(steepness.high), splat(steepness.low)};
  const auto run = [&](SmoothParts from, SmoothResults to) {
    const Doubles s = load(from.high);
    const DoublePairs above = quick_logarithm({s, load(from.low)}, reference.shift) * slope;
    const DoublePairs sum = fast_sum_of(splat(reference.base), above.high);
    const DoublePairs y = fast_sum_of(sum.high, Doubles(sum.low + above.low));
    store(to.value.high, y.high);
    store(to.value.low, y.low);
    const Doubles bound = slack * slope.high + 2.0 * magnitude(y.high);
    store(to.error, select(s > kSmoothLeastWeight, bound * (1.02 * kUnit<Pair>), splat(kUnknown)));
  };
  Index i = 0;
  for (; i + kWide <= n; i += kWide) run(total.from(i), {out.value.from(i), out.error + i});
  if (i == n) return;
  double room[5][kWide] = {};
  std::copy_n(total.high + i, n - i, room[0]);
  std::copy_n(total.low + i, n - i, room[1]);
  run({room[0], room[1]}, {{room[2], room[3]}, room[4]});
  std::copy_n(room[2], n - i, out.value.high + i);
  std::copy_n(room[3], n - i, out.value.low + i);
  std::copy_n(room[4], n - i, out.error + i);
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
    put(value, value_low, i, quotient(normal(at<Real>(sum_high, sum_low, i)), normal(at<Real>(high, low, i))));
    const bool known = (high[i] > kSmoothLeastWeight) & (std::fabs(value[i]) < kInfinity);
    const double growth = kGrowth<Real> * (8.0 * log_magnitude(high[i]));
    error[i] = known ? (slack + growth) * (largest * 2.04 * kUnit<Real>) : kUnknown;
  }
}

template <class Real>
void shares(const double* g, SmoothParts total, double* magnitude, Index n) {
  using R = RealTraits<Real>;
  double* __restrict high = total.high;
  double* __restrict low = total.low;
  for (Index i = 0; i < n; ++i) {
    const Real share = quotient(R::from(g[i], 0.0), normal(at<Real>(high, low, i)));
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
      {exponentials, quick_exponentials},
      {sums<double>, sums<Pair>},
      {add<double>, add<Pair>},
      {weigh<double>, weigh<Pair>},
      {values, quick_values},
      {means<double>, means<Pair>},
      {shares<double>, shares<Pair>},
      {products<double>, products<Pair>},
      {finish<Float16>, finish<BFloat16>, finish<float>, finish<double>},
  };
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
