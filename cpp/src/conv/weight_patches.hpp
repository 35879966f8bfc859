// Weight products of 3 x 3 kernels by patches (weight_kernels.hpp): a quarter of the products, but larger
// rounding errors, so that more sums stay undecided; where they become too many, or something is infinite or NaN, the
// engine refuses and another must do the work.
//
// A task owns the weights between some input and some output channels. It walks through all patches in chunks:
// transform the cells and the outputs of a chunk, then for each of the 36 values add a matrix product over the patches
// to its sums. At the end the sums are transformed to taps, accepted or resolved, and written.
#pragma once

#include <atomic>
#include <vector>

#include "conv/tasks.hpp"
#include "conv/weight_engine.hpp"
#include "conv/weight_patch_bounds.hpp"

namespace halfulp::conv {

inline constexpr Index kChunkPatches = 96;         // at most
inline constexpr Index kMostChunkSums = 32;        // chunks whose sums are added up before they join the totals
inline constexpr Index kPatchTaskChannels = 128;   // on either side, at most
inline constexpr Index kTransformedTogether = 4;   // input channels
inline constexpr Index kUndecidedWeights = 32;     // refused if more than one weight in so many is undecided
inline constexpr double kZeroWeightMargin = 0x1p-300;  // leaves zeros undecided, whose signs the transforms lose

// Neighbouring patches of a chunk that lie in one row: [first, first + count).
struct WeightRun {
  Index sample, row, column, count, first;
};

template <class T>
struct WeightPatchWorkspace {
  Buffer<double, true> lines;
  Buffer<double> cell_squares, split, cells, unused;              // of a chunk: cells[value][channel][patch]
  Buffer<double> output_lines, turned, outputs, output_squares;   // outputs[value][panel][patch][column]
  Buffer<double> sums, totals, taps, reach, sizes, floors;        // sums[value][input channel][output channel]
  Buffer<T> rounded;
  Buffer<std::uint8_t> bad;
  std::vector<double> input_squares, input_size;  // [channel][value], [channel]
  std::vector<WeightRun> runs;
  SparseChannels sparse;
  Index patches = 0, padded = 0;  // of the chunk; rounded up to whole vectors
  Index width = 0, rows = 0;      // of the sums: output and input channels with the filling
  Index seen = 0, undecided = 0;
};

template <class T>
class WeightPatchEngine {
 public:
  using Workspace = WeightPatchWorkspace<T>;

  WeightPatchEngine(const Geometry& geometry, const Planes<const T>& inputs, const Planes<const T>& outputs,
                    const Filters<T>& out, const ConvKernels& kernels);

  static bool fits(const Geometry& geometry);
  // False if it refuses; then weights may have been written or not.
  bool run();

 private:
  void make_tasks();
  void run_task(Workspace& work, const WeightTask& task);
  // weight_patch_sums.hpp
  void find_runs(Workspace& work, Index chunk) const;
  void load_cells(const WeightRun& run, Index channel, double* lines) const;
  void transform_cells(Workspace& work, const WeightTask& task);
  void load_outputs(Workspace& work, const WeightTask& task, const WeightRun& run);
  void transform_outputs(Workspace& work, const WeightTask& task);
  void sum_chunk(Workspace& work, const WeightTask& task, bool first);
  // weight_patch_finish.hpp
  void find_sizes(Workspace& work, const WeightTask& task);
  void finish(Workspace& work, const WeightTask& task);
  bool finish_tap(Workspace& work, const WeightTask& task, Index in, Index tap);

  Index line_stride() const { return odd_lines<double>(kPatchOutputs * chunk_patches_ + 2 + 40); }
  Index cell_stride(const Workspace& work, Index channels) const { return odd_lines<double>(work.padded * channels); }
  Index output_stride(const Workspace& work) const { return odd_lines<double>(work.patches * work.width); }
  Index sum_stride(const Workspace& work) const { return odd_lines<double>(work.rows * work.width); }
  Index panel_width() const { return products_.vectors * products_.width; }

