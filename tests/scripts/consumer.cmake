# Installs attacca into a temporary prefix, then configures, builds and runs tests/consumer against it.
# -D build, source, scratch, compiler, flags, version, prefix_path.
function(step)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT code EQUAL 0)
    string(JOIN " " command ${ARGV})
    message(FATAL_ERROR "${command}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${scratch})
step(${CMAKE_COMMAND} --install ${build} --prefix ${scratch}/prefix)
step(${CMAKE_COMMAND} -G Ninja -S ${source} -B ${scratch}/build -DCMAKE_CXX_COMPILER=${compiler}
  "-DCMAKE_CXX_FLAGS=${flags}" "-DCMAKE_PREFIX_PATH=${scratch}/prefix\;${prefix_path}")
step(${CMAKE_COMMAND} --build ${scratch}/build)
step(${scratch}/build/consumer)
if(NOT output MATCHES "attacca ${version}")
  message(FATAL_ERROR "the consumer printed: ${output}")
endif()
