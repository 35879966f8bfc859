// Normalisation and softmax of float32 rows against long double, whose error is far below a float's; and exact cases.
#include "halfulp/normalize.hpp"

#include <cmath>
#include <random>
#include <vector>

#include "check.hpp"
#include "halfulp/softmax.hpp"

namespace {

constexpr unsigned kSeed = 7;

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
    halfulp::tests::describe("generator", kSeed, "inner", inner);
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
    halfulp::tests::describe("generator", kSeed, "length", length);
    const std::vector<float> x = numbers(random, 2 * length);
    std::vector<float> out(x.size());
    SoftmaxProblem p;
    p.outer = 2;
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

// Columns must have the bits of rows, whatever their number.
void softmax_columns(std::mt19937& random) {
  for (const SoftmaxWork work : {SoftmaxWork::value, SoftmaxWork::tangent, SoftmaxWork::cotangent})
    for (const bool logarithm : {false, true})
      for (const Index inner : {1, 2, 15, 16, 17, 35})
        for (const Index length : {1, 2, 9, 40}) {
          halfulp::tests::describe("generator", kSeed, "work", static_cast<int>(work), "logarithm", logarithm, "inner",
                                   inner, "length", length);
          const Index outer = 2, size = outer * length * inner;
          const std::vector<float> x = numbers(random, size), t = numbers(random, size);
          std::vector<float> out(x.size()), rows(x.size()), rows_t(x.size()), rows_out(x.size());
          SoftmaxProblem p;
          p.outer = outer;
          p.length = length;
          p.inner = inner;
          p.work = work;
          p.logarithm = logarithm;
          p.x = x.data();
          p.t = work == SoftmaxWork::value ? nullptr : t.data();
          p.out = out.data();
          const auto each = [&](auto&& body) {
            for (Index o = 0; o < outer; ++o)
              for (Index i = 0; i < length; ++i)
                for (Index j = 0; j < inner; ++j)
                  body(static_cast<std::size_t>((o * length + i) * inner + j),
                       static_cast<std::size_t>((o * inner + j) * length + i));
          };
          each([&](std::size_t from, std::size_t to) {
            rows[to] = x[from];
            rows_t[to] = t[from];
          });
          const std::size_t left = softmax(p).size();
          if (const Index kept = softmax_kept_size(p); kept > 0 && work == SoftmaxWork::cotangent) {
            std::vector<double> room(static_cast<std::size_t>(kept));
            std::vector<float> value(x.size()), copy(x.size()), again(x.size());
            SoftmaxProblem keeping = p;
            keeping.work = SoftmaxWork::value;
            keeping.t = nullptr;
            keeping.out = value.data();
            keeping.copy = copy.data();
            keeping.kept = room.data();
            softmax(keeping);
            CHECK(copy == x);
            SoftmaxProblem pulled = p;
            pulled.x = copy.data();
            pulled.out = again.data();
            pulled.kept = room.data();
            CHECK(softmax(pulled).size() == left);
            CHECK(left > 0 || again == out);
          }
          p.outer = outer * inner;
          p.inner = 1;
          p.x = rows.data();
          p.t = work == SoftmaxWork::value ? nullptr : rows_t.data();
          p.out = rows_out.data();
          CHECK(softmax(p).size() == left);
          if (left == 0) each([&](std::size_t from, std::size_t to) { CHECK(out[from] == rows_out[to]); });
        }
}

// A batch norm of planes, and of the same cells along the last axis: value, moments that are kept, and pullback.
void batch_norms(std::mt19937& random) {
  for (const Index inner : {1, 3, 16, 49, 300})
    for (const Index groups : {1, 5, 8, 19}) {
      halfulp::tests::describe("generator", kSeed, "inner", inner, "groups", groups);
      const Index blocks = 3, size = blocks * groups * inner;
      const std::vector<float> x = numbers(random, size), g = numbers(random, size), w = numbers(random, groups);
      std::vector<float> lx(x.size()), lg(x.size());
      for (Index b = 0; b < blocks; ++b)
        for (Index c = 0; c < groups; ++c)
          for (Index i = 0; i < inner; ++i) {
            const auto from = static_cast<std::size_t>((b * groups + c) * inner + i);
            const auto to = static_cast<std::size_t>((b * inner + i) * groups + c);
            lx[to] = x[from];
            lg[to] = g[from];
          }
      std::vector<float> out(x.size()), dx(x.size()), dw(w.size()), db(w.size());
      std::vector<float> last_out(x.size()), last_dx(x.size()), last_dw(w.size()), last_db(w.size());
      const auto run = [&](bool last, const float* cells, const float* along, std::vector<float>& y,
                           std::vector<float>& x_bar, std::vector<float>& w_bar, std::vector<float>& b_bar) {
        std::vector<GroupMoments> moments(w.size());
        NormProblem p;
        p.blocks = blocks;
        p.groups = groups;
        p.inner = inner;
        p.joint = true;
        p.last = last;
        p.eps = 1e-5;
        p.x = cells;
        p.weight = w.data();
        p.out = y.data();
        p.moments = moments.data();
        CHECK(normalize(p).empty());
        p.moments_known = true;
        p.work = NormWork::cotangent;
        p.t = along;
        p.out = x_bar.data();
        p.weight_out = w_bar.data();
        p.bias_out = b_bar.data();
        const NormUndecided left = normalize_pullback(p);
        CHECK(left.x.empty() && left.weight.empty());
        for (const Index i : left.bias) b_bar[static_cast<std::size_t>(i)] = NAN;  // sums of few floats are often ties
      };
      run(false, x.data(), g.data(), out, dx, dw, db);
      run(true, lx.data(), lg.data(), last_out, last_dx, last_dw, last_db);
      CHECK(dw == last_dw);
      for (std::size_t i = 0; i < db.size(); ++i)
        CHECK(db[i] == last_db[i] || db[i] != db[i] || last_db[i] != last_db[i]);
      for (Index b = 0; b < blocks; ++b)
        for (Index c = 0; c < groups; ++c)
          for (Index i = 0; i < inner; ++i) {
            const auto from = static_cast<std::size_t>((b * groups + c) * inner + i);
            const auto to = static_cast<std::size_t>((b * inner + i) * groups + c);
            CHECK(out[from] == last_out[to] && dx[from] == last_dx[to]);
          }
    }
}

// The pullback of a layer norm against long double.
void layer_pullbacks(std::mt19937& random) {
  for (const Index inner : {15, 16, 17, 513})
    for (const Index rows : {1, 8, 21}) {
      halfulp::tests::describe("generator", kSeed, "inner", inner, "rows", rows);
      const std::vector<float> x = numbers(random, rows * inner), g = numbers(random, rows * inner);
      const std::vector<float> w = numbers(random, inner);
      std::vector<float> dx(x.size()), dw(w.size()), db(w.size());
      NormProblem p;
      p.groups = rows;
      p.inner = inner;
      p.per_cell = true;
      p.eps = 1e-5;
      p.work = NormWork::cotangent;
      p.x = x.data();
      p.t = g.data();
      p.weight = w.data();
      p.out = dx.data();
      p.weight_out = dw.data();
      p.bias_out = db.data();
      const NormUndecided left = normalize_pullback(p);
      CHECK(left.x.empty() && left.weight.empty());
      std::vector<long double> sums(w.size());
      const auto n = static_cast<long double>(inner);
      for (Index r = 0; r < rows; ++r) {
        const float *row = x.data() + r * inner, *along = g.data() + r * inner;
        long double mean = 0, variance = 0, h = 0, hc = 0;
        for (Index i = 0; i < inner; ++i) mean += row[i] / n;
        for (Index i = 0; i < inner; ++i) variance += (row[i] - mean) * (row[i] - mean) / n;
        const long double scale = 1 / std::sqrt(variance + static_cast<long double>(1e-5));
        const auto own = [&](Index i) { return static_cast<long double>(along[i]) * w[static_cast<std::size_t>(i)]; };
        for (Index i = 0; i < inner; ++i) {
          h += own(i) / n;
          hc += own(i) * (row[i] - mean) / n;
          sums[static_cast<std::size_t>(i)] += along[i] * (row[i] - mean) * scale;
        }
        for (Index i = 0; i < inner; ++i) {
          const long double y = scale * (own(i) - h - (row[i] - mean) * scale * scale * hc);
          CHECK(dx[static_cast<std::size_t>(r * inner + i)] == static_cast<float>(y));
        }
      }
      for (std::size_t i = 0; i < w.size(); ++i) CHECK(dw[i] == static_cast<float>(sums[i]));
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
  std::mt19937 random(kSeed);
  layer_norms(random);
  softmaxes(random);
  softmax_columns(random);
  batch_norms(random);
  layer_pullbacks(random);
  equal_cells();
  return halfulp::tests::failures() == 0 ? 0 : 1;
}
