#include "base/stream_kernels.hpp"

#include "simd/stream.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

using std::int64_t;

void copy(const char* source, char* target, int64_t bytes) {
  // Whole vectors of the target go past the caches; its ends are copied as usual.
  const auto past = static_cast<int64_t>(reinterpret_cast<std::uintptr_t>(target) % kVectorBytes);
  const int64_t head = past == 0 ? 0 : kVectorBytes - past;
  if (!kStreams || bytes < head + kVectorBytes) {
    std::memcpy(target, source, static_cast<std::size_t>(bytes));
    return;
  }
  std::memcpy(target, source, static_cast<std::size_t>(head));
  int64_t i = head;
  for (; i + kVectorBytes <= bytes; i += kVectorBytes) stream_vector(target + i, source + i);
  std::memcpy(target + i, source + i, static_cast<std::size_t>(bytes - i));
}

}  // namespace

const StreamKernels& stream_kernels() {
  static constexpr StreamKernels table{copy, finish_stream};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
