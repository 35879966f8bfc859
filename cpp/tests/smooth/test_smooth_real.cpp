// Exponential and logarithm of smooth max pooling, against values computed with 400 bits.
#include <cmath>
#include <cstdlib>

#define HALFULP_ISA_NAMESPACE test_of_smooth_real
#include "smooth/kernels/quick_pairs.hpp"
#include "smooth/kernels/real.hpp"
#include "check.hpp"

namespace {

using namespace halfulp;
using namespace halfulp::test_of_smooth_real;

struct Case {
  double x, x_low, y, y_low;  // the function at x + x_low is y + y_low, to 2^-106
};

constexpr Case kExponentials[] = {
    {-0x1.3693e78d348b6p-2, -0x1.12d1f86278776p-57, 0x1.7a0cc252d1b4cp-1, 0x1.76060a565a1a2p-57},
    {0x1.dc1327229936ep-1, -0x1.9cbe13f565fc1p-55, 0x1.445cfaf446a35p+1, 0x1.5c046e1ce3e44p-56},
    {0x1.a5f0cc781fa9cp+1, -0x1.637bd41bbd870p-54, 0x1.b03f85efd4d12p+4, 0x1.c0cad41c17228p-51},
    {-0x1.cb0ff7e55ffeap+8, -0x1.0d6a22679192cp-49, 0x1.a3a22fda93754p-663, 0x1.eeb18d7a45c58p-719},
    {-0x1.ae5582cd19ef5p-8, -0x1.1953f897ad8a1p-62, 0x1.fca626c919b4bp-1, -0x1.ca05797f9b215p-55},
    {-0x1.00db3c8831952p-31, -0x1.b7330b7dea080p-86, 0x1.fffffffbfc931p-1, -0x1.0e5fbbdd3c1ffp-56},
    {-0x1.891d8d7dcd3cep-7, 0x1.e20f8e7cc1e3ep-62, 0x1.f9e4eed86caa7p-1, 0x1.994995b4b1de9p-56},
    {-0x1.1f001be845be5p-28, -0x1.a5af960f82bf9p-83, 0x1.ffffffdc1ffc8p-1, 0x1.0e425d0877ec8p-55},
    {-0x1.8f882594197d6p-37, -0x1.52545ea0b7848p-93, 0x1.ffffffffe7078p-1, -0x1.2ca07df9d4e13p-56},
    {0x1.84928f57e450ep+1, -0x1.f4ceb8f58580cp-54, 0x1.4d0e660115588p+4, -0x1.8632249d1b29fp-52},
    {0x1.ae1388d1278b6p+0, 0x1.7e679d8f9511fp-54, 0x1.5764002c71dc2p+2, -0x1.90c26ba4c6cbep-52},
    {-0x1.3bcd4954461e6p-40, 0x1.06d2242f1571dp-95, 0x1.fffffffffd886p-1, 0x1.5b55dd5235bc9p-55},
    {-0x1.88dac82da7690p-5, -0x1.a502173b3bb7dp-65, 0x1.e806a9ba94f12p-1, -0x1.e823680a7e458p-56},
    {0x1.456ceb797edf6p+1, -0x1.13b220873499cp-54, 0x1.96b80c30e514dp+3, 0x1.5cf9edb5f0890p-52},
    {0x1.ef93afd98ef7ep-1, -0x1.825429f3355f1p-56, 0x1.50f4de7b3684bp+1, -0x1.1de9a73b2ea43p-53},
    {-0x1.0f152e66cab87p+9, 0x1.43d3ab4ac79d3p-49, 0x1.c41dfb8df5538p-783, -0x1.f4d3a09e1bd93p-837},
    {-0x1.bb7332e4c24d3p-19, -0x1.0684dcff6633ep-74, 0x1.ffff91233f477p-1, -0x1.d927a5161b2efp-57},
    {-0x1.10fa208085b0ap-34, -0x1.7b804374f6a62p-90, 0x1.ffffffff7782fp-1, -0x1.00c29c2499e03p-59},
    {-0x1.5a737ebea0850p+8, 0x1.9c0a59b097f01p-47, 0x1.2157f7fb34e3bp-500, -0x1.855a9bcc07218p-557},
    {0x1.a8677b634566dp+0, -0x1.e97d01019f088p-56, 0x1.4fddae434e96ep+2, -0x1.0b86d17da0f0ep-52},
    {-0x1.90a3119206bd3p-14, 0x1.e2d4016c9622bp-69, 0x1.fff37b0ea2fdfp-1, 0x1.0648c3c89cafap-56},
    {-0x1.2e9286a3b13dep-36, 0x1.094a0c82f6d73p-90, 0x1.ffffffffda2dbp-1, -0x1.a8e9843ae3a5ep-58},
    {-0x1.1c236661f0d60p-2, -0x1.75b3664f48201p-59, 0x1.83f02872056f2p-1, 0x1.72ccad03a2612p-55},
    {-0x1.f44ebca9819c8p-4, -0x1.b2d91b9041894p-58, 0x1.c5214c85f04e0p-1, -0x1.eefdef8f98944p-55},
};

constexpr Case kLogarithms[] = {
    {0x1.d6090303495a8p-2, -0x1.adca27eb28613p-56, 0x1.82d4991a09486p-2, 0x1.7fc2abbc4f55dp-56},
    {0x1.51c7cce01165bp+5, 0x1.39c7eda4eea72p-49, 0x1.e2182b08bf721p+1, -0x1.a4a7b7cb9a2a3p-55},
    {0x1.7841ec6b36b18p-1, 0x1.5a0ea976cd27cp-55, 0x1.1a146c6999422p-1, -0x1.ec7f985439e04p-55},
    {0x1.f8cd0ac32e560p-139, -0x1.68127f2d8b928p-194, 0x1.f8cd0ac32e560p-139, -0x1.68127f2d8b928p-194},
    {0x1.cc274f5c87695p-52, -0x1.49bc757c24aadp-108, 0x1.cc274f5c87693p-52, 0x1.37564c255bf9ep-106},
    {0x1.54578137c4abcp+8, -0x1.1f6a150307c59p-46, 0x1.754dfa3af87c0p+2, -0x1.c0bda93549ddep-53},
    {0x1.8210936092e97p+6, -0x1.59090fbf3b3ddp-51, 0x1.251f057093ff0p+2, 0x1.8d9d052c33564p-53},
    {0x1.019e7d3450612p-152, 0x1.9748bbc3f0965p-209, 0x1.019e7d3450612p-152, 0x1.9748bbc3f0965p-209},
    {0x1.86fd728a42ca0p-137, -0x1.7fa465e389183p-191, 0x1.86fd728a42ca0p-137, -0x1.7fa465e389183p-191},
    {0x1.3f4daa23d6225p-113, -0x1.585c360bed7e9p-169, 0x1.3f4daa23d6225p-113, -0x1.585c360bed7e9p-169},
    {0x1.fe8f111294d60p-1, 0x1.23dbe3fb6b7d7p-57, 0x1.622b9735f3fafp-1, -0x1.023f6e8566319p-55},
    {0x1.f6a7c24d435ddp-1, -0x1.31ce2c0401daep-57, 0x1.5e32935b2dd09p-1, -0x1.f00b6c1e84701p-56},
    {0x1.c249721d6423ep-179, -0x1.8a434f7f0a8ccp-233, 0x1.c249721d6423ep-179, -0x1.8a434f7f0a8ccp-233},
    {0x1.54aa75e696003p+6, 0x1.e1e96517e5cbcp-50, 0x1.1d33b58392cd1p+2, 0x1.7540bcbcc04f2p-55},
    {0x1.5e0916574f1ccp-84, 0x1.02ea1ceb5ce12p-141, 0x1.5e0916574f1ccp-84, 0x1.02ea1ccd73139p-141},
    {0x1.f51efe513290bp+6, 0x1.f2c0967759cc1p-48, 0x1.35aa0bc0369e0p+2, -0x1.242f6442c7165p-52},
    {0x1.39466ca1ca688p-40, -0x1.0381fef9b4f9dp-95, 0x1.39466ca1c9a8dp-40, -0x1.570b32353071cp-97},
    {0x1.4da01c7f35c75p-1, -0x1.90006c1b9d43fp-56, 0x1.00e59f9c25d40p-1, 0x1.53456f54b35dap-60},
    {0x1.5ab2b36ebeda5p-154, -0x1.efcac9e24919fp-211, 0x1.5ab2b36ebeda5p-154, -0x1.efcac9e24919fp-211},
    {0x1.0ad5fc2eb7cd0p-158, -0x1.e26bd88f98360p-216, 0x1.0ad5fc2eb7cd0p-158, -0x1.e26bd88f98360p-216},
    {0x1.bcc2cadc0fb33p+8, 0x1.2679401f6b84cp-46, 0x1.8662d717a2482p+2, -0x1.9241ca57e2592p-53},
    {0x1.806e26081a3ccp-3, -0x1.6421b15980452p-57, 0x1.604fc6a6c7c8ep-3, 0x1.bc19f66c79015p-58},
    {0x1.f069b58692c6cp-3, -0x1.21d712772069ap-57, 0x1.bc7d7edf5840fp-3, 0x1.7b5448b52d7e9p-62},
    {0x1.10740fb74d076p-120, -0x1.03b7694e0b847p-175, 0x1.10740fb74d076p-120, -0x1.03b7694e0b847p-175},
};

// The relative distance of a pair from the reference; the difference of the high parts is exact.
double distance(Pair found, const Case& c) {
  return std::fabs(((found.high - c.y) + (found.low - c.y_low)) / c.y);
}

void both_kinds_stay_within_their_units() {
  for (const Case& c : kExponentials) {
    CHECK(distance(exponential(Pair{c.x, c.x_low}), c) <= 8 * RealTraits<Pair>::unit);
    const double slope = std::fabs(c.x_low);  // the low part is not given to the double version
    CHECK(distance(Pair{exponential(c.x), 0.0}, c) <= 8 * RealTraits<double>::unit + slope);
  }
  for (const Case& c : kLogarithms) {
    CHECK(distance(log_one_plus(Pair{c.x, c.x_low}), c) <= 16 * RealTraits<Pair>::unit);
    CHECK(distance(Pair{log_one_plus(c.x), 0.0}, c) <= 16 * RealTraits<double>::unit + 0x1p-53);
  }
  // log(1 + r) of a reference is log of its 1 + r: exactly that where r is so small that a pair holds the sum.
  for (const Case& c : kLogarithms) {
    const Pair whole = Pair{1.0, 0.0} + Pair{c.x, c.x_low};
    CHECK(std::fabs(logarithm(whole.high) - c.y) <= (6 + 5 * std::fabs(c.y)) * RealTraits<double>::unit);
  }
  for (const Case& c : kExponentials) {
    CHECK(std::fabs(logarithm(c.y) - c.x) <= (6 + 5 * std::fabs(c.x)) * RealTraits<double>::unit);
  }
  CHECK(logarithm(1.0) == 0.0);
  CHECK(exponential(0.0) == 1.0 && exponential(Pair{0.0, 0.0}).high == 1.0);
  CHECK(log_one_plus(0.0) == 0.0 && log_one_plus(Pair{0.0, 0.0}).high == 0.0);
}

// exp(a) * exp(-a) = 1 and log(1 + (exp(a) - 1)) = a over many arguments.
void functions_invert_each_other() {
  for (int i = 1; i < 4000; ++i) {
    const double a = i * 0.00149;
    const Pair product = exponential(Pair{a, 0.0}) * exponential(Pair{-a, 0.0}) + Pair{-1.0, 0.0};
    CHECK(std::fabs(product.high) <= 16 * RealTraits<Pair>::unit);
    const Pair back = log_one_plus(exponential(Pair{a, 0.0}) + Pair{-1.0, 0.0}) + Pair{-a, 0.0};
    CHECK(std::fabs(back.high) <= 32 * RealTraits<Pair>::unit * (1.0 + a));
    CHECK(std::fabs(exponential(-a) - exponential(Pair{-a, 0.0}).high) <= 9 * RealTraits<double>::unit);
  }
}

Pair log_of_two() { return Pair{kLn2First, 0.0} + Pair{kLn2Second, 0.0} + Pair{kLn2Third, 0.0}; }

// The exponentials that the windows of a block share, relative to one near the largest; off by less than 2^-70.
void quick_exponentials_have_70_bits() {
  const auto close = [](double high, double low, Pair exact) {
    return std::fabs((high - exact.high) + (low - exact.low)) <= 0x1p-70 * exact.high;
  };
  constexpr int n = 4001;
  static double u[n], high[n], low[n];
  for (const double slope : {1.0, 0.0078125, -3.0, 1e-30, 7.3e200}) {
    const SmoothBeta beta{std::fabs(slope), slope < 0.0 ? 0x1p-55 : 0.0, false};
    for (const double top : {0.0, 1.0, -0.3, 1234.5, -1290.0, 1310.0, -3e5, 1e18}) {
      const double highest = top / beta.high;
      const Reference reference = reference_of(beta, highest);
      CHECK(std::fmod(reference.shift, 256.0) == 0.0);
      CHECK(reference.base == 0.0 || reference.shift == 0.0);
      for (int i = 0; i < n; ++i) u[i] = high[i] = highest - i * i * 3.7e-5 / beta.high;  // down to e^-592
      quick_exponentials(beta, highest, {high, low}, n);
      for (int i = 0; i < n; i += 1 + i / 100) {
        const Pair below = Pair{u[i], 0.0} - Pair{reference.base, 0.0};
        const Pair d = Pair{beta.high, beta.low} * below - Pair{reference.shift / 256.0, 0.0} * log_of_two();
        if (u[i] - highest < -600.0 / beta.high) continue;  // neighbours of large numbers are far apart
        CHECK(close(high[i], low[i], exponential(d)));
        CHECK(std::fabs(low[i]) <= 0x1p-20 * high[i]);
      }
    }
  }
  // What is lower than e^-600 of the largest counts as that, -inf too; NaN and what is above all stays unknown.
  double cells[5] = {0.0, -600.5, -INFINITY, NAN, INFINITY}, parts[5];
  quick_exponentials({1.0, 0.0, false}, 0.0, {cells, parts}, 5);
  CHECK(cells[0] == 1.0 && parts[0] == 0.0);
  CHECK(cells[1] == cells[2] && cells[1] > 0x1p-866 && cells[1] < 0x1p-865);
  CHECK(std::isnan(cells[3]) && std::isnan(cells[4]));
  for (const double top : {1e19, -1e25, 1.7e308, -1.7e308}) {  // neighbours are further apart than that
    double steep[3] = {top, std::nextafter(top, -INFINITY), -INFINITY};
    quick_exponentials({1.0, 0.0, false}, top, {steep, parts}, 3);
    CHECK(steep[0] == 1.0 && steep[1] == steep[2] && steep[2] < 0x1p-865);
  }
}

// Of sums whose parts are not normalised: off by less than 2^-69.
void quick_logarithms_have_69_bits() {
  const auto logarithm_of = [](double high, double low, double shift) {
    const DoublePairs l = quick_logarithm({splat(high), splat(low)}, shift);
    return Pair{l.high[0], l.low[0]};
  };
  for (int i = -4000; i < 4000; ++i) {
    const double y = 4.7e-9 * i * i * i, shift = 256.0 * (i % 1000);  // y from -300 to 300
    const Pair s = exponential(Pair{y, 0.0});
    const double high = s.high * (1.0 - 0x1p-21), low = (s.high - high) + s.low;
    CHECK(std::fabs((logarithm_of(s.high, s.low, 0.0) - Pair{y, 0.0}).high) <= 0x1p-69);
    CHECK(std::fabs((logarithm_of(high, low, 0.0) - Pair{y, 0.0}).high) <= 0x1p-69);
    const Pair shifted = Pair{y, 0.0} + Pair{shift / 256.0, 0.0} * log_of_two();
    CHECK(std::fabs((logarithm_of(s.high, s.low, shift) - shifted).high) <= 0x1p-69);
  }
  const Pair one = logarithm_of(1.0, 0.0, 0.0);
  CHECK(one.high == 0.0 && one.low == 0.0);
}

}  // namespace

int main() {
  both_kinds_stay_within_their_units();
  functions_invert_each_other();
  quick_exponentials_have_70_bits();
  quick_logarithms_have_69_bits();
  return halfulp::tests::failures() == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
