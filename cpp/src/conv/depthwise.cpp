// Applies to float32 with one source channel for each group (`run_depthwise`); its bound: "Depthwise kernels" in
// docs/explanation/error-bounds-convolution.md.
//
// Depthwise products: a plane at a time, in bands of rows that stay in the nearest cache. A band's cells are loaded as
// doubles between margins of zeros; every block of output rows is summed, rounded and written at once.
#include "conv/depthwise.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "conv/conv_kernels.hpp"
#include "conv/depthwise_kernels.hpp"
#include "conv/tasks.hpp"
#include "halfulp/engines.hpp"

namespace halfulp::conv {
namespace {

using Problem = GatherProblem;

constexpr Index kBandBytes = 24 << 10;
constexpr Index kTaskOutputs = 16384;
constexpr Index kMostRows = 8;         // output channels of a group
constexpr Index kManyUndecided = 64;   // of a plane: its sums may be exact
constexpr double kLeastError = 0x1p-150;

// Along one axis: where the cells of all phases lie. Cell low + i is staged at i; with step 2, even and odd ones apart.
struct Span {
  Index low = 0, high = 0, positions = 0, step = 1;

  void include(const GatherAxis& axis) {
    const auto [least, most] = std::minmax(axis.offset.front(), axis.offset.back());
    const bool first = positions == 0;
    low = first ? least : std::min(low, least);
    high = first ? most : std::max(high, most);
    positions = std::max(positions, axis.positions);
    step = axis.step;
  }
  Index cells() const { return (positions - 1) * step + high - low + 1; }
};

// The taps of an axis by rising offsets.
std::vector<std::size_t> rising(const GatherAxis& axis) {
  std::vector<std::size_t> order(axis.offset.size());
  for (std::size_t t = 0; t < order.size(); ++t)
    order[t] = axis.offset.front() <= axis.offset.back() ? t : order.size() - 1 - t;
  return order;
}

// One problem's way through the staged cells.
struct Phase {
  const Problem* problem;
  const DepthwiseKernel* kernels;     // by height
  Index first_row;                    // of the staged rows, for its first output row of a band
  std::vector<Index> offset;          // of each column tap
  std::vector<Index> tap;             // offsets in the filter, by rising offsets of the cells
  bool in_one_run = true;             // whether these are 0, 1, 2, ...
  bool direct = false;                // whether outputs of a row lie side by side
};

// Rows [first, first + count) of a phase, of output channel `row` of a group and sample.
struct Part {
  Index n, group, row, first, count;
};

struct Workspace {
  Buffer<double, true> cells;
  Buffer<float> rounded;
  std::vector<double> weight;
  std::vector<Doubt> doubts;
};

class Depthwise {
 public:
  explicit Depthwise(const std::vector<Problem>& problems)
      : kernels_(select_depthwise_kernels()), first_(problems.front()) {
    for (const Problem& problem : problems) {
      rows_.include(problem.gather[0]);
      columns_.include(problem.gather[1]);
    }
    const Index row = ceil_div(columns_.cells(), columns_.step) + kernels_.width;
    half_ = columns_.step == 1 ? 0 : ceil_div(row, 8) * 8;
    row_ = columns_.step == 1 ? ceil_div(row, 8) * 8 : 2 * half_;
    const Index fitting = kBandBytes / (row_ * static_cast<Index>(sizeof(double))) - (rows_.high - rows_.low);
    band_ = std::max<Index>(7, fitting / rows_.step / 7 * 7);
    for (const Problem& problem : problems) add_phase(problem);
    while (column_phases_ < problems.size() &&
           problems[column_phases_].gather[0].out_start == first_.gather[0].out_start)
      ++column_phases_;
    interleaved_ = column_phases_ == 2 && first_.gather[1].out_step == 2 && first_.out.spatial[1] == 1;
    Index taps = 0;
    for (const Problem& problem : problems) taps = std::max(taps, problem.taps());
    gamma_ = 1.001 * static_cast<double>(taps + 10) * 0x1p-53;
    const Index outputs = rows_.positions * columns_.positions * first_.rows * static_cast<Index>(problems.size());
    together_ = std::clamp<Index>(kTaskOutputs / std::max<Index>(1, outputs), 1, first_.groups);
  }

  void run() {
    const Index pieces = ceil_div(first_.groups, together_);
    count_engine(Engine::conv_depthwise, first_.batch * pieces);
    run_tasks<Workspace>(first_.batch * pieces, [&](Workspace& work, Index number) {
      const Index begin = number % pieces * together_, end = std::min(begin + together_, first_.groups);
      for (Index group = begin; group < end; ++group) run_plane(work, number / pieces, group);
    });
  }

