// Squared errors, cross entropy and interpolation of float32 arrays against long double, whose error is far below a
// float's, and exact cases.
#include "halfulp/loss.hpp"

#include <cmath>
#include <random>
#include <vector>

#include "check.hpp"
#include "halfulp/interpolate.hpp"

namespace {

constexpr unsigned kSeed = 5;

using namespace halfulp;

std::vector<float> numbers(std::mt19937& random, Index n) {
  std::normal_distribution<float> normal;
  std::vector<float> out(static_cast<std::size_t>(n));
  for (float& x : out) x = normal(random);
  return out;
}

void squared_errors(std::mt19937& random) {
  for (const Index n : {1, 15, 16, 17, 513, 40000}) {
    halfulp::tests::describe("generator", kSeed, "length", n);
    const std::vector<float> x = numbers(random, n), y = numbers(random, n);
    const float g = 0.75f;
    std::vector<float> loss(1), cells(x.size());
    SquareProblem p;
    p.rows = 1;
    p.length = n;
    p.divisor = static_cast<double>(n);
    p.x = x.data();
    p.y = y.data();
    p.out = loss.data();
    CHECK(squares(p).empty());
    long double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const long double d = static_cast<long double>(x[i]) - y[i];
      sum += d * d;
    }
    CHECK(loss[0] == static_cast<float>(sum / static_cast<long double>(n)));
    p.by_cell = p.g_by_row = true;
    p.factor = 2;
    p.g = &g;
    p.out = cells.data();
    CHECK(squares(p).empty());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const long double d = static_cast<long double>(x[i]) - y[i];
      CHECK(cells[i] == static_cast<float>(d * 2 * g / static_cast<long double>(n)));
    }
  }
}

void cross_entropies(std::mt19937& random) {
  for (const Index classes : {2, 15, 16, 17, 600}) {
    halfulp::tests::describe("generator", kSeed, "classes", classes);
    const Index rows = 3;
    const std::vector<float> x = numbers(random, rows * classes);
    const std::vector<std::int64_t> labels = {classes - 1, 0, -1};  // the last row is left out
    const float g = 1;
    std::vector<float> out(static_cast<std::size_t>(rows)), cells(x.size());
    EntropyProblem p;
    p.rows = rows;
    p.classes = classes;
    p.by_row = true;
    p.x = x.data();
    p.labels = labels.data();
    p.out = out.data();
    CHECK(cross_entropy(p).empty());
    EntropyProblem q = p;
    q.work = EntropyWork::cotangent;
    q.by_row = false;
    q.g = &g;
    q.out = cells.data();
    CHECK(cross_entropy(q).empty());
    for (Index r = 0; r < rows; ++r) {
      const float* row = x.data() + r * classes;
      long double total = 0;
      for (Index c = 0; c < classes; ++c) total += std::exp(static_cast<long double>(row[c]));
      const Index label = labels[static_cast<std::size_t>(r)];
      const float loss = label < 0 ? 0.0f : static_cast<float>(std::log(total) - row[label]);
      CHECK(out[static_cast<std::size_t>(r)] == loss);
      for (Index c = 0; c < classes; ++c) {
        const long double share = std::exp(static_cast<long double>(row[c])) / total - (c == label ? 1 : 0);
        CHECK(cells[static_cast<std::size_t>(r * classes + c)] == (label < 0 ? 0.0f : static_cast<float>(share)));
      }
    }
  }
}

// Twice as many cells, half-way between their neighbours: weights 3/4 and 1/4.
void doubled(std::mt19937& random) {
  for (const Index n : {2, 16, 37}) {
    halfulp::tests::describe("generator", kSeed, "cells", n);
    const Index m = 2 * n;
    const std::vector<float> x = numbers(random, 2 * n);
    std::vector<float> out(static_cast<std::size_t>(2 * m));
    std::vector<std::int64_t> counts, cells(static_cast<std::size_t>(2 * m)), tops(cells.size());
    std::vector<double> high(cells.size()), low(cells.size(), 0.0);
    for (Index o = 0; o < m; ++o) {
      const Index left = (o - 1) / 2, near = o / 2, far = o == 0 || o == m - 1 ? near : (o % 2 ? near + 1 : left);
      const auto first = static_cast<std::size_t>(o), second = static_cast<std::size_t>(m + o);
      counts.push_back(near == far ? 1 : 2);
      cells[first] = near;
      cells[second] = far;
      high[first] = near == far ? 1.0 : 0.75;
      high[second] = near == far ? 0.0 : 0.25;
      tops[first] = near == far ? 4 : 3;
      tops[second] = near == far ? 0 : 1;
    }
    const std::int64_t one = 1, zero = 0;
    const double unit = 1, nothing = 0;
    TapProblem p;
    p.planes = 2;
    p.axis[0] = p.axis[1] = TapAxis{1, 1, 1, &one, &zero, &unit, &nothing, &one};
    p.axis[2] = TapAxis{n, m, 2, counts.data(), cells.data(), high.data(), low.data(), tops.data()};
    p.divisor = 4;
    p.bits = 2;
    p.reach = 1.001;
    p.x = x.data();
    p.out = out.data();
    CHECK(weighted_taps(p).empty());
    for (Index plane = 0; plane < 2; ++plane)
      for (Index o = 0; o < m; ++o) {
        const auto first = static_cast<std::size_t>(o), second = static_cast<std::size_t>(m + o);
        const float* row = x.data() + plane * n;
        const long double sum = static_cast<long double>(high[first]) * row[cells[first]] +
                                static_cast<long double>(high[second]) * row[cells[second]];
        CHECK(out[static_cast<std::size_t>(plane * m + o)] == static_cast<float>(sum));
      }
  }
}

}  // namespace

int main() {
  std::mt19937 random(kSeed);
  squared_errors(random);
  cross_entropies(random);
  doubled(random);
  return halfulp::tests::failures() == 0 ? 0 : 1;
}
