// The window walk: every window, every real cell of it in row-major order. The meaning of hard max in scalar code, for
// any layout and policy; the vectorised paths fall back on it.
#pragma once

#include <cstring>
#include <type_traits>
#include <vector>

#include "halfulp/array.hpp"
#include "halfulp/dtype.hpp"
#include "max/plane.hpp"

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

// Calls visit(byte offset, code, flat index) for the first real cell of every row of a window, in row-major order,
// while it returns true. The row's other cells are spans.count - 1 of the last axis, a dilation apart.
// strides: byte strides of the spatial axes.
template <class Visit>
void cell_rows(const MaxPlan& plan, const Index* output, const Index* strides, Visit&& visit) {
  const int inner = plan.ndim() - 1;
  Index counter[kMaxRank], offset = 0, code = 0, flat = 0;
  Index code_steps[kMaxRank], flat_steps[kMaxRank];
  Index code_step = 1, flat_step = 1;
  for (int a = inner; a >= 0; --a) {
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
  while (visit(offset, code, flat)) {
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

// Calls visit(byte offset of the cell, code, flat index in the plane) for every real cell, in row-major order.
template <class Visit>
void cells(const MaxPlan& plan, const Index* output, const Index* strides, Visit&& visit) {
  const int inner = plan.ndim() - 1;
  const Index count = plan.spans[inner].count[output[inner]], dilation = plan.axes[inner].dilation;
  cell_rows(plan, output, strides, [&](Index offset, Index code, Index flat) {
    for (Index i = 0; i < count; ++i) visit(offset + i * strides[inner] * dilation, code + i, flat + i * dilation);
    return true;
  });
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
  return (x == best) | (is_nan(x) & is_nan(best));  // no branch, so that rows of cells are compared in vectors
}

// Calls visit(output index array) for the outputs of a plane whose first coordinate lies in [begin, end), in row-major
// order.
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

// Calls visit(output) for the outputs of the first axes, those of the very first in [begin, end), in row-major order,
// while it returns true; it may write to the others.
template <class Visit>
void outer_outputs(const MaxPlan& plan, int axes, Index begin, Index end, Visit&& visit) {
  Index output[kMaxRank] = {begin};
  while (output[0] < end && visit(static_cast<Index*>(output))) {
    for (int a = axes - 1; a >= 0; --a) {
      if (++output[a] < plan.axes[a].output || a == 0) break;
      output[a] = 0;
    }
  }
}

// The byte offsets of the rows of cells that a window has, if those are what the first axes leave, in row-major order.
inline void window_rows(const MaxPlan& plan, int axes, const Index* output, const Index* strides,
                        std::vector<Index>& rows) {
  rows.assign(1, 0);
  for (int a = 0; a < axes; ++a) {
    const Index first = plan.spans[a].begin[output[a]], count = plan.spans[a].count[output[a]];
    const auto known = static_cast<Index>(rows.size());
    rows.resize(static_cast<std::size_t>(known * count));
    for (Index i = known; i-- > 0;)  // in place, from the end
      for (Index t = count; t-- > 0;)
        rows[i * count + t] = rows[i] + (first + t * plan.axes[a].dilation) * strides[a];
  }
}

inline Index position(const Index* output, const Index* strides, int ndim) noexcept {
  Index offset = 0;
  for (int a = 0; a < ndim; ++a) offset += output[a] * strides[a];
  return offset;
}

inline void store_code(std::uint8_t* target, Index bytes, Index code) noexcept {
  switch (bytes) {
    case 1: *target = static_cast<std::uint8_t>(code); break;
    case 2: { const auto v = static_cast<std::uint16_t>(code); std::memcpy(target, &v, 2); break; }
    case 4: { const auto v = static_cast<std::uint32_t>(code); std::memcpy(target, &v, 4); break; }
    default: std::memcpy(target, &code, 8); break;
  }
}

template <class U>
U& item(const Plane& plane, const Index* output, int ndim) noexcept {
  return *reinterpret_cast<U*>(plane.data + position(output, plane.strides, ndim));
}

// The tangent of the cell with this flat index in the plane.
template <class T>
T tangent_at(const MaxPlan& plan, const MaxPlane& plane, Index flat) noexcept {
  Index offset = 0;
  for (int a = plan.ndim() - 1; a >= 0; --a) {
    offset += (flat % plan.axes[a].size) * plane.tangent.strides[a];
    flat /= plan.axes[a].size;
  }
  return *reinterpret_cast<const T*>(plane.tangent.data + offset);
}

// Writes the index, tangent and code of a window with one winner, whichever are wanted.
template <class T>
void record_best(const MaxPlan& plan, const MaxPlane& plane, const Index* output, const Best& best) noexcept {
  const int ndim = plan.ndim();
  const bool real = best.flat >= 0;
  if (plane.indices) item<std::int64_t>(plane.indices, output, ndim) = real ? best.flat + plane.first_index : -1;
  if (plane.tangent) item<T>(plane.out_tangent, output, ndim) = real ? tangent_at<T>(plan, plane, best.flat) : T{};
  if (plane.winners) store_code(&item<std::uint8_t>(plane.winners, output, ndim), plane.winner_bytes, best.code);
}

}  // namespace halfulp::walk
