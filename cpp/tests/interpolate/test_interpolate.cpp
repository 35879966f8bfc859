// Sums with drawn rational weights along three axes against the exact accumulator.
#include "halfulp/interpolate.hpp"

#include <algorithm>
#include <numeric>

#include "drawn.hpp"
#include "halfulp/engines.hpp"

using namespace halfulp;
using namespace halfulp::tests;

namespace {

// The taps of an axis, with the tables that the core reads.
struct Taps {
  Index size, outputs, most, divisor;
  bool negative = false;
  double reach = 0;
  std::vector<std::int64_t> counts, cells, numerators;
  std::vector<double> high, low;

  Taps(Random& random, Index most_outputs, bool dyadic)
      : size(random.between(1, most_outputs)), outputs(random.between(1, most_outputs)), most(random.between(1, 4)),
        divisor(dyadic ? Index{1} << random.below(9) : random.between(1, 1000)) {
    const auto places = static_cast<std::size_t>(most * outputs);
    cells.assign(places, 0), numerators.assign(places, 0);
    high.assign(places, 0.0), low.assign(places, 0.0);
    const bool signs = random.one_in(3);
    for (Index o = 0; o < outputs; ++o) {
      counts.push_back(random.one_in(12) ? 0 : random.between(1, most));
      double sum = 0;
      for (Index k = 0; k < counts.back(); ++k) {
        const auto at = static_cast<std::size_t>(k * outputs + o);
        const Index top = random.between(1, 2 * divisor) * (signs && random.one_in(3) ? -1 : 1);
        const auto n = static_cast<double>(top), d = static_cast<double>(divisor);
        cells[at] = random.below(size);
        numerators[at] = top;
        high[at] = n / d;
        low[at] = std::fma(-high[at], d, n) / d;
        negative = negative || top < 0;
        sum += std::fabs(high[at]);
      }
      reach = std::max(reach, sum);
    }
  }
  TapAxis axis() const {
    return {size, outputs, most, counts.data(), cells.data(), high.data(), low.data(), numerators.data()};
  }
};

template <class T>
void check_case(std::uint64_t seed) {
  Random random(seed);
  const bool dyadic = random.one_in(2);
  const Taps a(random, 3, dyadic), b(random, 6, dyadic), c(random, 50, dyadic);
  const auto kind = static_cast<Numbers>(random.below(kNumbers));
  const Index planes = random.between(1, 8), cells = a.size * b.size * c.size;
  const Index outputs = a.outputs * b.outputs * c.outputs;
  describe("seed", seed, "dtype", name_of(dtype_of<T>), "isa", name_of(current_isa()), "threads", num_threads(),
           "numbers", static_cast<int>(kind), "planes", planes, "size",
           tuple_text(std::vector{a.size, b.size, c.size}), "outputs",
           tuple_text(std::vector{a.outputs, b.outputs, c.outputs}), "divisors",
           tuple_text(std::vector{a.divisor, b.divisor, c.divisor}), "negative",
           a.negative || b.negative || c.negative);
  std::vector<T> x(static_cast<std::size_t>(planes * cells)), out(static_cast<std::size_t>(planes * outputs));
  for (T& item : x) item = drawn<T>(random, kind);
  TapProblem p;
  p.dtype = dtype_of<T>;
  p.planes = planes;
  p.axis[0] = a.axis(), p.axis[1] = b.axis(), p.axis[2] = c.axis();
  p.divisor = a.divisor * b.divisor * c.divisor;
  p.bits = dyadic ? std::countr_zero(static_cast<std::uint64_t>(p.divisor)) : -1;
  p.reach = std::max(a.reach * b.reach * c.reach, 1e-300) * 1.0001;
  p.negative = a.negative || b.negative || c.negative;
  p.x = x.data();
  p.out = out.data();
  CHECK(weighted_taps(p).empty());
  const auto tap = [](const Taps& taps, Index o, Index k) { return static_cast<std::size_t>(k * taps.outputs + o); };
  for (Index i = 0; i < planes * outputs; ++i) {
    const Index oc = i % c.outputs, ob = i / c.outputs % b.outputs, oa = i / c.outputs / b.outputs % a.outputs;
    const auto count = [](const Taps& taps, Index o) { return taps.counts[static_cast<std::size_t>(o)]; };
    Terms<T> sum;
    for (Index ka = 0; ka < count(a, oa); ++ka)
      for (Index kb = 0; kb < count(b, ob); ++kb)
        for (Index kc = 0; kc < count(c, oc); ++kc) {
          const auto ta = tap(a, oa, ka), tb = tap(b, ob, kb), tc = tap(c, oc, kc);
          const Index cell = (a.cells[ta] * b.size + b.cells[tb]) * c.size + c.cells[tc];
          sum.add(widened(x[static_cast<std::size_t>(i / outputs * cells + cell)]),
                  a.numerators[ta] * b.numerators[tb] * c.numerators[tc]);
        }
    CHECK(same(out[static_cast<std::size_t>(i)], sum.template round_quotient<T>(p.divisor)));
  }
  // Without integers for weights, what the kernels do not decide is reported.
  p.divisor = 0;
  std::vector<T> again(out.size());
  p.out = again.data();
  const std::vector<Index> left = weighted_taps(p);
  for (std::size_t i = 0; i < out.size(); ++i)
    CHECK(same(again[i], out[i]) || std::find(left.begin(), left.end(), static_cast<Index>(i)) != left.end());
}

}  // namespace

int main() {
  everywhere([] {
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
      check_case<float>(seed);
      check_case<double>(seed);
      check_case<Float16>(seed);
      check_case<BFloat16>(seed);
    }
  });
  CHECK(units_of(Engine::interpolate) > 0 && units_of(Engine::interpolate_exact) > 0);
  return failures() == 0 ? 0 : 1;
}
