# Run at each build: cmake -D source=FOLDER -D output=FILE -P commit.cmake. Writes a source file with the commit that is
# built, and leaves the file alone where that has not changed. Results do not make a tree dirty: writing them must not
# taint the next run.
execute_process(COMMAND git -C ${source} rev-parse --short HEAD
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
execute_process(COMMAND git -C ${source} status --porcelain -- . ":!bench/results" OUTPUT_VARIABLE changes ERROR_QUIET)
if(NOT commit)
  set(commit unknown)
elseif(changes)
  string(APPEND commit "+dirty")
endif()
file(CONFIGURE OUTPUT ${output} CONTENT "extern const char* const kBuiltCommit;\nconst char* const kBuiltCommit = \"@commit@\";\n" @ONLY)
