// embedded.hpp: the model that is linked into the library, models/attacca-small.gguf.
#pragma once

#include "model/checkpoint.hpp"

namespace attacca::model {

Checkpoint open_embedded();

}  // namespace attacca::model
