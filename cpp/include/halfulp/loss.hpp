// Sums of squares (variance, squared error) and cross entropy, with their derivatives, and the outputs that double and
// double-double arithmetic do not decide. The bounds stand beside the formulas in the kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "halfulp/array.hpp"

namespace halfulp {

// With a = x - y, or x minus the mean of its row, one output per row, or per cell:
//
//   factor / divisor * sum(a b)   and   factor / divisor * a b
//
// where b is a itself, t - s, or g. Arrays are (rows, length), dense; g has one number per cell or per row.
struct SquareProblem {
  DType dtype = DType::f32;
  Index rows = 0, length = 0;
  bool by_cell = false;
  bool g_by_row = false;
  double factor = 1;   // 1, 2 or -2
  double divisor = 1;  // an integer below 2^53
  const void *x = nullptr, *y = nullptr;  // no y: the mean
  const void *t = nullptr, *s = nullptr;  // both absent, and no g: b is a
  const void* g = nullptr;
  void* out = nullptr;
};
std::vector<Index> squares(const SquareProblem& problem);

// With p = softmax of a row, A its coefficients and S their sum:
//
//   value      -sum(A log p)
//   tangent    sum((S p - A) t)
//   cotangent  (S p - A) g scale, in every cell
//
// A = lead * target + base, or lead at the label and base everywhere. A label of -1 is a row that is left out. Value
// and tangent are one number per row, or their sum times scale.
enum class EntropyWork { value, tangent, cotangent };

struct EntropyProblem {
  DType dtype = DType::f32;
  Index rows = 0, classes = 0;
  EntropyWork work = EntropyWork::value;
  bool by_row = false;    // one output per row; for a cotangent: one g per row
  const void *x = nullptr, *target = nullptr, *t = nullptr, *g = nullptr;
  const std::int64_t* labels = nullptr;
  // Numbers to twice the precision of a double: their high and low parts.
  const double *lead_high = nullptr, *lead_low = nullptr;  // per class; absent: 1
  const double *base_high = nullptr, *base_low = nullptr;  // per class; absent: 0
  double base_total[2] = {0, 0};
  double scale[2] = {1, 0};
  void* out = nullptr;
};
std::vector<Index> cross_entropy(const EntropyProblem& problem);

}  // namespace halfulp
