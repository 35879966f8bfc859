// Averages under XLA: straight from XLA's buffers to the kernels, without Python.
#include "halfulp/avg_pool.hpp"
#include "xla/handlers.hpp"
#include "xla/window.hpp"

namespace halfulp::xla {
namespace {

AveragePlan plan_of(const Call& call, const Sizes& shape) {
  const std::vector<Index> counting = call.numbers("counting");  // count_include_pad, divisor_override or 0
  return average_of(axes_of(call, std::string(call.text("name")), shape), counting.at(0) != 0, counting.at(1));
}

void forward(const Call& call) {
  const ArrayView x = view_of(call.argument(0));
  sum_windows(plan_of(call, x.shape).forward, x, with_rank(view_of(call.result(0)), x.ndim()));
}

// The transpose. Where its divisors have no common denominator in 64 bits, Python's exact numbers do the work.
void spread(const Call& call) {
  const ArrayView dx = view_of(call.result(0));
  const AveragePlan plan = plan_of(call, dx.shape);
  if (!plan.transpose) return run_host(call);
  sum_windows(*plan.transpose, with_rank(view_of(call.argument(0)), dx.ndim()), dx);
}

}  // namespace

Error* avg_forward_handler(CallFrame* frame) { return guarded(frame, forward); }
Error* avg_spread_handler(CallFrame* frame) { return guarded(frame, spread); }

}  // namespace halfulp::xla
