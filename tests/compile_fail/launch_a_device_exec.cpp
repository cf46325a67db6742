// expect: 'class attacca::DeviceExec' has no member named 'launch'
// A DeviceExec is launched by device code; where the host starts it, that is said.
#include <attacca/exec.hpp>

using namespace attacca;

void go(DeviceExec& exec, StreamRef stream) {
#ifdef CORRECT
  exec.start(stream);
#else
  exec.launch(stream);
#endif
}
