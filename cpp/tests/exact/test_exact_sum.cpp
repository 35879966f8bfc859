// The exact accumulator and the rounding functions, against brute force with wide integers.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <vector>

#include "check.hpp"
#include "exact/exact_sum.hpp"
#include "exact/round.hpp"

namespace {

using namespace halfulp;

constexpr unsigned kSeed = 20240229;
std::mt19937_64 generator(kSeed);
std::int64_t integer(std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(generator);
}

// The reference: every number of a format is a multiple of 2^tiny, so numbers near a value can be listed and compared.
// Returns the bits of the format's number nearest to numerator / (denominator * 2^scale), by bisection over all bit
// patterns with exact integer comparison.
template <class F>
typename F::bits_type nearest_by_bisection(std::int64_t numerator, std::int64_t denominator, int scale) {
  using Bits = typename F::bits_type;
  const bool negative = numerator < 0;
  const auto top = static_cast<long double>(negative ? -numerator : numerator);
  // value(pattern) * denominator * 2^scale as a long double is exact for the small formats tested here.
  const auto scaled = [&](std::uint64_t pattern) {
    const std::uint64_t field = pattern >> (F::precision - 1);
    const std::uint64_t fraction = pattern & ((std::uint64_t{1} << (F::precision - 1)) - 1);
    const std::uint64_t significand = field == 0 ? fraction : fraction | (std::uint64_t{1} << (F::precision - 1));
    const int exponent = (field == 0 ? 1 : static_cast<int>(field)) - 1 + F::tiny_exponent;
    return std::ldexp(static_cast<long double>(significand) * static_cast<long double>(denominator), exponent + scale);
  };
  std::uint64_t low = 0;
  std::uint64_t high = F::infinity;  // as if it were the next number, 2^(max_exponent + 1)
  while (high - low > 1) {
    const std::uint64_t middle = (low + high) / 2;
    (scaled(middle) <= top ? low : high) = middle;
  }
  const long double below = top - scaled(low);
  const long double above = scaled(high) - top;
  const std::uint64_t pattern = below < above || (below == above && low % 2 == 0) ? low : high;
  return static_cast<Bits>(pattern | (negative ? F::sign : Bits{0}));
}

template <class T, class Sum>
void quotients_match_bisection(int scale_low, int scale_high) {
  using F = format_of<T>;
  for (int round = 0; round < 20000; ++round) {
    if (round % 100 == 0) tests::describe("generator", kSeed, "round", round, "or one of the next", 99);
    const int scale = static_cast<int>(integer(scale_low, scale_high));
    const std::int64_t divisor = integer(1, 40);
    const int terms = static_cast<int>(integer(1, 9));
    Sum sum;
    std::int64_t numerator = 0;
    for (int i = 0; i < terms; ++i) {
      const std::int64_t value = integer(-(1 << 20), 1 << 20) >> integer(0, 20);
      const std::int64_t times = integer(1, 5);
      sum.add(std::ldexp(static_cast<double>(value), -scale), times);
      numerator += value * times;
    }
    const auto bits = std::bit_cast<typename F::bits_type>(sum.template round_quotient<T>(divisor));
    if (numerator != 0) CHECK(bits == nearest_by_bisection<F>(numerator, divisor, scale));
    if (numerator == 0) CHECK((bits & ~F::sign) == 0);
  }
}

template <class T>
void conversion_matches_assemble() {
  using F = format_of<T>;
  const auto compare = [](double value) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    const int field = static_cast<int>((bits >> 52) & 0x7ff);
    const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1);
    if (field == 0x7ff) return;
    const std::uint64_t significand = field == 0 ? fraction : fraction | (std::uint64_t{1} << 52);
    const auto expected = assemble<F>((bits >> 63) != 0, significand, (field == 0 ? 1 : field) - 1075, false);
    if (round_bits<F>(value) != expected) tests::describe("value", value);  // only then: it takes longer than the test
    CHECK(round_bits<F>(value) == expected);
  };
  for (int i = 0; i < 200000; ++i) compare(std::bit_cast<double>(generator()));
  // Around every boundary: a pattern with few significant bits, and its neighbours.
  for (int exponent = F::tiny_exponent - 3; exponent <= F::max_exponent + 2; ++exponent) {
    for (int i = 0; i < 40; ++i) {
      const double exact =
          std::ldexp(static_cast<double>(integer(std::int64_t{1} << F::precision, std::int64_t{4} << F::precision) | 1),
                     exponent - F::precision - 1);
      for (const double value : {exact, std::nextafter(exact, 0.0), std::nextafter(exact, INFINITY)}) {
        compare(value);
        compare(-value);
      }
    }
  }
  CHECK(round_bits<F>(0.0) == 0);
  CHECK(round_bits<F>(-0.0) == F::sign);
  CHECK(round_bits<F>(-INFINITY) == (F::infinity | F::sign));
  CHECK((round_bits<F>(NAN) & ~F::sign) > F::infinity);
}

