// Normalisation and softmax of float32 rows against long double, whose error is far below a float's; and exact cases.
#include "halfulp/normalize.hpp"

#include <cmath>
#include <random>
#include <vector>

#include "check.hpp"
#include "halfulp/softmax.hpp"

namespace {

using namespace halfulp;

std::vector<float> numbers(std::mt19937& random, Index n) {
  std::normal_distribution<float> normal;
  std::vector<float> out(static_cast<std::size_t>(n));
  for (float& x : out) x = normal(random);
  return out;
}

void layer_norms(std::mt19937& random) {
  for (const Index inner : {1, 2, 15, 16, 17, 511, 512, 513, 1500}) {
    const Index rows = 3;
    halfulp::tests::describe("inner", inner);
    const std::vector<float> x = numbers(random, rows * inner), w = numbers(random, inner), b = numbers(random, inner);
    std::vector<float> out(x.size());
    NormProblem p;
    p.groups = rows;
    p.inner = inner;
    p.per_cell = true;
    p.eps = 1e-5;
    p.x = x.data();
    p.weight = w.data();
    p.bias = b.data();
    p.out = out.data();
    CHECK(normalize(p).empty());
    for (Index r = 0; r < rows; ++r) {
      const float* row = x.data() + r * inner;
      long double mean = 0, variance = 0;
      for (Index i = 0; i < inner; ++i) mean += row[i];
      mean /= static_cast<long double>(inner);
      for (Index i = 0; i < inner; ++i) variance += (row[i] - mean) * (row[i] - mean);
      variance /= static_cast<long double>(inner);
      const long double scale = 1 / std::sqrt(variance + static_cast<long double>(1e-5));
      for (Index i = 0; i < inner; ++i) {
        const auto at = static_cast<std::size_t>(r * inner + i), own = static_cast<std::size_t>(i);
        CHECK(out[at] == static_cast<float>((row[i] - mean) * scale * w[own] + b[own]));
      }
    }
  }
}

void softmaxes(std::mt19937& random) {
  for (const Index length : {1, 2, 15, 16, 17, 600}) {
    halfulp::tests::describe("length", length);
    const std::vector<float> x = numbers(random, 2 * length);
    std::vector<float> out(x.size());
    SoftmaxProblem p;
    p.rows = 2;
    p.length = length;
    p.x = x.data();
    p.out = out.data();
    CHECK(softmax(p).empty());
    for (Index r = 0; r < 2; ++r) {
      const float* row = x.data() + r * length;
      long double total = 0;
      for (Index i = 0; i < length; ++i) total += std::exp(static_cast<long double>(row[i]));
      for (Index i = 0; i < length; ++i)
        CHECK(out[static_cast<std::size_t>(r * length + i)] ==
              static_cast<float>(std::exp(static_cast<long double>(row[i])) / total));
    }
  }
}

void equal_cells() {
  const std::vector<double> x(40, 0.1);
  std::vector<double> out(x.size());
  NormProblem p;
  p.dtype = DType::f64;
  p.blocks = 4;
  p.groups = 2;
  p.inner = 5;
  p.joint = true;
  p.eps = 0.5;
  p.x = x.data();
  p.out = out.data();
  CHECK(normalize(p).empty());
  for (const double y : out) CHECK(y == 0 && !std::signbit(y));
  p.eps = 0;  // 0 / 0: nothing that pairs of doubles decide
  CHECK(normalize(p).size() == x.size());
}

}  // namespace

int main() {
  std::mt19937 random(7);
  layer_norms(random);
  softmaxes(random);
  equal_cells();
  return halfulp::tests::failures();
}
