"""Sends the requests of the client, with the standard library alone."""
from __future__ import annotations

import http.client
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, BinaryIO


class ApiError(Exception):
    """An error of the API: status, code, detail, hint, and the whole problem."""

    def __init__(self, status: int, problem: dict[str, Any]):
        self.status, self.problem = status, problem
        self.code: str = problem.get("code", "")
        self.detail: str = problem.get("detail", "")
        self.hint: str = problem.get("hint", "")
        self.retry_after: float | None = None
        super().__init__(f"{status} {self.code}: {self.detail}" + (f" ({self.hint})" if self.hint else ""))


class UnreachableError(ConnectionError):
    """No answer came. Whether a request that changes something was obeyed is unknown."""


class _Listening:
    """A connection that reads the answer also where the server stopped to read the body: the answer says why."""

    def request(self, *args: Any, **more: Any) -> None:
        try:
            super().request(*args, **more)  # type: ignore[misc]
        except (BrokenPipeError, ConnectionResetError):
            if self.sock is None:  # type: ignore[attr-defined]
                raise


class _Plain(_Listening, http.client.HTTPConnection):
    pass


class _Secure(_Listening, http.client.HTTPSConnection):
    pass


class _PlainHandler(urllib.request.HTTPHandler):
    def http_open(self, request):
        return self.do_open(_Plain, request)


class _SecureHandler(urllib.request.HTTPSHandler):
    def https_open(self, request):
        return self.do_open(_Secure, request)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The key is for one server: no other one gets it."""

    def redirect_request(self, *_):
        return None


_opener = urllib.request.build_opener(_PlainHandler, _SecureHandler, _NoRedirects)


class Transport:
    """A connection to a query-api. key: an API key; default: UNWEAVER_API_KEY, else none."""

    def __init__(self, base_url: str = "http://127.0.0.1:8080", key: str | None = None, timeout: float = 130):
        self.base_url = base_url.rstrip("/")
        self.key = os.environ.get("UNWEAVER_API_KEY", "") if key is None else key
        self.timeout = timeout

    def _request(
        self, method: str, path: str, names: dict[str, str], *, query: dict[str, Any] | None = None,
        header: dict[str, Any] | None = None, body: Any = None, content: bytes | BinaryIO | None = None,
    ) -> Any:
        for name, value in names.items():  # a slash of a key may end the address otherwise than meant: it is escaped
            path = path.replace("{" + name + "}", urllib.parse.quote(value, safe=""))
        given = {name: _text(value) for name, value in (query or {}).items() if value is not None}
        address = self.base_url + path + ("?" + urllib.parse.urlencode(given) if given else "")
        headers = {name: str(value) for name, value in (header or {}).items() if value is not None}
        headers["Accept"] = "application/json, application/problem+json;q=0.9, */*;q=0.1"
        if self.key:
            headers["Authorization"] = "Bearer " + self.key
        data = content
        if body is not None:
            data, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        elif content is not None:
            headers["Content-Type"] = "application/octet-stream"
        request = urllib.request.Request(address, data=data, headers=headers, method=method)
        try:
            with _opener.open(request, timeout=self.timeout) as response:
                raw = response.read()
                if not raw:
                    return None
                return json.loads(raw) if "json" in response.headers.get("Content-Type", "") else raw.decode()
        except urllib.error.HTTPError as error:
            raise _failure(error) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            why = f"{method} {address}: no answer: {reason!r} (check that query-api runs there)"
            raise UnreachableError(why) from error


def _text(value: Any) -> str:
    """A value of a query string."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _failure(error: urllib.error.HTTPError) -> ApiError:
    """The error that a response says."""
    raw = error.read()
    try:
        problem = json.loads(raw)
    except ValueError:  # of a proxy
        problem = {"detail": raw.decode(errors="replace")[:500]}
    out = ApiError(error.code, problem if isinstance(problem, dict) else {})
    wait = error.headers.get("Retry-After", "")
    out.retry_after = float(wait) if wait.isdigit() else None
    return out
