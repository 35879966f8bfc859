#include "halfulp/loss.hpp"

#include <algorithm>
#include <mutex>

#include "exact/round.hpp"
#include "halfulp/engines.hpp"
#include "halfulp/parallel.hpp"
#include "loss/loss_kernels.hpp"

namespace halfulp {
namespace {

constexpr Index kPart = Index{1} << 14;

void add_position(void* list, Index position) { static_cast<std::vector<Index>*>(list)->push_back(position); }

// Runs body(begin, end, report) over [0, n) on all threads and returns what was reported.
template <class F>
std::vector<Index> in_parallel(Index n, Index each, F&& body) {
  std::vector<Index> undecided;
  std::mutex mutex;
  parallel_for(n, std::max<Index>(1, kPart / std::max<Index>(1, each)), [&](Index begin, Index end) {
    std::vector<Index> unsure;
    body(begin, end, LossReport{&unsure, add_position});
    const std::lock_guard lock(mutex);
    undecided.insert(undecided.end(), unsure.begin(), unsure.end());
  });
  return undecided;
}

// The sum of some numbers and of their errors. Adding pairs is off by 2^-100 of the magnitudes.
Enclosed total(const std::vector<Enclosed>& parts) {
  Enclosed sum;
  double size = 0;
  for (const Enclosed& part : parts) {
    const TwoDoubles s = two_sum(sum.high, part.high);
    const TwoDoubles t = two_sum(sum.low, part.low);
    const TwoDoubles v = fast_two_sum(s.high, s.low + t.high);
    const TwoDoubles w = fast_two_sum(v.high, t.low + v.low);
    sum.high = w.high;
    sum.low = w.low;
    sum.error += part.error;
    size += part.high < 0 ? -part.high : part.high;
  }
  sum.error = sum.error * (1 + 0x1p-20) + size * 0x1p-98 * static_cast<double>(parts.size());
  return sum;
}

bool sum_of_row(const SquareKernels& kernels, const SquareProblem& p, Index row, bool twice) {
  if (p.y == nullptr) return kernels.finish(p, row, kernels.centred(p, row, twice));
  const Index count = (p.length + kPart - 1) / kPart;
  std::vector<Enclosed> parts(static_cast<std::size_t>(count));
  const auto run = [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i)
      parts[static_cast<std::size_t>(i)] =
          kernels.part(p, row, i * kPart, std::min((i + 1) * kPart, p.length), twice);
  };
  if (p.rows == 1) parallel_for(count, 1, run);
  else run(0, count);
  return kernels.finish(p, row, total(parts));
}

}  // namespace

std::vector<Index> squares(const SquareProblem& problem) {
  if (problem.rows * problem.length == 0) return {};
  count_engine(Engine::squares);
  const SquareKernels& kernels = select_square_kernels();
  if (problem.by_cell && problem.y != nullptr && problem.rows == 1)
    return in_parallel((problem.length + kPart - 1) / kPart, kPart, [&](Index begin, Index end, const LossReport& r) {
      kernels.cells(problem, 0, begin * kPart, std::min(end * kPart, problem.length), r);
    });
  const auto one = [&](Index row, const LossReport& report) {
    if (problem.by_cell) return kernels.cells(problem, row, 0, problem.length, report);
    const bool quick = problem.dtype != DType::f64 && sum_of_row(kernels, problem, row, false);
    if (!quick && !sum_of_row(kernels, problem, row, true)) report.add(report.list, row);
  };
  if (problem.rows == 1) {  // its parts are shared out
    std::vector<Index> undecided;
    one(0, LossReport{&undecided, add_position});
    return undecided;
  }
  return in_parallel(problem.rows, problem.length, [&](Index begin, Index end, const LossReport& report) {
    for (Index row = begin; row < end; ++row) one(row, report);
  });
}

std::vector<Index> cross_entropy(const EntropyProblem& problem) {
  if (problem.rows * problem.classes == 0) return {};
  count_engine(Engine::cross_entropy);
  const EntropyKernels& kernels = select_entropy_kernels();
  const auto room = static_cast<std::size_t>(entropy_scratch(problem.classes));
  if (problem.work == EntropyWork::cotangent)
    return in_parallel(problem.rows, problem.classes, [&](Index begin, Index end, const LossReport& report) {
      std::vector<double> scratch(room);
      kernels.spread(problem, begin, end, scratch.data(), report);
    });
  const bool quick = problem.dtype != DType::f64;
  if (problem.by_row)
    return in_parallel(problem.rows, problem.classes, [&](Index begin, Index end, const LossReport& report) {
      std::vector<double> scratch(room);
      std::vector<Enclosed> found(static_cast<std::size_t>(end - begin));
      if (quick) kernels.rows(problem, begin, end, scratch.data(), false, found.data());
      for (Index row = begin; row < end; ++row) {
        Enclosed& own = found[static_cast<std::size_t>(row - begin)];
        if (quick && kernels.finish(problem, row, own)) continue;
        kernels.rows(problem, row, row + 1, scratch.data(), true, &own);
        if (!kernels.finish(problem, row, own)) report.add(report.list, row);
      }
    });
  std::vector<Enclosed> parts(static_cast<std::size_t>(problem.rows));
  for (const bool twice : {false, true}) {
    if (!twice && !quick) continue;
    in_parallel(problem.rows, problem.classes, [&](Index begin, Index end, const LossReport&) {
      std::vector<double> scratch(room);
      kernels.rows(problem, begin, end, scratch.data(), twice, parts.data() + begin);
    });
    if (kernels.finish(problem, 0, total(parts))) return {};
  }
  return {0};
}

}  // namespace halfulp
