// Loops over contiguous rows that vectorise as they are written.
#include "base/row_kernels.hpp"

#include <cmath>
#include <cstring>

#include "simd/deinterleave.hpp"
#include "simd/doubles.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

void add_every(const double* cells, std::int64_t stride, double* sums, std::int64_t n) {
  if (stride == 1) {
    for (std::int64_t i = 0; i < n; ++i) sums[i] += cells[i];
  } else if (stride == 2) {
    for (std::int64_t i = 0; i < n; ++i) sums[i] += cells[2 * i];
  } else {
    for (std::int64_t i = 0; i < n; ++i) sums[i] += cells[i * stride];
  }
}

constexpr std::uintptr_t kFar = 16384;  // bytes from what is read to what is asked for

void change(const char* source, char* target, std::int64_t bytes, std::uint64_t keep, std::uint64_t flip) {
  constexpr std::int64_t step = kLanes<std::uint64_t> * 8;
  const auto kept = splat(keep), flipped = splat(flip);
  std::int64_t i = 0;
  for (; i + step <= bytes; i += step) {
    prefetch_ahead(source + i, kFar);
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

template <int Stride>
void spread(const double* __restrict from, std::int64_t count, std::int64_t stride, double* __restrict to) {
  const std::int64_t step = Stride > 0 ? Stride : stride;
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t phase = 0; phase < step; ++phase) to[i * step + phase] = from[phase * count + i];
}

void interleave(const double* from, std::int64_t count, std::int64_t stride, double* to) {
  if (stride == 2) spread<2>(from, count, stride, to);
  else if (stride == 3) spread<3>(from, count, stride, to);
  else spread<0>(from, count, stride, to);
}

template <class U, int Stride>
void take(const U* __restrict from, std::int64_t stride, U* __restrict to, std::int64_t n) {
  const std::int64_t step = Stride > 0 ? Stride : stride;
  for (std::int64_t i = 0; i < n; ++i) to[i] = from[i * step];
}

template <class U>
void take_items(const void* from, std::int64_t stride, void* to, std::int64_t n) {
  const auto* const source = static_cast<const U*>(from);
  auto* const target = static_cast<U*>(to);
  if (stride == 2) take<U, 2>(source, stride, target, n);
  else if (stride == 3) take<U, 3>(source, stride, target, n);
  else if (stride == 4) take<U, 4>(source, stride, target, n);
  else take<U, 0>(source, stride, target, n);
}

void take_every(const void* from, std::int64_t stride, void* to, std::int64_t n, std::int64_t item) {
  if (item == 1) take_items<std::uint8_t>(from, stride, to, n);
  else if (item == 2) take_items<std::uint16_t>(from, stride, to, n);
  else if (item == 4) take_items<std::uint32_t>(from, stride, to, n);
  else take_items<std::uint64_t>(from, stride, to, n);
}

template <class U, bool Zeros>
bool give_sign(const void* signs, const void* from, void* to, std::int64_t n, U infinity) {
  using I = int_like<U>;  // comparisons of signed integers are cheaper
  const auto* __restrict x = static_cast<const I*>(signs);
  const auto* __restrict source = static_cast<const I*>(from);
  auto* __restrict target = static_cast<I*>(to);
  constexpr auto sign = static_cast<I>(U{1} << (sizeof(U) * 8 - 1)), rest = static_cast<I>(~sign);
  const auto most = static_cast<I>(infinity);
  I largest = 0;
  const auto give = [&](std::int64_t i) {
    const auto size = static_cast<I>(x[i] & rest);
    const I value = source[i], own = size > most ? I{0} : static_cast<I>(x[i] & sign);
    const I flip = Zeros || (value & rest) != 0 ? own : I{0};
    largest = size > largest ? size : largest;
    target[i] = size == 0 ? I{0} : static_cast<I>(value ^ flip);
  };
  constexpr std::int64_t kPart = 256 / sizeof(U);  // four cache lines
  std::int64_t first = 0;
  for (; first + kPart <= n; first += kPart) {
    for (std::int64_t i = first; i < first + kPart; i += kPart / 4) {
      prefetch_ahead(x + i, kFar);
      prefetch_ahead(source + i, kFar);
    }
    for (std::int64_t i = first; i < first + kPart; ++i) give(i);
  }
  for (; first < n; ++first) give(first);
  return largest > most;
}

template <class U>
bool give_sign(const void* x, const void* from, void* to, std::int64_t n, U infinity, bool zeros) {
  return zeros ? give_sign<U, true>(x, from, to, n, infinity) : give_sign<U, false>(x, from, to, n, infinity);
}

bool give_signs(const void* x, const void* from, void* to, std::int64_t n, std::int64_t item, std::uint64_t infinity,
                bool zeros) {
  if (item == 2) return give_sign(x, from, to, n, static_cast<std::uint16_t>(infinity), zeros);
  if (item == 4) return give_sign(x, from, to, n, static_cast<std::uint32_t>(infinity), zeros);
  return give_sign(x, from, to, n, infinity, zeros);
}

}  // namespace

const RowKernels& row_kernels() {
  static constexpr RowKernels table{add_every, change,
                                    interleave,  take_every, give_signs};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
