// The pullback of hard max: every winner gets its window's cotangent, and what meets in a cell is summed exactly and
// rounded once.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "halfulp/engines.hpp"
#include "halfulp/error.hpp"
#include "exact/exact_sum.hpp"
#include "halfulp/interrupt.hpp"
#include "halfulp/parallel.hpp"
#include "base/stream_kernels.hpp"
#include "max/pullback.hpp"
#include "max/walk.hpp"
#include "max/plane.hpp"

namespace halfulp {
namespace {

// Below this many cells a unit of work is not worth another thread.
constexpr Index kCellsPerThread = 1 << 14;

Index load_code(const std::uint8_t* source, Index bytes) noexcept {
  switch (bytes) {
    case 1: return *source;
    case 2: { std::uint16_t v; std::memcpy(&v, source, 2); return v; }
    case 4: { std::uint32_t v; std::memcpy(&v, source, 4); return static_cast<Index>(v); }
    default: { Index v; std::memcpy(&v, source, 8); return v; }
  }
}

// The outputs whose windows can hold coordinate c of an axis: [first, stop), a superset at worst.
void covering(const Axis& axis, const MaxPlan::Spans& spans, Index c, Index& first, Index& stop) noexcept {
  const auto& begin = spans.begin;
  if (axis.adaptive) {
    // Bins begin in order, and none is wider than the kernel.
    first = std::lower_bound(begin.begin(), begin.end(), c - axis.kernel + 1) - begin.begin();
    stop = std::upper_bound(begin.begin(), begin.end(), c) - begin.begin();
    return;
  }
  const Index padded = c + axis.before;  // o * stride <= padded < o * stride + extent
  const Index beyond = padded - axis.extent() + 1;
  first = beyond <= 0 ? 0 : (beyond + axis.stride - 1) / axis.stride;
  stop = std::min(axis.output, padded / axis.stride + 1);
}

// The sum of one cell's terms by enumeration of the windows that hold it: exact for every input.
template <class T>
class ExactCell {
 public:
  ExactCell(const MaxPlan& plan, const PullbackPlane& plane) : plan_(plan), plane_(plane) {}

  T operator()(const Index* cell) {
    const int ndim = plan_.ndim();
    Index first[kMaxRank], stop[kMaxRank], output[kMaxRank];
    for (int a = 0; a < ndim; ++a) {
      covering(plan_.axes[a], plan_.spans[a], cell[a], first[a], stop[a]);
      if (first[a] >= stop[a]) return T{};
      output[a] = first[a];
    }
    terms_.clear();
    while (true) {
      collect(cell, output);
      int a = ndim - 1;
      for (; a >= 0; --a) {
        if (++output[a] < stop[a]) break;
        output[a] = first[a];
      }
      if (a < 0) break;
    }
    return sum_of_quotients<T>(terms_);
  }

 private:
  void collect(const Index* cell, const Index* output) {
    Index code = 0;
    for (int a = 0; a < plan_.ndim(); ++a) {
      const Axis& axis = plan_.axes[a];
      const Index offset = cell[a] - axis.start(output[a]);
      if (offset < 0 || offset % axis.dilation != 0 || offset / axis.dilation >= axis.kernel) return;
      code = code * axis.kernel + offset / axis.dilation;
    }
    const std::uint8_t* record =
        reinterpret_cast<const std::uint8_t*>(plane_.winners.data) +
        walk::position(output, plane_.winners.strides, plan_.ndim());
    Index winners = 1;
    if (plan_.many_winners()) {
      if (((record[code / 8] >> (code % 8)) & 1) == 0) return;
      if (plan_.ties == Ties::split) winners = count_bits(record, plane_.winner_bytes);
    } else if (load_code(record, plane_.winner_bytes) != code) {
      return;
    }
    const T g = *reinterpret_cast<const T*>(plane_.cotangent.data +
                                            walk::position(output, plane_.cotangent.strides, plan_.ndim()));
    terms_.push_back({static_cast<double>(walk::value_of(g)), winners});
  }

  const MaxPlan& plan_;
  const PullbackPlane& plane_;
  std::vector<Quotient> terms_;
};

class PlaneScatter {
 public:
  virtual ~PlaneScatter() = default;
  // The cells [begin, end) of the first axis; everything is summed, the others are not written.
  virtual void run(const PullbackPlane& plane, Index begin, Index end) = 0;
};

// Adds in a wider format and notes every cell whose sum was not exact there; those are done again by ExactCell. Cells
// without a winner are filled with zeros first.
template <class T>
class Scatter final : public PlaneScatter {
 public:
  explicit Scatter(const MaxPlan& plan) : plan_(plan) {
    const auto cells = static_cast<std::size_t>(plan.plane_cells);
    high_.assign(cells, -0.0);
    if (std::is_same_v<T, double>) low_.assign(cells, -0.0);
    state_.assign(cells, 0);
    Index step = 1;
    for (int a = plan.ndim() - 1; a >= 0; --a) {
      flat_steps_[a] = step;
      step *= plan.axes[a].size;
    }
  }

