// Rows of hard max's pullback: sums of the cotangents that a cell has won.
#include "halfulp/gather_kernels.hpp"
#include "halfulp/round.hpp"
#include "simd.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

using std::int64_t;

// An absent term is -0, which changes no sum; a cell without terms is +0.
template <class C, class I, int Count>
void sum_counted(const C* const* g, const I* const* codes, const I* ids, int count, C* out, int64_t n) {
  const Vector<C> nothing = -splat(C{});
  for (int64_t i = 0; i < n; i += kLanes<C>) {
    auto any = load(codes[0] + i) == splat(ids[0]);
    Vector<C> total = select(any, load(g[0] + i), nothing);
    for (int t = 1; t < (Count > 0 ? Count : count); ++t) {
      const auto won = load(codes[t] + i) == splat(ids[t]);
      any = any | won;
      total += select(won, load(g[t] + i), nothing);
    }
    store(out + i, select(any, total, Vector<C>{}));
  }
}

template <class C, class I>
void sum(const C* const* g, const I* const* codes, const I* ids, int count, C* out, int64_t n) {
  if (count == 1) return sum_counted<C, I, 1>(g, codes, ids, count, out, n);
  if (count == 2) return sum_counted<C, I, 2>(g, codes, ids, count, out, n);
  return sum_counted<C, I, 0>(g, codes, ids, count, out, n);
}

#if defined(__GNUC__) || defined(__clang__)
typedef float HalfFloats __attribute__((vector_size(kVectorBytes / 2)));
template <int Start, int... I>
inline Vector<double> widen_half(const Vector<float>& v, std::integer_sequence<int, I...>) {
  const HalfFloats half = __builtin_shufflevector(v, v, (Start + I)...);
  return __builtin_convertvector(half, Vector<double>);
}
// The lanes of a float vector as two double vectors.
struct WideSum {
  static constexpr int kHalf = kLanes<double>;
  using Sequence = std::make_integer_sequence<int, kHalf>;
  Vector<double> low, high;
  explicit WideSum(const Vector<float>& v) : low(widen_half<0>(v, Sequence{})), high(widen_half<kHalf>(v, Sequence{})) {}
  void add(const Vector<float>& v) {
    low += widen_half<0>(v, Sequence{});
    high += widen_half<kHalf>(v, Sequence{});
  }
  void put(double* target) const {
    store(target, low);
    store(target + kHalf, high);
  }
  void put(float* target) const {
    const HalfFloats first = __builtin_convertvector(low, HalfFloats), second = __builtin_convertvector(high, HalfFloats);
    std::memcpy(target, &first, sizeof first);
    std::memcpy(target + kHalf, &second, sizeof second);
  }
};
#else
struct WideSum {
  double sum;
  explicit WideSum(float v) : sum(v) {}
  void add(float v) { sum += v; }
  void put(double* target) const { *target = sum; }
  void put(float* target) const { *target = static_cast<float>(sum); }
};
#endif

template <class Out, int Count>
void sum_exact_counted(const float* const* g, const std::int32_t* const* codes, const std::int32_t* ids, int count,
                       Out* out, int64_t n) {
  const Vector<float> nothing = -splat(0.0f);
  for (int64_t i = 0; i < n; i += kLanes<float>) {
    auto any = load(codes[0] + i) == splat(ids[0]);
    WideSum total(select(any, load(g[0] + i), nothing));
    for (int t = 1; t < (Count > 0 ? Count : count); ++t) {
      const auto won = load(codes[t] + i) == splat(ids[t]);
      any = any | won;
      total.add(select(won, load(g[t] + i), nothing));
    }
    // Without terms the sum is still -0: adding +0 makes it +0, and changes nothing where there is a term of another kind.
    total.add(select(any, nothing, Vector<float>{}));
    total.put(out + i);
  }
}

template <class Out>
void sum_exact(const float* const* g, const std::int32_t* const* codes, const std::int32_t* ids, int count, Out* out,
               int64_t n) {
  if (count == 4) return sum_exact_counted<Out, 4>(g, codes, ids, count, out, n);
  if (count == 9) return sum_exact_counted<Out, 9>(g, codes, ids, count, out, n);
  return sum_exact_counted<Out, 0>(g, codes, ids, count, out, n);
}

// In two doubles: nothing is lost in the pair, by the caller's word.
void sum_pair(const double* const* g, const int64_t* const* codes, const int64_t* ids, int count, double* out,
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

template <class C, class U>
void range(const C* values, int64_t n, ExponentRange& range) {
  U smallest = static_cast<U>(~U{0}), largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    U bits;
    std::memcpy(&bits, values + i, sizeof bits);
    bits = static_cast<U>(bits & (static_cast<U>(~U{0}) >> 1));
    largest = bits > largest ? bits : largest;
    bits = static_cast<U>(bits - 1);  // zero becomes the largest of all
    smallest = bits < smallest ? bits : smallest;
  }
  if (largest > range.largest) range.largest = largest;
  if (smallest < range.smallest) range.smallest = smallest;
}

template <class T>
void narrow_half(const double* source, T* target, int64_t n) {
  for (int64_t i = 0; i < n; ++i) target[i] = round_to<T>(source[i]);
}

template <class From, class I>
void widen_codes(const From* source, I* target, int64_t n) {
  for (int64_t i = 0; i < n; ++i) target[i] = static_cast<I>(source[i]);
}

template <class I>
void codes(const char* source, int bytes, I* target, int64_t n) {
  if (bytes == 1) widen_codes(reinterpret_cast<const std::uint8_t*>(source), target, n);
  else widen_codes(reinterpret_cast<const std::uint16_t*>(source), target, n);
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
  static constexpr GatherKernels table{sum<float, std::int32_t>,
                                       sum_exact<float>,
                                       sum_exact<double>,
                                       sum<double, std::int64_t>,
                                       sum_pair,
                                       range<float, std::uint32_t>,
                                       range<double, std::uint64_t>,
                                       narrow_half<Float16>,
                                       narrow_half<BFloat16>,
                                       codes<std::int32_t>,
                                       codes<std::int64_t>,
                                       interleave<std::uint16_t>,
                                       interleave<std::uint32_t>,
                                       interleave<std::uint64_t>};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
