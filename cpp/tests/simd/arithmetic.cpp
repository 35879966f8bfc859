// The primitives of src/simd/ that compute or move numbers: roots, products, pairs of doubles, rounding at both ends.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "exact/exact_sum.hpp"
#include "simd/ends.hpp"
#include "simd/inexact.hpp"
#include "simd/inverse_root.hpp"
#include "simd/masks.hpp"
#include "simd/pair.hpp"
#include "simd/spread.hpp"
#include "simd/transpose_block.hpp"
#include "simd/turned.hpp"
#include "check.hpp"
#include "simd/lanes.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

constexpr unsigned kSeed = 5;

// A double with 53 random bits and an exponent within `reach` of 0.
double drawn(std::mt19937_64& random, int reach) {
  const double m = 1 + static_cast<double>(random() >> 12) * 0x1p-52;
  const int exponent = static_cast<int>(random() % static_cast<unsigned>(2 * reach + 1)) - reach;
  return std::ldexp((random() & 1) != 0 ? -m : m, exponent);
}
Doubles drawn_lanes(std::mt19937_64& random, int reach) {
  Doubles v{};
  for (int i = 0; i < kWide; ++i) v[i] = drawn(random, reach);
  return v;
}

template <class U>
void check_larger_and_smaller() {
  constexpr int n = kLanes<U>;
  auto first = items<U>(n), second = items<U>(n);
  std::reverse(second.begin(), second.end());
  first[0] = std::numeric_limits<U>::max();
  const auto a = load(first.data()), b = load(second.data());
  const auto at = [](const std::vector<U>& v, int i) { return v[static_cast<std::size_t>(i)]; };
  const auto larger = lanes<U, kVectorBytes>([&](int i) { return std::max(at(first, i), at(second, i)); });
  const auto smaller = lanes<U, kVectorBytes>([&](int i) { return std::min(at(first, i), at(second, i)); });
  CHECK(holds(larger_of<U>(a, b), larger));
  CHECK(holds(smaller_of<U>(a, b), smaller));
}

template <class T>
void check_moves() {
  constexpr int n = kLanes<T>;
  const auto row = items<T>(3 * n);
  const auto a = load(row.data()), b = load(row.data() + n), c = load(row.data() + 2 * n);
  const auto ordered = in_order(a);
  CHECK(holds(turned_in_order(a), lanes<T, kVectorBytes>([&](int i) { return ordered[(i + n - 1) % n]; })));
  CHECK(holds(with_first_of(a, b), lanes<T, kVectorBytes>([&](int i) { return i == 0 ? b[0] : a[i]; })));
  const auto zipped = [&](int i) { return i % 3 == 0 ? a[i / 3] : i % 3 == 1 ? b[i / 3] : c[i / 3]; };
  const auto all = lane_sequence<Vector<T>>{};
  CHECK(holds(zip_three<T, 0>(a, b, c, all), lanes<T, kVectorBytes>([&](int i) { return zipped(i); })));
  CHECK(holds(zip_three<T, 1>(a, b, c, all), lanes<T, kVectorBytes>([&](int i) { return zipped(n + i); })));
  CHECK(holds(zip_three<T, 2>(a, b, c, all), lanes<T, kVectorBytes>([&](int i) { return zipped(2 * n + i); })));
}

void check_narrow_to_bytes() {
  const auto words = lanes<std::uint32_t, kVectorBytes>([](int i) { return 250 - i; });
  const auto narrowed = narrow_to_bytes(load(words.data()));
  for (int i = 0; i < kLanes<std::uint32_t>; ++i) CHECK(narrowed[i] == 250 - i);
}

void check_spread() {
  const auto row = items<float>(static_cast<int>(kSpread));
  std::vector<float> out(2 * kSpread - 1, -1.0f);  // its end is the end of the memory
  store_every_second(out.data(), row.data());
  for (std::size_t i = 0; i < out.size(); ++i) CHECK(out[i] == (i % 2 == 0 ? row[i / 2] : -1.0f));
}

template <class S, class F>
void check_transposed(Index n, F&& transpose) {
  const auto in = items<S>(static_cast<int>(n * (n + 3)));
  std::vector<S> out(static_cast<std::size_t>(n * (n + 1)), S(-1));
  transpose(in.data(), n + 3, out.data(), n + 1);
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < n; ++j)
      CHECK(out[static_cast<std::size_t>(j * (n + 1) + i)] == in[static_cast<std::size_t>(i * (n + 3) + j)]);
}

template <class S>
void check_transpose() {
  check_transposed<S>(kTransposeBlock<S>, transpose_block<S>);
  if constexpr (kTransposeLine<S> != 0)
    check_transposed<S>(kTransposeLine<S>, [](const S* in, Index in_stride, S* out, Index out_stride) {
      transpose_lines(in, in_stride, out, out_stride);
    });
}