  const Geometry& g_;
  const Planes<const T>& inputs_;
  const Planes<const T>& outputs_;
  const Filters<T>& out_;
  const ConvKernels& kernels_;
  const PatchKernels& patch_;
  const WeightKernels& weight_;
  const ProductKernels<double>& products_;
  const WeightTerms<T> terms_;
  const Index rows_, columns_, patches_;  // patches along the axes, and all of the batch
  const Index chunks_, chunk_patches_, flush_;
  const double roundings_;
  const WeightPatchBounds bounds_;
  std::vector<WeightTask> tasks_;
  std::atomic<bool> refused_{false};
};

// Three neighbouring taps along both axes, and channels and positions enough to be worth the transforms.
template <class T>
bool WeightPatchEngine<T>::fits(const Geometry& geometry) {
  constexpr Index least_channels = 16;
  if (geometry.axes.size() != 2 || geometry.in_channels < least_channels || geometry.out_channels < least_channels)
    return false;
  Index positions = geometry.batch, patches = geometry.batch;
  for (const Axis& axis : geometry.axes) {
    if (axis.kernel != kPatchTaps || axis.stride != 1 || axis.dilation != 1) return false;
    positions *= axis.output;
    patches *= ceil_div(axis.output, kPatchOutputs);
  }
  return patches >= 4 && 2 * kPatchValues * patches <= 9 * positions;
}

template <class T>
WeightPatchEngine<T>::WeightPatchEngine(const Geometry& geometry, const Planes<const T>& inputs,
                                        const Planes<const T>& outputs, const Filters<T>& out,
                                        const ConvKernels& kernels)
    : g_(geometry),
      inputs_(inputs),
      outputs_(outputs),
      out_(out),
      kernels_(kernels),
      patch_(select_patch_kernels()),
      weight_(select_weight_kernels()),
      products_(kernels.wide),
      terms_(geometry, inputs, outputs, kernels),
      rows_(ceil_div(geometry.axes[0].output, kPatchOutputs)),
      columns_(ceil_div(geometry.axes[1].output, kPatchOutputs)),
      patches_(geometry.batch * rows_ * columns_),
      chunks_(ceil_div(patches_, kChunkPatches)),
      chunk_patches_(ceil_div(patches_, chunks_)),
      flush_(std::min(chunks_, kMostChunkSums)),
      roundings_(static_cast<double>(chunk_patches_ + flush_ + ceil_div(chunks_, flush_) + 1) + weight_.sum_roundings),
      bounds_(patch_.cell_roundings / roundings_, weight_.output_roundings / roundings_) {}

// Blocks of channels of like size; at least one task for each thread, if there are output channels enough.
template <class T>
void WeightPatchEngine<T>::make_tasks() {
  const Index lanes = ceil_div(g_.out_channels, products_.width);
  const Index in_blocks = ceil_div(g_.in_channels, kPatchTaskChannels);
  Index out_blocks = ceil_div(g_.out_channels, kPatchTaskChannels);
  while (g_.groups * in_blocks * out_blocks < num_threads() && 2 * out_blocks <= lanes) out_blocks *= 2;
  for (Index group = 0; group < g_.groups; ++group) {
    for (Index i = 0; i < in_blocks; ++i) {
      const Index first_in = i * g_.in_channels / in_blocks, end_in = (i + 1) * g_.in_channels / in_blocks;
      for (Index j = 0; j < out_blocks; ++j) {
        const Index first = j * lanes / out_blocks * products_.width;
        const Index end = std::min(g_.out_channels, (j + 1) * lanes / out_blocks * products_.width);
        tasks_.push_back({group, first, end - first, first_in, end_in - first_in});
      }
    }
  }
}

template <class T>
bool WeightPatchEngine<T>::run() {
  make_tasks();
  run_tasks<Workspace>(static_cast<Index>(tasks_.size()),
                       [&](Workspace& work, Index i) { run_task(work, tasks_[static_cast<std::size_t>(i)]); });
  return !refused_;
}

template <class T>
void WeightPatchEngine<T>::run_task(Workspace& work, const WeightTask& task) {
  if (refused_) return;
  work.width = ceil_div(task.outs, products_.width) * products_.width;
  work.rows = ceil_div(task.ins, products_.rows) * products_.rows;
  const Index size = kPatchValues * sum_stride(work);
  double* const sums = work.sums.at_least(size);
  double* const totals = chunks_ > flush_ ? work.totals.at_least(size) : nullptr;
  if (totals != nullptr) std::fill_n(totals, size, 0.0);
  work.input_squares.assign(static_cast<std::size_t>(task.ins * kPatchValues), 0.0);
  work.input_size.assign(static_cast<std::size_t>(task.ins), 0.0);
  const Index square_count = (kPatchValues + 1) * work.width;
  std::fill_n(work.output_squares.at_least(square_count), square_count, 0.0);
  for (Index chunk = 0; chunk < chunks_; ++chunk) {
    poll_interrupts();
    find_runs(work, chunk);
    transform_cells(work, task);
    transform_outputs(work, task);
    sum_chunk(work, task, chunk % flush_ == 0);
    if (totals == nullptr || (chunk % flush_ != flush_ - 1 && chunk + 1 != chunks_)) continue;
    for (Index i = 0; i < size; ++i) totals[i] += sums[i];
  }
  if (totals != nullptr) std::copy_n(totals, size, sums);
  find_sizes(work, task);
  work.sparse.reset(task.ins, task.outs);
  if (!refused_) finish(work, task);
}

}  // namespace halfulp::conv

#include "conv/weight_patch_finish.hpp"
#include "conv/weight_patch_sums.hpp"
