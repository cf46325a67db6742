// expect: 'class attacca::DeviceExec' has no member named 'launch'
// Device code launches a DeviceExec; the host has a call of another name for it.
#include <attacca/exec.hpp>

using namespace attacca;

void go(DeviceExec& exec, StreamRef stream) {
#ifdef CORRECT
  exec.start(stream);
#else
  exec.launch(stream);
#endif
}