// Sums whose partial results leave every smaller range: the terms cancel in pairs, one is left over.
template <class T, class Sum>
void cancellation_leaves_the_rest(int low, int high) {
  for (int round = 0; round < 2000; ++round) {
    tests::describe("generator", kSeed, "round", round);
    std::vector<double> terms;
    for (int i = 0; i < 8; ++i) {
      const double x =
          std::ldexp(static_cast<double>(integer(-(1 << 24) + 1, (1 << 24) - 1)), static_cast<int>(integer(low, high)));
      terms.push_back(x);
      terms.push_back(-x);
    }
    const double rest =
        std::ldexp(static_cast<double>(integer(1, (1 << 24) - 1)), static_cast<int>(integer(low, high)));
    terms.push_back(round % 2 == 0 ? rest : -rest);
    std::shuffle(terms.begin(), terms.end(), generator);
    Sum sum;
    for (const double x : terms) sum.add(x);
    CHECK(sum.template round<T>() == static_cast<T>(round % 2 == 0 ? rest : -rest));
    Sum twice = sum;
    twice.add(sum);
    CHECK(twice.template round_quotient<T>(-2) == static_cast<T>(round % 2 == 0 ? -rest : rest));
  }
}

// A product is the sum of its expansion: fma gives the rounding error of a product exactly.
void products_match_fma() {
  for (int round = 0; round < 20000; ++round) {
    if (round % 100 == 0) tests::describe("generator", kSeed, "round", round, "or one of the next", 99);
    const double x = std::ldexp(static_cast<double>(static_cast<std::int64_t>(generator()) >> 11),
                                static_cast<int>(integer(-300, 300)));
    const double y = std::ldexp(static_cast<double>(static_cast<std::int64_t>(generator()) >> 11),
                                static_cast<int>(integer(-300, 300)));
    ExactSums<double>::products sum;
    sum.add_product(x, y);
    CHECK(sum.round<double>() == x * y);
    sum.add(-(x * y));
    CHECK(sum.round<double>() == std::fma(x, y, -(x * y)));
  }
  ExactSums<double>::products tiny;
  const double smallest = std::numeric_limits<double>::denorm_min();
  tiny.add_product(smallest, smallest);
  CHECK(tiny.round<double>() == 0 && !std::signbit(tiny.round<double>()));
  tiny.add(smallest / 1);
  tiny.add(smallest, 1);
  tiny.add_product(smallest, 0.5);  // 2.5 + a little: no tie
  CHECK(tiny.round<double>() == 3 * smallest);
  ExactSums<double>::products huge;
  const double largest = std::numeric_limits<double>::max();
  for (int i = 0; i < 100; ++i) huge.add_product(largest, largest);
  for (int i = 0; i < 100; ++i) huge.add_product(largest, -largest);
  huge.add(-3.5);
  CHECK(huge.round<double>() == -3.5);
  CHECK(huge.round_quotient<float>(-7) == 0.5f);
  ExactSums<float>::products small;
  small.add_product(std::numeric_limits<float>::denorm_min(), -std::numeric_limits<float>::denorm_min());
  CHECK(small.round<float>() == 0 && std::signbit(small.round<float>()));
}

template <class Sum>
double summed(std::initializer_list<double> terms, std::int64_t divisor = 1) {
  Sum sum;
  for (const double x : terms) sum.add(x);
  return sum.template round_quotient<double>(divisor);
}

