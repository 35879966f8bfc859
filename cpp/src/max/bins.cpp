// Hard max by bins: the rows of a window are folded first, then its columns. For adaptive and global windows, and for
// sliding ones that hardly overlap. That order finds the right value, but of equal cells any: the one that wins is
// looked up afterwards, where its index, code or tangent is wanted or where the value is a zero of either sign.
#include <limits>
#include <vector>

#include "exact/exact_sum.hpp"
#include "max/row_loader.hpp"
#include "max/plane.hpp"
#include "max/walk.hpp"

namespace halfulp {
namespace {

constexpr Index kRowsAtOnce = 8;
constexpr Index kChunkItems = Index{1} << 13;  // columns are taken in runs whose folded row stays in the first cache
constexpr Index kVectorBytes = 64;             // of the widest instruction set

// Outputs [begin, end) of the last axis and the cells [first, stop) that they hold.
struct Chunk {
  Index begin, end, first, stop;
};

// Finds the winners of windows whose values are known, where they matter.
template <class T>
class WinnerSearch {
 public:
  using C = walk::compute_t<T>;

  WinnerSearch(const MaxPlan& plan, const MaxPlane& plane) : plan_(plan), plane_(plane), last_(plan.ndim() - 1) {}

  // The values of a chunk of outputs: what is to be known of their winners is written, and a zero gets its sign. `real`
  // says whether the windows have cells along the other axes.
  void finish(Index* output, const Chunk& chunk, bool real, C* values) const {
    const Index lanes = plane_.lanes;
    const bool value_only = plane_.value_only();
    MaxPlane lane = plane_;
    for (Index i = 0; i < (chunk.end - chunk.begin) * lanes; ++i) {
      output[last_] = chunk.begin + i / lanes;
      const bool cells = real && plan_.spans.back().count[static_cast<std::size_t>(output[last_])] > 0;
      if (!cells) values[i] = C{};
      if (cells && value_only && (!std::is_floating_point_v<C> || values[i] != 0)) continue;
      if (lanes > 1) lane = lane_of(plane_, i % lanes);
      const bool all = plan_.many_winners() && !value_only && !plane_.indices;
      walk::Best best;
      if constexpr (is_float(dtype_of<T>)) {
        if (all) best = all_winners(lane, output, cells, values[i]);
      }
      if (!all && cells) best = winner(lane, output, values[i]);
      if (cells) values[i] = walk::value_of(*reinterpret_cast<const T*>(lane.x.data + best.offset));
      if (!all && !value_only) walk::record_best<T>(plan_, lane, output, best);
    }
  }

 private:
  // The first of all cells that have the value of a window. They are recorded, and their tangents summed.
  walk::Best all_winners(const MaxPlane& one, const Index* output, bool cells, C value) const {
    const int ndim = plan_.ndim();
    const Index count = plan_.spans.back().count[static_cast<std::size_t>(output[last_])];
    const Index stride = one.x.strides[last_];
    auto* const record = one.winners ? &walk::item<std::uint8_t>(one.winners, output, ndim) : nullptr;
    if (record != nullptr) std::memset(record, 0, static_cast<std::size_t>(one.winner_bytes));
    walk::Best first;
    Index winners = 0;
    typename ExactSums<C>::terms sum;
    const auto take = [&](const walk::Best& found) {
      if (winners++ == 0) first = found;
      if (record != nullptr) record[found.code / 8] |= static_cast<std::uint8_t>(1u << (found.code % 8));
      if (one.tangent)
        sum.add(static_cast<double>(walk::value_of(walk::tangent_at<T>(plan_, one, found.flat))));
    };
    if (cells)
      walk::cell_rows(plan_, output, one.x.strides, [&](Index offset, Index code, Index flat) {
        for (Index i = 0; i < count; ++i) {
          const Index more = first_match(one.x.data + offset + i * stride, stride, count - i, value);
          if (more < 0) break;
          i += more;
          take({offset + i * stride, code + i, flat + i});
        }
        return true;
      });
    if (one.tangent) {
      T& target = walk::item<T>(one.out_tangent, output, ndim);
      target = winners == 0 ? T{} : sum.template round_quotient<T>(plan_.ties == Ties::split ? winners : 1);
    }
    return first;
  }

