#include "halfulp/normalize.hpp"

#include "base/row_buffer.hpp"
#include "exact/round.hpp"
#include "halfulp/engines.hpp"
#include "normalize/reports.hpp"

namespace halfulp {
namespace {

class WideWeights {
 public:
  explicit WideWeights(const NormProblem& p) {
    if (!p.per_cell) return;
    numbers_.resize(static_cast<std::size_t>(kWeightNumbers * p.inner));
    floats_.assign(kWeightFloats * padded_length<float>(p.inner), 0.0f);
    weights = select_norm_kernels().widen(p, numbers_.data(), floats_.data());
  }
  CellWeights weights;

 private:
  std::vector<double> numbers_;
  RowBuffer<float> floats_;
};

// Undecided cotangents of weights once more in pairs of doubles; those that are left.
std::vector<Index> precise_weights(const NormProblem& problem, const std::vector<Index>& positions) {
  const NormKernels& kernels = select_norm_kernels();
  const auto count = static_cast<Index>(positions.size());
  count_engine(Engine::normalize_pair, count);
  return in_parallel(count, problem.size(), [&](Index begin, Index end, const NormReport& report) {
    for (Index i = begin; i < end; ++i) {
      const Index weight = positions[static_cast<std::size_t>(i)];
      if (!kernels.precise_weight(problem, weight)) report.add(report.list, weight);
    }
  });
}

constexpr Index kLongRun = 1024;  // the work of a run is far above that of its coefficients

std::vector<Index> every(Index count) {
  std::vector<Index> all(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Index>(i);
  return all;
}

bool is_wide(const NormProblem& problem) { return problem.dtype == DType::f64; }

// Layer norm: the rows of a thread are added to sums of its own.
void pull_back_rows(const NormProblem& problem, NormUndecided& undecided) {
  const NormKernels& kernels = select_norm_kernels();
  const WideWeights wide(problem);
  const bool summed = problem.weight_out != nullptr || problem.bias_out != nullptr;
  const Index rows = problem.group_count(), blocks = (rows + kRowBlock - 1) / kRowBlock;
  ColumnBuffers total(summed ? problem.inner : 0);
  std::mutex mutex;
  undecided.x = in_parallel(blocks, problem.inner * kRowBlock, [&](Index begin, Index end, const NormReport& report) {
    ColumnBuffers own(summed ? problem.inner : 0);
    for (Index block = begin; block < end; ++block) {
      const Index first = block * kRowBlock, stop = std::min(rows, first + kRowBlock);
      kernels.run(problem, wide.weights, first, stop, report);
      if (summed) kernels.add_rows(problem, first, stop, own.sums);
    }
    const std::lock_guard lock(mutex);
    total.add(own);
  });
  if (!summed) return;
  std::vector<Index> weights;
  kernels.cell_weights(problem, 0, problem.inner, total.sums, report_to(weights), report_to(undecided.bias));
  undecided.weight = precise_weights(problem, weights);
}

void pull_back_groups(const NormProblem& problem, NormUndecided& undecided) {
  const NormKernels& kernels = select_norm_kernels();
  undecided.x =
      in_parallel(problem.group_count(), problem.cells(), [&](Index begin, Index end, const NormReport& report) {
        kernels.run(problem, CellWeights{}, begin, end, report);
      });
  if (problem.weight_out == nullptr && problem.bias_out == nullptr) return;
  std::vector<Index> weights;
  kernels.channel_weights(problem, 0, problem.weight_count(), report_to(weights), report_to(undecided.bias));
  undecided.weight = precise_weights(problem, weights);
}

}  // namespace

void ColumnBuffers::add(const ColumnBuffers& other) {
  const auto add_pair = [](double& high, double& low, double more, double more_low) {
    const TwoDoubles s = two_sum(high, more);
    const TwoDoubles t = fast_two_sum(s.high, s.low + (low + more_low));
    high = t.high;
    low = t.low;
  };
  for (Index j = 0; j < width_; ++j) {
    add_pair(sums.first[j], sums.first_low[j], other.sums.first[j], other.sums.first_low[j]);
    add_pair(sums.second[j], sums.second_low[j], other.sums.second[j], other.sums.second_low[j]);
    sums.squares[j] += other.sums.squares[j];
    sums.other_squares[j] += other.sums.other_squares[j];
    sums.most[j] = std::max(sums.most[j], other.sums.most[j]);
  }
}

std::vector<Index> normalize(const NormProblem& given) {
  if (given.size() == 0) return {};
  count_engine(given.last ? Engine::normalize_last : Engine::normalize);
  if (given.last) return normalize_last(given);
  const NormKernels& kernels = select_norm_kernels();
  NormProblem problem = given;
  std::vector<GroupMoments> moments;
  if (problem.mean != nullptr && problem.joint && problem.inner >= kLongRun) {
    // Runs do not depend on each other, and are taken in the order of memory.
    if (problem.moments == nullptr) {
      moments.resize(static_cast<std::size_t>(problem.groups));
      problem.moments = moments.data();
    }
    if (problem.moments != given.moments || !problem.moments_known) kernels.last_pivots(problem);
    problem.moments_known = true;
    problem.joint = false;
  }
  const WideWeights wide(problem);
  return in_parallel(problem.group_count(), problem.cells(), [&](Index begin, Index end, const NormReport& report) {
    kernels.run(problem, wide.weights, begin, end, report);
  });
}

NormUndecided normalize_pullback(const NormProblem& given) {
  NormUndecided undecided;
  if (given.size() == 0) return undecided;
  count_engine(given.last ? Engine::normalize_last : Engine::normalize);
  NormProblem problem = given;
  std::vector<GroupMoments> moments;
  if (problem.moments == nullptr) {
    moments.resize(static_cast<std::size_t>(problem.group_count()));
    problem.moments = moments.data();
  }
  std::vector<NormSums> sums;
  if (!problem.per_cell) {
    sums.resize(static_cast<std::size_t>(problem.group_count() * problem.channels));
    problem.sums = sums.data();
  }
  if (problem.last) return normalize_pullback_last(problem);
  if (is_wide(problem)) {  // pairs of doubles find their own moments
    problem.moments = nullptr;
    if (problem.out != nullptr) undecided.x = normalize(problem);
    if (problem.weight_out != nullptr) undecided.weight = precise_weights(problem, every(problem.weight_count()));
    if (problem.bias_out != nullptr) undecided.bias = every(problem.weight_count());
    return undecided;
  }
  if (problem.per_cell) pull_back_rows(problem, undecided);
  else pull_back_groups(problem, undecided);
  return undecided;
}

std::vector<Index> group_statistics(const NormProblem& given) {
  if (given.size() == 0) return {};
  NormProblem problem = given;
  const NormKernels& kernels = select_norm_kernels();
  std::vector<GroupMoments> moments;
  if (problem.last && !problem.moments_known && !is_wide(problem)) {
    moments.resize(static_cast<std::size_t>(problem.groups));
    problem.moments = moments.data();
    problem.t = nullptr;
    sum_last(problem);
    problem.moments_known = true;
  }
  const Index work = problem.moments_known ? 64 : problem.cells();
  const auto unsure =
      in_parallel(problem.group_count(), work, [&](Index begin, Index end, const NormReport& report) {
        for (Index group = begin; group < end; ++group) kernels.statistic(problem, group, report);
      });
  return problem.last ? precise_statistics_last(problem, unsure) : unsure;
}

}  // namespace halfulp
