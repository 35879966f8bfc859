// Hard max over windows: sliding, adaptive or global. Value, indices, JVP, VJP under every policy.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "halfulp/array.hpp"
#include "halfulp/geometry.hpp"
#include "halfulp/memory_pool.hpp"

namespace halfulp {

enum class Ties : std::uint8_t { first, last, all, split };
enum class NanPolicy : std::uint8_t { propagate, ignore, raise };
// What is compared: the cells, their negatives (the result is a minimum), or their magnitudes.
enum class Cells : std::uint8_t { plain, negated, magnitude };

// From the words that records hold.
inline Ties ties_from(std::string_view word) noexcept {
  return word == "first" ? Ties::first : word == "last" ? Ties::last : word == "all" ? Ties::all : Ties::split;
}
inline NanPolicy nan_from(std::string_view word) noexcept {
  return word == "propagate" ? NanPolicy::propagate : word == "ignore" ? NanPolicy::ignore : NanPolicy::raise;
}
inline Cells cells_from(std::string_view word) noexcept {
  return word == "plain" ? Cells::plain : word == "negated" ? Cells::negated : Cells::magnitude;
}

// The windows of one operator on planes of one shape.
struct MaxPlan {
  MaxPlan(std::string name, std::vector<Axis> window_axes, Ties ties, NanPolicy nan, Cells cells = Cells::plain);

  std::string operator_name;
  std::vector<Axis> axes;
  Ties ties;
  NanPolicy nan;
  Cells cells;
  // Per axis and output: the first real coordinate, how many real ones there are (dilation apart), and the offset in
  // the window of the first.
  struct Spans {
    std::vector<Index> begin, count, offset;

    // How many outputs from o on, up to `end`, have as many cells as o, each a stride after the one before.
    Index alike(Index o, Index end, Index stride) const noexcept;
  };
  std::vector<Spans> spans;
  Index window_cells = 1;  // cells of the largest window, padding included
  Index plane_cells = 1;
  Index plane_outputs = 1;
  bool any_empty = false;   // some window has no real cell
  bool any_padding = false;  // some window has a cell that is not real

  int ndim() const noexcept { return static_cast<int>(axes.size()); }
  bool many_winners() const noexcept { return ties == Ties::all || ties == Ties::split; }
  // The same windows with another policy.
  MaxPlan with(Ties other) const {
    MaxPlan plan = *this;
    plan.ties = other;
    return plan;
  }
};

// What a pullback keeps: for first and last, and where every window has one winner (`single`), the winner's offset in
// its window, in as few bytes as hold it; else for all and split one bit per cell of the window. Stored in the memory
// order of the output.
struct Winners {
  struct Return {
    void operator()(std::uint8_t* block) const noexcept { memory_pool::give(block); }
  };
  std::unique_ptr<std::uint8_t[], Return> data;
  Index item_bytes = 1;
  Sizes strides;  // in bytes, one per axis of the output
  Index bytes = 0;
  bool single = false;
};

// Arrays: x is (leading..., spatial...), out and everything of its shape (leading..., outputs...).
// Under NanPolicy::raise a NaN anywhere in x is Error P3.
void max_forward(const MaxPlan& plan, const ArrayView& x, const ArrayView& out);
void max_indices(const MaxPlan& plan, const ArrayView& x, const ArrayView& out, const ArrayView& indices);
void max_jvp(const MaxPlan& plan, const ArrayView& x, const ArrayView& tangent, const ArrayView& out,
             const ArrayView& out_tangent);
Winners max_winners(const MaxPlan& plan, const ArrayView& x, const ArrayView& out);
// dx is fully written.
void max_pullback(const MaxPlan& plan, const Winners& winners, const ArrayView& cotangent, const ArrayView& dx);

}  // namespace halfulp
