// Every primitive of src/simd/, here and in arithmetic.cpp, beside a loop over single lanes. Compiled once for each
// instruction set; a processor that lacks it passes without a check.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

#include "exact/round.hpp"
#include "simd/across.hpp"
#include "simd/bits.hpp"
#include "simd/deinterleave.hpp"
#include "simd/doubles.hpp"
#include "simd/half_blocks.hpp"
#include "simd/halves.hpp"
#include "simd/look_up.hpp"
#include "simd/masks.hpp"
#include "simd/stream.hpp"
#include "simd/vector.hpp"
#include "simd/with_signs.hpp"
#include "simd/lanes.hpp"
#include "check.hpp"
#include "halfulp/isa.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

template <class T, int Bytes>
void check_memory() {
  constexpr int n = kLanes<T, Bytes>;
  const auto whole = items<T>(n);
  CHECK(holds(load<T, Bytes>(whole.data()), whole));
  CHECK(holds(splat<T, Bytes>(T(7)), std::vector<T>(n, T(7))));
  for (int count = 1; count <= n; ++count) {
    const auto some = items<T>(count);  // its end is the end of the memory: a sanitizer sees reads beyond
    const auto v = load_first<T, Bytes>(some.data(), count);
    CHECK(holds(v, lanes<T, Bytes>([&](int i) { return i < count ? item<T>(i) : T{}; })));
    std::vector<T> target(static_cast<std::size_t>(count), T{});
    store_first(target.data(), v, count);
    CHECK(target == some);
  }
}

template <class T>
void check_across() {
  constexpr int n = kLanes<T>;
  const auto all = items<T>(2 * n);
  const auto before = load(all.data()), now = load(all.data() + n);
  CHECK(holds(shifted_in<1>(before, now), lanes<T, kVectorBytes>([](int i) { return item<T>(n + i - 1); })));
  CHECK(holds(shifted_in<2>(before, now), lanes<T, kVectorBytes>([](int i) { return item<T>(n + i - 2); })));
  if constexpr (std::is_floating_point_v<T>) {
    for (int lane = 0; lane < n; ++lane) {
      auto v = before;
      CHECK(!any_nan<T>(v));
      v[lane] = std::numeric_limits<T>::quiet_NaN();
      CHECK(any_nan<T>(v));
    }
  } else if constexpr (std::is_same_v<T, std::uint16_t>) {
    auto first = all;
    first[0] = 0x8000;  // larger than the other, but for its sign
    CHECK(holds(smaller_unsigned(load(first.data()), now), lanes<T, kVectorBytes>([&](int i) {
      return std::min(first[static_cast<std::size_t>(i)], item<T>(n + i));
    })));
    CHECK(holds(smaller_unsigned(now, load(first.data())), lanes<T, kVectorBytes>([&](int i) {
      return std::min(first[static_cast<std::size_t>(i)], item<T>(n + i));
    })));
  } else if constexpr (std::is_signed_v<T>) {
    CHECK(holds(smaller_signed<T>(before, now),
                lanes<T, kVectorBytes>([](int i) { return std::min(item<T>(i), item<T>(n + i)); })));
  }
}

template <class T>
void check_ranges() {
  constexpr int n = kLanes<T>;
  const auto other = splat(T(3));
  for (int cells = 1; cells <= 2 * n; ++cells) {
    const auto row = items<T>(cells);
    for (int index = -n - 1; index <= cells; ++index) {
      const Within<T> within(index, cells);
      const auto inside = [&](int i) { return index + i >= 0 && index + i < cells; };
      // The address of lane 0, which may lie outside: never read there.
      const T* const at = reinterpret_cast<const T*>(reinterpret_cast<std::intptr_t>(row.data()) +
                                                     index * static_cast<std::intptr_t>(sizeof(T)));
      const auto zeroed = within.or_zero(at);
      CHECK(holds(zeroed, lanes<T, kVectorBytes>([&](int i) { return inside(i) ? item<T>(index + i) : T{}; })));
      CHECK(holds(within.or_else(zeroed, other),
                  lanes<T, kVectorBytes>([&](int i) { return inside(i) ? item<T>(index + i) : T(3); })));
    }
  }
}

