// Loops over rows without branches, so that they vectorise. Compiled without errno, which roots would have to set.
#include "norm/norm_kernels.hpp"

#include <cmath>
#include <limits>

#include "exact/round.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

template <class T>
inline constexpr bool kPairs = std::is_same_v<T, double>;
template <class T>
using Cell = typename NormKernels<T>::Cell;

// Pairs of doubles hold squares and quotients of such sizes with all their digits.
constexpr double kSmallest = 0x1p-900, kLargest = 0x1p1000, kSmallestResult = 0x1p-960;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The rows of a call never overlap.
struct Row {
  explicit Row(PairRow row) : high(row.high), low(row.low) {}
  double *__restrict high, *__restrict low;
};

inline bool fits(double size) { return (size >= kSmallest) & (size <= kLargest); }

// sum += (high, low); |low| is small.
template <class T>
inline void add_pair(double& sum_high, double& sum_low, double high, double low) {
  if constexpr (kPairs<T>) {
    const TwoDoubles sum = two_sum(sum_high, high);
    sum_high = sum.high;
    sum_low += sum.low + low;
  } else {
    sum_high += high;
  }
}

// a * b; a product that underflows to 0 becomes the smallest number, so that its sum is seen to be out of range.
template <class T>
inline TwoDoubles product(double a, double b) {
  const double high = a * b;
  if constexpr (!kPairs<T>) return {high, 0.0};
  const bool lost = (high == 0) & (a != 0) & (b != 0);
  return {lost ? std::numeric_limits<double>::denorm_min() : high, std::fma(a, b, -high)};
}

// The root of a sum in a pair, for a sum that fits.
template <class T>
inline TwoDoubles root(double high, double low) {
  const double y = std::sqrt(high);
  if constexpr (!kPairs<T>) return {y, 0.0};
  const double safe = y == 0 ? 1.0 : y;
  return fast_two_sum(y, (std::fma(-y, y, high) + low) / (2 * safe));
}

template <class T>
void add_squares(const Cell<T>* x, PairRow target, std::int64_t n) {
  const Row to(target);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto cell = static_cast<double>(x[i]);
    const TwoDoubles square = product<T>(cell, cell);
    add_pair<T>(to.high[i], to.low[i], square.high, square.low);
  }
}

template <class T>
void add_products(const Cell<T>* x, const Cell<T>* t, PairRow target, double* __restrict size, std::int64_t n) {
  const Row to(target);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto cell = static_cast<double>(x[i]);
    const TwoDoubles term = product<T>(cell, static_cast<double>(t[i]));
    const double high = cell == 0 ? 0.0 : term.high, low = cell == 0 ? 0.0 : term.low;
    add_pair<T>(to.high[i], to.low[i], high, low);
    size[i] += std::abs(high);
  }
}

template <class T, int Stride>
void add_each(PairRow source, std::int64_t stride, PairRow target, std::int64_t n) {
  const Row from(source), to(target);
  const std::int64_t step = Stride > 0 ? Stride : stride;
  for (std::int64_t i = 0; i < n; ++i)
    add_pair<T>(to.high[i], to.low[i], from.high[i * step], kPairs<T> ? from.low[i * step] : 0.0);
}

template <class T>
void add_every(PairRow from, std::int64_t stride, PairRow to, std::int64_t n) {
  if (stride == 1) add_each<T, 1>(from, stride, to, n);
  else if (stride == 2) add_each<T, 2>(from, stride, to, n);
  else add_each<T, 0>(from, stride, to, n);
}

// Writes (high, low) rounded; whether all numbers within `error` of it round to that.
template <class T>
inline bool decide(double high, double low, double error, T& out) {
  if constexpr (kPairs<T>) {
    const double below = high + (low - error);
    out = below;
    return (below == high + (low + error)) & (std::abs(below) >= kSmallestResult) &
           (std::abs(below) <= std::numeric_limits<double>::max());
  } else {
    out = round_to<T>(high - error);
    return same_rounding<T>(high - error, high + error);
  }
}

constexpr double kFinite = std::numeric_limits<double>::max();

// One element of a row each; whether it is decided, and not a zero that needs a closer look.
template <class T>
inline bool norm_of(double high, double low, double error, T& out) {
  const TwoDoubles y = root<T>(high, low);
  const bool sure = decide<T>(y.high, y.low, y.high * error, out);
  if constexpr (kPairs<T>) {
    out = high == 0 ? 0.0 : out;
    return (sure & fits(high)) | (high == 0);
  } else {
    return sure;
  }
}

template <class T>
inline bool tangent_of(TwoDoubles square, TwoDoubles product, double size, double error, T& out) {
  const TwoDoubles y = root<T>(square.high, square.low);
  const double safe = y.high == 0 ? 1.0 : y.high;
  const double quotient = product.high / safe;
  double rest = 0;
  if constexpr (kPairs<T>) rest = ((std::fma(-quotient, safe, product.high) + product.low) - quotient * y.low) / safe;
  bool sure = decide<T>(quotient, rest, size / safe * error, out);
  if constexpr (kPairs<T>) sure &= fits(square.high) & fits(size);
  return sure & (square.high <= kFinite) & (size != 0);
}

