#include "max/cells.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "max/max_kernels.hpp"
#include "base/row_buffer.hpp"
#include "base/row_kernels.hpp"
#include "base/visit_bits.hpp"
#include "exact/round.hpp"
#include "max/walk.hpp"

namespace halfulp {
namespace {

constexpr Index kScratchBytes = Index{1} << 17;

bool key_row(const char* source, Index step, Index items, char* target, const CellBits& bits) {
  const auto keep = static_cast<std::int16_t>(bits.keep), flip = static_cast<std::int16_t>(bits.flip);
  const auto& kernels = select_max_kernels().keys;
  auto* const keys = reinterpret_cast<std::int16_t*>(target);
  if (step == 2)
    return kernels.to_keys(reinterpret_cast<const std::int16_t*>(source), keys, items, keep, flip, bits.infinity);
  for (Index i = 0; i < items; ++i) std::memcpy(target + 2 * i, source + i * step, 2);
  return kernels.to_keys(keys, keys, items, keep, flip, bits.infinity);
}

void value_row(char* row, Index step, Index items, const CellBits& bits) {
  const auto flip = static_cast<std::int16_t>(bits.flip);
  const auto& kernels = select_max_kernels().keys;
  if (step == 2) return kernels.from_keys(reinterpret_cast<std::int16_t*>(row), items, flip);
  for (Index i = 0; i < items; ++i) kernels.from_keys(reinterpret_cast<std::int16_t*>(row + i * step), 1, flip);
}

template <class U>
void change_row(const char* source, Index step, Index items, char* target, Index target_step, const CellBits& bits) {
  constexpr auto kItem = static_cast<Index>(sizeof(U));
  if (step == kItem && target_step == kItem)
    return select_row_kernels().change(source, target, items * kItem, bits.keep, bits.flip);
  const auto keep = static_cast<U>(bits.keep), flip = static_cast<U>(bits.flip);
  for (Index i = 0; i < items; ++i) {
    U cell;
    std::memcpy(&cell, source + i * step, sizeof(U));
    cell = static_cast<U>((cell & keep) ^ flip);
    std::memcpy(target + i * target_step, &cell, sizeof(U));
  }
}

// Calls row(offset in a, offset in b) for every row of lanes or, if there is one lane, of cells of the last axis.
template <class Row>
void rows(const Index* sizes, int ndim, Index lanes, const Index* a, const Index* b, const Row& row) {
  const int axes = lanes > 1 ? ndim : ndim - 1;
  Index counter[kMaxRank] = {}, at_a = 0, at_b = 0;
  for (int i = 0; i < ndim; ++i)
    if (sizes[i] == 0) return;
  for (;;) {
    row(at_a, at_b);
    int i = axes - 1;
    for (; i >= 0; --i) {
      at_a += a[i];
      at_b += b[i];
      if (++counter[i] < sizes[i]) break;
      at_a -= counter[i] * a[i];
      at_b -= counter[i] * b[i];
      counter[i] = 0;
    }
    if (i < 0) return;
  }
}

// The cells [first, stop) of the first axis that engines read for output rows [begin, end): a line as a whole, with the
// cells that no window holds.
struct Span {
  Index first = 0, stop = 0;
};

Span span_of(const MaxPlan& plan, Index begin, Index end) {
  if (plan.ndim() == 1) return {0, plan.axes[0].size};
  const MaxPlan::Spans& s = plan.spans[0];
  Span span{plan.axes[0].size, 0};
  for (auto o = static_cast<std::size_t>(begin); o < static_cast<std::size_t>(end); ++o) {
    if (s.count[o] == 0) continue;
    span.first = std::min(span.first, s.begin[o]);
    span.stop = std::max(span.stop, s.begin[o] + (s.count[o] - 1) * plan.axes[0].dilation + 1);
  }
  return span.first < span.stop ? span : Span{};
}

template <class T>
void make_nans_quiet(T* values, Index n) noexcept {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16> || std::is_floating_point_v<T>) {
    using F = format_of<T>;
    using Bits = typename F::bits_type;
    const auto magnitude = [](T x) { return static_cast<Bits>(std::bit_cast<Bits>(x) & static_cast<Bits>(~F::sign)); };
    Bits largest = 0;
    for (Index i = 0; i < n; ++i) largest = magnitude(values[i]) > largest ? magnitude(values[i]) : largest;
    if (largest <= F::infinity) return;
    for (Index i = 0; i < n; ++i)
      if (magnitude(values[i]) > F::infinity) values[i] = std::bit_cast<T>(F::quiet_nan);
  }
}

template <class T>
void make_rows_quiet(const MaxPlan& plan, const MaxPlane& plane, Index begin, Index end) {
  const int last = plan.ndim() - 1;
  const Index step = plane.out.strides[last];
  const auto make_row_quiet = [&](char* row, Index positions) {
    if (step == plane.lanes * static_cast<Index>(sizeof(T)))
      return make_nans_quiet(reinterpret_cast<T*>(row), positions * plane.lanes);
    for (Index o = 0; o < positions; ++o) make_nans_quiet(reinterpret_cast<T*>(row + o * step), plane.lanes);
  };
  if (last == 0) return make_row_quiet(plane.out.data + begin * step, end - begin);
  walk::outer_outputs(plan, last, begin, end, [&](const Index* output) {
    make_row_quiet(plane.out.data + walk::position(output, plane.out.strides, last), plan.axes.back().output);
    return true;
  });
}

}  // namespace

