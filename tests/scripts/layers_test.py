#!/usr/bin/env python3
"""Tests of layers.py: it reads its table from docs/ARCHITECTURE.md, names file and line of an include that points the
wrong way, and accepts the right ones."""
import pathlib
import tempfile
import unittest

import layers

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEAD = "| folder | what lives there | may use |\n| --- | --- | --- |\n"
SMALL = HEAD + """| `include/attacca/` | the public headers | – |
| `src/core/` | a clock. No CUDA header | – |
| `src/graph/` | a | b in the text. No CUDA header | core |
| `src/graph/parts/` | a folder in a folder | core, graph |
| `src/engine/` | everything | all above |
"""


class Layers(unittest.TestCase):
    def found(self, files, table=None):
        """In a tree with these files, and with the repository's own table or another one."""
        text = (ROOT / layers.PAGE).read_text(encoding="utf-8") if table is None else table
        with tempfile.TemporaryDirectory() as folder:
            for name, content in {str(layers.PAGE): text, **files}.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content, encoding="utf-8")
            return list(layers.problems(folder))

    def test_accepts_what_the_table_allows(self):
        self.assertEqual([], self.found({
            "include/attacca/graph.hpp": "#include <attacca/error.hpp>\n#include <vector>\n#include <cuda/atomic>\n",
            "src/graph/data.hpp": '#include "core/result.hpp"\n#include <fmt/core.h>\n',
            "src/backend/backend.cpp": '#include "backend/cuda/device.hpp"\n#include "graph/data.hpp"\n',
            "src/backend/cuda/device.cu": "#include <cuda_runtime.h>\n",
            "src/formats/gguf.cpp": '#include "kernels/matrix.hpp"\n',
            "src/text/tokenizer/load.cpp": '#include "formats/json.hpp"\n',
            "src/step/plain_step.cpp": '#include "kernels/linear/linear.hpp"\n#include "model/weights.hpp"\n',
            "src/engine/core.cpp": '#include "schedule/state.hpp"\n#include "step/chain.hpp"\n#include "text/utf8.hpp"\n'}))

    def test_names_the_file_and_line_of_an_upward_include(self):
        found = self.found({"src/graph/data.cpp": '#include <vector>\n#include "backend/host/executor.hpp"\n'})
        self.assertEqual(1, len(found))
        self.assertTrue(found[0].startswith("src/graph/data.cpp:2:"), found[0])

    def test_refuses_what_the_folders_of_the_engine_may_not_use(self):
        for file, target in {"src/formats/gguf.cpp": "model/config.hpp", "src/text/utf8.cpp": "kernels/matrix.hpp",
                             "src/model/config.cpp": "text/utf8.hpp", "src/schedule/step.hpp": "graph/data.hpp",
                             "src/step/chain.hpp": "engine/core.hpp", "src/kernels/sample/sample.cpp": "model/config.hpp",
                             "src/graph/data.hpp": "device/checks.hpp"}.items():
            self.assertEqual(1, len(self.found({file: f'#include "{target}"\n'})), file)

    def test_the_backends_do_not_know_each_other(self):
        self.assertEqual(1, len(self.found({"src/backend/host/a.cpp": '#include "backend/cuda/device.hpp"\n'})))

    def test_refuses_cuda_headers_in_host_layers(self):
        for folder in ("core", "graph", "backend/host"):
            self.assertEqual(1, len(self.found({f"src/{folder}/a.hpp": "#include <cuda_runtime.h>\n"})), folder)

    def test_public_headers_show_no_other_library_and_no_internal_header(self):
        self.assertEqual(2, len(self.found(
            {"include/attacca/a.hpp": '#include <fmt/core.h>\n#include "core/result.hpp"\n'})))

    def test_an_unknown_folder_is_an_error(self):
        self.assertIn("not in the table", self.found({"src/misc/a.cpp": "\n"})[0])

    def test_reads_rows_nested_folders_and_all_above(self):
        table = layers.Table(SMALL)
        self.assertEqual({"core": [], "graph": ["core"], "graph/parts": ["core", "graph"],
                          "engine": ["core", "graph", "graph/parts"]}, table.allowed)
        self.assertEqual(({"core", "graph"}, []), (table.without_cuda, table.problems))
        self.assertEqual("graph/parts", table.folder_of(pathlib.PurePosixPath("graph/parts/deep/a.cpp")))
        self.assertEqual("graph", table.folder_of(pathlib.PurePosixPath("graph/other/a.cpp")))

    def test_a_row_without_a_folder_is_no_problem(self):
        self.assertEqual([], self.found({"src/core/a.cpp": "\n"}, SMALL))

    def test_a_table_that_says_nothing_twice_or_unknown_things_is_an_error(self):
        self.assertIn("no table of folders", self.found({}, "# Nothing\n")[0])
        self.assertIn(":8: a second row of src/core", self.found({}, SMALL + "| `src/core/` | again | – |\n")[0])
        self.assertIn("src/core may use 'cor', which has no row", self.found({}, HEAD + "| `src/core/` | x | cor |\n")[0])


if __name__ == "__main__":
    unittest.main()
