// Smooth max pooling window by window, each with exponentials relative to its own largest cell: for what shared
// exponentials leave undecided. What is not decided here either is reported.
#pragma once

#include <algorithm>
#include <vector>

#include "halfulp/exact_sum.hpp"
#include "smooth_window.hpp"

namespace halfulp {

// A window that needs no exponentials: nothing in it, one cell, or infinities that decide. True if `result` is it.
template <class T>
bool simple_value(const WindowCells& window, const std::vector<double>& x, const Plane<T>& cells, bool negative,
                  T& result) {
  const auto n = static_cast<Index>(window.cells.size());
  if (n + window.padded <= 1) {
    result = n == 1 ? cells[window.cells[0]] : round_to<T>(0.0);
    return true;
  }
  Index finite = 0;
  double nan = 0.0, largest = 0.0, only = 0.0, smallest = 0.0;
  for (const Index cell : window.cells) {
    const double value = x[static_cast<std::size_t>(cell)];
    if (std::isfinite(value)) {
      ++finite;
      only = value;
    } else if (std::isnan(value)) {
      nan = value;
    } else if ((value > 0.0) != negative) {
      largest = value;
    } else {
      smallest = value;
    }
  }
  if (nan != 0.0)
    result = round_to<T>(nan);
  else if (largest != 0.0)
    result = round_to<T>(largest);
  else if (finite == 0 && window.padded == 0)
    result = round_to<T>(smallest);
  else if (finite + window.padded == 1)
    result = round_to<T>(only + 0.0);
  else
    return false;
  return true;
}

inline bool all_finite(const WindowCells& window, const std::vector<double>& x) {
  return std::all_of(window.cells.begin(), window.cells.end(),
                     [&](Index cell) { return std::isfinite(x[static_cast<std::size_t>(cell)]); });
}

// Derivatives along a direction that need no exponentials: no cell, one cell, equal cells, zero tangents.
template <class T>
bool simple_jvp(const WindowCells& window, const std::vector<double>& x, const std::vector<double>& t, T& result) {
  const auto n = static_cast<Index>(window.cells.size());
  if (n == 0) {
    result = round_to<T>(0.0);
    return true;
  }
  const double first = x[static_cast<std::size_t>(window.cells[0])];
  bool equal = window.padded == 0 || first == 0.0, zero = true;
  typename ExactSums<std::conditional_t<std::is_same_v<T, double>, double, float>>::terms sum;
  for (const Index cell : window.cells) {
    equal = equal && x[static_cast<std::size_t>(cell)] == first;
    zero = zero && t[static_cast<std::size_t>(cell)] == 0.0;
  }
  if (!equal && !zero) return false;
  for (const Index cell : window.cells) sum.add(t[static_cast<std::size_t>(cell)]);
  if (window.padded > 0) sum.add(0.0);
  result = sum.template round_quotient<T>(n + window.padded);
  return true;
}

template <class T>
class SmoothPass {
 public:
  SmoothPass(const SmoothPlan& plan, const ArrayView& x)
      : plan_(plan),
        x_(x),
        ndim_(static_cast<int>(plan.windows.size())),
        buffers_(largest_window(plan)),
        kernels_(select_smooth_kernels()) {
    buffers_.batch.cells = largest_window(plan);
  }

  void read_plane(Index plane) {
    if (plane == plane_) return;
    plane_ = plane;
    Plane<T>(x_, ndim_, plane).read(values_, cell_count(plan_));
  }

  // Values of some outputs of a plane; returns those that are undecided.
  std::vector<Index> forward(Index plane, const std::vector<Index>& some, const ArrayView& out) {
    std::vector<Index> undecided;
    if (some.empty()) return undecided;
    read_plane(plane);
    const Plane<T> cells(x_, ndim_, plane), to(out, ndim_, plane);
    buffers_.batch.value = buffers_.value;
    buffers_.batch.value_low = buffers_.value_low;
    buffers_.batch.value_error = buffers_.value_error;
    batches(some, [&](Index o, Index lane) {
      T result{};
      if (!simple_value(window_, values_, cells, plan_.beta.negative, result)) return put_lane(lane);
      to[o] = result;
      return false;
    }, [&](const Index* outputs, Index n) {
      for (Index i = 0; i < n; ++i) {
        const double sign = plan_.beta.negative ? -1.0 : 1.0;
        T result{};
        const double high = sign * buffers_.value[i], low = sign * buffers_.value_low[i];
        if (!decide<T>(high, low, buffers_.value_error[i], false, false, result))
          undecided.push_back(plane * output_count(plan_) + outputs[i]);
        to[outputs[i]] = result;
      }
    });
    return undecided;
  }

