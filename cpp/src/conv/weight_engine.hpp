// Applies to every weight product; its bounds: Theorem 1 and, for float64, Lemma 3 in
// docs/explanation/error-bounds-convolution.md.
//
// The weight product: for every output channel m, input channel c and tap t, the sum over batch and positions of
// outputs[n, m, o] * inputs[n, c, i(o, t)]. Tasks own disjoint parts of the result and walk the whole batch in one
// fixed order, so no partial results meet. Two routes:
// - matrix: output channels in vector lanes, rows are (c, t), the sum runs over positions;
// - dot: positions in vector lanes; for few output channels in a group (depthwise).
#pragma once

#include <cmath>

#include "conv/gather_problem.hpp"
#include "conv/stage.hpp"
#include "conv/tasks.hpp"
#include "conv/weight_terms.hpp"

namespace halfulp::conv {

inline constexpr Index kWeightTile = 256;     // positions of a sample that are staged together
inline constexpr Index kWeightStaged = 400;   // positions of several samples, where planes are small
inline constexpr Index kDotTile = 2048;
inline constexpr Index kWeightBlock = 128;
inline constexpr Index kWeightSlabBytes = 192 << 10;
inline constexpr Index kWeightSumBytes = 512 << 10;
inline constexpr Index kTaskPanels = 6;

template <class S>
struct WeightWorkspace {
  SlabPlan plan;
  Index planned = -1;  // the tile of the plan
  Buffer<S, true> slab;
  Buffer<S> lines, panel, sums, totals, high, low;
  Buffer<double> floors, sizes;
  Buffer<std::byte> rounded;
  Buffer<std::uint8_t> bad;
  std::vector<const S*> rows;
  std::vector<Index> offsets;
  std::vector<double> input_size, output_size;
  SparseChannels sparse;
  Index step = 1;   // input channels that are staged together
  Index width = 0;  // columns of the sums, one for each output channel and some to fill vectors
  Index plane = 0;  // the size of the sums; the distance from high to low parts
  bool finite = false;  // whether all numbers of the task are known to be
  Index seen = 0, undecided = 0;
};

// Samples [first, first + count) that are staged together.
struct Samples {
  Index first, count;
};

// Lines of a tile that differ only in their index along the last axis but one.
inline Index level_lines(const Tile& tile) {
  const int axes = tile.count.size();
  return axes > 1 ? std::max<Index>(1, tile.count[axes - 2]) : 1;
}

template <class S>
class WeightEngine {
 public:
  using Workspace = WeightWorkspace<S>;

  WeightEngine(const WeightProblem& problem, Mode mode, const ConvKernels& kernels);
  void run();

 private:
  void make_tasks();
  Tile plan(Workspace& work, Index tile) const;
  void prepare(Workspace& work, const WeightTask& task, bool any_tile);
  void measure_inputs(Workspace& work, Index first, Index count, Index cells, const S* slab, const SlabLayout& layout);
  void measure_outputs(Workspace& work, Index out, const S* line, Index n);
  void run_task(Workspace& work, const WeightTask& task);
  // weight_sums.hpp
  void load_outputs(Workspace& work, const WeightTask& task, const Samples& samples, const Tile& tile, Index line);
  void stage_inputs(Workspace& work, const WeightTask& task, const Samples& samples, Index first, Index count);
  void matrix_tile(Workspace& work, const WeightTask& task, const Samples& samples, const Tile& tile);
  void dot_tile(Workspace& work, const WeightTask& task, Index n, const Tile& tile);
  void add_dots(Workspace& work, const Tile& tile, const S* values, const S* slab, Index line, S* sums);
  // weight_finish.hpp
  void finish(Workspace& work, const WeightTask& task);
  template <class Place>
  void finish_row(Workspace& work, Index count, Index in, const double* sizes,
                  const Place& position);
  template <class Place>
  void finish_correct(Workspace& work, Index count, Index in, const double* sizes,
                      const Place& position);
  void add_lanes(const Workspace& work, const S* lanes, S& high, S& low) const;
  Outputs rounded(Workspace& work, Index n) const { return {work.rounded.at_least(n * type_.size), &type_}; }
  // The row of the sums that belongs to an input channel of the task and a tap: stagings fill whole groups of rows.
  Index row_of(const Workspace& work, Index in, Index tap) const {
    const Index staged = ceil_div(work.step * taps_, products_.rows) * products_.rows;
    return in / work.step * staged + in % work.step * taps_ + tap;
  }
  double find_exact_limit() const;

