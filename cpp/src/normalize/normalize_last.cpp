// Batch norm of groups along the last axis: vectors of neighbouring groups, threads by rows. What double leaves
// undecided is gathered, one group at a time, and evaluated in pairs of doubles.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "halfulp/engines.hpp"
#include "normalize/reports.hpp"

namespace halfulp {
namespace {

// The sums over all rows.
void add_rows(const NormProblem& problem, bool projections, ColumnBuffers& total) {
  const NormKernels& kernels = select_norm_kernels();
  std::mutex mutex;
  const Index rows = problem.cells(), grain = std::max<Index>(64, (Index{1} << 15) / problem.groups);
  parallel_for(rows, grain, [&](Index begin, Index end) {
    ColumnBuffers own(problem.groups);
    for (Index j = 0; j < problem.groups; ++j) own.sums.pivot[j] = problem.moments[j].pivot;
    kernels.last_sums(problem, begin, end, projections, own.sums);
    const std::lock_guard lock(mutex);
    total.add(own);
  });
}

constexpr Index kTogether = 16;  // groups that are gathered with one walk

// One group as a problem of its own, with copies of its cells once it is filled: of all, or of some rows.
class Gathered {
 public:
  Gathered(const NormProblem& problem, Index group, std::vector<Index> rows = {})
      : problem_(problem), group_(group), rows_(std::move(rows)), own(problem) {
    own.blocks = own.groups = 1;
    own.inner = rows_.empty() ? problem.cells() : static_cast<Index>(rows_.size());
    own.last = false;
    own.moments = nullptr;
    own.moments_known = false;
    own.sums = nullptr;
    own.x = position(problem.x, x_);
    own.t = position(problem.t, t_);
    for (const void** array : {&own.weight, &own.bias, &own.mean, &own.variance, &own.d_weight, &own.d_bias, &own.old})
      if (*array != nullptr) *array = static_cast<const char*>(*array) + group * item();
    out_.resize(static_cast<std::size_t>(own.inner * item()));
    own.out = out_.data();
  }
  Gathered(const Gathered&) = delete;
  Gathered& operator=(const Gathered&) = delete;

  // The cells of all of them, with one walk over the rows.
  static void fill(const std::vector<std::unique_ptr<Gathered>>& all) {
    const NormProblem& problem = all.front()->problem_;
    const auto copy = [&](const void* from, std::vector<char> Gathered::* to) {
      if (item_size(problem.dtype) == 2) copy_columns<std::uint16_t>(all, from, to);
      else if (item_size(problem.dtype) == 4) copy_columns<std::uint32_t>(all, from, to);
      else copy_columns<std::uint64_t>(all, from, to);
    };
    copy(problem.x, &Gathered::x_);
    copy(problem.t, &Gathered::t_);
  }

  // Cell i belongs to this row.
  Index row(Index i) const { return rows_.empty() ? i : rows_[static_cast<std::size_t>(i)]; }
  void put_back(Index i) const {
    std::memcpy(static_cast<char*>(problem_.out) + (row(i) * problem_.groups + group_) * item(),
                out_.data() + i * item(), static_cast<std::size_t>(item()));
  }

 private:
  Index item() const { return static_cast<Index>(item_size(problem_.dtype)); }
  const void* position(const void* from, std::vector<char>& to) const {
    if (from == nullptr) return nullptr;
    to.resize(static_cast<std::size_t>(own.inner * item()));
    return to.data();
  }
  template <class Bits>
  static void copy_columns(const std::vector<std::unique_ptr<Gathered>>& all, const void* from,
                           std::vector<char> Gathered::* to) {
    if (from == nullptr) return;
    const NormProblem& problem = all.front()->problem_;
    const auto* const cells = static_cast<const Bits*>(from);
    for (const auto& one : all)
      for (Index i = 0; i < static_cast<Index>(one->rows_.size()); ++i)
        reinterpret_cast<Bits*>((one.get()->*to).data())[i] = cells[one->row(i) * problem.groups + one->group_];
    if (!all.front()->rows_.empty()) return;
    for (Index row = 0; row < problem.cells(); ++row)
      for (const auto& one : all)
        reinterpret_cast<Bits*>((one.get()->*to).data())[row] =
            cells[row * problem.groups + one->group_];
  }