  void run(const PullbackPlane& plane, Index begin, Index end) override {
    plane_ = plane;
    walk::outputs(plan_, 0, plan_.axes[0].output, [&](const Index* output) { scatter(output); });
    fill_zeros(begin, end);
    finish(begin, end);
  }

 private:
  enum : std::uint8_t { untouched = 0, exact = 1, undecided = 2 };

  void scatter(const Index* output) {
    const auto* record = reinterpret_cast<const std::uint8_t*>(plane_.winners.data) +
                         walk::position(output, plane_.winners.strides, plan_.ndim());
    const T g = *reinterpret_cast<const T*>(plane_.cotangent.data +
                                            walk::position(output, plane_.cotangent.strides, plan_.ndim()));
    const double value = walk::value_of(g);
    if (!plan_.many_winners()) {
      const Index flat = cell_of(output, load_code(record, plane_.winner_bytes));
      if (flat >= 0) add(flat, value);
      return;
    }
    const bool shared = plan_.ties == Ties::split && count_bits(record, plane_.winner_bytes) > 1;
    for (Index byte = 0; byte < plane_.winner_bytes; ++byte) {
      for (unsigned bits = record[byte]; bits != 0; bits &= bits - 1) {
        const Index flat = cell_of(output, byte * 8 + std::countr_zero(bits));
        add(flat, value);
        if (shared) state_[static_cast<std::size_t>(flat)] = undecided;
      }
    }
  }

  // The flat index of the cell with this code; -1 if it is not real, which only a window without cells records.
  Index cell_of(const Index* output, Index code) const noexcept {
    Index flat = 0;
    for (int a = plan_.ndim() - 1; a >= 0; --a) {
      const Axis& axis = plan_.axes[a];
      const Index c = axis.start(output[a]) + (code % axis.kernel) * axis.dilation;
      if (c < 0 || c >= axis.size || plan_.spans[a].count[output[a]] == 0) return -1;
      flat += c * flat_steps_[a];
      code /= axis.kernel;
    }
    return flat;
  }

  void add(Index flat, double value) noexcept {
    const auto i = static_cast<std::size_t>(flat);
    if (state_[i] == untouched) {  // a single term is exact, special values included
      state_[i] = exact;
      high_[i] = value;
      touched_.push_back(flat);
      return;
    }
    const double before = high_[i];
    const double sum = before + value;
    high_[i] = sum;
    // Nothing is lost if both differences give the other operand back; infinities and NaNs fail this, too.
    bool kept = (sum - before == value) & (sum - value == before);
    if constexpr (std::is_same_v<T, double>) {
      if (!kept) {
        const TwoDoubles parts = two_sum(before, value);
        const double rest = low_[i] + parts.low;
        kept = (rest - low_[i] == parts.low) & (rest - parts.low == low_[i]);
        low_[i] = rest;
      }
    }
    if (!kept) state_[i] = undecided;
  }

  // Zeros in the cells [begin, end) of the first axis.
  void fill_zeros(Index begin, Index end) const {
    const int ndim = plan_.ndim();
    Index cell[kMaxRank] = {begin};
    const Index count = (end - begin) * flat_steps_[0];
    bool dense = true;
    for (int a = 0; a < ndim; ++a) dense = dense && plane_.dx.strides[a] == flat_steps_[a] * kItem;
    if (dense) return fill_run(plane_.dx.data + begin * flat_steps_[0] * kItem, count * kItem);
    for (Index i = 0; i < count; ++i) {
      *reinterpret_cast<T*>(plane_.dx.data + walk::position(cell, plane_.dx.strides, ndim)) = T{};
      for (int a = ndim - 1; a >= 0; --a) {
        if (++cell[a] < plan_.axes[a].size) break;
        cell[a] = 0;
      }
    }
  }

  void fill_run(char* target, Index bytes) const {
    if (!plane_.stream) {
      std::memset(target, 0, static_cast<std::size_t>(bytes));
      return;
    }
    static constexpr char zeros[4096] = {};
    constexpr Index most = sizeof zeros;
    for (Index i = 0; i < bytes; i += most) select_stream_kernels().copy(zeros, target + i, std::min(most, bytes - i));
    select_stream_kernels().finish();  // before winners are written there
  }

