#!/usr/bin/env python3
"""Tests of layers.py: it names file and line of an include that points the wrong way, and accepts the right ones."""
import pathlib
import tempfile
import unittest

import layers


class Layers(unittest.TestCase):
    def found(self, files):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return list(layers.problems(folder))

    def test_accepts_what_the_table_allows(self):
        self.assertEqual([], self.found({
            "include/attacca/graph.hpp": "#include <attacca/error.hpp>\n#include <vector>\n#include <cuda/atomic>\n",
            "src/graph/data.hpp": '#include "core/result.hpp"\n#include <fmt/format.h>\n',
            "src/backend/backend.cpp": '#include "backend/cuda/device.hpp"\n#include "graph/data.hpp"\n',
            "src/backend/cuda/device.cu": "#include <cuda_runtime.h>\n"}))

    def test_names_the_file_and_line_of_an_upward_include(self):
        found = self.found({"src/graph/data.cpp": '#include <vector>\n#include "backend/host/executor.hpp"\n'})
        self.assertEqual(1, len(found))
        self.assertTrue(found[0].startswith("src/graph/data.cpp:2:"), found[0])

    def test_the_backends_do_not_know_each_other(self):
        self.assertEqual(1, len(self.found({"src/backend/host/a.cpp": '#include "backend/cuda/device.hpp"\n'})))

    def test_refuses_cuda_headers_in_host_layers(self):
        self.assertEqual(1, len(self.found({"src/graph/a.hpp": "#include <cuda_runtime.h>\n"})))

    def test_public_headers_show_no_other_library_and_no_internal_header(self):
        self.assertEqual(2, len(self.found(
            {"include/attacca/a.hpp": '#include <fmt/format.h>\n#include "core/result.hpp"\n'})))

    def test_an_unknown_folder_is_an_error(self):
        self.assertIn("not in the layer table", self.found({"src/misc/a.cpp": "\n"})[0])


if __name__ == "__main__":
    unittest.main()
