#include "max_pullback.hpp"
namespace halfulp { bool gather_pullback(const MaxPlan&, const PullbackPlane&) { return false; } }