template <class T, int Bytes>
void check_shuffles() {
  constexpr int n = kLanes<T, Bytes>;
  const auto row = items<T>(3 * n);
  const Vector<T, Bytes> v[3] = {load<T, Bytes>(row.data()), load<T, Bytes>(row.data() + n),
                                 load<T, Bytes>(row.data() + 2 * n)};
  CHECK(holds(deinterleaved2<0>(v[0], v[1]), lanes<T, Bytes>([](int i) { return item<T>(2 * i); })));
  CHECK(holds(deinterleaved2<1>(v[0], v[1]), lanes<T, Bytes>([](int i) { return item<T>(2 * i + 1); })));
  if constexpr (std::is_integral_v<T> && sizeof(T) <= 2)
    CHECK(holds(second_as_first(v[0]), lanes<T, Bytes>([](int i) { return i % 2 == 0 ? item<T>(i + 1) : T{}; })));
  CHECK(holds(deinterleaved3<0>(v), lanes<T, Bytes>([](int i) { return item<T>(3 * i); })));
  CHECK(holds(deinterleaved3<1>(v), lanes<T, Bytes>([](int i) { return item<T>(3 * i + 1); })));
  CHECK(holds(deinterleaved3<2>(v), lanes<T, Bytes>([](int i) { return item<T>(3 * i + 2); })));
  if constexpr (Bytes == kVectorBytes) {
    CHECK(holds(shifted_by_one<T>(v[0], v[1]), lanes<T, Bytes>([](int i) { return item<T>(i + 1); })));
    CHECK(holds(elements_from<T, 1>(v), lanes<T, Bytes>([](int i) { return item<T>(i + 1); })));
    CHECK(holds(elements_from<T, n>(v), lanes<T, Bytes>([](int i) { return item<T>(i + n); })));
    const auto zipped_item = [&](int i) { return item<T>(i % 2 * n + i / 2); };
    CHECK(holds(zip_low<T>(v[0], v[1]), lanes<T, Bytes>(zipped_item)));
    CHECK(holds(zip_high<T>(v[0], v[1]), lanes<T, Bytes>([&](int i) { return zipped_item(i + n); })));
  }
}

// The first of equal ones, told by the sign of a zero.
template <class T, int Bytes>
void check_maxima() {
  constexpr int n = kLanes<T, Bytes>;
  const auto a = items<T>(n);
  std::vector<T> b(a.rbegin(), a.rend());
  if constexpr (std::is_floating_point_v<T>) {
    for (std::size_t i = 0; i < a.size(); i += 3) b[i] = i % 2 == 0 ? T(-0.0) : std::numeric_limits<T>::infinity();
  }
  const auto larger = [&](const T& x, const T& y) { return y > x ? y : x; };
  const auto check = [&](const std::vector<T>& x, const std::vector<T>& y) {
    const auto p = load<T, Bytes>(x.data()), q = load<T, Bytes>(y.data());
    const auto at = [](const std::vector<T>& some, int i) { return some[static_cast<std::size_t>(i)]; };
    CHECK(holds(max_first(p, q), lanes<T, Bytes>([&](int i) { return larger(at(x, i), at(y, i)); })));
    CHECK(holds(max_last(p, q), lanes<T, Bytes>([&](int i) { return larger(at(y, i), at(x, i)); })));
  };
  check(a, b);
  check(b, a);
  check(std::vector<T>(n, T(0)), std::vector<T>(n, T(-0.0)));
  check(std::vector<T>(n, T(-0.0)), std::vector<T>(n, T(0)));
  check(std::vector<T>(n, std::numeric_limits<T>::lowest()), std::vector<T>(n, std::numeric_limits<T>::max()));
}

template <class C>
void check_masks() {
  std::vector<LaneNumber<C>> numbers;
  for (int i = 0; i < kLanes<C>; ++i) numbers.push_back(i % 3 == 0 ? 200 : 7);
  const auto mask = lanes_equal<C>(numbers.data(), 200);
  const auto v = load(items<C>(kLanes<C>).data());
  const auto where = [](auto yes, auto no) {
    return lanes<C, kVectorBytes>([=](int i) { return i % 3 == 0 ? yes(i) : no(i); });
  };
  const auto zero = [](int) { return C(0); };
  CHECK(holds(chosen(mask, v), where([](int i) { return item<C>(i); }, zero)));
  CHECK(holds(subtract_where(mask, -splat(C(0)), -splat(C(1))),
              where([](int) { return C(1); }, [](int) { return C(-0.0); })));
  std::vector<std::uint8_t> bytes;
  for (int i = 0; i < kLanes<C>; ++i) bytes.push_back(static_cast<std::uint8_t>(255 - i));
  using U = std::make_unsigned_t<int_like<C>>;
  CHECK(holds(widen_bytes<U>(bytes.data()), lanes<U, kVectorBytes>([](int i) { return static_cast<U>(255 - i); })));
}

