#include "max_plane.hpp"
namespace halfulp { bool separable_plane(const MaxPlan&, const MaxPlane&, Index, Index) { return false; }
 bool bins_plane(const MaxPlan&, const MaxPlane&, Index, Index) { return false; } }