void check_roots() {
  const double hard[] = {0.0, -0.0, 2.0, 0x1p-1074, 0x1.fffffffffffffp1023, kInfinity, kNan, 3.0};
  for (int first = 0; first < 8; ++first) {
    tests::describe("roots from", hard[first]);
    Doubles v{};
    for (int i = 0; i < kWide; ++i) v[i] = hard[(first + i) % 8];
    const Doubles root = square_root(v);
    for (int i = 0; i < kWide; ++i) {
      const double expected = std::sqrt(v[i]);
      CHECK(std::isnan(expected) ? std::isnan(root[i])
                                 : std::bit_cast<std::uint64_t>(root[i]) == std::bit_cast<std::uint64_t>(expected));
    }
  }
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 2000; ++round) {
    const Doubles s = magnitude(drawn_lanes(random, 125));
    const Doubles inverse = inverse_root(s);
    for (int i = 0; i < kWide; ++i) {
      tests::describe("seed", kSeed, "s", s[i]);
      // One step of Newton from a result that is right to 50 bits: its own error is of the size of 2^-100.
      const PairOf<double> y{inverse[i], 0.0};
      const PairOf<double> h = PairOf<double>{1.0, 0.0} - y * y * PairOf<double>{s[i], 0.0};
      CHECK(std::fabs(h.high) / 2 < 3 * 0x1p-53);
    }
  }
}

// a * b + c rounded once, whatever the C library's fma is worth.
double fused(double a, double b, double c) {
  ExactSums<double>::products sum;
  sum.add_product(a, b);
  sum.add_product(c, 1.0);
  return sum.round<double>();
}

void check_products() {
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 2000; ++round) {
    tests::describe("seed", kSeed, "round", round);
    const Doubles a = drawn_lanes(random, 60), b = drawn_lanes(random, 60), c = drawn_lanes(random, 60);
    const Doubles product = a * b, error = product_error(a, b, product), sum = multiply_add(a, b, c);
    const auto exact = product_of(a, b);
    for (int i = 0; i < kWide; ++i) {
      CHECK(error[i] == fused(a[i], b[i], -product[i]));
      CHECK(exact.high[i] == product[i] && exact.low[i] == error[i]);
      const Pair one = product_of(a[i], b[i]);
      CHECK(one.high == product[i] && one.low == error[i]);
      CHECK(sum[i] == (kFused ? fused(a[i], b[i], c[i]) : a[i] * b[i] + c[i]));
    }
  }
  Doubles x = splat(-3.0);
  x[0] = kNan;
  const Doubles most = larger_magnitude(x, splat(2.0));
  for (int i = 0; i < kWide; ++i) CHECK(most[i] == (i == 0 ? 2.0 : 3.0));
}

void check_pairs() {
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 2000; ++round) {
    tests::describe("seed", kSeed, "round", round);
    const double a = drawn(random, 40), b = drawn(random, 40);
    const Pair sum = sum_of(a, b), ordered = std::fabs(a) >= std::fabs(b) ? fast_sum_of(a, b) : fast_sum_of(b, a);
    CHECK(sum.high == a + b && ordered.high == sum.high && ordered.low == sum.low);
    const Pair x{a, a * 0x1.3p-54}, y{b, b * -0x1.5p-55};
    const Pair there_and_back = x / y * y;
    CHECK(std::fabs(((there_and_back - x).high) / a) < 0x1p-97);
    const Pair zero = (x + y) - y - x;
    CHECK(std::fabs(zero.high) <= 0x1p-98 * (std::fabs(a) + std::fabs(b)));
    // exp(x) exp(-x) = 1, each off by 2^-89 of itself
    const double small = std::fmod(a, 600.0);
    const Pair e = exponential(Pair{small, small * 0x1.7p-54}), inverse = exponential(-Pair{small, small * 0x1.7p-54});
    CHECK(std::fabs((e * inverse - Pair{1.0, 0.0}).high) < 0x1p-86);
    CHECK(std::fabs(e.high / std::exp(small) - 1) < 0x1p-50 + 0x1p-52 * std::fabs(small));
    const auto lanes_of = exponential(PairOf<Doubles>{splat(small), splat(small * 0x1.7p-54)});
    for (int i = 0; i < kWide; ++i)
      CHECK(std::fabs((Pair{lanes_of.high[i], lanes_of.low[i]} - e).high) <= 0x1p-87 * e.high);
  }
  for (const double k : {-1022.0, -1.0, 0.0, 1.0, 1023.0}) {
    CHECK(power_of_two(k) == std::ldexp(1.0, static_cast<int>(k)));
    CHECK(holds(power_of_two(splat(k)), std::vector<double>(kWide, std::ldexp(1.0, static_cast<int>(k)))));
  }
}

