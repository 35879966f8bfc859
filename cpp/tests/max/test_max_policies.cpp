// Hard max in every element type, under every tie rule and NaN rule, against a plain loop: values, indices, tangents
// and cotangents. Arrays end where their memory ends, for the sanitizers.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "check.hpp"
#include "halfulp/error.hpp"
#include "halfulp/isa.hpp"
#include "halfulp/max_pool.hpp"
#include "exact/round.hpp"

using namespace halfulp;

namespace {

std::uint64_t state = 0;
// splitmix64
Index below(Index n) {
  std::uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return static_cast<Index>((z ^ (z >> 31)) % static_cast<std::uint64_t>(n));
}

template <class T>
inline constexpr bool is_real = is_float(dtype_of<T>);

template <class T>
double value_of(T x) {
  if constexpr (std::is_same_v<T, Bool>) return x.value;
  else if constexpr (std::is_same_v<T, double> || !is_real<T>) return static_cast<double>(x);
  else return static_cast<double>(to_float(x));
}

// Small numbers, so that cells tie; one float in twelve is a NaN if these are wanted.
template <class T>
T cell(bool with_nan) {
  if constexpr (std::is_same_v<T, Bool>) return {static_cast<std::uint8_t>(below(2))};
  else if constexpr (!is_real<T>) return static_cast<T>(below(9) - (std::is_signed_v<T> ? 4 : 0));
  else if (with_nan && below(12) == 0) return round_to<T>(std::numeric_limits<double>::quiet_NaN());
  else return round_to<T>(static_cast<double>(below(9) - 4));
}

struct Geometry {
  WindowParameters window;
  Index planes, rows, columns;
  bool interleaved;
};

// The array (planes, rows, columns), planes innermost in memory if they are interleaved.
template <class T>
ArrayView view(std::vector<T>& items, const Geometry& g, Index rows, Index columns) {
  items.resize(static_cast<std::size_t>(g.planes * rows * columns));
  const auto item = static_cast<Index>(sizeof(T));
  const Sizes dense{rows * columns * item, columns * item, item};
  const Sizes mixed{item, columns * g.planes * item, g.planes * item};
  return {reinterpret_cast<char*>(items.data()), dtype_of<T>, {g.planes, rows, columns}, g.interleaved ? mixed : dense};
}
template <class T>
T& at(const ArrayView& v, Index plane, Index row, Index column) {
  return *reinterpret_cast<T*>(v.data + plane * v.strides[0] + row * v.strides[1] + column * v.strides[2]);
}

// The winners of a window as flat indices, by the rules of the policies.
template <class T>
std::vector<Index> winners_of(const MaxPlan& plan, const ArrayView& x, Index plane, Index oy, Index ox) {
  std::vector<Index> cells, found;
  bool any_nan = false, any_number = false;
  for (Index i = 0; i < plan.spans[0].count[static_cast<std::size_t>(oy)]; ++i)
    for (Index j = 0; j < plan.spans[1].count[static_cast<std::size_t>(ox)]; ++j) {
      const Index y = plan.spans[0].begin[static_cast<std::size_t>(oy)] + i * plan.axes[0].dilation;
      const Index z = plan.spans[1].begin[static_cast<std::size_t>(ox)] + j * plan.axes[1].dilation;
      cells.push_back(y * plan.axes[1].size + z);
      const bool nan = std::isnan(value_of(at<T>(x, plane, y, z)));
      any_nan = any_nan || nan;
      any_number = any_number || !nan;
    }
  const auto number = [&](Index flat) {
    return value_of(at<T>(x, plane, flat / plan.axes[1].size, flat % plan.axes[1].size));
  };
  const bool nans_win = any_nan && (plan.nan != NanPolicy::ignore || !any_number);
  double best = -std::numeric_limits<double>::infinity();
  for (const Index flat : cells)
    if (!std::isnan(number(flat))) best = std::max(best, number(flat));
  for (const Index flat : cells)
    if (nans_win ? std::isnan(number(flat)) : number(flat) == best) found.push_back(flat);
  if (found.size() > 1 && plan.ties == Ties::first) found.resize(1);
  if (found.size() > 1 && plan.ties == Ties::last) found = {found.back()};
  return found;
}

template <class T>
bool same(T a, T b) {
  return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(value_of(a)) && std::isnan(value_of(b))) ||
         (value_of(a) == 0.0 && value_of(b) == 0.0);
}