  // Writes what the touched cells got, and forgets it.
  void finish(Index begin, Index end) {
    ExactCell<T> exact_cell(plan_, plane_);
    const int ndim = plan_.ndim();
    Index cell[kMaxRank];
    for (const Index flat : touched_) {
      const auto i = static_cast<std::size_t>(flat);
      for (Index a = ndim - 1, rest = flat; a >= 0; --a) {
        cell[a] = rest % plan_.axes[static_cast<std::size_t>(a)].size;
        rest /= plan_.axes[static_cast<std::size_t>(a)].size;
      }
      if (cell[0] >= begin && cell[0] < end)
        *reinterpret_cast<T*>(plane_.dx.data + walk::position(cell, plane_.dx.strides, ndim)) =
            state_[i] == exact ? rounded(i) : exact_cell(cell);
      state_[i] = untouched;
      if constexpr (std::is_same_v<T, double>) low_[i] = -0.0;
    }
    touched_.clear();
  }

  T rounded(std::size_t i) const noexcept {
    // low is -0 if it took no part: adding it changes nothing.
    if constexpr (std::is_same_v<T, double>) return high_[i] + low_[i];
    else return round_to<T>(high_[i]);
  }

  static constexpr auto kItem = static_cast<Index>(sizeof(T));
  const MaxPlan& plan_;
  PullbackPlane plane_;
  std::vector<double> high_, low_;
  std::vector<std::uint8_t> state_;
  std::vector<Index> touched_;  // the cells that have got something
  Index flat_steps_[kMaxRank];
};

// What a thread needs to pull planes back.
class Worker {
 public:
  Worker(const MaxPlan& plan, const PullbackPlane& prototype) : plan_(plan), engine_(make_gather(plan, prototype)) {}

  void pull(const PullbackPlane& plane, Index begin, Index end) {
    if (engine_ && engine_->run(plane, begin, end)) return tally_.add(Engine::max_pullback_gather);
    tally_.add(Engine::max_pullback_scatter);
    const Index item = static_cast<Index>(item_size(plane.dtype));
    if (!scatter_)
      visit_float(plane.dtype, [&](auto tag) { scatter_ = std::make_unique<Scatter<decltype(tag)>>(plan_); });
    for (Index lane = 0; lane < plane.lanes; ++lane) {
      PullbackPlane one = plane;
      one.dx.data += lane * item;
      one.cotangent.data += lane * item;
      one.winners.data += lane * plane.winner_bytes;
      scatter_->run(one, begin, end);
    }
  }

 private:
  const MaxPlan& plan_;
  std::unique_ptr<GatherEngine> engine_;
  std::unique_ptr<PlaneScatter> scatter_;
  EngineTally tally_;
};

}  // namespace

Index count_bits(const std::uint8_t* bytes, Index count) noexcept {
  Index bits = 0;
  for (Index i = 0; i < count; ++i) bits += std::popcount(bytes[i]);
  return bits;
}

void max_pullback(const MaxPlan& plan, const Winners& winners, const ArrayView& cotangent, const ArrayView& dx) {
  if (dx.count() == 0) return;
  if (winners.single && plan.many_winners()) return max_pullback(plan.with(Ties::first), winners, cotangent, dx);
  const Strided dx_planes(dx), g_planes(cotangent);
  const Strided records(reinterpret_cast<char*>(winners.data.get()), winners.strides, winners.item_bytes);
  const PlaneLayout layout(dx.shape, dx.ndim() - plan.ndim(), dx_planes, {&g_planes, &records});
  const bool stream = dx.count() * static_cast<Index>(item_size(dx.dtype)) >= kStreamBytes;
  const auto plane_of = [&](Index group) {
    PullbackPlane plane;
    plane.dtype = dx.dtype;
    plane.lanes = layout.lanes;
    plane.dx = layout.plane(dx_planes, group);
    plane.cotangent = layout.plane(g_planes, group);
    plane.winners = layout.plane(records, group);
    plane.winner_bytes = winners.item_bytes;
    plane.stream = stream;
    return plane;
  };
  const Index rows = plan.axes[0].size, cells = plan.plane_cells * layout.lanes, threads = num_threads();
  Index parts = 1;
  if (layout.groups < 4 * threads && cells >= 2 * kCellsPerThread)
    parts = std::clamp<Index>(4 * threads / layout.groups, 1, std::min<Index>(rows, cells / kCellsPerThread));
  parallel_for(layout.groups * parts, std::max<Index>(1, kCellsPerThread * parts / cells), [&](Index begin, Index end) {
    Worker worker(plan, plane_of(begin / parts));
    for (Index unit = begin; unit < end;) {
      poll_interrupts();
      const Index group = unit / parts, first = unit % parts, stop = std::min(parts, first + (end - unit));
      worker.pull(plane_of(group), rows * first / parts, rows * stop / parts);
      unit += stop - first;
    }
  });
}

}  // namespace halfulp
