// The vectors of the one vector layer, src/simd/.
#pragma once

#include "../simd/deinterleave.hpp"
#include "../simd/vector.hpp"
