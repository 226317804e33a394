"""A client of UnWeaver's query-api, of the standard library alone, and retrievers for LangChain and LlamaIndex."""
from .client import Client
from .transport import ApiError, UnreachableError

__all__ = ["ApiError", "Client", "UnreachableError"]
