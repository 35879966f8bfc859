// What the three passes of smooth max pooling share: planes as doubles, the cells of windows, batches, decisions.
#pragma once

#include <cmath>
#include <type_traits>
#include <vector>

#include "exact/round.hpp"
#include "halfulp/smooth_max_pool.hpp"
#include "smooth/decide.hpp"

namespace halfulp {

template <class T>
inline constexpr int smooth_kind = std::is_same_v<T, double> ? 1 : 0;  // double-double for float64

template <class T>
double as_double(T x) {
  if constexpr (std::is_same_v<T, double>)
    return x;
  else
    return static_cast<double>(to_float(x));
}

// One plane of an array: element addresses by row-major position.
template <class T>
class Plane {
 public:
  Plane(const ArrayView& view, int ndim, Index plane) : view_(view), leading_(view.ndim() - ndim) {
    base_ = view.data + offset_of(view, plane, leading_);
  }

  T& operator[](Index position) const {
    Index offset = 0;
    for (int axis = view_.ndim() - 1; axis >= leading_; --axis) {
      offset += position % view_.shape[axis] * view_.strides[axis];
      position /= view_.shape[axis];
    }
    return *reinterpret_cast<T*>(base_ + offset);
  }

 private:
  const ArrayView& view_;
  int leading_;
  char* base_;
};

// A window's real cells as row-major positions of the plane, and the number of its padded cells.
struct WindowCells {
  std::vector<Index> cells;
  Index padded = 0;

  void find(const SmoothPlan& plan, Index output) {
    cells.assign(1, 0);
    Index counted = 1, real = 1, stride = 1;
    for (std::size_t a = plan.windows.size(); a-- > 0;) {
      const SumAxis& axis = plan.windows[a];
      const auto o = static_cast<std::size_t>(output % axis.outputs());
      output /= axis.outputs();
      counted *= axis.divisor[o];
      real *= axis.count[o];
      widened_.clear();
      for (Index r = 0; r < axis.count[o]; ++r)
        for (const Index inner : cells) widened_.push_back((axis.first[o] + r * axis.step) * stride + inner);
      cells.swap(widened_);
      stride *= axis.sources;
    }
    padded = counted - real;
  }

 private:
  std::vector<Index> widened_;
};

// Room for one batch of windows of up to `cells` cells.
class SmoothBuffers {
 public:
  explicit SmoothBuffers(Index cells)
      : cells_(cells), storage_(static_cast<std::size_t>((9 * cells + 16) * kSmoothBatch)) {
    double* at = storage_.data();
    const auto take = [&](Index n) {
      double* result = at;
      at += n * kSmoothBatch;
      return result;
    };
    u = take(cells);
    other = take(cells);
    padded = take(1);
    batch.u = u;
    batch.padded = padded;
    batch.weight = take(cells);
    batch.weight_low = take(cells);
    batch.weight_error = take(cells);
    batch.total = take(1);
    batch.total_low = take(1);
    batch.total_error = take(1);
    value = take(1);
    value_low = take(1);
    value_error = take(1);
    high = take(cells);
    low = take(cells);
    error = take(cells);
    cotangent = take(1);
  }

  // Lane `lane` gets a window of one padded zero.
  void clear_lane(Index lane) {
    for (Index j = 0; j < cells_; ++j) u[j * kSmoothBatch + lane] = -std::numeric_limits<double>::infinity();
    padded[lane] = 1.0;
  }

  double *u, *other, *padded, *value, *value_low, *value_error, *high, *low, *error, *cotangent;
  SmoothBatch batch;

 private:
  Index cells_;
  std::vector<double> storage_;
};

// The T that all numbers within `error` of high + low round to, if there is one. `above` and `below` say that the
// number is known to be positive or negative.
template <class T>
bool decide(double high, double low, double error, bool above, bool below, T& result) {
  if constexpr (std::is_same_v<T, double>) {
    return decide<T>(high, low, error, 0x1p-900, result);
  } else {
    // Both parts, what the two sums below lose, and what products near the end of the range lose.
    const double bound = error + std::fabs(low) + std::fabs(high) * 0x1p-52 + 0x1p-1000;
    double least = high - bound, most = high + bound;
    if (above && least < 0.0) least = 0.0;
    if (below && most >= 0.0) most = -0.0;
    result = round_to<T>(most);
    return same_rounding<T>(least, most);
  }
}

inline Index largest_window(const SmoothPlan& plan) {
  Index cells = 1;
  for (const SumAxis& axis : plan.windows) cells *= axis.largest_count();
  return cells;
}

inline Index output_count(const SmoothPlan& plan) {
  Index n = 1;
  for (const SumAxis& axis : plan.windows) n *= axis.outputs();
  return n;
}

inline Index cell_count(const SmoothPlan& plan) {
  Index n = 1;
  for (const SumAxis& axis : plan.windows) n *= axis.sources;
  return n;
}

inline Index plane_count(const SmoothPlan& plan, const ArrayView& view) {
  Index n = 1;
  for (int axis = 0; axis < view.ndim() - static_cast<int>(plan.windows.size()); ++axis) n *= view.shape[axis];
  return n;
}

}  // namespace halfulp