void special_terms_follow_the_rules() {
  using Sum = ExactSums<double>::terms;
  const double infinity = INFINITY;
  CHECK(std::isnan(summed<Sum>({1.0, NAN, infinity})));
  CHECK(std::isnan(summed<Sum>({infinity, 3.0, -infinity})));
  CHECK(summed<Sum>({infinity, -1e308, -1e308}) == infinity);
  CHECK(summed<Sum>({infinity}, -3) == -infinity);
  CHECK(std::signbit(summed<Sum>({-0.0, -0.0})));
  CHECK(!std::signbit(summed<Sum>({-0.0, 0.0})));
  CHECK(!std::signbit(summed<Sum>({-1.0, 1.0, -0.0})));
  CHECK(!std::signbit(summed<Sum>({})));
  CHECK(std::signbit(summed<Sum>({0.0}, -5)));
  CHECK(!std::signbit(summed<Sum>({-0.0}, -5)));
  CHECK(summed<Sum>({1e308, 1e308}) == infinity);
  CHECK(summed<Sum>({1e308, 1e308, -1e308}) == 1e308);
  CHECK(std::signbit(summed<Sum>({-std::numeric_limits<double>::denorm_min()}, 1000)));
  CHECK(summed<Sum>({std::numeric_limits<double>::denorm_min()}, 2) == 0.0);
  CHECK(summed<Sum>({3 * std::numeric_limits<double>::denorm_min()}, 2) ==
        2 * std::numeric_limits<double>::denorm_min());
  CHECK(summed<Sum>({9007199254740993.0}, std::int64_t{1} << 62) == std::ldexp(9007199254740992.0, -62));
  Sum product;
  product.add_product(0.0, -infinity);
  CHECK(std::isnan(product.round<double>()));
  Sum signs;
  signs.add_product(0.0, -1.0);
  CHECK(std::signbit(signs.round<double>()));
  Sum divided;
  divided.add(1.0, 0x7fffffffffffffff);
  CHECK(divided.round_quotient<double>(0x7fffffffffffffff) == 1.0);
}

void intervals_are_decided_only_when_both_ends_agree() {
  CHECK(same_rounding<float>(1.0, 1.0 + 1e-9));
  CHECK(!same_rounding<float>(1.0 + std::ldexp(1.0, -24) - 1e-12, 1.0 + std::ldexp(1.0, -24) + 1e-12));
  CHECK(!same_rounding<float>(-1e-60, 1e-60));
  CHECK(!same_rounding<float>(NAN, NAN));
  CHECK(same_rounding<Float16>(65520.0, 1e6));  // both round to infinity
  CHECK(!same_rounding<Float16>(65519.0, 65521.0));
  CHECK(same_rounding<double>(1.0, 1.0) && !same_rounding<double>(1.0, std::nextafter(1.0, 2.0)));
  CHECK(same_rounding(1.0, 1e-17, 1e-18));
  CHECK(!same_rounding(1.0, std::ldexp(1.0, -53), 1e-30));
  const TwoDoubles sum = two_sum(1e-30, 1e30);
  CHECK(sum.high == 1e30 && sum.low == 1e-30);
}

}  // namespace

int main() {
  quotients_match_bisection<Float16, ExactSums<float>::terms>(-3, 30);
  quotients_match_bisection<BFloat16, ExactSums<float>::terms>(-110, 140);
  quotients_match_bisection<float, ExactSums<float>::terms>(-110, 149);
  quotients_match_bisection<float, ExactSums<double>::products>(-110, 190);
  conversion_matches_assemble<Float16>();
  conversion_matches_assemble<BFloat16>();
  conversion_matches_assemble<float>();
  conversion_matches_assemble<double>();
  cancellation_leaves_the_rest<float, ExactSums<float>::terms>(-149, 103);
  cancellation_leaves_the_rest<double, ExactSums<double>::terms>(-1074, 999);
  products_match_fma();
  special_terms_follow_the_rules();
  intervals_are_decided_only_when_both_ends_agree();
  return tests::failures() == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
