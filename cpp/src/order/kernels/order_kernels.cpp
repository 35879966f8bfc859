// Sorting networks over columns of keys, as plain loops that every compiler vectorises.
#include "order/order_kernels.hpp"

#include <bit>
#include <cstring>
#include <type_traits>

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

using std::int64_t;

template <int Bytes>
struct Unsigned;
template <> struct Unsigned<1> { using type = std::uint8_t; };
template <> struct Unsigned<2> { using type = std::uint16_t; };
template <> struct Unsigned<4> { using type = std::uint32_t; };
template <> struct Unsigned<8> { using type = std::uint64_t; };
template <class T>
using Key = typename Unsigned<static_cast<int>(sizeof(T))>::type;

// The bits of infinity.
template <class T>
constexpr Key<T> infinity_bits() {
  if constexpr (std::is_same_v<T, Float16>) return 0x7c00u;
  else if constexpr (std::is_same_v<T, BFloat16>) return 0x7f80u;
  else if constexpr (std::is_same_v<T, float>) return 0x7f800000u;
  else return 0x7ff0000000000000u;
}

template <class T>
inline Key<T> key_of(Key<T> bits, bool merge_zeros) {
  using U = Key<T>;
  constexpr U sign = static_cast<U>(U{1} << (8 * sizeof(U) - 1));
  if constexpr (is_float(dtype_of<T>)) {
    const U magnitude = static_cast<U>(bits & static_cast<U>(~sign));
    const U plain = merge_zeros && magnitude == 0 ? magnitude : bits;
    const U key = (plain & sign) != 0 ? static_cast<U>(~plain) : static_cast<U>(plain | sign);
    return magnitude > infinity_bits<T>() ? static_cast<U>(~U{0}) : key;
  } else if constexpr (std::is_same_v<T, Bool>) {
    return bits;
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<U>(bits ^ sign);
  } else {
    return bits;
  }
}

template <class T>
inline Key<T> bits_of(Key<T> key) {
  using U = Key<T>;
  constexpr U sign = static_cast<U>(U{1} << (8 * sizeof(U) - 1));
  if constexpr (is_float(dtype_of<T>)) {
    return (key & sign) != 0 ? static_cast<U>(key ^ sign) : static_cast<U>(~key);
  } else if constexpr (std::is_same_v<T, Bool>) {
    return key;
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<U>(key ^ sign);
  } else {
    return key;
  }
}

