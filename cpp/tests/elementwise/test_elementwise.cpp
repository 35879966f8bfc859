// Elementwise functions against long double on every instruction set, in memory that ends where the array ends.
#include "halfulp/elementwise.hpp"

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "check.hpp"
#include "halfulp/isa.hpp"

namespace {

constexpr unsigned kSeed = 7;

using namespace halfulp;
using Real = long double;

struct Formula {
  Function function;
  FunctionParameters parameters;
  std::function<Real(Real)> value;
};

Real sigmoid(Real x) { return 1 / (1 + std::exp(-x)); }

const std::vector<Formula>& formulas() {
  static const std::vector<Formula> all = {
      {Function::relu, {}, [](Real x) { return x > 0 ? x : Real{0}; }},
      {Function::leaky_relu, {0.25, 0}, [](Real x) { return x > 0 ? x : x / 4; }},
      {Function::elu, {1.5, 0}, [](Real x) { return x > 0 ? x : Real{1.5} * std::expm1(x); }},
      {Function::sigmoid, {}, sigmoid},
      {Function::tanh, {}, [](Real x) { return std::tanh(x); }},
      {Function::softplus, {1, 1e6}, [](Real x) { return std::log1p(std::exp(x)); }},
      {Function::gelu, {}, [](Real x) { return x * std::erfc(-x / std::sqrt(Real{2})) / 2; }},
      {Function::silu, {}, [](Real x) { return x * sigmoid(x); }},
      {Function::exp, {}, [](Real x) { return std::exp(x); }},
      {Function::expm1, {}, [](Real x) { return std::expm1(x); }},
      {Function::erf, {}, [](Real x) { return std::erf(x); }},
      {Function::log, {}, [](Real x) { return std::log(x); }},
      {Function::log1p, {}, [](Real x) { return std::log1p(x); }},
      {Function::sqrt, {}, [](Real x) { return std::sqrt(x); }},
      {Function::rsqrt, {}, [](Real x) { return 1 / std::sqrt(x); }},
      {Function::reciprocal, {}, [](Real x) { return 1 / x; }},
      {Function::pow, {2.5, 0}, [](Real x) { return std::pow(x, Real{2.5}); }},
  };
  return all;
}

bool positive_only(Function f) {
  return f == Function::log || f == Function::log1p || f == Function::sqrt || f == Function::rsqrt ||
         f == Function::pow;
}

template <class T>
ArrayView view_of(std::vector<T>& cells, DType dtype) {
  ArrayView view;
  view.data = reinterpret_cast<char*>(cells.data());
  view.dtype = dtype;
  view.shape = {static_cast<Index>(cells.size())};
  view.strides = {static_cast<Index>(sizeof(T))};
  return view;
}

void values(std::mt19937& random) {
  std::normal_distribution<float> normal(0.0f, 3.0f);
  for (const Formula& formula : formulas())
    for (const int n : {0, 1, 7, 15, 16, 17, 63, 64, 65, 300}) {
      halfulp::tests::describe("generator", kSeed, "isa", name_of(current_isa()), "function",
                               static_cast<int>(formula.function), "n", n);
      std::vector<float> x(static_cast<std::size_t>(n)), out(x.size());
      for (float& cell : x) {
        cell = normal(random);
        if (positive_only(formula.function)) cell = std::fabs(cell) + 0.001f;
      }
      const Elementwise op{formula.function, formula.parameters};
      const ElementwiseRest rest = elementwise(op, view_of(x, DType::f32), nullptr, view_of(out, DType::f32));
      const std::set<Index> open(rest.positions.begin(), rest.positions.end());
      CHECK(open.size() * 20 <= x.size());
      for (std::size_t i = 0; i < x.size(); ++i)
        if (!open.contains(static_cast<Index>(i))) CHECK(out[i] == static_cast<float>(formula.value(x[i])));
    }
}

// Every function on every type, with and without a tangent; NaN stays NaN.
template <class T>
void memory(DType dtype, std::mt19937& random) {
  for (int f = 0; f < kFunctionCount; ++f)
    for (const int n : {1, 5, 33, 130})
      for (const bool tangent : {false, true}) {
        halfulp::tests::describe("generator", kSeed, "isa", name_of(current_isa()), "function", f, "n", n,
                                 "tangent", tangent, "dtype", name_of(dtype));
        std::vector<T> x(static_cast<std::size_t>(n)), t(x.size()), out(x.size());
        for (T& cell : x) {
          const std::uint64_t bits = (std::uint64_t{random()} << 32) | random();
          std::memcpy(&cell, &bits, sizeof(T));  // any number, infinities and NaN among them
        }
        t = x;
        const FunctionParameters parameters{1.5, 20.0};
        const ArrayView direction = view_of(t, dtype);
        const ElementwiseRest rest = elementwise({static_cast<Function>(f), parameters}, view_of(x, dtype),
                                                 tangent ? &direction : nullptr, view_of(out, dtype));
        CHECK(rest.positions.size() == rest.x.size());
        for (const Index place : rest.positions) CHECK(place >= 0 && place < n);
      }
}

void special() {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x = {nan, infinity, -infinity, 0.0f, -0.0f}, out(x.size());
  halfulp::tests::describe("function", "exp of special numbers");
  elementwise({Function::exp, {}}, view_of(x, DType::f32), nullptr, view_of(out, DType::f32));
  CHECK(std::isnan(out[0]) && out[1] == infinity && out[2] == 0.0f && out[3] == 1.0f && out[4] == 1.0f);
  elementwise({Function::tanh, {}}, view_of(x, DType::f32), nullptr, view_of(out, DType::f32));
  CHECK(std::isnan(out[0]) && out[1] == 1.0f && out[2] == -1.0f && out[3] == 0.0f && std::signbit(out[4]));
}

}  // namespace

int main() {
  for (const Isa isa : available_isas()) {
    set_isa(name_of(isa));
    std::mt19937 random(kSeed);
    values(random);
    memory<float>(DType::f32, random);
    memory<double>(DType::f64, random);
    memory<std::uint16_t>(DType::f16, random);
    memory<std::uint16_t>(DType::bf16, random);
    special();
  }
  return halfulp::tests::failures() == 0 ? 0 : 1;
}