 private:
  void add_phase(const Problem& problem) {
    const GatherAxis &rows = problem.gather[0], &columns = problem.gather[1];
    const std::vector<std::size_t> down = rising(rows), along = rising(columns);
    Phase phase{&problem, kernels_.rows[down.size() - 1][rows_.step - 1], 0, {}, {}};
    phase.first_row = rows.offset[down.front()] - rows_.low;
    phase.direct = columns.out_step * problem.out.spatial[1] == 1;
    const Source& source = problem.sources.front();
    for (const std::size_t t : along) {
      const Index cell = columns.offset[t] - columns_.low;
      phase.offset.push_back(columns_.step == 1 ? cell : cell % 2 * half_ + cell / 2);
    }
    for (const std::size_t k : down)
      for (const std::size_t t : along)
        phase.tap.push_back(rows.tap[k] * source.spatial[0] + columns.tap[t] * source.spatial[1]);
    for (std::size_t i = 0; i < phase.tap.size(); ++i)
      phase.in_one_run = phase.in_one_run && phase.tap[i] == static_cast<Index>(i);
    phases_.push_back(std::move(phase));
  }

  void run_plane(Workspace& work, Index n, Index group) {
    double exact = 0;
    Index undecided = 0;
    for (Index first = 0; first < rows_.positions; first += band_) {
      const Index count = std::min(band_, rows_.positions - first);
      const double largest = stage(work, n, group, first, count);
      for (std::size_t i = 0; i < phases_.size(); i += column_phases_)
        for (Index row = 0; row < first_.rows; ++row) {
          const Index rows = std::min(count, phases_[i].problem->gather[0].positions - first);
          if (rows <= 0) continue;
          for (std::size_t j = 0; j < column_phases_; ++j)
            run_band(work, j, phases_[i + j], {n, group, row, first, rows}, largest, undecided, exact);
          if (!phases_[i].direct) write(work, i, {n, group, row, first, rows});
        }
    }
  }

  // Where the outputs of a column phase stand until all phases are there.
  float* rounded(Workspace& work, std::size_t phase) const {
    const Index size = std::min(band_, rows_.positions) * columns_.positions;
    return work.rounded.at_least(size * static_cast<Index>(column_phases_)) + static_cast<Index>(phase) * size;
  }

  void write(Workspace& work, std::size_t first_phase, const Part& part) const {
    const Problem& p = *phases_[first_phase].problem;
    const GatherAxis& rows = p.gather[0];
    float* const plane = p.plane(part.n, part.group, part.row).as<float>();
    float* const out = plane + (rows.out_start + part.first * rows.out_step) * p.out.spatial[0];
    const Index pitch = rows.out_step * p.out.spatial[0];
    if (interleaved_) {
      const Index columns = p.gather[1].positions + phases_[first_phase + 1].problem->gather[1].positions;
      return kernels_.interleave(
          {rounded(work, 0), rounded(work, 1), columns_.positions, part.count, columns, out, pitch});
    }
    for (std::size_t j = 0; j < column_phases_; ++j) {
      const GatherAxis& columns = phases_[first_phase + j].problem->gather[1];
      for (Index r = 0; r < part.count; ++r)
        conv_kernels_.spread_f32(rounded(work, j) + r * columns_.positions, columns.positions,
                                 columns.out_step * p.out.spatial[1],
                                 out + columns.out_start * p.out.spatial[1] + r * pitch);
    }
  }

