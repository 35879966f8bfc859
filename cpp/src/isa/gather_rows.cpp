// Rows of hard max's pullback: sums of the cotangents that a cell has won.
#include "halfulp/gather_kernels.hpp"
#include "halfulp/round.hpp"
#include "simd.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

using std::int64_t;

// An absent term is -0, which changes no sum; a cell without terms is +0.
void sum(const double* const* g, const int64_t* const* codes, const int64_t* ids, int count, double* out, int64_t n) {
  const Vector<double> nothing = -splat(0.0);
  for (int64_t i = 0; i < n; i += kLanes<double>) {
    Vector<double> total = nothing;
    auto any = load(codes[0] + i) == splat(ids[0]);
    total = select(any, load(g[0] + i), nothing);
    for (int t = 1; t < count; ++t) {
      const auto won = load(codes[t] + i) == splat(ids[t]);
      any = any | won;
      total += select(won, load(g[t] + i), nothing);
    }
    store(out + i, select(any, total, Vector<double>{}));
  }
}

// In two doubles: nothing is lost in the pair, by the caller's word.
void sum_wide(const double* const* g, const int64_t* const* codes, const int64_t* ids, int count, double* out,
              int64_t n) {
  const Vector<double> nothing = -splat(0.0);
  for (int64_t i = 0; i < n; i += kLanes<double>) {
    auto any = load(codes[0] + i) == splat(ids[0]);
    Vector<double> high = select(any, load(g[0] + i), nothing), low = nothing;
    for (int t = 1; t < count; ++t) {
      const auto won = load(codes[t] + i) == splat(ids[t]);
      any = any | won;
      const Vector<double> x = select(won, load(g[t] + i), nothing);
      const Vector<double> sum = high + x;
      const Vector<double> from_x = sum - high;
      // The error is +0 where there is none, which would turn a sum of -0 into +0: only real errors are added.
      const Vector<double> error = (high - (sum - from_x)) + (x - from_x);
      low = select(error != Vector<double>{}, low + error, low);
      high = sum;
    }
    store(out + i, select(any, high + low, Vector<double>{}));
  }
}

void range(const double* values, int64_t n, ExponentRange& range) {
  std::uint64_t smallest = range.smallest, largest = range.largest;
  for (int64_t i = 0; i < n; ++i) {
    std::uint64_t bits;
    std::memcpy(&bits, values + i, 8);
    bits &= ~(std::uint64_t{1} << 63);
    largest = bits > largest ? bits : largest;
    bits -= 1;  // zero becomes the largest of all
    smallest = bits < smallest ? bits : smallest;
  }
  range.smallest = smallest;
  range.largest = largest;
}

void widen_f32(const float* source, double* target, int64_t n) {
  for (int64_t i = 0; i < n; ++i) target[i] = source[i];
}
void narrow_f32(const double* source, float* target, int64_t n) {
  for (int64_t i = 0; i < n; ++i) target[i] = static_cast<float>(source[i]);
}
template <class T>
void narrow_half(const double* source, T* target, int64_t n) {
  for (int64_t i = 0; i < n; ++i) target[i] = round_to<T>(source[i]);
}

template <class I>
void widen_codes(const I* source, int64_t* target, int64_t n) {
  for (int64_t i = 0; i < n; ++i) target[i] = source[i];
}

template <class U>
void interleave(const U* a, const U* b, U* target, int64_t n) {
  int64_t i = 0;
#if defined(__GNUC__) || defined(__clang__)
  for (; 2 * (i + kLanes<U>) <= n; i += kLanes<U>) {
    const Vector<U> x = load(a + i), y = load(b + i);
    store(target + 2 * i, zip_low<U>(x, y));
    store(target + 2 * i + kLanes<U>, zip_high<U>(x, y));
  }
#endif
  for (; 2 * i < n; ++i) {
    target[2 * i] = a[i];
    if (2 * i + 1 < n) target[2 * i + 1] = b[i];
  }
}

}  // namespace

const GatherKernels& gather_kernels() {
  static constexpr GatherKernels table{sum,
                                       sum_wide,
                                       range,
                                       widen_f32,
                                       narrow_f32,
                                       narrow_half<Float16>,
                                       narrow_half<BFloat16>,
                                       widen_codes<std::uint8_t>,
                                       widen_codes<std::uint16_t>,
                                       interleave<std::uint16_t>,
                                       interleave<std::uint32_t>,
                                       interleave<std::uint64_t>};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
