// The functions that XLA calls, one per target of the JAX bridge.
#pragma once

#include "xla/call.hpp"

namespace halfulp::xla {

Error* max_forward_handler(CallFrame* frame);
Error* max_jvp_handler(CallFrame* frame);
Error* max_vjp_handler(CallFrame* frame);
Error* avg_forward_handler(CallFrame* frame);
Error* avg_spread_handler(CallFrame* frame);
// Any operator, through Python: the function set by `set_xla_host` does the work on views of XLA's memory.
Error* host_handler(CallFrame* frame);
void run_host(const Call& call);

}  // namespace halfulp::xla
