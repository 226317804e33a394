"""Fills, runs and asks an index with the package of infra/clients/python. Arguments: address, key."""
import http.server
import io
import sys
import threading

from unweaver import ApiError, Client, UnreachableError
from unweaver.retrievers import LangChainRetriever, LlamaIndexRetriever

client = Client(sys.argv[1], key=sys.argv[2])
assert [one["index"] for one in client.list_indexes()["items"]] == ["sample"]
found = client.query("sample", {"query": "What is the capital of Norway?", "answer": True})
assert "Oslo" in found["answer"]["text"], found["answer"]
assert client.get_document("sample", "cities/oslo.txt")["title"] == "Oslo"
assert "Oslo" in client.get_document_text("sample", "cities/oslo.txt", start=0, end=50)["text"]

stored = client.put_document("sample", "a b/ends in/text", io.BytesIO("Bergen lies by the sea.".encode()))
assert stored["created"] and stored["bytes"] == 23, stored
assert client.start_run("sample")["generation"] == "g9"
assert client.get_run("sample", "g9")["status"] == "running"
assert client.start_run("sample", idempotency_key="again")["attached"]
assert client.pause_run("sample", "g9")["in_flight"] == 0
assert client.cancel_run("sample", "g9")["command"] == "cancel"
assert client.put_schedule("sample", {"cron": "@daily"})["index"] == "sample"
assert client.delete_document("sample", "a b/ends in/text") is None


class Elsewhere(http.server.BaseHTTPRequestHandler):
    """Sends a client to another server, which would see its key."""

    def do_GET(self):
        self.send_response(307)
        self.send_header("Location", sys.argv[1] + self.path)
        self.end_headers()


elsewhere = http.server.HTTPServer(("127.0.0.1", 0), Elsewhere)
threading.Thread(target=elsewhere.handle_request, daemon=True).start()
away = f"http://127.0.0.1:{elsewhere.server_port}"
for refused, call in (
    (307, lambda: Client(away, key=sys.argv[2]).list_indexes()),
    (413, lambda: client.put_document("sample", "large.txt", b"x" * (64 << 20))),
    (404, lambda: client.delete_document("sample", "a b/ends in/text")),
    (409, lambda: client.cancel_run("sample", "g9")),
    (422, lambda: client.start_run("sample", {"generation": "No"})),
    (401, lambda: Client(sys.argv[1], key="").start_run("sample")),
):
    try:
        call()
    except ApiError as error:
        assert error.status == refused and (refused == 307 or error.code and error.detail), error
    else:
        raise AssertionError(f"{refused} is not raised")

elsewhere.server_close()
try:
    Client(away, key="").list_indexes()
    raise AssertionError("nothing answers")
except UnreachableError as error:
    assert away in str(error), error

chain = LangChainRetriever(client=client, index="sample", k=2, query={"method": "bm25"})
documents = chain.invoke("What is the capital of Norway?")
assert len(documents) == 2 and documents[0].metadata["document"] == "cities/oslo.txt" and documents[0].id, documents
nodes = LlamaIndexRetriever(client, "sample", top_k=2).retrieve("What is the capital of Norway?")
assert len(nodes) == 2 and "Oslo" in nodes[0].get_content() and nodes[0].score >= nodes[1].score, nodes
print("the package, its retriever for LangChain and that for LlamaIndex read it")
