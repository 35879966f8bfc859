// Doubles with error bounds, rounded at both ends of their intervals: where the ends agree, the rounding is certain.
#pragma once

#include <bit>

#include "exact/round.hpp"
#include "simd/products.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// A bound that put_within takes.
inline double enough(double error) { return error == 0 || error >= 0x1p-150 ? error : 0x1p-150; }

// The doubles of `count` items, the other lanes filled.
template <class T>
inline Doubles load_first_doubles(const T* x, std::int64_t count, double fill) {
  if constexpr (std::is_same_v<T, float>) {
    const auto inside = lane_numbers<std::int64_t>() < splat(count);
    return select(inside, to_doubles(load_first<float, kVectorBytes / 2>(x, count)), splat(fill));
  }
  double lanes[kWide];
  for (int i = 0; i < kWide; ++i) {
    if constexpr (sizeof(T) >= 4) lanes[i] = i < count ? static_cast<double>(x[i]) : fill;
    else lanes[i] = i < count ? static_cast<double>(to_float(x[i])) : fill;
  }
  return load(lanes);
}

// Whether any bit is set in a vector of the whole or half the width.
template <class V>
inline bool any_bit(const V& v) {
  static_assert(sizeof(V) == kVectorBytes / 2 || sizeof(V) == kVectorBytes);
#if defined(HALFULP_ISA_avx512)
  if constexpr (sizeof(V) == 64) return _mm512_test_epi32_mask(reinterpret<__m512i>(v), reinterpret<__m512i>(v)) != 0;
  else return _mm256_testz_si256(reinterpret<__m256i>(v), reinterpret<__m256i>(v)) == 0;
#elif defined(HALFULP_ISA_avx2)
  if constexpr (sizeof(V) == 32) return _mm256_testz_si256(reinterpret<__m256i>(v), reinterpret<__m256i>(v)) == 0;
  else return _mm_testz_si128(reinterpret<__m128i>(v), reinterpret<__m128i>(v)) == 0;
#else
  std::uint64_t words[sizeof(V) / 8];
  std::memcpy(words, &v, sizeof v);
  std::uint64_t any = 0;
  for (const std::uint64_t word : words) any |= word;
  return any != 0;
#endif
}

// The largest lane and the sum of all lanes.
template <class V>
inline auto largest_lane(const V& v) {
  auto most = v[0];
  if constexpr (sizeof(V) > 16) {
    using Half = Vector<lane_type<V>, sizeof(V) / 2>;
    constexpr int half = kLanes<lane_type<V>, sizeof(V) / 2>;
    const Half low = part<0, Half>(v, v, std::make_integer_sequence<int, half>{});
    const Half high = part<half, Half>(v, v, std::make_integer_sequence<int, half>{});
    return largest_lane(max_first(low, high));
  } else {
    for (int i = 1; i < static_cast<int>(sizeof(V) / sizeof(most)); ++i) most = v[i] > most ? v[i] : most;
    return most;
  }
}
template <class V>
inline double sum_of_lanes(const V& v) {
  if constexpr (sizeof(V) > 16) {
    using Half = Vector<double, sizeof(V) / 2>;
    constexpr int half = kLanes<double, sizeof(V) / 2>;
    return sum_of_lanes(Half(part<0, Half>(v, v, std::make_integer_sequence<int, half>{}) +
                             part<half, Half>(v, v, std::make_integer_sequence<int, half>{})));
  } else {
    return v[0] + v[1];
  }
}

// Stores low ends rounded to T, and remembers whether a high end differs. Ends are never NaN; an end that is zero is +0
// where the exact result is.
template <class T>
class Ends {
 public:
  void put(T* out, const Doubles& low, const Doubles& high) {
    T rounded[kWide];
    const unsigned differ = compare(rounded, low, high);
    std::memcpy(out, rounded, sizeof rounded);
    differ_ |= differ;
  }
  void put_within(T* out, const Doubles& y, const Doubles& error) { put(out, y - error, y + error); }
  void put_first(T* out, const Doubles& low, const Doubles& high, std::int64_t count) {
    T rounded[kWide];
    differ_ |= compare(rounded, low, high);
    for (std::int64_t i = 0; i < count; ++i) out[i] = rounded[i];
  }
  void require_finite(const Doubles& y) {
    for (int i = 0; i < kWide; ++i) differ_ |= y[i] - y[i] == 0 ? 0u : 1u;
  }
  bool differ() const { return differ_ != 0; }

 private:
  static unsigned compare(T* rounded, const Doubles& low, const Doubles& high) {
    using F = format_of<T>;
    double a[kWide], b[kWide];
    store(a, low);
    store(b, high);
    unsigned differ = 0;
    for (int i = 0; i < kWide; ++i) {
      const auto first = round_bits<F>(a[i]), second = round_bits<F>(b[i]);
      rounded[i] = std::bit_cast<T>(first);
      differ |= static_cast<unsigned>(first ^ second);
    }
    return differ;
  }
  unsigned differ_ = 0;
};
template <>
class Ends<float> {
  using Bits = Vector<std::uint32_t, kVectorBytes / 2>;

