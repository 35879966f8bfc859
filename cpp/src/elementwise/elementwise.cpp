#include "halfulp/elementwise.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/convert_kernels.hpp"
#include "elementwise/elementwise_kernels.hpp"
#include "elementwise/limits.hpp"
#include "exact/round.hpp"
#include "halfulp/engines.hpp"
#include "halfulp/interrupt.hpp"
#include "halfulp/parallel.hpp"

namespace halfulp {
namespace {

constexpr Index kBlock = kElementwiseBlock;

// The order of axes in which `out` lies in memory, outermost first.
Sizes memory_order(const ArrayView& out) {
  Sizes order;
  for (int axis = 0; axis < out.ndim(); ++axis) order.push_back(axis);
  std::stable_sort(order.data(), order.data() + order.size(), [&](Index a, Index b) {
    return out.strides[static_cast<int>(a)] > out.strides[static_cast<int>(b)];
  });
  return order;
}

// An array read in the order of the output's memory.
class Reader {
 public:
  Reader(const ArrayView& view, const Sizes& order) : view_{view.data, view.dtype, {}, {}} {
    for (const Index axis : order) {
      view_.shape.push_back(view.shape[static_cast<int>(axis)]);
      view_.strides.push_back(view.strides[static_cast<int>(axis)]);
    }
    Index expected = static_cast<Index>(item_size(view.dtype));
    for (int axis = view_.ndim() - 1; axis >= 0; --axis) {
      if (view_.shape[axis] != 1 && view_.strides[axis] != expected) dense_ = false;
      expected *= view_.shape[axis];
    }
  }

  // `count` elements from number `first` on, as they lie or gathered into `scratch`.
  template <class T>
  const T* run(Index first, Index count, T* scratch) const {
    if (dense_) return view_.as<T>() + first;
    const int last = view_.ndim() - 1;
    const Index row = view_.shape[last], stride = view_.strides[last];
    for (Index done = 0; done < count;) {
      const Index at = first + done, within = at % row, take = std::min(row - within, count - done);
      const char* source = view_.data + offset_of(view_, at / row, last) + within * stride;
      for (Index i = 0; i < take; ++i) std::memcpy(scratch + done + i, source + i * stride, sizeof(T));
      done += take;
    }
    return scratch;
  }

 private:
  ArrayView view_;
  bool dense_ = true;
};

void widen(const float* in, double* out, Index n) { select_elementwise_kernels().widen_f32(in, out, n); }
void widen(const double* in, double* out, Index n) { std::copy(in, in + n, out); }
void widen(const Float16* in, double* out, Index n) {
  float wide[kBlock];
  select_convert_kernels().from_f16(in, wide, n);
  widen(wide, out, n);
}
void widen(const BFloat16* in, double* out, Index n) {
  float wide[kBlock];
  select_convert_kernels().from_bf16(in, wide, n);
  widen(wide, out, n);
}

bool finish(const ElementwiseKernels& k, const double* v, const double* e, float* out, std::uint8_t* u, Index n) {
  return k.finish_f32(v, e, out, u, n);
}
bool finish(const ElementwiseKernels& k, const double* v, const double* e, Float16* out, std::uint8_t* u, Index n) {
  return k.finish_f16(v, e, out, u, n);
}
bool finish(const ElementwiseKernels& k, const double* v, const double* e, BFloat16* out, std::uint8_t* u, Index n) {
  return k.finish_bf16(v, e, out, u, n);
}

double step(double x, bool up) { return std::nextafter(x, up ? limits::kInfinity : -limits::kInfinity); }
// Of two neighbours the one whose last bit is set: rounding it gives what rounding any number between them gives.
double odd_of(double a, double b) { return (std::bit_cast<std::uint64_t>(a) & 1u) != 0 ? a : b; }

// Rounds high + low +- error, |low| at most half an ulp of high; false if that is undecided.
template <class T>
bool round_pair(double high, double low, double error, T& out) {
  if (!(error >= 0.0) || !std::isfinite(high) || !std::isfinite(low)) return false;
  if (error == 0.0 && low == 0.0) {
    out = round_to<T>(high);
    return true;
  }
  if (high == 0.0) return false;
  if (low - error > 0.0) {
    out = round_to<T>(odd_of(high, step(high, true)));
    return true;
  }
  if (low + error < 0.0) {
    out = round_to<T>(odd_of(high, step(high, false)));
    return true;
  }
  out = round_to<T>(high);
  return same_rounding<T>(step(high, false), step(high, true));
}
template <>
bool round_pair<double>(double, double, double, double&) {
  return false;  // the block's rounding has tried
}

template <class T>
class Worker {
 public:
  Worker(const Elementwise& op, const ArrayView& x, const ArrayView* t, const ArrayView& out)
      : op_(op), out_(out), order_(memory_order(out)), x_(x, order_), has_t_(t != nullptr),
        t_(t != nullptr ? *t : x, order_) {}