  const NormProblem& problem_;
  Index group_;
  std::vector<Index> rows_;
  std::vector<char> x_, t_, out_;

 public:
  NormProblem own;
};

std::vector<std::unique_ptr<Gathered>> filled(const NormProblem& problem, Index group) {
  std::vector<std::unique_ptr<Gathered>> one;
  one.push_back(std::make_unique<Gathered>(problem, group));
  Gathered::fill(one);
  return one;
}

// Undecided positions once more in pairs of doubles; those that are left.
std::vector<Index> precise_outputs(const NormProblem& problem, std::vector<Index> positions) {
  if (positions.empty()) return {};
  count_engine(Engine::normalize_pair, static_cast<Index>(positions.size()));
  const NormKernels& kernels = select_norm_kernels();
  const Index groups = problem.groups;
  std::sort(positions.begin(), positions.end(), [=](Index a, Index b) {
    return a % groups != b % groups ? a % groups < b % groups : a < b;
  });
  std::vector<std::size_t> starts;  // where the positions of a group begin
  for (std::size_t i = 0; i < positions.size(); ++i)
    if (i == 0 || positions[i] % groups != positions[i - 1] % groups) starts.push_back(i);
  starts.push_back(positions.size());
  const auto count = static_cast<Index>(starts.size()) - 1;
  return in_parallel(count, problem.cells(), [&](Index begin, Index end, const NormReport& report) {
    for (Index at = begin; at < end; at += kTogether) {
      std::vector<std::unique_ptr<Gathered>> batch;
      std::vector<std::vector<Index>> wanted;
      for (Index i = at; i < std::min(end, at + kTogether); ++i) {
        const std::size_t from = starts[static_cast<std::size_t>(i)], to = starts[static_cast<std::size_t>(i) + 1];
        std::vector<Index> rows, cells;
        for (std::size_t j = from; j < to; ++j) {
          rows.push_back(positions[j] / groups);
          cells.push_back(static_cast<Index>(j - from));
        }
        // With given statistics the other cells of a group do not count.
        const bool some = problem.mean != nullptr;
        batch.push_back(some ? std::make_unique<Gathered>(problem, positions[from] % groups, rows)
                             : std::make_unique<Gathered>(problem, positions[from] % groups));
        wanted.push_back(some ? cells : rows);
      }
      Gathered::fill(batch);
      for (std::size_t b = 0; b < batch.size(); ++b) {
        const std::vector<Index>& cells = wanted[b];
        const Index group = positions[starts[static_cast<std::size_t>(at) + b]] % groups;
        std::vector<Index> left;
        kernels.precise(batch[b]->own, 0, cells.data(), static_cast<Index>(cells.size()), report_to(left));
        for (const Index cell : cells) batch[b]->put_back(cell);
        for (const Index cell : left) report.add(report.list, batch[b]->row(cell) * groups + group);
      }
    }
  });
}

std::vector<Index> outputs(const NormProblem& problem) {
  const NormKernels& kernels = select_norm_kernels();
  std::vector<double> forms(static_cast<std::size_t>(kFormArrays * padded_width(problem.groups)));
  kernels.last_forms(problem, forms.data());
  const auto unsure =
      in_parallel(problem.cells(), problem.groups, [&](Index begin, Index end, const NormReport& report) {
        kernels.last_outputs(problem, forms.data(), begin, end, report);
      });
  return precise_outputs(problem, unsure);
}

std::vector<Index> every_position(const NormProblem& problem) {
  std::vector<Index> all(static_cast<std::size_t>(problem.size()));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Index>(i);
  return all;
}

}  // namespace

void sum_last(const NormProblem& problem) {
  const NormKernels& kernels = select_norm_kernels();
  if (!problem.moments_known) {
    kernels.last_pivots(problem);
    for (int attempt = 0; attempt < 2 && problem.mean == nullptr; ++attempt) {
      ColumnBuffers total(problem.groups);
      add_rows(problem, false, total);
      bool done = true;
      for (Index j = 0; j < problem.groups; ++j) done &= kernels.last_moments(problem, j, total.sums, attempt == 1);
      if (done) break;
    }
  }
  if (problem.t == nullptr || problem.sums == nullptr) return;
  ColumnBuffers total(problem.groups);
  add_rows(problem, true, total);
  const ColumnSums& s = total.sums;
  const double more = 1 + 0x1p-20;  // for the roundings of sums of squares
  for (Index j = 0; j < problem.groups; ++j)
    problem.sums[j] = {s.first[j],          s.first_low[j],           s.second[j],
                       s.second_low[j],     s.squares[j] * more,      s.other_squares[j] * more,
                       std::sqrt(s.most[j]) * more, 0.0};
}

std::vector<Index> normalize_last(const NormProblem& given) {
  if (given.dtype == DType::f64) return precise_outputs(given, every_position(given));
  NormProblem problem = given;
  std::vector<GroupMoments> moments;
  std::vector<NormSums> sums;
  if (problem.moments == nullptr) {
    moments.resize(static_cast<std::size_t>(problem.groups));
    problem.moments = moments.data();
  }
  if (problem.t != nullptr) {
    sums.resize(static_cast<std::size_t>(problem.groups));
    problem.sums = sums.data();
  }
  sum_last(problem);
  return outputs(problem);
}

std::vector<Index> precise_statistics_last(const NormProblem& problem, const std::vector<Index>& positions) {
  const auto count = static_cast<Index>(positions.size()), item = static_cast<Index>(item_size(problem.dtype));
  return in_parallel(count, problem.cells(), [&](Index begin, Index end, const NormReport& report) {
    for (Index i = begin; i < end; ++i) {
      const Index group = positions[static_cast<std::size_t>(i)];
      const auto one = filled(problem, group);
      Gathered& gathered = *one.front();
      gathered.own.out = static_cast<char*>(problem.out) + group * item;
      std::vector<Index> left;
      select_norm_kernels().statistic(gathered.own, 0, report_to(left));
      if (!left.empty()) report.add(report.list, group);
    }
  });
}

NormUndecided normalize_pullback_last(const NormProblem& problem) {
  NormUndecided undecided;
  const NormKernels& kernels = select_norm_kernels();
  std::vector<Index> weights;
  if (problem.dtype == DType::f64) {
    if (problem.out != nullptr) undecided.x = precise_outputs(problem, every_position(problem));
    for (Index j = 0; j < problem.groups; ++j) {
      if (problem.weight_out != nullptr) weights.push_back(j);
      if (problem.bias_out != nullptr) undecided.bias.push_back(j);
    }
  } else {
    sum_last(problem);
    if (problem.out != nullptr) undecided.x = outputs(problem);
    kernels.channel_weights(problem, 0, problem.groups, report_to(weights), report_to(undecided.bias));
  }
  const auto count = static_cast<Index>(weights.size());
  undecided.weight = in_parallel(count, problem.cells(), [&](Index begin, Index end, const NormReport& report) {
    for (Index i = begin; i < end; ++i) {
      const Index weight = weights[static_cast<std::size_t>(i)], item = static_cast<Index>(item_size(problem.dtype));
      const auto one = filled(problem, weight);
      Gathered& gathered = *one.front();
      gathered.own.weight_out = static_cast<char*>(problem.weight_out) + weight * item;
      if (!kernels.precise_weight(gathered.own, 0)) report.add(report.list, weight);
    }
  });
  return undecided;
}

}  // namespace halfulp
