// Loops over contiguous rows that vectorise as they are written. Compiled without errno, which roots would have to set.
#include "base/row_kernels.hpp"

#include <cmath>
#include <cstring>

#include "simd/deinterleave.hpp"
#include "simd/vector.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

inline double square(float cell) { return static_cast<double>(cell) * static_cast<double>(cell); }

// Up to three rows at once, onto the sums of those before.
template <int Count, bool First>
void squares(const float* const* rows, double* sums, std::int64_t n) {
  const float *a = rows[0], *b = rows[Count > 1 ? 1 : 0], *c = rows[Count > 2 ? 2 : 0];
  for (std::int64_t i = 0; i < n; ++i) {
    double sum = First ? square(a[i]) : sums[i] + square(a[i]);
    if constexpr (Count > 1) sum += square(b[i]);
    if constexpr (Count > 2) sum += square(c[i]);
    sums[i] = sum;
  }
}

template <bool First>
void squares_of(const float* const* rows, std::int64_t count, double* sums, std::int64_t n) {
  if (count == 1) squares<1, First>(rows, sums, n);
  else if (count == 2) squares<2, First>(rows, sums, n);
  else squares<3, First>(rows, sums, n);
}

void sum_squares(const float* const* rows, std::int64_t count, double* sums, std::int64_t n) {
  squares_of<true>(rows, count, sums, n);
  for (std::int64_t row = 3; row < count; row += 3) squares_of<false>(rows + row, count - row, sums, n);
}

void add_every(const double* cells, std::int64_t stride, double* sums, std::int64_t n) {
  if (stride == 1) {
    for (std::int64_t i = 0; i < n; ++i) sums[i] += cells[i];
  } else if (stride == 2) {
    for (std::int64_t i = 0; i < n; ++i) sums[i] += cells[2 * i];
  } else {
    for (std::int64_t i = 0; i < n; ++i) sums[i] += cells[i * stride];
  }
}

// Stride and Count known: no sum is stored.
template <int Stride, int Count>
bool roots(const double* columns, std::int64_t dilation, float* out, std::int64_t n, double error) {
  const double below = 1 - error, above = 1 + error;
  int unsure = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    double sum = columns[i * Stride];
    if constexpr (Count > 1) sum += columns[i * Stride + dilation];
    if constexpr (Count > 2) sum += columns[i * Stride + 2 * dilation];
    const double y = std::sqrt(sum);
    const float low = static_cast<float>(y * below), high = static_cast<float>(y * above);
    out[i] = low;
    unsure |= low == high ? 0 : 1;  // NaN too
  }
  return unsure == 0;
}

bool window_roots(const double* columns, const RootRun& run, double* sums, float* out) {
  const auto with = [&](auto kernel) { return kernel(columns, run.dilation, out, run.outputs, run.error); };
  if (run.stride == 1 && run.count == 2) return with(roots<1, 2>);
  if (run.stride == 1 && run.count == 3) return with(roots<1, 3>);
  if (run.stride == 2 && run.count == 2) return with(roots<2, 2>);
  if (run.stride == 2 && run.count == 3) return with(roots<2, 3>);
  for (std::int64_t i = 0; i < run.outputs; ++i) sums[i] = 0;
  for (std::int64_t t = 0; t < run.count; ++t) add_every(columns + t * run.dilation, run.stride, sums, run.outputs);
  return roots<1, 1>(sums, 0, out, run.outputs, run.error);
}

// Asks for what lies further on: for the second cache, and nearer for the first.
inline void prefetch([[maybe_unused]] const char* source) {
#if defined(__GNUC__) || defined(__clang__)
  const auto at = reinterpret_cast<std::uintptr_t>(source);
  __builtin_prefetch(reinterpret_cast<const void*>(at + 16384), 0, 2);
  __builtin_prefetch(reinterpret_cast<const void*>(at + 2048), 0, 3);
#endif
}

void change(const char* source, char* target, std::int64_t bytes, std::uint64_t keep, std::uint64_t flip) {
  constexpr std::int64_t step = kLanes<std::uint64_t> * 8;
  const auto kept = splat(keep), flipped = splat(flip);
  std::int64_t i = 0;
  for (; i + step <= bytes; i += step) {
    prefetch(source + i);
    Vector<std::uint64_t> words;
    std::memcpy(&words, source + i, sizeof words);
    words = (words & kept) ^ flipped;
    std::memcpy(target + i, &words, sizeof words);
  }
  for (; i < bytes; i += 8) {
    const auto rest = static_cast<std::size_t>(bytes - i < 8 ? bytes - i : 8);
    std::uint64_t word = 0;
    std::memcpy(&word, source + i, rest);
    word = (word & keep) ^ flip;
    std::memcpy(target + i, &word, rest);
  }
}

}  // namespace

const RowKernels& row_kernels() {
  static constexpr RowKernels table{sum_squares, add_every, window_roots, change};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
