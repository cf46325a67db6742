// all.cpp: the list of all examples, in reading order.
#include "example.hpp"

namespace attacca::examples {

std::vector<Example> all_examples() {
  return {replay,        batch_sizes,       heat,
          compressor,    nested_mandelbrot, resident_scheduler,
          work_stealing, pipeline,          data_parallel};
}

}  // namespace attacca::examples
