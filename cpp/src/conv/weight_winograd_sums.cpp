// The sums of the weight product by patches over one chunk.
#include "conv/weight_winograd_engine.hpp"

namespace halfulp::conv {

void WeightWinogradEngine::find_runs(Workspace& work, Index chunk) const {
  const Index begin = chunk * patches_ / chunks_, end = (chunk + 1) * patches_ / chunks_;
  work.patches = end - begin;
  work.padded = ceil_div(work.patches, 8) * 8;
  grid_.find_runs(begin, end, work.runs);
}

void WeightWinogradEngine::transform_cells(Workspace& work, const WeightTask& task) {
  const Index stride = line_stride(), padded = work.padded, value_stride = cell_stride(work, task.ins);
  const Index split_size = kPatchValues * padded;
  double* const lines = work.lines.at_least(kPatchSide * stride);
  double* const split = work.split.at_least(kTransformedTogether * split_size);
  double* const cells = work.cells.at_least(kPatchValues * value_stride);
  double* const squares = work.cell_squares.at_least(stride);
  double* const unused = work.unused.at_least(split_size);
  std::fill_n(split, kTransformedTogether * split_size, 0.0);  // patches that fill up the last vector
  std::fill_n(unused, split_size, 0.0);
  for (Index first = 0; first < task.ins; first += kTransformedTogether) {
    const Index count = std::min(kTransformedTogether, task.ins - first);
    for (Index c = first; c < first + count; ++c) {
      std::fill_n(squares, stride, 0.0);
      for (const PatchRun& run : work.runs) {
        const Index channel = task.group * p_.in_channels + task.first_in + c;
        load_patch_lines(grid_, p_.inputs, channel, p_.inputs.channel, run, lines, stride);
        patch_.columns(lines, stride, run.count, split + (c - first) * split_size + run.first, padded, squares);
      }
      // A cell of a column is in two patches of the row at most.
      double sum = 0;
      for (Index x = 0; x < kPatchOutputs * std::min(grid_.across.patches, work.patches) + 2; ++x) sum += squares[x];
      work.input_size[static_cast<std::size_t>(c)] += 2 * sum;
    }
    patch_.rows(split, padded, padded, padded, count, cells + first * padded, value_stride, 0, unused);
  }
  for (Index c = 0; c < task.ins; ++c)
    for (Index value = 0; value < kPatchValues; ++value)
      work.input_squares[static_cast<std::size_t>(c * kPatchValues + value)] +=
          kernels_.sum_squares(cells + value * value_stride + c * padded, padded);
}

// Four lines of outputs as turned[(line * cells + x) * width + channel], zeros beyond the end.
void WeightWinogradEngine::load_outputs(Workspace& work, const WeightTask& task, const PatchRun& run) {
  const Index cells = run.count * kPatchOutputs, width = work.width, line = odd_lines<double>(cells);
  const Index left = grid_.across.position(run.phase[1], run.column * kPatchOutputs);
  const Index real = std::min(cells, grid_.across.left(run.phase[1], run.column));
  const Index step = grid_.across.apart * p_.outputs.spatial[1];
  const bool inside = p_.outputs.channel == 1 && p_.outputs.spatial[1] != 1;
  double* const lines = work.output_lines.at_least(width * line);
  double* turned = work.turned.at_least(kPatchOutputs * chunk_patches_ * kPatchOutputs * width);
  const Index first = task.group * p_.out_channels + task.first_out;
  for (Index i = 0; i < kPatchOutputs; ++i, turned += cells * width) {
    const Index y = grid_.down.position(run.phase[0], run.row * kPatchOutputs + i);
    if (y >= p_.axes[0].output || real == 0) {
      std::fill_n(turned, cells * width, 0.0);
      continue;
    }
    Elements from = p_.outputs.data + run.sample * p_.outputs.batch + first * p_.outputs.channel +
                    y * p_.outputs.spatial[0] + left * p_.outputs.spatial[1];
    if (inside) {
      std::fill_n(turned, cells * width, 0.0);
      for (Index x = 0; x < real; ++x) (from + x * step).load(1, task.outs, turned + x * width);
      continue;
    }
    for (Index m = 0; m < task.outs; ++m, from += p_.outputs.channel) {
      if (step == 1) prefetch(from, 2 * p_.outputs.channel, real);
      from.load(step, real, lines + m * line);
      std::fill(lines + m * line + real, lines + m * line + cells, 0.0);
    }
    std::fill(lines + task.outs * line, lines + width * line, 0.0);
    products_.transpose(lines, line, width, cells, turned, width);
  }
}

void WeightWinogradEngine::transform_outputs(Workspace& work, const WeightTask& task) {
  const Index value_stride = output_stride(work), width = work.width;
  double* const values = work.outputs.at_least(kPatchValues * value_stride);
  double* const squares = work.output_squares.at_least(1);
  for (const PatchRun& run : work.runs) {
    load_outputs(work, task, run);
    const double* const turned = work.turned.at_least(1);
    for (Index column = 0; column < width; column += panel_width()) {
      const Index n = std::min(panel_width(), width - column);
      double* const panel = values + column * work.patches + run.first * n;
      for (Index p = 0; p < run.count; ++p)
        weight_.outputs(turned + p * kPatchOutputs * width + column, run.count * kPatchOutputs * width, width, n,
                        panel + p * n, value_stride, squares + column, width);
    }
  }
}

void WeightWinogradEngine::sum_chunk(Workspace& work, const WeightTask& task, bool first) {
  Index offsets[kChunkPatches];
  for (Index p = 0; p < work.patches; ++p) offsets[p] = p;
  const double* cells = work.cells.at_least(1);
  const double* values = work.outputs.at_least(1);
  double* sums = work.sums.at_least(1);
  for (Index value = 0; value < kPatchValues; ++value) {
    for (Index column = 0; column < work.width; column += panel_width()) {
      const Index n = std::min(panel_width(), work.width - column);
      const auto matrix = products_.matrix[n / products_.width - 1];
      for (Index r = 0; r < work.rows; r += products_.rows) {
        const double* rows[kMaxRows];
        for (Index i = 0; i < products_.rows; ++i) rows[i] = cells + std::min(r + i, task.ins - 1) * work.padded;
        matrix(rows, offsets, values + column * work.patches, work.patches, sums + r * work.width + column, work.width,
               0, first);
      }
    }
    cells += cell_stride(work, task.ins);
    values += output_stride(work);
    sums += sum_stride(work);
  }
}

}  // namespace halfulp::conv