template <class T>
void keys(const char* source, int64_t stride, void* to, int64_t n, bool merge_zeros) {
  using U = Key<T>;
  U* __restrict out = static_cast<U*>(to);
  constexpr int64_t item = sizeof(U);
  if (stride == 2 * item && n > 0) {
    // Not beyond the last cell: its right neighbour may not be ours.
    for (int64_t i = 0; i < n - 1; ++i) {
      U pair[2];
      std::memcpy(pair, source + i * 2 * item, sizeof pair);
      out[i] = key_of<T>(pair[0], merge_zeros);
    }
    U last;
    std::memcpy(&last, source + (n - 1) * 2 * item, sizeof last);
    out[n - 1] = key_of<T>(last, merge_zeros);
    return;
  }
  if (stride == item) {
    for (int64_t i = 0; i < n; ++i) {
      U bits;
      std::memcpy(&bits, source + i * item, sizeof bits);
      out[i] = key_of<T>(bits, merge_zeros);
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    U bits;
    std::memcpy(&bits, source + i * stride, sizeof bits);
    out[i] = key_of<T>(bits, merge_zeros);
  }
}

template <class U>
inline void exchange(U* __restrict a, U* __restrict b) {
  for (int64_t i = 0; i < kOrderBlock; ++i) {
    const U low = a[i] < b[i] ? a[i] : b[i];
    const U high = a[i] < b[i] ? b[i] : a[i];
    a[i] = low;
    b[i] = high;
  }
}

// Batcher's odd-even merge sort for any number of columns.
template <class U>
void sort(void* columns, int64_t count) {
  U* cells = static_cast<U*>(columns);
  for (int64_t p = 1; p < count; p *= 2)
    for (int64_t k = p; k >= 1; k /= 2)
      for (int64_t j = k % p; j + k < count; j += 2 * k)
        for (int64_t i = 0; i < k && i + j + k < count; ++i)
          if ((i + j) / (2 * p) == (i + j + k) / (2 * p))
            exchange(cells + (i + j) * kOrderBlock, cells + (i + j + k) * kOrderBlock);
}

template <class U>
void mode(const void* columns, int64_t count, void* to) {
  const U* cells = static_cast<const U*>(columns);
  U* __restrict out = static_cast<U*>(to);
  U now[kOrderBlock], most[kOrderBlock];  // lengths; a block has at most 64 columns
  for (int64_t i = 0; i < kOrderBlock; ++i) {
    now[i] = most[i] = 1;
    out[i] = cells[i];
  }
  for (int64_t c = 1; c < count; ++c) {
    const U* before = cells + (c - 1) * kOrderBlock;
    const U* here = cells + c * kOrderBlock;
    for (int64_t i = 0; i < kOrderBlock; ++i) {
      now[i] = here[i] == before[i] ? static_cast<U>(now[i] + 1) : U{1};
      out[i] = now[i] > most[i] ? here[i] : out[i];
      most[i] = now[i] > most[i] ? now[i] : most[i];
    }
  }
}

// The mean of two floats, rounded once: exact in double precision for the narrow types. A sum of doubles that is
// subnormal is exact, so halving rounds once; where it overflows the halves are exact instead.
inline double mean_of(double a, double b) {
  const double sum = a + b;
  const bool overflows = sum - sum != 0 && a - a == 0 && b - b == 0;
  return overflows ? a * 0.5 + b * 0.5 : sum * 0.5;
}

template <class T>
void middle(const void* low, const void* high, void* to, int64_t n) {
  using U = Key<T>;
  const U* a = static_cast<const U*>(low);
  const U* b = static_cast<const U*>(high);
  U* __restrict out = static_cast<U*>(to);
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<T, float>) {
      const double x = std::bit_cast<float>(bits_of<T>(a[i])), y = std::bit_cast<float>(bits_of<T>(b[i]));
      out[i] = std::bit_cast<U>(static_cast<float>((x + y) * 0.5));
    } else if constexpr (std::is_same_v<T, double>) {
      const double x = std::bit_cast<double>(bits_of<T>(a[i])), y = std::bit_cast<double>(bits_of<T>(b[i]));
      out[i] = std::bit_cast<U>(mean_of(x, y));
    } else if constexpr (is_float(dtype_of<T>)) {
      out[i] = bits_of<T>(a[i]);  // two different ones are the caller's
    } else {
      // The floor of the mean, one more if it is odd and a half is left; keys are as even as their elements.
      const U floor = static_cast<U>((a[i] & b[i]) + ((a[i] ^ b[i]) >> 1));
      const U half = static_cast<U>((a[i] ^ b[i]) & 1);
      out[i] = bits_of<T>(static_cast<U>(floor + (floor & half)));
    }
  }
}

}  // namespace

const OrderKernels& order_kernels() {
  static constexpr OrderKernels table{
      {keys<Float16>, keys<BFloat16>, keys<float>, keys<double>, keys<std::int8_t>, keys<std::int16_t>,
       keys<std::int32_t>, keys<std::int64_t>, keys<std::uint8_t>, keys<std::uint16_t>, keys<std::uint32_t>,
       keys<std::uint64_t>, keys<Bool>},
      {sort<std::uint8_t>, sort<std::uint16_t>, sort<std::uint32_t>, sort<std::uint64_t>},
      {mode<std::uint8_t>, mode<std::uint16_t>, mode<std::uint32_t>, mode<std::uint64_t>},
      {middle<Float16>, middle<BFloat16>, middle<float>, middle<double>, middle<std::int8_t>, middle<std::int16_t>,
       middle<std::int32_t>, middle<std::int64_t>, middle<std::uint8_t>, middle<std::uint16_t>, middle<std::uint32_t>,
       middle<std::uint64_t>, middle<Bool>}};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
