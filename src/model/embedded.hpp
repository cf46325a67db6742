// embedded.hpp: the model that comes with the library, models/attacca-small.gguf, linked in.
#pragma once

#include "model/checkpoint.hpp"

namespace attacca::model {

Checkpoint open_embedded();

}  // namespace attacca::model