  const WeightProblem& p_;
  const ElementType& type_;
  const ConvKernels& kernels_;
  const WeightKernels& weight_;
  const ProductKernels<S>& products_;
  const bool correct_, twofold_, dot_;
  const bool lanes_;  // whether dot products are sums of all lines of a tile in lanes of doubles
  const WeightTerms terms_;
  const Gather& gather_;
  const Tiling tiling_;
  const Index taps_;
  Index together_ = 1;  // samples of a tile
  Index flush_ = 1;     // tiles whose products are summed before they are added to the totals
  double additions_ = 0, gamma_ = 0;
  std::vector<WeightTask> tasks_;
  std::vector<Index> tap_offsets_;  // in the result, last axis fastest
  ExactLimit exact_;
};

template <class S>
WeightEngine<S>::WeightEngine(const WeightProblem& problem, Mode mode, const ConvKernels& kernels)
    : p_(problem),
      type_(*problem.out.data.type),
      kernels_(kernels),
      weight_(select_weight_kernels()),
      products_(product_kernels<S>(kernels, mode)),
      correct_(mode != Mode::fast),
      twofold_(mode == Mode::twofold),
      dot_(2 * problem.out_channels < products_.width),
      lanes_(dot_ && mode == Mode::wide && std::is_same_v<S, double>),
      terms_(problem),
      gather_(terms_.gather()),
      tiling_(gather_, dot_ ? kDotTile : kWeightTile),
      taps_(tap_count(gather_)) {
  for (Index tap = 0; tap < taps_; ++tap) {
    Index offset = 0, rest = tap;
    for (std::size_t axis = gather_.size(); axis-- > 0;) {
      const Index size = static_cast<Index>(gather_[axis].tap.size());
      offset += rest % size * p_.out.spatial[axis];
      rest /= size;
    }
    tap_offsets_.push_back(offset);
  }
  const Tile tile = tiling_.tile(0);  // the largest
  const Index run = std::max<Index>(1, tile.count[tile.count.size() - 1]);
  if (!dot_) together_ = std::clamp<Index>(kWeightStaged / std::max<Index>(1, tiling_.largest()), 1, p_.batch + 1);
  const Index runs = tiling_.largest() / run, level = lanes_ ? level_lines(tile) : 1;
  const Index commits = dot_ ? ceil_div(runs, level) : ceil_div(together_ * tiling_.largest(), kWeightBlock);
  const Index inner = dot_ ? level * ceil_div(run, products_.width) + products_.width : kWeightBlock;
  const Index tiles = ceil_div(p_.batch, together_) * tiling_.count();
  flush_ = std::max<Index>(1, static_cast<Index>(std::sqrt(static_cast<double>(tiles) / static_cast<double>(commits))));
  if (twofold_) flush_ = std::max<Index>(1, tiles);  // twofold sums have precision to spare
  additions_ = static_cast<double>(inner + flush_ * commits + ceil_div(tiles, flush_) + 2);
  const double unit = 0x1p-53;
  gamma_ = twofold_ ? 4 * (additions_ + 2) * (additions_ + 2) * unit * unit : 1.001 * (additions_ + 8) * unit;
}

template <class S>
void WeightEngine<S>::make_tasks() {
  const Index lane = dot_ ? 1 : products_.width;
  const Index lanes = ceil_div(p_.out_channels, lane);
  const Index most = products_.vectors * kTaskPanels;
  const Index pieces = dot_ ? 1 : ceil_div(lanes, most);
  const Index width = ceil_div(lanes, pieces) * (dot_ ? products_.width : lane);
  const Index row_bytes = taps_ * width * static_cast<Index>(sizeof(S)) * (twofold_ ? 2 : 1);
  Index ins = std::clamp<Index>(kWeightSumBytes / row_bytes, 1, p_.in_channels);
  const Index wanted = num_threads() == 1 ? 1 : 3 * num_threads();
  while (ins > 1 && p_.groups * pieces * ceil_div(p_.in_channels, ins) < wanted) ins = ceil_div(ins, 2);
  for (Index group = 0; group < p_.groups; ++group) {
    Index first_out = 0;
    for (Index piece = 0; piece < pieces; ++piece) {
      const Index share = (lanes / pieces + (piece < lanes % pieces ? 1 : 0)) * lane;
      const Index outs = std::min(share, p_.out_channels - first_out);
      for (Index first_in = 0; first_in < p_.in_channels; first_in += ins)
        tasks_.push_back({group, first_out, outs, first_in, std::min(ins, p_.in_channels - first_in)});
      first_out += outs;
    }
  }
}

template <class S>
void WeightEngine<S>::run() {
  if (p_.groups * p_.out_channels * p_.in_channels == 0) return;
  make_tasks();
  run_tasks<Workspace>(static_cast<Index>(tasks_.size()),
                       [&](Workspace& work, Index i) { run_task(work, tasks_[static_cast<std::size_t>(i)]); });
}

// The plan of a tile serves all tasks; where there is one tile, it is made once.
template <class S>
Tile WeightEngine<S>::plan(Workspace& work, Index number) const {
  const Tile tile = tiling_.tile(number);
  if (work.planned != number) work.plan.plan(gather_, tile, dot_);
  work.planned = number;
  return tile;
}

template <class S>
void WeightEngine<S>::prepare(Workspace& work, const WeightTask& task, bool any_tile) {
  if (any_tile) plan(work, 0);  // no tile has a larger slab
  const Index slab_bytes = std::max<Index>(1, together_ * work.plan.cells()) * static_cast<Index>(sizeof(S));
  work.step = std::clamp<Index>(kWeightSlabBytes / slab_bytes, 1, task.ins);
  work.width = ceil_div(task.outs, products_.width) * products_.width;
  work.plane = dot_ ? products_.width * task.outs * task.ins * taps_
                    : work.width * row_of(work, ceil_div(task.ins, work.step) * work.step, 0);
  const Index size = work.plane * (twofold_ ? 2 : 1);
  std::fill_n(work.sums.at_least(size), size, S(-0.0));
  std::fill_n(work.totals.at_least(size), size, S(-0.0));
  work.input_size.assign(static_cast<std::size_t>(task.ins), 0.0);
  work.output_size.assign(static_cast<std::size_t>(task.outs), 0.0);
}

template <class S>
void WeightEngine<S>::run_task(Workspace& work, const WeightTask& task) {
  const Index tiles = p_.batch == 0 || position_count(gather_) == 0 ? 0 : tiling_.count();
  prepare(work, task, tiles > 0);
  S* const sums = work.sums.at_least(1);
  S* const totals = work.totals.at_least(1);
  Index waiting = 0;
  for (Index i = 0; i < tiles; ++i) {
    const Tile tile = plan(work, i);
    for (Index n = 0; n < p_.batch; n += together_) {
      if (dot_) dot_tile(work, task, n, tile);
      else matrix_tile(work, task, {n, std::min(together_, p_.batch - n)}, tile);
      if (twofold_ || ++waiting < flush_) continue;
      for (Index j = 0; j < work.plane; ++j) totals[j] += sums[j], sums[j] = S(-0.0);
      waiting = 0;
    }
  }
  if (!twofold_)
    for (Index j = 0; j < work.plane; ++j) sums[j] += totals[j];
  work.finite = !twofold_;  // the largest magnitude passes over NaN
  if (!twofold_) {
    for (std::vector<double>* sizes : {&work.input_size, &work.output_size}) {
      for (double& size : *sizes) {
        work.finite = work.finite && std::isfinite(size);
        size = std::sqrt(size);
      }
    }
  }
  work.sparse.reset(task.ins, task.outs);
  finish(work, task);
}

// The channels' sizes, found on the way: sums of squares; or, for twofold sums, the inputs' largest magnitudes and the
// outputs' sums of magnitudes. Cells that several tiles stage count several times, which only loosens the bound.
template <class S>
void WeightEngine<S>::measure_inputs(Workspace& work, Index first, Index count, Index cells, const S* slab,
                                        const SlabLayout& layout) {
  if constexpr (std::is_same_v<S, double>) {
    if (!correct_) return;
    for (Index c = 0; c < count; ++c) {
      double& size = work.input_size[static_cast<std::size_t>(first + c)];
      if (layout.channels_inside) {
        for (Index i = 0; i < cells; ++i) {
          const double x = slab[i * layout.cell + c];
          size = twofold_ ? std::max(size, std::abs(x)) : size + x * x;
        }
      } else {
        const double* const plane = slab + c * layout.channel;
        if (twofold_) size = std::max(size, kernels_.largest_magnitude(plane, cells));
        else size += kernels_.sum_squares(plane, cells);
      }
    }
  }
}

template <class S>
void WeightEngine<S>::measure_outputs(Workspace& work, Index out, const S* line, Index n) {
  if constexpr (std::is_same_v<S, double>) {
    if (!correct_) return;
    work.output_size[static_cast<std::size_t>(out)] +=
        twofold_ ? kernels_.sum_magnitudes(line, n) : kernels_.sum_squares(line, n);
  }
}

}  // namespace halfulp::conv

#include "conv/weight_finish.hpp"
#include "conv/weight_sums.hpp"
