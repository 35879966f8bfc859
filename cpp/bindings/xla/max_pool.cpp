// Hard max pooling under XLA: straight from XLA's buffers to the kernels, without Python.
#include <memory>
#include <new>

#include "halfulp/max_pool.hpp"
#include "halfulp/memory_pool.hpp"
#include "xla/handlers.hpp"
#include "xla/window.hpp"

namespace halfulp::xla {
namespace {

MaxPlan plan_of(const Call& call, const Sizes& shape) {
  std::string name(call.text("name"));
  std::vector<Axis> axes = axes_of(call, name, shape);
  return {std::move(name), std::move(axes), ties_from(call.text("ties")), nan_from(call.text("nan"))};
}

// Values that the kernels write and nobody reads.
struct Scratch {
  explicit Scratch(const ArrayView& like) : view(like) {
    bytes.reset(memory_pool::take(static_cast<std::size_t>(like.count()) * item_size(like.dtype)));
    if (!bytes) throw std::bad_alloc();
    view.data = static_cast<char*>(bytes.get());
  }
  struct Return {
    void operator()(void* block) const noexcept { memory_pool::give(block); }
  };
  std::unique_ptr<void, Return> bytes;
  ArrayView view;
};

void forward(const Call& call) {
  const ArrayView x = view_of(call.argument(0));
  max_forward(plan_of(call, x.shape), x, with_rank(view_of(call.result(0)), x.ndim()));
}

void jvp(const Call& call) {
  const ArrayView x = view_of(call.argument(0));
  const ArrayView tangent = with_rank(view_of(call.result(0)), x.ndim());
  const Scratch out(tangent);
  max_jvp(plan_of(call, x.shape), x, view_of(call.argument(1)), out.view, tangent);
}

void vjp(const Call& call) {
  const ArrayView x = view_of(call.argument(0));
  const ArrayView cotangent = with_rank(view_of(call.argument(1)), x.ndim());
  const MaxPlan plan = plan_of(call, x.shape);
  const Scratch out(cotangent);
  const Winners winners = max_winners(plan, x, out.view);
  max_pullback(plan, winners, cotangent, view_of(call.result(0)));
}

}  // namespace

Error* max_forward_handler(CallFrame* frame) { return guarded(frame, forward); }
Error* max_jvp_handler(CallFrame* frame) { return guarded(frame, jvp); }
Error* max_vjp_handler(CallFrame* frame) { return guarded(frame, vjp); }

}  // namespace halfulp::xla
