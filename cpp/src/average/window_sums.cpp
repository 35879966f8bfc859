#include "halfulp/window_sums.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "halfulp/engines.hpp"
#include "halfulp/interrupt.hpp"
#include "halfulp/parallel.hpp"
#include "base/stream_kernels.hpp"
#include "average/blocks.hpp"
#include "average/careful_lines.hpp"
#include "average/fast_lines.hpp"
#include "average/sum_layout.hpp"
#include "average/whole_planes.hpp"

namespace halfulp {
namespace {

constexpr Index kBlockWidth = Index{1} << 12;    // sources of a line, whose sums stay in the first cache
constexpr Index kThreadSources = Index{1} << 15; // below this a second thread is not worth waking

Index ceil_div(Index a, Index b) { return (a + b - 1) / b; }

struct Blocking {
  Index first_step, first_count;  // outputs of the first axis in a block, number of such ranges
  Index last_step, last_count;
  Index lane_step, lane_count;
  Index sources;                  // of one block, roughly
};

Blocking blocking_of(const SumLayout& layout, Index block_sources, Index block_width) {
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

// The sum of a plane's cells, or of their magnitudes.
template <class T>
struct PlaneRun {
  const WholePlanes<T>& planes;
  void operator()(const T* x, T* result) const { planes.run(x, *result); }
  bool sizes(const T* x, T* result) const {
    planes.run_sizes(x, *result);
    return true;
  }
  // The sum of t times the signs of x, if the sum of its magnitudes shows that no x is NaN; false if it cannot.
  bool with_signs(const T* x, const T* sizes, const T* t, T* result) const {
    return std::isfinite(static_cast<double>(to_float(*sizes))) && planes.run_signed(x, t, *result);
  }
};

// One thread's blocks: fast if that can be, else with care.
template <class T>
class BlockSums {
 public:
  BlockSums(const SumPlan& plan, const SumLayout& layout, const SumRange<T>& range, const SumLines& lines)
      : plan_(plan), layout_(layout), range_(range), lines_(lines), fast_(plan, layout, range, lines) {}

  void run(const T* in, T* out, const BlockRange& block) {
    if (!lines_.apply() || !fast_.run(in, out, block)) return run_with_care(in, out, block);
    tally_.add(Engine::average_fast);
    for (const Index o : fast_.unsure())
      run_with_care(in, out, {o, o + 1, block.last_begin, block.last_end, block.lanes});
  }

  // The sums of magnitudes or of cells times signs; see FastLines. False if it cannot.
  bool run_changed(const T* signs, const T* in, T* out, const BlockRange& block) {
    const bool done = fast_.run_changed(signs, in, out, block);
    if (done) tally_.add(Engine::average_fast);
    return done;
  }

 private:
  void run_with_care(const T* in, T* out, const BlockRange& block) {
    if (!careful_) careful_.emplace(plan_, layout_, range_);
    tally_.add(Engine::average_careful);
    careful_->run(in, out, block);
  }

  const SumPlan& plan_;
  const SumLayout& layout_;
  const SumRange<T>& range_;
  const SumLines& lines_;
  FastLines<T> fast_;
  std::optional<CarefulLines<T>> careful_;
  EngineTally tally_;
};

// What can be summed of a block.
template <class T>
struct BlockRun {
  BlockSums<T>& sums;
  const BlockRange& block;

  void operator()(const T* in, T* out) const { sums.run(in, out, block); }
  // False if it cannot.
  bool sizes(const T* in, T* out) const { return sums.run_changed(nullptr, in, out, block); }
  // The sums of t times the signs of x, whose magnitudes were summed; these are finite. False if it cannot.
  bool with_signs(const T* x, const T*, const T* t, T* out) const { return sums.run_changed(x, t, out, block); }
};

// Sums every block through what `work` does with its cells and sums.
template <class T, class Work>
void sum_windows_of(const SumPlan& plan, const SumLayout& layout, const T* in, T* out, const Work& work) {
  Index sources = layout.planes * layout.lanes, outputs = sources;
  for (const SumAxis* axis : layout.axes) {
    sources *= axis->sources;
    outputs *= axis->outputs();
  }
  if (const WholePlanes<T> planes(plan, layout); planes.applies()) {
    const Index grain = std::max<Index>(1, kThreadSources * layout.planes / std::max<Index>(1, sources));
    parallel_for(layout.planes, grain, [&](Index begin, Index end) {
      count_engine(Engine::average_planes, end - begin);
      typename Work::Thread thread(work, layout);
      for (Index plane = begin; plane < end; ++plane)
        thread.block(in + layout.in_offset(plane), out + layout.out_offset(plane), {0, 1, 0, 1, 1},
                     PlaneRun<T>{planes});
    });
    return;
  }
  const SumRange<T> exactness(plan, layout);
  const bool stream =
      Work::kStreams && std::max(sources, outputs) * static_cast<Index>(sizeof(T)) >= kStreamBytes;
  const SumLines lines(plan, layout, exactness.divides(), static_cast<Index>(sizeof(T)), stream);
  // Several lanes are summed window by window, which needs no row of sums.
  const Index block_width = lines.apply() && layout.lanes > 1 ? kPlainBlock : kBlockWidth;
  const Blocking b = blocking_of(layout, Work::kBlock, block_width);
  const Index blocks = b.first_count * b.last_count, groups = layout.planes * b.lane_count;
  const Index first_outputs = layout.axes.front()->outputs(), last_outputs = layout.axes.back()->outputs();
  const Index grain = std::max<Index>(1, kThreadSources / b.sources);
  parallel_for(groups * blocks, grain, [&](Index begin, Index end) {
    BlockSums<T> sums(plan, layout, exactness, lines);
    typename Work::Thread thread(work, layout);
    for (Index item = begin; item < end; ++item) {
      poll_interrupts();
      // Ranges of the last axis change rarely: there is much to prepare for each.
      const Index last = item / (groups * b.first_count), rest = item % (groups * b.first_count);
      const Index group = rest / b.first_count, first = rest % b.first_count;
      const Index plane = group / b.lane_count, lane = group % b.lane_count * b.lane_step;
      const BlockRange range{first * b.first_step, std::min((first + 1) * b.first_step, first_outputs),
                             last * b.last_step, std::min((last + 1) * b.last_step, last_outputs),
                             std::min(b.lane_step, layout.lanes - lane)};
      thread.block(in + layout.in_offset(plane) + lane, out + layout.out_offset(plane) + lane, range,
                   BlockRun<T>{sums, range});
    }
  });
}

// Two rows of bits, each with what may be read past its end.
Index bit_bytes(Index cells) { return ceil_div(cells, kSignWord) * (kSignWord / 8) + 8; }

SignBits sign_bits(std::uint8_t* signs, Index cells) { return {signs, signs + bit_bytes(cells)}; }

// Sums of magnitudes, with their signs or tangents.
template <class T>
void sum_magnitudes_of(const SumPlan& plan, const ArrayView& x, const ArrayView& out, MagnitudeBlocks<T> work) {
  const SumLayout layout = sum_layout(plan, x, out);
  work.x = x.as<const T>();
  work.out = out.as<const T>();
  work.cells = x.count();
  if (out.count() > 0) sum_windows_of(plan, layout, work.x, out.as<T>(), work);
  const Index slab = slab_of(layout, layout.in_strides, [](const SumAxis& axis) { return axis.sources; });
  if (work.signs.negative == nullptr || (slab > 0 && out.count() > 0)) return;
  parallel_for(x.count(), kThreadSources, [&](Index begin, Index end) { work.encode(begin, end); });
}

// The sums of g, which get signs; those of -g as well where the memory order of the axes leaves no blocks.
template <class T>
void sum_signed_of(const SumPlan& plan, std::uint8_t* signs, const ArrayView& g, const ArrayView& dx) {
  const Index bytes = dx.count() * static_cast<Index>(sizeof(T));
  const SumLayout layout = sum_layout(plan, g, dx);
  Index cells = 1;
  for (const SumAxis& axis : plan.axes) cells *= axis.outputs();
  const SignedBlocks<T> work{plan, sign_bits(signs, dx.count()), dx.as<T>(), cells, bytes >= kStreamBytes};
  if (slab_of(layout, layout.out_strides, [](const SumAxis& axis) { return axis.outputs(); }) > 0)
    return sum_windows_of(plan, layout, g.as<const T>(), dx.as<T>(), work);
  std::vector<T> turned(static_cast<std::size_t>(g.count() + 8)), sums(static_cast<std::size_t>(dx.count())),
      negated = sums;
  change_signs(g.as<const T>(), turned.data(), g.count(), true, true);
  sum_windows_of(plan, layout, g.as<const T>(), sums.data(), PlainBlocks<T>());
  sum_windows_of<T>(plan, layout, turned.data(), negated.data(), PlainBlocks<T>());
  work.sign(0, sums.data(), dx.as<T>(), dx.count(), [&](Index i) { return negated[static_cast<std::size_t>(i)]; });
}

}  // namespace

void sum_windows(const SumPlan& plan, const ArrayView& in, const ArrayView& out) {
  if (out.count() == 0) return;
  visit_float(in.dtype, [&](auto type) {
    using T = decltype(type);
    sum_windows_of(plan, sum_layout(plan, in, out), in.as<const T>(), out.as<T>(), PlainBlocks<T>());
  });
}

std::size_t sign_bytes(Index cells) { return static_cast<std::size_t>(2 * bit_bytes(cells)); }

void sum_magnitudes(const SumPlan& plan, const ArrayView& in, const ArrayView& out, std::uint8_t* signs) {
  visit_float(in.dtype, [&](auto type) {
    MagnitudeBlocks<decltype(type)> work{};
    if (signs != nullptr) work.signs = sign_bits(signs, in.count());
    sum_magnitudes_of(plan, in, out, work);
  });
}

void sum_magnitudes_jvp(const SumPlan& plan, const ArrayView& x, const ArrayView& t, const ArrayView& out,
                        const ArrayView& out_tangent) {
  visit_float(x.dtype, [&](auto type) {
    using T = decltype(type);
    MagnitudeBlocks<T> work{};
    work.tangent = t.as<const T>();
    work.out_tangent = out_tangent.as<T>();
    sum_magnitudes_of(plan, x, out, work);
  });
}

void sum_signed(const SumPlan& transpose, std::uint8_t* signs, const ArrayView& g, const ArrayView& dx) {
  if (dx.count() == 0) return;
  visit_float(dx.dtype, [&](auto type) { sum_signed_of<decltype(type)>(transpose, signs, g, dx); });
}

}  // namespace halfulp