void check_halves_of_floats() {
  const auto v = load(items<float>(kLanes<float>).data());
  constexpr int half = kLanes<double>;
  CHECK(holds(widen_low(v), lanes<double, kVectorBytes>([](int i) { return item<float>(i); })));
  CHECK(holds(widen_high(v), lanes<double, kVectorBytes>([](int i) { return item<float>(i + half); })));
  CHECK(holds(narrow(widen_low(v), widen_high(v)), items<float>(kLanes<float>)));
  std::vector<LaneNumber<float>> numbers;
  for (int i = 0; i < kLanes<float>; ++i) numbers.push_back(i % 3);
  const auto mask = lanes_equal<float>(numbers.data(), 2);
  const auto minus_one = -splat(1.0), minus_zero = -splat(0.0);
  const auto sum_at = [](int i) { return i % 3 == 2 ? 1.0 : -0.0; };
  CHECK(holds(subtract_where(lower(mask), minus_zero, minus_one), lanes<double, kVectorBytes>(sum_at)));
  CHECK(holds(subtract_where(upper(mask), minus_zero, minus_one),
              lanes<double, kVectorBytes>([&](int i) { return sum_at(i + half); })));
}

// Sums of neighbours, and numbers that fit half their width.
template <class U, int Bytes>
void check_neighbours() {
  using Wide = std::make_unsigned_t<typename IntOfSize<2 * sizeof(U)>::type>;
  constexpr int n = kLanes<U, Bytes>;
  auto row = items<U>(2 * n);
  row[0] = row[1] = row[2] = std::numeric_limits<U>::max();
  const auto at = [&](int i) { return row[static_cast<std::size_t>(i)]; };
  const auto sums = sums_of_neighbours(load<U, Bytes>(row.data()));
  CHECK(holds(sums, lanes<Wide, Bytes>([&](int i) { return Wide{at(2 * i)} + Wide{at(2 * i + 1)}; })));
  const auto wide = [&](int start) {
    std::vector<Wide> all;
    for (int i = 0; i < n / 2; ++i) all.push_back(at(start + i));
    return load<Wide, Bytes>(all.data());
  };
  CHECK(holds(in_order(narrowed<U>(wide(0), wide(n / 2))), std::vector<U>(row.begin(), row.begin() + n)));
}
template <class U>
void check_neighbours_of() {
  check_neighbours<U, 16>();
  if constexpr (kVectorBytes >= 32) check_neighbours<U, 32>();
  if constexpr (kVectorBytes >= 64) check_neighbours<U, 64>();
}

void check_look_up() {
  static constexpr double table[8] = {-0.5, 1.0, 1.0 / 3, -7e300, 5e-324, 1.0 / 7, 0.1, 1e9};
  constexpr int half = kLanes<double>;
  for (int shift = 0; shift < 8; ++shift) {
    const auto index = [&](int i) { return (3 * i + shift) % 8; };
    Doubles low, high;
    look_up(table, load(lanes<std::int32_t, kVectorBytes>(index).data()), low, high);
    CHECK(holds(low, lanes<double, kVectorBytes>([&](int i) { return table[index(i)]; })));
    CHECK(holds(high, lanes<double, kVectorBytes>([&](int i) { return table[index(half + i)]; })));
  }
  using Places = Vector<std::uint64_t>;
  for (std::uint64_t shift = 0; shift < 7; ++shift) {
    const auto at = [&](int i) { return (3 * static_cast<std::uint64_t>(i) + shift) % 7; };
    Doubles first, second;
    look_up_pairs(table, load(lanes<std::uint64_t, sizeof(Places)>(at).data()), first, second);
    CHECK(holds(first, lanes<double, kVectorBytes>([&](int i) { return table[at(i)]; })));
    CHECK(holds(second, lanes<double, kVectorBytes>([&](int i) { return table[at(i) + 1]; })));
  }
  const auto whole = load(items<std::int32_t>(kLanes<std::int32_t>).data());
  CHECK(holds(widen_low(whole), lanes<double, kVectorBytes>([](int i) { return item<std::int32_t>(i); })));
  CHECK(holds(widen_high(whole), lanes<double, kVectorBytes>([](int i) { return item<std::int32_t>(half + i); })));
}