  // The cells of the output rows [first, first + count). Margins beside the rows keep their zeros.
  double stage(Workspace& work, Index n, Index group, Index first, Index count) {
    const SourcePlanes& planes = first_.sources.front().planes;
    const GatherAxis &rows = first_.gather[0], &columns = first_.gather[1];
    const Index height = (count - 1) * rows_.step + rows_.high - rows_.low + 1;
    const Index top = first * rows_.step + rows_.low;  // the source row of the first staged one
    const Index begin = std::clamp<Index>(-top, 0, height);
    const Index end = std::clamp<Index>(rows.source_size - top, begin, height);
    double* const cells = work.cells.at_least(band_cells());
    if (rows_.positions > band_) {  // otherwise rows of padding keep their zeros, too
      std::fill_n(cells, begin * row_, 0.0);
      std::fill_n(cells + end * row_, (height - end) * row_, 0.0);
    }
    // Columns: cell 0 of the source is staged at -low; cells before that, if low > 0, are not met.
    const Index skip = std::max<Index>(0, columns_.low), margin = std::max<Index>(0, -columns_.low);
    const Index width = std::min(columns.source_size - skip, columns_.cells() - margin);
    if (end == begin || width <= 0) return 0;
    DepthwiseCells loaded{};
    loaded.in = planes.data.as<float>() + n * planes.batch + group * planes.channel +
                (top + begin) * planes.spatial[0] + skip;
    loaded.in_row = planes.spatial[0];
    loaded.rows = end - begin;
    loaded.columns = width;
    loaded.step = columns_.step;
    loaded.out_row = row_;
    loaded.half = half_;
    loaded.out = cells + begin * row_ + margin;
    if (columns_.step == 2) {  // an odd margin exchanges even and odd cells
      loaded.out = cells + begin * row_ + (margin % 2 == 0 ? margin / 2 : half_ + margin / 2);
      if (margin % 2 == 1) loaded.half = 1 - half_;
    }
    return static_cast<double>(std::bit_cast<float>(kernels_.load(loaded)));
  }

  // Returns the sum of the magnitudes.
  double load_weights(Workspace& work, const Phase& phase, const Elements& filter) const {
    const Index taps = static_cast<Index>(phase.tap.size());
    work.weight.resize(phase.tap.size());
    double* const weight = work.weight.data();
    if (phase.in_one_run) {
      filter.load(1, taps, weight);
    } else {
      const float* const values = filter.as<float>();
      for (Index t = 0; t < taps; ++t) weight[t] = as_double(values[phase.tap[static_cast<std::size_t>(t)]]);
    }
    return conv_kernels_.sum_magnitudes(weight, taps);
  }

  Index band_cells() const {
    const Index rows = std::min(band_, rows_.positions);
    return ((rows - 1) * rows_.step + rows_.high - rows_.low + 1 + 1) * row_ + half_;
  }

  void run_band(Workspace& work, std::size_t column_phase, const Phase& phase, const Part& part, double largest,
                Index& undecided, double& exact) {
    const auto [n, group, row, first, count] = part;
    const Problem& p = *phase.problem;
    const GatherAxis &rows = p.gather[0], &columns = p.gather[1];
    const double size = load_weights(work, phase, p.filter(p.sources.front(), group, row));
    DepthwiseRows d{};
    d.row = row_;
    d.offset = phase.offset.data();
    d.weight = work.weight.data();
    d.taps = static_cast<Index>(phase.offset.size());
    d.columns = columns.positions;
    d.bias = p.bias == nullptr ? -0.0 : p.bias_of(group, row);
    d.gamma = gamma_;
    const double error = gamma_ * (largest * size + std::abs(d.bias));
    d.error = error <= std::numeric_limits<double>::max() ? std::max(error, kLeastError)
                                                          : std::numeric_limits<double>::infinity();
    float* const plane = p.plane(n, group, row).as<float>() + columns.out_start * p.out.spatial[1];
    const Index pitch = rows.out_step * p.out.spatial[0];
    const Index tall = count >= 7 && ceil_div(count, 7) * 7 <= ceil_div(count, 4) * 4 ? 2 : count >= 4 ? 1 : 0;
    const Index height = kDepthwiseHeights[tall];
    for (Index done = 0; done < count; done += height) {
      const Index at = std::min(done, count - height), out_row = first + at;  // the last rows may be computed twice
      float* const out = plane + rows.out_start * p.out.spatial[0] + out_row * pitch;
      work.doubts.resize(static_cast<std::size_t>(height * ceil_div(d.columns, kernels_.width)));
      d.cells = work.cells.at_least(1) + (phase.first_row + at * rows_.step) * row_;
      d.exact = exact;
      d.out = phase.direct ? out : rounded(work, column_phase) + at * columns_.positions;
      d.out_row = phase.direct ? pitch : columns_.positions;
      const Index doubts = phase.kernels[tall](d, work.doubts.data());
      for (Index i = 0; i < doubts; ++i)
        undecided += resolve(p, {n, group, row, out_row, height}, work.doubts[static_cast<std::size_t>(i)], d);
      if (undecided >= kManyUndecided && exact == 0) exact = find_exact_limit(n, group);
    }
  }

