#include "average/sum_lines.hpp"

#include <algorithm>

namespace halfulp {
namespace {

constexpr Index kMostRows = 16;   // of a line where they are all added for every line
constexpr Index kMostCells = 32;  // of a window whose cells are added one by one
constexpr Index kMostStaged = Index{1} << 18;  // bytes of the lines of one output that are streamed together

}  // namespace

SumLines::SumLines(const SumPlan& plan, const SumLayout& layout, bool divides, Index item, bool stream)
    : layout_(layout), apply_(divides && suit(plan)) {
  if (!apply_) return;
  const SumAxis& first = *layout.axes.front();
  slide_ = layout.lanes == 1 && layout.axes.size() == 2 && first.step == 1 && slides_along(first);
  for (std::size_t a = 1; a + 1 < layout.axes.size(); ++a) per_output_ *= layout.axes[a]->outputs();
  list();
  slab_rows = halfulp::slab_rows(layout);
  const Index stage = per_output_ * layout.axes.back()->outputs() * item;
  stream_ = stream && !slide_ && dense() && (per_output_ == 1 || stage <= kMostStaged);
}

// Whether the lines of a plane follow each other in memory.
bool SumLines::dense() const {
  const Index width = layout_.axes.back()->outputs() * layout_.lanes;
  bool result = layout_.out_strides.back() == layout_.lanes;
  for (std::size_t l = 1; l < lines.size(); ++l) result = result && lines[l].out == lines[l - 1].out + width;
  return result;
}

bool SumLines::suit(const SumPlan& plan) const {
  const SumAxis& last = *layout_.axes.back();
  if (plan.negated || layout_.lanes > kBlockLanes) return false;
  if (last.sources > 1 && layout_.in_strides.back() != layout_.lanes) return false;
  if (layout_.lanes == 1 && last.outputs() > 1 && layout_.out_strides.back() != 1) return false;
  Index rows = 1;
  for (const SumAxis* axis : layout_.axes) {
    if (!axis->weights.empty() || axis->sources == 0 || axis->outputs() == 0) return false;
    if (axis != &last) rows *= std::max<Index>(1, axis->largest_count());
  }
  if (layout_.lanes > 1) return rows * std::max<Index>(1, last.largest_count()) <= kMostCells;
  return layout_.axes.size() == 2 || rows <= kMostRows;
}

// Two axes whose windows move by whole rows share one list of all rows.
void SumLines::list() {
  const SumAxis& first = *layout_.axes.front();
  lines.resize(static_cast<std::size_t>(first.outputs() * per_output_));
  const bool shared = layout_.axes.size() == 2 && first.step == 1;
  if (shared)
    for (Index r = 0; r < first.sources; ++r) rows.push_back(r * layout_.in_strides[0]);
  std::vector<Index> offsets, wider;
  for (std::size_t l = 0; l < lines.size(); ++l) {
    SumLine& line = lines[l];
    line = {0, 0, 0, 0, 0, 1, 0, 0, false, 0, 0};
    offsets.assign(1, 0);
    auto rest = static_cast<Index>(l);
    for (std::size_t a = layout_.axes.size() - 1; a-- > 0;) {
      const SumAxis& axis = *layout_.axes[a];
      const auto o = static_cast<std::size_t>(rest % axis.outputs());
      rest /= axis.outputs();
      line.out += static_cast<Index>(o) * layout_.out_strides[a];
      line.divisor *= axis.divisor[o];
      line.padded = line.padded || axis.padded[o] != 0;
      wider.clear();
      for (const Index offset : offsets)
        for (Index c = 0; c < axis.count[o]; ++c)
          wider.push_back((axis.first[o] + c * axis.step) * layout_.in_strides[a] + offset);
      offsets.swap(wider);
      if (a > 0) continue;
      line.first_slab = axis.first[o];
      line.end_slab = axis.count[o] == 0 ? axis.first[o] : axis.first[o] + (axis.count[o] - 1) * axis.step + 1;
    }
    line.row_count = static_cast<Index>(offsets.size());
    line.row = shared ? line.first_slab : static_cast<Index>(rows.size());
    if (!shared) rows.insert(rows.end(), offsets.begin(), offsets.end());
    if (l > 0) lines[l - 1].sharing = line.shared = shared_rows(lines[l - 1], line);
    if (!slide_ || l == 0 || line.row_count == 0 || lines[l - 1].row_count == 0) continue;
    const SumLine& before = lines[l - 1];
    if (line.first_slab < before.first_slab || line.end_slab < before.end_slab || line.first_slab >= before.end_slab)
      continue;
    line.leaving = line.first_slab - before.first_slab;
    line.entering = line.end_slab - before.end_slab;
  }
}

// How many of the last rows of one line are the first of the next one.
Index SumLines::shared_rows(const SumLine& line, const SumLine& next) const {
  if (line.row_count > kMostRows || next.row_count == 0) return 0;
  const Index* const end = rows.data() + line.row + line.row_count;
  const Index* const found = std::find(rows.data() + line.row, end, rows[static_cast<std::size_t>(next.row)]);
  return end - found < next.row_count && std::equal(found, end, rows.data() + next.row) ? end - found : 0;
}

}  // namespace halfulp