  void run(Index begin, Index end, ElementwiseRest& rest) const {
    const ElementwiseKernels& k = select_elementwise_kernels();
    unsigned polls = 0;
    for (Index first = begin; first < end; first += kBlock) {
      if ((polls++ & 15u) == 0) poll_interrupts();
      block(k, first, std::min(kBlock, end - first), rest);
    }
  }

 private:
  void block(const ElementwiseKernels& k, Index first, Index count, ElementwiseRest& rest) const {
    alignas(64) double x[kBlock], t[kBlock], value[kBlock], low[kBlock], error[kBlock];
    T scratch[kBlock];
    std::uint8_t undecided[kBlock];
    const Index padded = (count + k.lanes - 1) / k.lanes * k.lanes;
    widen(x_.template run<T>(first, count, scratch), x, count);
    std::fill(x + count, x + padded, 1.0);
    if (has_t_) {
      widen(t_.template run<T>(first, count, scratch), t, count);
      std::fill(t + count, t + padded, 1.0);
    }
    const double* along = has_t_ ? t : nullptr;
    T* target = padded == count ? out_.as<T>() + first : scratch;
    bool all = false;
    const int f = static_cast<int>(op_.function);
    if constexpr (std::is_same_v<T, double>) {
      k.pair[f](op_.parameters, x, along, value, low, error, padded);
      all = k.finish_f64(value, low, error, target, undecided, padded);
    } else {
      k.quick[f](op_.parameters, x, along, value, error, padded);
      all = finish(k, value, error, target, undecided, padded);
    }
    if (!all) resolve(k, first, count, x, along, undecided, target, rest);
    if (target == scratch) std::copy(scratch, scratch + count, out_.as<T>() + first);
  }

  void resolve(const ElementwiseKernels& k, Index first, Index count, const double* x, const double* t,
               const std::uint8_t* undecided, T* target, ElementwiseRest& rest) const {
    Index left[kBlock], n = 0;
    for (Index i = 0; i < count; ++i) {
      if (undecided[i] == 0) continue;
      const auto limit = limit_of(op_.function, op_.parameters, x[i], t == nullptr ? nullptr : t + i);
      if (limit) target[i] = round_to<T>(*limit);
      else left[n++] = i;
    }
    if (n == 0) return;
    count_engine(Engine::elementwise_pair, n);
    alignas(64) double some_x[kBlock], some_t[kBlock], high[kBlock], low[kBlock], error[kBlock];
    const Index padded = (n + k.lanes - 1) / k.lanes * k.lanes;
    std::fill(some_x, some_x + padded, 1.0);
    std::fill(some_t, some_t + padded, 1.0);
    for (Index i = 0; i < n; ++i) {
      some_x[i] = x[left[i]];
      if (t != nullptr) some_t[i] = t[left[i]];
    }
    const int f = static_cast<int>(op_.function);
    if constexpr (!std::is_same_v<T, double>)
      k.pair[f](op_.parameters, some_x, t == nullptr ? nullptr : some_t, high, low, error, padded);
    for (Index i = 0; i < n; ++i) {
      if (round_pair<T>(high[i], low[i], error[i], target[left[i]])) continue;
      rest.positions.push_back(row_major(first + left[i]));
      rest.x.push_back(some_x[i]);
      rest.t.push_back(some_t[i]);
    }
  }

  // The row-major position of an element given by its number in the output's memory.
  Index row_major(Index number) const {
    Sizes index;
    index.resize(out_.ndim());
    for (int i = out_.ndim() - 1; i >= 0; --i) {
      const int axis = static_cast<int>(order_[i]);
      index[axis] = number % out_.shape[axis];
      number /= out_.shape[axis];
    }
    Index position = 0;
    for (int axis = 0; axis < out_.ndim(); ++axis) position = position * out_.shape[axis] + index[axis];
    return position;
  }

  Elementwise op_;
  ArrayView out_;
  Sizes order_;
  Reader x_;
  bool has_t_;
  Reader t_;
};

}  // namespace

ElementwiseRest elementwise(const Elementwise& op, const ArrayView& x, const ArrayView* t, const ArrayView& out) {
  ElementwiseRest all;
  if (out.count() == 0) return all;
  count_engine(Engine::elementwise);
  std::mutex mutex;
  visit_float(x.dtype, [&](auto type) {
    const Worker<decltype(type)> worker(op, x, t, out);
    const Index blocks = (out.count() + kBlock - 1) / kBlock;
    parallel_for(blocks, 8, [&](Index begin, Index end) {
      ElementwiseRest mine;
      worker.run(begin * kBlock, std::min(end * kBlock, out.count()), mine);
      if (mine.positions.empty()) return;
      const std::lock_guard lock(mutex);
      all.positions.insert(all.positions.end(), mine.positions.begin(), mine.positions.end());
      all.x.insert(all.x.end(), mine.x.begin(), mine.x.end());
      all.t.insert(all.t.end(), mine.t.begin(), mine.t.end());
    });
  });
  return all;
}

}  // namespace halfulp
