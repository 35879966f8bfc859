// Hard max by walking every window: values, indices, tangents and winners, one output at a time.
#include "max/walk.hpp"

#include <cstring>

#include "exact/exact_sum.hpp"
#include "max/plane.hpp"

namespace halfulp {
namespace {

using walk::Best;

template <class T>
class Walk {
 public:
  Walk(const MaxPlan& plan, const MaxPlane& plane) : plan_(plan), plane_(plane), ndim_(plan.ndim()) {}

  void run(Index begin, Index end) {
    walk::outputs(plan_, begin, end, [&](const Index* output) { window(output); });
  }

 private:
  void window(const Index* output) {
    const Best best = walk::best_of<T>(plan_, plane_.x.data, output, plane_.x.strides);
    walk::item<T>(plane_.out, output, ndim_) = best.flat < 0 ? T{} : cell(best.offset);
    if (!plan_.many_winners() || plane_.indices) return walk::record_best<T>(plan_, plane_, output, best);
    if constexpr (is_float(dtype_of<T>)) {
      if (plane_.tangent) tangent(output, best);
    }
    if (plane_.winners) record(output, best);
  }

  void tangent(const Index* output, const Best& best) {
    T& target = walk::item<T>(plane_.out_tangent, output, ndim_);
    target = T{};
    if (best.flat < 0) return;
    typename ExactSums<walk::compute_t<T>>::terms sum;
    Index winners = 0;
    const auto top = walk::value_of(cell(best.offset));
    walk::cells(plan_, output, plane_.x.strides, [&](Index offset, Index, Index flat) {
      if (!walk::wins(walk::value_of(cell(offset)), top)) return;
      sum.add(static_cast<double>(walk::value_of(walk::tangent_at<T>(plan_, plane_, flat))));
      ++winners;
    });
    target = sum.template round_quotient<T>(plan_.ties == Ties::split ? winners : 1);
  }

  void record(const Index* output, const Best& best) {
    std::uint8_t* target = &walk::item<std::uint8_t>(plane_.winners, output, ndim_);
    std::memset(target, 0, static_cast<std::size_t>(plane_.winner_bytes));
    if (best.flat < 0) return;
    const auto top = walk::value_of(cell(best.offset));
    walk::cells(plan_, output, plane_.x.strides, [&](Index offset, Index code, Index) {
      if (!walk::wins(walk::value_of(cell(offset)), top)) return;
      target[code / 8] |= static_cast<std::uint8_t>(1u << (code % 8));
    });
  }

  T cell(Index offset) const noexcept { return *reinterpret_cast<const T*>(plane_.x.data + offset); }

  const MaxPlan& plan_;
  const MaxPlane& plane_;
  int ndim_;
};

}  // namespace

MaxPlane lane_of(const MaxPlane& plane, Index lane) noexcept {
  MaxPlane one = plane;
  const Index item = static_cast<Index>(item_size(plane.dtype));
  one.lanes = 1;
  one.x.data += lane * item;
  one.out.data += lane * item;
  if (one.tangent) one.tangent.data += lane * item;
  if (one.out_tangent) one.out_tangent.data += lane * item;
  if (one.indices) one.indices.data += lane * static_cast<Index>(sizeof(std::int64_t));
  if (one.winners) one.winners.data += lane * plane.winner_bytes;
  return one;
}

void walk_plane(const MaxPlan& plan, const MaxPlane& plane, Index begin, Index end) {
  visit(plane.dtype, [&](auto tag) {
    using T = decltype(tag);
    for (Index lane = 0; lane < plane.lanes; ++lane) {
      const MaxPlane one = lane_of(plane, lane);
      Walk<T>(plan, one).run(begin, end);
    }
  });
}

}  // namespace halfulp