template <int Bytes>
void check_stream() {
  alignas(64) float target[kLanes<float, Bytes>] = {};
  const auto source = items<float>(kLanes<float, Bytes>);
  stream(target, load<float, Bytes>(source.data()));
  finish_stream();
  CHECK(std::memcmp(target, source.data(), sizeof target) == 0);
}

template <class T, int Bytes>
void check_width() {
  check_memory<T, Bytes>();
  check_shuffles<T, Bytes>();
  check_maxima<T, Bytes>();
}
template <class T>
void check_type() {
  check_width<T, 16>();
  if constexpr (kVectorBytes >= 32) check_width<T, 32>();
  if constexpr (kVectorBytes >= 64) check_width<T, 64>();
  check_ranges<T>();
}

}  // namespace
// Every item of half precision as a double; doubles around every item and every midpoint, rounded. Numbers only: sums
// with others are not rounded by vectors.
template <class T>
void check_half_type() {
  const auto item_of = [](int bits) { return std::bit_cast<T>(static_cast<std::uint16_t>(bits)); };
  for (int start = 0; start < 65536; start += static_cast<int>(kWide)) {
    T in[kWide];
    for (int i = 0; i < kWide; ++i) in[i] = item_of(start + i);
    const Doubles found = load_doubles(in);
    for (int i = 0; i < kWide; ++i) {
      const double expected = to_float(in[i]);
      CHECK(found[i] == expected || (found[i] != found[i] && expected != expected));
      CHECK(std::signbit(found[i]) == std::signbit(expected));
    }
  }
  constexpr bool brain = std::is_same_v<T, BFloat16>;
  constexpr int first = brain ? 0x80 : 0, last = brain ? 0x7f7f : 0x7bff;  // bfloat16: normal numbers
  for (int bits = first; bits < last; ++bits) {
    const double low = to_float(item_of(bits)), high = to_float(item_of(bits + 1)), middle = (low + high) / 2;
    const double numbers[] = {low, high, middle, std::nextafter(middle, low), std::nextafter(middle, high)};
    for (const double number : numbers) {
      Doubles q;
      for (int i = 0; i < kWide; ++i) q[i] = i % 2 == 0 ? number : -number;
      T out[kWide];
      store_rounded(out, q);
      for (int i = 0; i < kWide; ++i) CHECK(out[i].bits == round_to<T>(q[i]).bits);
    }
  }
}

// Every item of float16 as a float; floats at, between and beside neighbouring items, rounded.
void check_half_blocks() {
  for (int bits = 0; bits < 65536; ++bits) {
    const Float16 item = std::bit_cast<Float16>(static_cast<std::uint16_t>(bits));
    const float number = to_float(item), next = to_float(std::bit_cast<Float16>(static_cast<std::uint16_t>(bits ^ 1)));
    const float middle = (number + next) / 2;
    const float below = std::nextafter(middle, number), above = std::nextafter(middle, next);
    const float floats[kHalfBlock] = {number, middle, below, above, -number, number * 3, number * 0x1p-16f, next};
    Float16 items[kHalfBlock], narrowed[kHalfBlock];
    float widened[kHalfBlock];
    for (int i = 0; i < kHalfBlock; ++i) items[i] = std::bit_cast<Float16>(static_cast<std::uint16_t>(bits ^ i));
    widen_block(items, widened);
    narrow_block(floats, narrowed);
    for (int i = 0; i < kHalfBlock; ++i) {
      const float expected = to_float(items[i]);
      CHECK(std::isnan(expected) ? std::isnan(widened[i]) : widened[i] == expected);
      CHECK(std::signbit(widened[i]) == std::signbit(expected));
      const Float16 rounded = to_float16(floats[i]);
      CHECK(std::isnan(floats[i]) ? std::isnan(to_float(narrowed[i])) : narrowed[i].bits == rounded.bits);
    }
  }
}

void check_doubles() {
  check_half_blocks();
  check_half_type<Float16>();
  check_half_type<BFloat16>();
  for (int i = 0; i < 1000; ++i) {
    float cells[kWide], stored[kWide];
    Doubles a, b;
    for (int k = 0; k < kWide; ++k) {
      cells[k] = item<float>(i + k) * 0.37f;
      a[k] = 1.0 / (i + k + 3);
      b[k] = item<float>(i + k) + 0.1;
    }
    const Doubles loaded = load_doubles(cells), product = fused(a, b, loaded), size = magnitude(b);
    store_rounded(stored, a);
    for (int k = 0; k < kWide; ++k) {
      CHECK(loaded[k] == static_cast<double>(cells[k]) && stored[k] == static_cast<float>(a[k]));
      CHECK(product[k] == std::fma(a[k], b[k], loaded[k]) && size[k] == std::fabs(b[k]));
    }
    Doubles other = a;
    CHECK(equal_in_all(a, other) && all_lanes(a == other));
    other[i % kWide] += 1.0;
    CHECK(!equal_in_all(a, other) && !all_lanes(a == other));
  }
}

