// Loops over rows of sums without branches, so that they vectorise.
#include "patches/patch_kernels.hpp"

#include <bit>
#include <cmath>
#include <limits>

#include "exact/round.hpp"
#include "simd/deinterleave.hpp"
#include "simd/doubles.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

template <class T>
void add_terms(const typename PatchKernels<T>::Term* terms, PatchSums to, std::int64_t n) {
  double *__restrict high = to.high, *__restrict low = to.low, *__restrict rest = to.rest;
  for (std::int64_t i = 0; i < n; ++i) {
    const TwoDoubles sum = two_sum(high[i], static_cast<double>(terms[i]));
    high[i] = sum.high;
    if constexpr (std::is_same_v<T, double>) {
      const TwoDoubles errors = two_sum(low[i], sum.low);
      low[i] = errors.high;
      rest[i] += std::abs(errors.low);  // not zero if any of them is not
    } else {
      rest[i] += std::abs(sum.low);
    }
  }
}

template <class T>
bool finish(PatchSums sums, T* __restrict out, std::int64_t n) {
  int unsure = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    double sum = sums.high[i];
    if constexpr (std::is_same_v<T, double>) sum += sums.low[i];
    out[i] = round_to<T>(sum);
    const bool good = (sums.rest[i] == 0) & (sum != 0) & (std::abs(sum) <= std::numeric_limits<double>::max());
    unsure |= good ? 0 : 1;
  }
  return unsure == 0;
}

template <class T>
constexpr PatchKernels<T> table{add_terms<T>, finish<T>};

template <int Count>
void sum_rows_of(const float* const* sources, std::int64_t count, float* out, std::int64_t n, TermRange& range) {
  using Bits = Vector<std::uint32_t>;
  constexpr std::uint32_t kSize = 0x7fffffff;
  const Bits mask = splat(kSize);
  Bits most{}, least = mask;
  Vector<std::int64_t> zero{};
  const std::int64_t terms = Count > 0 ? Count : count;
  std::int64_t i = 0;
  constexpr std::int64_t step = kLanes<float>;
  for (; i + step <= n; i += step) {
    Doubles low{}, high{};
    for (std::int64_t k = 0; k < terms; ++k) {
      const Vector<float> term = load(sources[k] + i);
      const Bits size = reinterpret<Bits>(term) & mask;
      most = larger(most, size);
      least = smaller(least, Bits((size - 1) & mask));
      low += widen_low(term);
      high += widen_high(term);
    }
    zero |= (low == Doubles{}) | (high == Doubles{});
    store(out + i, narrow(low, high));
  }
  const auto meet = [&](std::uint32_t larger_bits, std::uint32_t smaller_bits) {
    range.most = larger_bits > range.most ? larger_bits : range.most;
    range.least = smaller_bits < range.least ? smaller_bits : range.least;
  };
  if (i > 0) {
    for (int lane = 0; lane < kLanes<float>; ++lane) meet(most[lane], least[lane]);
    for (int lane = 0; lane < kWide; ++lane) range.zero |= zero[lane] != 0;
  }
  for (; i < n; ++i) {
    double sum = 0;
    for (std::int64_t k = 0; k < count; ++k) {
      const float term = sources[k][i];
      const std::uint32_t size = std::bit_cast<std::uint32_t>(term) & kSize;
      meet(size, (size - 1) & kSize);
      sum += static_cast<double>(term);
    }
    range.zero |= sum == 0;
    out[i] = static_cast<float>(sum);
  }
}

void sum_rows(const float* const* sources, std::int64_t count, float* out, std::int64_t n, TermRange& range) {
  const auto kernel = count == 9   ? sum_rows_of<9>
                      : count == 6 ? sum_rows_of<6>
                      : count == 4 ? sum_rows_of<4>
                      : count == 2 ? sum_rows_of<2>
                                   : sum_rows_of<0>;
  kernel(sources, count, out, n, range);
}

template <class U>
void interleave_items(const void* even, const void* odd, void* to, std::int64_t n) {
  const auto *a = static_cast<const U*>(even), *b = static_cast<const U*>(odd);
  auto* out = static_cast<U*>(to);
  std::int64_t i = 0;
  constexpr std::int64_t step = kLanes<U>;
  for (; 2 * (i + step) <= n; i += step) {
    const Vector<U> x = load(a + i), y = load(b + i);
    store(out + 2 * i, zip_low<U>(x, y));
    store(out + 2 * i + step, zip_high<U>(x, y));
  }
  for (i *= 2; i < n; ++i) out[i] = i % 2 == 0 ? a[i / 2] : b[i / 2];
}

void interleave(const void* even, const void* odd, void* to, std::int64_t n, std::int64_t item) {
  if (item == 1) interleave_items<std::uint8_t>(even, odd, to, n);
  else if (item == 2) interleave_items<std::uint16_t>(even, odd, to, n);
  else if (item == 4) interleave_items<std::uint32_t>(even, odd, to, n);
  else interleave_items<std::uint64_t>(even, odd, to, n);
}

}  // namespace

const PatchRowKernels& patch_row_kernels() {
  static constexpr PatchRowKernels rows{sum_rows, interleave};
  return rows;
}
const PatchKernels<Float16>& patch_kernels_f16() { return table<Float16>; }
const PatchKernels<BFloat16>& patch_kernels_bf16() { return table<BFloat16>; }
const PatchKernels<float>& patch_kernels_f32() { return table<float>; }
const PatchKernels<double>& patch_kernels_f64() { return table<double>; }

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