// Windows that share no cell, so that every cotangent is one quotient.
template <class T>
void check_derivatives(const MaxPlan& plan, const Geometry& g, const ArrayView& x, const ArrayView& out) {
  std::vector<T> ones_items, dx_items, tangent_items, moved_items, again_items;
  const ArrayView ones = view(ones_items, g, out.shape[1], out.shape[2]), dx = view(dx_items, g, g.rows, g.columns);
  const ArrayView tangent = view(tangent_items, g, g.rows, g.columns);
  const ArrayView moved = view(moved_items, g, out.shape[1], out.shape[2]);
  const ArrayView again = view(again_items, g, out.shape[1], out.shape[2]);
  for (T& one : ones_items) one = round_to<T>(1.0);
  for (T& one : tangent_items) one = round_to<T>(static_cast<double>(below(9) - 4));
  const Winners kept = max_winners(plan, x, again);
  max_pullback(plan, kept, ones, dx);
  max_jvp(plan, x, tangent, again, moved);
  std::vector<double> expected(static_cast<std::size_t>(g.rows * g.columns));
  for (Index plane = 0; plane < g.planes; ++plane) {
    std::fill(expected.begin(), expected.end(), 0.0);
    for (Index oy = 0; oy < out.shape[1]; ++oy)
      for (Index ox = 0; ox < out.shape[2]; ++ox) {
        const std::vector<Index> won = winners_of<T>(plan, x, plane, oy, ox);
        double sum = 0.0;
        for (const Index flat : won) {
          expected[static_cast<std::size_t>(flat)] +=
              plan.ties == Ties::split ? 1.0 / static_cast<double>(won.size()) : 1.0;
          sum += value_of(at<T>(tangent, plane, flat / g.columns, flat % g.columns));
        }
        if (plan.ties == Ties::split && !won.empty()) sum /= static_cast<double>(won.size());
        CHECK(same(at<T>(moved, plane, oy, ox), round_to<T>(sum)));
      }
    for (Index flat = 0; flat < g.rows * g.columns; ++flat)
      CHECK(same(at<T>(dx, plane, flat / g.columns, flat % g.columns),
                 round_to<T>(expected[static_cast<std::size_t>(flat)])));
  }
}

template <class T>
void check_case(const Geometry& g, Ties ties, NanPolicy nan) {
  const Index sizes[] = {g.rows, g.columns};
  const MaxPlan plan("max_pool", window_axes(g.window, sizes), ties, nan);
  std::vector<T> x_items, out_items;
  std::vector<std::int64_t> index_items;
  const ArrayView x = view(x_items, g, g.rows, g.columns);
  const ArrayView out = view(out_items, g, plan.axes[0].output, plan.axes[1].output);
  const ArrayView indices = view(index_items, g, plan.axes[0].output, plan.axes[1].output);
  bool any_nan = false;
  for (T& item : x_items) {
    item = cell<T>(true);
    any_nan = any_nan || std::isnan(value_of(item));
  }
  if (nan == NanPolicy::raise && any_nan) {
    bool raised = false;
    try {
      max_forward(plan, x, out);
    } catch (const Error& error) {
      raised = error.label == "P3";
    }
    CHECK(raised);
    for (T& item : x_items)
      if (std::isnan(value_of(item))) item = cell<T>(false);
  }
  max_forward(plan, x, out);
  const bool indexed = ties == Ties::first || ties == Ties::last;
  if (indexed) max_indices(plan, x, out, indices);
  for (Index plane = 0; plane < g.planes; ++plane)
    for (Index oy = 0; oy < out.shape[1]; ++oy)
      for (Index ox = 0; ox < out.shape[2]; ++ox) {
        const std::vector<Index> won = winners_of<T>(plan, x, plane, oy, ox);
        const T best = won.empty() ? T{} : at<T>(x, plane, won[0] / g.columns, won[0] % g.columns);
        CHECK(same(at<T>(out, plane, oy, ox), best));
        if (indexed) CHECK(at<std::int64_t>(indices, plane, oy, ox) == (won.empty() ? -1 : won[0]));
      }
  const bool apart = g.window.stride[0] >= g.window.kernel[0] && g.window.stride[1] >= g.window.kernel[1];
  if constexpr (is_real<T>)
    if (apart) check_derivatives<T>(plan, g, x, out);
}

Geometry random_geometry() {
  Geometry g{{}, below(3) + 1, 0, 0, below(2) == 1};
  g.window.operator_name = "max_pool";
  const bool apart = below(2) == 1;
  for (Index* size : {&g.rows, &g.columns}) {
    g.window.kernel.push_back(below(4) + 1);
    g.window.stride.push_back(apart ? g.window.kernel.back() : below(3) + 1);
    g.window.dilation.push_back(apart ? 1 : below(2) + 1);
    g.window.before.push_back(below(3));
    g.window.after.push_back(below(3));
    *size = g.window.dilation.back() * g.window.kernel.back() + below(size == &g.rows ? 6 : 40);
  }
  return g;
}

template <class T>
void check_type(int seed) {
  for (const Ties ties : {Ties::first, Ties::last, Ties::all, Ties::split})
    for (const NanPolicy nan : {NanPolicy::propagate, NanPolicy::ignore, NanPolicy::raise}) {
      state = static_cast<std::uint64_t>(seed);
      const Geometry g = random_geometry();
      const auto& w = g.window;
      tests::describe("seed", seed, "dtype", name_of(dtype_of<T>), "isa", name_of(current_isa()), "ties",
                      static_cast<int>(ties), "nan", static_cast<int>(nan), "planes", g.planes, "interleaved",
                      g.interleaved, "rows", g.rows, "columns", g.columns, "kernel", tuple_text(w.kernel), "stride",
                      tuple_text(w.stride), "dilation", tuple_text(w.dilation), "before", tuple_text(w.before), "after",
                      tuple_text(w.after));
      check_case<T>(g, ties, nan);
    }
}

}  // namespace

int main() {
  for (const Isa isa : available_isas()) {
    CHECK(set_isa(name_of(isa)));
    for (int seed = 1; seed <= 12; ++seed)
      for (int dtype = 0; dtype < kDTypeCount; ++dtype)
        visit(static_cast<DType>(dtype), [&](auto tag) { check_type<decltype(tag)>(seed); });
  }
  return tests::failures() == 0 ? 0 : 1;
}
