#include "average/sum_outputs.hpp"

#include <algorithm>

namespace halfulp {
namespace {

// The part of a segment whose outputs lie in [begin, end); false if there is none.
bool clip(SumSegment& g, Index begin, Index end) {
  const Index skipped = g.output >= begin ? 0 : (begin - g.output + g.output_step - 1) / g.output_step;
  g.length = std::min(g.length, g.output >= end ? 0 : (end - g.output + g.output_step - 1) / g.output_step) - skipped;
  g.first += skipped * g.first_step;
  g.output += skipped * g.output_step;
  return g.length > 0;
}

}  // namespace

bool SumOutputs::choose(const SumAxis& axis, Index begin, Index end) {
  if (begin == begin_ && end == end_) return false;
  begin_ = begin;
  end_ = end;
  choose_segments(axis);
  runs.clear();
  for (const SumRun& run : axis.runs) {
    const Index from = std::max(run.begin, begin) - begin, to = std::min(run.end, end) - begin;
    if (from < to) runs.push_back({from, to, run.divisor, run.empty, run.padded});
  }
  choose_zeros(axis);
  return true;
}

void SumOutputs::choose_segments(const SumAxis& axis) {
  segments.clear();
  column = width = margin = reach = 0;
  Index from = axis.sources, to = 0;
  for (SumSegment g : axis.segments) {
    if (!clip(g, begin_, end_)) continue;
    const Index stop = g.first + (g.length - 1) * g.first_step + (g.count - 1) * g.step + 1;
    from = segments.empty() ? g.first : std::min(from, g.first);
    to = segments.empty() ? stop : std::max(to, stop);
    segments.push_back(g);
  }
  if (segments.empty()) return;
  for (SumSegment& g : segments) {
    g.first -= from;
    g.output -= begin_;
  }
  const Index first = std::clamp<Index>(from, 0, axis.sources), last = std::clamp<Index>(to, 0, axis.sources);
  if (first < last) {
    column = first;
    width = last - first;
  }
  margin = column - from;
  reach = to - from;
}

// Windows with a padded zero mostly are those that reach into a margin: then the margin holds that zero. The others are
// listed.
void SumOutputs::choose_zeros(const SumAxis& axis) {
  enum Margin : std::uint8_t { kBefore = 1, kAfter = 2 };
  std::vector<std::uint8_t> touched(static_cast<std::size_t>(count()), 0);
  for (const SumSegment& g : segments) {
    for (Index t = 0; t < g.length; ++t) {
      const Index from = g.first + t * g.first_step, to = from + (g.count - 1) * g.step + 1;
      touched[static_cast<std::size_t>(g.output + t * g.output_step)] =
          static_cast<std::uint8_t>((from < margin ? kBefore : 0) | (to > margin + width ? kAfter : 0));
    }
  }
  const auto has_zero = [&](std::size_t o) { return axis.padded[static_cast<std::size_t>(begin_) + o] != 0; };
  unsigned zeros = kBefore | kAfter;
  for (std::size_t o = 0; o < touched.size(); ++o)
    if (!has_zero(o)) zeros &= ~unsigned{touched[o]};
  zero_before = (zeros & kBefore) != 0 ? 0.0 : -0.0;
  zero_after = (zeros & kAfter) != 0 ? 0.0 : -0.0;
  padded.clear();
  for (std::size_t o = 0; o < touched.size(); ++o) {
    const auto at = static_cast<Index>(o);
    if (!has_zero(o) || (touched[o] & zeros) != 0) continue;
    if (!padded.empty() && padded.back().end == at)
      ++padded.back().end;
    else
      padded.push_back({at, at + 1});
  }
}

}  // namespace halfulp
