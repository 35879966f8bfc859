#include "conv/gather_problem.hpp"

namespace halfulp::conv {

std::vector<Index> GatherProblem::filter_offsets(const Source& source) const {
  std::vector<Index> offsets{0}, next;
  for (std::size_t axis = 0; axis < gather.size(); ++axis) {
    next.clear();
    for (const Index offset : offsets)
      for (const Index tap : gather[axis].tap) next.push_back(offset + tap * source.spatial[axis]);
    offsets.swap(next);
  }
  return offsets;
}

void GatherProblem::resolve(Index n, Index group, Index row, const Sizes& position, double value, bool exact,
                            bool trusted, const Outputs& result) const {
  if (trusted && !std::isfinite(value)) return store(result, value);
  const double first = bias == nullptr ? -0.0 : bias_of(group, row, position[0]);
  const auto walk = [&](const auto& f) { return for_each_run(n, group, row, position, f); };
  const auto walk_pairs = [&](const auto& f) { return walk([&](const Pairs& pairs) { return pairs.one_by_one(f); }); };
  ZeroTerms zeros(exact, bias != nullptr, first);
  if (value == 0) {
    walk_pairs([&](double w, double x) { return zeros.look_at(w, x); });
    if (zeros.known()) return store(result, zeros.sum());
  }
  // Most sums that are NaN have a NaN among their first terms.
  if (!std::isfinite(value) && !walk_pairs([](double w, double x) { return w == w && x == x; }))
    return store(result, value - value);
  round_products(walk, bias == nullptr ? nullptr : &first, result);
}

}  // namespace halfulp::conv
