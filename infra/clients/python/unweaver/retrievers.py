"""Retrievers for LangChain and LlamaIndex. Each imports its framework when it is first used:

from unweaver.retrievers import LangChainRetriever   # needs langchain-core
from unweaver.retrievers import LlamaIndexRetriever  # needs llama-index-core
"""
from __future__ import annotations

import functools
from typing import Any

from .client import Client

__all__ = ["LangChainRetriever", "LlamaIndexRetriever"]


def _passages(client: Client, index: str, question: str, top_k: int, query: dict[str, Any]) -> list[dict[str, Any]]:
    """The passages for a question, best first, each with its text, its id, its score and its metadata."""
    found = client.query(index, {"top_chunks": top_k, **query, "query": question})
    out = []
    for chunk in found["chunks"]:
        metadata = {**(chunk.get("metadata") or {})}
        metadata.update(
            index=index, generation=found["generation"], document=chunk["document"], version=chunk["version"],
            start=chunk["start"], end=chunk["end"], rank=chunk["rank"], score=chunk["score"], id=chunk["id"],
            title=chunk.get("title") or "",
        )
        out.append({"text": chunk["text"], "id": chunk["id"], "score": chunk["score"], "metadata": metadata})
    return out


@functools.cache
def _langchain() -> type:
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever

    class LangChainRetriever(BaseRetriever):
        """Retrieves passages of an index: LangChainRetriever(client=Client(), index="docs", k=5)."""

        client: Any
        index: str
        k: int = 5
        query: dict[str, Any] = {}  # further fields of the query, such as filter or method

        def _get_relevant_documents(self, query: str, *, run_manager: Any = None) -> list[Document]:
            return [
                Document(page_content=one["text"], metadata=one["metadata"], id=one["id"])
                for one in _passages(self.client, self.index, query, self.k, self.query)
            ]

    return LangChainRetriever


@functools.cache
def _llama_index() -> type:
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

    class LlamaIndexRetriever(BaseRetriever):
        """Retrieves passages of an index: LlamaIndexRetriever(Client(), "docs", top_k=5)."""

        def __init__(
            self, client: Client, index: str, top_k: int = 5, query: dict[str, Any] | None = None, **kwargs: Any,
        ):
            self._client, self._index, self._top_k, self._query = client, index, top_k, query or {}
            super().__init__(**kwargs)

        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            found = _passages(self._client, self._index, query_bundle.query_str, self._top_k, self._query)
            return [
                NodeWithScore(
                    node=TextNode(text=one["text"], id_=one["id"], metadata=one["metadata"]), score=one["score"],
                ) for one in found
            ]

    return LlamaIndexRetriever


def __getattr__(name: str) -> Any:
    makers = {"LangChainRetriever": _langchain, "LlamaIndexRetriever": _llama_index}
    if name not in makers:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return makers[name]()