  // The first cell of a window that has its value, or the last; of a NaN, any NaN is.
  walk::Best winner(const MaxPlane& one, const Index* output, C value) const {
    walk::Best best;
    const bool last = plan_.ties == Ties::last;
    const Index count = plan_.spans.back().count[static_cast<std::size_t>(output[last_])];
    const Index stride = one.x.strides[last_];
    walk::cell_rows(plan_, output, one.x.strides, [&](Index offset, Index code, Index flat) {
      const Index i = last ? last_match(one.x.data + offset, stride, count, value)
                           : first_match(one.x.data + offset, stride, count, value);
      if (i < 0) return true;
      best = {offset + i * stride, code + i, flat + i};
      return last;
    });
    return best;
  }

  static bool matches(const char* cell, C value) noexcept {
    return walk::wins(walk::value_of(*reinterpret_cast<const T*>(cell)), value);
  }

  static Index first_match(const char* row, Index stride, Index count, C value) noexcept {
    constexpr Index block = 32;
    // Of contiguous cells, blocks without a match are passed over without a branch per cell.
    const auto* cells = reinterpret_cast<const T*>(row);
    Index i = 0;
    for (; stride == static_cast<Index>(sizeof(T)) && i + block <= count; i += block) {
      int found = 0;
      for (Index j = i; j < i + block; ++j) found |= walk::wins(walk::value_of(cells[j]), value);
      if (found != 0) break;
    }
    for (; i < count; ++i)
      if (matches(row + i * stride, value)) return i;
    return -1;
  }

  static Index last_match(const char* row, Index stride, Index count, C value) noexcept {
    for (Index j = count - 1; j >= 0; --j)
      if (matches(row + j * stride, value)) return j;
    return -1;
  }

  const MaxPlan& plan_;
  const MaxPlane& plane_;
  int last_;
};

class Bins final : public PlaneEngine {
 public:
  Bins(const MaxPlan& plan, const CellType& type, Index lanes)
      : plan_(plan),
        type_(type),
        kernels_(select_max_kernels().rows[static_cast<int>(type.compared)]),
        last_(plan.ndim() - 1),
        lanes_(lanes),
        most_cells_(std::min(plan.axes.back().size, std::max<Index>(kVectorBytes, kChunkItems / lanes))),
        loader_({most_cells_, 0, 1, lanes, padded_items(most_cells_ * lanes, type.item), last_ == 0 ? 1 : kRowsAtOnce},
                type, 0),
        rule_(plan.nan == NanPolicy::propagate ? MaxRule::propagate : MaxRule::absent) {
    folded_.assign(padded_items(most_cells_ * lanes, type.item), type.item);
    const Index most_outputs = std::min(plan.axes.back().output, most_cells_);
    values_.assign(padded_items(most_outputs * lanes, type.item), type.item);
  }

  bool run(const MaxPlane& plane, Index begin, Index end) override {
    plane_ = &plane;
    if (last_ == 0) {
      Index output[1] = {};
      columns(output, begin, end);
      return true;
    }
    walk::outer_outputs(plan_, last_, begin, end, [&](Index* output) {
      columns(output, 0, plan_.axes.back().output);
      return true;
    });
    return true;
  }

 private:
  static std::size_t at(Index i) noexcept { return static_cast<std::size_t>(i); }
  const MaxPlan::Spans& spans(int axis) const noexcept { return plan_.spans[at(axis)]; }
  Index begin_of(int axis, const Index* output) const noexcept { return spans(axis).begin[at(output[axis])]; }
  Index count_of(int axis, const Index* output) const noexcept { return spans(axis).count[at(output[axis])]; }

  // The outputs [begin, end) of the last axis for one output of each other, chunk by chunk.
  void columns(Index* output, Index begin, Index end) {
    bool real = true;
    for (int a = 0; a < last_; ++a) real = real && count_of(a, output) > 0;
    while (begin < end) {
      const Chunk chunk = next_chunk(begin, end);
      if (real && chunk.first < chunk.stop && !whole_rows(output, chunk)) fold(output, chunk);
      write_chunk(output, chunk, real);
      begin = chunk.end;
    }
  }

