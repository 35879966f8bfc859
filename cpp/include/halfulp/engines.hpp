// Which engines have run: counters that tests read to see that the fast one did. cpp/README.md says what each engine is
// for. A thread counts in a tally of its own and adds it once, when its share of a call is done.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace halfulp {

// Units are blocks of work as an engine gets them: planes, lines, tasks or whole arrays. Those of smooth_window,
// order_window, elementwise_pair, normalize_pair and interpolate_exact are single outputs.
enum class Engine : int {
  max_bins,              // adaptive, global and hardly overlapping windows
  max_channels_last,     // small windows over interleaved planes
  max_columns_first,     // values of small windows over dense rows, in one pass
  max_separable,         // sliding windows, one axis after the other
  max_given,             // windows with given starts, and largest magnitudes with derivatives
  max_walk,              // cell by cell: the reference
  max_pullback_gather,   // cells gather their cotangents in vectors
  max_pullback_scatter,  // outputs scatter theirs one by one
  average_planes,        // a mean of a whole plane
  average_fast,          // one pass over the source, a line at a time
  average_careful,       // any plan: weights, strided rows, many rows, exponents that range far
  smooth_block,          // rows of windows in vectors
  smooth_window,         // one output at a time, in two doubles
  conv_gather,           // output and input products as matrix products
  conv_depthwise,        // the same with one source channel for each group
  conv_winograd,         // the same for 3x3 filters, by patches
  conv_weight,           // weight products
  conv_weight_winograd,  // the same for 3x3 filters, by patches
  norm2,                 // square roots of sums of squares
  elementwise,           // functions of single elements
  elementwise_pair,      // those of them that a double does not decide
  order_block,           // medians and modes of windows that are sorted many at once
  order_window,          // one window at a time
  average_integers,      // averages and sums of integers, and of floats into other types
  average_present,       // averages over the cells that are numbers
  normalize,             // batch, layer, group and instance norm over contiguous runs
  normalize_last,        // the same for channels-last images and rows
  normalize_pair,        // outputs that are gathered and computed once more in pairs of doubles
  softmax,               // softmax and its logarithm
  squares,               // squared errors, variances
  cross_entropy,         // cross entropy
  interpolate,           // sums with fixed weights along axes
  interpolate_exact,     // those of them that take the exact accumulator
  patches,               // unfold and fold
  unpool,                // values to given cells
  count
};

inline constexpr int kEngineCount = static_cast<int>(Engine::count);

std::string_view name_of(Engine engine) noexcept;
void count_engine(Engine engine, std::int64_t units = 1) noexcept;
std::int64_t units_of(Engine engine) noexcept;
void reset_engine_counts() noexcept;

// What one thread counts; added to the counters at its end.
class EngineTally {
 public:
  EngineTally() = default;
  EngineTally(const EngineTally&) = delete;
  EngineTally& operator=(const EngineTally&) = delete;
  ~EngineTally() {
    for (std::size_t e = 0; e < units_.size(); ++e)
      if (units_[e] != 0) count_engine(static_cast<Engine>(e), units_[e]);
  }
  void add(Engine engine, std::int64_t units = 1) noexcept { units_[static_cast<std::size_t>(engine)] += units; }

 private:
  std::array<std::int64_t, kEngineCount> units_{};
};

}  // namespace halfulp
