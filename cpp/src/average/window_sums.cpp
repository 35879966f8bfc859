#include "halfulp/window_sums.hpp"

#include <algorithm>
#include <vector>

#include "halfulp/engines.hpp"
#include "halfulp/interrupt.hpp"
#include "halfulp/parallel.hpp"
#include "base/row_kernels.hpp"
#include "base/stream_kernels.hpp"
#include "average/whole_planes.hpp"
#include "average/window_block.hpp"
#include "average/window_layout.hpp"
#include "average/window_lines.hpp"

namespace halfulp {
namespace {

constexpr Index kBlockSources = Index{1} << 15;  // sources of a block: they stay in the second cache
constexpr Index kMagnitudes = Index{1} << 11;    // of a block of magnitudes, while those of the next are on their way
constexpr Index kBlockWidth = Index{1} << 12;    // sources of a line, whose sums stay in the first cache
constexpr Index kThreadSources = Index{1} << 15; // below this a second thread is not worth waking

Index ceil_div(Index a, Index b) { return (a + b - 1) / b; }

struct Blocking {
  Index first_step, first_count;  // outputs of the first axis in a block, number of such ranges
  Index last_step, last_count;
  Index lane_step, lane_count;
  Index sources;                  // of one block, roughly
};

Blocking blocking_of(const WindowLayout& layout, Index block_sources, Index block_width) {
  const SumAxis& first = *layout.axes.front();
  const SumAxis& last = *layout.axes.back();
  const Index outputs = std::max<Index>(1, first.outputs());
  Index middle = 1;
  for (std::size_t a = 1; a + 1 < layout.axes.size(); ++a) middle *= std::max<Index>(1, layout.axes[a]->sources);
  Blocking b{};
  b.lane_step = std::min(layout.lanes, kBlockLanes);
  b.lane_count = ceil_div(layout.lanes, b.lane_step);
  const Index last_outputs = std::max<Index>(1, last.outputs());
  const Index last_width = std::max<Index>(1, std::max(last.sources, last_outputs)) * b.lane_step;
  b.last_count = std::min(last_outputs, ceil_div(last_width, block_width));
  b.last_step = ceil_div(last_outputs, b.last_count);
  b.last_count = ceil_div(last_outputs, b.last_step);
  const Index slab = std::max<Index>(1, middle * last_width / b.last_count);
  const Index rows = std::max(first.sources, outputs);
  Index count = std::clamp<Index>(ceil_div(rows * slab, block_sources), 1, outputs);
  // A block starts its sums afresh: it should hold several windows of a wide kernel.
  count = std::min(count, std::max<Index>(1, rows / std::max<Index>(1, 2 * first.largest_count())));
  // Few planes: blocks inside a plane keep every thread busy.
  const Index wanted = 4 * num_threads();
  const Index others = layout.planes * b.lane_count * b.last_count;
  if (others * count < wanted && others * rows * slab > kThreadSources)
    count = std::clamp<Index>(ceil_div(wanted, others), count, outputs);
  b.first_step = ceil_div(outputs, count);
  b.first_count = ceil_div(outputs, b.first_step);
  b.sources = std::max<Index>(1, rows / b.first_count * slab);
  return b;
}

// The magnitudes of a stretch of memory, addressed like the cells themselves.
template <class T>
class Magnitudes {
 public:
  // Of `cells` cells from source + first on; what is returned stands for `source`.
  const T* of(const T* source, Index first, Index cells) {
    if (source + first == from_ && cells == cells_) return scratch_.data() - first;
    const auto size = static_cast<std::size_t>(cells + kSlack);
    if (scratch_.size() < size) scratch_.resize(size);
    constexpr std::uint64_t keep = sizeof(T) == 2   ? 0x7fff7fff7fff7fffu
                                   : sizeof(T) == 4 ? 0x7fffffff7fffffffu
                                                    : 0x7fffffffffffffffu;
    kernels_.change(reinterpret_cast<const char*>(source + first), reinterpret_cast<char*>(scratch_.data()),
                    cells * static_cast<Index>(sizeof(T)), keep, 0);
    from_ = source + first;
    cells_ = cells;
    return scratch_.data() - first;
  }

