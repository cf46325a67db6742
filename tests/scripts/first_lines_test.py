#!/usr/bin/env python3
"""Tests of first_lines.py: it names files whose first lines say nothing, and accepts the others."""
import unittest

from first_lines import problem


class FirstLines(unittest.TestCase):
    def test_accepts_a_sentence_with_or_without_the_file_s_name(self):
        for text in ("// ring.hpp: a queue of fixed size between one writer and one reader.\n#pragma once\n",
                     "// Asks the driver about its GPUs.\n",
                     "// cupti.cpp: see cupti.hpp. Only this file knows CUPTI,\n// which it loads.\n"):
            self.assertIsNone(problem(text), text)

    def test_refuses_files_that_point_elsewhere_or_say_nothing(self):
        for text in ("// a.cpp: see a.hpp.\n#include \"a.hpp\"\n", "// kernels.cpp: the kernels of kernels.hpp.\n",
                     "#include \"a.hpp\"\n", "// a.cpp: some helpers.\n", ""):
            self.assertIsNotNone(problem(text), text)


if __name__ == "__main__":
    unittest.main()
