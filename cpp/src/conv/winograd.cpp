#include "conv/winograd.hpp"

#include "conv/winograd_engine.hpp"
#include "halfulp/engines.hpp"

namespace halfulp::conv {

template <class T>
bool run_by_patches(const GatherProblem<T>& problem, const ConvKernels& kernels) {
  if (!PatchEngine<T>::fits(problem, kernels)) return false;
  for (Index group = 0; group < problem.groups; ++group)
    if (!PatchEngine<T>(problem, group, kernels).run()) return false;
  count_engine(Engine::conv_winograd, problem.groups);
  return true;
}

template bool run_by_patches<Float16>(const GatherProblem<Float16>&, const ConvKernels&);
template bool run_by_patches<BFloat16>(const GatherProblem<BFloat16>&, const ConvKernels&);
template bool run_by_patches<float>(const GatherProblem<float>&, const ConvKernels&);

}  // namespace halfulp::conv