  // Outputs in doubt; says how many were undecided. The sign of a zero is in doubt beside padding, which is no term.
  Index resolve(const Problem& p, const Part& part, const Doubt& doubt, const DepthwiseRows& d) const {
    Index count = 0;
    for (std::uint32_t left = doubt.undecided | doubt.zero; left != 0; left &= left - 1) {
      const int lane = std::countr_zero(left);
      const bool zero = (doubt.zero >> lane & 1) != 0;
      const Index y = part.first + doubt.row, x = doubt.column + lane;
      if (zero && !touches_padding(p.gather[0], y) && !touches_padding(p.gather[1], x)) continue;
      float& out = d.out[doubt.row * d.out_row + x];
      // All sums here are finite.
      p.resolve(part.n, part.group, part.row, Sizes{y, x}, out == 0 ? 0.0 : 1.0, zero, true,
                outputs(&out, conv_kernels_));
      count += zero ? 0 : 1;
    }
    return count;
  }

  // Below these magnitudes all sums of the plane are exact; 0 if that is never known.
  double find_exact_limit(Index n, Index group) const {
    const SourcePlanes& planes = first_.sources.front().planes;
    const double cells = smallest_bit(planes.data + n * planes.batch + group * planes.channel,
                                      Sizes{first_.gather[0].source_size, first_.gather[1].source_size},
                                      Sizes{planes.spatial[0], planes.spatial[1]});
    double weights = std::numeric_limits<double>::infinity(), grid = weights;
    for (Index row = 0; row < first_.rows; ++row) {
      for (const Phase& phase : phases_)
        for (const Index tap : phase.tap) {
          const Elements filter = first_.filter(first_.sources.front(), group, row);
          weights = std::min(weights, lowest_bit(filter[tap]));
        }
      if (first_.bias != nullptr) grid = std::min(grid, lowest_bit(first_.bias_of(group, row)));
    }
    const double limit = exact_limit(std::min(grid, cells * weights), 0, false);
    return limit > 0 ? limit : std::numeric_limits<double>::denorm_min();  // known, and above no magnitude but zero
  }

  const DepthwiseKernels& kernels_;
  const ConvKernels& conv_kernels_ = select_conv_kernels();
  const Problem& first_;
  Span rows_, columns_;
  Index row_ = 0, half_ = 0;  // staged cells from one row to the next, and from even to odd cells
  Index band_ = 0;            // output rows of a phase
  Index together_ = 1;        // groups of a task
  double gamma_ = 0;
  std::vector<Phase> phases_;      // columns' inside
  std::size_t column_phases_ = 1;  // of each row phase
  bool interleaved_ = false;       // whether two of them make whole rows of the output
};

// Whether all weights are finite: those of the phases, and what lies between them.
bool finite_filters(const std::vector<Problem>& problems) {
  const Problem& p = problems.front();
  const Source& source = p.sources.front();
  Index low = 0, high = 0;
  for (const Problem& problem : problems)
    for (const Index offset : problem.filter_offsets(source)) {
      low = std::min(low, offset);
      high = std::max(high, offset);
    }
  const auto finite = select_conv_kernels().single.finite;
  const Index each = high - low + 1;
  const float* const first = source.filters.as<float>() + low;
  if (p.rows == 1 && source.group == each) return finite(first, p.groups * each);
  for (Index group = 0; group < p.groups; ++group)
    for (Index row = 0; row < p.rows; ++row)
      if (!finite(p.filter(source, group, row).as<float>() + low, each)) return false;
  return true;
}

bool fits(const Problem& p, const DepthwiseKernels& kernels) {
  if (p.channels != 1 || p.rows < 1 || p.rows > kMostRows || p.variants != 1 || p.bias_position != 0) return false;
  if (p.sources.size() != 1 || p.gather.size() != 2 || p.batch == 0 || p.groups == 0) return false;
  const GatherAxis &rows = p.gather[0], &columns = p.gather[1];
  if (rows.positions == 0 || columns.positions == 0 || rows.tap.empty() || columns.tap.empty()) return false;
  const Index kernel = static_cast<Index>(rows.tap.size());
  if (kernel > kDepthwiseKernelRows || rows.step > 2 || columns.step > 2) return false;
  if (kernel > 1 && std::abs(rows.offset[1] - rows.offset[0]) != 1) return false;
  if (kernels.rows[kernel - 1][rows.step - 1][0] == nullptr) return false;
  return p.sources.front().planes.spatial[1] == 1;
}

}  // namespace

bool run_depthwise(const std::vector<Problem>& problems) {
  const DepthwiseKernels& kernels = select_depthwise_kernels();
  for (const Problem& problem : problems)
    if (!fits(problem, kernels)) return false;
  if (!finite_filters(problems)) return false;
  Depthwise(problems).run();
  return true;
}

}  // namespace halfulp::conv
