#include "average/sign_kernels.hpp"

#include <bit>

#include "simd/bits.hpp"
#include "simd/doubles.hpp"
#include "simd/stream.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

using Index = std::int64_t;

template <class U>
inline constexpr U kSign = static_cast<U>(U{1} << (8 * sizeof(U) - 1));
template <class U>
inline constexpr U kSize = static_cast<U>(kSign<U> - 1);

template <class U>
bool any_above(const Vector<U>& v, U limit) {
  bool found = false;
  for (int k = 0; k < kLanes<U>; ++k) found = found || v[k] > limit;
  return found;
}

// The bits of a word of cells; the largest magnitudes so far.
template <class U>
inline void encode_word(const U* x, std::uint8_t* negative, std::uint8_t* zero, Vector<U>& largest) {
  Vector<U> cells[kWordVectors<U>], sizes[kWordVectors<U>];
  for (int k = 0; k < kWordVectors<U>; ++k) {
    cells[k] = load(x + k * kLanes<U>);
    sizes[k] = cells[k] & splat(kSize<U>);
    largest = larger(largest, sizes[k]);
  }
  const std::uint32_t zeros = word_zero_bits<U>(sizes), signs = word_top_bits<U>(cells) & ~zeros;
  std::memcpy(negative, &signs, sizeof signs);
  std::memcpy(zero, &zeros, sizeof zeros);
}

template <class U>
void encode_cells(const void* cells, Index begin, Index end, U infinity, const SignBits& signs) {
  const U* const x = static_cast<const U*>(cells);
  std::uint8_t *negative = signs.negative + begin / 8, *zero = signs.zero + begin / 8;
  Vector<U> largest{};
  Index i = begin;
  for (; i + kSignWord <= end; i += kSignWord, negative += kSignWord / 8, zero += kSignWord / 8)
    encode_word(x + i, negative, zero, largest);
  if (i < end) {
    U word[kSignWord] = {};
    std::memcpy(word, x + i, static_cast<std::size_t>(end - i) * sizeof(U));
    encode_word(word, negative, zero, largest);
  }
  if (!any_above(largest, infinity)) return;
  for (i = begin; i < end; ++i) {
    if ((x[i] & kSize<U>) <= infinity) continue;
    const auto bit = static_cast<std::uint8_t>(1 << i % 8);
    signs.negative[i / 8] |= bit;
    signs.zero[i / 8] |= bit;
  }
}

void encode(const void* x, Index begin, Index end, Index item, std::uint64_t infinity, const SignBits& signs) {
  if (item == 2) return encode_cells(x, begin, end, static_cast<std::uint16_t>(infinity), signs);
  if (item == 4) return encode_cells(x, begin, end, static_cast<std::uint32_t>(infinity), signs);
  encode_cells(x, begin, end, infinity, signs);
}

inline std::uint32_t bits_from(const std::uint8_t* bits, Index at) {
  static_assert(std::endian::native == std::endian::little);
  std::uint64_t word;
  std::memcpy(&word, bits + at / 8, sizeof word);
  return static_cast<std::uint32_t>(word >> at % 8);
}

template <class U, bool Stream>
class Decoder {
 public:
  explicit Decoder(const SignBits& signs) : signs_(signs) {}

  bool run(Index at, const U* from, U* to, Index n) {
    Index i = 0;
    if constexpr (Stream) {
      const auto past = static_cast<Index>(reinterpret_cast<std::uintptr_t>(to) % kVectorBytes / sizeof(U));
      i = past == 0 ? 0 : kLanes<U> - past;
      i = i < n ? i : n;
      if (i > 0) few(at, from, to, i);
    }
    Vector<U> turned{};
    for (; i + kSignWord <= n; i += kSignWord) {
      const std::uint32_t negative = bits_from(signs_.negative, at + i), zero = bits_from(signs_.zero, at + i);
      if (zero == 0) word<false, Stream>(negative, 0, from + i, to + i, turned);
      else word<true, Stream>(negative, zero, from + i, to + i, turned);
      nan_ |= negative & zero;
    }
    if (i < n) few(at + i, from + i, to + i, n - i);
    return nan_ != 0 || turned_ || top_bits<U>(turned) != 0;
  }

 private:
  // A word of cells. In `turned` the highest bits of the zeros that change their sign are set.
  template <bool Zeros, bool Past, int First = 0>
  static inline void word(std::uint32_t negative, std::uint32_t zero, const U* from, U* to, Vector<U>& turned) {
    if constexpr (First < kSignWord) {
      const Vector<U> v = load(from + First), flip = lanes_of_bits<U, First>(negative);
      turned |= reinterpret<Vector<U>>(Vector<U>(v + v) == splat(U{0})) & flip;
      Vector<U> result = v ^ flip;
      if constexpr (Zeros) result &= reinterpret<Vector<U>>(lanes_of_bits<U, First>(zero) == splat(U{0}));
      if constexpr (Past) halfulp::HALFULP_ISA_NAMESPACE::stream(to + First, result);
      else store(to + First, result);
      word<Zeros, Past, First + kLanes<U>>(negative, zero, from, to, turned);
    }
  }

  // At most a word of cells.
  void few(Index at, const U* from, U* to, Index n) {
    const auto these = static_cast<std::uint32_t>((std::uint64_t{1} << n) - 1);
    const std::uint32_t negative = bits_from(signs_.negative, at) & these, zero = bits_from(signs_.zero, at) & these;
    U values[kSignWord] = {}, results[kSignWord];
    std::memcpy(values, from, static_cast<std::size_t>(n) * sizeof(U));
    Vector<U> turned{};
    word<true, false>(negative, zero, values, results, turned);
    std::memcpy(to, results, static_cast<std::size_t>(n) * sizeof(U));
    nan_ |= negative & zero;
    turned_ = turned_ || top_bits<U>(turned) != 0;
  }

  const SignBits& signs_;
  std::uint32_t nan_ = 0;
  bool turned_ = false;
};

template <class U>
bool decode_cells(const SignBits& signs, Index at, const void* from, void* to, Index n, bool stream) {
  const U* const source = static_cast<const U*>(from);
  U* const target = static_cast<U*>(to);
  return stream ? Decoder<U, true>(signs).run(at, source, target, n)
                : Decoder<U, false>(signs).run(at, source, target, n);
}

bool decode(const SignBits& signs, Index at, const void* from, void* to, Index n, Index item, bool stream) {
  if (item == 2) return decode_cells<std::uint16_t>(signs, at, from, to, n, stream);
  if (item == 4) return decode_cells<std::uint32_t>(signs, at, from, to, n, stream);
  return decode_cells<std::uint64_t>(signs, at, from, to, n, stream);
}

}  // namespace

const SignKernels& sign_kernels() {
  static constexpr SignKernels table{encode, decode};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
