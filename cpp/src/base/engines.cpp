#include "halfulp/engines.hpp"

#include <atomic>

namespace halfulp {
namespace {

constexpr std::string_view kNames[kEngineCount] = {
    "max_bins",      "max_channels_last", "max_columns_first", "max_separable", "max_given", "max_walk",
    "max_pullback_gather", "max_pullback_scatter", "average_planes", "average_fast", "average_careful", "smooth_block",
    "smooth_window", "conv_gather",       "conv_depthwise", "conv_winograd", "conv_weight",
    "conv_weight_winograd", "norm2",         "elementwise",       "elementwise_pair",
    "order_block",   "order_window",      "average_integers", "average_present", "normalize", "normalize_last",
    "normalize_pair", "softmax", "squares", "cross_entropy", "interpolate", "interpolate_exact", "patches", "unpool"};

std::atomic<std::int64_t> counts[kEngineCount];

}  // namespace

std::string_view name_of(Engine engine) noexcept { return kNames[static_cast<int>(engine)]; }

void count_engine(Engine engine, std::int64_t units) noexcept {
  counts[static_cast<int>(engine)].fetch_add(units, std::memory_order_relaxed);
}

std::int64_t units_of(Engine engine) noexcept {
  return counts[static_cast<int>(engine)].load(std::memory_order_relaxed);
}

void reset_engine_counts() noexcept {
  for (auto& count : counts) count.store(0, std::memory_order_relaxed);
}

}  // namespace halfulp