  std::vector<Index> jvp(Index plane, const std::vector<Index>& some, const ArrayView& t, const ArrayView& out) {
    std::vector<Index> undecided;
    if (some.empty()) return undecided;
    read_plane(plane);
    if (plane != tangent_plane_) Plane<T>(t, ndim_, plane).read(tangents_, cell_count(plan_));
    tangent_plane_ = plane;
    const Plane<T> to(out, ndim_, plane);
    bool above[kSmoothBatch], below[kSmoothBatch];
    batches(some, [&](Index o, Index lane) {
      if (!all_finite(window_, values_) || !all_finite(window_, tangents_)) {
        undecided.push_back(plane * output_count(plan_) + o);
        return false;
      }
      T result{};
      if (simple_jvp<T>(window_, values_, tangents_, result)) {
        to[o] = result;
        return false;
      }
      above[lane] = below[lane] = true;
      for (std::size_t j = 0; j < static_cast<std::size_t>(buffers_.batch.cells); ++j) {
        const bool real = j < window_.cells.size();
        const double value = real ? tangents_[static_cast<std::size_t>(window_.cells[j])] : 0.0;
        buffers_.other[static_cast<Index>(j) * kSmoothBatch + lane] = value;
        above[lane] = above[lane] && value >= 0.0;
        below[lane] = below[lane] && value <= 0.0;
      }
      return put_lane(lane);
    }, [&](const Index* outputs, Index n) {
      kernels_.contract[smooth_kind<T>](buffers_.batch, buffers_.other, buffers_.high, buffers_.low, buffers_.error);
      for (Index i = 0; i < n; ++i) {
        T result{};
        const double low = smooth_kind<T> == 1 ? buffers_.low[i] : 0.0;
        if (!decide<T>(buffers_.high[i], low, buffers_.error[i], above[i], below[i], result))
          undecided.push_back(plane * output_count(plan_) + outputs[i]);
        to[outputs[i]] = result;
      }
    });
    return undecided;
  }

  // The cotangents of some cells of a plane.
  std::vector<Index> vjp(Index plane, const std::vector<Index>& some, const ArrayView& g, const ArrayView& dx);

 private:
  // What the cotangent of one cell is made of.
  struct Cotangent {
    double high = 0.0, low = 0.0, error = 0.0, size = 0.0;
    Index terms = 0;
    bool positive = false, negative = false, positive_zero = false, special = false;

    void note(double g) {
      ++terms;
      positive = positive || g > 0.0;
      negative = negative || g < 0.0;
      positive_zero = positive_zero || (g == 0.0 && !std::signbit(g));
    }
    void add(double h, double l, double e) {
      const TwoDoubles sum = two_sum(high, h);
      high = sum.high;
      low += sum.low + l;
      error += e;
      size += std::fabs(h);
    }
  };

  bool put_lane(Index lane) {
    buffers_.set_window(lane, window_, values_, plan_.beta.negative);
    // An infinite cell that decides nothing has no weight: it is missing.
    for (Index j = 0; j < static_cast<Index>(window_.cells.size()); ++j) {
      double& u = buffers_.u[j * kSmoothBatch + lane];
      if (!std::isfinite(u)) u = -std::numeric_limits<double>::infinity();
    }
    return true;
  }

  // Calls prepare(output, lane) for each window, which says whether it put the window into the batch, and finish on
  // every full batch.
  template <class Prepare, class Finish>
  void batches(const std::vector<Index>& some, Prepare prepare, Finish finish) {
    Index outputs[kSmoothBatch], n = 0;
    const auto flush = [&] {
      if (n == 0) return;
      for (Index lane = n; lane < kSmoothBatch; ++lane) buffers_.clear_lane(lane);
      kernels_.weights[smooth_kind<T>](plan_.beta, buffers_.batch);
      finish(outputs, n);
      n = 0;
    };
    for (const Index o : some) {
      window_.find(plan_, o);
      if (!prepare(o, n)) continue;
      outputs[n++] = o;
      if (n == kSmoothBatch) flush();
    }
    flush();
  }

  void distribute(const Index* outputs, Index n);
  bool add_simple(Index output, double g);
  std::vector<Index> windows_of(const std::vector<Index>& some) const;
  std::vector<Index> emit(Index plane, const std::vector<Index>& some, const ArrayView& dx) const;

