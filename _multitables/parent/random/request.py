"""Requests: futures whose results lie in stages.

Law
---
1. A result that is there costs few calls; everything slow is in `_wait` and in the service.
2. Nothing here can hang: every wait ends by a look at the readers or by the user's own time-out.
3. What makes a request a `concurrent.futures.Future` for others (condition, waiters, callbacks) is
   made when something touches it; only then does a thread watch the request, and that thread alone
   tells them. `get`, `result` and `done` ask the core.
4. A view stays valid as long as it is kept: its memory is used again when it is gone.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import CancelledError, Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Protocol

from _multitables import _core, options
from _multitables.errors import ClosedError, public
from _multitables.parent.random.pieces import Pieces
from _multitables.parent.random.proxy import Proxy
from _multitables.select.selection import Selection

_PENDING, _DONE, _CANCELLED = _core.HANDLE_PENDING, _core.HANDLE_DONE, _core.HANDLE_CANCELLED
#: What `Future.__init__` makes.
_FUTURE_PARTS = frozenset({"_condition", "_state", "_waiters", "_done_callbacks", "_exception"})


class Server(Protocol):
    """What a request asks of who serves it."""

    def look(self) -> None:
        """Look at the readers."""

    def glance(self) -> None:
        """Look at the readers, if nobody did for a while."""

    def settle(self, ask: Ask, handle: _core.RequestHandle, status: int, patience: float) -> None:
        """Give an ask whose handle ended without result its error, or ask again."""

    def wake(self) -> None:
        """Wake the thread that tells requests their end."""

    def watch(self, ask: Ask) -> None:
        """Make a request a future for others, and tell them when it has ended."""


@public
class Request(Future[Any]):
    """A request on its way, or its result; made by `Reader.request`.

    A `concurrent.futures.Future`: it works with `concurrent.futures.wait`, ``as_completed`` and
    `asyncio`, and can be awaited.

    Whatever takes the result (`get`, `get_direct`, the end of the block of `get_unsafe` or
    `get_proxy`) gives the stage back, for the next request. `result` keeps its copy.

    Examples
    --------
    >>> request = reader.request(dataset[30:35])  # doctest: +SKIP
    >>> rows = request.get()  # doctest: +SKIP
    """

    # Not Future.__init__: see law 3.
    def __init__(
        self,
        server: Server,
        key: Selection | Pieces,
        stages: _core.Stages,
        handle: _core.RequestHandle | None,
        finish: Callable[[Any], Any] | None = None,
    ) -> None:
        self._server = server
        self._key = key
        self._stages = stages
        self._handle = handle
        #: Makes ragged rows and samples from the array in the stage. None: the array is the result.
        self._finish = finish

    #: Why there is no result.
    _error: BaseException | None = None
    #: The copy that `result` gives at each call.
    _kept: Any = None
    #: Since when it waits to be asked again, in another way or with a larger stage.
    _waits_since: float | None = None
    _by_library = False
    _taking = threading.Lock()

    # ---- the result

    def get(self) -> Any:
        """Wait for the result and copy it; the stage is given back.

        Returns
        -------
        numpy.ndarray
            What NumPy's indexing would give, with 0 dimensions for a single element. For several
            rows of ragged data, a list of arrays.

        Raises
        ------
        SubprocessException
            A reader failed. What a library raised, and a selection that is out of range, is also
            an instance of the original type, such as `IndexError`.
        SharedMemoryError
            The result is larger than the stage.
        ClosedError
            The reader was stopped, or the result was taken before.
        """
        handle = self._handle
        if handle is not None and self._error is None:
            result = handle.read()
            if result is not None:
                return result if self._finish is None else self._finish(result)
        if handle is None or handle.wait(options.WATCH_SECONDS) != _DONE:
            handle = self._wait(None)
        copy = handle.copy()
        if copy is None or self._finish is not None:
            return self._cut(copy)
        return copy

    def get_direct(self, action: Callable[[Any], Any]) -> Any:
        """Wait for the result and call `action` with a view of it; then give the stage back.

        Returns
        -------
        object
            What `action` returned.
        """
        try:
            return action(self._view())
        finally:
            self._give_back()

    def get_unsafe(self) -> Lent:
        """Lend a view of the result: ``with request.get_unsafe() as rows: ...``.

        The stage is free again after the block. (The name is that of 2.x; a view that is kept is
        safe: its memory is not used again before the view is gone.)

        Returns
        -------
        context manager
        """
        return Lent(self, False)

    def get_proxy(self) -> Lent:
        """Lend a stand-in for the result, which ends with the block.

        It behaves as the array. After the block any use of it raises `ClosedError`.

        Returns
        -------
        context manager
        """
        return Lent(self, True)

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the result, copy it and keep the copy.

        Parameters
        ----------
        timeout : float, optional
            Seconds. The default waits as long as the readers work.

        Returns
        -------
        numpy.ndarray
            The same at each call.

        Raises
        ------
        concurrent.futures.TimeoutError
            It is not there yet.
        concurrent.futures.CancelledError
            It was cancelled.
        """
        if self._kept is None:
            handle = self._wait(timeout)
            with self._taking:
                if self._kept is None:
                    self._kept = self._cut(handle.copy())
        return self._kept

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the end; return what `result` would raise, or None."""
        try:
            self._wait(timeout)
        except BaseException as error:
            if error is not self._error:
                raise
            return error
        return None

    # ---- the state

    def done(self) -> bool:
        """Tell whether the result, or a failure, is there, or the request was cancelled."""
        if self._error is not None or self._handle is None:
            return True
        handle = self._handle
        status = handle.poll()
        if status in (_DONE, _CANCELLED):
            return True
        if status == _PENDING:
            self._server.glance()
            return False
        self._server.settle(Ask(self), handle, status, 0.0)
        return self._error is not None

    def running(self) -> bool:
        """Tell whether it is on its way."""
        return not self.done()

    def cancel(self) -> bool:
        """Take the request back, if no reader has begun it. Returns whether it is cancelled."""
        handle = self._handle
        if self._error is not None or handle is None or not handle.cancel():
            return False
        self._server.wake()
        return True

    def cancelled(self) -> bool:
        """Tell whether it was cancelled."""
        handle = self._handle
        return self._error is None and handle is not None and handle.poll() == _CANCELLED

    def __await__(self) -> Generator[Any, None, Any]:
        import asyncio

        return asyncio.wrap_future(self).__await__()

    def __repr__(self) -> str:
        state = "pending"
        if self._error is not None:
            state = f"failed: {type(self._error).__name__}"
        elif self._handle is not None:
            state = {_DONE: "done", _CANCELLED: "cancelled"}.get(self._handle.poll(), state)
        return f"<Request of {self._key!r}: {state}>"

    # ---- inside

    def _view(self) -> Any:
        return self._cut(self._wait(None).array())

    def _cut(self, values: Any) -> Any:
        """Make the result of what a stage held, or of what is left."""
        if values is not None:
            return values if self._finish is None else self._finish(values)
        if self._kept is None:
            raise ClosedError(
                f"the result of {self._key!r} was taken before, and its stage given back",
                advice="Keep what get() returned, or use result(), which keeps it",
            )
        if isinstance(self._kept, (list, tuple)):
            return type(self._kept)(one.copy() for one in self._kept)
        return self._kept.copy()

    def _give_back(self) -> None:
        handle = self._handle
        if handle is not None:
            handle.release()

    def _wait(self, timeout: float | None) -> _core.RequestHandle:
        """Wait until the result is there, and return its handle; raise what went wrong."""
        start = time.monotonic()
        while True:
            if self._error is not None:
                raise self._error.with_traceback(None)
            handle = self._handle
            if handle is None:
                raise RuntimeError("a request without handle or error")
            patience = options.WATCH_SECONDS
            if timeout is None:
                handle.help()
            else:
                self._server.glance()
                patience = min(patience, start + timeout - time.monotonic())
            status = handle.wait(patience)
            if status == _DONE:
                return handle
            if status == _CANCELLED:
                raise CancelledError
            if status == _PENDING:
                self._server.look()
                if timeout is not None and time.monotonic() - start >= timeout:
                    raise FutureTimeoutError
            else:
                self._server.settle(Ask(self), handle, status, options.WATCH_SECONDS)

    def __getattr__(self, name: str) -> Any:
        if name not in _FUTURE_PARTS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._server.watch(Ask(self))
        return self.__dict__[name]

    # asyncio looks here for what a finished future has.
    @property
    def _result(self) -> Any:
        return self.result()

    @_result.setter
    def _result(self, value: Any) -> None:
        pass


def _of(name: str) -> Any:
    """Return a property that is an attribute of the request."""
    return property(
        lambda self: getattr(self._request, name),
        lambda self, value: setattr(self._request, name, value),
    )


class Ask:
    """A request as the service sees it that serves it, and the thread that tells its end."""

    key: Selection | Pieces = _of("_key")
    stages: _core.Stages = _of("_stages")
    handle: _core.RequestHandle | None = _of("_handle")
    error: BaseException | None = _of("_error")
    waits_since: float | None = _of("_waits_since")
    by_library: bool = _of("_by_library")
    finish: Callable[[Any], Any] | None = _of("_finish")

    def __init__(self, request: Request) -> None:
        self._request = request

    @property
    def is_future(self) -> bool:
        """Whether it has what makes it a future for others."""
        return "_condition" in self._request.__dict__

    def become_future(self) -> None:
        """Give it what makes it a future for others."""
        Future.__init__(self._request)

    def done(self) -> bool:
        """Tell whether it has ended."""
        return self._request.done()

    def tell(self) -> None:
        """Tell waiters and callbacks that it has ended, once."""
        request = self._request
        with contextlib.suppress(InvalidStateError):
            if request.cancelled():
                Future.cancel(request)
                request.set_running_or_notify_cancel()
            elif self.error is not None:
                request.set_exception(self.error)
            else:
                request.set_result(None)


class Lent:
    """A result that is lent for a block."""

    __slots__ = ("_proxy", "_request")

    def __init__(self, request: Request, by_proxy: bool) -> None:
        self._request = request
        self._proxy: Proxy | bool | None = by_proxy

    def __enter__(self) -> Any:
        view = self._request._view()
        if self._proxy is False:
            return view
        self._proxy = Proxy(view)
        return self._proxy

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        if isinstance(self._proxy, Proxy):
            Proxy.end(self._proxy)
        self._request._give_back()
