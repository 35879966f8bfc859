// Softmax and log-softmax along an axis with their derivatives, with the outputs that double and double-double
// arithmetic do not decide. With d = x - max(x), S = sum(exp(d)), p = exp(d) / S:
//
//   value                      p                     d - log(S)
//   tangent                    p (t - sum(p t))      t - sum(p t)
//   cotangent                  p (g - sum(p g))      g - p sum(g)
//
// A NaN or +inf in a row, or nothing but -inf, makes all of its results NaN; so does a tangent that is not finite.
// A result that is exactly zero is +0. docs/explanation/error-bounds-normalization.md proves the bounds.
#pragma once

#include <vector>

#include "halfulp/array.hpp"

namespace halfulp {

enum class SoftmaxWork { value, tangent, cotangent };

struct SoftmaxProblem {
  DType dtype = DType::f32;
  Index outer = 0, length = 0, inner = 1;  // x is (outer, length, inner), dense; softmax is along the length
  bool logarithm = false;
  SoftmaxWork work = SoftmaxWork::value;
  const void *x = nullptr, *t = nullptr;  // t is the tangent or cotangent
  void* out = nullptr;
  // Of softmax_kept_size() numbers: a value writes them, a cotangent of the same x reads them.
  double* kept = nullptr;
  void* copy = nullptr;  // if given, x is copied here on the way
};

// How many float64 a value can keep for pullbacks, so that these compute no exponentials: 0 if it keeps none. Only
// float32 does, as long as rows are not short and all of it takes at most 64 MB.
Index softmax_kept_size(const SoftmaxProblem& problem);

// Fills problem.out and returns the flat positions that are undecided.
std::vector<Index> softmax(const SoftmaxProblem& problem);

}  // namespace halfulp