  const SmoothPlan& plan_;
  const ArrayView& x_;
  int ndim_;
  Index plane_ = -1, tangent_plane_ = -1;
  SmoothBuffers buffers_;
  const SmoothKernels& kernels_;
  WindowCells window_;
  std::vector<double> values_, tangents_;
  std::vector<Cotangent> cotangents_;
};

// Windows without exponentials: no cell, one cell, or numbers that are not finite, which are left undecided.
template <class T>
bool SmoothPass<T>::add_simple(Index, double g) {
  const bool special = !all_finite(window_, values_) || !std::isfinite(g);
  for (const Index cell : window_.cells) {
    Cotangent& cotangent = cotangents_[static_cast<std::size_t>(cell)];
    cotangent.note(g);
    cotangent.special = cotangent.special || special;
  }
  if (special || window_.cells.empty() || g == 0.0) return true;
  if (window_.cells.size() + static_cast<std::size_t>(window_.padded) > 1) return false;
  cotangents_[static_cast<std::size_t>(window_.cells[0])].add(g, 0.0, 0.0);
  return true;
}

template <class T>
void SmoothPass<T>::distribute(const Index* outputs, Index n) {
  kernels_.distribute[smooth_kind<T>](buffers_.batch, buffers_.cotangent, buffers_.high, buffers_.low, buffers_.error);
  for (Index lane = 0; lane < n; ++lane) {
    window_.find(plan_, outputs[lane]);
    for (std::size_t j = 0; j < window_.cells.size(); ++j) {
      const Index k = static_cast<Index>(j) * kSmoothBatch + lane;
      const double low = smooth_kind<T> == 1 ? buffers_.low[k] : 0.0;
      cotangents_[static_cast<std::size_t>(window_.cells[j])].add(buffers_.high[k], low, buffers_.error[k]);
    }
  }
}

template <class T>
std::vector<Index> SmoothPass<T>::emit(Index plane, const std::vector<Index>& some, const ArrayView& dx) const {
  std::vector<Index> undecided;
  const Plane<T> to(dx, ndim_, plane);
  for (const Index i : some) {
    const Cotangent& c = cotangents_[static_cast<std::size_t>(i)];
    T result{};
    bool decided = !c.special;
    if (decided && !c.positive && !c.negative) {
      result = round_to<T>(c.terms > 0 && !c.positive_zero ? -0.0 : 0.0);
    } else if (decided) {
      // Every low part is at most 2^-53 of its high part's partial sum, and so is each rounding of their sum of it.
      const auto terms = static_cast<double>(c.terms) + 4.0;
      const double error = (c.error + terms * terms * 0x1p-105 * c.size) * 1.01;
      const TwoDoubles sum = fast_two_sum(c.high, c.low);
      const double widened = smooth_kind<T> == 1 ? error : error + std::fabs(c.high) * 0x1p-52 + std::fabs(sum.low);
      decided = decide<T>(sum.high, sum.low, widened, !c.negative, !c.positive, result);
    }
    if (!decided) undecided.push_back(plane * static_cast<Index>(cotangents_.size()) + i);
    to[i] = result;
  }
  return undecided;
}

// The outputs whose windows hold any of these cells, in order.
template <class T>
std::vector<Index> SmoothPass<T>::windows_of(const std::vector<Index>& some) const {
  std::vector<char> held(static_cast<std::size_t>(output_count(plan_)), 0);
  std::vector<Index> outputs, wider;
  for (const Index cell : some) {
    outputs.assign(1, 0);
    Index rest = cell, stride = 1;
    for (std::size_t a = plan_.axes.size(); a-- > 0;) {
      const Axis& axis = plan_.axes[a];
      const Index position = rest % axis.size + axis.before;
      rest /= axis.size;
      wider.clear();
      for (Index k = 0; k < axis.kernel; ++k) {
        const Index start = position - k * axis.dilation;
        if (start < 0 || start % axis.stride != 0 || start / axis.stride >= axis.output) continue;
        for (const Index inner : outputs) wider.push_back(start / axis.stride * stride + inner);
      }
      outputs.swap(wider);
      stride *= axis.output;
    }
    for (const Index output : outputs) held[static_cast<std::size_t>(output)] = 1;
  }
  outputs.clear();
  for (std::size_t o = 0; o < held.size(); ++o)
    if (held[o] != 0) outputs.push_back(static_cast<Index>(o));
  return outputs;
}

template <class T>
std::vector<Index> SmoothPass<T>::vjp(Index plane, const std::vector<Index>& some, const ArrayView& g,
                                      const ArrayView& dx) {
  if (some.empty()) return {};
  read_plane(plane);
  Plane<T>(g, ndim_, plane).read(tangents_, output_count(plan_));
  cotangents_.assign(static_cast<std::size_t>(cell_count(plan_)), {});
  batches(windows_of(some), [&](Index o, Index lane) {
    const double cotangent = tangents_[static_cast<std::size_t>(o)];
    if (add_simple(o, cotangent)) return false;
    buffers_.cotangent[lane] = cotangent;
    return put_lane(lane);
  }, [&](const Index* outputs, Index n) {
    for (Index lane = n; lane < kSmoothBatch; ++lane) buffers_.cotangent[lane] = 0.0;
    distribute(outputs, n);
  });
  return emit(plane, some, dx);
}

}  // namespace halfulp
