// linked_file.hpp: puts the bytes of a file into the program. They are there from NAME_begin to
// NAME_end, with a zero behind them.
#pragma once

/// `path` is a string literal. In the global namespace, once in a program for each name.
#define ATTACCA_LINK_FILE(name, path)   \
  asm(".pushsection .rodata\n"          \
      ".balign 64\n"                    \
      ".global " #name "_begin\n" #name \
      "_begin:\n"                       \
      ".incbin \"" path                 \
      "\"\n"                            \
      ".global " #name "_end\n" #name   \
      "_end:\n"                         \
      ".byte 0\n"                       \
      ".popsection\n");                 \
  extern "C" const char name##_begin[]; \
  extern "C" const char name##_end[]