template <class T>
inline bool cotangent_of(double cell, double share, double share_low, double size, double error, T& out) {
  const double high = cell == 0 ? 0.0 : cell * share;
  double low = 0;
  if constexpr (kPairs<T>) low = cell == 0 ? 0.0 : std::fma(cell, share, -high) + cell * share_low;
  const bool sure = decide<T>(high, low, std::abs(cell) * size * error, out);
  if constexpr (kPairs<T>) out = cell == 0 ? 0.0 : out;
  return (size <= kFinite) & ((cell == 0) | (sure & (size != 0)));
}

template <class T>
bool norms(PairRow sums, double error, T* __restrict out, std::uint8_t* __restrict flags, std::int64_t n) {
  const Row squares(sums);
  const auto element = [&](std::int64_t i) {
    return norm_of<T>(squares.high[i], kPairs<T> ? squares.low[i] : 0.0, error, out[i]);
  };
  int unsure = 0;
  for (std::int64_t i = 0; i < n; ++i) unsure |= element(i) ? 0 : 1;
  if (unsure == 0) return false;
  for (std::int64_t i = 0; i < n; ++i) flags[i] = element(i) ? 0 : kUndecided;
  return true;
}

template <class T>
bool tangents(PairRow sums, PairRow dots, const double* size, double error, T* __restrict out,
              std::uint8_t* __restrict flags, std::int64_t n) {
  const Row squares(sums), products(dots);
  const auto element = [&](std::int64_t i) {
    const TwoDoubles square{squares.high[i], kPairs<T> ? squares.low[i] : 0.0};
    const TwoDoubles product{products.high[i], kPairs<T> ? products.low[i] : 0.0};
    return tangent_of<T>(square, product, size[i], error, out[i]);
  };
  int unsure = 0;
  for (std::int64_t i = 0; i < n; ++i) unsure |= element(i) ? 0 : 1;
  if (unsure == 0) return false;
  for (std::int64_t i = 0; i < n; ++i) {
    flags[i] = element(i) ? 0 : kUndecided;
    if (!(size[i] == 0 && squares.high[i] <= kFinite)) continue;
    out[i] = round_to<T>(products.high[i]);
    flags[i] = std::signbit(products.high[i]) ? kZero : 0;
  }
  return true;
}

template <class T>
void shares(const Cell<T>* g, PairRow sums, PairRow target, std::int64_t n) {
  const Row squares(sums), shares(target);
  for (std::int64_t i = 0; i < n; ++i) {
    const double sum = squares.high[i];
    const auto given = static_cast<double>(g[i]);
    const TwoDoubles y = root<T>(sum, kPairs<T> ? squares.low[i] : 0.0);
    const double safe = y.high == 0 ? 1.0 : y.high;
    const double quotient = given / safe;
    bool good = sum <= std::numeric_limits<double>::max();
    if constexpr (kPairs<T>) {
      good &= fits(sum) & ((given == 0) | (std::abs(quotient) >= kSmallest));
      shares.low[i] = sum == 0 ? 0.0 : (std::fma(-quotient, safe, given) - quotient * y.low) / safe;
    }
    shares.high[i] = sum == 0 ? 0.0 : good ? quotient : kNan;
  }
}

template <class T>
void add_shares(PairRow source, PairRow target, double* __restrict size, std::int64_t n) {
  const Row shares(source), to(target);
  for (std::int64_t i = 0; i < n; ++i) {
    const double high = shares.high[i];
    add_pair<T>(to.high[i], to.low[i], high, kPairs<T> ? shares.low[i] : 0.0);
    size[i] += std::abs(high);
  }
}

template <class T>
bool cotangents(const Cell<T>* x, PairRow sums, const double* size, double error, T* __restrict out,
                std::uint8_t* __restrict flags, std::int64_t n) {
  const Row shares(sums);
  const auto element = [&](std::int64_t i) {
    return cotangent_of<T>(static_cast<double>(x[i]), shares.high[i], kPairs<T> ? shares.low[i] : 0.0, size[i], error,
                           out[i]);
  };
  int unsure = 0;
  for (std::int64_t i = 0; i < n; ++i) unsure |= element(i) ? 0 : 1;
  if (unsure == 0) return false;
  for (std::int64_t i = 0; i < n; ++i) {
    flags[i] = element(i) ? 0 : kUndecided;
    if (size[i] != 0 || x[i] == 0) continue;
    // Shares that are all 0 add up to -0 if all of them are -0. A cell below 0 turns that into +0.
    out[i] = T{};
    flags[i] = x[i] < 0 && std::signbit(shares.high[i]) ? 0 : kZero;
  }
  return true;
}

template <class T>
constexpr NormKernels<T> table{add_squares<T>, add_products<T>, add_every<T>,  norms<T>,
                               tangents<T>,    shares<T>,       add_shares<T>, cotangents<T>};

}  // namespace

const NormKernels<Float16>& norm_kernels_f16() { return table<Float16>; }
const NormKernels<BFloat16>& norm_kernels_bf16() { return table<BFloat16>; }
const NormKernels<float>& norm_kernels_f32() { return table<float>; }
const NormKernels<double>& norm_kernels_f64() { return table<double>; }

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
