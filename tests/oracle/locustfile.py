"""Users of a server as locust plays them: chats that stream, completions, embeddings and probes. load_tools.py runs it."""
from locust import HttpUser, between, task


class Reader(HttpUser):
    wait_time = between(0, 0.05)

    @task(4)
    def chat(self):
        body = {"messages": [{"role": "user", "content": "Tell me a story about a fox."}], "max_tokens": 16, "stream": True}
        with self.client.post("/v1/chat/completions", json=body, stream=True, name="chat stream", catch_response=True) as reply:
            lines = [line for line in reply.iter_lines() if line]
            if reply.status_code == 200 and lines[-1] == b"data: [DONE]":
                reply.success()
            else:
                reply.failure(f"{reply.status_code}: {lines[-1:]}")

    @task(2)
    def completion(self):
        with self.client.post("/v1/completions", json={"prompt": "Once upon a time", "max_tokens": 8, "ignore_eos": True},
                              name="completion", catch_response=True) as reply:
            if reply.json()["usage"]["completion_tokens"] != 8:
                reply.failure("a completion of 8 tokens was asked for")

    @task(1)
    def embedding(self):
        with self.client.post("/v1/embeddings", json={"input": ["a fox", "a hen"]}, name="embedding",
                              catch_response=True) as reply:
            if len(reply.json()["data"]) != 2:
                reply.failure("two vectors were asked for")

    @task(1)
    def health(self):
        self.client.get("/health", name="health")
