#!/usr/bin/env python3
"""Drives `attacca serve` with OpenAI's own client: openai_client.py <binary>. Needs openai, pydantic and jsonschema from
PyPI. Skips itself, with status 77, where one is missing."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import typing
import unittest
import urllib.request

try:
    import jsonschema
    import openai
    import pydantic
except ImportError as error:
    print(f"{error.name} is missing: pip install openai jsonschema")
    sys.exit(77)

BINARY = sys.argv[1]
TESTS = pathlib.Path(__file__).resolve().parent.parent
KEY = "a-key-for-this-test"
FOX = [{"role": "user", "content": "Tell me a story about a fox."}]


class Animal(pydantic.BaseModel):
    name: typing.Literal["fox", "hen", "cat"]
    legs: typing.Annotated[int, pydantic.Field(ge=0, le=8)]
    colors: typing.Annotated[list[typing.Literal["red", "black"]], pydantic.Field(max_length=3)]


class OpenAiClient(unittest.TestCase):
    OPTIONS = ()

    @classmethod
    def setUpClass(cls):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as keys:
            keys.write(KEY + "\n")
            keys.flush()
            cls.server = subprocess.Popen([BINARY, "serve", *cls.OPTIONS, "--port", "0", "--api-key-file", keys.name],
                                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            cls.address = re.search(r"http://\S+", cls.server.stdout.readline())[0] + "/v1"
        cls.client = openai.OpenAI(base_url=cls.address, api_key=KEY, max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.terminate()
        cls.server.wait(60)

    def chat(self, **options):
        return self.client.chat.completions.create(**{"model": "small", "messages": FOX, "max_tokens": 24} | options)

    def text(self, **options):
        return self.client.completions.create(**{"model": "small", "prompt": "Once upon a time", "max_tokens": 12} | options)

    def test_the_model_is_listed(self):
        self.assertEqual(["small"], [model.id for model in self.client.models.list()])
        self.assertEqual("small", self.client.models.retrieve("small").id)

    def test_a_chat_has_text_a_reason_and_counts(self):
        reply = self.chat(temperature=0)
        self.assertTrue(reply.choices[0].message.content)
        self.assertEqual(("length", 24), (reply.choices[0].finish_reason, reply.usage.completion_tokens))
        self.assertEqual(reply.usage.total_tokens, reply.usage.prompt_tokens + 24)
        self.assertEqual(reply.choices[0].message.content, self.chat(temperature=0).choices[0].message.content)

    def test_what_was_cached_is_told(self):
        long = [{"role": "user", "content": "Tell me a story about a fox, a hen and a lantern in the wood. " * 3}]
        self.chat(messages=long)
        self.assertGreater(self.chat(messages=long).usage.prompt_tokens_details.cached_tokens, 15)

    def test_a_stream_is_the_same_text_and_ends_with_the_usage(self):
        chunks = list(self.chat(seed=7, stream=True, stream_options={"include_usage": True}))
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        self.assertEqual(self.chat(seed=7).choices[0].message.content, text)
        self.assertEqual((24, []), (chunks[-1].usage.completion_tokens, chunks[-1].choices))

    def test_the_options_of_sampling_are_taken(self):
        reply = self.chat(n=2, seed=3, temperature=0.9, top_p=0.8, presence_penalty=0.5, frequency_penalty=0.5, stop=["."],
                          logit_bias={"5": -100}, extra_body={"top_k": 40, "min_p": 0.01, "ignore_eos": True})
        self.assertEqual(2, len(reply.choices))
        self.assertTrue(all("." not in choice.message.content for choice in reply.choices))
        self.assertEqual(5, self.chat(max_tokens=openai.NOT_GIVEN, max_completion_tokens=5).usage.completion_tokens)

    def test_log_probabilities_come_with_their_alternatives(self):
        content = self.chat(logprobs=True, top_logprobs=3, temperature=0, max_tokens=4).choices[0].logprobs.content
        self.assertEqual([3] * 4, [len(token.top_logprobs) for token in content])
        self.assertTrue(all(token.logprob == max(top.logprob for top in token.top_logprobs) for token in content))
        logprobs = self.text(logprobs=2, temperature=0, max_tokens=4).choices[0].logprobs
        self.assertEqual((4, 4, 4), (len(logprobs.tokens), len(logprobs.token_logprobs), len(logprobs.top_logprobs)))

    def test_a_text_can_be_continued_whole_and_as_a_stream(self):
        whole = self.text(seed=5).choices[0].text
        self.assertEqual(whole, "".join(chunk.choices[0].text for chunk in self.text(seed=5, stream=True)))
        self.assertEqual(2, len(self.text(prompt=["Once", "There was"]).choices))

    def test_embeddings_are_the_same_numbers_in_both_encodings(self):
        make = lambda **options: self.client.embeddings.create(model="small", input=["a fox", "a lantern"], **options)
        plain, packed = make(encoding_format="float"), make()  # the client asks for base64 by itself
        self.assertEqual([0, 1], [one.index for one in plain.data])
        for one, other in zip(plain.data, packed.data):
            self.assertEqual(len(one.embedding), len(other.embedding))
            for a, b in zip(one.embedding, other.embedding):
                self.assertAlmostEqual(a, b, places=5)

    def test_a_schema_holds_the_reply(self):
        for seed in range(5):
            reply = self.client.chat.completions.parse(model="small", messages=FOX, response_format=Animal, seed=seed,
                                                       temperature=1.0, max_tokens=200)
            self.assertIsInstance(reply.choices[0].message.parsed, Animal)
        schema = {"type": "object", "properties": {"ok": {"type": "boolean"}, "of": {"enum": ["fox", "hen"]}},
                  "required": ["ok", "of"], "additionalProperties": False}
        reply = self.chat(max_tokens=100, response_format={"type": "json_schema",
                                                           "json_schema": {"name": "answer", "schema": schema}})
        jsonschema.validate(json.loads(reply.choices[0].message.content), schema)

    def test_a_response_is_whole_or_a_stream_of_events(self):
        make = lambda **options: self.client.responses.create(**{"model": "small", "input": FOX[0]["content"],
                                                                 "temperature": 0, "max_output_tokens": 20} | options)
        whole = make(instructions="You tell short stories.")
        self.assertEqual(("incomplete", 20), (whole.status, whole.usage.output_tokens))
        events = list(make(instructions="You tell short stories.", stream=True))
        self.assertEqual(list(range(len(events))), [event.sequence_number for event in events])
        self.assertEqual(("response.created", "response.incomplete"), (events[0].type, events[-1].type))
        deltas = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        self.assertEqual((whole.output_text, whole.output_text), (deltas, events[-1].response.output_text))
        again = make(input=[{"role": "developer", "content": "You tell short stories."},
                            {"role": "user", "content": [{"type": "input_text", "text": FOX[0]["content"]}]}])
        self.assertEqual(whole.output_text, again.output_text)
        parsed = self.client.responses.parse(model="small", input="A fox.", text_format=Animal, max_output_tokens=200)
        self.assertIsInstance(parsed.output_parsed, Animal)
        with self.assertRaises(openai.BadRequestError) as raised:
            make(previous_response_id="resp-1")
        self.assertEqual("previous_response_id", raised.exception.param)

    def test_errors_are_those_that_the_client_knows(self):
        for error, options in ((openai.BadRequestError, {"temperature": -1}), (openai.NotFoundError, {"model": "gpt"}),
                               (openai.BadRequestError, {"messages": []})):
            with self.assertRaises(error) as raised:
                self.chat(**options)
            self.assertEqual(next(iter(options)), raised.exception.param)
        with self.assertRaises(openai.AuthenticationError):
            openai.OpenAI(base_url=self.address, api_key="wrong", max_retries=0).models.list()

    def test_a_client_that_leaves_frees_its_place(self):
        stream = self.chat(stream=True, max_tokens=400, extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.close()
        for _ in range(200):
            page = urllib.request.urlopen(self.address.removesuffix("/v1") + "/metrics").read().decode()
            if re.search(r"^vllm:num_requests_running\{.*\} 0$", page, re.MULTILINE) and 'finished_reason="cancelled"} 1' in page:
                return
            time.sleep(0.05)
        self.fail(page)


class ResidentOpenAiClient(OpenAiClient):
    OPTIONS = ("--scheduler", "resident")


class Weather(pydantic.BaseModel):
    days: typing.Annotated[int, pydantic.Field(ge=1, le=9)]
    city: typing.Literal["Bern", "Zürich"]


def write_model(folder, chat_template):
    """A random model that has a token for each byte and a chat template that knows tools."""
    own = [byte for byte in range(256) if 32 < byte < 127 or byte > 160 and byte != 173]
    others = iter(range(256, 512))
    letters = [chr(byte if byte in own else next(others)) for byte in range(256)]
    added = [{"id": number, "content": text, "special": number < 3} for number, text in
             ((1, "<|im_start|>"), (2, "<|im_end|>"), (270, "<tool_call>"), (271, "</tool_call>"))]
    tokenizer = {"added_tokens": added, "decoder": {"type": "ByteLevel"},
                 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
                 "model": {"type": "BPE", "vocab": {letter: byte + 3 for byte, letter in enumerate(letters)}, "merges": []}}
    fixture = TESTS / "engine" / "fixtures" / "llama"
    config = json.loads((fixture / "config.json").read_text()) | {"max_position_embeddings": 4096}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    shutil.copy(fixture / "model.safetensors", folder)
    shutil.copy(TESTS / "text" / "fixtures" / "chat" / f"{chat_template}.jinja", folder / "chat_template.jinja")


class Tools(unittest.TestCase):
    def test_calls_are_whole_or_streamed_and_their_results_go_back(self):
        tool = openai.pydantic_function_tool(Weather, name="weather")
        for chat_template in "qwen3", "llama3_1":
            with self.subTest(chat_template), tempfile.TemporaryDirectory() as folder:
                write_model(pathlib.Path(folder), chat_template)
                with subprocess.Popen([BINARY, "serve", folder, "--port", "0"], stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL, text=True) as server:
                    address = re.search(r"http://\S+", server.stdout.readline())[0] + "/v1"
                    with openai.OpenAI(base_url=address, api_key="none", max_retries=0) as client:
                        self.call(client, {"model": client.models.list().data[0].id, "tools": [tool], "seed": 5})
                    server.terminate()
                    self.assertEqual(0, server.wait(60))

    def call(self, client, options):
        must = options | {"tool_choice": {"type": "function", "function": {"name": "weather"}}}
        whole = client.chat.completions.parse(messages=FOX, **must).choices[0]
        call = whole.message.tool_calls[0]
        self.assertEqual(("tool_calls", "weather"), (whole.finish_reason, call.function.name))
        self.assertIsInstance(call.function.parsed_arguments, Weather)
        with client.chat.completions.stream(messages=FOX, **must) as stream:
            streamed = stream.get_final_completion().choices[0].message.tool_calls[0]
        self.assertEqual(call.function.arguments, streamed.function.arguments)
        history = [*FOX, {"role": "assistant", "tool_calls": [call.model_dump(include={"id", "type", "function"})]},
                   {"role": "tool", "tool_call_id": call.id, "content": "blue sky"}]
        for turn in history[1]["tool_calls"]:
            turn["function"].pop("parsed_arguments")
        reply = client.chat.completions.create(messages=history, tool_choice="none", max_tokens=4, **options)
        self.assertFalse(reply.choices[0].message.tool_calls)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