// Sums of half-precision numbers as integers, and quotients of these that are a little off.
template <class T>
void check_half_sums() {
  T in[kSingles];
  for (int start = 0; start < 0x10000; start += 97) {
    for (int i = 0; i < kSingles; ++i) {
      in[i].bits = static_cast<std::uint16_t>(start + 7 * i);
      if (!std::isfinite(to_float(in[i]))) in[i].bits = 0x3c00;
    }
    const Singles v = load_singles(in);
    for (int i = 0; i < kSingles; ++i) CHECK(v[i] == to_float(in[i]));
    // Numbers and midpoints, off by as much as sticky_floats allows.
    double q[kSingles];
    T out[kSingles];
    for (int i = 0; i < kSingles; ++i) {
      const T next{static_cast<std::uint16_t>(in[i].bits + 1)};
      const double x = to_float(in[i]), y = std::isfinite(to_float(next)) ? to_float(next) : x;
      q[i] = i % 2 == 0 ? x : (x + y) / 2;
      if (std::fabs(q[i]) < 0x1p-120) q[i] = 0.0;
    }
    Doubles low = load(q), high = load(q + kWide);
    const double off = 1.0 + (start % 3 - 1) * 0x1p-50;
    store_rounded(out, low * off, high * off);
    for (int i = 0; i < kSingles; ++i) CHECK(out[i].bits == round_to<T>(q[i]).bits);
  }
}
void check_integers_as_halves() {
  std::uint32_t words[kSingles];
  std::int32_t numbers[kSingles];
  std::int16_t shorts[2 * kSingles];
  std::uint16_t out[kSingles];
  for (int i = 0; i < kSingles; ++i) {
    words[i] = 0x12340000u + static_cast<std::uint32_t>(i * 5000);
    numbers[i] = (i - 3) * 123456789 / 2;
    shorts[2 * i] = static_cast<std::int16_t>(i * 4000 - 30000);
    shorts[2 * i + 1] = INT16_MIN;
  }
  store_as_shorts(out, load(words) & 0xffffu);
  const auto first = first_doubles(load(numbers)), second = second_doubles(load(numbers));
  const Bits32 pairs = load(words);
  for (int i = 0; i < kSingles; ++i) {
    CHECK(out[i] == static_cast<std::uint16_t>(words[i] & 0xffff));
    CHECK((i < kWide ? first[i % kWide] : second[i % kWide]) == numbers[i]);
    CHECK(std::bit_cast<std::uint32_t>(first_of_pairs(pairs)[i]) == words[i] << 16);
    CHECK(std::bit_cast<std::uint32_t>(second_of_pairs(pairs)[i]) == (words[i] & 0xffff0000u));
  }
  const auto smaller = smaller_of_signed(load(shorts), Vector<std::int16_t>{});
  for (int i = 0; i < 2 * kSingles; ++i) CHECK(smaller[i] == (shorts[i] < 0 ? shorts[i] : 0));
}

template <class U, int First = 0>
void check_lanes_of_bits(std::uint32_t bits) {
  constexpr U highest = static_cast<U>(U{1} << (8 * sizeof(U) - 1));
  std::vector<U> expected;
  for (int i = 0; i < kLanes<U>; ++i) expected.push_back(bits >> (First + i) & 1 ? highest : U{0});
  const bool same = holds(lanes_of_bits<U, First>(bits), expected);
  CHECK(same);
  if constexpr (First + 2 * kLanes<U> <= 32) check_lanes_of_bits<U, First + kLanes<U>>(bits);
}

