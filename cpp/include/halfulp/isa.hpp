// The instruction set of the kernels.
#pragma once

#include <string_view>
#include <vector>

namespace halfulp {

enum class Isa { baseline, avx2, avx512 };

// The one that kernels use now: the best that the processor has, or the one that was forced.
Isa current_isa() noexcept;
std::vector<Isa> available_isas();
std::string_view name_of(Isa isa) noexcept;

// False if the processor does not have it or there is none of that name.
bool set_isa(std::string_view name) noexcept;

// Forces the instruction set that the environment variable HALFULP_ISA names, if it is set and not empty: baseline,
// avx2, avx512 or neon. Throws std::runtime_error with a sentence for the user if there is no such one here.
void set_isa_from_environment();

}  // namespace halfulp