  // As many outputs as have cells enough for one load; at least one, however wide.
  Chunk next_chunk(Index begin, Index end) const noexcept {
    const MaxPlan::Spans& s = spans(last_);
    Chunk chunk{begin, begin, std::numeric_limits<Index>::max(), 0};
    for (; chunk.end < end && chunk.end - begin < most_cells_; ++chunk.end) {
      const Index count = s.count[at(chunk.end)], from = s.begin[at(chunk.end)];
      if (count == 0) continue;
      const Index first = std::min(chunk.first, from), stop = std::max(chunk.stop, from + count);
      if (chunk.end > begin && stop - first > most_cells_) break;
      chunk.first = first;
      chunk.stop = stop;
    }
    return chunk;
  }

  // Windows over contiguous memory need no folded row: those of a single row, and one that holds whole rows.
  bool whole_rows(const Index* output, const Chunk& chunk) {
    if (type_.converts()) return false;
    const Index item = type_.item, width = plan_.axes.back().size;
    if (lanes_ != 1 || last_ > 1 || plane_->x.strides[last_] != item) return false;
    Index first_row = 0, rows = 1;
    if (last_ == 1) {
      first_row = begin_of(0, output);
      rows = count_of(0, output);
      if (chunk.stop - chunk.first != width || plane_->x.strides[0] != item * width || chunk.end - chunk.begin != 1)
        return false;
    }
    const char* const cells = plane_->x.data + first_row * item * width;
    for (Index o = chunk.begin; o < chunk.end; ++o) {
      const Index count = spans(last_).count[at(o)];
      if (count > 0) largest(cells + spans(last_).begin[at(o)] * item, rows * count, values_.at(o - chunk.begin));
    }
    return true;
  }

  void largest(const char* cells, Index n, char* value) const {
    kernels_.largest[static_cast<int>(rule_)](cells, n, type_.flip, value);
  }

  void fold(const Index* output, const Chunk& chunk) {
    if (chunk.stop - chunk.first <= most_cells_) {
      fold_rows(output, chunk.first, chunk.stop);
      for (Index o = chunk.begin; o < chunk.end; ++o) {
        const Index count = spans(last_).count[at(o)];
        const char* const cells = folded_.at((spans(last_).begin[at(o)] - chunk.first) * lanes_);
        if (count > 0) fold_columns(cells, count, values_.at((o - chunk.begin) * lanes_), true);
      }
      return;
    }
    for (Index first = chunk.first; first < chunk.stop; first += most_cells_) {  // one window, wider than the buffer
      const Index stop = std::min(first + most_cells_, chunk.stop);
      fold_rows(output, first, stop);
      fold_columns(folded_.data(), stop - first, values_.data(), first == chunk.first);
    }
  }

  // Folds the cells [first, stop) of all rows of the window into one row.
  void fold_rows(const Index* output, Index first, Index stop) {
    bool empty = true;
    Index counter[kMaxRank] = {};
    const int rows_axis = last_ - 1;
    const Index rows = last_ == 0 ? 1 : count_of(rows_axis, output), some = rows_at_once(stop - first);
    const Index step = last_ == 0 ? 0 : plane_->x.strides[rows_axis];
    while (true) {
      const char* source = plane_->x.data + first * plane_->x.strides[last_];
      for (int a = 0; a < rows_axis; ++a) source += (begin_of(a, output) + counter[a]) * plane_->x.strides[a];
      if (last_ > 0) source += begin_of(rows_axis, output) * step;
      for (Index r = 0; r < rows; r += some) {
        fold_some(source + r * step, step, std::min(some, rows - r), stop - first, empty);
        empty = false;
      }
      int a = rows_axis - 1;
      for (; a >= 0; --a) {
        if (++counter[a] < count_of(a, output)) break;
        counter[a] = 0;
      }
      if (a < 0) return;
    }
  }

  // Of rows of some hundred bytes, many side by side are too many streams for the memory; two take half the time.
  Index rows_at_once(Index cells) const noexcept {
    const Index bytes = cells * lanes_ * type_.item;
    return in_place(cells) && bytes >= 256 && bytes < 2048 ? 2 : kRowsAtOnce;
  }

  // Whether rows are read where they are: no vector may reach beyond them.
  bool in_place(Index cells) const noexcept {
    const Index pixel = type_.item * lanes_;
    return !type_.converts() && plane_->x.strides[last_] == pixel && cells * pixel >= kVectorBytes;
  }

