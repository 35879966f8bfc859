// The environment variable HALFULP_ISA.
#pragma once

namespace halfulp {

// Forces the instruction set that HALFULP_ISA names, if it is set and not empty: baseline, avx2, avx512 or neon. Throws
// std::runtime_error with a sentence for the user if there is no such one here.
void set_isa_from_environment();

}  // namespace halfulp