 public:
  void put(float* out, const Doubles& low, const Doubles& high) {
    const Floats a = to_floats(low), b = to_floats(high);
    std::memcpy(out, &a, sizeof a);
    differ_ |= reinterpret<Bits>(a) ^ reinterpret<Bits>(b);
  }
  void put_first(float* out, const Doubles& low, const Doubles& high, std::int64_t count) {
    float rounded[kWide];
    put(rounded, low, high);
    for (std::int64_t i = 0; i < count; ++i) out[i] = rounded[i];
  }
  // With one conversion: half a unit of the last of 24 bits is added to both ends as integers; they must then agree in
  // all 24. The error is zero or at least 2^-150, so that the ends of what is no normal float differ; it includes the
  // ends' own rounding, so that the exact number is no end.
  void put_within(float* out, const Doubles& y, const Doubles& error) {
    const Floats rounded = to_floats(y);
    std::memcpy(out, &rounded, sizeof rounded);
    odd_ |= (reinterpret<Wide>(y - error) + kHalf) ^ (reinterpret<Wide>(y + error) + kHalf);
  }
  void put_first_within(float* out, const Doubles& y, const Doubles& error, std::int64_t count) {
    store_first_rounded(out, y, count);
    odd_ |= (reinterpret<Wide>(y - error) + kHalf) ^ (reinterpret<Wide>(y + error) + kHalf);
  }
  // Whether ends differ in the first lanes, after put_first_within.
  bool differ_in_first(std::int64_t count) const {
    return !all_lanes(((odd_ >> 29) == 0) | (lane_numbers<std::int64_t>() >= splat(count)));
  }
  // Whatever the ends, a result that is not finite is unsure.
  void require_finite(const Doubles& y) { odd_ |= reinterpret<Wide>(y - y); }
  bool differ() const {
    const Wide odd = odd_ >> 29;
    const auto low = part<0, Vector<std::uint64_t, kVectorBytes / 2>>(odd, odd, Halves{});
    const auto high = part<kWide / 2, Vector<std::uint64_t, kVectorBytes / 2>>(odd, odd, Halves{});
    return any_bit(differ_ | reinterpret<Bits>(low | high));
  }

 private:
  using Wide = Vector<std::uint64_t>;
  using Halves = std::make_integer_sequence<int, kWide / 2>;
  static constexpr std::uint64_t kHalf = std::uint64_t{1} << 28;
  Bits differ_{};
  Wide odd_{};
};

// The low words of two vectors of doubles, in an order that is one instruction.
inline Vector<std::uint32_t> low_words(const Doubles& a, const Doubles& b) {
  using AllWords = Vector<std::uint32_t>;
#if defined(HALFULP_ISA_avx512)
  return reinterpret<AllWords>(_mm512_maskz_shuffle_ps(0xffff, reinterpret<__m512>(a), reinterpret<__m512>(b), 0x88));
#elif defined(HALFULP_ISA_avx2)
  return reinterpret<AllWords>(_mm256_shuffle_ps(reinterpret<__m256>(a), reinterpret<__m256>(b), 0x88));
#else
  return __builtin_shufflevector(reinterpret<AllWords>(a), reinterpret<AllWords>(b), 0, 2, 4, 6);
#endif
}

// Doubles that are off by at most `margin` units of their last place, at most 2^26, rounded to normal floats. The
// rounding is certain unless the 29 bits that are dropped are within the margin of their middle.
class Middles {
  using Word = std::uint32_t;
  using AllWords = Vector<Word>;
  // `smaller` compares signed numbers where there are no unsigned ones: the middle is the smallest of either.
  static constexpr Word kMiddle = kAnyUnsigned<Word> ? Word{1} << 28 : 0;

 public:
  explicit Middles(Word margin)
      : offset_(splat(Word(margin - kMiddle))), closest_(splat(Word(~Word{0} >> (kMiddle == 0 ? 1 : 0)))) {}
  void put(float* out, const Doubles& a, const Doubles& b) {
    store_rounded(out, a);
    store_rounded(out + kWide, b);
    const AllWords words = low_words(a, b);
    closest_ = smaller(closest_, AllWords((words + offset_) << 3));
  }
  // Whether a rounding is not certain.
  bool unsure(Word margin) const {
    const AllWords distance = kMiddle == 0 ? AllWords(closest_ ^ (Word{1} << 31)) : closest_;
    return any_bit(reinterpret<AllWords>(distance <= splat(Word(margin << 4))));
  }

 private:
  AllWords offset_, closest_;
};

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