// The order of negated floats is that of flipped signs, the order of negated integers that of complements, which do not
// overflow.
CellBits cell_bits(DType dtype, Cells cells) noexcept {
  CellBits bits;
  if (cells == Cells::plain) return bits;
  visit_bits(dtype, [&](auto unsigned_integer) {
    using U = decltype(unsigned_integer);
    constexpr U all = std::numeric_limits<U>::max(), sign = static_cast<U>(all ^ (all >> 1));
    constexpr std::uint64_t every = ~std::uint64_t{0} / all;  // a one in each item of a word
    if (cells == Cells::negated) bits.flip = every * (is_float(dtype) ? sign : dtype == DType::boolean ? U{1} : all);
    else if (is_float(dtype)) bits.keep = ~(every * sign);
  });
  return bits;
}

CellBits key_bits(DType dtype, Cells cells) noexcept {
  CellBits bits = cell_bits(dtype, cells);
  bits.infinity = dtype == DType::f16 ? 0x7c00 : 0x7f80;
  return bits;
}

Index ChangedCells::run_end(const MaxPlan& plan, const MaxPlane& plane, Index begin, Index end) const {
  const Axis& axis = plan.axes[0];
  const Index row = static_cast<Index>(item_size(plane.dtype)) * plane.lanes *
                    std::max<Index>(1, plan.plane_cells / std::max<Index>(1, axis.size));
  // The windows of a line are one run, and runs should not read many rows twice.
  if (plan.ndim() == 1 || axis.size <= 2 * kScratchBytes / row) return end;
  const Index extent = axis.adaptive ? axis.kernel : std::min(axis.extent(), axis.size);
  const Index cells = std::max(kScratchBytes / row, 4 * extent);
  const Index outputs = std::max<Index>(1, cells * axis.output / std::max<Index>(1, axis.size));
  return std::min(end, begin + outputs);
}

MaxPlane ChangedCells::change(const MaxPlan& plan, const MaxPlane& plane, Index begin, Index end,
                              const CellBits& bits) {
  ordered_ = true;
  const int ndim = plan.ndim();
  const auto item = static_cast<Index>(item_size(plane.dtype));
  const Span span = span_of(plan, begin, end);
  Index sizes[kMaxRank];
  Index step = item * plane.lanes;
  for (int a = ndim - 1; a >= 0; --a) {
    sizes[a] = a == 0 ? span.stop - span.first : plan.axes[static_cast<std::size_t>(a)].size;
    strides_[a] = step;
    step *= sizes[a];
  }
  const auto words = static_cast<std::size_t>((step + 2 * kRowSlack) / 8 + 8);
  if (scratch_.size() < words) scratch_.resize(words);
  char* const target = reinterpret_cast<char*>(scratch_.data()) +
                       (64 - reinterpret_cast<std::uintptr_t>(scratch_.data()) % 64) % 64;  // whole cache lines
  const char* const source = plane.x.data + span.first * plane.x.strides[0];
  const bool lanes = plane.lanes > 1;
  visit_bits(plane.dtype, [&](auto unsigned_integer) {
    using U = decltype(unsigned_integer);
    const auto change_items = [&](const char* from, Index from_step, Index items, char* to) {
      if (bits.infinity == 0) return change_row<U>(from, from_step, items, to, item, bits);
      ordered_ = key_row(from, from_step, items, to, bits) && ordered_;
    };
    if (std::equal(strides_, strides_ + ndim, plane.x.strides))  // one dense block
      return change_items(source, item, step / item, target);
    const Index items = lanes ? plane.lanes : sizes[ndim - 1];
    const Index from_step = lanes ? item : plane.x.strides[ndim - 1];
    rows(sizes, ndim, plane.lanes, plane.x.strides, strides_, [&](Index from, Index to) {
      change_items(source + from, from_step, items, target + to);
    });
  });
  MaxPlane changed = plane;
  changed.x = {target - span.first * strides_[0], strides_};
  changed.stream = false;  // the values are read again at once
  return changed;
}

void ChangedCells::restore(const MaxPlan& plan, const MaxPlane& plane, Index begin, Index end, const CellBits& bits) {
  if (bits.flip == 0 && bits.infinity == 0) return;
  const int ndim = plan.ndim();
  const auto item = static_cast<Index>(item_size(plane.dtype));
  Index sizes[kMaxRank];
  for (int a = 0; a < ndim; ++a) sizes[a] = a == 0 ? end - begin : plan.axes[static_cast<std::size_t>(a)].output;
  char* const data = plane.out.data + begin * plane.out.strides[0];
  const bool lanes = plane.lanes > 1;
  visit_bits(plane.dtype, [&](auto unsigned_integer) {
    using U = decltype(unsigned_integer);
    const Index items = lanes ? plane.lanes : sizes[ndim - 1];
    const Index step = lanes ? item : plane.out.strides[ndim - 1];
    rows(sizes, ndim, plane.lanes, plane.out.strides, plane.out.strides, [&](Index at, Index) {
      if (bits.infinity != 0) return value_row(data + at, step, items, bits);
      change_row<U>(data + at, step, items, data + at, step, bits);
    });
  });
  if (!plan.any_empty) return;
  walk::outputs(plan, begin, end, [&](const Index* output) {
    bool empty = false;
    for (int a = 0; a < ndim; ++a)
      empty = empty || plan.spans[static_cast<std::size_t>(a)].count[static_cast<std::size_t>(output[a])] == 0;
    if (empty)
      std::memset(plane.out.data + walk::position(output, plane.out.strides, ndim), 0,
                  static_cast<std::size_t>(item * plane.lanes));
  });
}

void make_plane_quiet(const MaxPlan& plan, const MaxPlane& plane, Index begin, Index end) {
  if (!is_float(plane.dtype)) return;
  for (const Axis& axis : plan.axes)
    if (axis.output == 0) return;
  visit_float(plane.dtype, [&](auto tag) { make_rows_quiet<decltype(tag)>(plan, plane, begin, end); });
}

}  // namespace halfulp
