// From transformed cells and filters to outputs: sums, acceptance, resolution of the rest, and writing.
#include "conv/winograd_engine.hpp"

namespace halfulp::conv {

// Adds the products of a block of channels to the 36 sums of every patch and output channel.
void WinogradEngine::sum_block(Workspace& work, const PatchPanel& panel, const PatchBlock& block,
                               const double* filters) {
  const Index lane = products_.rows, width = panel.width, patches = work.patches;
  const Index value_sums = sum_stride(work, width), filter_stride = block_stride(block, width);
  double* const sums = work.sums.at_least(kPatchValues * value_sums);
  const auto matrix = products_.tall[width / products_.width - 1];
  const Index rows = products_.tall_rows[width / products_.width - 1];
  Index offsets[kPatchDepth];
  for (Index c = 0; c < block.count; ++c) offsets[c] = c * lane;
  const double* patch[kPatchGroup + 2 * kMaxRows];
  // Filters that are too many to stay near are asked for a value ahead, a share with every call.
  const Index ahead = filters_are_far() ? kPatchValues - 1 : 0;
  const Index share = ceil_div(block.count * width, ceil_div(patches, rows));
  for (Index value = 0; value < kPatchValues; ++value) {
    const double* const cells = work.cells.at_least(1) + value * cell_stride(work) + block.number * lane;
    for (Index p = 0; p < patches + kMaxRows - 1; ++p) patch[p] = cells + work.positions[p];
    for (Index first = 0; first < patches; first += rows) {
      matrix(patch + first, offsets, filters + value * filter_stride, block.count,
             sums + value * value_sums + first * width, width, 0, block.number == 0);
      if (value < ahead)
        prefetch_bytes_for_later(filters + (value + 1) * filter_stride + first / rows * share, 8 * share);
    }
  }
}

void WinogradEngine::finish(Workspace& work, const PatchPanel& panel) {
  const Index patches = work.patches, width = panel.width, positions = 16 * patches;
  const Index stride = odd_lines<double>(width), turned_stride = odd_lines<double>(positions);
  const double* sums = work.sums.at_least(1);
  double* const outputs = work.outputs.at_least(positions * stride);
  for (Index p = 0; p < patches; ++p, sums += width)
    patch_.outputs(sums, sum_stride(work, width), width, outputs + p * 4 * stride, patches * 4 * stride,
                   stride);
  double* const turned = work.turned.at_least(width * turned_stride);
  products_.transpose(outputs, stride, positions, width, turned, turned_stride);
  for (Index j = 0; j < panel.columns && !refused_; ++j)
    finish_channel(work, panel.first + j, turned + j * turned_stride);
}

void WinogradEngine::finish_channel(Workspace& work, Index row, double* sums) {
  const Index positions = 16 * work.patches;
  const double bias = p_.bias == nullptr ? -0.0 : p_.bias_of(conv_group_, row);
  const double gamma = 1.001 * (roundings_ + 8) * 0x1p-53;
  Acceptance a{positions, {}, {}, std::abs(bias), bias, work.floors.at_least(1), gamma, 0.0};
  for (std::size_t s = 0; s < p_.sources.size(); ++s) {
    a.reach[s] = work.reach.at_least(1) + static_cast<Index>(s) * positions;
    a.size[s] = filter_size_[s][static_cast<std::size_t>(row)];
  }
  const double scale[2] = {gamma * a.size[0], gamma * a.size[1]};
  const Margin margin{{a.reach[0], a.reach[1]}, {scale[0], scale[1]}, gamma * a.base + kZeroMargin, bias};
  const Outputs rounded{work.rounded.at_least(positions * type_.size), &type_};
  work.seen += positions;
  if (type_.decide(sums, positions, margin, rounded.at)) return write(work, row, constant(rounded));
  const Index count = type_.accept(sums, nullptr, a, rounded.at, work.bad.at_least(positions));
  work.undecided += count;
  if (count > 0 && !resolve(work, row, a, sums, rounded)) return;
  write(work, row, constant(rounded));
}

bool WinogradEngine::resolve(Workspace& work, Index row, const Acceptance& a, const double* sums, const Outputs& out) {
  constexpr Index few = 32;
  const bool many = work.undecided >= few && work.undecided * kPatchUndecided > work.seen;
  if (many || (work.hard >= few && work.hard * kPatchHard > work.seen)) {
    refused_ = true;
    return false;
  }
  const std::uint8_t* const bad = work.bad.at_least(1);
  for (const PatchRun& run : work.runs) {
    for (Index i = 0; i < kPatchOutputs; ++i) {
      const Index first = (i * work.patches + run.first) * kPatchOutputs;
      for (Index x = 0; x < run.count * kPatchOutputs; ++x) {
        if (bad[first + x] == 0) continue;
        work.position = {grid_.down.position(run.phase[0], run.row * kPatchOutputs + i),
                         grid_.across.position(run.phase[1], run.column * kPatchOutputs + x)};
        if (sum_directly(run.sample, row, work.position, out + (first + x))) continue;
        work.hard += 1;
        bool all_zero = a.base == 0;
        for (std::size_t s = 0; s < p_.sources.size(); ++s)
          all_zero = all_zero && (a.reach[s][first + x] == 0 || a.size[s] == 0);
        const double value = all_zero ? 0.0 : sums[first + x] + a.bias;
        p_.resolve(run.sample, conv_group_, row, work.position, value, all_zero, false, out + (first + x));
      }
    }
  }
  return true;
}

// The sum of the products themselves, which loses far less; false if that, too, leaves the output undecided. Runs of
// products are added up with what their additions lose beside them: nearly all of the error is from within the runs.
bool WinogradEngine::sum_directly(Index sample, Index row, const Sizes& position, const Outputs& out) const {
  constexpr Index run = 16;  // channels
  TwoDoubles sum{p_.bias == nullptr ? 0.0 : p_.bias_of(conv_group_, row), 0.0};
  double size = std::abs(sum.high);
  for (std::size_t s = 0; s < p_.sources.size(); ++s) {
    const Source& source = p_.sources[s];
    Index weight[9], cell[9];
    int count = 0;
    for (Index t = 0; t < 9; ++t) {
      const Index y = position[0] + grid_.down.first_cell + t / 3 * grid_.down.apart;
      const Index x = position[1] + grid_.across.first_cell + t % 3 * grid_.across.apart;
      if (y < 0 || y >= p_.gather[0].source_size || x < 0 || x >= p_.gather[1].source_size) continue;
      weight[count] = tap_offsets_[s][static_cast<std::size_t>(t)];
      cell[count++] = y * source.planes.spatial[0] + x * source.planes.spatial[1];
    }
    const Elements weights = p_.filter(source, conv_group_, row);
    const Elements cells =
        source.planes.data + sample * source.planes.batch + conv_group_ * p_.channels * source.planes.channel;
    visit_float(type_.dtype, [&]<class T>(T) {
      for (Index c = 0; c < p_.channels; c += run) {
        for (int t = 0; t < count; ++t) {
          const T* w = (weights + (c * source.channel + weight[t])).as<T>();
          const T* x = (cells + (c * source.planes.channel + cell[t])).as<T>();
          double part = 0, part_size = 0;
          for (Index i = c; i < std::min(c + run, p_.channels); ++i, w += source.channel, x += source.planes.channel) {
            const double product = as_double(*w) * as_double(*x);
            part += product;
            part_size += std::abs(product);
          }
          size += part_size;
          const TwoDoubles next = two_sum(sum.high, part);
          sum = {next.high, sum.low + next.low};
        }
      }
    });
  }
  const double value = sum.high + sum.low, error = 1.001 * static_cast<double>(run + 2 + 8) * 0x1p-53 * size;
  if (!(error < std::abs(value)) || !same_rounding_in(type_.dtype, value - error, value + error)) return false;
  store(out, value);
  return true;
}

void WinogradEngine::write(const Workspace& work, Index row, const Elements& rounded) const {
  const GatherAxis &down = p_.gather[0], &across = p_.gather[1];
  const Index stride = across.out_step * grid_.across.apart * p_.out.spatial[1];
  for (const PatchRun& run : work.runs) {
    const Index below = std::min<Index>(kPatchOutputs, grid_.down.left(run.phase[0], run.row));
    const Index right = std::min(run.count * kPatchOutputs, grid_.across.left(run.phase[1], run.column));
    const Index left = grid_.across.position(run.phase[1], run.column * kPatchOutputs);
    for (Index i = 0; i < below; ++i) {
      const Index top = grid_.down.position(run.phase[0], run.row * kPatchOutputs + i);
      const Index y = down.out_start + top * down.out_step, x = across.out_start + left * across.out_step;
      const Outputs out = p_.plane(run.sample, conv_group_, row) + y * p_.out.spatial[0] + x * p_.out.spatial[1];
      const Elements in = rounded + (i * work.patches + run.first) * kPatchOutputs;
      copy_spread(kernels_, in, right, stride, out);
    }
  }
}

}  // namespace halfulp::conv