  void fold_some(const char* source, Index step, Index rows, Index cells, bool empty) {
    const void* taps[kRowsAtOnce + 1];
    const Index n = cells * lanes_, item = type_.item;
    const RowRun run{1, n, 0, 0, type_.flip};
    const auto fold = kernels_.fold[static_cast<int>(rule_)];
    int count = 0;
    if (!empty) taps[count++] = folded_.data();
    if (in_place(cells)) {
      const Index ahead = plane_->stream ? std::max(rows, rows_ahead(step)) : rows;
      for (Index r = 0; r < rows; ++r) {
        taps[count++] = source + r * step;
        if (rows > 2 || plane_->stream) prefetch_bytes(source + (r + ahead) * step, n * item);
      }
      return fold(taps, count, folded_.data(), run);
    }
    loader_.load(source, step, plane_->x.strides[last_], rows, cells);
    for (Index r = 0; r < rows; ++r) taps[count++] = loader_.at(0, 0) + r * loader_.pitch() * item;
    fold(taps, count, folded_.data(), run);
  }

  // Folds `count` cells of a folded row into one value per lane, or into the values that are there.
  void fold_columns(const char* cells, Index count, char* value, bool fresh) {
    const Index item = type_.item;
    if (lanes_ == 1) {
      if (fresh) return largest(cells, count, value);
      alignas(8) char both[16];
      std::memcpy(both, value, static_cast<std::size_t>(item));
      largest(cells, count, both + item);
      return largest(both, 2, value);
    }
    taps_.clear();
    if (!fresh) taps_.push_back(value);
    for (Index c = 0; c < count; ++c) taps_.push_back(cells + c * lanes_ * item);
    kernels_.fold[static_cast<int>(rule_)](taps_.data(), static_cast<int>(taps_.size()), value,
                                           {1, lanes_, 0, 0, type_.flip});
  }

  // Writes a chunk of finished values, and what is to be known of their winners.
  void write_chunk(Index* output, const Chunk& chunk, bool real) {
    if (type_.is_number() || !plane_->value_only() || plan_.any_empty)
      visit(type_.storage, [&](auto tag) {
        using T = decltype(tag);
        using C = walk::compute_t<T>;
        WinnerSearch<T>(plan_, *plane_).finish(output, chunk, real, reinterpret_cast<C*>(values_.data()));
      });
    output[last_] = chunk.begin;
    char* target = plane_->out.data + walk::position(output, plane_->out.strides, last_ + 1);
    write_row(type_, values_.data(), target, plane_->out.strides[last_], chunk.end - chunk.begin, lanes_);
    output[last_] = 0;
  }

  const MaxPlan& plan_;
  CellType type_;
  const MaxRowKernels& kernels_;
  int last_;
  Index lanes_, most_cells_;
  RowLoader loader_;
  MaxRule rule_;
  ItemBuffer folded_, values_;
  std::vector<const void*> taps_;
  const MaxPlane* plane_ = nullptr;
};

}  // namespace

bool bins_apply(const MaxPlan& plan, const MaxPlane& plane) noexcept {
  if (plan.many_winners() && !plane.value_only() && !is_float(plane.dtype)) return false;
  constexpr Index most_folds = 4, most_column_folds = 8;  // of a cell: more, and one axis at a time is cheaper
  const Axis& last = plan.axes.back();
  Index folds = 1;
  for (const Axis& axis : plan.axes) {
    if (axis.size == 0 || axis.output == 0) return false;
    if (axis.adaptive) continue;
    if (axis.dilation != 1) return false;
    const Index overlap = (axis.kernel + axis.stride - 1) / axis.stride;
    if (&axis == &last ? overlap > most_column_folds : (folds *= overlap) > most_folds) return false;
  }
  // Rows are cheaply deinterleaved by two or three; and in a small window carrying a winner costs less than finding it.
  return last.adaptive || (plane.value_only() ? last.stride > 3 : last.stride > 3 && last.kernel >= 16);
}

std::unique_ptr<PlaneEngine> make_bins(const MaxPlan& plan, const MaxPlane& plane, const CellType& type) {
  if (!bins_apply(plan, plane)) return nullptr;
  return std::make_unique<Bins>(plan, type, plane.lanes);
}

}  // namespace halfulp