  // Of the cells that a block reads.
  const T* of_block(const T* source, const WindowLayout& layout, const BlockRange& range) {
    const SumAxis& axis = *layout.axes.front();
    Index begin = axis.sources, end = 0;
    for (auto o = static_cast<std::size_t>(range.first_begin); o < static_cast<std::size_t>(range.first_end); ++o) {
      if (axis.count[o] == 0) continue;
      begin = std::min(begin, axis.first[o]);
      end = std::max(end, axis.first[o] + (axis.count[o] - 1) * axis.step + 1);
    }
    if (begin >= end) return source;
    Index cells = range.lanes + (end - begin - 1) * layout.in_strides.front();
    for (std::size_t a = 1; a < layout.axes.size(); ++a) {
      if (layout.axes[a]->sources == 0) return source;
      cells += (layout.axes[a]->sources - 1) * layout.in_strides[a];
    }
    return of(source, begin * layout.in_strides.front(), cells);
  }

 private:
  static constexpr Index kSlack = 64;
  const RowKernels& kernels_ = select_row_kernels();
  std::vector<T> scratch_;
  const T* from_ = nullptr;
  Index cells_ = 0;
};

template <class T>
void sum_windows_of(const SumPlan& plan, const ArrayView& in, const ArrayView& out, bool magnitudes) {
  const WindowLayout layout = window_layout(plan, in, out);
  if (const WholePlanes<T> planes(plan, layout); planes.applies()) {
    const Index grain = std::max<Index>(1, kThreadSources * layout.planes / std::max<Index>(1, in.count()));
    parallel_for(layout.planes, grain,
                 [&](Index begin, Index end) {
                   count_engine(Engine::average_planes, end - begin);
                   if (!magnitudes) return planes.run(in.as<const T>(), out.as<T>(), begin, end);
                   Magnitudes<T> changed;
                   const Index cells = in.count() / layout.planes;
                   for (Index plane = begin; plane < end; ++plane)
                     planes.run(changed.of(in.as<const T>(), layout.in_offset(plane), cells), out.as<T>(), plane,
                                plane + 1);
                 });
    return;
  }
  const bool stream = std::max(in.count(), out.count()) * static_cast<Index>(sizeof(T)) >= kStreamBytes;
  const WindowLines<T> lines(plan, layout, stream);
  // Several lanes are summed window by window, which needs no row of sums.
  const Index block_width = lines.applies() && layout.lanes > 1 ? kBlockSources : kBlockWidth;
  const Blocking b = blocking_of(layout, magnitudes ? kMagnitudes : kBlockSources, block_width);
  const Index blocks = b.first_count * b.last_count, groups = layout.planes * b.lane_count;
  const Index first_outputs = layout.axes.front()->outputs(), last_outputs = layout.axes.back()->outputs();
  const Index grain = std::max<Index>(1, kThreadSources / b.sources);
  parallel_for(groups * blocks, grain, [&](Index begin, Index end) {
    WindowBlock<T> block(plan, layout);
    LineWorker<T> worker(lines);
    Magnitudes<T> changed;
    EngineTally tally;
    for (Index item = begin; item < end; ++item) {
      poll_interrupts();
      // Ranges of the last axis change rarely: there is much to prepare for each.
      const Index last = item / (groups * b.first_count), rest = item % (groups * b.first_count);
      const Index group = rest / b.first_count, first = rest % b.first_count;
      const Index plane = group / b.lane_count, lane = group % b.lane_count * b.lane_step;
      const BlockRange range{first * b.first_step, std::min((first + 1) * b.first_step, first_outputs),
                             last * b.last_step, std::min((last + 1) * b.last_step, last_outputs),
                             std::min(b.lane_step, layout.lanes - lane)};
      const T* source = in.as<const T>() + layout.in_offset(plane) + lane;
      if (magnitudes) source = changed.of_block(source, layout, range);
      T* target = out.as<T>() + layout.out_offset(plane) + lane;
      if (!lines.applies() || !worker.run(source, target, range)) {
        tally.add(Engine::average_blocks);
        block.run(source, target, range);
        continue;
      }
      tally.add(Engine::average_lines);
      tally.add(Engine::average_blocks, static_cast<Index>(worker.unsure().size()));
      for (const Index o : worker.unsure())
        block.run(source, target, {o, o + 1, range.last_begin, range.last_end, range.lanes});
    }
  });
}

}  // namespace

void sum_windows(const SumPlan& plan, const ArrayView& in, const ArrayView& out) {
  if (out.count() == 0) return;
  visit_float(in.dtype, [&](auto type) { sum_windows_of<decltype(type)>(plan, in, out, false); });
}

void sum_magnitudes(const SumPlan& plan, const ArrayView& in, const ArrayView& out) {
  if (out.count() == 0) return;
  visit_float(in.dtype, [&](auto type) { sum_windows_of<decltype(type)>(plan, in, out, true); });
}

}  // namespace halfulp