void check_inexact() {
  const InexactFlag flag;
  volatile double one = 1.0, three = 3.0, result;
  flag.lower();
  result = one + three;
  CHECK(!flag.raised());
  result = one / three;
  CHECK(flag.raised());
  flag.lower();
  const Doubles exact = splat(double(three)) * splat(0.25);
  perform(exact);
  CHECK(!flag.raised());
  const Doubles rounded = splat(double(one)) / splat(double(three));
  perform(rounded);
  CHECK(flag.raised());
  static_cast<void>(result);
}

void check_lanes() {
  std::mt19937_64 random(kSeed);
  const Doubles v = drawn_lanes(random, 3);
  double largest = v[0], total = 0;
  Doubles whole{};
  for (int i = 0; i < kWide; ++i) {
    largest = std::max(largest, static_cast<double>(v[i]));
    whole[i] = i * i - 3;
    total += whole[i];
  }
  CHECK(largest_lane(v) == largest);
  CHECK(sum_of_lanes(whole) == total);
  for (int lane = 0; lane < kLanes<std::uint32_t>; ++lane) {
    Vector<std::uint32_t> bits{};
    CHECK(!any_bit(bits));
    bits[lane] = 0x10;
    CHECK(any_bit(bits));
  }
  const auto all = items<double>(2 * static_cast<int>(kWide));
  const auto words = low_words(load(all.data()), load(all.data() + kWide));
  std::vector<std::uint32_t> found, expected;
  for (int i = 0; i < 2 * kWide; ++i) {
    found.push_back(words[i]);
    expected.push_back(static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(all[static_cast<std::size_t>(i)])));
  }
  std::sort(found.begin(), found.end());
  std::sort(expected.begin(), expected.end());
  CHECK(found == expected);
  for (int count = 1; count <= kWide; ++count) {
    const auto some = items<float>(count);  // its end is the end of the memory
    const Doubles loaded = load_first_doubles(some.data(), count, 9.0);
    std::vector<float> out(static_cast<std::size_t>(count), 0.0f);
    store_first_rounded(out.data(), loaded, count);
    for (int i = 0; i < kWide; ++i) CHECK(loaded[i] == (i < count ? double(some[static_cast<std::size_t>(i)]) : 9.0));
    CHECK(out == some);
  }
  CHECK(enough(0.0) == 0.0 && enough(0x1p-1000) == 0x1p-150 && enough(0.5) == 0.5);
}

// Whether ends are found to differ: always where their roundings do, never far from a rounding boundary.
template <class T>
void check_ends() {
  using F = format_of<T>;
  std::mt19937_64 random(kSeed);
  int certain = 0;
  for (int round = 0; round < 2000; ++round) {
    tests::describe("seed", kSeed, "round", round, "item size", sizeof(T));
    const Doubles y = drawn_lanes(random, 10);
    const Doubles error = splat(std::ldexp(1.0, -12 - static_cast<int>(random() % 40)));
    Ends<T> ends;
    T out[kWide];
    if constexpr (std::is_same_v<T, float>) ends.put_within(out, y, error);
    else ends.put(out, y - error, y + error);
    bool same = true;
    for (int i = 0; i < kWide; ++i) same = same && round_bits<F>(y[i] - error[i]) == round_bits<F>(y[i] + error[i]);
    if (!ends.differ()) {
      ++certain;
      CHECK(same);
      for (int i = 0; i < kWide; ++i)
        CHECK(std::bit_cast<decltype(round_bits<F>(1.0))>(out[i]) == round_bits<F>(y[i]));
    }
    ends.require_finite(splat(kInfinity));
    CHECK(ends.differ());
  }
  CHECK(certain > 20);
  Ends<T> exact;
  T out[kWide];
  exact.put(out, splat(1.5), splat(1.5));
  CHECK(!exact.differ());
}

void check_middles() {
  constexpr std::uint32_t margin = 64;
  const double middle = 1 + 0x1p-24, clear = 1 + 0x1p-25;  // between two floats; half way to there
  for (const double inside : {middle, middle + 50 * 0x1p-52, middle - 50 * 0x1p-52}) {
    Middles middles(margin);
    float out[2 * kWide];
    Doubles a = splat(clear);
    middles.put(out, a, a);
    CHECK(!middles.unsure(margin));
    a[kWide - 1] = inside;
    middles.put(out, splat(clear), a);
    CHECK(middles.unsure(margin));
    CHECK(out[0] == 1.0f);
  }
}

}  // namespace

void check_arithmetic() {
  check_larger_and_smaller<std::uint32_t>();
  check_larger_and_smaller<std::uint64_t>();
  check_moves<float>();
  check_moves<double>();
  check_narrow_to_bytes();
  check_spread();
  check_transpose<float>();
  check_transpose<double>();
  check_roots();
  check_products();
  check_pairs();
  check_inexact();
  check_lanes();
  check_ends<float>();
  check_ends<Float16>();
  check_ends<BFloat16>();
  check_middles();
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
