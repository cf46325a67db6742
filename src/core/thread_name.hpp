// thread_name.hpp: names a thread for top -H, debuggers and profilers.
#pragma once

#include <pthread.h>

namespace attacca {

/// REQUIRES: at most 15 letters.
inline void name_this_thread(const char* name) { pthread_setname_np(pthread_self(), name); }

}  // namespace attacca
