// The window walk: every window, every real cell of it in row-major order. The meaning of hard max in scalar code, for
// any layout and policy; the vectorised paths fall back on it.
#pragma once

#include <type_traits>

#include "halfulp/array.hpp"
#include "halfulp/dtype.hpp"
#include "halfulp/max_pool.hpp"

namespace halfulp::walk {

// The type that comparisons happen in.
template <class T>
struct Compute {
  using type = T;
};
template <> struct Compute<Float16> { using type = float; };
template <> struct Compute<BFloat16> { using type = float; };
template <> struct Compute<Bool> { using type = std::uint8_t; };
template <class T>
using compute_t = typename Compute<T>::type;

template <class T>
compute_t<T> value_of(T x) noexcept {
  if constexpr (std::is_same_v<T, Bool>) return x.value;
  else if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) return to_float(x);
  else return x;
}

template <class C>
bool is_nan(C x) noexcept {
  return x != x;
}

// Whether x, which comes later, takes the place of best.
template <class C>
bool takes_over(C x, C best, bool last, NanPolicy nan) noexcept {
  if constexpr (std::is_floating_point_v<C>) {
    if (nan == NanPolicy::ignore) return last ? (x >= best || is_nan(best)) : (!(x <= best) && !is_nan(x));
    return last ? (x >= best || is_nan(x)) : (!(x <= best) && !is_nan(best));
  } else {
    return last ? x >= best : x > best;
  }
}

// Positions of one window: where it stands in the output and which real cells it has.
struct Window {
  Index output[kMaxRank];
};

// The flat code of a cell in its window: its offsets, row-major in the kernel's box.
inline Index code_stride(const MaxPlan& plan, int axis) noexcept {
  Index stride = 1;
  for (int a = plan.ndim() - 1; a > axis; --a) stride *= plan.axes[a].kernel;
  return stride;
}

// Calls visit(byte offset of the cell, code, flat index in the plane) for every real cell, in row-major order.
// strides: byte strides of the spatial axes.
template <class Visit>
void cells(const MaxPlan& plan, const Index* output, const Index* strides, Visit&& visit) {
  const int ndim = plan.ndim();
  Index counter[kMaxRank], offset = 0, code = 0, flat = 0;
  Index code_steps[kMaxRank], flat_steps[kMaxRank];
  Index code_step = 1, flat_step = 1;
  for (int a = ndim - 1; a >= 0; --a) {
    const MaxPlan::Spans& s = plan.spans[a];
    const Index o = output[a];
    if (s.count[o] == 0) return;
    counter[a] = 0;
    code_steps[a] = code_step;
    flat_steps[a] = flat_step * plan.axes[a].dilation;
    offset += s.begin[o] * strides[a];
    code += s.offset[o] * code_step;
    flat += s.begin[o] * flat_step;
    code_step *= plan.axes[a].kernel;
    flat_step *= plan.axes[a].size;
  }
  const int inner = ndim - 1;
  const Index inner_count = plan.spans[inner].count[output[inner]];
  const Index inner_stride = strides[inner] * plan.axes[inner].dilation;
  while (true) {
    for (Index i = 0; i < inner_count; ++i) visit(offset + i * inner_stride, code + i, flat + i * flat_steps[inner]);
    int a = inner - 1;
    for (; a >= 0; --a) {
      offset += strides[a] * plan.axes[a].dilation;
      code += code_steps[a];
      flat += flat_steps[a];
      if (++counter[a] < plan.spans[a].count[output[a]]) break;
      offset -= counter[a] * strides[a] * plan.axes[a].dilation;
      code -= counter[a] * code_steps[a];
      flat -= counter[a] * flat_steps[a];
      counter[a] = 0;
    }
    if (a < 0) return;
  }
}

struct Best {
  Index offset = 0;  // of the winner, in bytes from the start of the plane
  Index code = 0;
  Index flat = -1;  // -1 if there is no real cell
};

template <class T>
Best best_of(const MaxPlan& plan, const char* plane, const Index* output, const Index* strides) {
  Best best;
  compute_t<T> value{};
  const bool last = plan.ties == Ties::last;
  cells(plan, output, strides, [&](Index offset, Index code, Index flat) {
    const compute_t<T> x = value_of(*reinterpret_cast<const T*>(plane + offset));
    if (best.flat >= 0 && !takes_over(x, value, last, plan.nan)) return;
    best = {offset, code, flat};
    value = x;
  });
  return best;
}

// Whether a cell is among the winners of a window whose best value is `best`.
template <class C>
bool wins(C x, C best) noexcept {
  return x == best || (is_nan(x) && is_nan(best));
}

// Calls visit(output index array, byte offset in an array with these strides per output axis) for the outputs of a plane
// whose first coordinate lies in [begin, end), in row-major order.
template <class Visit>
void outputs(const MaxPlan& plan, Index begin, Index end, Visit&& visit) {
  const int ndim = plan.ndim();
  Index output[kMaxRank] = {};
  for (int a = 1; a < ndim; ++a)
    if (plan.axes[a].output == 0) return;
  for (output[0] = begin; output[0] < end;) {
    visit(static_cast<const Index*>(output));
    int a = ndim - 1;
    for (; a > 0; --a) {
      if (++output[a] < plan.axes[a].output) break;
      output[a] = 0;
    }
    if (a == 0) ++output[0];
  }
}

inline Index position(const Index* output, const Index* strides, int ndim) noexcept {
  Index offset = 0;
  for (int a = 0; a < ndim; ++a) offset += output[a] * strides[a];
  return offset;
}

}  // namespace halfulp::walk
