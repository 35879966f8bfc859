// Smooth max pooling window by window, each with exponentials relative to its own largest cell, in pairs of doubles for
// every type: for what shared exponentials leave undecided. What is not decided here either is reported.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "exact/exact_sum.hpp"
#include "halfulp/interrupt.hpp"
#include "smooth/window.hpp"

namespace halfulp {

// A window that needs no exponentials: nothing in it, one cell, or infinities that decide. True if `result` is it.
template <class T>
bool simple_value(const std::vector<T>& cells, Index padded, bool negative, T& result) {
  const auto n = static_cast<Index>(cells.size());
  if (n + padded <= 1) {
    result = n == 1 ? cells[0] : round_to<T>(0.0);
    return true;
  }
  Index finite = 0;
  double nan = 0.0, largest = 0.0, only = 0.0, smallest = 0.0;
  for (const T cell : cells) {
    const double value = as_double(cell);
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
  else if (finite == 0 && padded == 0)
    result = round_to<T>(smallest);
  else if (finite + padded == 1)
    result = round_to<T>(only + 0.0);
  else
    return false;
  return true;
}

template <class T>
bool all_finite(const std::vector<T>& cells) {
  return std::all_of(cells.begin(), cells.end(), [](T cell) { return std::isfinite(as_double(cell)); });
}

// Whether all cells of a window have the same weight.
template <class T>
bool all_equal(const std::vector<T>& cells, Index padded) {
  return std::all_of(cells.begin(), cells.end(), [&](T cell) {
    return as_double(cell) == (padded > 0 ? 0.0 : as_double(cells[0]));
  });
}

template <class T>
using TermSum = typename ExactSums<std::conditional_t<std::is_same_v<T, double>, double, float>>::terms;

// Derivatives along a direction that need no exponentials: no cell, one cell, equal cells, zero tangents.
template <class T>
bool simple_jvp(const std::vector<T>& cells, const std::vector<T>& t, Index padded, T& result) {
  const bool zero = std::all_of(t.begin(), t.end(), [](T value) { return as_double(value) == 0.0; });
  if (!zero && !all_equal(cells, padded)) return false;
  TermSum<T> sum;
  for (const T value : t) sum.add(as_double(value));
  if (padded > 0) sum.add(0.0);
  result = cells.empty() ? round_to<T>(0.0)
                         : sum.template round_quotient<T>(static_cast<Index>(cells.size()) + padded);
  return true;
}

template <class T>
class SmoothPass {
 public:
  SmoothPass(const SmoothPlan& plan, const ArrayView& x)
      : plan_(plan), x_(x), ndim_(static_cast<int>(plan.windows.size())), kernels_(select_smooth_kernels()) {}

  // Values of some outputs of a plane; returns those that are undecided.
  std::vector<Index> forward(Index plane, const std::vector<Index>& some, const ArrayView& out) {
    std::vector<Index> undecided;
    if (some.empty()) return undecided;
    const Plane<T> to(out, ndim_, plane);
    SmoothBuffers& b = prepared();
    b.batch.value = b.value;
    b.batch.value_low = b.value_low;
    b.batch.value_error = b.value_error;
    batches(plane, some, [&](Index o, Index lane) {
      T result{};
      if (!simple_value(cells_, window_.padded, plan_.beta.negative, result)) return put_lane(lane);
      to[o] = result;
      return false;
    }, [&](const Index* outputs, Index n) {
      const double sign = plan_.beta.negative ? -1.0 : 1.0;
      for (Index i = 0; i < n; ++i)
        if (!decide<T>(sign * b.value[i], sign * b.value_low[i], b.value_error[i], false, false, to[outputs[i]]))
          undecided.push_back(plane * output_count(plan_) + outputs[i]);
    });
    return undecided;
  }

  // Derivatives of some outputs along t.
  std::vector<Index> jvp(Index plane, const std::vector<Index>& some, const ArrayView& t, const ArrayView& out) {
    std::vector<Index> undecided;
    if (some.empty()) return undecided;
    const Plane<T> to(out, ndim_, plane), along(t, ndim_, plane);
    SmoothBuffers& b = prepared();
    std::vector<T> tangents;
    bool above[kSmoothBatch], below[kSmoothBatch];
    batches(plane, some, [&](Index o, Index lane) {
      gather(along, tangents);
      if (!all_finite(cells_) || !all_finite(tangents)) {
        undecided.push_back(plane * output_count(plan_) + o);
        return false;
      }
      if (simple_jvp(cells_, tangents, window_.padded, to[o])) return false;
      above[lane] = below[lane] = true;
      for (std::size_t j = 0; j < static_cast<std::size_t>(b.batch.cells); ++j) {
        const double value = j < tangents.size() ? as_double(tangents[j]) : 0.0;
        b.other[static_cast<Index>(j) * kSmoothBatch + lane] = value;
        above[lane] = above[lane] && value >= 0.0;
        below[lane] = below[lane] && value <= 0.0;
      }
      return put_lane(lane);
    }, [&](const Index* outputs, Index n) {
      kernels_.contract(b.batch, b.other, b.high, b.low, b.error);
      for (Index i = 0; i < n; ++i)
        if (!decide<T>(b.high[i], b.low[i], b.error[i], above[i], below[i], to[outputs[i]]))
          undecided.push_back(plane * output_count(plan_) + outputs[i]);
    });
    return undecided;
  }

  // The cotangents of some cells of a plane.
  std::vector<Index> vjp(Index plane, std::vector<Index> some, const ArrayView& g, const ArrayView& dx);

 private:
  // What the cotangent of one cell is made of.
  struct Cotangent {
    double high = 0.0, low = 0.0, error = 0.0, size = 0.0;
    Index terms = 0, equal = 0;  // equal: how many cells each window has, if those of every window are equal
    bool positive = false, negative = false, positive_zero = false, special = false, weightless = false;

    void note(double g, Index equal_cells) {
      equal = terms == 0 || equal == equal_cells ? equal_cells : 0;
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

  // Room for a batch, made when it is needed first.
  SmoothBuffers& prepared() {
    if (!buffers_) {
      buffers_ = std::make_unique<SmoothBuffers>(largest_window(plan_));
      buffers_->batch.cells = largest_window(plan_);
    }
    return *buffers_;
  }

  void gather(const Plane<T>& from, std::vector<T>& to) const {
    to.clear();
    for (const Index cell : window_.cells) to.push_back(from[cell]);
  }

  // An infinite cell that decides nothing has no weight: it is missing.
  bool put_lane(Index lane) {
    SmoothBuffers& b = *buffers_;
    b.clear_lane(lane);
    for (std::size_t j = 0; j < cells_.size(); ++j) {
      const double value = as_double(cells_[j]);
      if (std::isfinite(value)) b.u[static_cast<Index>(j) * kSmoothBatch + lane] = plan_.beta.negative ? -value : value;
    }
    b.padded[lane] = static_cast<double>(window_.padded);
    return true;
  }

  // Finds each window and calls prepare(output, lane), which says whether it put the window into the batch, and finish
  // on every full batch.
  template <class Prepare, class Finish>
  void batches(Index plane, const std::vector<Index>& some, Prepare prepare, Finish finish) {
    const Plane<T> from(x_, ndim_, plane);
    Index outputs[kSmoothBatch], n = 0;
    const auto flush = [&] {
      if (n == 0) return;
      for (Index lane = n; lane < kSmoothBatch; ++lane) buffers_->clear_lane(lane);
      kernels_.weights(plan_.beta, buffers_->batch);
      finish(outputs, n);
      n = 0;
    };
    for (const Index o : some) {
      poll_interrupts();
      window_.find(plan_, o);
      gather(from, cells_);
      if (!prepare(o, n)) continue;
      outputs[n++] = o;
      if (n == kSmoothBatch) flush();
    }
    flush();
  }

  // The cotangent of a cell, null if nobody asks for it.
  Cotangent* cotangent_of(Index cell) {
    const auto found = std::lower_bound(some_.begin(), some_.end(), cell);
    if (found == some_.end() || *found != cell) return nullptr;
    return &cotangents_[static_cast<std::size_t>(found - some_.begin())];
  }

  void distribute(const Index* outputs, Index n);
  bool add_simple(double g);
  std::vector<Index> windows_of(const std::vector<Index>& some) const;
  bool rounded(Index cell, const Cotangent& c, const Plane<T>& g, T& result) const;

  const SmoothPlan& plan_;
  const ArrayView& x_;
  int ndim_;
  const SmoothKernels& kernels_;
  std::unique_ptr<SmoothBuffers> buffers_;
  WindowCells window_;
  std::vector<T> cells_;  // of the window
  std::vector<Index> some_;
  std::vector<Cotangent> cotangents_;
};

// Notes what a window means for its cells; false if it takes exponentials to tell. NaN, an infinity that decides, a
// window in which nothing has weight and a cotangent that is not finite are left undecided.
template <class T>
bool SmoothPass<T>::add_simple(double g) {
  const double nothing = plan_.beta.negative ? INFINITY : -INFINITY;
  const Index counted = static_cast<Index>(cells_.size()) + window_.padded;
  bool special = !std::isfinite(g), weight = window_.padded > 0;
  for (const T cell : cells_) {
    special = special || !(std::isfinite(as_double(cell)) || as_double(cell) == nothing);
    weight = weight || std::isfinite(as_double(cell));
  }
  special = special || !weight;
  const Index equal = all_equal(cells_, window_.padded) ? counted : 0;
  for (std::size_t j = 0; j < cells_.size(); ++j) {
    Cotangent* const cotangent = cotangent_of(window_.cells[j]);
    if (cotangent == nullptr) continue;
    cotangent->note(g, equal);
    cotangent->special = cotangent->special || special;
    cotangent->weightless = as_double(cells_[j]) == nothing;
    if (counted == 1 && !special) cotangent->add(g, 0.0, 0.0);
  }
  return special || cells_.empty() || g == 0.0 || counted == 1;
}

template <class T>
void SmoothPass<T>::distribute(const Index* outputs, Index n) {
  const SmoothBuffers& b = *buffers_;
  kernels_.distribute(b.batch, b.cotangent, b.high, b.low, b.error);
  for (Index lane = 0; lane < n; ++lane) {
    window_.find(plan_, outputs[lane]);
    for (std::size_t j = 0; j < window_.cells.size(); ++j) {
      const Index k = static_cast<Index>(j) * kSmoothBatch + lane;
      Cotangent* const cotangent = cotangent_of(window_.cells[j]);
      if (cotangent != nullptr) cotangent->add(b.high[k], b.low[k], b.error[k]);
    }
  }
}

// The cotangent of a cell as a T, if it is decided.
template <class T>
bool SmoothPass<T>::rounded(Index cell, const Cotangent& c, const Plane<T>& g, T& result) const {
  if (c.special) return false;
  // Zeros: of no term, of zero cotangents, or of a cell without weight.
  if ((!c.positive && !c.negative) || c.weightless) {
    result = round_to<T>(c.terms > 0 && !c.positive_zero && !c.positive ? -0.0 : 0.0);
    return true;
  }
  // Every low part is at most 2^-53 of its high part's partial sum, and so is each rounding of their sum of it.
  const auto terms = static_cast<double>(c.terms) + 4.0;
  const double error = (c.error + terms * terms * 0x1p-105 * c.size) * 1.01;
  const TwoDoubles both = two_sum(c.high, c.low);
  if (decide<T>(both.high, both.low, error, !c.negative, !c.positive, result)) return true;
  if (c.equal == 0) return false;
  TermSum<T> sum;  // all weights are 1 / equal: a sum and one quotient, which may lie on a boundary
  for (const Index output : windows_of({cell})) sum.add(as_double(g[output]));
  result = sum.template round_quotient<T>(c.equal);
  return true;
}

// The outputs whose windows hold any of these cells, in order.
template <class T>
std::vector<Index> SmoothPass<T>::windows_of(const std::vector<Index>& some) const {
  std::vector<Index> all, outputs, wider;
  for (const Index cell : some) {
    poll_interrupts();
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
    all.insert(all.end(), outputs.begin(), outputs.end());
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

template <class T>
std::vector<Index> SmoothPass<T>::vjp(Index plane, std::vector<Index> some, const ArrayView& g, const ArrayView& dx) {
  std::vector<Index> undecided;
  if (some.empty()) return undecided;
  std::sort(some.begin(), some.end());
  some_ = std::move(some);
  cotangents_.assign(some_.size(), {});
  const Plane<T> from(g, ndim_, plane), to(dx, ndim_, plane);
  SmoothBuffers& b = prepared();
  batches(plane, windows_of(some_), [&](Index o, Index lane) {
    const double cotangent = as_double(from[o]);
    if (add_simple(cotangent)) return false;
    b.cotangent[lane] = cotangent;
    return put_lane(lane);
  }, [&](const Index* outputs, Index n) {
    for (Index lane = n; lane < kSmoothBatch; ++lane) b.cotangent[lane] = 0.0;
    distribute(outputs, n);
  });
  for (std::size_t i = 0; i < some_.size(); ++i)
    if (!rounded(some_[i], cotangents_[i], from, to[some_[i]]))
      undecided.push_back(plane * cell_count(plan_) + some_[i]);
  return undecided;
}

}  // namespace halfulp