// 32 lanes as the bits of a word: signs of any values, zeros of values without a highest bit.
template <class U>
void check_bits() {
  constexpr U highest = static_cast<U>(U{1} << (8 * sizeof(U) - 1)), kinds[] = {0, 1, static_cast<U>(highest - 1)};
  for (std::uint32_t seed = 1; seed < 200; ++seed) {
    const std::uint32_t negative = seed * 2654435761u, zero = (seed * 40503u) ^ (seed << 20);
    Vector<U> signs[kWordVectors<U>], sizes[kWordVectors<U>];
    std::uint32_t expected_zero = 0;
    for (int k = 0; k < kWordVectors<U>; ++k) {
      std::uint32_t own_zero = 0;
      for (int i = 0; i < kLanes<U>; ++i) {
        const int n = k * kLanes<U> + i;
        const U size = zero >> n & 1 ? U{0} : kinds[(seed + static_cast<std::uint32_t>(n)) % 3];
        sizes[k][i] = size;
        signs[k][i] = static_cast<U>(size | (negative >> n & 1 ? highest : U{0}));
        own_zero |= static_cast<std::uint32_t>(size == 0) << i;
      }
      expected_zero |= own_zero << k * kLanes<U>;
      const std::uint32_t own = kLanes<U> == 32 ? ~0u : (1u << kLanes<U> % 32) - 1;
      CHECK(top_bits<U>(signs[k]) == (negative >> k * kLanes<U> & own));
      CHECK(zero_bits<U>(sizes[k]) == own_zero);
    }
    CHECK(word_top_bits<U>(signs) == negative);
    CHECK(word_zero_bits<U>(sizes) == expected_zero);
    check_lanes_of_bits<U>(negative);
  }
}

template <class U>
void check_widen_bytes() {
  const auto bytes = items<std::uint8_t>(kLanes<U>);  // its end is the end of the memory
  CHECK(holds(widen_bytes<U>(bytes.data()), std::vector<U>(bytes.begin(), bytes.end())));
}

void check_with_signs() {
  const float values[] = {1.5f, -2.5f, 0.0f, -0.0f, std::numeric_limits<float>::infinity(), -0x1p-149f, 3.0f};
  for (int first = 0; first < 7; ++first)
    for (int second = 0; second < 7; ++second) {
      std::vector<float> signs, cells;
      std::vector<double> expected;
      for (int i = 0; i < kLanes<double>; ++i) {
        const float s = values[(first + i) % 7], x = values[(second + 3 * i) % 7];
        signs.push_back(s);
        cells.push_back(x);
        expected.push_back(s == 0.0f ? 0.0 : static_cast<double>(std::signbit(s) ? -x : x));
      }
      CHECK(holds(load_with_signs(signs.data(), cells.data()), expected));
    }
}

void check_all() {
  check_half_sums<Float16>();
  check_half_sums<BFloat16>();
  check_integers_as_halves();
  check_across<float>();
  check_across<double>();
  check_across<std::uint8_t>();
  check_across<std::int16_t>();
  check_across<std::uint16_t>();
  check_across<std::int32_t>();
  check_across<std::int64_t>();
  check_type<float>();
  check_type<double>();
  check_type<std::int8_t>();
  check_type<std::uint8_t>();
  check_type<std::int16_t>();
  check_type<std::uint16_t>();
  check_type<std::int32_t>();
  check_type<std::uint32_t>();
  check_type<std::int64_t>();
  check_type<std::uint64_t>();
  check_masks<float>();
  check_masks<double>();
  check_halves_of_floats();
  check_neighbours_of<std::uint8_t>();
  check_neighbours_of<std::uint16_t>();
  check_neighbours_of<std::uint32_t>();
  check_look_up();
  check_stream<16>();
  if constexpr (kVectorBytes >= 32) check_stream<32>();
  check_stream<kVectorBytes>();
  check_doubles();
  check_bits<std::uint16_t>();
  check_bits<std::uint32_t>();
  check_bits<std::uint64_t>();
  check_widen_bytes<std::uint16_t>();
  check_widen_bytes<std::uint32_t>();
  check_widen_bytes<std::uint64_t>();
  check_with_signs();
  check_arithmetic();
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE

#define HALFULP_TEXT_OF(name) #name
#define HALFULP_TEXT(name) HALFULP_TEXT_OF(name)

int main() {
  const std::string_view wanted = std::string_view(HALFULP_TEXT(HALFULP_ISA_NAMESPACE)).substr(4);  // after isa_
  bool runs = wanted == "baseline";
  for (const auto isa : halfulp::available_isas()) runs = runs || halfulp::name_of(isa) == wanted;
  if (runs) halfulp::HALFULP_ISA_NAMESPACE::check_all();
  return halfulp::tests::failures() == 0 ? 0 : 1;
}
